"""Thresholds and ROC: counts by hand, rates against scikit-learn, bands against the bootstrap."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, precision_score, recall_score

from audit.attack.metrics import GENERAL_ALONE
from audit.attack.scores import scores_of
from audit.report.threshold import (
    USEFUL,
    RankedNames,
    ScoreAxis,
    at_threshold,
    fdr_line,
    first_threshold,
    predictive_value,
    ranked_names,
    roc_view,
    score_codes,
    strata_of,
    useful_thresholds,
    volcano,
)
from audit.stats import Estimate, bootstrap_ranking
from tests.pages.make_reports import make_report
from tests.scored_lists import tpr_at_fpr

REPORTS = {scenario: make_report(scenario) for scenario in (1, 2)}
BLIND = make_report(2, has_truth=False)


def named(
    values: list[float], truth: list[bool], *, q: list[float] | None = None, critical: float = 9.0
) -> RankedNames:
    n, members = len(values), np.array(truth)
    return RankedNames(
        score="difference",
        stratum="all",
        is_fixed=True,
        has_truth=True,
        values=np.array(values, dtype=float),
        kind=np.where(members, "member", "control"),
        q=np.array(q or [1.0] * n),
        critical=np.where(members, critical, math.nan),
        axis=ScoreAxis(is_log=False, low=-10, high=10),
    )


def test_counts_by_hand_are_strict_and_leave_out_what_has_no_score() -> None:
    names = named([3, 2, 1, 2, 0, math.nan], [True, True, True, False, False, False])
    view = at_threshold(names, threshold=2, prevalence=0.1)
    assert view.counts is not None
    assert (view.counts.tp, view.counts.fn, view.counts.fp, view.counts.tn) == (1, 2, 0, 2)
    assert view.n_not_scored == 1
    assert (view.flagged.n_hits, view.flagged.n_total) == (1, 5)
    assert view.counts.recall.value == pytest.approx(1 / 3)
    assert view.f1.value == pytest.approx(0.5)
    assert view.ppv.value == 1.0


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30),
    st.integers(-4, 4),
)
def test_rates_are_those_of_scikit_learn(rows: list[tuple[int, bool]], threshold: int) -> None:
    values, truth = [float(v) for v, _ in rows], [t for _, t in rows]
    view = at_threshold(named(values, truth), threshold=threshold, prevalence=0.5)
    flags = [v > threshold for v in values]
    (tn, fp), (fn, tp) = confusion_matrix(truth, flags, labels=[False, True])
    assert view.counts is not None
    assert (view.counts.tp, view.counts.fn, view.counts.fp, view.counts.tn) == (tp, fn, fp, tn)
    if any(truth):
        assert view.counts.recall.value == pytest.approx(recall_score(truth, flags))
    if any(flags):
        assert view.counts.precision.value == pytest.approx(precision_score(truth, flags))


def test_the_predictive_value_is_that_of_bayes() -> None:
    found = predictive_value(
        Estimate(0.8, 0.6, 0.9), fpr=Estimate(0.01, 0.005, 0.03), prevalence=0.02
    )
    assert found.value == pytest.approx(0.016 / (0.016 + 0.0098))
    assert found.low == pytest.approx(0.012 / (0.012 + 0.0294))
    assert found.low < found.value < found.high
    nobody = predictive_value(Estimate(0, 0, 0), fpr=Estimate(0, 0, 0), prevalence=0.02)
    assert math.isnan(nobody.value)


def test_useful_thresholds_by_hand() -> None:
    controls = [float(i) for i in range(200)]
    members = [197.5, 198.5, 300.0, 301.0]
    truth = [False] * 200 + [True] * 4
    q = [1.0] * 200 + [1.0, 1.0, 0.01, 0.01]
    names = named(controls + members, truth, q=q, critical=250.0)
    found = useful_thresholds(names)
    assert tuple(found) == USEFUL
    assert found["fpr"] == 197.0  # 198 and 199 above it: 2 of 200
    assert found["fdr"] == 250.0
    assert found["paper"] == 0
    assert found["youden"] == 197.0  # all members at an FPR of 1 %
    assert first_threshold(found) == 250.0


def test_thresholds_that_a_list_does_not_have_are_nan() -> None:
    found = useful_thresholds(named([1, 2, 3], [True, False, False]))
    assert math.isnan(found["fpr"])  # two controls resolve no FPR of 1 %
    assert math.isnan(found["fdr"])  # nobody stands out
    endless = named([1, 2, 3], [True, False, False], q=[0.01, 1, 1], critical=math.inf)
    assert math.isnan(useful_thresholds(endless)["fdr"])
    blind = useful_thresholds(ranked_names(BLIND, score=BLIND.fixed_score))
    assert math.isnan(blind["youden"])
    assert math.isnan(useful_thresholds(replace(endless, is_fixed=False))["fdr"])


@pytest.mark.parametrize("scenario", [1, 2])
def test_every_score_of_a_report_can_be_chosen(scenario: int) -> None:
    report = REPORTS[scenario]
    codes = score_codes(report)
    assert codes[0] == report.fixed_score
    assert codes[-2:] == (GENERAL_ALONE, "popularity")
    assert set(codes[:-2]) <= {kind.name for kind in scores_of(scenario)}
    for code in codes:
        for stratum in strata_of(report):
            names = ranked_names(report, score=code, stratum=stratum)
            measured = report.measures.strata[stratum]
            assert int(names.is_member.sum()) == measured.n_members
            assert int((~names.is_member).sum()) == measured.n_controls
            for useful in useful_thresholds(names).values():
                place = names.axis.place_of(useful) if not math.isnan(useful) else names.axis.low
                assert names.axis.low <= place <= names.axis.high


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_q_threshold_flags_exactly_the_names_that_stand_out(scenario: int) -> None:
    """Members by their q; controls are asked at the members' threshold, not by a q of their own."""
    report = REPORTS[scenario]
    names = ranked_names(report, score=report.fixed_score)
    threshold = useful_thresholds(names)["fdr"]
    assert (names.values > threshold).tolist() == report.stands_out
    view = at_threshold(names, threshold=threshold, prevalence=0.01)
    assert view.counts is not None
    assert view.counts.tp == report.verdict.n_flagged > 0
    assert view.counts.fp == sum(report.stands_out) - view.counts.tp


