"""The verdict's three states, their reasons and their words."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.membership.cohort import SmallestFinding, smallest_detectable_auc
from audit.membership.verdict import REASONS, give_verdict
from audit.rates import Estimate, bootstrap_ranking

CHANCE = Estimate(0.51, 0.45, 0.57)
NO_NAME = [0.3, 1.0, math.nan]
ONE_NAME = [0.05, 1.0, math.nan]


def judge(low, high, *, general=CHANCE, q=NO_NAME, smallest=0.598):
    auc = Estimate((low + high) / 2, low, high)
    return give_verdict(q, auc=auc, general_auc=general, smallest_auc=smallest)


@pytest.mark.parametrize(
    ("low", "high", "state"),
    [
        (0.501, 0.58, "leak_found"),  # a leak goes before "none found"
        (0.501, 0.70, "leak_found"),
        (0.500, 0.599, "none_found_at_this_power"),  # above one half means above
        (0.42, 0.599, "none_found_at_this_power"),
        (0.42, 0.600, "not_enough_evidence"),  # below .60 means below
        (0.500, 0.70, "not_enough_evidence"),
    ],
)
def test_bounds_of_the_auc_decide(low, high, state):
    assert judge(low, high).state == state


@pytest.mark.parametrize(
    ("general_low", "state"), [(0.500, "leak_found"), (0.501, "not_enough_evidence")]
)
def test_a_ranking_that_the_general_model_has_too_is_no_leak(general_low, state):
    verdict = judge(0.7, 0.8, general=Estimate(0.6, general_low, 0.7))
    assert verdict.state == state
    assert ("general_separates_too" in verdict.reasons) == (general_low > 0.5)


@pytest.mark.parametrize(("low", "high"), [(0.42, 0.55), (0.4, 0.7), (0.7, 0.8)])
def test_one_name_with_q_of_5_percent_is_a_leak_whatever_the_auc(low, high):
    general = Estimate(0.6, 0.55, 0.7)
    verdict = judge(low, high, q=ONE_NAME, general=general)
    assert verdict.state == "leak_found"
    assert verdict.reasons[0] == "names_stand_out"
    assert (verdict.n_flagged, verdict.n_tested) == (1, 2)


def test_both_criteria_are_named():
    assert judge(0.7, 0.8, q=ONE_NAME).reasons == ("auc_above_half", "names_stand_out")


@pytest.mark.parametrize("general", [None, Estimate(math.nan, math.nan, math.nan)])
def test_without_the_general_model_a_ranking_proves_nothing(general):
    verdict = judge(0.7, 0.8, general=general)
    assert verdict.state == "not_enough_evidence"
    assert "general_missing" in verdict.reasons


@pytest.mark.parametrize(("low", "high"), [(0.6, 1.0), (0.0, 0.4)])
def test_a_list_that_chance_ranks_perfectly_is_not_judged_by_its_auc(low, high):
    verdict = judge(low, high, smallest=math.nan)
    assert verdict.state == "not_enough_evidence"
    assert "auc_unusable" in verdict.reasons
    assert judge(low, high, smallest=math.nan, q=ONE_NAME).state == "leak_found"


def test_an_undefined_auc_is_not_judged():
    assert judge(math.nan, math.nan).state == "not_enough_evidence"


def test_members_far_below_controls_are_pointed_out():
    verdict = judge(0.2, 0.3)
    assert verdict.state == "none_found_at_this_power"
    assert "members_rank_lower" in verdict.reasons
    assert "attacker could turn to use" in verdict.english


@pytest.mark.parametrize(
    ("q", "state"), [(ONE_NAME, "leak_found"), (NO_NAME, "not_enough_evidence"),
                     ([0.0501], "not_enough_evidence"), ([], "not_enough_evidence")]
)  # fmt: skip
def test_without_truth_q_alone_decides_and_never_that_nothing_is_there(q, state):
    verdict = give_verdict(q)
    assert verdict.state == state
    assert "no_truth" in verdict.reasons
    assert verdict.auc is None


def test_an_auc_without_the_smallest_effect_is_refused():
    with pytest.raises(ValueError, match="smallest"):
        give_verdict(NO_NAME, auc=CHANCE)


def test_the_smallest_effect_is_stated_when_nothing_is_found():
    verdict = judge(0.42, 0.58)
    assert "59.8 %" in verdict.english
    assert "59.8 %" in verdict.japanese


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (SmallestFinding(1 / 131, 20), ("at least 20 names", "20 名以上")),
        (SmallestFinding(1 / 11, None), ("no name could have been seen", "対照が少なすぎる")),
    ],
)
def test_the_smallest_finding_is_stated_without_truth(finding, words):
    verdict = give_verdict(NO_NAME, smallest_finding=finding)
    assert words[0] in verdict.english
    assert words[1] in verdict.japanese


def test_the_numbers_are_in_both_sentences():
    verdict = judge(0.87, 0.94, q=[0.01] * 34 + [1.0] * 96)
    for text in (verdict.english, verdict.japanese):
        for number in ("90.5 %", "87.0 %", "94.0 %", "51.0 %", "45.0 %", "57.0 %", "34", "130"):
            assert number in text


bounds = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)).map(sorted)
estimates = bounds.map(lambda b: Estimate(b[1], b[0], b[2]))


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.floats(0, 1), max_size=5),
    st.none() | estimates,
    st.none() | estimates,
    st.floats(0.5, 1) | st.just(math.nan),
    st.none() | st.just(SmallestFinding(0.1, None)) | st.just(SmallestFinding(0.001, 2)),
)
def test_no_verdict_says_safe_and_every_reason_has_words(q, auc, general, smallest, finding):
    verdict = give_verdict(
        q, auc=auc, general_auc=general, smallest_auc=smallest, smallest_finding=finding
    )
    assert "safe" not in verdict.english.lower()
    assert "安全" not in verdict.japanese
    assert set(verdict.reasons) <= set(REASONS)
    assert (verdict.state == "leak_found") == bool(
        {"auc_above_half", "names_stand_out"} & set(verdict.reasons)
    )
    starts = {
        "leak_found": "Leak found: ",
        "none_found_at_this_power": "None found at this power: ",
        "not_enough_evidence": "Not enough evidence: ",
    }
    assert verdict.english.startswith(starts[verdict.state])
    assert "{" not in verdict.english + verdict.japanese
    json.dumps(verdict.to_json(), allow_nan=False)


def test_a_null_list_is_seldom_called_a_leak_by_its_ranking():
    rng = np.random.default_rng(12)
    is_member = np.arange(260) < 130
    smallest = smallest_detectable_auc(130, n_controls=130)
    states = []
    for seed in range(200):
        auc = bootstrap_ranking(rng.normal(size=260), is_member, n_replicates=200, seed=seed).auc
        verdict = give_verdict([1.0], auc=auc, general_auc=CHANCE, smallest_auc=smallest)
        states.append(verdict.state)
    # 2.5 % are expected; four standard errors above that is 7 %.
    assert states.count("leak_found") <= 14
    assert states.count("none_found_at_this_power") > 100


def test_an_auc_that_m_general_alone_reaches_is_no_leak() -> None:
    # a null pair of the demo: 0.534 (0.502 to 0.568), M_general alone 0.539 (0.493 to 0.584)
    hospital, general = Estimate(0.534, 0.502, 0.568), Estimate(0.539, 0.493, 0.584)
    verdict = give_verdict([1.0, 1.0], auc=hospital, general_auc=general, smallest_auc=0.6)
    assert verdict.state == "none_found_at_this_power"
    assert "general_separates_too" in verdict.reasons
    weaker = Estimate(0.52, 0.493, 0.55)
    leak = give_verdict([1.0, 1.0], auc=hospital, general_auc=weaker, smallest_auc=0.6)
    assert leak.state == "leak_found"
