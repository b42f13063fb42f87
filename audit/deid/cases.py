"""What became of each span of a score: kept to be looked up, and listed as misses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from audit.deid.matching import MISSED, SPURIOUS, Matches
from audit.errors import AuditError
from audit.foreign import refusing
from audit.notes.spans import Span, TaggedDocument
from audit.tables import write_table

OTHER_LABEL, OTHER_PLACE, SAME = "other label", "other place", "same"
MISSES = (MISSED, SPURIOUS, OTHER_LABEL, OTHER_PLACE)
"""A gold without a prediction, a prediction without a gold, pairs of different labels, pairs of one
label whose ends differ."""
SPANS = "spans.jsonl"
_OLDER_INDEX, _OLDER_BIT = "spans.npz", 4
"""Beside the spans of older scores, which have a line of each criterion's matching."""
_CONTEXT_CHARS, _MAX_TEXT_CHARS = 40, 600
HEADER = (
    "doc_id", "patient_id", "kind", "gold_label", "predicted_label", "gold_start", "gold_end",
    "predicted_start", "predicted_end", "before", "gold_text", "predicted_text", "after",
)  # fmt: skip

_Pair = tuple[Span | None, Span | None]
_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SpanCase:
    """What became of a gold span, a prediction or both, label-relaxed; a line of `SPANS`.

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

    def closed(self) -> SpanCase:
        """Return the case without its text and the names of note and patient."""
        return replace(self, doc_id=f"note {self.note + 1}", patient_id=None, text="")

    def cells(self) -> tuple[Any, ...]:
        """Return its row in the list of misses, as `HEADER` has it."""
        spans = [span for span in (self.gold, self.predicted) if span]
        whole = (min(s for s, _ in spans), max(e for _, e in spans)) if spans else None
        before, _, after = self.pieces(whole)
        return (
            self.doc_id, self.patient_id, self.kind, self.row if self.gold else None,
            None if self.kind == MISSED else self.column,
            *(self.gold or (None, None)), *(self.predicted or (None, None)),
            before, self.pieces(self.gold)[1], self.pieces(self.predicted)[1], after,
        )  # fmt: skip


def _order(pair: _Pair) -> tuple[int, int, bool, bool, str]:
    first = min(span for span in pair if span is not None)
    return first.start, first.end, pair[0] is None, pair[1] is None, first.label


def cases_of(
    gold: TaggedDocument, *, unaligned: Iterable[str], found: Matches, number: int
) -> list[SpanCase]:
    """Return what became of all spans of a note, in its order; those without a place at last."""
    missed: list[_Pair] = [(span, None) for span in found.missed]
    pairs = [*found.pairs, *missed, *((None, span) for span in found.spurious)]
    cases = [_case(gold, pair, number=number) for pair in sorted(pairs, key=_order)]
    return cases + [_case(gold, (None, None), number=number, label=label) for label in unaligned]


def _case(note: TaggedDocument, pair: _Pair, *, number: int, label: str = MISSED) -> SpanCase:
    """Return the case of a pair, or of a prediction of this label without a place."""
    gold, predicted = pair
    spans = [span for span in pair if span is not None]
    start = max(0, min((span.start for span in spans), default=0) - _CONTEXT_CHARS)
    end = max((span.end + _CONTEXT_CHARS for span in spans), default=0)
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
        column=predicted.label if predicted else label,
        gold=(gold.start, gold.end) if gold else None,
        predicted=(predicted.start, predicted.end) if predicted else None,
        start=start,
        text=note.text[start : min(end, start + _MAX_TEXT_CHARS)],
    )


def misses_csv(cases: Iterable[SpanCase]) -> str:
    """Return the misses among cases as CSV in which no cell is a formula."""
    return write_table(HEADER, [case.cells() for case in cases if case.kind != SAME])


def read_cases(folder: Path) -> tuple[SpanCase, ...]:
    """Return the cases of a kept score; AuditError where they cannot be read."""
    with refusing(AuditError("The spans of this score cannot be read.", where="score")):
        lines = (folder / SPANS).read_bytes().splitlines()
        if (folder / _OLDER_INDEX).is_file():
            with (folder / _OLDER_INDEX).open("rb") as file:
                older = np.load(file, allow_pickle=False)["criteria"]
            places = np.flatnonzero(older & _OLDER_BIT)
            lines = [lines[place] for place in places.tolist()]
        return tuple(map(_read_case, lines))


def _read_case(line: bytes) -> SpanCase:
    content = json.loads(line.decode("utf-8", "surrogatepass"))
    places = {side: content[side] and tuple(content[side]) for side in ("gold", "predicted")}
    return SpanCase(**content | places)


def readable_of(cases: Sequence[SpanCase]) -> tuple[SpanCase, ...]:
    """Return the golds of which a character stands in no prediction; notes stay together."""
    found: list[SpanCase] = []
    for _, group in groupby(cases, key=lambda case: case.note):
        own = list(group)
        taken = {i for case in own if case.predicted for i in range(*case.predicted)}
        found += [one for one in own if one.gold and not taken.issuperset(range(*one.gold))]
    return tuple(found)
