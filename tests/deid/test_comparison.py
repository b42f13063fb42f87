"""Comparing two taggers, and names seen in training with others."""

from __future__ import annotations

import random

import pytest

from audit.deid.matching import MatchCounts, match
from audit.deid.metrics import Discordant, compare, seen_score
from audit.notes.spans import Span, tagged
from tests.deid.make_scores import counts_of

TEXT = "Ann saw Bob today"
ANN, BOB = Span(0, 3, "identifier"), Span(8, 11, "identifier")


def counts(hits: list[bool]) -> MatchCounts:
    return counts_of([match([ANN, BOB], [ANN] + [BOB] * hit, criterion="strict") for hit in hits])


def test_the_same_tagger_does_not_differ_from_itself():
    side = counts([True, False] * 20)
    for difference in compare(side, side):
        assert (difference.estimate.value, difference.estimate.low) == (0.0, 0.0)
        assert difference.p == 1.0


def test_a_clear_difference_is_seen_and_changes_sign_with_the_order():
    good, bad = counts([True] * 40), counts([i % 2 == 0 for i in range(40)])
    recall = compare(good, bad)[1]
    assert recall.estimate.value == pytest.approx(0.25)
    assert 0 < recall.estimate.low < 0.25 < recall.estimate.high and recall.p < 0.01
    assert compare(bad, good)[1].estimate.value == pytest.approx(-0.25)


def test_chance_alone_gives_no_small_p_too_often():
    rng = random.Random(3)
    n_small = 0
    for seed in range(60):
        sides = [counts([rng.random() < 0.5 for _ in range(15)]) for _ in range(2)]
        n_small += compare(*sides, seed=seed, n_replicates=200)[1].p < 0.1
    assert n_small <= 14  # 6 are expected; more than 14 has probability 0.001


def test_counts_of_other_notes_are_refused():
    other = counts_of([match([ANN], [], criterion="strict")])
    with pytest.raises(ValueError, match="same notes"):
        compare(counts([True]), other)


def test_discordant_golds_and_their_sign_test():
    assert Discordant(n_first_only=1, n_second_only=0, n_both=2, n_neither=1).p == 1.0
    assert Discordant(0, 0, 3, 1).p == 1.0
    stats = pytest.importorskip("scipy.stats")
    for first, second in ((0, 5), (3, 9), (4, 4)):
        expected = stats.binomtest(first, first + second).pvalue
        assert Discordant(first, second, 0, 0).p == pytest.approx(expected)


def test_recall_on_seen_and_unseen_names():
    training = [tagged("t", text="ＡＮＮ here", spans=[Span(0, 3, "identifier")])]
    gold = tagged("1", text=TEXT, spans=[ANN, BOB])
    found = seen_score([(gold, gold.with_spans([ANN]))], training, criterion="strict")
    (row,) = found.labels
    assert found.n_forms == 1
    assert (row.label, row.seen) == ("identifier", (1, 1))
    assert row.unseen == (0, 1)
