"""What became of each span of a score: the list of misses, and all cases kept to be looked up."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.deid.matching import CRITERIA, MISSED, SPURIOUS, Matches, match
from audit.errors import AuditError
from audit.notes.spans import Span, TaggedDocument
from audit.shelf import new_file
from audit.stats import IntArray
from audit.tables import write_table

OTHER_LABEL, OTHER_PLACE, SAME = "other label", "other place", "same"
MISSES = (MISSED, SPURIOUS, OTHER_LABEL, OTHER_PLACE)
"""A gold without a prediction, a prediction without a gold, pairs of different labels, pairs of one
label whose ends differ."""
KINDS = (*MISSES, SAME)
SPANS, INDEX = "spans.jsonl", "spans.npz"
CONTEXT_CHARS, MAX_TEXT_CHARS = 40, 600
HEADER = (
    "doc_id", "patient_id", "kind", "gold_label", "predicted_label", "gold_start", "gold_end",
    "predicted_start", "predicted_end", "before", "gold_text", "predicted_text", "after",
)  # fmt: skip

_Pair = tuple[Span | None, Span | None]
_Place = tuple[int, int]
_COLUMNS = ("offset", "criteria", "kind", "row", "column", "note")


@dataclass(frozen=True)
class SpanCase:
    """What became of a gold span, a prediction or both, as a line of `SPANS` has it.

    Attributes
    ----------
    note
        Number of the note, from 0, in the order of the gold file.
    row, column
        The cell of the matrix: gold label or `spurious`, predicted label or `missed`.
    gold, predicted
        (start, end) in the note; None where there is none, as with a prediction that has no place.
    start, text
        The spans with some characters around them, cut after a few hundred; where that begins.
    """

    note: int
    doc_id: str
    patient_id: str | None
    kind: str
    row: str
    column: str
    gold: _Place | None
    predicted: _Place | None
    start: int
    text: str

    def pieces(self, span: _Place | None) -> tuple[str, str, str]:
        """Return the text before, in and behind one of the spans; no span is nothing in it."""
        if span is None:
            return self.text, "", ""
        low, high = (min(max(at - self.start, 0), len(self.text)) for at in span)
        return self.text[:low], self.text[low:high], self.text[high:]

    def listed(self) -> dict[str, Any]:
        """Return it as a line of the list of misses, as `HEADER` has it."""
        spans = [span for span in (self.gold, self.predicted) if span]
        whole = (min(s for s, _ in spans), max(e for _, e in spans)) if spans else None
        before, _, after = self.pieces(whole)
        values = (
            self.doc_id, self.patient_id, self.kind, self.row if self.gold else None,
            None if self.kind == MISSED else self.column,
            *(self.gold or (None, None)), *(self.predicted or (None, None)),
            before, self.pieces(self.gold)[1], self.pieces(self.predicted)[1], after,
        )  # fmt: skip
        return dict(zip(HEADER, values, strict=True))


def _pairs(found: Matches) -> list[_Pair]:
    missed: list[_Pair] = [(span, None) for span in found.missed]
    return [*found.pairs, *missed, *((None, span) for span in found.spurious)]


def _order(pair: _Pair) -> tuple[int, int, bool, bool, str]:
    first = min(span for span in pair if span is not None)
    return first.start, first.end, pair[0] is None, pair[1] is None, first.label


def _case(
    note: TaggedDocument, pair: _Pair, *, number: int = 0, n_context: int = CONTEXT_CHARS,
    n_most: int = MAX_TEXT_CHARS, nowhere: str = MISSED,
) -> SpanCase:  # fmt: skip
    """Return the case of a pair, or of a prediction that is `nowhere`: its label."""
    gold, predicted = pair
    spans = [span for span in pair if span is not None]
    start = max(0, min((span.start for span in spans), default=0) - n_context)
    end = max((span.end + n_context for span in spans), default=0)
    if gold is None or predicted is None:
        kind = SPURIOUS if gold is None else MISSED
    elif gold.label != predicted.label:
        kind = OTHER_LABEL
    else:
        kind = SAME if gold == predicted else OTHER_PLACE
    return SpanCase(
        note=number,
        doc_id=note.doc_id,
        patient_id=note.patient_id,
        kind=kind,
        row=gold.label if gold else SPURIOUS,
        column=predicted.label if predicted else nowhere,
        gold=(gold.start, gold.end) if gold else None,
        predicted=(predicted.start, predicted.end) if predicted else None,
        start=start,
        text=note.text[start : min(end, start + n_most)],
    )


def misses_of(
    gold: TaggedDocument,
    *,
    predicted: TaggedDocument,
    criterion: str = "label_relaxed",
    n_context: int = 30,
) -> tuple[SpanCase, ...]:
    """Return all differences of one note, in the order of the text.

    Under the criterion `label_relaxed` missed and spurious are the margins of the paper's matrix;
    under `strict` every pair whose label or place differs is both missed and spurious.
    """
    pairs = _pairs(match(gold.spans, predicted.spans, criterion=criterion))
    differing = sorted((pair for pair in pairs if pair[0] != pair[1]), key=_order)
    return (
        *(_case(gold, pair, n_context=n_context, n_most=len(gold.text)) for pair in differing),
        *(_case(gold, (None, None), nowhere=label) for label in predicted.unaligned),
    )


def misses_csv(misses: Iterable[SpanCase]) -> str:
    """Return misses as CSV in which no cell is a formula."""
    return write_table(HEADER, [list(case.listed().values()) for case in misses])


def misses_jsonl(misses: Iterable[SpanCase]) -> Iterator[str]:
    """Yield each miss as a line of JSON, with its line end."""
    for case in misses:
        yield json.dumps(case.listed(), ensure_ascii=False) + "\n"


class SpanWriter:
    """Writes the cases of notes, one note after the other."""

    def __init__(self, folder: Path) -> None:
        self._file = new_file(folder / SPANS)
        self._folder = folder
        self._rows: list[tuple[int, ...]] = []  # numbers of `_COLUMNS`
        self._labels: dict[str, int] = {}
        self._n_notes = 0

    def add(
        self, gold: TaggedDocument, *, predicted: TaggedDocument, found: Iterable[Matches]
    ) -> None:
        """Write the cases of a note of which this was found under each of `CRITERIA`."""
        masks: Counter[_Pair] = Counter()
        for bit, one in enumerate(found):
            masks.update(dict.fromkeys(_pairs(one), 1 << bit))
        for pair in sorted(masks, key=_order):
            self._write(_case(gold, pair, number=self._n_notes), criteria=masks[pair])
        for label in predicted.unaligned:
            case = _case(gold, (None, None), number=self._n_notes, nowhere=label)
            self._write(case, criteria=(1 << len(CRITERIA)) - 1)
        self._n_notes += 1

    def close(self) -> None:
        """Finish the file, and write what finds its lines."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        table = np.array(self._rows, dtype=np.int64).reshape(-1, len(_COLUMNS))
        columns: dict[str, Any] = dict(zip(_COLUMNS, table.T, strict=True))
        columns["labels"] = np.array(list(self._labels), dtype=np.str_)
        with new_file(self._folder / INDEX) as file:
            np.savez_compressed(file, **columns)

    def _write(self, case: SpanCase, *, criteria: int) -> None:
        row, column = (
            self._labels.setdefault(x, len(self._labels)) for x in (case.row, case.column)
        )
        kind = KINDS.index(case.kind)
        self._rows.append((self._file.tell(), criteria, kind, row, column, case.note))
        line = json.dumps(vars(case), ensure_ascii=False) + "\n"
        self._file.write(line.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, eq=False)
