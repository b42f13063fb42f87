"""The verdict's states, their reasons, their one error rate and their words."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from audit.attack.verdict import (
    Ranked,
    give_verdict,
    in_short,
    is_ill_matched,
    is_leak,
    smallest_finding,
)
from audit.stats import Estimate
from audit.words import catalogue

NAN = math.nan
CHANCE, UNKNOWN = Estimate(0.51, 0.45, 0.57), Estimate(NAN, NAN, NAN)
ILL, APART = Estimate(0.3, 0.2, 0.4), Estimate(0.95, 0.9, 0.98)


def verdict_of(
    p_names: float = 0.5, *, n_flagged: int = 0, n_tested: int = 130, n_undecided: int = 0,
    has_truth: bool = True, low: float = 0.42, high: float = 0.58, p: float = 0.5,
    general: Estimate = CHANCE, smallest: float = 0.59, m: int = 130, n: int = 130,
    finding: tuple[float, int | None] | None = None,
) -> dict[str, Any]:  # fmt: skip
    auc = Estimate((low + high) / 2, low, high)
    return give_verdict(
        p_names, n_flagged=n_flagged, n_tested=n_tested, n_undecided=n_undecided, smallest=finding,
        ranked=Ranked(m, n, auc, general, p, smallest) if has_truth else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("p_group", "p_names", "found"),
    [
        (0.025, 0.9, True), (0.0251, 0.9, False), (0.9, 0.025, True), (0.9, 0.0251, False),
        (0.05, 0.05, True), (0.05, 0.0501, False),  # both at the whole rate
        (NAN, 0.05, True), (NAN, 0.0501, False),  # the other route has the whole rate
        (0.05, NAN, True), (NAN, NAN, False),
    ],
)  # fmt: skip
def test_two_routes_share_one_rate(p_group: float, p_names: float, found: bool) -> None:
    assert is_leak(p_group, p_names) is found


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_both_routes_together_call_a_null_pair_a_leak_in_at_most_5_percent(
    correlation: float,
) -> None:
    rng = np.random.default_rng(3)
    shared = rng.normal(size=(40_000, 1))
    z = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * rng.normal(size=(40_000, 2))
    rate = np.mean([is_leak(float(a), float(b)) for a, b in norm.sf(z)])
    assert 0.03 < rate <= 0.055  # three standard errors above 5 %: .0533


LEAK, NONE, FEW = "leak_found", "none_found_at_this_power", "not_enough_evidence"
NOBODY = "no_name_stands_out"
GROUP, NAMES = "group_stands_out", "names_stand_out"
NO_GROUP = ["auc_unusable", NOBODY]


@pytest.mark.parametrize(
    ("asked", "state", "reasons"),
    [
        ({"p": 0.001}, LEAK, [GROUP]),
        ({"p_names": 0.01}, LEAK, [NAMES]),
        ({"p_names": 0.01, "p": 0.01}, LEAK, [GROUP, NAMES]),
        ({"p_names": 0.04}, NONE, ["auc_below_limit", NOBODY]),  # not the audit's rate
        ({"p_names": 0.04, "p": 0.05}, LEAK, [GROUP, NAMES]),
        ({}, NONE, ["auc_below_limit", NOBODY]),
        ({"high": 0.599}, NONE, ["auc_below_limit", NOBODY]),
        ({"high": 0.6}, FEW, ["auc_reaches_limit", NOBODY]),  # below .60 means below
        ({"smallest": 0.6}, NONE, ["auc_below_limit", NOBODY]),
        ({"smallest": 0.61}, FEW, ["list_too_small", NOBODY]),
        ({"smallest": NAN}, FEW, ["list_too_small", NOBODY]),
        ({"low": 0.2, "high": 0.3}, NONE, ["auc_below_limit", NOBODY, "members_rank_lower"]),
        ({"low": NAN, "high": NAN}, FEW, NO_GROUP),
        ({"p": NAN}, FEW, NO_GROUP),
        # Under five names the ranking decides nothing, and single names have the whole rate.
        ({"p": 0.0005, "low": 0.9, "high": 1.0, "m": 4}, FEW, NO_GROUP),
        ({"p": 0.0005, "low": 0.9, "high": 1.0, "n": 4}, FEW, NO_GROUP),
        ({"p_names": 0.05, "n": 4}, LEAK, [NAMES]),
        ({"general": UNKNOWN}, FEW, ["general_missing", NOBODY]),
        ({"general": ILL}, "ill_matched", ["general_separates", NOBODY]),
        # On an ill-matched list what the model adds still counts, unless nothing overlaps.
        ({"general": ILL, "p": 0.001}, LEAK, [GROUP, "general_separates"]),
        ({"general": APART, "p": 0.001}, "ill_matched", ["general_separates", NOBODY]),
        ({"general": APART, "p_names": 0.05}, LEAK, [NAMES, "general_separates"]),
        ({"has_truth": False}, FEW, ["no_truth", NOBODY]),
        ({"has_truth": False, "p_names": NAN}, FEW, ["no_truth", NOBODY]),
        ({"has_truth": False, "p_names": 0.05}, LEAK, [NAMES, "no_truth"]),
    ],
)  # fmt: skip
def test_state_and_reasons(asked: dict[str, Any], state: str, reasons: list[str]) -> None:
    found = verdict_of(**asked, n_flagged=3, n_undecided=2)
    assert (found["state"], found["reasons"]) == (state, reasons)
    is_found = state == LEAK  # a name stands out only where a leak is found
    assert (found["n_flagged"], found["n_undecided"]) == ((3, 2) if is_found else (0, 0))


@pytest.mark.parametrize(
    ("general", "is_ill"),
    [
        (Estimate(0.60, 0.501, 0.69), True),
        (Estimate(0.60, 0.500, 0.69), False),  # not sure
        (Estimate(0.40, 0.31, 0.499), True),  # in the other direction too
        (Estimate(0.545, 0.54, 0.55), False),  # sure, and a trifle
        (Estimate(0.81, NAN, NAN), True),  # so far off that no interval is needed
        (Estimate(0.79, NAN, NAN), False),
        (UNKNOWN, False),
    ],
)
def test_ill_matched_is_sure_and_more_than_a_trifle(general: Estimate, is_ill: bool) -> None:
    assert is_ill_matched(general) is is_ill


def test_130_controls_show_no_fewer_than_twenty_names_and_2600_show_one() -> None:
    assert smallest_finding(130, n_reference=130) == (1 / 131, 20)
    assert smallest_finding(130, n_reference=2600) == (1 / 2601, 1)
    assert smallest_finding(130, n_reference=10) == (1 / 11, None)


# --- words ---

AT_CHANCE = "the general model alone does so in 51.0 % (95 % interval 45.0 % to 57.0 %); "
NOBODY_OF_130 = "0 of 130 tested names stand out from the controls. "


@pytest.mark.parametrize(
    ("asked", "english", "japanese"),
    [
        (
            {"low": 0.2, "high": 0.3, "finding": (0.1, 2)},
            "None found at this power: a member scores above a control in 25.0 % (95 % interval "
            f"20.0 % to 30.0 %) of pairs; {AT_CHANCE}{NOBODY_OF_130}Weaker leaks, and leaks that "
            "another attack would show, are not excluded. This list would have shown 59.0 % or "
            "more in four cases out of five. With these controls at least 2 names must stand out "
            "at once to be seen. Members rank clearly below controls, which an attacker could turn "
            "to use: check the list and the score.",
            "25.0 %（95 % 信頼区間 20.0 %～30.0 %）",
        ),
        (
            {"general": Estimate(0.9, NAN, NAN), "finding": (0.1, 1)},
            "This list is ill-matched: a member scores above a control in 50.0 % (95 % interval "
            "42.0 % to 58.0 %) of pairs; the general model alone does so in 90.0 % (too few "
            f"different names for an interval); {NOBODY_OF_130}The general model alone already "
            "tells members from controls, so what the list shows or does not show says nothing "
            "about the notes.",
            "90.0 %",
        ),
        (
            {"has_truth": False, "n_tested": 3, "finding": (1 / 11, None)},
            "Not enough evidence: 0 of 3 tested names stand out from the controls. Neither a leak "
            "nor its absence can be concluded. With so few controls no name could have been seen "
            "to stand out. Who is a member is not known, so the names are judged one by one only.",
            "対照が少なすぎる",
        ),
    ],
)
def test_the_sentence_has_the_numbers(asked: dict[str, Any], english: str, japanese: str) -> None:
    found = verdict_of(**asked)
    assert found["english"] == english
    assert japanese in found["japanese"]


@pytest.mark.parametrize(
    ("asked", "english", "japanese"),
    [
        ({"p_names": 0.01, "n_flagged": 67}, "67 of 130 listed names stand out: do not hand this",
         "名簿の 130 名のうち 67 名が際立っています。"),
        ({"p_names": 0.01, "n_flagged": 1}, "One of 130 listed names stands out: do not", "1 名が"),
        ({"p": 0.001}, "Members as a group stand out, no single name does: do not", "集団として"),
        ({}, "Nothing stood out; an effect below 59.0 % of pairs (50 % is chance) would not",
         "組の 59.0 %（偶然なら 50 %）に満たない"),
        ({"general": ILL}, "This list is ill-matched: the general model alone", "揃っていません"),
        ({"has_truth": False}, "This list cannot tell, because it does not say who is", "誰が"),
        ({"high": 0.6}, "This list cannot tell, because what was measured fits", "測った結果"),
        ({"smallest": 0.61}, "This list cannot tell, because it is too short", "名簿が短く"),
        ({"n": 4}, "This list cannot tell, because too few of its names", "少なすぎるか"),
        ({"general": UNKNOWN}, "This list cannot tell, because how the general", "順位が分から"),
    ],
)  # fmt: skip
def test_one_sentence_helps_to_decide(asked: dict[str, Any], english: str, japanese: str) -> None:
    found = verdict_of(**asked)
    words = [said_in_short(found, language) for language in ("en", "ja")]
    assert words[0].startswith(english) and words[0].endswith(".")
    assert japanese in words[1] and words[1].endswith("。")


def said_in_short(found: dict[str, Any], language: str) -> str:
    smallest = found["smallest_detectable_auc"]
    return in_short(
        found["state"], reasons=found["reasons"], n_flagged=found["n_flagged"],
        n_tested=found["n_tested"], language=language,
        smallest_auc=NAN if smallest is None else smallest,
    )  # fmt: skip


def test_what_would_be_enough_is_said() -> None:
    found = verdict_of(smallest=0.7, m=40, n=80)
    # 40 and 80 are worth 53.3 each; four times as many halve the error: 213.3, in tens
    assert found["n_enough"] == 220
    assert all("220" in text for text in found["what_now"].values())
    assert verdict_of(smallest=0.59)["n_enough"] is None


bounds = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)).map(sorted)
estimates = bounds.map(lambda b: Estimate(b[1], b[0], b[2])) | st.just(UNKNOWN)
p_values = st.floats(0, 1) | st.just(NAN)


@settings(deadline=None, max_examples=200)
@given(
    p_values, p_values, estimates, estimates, st.floats(0.5, 2) | st.just(NAN),
    st.integers(1, 200), st.booleans(),
    st.none() | st.just((0.1, None)) | st.just((0.001, 2)), st.booleans(),
)  # fmt: skip
def test_no_verdict_says_safe_and_every_reason_has_words(
    p_names: float, p_group: float, auc: Estimate, general: Estimate, smallest: float, m: int,
    has_truth: bool, finding: tuple[float, int | None] | None, has_evidence: bool,
) -> None:  # fmt: skip
    found = give_verdict(
        p_names, n_flagged=2, n_tested=9, smallest=finding, has_evidence=has_evidence,
        ranked=Ranked(m, 50, auc, general, p_group, smallest) if has_truth else None,
    )  # fmt: skip
    short = " ".join(said_in_short(found, language) for language in ("en", "ja"))
    said = f"{found['english']} {found['japanese']} {found['what_now']} {short}"
    assert "safe" not in said.lower() and "安全" not in said and "nan" not in said.lower()
    assert "{" not in found["english"] + found["japanese"] + short
    words = catalogue("en", "report")
    assert found["reasons"] and all(f"reason_{code}" in words for code in found["reasons"])
    assert (found["state"] == LEAK) == bool({GROUP, NAMES} & set(found["reasons"]))
    assert has_evidence or found["state"] == "not_enough_evidence"
    json.dumps(found, allow_nan=False)
