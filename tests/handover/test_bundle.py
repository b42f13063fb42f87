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

import pytest

from audit.errors import AuditError
from audit.report.export import MEASURE_COLUMNS, bundle, bundle_files, bundle_name, measures_csv
from audit.report.html import ReportChoice
from audit.report.names import NAME_FORMS
from audit.report.report import AuditReport
from audit.shelf import write_private
from tests.pages.make_reports import MEMBERS, make_report

DOCUMENTS = {"hospital": ["sophia0 wright0 is here", "=1+1"], "general": ["nobody"]}


@pytest.fixture(scope="module")
def report() -> AuditReport:
    made = make_report(1)
    linking = {"rank_by_passage": [{"name_id": 0, "passage_id": "Wright0-chart", "rank": 1.0}]}
    return made.changed(details={"linking": linking})


def zipped(report: AuditReport, choice: ReportChoice, **more: Any) -> bytes:
    files = bundle_files(report, choice=choice, **more)
    return bundle(files, folder=bundle_name(report, choice=choice))


def rows(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"))))


@pytest.mark.parametrize("form", NAME_FORMS)
def test_sha256sum_finds_every_file_as_it_was(
    report: AuditReport, form: Any, tmp_path: Path
) -> None:
    data = zipped(report, ReportChoice(names=form), documents=DOCUMENTS)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(tmp_path)
    (folder,) = tmp_path.iterdir()
    assert folder.name == f"audit-{report.digest[:12]}-{form}-en"
    done = subprocess.run(
        ["sha256sum", "--strict", "-c", "MANIFEST.sha256"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    listed = {line.partition(": ")[0] for line in done.stdout.splitlines()}
    assert listed == {path.name for path in folder.iterdir()} - {"MANIFEST.sha256"}


def test_the_same_choice_gives_the_same_bytes(report: AuditReport) -> None:
    for form in NAME_FORMS:
        choice = ReportChoice(names=form, language="ja")
        assert zipped(report, choice) == zipped(report, choice)
    with zipfile.ZipFile(io.BytesIO(zipped(report, ReportChoice()))) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o100600}


def test_the_seal_of_the_access_log_goes_with_every_report(report: AuditReport) -> None:
    seal = "12-" + "ab" * 32
    for language in ("en", "ja"):
        choice = ReportChoice(language=language, sections=())
        files = bundle_files(report, choice=choice, seal=seal)
        assert files["log_seal.txt"].decode() == f"{seal}\n"
        assert seal.encode() in files["report.html"]
        assert (
            b"log_seal.txt" in files["README.txt"] and b"log_seal.txt" in files["MANIFEST.sha256"]
        )
        for name in ("report.html", "report.json"):
            assert bundle_files(report, choice=choice, seal=seal, only=name) == {name: files[name]}
        again = AuditReport.from_json(json.loads(files["report.json"]))
        assert again.made["log_seal"] == seal
        without = bundle_files(report, choice=choice)
        assert not any(b"log_seal" in content for content in without.values())


def test_names_are_only_in_the_full_form(report: AuditReport) -> None:
    parts = [part.encode() for name in MEMBERS for part in name]
    for form in ("masked", "pseudonyms"):
        files = bundle_files(report, choice=ReportChoice(names=form), documents=DOCUMENTS)
        assert {"names_key.csv", "documents.csv"}.isdisjoint(files)
        for name, content in files.items():
            assert not any(part in content for part in parts), name
            assert not any(part.lower() in content for part in parts), name
    full = bundle_files(report, choice=ReportChoice(names="full"), documents=DOCUMENTS)
    assert rows(full["names.csv"])[0]["first_name"] == "Sophia0"
    assert rows(full["names_key.csv"])[1] == {
        "pseudonym": "P-0003", "first_name": "Sophia1", "last_name": "Wright1",
    }  # fmt: skip
    assert rows(full["documents.csv"])[2]["text"] == "'=1+1"


def test_pseudonyms_are_rows_of_the_key(report: AuditReport) -> None:
    shown = rows(bundle_files(report, choice=ReportChoice(names="pseudonyms"))["names.csv"])
    key = rows(bundle_files(report, choice=ReportChoice(names="full"))["names_key.csv"])
    assert [row["first_name"] for row in shown] == [row["pseudonym"] for row in key]
    assert {row["popularity"] for row in shown} == {""}


@pytest.mark.parametrize("form", NAME_FORMS)
def test_the_json_is_a_report_of_the_same_answer(report: AuditReport, form: Any) -> None:
    files = bundle_files(report, choice=ReportChoice(names=form))
    found = AuditReport.from_json(json.loads(files["report.json"]))
    assert found.digest == report.digest
    assert found.made["names"] == form
    assert found.verdict == report.verdict
    assert found.names["score"] == report.names["score"]
    assert json.loads(files["measures.json"])["digest"] == report.digest


@pytest.mark.parametrize("form", NAME_FORMS)
def test_one_file_alone_is_the_same_file(report: AuditReport, form: Any) -> None:
    choice = ReportChoice(names=form)
    files = bundle_files(report, choice=choice)
    for name in ("report.html", "names.csv", "measures.csv", "report.json"):
        assert bundle_files(report, choice=choice, only=name) == {name: files[name]}


def test_names_that_look_like_formulas_are_guarded() -> None:
    report = make_report(2, members=[("=cmd()", "@SUM(A1)"), *MEMBERS[1:]])
    first = rows(bundle_files(report, choice=ReportChoice(names="full"))["names.csv"])[0]
    assert (first["first_name"], first["last_name"]) == ("'=cmd()", "'@SUM(A1)")


def test_measures_are_the_reports_with_counts_and_intervals(report: AuditReport) -> None:
    found = rows(measures_csv(report).encode())
    assert tuple(found[0]) == MEASURE_COLUMNS
    measured = report.to_json()["measures"]["strata"]["hard"]
    by_key = {(r["controls"], r["kind"], r["name"], r["measure"]): r for r in found}
    assert len(by_key) == len(found)
    auc = by_key["hard", "score", "product", "auc"]
    assert float(auc["value"]) == measured["scores"]["product"]["auc"]["value"]
    assert float(auc["low"]) == measured["scores"]["product"]["auc"]["low"]
    recall = by_key["hard", "rule", "name_occurs", "recall"]
    confusion = measured["rules"]["name_occurs"]["confusion"]
    assert (int(recall["n_hits"]), int(recall["n_total"])) == (
        confusion["tp"], confusion["n_members"],
    )  # fmt: skip
    assert int(by_key["hard", "guess", "always_member", "fp"]["value"]) == measured["n_controls"]
    assert by_key["hard", "score", "product", "tpr_at_fpr_0.001"]["value"] == ""
    assert rows(measures_csv(make_report(2, has_truth=False)).encode()) == []


def test_the_files_of_a_directory_are_those_of_the_zip_and_their_owners_alone(
    report: AuditReport, tmp_path: Path
) -> None:
    choice = ReportChoice(names="pseudonyms", language="ja")
    files = bundle_files(report, choice=choice)
    written = write_private(files, tmp_path / "out")
    for path in written:
        assert path.read_bytes() == files[path.name]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "プライバシー監査" in files["README.txt"].decode()
    assert "names_key.csv" not in files["README.txt"].decode()
    assert bundle_name(report, choice=choice).endswith("-pseudonyms-ja")
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditError, match="cannot be written"):
        write_private(files, tmp_path / "file" / "out")
