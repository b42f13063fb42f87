"""The verdict's states, their reasons, their one error rate and their words."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.attack.verdict import (
    REASONS,
    Ranked,
    equal_models_record,
    give_verdict,
    is_ill_matched,
    is_leak,
)
from audit.stats import Estimate

CHANCE = Estimate(0.51, 0.45, 0.57)
UNKNOWN = Estimate(math.nan, math.nan, math.nan)


def ranked(low=0.42, high=0.58, *, p=0.5, general=CHANCE, smallest=0.59, m=130, n=130) -> Ranked:
    auc = Estimate((low + high) / 2, low, high)
    return Ranked(m, n, auc, general, p, smallest)


def judge(p_names=0.5, *, n_flagged=0, n_tested=130, **of_list):
    return verdict_of(p_names, n_flagged=n_flagged, n_tested=n_tested, ranked=ranked(**of_list))


def verdict_of(p_names, **more):
    return SimpleNamespace(**give_verdict(p_names, **more))


# --- one error rate -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p_group", "p_names", "found"),
    [
        (0.025, 0.9, True),
        (0.0251, 0.9, False),
        (0.9, 0.025, True),
        (0.9, 0.0251, False),
        (0.05, 0.05, True),  # both at the whole rate
        (0.05, 0.0501, False),
        (math.nan, 0.05, True),  # the other route has the whole rate
        (math.nan, 0.0501, False),
        (0.05, math.nan, True),
        (math.nan, math.nan, False),
    ],
)
def test_two_routes_share_one_rate(p_group, p_names, found):
    assert is_leak(p_group, p_names) is found


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_both_routes_together_call_a_null_pair_a_leak_in_at_most_5_percent(correlation):
    from scipy.stats import norm

    rng = np.random.default_rng(3)
    shared = rng.normal(size=(40_000, 1))
    z = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * rng.normal(size=(40_000, 2))
    p = norm.sf(z)
    rate = np.mean([is_leak(float(a), float(b)) for a, b in p])
    assert 0.03 < rate <= 0.055  # three standard errors above 5 %: .0533


def test_a_leak_by_the_group_names_by_single_names_or_both():
    assert judge(0.5, p=0.001).reasons[:1] == ["group_stands_out"]
    assert judge(0.01, n_flagged=3).reasons == ["names_stand_out"]
    assert judge(0.01, n_flagged=3, p=0.01).reasons == ["group_stands_out", "names_stand_out"]
    for verdict in (judge(0.5, p=0.001), judge(0.01, n_flagged=3)):
        assert verdict.state == "leak_found"
        assert "at most 5 %" in verdict.english and "5 % 以下" in verdict.japanese


def test_a_name_stands_out_only_where_a_leak_is_found():
    verdict = judge(0.04, n_flagged=1)  # q <= 0.05, but not the audit's rate
    assert verdict.state == "none_found_at_this_power"
    assert (verdict.n_flagged, verdict.n_tested) == (0, 130)
    assert judge(0.04, n_flagged=1, p=0.05).n_flagged == 1


@pytest.mark.parametrize(("m", "n"), [(4, 130), (130, 4)])
def test_under_five_names_the_ranking_decides_nothing(m, n):
    verdict = judge(0.5, p=0.0005, low=0.9, high=1.0, m=m, n=n)
    assert verdict.state == "not_enough_evidence"
    assert verdict.reasons[0] == "auc_unusable"
    assert judge(0.05, n_flagged=1, m=m, n=n).state == "leak_found"  # the names' route has it all


# --- none found, not enough, ill-matched -----------------------------------------------------


@pytest.mark.parametrize(
    ("of_list", "state", "reason"),
    [
        ({}, "none_found_at_this_power", "auc_below_limit"),
        ({"high": 0.599}, "none_found_at_this_power", "auc_below_limit"),
        ({"high": 0.6}, "not_enough_evidence", "auc_reaches_limit"),  # below .60 means below
        ({"smallest": 0.6}, "none_found_at_this_power", "auc_below_limit"),
        ({"smallest": 0.61}, "not_enough_evidence", "list_too_small"),
        ({"smallest": math.nan}, "not_enough_evidence", "list_too_small"),
        ({"low": math.nan, "high": math.nan}, "not_enough_evidence", "auc_unusable"),
        ({"p": math.nan}, "not_enough_evidence", "auc_unusable"),
        ({"general": UNKNOWN}, "not_enough_evidence", "general_missing"),
        ({"general": Estimate(0.6, 0.55, 0.65)}, "ill_matched", "general_separates"),
        ({"general": Estimate(0.1, 0.05, 0.2)}, "ill_matched", "general_separates"),
    ],
)
def test_what_is_said_where_no_leak_is_found(of_list, state, reason):
    verdict = judge(**of_list)
    assert (verdict.state, verdict.reasons[0]) == (state, reason)


@pytest.mark.parametrize(
    ("general", "is_ill"),
    [
        (Estimate(0.60, 0.501, 0.69), True),
        (Estimate(0.60, 0.500, 0.69), False),  # not sure
        (Estimate(0.40, 0.31, 0.499), True),  # in the other direction too
        (Estimate(0.545, 0.54, 0.55), False),  # sure, and a trifle
        (Estimate(0.81, math.nan, math.nan), True),  # so far off that no interval is needed
        (Estimate(0.79, math.nan, math.nan), False),
        (UNKNOWN, False),
    ],
)
def test_ill_matched_is_sure_and_more_than_a_trifle(general, is_ill):
    assert is_ill_matched(general) is is_ill


def test_on_an_ill_matched_list_what_the_model_adds_still_counts():
    ill = Estimate(0.3, 0.2, 0.4)
    for verdict in (judge(0.01, n_flagged=2, general=ill), judge(p=0.001, general=ill)):
        assert verdict.state == "leak_found"
        assert "general_separates" in verdict.reasons
        assert "judged apart from that" in verdict.english


def test_where_members_and_controls_do_not_overlap_the_group_decides_nothing():
    apart = Estimate(0.95, 0.9, 0.98)
    assert judge(p=0.0005, general=apart).state == "ill_matched"
    assert judge(0.05, n_flagged=1, p=0.5, general=apart).state == "leak_found"  # names have it all


def test_what_would_be_enough_is_said():
    verdict = judge(smallest=0.7, m=40, n=80)
    # 40 and 80 are worth 53.3 each; four times as many halve the error: 213.3, in tens
    assert verdict.n_enough == 220
    for text in (verdict.what_now[k] for k in ("english", "japanese")):
        assert "220" in text
    assert judge(smallest=0.59).n_enough is None


def test_members_far_below_controls_are_pointed_out():
    verdict = judge(low=0.2, high=0.3)
    assert "members_rank_lower" in verdict.reasons
    assert "attacker could turn to use" in verdict.english


@pytest.mark.parametrize(("p", "state"), [(0.05, "leak_found"), (0.0501, "not_enough_evidence"),
                                          (math.nan, "not_enough_evidence")])  # fmt: skip
def test_without_truth_q_alone_decides_and_never_that_nothing_is_there(p, state):
    verdict = verdict_of(p, n_flagged=1, n_tested=2)
    assert verdict.state == state
    assert "no_truth" in verdict.reasons
    assert verdict.auc is None


def test_a_model_compared_with_itself_is_not_judged():
    record = equal_models_record()
    assert record["state"] == "not_compared"
    assert "both models are the same" in str(record["english"])
    json.dumps(record, allow_nan=False)


# --- words ----------------------------------------------------------------------------------


def test_the_smallest_effect_is_stated_when_nothing_is_found():
    verdict = judge(smallest=0.598)
    assert "59.8 %" in verdict.english
    assert "59.8 %" in verdict.japanese


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        ((1 / 131, 20), ("at least 20 names", "20 名以上")),
        ((1 / 11, None), ("no name could have been seen", "対照が少なすぎる")),
    ],
)
def test_the_smallest_finding_is_stated_without_truth(finding, words):
    verdict = verdict_of(0.5, n_flagged=0, n_tested=3, smallest=finding)
    assert words[0] in verdict.english
    assert words[1] in verdict.japanese


def test_the_numbers_are_in_both_sentences():
    verdict = verdict_of(
        0.01, n_flagged=34, n_tested=130, n_undecided=3, ranked=ranked(0.87, 0.94, p=0.001)
    )
    for text in (verdict.english, verdict.japanese):
        for number in ("90.5 %", "87.0 %", "94.0 %", "51.0 %", "45.0 %", "57.0 %", "34", "130"):
            assert number in text
    assert "3 more or fewer" in verdict.english


def test_an_auc_without_an_interval_says_why():
    verdict = judge(low=math.nan, high=math.nan, general=Estimate(0.5, math.nan, math.nan))
    assert "nan" not in verdict.english.lower() + verdict.japanese.lower()


bounds = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)).map(sorted)
estimates = bounds.map(lambda b: Estimate(b[1], b[0], b[2])) | st.just(UNKNOWN)
p_values = st.floats(0, 1) | st.just(math.nan)


@settings(deadline=None, max_examples=200)
@given(
    p_values, p_values, estimates, estimates, st.floats(0.5, 2) | st.just(math.nan),
    st.integers(1, 200), st.booleans(),
    st.none() | st.just((0.1, None)) | st.just((0.001, 2)),
)  # fmt: skip
def test_no_verdict_says_safe_and_every_reason_has_words(
    p_names, p_group, auc, general, smallest, m, has_truth, finding
):
    verdict = verdict_of(
        p_names, n_flagged=2, n_tested=9, smallest=finding,
        ranked=Ranked(m, 50, auc, general, p_group, smallest) if has_truth else None,
    )  # fmt: skip
    said = f"{verdict.english} {verdict.japanese} {verdict.what_now}"
    assert "safe" not in said.lower() and "安全" not in said
    assert "{" not in verdict.english + verdict.japanese and "nan" not in said.lower()
    assert verdict.reasons and set(verdict.reasons) <= set(REASONS)
    assert (verdict.state == "leak_found") == bool(
        {"group_stands_out", "names_stand_out"} & set(verdict.reasons)
    )
    starts = {
        "leak_found": "Leak found: ",
        "none_found_at_this_power": "None found at this power: ",
        "not_enough_evidence": "Not enough evidence: ",
        "ill_matched": "This list is ill-matched: ",
    }
    assert verdict.english.startswith(starts[verdict.state])
    json.dumps(vars(verdict), allow_nan=False)
