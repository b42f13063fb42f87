"""Notes with gold spans, predictions and kept scores for the tests of scores and their page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from audit.deid.find.copies import CopyReading, Piece, read_pieces
from audit.deid.find.windows import cut_windows
from audit.deid.measure.score_report import SCORES, Source, SpanCase, read_cases
from audit.deid.measure.scoring import ScoreTask
from audit.deid.sets.incoming_notes import keep_notes
from audit.notes.spans import TYPES, Span, TaggedDocument
from audit.progress import StopQuestion
from audit.task import Contact
from tests.deid.unseen_notes import marked

SURNAMES = ("山田", "佐藤", "高橋", "渡辺", "伊藤", "中村")
GIVEN = ("太郎", "花子", "一郎", "恵子", "健")


def spans_within(*labels: str) -> st.SearchStrategy[list[Span]]:
    """Up to five spans of the first 24 characters, in any order, some twice."""
    return st.lists(
        st.builds(
            lambda start, n, label: Span(start, start + n, label),
            st.integers(0, 14),
            st.integers(1, 9),
            st.sampled_from(labels),
        ),
        max_size=5,
    )


def gold_notes(n: int = 12) -> tuple[TaggedDocument, ...]:
    """Notes with a full name, an age, a record number and a telephone each; two of a patient."""
    names = [SURNAMES[i % len(SURNAMES)] + GIVEN[i % len(GIVEN)] for i in range(n)]
    return tuple(
        marked(
            f"患者氏名：⟦I:{name}⟧　⟦Q:{40 + i}歳⟧　ID：⟦L:{100000 + i}⟧\n"
            f"電話 ⟦C:03-1234-{5000 + i}⟧\n発熱を主訴に来院。",
            doc_id=f"note-{i}",
            patient=f"P{i // 2}",
        )
        for i, name in enumerate(names)
    )


def predicted_notes(
    golds: Sequence[TaggedDocument], *, step: int = 3
) -> tuple[TaggedDocument, ...]:
    """Predictions with misses, another label, other borders and a spurious span, all countable.

    Of every `every`-th note the name is missed; of the one after it the age is called an
    identifier; of the one after that the telephone lacks its last four digits and 発熱 is found for
    nothing.
    """
    readings = []
    for i, gold in enumerate(golds):
        spans = list(gold.spans)
        if i % step == 0:
            del spans[0]
        elif i % step == 1:
            spans[1] = Span(spans[1].start, spans[1].end, "identifier")
        elif i % step == 2:
            spans[3] = Span(spans[3].start, spans[3].end - 5, "contact")
            start = gold.text.index("発熱")
            spans.append(Span(start, start + 2, "quasi_identifier"))
        readings.append(gold.with_spans(spans))
    return tuple(readings)


def given_as(notes: Sequence[TaggedDocument]) -> Source:
    """Keep notes as an upload is kept."""
    return Source(kind="given", ref=keep_notes(notes).digest)


def make_score(
    golds: Sequence[TaggedDocument], predicted: Sequence[TaggedDocument] | Source, **settings: Any
) -> str:
    """Keep a score of these notes as a job does, and return its identifier."""
    predicted_source = predicted if isinstance(predicted, Source) else given_as(predicted)
    order_fields = {
        "gold": given_as(golds),
        "predicted": predicted_source,
        "n_replicates": 100,
        **settings,
    }
    (score_id,) = ScoreTask.from_order(ScoreTask(**order_fields).question().order).run(quiet())
    return score_id


class Killed(BaseException):
    """What no code catches."""


class Copying:
    """Copies notes, by name as `outputs` says, else window by window; dies after some calls."""

    name, digest, labels, tag = "copying", "0" * 64, TYPES, None

    def __init__(
        self, outputs: Mapping[str, str] | None = None, *, n_left: int = 10_000, n_at_once: int = 8
    ) -> None:
        self.outputs, self.n_left, self.n_notes_at_once = outputs, n_left, n_at_once
        self.calls: list[list[int]] = []

    def read(
        self,
        notes: Sequence[TaggedDocument],
        *,
        should_stop: StopQuestion = lambda: False,
        on_share: Callable[[float], None] = lambda share: None,
    ) -> list[CopyReading]:
        """Return the copies, and tell how far they are."""
        if len(self.calls) == self.n_left:
            raise Killed
        self.calls.append([len(note.text) for note in notes])
        readings = []
        for number, note in enumerate(notes):
            full_piece = (
                Piece(0, len(note.text), self.outputs[note.doc_id]) if self.outputs else None
            )
            windows = [] if full_piece else cut_windows(note.text, size=1000, overlap=50)
            pieces = [full_piece] if full_piece else []
            for i, (start, end) in enumerate(windows, start=1):
                pieces.append(Piece(start, end, note.text[start:end]))
                on_share((number + i / len(windows)) / len(notes))
            readings.append(read_pieces(note, pieces))
        return readings


def quiet() -> Contact:
    """A contact to which nobody listens."""
    return Contact(lambda progress: None, lambda: False, lambda text: None)


def content_of(score_id: str) -> dict[str, Any]:
    """Return what is kept of a score."""
    content: dict[str, Any] = json.loads((SCORES.place(score_id) / "score.json").read_bytes())
    return content


def kept_cases(score_id: str) -> tuple[SpanCase, ...]:
    """Return what became of a score's spans."""
    return read_cases(SCORES.place(score_id))


def files_of(folder: Path) -> dict[str, int]:
    """Return the files of a folder and their modes."""
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder and what is in them."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
