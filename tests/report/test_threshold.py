"""Thresholds and ROC: counts by hand, rates against scikit-learn, bands against the bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from audit.attack.metrics import GENERAL_ALONE
from audit.attack.scores import list_scores
from audit.report.threshold import (
    RankedNames,
    ScoreAxis,
    apply_threshold,
    choose_first_threshold,
    find_useful_thresholds,
    fit_to_axes,
    list_score_codes,
    list_strata,
    make_calibration,
    make_roc_view,
    predictive_value,
    rank_names,
    read_threshold,
)
from audit.stats import Estimate, Rate, bootstrap_ranking
from tests.pages.make_reports import N_PER_KIND, make_report, make_special_names
from tests.scored_lists import tpr_at_fpr

REPORTS = {scenario: make_report(scenario) for scenario in (1, 2)}
BLIND = make_report(2, has_truth=False)


def rank_values(
    values: list[float], truth: list[bool], *, q: list[float] | None = None, critical: float = 9.0
) -> RankedNames:
    members = np.array(truth)
    names = pd.DataFrame(
        {
            "value": np.array(values, dtype=float),
            "is_member": members,
            "q": q or [1.0] * len(values),
            "critical": np.where(members, critical, math.nan),
        }
    )
    return RankedNames("difference", "all", True, names, ScoreAxis(is_log=False, low=-10, high=10))


def test_counts_by_hand_are_strict_and_leave_out_what_has_no_score() -> None:
    names = rank_values([3, 2, 1, 2, 0, math.nan], [True, True, True, False, False, False])
    view = apply_threshold(names, threshold=2, prevalence=0.1)
    assert view.counts is not None
    assert (view.counts.tp, view.counts.fn, view.counts.fp, view.counts.tn) == (1, 2, 0, 2)
    assert (view.n_not_scored, view.flagged, view.prevalence) == (1, Rate(1, 5), 0.1)
    assert view.counts.recall.value == pytest.approx(1 / 3)
    assert (view.f1.value, view.ppv.value) == (pytest.approx(0.5), 1.0)


def test_the_predictive_value_is_that_of_bayes() -> None:
    ppv = predictive_value(
        Estimate(0.8, 0.6, 0.9), fpr=Estimate(0.01, 0.005, 0.03), prevalence=0.02
    )
    assert (ppv.value, ppv.low, ppv.high) == pytest.approx(
        (0.016 / (0.016 + 0.0098), 0.012 / (0.012 + 0.0294), 0.018 / (0.018 + 0.0049))
    )
    nobody = predictive_value(Estimate(0, 0, 0), fpr=Estimate(0, 0, 0), prevalence=0.02)
    assert math.isnan(nobody.value)


def test_useful_thresholds_by_hand() -> None:
    members = [197.5, 198.5, 300.0, 301.0]
    q = [1.0] * 200 + [1.0, 1.0, 0.01, 0.01]
    names = rank_values(
        [*map(float, range(200)), *members], [False] * 200 + [True] * 4, q=q, critical=250.0
    )
    # FPR: 198 and 199 above it, 2 of 200; Youden: all members at an FPR of 1 %.
    thresholds = find_useful_thresholds(names)
    assert list(thresholds.items()) == [
        ("fpr", 197.0),
        ("fdr", 250.0),
        ("youden", 197.0),
        ("paper", 0),
    ]
    assert choose_first_threshold(thresholds) == 250.0
    assert choose_first_threshold({**thresholds, "fdr": math.nan}) == 197.0
    assert choose_first_threshold(dict.fromkeys(thresholds, math.nan) | {"paper": 0.0}) == 0.0
    # nobody stands out; 2 controls resolve no 1 %
    few = rank_values([1, 2, 3], [True, False, False])
    endless = rank_values([1, 2, 3], [True, False, False], q=[0.01, 1, 1], critical=math.inf)
    for names in (few, endless):
        thresholds = find_useful_thresholds(names)
        assert math.isnan(thresholds["fpr"]) and math.isnan(thresholds["fdr"])
    blind = find_useful_thresholds(rank_names(BLIND, score=BLIND.fixed_score))
    assert math.isnan(blind["youden"])
    assert read_threshold("1e-3") == 0.001
    assert all(math.isnan(read_threshold(text)) for text in ("", "x", "inf", "nan"))


@pytest.mark.parametrize("scenario", [1, 2])
def test_every_score_of_a_report_can_be_chosen(scenario: int) -> None:
    report = REPORTS[scenario]
    codes = list_score_codes(report)
    columns = {kind.name: kind.column or kind.name for kind in list_scores(scenario)}
    general = {1: "general_product", 2: "general_mean_log"}[scenario]
    columns |= {GENERAL_ALONE: general, "popularity": "popularity"}
    assert (codes[0], codes[-2:]) == (report.fixed_score, (GENERAL_ALONE, "popularity"))
    assert set(codes[:-2]) <= set(report.measures.strata["all"].scores)
    assert len(set(codes)) == len(codes) >= 7
    assert list_strata(report) == ("all", "easy", "hard")
    for code in codes:
        for stratum in list_strata(report):
            names = rank_names(report, score=code, stratum=stratum)
            measured = report.measures.strata[stratum]
            assert int(names.names["is_member"].sum()) == measured.n_members
            assert int((~names.names["is_member"]).sum()) == measured.n_controls
            kinds = ["member", "easy", "hard"] if stratum == "all" else ["member", stratum]
            expected_scores = report.table.loc[report.table["kind"].isin(kinds), columns[code]]
            assert np.array_equal(names.names["value"], expected_scores, equal_nan=True)
            for useful in find_useful_thresholds(names).values():
                place = names.axis.place_of(useful) if not math.isnan(useful) else names.axis.low
                assert names.axis.low <= place <= names.axis.high
    with pytest.raises(ValueError, match="no such"):
        rank_names(report, score="evil")


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_q_threshold_flags_exactly_the_names_that_stand_out(scenario: int) -> None:
    """Members by their q; controls are asked at the members' threshold, not by a q of their own."""
    report = REPORTS[scenario]
    names = rank_names(report, score=report.fixed_score)
    threshold = find_useful_thresholds(names)["fdr"]
    assert (names.names["value"] > threshold).tolist() == report.stands_out
    view = apply_threshold(names, threshold=threshold, prevalence=0.01)
    assert view.counts is not None
    assert view.counts.tp == report.verdict.n_flagged > 0
    assert view.counts.fp == sum(report.stands_out) - view.counts.tp


