"""Canaries, roles and references as pages get them: the report's numbers, and no patient's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.report.compare import MAX_REFERENCES, compare_audits, compare_references
from audit.report.names import KINDS, kind_scores, name_kinds, strongest_names
from audit.report.report import AuditReport, kept_audit, same_but_reference
from audit.report.threshold import calibration, ranked_names, volcano
from tests.pages.make_reports import (
    N_PER_KIND,
    make_reference_reports,
    make_report,
    make_special_names,
)

N_CANARIES = 24


@pytest.fixture(scope="module", params=[1, 2])
def report(request: pytest.FixtureRequest) -> AuditReport:
    return make_report(request.param, names=make_special_names(N_CANARIES))


def test_exposure_is_the_reports_with_the_fixed_score_first(report: AuditReport) -> None:
    view, record = report.details.canaries, report.to_json()["details"]["canaries"]
    assert view is not None
    (fixed, first), (second, general) = list(view.ordered.items())[:2]
    assert (fixed, second) == (report.fixed_score, "general_alone")
    assert (view.n_planted, view.n_held_out, view.is_paired) == (N_CANARIES, N_CANARIES, True)
    kept = record["scores"][report.fixed_score]
    for group, one in zip(first.groups, kept["groups"], strict=True):
        assert (group.n_mentions, group.bits.value) == (one["n_mentions"], one["bits"]["value"])
        assert (group.found.n_hits, group.found.n_total) == (
            one["found"]["n_hits"], one["found"]["n_total"],
        )  # fmt: skip
    assert sum(group.n_names for group in first.groups) == first.whole.n_names
    assert first.smallest_p == pytest.approx(1 / (1 + N_CANARIES))
    assert first.smallest_p == pytest.approx(2**-first.max_bits)
    assert math.isinf(general.found_from.value)
    assert [one.name_id for one in view.names] == list(range(72, 72 + N_CANARIES))


def test_reports_without_canaries_or_roles_show_none() -> None:
    details = make_report(2).details
    assert details.canaries is None and details.roles == ()


def test_roles_are_the_reports(report: AuditReport) -> None:
    lines = report.details.roles
    assert [(line.role, line.n_members) for line in lines] == [("staff", 16), ("patient", 8)]
    for line, record in zip(lines, report.to_json()["details"]["roles"], strict=True):
        assert line.auc.value == record["auc"]["value"]
        assert line.flagged.n_hits == record["flagged"]["n_hits"]
        assert line.n_controls == 2 * N_PER_KIND and line.above is None


def test_canaries_are_kinds_of_their_own_and_in_no_table_of_patients(report: AuditReport) -> None:
    kinds = name_kinds(report.names)
    assert kinds.count("planted") == kinds.count("canary") == N_CANARIES
    assert kinds.count("member") == N_PER_KIND
    assert [one.kind for one in kind_scores(report.table)][-2:] == ["planted", "canary"]
    assert report.table["kind"].cat.categories.tolist()[-2:] == list(KINDS[-2:])
    assert set(strongest_names(report.table)["kind"]) == {"member"}
    ranked = ranked_names(report, score=report.fixed_score)
    assert len(ranked.values) == 3 * N_PER_KIND
    assert sum(p.n_names.sum() for p in volcano(report, score=report.fixed_score)) <= len(
        ranked.values
    )
    found = calibration(report)
    assert found is not None and found.n_controls == 2 * N_PER_KIND
    assert report.controls_flagged.n_total == 2 * N_PER_KIND
    assert report.verdict.flagged.n_total <= N_PER_KIND
    assert report.details.canaries is not None
    assert "planted" in report.details.canaries.english and "planted" not in report.verdict.english


def test_a_comparison_counts_no_canaries(report: AuditReport) -> None:
    found = compare_audits(report, other=report)
    assert found.tested.n_names <= N_PER_KIND and found.controls.n_names <= 2 * N_PER_KIND
    assert found.aucs[0].n_controls == 2 * N_PER_KIND
    assert found.aucs[0].n_members == N_PER_KIND


def test_a_name_planted_here_and_held_out_there_differs() -> None:
    one = make_report(2, names=make_special_names(4))
    names = dict(one.names)
    row = names["control_kind"].index("canary") - 4
    names["is_member"] = [0 if i == row else m for i, m in enumerate(names["is_member"])]
    names["control_kind"] = [
        "canary" if i == row else kind for i, kind in enumerate(names["control_kind"])
    ]
    found = compare_audits(one, other=one.changed(names=names))
    assert found.n_truth_differs == 1 and found.names["kind"].iloc[row] == "differs"


def test_audits_of_one_question_stand_beside_each_other_paired() -> None:
    own, other = make_reference_reports("general", "general-2")
    view = compare_references(own, others=[other])
    assert (view.own, view.others) == (own, (other,))
    (found,) = view.found
    expected = compare_audits(own, other=other)
    assert (found.aucs, found.tested) == (expected.aucs, expected.tested)
    shares = np.array([one.verdict.flagged.value for one in (own, other)])
    assert found.tested.difference.value == pytest.approx(shares[0] - shares[1])


def test_only_the_newest_references_are_shown() -> None:
    own = make_report(2)
    view = compare_references(own, others=[own] * (MAX_REFERENCES + 2), n_left_out=1)
    assert len(view.others) == len(view.found) == MAX_REFERENCES and view.n_left_out == 3


def test_a_family_differs_in_the_general_model_alone() -> None:
    own, other = make_reference_reports("general", "general-2")
    reports = [
        own,
        other,
        other.changed(question={**other.question, "hospital": "another"}),
        other.changed(question={**other.question, "seed": 1}),
        make_report(2, leak=2.0),
    ]
    kept = [kept_audit(report) for report in reports]
    assert same_but_reference(kept[0], kept=kept) == (kept[1],)
    assert same_but_reference(kept[4], kept=kept) == () and kept[4].family == ""
