"""What the Overview page reads out of a report."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.report.names import KindScores, kind_scores, number, strongest_names
from audit.report.report import AuditReport, estimate
from audit.stats import Rate, auc
from pages.ui.paper_table import measured
from tests.pages.make_reports import MEMBERS, N_PER_KIND, N_REFERENCE, make_report


@pytest.fixture(scope="module")
def report() -> AuditReport:
    return make_report(2)


def test_the_counts_of_who_stands_out_are_the_reports(report: AuditReport) -> None:
    assert report.verdict.state == "leak_found"
    q = report.names["q_value"][:N_PER_KIND]
    assert report.verdict.flagged == Rate(sum(x <= 0.05 for x in q), N_PER_KIND)
    assert report.verdict.flagged.n_hits > 0
    assert report.controls_flagged.n_total == 2 * N_PER_KIND
    assert report.candidates.n_reference == N_REFERENCE


def test_rankings_are_those_of_the_per_name_scores(report: AuditReport) -> None:
    rows = [i for i, kind in enumerate(report.names["control_kind"]) if kind in ("", "hard")]
    truth = np.array([report.names["is_member"][i] for i in rows], dtype=bool)
    hard = report.headline("hard")
    assert list(hard) == ["attack", "general_alone", "popularity"]
    for who, column in (("attack", report.fixed_score), ("general_alone", "general_mean_log")):
        scores = np.array([report.names[column][i] for i in rows])
        assert hard[who].auc.value == pytest.approx(auc(scores, truth))
        assert hard[who].auc.low < hard[who].auc.value <= hard[who].auc.high
    assert math.isnan(hard["popularity"].auc.value)  # popularity is not known here
    assert "recombined" not in report.measures.strata


def test_the_papers_rule_is_counted_from_the_difference(report: AuditReport) -> None:
    rules = measured([report])
    difference = report.names["difference"]
    tp = sum(x > 0 for x in difference[:N_PER_KIND])
    fp = sum(x > 0 for x in difference[N_PER_KIND : 2 * N_PER_KIND])
    found = rules["easy", "masked_lm", "hospital"].confusion
    assert found.four == (tp, N_PER_KIND - tp, fp, N_PER_KIND - fp)
    assert found.recall.value == pytest.approx(tp / N_PER_KIND)
    always = rules["easy", "masked_lm", "always_member"].confusion
    assert always.four == (N_PER_KIND, 0, N_PER_KIND, 0)
    assert ("easy", "masked_lm", "general") not in rules  # the rule compares the two models


def test_scenario_1_has_the_rule_on_the_general_model_too() -> None:
    rules = measured([make_report(1)])
    assert {model for _, _, model in rules} == {"hospital", "general", "always_member"}
    assert {attack for _, attack, _ in rules} == {"generation"}


def test_scores_are_sorted_into_kinds_members_first(report: AuditReport) -> None:
    kinds = kind_scores(report.table)
    assert [kind.kind for kind in kinds] == ["member", "easy", "hard"]
    assert kinds[0].scores == tuple(report.names["score"][:N_PER_KIND])
    assert kinds[0].quartiles[1] == pytest.approx(np.median(kinds[0].scores))


def test_scores_that_cannot_be_drawn_are_counted(report: AuditReport) -> None:
    scores = ["-inf", None, *report.names["score"][2:]]
    changed = report.changed(names={**report.names, "score": scores})
    member = kind_scores(changed.table)[0]
    assert (len(member.scores), member.n_not_scored) == (N_PER_KIND - 2, 2)
    assert all(map(math.isnan, KindScores("easy", scores=(), n_not_scored=1).quartiles))


def test_the_strongest_names_are_members_by_q_then_score(report: AuditReport) -> None:
    strongest = list(strongest_names(report.table).itertuples())
    assert len(strongest) == report.verdict.n_flagged
    assert {(name.first_name, name.last_name) for name in strongest} <= set(MEMBERS)
    assert [(n.q, -n.score) for n in strongest] == sorted((n.q, -n.score) for n in strongest)
    top = strongest[0]
    assert top.hospital == report.names["hospital_posterior"][top.Index]
    assert top.general == report.names["general_posterior"][top.Index]


def test_mention_bins_are_the_reports(report: AuditReport) -> None:
    bins = report.mentions
    assert sum(b.n_names for b in bins) == N_PER_KIND
    assert [b.label for b in bins] == ["1", "2", "3–4", "5–9", "10+"]
    assert all(b.flagged.value == b.flagged.n_hits / b.n_names for b in bins)


def test_a_list_without_truth_has_no_measures() -> None:
    report = make_report(2, has_truth=False)
    assert (report.has_truth, measured([report]), list(report.mentions)) == (False, {}, [])
    assert [kind.kind for kind in kind_scores(report.table)] == ["unknown"]
    assert report.verdict.flagged.n_total == N_PER_KIND


def test_what_a_report_leaves_out_is_nan() -> None:
    assert math.isnan(number(None))
    assert number("-inf") == -math.inf
    assert math.isnan(estimate(None).value)
    assert estimate({"value": 0.5, "low": None, "high": 0.7}).high == 0.7