def test_an_audit_without_a_leak_has_no_q_threshold_and_one_unjudged_name_does_not_hide_it() -> (
    None
):
    quiet = make_report(2, leak=0.0)
    assert quiet.verdict.state != "leak_found" and not any(quiet.stands_out)
    names = rank_names(quiet, score=quiet.fixed_score)
    assert math.isnan(find_useful_thresholds(names)["fdr"])
    report = REPORTS[2]
    changed = {"q_value": None, "threshold": "inf", "decision": "not judged"}
    cells = {key: [value, *report.names[key][1:]] for key, value in changed.items()}
    fewer = report.changed(names={**report.names, **cells})
    thresholds = find_useful_thresholds(rank_names(fewer, score=fewer.fixed_score))
    assert thresholds["fdr"] == report.names["threshold"][1] < math.inf


def test_a_list_without_truth_has_counts_of_flagged_names_only() -> None:
    names = rank_names(BLIND, score=BLIND.fixed_score)
    view = apply_threshold(names, threshold=-math.inf, prevalence=0.01)
    assert (view.counts, view.flagged) == (None, Rate(BLIND.n_names, BLIND.n_names))
    assert math.isnan(view.f1.value) and math.isnan(view.ppv.value)
    assert not len(make_roc_view(names).fpr)
    assert list_strata(BLIND) == ("all",) and make_calibration(BLIND) is None
    assert list_score_codes(BLIND) == (BLIND.fixed_score, GENERAL_ALONE, "popularity")


def test_a_logarithmic_axis_has_a_place_for_zero_and_comes_back() -> None:
    axis = ScoreAxis(is_log=True, low=-5.0, high=0.0)
    assert [axis.place_of(score) for score in (0.01, 0.0, -1.0, 2.0)] == [-2.0, -5.0, -5.0, 0.0]
    assert (axis.score_at(-2.0), axis.score_at(-5.0)) == (pytest.approx(0.01), 0.0)
    assert (axis.place_of(math.inf), axis.place_of(-math.inf)) == (0.0, -5.0)
    plain = ScoreAxis(is_log=False, low=-1, high=3)
    assert (plain.score_at(0.5), plain.place_of(2.5)) == (0.5, 2.5)


def test_axes_hold_their_scores_and_the_papers_threshold() -> None:
    scores = REPORTS[1].table["hospital_product"]
    axis = rank_names(REPORTS[1], score="product").axis
    logs = np.log10(scores[scores > 0])
    assert (axis.is_log, axis.low, axis.high) == (
        True,
        math.floor(logs.min()) - 1,
        math.ceil(logs.max()),
    )
    names = REPORTS[2].names
    positive = {
        **names,
        "residual": [abs(x) + 1 for x in names["residual"]],
        "score": [abs(x) + 1 for x in names["score"]],
    }
    for changed, low in ((names, min(names["score"])), (positive, 0.0)):
        axis = rank_names(REPORTS[2].changed(names=changed), score="residual").axis
        high = max(changed["score"])
        margin = (high - low) / 50
        assert (axis.low, axis.high) == pytest.approx((low - margin, high + margin))
    nothing = REPORTS[2].changed(names={**names, "residual": [None] * 72, "score": [None] * 72})
    assert rank_names(nothing, score="residual").axis == ScoreAxis(False, -1.0, 1.0)
    assert rank_names(nothing, score="popularity").axis == ScoreAxis(True, -1.0, 0.0)


