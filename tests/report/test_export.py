"""What is handed over: the same bytes each time, digests that fit, names only where chosen."""

from __future__ import annotations

import csv
import io
import json
import stat
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from audit.errors import AuditError, catalogue
from audit.report.export import (
    bundle,
    bundle_files,
    bundle_name,
    measures_csv,
    measures_json,
    names_csv,
    write_report,
)
from audit.report.html import ReportChoice
from audit.report.name_table import NAME_FORMS
from audit.report.report import AuditReport
from tests.pages.make_reports import (
    MEMBERS,
    make_report,
    make_special_names,
)
from tests.report.test_report import make_small_report
from tests.small_audit import same_answer

DOCUMENTS = {"hospital": ["sophia0 wright0 is here", "=1+1"], "general": ["nobody"]}


@pytest.fixture(scope="module")
def report() -> AuditReport:
    audit_report = make_report(1, names=make_special_names())
    linking = {"rank_by_passage": [{"name_id": 0, "passage_id": "Wright0-chart", "rank": 1.0}]}
    return audit_report.changed(details=audit_report.to_json()["details"] | {"linking": linking})


def zip_report(report: AuditReport, choice: ReportChoice, **more: Any) -> bytes:
    files = bundle_files(report, choice=choice, **more)
    return bundle(files, folder=bundle_name(report, choice=choice))


def read_rows(data: str | bytes) -> list[dict[str, str]]:
    text = data if isinstance(data, str) else data.decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


