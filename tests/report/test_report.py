"""The typed report: JSON and back, what it says of its parts, which kept audit a link leads to."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.attack.question import SIBLING_TERMS, sibling_terms
from audit.errors import AuditError
from audit.notes.passages import Passage
from audit.report.name_table import number
from audit.report.report import (
    LINKED_BY,
    SCHEMA,
    AuditReport,
    Inspection,
    KeptAudit,
    choose_audit,
    estimate,
    find_best_passages,
    find_other_scenario,
    find_reference_audits,
    keep_inspection,
    kept_audit,
    read_inspection,
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


def report_of(**changes: Any) -> AuditReport:
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
    value = report_of().to_json()
    assert value["measures"]["more"] == {"auc": None, "threshold": ["-inf", 0.5]}
    assert value["names"]["score"] == [0.25, None]
    assert value["names"]["popularity"] == [1e-9, "inf"]
    back = AuditReport.from_json(json.loads(json.dumps(value, allow_nan=False)))
    assert back.to_json() == value
    assert same_answer(report_of(), back)
    assert (back.n_names, back.at) == (2, "2020-01-01")
    assert same_answer(report_of(), report_of(made={"at": "2030-12-31", "seconds": 5}))
    assert not same_answer(report_of(), report_of(details={"ks": 0.5}))
    # An older version's report is read, and given back as it was.
    older = value | {"cohort": {"p": 0.5}}
    assert AuditReport.from_json(older).to_json() == older


def test_a_report_of_another_version_or_a_damaged_one_is_refused() -> None:
    value = report_of().to_json()
    less = {name: part for name, part in value.items() if name != "curve"}
    for other in (value | {"schema": SCHEMA + 1}, value | {"extra": 1}, less, {}):
        with pytest.raises(AuditError, match="written by another version"):
            AuditReport.from_json(other)
    no_name = {"models": {"general": {"name": 1}}}
    for damaged in ({"verdict": {"state": 5}}, no_name, {"curve": 1}):
        with pytest.raises(AuditError, match=r"damaged\. Run the audit again"):
            AuditReport.from_json(value | damaged)


def test_what_a_report_leaves_out_is_nan() -> None:
    assert math.isnan(number(None)) and number("-inf") == -math.inf
    assert np.isnan([*vars(estimate({})).values()]).all()
    held = estimate({"value": 0.5, "low": None, "high": 0.7})
    assert (held.value, held.high, math.isnan(held.low)) == (0.5, 0.7, True)


def test_what_a_report_says_of_its_parts() -> None:
    report = make_report(2, names=make_special_names())
    fixed, easy = report.fixed_score, report.measures.strata["easy"]
    assert list(report.measures.table_strata) == ["easy", "hard"]
    judged = [(judges, rule) for rule, judges, _ in easy.yield_rules(fixed)]
    assert judged == [
        ("hospital", "difference_above_zero"),
        ("held_out", fixed),
        ("held_out", "general_alone"),
        ("held_out", "popularity"),
        ("guess", "always_member"),
    ]
    ranked, headline = easy.ranked(fixed), report.headline("easy")
    assert list(ranked) == [*dict.fromkeys((fixed, *easy.scores, "general_alone", "popularity"))]
    assert ranked[fixed].tpr(0.1) == ranked[fixed].tpr_at_fpr["0.1"]
    assert math.isnan(ranked[fixed].tpr(0.001).value)  # 24 controls do not resolve 0.1 %
    shown = report.table[report.table["kind"].isin(["member", "easy"])]
    truth = (shown["kind"] == "member").to_numpy()
    for who, column in (("attack", fixed), ("general_alone", "general_mean_log")):
        assert headline[who].auc.value == pytest.approx(auc(shown[column].to_numpy(), truth))
    assert [one.label for one in report.mentions] == ["1", "2", "3–4", "5–9", "10+"]
    canaries, verdict = report.details.canaries, report.verdict
    assert canaries is not None and list(canaries.ordered)[:2] == [fixed, "general_alone"]
    for told in (canaries, verdict):
        assert (told.sentence("en"), told.sentence("ja")) == (told.english, told.japanese)
    assert verdict.facts("en").startswith("A member scores above a control in")
    assert verdict.facts("ja").startswith("記録にある人のスコアが対照を上回る組は")
    k, n = verdict.n_flagged, verdict.n_tested
    assert verdict.in_short("en").startswith(f"{k} of {n} listed names stand out: do not hand")
    assert verdict.in_short("ja").startswith(
        f"名簿の {n} 名のうち {k} 名が対照から際立っています。"
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
    found = report.details.linking
    assert found is not None
    ranks, share = found.reached()
    assert (ranks.tolist(), share.tolist()) == ([1, 3, 8], [0.5, 0.75, 1.0])
    told = {by: (top_1, top_5, rank) for by, top_1, top_5, rank in found.lines()}
    assert list(told) == [*LINKED_BY, "chance"]
    assert told["hospital_alone"] == (wilson(0.25, n_total=4), wilson(0.75, n_total=4), 3.0)
    assert (told["chance"][0].value, told["chance"][1].value) == (0.1, 0.5)
    assert math.isnan(told["chance"][0].low)
    hidden = report.with_names_as("masked").to_json()["details"]["linking"]["rank_by_passage"]
    assert {one["passage_id"] for one in hidden} == {""}  # a chart's number: the hospital's text


def test_a_report_that_was_kept_before_decisions_were_of_points_is_read() -> None:
    made = make_report(2)
    words = ["flagged", "undecided", "not flagged", *made.names["decision"][3:]]
    names = {k: v for k, v in made.names.items() if k not in ("is_undecided", "file_row")}
    older = made.changed(
        names=names
        | {"decision": words, "q_value": [0.04, 0.01, 0.2] + [None] * (made.n_names - 3)}
    )
    assert older.verdict.state == "leak_found"
    assert older.stands_out[:4] == [True, True, False, False]  # q of at most 0.05
    table = older.table
    assert table["number"][3] == "L-0003"
    assert table["decision"].tolist()[:3] == ["flagged", "flagged", "not_flagged"]
    assert table["is_undecided"].tolist()[:3] == [False, True, False]


def test_one_model_compared_with_itself_shows_nothing() -> None:
    made = make_report(2)
    same = made.changed(models={who: {"name": who, "digest": "same"} for who in made.models})
    assert same.verdict.state == "not_compared"
    assert not any(same.stands_out)


# --- the list of kept audits ---


def line(digest: str, **more: Any) -> KeptAudit:
    parts = {"at": "2026-01-01", "scenario": 2, "general": "g", "hospital": "h", "n_names": 260}
    return KeptAudit(digest=digest * 64, state="leak_found", **{**parts, **more})


OLD, NEW = line("a"), line("b", at="2026-02-01")
DEMO, LATE = (line(d, at=f"2026-0{i}-01", is_demo=True) for d, i in (("d", 3), ("e", 4)))
TWIN = replace(OLD, digest="aaaa" + "0" * 60)


@pytest.mark.parametrize(
    ("wanted", "kept", "demo", "found"),
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
    wanted: str, kept: list[KeptAudit], demo: str, found: KeptAudit | None
) -> None:
    assert choose_audit(wanted, audits=kept, demo={"masked_lm": demo} if demo else {}) == found


def test_the_other_scenario_is_of_the_same_pair_and_the_demo_stands_beside_no_own_audit() -> None:
    one, two = (line(d, scenario=1, at=f"2026-01-0{i}") for d, i in (("c", 2), ("d", 3)))
    foreign = line("e", scenario=1, hospital="x", at="2026-03-01")
    made_up = line("f", scenario=1, at="2026-05-01", is_demo=True)
    kept = [OLD, NEW, one, two, foreign, made_up]
    assert find_other_scenario(OLD, audits=kept) == two
    assert find_other_scenario(foreign, audits=kept) is None
    assert find_other_scenario(OLD, audits=[OLD, made_up]) is None
    assert find_other_scenario(DEMO, audits=[DEMO, one, made_up]) == made_up


def test_a_line_says_what_the_report_says_and_a_family_differs_in_the_general_model() -> None:
    made = make_report(1)
    assert kept_audit(made, demo={made.digest}) == KeptAudit(
        made.digest, made.at, 1, "general", "hospital-40", 72, made.verdict.state, "", True
    )
    asked = dict.fromkeys(SIBLING_TERMS, "x")
    known, drawn = (
        make_report(2, control_source=source).changed(question=asked)
        for source in ("invented", "drawn")
    )
    assert kept_audit(known).sibling_terms == sibling_terms(asked)
    assert kept_audit(drawn).sibling_terms == ""  # nobody knows where its controls come from
    own, other = make_reference_reports("general", "general-2")
    reports = [
        own,
        other,
        other.changed(question={**other.question, "hospital": "another"}),
        other.changed(question={**other.question, "seed": 1}),
        make_report(2, leak=2.0),
    ]
    kept = [kept_audit(report) for report in reports]
    assert find_reference_audits(kept[0], audits=kept) == (kept[1],)
    assert find_reference_audits(kept[4], audits=kept) == () and kept[4].family == ""


# --- what is kept beside a report ---


def test_the_best_passages_are_found_by_hand() -> None:
    ratio = np.array([[1.0, np.nan], [3.0, np.nan], [2.0, -1.0]])
    rows, ratios = find_best_passages(ratio)
    assert rows.tolist() == [[1, 2, 0], [2, -1, -1]]
    np.testing.assert_array_equal(ratios, [[3, 2, 1], [-1, math.nan, math.nan]])
    for n, wanted in ((0, 0), (50, 10)):
        assert find_best_passages(np.zeros((n, 5)))[1].shape == (5, wanted)


def test_an_inspection_comes_back_and_one_of_another_version_is_as_none(tmp_path: Path) -> None:
    passages = (
        Passage("Mr. ", ("first", "last"), " ", " is a 50 year old", "1", ("Anna", "Berg")),
        Passage("", ("full",), "", "は50歳", "b", 3),
        Passage("left ", ("last", "first"), ", ", "", "c", None),
    )
    made: Inspection = make_inspection(make_report(2), passages=passages)
    with Store(tmp_path / "results") as store:
        assert read_inspection("d", store=store) is None
        keep_inspection("d", made, store=store)
        found = read_inspection("d", store=store)
        assert found is not None and found.passages == passages
        for name in vars(made).keys() - {"passages"}:
            assert np.array_equal(getattr(found, name), getattr(made, name), equal_nan=True), name
        stored = store.get("inspection/d")
        assert stored is not None
        arrays = {k: v for k, v in stored.arrays.items() if k != "hospital"}
        store.put("inspection/e", arrays=arrays, meta=stored.meta)
        store.put("inspection/f", arrays=stored.arrays, meta={"passages": [{"left": 1}]})
        assert read_inspection("e", store=store) is read_inspection("f", store=store) is None
