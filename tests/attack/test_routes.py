"""Two routes to a leak share one error rate, and the group has it alone where names add nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from audit.attack.decisions import ALPHA
from audit.attack.routes import controls_needed, joint_p, simes, smallest_visible

NAN = math.nan


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_simes_is_the_rule_of_half_and_whole(p: list[float]) -> None:
    expected = min(p) <= ALPHA / 2 or max(p) <= ALPHA
    assert (simes(p) <= ALPHA) is expected


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("n_controls", [260, 20_000])
def test_both_routes_together_call_a_null_pair_a_leak_in_at_most_5_percent(
    correlation: float, n_controls: int
) -> None:
    rng = np.random.default_rng(3)
    shared = rng.normal(size=(20_000, 1))
    z = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * rng.normal(size=(20_000, 2))
    joined = [joint_p(a, b, n_tested=130, n_controls=n_controls) for a, b in norm.sf(z).tolist()]
    assert 0.03 < np.mean(np.array(joined) <= ALPHA) <= 0.0546  # three standard errors above 5 %


@pytest.mark.parametrize(
    ("n_tested", "n_controls", "is_joined"),
    [(130, 20_000, True), (130, 1000, True), (130, 260, False), (40, 80, False), (40, 20, False)],
)
def test_the_group_decides_alone_where_as_many_names_must_stand_out_as_the_group_would_show(
    n_tested: int, n_controls: int, is_joined: bool
) -> None:
    numbers = {"n_tested": n_tested, "n_controls": n_controls}
    assert joint_p(0.04, 0.9, **numbers) == (0.08 if is_joined else 0.04)
    assert joint_p(0.9, 0.02, **numbers) == (0.04 if is_joined else 0.9)
    assert joint_p(NAN, 0.02, **numbers) == 0.02
    assert joint_p(0.04, NAN, **numbers) == 0.04
    assert math.isnan(joint_p(NAN, NAN, **numbers))


def test_controls_show_as_few_names_as_the_specification_says() -> None:
    assert [controls_needed(130, n_visible=k) for k in (1, 10, 30)] == [2599, 259, 86]
    assert [smallest_visible(130, n_controls=n) for n in (2599, 2598, 259, 86)] == [1, 2, 10, 30]
    assert smallest_visible(130, n_controls=10) is None
