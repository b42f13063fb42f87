"""p-values, q-values, critical scores and held-out thresholds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from audit.attack.decisions import (
    ComparisonPool,
    critical_score,
    decide,
    judge_held_out,
    name_p_values,
    q_values,
    rank_p_values,
    undecided_mask,
)
from audit.attack.measure_types import Confusion
from audit.stats import benjamini_hochberg
from tests.scored_lists import quick, values


def pool_of(scores, groups, rows=None) -> ComparisonPool:
    rows = np.full(len(scores), -1) if rows is None else np.array(rows)
    return ComparisonPool(np.array(scores, float), np.array(groups), rows)


def decided(scores, *, errors, groups, is_member, pool, **options):
    return decide(
        np.array(scores, float),
        standard_errors=np.array(errors, float),
        n_blocks=20,
        groups=np.array(groups),
        is_member=is_member,
        pool=pool,
        **options,
    )


@quick
@given(st.lists(values, min_size=1, max_size=20), st.lists(values, min_size=1, max_size=20))
def test_p_counts_controls_as_high_and_falls_with_the_score(scores, controls):
    p = rank_p_values(scores, controls=controls)
    for score, value in zip(scores, p, strict=True):
        assert value == (1 + sum(c >= score for c in controls)) / (1 + len(controls))
    order = np.argsort(scores)
    assert (np.diff(p[order]) <= 0).all()


@pytest.mark.parametrize(("n_controls", "is_judged"), [(200, True), (199, False)])
def test_fewer_than_200_comparable_controls_judge_nobody(n_controls, is_judged):
    scores = [*np.arange(float(n_controls)), math.nan, math.nan]
    decisions = decided(
        [1e9], errors=[0.0], groups=[2], is_member=[True], pool=pool_of(scores, [2] * len(scores))
    )
    assert decisions.decision.tolist() == ["flagged" if is_judged else "not judged"]
    assert np.isnan(decisions.q[0]) != is_judged


def test_controls_are_a_family_of_their_own():
    p = np.array([0.01, 0.03, 0.2, 0.02, 0.5])
    q = q_values(p, is_member=[True, None, True, False, False])
    np.testing.assert_allclose(q[:3], stats.false_discovery_control(p[:3]))
    np.testing.assert_allclose(q[3:], stats.false_discovery_control(p[3:]))


def test_q_of_exactly_5_percent_is_not_missed_by_rounding():
    # 17 of 25 names at p = 34 / 1000: q = .034 * 25 / 17 = .05, and .05000000000000001 in floats.
    p = np.where(np.arange(25) < 17, 34 / 1000, 1.0)
    assert benjamini_hochberg(p)[0] > 0.05
    assert (q_values(p, is_member=[True] * 25) <= 0.05).sum() == 17


def test_critical_score_survives_rounding():
    # p* (n + 1) = .05 * 43 / 43 * 1000 is 50, and 49.99999999999999 in floats: rank 50 of 1..999.
    assert 0.05 * 43 / 43 * 1000 < 50
    assert critical_score(np.arange(1.0, 1000.0), n_flagged=43, n_tested=43) == 950.0


@quick
@given(
    st.lists(
        st.tuples(st.integers(-5, 9), st.integers(2, 3), st.sampled_from([True, None, False])),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 700),
    st.integers(0, 10_000),
)
def test_above_the_threshold_is_the_same_as_q_at_most_5_percent(rows, n_controls, seed):
    scores, lengths, truth = (list(column) for column in zip(*rows, strict=True))
    rng = np.random.default_rng(seed)
    pool = pool_of(rng.integers(-5, 8, n_controls), rng.integers(2, 4, n_controls))
    decisions = decided(
        scores, errors=np.zeros(len(scores)), groups=lengths, is_member=truth, pool=pool
    )
    tested = np.array([is_member is not False for is_member in truth])
    tested |= not tested.any()
    np.testing.assert_array_equal(decisions.point_flag[tested], decisions.q[tested] <= 0.05)
    # Of the wide grid of scores few lie on the threshold; with no error only those are undecided.
    on_threshold = np.array(scores) == decisions.threshold
    assert decisions.is_undecided.tolist() == on_threshold.tolist()


def test_decisions_of_five_names():
    # 999 controls 1..999, four tested names (one is not scored, so m = 3) and a listed control.
    decisions = decided(
        [2000.0, 1000.5, 500.0, math.nan, 3000.0],
        errors=[1.0, 30.0, 1.0, 1.0, 1.0],
        groups=[2] * 5,
        is_member=[True, True, None, True, False],
        pool=pool_of(np.arange(1.0, 1000.0), [2] * 999),
    )
    np.testing.assert_allclose(decisions.p, [0.001, 0.001, 0.501, math.nan, 0.001], rtol=2e-3)
    # k = 2 of m = 3: p* = .0333, r = 33: the 33rd highest of 999 is 967, for the control too.
    assert decisions.threshold.tolist() == [967.0] * 5
    assert decisions.point_flag.tolist() == [True, True, False, False, True]
    words = ["flagged", "flagged", "not flagged", "not scored", "flagged"]
    assert decisions.decision.tolist() == words
    assert decisions.is_undecided.tolist() == [False, True, False, False, False]


def test_a_control_is_ranked_among_the_others():
    # Controls 0 ... 299 stand on the list: rows 1 ... 300. Row 0 is a member.
    scores = np.array([150.0, *np.arange(300.0)])
    pool = pool_of(scores[1:], [2] * 300, rows=np.arange(1, 301))
    p = name_p_values(scores, groups=np.full(301, 2), pool=pool)
    assert p[0] == (1 + 150) / 301  # 150 ... 299 are as high
    assert p[1] == 1.0 and p[300] == 1 / 300  # the lowest and the highest of 300


def test_a_name_of_which_somebody_else_has_a_part_is_ranked_among_such_names_too():
    pool = pool_of(np.arange(1.0, 1000.0), [2] * 999)
    namesakes = np.arange(500.0, 1500.0)
    options = {"errors": [1.0, 1.0], "groups": [2, 2], "is_member": [True, True], "pool": pool}
    alone = decided([1200.0, 1400.0], **options)
    assert alone.point_flag.tolist() == [True, True]
    with_namesakes = decided([1200.0, 1400.0], **options, namesakes={0: namesakes})
    assert with_namesakes.p.tolist() == [(1 + 300) / 1001, 1 / 1000]
    assert with_namesakes.point_flag.tolist() == [False, True]
    assert with_namesakes.threshold[0] > with_namesakes.threshold[1]


def test_where_nobody_reaches_the_level_there_is_no_threshold_and_nobody_is_undecided():
    pool = pool_of(np.arange(1.0, 1000.0), [2] * 999)
    decisions = decided(
        [998.5, 900.0], errors=[50.0, 50.0], groups=[2, 2], is_member=[None, None], pool=pool
    )
    assert (decisions.q > 0.0).all() and decisions.q.min() <= 0.05  # rank 1 of 1,000, m = 2
    below = decided(
        [900.0, 899.0], errors=[50.0, 50.0], groups=[2, 2], is_member=[None, None], pool=pool
    )
    assert below.q.min() > 0.05 and np.isinf(below.threshold).all()
    assert not below.is_undecided.any()
    assert below.decision.tolist() == ["worth a look", "worth a look"]


@pytest.mark.parametrize("n_blocks", [2, 20, 272])
def test_undecided_lies_within_t_standard_errors(n_blocks):
    t = float(stats.t.ppf(0.975, n_blocks - 1))
    mask = undecided_mask(
        [t - 0.01, t + 0.01, 0.01 - t, math.nan, 99.0, 5.0],
        standard_error=[1, 1, 1, 1, math.nan, 1],
        threshold=[0] * 5 + [math.inf],
        n_blocks=n_blocks,
    )
    assert mask.tolist() == [True, False, True, False, True, False]


# --- held-out threshold ---------------------------------------------------------------------


def test_held_out_threshold_of_two_halves_by_hand():
    # 40 controls 0..39, 20 a half: one may be passed, so each threshold is its half's second
    # highest. The 10 members are above every control: all found.
    scores = np.concatenate([np.arange(40.0), np.arange(10) + 100.0])
    is_member = np.arange(50) >= 40
    counts = judge_held_out(scores, is_member, seed=1)
    assert (counts.tp, counts.fn) == (10, 0)
    assert counts.n_controls == 40
    assert counts.fp <= 9  # a threshold lies from 30 to 38
    nobody = judge_held_out(scores, np.ones(50, dtype=bool), seed=1)
    assert nobody == Confusion(tp=0, fn=50, fp=0, tn=0)  # without controls nobody is flagged


def test_held_out_false_positive_rate_is_near_5_percent_on_average():
    rng = np.random.default_rng(0)
    is_member = np.arange(260) < 130
    counts = [judge_held_out(rng.normal(size=260), is_member, seed=s) for s in range(200)]
    # 65 controls a half, 3 may be passed: the expected rate outside is 4 / 66 = .0606.
    assert np.mean([confusion.false_positive_rate.value for confusion in counts]) == pytest.approx(
        4 / 66, abs=0.008
    )
