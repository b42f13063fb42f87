from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from audit.corpus.examine import Examination
from audit.experiment.paper_tables import (
    ExperimentTables,
    ExposureRow,
    tables_json,
    tables_markdown,
    tables_of,
)
from audit.stats import wilson
from tests.experiment.fake_reports import MENTIONS, N_EASY, N_HARD, fake_report

TABLE3 = ((2, 3), (1, 7))
TABLE4 = ((25, 1), (7, 1), (3, 1), (2, 2), (1, 5))
EXAMINATION = cast(
    Examination,
    SimpleNamespace(
        n_notes=44, n_patients=10, n_passages=13, pattern_table=TABLE3, mention_table=TABLE4
    ),
)
EXPOSURES = (ExposureRow(1.0, 16, 3.456), ExposureRow(20.0, 320, float("nan")))
REPORTS = {
    (epochs, scenario): fake_report(scenario, lift=lift, digest=f"e{epochs:g}-")
    for epochs, lift in ((1.0, 0.3), (20.0, 2.0))
    for scenario in (1, 2)
}


@pytest.fixture(scope="module")
def tables() -> ExperimentTables:
    return tables_of(REPORTS, examination=EXAMINATION, exposures=EXPOSURES)


def score_and_kinds(epochs: float, scenario: int) -> tuple[Any, Any]:
    names = REPORTS[epochs, scenario].names
    return np.array(names["score"]), np.array(names["control_kind"])


def test_table_1_counts_the_papers_rule_at_every_exposure(tables):
    assert len(tables.table1) == 2 * 2 * 2  # exposures, scenarios, kinds of controls
    for row in tables.table1:
        scenario = {"generation": 1, "masked_lm": 2}[row.attack]
        score, kinds = score_and_kinds(row.epochs, scenario)
        counts = row.confusion
        assert counts.tp == (score[kinds == ""] > 0).sum()
        assert counts.fp == (score[kinds == row.controls] > 0).sum()
        assert counts.n_members == len(MENTIONS)
        assert counts.n_controls == {"easy": N_EASY, "hard": N_HARD}[row.controls]
        assert row.f1.low <= row.f1.value <= row.f1.high
        assert row.f1.value == pytest.approx(counts.f1)


def test_table_2_is_the_general_model_and_not_the_hospitals(tables):
    assert [(row.controls, row.model, row.attack) for row in tables.table2] == [
        ("easy", "general", "generation"), ("hard", "general", "generation"),
    ]  # fmt: skip
    for row in tables.table2:
        stratum = REPORTS[20.0, 1].measures.strata[row.controls]
        assert row.confusion.tp == stratum.baseline_rules["name_occurs_general"].confusion.tp
    hospital = {r.confusion for r in tables.table1 if (r.epochs, r.attack) == (20.0, "generation")}
    assert hospital.isdisjoint(row.confusion for row in tables.table2)


def test_always_saying_member_finds_all_and_spares_none(tables):
    for row in tables.always_member:
        assert (row.confusion.fn, row.confusion.tn) == (0, 0)


def test_tables_3_and_4_are_the_corpus_own(tables):
    assert (tables.table3, tables.table4) == (TABLE3, TABLE4)
    assert (tables.n_notes, tables.n_patients, tables.n_passages) == (44, 10, 13)
    assert (tables.n_inputs, tables.n_documents, tables.n_members) == (300, 40, len(MENTIONS))


def test_rankings_agree_with_a_second_source(tables):
    row = next(
        r
        for r in tables.rankings
        if (r.epochs, r.attack, r.controls, r.score)
        == (20.0, "masked_lm", "hard", "mean_log_ratio")
    )
    score, kinds = score_and_kinds(20.0, 2)
    rows = np.isin(kinds, ("", "hard"))
    assert row.auc.value == pytest.approx(roc_auc_score(kinds[rows] == "", score[rows]))
    assert row.auc.low < row.auc.value
    assert {r.score for r in tables.rankings if r.is_baseline} == {"general_alone", "popularity"}


def test_mentions_take_members_of_their_bin_against_one_kind_of_controls(tables):
    rows = {
        (r.low, r.high): r
        for r in tables.mentions
        if (r.epochs, r.attack, r.controls) == (1.0, "masked_lm", "easy")
    }
    assert {bin_: row.flagged.n_total for bin_, row in rows.items()} == {
        (1, 1): 5, (2, 2): 2, (3, 4): 1, (5, 9): 1, (10, None): 1, (2, None): 5,
    }  # fmt: skip
    score, kinds = score_and_kinds(1.0, 2)
    mentions = np.array([n or 0 for n in REPORTS[1.0, 2].names["n_mentions"]])
    chosen = (kinds == "easy") | (mentions >= 2)
    expected = roc_auc_score(kinds[chosen] == "", score[chosen])
    assert rows[2, None].auc.value == pytest.approx(expected)
    assert rows[1, 1].flagged.n_hits == (score[(mentions == 1)] > 3).sum()


def test_found_names_are_counted_for_members_and_controls_apart(tables):
    for row in tables.found:
        scenario = {"generation": 1, "masked_lm": 2}[row.attack]
        score, kinds = score_and_kinds(row.epochs, scenario)
        assert row.members.n_hits == (score[kinds == ""] > 3).sum()
        assert row.controls.n_hits == (score[kinds != ""] > 3).sum()
        assert (row.members.n_total, row.controls.n_total) == (len(MENTIONS), N_EASY + N_HARD)


