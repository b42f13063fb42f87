"""The Measures page's values: what the report says, said again; QQ and linking by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.report.report import LINKED_BY
from audit.report.threshold import band_half_width, calibration
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
def test_every_rule_and_score_is_told_the_fixed_one_first(scenario: int) -> None:
    report = make_report(scenario)
    assert list(report.measures.strata) == ["all", "easy", "hard"]
    assert list(report.measures.shown) == ["easy", "hard"]
    for name, stratum in report.measures.strata.items():
        kept = report.to_json()["measures"]["strata"][name]
        judged = list(stratum.judged(report.fixed_score))
        places = {"hospital": "rules", "general": "baseline_rules", "held_out": "held_out"}
        for rule, judges, reached in judged:
            record = kept[places[judges]][rule] if judges in places else kept["always_member"]
            assert reached.confusion.tp == record["confusion"]["tp"]
            assert reached.f1.value == record["f1"]["value"] or record["f1"]["value"] is None
        whos = {(rule, judges) for rule, judges, _ in judged}
        assert {(report.fixed_score, "held_out"), ("general_alone", "held_out")} < whos
        assert judged[-1][:2] == ("always_member", "guess")
        ranked = stratum.ranked(report.fixed_score)
        assert next(iter(ranked)) == report.fixed_score
        assert set(ranked) == {*kept["scores"], *kept["baselines"]}
        first = ranked[report.fixed_score]
        assert first.auc.value == kept["scores"][report.fixed_score]["auc"]["value"]
        assert math.isnan(first.tpr(0.001).value)  # 48 controls do not resolve 0.1 %


def test_undecided_names_bound_the_papers_rule() -> None:
    rule = make_report(2).measures.strata["easy"].rules["difference_above_zero"]
    assert rule.n_undecided is not None
    assert rule.all_right is not None and rule.all_wrong is not None
    assert rule.all_wrong.tp <= rule.confusion.tp <= rule.all_right.tp


def test_the_curve_ends_at_the_whole() -> None:
    report = make_report(2)
    last = report.curve[-1]
    assert last.n == 1000
    whole = report.measures.strata["easy"].scores[report.fixed_score].auc.value
    assert last.strata["easy"].auc[report.fixed_score] == pytest.approx(whole)


def test_the_controls_p_values_by_hand() -> None:
    report = make_report(2)
    found = calibration(report)
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
    found = make_report(2).changed(details={"linking": LINKING}).details.linking
    assert found is not None
    ranks, share = found.reached()
    assert ranks.tolist() == [1, 3, 8]
    assert share.tolist() == [0.5, 0.75, 1.0]
    lines = list(found.lines())
    assert [by for by, *_ in lines] == [*LINKED_BY, "chance"]
    assert lines[0][1].low < 0.5 < lines[0][1].high
    assert lines[-1][1].value == 0.1
    assert math.isnan(lines[-1][1].low)
    assert make_report(2).details.linking is None


def test_without_truth_nothing_is_made_up() -> None:
    report = make_report(2, has_truth=False)
    assert not report.has_truth and not report.measures.shown and not report.curve
    assert calibration(report) is None
    assert report.cohort.group == "unknown"
    assert report.cohort.n_members == N_PER_KIND