def test_an_audit_that_found_no_leak_has_no_q_threshold() -> None:
    report = make_report(2, leak=0.0)
    assert report.verdict.state != "leak_found" and not any(report.stands_out)
    names = ranked_names(report, score=report.fixed_score)
    assert math.isnan(useful_thresholds(names)["fdr"])


def test_a_name_that_is_not_judged_does_not_hide_the_q_threshold() -> None:
    report = REPORTS[2]
    changed = {"q_value": None, "threshold": "inf", "decision": "not judged"}
    names = {key: [value, *report.names[key][1:]] for key, value in changed.items()}
    fewer = report.changed(names={**report.names, **names})
    found = useful_thresholds(ranked_names(fewer, score=fewer.fixed_score))
    assert found["fdr"] == report.names["threshold"][1] < math.inf


def test_the_papers_threshold_gives_the_papers_rule() -> None:
    report = REPORTS[2]
    view = at_threshold(
        ranked_names(report, score="difference", stratum="hard"), threshold=0, prevalence=0.01
    )
    measured = report.measures.strata["hard"].rules["difference_above_zero"].confusion
    assert view.counts is not None
    assert [view.counts.tp, view.counts.fp] == [measured.tp, measured.fp]


def test_a_list_without_truth_has_counts_of_flagged_names_only() -> None:
    names = ranked_names(BLIND, score=BLIND.fixed_score)
    view = at_threshold(names, threshold=-math.inf, prevalence=0.01)
    assert view.counts is None
    assert view.flagged.n_hits == BLIND.n_names
    assert math.isnan(view.f1.value)
    assert not len(roc_view(names).fpr)
    assert strata_of(BLIND) == ("all",)
    with pytest.raises(ValueError, match="no such"):
        ranked_names(BLIND, score="evil")


