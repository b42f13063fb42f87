"""Bounds of the share of exposed people, and the positive controls that they rest on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from audit.attack.exposure import (
    exposed_share,
    find_dose_line,
    find_usual_dose,
    lower_share,
    upper_share,
)
from audit.attack.measure_types import DoseLine


def planted(n_seen: int, n_names: int, dose: int = 1) -> DoseLine:
    return DoseLine(
        dose=dose,
        n_names=n_names,
        n_seen=n_seen,
        p_group=math.nan,
        p_names=math.nan,
        p=math.nan,
    )


@pytest.mark.parametrize(
    ("n_seen", "n_names", "hits", "n_planted", "expected"),
    [
        (0, 130, 10, 10, 0.0405),  # the figures of the specification
        (0, 130, 5, 10, 0.15),
        (130, 130, 10, 10, 1.0),
    ],
)
def test_bounds_by_hand(n_seen, n_names, hits, n_planted, expected):
    share = exposed_share(n_seen, n_names, planted=planted(hits, n_planted))
    assert share == pytest.approx(expected, abs=0.002)


def test_without_a_hit_there_is_no_bound():
    assert math.isnan(exposed_share(0, 130, planted=planted(0, 10)))
    assert math.isnan(exposed_share(0, 0, planted=planted(9, 10)))


@given(st.integers(0, 200), st.integers(1, 200))
def test_bounds_are_those_of_clopper_and_pearson(n_hits, n_total):
    n_hits = min(n_hits, n_total)
    interval = stats.binomtest(n_hits, n_total).proportion_ci(confidence_level=0.95)
    assert lower_share(n_hits, n_total, error=0.025) == pytest.approx(interval.low, abs=1e-9)
    assert upper_share(n_hits, n_total, error=0.025) == pytest.approx(interval.high, abs=1e-9)


@pytest.mark.parametrize(
    ("exposed", "power", "n_planted"), [(0.0, 0.5, 10), (0.05, 0.3, 20), (0.2, 0.9, 10)]
)
def test_the_bound_covers_the_exposed_share_in_95_percent_of_audits(exposed, power, n_planted):
    rng = np.random.default_rng(7)
    n, covered = 130, []
    for _ in range(400):
        n_seen = rng.binomial(rng.binomial(n, exposed), power) + rng.binomial(n, 0.01)
        record = planted(int(rng.binomial(n_planted, power)), n_planted)
        share = exposed_share(int(min(n_seen, n)), n, planted=record)
        covered.append(math.isnan(share) or share >= exposed)
    assert np.mean(covered) >= 0.95


def test_the_usual_dose_is_that_of_most_names():
    assert find_usual_dose([1, 1, 2, 25]) == 1 and find_usual_dose([3, 3, 1]) == 3
    assert find_usual_dose([2, 1]) == 1  # of equally many the smaller
    assert find_usual_dose([None, None]) == 1 and find_usual_dose([]) == 1


def test_names_that_are_seldomer_prove_more_and_those_that_are_oftener_prove_nothing():
    records = {n: planted(1, 2, dose=n) for n in (2, 4, 8)}
    assert find_dose_line(records, dose=4) == records[4]
    assert find_dose_line(records, dose=7) == records[4]
    assert find_dose_line(records, dose=1) is None
