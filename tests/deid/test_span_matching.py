"""Matching against brute force and a plain left-to-right pass, whatever the order of the input."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.measure.span_matching import CRITERIA, MATCHERS, match
from audit.notes.spans import TYPES, Span
from tests.deid.make_scores import spans_within

SIDE = spans_within(*TYPES[:3])


def qualifies(gold: Span, predicted: Span, criterion: str) -> bool:
    if criterion == "strict":
        return gold == predicted
    shares = set(range(gold.start, gold.end)) & set(range(predicted.start, predicted.end))
    return bool(shares) and (criterion == "label_relaxed" or gold.label == predicted.label)


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
    choices = [[None, *(p for p in predictions if qualifies(g, p, criterion))] for g in golds]
    best = (0, 0, 0, 0)
    for chosen in itertools.product(*choices):
        used_predictions = [p for p in chosen if p is not None]
        if len(used_predictions) == len(set(used_predictions)):
            best = max(best, worth([(g, p) for g, p in zip(golds, chosen, strict=True) if p]))
    return best


def from_left_to_right(golds, predictions, criterion: str) -> list[tuple[Span, Span]]:
    pairs, free = [], sorted(set(predictions))
    for gold in sorted(set(golds)):
        fitting = [p for p in free if qualifies(gold, p, criterion)]
        if fitting:
            pairs.append((gold, fitting[0]))
            free.remove(fitting[0])
    return pairs


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(SIDE, SIDE, st.sampled_from(CRITERIA), st.randoms(use_true_random=False))
def test_both_matchers_against_slow_ones_in_any_order(golds, predictions, criterion, randomly):
    matches = {}
    for matcher in MATCHERS:
        outcome = match(golds, predictions, criterion=criterion, matcher=matcher)
        assert sorted([g for g, _ in outcome.pairs] + list(outcome.missed)) == sorted(set(golds))
        assert sorted([p for _, p in outcome.pairs] + list(outcome.spurious)) == sorted(
            set(predictions)
        )
        assert all(qualifies(g, p, criterion) for g, p in outcome.pairs)
        assert [list(side) for side in (outcome.pairs, outcome.missed, outcome.spurious)] == [
            sorted(side) for side in (outcome.pairs, outcome.missed, outcome.spurious)
        ]
        mixed, mixed_predictions = golds + golds[:1], predictions + predictions[:2]
        randomly.shuffle(mixed)
        randomly.shuffle(mixed_predictions)
        assert match(mixed, mixed_predictions, criterion=criterion, matcher=matcher) == outcome
        matches[matcher] = dict(outcome.pairs)
    best, in_order = matches["optimal"], matches["document_order"]
    assert worth(best.items()) == by_brute_force(golds, predictions, criterion)
    assert list(in_order.items()) == from_left_to_right(golds, predictions, criterion)
    # Golds with another partner, or none, under the other matcher: the same from either side.
    n_differing = sum(best.get(gold) != in_order.get(gold) for gold in set(golds))
    for matcher in MATCHERS:
        outcome = match(golds, predictions, criterion=criterion, matcher=matcher)
        assert outcome.n_differing == n_differing


def test_a_long_chain_of_overlaps_is_quick():
    golds = [Span(10 * i, 10 * i + 8, "contact") for i in range(400)]
    predictions = [Span(10 * i + 5, 10 * i + 13, "contact") for i in range(400)]
    begin = time.process_time()
    matches = match(golds, predictions, criterion="label_relaxed")
    assert len(matches.pairs) == 400
    assert time.process_time() - begin < 10
