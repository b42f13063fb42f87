"""The typed report: JSON and back, what it says of its parts, which kept audit a link leads to."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.attack.measure_types import LINKED_BY, estimate
from audit.attack.question import SIBLING_TERMS, sibling_terms
from audit.errors import AuditError
from audit.home import DEMO_HOSPITAL
from audit.models.inspect import compute_hospital_digest
from audit.notes.passages import Passage
from audit.report.audit_store import keep_inspection, read_inspection
from audit.report.name_table import number
from audit.report.report import (
    SCHEMA,
    AuditReport,
    Inspection,
    KeptAudit,
    choose_audit,
    find_best_passages,
    find_other_scenario,
    find_reference_audits,
    kept_audit,
)
from audit.stats import auc, wilson
from cache.store import Store
from tests.pages.make_reports import (
    make_inspection,
    make_reference_reports,
    make_report,
    make_special_names,
)
from tests.small_audit import same_answer

NAMES = {
    "name_id": [0, 1],
    "first_name": ["=Anna", 'O"Brien, the "2nd"'],
    "last_name": ["山田", "NA"],
    "is_member": [1, None],
    "score": [0.25, math.nan],
    "popularity": [1e-9, math.inf],
    "is_undecided": [False, True],
}


def make_small_report(**changes: Any) -> AuditReport:
    parts = dict(
        digest="d" * 64,
        question={"seed": 1, "threshold": None},
        scenario={"number": 1},
        models={"general": {"name": "g"}, "hospital": {"name": "h"}},
        candidates={"n_names": 2},
        fixed_score="product",
        columns=list(NAMES),
        names=NAMES,
        measures={"strata": {}, "more": {"auc": math.nan, "threshold": (-math.inf, 0.5)}},
        verdict={"state": "not_enough_evidence"},
        curve=[{"n": 100, "strata": {}}],
        mentions=[],
        details={"ks": math.nan},
        notes=["A sentence."],
        made={"at": "2020-01-01"},
    )
    return AuditReport.from_parts(**{**parts, **changes})


def test_a_report_survives_json_and_back() -> None:
    value = make_small_report().to_json()
    assert value["measures"]["more"] == {"auc": None, "threshold": ["-inf", 0.5]}
    assert value["names"]["score"] == [0.25, None]
    assert value["names"]["popularity"] == [1e-9, "inf"]
    back = AuditReport.from_json(json.loads(json.dumps(value, allow_nan=False)))
    assert back.to_json() == value
    assert same_answer(make_small_report(), back)
    assert (back.n_names, back.at) == (2, "2020-01-01")
    assert same_answer(
        make_small_report(), make_small_report(made={"at": "2030-12-31", "seconds": 5})
    )
    assert not same_answer(make_small_report(), make_small_report(details={"ks": 0.5}))


def test_a_report_of_another_version_or_a_damaged_one_is_refused() -> None:
    value = make_small_report().to_json()
    less = {name: part for name, part in value.items() if name != "curve"}
    fewer_columns = {name: cells for name, cells in NAMES.items() if name != "is_undecided"}
    others = ({"schema": SCHEMA + 1}, {"extra": 1}, {"names": fewer_columns})
    for report_json in (*(value | other for other in others), less, {}):
        with pytest.raises(AuditError, match="written by another version"):
            AuditReport.from_json(report_json)
    no_name = {"models": {"general": {"name": 1}}}
    for damaged in ({"verdict": {"state": 5}}, no_name, {"curve": 1}):
        with pytest.raises(AuditError, match=r"damaged\. Run the audit again"):
            AuditReport.from_json(value | damaged)


def test_what_a_report_leaves_out_is_nan() -> None:
    assert math.isnan(number(None)) and number("-inf") == -math.inf
    assert np.isnan([*vars(estimate({})).values()]).all()
    parsed_estimate = estimate({"value": 0.5, "low": None, "high": 0.7})
    assert (parsed_estimate.value, parsed_estimate.high, math.isnan(parsed_estimate.low)) == (
        0.5,
        0.7,
        True,
    )


def test_what_a_report_says_of_its_parts() -> None:
    report = make_report(2, names=make_special_names())
    fixed, easy = report.fixed_score, report.measures.strata["easy"]
    assert list(report.measures.table_strata) == ["easy", "hard"]
    judgements = [(judges, rule) for rule, judges, _ in easy.yield_rules(fixed)]
    assert judgements == [
        ("hospital", "difference_above_zero"),
        ("held_out", fixed),
        ("held_out", "general_alone"),
        ("held_out", "popularity"),
        ("guess", "always_member"),
    ]
    ranked, headline = easy.rank_scores(fixed), report.headline("easy")
    assert list(ranked) == [*dict.fromkeys((fixed, *easy.scores, "general_alone", "popularity"))]
    assert ranked[fixed].tpr(0.1) == ranked[fixed].tpr_at_fpr["0.1"]
    assert math.isnan(ranked[fixed].tpr(0.001).value)  # 24 controls do not resolve 0.1 %
    members_and_easy = report.table[report.table["kind"].isin(["member", "easy"])]
    truth = (members_and_easy["kind"] == "member").to_numpy()
    for method, column in (("attack", fixed), ("general_alone", "general_mean_log")):
        assert headline[method].auc.value == pytest.approx(
            auc(members_and_easy[column].to_numpy(), truth)
        )
    assert [group.label for group in report.mentions] == ["1", "2", "3–4", "5–9", "10+"]
    canaries, verdict = report.details.canaries, report.verdict
    assert canaries is not None and list(canaries.by_score)[:2] == [fixed, "general_alone"]
    for section in (canaries, verdict):
        assert (section.sentence("en"), section.sentence("ja")) == (
            section.english,
            section.japanese,
        )
    assert verdict.facts("en").startswith("A member scores above a control in")
    assert verdict.facts("ja").startswith("記録にある人のスコアが対照を上回る組は")
    k, n = verdict.n_flagged, verdict.n_tested
    assert verdict.in_short("en").startswith(f"{k} of {n} listed names stand out: do not hand")
    assert verdict.in_short("ja").startswith(
        f"名簿の {n} 名のうち {k} 名が対照に比べて目立っています。"
    )
    assert " %" not in verdict.facts("en") + verdict.facts("ja")
    assert [verdict.next_step("en"), verdict.next_step("ja")] == list(verdict.what_now.values())


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


def test_linking_by_hand() -> None:
    report = make_report(2).changed(details={"linking": LINKING})
    linking = report.details.linking
    assert linking is not None
    ranks, share = linking.reached()
    assert (ranks.tolist(), share.tolist()) == ([1, 3, 8], [0.5, 0.75, 1.0])
    linking_lines = {by: (top_1, top_5, rank) for by, top_1, top_5, rank in linking.lines()}
    assert list(linking_lines) == [*LINKED_BY, "chance"]
    assert linking_lines["hospital_alone"] == (
        wilson(0.25, n_total=4),
        wilson(0.75, n_total=4),
        3.0,
    )
    assert (linking_lines["chance"][0].value, linking_lines["chance"][1].value) == (0.1, 0.5)
    assert math.isnan(linking_lines["chance"][0].low)
    hidden = report.with_names_as("masked").to_json()["details"]["linking"]["rank_by_passage"]
    assert {row["passage_id"] for row in hidden} == {""}  # a chart's number: the hospital's text


def test_one_model_compared_with_itself_shows_nothing() -> None:
    report = make_report(2)
    one_model_report = report.changed(
        models={role: {"name": role, "digest": "same"} for role in report.models}
    )
    assert one_model_report.verdict.state == "not_compared"
    assert not any(one_model_report.stands_out)


# --- the list of kept audits ---


def make_audit_line(digest: str, **changes: Any) -> KeptAudit:
    parts = {"at": "2026-01-01", "scenario": 2, "general": "g", "hospital": "h", "n_names": 260}
    return KeptAudit(digest=digest * 64, state="leak_found", **{**parts, **changes})


OLD, NEW = make_audit_line("a"), make_audit_line("b", at="2026-02-01")
DEMO, LATE = (make_audit_line(d, at=f"2026-0{i}-01", is_demo=True) for d, i in (("d", 3), ("e", 4)))
TWIN = replace(OLD, digest="aaaa" + "0" * 60)


@pytest.mark.parametrize(
    ("digest_prefix", "audits", "demo", "expected_audit"),
    [
        ("", [OLD, NEW, DEMO], DEMO.digest, NEW),  # the newest own
        ("", [DEMO, OLD], DEMO.digest, OLD),
        ("", [LATE, DEMO], DEMO.digest, DEMO),  # alone, its headline
        ("", [LATE, DEMO], "c" * 64, LATE),
        ("", [], "", None),
        ("dddd", [OLD, NEW, DEMO], "", DEMO),
        ("aaaa", [OLD, NEW], "", OLD),
        ("b" * 64, [OLD, NEW], "", NEW),
        ("cccc", [OLD], OLD.digest, None),
        ("aaaa", [OLD, TWIN], "", None),
        ("aaaa0", [OLD, TWIN], "", TWIN),
        *((wrong, [OLD], "", None) for wrong in ("a", "aaa", "AAAA", "aaaa\n", "<b>", "a" * 65)),
    ],
)
def test_a_link_or_none_leads_to_an_audit(
    digest_prefix: str, audits: list[KeptAudit], demo: str, expected_audit: KeptAudit | None
) -> None:
    assert (
        choose_audit(digest_prefix, audits=audits, demo={"masked_lm": demo} if demo else {})
        == expected_audit
    )


def test_the_other_scenario_is_of_the_same_pair_and_the_demo_stands_beside_no_own_audit() -> None:
    first_audit, second_audit = (
        make_audit_line(d, scenario=1, at=f"2026-01-0{i}") for d, i in (("c", 2), ("d", 3))
    )
    foreign_audit = make_audit_line("e", scenario=1, hospital="x", at="2026-03-01")
    demo_audit = make_audit_line("f", scenario=1, at="2026-05-01", is_demo=True)
    audits = [OLD, NEW, first_audit, second_audit, foreign_audit, demo_audit]
    assert find_other_scenario(OLD, audits=audits) == second_audit
    assert find_other_scenario(foreign_audit, audits=audits) is None
    assert find_other_scenario(OLD, audits=[OLD, demo_audit]) is None
    assert find_other_scenario(DEMO, audits=[DEMO, first_audit, demo_audit]) == demo_audit


def test_an_audit_of_any_model_of_the_demo_hospital_belongs_to_the_demo() -> None:
    causal = DEMO_HOSPITAL / "en" / "causal"
    for hospital, is_demo in (("hospital-5", True), ("adapter-20", True), ("", False)):
        digest = compute_hospital_digest(causal / "general", causal / hospital) if hospital else ""
        models = {"general": {"name": "g"}, "hospital": {"name": "h", "digest": digest}}
        assert kept_audit(make_small_report(models=models)).is_demo is is_demo


@pytest.mark.long
def test_a_line_says_what_the_report_says_and_a_family_differs_in_the_general_model() -> None:
    audit_report = make_report(1)
    assert kept_audit(audit_report, demo={audit_report.digest}) == KeptAudit(
        audit_report.digest,
        audit_report.at,
        1,
        "general",
        "hospital-40",
        72,
        audit_report.verdict.state,
        "",
        True,
    )
    question = dict.fromkeys(SIBLING_TERMS, "x")
    invented_report, drawn_report = (
        make_report(2, control_source=source).changed(question=question)
        for source in ("invented", "drawn")
    )
    assert kept_audit(invented_report).sibling_terms == sibling_terms(question)
    assert kept_audit(drawn_report).sibling_terms == ""  # nobody knows where its controls come from
    base_report, other_report = make_reference_reports("general", "general-2")
    reports = [
        base_report,
        other_report,
        other_report.changed(question={**other_report.question, "hospital": "another"}),
        other_report.changed(question={**other_report.question, "seed": 1}),
        make_report(2, leak=2.0),
    ]
    audits = [kept_audit(report) for report in reports]
    assert find_reference_audits(audits[0], audits=audits) == (audits[1],)
    assert find_reference_audits(audits[4], audits=audits) == () and audits[4].family == ""


# --- what is kept beside a report ---


def test_the_best_passages_are_found_by_hand() -> None:
    ratio = np.array([[1.0, np.nan], [3.0, np.nan], [2.0, -1.0]])
    rows, ratios = find_best_passages(ratio)
    assert rows.tolist() == [[1, 2, 0], [2, -1, -1]]
    np.testing.assert_array_equal(ratios, [[3, 2, 1], [-1, math.nan, math.nan]])
    for n, n_best in ((0, 0), (50, 10)):
        assert find_best_passages(np.zeros((n, 5)))[1].shape == (5, n_best)


def test_an_inspection_comes_back_and_one_of_another_version_is_as_none(tmp_path: Path) -> None:
    passages = (
        Passage("Mr. ", ("first", "last"), " ", " is a 50 year old", "1", ("Anna", "Berg")),
        Passage("", ("full",), "", "は50歳", "b", 3),
        Passage("left ", ("last", "first"), ", ", "", "c", None),
    )
    inspection: Inspection = make_inspection(make_report(2), passages=passages)
    with Store(tmp_path / "results") as store:
        assert read_inspection("d", store=store) is None
        keep_inspection("d", inspection, store=store)
        stored_inspection = read_inspection("d", store=store)
        assert stored_inspection is not None and stored_inspection.passages == passages
        for name in vars(inspection).keys() - {"passages"}:
            assert np.array_equal(
                getattr(stored_inspection, name), getattr(inspection, name), equal_nan=True
            ), name
        stored = store.get("inspection/d")
        assert stored is not None
        arrays = {k: v for k, v in stored.arrays.items() if k != "hospital"}
        store.put("inspection/e", arrays=arrays, meta=stored.meta)
        store.put("inspection/f", arrays=stored.arrays, meta={"passages": [{"left": 1}]})
        assert read_inspection("e", store=store) is read_inspection("f", store=store) is None
