"""The index of a tagged set: where each note stands in its files, and how many spans it has.

With it one note of many is read without the others. Comes in: the two files that `tag_notes` wrote.
Goes out: `index.npy`, one row a note.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from audit.deid.corrections import ADDED
from audit.deid.documents import TaggedDocument
from audit.deid.format_jsonl import read_line
from audit.deid.kept_corrections import ByNote, corrections_of
from audit.deid.kept_tagged import INDEX, RESULT, TaggedSet
from audit.deid.one_note import OneNote, corrected_note, released_note
from audit.deid.tag_files import REDACTED, SPANS
from audit.errors import AuditCancelled, AuditError
from audit.private_files import write_whole
from audit.progress import StopQuestion

MAX_HITS = 10_000
_WHERE = "tagged notes"
_SPANS_FOLLOW = b', "spans": ['
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TaggedIndex:
    """Where the N notes of a set stand.

    Attributes
    ----------
    at
        (N, 2) bytes before the note's line in `spans.jsonl` and in `redacted.jsonl`.
    n_spans
        (N,) spans of the note.
    """

    at: Numbers
    n_spans: Numbers

    def __len__(self) -> int:
        """Return how many notes there are."""
        return len(self.at)


def write_index(folder: Path, *, should_stop: StopQuestion = lambda: False) -> None:
    """Write the index of the set in a folder, whole or not at all.

    Raises
    ------
    AuditError
        If the files of the set are damaged, or the index cannot be written.
    AuditCancelled
        If a person asked to stop.
    """
    rows = []
    place, place_released = 0, 0
    for line, released in _lines(folder):
        if should_stop():
            raise AuditCancelled
        spans = json.loads(line)["spans"]
        rows.append((place, place_released, len(spans)))
        place += len(line)
        place_released += len(released)
    buffer = io.BytesIO()
    np.save(buffer, np.array(rows, dtype=np.int64).reshape(-1, 3), allow_pickle=False)
    write_whole(folder / INDEX, buffer.getvalue())


def read_index(tagged: TaggedSet) -> TaggedIndex:
    """Return the index of a whole set, mapped into memory.

    Raises
    ------
    AuditError
        If it is damaged.
    """
    try:
        rows = np.load(tagged.path / INDEX, mmap_mode="r", allow_pickle=False)
        if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype != np.int64:
            raise ValueError
    except (OSError, ValueError):
        raise _damaged() from None
    return TaggedIndex(rows[:, :2], rows[:, 2])


def note_at(
    tagged: TaggedSet, number: int, *, index: TaggedIndex, corrections: ByNote | None = None
) -> OneNote:
    """Return the note of this number, from 0, corrected by hand; only its own lines are read.

    Parameters
    ----------
    corrections
        Those of the set; None reads them.

    Raises
    ------
    AuditError
        If the files are damaged.
    """
    kept = corrections_of(tagged) if corrections is None else corrections
    note = raw_note_at(tagged, number, index=index)
    return corrected_note(note, kept.get(number, ()), release=tagged.how.release())


def raw_note_at(tagged: TaggedSet, number: int, *, index: TaggedIndex) -> OneNote:
    """Return a note as the tagger left it; raises as `note_at`."""
    place, place_released = (int(value) for value in index.at[number])
    return _note(
        _line_at(tagged.spans_path, place), _line_at(tagged.redacted_path, place_released),
        tagged=tagged,
    )  # fmt: skip


def notes_of(tagged: TaggedSet) -> Iterator[OneNote]:
    """Yield every note of a set, corrected by hand, one at a time; raises as `note_at`."""
    corrections = corrections_of(tagged)
    release = tagged.how.release()
    for number, (line, released) in enumerate(_lines(tagged.path)):
        note = _note(line, released, tagged=tagged)
        yield corrected_note(note, corrections.get(number, ()), release=release)


def notes_with(tagged: TaggedSet, *, text: str) -> tuple[int, ...]:
    """Return the numbers of the notes whose name or text holds a text, as it is written.

    At most `MAX_HITS` of them; reads the file once and one line at a time.
    """
    wanted = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    hits: list[int] = []
    for number, (line, _) in enumerate(_lines(tagged.path)):
        if wanted not in line.rpartition(_SPANS_FOLLOW)[0]:
            continue
        record = json.loads(line)
        if text in record["text"] or text in str(record["doc_id"]):
            hits.append(number)
            if len(hits) == MAX_HITS:
                break
    return tuple(hits)


def chosen_notes(
    index: TaggedIndex,
    *,
    only: str = "all",
    hits: Sequence[int] | None = None,
    corrections: ByNote | None = None,
) -> Numbers:
    """Return the numbers of notes, in order.

    Parameters
    ----------
    only
        "all", "with" marks, "without" any, or "corrected" by hand.
    hits
        Numbers out of which to choose, ascending; None for every note.
    corrections
        Of the set: they change how many marks a note has.
    """
    numbers = np.arange(len(index)) if hits is None else np.array(hits, dtype=np.int64)
    if only == "all":
        return numbers
    if only == "corrected":
        is_chosen = np.isin(numbers, list(corrections or ()))
    else:
        n_spans = np.array(index.n_spans)
        for number, ones in (corrections or {}).items():
            n_spans[number] += sum(
                len(one.spans) * (1 if one.kind == ADDED else -1) for one in ones
            )
        is_chosen = (n_spans[numbers] > 0) == (only == "with")
    chosen: Numbers = np.compress(is_chosen, numbers)
    return chosen


def _note(line: bytes, released: bytes, *, tagged: TaggedSet) -> OneNote:
    try:
        document: TaggedDocument = read_line(line.decode(), what=_WHERE, number=1)
        record = json.loads(released)
        row, kept = int(record["row"]), str(record["text"])
    except (ValueError, KeyError, TypeError):
        raise _damaged() from None
    return released_note(document, row=row, release=tagged.how.release(), kept=kept)


def _lines(folder: Path) -> Iterator[tuple[bytes, bytes]]:
    result = folder / RESULT
    try:
        with (result / SPANS).open("rb") as spans, (result / REDACTED).open("rb") as redacted:
            try:
                yield from zip(spans, redacted, strict=True)
            except ValueError:
                raise _damaged() from None
    except OSError:
        raise _damaged() from None


def _line_at(path: Path, place: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(place)
            return file.readline()
    except OSError:
        raise _damaged() from None


def _damaged() -> AuditError:
    return AuditError("These tagged notes are damaged.", where=_WHERE)
