"""Matching against brute force, by hand, and whatever the order of the input."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.matching import CRITERIA, MATCHERS, Matches, match, n_differing
from audit.notes.spans import Span

LABELS = ("identifier", "quasi_identifier", "contact")


@st.composite
def spans(draw, largest: int = 14):
    start = draw(st.integers(0, largest))
    return Span(start, draw(st.integers(start + 1, largest + 1)), draw(st.sampled_from(LABELS)))


SIDE = st.lists(spans(), max_size=5)


def qualifies(gold: Span, predicted: Span, criterion: str) -> bool:
    if criterion == "strict":
        return gold == predicted
    shares = len(set(range(gold.start, gold.end)) & set(range(predicted.start, predicted.end))) > 0
    return shares and (criterion == "label_relaxed" or gold.label == predicted.label)


def worth(pairs) -> tuple[int, int, int, int]:
    return (
        len(pairs),
        sum(g.label == p.label for g, p in pairs),
        sum(min(g.end, p.end) - max(g.start, p.start) for g, p in pairs),
        -sum(abs(g.start - p.start) + abs(g.end - p.end) for g, p in pairs),
    )


def by_brute_force(golds, predictions, criterion: str) -> tuple[int, int, int, int]:
    """Try every partner, or none, of every gold."""
    golds, predictions = sorted(set(golds)), sorted(set(predictions))
    choices = [
        [None, *(p for p in predictions if qualifies(g, p, criterion))] for g in golds
    ]  # fmt: skip
    best = (0, 0, 0, 0)
    for chosen in itertools.product(*choices):
        taken = [p for p in chosen if p is not None]
        if len(taken) == len(set(taken)):
            best = max(best, worth([(g, p) for g, p in zip(golds, chosen, strict=True) if p]))
    return best


@settings(max_examples=400, deadline=None)
@given(golds=SIDE, predictions=SIDE, criterion=st.sampled_from(CRITERIA))
def test_optimal_is_the_best_of_all_matchings(golds, predictions, criterion):
    found = match(golds, predictions, criterion=criterion)
    assert worth(found.pairs) == by_brute_force(golds, predictions, criterion)


@settings(max_examples=200, deadline=None)
@given(
    golds=SIDE,
    predictions=SIDE,
    criterion=st.sampled_from(CRITERIA),
    matcher=st.sampled_from(MATCHERS),
    randomly=st.randoms(use_true_random=False),
)
def test_order_and_repetition_change_nothing(golds, predictions, criterion, matcher, randomly):
    first = match(golds, predictions, criterion=criterion, matcher=matcher)
    golds, predictions = golds + golds[:1], predictions + predictions[:2]
    randomly.shuffle(golds)
    randomly.shuffle(predictions)
    assert match(golds, predictions, criterion=criterion, matcher=matcher) == first


@settings(max_examples=200, deadline=None)
@given(
    golds=SIDE,
    predictions=SIDE,
    criterion=st.sampled_from(CRITERIA),
    matcher=st.sampled_from(MATCHERS),
)
def test_every_span_has_one_place(golds, predictions, criterion, matcher):
    found = match(golds, predictions, criterion=criterion, matcher=matcher)
    assert sorted([g for g, _ in found.pairs] + list(found.missed)) == sorted(set(golds))
    assert sorted([p for _, p in found.pairs] + list(found.spurious)) == sorted(set(predictions))
    assert all(qualifies(g, p, criterion) for g, p in found.pairs)


def test_a_wide_prediction_takes_one_gold_only():
    golds = [Span(0, 2, "contact"), Span(3, 5, "contact")]
    found = match(golds, [Span(0, 5, "contact")], criterion="relaxed")
    assert (len(found.pairs), len(found.missed), len(found.spurious)) == (1, 1, 0)


def test_the_matchers_differ_where_the_first_prediction_is_not_the_best():
    gold = [Span(0, 4, "identifier"), Span(4, 8, "contact")]
    predicted = [Span(3, 5, "contact"), Span(0, 3, "identifier")]
    optimal = match(gold, predicted, criterion="label_relaxed")
    in_order = match(gold, predicted, criterion="label_relaxed", matcher="document_order")
    assert [p.label for _, p in optimal.pairs] == ["identifier", "contact"]
    assert optimal == in_order and n_differing(optimal, in_order) == 0
    gold = [Span(0, 9, "identifier")]
    predicted = [Span(0, 1, "contact"), Span(2, 9, "identifier")]
    optimal = match(gold, predicted, criterion="label_relaxed")
    in_order = match(gold, predicted, criterion="label_relaxed", matcher="document_order")
    assert optimal.pairs[0][1].label == "identifier"
    assert in_order.pairs[0][1].label == "contact"
    assert n_differing(optimal, in_order) == 1


def test_document_order_can_lose_a_pair_that_optimal_finds():
    gold = [Span(0, 6, "contact"), Span(1, 2, "contact")]
    predicted = [Span(0, 3, "contact"), Span(4, 6, "contact")]
    optimal = match(gold, predicted, criterion="relaxed")
    in_order = match(gold, predicted, criterion="relaxed", matcher="document_order")
    assert (len(optimal.pairs), len(in_order.pairs)) == (2, 1)
    assert n_differing(optimal, in_order) == n_differing(in_order, optimal) == 2


def test_nothing_matches_nothing():
    assert match([], [], criterion="strict") == Matches((), (), ())


def test_unknown_criteria_are_refused():
    with pytest.raises(ValueError, match="no such"):
        match([], [], criterion="lenient")


def test_a_long_chain_of_overlaps_is_quick():
    golds = [Span(10 * i, 10 * i + 8, "contact") for i in range(400)]
    predictions = [Span(10 * i + 5, 10 * i + 13, "contact") for i in range(400)]
    begin = time.perf_counter()
    found = match(golds, predictions, criterion="label_relaxed")
    assert len(found.pairs) == 400
    assert time.perf_counter() - begin < 10
