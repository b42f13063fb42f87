"""Rates, q-values and distances of samples against hand counts, properties and second sources."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from audit.stats import Rate, benjamini_hochberg, two_sample_ks
from tests.scored_lists import quick, values


@quick
@given(st.integers(1, 5000), st.data())
def test_wilson_equals_scipy_and_contains_the_rate(total, data):
    hits = data.draw(st.integers(0, total))
    interval = Rate(hits, total).interval()
    expected = stats.binomtest(hits, total).proportion_ci(method="wilson")
    assert interval.low == pytest.approx(expected.low, abs=1e-9)
    assert interval.high == pytest.approx(expected.high, abs=1e-9)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.low < interval.high


@quick
@given(hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(0.0, 1.0)))
def test_q_equals_scipy_and_is_monotone_in_p(p):
    q = benjamini_hochberg(p)
    np.testing.assert_allclose(q, stats.false_discovery_control(p), atol=1e-12)
    assert (np.diff(q[np.argsort(p)]) >= 0).all()
    assert (q >= p * (1 - 1e-12)).all()
    assert (q <= 1).all()


def test_nan_p_is_no_member_of_the_family():
    q = benjamini_hochberg([0.01, math.nan, 0.04])
    assert math.isnan(q[1])
    np.testing.assert_allclose(q[[0, 2]], benjamini_hochberg([0.01, 0.04]))


@quick
@given(st.lists(values, min_size=2, max_size=30), st.lists(values, min_size=2, max_size=30))
def test_ks_statistic_equals_scipy_with_ties_and_is_symmetric(a, b):
    expected = stats.ks_2samp(a, b, method="asymp").statistic
    assert two_sample_ks(a, b)[0] == pytest.approx(expected, abs=1e-12)
    assert two_sample_ks(b, a)[0] == pytest.approx(expected, abs=1e-12)


def test_ks_of_equal_samples_is_zero_with_p_one_and_nan_is_left_out():
    assert two_sample_ks([1, 2, math.nan], [2, 1]) == (0.0, 1.0)
    assert math.isnan(two_sample_ks([math.nan], [1])[1])
