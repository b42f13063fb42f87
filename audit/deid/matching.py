"""Covered characters: what redaction would take out, and what it would leave.

A prediction counts here whatever its label, and several may cover one gold together: the question
is what a reader of the redacted note still sees.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from audit.notes.spans import Span, TaggedDocument, merged, ordered
from audit.stats import IntArray, best_assignment

CRITERIA = ("strict", "relaxed", "label_relaxed")
OPTIMAL, DOCUMENT_ORDER = "optimal", "document_order"
MATCHERS = (OPTIMAL, DOCUMENT_ORDER)


@dataclass(frozen=True)
class Matches:
    """What became of the spans of a note: every gold and every predicted span is in one place.

    Attributes
    ----------
    pairs
        (gold, predicted), in the order of the golds.
    missed
        Golds without a partner.
    spurious
        Predictions without a partner.
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

    Raises
    ------
    ValueError
        If there is no such criterion or matcher.
    """
    if matcher not in MATCHERS:
        raise ValueError(f"{matcher}: no such matcher")
    golds, predictions = sorted(set(gold)), sorted(set(predicted))
    edges = _edges(golds, predictions, criterion=criterion)
    solve = _optimal if matcher == OPTIMAL else _in_document_order
    return _matches(golds, predictions, partner=solve(edges, golds, predictions))


def match_both(
    gold: Iterable[Span], predicted: Iterable[Span], *, criterion: str
) -> tuple[Matches, Matches]:
    """Return what `match` gives with `optimal` and with `document_order`, for less work."""
    golds, predictions = sorted(set(gold)), sorted(set(predicted))
    edges = _edges(golds, predictions, criterion=criterion)
    best = _optimal(edges, golds, predictions)
    in_order = _in_document_order(edges, golds, predictions)
    first = _matches(golds, predictions, partner=best)
    if best == in_order:
        return first, first
    return first, _matches(golds, predictions, partner=in_order)


def _matches(golds: list[Span], predictions: list[Span], *, partner: dict[int, int]) -> Matches:
    used = set(partner.values())
    return Matches(
        pairs=tuple((golds[i], predictions[j]) for i, j in sorted(partner.items())),
        missed=tuple(span for i, span in enumerate(golds) if i not in partner),
        spurious=tuple(span for j, span in enumerate(predictions) if j not in used),
    )


def n_differing(first: Matches, second: Matches) -> int:
    """Return how many golds have different partners, or none, in two matchings of a note."""
    if first is second:
        return 0
    other = dict(second.pairs)
    n_same = sum(other.get(gold) == predicted for gold, predicted in first.pairs)
    return len({gold for gold, _ in (*first.pairs, *second.pairs)}) - n_same


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
    """Yield the pairs that share a character, in one sweep over both sorted lists."""
    open_golds: list[int] = []
    open_predictions: list[int] = []
    i = j = 0
    while i < len(golds) or j < len(predictions):
        is_gold = j == len(predictions) or (
            i < len(golds) and golds[i].start <= predictions[j].start
        )
        if is_gold:
            start = golds[i].start
            open_predictions = [k for k in open_predictions if predictions[k].end > start]
            for k in open_predictions:
                yield i, k
            open_golds.append(i)
            i += 1
        else:
            start = predictions[j].start
            open_golds = [k for k in open_golds if golds[k].end > start]
            for k in open_golds:
                yield k, j
            open_predictions.append(j)
            j += 1


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
    for component in _components(edges):
        if len(component) == 1 and len(edges[component[0]]) == 1:
            partner[component[0]] = edges[component[0]][0]
        else:
            part = {i: edges[i] for i in component}
            partner |= _best(part, golds=golds, predictions=predictions)
    return partner


def _components(edges: _Edges) -> Iterator[list[int]]:
    """Yield the golds of each connected component of the overlap graph."""
    golds_of: dict[int, list[int]] = {}
    for i, candidates in edges.items():
        for j in candidates:
            golds_of.setdefault(j, []).append(i)
    seen: set[int] = set()
    for first in edges:
        if first in seen:
            continue
        seen.add(first)
        component, waiting = [], [first]
        while waiting:
            i = waiting.pop()
            component.append(i)
            near = {other for j in edges[i] for other in golds_of.pop(j, ())} - seen
            seen |= near
            waiting += near
        yield sorted(component)


def _best(edges: _Edges, *, golds: list[Span], predictions: list[Span]) -> dict[int, int]:
    """Solve one component: the four aims are the digits of one number, the first the highest."""
    aims = {
        (i, j): (
            golds[i].label == predictions[j].label,
            golds[i].overlap(predictions[j]),
            _shift(golds[i], predictions[j]),
        )
        for i, candidates in edges.items()
        for j in candidates
    }
    n = min(len(edges), len({j for _, j in aims}))
    overlap_base = n * max(overlap for _, overlap, _ in aims.values()) + 1
    shift_base = n * max(shift for _, _, shift in aims.values()) + 1
    return best_assignment(
        {
            edge: (((n + 1) + is_same) * overlap_base + overlap) * shift_base - shift
            for edge, (is_same, overlap, shift) in aims.items()
        }
    )


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
    spurious = [span.label for span in matches.spurious] + list(unaligned)
    cells = Counter((gold.label, predicted.label) for gold, predicted in matches.pairs)
    cells.update((span.label, MISSED) for span in matches.missed)
    cells.update((SPURIOUS, label) for label in spurious)
    golds, predictions = Counter[str](), Counter[str]()
    for (gold, predicted), n in cells.items():
        for side, label in ((golds, gold), (predictions, predicted)):
            if label not in (SPURIOUS, MISSED):
                side[label] += n
                side[ANY] += n
    rows = {}
    for label in {*golds, *predictions}:
        lost = len(matches.missed) if label == ANY else cells[label, MISSED]
        extra = len(spurious) if label == ANY else cells[SPURIOUS, label]
        rows[label] = _row(golds[label], predictions[label], lost, extra)
    return MatchCounts(rows, dict(cells), 1)


def _row(n_gold: int, n_predicted: int, n_missed: int, n_spurious: int) -> Row:
    has_gold, has_predicted = n_gold > 0, n_predicted > 0
    return (
        n_gold,
        n_predicted,
        n_missed,
        n_spurious,
        int(has_gold),
        int(has_gold and not n_missed),
        int(has_predicted),
        int(has_predicted and not n_spurious),
        int(has_gold or has_predicted),
        int((has_gold or has_predicted) and not n_missed and not n_spurious),
    )


def as_table(counts: Iterable[MatchCounts], *, labels: Iterable[str]) -> IntArray:
    """Return counts as numbers [patients, labels, columns]."""
    labels = list(labels)
    rows = [[one.row(label) for label in labels] for one in counts]
    return np.array(rows, dtype=np.int64).reshape(-1, len(labels), len(COLUMNS))


Stretches = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class CoverageCounts:
    """Characters and spans, for one note or many.

    Attributes
    ----------
    rows
        By label, and under `ANY`: golds, golds covered whole, gold characters, those of them that
        are covered. A character of two golds counts once.
    n_text_chars
        Characters of the notes.
    n_predicted_chars
        Characters that predictions cover.
    n_over_chars
        Those of them that no gold covers: taken out without need.
    """

    rows: Mapping[str, tuple[int, int, int, int]] = field(default_factory=dict)
    n_text_chars: int = 0
    n_predicted_chars: int = 0
    n_over_chars: int = 0

    def __add__(self, other: CoverageCounts) -> CoverageCounts:
        """Count two sets of notes together."""
        rows = {
            label: tuple(
                a + b for a, b in zip(self.row(label), other.row(label), strict=True)
            )
            for label in {*self.rows, *other.rows}
        }  # fmt: skip
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
    golds = merged(gold.spans)
    rows = {}
    spans_of: dict[str, list[Span]] = {ANY: list(gold.spans)} if gold.spans else {}
    for span in gold.spans:
        spans_of.setdefault(span.label, []).append(span)
    starts = [start for start, _ in removed]
    is_whole = {span: _is_inside(span, removed, starts=starts) for span in gold.spans}
    for label, spans in spans_of.items():
        union = merged(spans)
        n_whole = sum(is_whole[span] for span in spans)
        rows[label] = (len(spans), n_whole, _n_chars(union), _n_shared(union, removed))
    n_predicted = _n_chars(removed)
    return CoverageCounts(
        rows,
        len(gold.text),
        n_predicted,
        n_predicted - _n_shared(golds, removed),
    )


def _is_inside(span: Span, removed: Stretches, *, starts: list[int]) -> bool:
    at = bisect_right(starts, span.start) - 1
    return at >= 0 and span.end <= removed[at][1]


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
