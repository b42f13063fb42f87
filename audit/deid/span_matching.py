"""Gold and predicted spans matched and counted; what redaction would take out, and would leave."""

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
    """What became of the spans of a note: every gold and every predicted span is in one place.

    `pairs` are (gold, predicted), in the order of the golds; `missed` are golds and `spurious`
    predictions without a partner. `n_differing` golds have another partner, or none, under the
    other matcher.
    """

    pairs: tuple[tuple[Span, Span], ...]
    missed: tuple[Span, ...]
    spurious: tuple[Span, ...]
    n_differing: int


def match(
    gold: Iterable[Span], predicted: Iterable[Span], *, criterion: str, matcher: str = OPTIMAL
) -> Matches:
    """Match the spans of a note; their order and repetitions do not matter.

    `optimal` maximises, in this order, pairs, pairs of the same label, characters shared, and minus
    the shift of the boundaries (|start - start| + |end - end|, summed). `document_order` goes
    through the golds from left to right; each takes the first unused prediction that qualifies.

    Differs: the paper does not state its matcher; `document_order` is what its tables look like.
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
    for own, others in stretches.values():
        pairs = [(g, p) for g in own for p in others if qualifies(g, p)]
        best |= _best(pairs)
        taken: set[Span] = set()
        for one, other in pairs:
            if one not in in_order and other not in taken:
                in_order[one] = other
                taken.add(other)
    partner = best if matcher == OPTIMAL else in_order
    used = set(partner.values())
    return Matches(
        pairs=tuple(sorted(partner.items())),
        missed=tuple(span for span in golds if span not in partner),
        spurious=tuple(span for span in predictions if span not in used),
        n_differing=sum(best.get(span) != in_order.get(span) for span in golds),
    )


def _best(pairs: list[tuple[Span, Span]]) -> dict[Span, Span]:
    """Choose among pairs: the four aims are the digits of one number, the first the highest.

    Every gold may also stay alone, for a weight of 1: then a matching of all golds exists.
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
"""Spans, then records: with a gold span, of those with none missed; with a predicted span, of those
with none spurious; with either, of those with none missed and none spurious."""
_NONE = np.zeros(len(COLUMNS), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class MatchCounts:
    """What one criterion gave on many notes.

    `table` has numbers [patients, labels, columns of `COLUMNS`], patients sorted; `labels` are in
    the order of tables, at last `ANY`. `cells` is the confusion matrix by (gold label or
    `SPURIOUS`, predicted label or `MISSED`), `n_differing` as in `Matches`.
    """

    labels: tuple[str, ...]
    table: IntArray
    cells: Mapping[tuple[str, str], int] = field(default_factory=dict)
    n_differing: int = 0

    def of(self, label: str) -> IntArray:
        """Return the numbers of a label by patient [P, columns]; zeros where it does not occur."""
        found: IntArray = self.table[:, [x == label for x in self.labels]].sum(axis=1)
        return found

    def row(self, label: str) -> tuple[int, ...]:
        """Return the numbers of a label for all patients."""
        return tuple(self.of(label).sum(axis=0).tolist())


class MatchCounter:
    """Counts what one criterion gives, note by note."""

    def __init__(self, criterion: str, *, matcher: str) -> None:
        self._how = {"criterion": criterion, "matcher": matcher}
        self._cells: Counter[tuple[str, str]] = Counter()
        self._n_differing = 0
        self._patients: dict[tuple[int, str], defaultdict[str, IntArray]] = defaultdict(
            lambda: defaultdict(lambda: _NONE)
        )

    def add(self, gold: TaggedDocument, predicted: TaggedDocument) -> Matches:
        """Match and count a note; predictions without a place in it are spurious."""
        found = match(gold.spans, predicted.spans, **self._how)
        spurious = (*(span.label for span in found.spurious), *predicted.unaligned)
        cells = [(one.label, other.label) for one, other in found.pairs]
        cells += [(span.label, MISSED) for span in found.missed]
        cells += [(SPURIOUS, label) for label in spurious]
        rows = self._patients[gold.patient]
        for key in {ANY, *chain.from_iterable(cells)} - {MISSED, SPURIOUS}:
            golds = [said for row, said in cells if row != SPURIOUS and key in (ANY, row)]
            saids = [row for row, said in cells if said != MISSED and key in (ANY, said)]
            n, n_said = len(golds), len(saids)
            wrong = golds.count(MISSED), saids.count(SPURIOUS)
            sides = zip((n, n_said, n + n_said), (*wrong, sum(wrong)), strict=True)
            records = [x for n_all, bad in sides for x in (n_all > 0, n_all > 0 and not bad)]
            rows[key] = rows[key] + np.array([n, n_said, *wrong, *records])
        self._cells.update(cells)
        self._n_differing += found.n_differing
        return found

    def counts(self) -> MatchCounts:
        """Return what was counted."""
        found = {label for rows in self._patients.values() for label in rows}
        labels = (*order_labels(found - {ANY}), ANY)
        rows = [[own.get(x, _NONE) for x in labels] for _, own in sorted(self._patients.items())]
        return MatchCounts(labels, np.array(rows), dict(self._cells), self._n_differing)


@dataclass(frozen=True)
class CoverageCounts:
    """Characters and spans that redaction would take out, for one note or many.

    A prediction counts here whatever its label, and several may cover one gold together: the
    question is what a reader of the redacted note still sees. `rows` have by label, and under
    `ANY`: golds, golds covered whole, gold characters (one of two golds counts once), those of them
    that are covered. Of the characters of the notes predictions cover `n_predicted_chars`; no gold
    covers `n_over_chars` of these: taken out without need.
    """

    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    n_text_chars: int = 0
    n_predicted_chars: int = 0
    n_over_chars: int = 0

    def __add__(self, other: CoverageCounts) -> CoverageCounts:
        """Count two sets of notes together."""
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
        """Return the numbers of a label; zeros where it does not occur."""
        return self.rows.get(label, (0, 0, 0, 0))

    @property
    def n_outside_chars(self) -> int:
        """Characters that no gold covers."""
        return self.n_text_chars - self.row(ANY)[2]


def coverage(gold: TaggedDocument, *, predicted: Iterable[Span]) -> CoverageCounts:
    """Count one note."""

    def covered(spans: Iterable[Span]) -> BoolArray:
        is_covered = np.zeros(len(gold.text), dtype=np.bool_)
        for span in spans:
            is_covered[span.start : span.end] = True
        return is_covered

    is_removed = covered(predicted)
    rows = {}
    for label in (ANY, *{span.label for span in gold.spans}):
        spans = [span for span in gold.spans if label in (ANY, span.label)]
        is_gold = covered(spans)
        n_whole = sum(bool(is_removed[span.start : span.end].all()) for span in spans)
        rows[label] = len(spans), n_whole, int(is_gold.sum()), int((is_gold & is_removed).sum())
    n_removed = int(is_removed.sum())
    return CoverageCounts(rows, len(gold.text), n_removed, n_removed - rows[ANY][3])
