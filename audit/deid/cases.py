"""What became of each span of a score: the list of misses, and all cases kept to be looked up."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from audit.deid.matching import CRITERIA, MISSED, OPTIMAL, SPURIOUS, match
from audit.errors import AuditError
from audit.notes.spans import Span, TaggedDocument
from audit.shelf import new_file
from audit.stats import BoolArray, IntArray
from audit.tables import write_table

OTHER_LABEL, OTHER_PLACE, SAME = "other label", "other place", "same"
MISSES = (MISSED, SPURIOUS, OTHER_LABEL, OTHER_PLACE)
"""A gold without a prediction, a prediction without a gold, pairs of different labels, pairs of one
label whose ends differ."""
KINDS = (*MISSES, SAME)
SPANS, INDEX = "spans.jsonl", "spans.npz"
CONTEXT_CHARS, MAX_TEXT_CHARS = 40, 600

_Pair = tuple[Span | None, Span | None]
_COLUMNS = ("offset", "criteria", "kind", "row", "column", "note")


@dataclass(frozen=True)
class Miss:
    """One difference between gold and prediction, as it is listed; the places as in `SpanCase`."""

    doc_id: str
    patient_id: str | None
    kind: str
    row: str
    column: str
    gold: Span | None
    predicted: Span | None
    gold_text: str
    predicted_text: str
    before: str
    after: str


@dataclass(frozen=True)
class SpanCase:
    """What became of a gold span, a prediction or both.

    Attributes
    ----------
    note
        Number of the note, from 0, in the order of the gold file.
    doc_id, patient_id
        As given: untrusted text.
    kind
        One of `KINDS`.
    row, column
        The cell of the matrix: gold label or `spurious`, predicted label or `missed`.
    gold, predicted
        (start, end) in the note; None where there is none, as with a prediction that has no place.
    start
        Where `text` begins in the note.
    text
        The spans with some characters around them; cut after a few hundred.
    """

    note: int
    doc_id: str
    patient_id: str | None
    kind: str
    row: str
    column: str
    gold: tuple[int, int] | None
    predicted: tuple[int, int] | None
    start: int
    text: str

    def __post_init__(self) -> None:
        """Check the kind, once."""
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind}: no such kind")

    def pieces(self, span: tuple[int, int] | None) -> tuple[str, str, str]:
        """Return the text before, in and behind one of the spans; no span is nothing in it."""
        if span is None:
            return self.text, "", ""
        low, high = (min(max(at - self.start, 0), len(self.text)) for at in span)
        return self.text[:low], self.text[low:high], self.text[high:]

    def as_miss(self) -> Miss:
        """Return it as a line of the list of misses."""
        gold = None if self.gold is None else Span(*self.gold, self.row)
        predicted = None if self.predicted is None else Span(*self.predicted, self.column)
        spans = [span for span in (gold, predicted) if span is not None]
        whole = (min(s.start for s in spans), max(s.end for s in spans)) if spans else None
        before, _, after = self.pieces(whole)
        return Miss(
            self.doc_id, self.patient_id, self.kind, self.row, self.column, gold, predicted,
            self.pieces(self.gold)[1], self.pieces(self.predicted)[1], before, after,
        )  # fmt: skip


def _pairs(
    gold: TaggedDocument, predicted: TaggedDocument, *, criterion: str, matcher: str
) -> list[_Pair]:
    found = match(gold.spans, predicted.spans, criterion=criterion, matcher=matcher)
    alone: list[_Pair] = [(span, None) for span in found.missed]
    return [*found.pairs, *alone, *((None, span) for span in found.spurious)]


def _place(pair: _Pair) -> tuple[int, int, bool, bool, str]:
    first = min(span for span in pair if span is not None)
    return first.start, first.end, pair[0] is None, pair[1] is None, first.label


def _case(
    note: TaggedDocument, pair: _Pair, *, number: int = 0, n_context: int = CONTEXT_CHARS,
    n_most: int | None = MAX_TEXT_CHARS,
) -> SpanCase:  # fmt: skip
    gold, predicted = pair
    spans = [span for span in pair if span is not None]
    start = max(0, min(span.start for span in spans) - n_context)
    end = max(span.end for span in spans) + n_context
    if gold is None or predicted is None:
        kind = SPURIOUS if gold is None else MISSED
    else:
        alike = SAME if gold == predicted else OTHER_PLACE
        kind = alike if gold.label == predicted.label else OTHER_LABEL
    return SpanCase(
        note=number,
        doc_id=note.doc_id,
        patient_id=note.patient_id,
        kind=kind,
        row=SPURIOUS if gold is None else gold.label,
        column=MISSED if predicted is None else predicted.label,
        gold=None if gold is None else (gold.start, gold.end),
        predicted=None if predicted is None else (predicted.start, predicted.end),
        start=start,
        text=note.text[start : end if n_most is None else min(end, start + n_most)],
    )


def _nowhere(note: TaggedDocument, label: str, *, number: int = 0) -> SpanCase:
    return SpanCase(
        number, note.doc_id, note.patient_id, SPURIOUS, SPURIOUS, label, None, None, 0, ""
    )  # fmt: skip


def misses_of(
    gold: TaggedDocument,
    *,
    predicted: TaggedDocument,
    criterion: str = "label_relaxed",
    matcher: str = OPTIMAL,
    n_context: int = 30,
) -> tuple[Miss, ...]:
    """Return all differences of one note, in the order of the text.

    Under the criterion `label_relaxed` missed and spurious are the margins of the paper's matrix;
    under `strict` every pair whose label or place differs is both missed and spurious.
    """
    pairs = _pairs(gold, predicted, criterion=criterion, matcher=matcher)
    cases = [
        _case(gold, pair, n_context=n_context, n_most=None)
        for pair in sorted((pair for pair in pairs if pair[0] != pair[1]), key=_place)
    ]
    cases += [_nowhere(gold, label) for label in predicted.unaligned]
    return tuple(case.as_miss() for case in cases)


HEADER = (
    "doc_id", "patient_id", "kind", "gold_label", "predicted_label", "gold_start", "gold_end",
    "predicted_start", "predicted_end", "before", "gold_text", "predicted_text", "after",
)  # fmt: skip


def misses_csv(misses: Iterable[Miss]) -> str:
    """Return misses as CSV in which no cell is a formula."""
    return write_table(HEADER, map(_cells, misses))


def _cells(miss: Miss) -> tuple[object, ...]:
    gold, predicted = miss.gold, miss.predicted
    return (
        miss.doc_id, miss.patient_id, miss.kind, gold.label if gold else "",
        "" if miss.kind == MISSED else miss.column,
        *((gold.start, gold.end) if gold else (None, None)),
        *((predicted.start, predicted.end) if predicted else (None, None)),
        miss.before, miss.gold_text, miss.predicted_text, miss.after,
    )  # fmt: skip


def misses_jsonl(misses: Iterable[Miss]) -> Iterator[str]:
    """Yield each miss as a line of JSON, with its line end."""
    for miss in misses:
        yield json.dumps(asdict(miss), ensure_ascii=False) + "\n"


class SpanWriter:
    """Writes the cases of notes, one note after the other."""

    def __init__(self, folder: Path, *, matcher: str = OPTIMAL) -> None:
        self._file = new_file(folder / SPANS)
        self._folder = folder
        self._matcher = matcher
        self._columns = {name: array("q") for name in _COLUMNS}
        self._labels: dict[str, int] = {}
        self._offset = self._n_notes = 0

    def add(self, gold: TaggedDocument, *, predicted: TaggedDocument) -> None:
        """Write the cases of a note."""
        masks: dict[_Pair, int] = {}
        for bit, criterion in enumerate(CRITERIA):
            for pair in _pairs(gold, predicted, criterion=criterion, matcher=self._matcher):
                masks[pair] = masks.get(pair, 0) | 1 << bit
        for pair in sorted(masks, key=_place):
            self._write(_case(gold, pair, number=self._n_notes), criteria=masks[pair])
        for label in predicted.unaligned:
            case = _nowhere(gold, label, number=self._n_notes)
            self._write(case, criteria=(1 << len(CRITERIA)) - 1)
        self._n_notes += 1

    def close(self) -> None:
        """Finish the file, and write what finds its lines."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        columns: dict[str, Any] = {
            name: np.frombuffer(column, dtype=np.int64) for name, column in self._columns.items()
        }
        with new_file(self._folder / INDEX) as file:
            labels = np.array(list(self._labels), dtype=np.str_)
            np.savez_compressed(file, labels=labels, **columns)

    def _write(self, case: SpanCase, *, criteria: int) -> None:
        text = json.dumps(vars(case), ensure_ascii=False) + "\n"
        line = text.encode("utf-8", "surrogatepass")
        row, column = (
            self._labels.setdefault(label, len(self._labels)) for label in (case.row, case.column)
        )
        values = (self._offset, criteria, KINDS.index(case.kind), row, column, case.note)
        for numbers, value in zip(self._columns.values(), values, strict=True):
            numbers.append(value)
        self._file.write(line)
        self._offset += len(line)