def refuse_constant(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


# --- the files of a run ---


def test_the_table_of_names_has_its_columns_in_order_and_empty_cells_for_nothing() -> None:
    assert list(csv.reader(io.StringIO(names_csv(make_small_report())))) == [
        ["name_id", "first_name", "last_name", "is_member", "score", "popularity", "is_undecided"],
        ["0", "'=Anna", "山田", "1", "0.25", "1e-09", "0"],
        ["1", 'O"Brien, the "2nd"', "NA", "", "", "inf", "1"],
    ]


def test_the_files_of_a_report_hold_it_for_their_owner_alone(tmp_path: Path) -> None:
    folder, report = tmp_path / "new" / "out", make_small_report()
    assert len(write_report(make_small_report(digest="e" * 64), folder)) == 3
    documents = {"hospital": ["=1+1", "a"], "general": ["b"]}
    paths = write_report(report, folder, documents=documents)  # written anew
    assert sorted(folder.iterdir()) == sorted(paths)  # nothing half-written is left
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    texts = {path.name: path.read_text("utf-8") for path in paths}
    report_json = json.loads(texts["report.json"], parse_constant=refuse_constant)
    assert same_answer(AuditReport.from_json(report_json), report)
    measures = json.loads(texts["measures.json"], parse_constant=refuse_constant)
    measure_keys = {
        "digest",
        "scenario",
        "fixed_score",
        "verdict",
        "measures",
        "curve",
        "mentions",
        "details",
        "candidates",
        "notes",
    }
    assert measures == measures_json(report) == {key: report.to_json()[key] for key in measure_keys}
    assert texts["names.csv"] == names_csv(report)
    assert list(csv.reader(io.StringIO(texts["documents.csv"]))) == [
        ["document_id", "model", "text"],
        ["0", "general", "b"],
        ["0", "hospital", "'=1+1"],
        ["1", "hospital", "a"],
    ]
    (tmp_path / "file").write_text("x")
    with pytest.raises(AuditError, match=r"out: The folder cannot be written \(.+\)"):
        write_report(report, tmp_path / "file" / "out")


# --- the bundle ---


@pytest.mark.parametrize("form", NAME_FORMS)
def test_a_zip_is_whole_and_the_same_each_time(
    report: AuditReport, form: Any, tmp_path: Path
) -> None:
    choice = ReportChoice(names=form, language="ja")
    data = zip_report(report, choice, documents=DOCUMENTS)
    assert data == zip_report(report, choice, documents=DOCUMENTS)
    files = bundle_files(report, choice=choice, documents=DOCUMENTS)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(tmp_path)
        assert {(entry.date_time, entry.external_attr >> 16) for entry in archive.infolist()} == {
            ((1980, 1, 1, 0, 0, 0), 0o100600)
        }
    folder = tmp_path / f"audit-{report.digest[:12]}-{form}-ja"
    names = {
        "report.html",
        "names.csv",
        "measures.csv",
        "measures.json",
        "report.json",
        "README.txt",
        "MANIFEST.sha256",
    }
    names |= {"names_key.csv", "documents.csv"} if form == "full" else set()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert set(files) == names
    process = subprocess.run(
        ["sha256sum", "--strict", "-c", "MANIFEST.sha256"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    listed = {line.partition(": ")[0] for line in process.stdout.splitlines()}
    assert listed == names - {"MANIFEST.sha256"}
    words = catalogue("ja", "report")
    readme = files["README.txt"].decode().splitlines()
    file_codes = [
        "html",
        "names",
        "measures",
        "json",
        *(["documents", "key"] * (form == "full")),
        "manifest",
    ]
    assert readme == [
        words["readme_title"],
        report.digest,
        "",
        words[f"names_{form}"],
        "",
        *(words[f"readme_{file_code}"] for file_code in file_codes),
        "",
        words["readme_care"],
    ]
    report_copy = AuditReport.from_json(json.loads(files["report.json"]))
    assert report_copy.to_json() == report.with_names_as(form).to_json()
    assert json.loads(files["measures.json"]) == measures_json(report.with_names_as(form))


def test_the_seal_of_the_access_log_goes_with_every_report(report: AuditReport) -> None:
    seal, choice = "12-" + "ab" * 32, ReportChoice(sections=())
    files = bundle_files(report, choice=choice, seal=seal)
    assert files["log_seal.txt"].decode() == f"{seal}\n"
    assert seal.encode() in files["report.html"]
    assert catalogue("en", "report")["readme_seal"].encode() in files["README.txt"]
    assert b"log_seal.txt" in files["MANIFEST.sha256"]
    assert AuditReport.from_json(json.loads(files["report.json"])).made["log_seal"] == seal
    without = bundle_files(report, choice=choice)
    assert not any(b"log_seal" in content for content in without.values())


def test_names_are_only_in_the_full_form(report: AuditReport) -> None:
    parts = [part.encode() for name in (*MEMBERS, ("Nevah0", "Neither0")) for part in name]
    for form in ("masked", "pseudonyms"):
        files = bundle_files(report, choice=ReportChoice(names=form), documents=DOCUMENTS)
        for name, content in files.items():
            assert not any(part in content or part.lower() in content for part in parts), name
        assert b"Confidential" not in files["report.html"]
    full = bundle_files(report, choice=ReportChoice(names="full"), documents=DOCUMENTS)
    assert read_rows(full["names.csv"])[0]["first_name"] == "Sophia0"
    assert b"Confidential" in full["report.html"] and b"Sophia0 Wright0" in full["report.html"]
    key = read_rows(full["names_key.csv"])
    assert key[1] == {"pseudonym": "P-0003", "first_name": "Sophia1", "last_name": "Wright1"}
    assert read_rows(full["documents.csv"])[2]["text"] == "'=1+1"
    name_rows = read_rows(
        bundle_files(report, choice=ReportChoice(names="pseudonyms"))["names.csv"]
    )
    assert [row["first_name"] for row in name_rows] == [row["pseudonym"] for row in key]
    assert {row["popularity"] for row in name_rows} == {""}


# --- the long table ---


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_long_table_has_a_line_for_every_figure_with_an_interval(scenario: int) -> None:
    report = make_report(scenario, names=make_special_names())
    report_json = json.loads(json.dumps(report.to_json(), sort_keys=True))
    parts = {key: report_json[key] for key in ("verdict", "measures", "details")}
    for role in report_json["details"]["roles"]:
        parts |= {f"details / roles / {role['role']}": role}
    for score, measured in report_json["details"]["canaries"]["scores"].items():
        group_path = f"details / canaries / scores / {score} / groups"
        parts |= {f"{group_path} / {group['n_mentions']}": group for group in measured["groups"]}
    parts |= {f"mentions / {group['from']}": group for group in report_json["mentions"]}
    parts |= {f"curve / {point['n']}": point for point in report_json["curve"]}
    flat = pd.json_normalize(parts, sep=" / ").iloc[0].to_dict()
    columns = ("value", "low", "high", "n_hits", "n_total")
    expected_figures = {
        place: tuple(flat.get(f"{place} / {column}") for column in columns)
        for place in (key.removesuffix(" / low") for key in flat if key.endswith(" / low"))
    }
    for audit_report in (report, AuditReport.from_json(report_json)):
        lines = read_rows(measures_csv(audit_report))
        figures = {line["measure"]: tuple(line[column] for column in columns) for line in lines}
        assert len(figures) == len(lines) > 300
        assert figures == {
            place: tuple("" if x is None else str(x) for x in figure)
            for place, figure in expected_figures.items()
        }
    blind = read_rows(measures_csv(make_report(2, has_truth=False)))
    assert not any(line["measure"].startswith("measures") for line in blind)
