"""Scenario 2 from end to end: `run_audit` on a small pair of models."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest

from audit.membership.candidates import Candidates
from audit.membership.posterior import draw_inputs
from audit.membership.verdict import State
from audit.report import AuditReport, names_csv, same_answer, write_report
from audit.run import run_audit
from cache.store import Store
from tests.attack.masking_pair import LISTED, PASSAGES, UNKNOWN, folders, numbers, request_of, store
from tests.reference_masking import (
    SCORES,
    can_be_scored,
    log_chain,
    log_product,
    make_task,
    plain_model,
    score_with_error,
)

__all__ = ["folders", "store"]
COLUMNS = (
    "name_id", "first_name", "last_name", "is_member", "control_kind", "n_pieces", "score",
    "standard_error", "p_value", "q_value", "decision", "hospital_posterior", "general_posterior",
    "difference", "log_ratio", "mean_log_ratio",
)  # fmt: skip


@pytest.fixture(scope="module")
def report(folders: dict[str, Path], store: Store) -> AuditReport:
    return run_audit(request_of(folders), store=store)


def test_every_score_of_the_report_is_the_slow_references(
    report: AuditReport, folders: dict[str, Path]
) -> None:
    passages = PASSAGES.passages
    plain = {who: plain_model(folders[who]) for who in folders}
    names = list(zip(LISTED.first, LISTED.last, strict=True))
    task = make_task(plain["hospital"].tokenizer, passages, names, seed=5)
    log_p = {"": log_product, "chain_": log_chain}
    draws = {
        "": draw_inputs(task, first_block=0, n_inputs=230),
        "chain_": draw_inputs(task, first_block=0, n_inputs=20, purpose="chain inputs"),
    }
    for row, name in enumerate(names):
        is_known = can_be_scored(plain["hospital"], passages, name)
        assert is_known == (name != UNKNOWN)
        for prefix, log_of in log_p.items():
            logs = {
                who[0]: [log_of(plain[who], p, name) if is_known else math.nan for p in passages]
                for who in plain
            }
            inputs = [
                [
                    {f"l_{who}": logs[who][p] for who in "hg"}
                    | {f"p_{who}": math.exp(logs[who][p]) for who in "hg"}
                    for p in block
                ]
                for block in draws[prefix]
            ]
            for score, statistic in SCORES.items():
                value, error = score_with_error(statistic, inputs)
                found = numbers(report, prefix + score)[row]
                largest = max(max(math.exp(x) for x in side) for side in logs.values())
                is_log = score in ("log_ratio", "mean_log_ratio", "general_mean_log")
                allowed = {"abs": 1e-6 if is_log else 1e-6 * largest, "rel": 1e-6, "nan_ok": True}
                assert found == pytest.approx(value, **allowed)
                if prefix + score == report.fixed_score:
                    assert numbers(report, "score")[row] == found or not is_known
                    of_row = numbers(report, "standard_error")[row]
                    assert of_row == pytest.approx(error, **allowed)


def test_the_table_has_the_columns_promised_and_csv_and_pandas_read_it(
    report: AuditReport, tmp_path: Path
) -> None:
    write_report(report, tmp_path / "out")
    text = (tmp_path / "out" / "names.csv").read_text(encoding="utf-8")
    assert text == names_csv(report)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert set(COLUMNS) <= set(rows[0])
    assert [row["name_id"] for row in rows] == [str(k) for k in range(len(LISTED))]
    assert [row["last_name"] for row in rows] == list(LISTED.last)
    assert rows[12]["score"] == rows[12]["p_value"] == rows[12]["difference"] == ""
    table = pd.read_csv(tmp_path / "out" / "names.csv")
    for column in ("score", "standard_error", "p_value", "q_value", "difference", "log_ratio"):
        assert table[column].dtype == np.float64
        assert np.isnan(table[column][12])
        assert np.isfinite(table[column].drop(index=12)).all()
        np.testing.assert_allclose(table[column], numbers(report, column))
    assert table["is_member"].tolist() == [1] * 6 + [0] * 6 + [1, 0]
    assert table["control_kind"].fillna("").tolist() == [""] * 6 + ["easy"] * 6 + ["", "given"]
    assert table["n_pieces"].drop(index=12).tolist() == [2] * 12 + [1]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "names.csv", "measures.json", "report.json",
    }  # fmt: skip


def test_a_name_that_cannot_be_spelled_has_no_number_anywhere_and_is_counted(
    report: AuditReport,
) -> None:
    about = {"name_id", "first_name", "last_name", "is_member", "control_kind", "role",
             "n_mentions", "popularity", "n_pieces", "threshold", "is_unmatched"}  # fmt: skip
    left = {column: report.names[column][12] for column in report.names if column not in about}
    assert left.pop("decision") == "not scored"
    assert "chain_log_ratio" in left
    assert set(left.values()) == {None}
    assert "1 of 14 names could not be scored." in report.notes


def test_the_report_holds_measures_linking_curve_and_counts(report: AuditReport) -> None:
    assert report.fixed_score == "mean_log_ratio"
    assert report.candidates["n_members"] == 7
    assert report.candidates["n_controls"] == 7
    assert report.candidates["by_kind"] == {"easy": 6, "given": 1}
    assert report.candidates["n_reference"] >= 2600
    assert set(report.measures["strata"]) >= {"all", "easy"}
    everyone = report.measures["strata"]["all"]
    assert {"difference", "log_ratio", "mean_log_ratio", "chain_mean_log_ratio"} <= set(
        everyone["scores"]
    )
    assert "difference_above_zero" in everyone["rules"]
    assert [point["n"] for point in report.curve] == [100, 200, 230]
    # The last point of the curve is the whole run.
    last = report.curve[-1]["strata"]["all"]["auc"]["mean_log_ratio"]
    assert last == pytest.approx(everyone["scores"]["mean_log_ratio"]["auc"]["value"])
    assert report.verdict["state"] in get_args(State)
    for p, q in zip(numbers(report, "p_value"), numbers(report, "q_value"), strict=True):
        assert math.isnan(p) or 0 < p <= q <= 1
    assert report.scenario["number"] == 2
    assert report.models["hospital"]["digest"] != report.models["general"]["digest"]


def test_linking_ranks_the_scored_owners_by_the_reports_own_passages(report: AuditReport) -> None:
    linking = report.details["linking"]
    # Five passages: one without owner, one whose owner cannot be spelled.
    assert [one["passage_id"] for one in linking["rank_by_passage"]] == ["1", "2", "3"]
    assert [one["name_id"] for one in linking["rank_by_passage"]] == [0, 1, 2]
    assert linking["n_names"] == 13
    assert all(1 <= one["rank"] <= 13 for one in linking["rank_by_passage"])


def test_the_same_question_again_is_answered_from_the_store(
    report: AuditReport, folders: dict[str, Path], store: Store, tmp_path: Path
) -> None:
    again = run_audit(request_of(folders), store=store, should_stop=lambda: True)
    assert again.to_json() == report.to_json()
    with Store(tmp_path / "fresh") as fresh:
        anew = run_audit(request_of(folders), store=fresh)
    assert same_answer(anew, report)
    assert anew.made != report.made


def test_with_dropout_a_fresh_store_gives_the_same_bytes(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    asked = request_of(folders, is_dropout_on=True, n_inputs=110, n_chain_inputs=3)
    reports = []
    for name in ("one", "other"):
        with Store(tmp_path / name) as fresh:
            reports.append(run_audit(asked, store=fresh))
    assert same_answer(*reports)


def test_equal_models_differ_by_exactly_zero_with_dropout_on(
    folders: dict[str, Path], store: Store
) -> None:
    twice = {"hospital": folders["general"], "general": folders["general"]}
    found = run_audit(
        request_of(twice, is_dropout_on=True, n_inputs=120, n_chain_inputs=4), store=store
    )
    for column in ("difference", "log_ratio", "mean_log_ratio", "chain_mean_log_ratio"):
        assert set(numbers(found, column)[:12]) == {0.0}
    assert set(numbers(found, "standard_error")[:12]) == {0.0}
    assert "Both models are the same: every difference is 0." in found.notes
    assert found.verdict["state"] != "leak_found"


def without_truth(candidates: Candidates) -> Candidates:
    n = len(candidates)
    return replace(
        candidates, is_member=(None,) * n, control_kind=("",) * n, n_mentions=(None,) * n
    )


def test_without_truth_there_are_p_and_q_and_no_confusion_table(
    report: AuditReport, folders: dict[str, Path], store: Store
) -> None:
    found = run_audit(request_of(folders, candidates=without_truth(LISTED)), store=store)
    assert found.measures["strata"] == {}
    assert list(found.curve) == []
    assert list(found.mentions) == []
    assert set(found.names["is_member"]) == {None}
    assert found.cohort["group"] == "unknown"
    assert "null_check" not in found.details
    for column in ("p_value", "q_value"):
        assert np.isfinite(np.delete(numbers(found, column), 12)).all()
    # Truth plays no part in scores, nor in a name's own p.
    for column in ("score", "standard_error", "p_value", "chain_log_ratio"):
        np.testing.assert_array_equal(numbers(found, column), numbers(report, column))
