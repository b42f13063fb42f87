"""Every span of a score in context, on the disk: found again by the cell of a confusion matrix.

Each pair of gold and prediction, each missed and each spurious span of a note is one line, with the
criteria under which it stands so. Lines hold text of notes: they are private.
"""

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

from audit.deid.counts import MISSED, SPURIOUS
from audit.deid.documents import Span, TaggedDocument
from audit.deid.matching import CRITERIA, OPTIMAL, match
from audit.deid.misses import KINDS as DIFFERENCES
from audit.deid.misses import OTHER_LABEL, OTHER_PLACE, Miss
from audit.errors import AuditError
from audit.rates import BoolArray, IntArray

SPANS, INDEX = "spans.jsonl", "spans.npz"
SAME = "same"
KINDS = (*DIFFERENCES, SAME)
"""What stands in the list of misses, and pairs of the same label and place."""
CONTEXT_CHARS = 40
MAX_MIDDLE_CHARS = 600

_Pair = tuple[Span | None, Span | None]
_COLUMNS = ("offset", "criteria", "kind", "row", "column", "note")


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
        (start, end) in the note; None where there is none.
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
        """Return it as a line of the list of misses; ValueError for what is the same."""
        gold = None if self.gold is None else Span(*self.gold, self.row)
        predicted = None if self.predicted is None else Span(*self.predicted, self.column)
        spans = [span for span in (gold, predicted) if span is not None]
        whole = (min(s.start for s in spans), max(s.end for s in spans)) if spans else None
        before, _, after = self.pieces(whole)
        return Miss(
            self.doc_id, self.patient_id, self.kind, self.row, self.column, gold, predicted,
            self.pieces(self.gold)[1], self.pieces(self.predicted)[1], before, after,
        )  # fmt: skip


