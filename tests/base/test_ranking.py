"""AUC, ROC, TPR at an FPR and intervals against hand counts, properties and second sources."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score
from sklearn.metrics import roc_curve as sk_roc_curve

from audit.stats import auc, auc_interval, bootstrap_ranking, roc_curve, wilson
from tests.scored_lists import quick, scored_lists, tpr_at_fpr


def wins_of(scores, is_member):
    """[members, controls] 1 where the member is above, 0.5 where they are equal."""
    return np.array(
        [[(a > b) + 0.5 * (a == b) for b in scores[~is_member]] for a in scores[is_member]]
    )


def slow_tpr(scores, is_member, fpr):
    members, controls = scores[is_member], scores[~is_member]
    thresholds = [*np.unique(scores), -math.inf]
    return max(
        (members > t).mean() for t in thresholds if (controls > t).sum() / len(controls) <= fpr
    )


@quick
@given(scored_lists())
def test_auc_equals_the_pairwise_count_and_sklearn_and_mann_whitney(case):
    scores, is_member = case
    value = auc(scores, is_member)
    assert value == pytest.approx(wins_of(scores, is_member).mean(), abs=1e-12)
    assert value == pytest.approx(roc_auc_score(is_member, scores), abs=1e-12)
    u = stats.mannwhitneyu(scores[is_member], scores[~is_member], method="asymptotic").statistic
    assert value == pytest.approx(u / (is_member.sum() * (~is_member).sum()), abs=1e-12)


@quick
@given(scored_lists(), st.randoms(use_true_random=False))
def test_order_of_rows_never_matters(case, random):
    scores, is_member = case
    order = list(range(len(scores)))
    random.shuffle(order)
    fprs = (0.5, 0.2)
    given_order = bootstrap_ranking(scores, is_member, fprs=fprs, n_replicates=20, seed=3)
    shuffled = bootstrap_ranking(
        scores[order], is_member[order], fprs=fprs, n_replicates=20, seed=3
    )
    assert repr(given_order) == repr(shuffled)  # repr: NaN is equal to itself there


@quick
@given(scored_lists())
def test_roc_equals_sklearn(case):
    scores, is_member = case
    fpr, tpr, _ = sk_roc_curve(is_member, scores, drop_intermediate=False)
    np.testing.assert_allclose(roc_curve(scores, is_member)[:2], (fpr, tpr))


@quick
@given(scored_lists(), st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_tpr_equals_the_best_of_all_thresholds(case, fpr):
    scores, is_member = case
    value = tpr_at_fpr(scores, is_member, fpr=fpr)
    if fpr < 1 / (~is_member).sum():
        assert math.isnan(value)
    else:
        assert value == slow_tpr(scores, is_member, fpr)


def test_nan_scores_are_left_out_and_counted_and_columns_must_fit():
    scores, is_member = [3, math.nan, 1, 2, math.nan], [1, 1, 1, 0, 0]
    assert auc(scores, is_member) == 0.5
    ranking = bootstrap_ranking(scores, is_member, n_replicates=5, seed=1)
    assert (ranking.n_members, ranking.n_controls, ranking.n_not_scored) == (2, 1, 2)
    with pytest.raises(ValueError, match="two columns"):
        auc([1, 2, 3], [1, 0])


@pytest.mark.long
@pytest.mark.parametrize("digits", [0, 1, 9])  # many names of one score, some, none
@pytest.mark.parametrize("fpr", [0.02, 0.1, 0.5])
def test_bootstrap_equals_a_plain_loop_over_drawn_names(digits, fpr):
    rng = np.random.default_rng(5)
    scores = np.round(rng.normal(size=90) + 0.8 * (np.arange(90) < 40), digits)
    is_member = np.arange(90) < 40
    tprs = []
    for _ in range(2000):
        rows = np.concatenate([rng.integers(0, 40, 40), rng.integers(40, 90, 50)])
        tprs.append(tpr_at_fpr(scores[rows], is_member, fpr=fpr))
    ranking = bootstrap_ranking(scores, is_member, fprs=(fpr,), seed=7)
    # Two sets of 2,000 replicates: percentiles differ by a few hundredths at most.
    assert [ranking.tpr_at_fpr[0][1].low, ranking.tpr_at_fpr[0][1].high] == pytest.approx(
        np.quantile(tprs, [0.025, 0.975]), abs=0.051
    )


def plain_delong(scores, is_member):
    """AUC, variance and Satterthwaite's degrees of freedom, pair by pair."""
    wins = wins_of(scores, is_member)
    sizes = np.array(wins.shape)
    parts = np.array([wins.mean(axis=axis).var(ddof=1) for axis in (1, 0)]) / sizes
    freedom = parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum()
    return wins.mean(), parts.sum(), freedom


