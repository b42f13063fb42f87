"""Two audits: McNemar against scipy, an interval as published, DeLong against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from audit.report.compare import Flags, auc_difference, compare_audits
from audit.report.report import AuditReport
from audit.stats import auc, bootstrap_ranking
from tests.pages.make_reports import MEMBERS, make_report


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_the_binomial_test(b: int, c: int) -> None:
    wanted = binomtest(b, b + c).pvalue if b + c else 1.0
    assert Flags(1, b, c, 2).p == pytest.approx(wanted)
    assert Flags(0, b, c, 0).p == Flags(0, c, b, 0).p


def test_many_discordant_names_need_no_floats() -> None:
    assert Flags(0, 3000, 3100, 0).p == pytest.approx(binomtest(3000, 6100).pvalue)


def test_the_difference_of_paired_shares_is_newcombes() -> None:
    found = Flags(both=36, only_one=12, only_other=2, neither=0).difference
    assert found.value == pytest.approx(0.2)
    assert (found.low, found.high) == (
        pytest.approx(0.0569, abs=2e-4),
        pytest.approx(0.3404, abs=2e-4),
    )


@given(*(st.integers(0, 30) for _ in range(4)))
def test_the_interval_holds_the_difference_and_turns_with_the_sides(
    a: int, b: int, c: int, d: int
) -> None:
    flags, turned = Flags(a, b, c, d), Flags(a, c, b, d)
    found, other = flags.difference, turned.difference
    if not flags.n_names:
        assert math.isnan(found.value)
        return
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert (other.low, other.high) == (pytest.approx(-found.high), pytest.approx(-found.low))


def test_controls_whose_kind_differs_are_counted() -> None:
    one = make_report(2)
    kinds = list(one.names["control_kind"])
    row = kinds.index("easy")
    kinds[row] = "hard"
    other = one.changed(names={**one.names, "control_kind": kinds})
    found = compare_audits(one, other=other)
    assert found.n_kind_differs == 1
    assert (found.n_truth_differs, found.names["kind"].iloc[row]) == (0, "easy")
    assert compare_audits(one, other=one).n_kind_differs == 0


def slow_delong(one: np.ndarray, other: np.ndarray, truth: np.ndarray) -> float:
    """Variance by the structural components, pair by pair."""
    parts = []
    for score in (one, other):
        pairs = score[truth][:, None] - score[~truth][None, :]
        parts.append((pairs > 0) + 0.5 * (pairs == 0))
    gap = parts[0] - parts[1]
    return (
        gap.mean(axis=1).var(ddof=1) / truth.sum() + gap.mean(axis=0).var(ddof=1) / (~truth).sum()
    )


def test_delong_against_brute_force_and_the_bootstrap() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(150) < 60
    base = rng.normal(size=150)
    one, other = (base + 1.2 * truth).round(1), (base + 0.5 * truth + rng.normal(size=150)).round(1)
    first, second, difference = auc_difference(one, other=other, is_member=truth)
    assert (first, second) == (auc(one, truth), auc(other, truth))
    assert difference.value == pytest.approx(first - second)
    half = 1.959964 * math.sqrt(slow_delong(one, other, truth))
    assert difference.high - difference.value == pytest.approx(half, rel=1e-4)
    drawn = []
    for _ in range(600):
        rows = np.concatenate([rng.integers(0, 60, 60), rng.integers(60, 150, 90)])
        drawn.append(auc(one[rows], truth[rows]) - auc(other[rows], truth[rows]))
    assert np.std(drawn) == pytest.approx(half / 1.959964, rel=0.15)


def test_two_perfect_rankings_are_not_called_equal_for_certain() -> None:
    truth = np.array([True] * 3 + [False] * 3)
    scores = np.array([4.0, 5, 6, 1, 2, 3])
    _, _, difference = auc_difference(scores, other=scores, is_member=truth)
    assert difference.value == 0
    assert difference.low < -0.4 < 0.4 < difference.high
    assert bootstrap_ranking(scores, truth, seed=0).auc.low == pytest.approx(1 + difference.low)


def test_names_without_a_score_are_left_out_of_both() -> None:
    truth = np.array([True, True, False, False])
    one, other = np.array([3.0, math.nan, 1, 2]), np.array([0.0, 5, 1, 2])
    assert auc_difference(one, other=other, is_member=truth)[:2] == (1.0, 0.0)


def with_names(report: AuditReport, **changes: list[object]) -> AuditReport:
    return report.changed(names={**report.names, **changes})


def test_an_audit_against_itself_differs_in_nothing() -> None:
    report = make_report(2)
    found = compare_audits(report, other=report)
    assert len(found.names) == report.n_names
    assert not found.names["is_different"].any()
    assert found.tested.n_names == len(MEMBERS)
    assert found.tested.p == 1.0
    assert found.tested.difference.value == 0
    assert [a.stratum for a in found.aucs] == ["all", "easy", "hard"]
    assert all(a.difference.value == 0 for a in found.aucs)
    assert all(one == other for one, other in found.settings.values())


def test_a_leak_against_none_by_hand() -> None:
    leak, quiet = make_report(2), make_report(2, leak=0.0, hospital="hospital-0")
    found = compare_audits(leak, other=quiet)
    assert found.tested.only_one == leak.verdict.n_flagged
    assert found.tested.only_other == 0
    assert found.tested.p == pytest.approx(2 / 2**leak.verdict.n_flagged)
    pooled = leak.measures.strata["all"].scores[leak.fixed_score].auc.value
    assert found.aucs[0].one == pytest.approx(pooled)
    assert found.aucs[0].difference.low > 0
    assert {k for k, (one, other) in found.settings.items() if one != other} == {"hospital_name"}


def test_names_are_paired_by_their_folded_parts_and_lists_may_differ() -> None:
    one = make_report(2)
    first = [name.upper() + " " for name in one.names["first_name"]]
    first[0], first[1] = "Somebody", first[2]
    last = list(one.names["last_name"])
    last[1] = last[2]  # listed twice: cannot be paired
    other = with_names(one, first_name=first, last_name=last)
    found = compare_audits(one, other=other)
    assert found.n_only_one == found.n_only_other == 3
    assert len(found.names) == one.n_names - 3


def test_a_name_that_is_member_here_and_control_there_is_counted_apart() -> None:
    one = make_report(2)
    truth, kinds = list(one.names["is_member"]), list(one.names["control_kind"])
    truth[0], kinds[0] = 0, "easy"
    truth[1] = None
    found = compare_audits(one, other=with_names(one, is_member=truth, control_kind=kinds))
    assert found.n_truth_differs == 1
    assert found.names["kind"].tolist()[:2] == ["differs", "member"]
    assert found.tested.n_names == len(MEMBERS) - 1


def test_without_truth_there_is_no_auc_to_compare() -> None:
    blind = make_report(2, has_truth=False)
    found = compare_audits(blind, other=blind)
    assert found.aucs == ()
    assert found.controls.n_names == 0
    assert math.isnan(found.controls.difference.value)
    assert found.tested.n_names == blind.n_names
