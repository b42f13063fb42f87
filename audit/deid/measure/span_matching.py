"""Matches and counts gold and predicted spans, and what redaction would remove and leave."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, get_args

import numpy as np

from audit.notes.spans import Span, TaggedDocument, merge_spans, order_labels
from audit.stats import BoolArray, IntArray

CRITERIA = ("strict", "relaxed", "label_relaxed")
Matcher = Literal["optimal", "document_order"]
OPTIMAL, _ = MATCHERS = get_args(Matcher)


@dataclass(frozen=True)
class Matches:
    """The matched spans of a note: every gold and every predicted span occurs exactly once.

    `pairs` are (gold, predicted), in the order of the golds. `missed` are golds without a partner,
    `spurious` predictions without one. `n_differing` golds have a different partner, or none, under
    the other matcher.
    """

    pairs: tuple[tuple[Span, Span], ...]
    missed: tuple[Span, ...]
    spurious: tuple[Span, ...]
    n_differing: int


def match(
    gold: Iterable[Span], predicted: Iterable[Span], *, criterion: str, matcher: str = OPTIMAL
) -> Matches:
    """Match the spans of a note; their order and repetitions do not matter.

    `optimal` maximises, in this order, the number of pairs, the pairs with the same label, and the
    shared characters, and then minimises the shift of the boundaries (the sum of
    |start - start| + |end - end|). `document_order` goes through the golds from left to right, and
    each gold takes the first unused prediction that qualifies.

    Differs: the paper does not state its matcher; its tables look like `document_order`.
    """

    def qualifies(gold: Span, predicted: Span) -> bool:
        if criterion == "strict":
            return gold == predicted
        is_label_fit = criterion == "label_relaxed" or gold.label == predicted.label
        return is_label_fit and gold.overlap(predicted) > 0

    golds, predictions = sides = sorted(set(gold)), sorted(set(predicted))
    ends = [end for _, end in merge_spans([*golds, *predictions])]
    stretches: defaultdict[int, tuple[list[Span], list[Span]]] = defaultdict(lambda: ([], []))
    for side, spans in enumerate(sides):
        for span in spans:
            stretches[bisect_right(ends, span.start)][side].append(span)
    best: dict[Span, Span] = {}
    in_order: dict[Span, Span] = {}
    for stretch_golds, stretch_predictions in stretches.values():
        pairs = [(g, p) for g in stretch_golds for p in stretch_predictions if qualifies(g, p)]
        best |= _best(pairs)
        used_predictions: set[Span] = set()
        for gold_span, prediction in pairs:
            if gold_span not in in_order and prediction not in used_predictions:
                in_order[gold_span] = prediction
                used_predictions.add(prediction)
    partner = best if matcher == OPTIMAL else in_order
    used = set(partner.values())
    return Matches(
        pairs=tuple(sorted(partner.items())),
        missed=tuple(span for span in golds if span not in partner),
        spurious=tuple(span for span in predictions if span not in used),
        n_differing=sum(best.get(span) != in_order.get(span) for span in golds),
    )


def _best(pairs: list[tuple[Span, Span]]) -> dict[Span, Span]:
    """Choose the best pairs: the four aims are the digits of one weight, the first the highest.

    Every gold may also stay alone with a weight of 1, so that a matching of all golds exists.
    """
    if len(pairs) < 2:
        return dict(pairs)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    aims = [
        (g.label == p.label, g.overlap(p), abs(g.start - p.start) + abs(g.end - p.end))
        for g, p in pairs
    ]
    is_same, overlap, shift = np.array(aims, dtype=np.float64).T
    golds, predictions = (sorted(set(side)) for side in zip(*pairs, strict=True))
    n = min(len(golds), len(predictions))
    weights = ((n + 1 + is_same) * (n * overlap.max() + 1) + overlap) * (n * shift.max() + 1)
    row, column = ({span: i for i, span in enumerate(side)} for side in (golds, predictions))
    alone = np.arange(len(golds))
    places = (
        np.append([row[g] for g, _ in pairs], alone),
        np.append([column[p] for _, p in pairs], len(predictions) + alone),
    )
    graph = csr_array((np.append(weights - shift, np.ones(len(golds))), places))
    matched = min_weight_full_bipartite_matching(graph, maximize=True)[1].tolist()
    n_others = len(predictions)
    return {g: predictions[j] for g, j in zip(golds, matched, strict=True) if j < n_others}


MISSED, SPURIOUS = "missed", "spurious"
ANY = ""
"""The label under which spans of all labels are counted together."""

COLUMNS = (
    "n_gold",
    "n_predicted",
    "n_missed",
    "n_spurious",
    "n_with_gold",
    "n_complete",
    "n_with_predicted",
    "n_clean",
    "n_with_either",
    "n_exact",
)
"""Counts of spans, then of records: records with a gold span, and those of them with none missed;
with a predicted span, and those of them with none spurious; with either, and those of them with
none missed and none spurious."""
_NONE = np.zeros(len(COLUMNS), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class MatchCounts:
    """The counts of one criterion over many notes.

    `table` has counts [patients, labels, columns of `COLUMNS`], with patients sorted; `labels` are
    in the order of tables, with `ANY` last. `cells` is the confusion matrix by (gold label or
    `SPURIOUS`, predicted label or `MISSED`); `n_differing` is as in `Matches`.
    """

    labels: tuple[str, ...]
    table: IntArray
    cells: Mapping[tuple[str, str], int] = field(default_factory=dict)
    n_differing: int = 0

    def by_patient(self, label: str) -> IntArray:
        """Return the counts of a label by patient [P, columns]; zeros if it does not occur."""
        numbers: IntArray = self.table[:, [x == label for x in self.labels]].sum(axis=1)
        return numbers

    def row(self, label: str) -> tuple[int, ...]:
        """Return the counts of a label for all patients together."""
        return tuple(self.by_patient(label).sum(axis=0).tolist())


class MatchCounter:
    """Counts the matches under one criterion, note by note."""

    def __init__(self, criterion: str, *, matcher: str) -> None:
        self._match_options = {"criterion": criterion, "matcher": matcher}
        self._cells: Counter[tuple[str, str]] = Counter()
        self._n_differing = 0
        self._patients: dict[tuple[int, str], defaultdict[str, IntArray]] = defaultdict(
            lambda: defaultdict(lambda: _NONE)
        )

    def add(self, gold: TaggedDocument, predicted: TaggedDocument) -> Matches:
        """Match and count a note; predictions without a place in the note are spurious."""
        matches = match(gold.spans, predicted.spans, **self._match_options)
        spurious = (*(span.label for span in matches.spurious), *predicted.unaligned)
        cells = [(gold_span.label, prediction.label) for gold_span, prediction in matches.pairs]
        cells += [(span.label, MISSED) for span in matches.missed]
        cells += [(SPURIOUS, label) for label in spurious]
        rows = self._patients[gold.patient]
        for key in {ANY, *chain.from_iterable(cells)} - {MISSED, SPURIOUS}:
            gold_outcomes = [
                predicted_label
                for gold_label, predicted_label in cells
                if gold_label != SPURIOUS and key in (ANY, gold_label)
            ]
            predicted_outcomes = [
                gold_label
                for gold_label, predicted_label in cells
                if predicted_label != MISSED and key in (ANY, predicted_label)
            ]
            n_gold, n_predicted = len(gold_outcomes), len(predicted_outcomes)
            wrong = gold_outcomes.count(MISSED), predicted_outcomes.count(SPURIOUS)
            sides = zip(
                (n_gold, n_predicted, n_gold + n_predicted), (*wrong, sum(wrong)), strict=True
            )
            records = [x for n_all, bad in sides for x in (n_all > 0, n_all > 0 and not bad)]
            rows[key] = rows[key] + np.array([n_gold, n_predicted, *wrong, *records])
        self._cells.update(cells)
        self._n_differing += matches.n_differing
        return matches

    def counts(self) -> MatchCounts:
        """Return the counts so far."""
        labels_seen = {label for rows in self._patients.values() for label in rows}
        labels = (*order_labels(labels_seen - {ANY}), ANY)
        rows = [
            [label_rows.get(x, _NONE) for x in labels]
            for _, label_rows in sorted(self._patients.items())
        ]
        return MatchCounts(labels, np.array(rows), dict(self._cells), self._n_differing)


@dataclass(frozen=True)
class CoverageCounts:
    """Characters and spans that redaction would take out, for one note or many.

    A prediction counts whatever its label, and several may cover one gold together: the question is
    what a reader of the redacted note still sees. `rows` have, by label and under `ANY`: golds,
    golds covered in full, gold characters (a character of two golds counts once), and covered gold
    characters. Predictions cover `n_predicted_chars` of the characters of the notes; no gold covers
    `n_over_chars` of these, which are taken out without need.
    """

    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    n_text_chars: int = 0
    n_predicted_chars: int = 0
    n_over_chars: int = 0

    def __add__(self, other: CoverageCounts) -> CoverageCounts:
        """Return the counts of two sets of notes together."""
        rows = {
            label: tuple(map(sum, zip(self.row(label), other.row(label), strict=True)))
            for label in {*self.rows, *other.rows}
        }
        return CoverageCounts(
            rows,
            self.n_text_chars + other.n_text_chars,
            self.n_predicted_chars + other.n_predicted_chars,
            self.n_over_chars + other.n_over_chars,
        )

    def row(self, label: str) -> tuple[int, ...]:
        """Return the counts of a label; zeros if it does not occur."""
        return self.rows.get(label, (0, 0, 0, 0))

    @property
    def n_outside_chars(self) -> int:
        """Characters that no gold covers."""
        return self.n_text_chars - self.row(ANY)[2]


def count_coverage(gold: TaggedDocument, *, predicted: Iterable[Span]) -> CoverageCounts:
    """Return the coverage counts of one note."""

    def mark_covered(spans: Iterable[Span]) -> BoolArray:
        is_covered = np.zeros(len(gold.text), dtype=np.bool_)
        for span in spans:
            is_covered[span.start : span.end] = True
        return is_covered

    is_removed = mark_covered(predicted)
    rows = {}
    for label in (ANY, *{span.label for span in gold.spans}):
        spans = [span for span in gold.spans if label in (ANY, span.label)]
        is_gold = mark_covered(spans)
        n_whole = sum(bool(is_removed[span.start : span.end].all()) for span in spans)
        rows[label] = len(spans), n_whole, int(is_gold.sum()), int((is_gold & is_removed).sum())
    n_removed = int(is_removed.sum())
    return CoverageCounts(rows, len(gold.text), n_removed, n_removed - rows[ANY][3])