@dataclass(frozen=True, eq=False)
class SpanIndex:
    """Where the cases of a score lie, and which are of which cell; [N] each.

    Attributes
    ----------
    labels
        Names of the codes in `row` and `column`.
    offset, criteria, kind, row, column, note
        Byte offset, bits of criteria, place in `KINDS`, codes of the labels, number of the note.
    """

    folder: Path
    labels: tuple[str, ...]
    offset: IntArray
    criteria: IntArray
    kind: IntArray
    row: IntArray
    column: IntArray
    note: IntArray

    def chosen(
        self, *, criterion: str, kinds: Sequence[str] = KINDS, row: str = "", column: str = ""
    ) -> IntArray:
        """Return the numbers of the cases of a criterion, of some kinds, of a row or column."""
        is_chosen = (self.criteria >> CRITERIA.index(criterion)) & 1 == 1
        is_chosen &= np.isin(self.kind, [KINDS.index(kind) for kind in kinds])
        for codes, label in ((self.row, row), (self.column, column)):
            if label:
                is_chosen &= codes == self._code(label)
        return np.flatnonzero(is_chosen).astype(np.int64)

    def of_label(self, label: str, *, among: IntArray) -> IntArray:
        """Return those among the cases whose gold or prediction has a label."""
        code = self._code(label)
        is_here: BoolArray = (self.row[among] == code) | (self.column[among] == code)
        return np.asarray(among[is_here], dtype=np.int64)

    def readable(self) -> IntArray:
        """Return the numbers of the golds of which a character stands in no prediction."""
        found: list[int] = []
        numbers = self.chosen(criterion=CRITERIA[-1]).tolist()
        rows = zip(numbers, self.cases(numbers), strict=True)
        for _, of_note in groupby(rows, key=lambda row: row[1].note):
            own = list(of_note)
            taken = {i for _, case in own if case.predicted for i in range(*case.predicted)}
            found += [n for n, case in own if case.gold and not taken.issuperset(range(*case.gold))]
        return np.array(sorted(found), dtype=np.int64)

    def missed(self, *, criterion: str) -> dict[tuple[str, int, int, str], int]:
        """Return the golds that were missed, and the number of each case.

        Under a criterion that wants more, a gold is missed too where its partner does not qualify:
        then it stands as missed of its own, beside the pair of the other criteria.
        """
        numbers = self.chosen(criterion=criterion, kinds=(MISSED,)).tolist()
        return {
            (case.doc_id, *case.gold, case.row): number
            for number, case in zip(numbers, self.cases(numbers), strict=True)
            if case.gold is not None
        }

    def cases(self, numbers: Iterable[int]) -> Iterator[SpanCase]:
        """Read cases, in the order that is asked for; AuditError where a line cannot be read."""
        try:
            with (self.folder / SPANS).open("rb") as file:
                for number in numbers:
                    file.seek(int(self.offset[number]))
                    yield _read(file.readline())
        except (OSError, ValueError, KeyError, TypeError):
            raise _unreadable() from None

    def _code(self, label: str) -> int:
        return self.labels.index(label) if label in self.labels else -1


def span_index(folder: Path) -> SpanIndex:
    """Return what finds the cases of a score; AuditError where it cannot be read."""
    try:
        with np.load(folder / INDEX, allow_pickle=False) as found:
            columns = [found[name] for name in _COLUMNS]
            labels = tuple(str(label) for label in found["labels"])
    except (OSError, ValueError, KeyError):
        raise _unreadable() from None
    return SpanIndex(folder, labels, *columns)


def _read(line: bytes) -> SpanCase:
    content = json.loads(line.decode("utf-8", "surrogatepass"))
    for side in ("gold", "predicted"):
        content[side] = None if content[side] is None else tuple(content[side])
    return SpanCase(**content)


def _unreadable() -> AuditError:
    return AuditError("The spans of this score cannot be read.", where="score")
