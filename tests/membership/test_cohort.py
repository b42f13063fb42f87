"""The cohort test and what a list could have shown."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.membership.cohort import (
    cohort_test,
    hanley_mcneil_error,
    smallest_detectable_auc,
    smallest_finding,
)
from audit.rates import auc, bootstrap_ranking

quick = settings(deadline=None, max_examples=25)


def one_length(members, controls, **settings_):
    return cohort_test(
        members,
        control_scores=controls,
        member_n_pieces=[2] * len(members),
        control_n_pieces=[2] * len(controls),
        **settings_,
    )


def test_p_is_near_the_share_of_all_labellings():
    # 5 4 | 3 2 1: the top two of five: one of ten labellings is as high.
    result = one_length([5, 4], [3, 2, 1], seed=1)
    assert result.p == pytest.approx(0.1, abs=0.015)
    assert result.effect == 1.0


def test_no_p_is_below_one_over_the_number_of_permutations():
    result = one_length(np.arange(50) + 100, np.arange(50), seed=1, n_permutations=99)
    assert result.p == 0.01


def test_two_lengths_are_permuted_within_themselves():
    # Every labelling within the lengths, by hand: 2 pieces 1 of 3, 3 pieces 1 of 2.
    members, lengths = np.array([3.0, 10.0]), np.array([2, 3])
    controls, control_lengths = np.array([2.0, 1.0, 20.0]), np.array([2, 2, 3])
    sums = [a[0] / 4 + b[0] / 3 for a in permutations([3, 2, 1]) for b in permutations([1, 2])]
    share = np.mean(np.array(sums) >= 3 / 4 + 1 / 3 - 1e-9)
    result = cohort_test(
        members,
        control_scores=controls,
        member_n_pieces=lengths,
        control_n_pieces=control_lengths,
        seed=2,
    )
    assert result.p == pytest.approx(share, abs=0.02)
    assert result.effect == pytest.approx(2 / 3)  # two of the three pairs of equal length


def test_longer_names_with_higher_scores_do_not_make_a_finding():
    rng = np.random.default_rng(3)
    lengths = np.repeat([2, 4], [10, 90])
    control_lengths = np.repeat([2, 4], [90, 10])
    result = cohort_test(
        rng.normal(size=100) + lengths,
        control_scores=rng.normal(size=100) + control_lengths,
        member_n_pieces=lengths,
        control_n_pieces=control_lengths,
        seed=1,
    )
    assert result.p > 0.05


@quick
@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=15),
    st.lists(st.integers(-4, 4), min_size=1, max_size=15),
)
def test_effect_of_one_length_is_the_auc(members, controls):
    result = one_length(members, controls, seed=1, n_permutations=9)
    truth = [1] * len(members) + [0] * len(controls)
    assert result.effect == pytest.approx(auc(members + controls, truth))
    assert 0.1 <= result.p <= 1


def test_p_is_near_mann_whitneys():
    rng = np.random.default_rng(8)
    members, controls = rng.normal(size=60) + 0.3, rng.normal(size=80)
    expected = stats.mannwhitneyu(members, controls, alternative="greater").pvalue
    assert one_length(members, controls, seed=1).p == pytest.approx(expected, abs=0.01)


def test_p_is_uniform_where_nothing_leaks():
    rng = np.random.default_rng(5)
    p = [
        one_length(rng.normal(size=20), rng.normal(size=20), seed=s, n_permutations=199).p
        for s in range(300)
    ]
    assert stats.kstest(p, "uniform").pvalue > 0.01
    assert np.mean(np.array(p) <= 0.05) <= 0.09


def test_order_of_rows_never_matters():
    rng = np.random.default_rng(6)
    members, controls = np.round(rng.normal(size=25), 1), np.round(rng.normal(size=30), 1)
    first = one_length(members, controls, seed=4, n_permutations=299)
    assert one_length(members[::-1], controls[::-1], seed=4, n_permutations=299) == first


def test_names_left_out_are_counted():
    result = cohort_test(
        [1.0, math.nan, 3.0],
        control_scores=[0.5, 2.0, math.nan],
        member_n_pieces=[2, 2, 5],
        control_n_pieces=[2, 3, 2],
        seed=1,
        n_permutations=9,
    )
    assert (result.n_members, result.n_controls) == (1, 1)
    assert (result.n_not_scored, result.n_unmatched) == (2, 2)


def test_without_a_common_length_there_is_no_p():
    result = cohort_test(
        [1.0], control_scores=[0.5], member_n_pieces=[2], control_n_pieces=[3], seed=1
    )
    assert math.isnan(result.p)
    assert math.isnan(result.effect)


def test_columns_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="differ in length"):
        cohort_test(
            [1.0], control_scores=[0.5], member_n_pieces=[2, 2], control_n_pieces=[3], seed=1
        )


# --- what a list could have shown -----------------------------------------------------------


def test_hanley_mcneil_by_hand():
    # A = .8, 10 against 20: Q1 = .8 / 1.2, Q2 = 1.28 / 1.8;
    # .16 + 9 * (.666667 - .64) + 19 * (.711111 - .64) = 1.751111; / 200, root = .0935711
    assert hanley_mcneil_error(0.8, n_members=10, n_controls=20) == pytest.approx(
        0.0935711, abs=1e-6
    )


def test_hanley_mcneil_at_one_half_is_the_rank_sum_tests():
    # The variance of the Mann-Whitney U under the null: m n (m + n + 1) / 12.
    expected = math.sqrt((30 + 50 + 1) / (12 * 30 * 50))
    assert hanley_mcneil_error(0.5, n_members=30, n_controls=50) == pytest.approx(expected)


@pytest.mark.parametrize(("n_members", "n_controls"), [(130, 130), (130, 260), (20, 500), (4, 4)])
def test_smallest_auc_solves_its_equation(n_members, n_controls):
    smallest = smallest_detectable_auc(n_members, n_controls=n_controls)
    error = hanley_mcneil_error(smallest, n_members=n_members, n_controls=n_controls)
    assert smallest == pytest.approx(0.5 + (1.959964 + 0.841621) * error, abs=1e-6)


@quick
@given(st.integers(4, 3000), st.integers(4, 3000), st.floats(0.5, 0.95))
def test_longer_lists_and_less_power_show_smaller_effects(n_members, n_controls, power):
    smallest = smallest_detectable_auc(n_members, n_controls=n_controls, power=power)
    assert 0.5 < smallest < 1
    assert smallest_detectable_auc(n_members + 50, n_controls=n_controls, power=power) < smallest
    assert smallest_detectable_auc(n_members, n_controls=n_controls, power=0.99) > smallest


def test_simulated_lists_at_the_smallest_auc_show_it_four_times_in_five():
    n_members, n_controls, n_lists = 130, 130, 300
    smallest = smallest_detectable_auc(n_members, n_controls=n_controls)
    shift = math.sqrt(2) * stats.norm.ppf(smallest)  # binormal scores with this AUC
    rng = np.random.default_rng(9)
    is_member = np.arange(n_members + n_controls) < n_members
    n_shown = 0
    for seed in range(n_lists):
        scores = rng.normal(size=len(is_member)) + shift * is_member
        n_shown += bootstrap_ranking(scores, is_member, n_replicates=300, seed=seed).auc.low > 0.5
    assert n_shown / n_lists == pytest.approx(0.8, abs=0.08)  # 3.5 standard errors


@pytest.mark.parametrize(("n_members", "n_controls"), [(3, 3), (1, 38), (0, 500), (5, 0)])
def test_a_list_that_chance_ranks_perfectly_shows_nothing(n_members, n_controls):
    assert math.isnan(smallest_detectable_auc(n_members, n_controls=n_controls))


def test_impossible_power_is_refused():
    with pytest.raises(ValueError, match="power"):
        smallest_detectable_auc(10, n_controls=10, power=1.0)


def test_130_controls_show_no_fewer_than_twenty_names_and_2600_show_one():
    assert smallest_finding(130, n_reference=130).n_flagged == 20
    finding = smallest_finding(130, n_reference=2600)
    assert (finding.p, finding.n_flagged) == (1 / 2601, 1)
    assert smallest_finding(130, n_reference=10).n_flagged is None
