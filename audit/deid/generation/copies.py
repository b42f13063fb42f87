"""What a model's copies of a note say: spans on the note, and how faithful the copies are.

Comes in: a note and, for each of its windows, what the model wrote. Goes out: spans on the note,
and numbers that are added up over notes. Torch-free.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

from audit.deid.alignment import EMPTY, EXACT, STATUSES, TRUNCATED, Alignment, Edits, align_output
from audit.deid.documents import TaggedDocument, tagged
from audit.deid.formats import flattened
from audit.deid.tagger import Tags
from audit.deid.tags import TagCensus
from audit.deid.windows import Window, from_windows
from audit.progress import StopQuestion
from audit.rates import Rate

ShareListener = Callable[[float], None]
"""Told which share of a call is done, 0-1."""


@dataclass(frozen=True)
class Piece:
    """What a model wrote about the characters of a window."""

    window: Window
    output: str


@dataclass(frozen=True)
class CopyReading:
    """A note read through its copies.

    Attributes
    ----------
    document
        The note with its spans, which may be nested; spans without a place in it are spurious.
    tags
        The same spans as a tagger gives them: none sharing a character with another.
    verbatim
        The note with its spans if every copy is exact, else without any.
    status
        The worst of the windows' statuses, in the order of `STATUSES`.
    edits, census
        Of all windows together.
    pieces
        What was read.
    """

    document: TaggedDocument
    tags: Tags
    verbatim: TaggedDocument
    status: str
    edits: Edits
    census: TagCensus
    pieces: tuple[Piece, ...]

    def line(self, *, with_outputs: bool = False) -> dict[str, Any]:
        """Return what is kept of a note; outputs hold the note's text and names."""
        n_malformed = self.census.n_malformed
        line: dict[str, Any] = {
            "doc_id": self.document.doc_id,
            "status": self.status,
            "n_windows": len(self.pieces),
            "error_rate": None if not self.edits.n_source_chars else self.edits.error_rate,
            "edits": asdict(self.edits),
            "tags": asdict(self.census) | {"n_malformed": n_malformed},
            "unaligned": list(self.document.unaligned),
        }
        if with_outputs:
            line["outputs"] = [
                {"start": one.window.start, "end": one.window.end, "output": one.output}
                for one in self.pieces
            ]
        return line


@runtime_checkable
class CopyingTagger(Protocol):
    """A tagger that writes copies; `n_notes_at_once` are given to it in one call at most."""

    @property
    def n_notes_at_once(self) -> int:
        """How many notes it is given at most."""

    def read(
        self,
        notes: Sequence[TaggedDocument],
        *,
        should_stop: StopQuestion = lambda: False,
        on_share: ShareListener = lambda share: None,
    ) -> Sequence[CopyReading]:
        """Read notes; spans they have are ignored. It tells which share of them is done, 0-1."""


def read_pieces(
    note: TaggedDocument, pieces: Sequence[Piece], *, labels: Collection[str] = ()
) -> CopyReading:
    """Bring the spans of a note's copies back to it.

    Parameters
    ----------
    pieces
        In the order of the note; a stretch that is in none of them has no span.
    labels
        Of tags beside the five types.

    Raises
    ------
    ValueError
        If a window ends behind the note.
    """
    if any(piece.window.end > len(note.text) for piece in pieces):
        raise ValueError("a window ends behind the note")
    found = [_aligned(note, piece, labels=labels) for piece in pieces]
    flat = [flattened(one.aligned()).spans for one in found]
    tags = from_windows([piece.window for piece in pieces], flat, n_chars=len(note.text))
    is_whole = len(pieces) == 1 and pieces[0].window == Window(0, max(1, len(note.text)))
    spans = found[0].spans if is_whole else tags
    unaligned = [span.label for one in found for span in one.unaligned]
    status = max((one.status for one in found), key=STATUSES.index, default=_unread(note))
    document = tagged(
        note.doc_id, text=note.text, spans=spans, patient_id=note.patient_id, unaligned=unaligned
    )
    edits = _sum_edits([one.edits for one in found])
    return CopyReading(
        document=document,
        tags=tags,
        verbatim=document if status == EXACT else note.with_spans(()),
        status=status,
        edits=edits,
        census=sum((one.census for one in found), TagCensus()),
        pieces=tuple(pieces),
    )


