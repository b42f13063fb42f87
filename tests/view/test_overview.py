"""What the Overview page reads out of a report."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from audit.report.names import N_STRONGEST, KindScores, number
from audit.report.reading import estimate, overview_of
from audit.report.report import AuditReport
from audit.stats import Rate, auc
from tests.pages.make_reports import MEMBERS, N_PER_KIND, N_REFERENCE, make_report


@pytest.fixture(scope="module")
def report() -> AuditReport:
    return make_report(2)


def test_the_verdict_and_its_counts_are_the_reports(report: AuditReport) -> None:
    view = overview_of(report)
    assert view.state == report.verdict["state"] == "leak_found"
    assert (view.english, view.japanese) == (report.verdict["english"], report.verdict["japanese"])
    q = report.names["q_value"][:N_PER_KIND]
    assert view.flagged == Rate(sum(x <= 0.05 for x in q), N_PER_KIND)
    assert view.flagged.n_hits > 0
    assert view.controls_flagged.n_total == 2 * N_PER_KIND
    assert (view.attack, view.n_reference) == ("masked_lm", N_REFERENCE)


def test_rankings_are_those_of_the_per_name_scores(report: AuditReport) -> None:
    view = overview_of(report)
    rows = [i for i, kind in enumerate(report.names["control_kind"]) if kind in ("", "hard")]
    truth = np.array([report.names["is_member"][i] for i in rows], dtype=bool)
    hard = view.stratum("hard")
    assert hard is not None
    assert [r.who for r in hard.rankings] == ["attack", "general_alone", "popularity"]
    for ranking, column in zip(
        hard.rankings, (report.fixed_score, "general_mean_log"), strict=False
    ):
        scores = np.array([report.names[column][i] for i in rows])
        assert ranking.auc.value == pytest.approx(auc(scores, truth))
        assert ranking.auc.low < ranking.auc.value <= ranking.auc.high
    assert math.isnan(hard.rankings[2].auc.value)  # popularity is not known here
    assert view.stratum("recombined") is None


def test_the_papers_rule_is_counted_from_the_difference(report: AuditReport) -> None:
    view = overview_of(report)
    rules = {(rule.stratum, rule.model): rule for rule in view.rules}
    difference = report.names["difference"]
    tp = sum(x > 0 for x in difference[:N_PER_KIND])
    fp = sum(x > 0 for x in difference[N_PER_KIND : 2 * N_PER_KIND])
    counts = (tp, N_PER_KIND - tp, fp, N_PER_KIND - fp)
    assert rules["easy", "hospital"].counts == counts
    assert rules["easy", "hospital"].recall.value == pytest.approx(tp / N_PER_KIND)
    assert rules["easy", "always_member"].counts == (N_PER_KIND, 0, N_PER_KIND, 0)
    assert ("easy", "general") not in rules  # the rule itself compares the two models


def test_scenario_1_has_the_rule_on_the_general_model_too() -> None:
    view = overview_of(make_report(1))
    assert {rule.model for rule in view.rules} == {"hospital", "general", "always_member"}
    assert {rule.attack for rule in view.rules} == {"generation"}


def test_scores_are_sorted_into_kinds_members_first(report: AuditReport) -> None:
    kinds = overview_of(report).kinds
    assert [kind.kind for kind in kinds] == ["member", "easy", "hard"]
    assert kinds[0].scores == tuple(report.names["score"][:N_PER_KIND])
    assert kinds[0].quartiles[1] == pytest.approx(np.median(kinds[0].scores))


def test_scores_that_cannot_be_drawn_are_counted(report: AuditReport) -> None:
    scores = ["-inf", None, *report.names["score"][2:]]
    changed = replace(report, names={**report.names, "score": scores})
    member = overview_of(changed).kinds[0]
    assert (len(member.scores), member.n_not_scored) == (N_PER_KIND - 2, 2)
    assert all(map(math.isnan, KindScores("easy", scores=(), n_not_scored=1).quartiles))


def test_the_strongest_names_are_members_by_q_then_score(report: AuditReport) -> None:
    strongest = overview_of(report).strongest
    assert len(strongest) == N_STRONGEST
    assert all((name.first, name.last) in MEMBERS and name.kind == "member" for name in strongest)
    assert [(n.q, -n.score) for n in strongest] == sorted((n.q, -n.score) for n in strongest)
    top = strongest[0]
    assert top.hospital == report.names["hospital_posterior"][top.name_id]
    assert top.general == report.names["general_posterior"][top.name_id]


def test_mention_bins_are_the_reports(report: AuditReport) -> None:
    bins = overview_of(report).mentions
    assert sum(b.n_names for b in bins) == N_PER_KIND
    assert [(b.low, b.high) for b in bins] == [(1, 1), (2, 2), (3, 4), (5, 9), (10, None)]
    assert all(b.share.value == b.n_flagged / b.n_names for b in bins)


def test_a_list_without_truth_has_no_measures() -> None:
    view = overview_of(make_report(2, has_truth=False))
    assert (view.strata, view.rules, view.mentions) == ((), (), ())
    assert [kind.kind for kind in view.kinds] == ["unknown"]
    assert view.flagged.n_total == N_PER_KIND


def test_what_a_report_leaves_out_is_nan() -> None:
    assert math.isnan(number(None))
    assert number("-inf") == -math.inf
    assert math.isnan(estimate(None).value)
    assert estimate({"value": 0.5, "low": None, "high": 0.7}).high == 0.7
