"""The Measures page's values: what the report says, said again; QQ and linking by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from audit.report.reading import LINKED_BY, band_half_width, linking_of, measures_view
from tests.pages.make_reports import N_PER_KIND, make_report

LINKING = {
    "n_passages": 4,
    "n_names": 10,
    "chance": {"top_1": 0.1, "top_5": 0.5, "median_rank": 5.5},
    "hospital_against_general": {"top_1": 0.5, "top_5": 0.75, "median_rank": 2.0},
    "hospital_alone": {"top_1": 0.25, "top_5": 0.75, "median_rank": 3.0},
    "general_alone": {"top_1": 0.0, "top_5": 0.5, "median_rank": 5.0},
    "rank_by_passage": [
        {"passage_id": i, "name_id": i, "rank": rank} for i, rank in enumerate([1.0, 3.0, 1.0, 8.0])
    ],
}


@pytest.mark.parametrize("scenario", [1, 2])
def test_rules_and_scores_are_the_reports(scenario: int) -> None:
    report = make_report(scenario)
    view = measures_view(report)
    assert view.has_truth
    assert view.strata == ("all", "easy", "hard")
    for line in view.rules:
        measured = report.measures["strata"][line.stratum]
        places = {"hospital": "rules", "general": "baseline_rules"}
        where = "held_out" if line.is_held_out else places.get(line.who, "")
        record = measured[where][line.rule] if where else measured["always_member"]
        assert line.counts.tp == record["confusion"]["tp"]
        assert line.f1.value == record["f1"]["value"] or record["f1"]["value"] is None
    whos = {(line.rule, line.who, line.is_held_out) for line in view.rules}
    assert (report.fixed_score, "hospital", True) in whos
    assert ("general_alone", "general", True) in whos
    assert ("always_member", "guess", False) in whos
    first = view.scores[0]
    assert first.is_fixed
    assert (
        first.auc.value == report.measures["strata"]["all"]["scores"][first.score]["auc"]["value"]
    )
    assert [line.score for line in view.scores if line.is_fixed] == [report.fixed_score] * 3
    assert len(first.tprs) == 2
    assert math.isnan(first.tprs[1].value)  # 48 controls do not resolve 0.1 %


def test_undecided_names_bound_the_papers_rule() -> None:
    view = measures_view(make_report(2))
    line = next(line for line in view.rules if line.rule == "difference_above_zero")
    assert line.n_undecided is not None
    assert line.best is not None and line.worst is not None
    assert line.worst.tp <= line.counts.tp <= line.best.tp


def test_the_curve_has_the_attack_and_its_comparisons() -> None:
    report = make_report(2)
    lines = measures_view(report).curve["easy"]
    assert [line.score for line in lines] == [report.fixed_score, "general_alone", "popularity"]
    assert [line.is_baseline for line in lines] == [False, True, True]
    assert lines[0].n_units[-1] == 1000
    last = report.measures["strata"]["easy"]["scores"][report.fixed_score]["auc"]["value"]
    assert lines[0].auc[-1] == pytest.approx(last)


def test_the_controls_p_values_by_hand() -> None:
    report = make_report(2)
    found = measures_view(report).calibration
    assert found is not None
    assert len(found.p) == found.n_controls == 2 * N_PER_KIND
    assert (np.diff(found.p) >= 0).all()
    assert found.expected[0] == pytest.approx(1 / 49)
    assert found.n_low == sum(
        p <= 0.05
        for p, truth in zip(report.names["p_value"], report.names["is_member"], strict=True)
        if truth == 0
    )


def test_the_band_holds_uniform_draws_in_most_cases() -> None:
    assert band_half_width(100) == pytest.approx(0.1358, abs=1e-4)
    rng = np.random.default_rng(0)
    places = np.arange(1, 51) / 50
    strays = [
        max((places - p).max(), (p - places + 1 / 50).max())
        for p in np.sort(rng.random((1000, 50)), axis=1)
    ]
    assert 0.93 <= (np.array(strays) <= band_half_width(50)).mean() <= 0.99


def test_linking_by_hand() -> None:
    found = measures_view(replace(make_report(2), details={"linking": LINKING})).linking
    assert found is not None
    assert found.ranks.tolist() == [1, 3, 8]
    assert found.share.tolist() == [0.5, 0.75, 1.0]
    assert [line.by for line in found.lines] == [*LINKED_BY, "chance"]
    assert found.lines[0].top_1.low < 0.5 < found.lines[0].top_1.high
    assert found.lines[-1].top_1.value == 0.1
    assert math.isnan(found.lines[-1].top_1.low)
    assert linking_of(None) is None


def test_without_truth_nothing_is_made_up() -> None:
    view = measures_view(make_report(2, has_truth=False))
    assert not view.has_truth
    assert view.rules == view.scores == view.strata == ()
    assert view.curve == {}
    assert view.calibration is None
    assert view.cohort.group == "unknown"
    assert view.cohort.n_members == N_PER_KIND