def _unread(note: TaggedDocument) -> str:
    return EMPTY if note.text.strip() else EXACT


def _aligned(note: TaggedDocument, piece: Piece, *, labels: Collection[str]) -> Alignment:
    window = piece.window
    part = TaggedDocument(doc_id=note.doc_id, text=note.text[window.start : window.end])
    return align_output(piece.output, part, labels=labels)


def _sum_edits(edits: Sequence[Edits]) -> Edits:
    names = tuple(asdict(Edits()))
    return Edits(**{name: sum(getattr(one, name) for one in edits) for name in names})


def numbers_of(reading: CopyReading) -> dict[str, float]:
    """Return what is added up over notes, as plain numbers."""
    has_rate = reading.edits.n_source_chars > 0
    numbers: dict[str, float] = {
        "n_notes": 1,
        "n_windows": len(reading.pieces),
        f"status {reading.status}": 1,
        "n_edits": _n_edits(reading.edits),
        "n_edits_inside": reading.edits.n_inside,
        "n_source_chars": reading.edits.n_source_chars,
        "n_notes_with_rate": int(has_rate),
        "sum_error_rate": reading.edits.error_rate if has_rate else 0.0,
        "n_notes_malformed": int(reading.census.n_malformed > 0),
        "n_malformed": reading.census.n_malformed,
        "n_unaligned": len(reading.document.unaligned),
    }
    return numbers | {f"tags {name}": n for name, n in asdict(reading.census).items()}


def _n_edits(edits: Edits) -> int:
    return edits.n_inserted + edits.n_deleted + edits.n_substituted


def added(sums: Mapping[str, float], numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the sum of two sets of numbers."""
    return {name: sums.get(name, 0) + numbers.get(name, 0) for name in {**sums, **numbers}}


def copies_summary(sums: Mapping[str, float]) -> dict[str, Any]:
    """Return how faithful copies are, n beside every rate; shares 0-1, null where undefined.

    `faithful` is the share of exact copies, `error_rate` the mean of the notes' character error
    rates, `pooled_error_rate` that of all characters, `truncated` the share of copies without the
    end of their note, `malformed` the share of notes with a malformed tag. The statuses are those
    of `audit.deid.alignment`; a note in windows has the worst of its windows.
    """
    n = int(sums.get("n_notes", 0))
    by_status = {status: int(sums.get(f"status {status}", 0)) for status in STATUSES}
    faithful, truncated = Rate(by_status[EXACT], n), Rate(by_status[TRUNCATED], n)
    malformed = Rate(int(sums.get("n_notes_malformed", 0)), n)
    n_rated, n_chars = sums.get("n_notes_with_rate", 0), sums.get("n_source_chars", 0)
    return {
        "n_notes": n,
        "n_windows": int(sums.get("n_windows", 0)),
        "statuses": by_status,
        "faithful": _share(faithful),
        "truncated": _share(truncated),
        "malformed": _share(malformed),
        "error_rate": sums["sum_error_rate"] / n_rated if n_rated else None,
        "pooled_error_rate": sums["n_edits"] / n_chars if n_chars else None,
        "n_edits": int(sums.get("n_edits", 0)),
        "n_edits_inside": int(sums.get("n_edits_inside", 0)),
        "n_characters": int(n_chars),
        "n_unaligned": int(sums.get("n_unaligned", 0)),
        "n_malformed": int(sums.get("n_malformed", 0)),
        "tags": {
            name: int(sums.get(f"tags {name}", 0)) for name in asdict(TagCensus())
        },
    }  # fmt: skip


def _share(rate: Rate) -> dict[str, Any]:
    if not rate.n_total:
        return {"share": None, "n": 0, "of": 0, "interval": None}
    estimate = rate.interval()
    interval = [estimate.low, estimate.high]
    return {"share": rate.value, "n": rate.n_hits, "of": rate.n_total, "interval": interval}
