"""Matching: which predicted span stands for which gold span, one to one, in one note.

Three criteria (paper 2.4.1): strict (same span, same label), relaxed (same label, at least one
character shared), label_relaxed (at least one character shared). Each is a matching of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from audit.deid.assignment import best_assignment
from audit.deid.documents import Span

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