@pytest.mark.parametrize("n_controls", [24, 400])
def test_the_curve_is_the_tpr_at_each_fpr(n_controls: int) -> None:
    rng = np.random.default_rng(1)
    values = [*rng.normal(1, 1, 60).round(1), *rng.normal(0, 1, n_controls).round(1)]
    truth = [True] * 60 + [False] * n_controls
    view = make_roc_view(rank_values(values, truth))
    assert (view.fpr[0], view.fpr[-1], view.tpr[-1]) == (0, 1, 1)
    assert (view.n_members, view.n_controls) == (60, n_controls)
    assert len(view.fpr) == 25 if n_controls == 24 else 60 < len(view.fpr) <= 121
    for fpr, tpr in zip(view.fpr[1:], view.tpr[1:], strict=True):
        assert tpr == tpr_at_fpr(values, truth, fpr=fpr)
    assert ((view.low <= view.tpr) & (view.tpr <= view.high)).mean() > 0.95
    assert (np.diff(view.tpr) >= 0).all()


def test_the_band_is_that_of_a_bootstrap_over_names() -> None:
    rng = np.random.default_rng(2)
    values = [*rng.normal(1, 1, 80), *rng.normal(0, 1, 100)]
    truth = [True] * 80 + [False] * 100
    view = make_roc_view(rank_values(values, truth))
    slow = bootstrap_ranking(values, truth, seed=3, fprs=(0.1, 0.5), n_replicates=4000)
    for fpr, estimate in slow.tpr_at_fpr:
        position = int(np.flatnonzero(view.fpr == fpr)[0])
        assert view.tpr[position] == estimate.value
        assert (view.low[position], view.high[position]) == pytest.approx(
            (estimate.low, estimate.high), abs=0.03
        )
    sure = make_roc_view(rank_values([5, 6, 7, 1, 2, 3], [True] * 3 + [False] * 3))
    assert sure.tpr.tolist() == [1, 1, 1, 1] and sure.low[0] < 0.5  # not called certain


def test_the_controls_p_values_by_hand() -> None:
    report = make_report(2, names=make_special_names(4))
    calibration = make_calibration(report)
    assert calibration is not None
    p = sorted(report.names["p_value"][24:72])
    assert (calibration.p.tolist(), calibration.n_controls) == (p, 2 * N_PER_KIND)
    assert calibration.expected == pytest.approx(np.arange(1, 49) / 49)
    assert calibration.n_low == sum(x <= 0.05 for x in p)
    assert calibration.half_width == pytest.approx(0.1358 * math.sqrt(100 / 48), abs=2e-4)
    many = REPORTS[2].changed(names={k: v * 20 for k, v in REPORTS[2].names.items()})
    few = make_calibration(many)
    assert few is not None and (len(few.p), few.n_controls) == (300, 960)


def test_curves_rise_from_zero_or_from_half_of_what_the_list_resolves() -> None:
    codes = ("residual", GENERAL_ALONE)
    curves = [make_roc_view(rank_names(REPORTS[2], score=code, stratum="hard")) for code in codes]
    drawn_curves, floor = fit_to_axes(curves, is_log=True)
    assert floor == (0.5 / N_PER_KIND, 0.5 / N_PER_KIND)
    for drawn_curve, curve in zip(drawn_curves, curves, strict=True):
        assert drawn_curve.fpr.tolist() == [max(x, floor[0]) for x in curve.fpr]
        assert drawn_curve.low.tolist() == [max(y, floor[1]) for y in curve.low]
    drawn_curves, floor = fit_to_axes(curves, is_log=False)
    assert floor == (0, 0)
    assert [(curve.fpr[0], curve.tpr[0], curve.high[0]) for curve in drawn_curves] == [
        (0, 0, 0)
    ] * 2
    assert [curve.tpr[1:].tolist() for curve in drawn_curves] == [
        curve.tpr.tolist() for curve in curves
    ]


def test_the_band_of_honest_p_values_stays_between_0_and_1() -> None:
    calibration = make_calibration(REPORTS[2])
    assert calibration is not None
    x, low, high = calibration.band()
    assert x == sorted(x) and (x[0], x[-1]) == (0, 1)
    assert (low[0], high[-1]) == (0, 1)
    assert high[0] == pytest.approx(calibration.half_width) == 1 - low[-1]