def test_canaries_are_no_patients():
    report = fake_report(2, lift=1.0)
    roles = ["canary", *report.names["role"][1:]]
    reports = {**REPORTS, (1.0, 2): report.changed(names={**report.names, "role": roles})}
    found = tables_of(reports, examination=EXAMINATION)
    rows = [r for r in found.mentions if (r.epochs, r.attack) == (1.0, "masked_lm")]
    assert (10, None) not in {(r.low, r.high) for r in rows}
    assert found.found[1].members.n_total == len(MENTIONS) - 1


def test_both_scenarios_are_needed():
    only = {key: report for key, report in REPORTS.items() if key[1] == 2}
    with pytest.raises(ValueError, match="each scenario"):
        tables_of(only, examination=EXAMINATION)


def test_json_is_whole_and_strict(tables):
    value = json.loads(json.dumps(tables_json(tables), allow_nan=False))
    assert value["schema"] == 1
    assert value["table3"] == [[2, 3], [1, 7]]
    assert len(value["table1"]) == 8
    recall = value["table1"][0]["confusion"]["recall"]
    assert recall["low"] == pytest.approx(wilson(recall["value"], n_total=recall["n_total"]).low)


def cells(text: str, *, title: str) -> list[list[str]]:
    lines = text.split(title)[1].split("\n\n")[1].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_markdown_has_the_papers_layout_with_its_own_figures_beside(tables):
    text = tables_markdown(tables)
    table1 = cells(text, title="Table 1.")
    assert table1[0][3:7] == ["F1", "Accuracy", "Recall", "Precision"]
    paper = next(row for row in table1 if row[:3] == ["paper", "Easy", "Masked LM"])
    assert paper[3:] == ["0.4000", "0.5385", "0.3077", "0.5714", "40", "90", "30", "100"]
    own = next(row for row in table1 if row[:3] == ["20", "Hard", "Masked LM"])
    row = next(
        r for r in tables.table1 if (r.epochs, r.controls, r.attack) == (20.0, "hard", "masked_lm")
    )
    assert own[7:] == [str(n) for n in (row.confusion.tp, row.confusion.fn, row.confusion.fp,
                                        row.confusion.tn)]  # fmt: skip
    low = row.confusion.recall.interval().low
    assert own[5].startswith(f"{row.confusion.recall.value:.3f} ({low:.3f}–")
    assert cells(text, title="Table 4.")[0] == ["Occurrences", "25", "7", "3", "2", "1", "all"]
    assert cells(text, title="Table 4.")[2] == ["Names", "1", "1", "1", "2", "5", "10 (44)"]


def test_every_table_of_the_markdown_has_even_rows(tables):
    text = tables_markdown(tables)
    blocks = [b.splitlines() for b in text.split("\n\n") if b.startswith("|")]
    assert len(blocks) == 9
    for block in blocks:
        assert len({line.count("|") for line in block}) == 1
    by_mentions = cells(text, title="Leakage by mentions: Masked LM")
    assert by_mentions[0][2] == "1 mention (n = 5)"
    assert [row[0] for row in by_mentions[2:]] == ["1", "1", "20", "20"]


def test_leakage_by_epochs_has_a_line_for_each_exposure_and_kind_of_controls(tables):
    lines = cells(tables_markdown(tables), title="Leakage by epochs: Generation")
    assert lines[0][2:] == [
        "`product`", "`product_log_ratio`", "`hits`", "`general_alone`", "`popularity`",
        "Members, q ≤ 0.05",
    ]  # fmt: skip
    assert [line[:2] for line in lines[2:]] == [
        [epochs, kind] for epochs in ("1", "20") for kind in ("Easy", "Hard")
    ]
    row = next(
        r for r in tables.rankings if (r.epochs, r.controls, r.score) == (1.0, "hard", "hits")
    )
    assert lines[3][4] == f"{row.auc.value:.2f} ({row.auc.low:.2f}–{row.auc.high:.2f})"


def test_canaries_have_a_table_where_there_are_some(tables):
    assert tables.canaries == ()
    assert "Canaries" not in tables_markdown(tables)
    bits = {"value": 2.5, "low": 1.0, "high": 3.25}
    group = {
        "n_mentions": 4, "n_names": 6, "bits": bits, "found": {**bits, "n_hits": 3, "n_total": 6},
        "above_twin": {**bits, "n_hits": 5, "n_total": 6}, "above_twin_p": 0.1,
    }  # fmt: skip
    measured = {
        "groups": [group], "all": group, "max_bits": 3.585, "n_held_out": 11, "smallest_p": 0.1,
        "bits_without_leak": 1.2, "found_from": bits,
    }  # fmt: skip
    canaries = {
        "n_planted": 6, "n_held_out": 11, "is_paired": False, "fixed_score": "mean_log_ratio",
        "alpha": 0.05, "english": "", "japanese": "", "names": [],
        "scores": {"mean_log_ratio": measured},
    }  # fmt: skip
    planted = fake_report(2, lift=1.0).changed(details={"canaries": canaries})
    found = tables_of({**REPORTS, (20.0, 2): planted}, examination=EXAMINATION)
    assert len(found.canaries) == 1
    lines = cells(tables_markdown(found), title="Canaries")
    assert lines[2] == ["20", "Masked LM", "4", "2.5 (1.0–3.2)", "3.6", "3 of 6", "5 of 6"]


def test_exposures_say_how_far_the_training_was(tables):
    assert cells(tables_markdown(tables), title="along its training") == [
        ["Epochs on D_private", "1", "20"], ["---"] * 3, ["Steps", "16", "320"],
        ["Training loss, nats", "3.46", "—"],
    ]  # fmt: skip
    assert tables_json(tables)["exposures"][1] == {"epochs": 20.0, "step": 320, "loss": None}