class SpanWriter:
    """Writes the cases of notes, one note after the other."""

    def __init__(self, folder: Path, *, matcher: str = OPTIMAL) -> None:
        descriptor = os.open(folder / SPANS, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb", buffering=1 << 20)
        self._folder = folder
        self._matcher = matcher
        self._columns = {name: array("q") for name in _COLUMNS}
        self._labels: dict[str, int] = {}
        self._offset = self._n_notes = 0

    def add(self, gold: TaggedDocument, *, predicted: TaggedDocument) -> None:
        """Write the cases of a note."""
        masks: dict[_Pair, int] = {}
        for bit, criterion in enumerate(CRITERIA):
            found = match(gold.spans, predicted.spans, criterion=criterion, matcher=self._matcher)
            pairs: list[_Pair] = [*found.pairs]
            pairs += [(span, None) for span in found.missed]
            pairs += [(None, span) for span in found.spurious]
            for pair in pairs:
                masks[pair] = masks.get(pair, 0) | 1 << bit
        for pair in sorted(masks, key=_place):
            self._write(_case(gold, pair, number=self._n_notes), criteria=masks[pair])
        every = (1 << len(CRITERIA)) - 1
        for label in predicted.unaligned:
            case = SpanCase(
                self._n_notes, gold.doc_id, gold.patient_id, SPURIOUS, SPURIOUS, label, None, None,
                0, "",
            )  # fmt: skip
            self._write(case, criteria=every)
        self._n_notes += 1

    def close(self) -> None:
        """Finish the file, and write what finds its lines."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        columns: dict[str, Any] = {
            name: np.frombuffer(column, dtype=np.int64) for name, column in self._columns.items()
        }
        descriptor = os.open(self._folder / INDEX, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            labels = np.array(list(self._labels), dtype=np.str_)
            np.savez_compressed(file, labels=labels, **columns)

    def _write(self, case: SpanCase, *, criteria: int) -> None:
        line = (json.dumps(asdict(case), ensure_ascii=False) + "\n").encode(
            "utf-8", "surrogatepass"
        )
        values = (
            self._offset, criteria, KINDS.index(case.kind), self._label(case.row),
            self._label(case.column), case.note,
        )  # fmt: skip
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)
        self._file.write(line)
        self._offset += len(line)

    def _label(self, label: str) -> int:
        return self._labels.setdefault(label, len(self._labels))


@dataclass(frozen=True, eq=False)
class SpanIndex:
    """Where the cases of a score lie, and which are of which cell; [N] each.

    Attributes
    ----------
    folder
        Of the score.
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
        if set(kinds) != set(KINDS):
            is_chosen &= np.isin(self.kind, [KINDS.index(kind) for kind in kinds])
        for codes, label in ((self.row, row), (self.column, column)):
            if label:
                code = self.labels.index(label) if label in self.labels else -1
                is_chosen &= codes == code
        return np.flatnonzero(is_chosen).astype(np.int64)

    def of_label(self, label: str, *, among: IntArray) -> IntArray:
        """Return those among the cases whose gold or prediction has a label."""
        code = self.labels.index(label) if label in self.labels else -1
        is_here: BoolArray = (self.row[among] == code) | (self.column[among] == code)
        return np.asarray(among[is_here], dtype=np.int64)

    def readable(self) -> IntArray:
        """Return the numbers of the golds of which a character stands in no prediction.

        Raises
        ------
        AuditError
            If a line cannot be read.
        """
        found: list[int] = []
        numbers = self.chosen(criterion=CRITERIA[-1]).tolist()
        rows = zip(numbers, self.cases(numbers), strict=True)
        for _, of_note in groupby(rows, key=lambda row: row[1].note):
            own = list(of_note)
            taken = {i for _, case in own if case.predicted for i in range(*case.predicted)}
            found += [n for n, case in own if case.gold and not taken.issuperset(range(*case.gold))]
        return np.array(sorted(found), dtype=np.int64)

    def cases(self, numbers: Iterable[int]) -> Iterator[SpanCase]:
        """Read cases, in the order that is asked for.

        Raises
        ------
        AuditError
            If a line cannot be read.
        """
        try:
            with (self.folder / SPANS).open("rb") as file:
                for number in numbers:
                    file.seek(int(self.offset[number]))
                    yield _read(file.readline())
        except (OSError, ValueError, KeyError, TypeError):
            raise AuditError("The spans of this score cannot be read.", where="score") from None


def span_index(folder: Path) -> SpanIndex:
    """Return what finds the cases of a score.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    try:
        with np.load(folder / INDEX, allow_pickle=False) as found:
            columns = [found[name] for name in _COLUMNS]
            labels = tuple(str(label) for label in found["labels"])
    except (OSError, ValueError, KeyError):
        raise AuditError("The spans of this score cannot be read.", where="score") from None
    offset, criteria, kind, row, column, note = columns
    return SpanIndex(folder, labels, offset, criteria, kind, row, column, note)


def _read(line: bytes) -> SpanCase:
    content = json.loads(line.decode("utf-8", "surrogatepass"))
    for side in ("gold", "predicted"):
        content[side] = None if content[side] is None else tuple(content[side])
    return SpanCase(**content)


def _place(pair: _Pair) -> tuple[int, int, bool, bool, str]:
    first = min(span for span in pair if span is not None)
    return first.start, first.end, pair[0] is None, pair[1] is None, first.label


def _case(note: TaggedDocument, pair: _Pair, *, number: int) -> SpanCase:
    gold, predicted = pair
    spans = [span for span in pair if span is not None]
    start = max(0, min(span.start for span in spans) - CONTEXT_CHARS)
    end = max(span.end for span in spans)
    text = note.text[start : min(end + CONTEXT_CHARS, start + MAX_MIDDLE_CHARS)]
    return SpanCase(
        note=number,
        doc_id=note.doc_id,
        patient_id=note.patient_id,
        kind=_kind(gold, predicted),
        row=SPURIOUS if gold is None else gold.label,
        column=MISSED if predicted is None else predicted.label,
        gold=None if gold is None else (gold.start, gold.end),
        predicted=None if predicted is None else (predicted.start, predicted.end),
        start=start,
        text=text,
    )


def _kind(gold: Span | None, predicted: Span | None) -> str:
    if gold is None:
        return SPURIOUS
    if predicted is None:
        return MISSED
    if gold.label != predicted.label:
        return OTHER_LABEL
    return SAME if gold == predicted else OTHER_PLACE
