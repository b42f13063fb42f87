"""AUC, ROC, TPR at an FPR and intervals against hand counts, properties and second sources."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score
from sklearn.metrics import roc_curve as sk_roc_curve

from audit.rates import auc, bootstrap_ranking, percentile_interval, roc_curve, tpr_at_fpr
from tests.scored_lists import quick, scored_lists

LOSSES = Path(__file__).parents[1].parent / "shared" / "data" / "clinical_mlm_losses"


def slow_auc(scores, is_member):
    wins = [
        1.0 if m > c else 0.5 if m == c else 0.0
        for m in scores[is_member]
        for c in scores[~is_member]
    ]
    return sum(wins) / len(wins)


def slow_tpr(scores, is_member, fpr):
    members, controls = scores[is_member], scores[~is_member]
    thresholds = [*np.unique(scores), -math.inf]
    return max(
        (members > t).mean() for t in thresholds if (controls > t).sum() / len(controls) <= fpr
    )


# --- AUC, ROC, TPR at FPR -------------------------------------------------------------------


def test_auc_of_five_names_by_hand():
    # members 3, 1; controls 2, 1, 0: 3 beats all (3), 1 ties one and beats one (1.5): 4.5 of 6
    assert auc([3, 1, 2, 1, 0], [1, 1, 0, 0, 0]) == 0.75


@quick
@given(scored_lists())
def test_auc_equals_the_pairwise_count_and_sklearn_and_mann_whitney(case):
    scores, is_member = case
    value = auc(scores, is_member)
    assert value == pytest.approx(slow_auc(scores, is_member), abs=1e-12)
    assert value == pytest.approx(roc_auc_score(is_member, scores), abs=1e-12)
    u = stats.mannwhitneyu(scores[is_member], scores[~is_member], method="asymptotic").statistic
    assert value == pytest.approx(u / (is_member.sum() * (~is_member).sum()), abs=1e-12)


@quick
@given(scored_lists())
def test_negated_scores_turn_the_auc_round(case):
    scores, is_member = case
    assert auc(-scores, is_member) == pytest.approx(1 - auc(scores, is_member), abs=1e-12)


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
    curve = roc_curve(scores, is_member)
    fpr, tpr, _ = sk_roc_curve(is_member, scores, drop_intermediate=False)
    np.testing.assert_allclose(curve.fpr, fpr)
    np.testing.assert_allclose(curve.tpr, tpr)


@quick
@given(scored_lists())
def test_each_roc_point_is_what_its_threshold_flags(case):
    scores, is_member = case
    curve = roc_curve(scores, is_member)
    for fpr, tpr, threshold in zip(curve.fpr, curve.tpr, curve.threshold, strict=True):
        assert fpr == (scores[~is_member] > threshold).mean()
        assert tpr == (scores[is_member] > threshold).mean()


def test_tpr_is_taken_without_interpolation():
    # Highest first: a member; a member tied with two controls; a control. FPR .5 allows one of the
    # three controls, so the tie cannot be passed: TPR .5 (on the line between the points: .875).
    scores, is_member = [3, 2, 2, 2, 1], [1, 1, 0, 0, 0]
    assert tpr_at_fpr(scores, is_member, fpr=0.5) == 0.5
    assert tpr_at_fpr(scores, is_member, fpr=0.67) == 1.0


def test_a_member_tied_with_a_control_is_not_found_before_it():
    assert tpr_at_fpr([2, 2, 1], [1, 0, 0], fpr=0.5) == 1.0
    assert tpr_at_fpr([2, 2, 2, 1, 0], [1, 0, 0, 0, 0], fpr=0.25) == 0.0


def test_tpr_below_one_control_is_not_resolvable():
    scores, is_member = np.arange(200.0), np.arange(200) >= 100
    assert tpr_at_fpr(scores, is_member, fpr=0.01) == 1.0
    assert math.isnan(tpr_at_fpr(scores, is_member, fpr=0.009))


def test_13_of_130_controls_are_10_percent():
    # Fourteen controls from the top, a member below each: exactly 13 controls may be passed.
    scores = np.concatenate([np.arange(130) + 0.5, np.arange(130)])
    is_member = np.arange(260) >= 130
    assert tpr_at_fpr(scores, is_member, fpr=0.1) == 13 / 130


@quick
@given(scored_lists(), st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_tpr_equals_the_best_of_all_thresholds(case, fpr):
    scores, is_member = case
    value = tpr_at_fpr(scores, is_member, fpr=fpr)
    if fpr < 1 / (~is_member).sum():
        assert math.isnan(value)
    else:
        assert value == slow_tpr(scores, is_member, fpr)


def test_nan_scores_are_left_out_and_counted():
    scores, is_member = [3, math.nan, 1, 2, math.nan], [1, 1, 1, 0, 0]
    assert auc(scores, is_member) == 0.5
    ranking = bootstrap_ranking(scores, is_member, n_replicates=5, seed=1)
    assert (ranking.n_members, ranking.n_controls, ranking.n_not_scored) == (2, 1, 2)


@pytest.mark.parametrize("truth", [[1, 1], [0, 0]])
def test_one_kind_of_names_has_no_ranking(truth):
    assert math.isnan(auc([1, 2], truth))
    assert math.isnan(tpr_at_fpr([1, 2], truth, fpr=0.5))
    assert math.isnan(bootstrap_ranking([1, 2], truth, seed=1).auc.low)


def test_columns_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="two columns"):
        auc([1, 2, 3], [1, 0])


# --- bootstrap ------------------------------------------------------------------------------


def test_bootstrap_equals_a_plain_loop_over_drawn_names():
    rng = np.random.default_rng(5)
    scores = np.round(rng.normal(size=90) + 0.8 * (np.arange(90) < 40), 1)
    is_member = np.arange(90) < 40
    aucs, tprs = [], []
    for _ in range(2000):
        rows = np.concatenate([rng.integers(0, 40, 40), rng.integers(40, 90, 50)])
        aucs.append(auc(scores[rows], is_member))
        tprs.append(tpr_at_fpr(scores[rows], is_member, fpr=0.1))
    ranking = bootstrap_ranking(scores, is_member, fprs=(0.1,), seed=7)
    # Two sets of 2,000 replicates: percentiles differ by a few hundredths at most.
    assert [ranking.auc.low, ranking.auc.high] == pytest.approx(
        np.quantile(aucs, [0.025, 0.975]), abs=0.01
    )
    assert [ranking.tpr_at_fpr[0][1].low, ranking.tpr_at_fpr[0][1].high] == pytest.approx(
        np.quantile(tprs, [0.025, 0.975]), abs=0.051
    )


def test_bootstrap_does_not_depend_on_the_chunks(monkeypatch):
    rng = np.random.default_rng(1)
    scores, is_member = rng.normal(size=60), np.arange(60) < 30
    whole = bootstrap_ranking(scores, is_member, n_replicates=400, seed=2).auc
    monkeypatch.setattr("audit.rates._CELLS_PER_CHUNK", 60 * 7)
    parts = bootstrap_ranking(scores, is_member, n_replicates=400, seed=2).auc
    assert parts.value == whole.value
    assert parts.low == pytest.approx(whole.low, abs=0.03)
    assert parts.high == pytest.approx(whole.high, abs=0.03)


def test_bootstrap_covers_the_true_auc_about_95_times_in_100():
    rng = np.random.default_rng(11)
    true_auc = stats.norm.cdf(1 / math.sqrt(2))  # binormal, shift 1
    is_member = np.arange(120) < 60
    n_covered = 0
    for seed in range(300):
        scores = rng.normal(size=120) + is_member
        estimate = bootstrap_ranking(scores, is_member, n_replicates=300, seed=seed).auc
        n_covered += estimate.low <= true_auc <= estimate.high
    assert 0.90 <= n_covered / 300 <= 0.985


def test_same_seed_same_interval_other_seed_another():
    rng = np.random.default_rng(3)
    scores, is_member = rng.normal(size=80), np.arange(80) < 40
    first, again, other = (
        bootstrap_ranking(scores, is_member, n_replicates=200, seed=s).auc for s in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_three_against_three_is_never_certain():
    ranking = bootstrap_ranking([6, 5, 4, 3, 2, 1], [1, 1, 1, 0, 0, 0], seed=1)
    assert ranking.auc.value == 1.0
    assert ranking.auc.low == pytest.approx(
        stats.binomtest(3, 3).proportion_ci(method="wilson").low
    )


def test_percentiles_of_replicates_by_hand():
    estimate = percentile_interval(0.5, replicates=np.linspace(0, 1, 41), n_names=9)
    assert (estimate.low, estimate.high) == pytest.approx((0.025, 0.975))


# --- known answers --------------------------------------------------------------------------


@pytest.mark.skipif(not LOSSES.is_dir(), reason="the shared data folder is not beside the checkout")
def test_published_losses_give_the_known_auc_and_tprs():
    target, reference = (
        np.concatenate(
            [np.loadtxt(LOSSES / f"{who}_{which}.txt") for who in ("members", "nonmembers")]
        )
        for which in ("target", "reference")
    )
    n_members = len(np.loadtxt(LOSSES / "members_target.txt"))
    is_member = np.arange(len(target)) < n_members
    scores = reference - target
    assert auc(scores, is_member) == pytest.approx(0.928009, abs=5e-7)
    tprs = [tpr_at_fpr(scores, is_member, fpr=fpr) for fpr in (0.1, 0.01, 0.001)]
    assert tprs == pytest.approx([0.8099, 0.6045, 0.3721], abs=5e-5)
    assert auc(-target, is_member) == pytest.approx(0.660573, abs=5e-7)
    assert auc(reference, is_member) == pytest.approx(0.812, abs=5e-4)
