"""The list of misses: what a tagger did not find, found for nothing, or found in part, in context.

Gold and prediction stand side by side. The lists hold text of notes: they are private.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from audit.deid.counts import MISSED, SPURIOUS
from audit.deid.documents import Span, TaggedDocument
from audit.deid.matching import OPTIMAL, match
from audit.tables import write_table

OTHER_LABEL, OTHER_PLACE = "other label", "other place"
KINDS = (MISSED, SPURIOUS, OTHER_LABEL, OTHER_PLACE)
CONTEXT_CHARS = 30


@dataclass(frozen=True)
class Miss:
    """One difference between gold and prediction.

    Attributes
    ----------
    kind
        `missed`: a gold without a prediction; `spurious`: a prediction without a gold; `other
        label`: a pair of different labels; `other place`: a pair of one label whose ends differ.
    row, column
        The cell of the confusion matrix it is counted in: row, the gold's label or `spurious`;
        column, the prediction's label or `missed`.
    gold, predicted
        The spans; None where there is none, as with a prediction that has no place in the text.
    gold_text, predicted_text
        What they hold.
    before, after
        Text around both.
    """

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

    def __post_init__(self) -> None:
        """Check the kind against the spans, once."""
        if self.kind not in KINDS or (self.gold is None) != (self.kind == SPURIOUS):
            raise ValueError(f"{self.kind}: no such kind, or the gold does not fit it")


def misses_of(
    gold: TaggedDocument,
    *,
    predicted: TaggedDocument,
    criterion: str = "label_relaxed",
    matcher: str = OPTIMAL,
    n_context: int = CONTEXT_CHARS,
) -> tuple[Miss, ...]:
    """Return all differences of one note, in the order of the text.

    Under the criterion `label_relaxed` missed and spurious are the margins of the paper's matrix;
    under `strict` every pair whose label or place differs is both missed and spurious.

    Raises
    ------
    ValueError
        If there is no such criterion or matcher.
    """
    found = match(gold.spans, predicted.spans, criterion=criterion, matcher=matcher)
    pairs: list[tuple[Span | None, Span | None]] = [
        pair for pair in found.pairs if pair[0] != pair[1]
    ]
    pairs += [(span, None) for span in found.missed]
    pairs += [(None, span) for span in found.spurious]
    listed = [
        _miss(gold, one, other, n_context=n_context) for one, other in sorted(pairs, key=_place)
    ]
    nowhere = [_nowhere(gold, label) for label in predicted.unaligned]
    return tuple(listed + nowhere)


def _place(pair: tuple[Span | None, Span | None]) -> tuple[int, int, bool]:
    first = min(span for span in pair if span is not None)
    return first.start, first.end, pair[0] is None


def _miss(
    note: TaggedDocument, gold: Span | None, predicted: Span | None, *, n_context: int
) -> Miss:
    spans = [span for span in (gold, predicted) if span is not None]
    start, end = min(span.start for span in spans), max(span.end for span in spans)
    if gold is None:
        kind = SPURIOUS
    elif predicted is None:
        kind = MISSED
    else:
        kind = OTHER_PLACE if gold.label == predicted.label else OTHER_LABEL
    return Miss(
        doc_id=note.doc_id,
        patient_id=note.patient_id,
        kind=kind,
        row=SPURIOUS if gold is None else gold.label,
        column=MISSED if predicted is None else predicted.label,
        gold=gold,
        predicted=predicted,
        gold_text="" if gold is None else note.text[gold.start : gold.end],
        predicted_text="" if predicted is None else note.text[predicted.start : predicted.end],
        before=note.text[max(0, start - n_context) : start],
        after=note.text[end : end + n_context],
    )


def _nowhere(note: TaggedDocument, label: str) -> Miss:
    return Miss(
        note.doc_id, note.patient_id, SPURIOUS, SPURIOUS, label, None, None, "", "", "", ""
    )  # fmt: skip


HEADER = (
    "doc_id", "patient_id", "kind", "gold_label", "predicted_label", "gold_start", "gold_end",
    "predicted_start", "predicted_end", "before", "gold_text", "predicted_text", "after",
)  # fmt: skip


def misses_csv(misses: Iterable[Miss]) -> str:
    """Return misses as CSV in which no cell is a formula."""
    return write_table(HEADER, map(_cells, misses))


def _cells(miss: Miss) -> tuple[object, ...]:
    gold, predicted = miss.gold, miss.predicted
    predicted_label = "" if miss.kind == MISSED else miss.column
    return (
        miss.doc_id, miss.patient_id, miss.kind, gold.label if gold else "", predicted_label,
        gold.start if gold else None, gold.end if gold else None,
        predicted.start if predicted else None, predicted.end if predicted else None,
        miss.before, miss.gold_text, miss.predicted_text, miss.after,
    )  # fmt: skip


def misses_jsonl(misses: Iterable[Miss]) -> Iterator[str]:
    """Yield each miss as a line of JSON, with its line end."""
    for miss in misses:
        yield json.dumps(asdict(miss), ensure_ascii=False) + "\n"
