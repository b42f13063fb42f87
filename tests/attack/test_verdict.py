"""The verdict's states by control source, their reasons, their one error rate and their words."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.attack.cohort import GroupTest
from audit.attack.measure_types import DoseLine
from audit.attack.verdicts import (
    ListEvidence,
    give_verdict,
)
from audit.errors import catalogue
from audit.names.candidates import CONTROL_SOURCES
from audit.stats import Estimate

NAN = math.nan
LEAK, NOT_SHOWN, NONE = "leak_found", "membership_not_shown", "none_found"
FEW, ILL = "not_enough_evidence", "ill_matched"
NOBODY = "no_name_stands_out"
GROUP, NAMES = "group_stands_out", "names_stand_out"
SEEN = DoseLine(dose=1, n_names=40, n_seen=30, p_group=0.0005, p_names=0.001, p=0.001)


def changed(line: DoseLine, **changes: Any) -> DoseLine:
    return line.model_copy(update=changes)


SEEN_OFTEN = changed(SEEN, dose=4)
UNSEEN = changed(SEEN, n_seen=1, p_group=0.5, p_names=0.4, p=0.5)
APART = {"popularity": Estimate(0.8, 0.7, 0.9)}


def group(p: float = 0.5) -> GroupTest:
    return GroupTest(p=p, p_labels=p, p_parts=NAN, p_sharing=0.5, smallest_auc=0.58)


def evidence(p_group: float = 0.5, **changes: Any) -> ListEvidence:
    """A list on which nothing stands out and planted names were seen."""
    quiet = ListEvidence(
        control_source="held_out",
        n_tested=130,
        n_controls=1000,
        n_flagged=3,
        n_worth_a_look=9,
        n_undecided=2,
        p_names=0.5,
        group=group(p_group),
        auc=Estimate(0.51, 0.45, 0.57),
        has_truth=True,
        n_scored=1130,
        n_listed=1130,
        reliability=0.9,
        n_seen=1,
        n_bounded=130,
        positive_controls={1: SEEN},
        positive_origin="canaries",
    )
    return replace(quiet, **changes)


@pytest.mark.parametrize(
    ("changes", "state", "reasons"),
    [
        ({}, NONE, ["positive_control_seen", NOBODY]),
        ({"p_group": 0.001}, LEAK, [GROUP]),
        ({"p_names": 0.01}, LEAK, [NAMES]),
        ({"p_group": 0.04, "p_names": 0.05}, LEAK, [GROUP, NAMES]),
        ({"p_names": 0.04}, NONE, ["positive_control_seen", NOBODY]),  # not the audit's rate
        # The generator's names show nothing about membership, whatever stands out.
        (
            {"control_source": "drawn", "p_group": 0.001},
            NOT_SHOWN,
            ["controls_of_generator", GROUP],
        ),
        ({"control_source": "drawn"}, FEW, ["controls_of_generator", NOBODY]),
        # Guards hold back all but held-out patients.
        ({"mismatched": ("popularity",), "p_group": 0.001}, LEAK, [GROUP]),
        (
            {"mismatched": ("popularity",), "control_source": "own", "p_group": 0.001},
            ILL,
            ["mismatch_popularity"],
        ),
        (
            {"mismatched": ("spelling", "pieces"), "control_source": "invented"},
            ILL,
            ["mismatch_spelling", "mismatch_pieces"],
        ),
        # None found must be earned.
        ({"positive_controls": {}}, FEW, ["no_positive_control", NOBODY]),
        ({"positive_controls": {1: UNSEEN}}, FEW, ["positive_control_unseen", "no_bound", NOBODY]),
        ({"positive_controls": {4: SEEN_OFTEN}}, FEW, ["positive_control_too_often", NOBODY]),
        (
            {"positive_controls": {4: SEEN_OFTEN}, "dose": 5},
            NONE,
            ["positive_control_seen", NOBODY],
        ),
        ({"positive_controls": {1: changed(SEEN, n_seen=0)}}, FEW, ["no_bound", NOBODY]),
        ({"reliability": 0.49}, FEW, ["run_too_small", NOBODY]),
        ({"reliability": NAN}, FEW, ["run_too_small", NOBODY]),
        ({"has_evidence": False, "p_group": 0.001}, FEW, ["no_evidence"]),
        ({"n_scored": 565}, FEW, ["few_scored", NOBODY]),
        ({"p_group": NAN}, FEW, ["group_too_small", NOBODY]),
        ({"p_group": NAN, "p_names": NAN}, FEW, ["nothing_judged", "group_too_small", NOBODY]),
        ({"p_group": NAN, "p_names": 0.05}, LEAK, [NAMES]),
        (
            {"auc": Estimate(0.3, 0.2, 0.4)},
            NONE,
            ["positive_control_seen", NOBODY, "members_rank_lower"],
        ),
    ],
)
def test_state_and_reasons(changes: dict[str, Any], state: str, reasons: list[str]) -> None:
    verdict = give_verdict(evidence(**changes))
    assert (verdict.state, list(verdict.reasons)) == (state, reasons)
    counted = [getattr(verdict, name) for name in ("n_flagged", "n_worth_a_look", "n_undecided")]
    assert counted == ([3, 9, 2] if state == LEAK else [0, 0, 0])


def test_a_leak_needs_a_source_of_controls_that_shows_membership() -> None:
    states = {
        source: give_verdict(evidence(p_group=0.001, control_source=source)).state
        for source in CONTROL_SOURCES
    }
    assert states == {"held_out": LEAK, "own": LEAK, "invented": LEAK, "drawn": NOT_SHOWN}


def test_the_smallest_effect_grows_with_the_noise_of_the_evidence() -> None:
    smallest = [
        give_verdict(evidence(reliability=share)).smallest_detectable_auc
        for share in (1.0, 0.5, 0.1)
    ]
    assert smallest[0] == pytest.approx(0.58) and smallest == sorted(smallest)
    assert math.isnan(give_verdict(evidence(reliability=NAN)).smallest_detectable_auc)


# --- words ---


@pytest.mark.parametrize(
    ("changes", "english", "japanese"),
    [
        (
            {"p_group": 0.001},
            "Leak found: a member scores above a control in 51.0 % (95 % interval 45.0 % to "
            "57.0 %) of pairs; 3 of 130 tested names stand out from the controls (give or take 2), "
            "and 9 are worth a look (on average over audits, one in five of these is there by "
            "chance). If the model leaked nothing and the held-out patients were drawn at random, "
            "at most 5 % of such lists would be called a leak.",
            "無作為",
        ),
        (
            {"control_source": "drawn", "p_group": 0.001},
            "Names stand out, membership not shown: ",
            "記録にある人だとは示せません",
        ),
        ({}, "None found: a member scores above a control in 51.0 %", "多くても"),
        ({"positive_controls": {}}, "Not enough evidence: a member scores", "結論できません"),
    ],
)
def test_the_sentence_has_the_numbers(changes: dict[str, Any], english: str, japanese: str) -> None:
    verdict = give_verdict(evidence(**changes))
    assert verdict.english.startswith(english)
    assert japanese in verdict.japanese


def test_none_found_says_a_share_of_people_and_its_condition() -> None:
    verdict = give_verdict(evidence())
    share = f"{100 * verdict.most_exposed:.1f} %"
    assert 0 < verdict.most_exposed < 0.2
    for text in (verdict.english, verdict.japanese, verdict.in_short("en")):
        assert share in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "if they leak like" in verdict.english


def test_the_bound_of_the_smallest_dose_that_has_one_is_shown() -> None:
    rare = changed(SEEN, n_seen=10)
    planted = {1: rare, 3: changed(SEEN, dose=3), 9: changed(SEEN, dose=9)}
    verdict = give_verdict(evidence(positive_controls=planted, dose=4))
    assert verdict.state == NONE and verdict.bound_dose == 1
    bounds = [record.most_exposed for record in verdict.positive_controls]
    assert verdict.most_exposed == bounds[0] > bounds[1] == bounds[2]
    unseen = planted | {1: UNSEEN}
    verdict = give_verdict(evidence(positive_controls=unseen, dose=4))
    assert (verdict.state, verdict.bound_dose) == (NONE, 3)


@pytest.mark.parametrize("source", CONTROL_SOURCES)
def test_the_rate_stands_beside_its_condition(source: Any) -> None:
    verdict = give_verdict(evidence(p_group=0.001, control_source=source))
    for language, rate in (("english", "at most 5 % of such lists"), ("japanese", "5 % 以下")):
        assert (rate in getattr(verdict, language)) == (source != "drawn")
    if source != "drawn":
        condition = verdict.english.rpartition("If the model leaked nothing and ")[2]
        assert condition.endswith("at most 5 % of such lists would be called a leak.")


p_values = st.floats(0, 1) | st.just(NAN)


@settings(deadline=None, max_examples=150)
@given(
    p_values,
    p_values,
    st.sampled_from(CONTROL_SOURCES),
    st.floats(0, 1) | st.just(NAN),
    st.sampled_from([{}, {1: SEEN}, {1: UNSEEN}, {4: SEEN_OFTEN}]),
    st.sampled_from([(), ("general_alone",), ("spelling", "popularity")]),
    st.integers(0, 130),
)
def test_no_verdict_says_safe_and_every_reason_has_words(
    p_names: float,
    p_group: float,
    source: Any,
    reliability: float,
    planted: Any,
    mismatched: tuple[str, ...],
    n_bounded: int,
) -> None:
    verdict = give_verdict(
        evidence(
            p_group=p_group,
            p_names=p_names,
            control_source=source,
            reliability=reliability,
            positive_controls=planted,
            mismatched=mismatched,
            n_bounded=n_bounded,
        )
    )
    short = " ".join(verdict.in_short(language) for language in ("en", "ja"))
    text = f"{verdict.english} {verdict.japanese} {verdict.what_now} {short}"
    assert "safe" not in text.lower() and "安全" not in text and "nan" not in text.lower()
    assert "{" not in verdict.english + verdict.japanese + short
    assert all(verdict.what_now.values())
    words = catalogue("en", "report")
    assert verdict.reasons and all(f"reason_{code}" in words for code in verdict.reasons)
    json.dumps(verdict.to_json(), allow_nan=False)
    if verdict.state == NONE:
        assert planted and source != "drawn" and reliability >= 0.5
