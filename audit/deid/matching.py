"""Gold and predicted spans matched and counted; what redaction would take out, and would leave."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from audit.notes.spans import Span, TaggedDocument, merged, ordered
from audit.stats import IntArray

CRITERIA = ("strict", "relaxed", "label_relaxed")
OPTIMAL, DOCUMENT_ORDER = "optimal", "document_order"
MATCHERS = (OPTIMAL, DOCUMENT_ORDER)


@dataclass(frozen=True)
class Matches:
    """What became of the spans of a note: every gold and every predicted span is in one place.

    `pairs` are (gold, predicted), in the order of the golds; `missed` are golds and `spurious`
    predictions without a partner.
    """

    pairs: tuple[tuple[Span, Span], ...]
    missed: tuple[Span, ...]
    spurious: tuple[Span, ...]


def match(
    gold: Iterable[Span], predicted: Iterable[Span], *, criterion: str, matcher: str = OPTIMAL
) -> Matches:
    """Match the spans of a note; their order and repetitions do not matter.

    `optimal` maximises, in this order, pairs, pairs of the same label, characters shared, and minus
    the shift of the boundaries (|start - start| + |end - end|, summed). `document_order` goes
    through the golds from left to right; each takes the first unused prediction that qualifies.

    Differs: the paper does not state its matcher; `document_order` is what its tables look like.
    """
    if matcher not in MATCHERS:
        raise ValueError(f"{matcher}: no such matcher")
    return match_both(gold, predicted, criterion=criterion, matchers=(matcher,))[0]


def match_both(
    gold: Iterable[Span],
    predicted: Iterable[Span],
    *,
    criterion: str,
    matchers: tuple[str, ...] = MATCHERS,
) -> tuple[Matches, ...]:
    """Return what `match` gives with each matcher, for less work."""
    golds, predictions = sorted(set(gold)), sorted(set(predicted))
    edges = _edges(golds, predictions, criterion=criterion)
    found = []
    for matcher in matchers:
        solve = _optimal if matcher == OPTIMAL else _in_document_order
        partner = solve(edges, golds, predictions)
        used = set(partner.values())
        found.append(
            Matches(
                pairs=tuple((golds[i], predictions[j]) for i, j in sorted(partner.items())),
                missed=tuple(span for i, span in enumerate(golds) if i not in partner),
                spurious=tuple(span for j, span in enumerate(predictions) if j not in used),
            )
        )
    return tuple(found)


def n_differing(first: Matches, second: Matches) -> int:
    """Return how many golds have different partners, or none, in two matchings of a note."""
    one, other = dict(first.pairs), dict(second.pairs)
    return sum(one.get(gold) != other.get(gold) for gold in {**one, **other})


_Edges = dict[int, list[int]]
"""From a gold to the predictions that qualify, both by their place in the sorted lists."""


def _edges(golds: list[Span], predictions: list[Span], *, criterion: str) -> _Edges:
    if criterion not in CRITERIA:
        raise ValueError(f"{criterion}: no such criterion")
    edges: _Edges = {}
    for i, j in _touching(golds, predictions):
        gold, predicted = golds[i], predictions[j]
        if criterion == "label_relaxed" or (
            gold.label == predicted.label and (criterion == "relaxed" or gold == predicted)
        ):
            edges.setdefault(i, []).append(j)
    return {i: sorted(edges[i]) for i in sorted(edges)}


def _touching(golds: list[Span], predictions: list[Span]) -> Iterator[tuple[int, int]]:
    """Yield the pairs that share a character, in one sweep over both sides."""
    sides = golds, predictions
    begins = [(span.start, side, k) for side in (0, 1) for k, span in enumerate(sides[side])]
    reaching: list[list[int]] = [[], []]
    for start, side, k in sorted(begins):
        other = 1 - side
        reaching[other] = [one for one in reaching[other] if sides[other][one].end > start]
        for one in reaching[other]:
            yield (k, one) if side == 0 else (one, k)
        reaching[side].append(k)


def _in_document_order(edges: _Edges, golds: list[Span], predictions: list[Span]) -> dict[int, int]:
    partner: dict[int, int] = {}
    used: set[int] = set()
    for i, candidates in edges.items():
        free = next((j for j in candidates if j not in used), None)
        if free is not None:
            partner[i] = free
            used.add(free)
    return partner


def _optimal(edges: _Edges, golds: list[Span], predictions: list[Span]) -> dict[int, int]:
    partner: dict[int, int] = {}
    for part in _components(edges):
        first, candidates = next(iter(part.items()))
        if len(part) == 1 and len(candidates) == 1:
            partner[first] = candidates[0]
        else:
            partner |= _best(part, golds=golds, predictions=predictions)
    return partner


def _components(edges: _Edges) -> Iterator[_Edges]:
    """Yield the connected components of the overlap graph."""
    golds_of: dict[int, list[int]] = {}
    for i, candidates in edges.items():
        for j in candidates:
            golds_of.setdefault(j, []).append(i)
    seen: set[int] = set()
    for first in edges:
        waiting = [] if first in seen else [first]
        seen.add(first)
        component = []
        while waiting:
            i = waiting.pop()
            component.append(i)
            near = {other for j in edges[i] for other in golds_of.pop(j, ())} - seen
            seen |= near
            waiting += near
        if component:
            yield {i: edges[i] for i in sorted(component)}


def _best(edges: _Edges, *, golds: list[Span], predictions: list[Span]) -> dict[int, int]:
    """Solve one component: the four aims are the digits of one number, the first the highest.

    Every gold may also stay alone, for a weight of 1: then a matching of all golds exists.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    pairs = [(i, j) for i, candidates in edges.items() for j in candidates]
    is_same = np.array([golds[i].label == predictions[j].label for i, j in pairs])
    overlap = np.array([float(golds[i].overlap(predictions[j])) for i, j in pairs])
    shift = np.array([float(_shift(golds[i], predictions[j])) for i, j in pairs])
    row_of = {i: row for row, i in enumerate(edges)}
    columns = sorted({j for _, j in pairs})
    column_of = {j: column for column, j in enumerate(columns)}
    n = min(len(row_of), len(columns))
    weights = ((n + 1 + is_same) * (n * overlap.max() + 1) + overlap) * (n * shift.max() + 1)
    rows = [*(row_of[i] for i, _ in pairs), *range(len(row_of))]
    alone = range(len(columns), len(columns) + len(row_of))
    graph = csr_array(
        (
            np.append(weights - shift, np.ones(len(row_of))),
            (rows, [*(column_of[j] for _, j in pairs), *alone]),
        )
    )
    matched = min_weight_full_bipartite_matching(graph, maximize=True)[1]
    return {i: columns[c] for i, c in zip(edges, matched, strict=True) if c < len(columns)}


