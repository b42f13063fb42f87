"""Exposure: by hand, against scipy, and exact under no leakage."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from audit.attack.metrics import exposure


def measured(scores: Any, **more: Any) -> dict[str, Any]:
    found = exposure(scores, seed=1, **more)
    assert found is not None
    return found


def test_twins_are_compared_pair_by_pair_as_scipy_does() -> None:
    scores = np.array([3.0, 3.0, 3.0, 1.0, math.nan])
    twins = np.array([1.0, 2.0, 3.0, 0.0, 0.0])
    (group,) = measured(scores, n_mentions=[1] * 5, held_out=twins)["groups"]
    above = group["above_twin"]
    assert (above["n_hits"], above["n_total"], group["n_names"]) == (3, 4, 4)
    expected = stats.binomtest(3, 4, alternative="greater").pvalue
    assert group["above_twin_p"] == pytest.approx(expected)


def test_one_name_alone_has_no_interval_and_many_held_out_names_make_finer_ranks() -> None:
    found = measured([9.0], n_mentions=[1], held_out=np.zeros(1023))
    assert found["groups"][0]["bits"] == {"value": 10, "low": None, "high": None}
    assert found["max_bits"] == 10 and found["groups"][0]["above_twin"]["n_total"] == 0


def test_names_of_one_rank_are_as_certain_as_the_held_out_names_allow() -> None:
    found = measured(
        [99.0] * 3 + [15.5] * 2, n_mentions=[1] * 3 + [2] * 2,
        held_out=np.r_[np.zeros(5), np.arange(5.0, 19)],
    )  # fmt: skip
    above, below = (group["bits"] for group in found["groups"])
    # 0 of 19 above: at most 3.84 / 22.84 of them (Wilson); 3 of 19 (16, 17, 18) above the others.
    highest = stats.norm.ppf(0.975) ** 2 / (19 + stats.norm.ppf(0.975) ** 2)
    assert above["high"] == above["value"] == found["max_bits"]
    assert above["low"] == pytest.approx(math.log2(20 / (1 + 19 * highest)))
    assert below["value"] == pytest.approx(math.log2(20 / 4))
    low, high = stats.binomtest(3, 19).proportion_ci(method="wilson")
    assert below["low"] == pytest.approx(math.log2(20 / (1 + 19 * high)))
    assert below["high"] == pytest.approx(math.log2(20 / (1 + 19 * low)))