def test_a_logarithmic_axis_has_a_place_for_zero_and_comes_back() -> None:
    axis = ScoreAxis(is_log=True, low=-5.0, high=0.0)
    places = axis.place(np.array([0.01, 0.0, math.nan, math.inf]))
    assert places[:2].tolist() == [-2.0, -5.0]
    assert np.isnan(places[2:]).all()
    assert axis.score_at(-2.0) == pytest.approx(0.01)
    assert axis.score_at(-5.0) == 0.0
    assert axis.place_of(math.inf) == 0.0
    assert axis.place_of(-3.0) == -5.0
    assert axis.step == pytest.approx(0.025)


@pytest.mark.parametrize("n_controls", [24, 400])
def test_the_curve_is_the_tpr_at_each_fpr(n_controls: int) -> None:
    rng = np.random.default_rng(1)
    values = [*rng.normal(1, 1, 60).round(1), *rng.normal(0, 1, n_controls).round(1)]
    truth = [True] * 60 + [False] * n_controls
    view = roc_view(named(values, truth))
    assert (view.fpr[0], view.fpr[-1], view.tpr[-1]) == (0, 1, 1)
    assert len(view.fpr) <= 121
    for fpr, tpr in zip(view.fpr[1:], view.tpr[1:], strict=True):
        assert tpr == tpr_at_fpr(values, truth, fpr=fpr)
    assert ((view.low <= view.tpr) & (view.tpr <= view.high)).mean() > 0.95
    assert (np.diff(view.tpr) >= 0).all()


def test_the_band_is_that_of_a_bootstrap_over_names() -> None:
    rng = np.random.default_rng(2)
    values = [*rng.normal(1, 1, 80), *rng.normal(0, 1, 100)]
    truth = [True] * 80 + [False] * 100
    view = roc_view(named(values, truth))
    slow = bootstrap_ranking(values, truth, seed=3, fprs=(0.1, 0.5), n_replicates=4000)
    for fpr, estimate in slow.tpr_at_fpr:
        at = int(np.flatnonzero(view.fpr == fpr)[0])
        assert view.tpr[at] == estimate.value
        assert view.low[at] == pytest.approx(estimate.low, abs=0.03)
        assert view.high[at] == pytest.approx(estimate.high, abs=0.03)


def test_a_perfect_ranking_is_not_called_certain() -> None:
    view = roc_view(named([5, 6, 7, 1, 2, 3], [True] * 3 + [False] * 3))
    assert view.tpr.tolist() == [1, 1, 1, 1]
    assert view.low[0] < 0.5


def test_a_volcano_holds_every_name_once_and_few_points() -> None:
    report = REPORTS[2]
    found = {kind.kind: kind for kind in volcano(report, score="mean_log_ratio")}
    assert {kind: int(v.n_names.sum()) for kind, v in found.items()} == {
        "member": 24,
        "control": 48,
    }
    assert fdr_line() == pytest.approx(-math.log10(0.05))
    assert (found["member"].y > fdr_line()).sum() > 0


def test_ten_thousand_names_are_quick() -> None:
    rng = np.random.default_rng(4)
    truth = [True] * 5000 + [False] * 5000
    names = named(rng.normal(np.array(truth), 1).tolist(), truth)
    start = time.process_time()
    view = at_threshold(names, threshold=0.5, prevalence=0.01)
    assert time.process_time() - start < 0.1
    assert view.counts is not None and view.counts.n_members == 5000
    start = time.process_time()
    assert len(roc_view(names).fpr) <= 121
    assert time.process_time() - start < 2
