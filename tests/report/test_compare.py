"""Two audits: McNemar against scipy, DeLong against brute force."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from audit.report.compare import (
    Flags,
    compare_audits,
    measure_auc_difference,
)
from audit.report.report import AuditReport
from audit.stats import auc, bootstrap_ranking
from tests.pages.make_reports import (
    MEMBERS,
    make_reference_reports,
    make_report,
    make_special_names,
)


@given(*(st.integers(0, 30) for _ in range(4)))
def test_mcnemar_is_the_binomial_test(a: int, b: int, c: int, d: int) -> None:
    flags = Flags(a, b, c, d)
    assert flags.p == pytest.approx(binomtest(b, b + c).pvalue if b + c else 1.0)
    assert (flags.p, flags.n_names) == (Flags(a, c, b, d).p, a + b + c + d)


def slow_delong(scores: np.ndarray, other_scores: np.ndarray, truth: np.ndarray) -> float:
    """Variance by the structural components, pair by pair."""
    parts = []
    for score in (scores, other_scores):
        pairs = score[truth][:, None] - score[~truth][None, :]
        parts.append((pairs > 0) + 0.5 * (pairs == 0))
    gap = parts[0] - parts[1]
    return (
        gap.mean(axis=1).var(ddof=1) / truth.sum() + gap.mean(axis=0).var(ddof=1) / (~truth).sum()
    )


def test_delong_against_brute_force() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(150) < 60
    base = rng.normal(size=150)
    scores, other_scores = (
        (base + 1.2 * truth).round(1),
        (base + 0.5 * truth + rng.normal(size=150)).round(1),
    )
    missing = np.append(scores, math.nan), np.append(other_scores, 99.0)
    estimates = measure_auc_difference(
        missing[0], other_scores=missing[1], is_member=np.append(truth, True)
    )
    first, second, difference = estimates  # the name without a score is left out of both
    assert (first, second) == (auc(scores, truth), auc(other_scores, truth))
    half = 1.959964 * math.sqrt(slow_delong(scores, other_scores, truth))
    assert (difference.value, difference.low, difference.high) == pytest.approx(
        (first - second, first - second - half, first - second + half), rel=1e-4
    )


def test_two_perfect_rankings_are_not_called_equal_for_certain() -> None:
    truth = np.array([True] * 3 + [False] * 3)
    scores = np.array([4.0, 5, 6, 1, 2, 3])
    _, _, difference = measure_auc_difference(scores, other_scores=scores, is_member=truth)
    assert difference.value == 0
    assert difference.low < -0.4 and difference.high == -difference.low
    assert bootstrap_ranking(scores, truth, seed=0).auc.low == pytest.approx(1 + difference.low)
    _, _, lone = measure_auc_difference(scores[2:], other_scores=scores[2:], is_member=truth[2:])
    assert (lone.low, lone.high) == pytest.approx((-0.7935, 0.7935), abs=1e-4)
    for all_alike in (truth | True, truth & False):
        estimates = measure_auc_difference(scores, other_scores=scores, is_member=all_alike)
        assert all(map(math.isnan, (*estimates[:2], *vars(estimates[2]).values())))


def replace_names(report: AuditReport, **changes: list[Any]) -> AuditReport:
    return report.changed(names={**report.names, **changes})


def test_an_audit_against_itself_differs_in_nothing() -> None:
    report = make_report(2, names=make_special_names(4))  # canaries are counted nowhere
    comparison = compare_audits(report, other_report=report)
    assert comparison.names.index.is_unique and len(comparison.names) == report.n_names == 80
    assert not comparison.names["is_different"].any()
    assert (comparison.n_only_one, comparison.n_only_other, comparison.n_truth_differs) == (0, 0, 0)
    out = report.table["stands_out"]
    n, m = int(out[:24].sum()), int(out[24:72].sum())
    assert (comparison.tested, comparison.controls) == (
        Flags(n, 0, 0, 24 - n),
        Flags(m, 0, 0, 48 - m),
    )
    assert comparison.tested.p == 1.0
    assert [(a.stratum, a.n_members, a.n_controls) for a in comparison.aucs] == [
        ("all", 24, 48),
        ("easy", 24, 24),
        ("hard", 24, 24),
    ]
    for stratum_auc in comparison.aucs:
        pooled = report.measures.strata[stratum_auc.stratum].scores[report.fixed_score].auc.value
        assert (stratum_auc.one, stratum_auc.other, stratum_auc.difference.value) == (
            pytest.approx(pooled),
            stratum_auc.one,
            0,
        )
    assert comparison.settings == {
        key: (value, value)
        for key, value in {
            "general_name": "general",
            "hospital_name": "hospital-40",
            "scenario": "2",
            "fixed_score": "residual",
            "n_names": "80",
        }.items()
    }


def test_numbers_are_compared_that_auto_took() -> None:
    rounded, exact = (
        make_report(2).changed(question={"scenario": 2, "dtype": "auto"}, made={"dtype": dtype})
        for dtype in ("bfloat16", "float32")
    )
    comparison = compare_audits(rounded, other_report=exact)
    assert comparison.settings["dtype"] == ("bfloat16", "float32")


def test_a_leak_against_none_by_hand() -> None:
    leak = make_report(2)
    quiet = make_report(2, leak=0.0, hospital="hospital-0")
    question = {"scenario": 2, "settings": {"n_inputs": 100, "prompt": None}}
    comparison = compare_audits(leak.changed(question=question), other_report=quiet)
    n = leak.verdict.n_flagged
    assert comparison.tested == Flags(0, n, 0, 24 - n)
    assert comparison.names.loc[comparison.names["is_different"], "stands_out"].all()
    assert comparison.names["is_different"].sum() == n + comparison.controls.only_one
    tested = comparison.names[~comparison.names["is_control"]]["change"].value_counts()
    assert tested.to_dict() == {
        field: n_names for field, n_names in vars(comparison.tested).items() if n_names
    }
    assert comparison.tested.p == pytest.approx(2 / 2**n)
    assert comparison.aucs[0].difference.low > 0
    assert {k: pair for k, pair in comparison.settings.items() if pair[0] != pair[1]} == {
        "hospital_name": ("hospital-40", "hospital-0"),
        "n_inputs": ("100", ""),
    }


def test_names_are_paired_by_their_folded_parts_and_lists_may_differ() -> None:
    report = make_report(2)
    first = [name.upper() + " " for name in report.names["first_name"]]
    first[0], first[1] = "Somebody", first[2]
    last = list(report.names["last_name"])
    last[1] = last[2]  # listed twice: cannot be paired
    q = [None if i in (3, 4) else x for i, x in enumerate(report.names["q_value"])]
    other_report = replace_names(report, first_name=first, last_name=last, q_value=q)
    comparison = compare_audits(report, other_report=other_report)
    assert comparison.n_only_one == comparison.n_only_other == 3
    assert comparison.names["name_id"].tolist() == list(range(3, 72))
    assert comparison.names["is_flagged_other"][:2].tolist() == [None, None]
    assert comparison.tested.n_names == 24 - 3 - 2


@pytest.mark.parametrize(
    ("row", "truth", "control_kind", "kind", "n_truth"),
    [
        (24, 0, "hard", "easy", 0),  # of two kinds of controls it is the first audit's
        (0, 0, "easy", "differs", 1),
        (1, None, "", "member", 0),
        (72, 0, "canary", "differs", 1),  # planted here, held out there
    ],
)
def test_a_name_that_is_one_thing_here_and_another_there(
    row: int, truth: int | None, control_kind: str, kind: str, n_truth: int
) -> None:
    report = make_report(2, names=make_special_names(4))
    is_member, kinds = list(report.names["is_member"]), list(report.names["control_kind"])
    is_member[row], kinds[row] = truth, control_kind
    comparison = compare_audits(
        report, other_report=replace_names(report, is_member=is_member, control_kind=kinds)
    )
    assert comparison.names["kind"].iloc[row] == kind
    assert comparison.n_truth_differs == n_truth
    assert comparison.tested.n_names == len(MEMBERS) - (row == 0)


def test_without_truth_there_is_no_auc_to_compare() -> None:
    blind = make_report(2, has_truth=False)
    comparison = compare_audits(blind, other_report=blind)
    assert (len(comparison.aucs), comparison.controls.n_names) == (0, 0)
    assert comparison.tested.n_names == blind.n_names


def test_what_one_reference_flags_more_than_another_is_the_difference_of_the_verdicts() -> None:
    report, other_report = make_reference_reports("general", "general-2")
    tested = compare_audits(report, other_report=other_report).tested
    hits = [audit_report.verdict.flagged.n_hits for audit_report in (report, other_report)]
    assert tested.only_one - tested.only_other == hits[0] - hits[1]
