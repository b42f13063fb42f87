from __future__ import annotations

import csv
import io
import json
import math
import stat
from pathlib import Path

import pytest

from audit.errors import AuditError
from audit.report.export import measures_json, names_csv, write_report
from audit.report.report import SCHEMA, AuditReport
from tests.small_audit import same_answer

HOSTILE = ['=HYPERLINK("http://x","y")', "+1+1", "-2", "@SUM(A1)", "\tx", "＝1", "\0a", "\r=1"]


MENTIONS = {"from": 1, "to": 1, "n_names": 1, "flagged": {
    "n_hits": 0, "n_total": 1, "value": 0.0, "low": 0.0, "high": 0.8}}  # fmt: skip


def report_of(**changes) -> AuditReport:
    names = {
        "name_id": [0, 1],
        "first_name": ["Anna", 'O"Brien, the "2nd"'],
        "last_name": ["山田", "NA"],
        "is_member": [1, None],
        "score": [0.25, math.nan],
        "popularity": [1e-9, math.inf],
        "is_unmatched": [False, True],
    }
    parts = dict(
        digest="d" * 64,
        question={"seed": 1, "threshold": None},
        scenario={"number": 1},
        models={"general": {"name": "g"}, "hospital": {"name": "h"}},
        candidates={"n_names": 2},
        fixed_score="product",
        columns=list(names),
        names=names,
        measures={"strata": {}, "more": {"auc": math.nan, "threshold": (-math.inf, 0.5)}},
        verdict={"state": "not_enough_evidence"},
        cohort={"p": 0.5},
        curve=[{"n": 100, "strata": {}}],
        mentions=[],
        details={"ks": math.nan},
        notes=["A sentence."],
        made={"at": "2020-01-01"},
    )
    return AuditReport.of(**{**parts, **changes})


def test_a_report_survives_json_and_back():
    value = report_of().to_json()
    back = AuditReport.from_json(json.loads(json.dumps(value, allow_nan=False)))
    assert back.to_json() == value
    assert same_answer(report_of(), back)
    assert back.n_names == 2


def test_numbers_that_are_not_finite_are_words_or_nothing():
    value = report_of().to_json()
    assert value["measures"]["more"] == {"auc": None, "threshold": ["-inf", 0.5]}
    assert value["names"]["score"] == [0.25, None]
    assert value["names"]["popularity"] == [1e-9, "inf"]
    json.dumps(value, allow_nan=False)


def test_a_report_of_another_version_is_refused():
    value = report_of().to_json()
    less = {name: part for name, part in value.items() if name != "curve"}
    for other in ({**value, "schema": SCHEMA + 1}, {**value, "extra": 1}, less, {}):
        with pytest.raises(AuditError, match="written by another version"):
            AuditReport.from_json(other)


def test_made_is_no_part_of_the_answer():
    assert same_answer(report_of(), report_of(made={"at": "2030-12-31", "seconds": 5}))


@pytest.mark.parametrize("name", sorted(set(report_of().to_json()) - {"made", "schema"}))
def test_every_other_part_is_part_of_the_answer(name):
    value = report_of().to_json()[name]
    other: object
    if isinstance(value, dict):
        more = {"models": {"name": "m"}, "names": [1, 2]}.get(name, 1)
        other = {**value, "more": more}
    elif isinstance(value, list):
        more = {"curve": {"n": 1, "strata": {}}, "mentions": MENTIONS}.get(name, "more")
        other = [*value, more]
    else:
        other = value + type(value)(1)
    assert not same_answer(report_of(), report_of(**{name: other}))


def test_a_last_digit_is_part_of_the_answer():
    cohort = {"p": math.nextafter(0.5, 1)}
    assert not same_answer(report_of(), report_of(cohort=cohort))


# --- files ---


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_the_table_of_names_has_its_columns_in_order_and_empty_cells_for_nothing():
    rows = rows_of(names_csv(report_of()))
    assert rows == [
        ["name_id", "first_name", "last_name", "is_member", "score", "popularity", "is_unmatched"],
        ["0", "Anna", "山田", "1", "0.25", "1e-09", "0"],
        ["1", 'O"Brien, the "2nd"', "NA", "", "", "inf", "1"],
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_name_is_never_a_formula(text):
    report = report_of()
    report = report.changed(names={**report.names, "first_name": [text, "Bob"]})
    cell = next(csv.reader(io.StringIO(names_csv(report).split("\n", 1)[1], newline="")))[1]
    assert cell == "'" + text


def test_a_generated_document_is_never_a_formula(tmp_path):
    write_report(report_of(), tmp_path, documents={"hospital": ["=1+1", "a"], "general": ["b"]})
    assert rows_of((tmp_path / "documents.csv").read_text("utf-8")) == [
        ["document_id", "model", "text"],
        ["0", "general", "b"],
        ["0", "hospital", "'=1+1"],
        ["1", "hospital", "a"],
    ]


def test_the_files_of_a_report_hold_it(tmp_path):
    out = tmp_path / "new" / "out"
    report = report_of()
    paths = write_report(report, out)
    assert sorted(p.name for p in paths) == ["measures.json", "names.csv", "report.json"]
    assert sorted(out.iterdir()) == sorted(paths)  # nothing half-written is left
    whole = json.loads((out / "report.json").read_text("utf-8"), parse_constant=refuse)
    assert same_answer(AuditReport.from_json(whole), report)
    measures = json.loads((out / "measures.json").read_text("utf-8"), parse_constant=refuse)
    assert measures == measures_json(report)
    assert measures["verdict"] == {"state": "not_enough_evidence"}
    assert "names" not in measures
    assert "made" not in measures
    assert (out / "names.csv").read_text("utf-8") == names_csv(report)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_files_are_for_their_owner_alone(tmp_path):
    out = tmp_path / "out"
    for path in write_report(report_of(), out, documents={"general": ["a"]}):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(out.stat().st_mode) == 0o700


def test_files_are_written_anew(tmp_path):
    write_report(report_of(), tmp_path)
    write_report(report_of(digest="e" * 64), tmp_path)
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["digest"] == "e" * 64


def test_a_place_that_cannot_be_written_is_refused_with_the_reason(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(AuditError, match=r"out: The folder cannot be written \(.+\)"):
        write_report(report_of(), tmp_path / "file" / "out")