def test_names_of_their_own_have_delongs_interval():
    rng = np.random.default_rng(2)
    is_member = np.arange(90) < 40
    scores = np.round(rng.normal(size=90) + 0.8 * is_member, 1)
    area, variance, freedom = plain_delong(scores, is_member)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(variance) / (area * (1 - area))
    odds = math.log(area / (1 - area))
    own_clusters = [np.arange(90), np.full(90, -1)]
    for auc_estimate in (
        auc_interval(scores, is_member),
        auc_interval(scores, is_member, clusters=own_clusters),
    ):
        assert auc_estimate.value == pytest.approx(area)
        for bound, sign in ((auc_estimate.low, -1), (auc_estimate.high, 1)):
            assert bound == pytest.approx(1 / (1 + math.exp(-odds - sign * half)))


def test_names_that_share_a_part_widen_the_interval_as_a_plain_sum_says():
    rng = np.random.default_rng(4)
    is_member = np.arange(120) < 60
    first, last = (rng.integers(0, n, 120) + n * is_member for n in (20, 30))
    scores = rng.normal(size=40)[first] + rng.normal(size=60)[last]
    area, alone, own_freedom = plain_delong(scores, is_member)
    wins = wins_of(scores, is_member)
    share = np.concatenate([wins.mean(axis=1) - area, wins.mean(axis=0) - area])
    share /= math.sqrt(60 * 59)
    pairs = [
        share[i] * share[j]
        for i in range(120)
        for j in range(120)
        if first[i] == first[j] or last[i] == last[j]
    ]
    intervals_by_column = [
        share[i] * share[j]
        for i in range(120)
        for j in range(120)
        if i != j and first[i] == first[j] and last[i] == last[j]
    ]
    # Both sums count a pair that shares both parts twice.
    expected = sum(pairs) + sum(intervals_by_column)
    auc_estimate = auc_interval(scores, is_member, clusters=[first, last])
    narrow = auc_interval(scores, is_member)
    assert expected > 1.2 * alone
    widths = [
        math.log(e.high / (1 - e.high)) - math.log(e.low / (1 - e.low))
        for e in (auc_estimate, narrow)
    ]
    sizes = [
        np.bincount(clusters_alone[side]) / side.sum()
        for clusters_alone in (first, last)
        for side in (is_member, ~is_member)
    ]
    freedom = min(min(1 / (s**2).sum() for s in sizes) - 1, own_freedom)
    wider = stats.t.ppf(0.975, freedom) / stats.t.ppf(0.975, own_freedom)
    assert widths[0] / widths[1] == pytest.approx(wider * math.sqrt(expected / alone))


def test_too_few_different_parts_have_a_value_and_no_interval():
    scores = np.arange(60.0)
    is_member, surname = np.arange(60) < 30, np.where(np.arange(60) < 30, 0, np.arange(60))
    auc_estimate = auc_interval(scores, is_member, clusters=[np.arange(60), surname])
    assert (
        auc_estimate.value == 0.0 and math.isnan(auc_estimate.low) and math.isnan(auc_estimate.high)
    )
    ten = np.where(np.arange(60) < 30, np.arange(60) % 10, np.arange(60))
    assert not math.isnan(auc_interval(scores, is_member, clusters=[ten]).low)
    nine = np.where(np.arange(60) < 30, np.arange(60) % 9, np.arange(60))
    assert math.isnan(auc_interval(scores, is_member, clusters=[nine]).low)
    few = np.arange(54) < 4  # under five names the interval is Wilson's of that many
    auc_estimate = auc_interval(np.random.default_rng(4).normal(size=54), few)
    assert auc_estimate == wilson(auc_estimate.value, n_total=4)


FAMILIES = {
    "binormal": lambda rng, m, n, d: (rng.normal(d, 1, m), rng.normal(0, 1, n)),
    "mixture": lambda rng, m, n, d: (
        rng.normal(0, 1, m) + 4 * (rng.random(m) < d),
        rng.normal(0, 1, n),
    ),
}
SHIFTS = {  # that give an AUC of .5, .75, .95
    "binormal": lambda a: stats.norm.ppf(a) * math.sqrt(2),
    "mixture": lambda a: (a - 0.5) / (stats.norm.cdf(4 / math.sqrt(2)) - 0.5),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("m", "n"), [(5, 20), (5, 130), (10, 10), (20, 130)])
def test_the_interval_covers_from_five_members_on(family, m, n):
    # The whole table, 2,000 lists a case, is made by benchmarks/score_errors.py.
    is_member = np.arange(m + n) < m
    for area in (0.5, 0.75, 0.95):
        rng = np.random.default_rng([m, n, int(100 * area)])
        n_covered = 0
        for _ in range(200):
            scores = np.concatenate(FAMILIES[family](rng, m, n, SHIFTS[family](area)))
            auc_estimate = auc_interval(scores, is_member)
            n_covered += auc_estimate.low <= area <= auc_estimate.high
        assert n_covered >= 180, (area, n_covered)  # 92 % less two standard errors