def _shift(gold: Span, predicted: Span) -> int:
    return abs(gold.start - predicted.start) + abs(gold.end - predicted.end)


MISSED, SPURIOUS = "missed", "spurious"
ANY = ""
"""The label under which spans of all labels are counted together."""

COLUMNS = (
    "n_gold", "n_predicted", "n_missed", "n_spurious",
    "n_with_gold", "n_complete", "n_with_predicted", "n_clean", "n_with_either", "n_exact",
)  # fmt: skip
"""Spans, then records: with a gold span, of those with none missed; with a predicted span, of those
with none spurious; with either, of those with none missed and none spurious."""

Row = tuple[int, ...]
_NONE: Row = (0,) * len(COLUMNS)


@dataclass(frozen=True)
class MatchCounts:
    """What one criterion gave, for one note or many.

    Attributes
    ----------
    rows
        By label, and under `ANY` for all labels together: a number for each of `COLUMNS`.
    cells
        The confusion matrix by (gold label or `SPURIOUS`, predicted label or `MISSED`).
    n_records
        How many notes were counted.
    """

    rows: Mapping[str, Row] = field(default_factory=dict)
    cells: Mapping[tuple[str, str], int] = field(default_factory=dict)
    n_records: int = 0

    def __add__(self, other: MatchCounts) -> MatchCounts:
        """Count two sets of notes together."""
        return total((self, other))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that occur, in the order of tables."""
        return ordered(label for label in self.rows if label != ANY)

    def row(self, label: str) -> Row:
        """Return the numbers of a label; zeros where it does not occur."""
        return self.rows.get(label, _NONE)

    def matrix(self, labels: Iterable[str]) -> list[list[int]]:
        """Return the confusion matrix: rows gold and `SPURIOUS`, columns predicted and `MISSED`."""
        labels = list(labels)
        return [
            [self.cells.get((gold, predicted), 0) for predicted in (*labels, MISSED)]
            for gold in (*labels, SPURIOUS)
        ]


def total(counts: Iterable[MatchCounts]) -> MatchCounts:
    """Return the sum of counts."""
    rows: dict[str, list[int]] = {}
    cells: Counter[tuple[str, str]] = Counter()
    n_records = 0
    for one in counts:
        n_records += one.n_records
        cells.update(one.cells)
        for label, row in one.rows.items():
            known = rows.setdefault(label, list(_NONE))
            for i, number in enumerate(row):
                known[i] += number
    return MatchCounts({label: tuple(row) for label, row in rows.items()}, dict(cells), n_records)


def count(matches: Matches, *, unaligned: Iterable[str] = ()) -> MatchCounts:
    """Count one note; predictions without a place in it (`unaligned` labels) are spurious."""
    cells = Counter((gold.label, predicted.label) for gold, predicted in matches.pairs)
    cells.update((span.label, MISSED) for span in matches.missed)
    cells.update((SPURIOUS, span.label) for span in matches.spurious)
    cells.update((SPURIOUS, label) for label in unaligned)
    spans: dict[str, list[int]] = {}  # gold, predicted, missed, spurious
    for (gold, predicted), n in cells.items():
        for side, label, other in ((0, gold, predicted), (1, predicted, gold)):
            if label not in (SPURIOUS, MISSED):
                for key in (label, ANY):
                    row = spans.setdefault(key, [0, 0, 0, 0])
                    row[side] += n
                    row[2 + side] += n * (other in (SPURIOUS, MISSED))
    return MatchCounts({key: _row(*row) for key, row in spans.items()}, dict(cells), 1)


def _row(n_gold: int, n_predicted: int, n_missed: int, n_spurious: int) -> Row:
    has_gold, has_predicted = n_gold > 0, n_predicted > 0
    has_either = has_gold or has_predicted
    records = (
        has_gold, has_gold and not n_missed,
        has_predicted, has_predicted and not n_spurious,
        has_either, has_either and not n_missed and not n_spurious,
    )  # fmt: skip
    return (n_gold, n_predicted, n_missed, n_spurious, *map(int, records))


def as_table(counts: Iterable[MatchCounts], *, labels: Iterable[str]) -> IntArray:
    """Return counts as numbers [patients, labels, columns]."""
    labels = list(labels)
    rows = [[one.row(label) for label in labels] for one in counts]
    return np.array(rows, dtype=np.int64).reshape(-1, len(labels), len(COLUMNS))


Stretches = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class CoverageCounts:
    """Characters and spans, for one note or many.

    A prediction counts here whatever its label, and several may cover one gold together: the
    question is what a reader of the redacted note still sees.

    Attributes
    ----------
    rows
        By label, and under `ANY`: golds, golds covered whole, gold characters, those of them that
        are covered. A character of two golds counts once.
    n_text_chars, n_predicted_chars
        Characters of the notes, and of those the ones that predictions cover.
    n_over_chars
        Those of the latter that no gold covers: taken out without need.
    """

    rows: Mapping[str, tuple[int, int, int, int]] = field(default_factory=dict)
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
            rows,  # type: ignore[arg-type]  # four numbers again
            self.n_text_chars + other.n_text_chars,
            self.n_predicted_chars + other.n_predicted_chars,
            self.n_over_chars + other.n_over_chars,
        )

    def row(self, label: str) -> tuple[int, int, int, int]:
        """Return the numbers of a label; zeros where it does not occur."""
        return self.rows.get(label, (0, 0, 0, 0))

    @property
    def n_outside_chars(self) -> int:
        """Characters that no gold covers."""
        return self.n_text_chars - self.row(ANY)[2]

    @property
    def n_left_chars(self) -> int:
        """Gold characters that no prediction covers: what a reader would still see."""
        return self.row(ANY)[2] - self.row(ANY)[3]


def coverage(gold: TaggedDocument, *, predicted: Iterable[Span]) -> CoverageCounts:
    """Count one note."""
    removed = merged(predicted)
    starts = [start for start, _ in removed]
    spans_of: dict[str, list[Span]] = {ANY: list(gold.spans)} if gold.spans else {}
    for span in gold.spans:
        spans_of.setdefault(span.label, []).append(span)
    rows = {}
    for label, spans in spans_of.items():
        union = merged(spans)
        places = (bisect_right(starts, span.start) - 1 for span in spans)
        n_whole = sum(
            at >= 0 and span.end <= removed[at][1] for span, at in zip(spans, places, strict=True)
        )
        rows[label] = (len(spans), n_whole, _n_chars(union), _n_shared(union, removed))
    n_predicted = _n_chars(removed)
    n_over = n_predicted - _n_shared(merged(gold.spans), removed)
    return CoverageCounts(rows, len(gold.text), n_predicted, n_over)


def _n_chars(stretches: Stretches) -> int:
    return sum(end - start for start, end in stretches)


def _n_shared(first: Stretches, second: Stretches) -> int:
    """Return how many characters two sorted unions share."""
    i = j = n = 0
    while i < len(first) and j < len(second):
        (start, end), (other_start, other_end) = first[i], second[j]
        n += max(0, min(end, other_end) - max(start, other_start))
        if end <= other_end:
            i += 1
        else:
            j += 1
    return n