class SpanIndex:
    """Where the cases of a score lie, and which are of which cell; [N] each.

    Attributes
    ----------
    offset, criteria, kind, note
        Byte offset, bits of criteria, place in `KINDS`, number of the note.
    row, column
        The cell of the matrix, by its labels.
    """

    folder: Path
    offset: IntArray
    criteria: IntArray
    kind: IntArray
    row: NDArray[np.str_]
    column: NDArray[np.str_]
    note: IntArray

    def chosen(
        self, *, criterion: str, kinds: Sequence[str] = KINDS, row: str = "", column: str = ""
    ) -> IntArray:
        """Return the numbers of the cases of a criterion, of some kinds, of a row or column."""
        is_chosen = (self.criteria >> CRITERIA.index(criterion)) & 1 == 1
        is_chosen &= np.isin(self.kind, [KINDS.index(kind) for kind in kinds])
        for labels, label in ((self.row, row), (self.column, column)):
            is_chosen &= (labels == label) | (label == "")
        return np.flatnonzero(is_chosen)

    def of_label(self, label: str, *, among: IntArray) -> IntArray:
        """Return those among the cases whose gold or prediction has a label."""
        found: IntArray = among[((self.row == label) | (self.column == label))[among]]
        return found

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
                    content = json.loads(file.readline().decode("utf-8", "surrogatepass"))
                    for side in ("gold", "predicted"):
                        content[side] = content[side] and tuple(content[side])
                    yield SpanCase(**content)
        except (OSError, ValueError, KeyError, TypeError):
            raise _unreadable() from None


def span_index(folder: Path) -> SpanIndex:
    """Return what finds the cases of a score; AuditError where it cannot be read."""
    try:
        with np.load(folder / INDEX, allow_pickle=False) as found:
            columns = {name: found[name] for name in _COLUMNS}
            labels = found["labels"].astype(np.str_)
            return SpanIndex(
                folder, **columns | {side: labels[columns[side]] for side in ("row", "column")}
            )
    except (OSError, ValueError, KeyError):
        raise _unreadable() from None


def _unreadable() -> AuditError:
    return AuditError("The spans of this score cannot be read.", where="score")
