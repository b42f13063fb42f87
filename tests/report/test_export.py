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
from audit.report.compare import compare_references
from audit.report.export import (
    MEASURE_COLUMNS,
    bundle,
    bundle_files,
    bundle_name,
    measures_csv,
    measures_json,
    names_csv,
    write_report,
)
from audit.report.html import ReportChoice
from audit.report.names import NAME_FORMS
from audit.report.report import AuditReport
from audit.words import catalogue
from tests.pages.make_reports import (
    MEMBERS,
    make_reference_reports,
    make_report,
    make_special_names,
)
from tests.report.test_report import report_of
from tests.small_audit import same_answer

HOSTILE = ['=HYPERLINK("http://x","y")', "+1+1", "-2", "@SUM(A1)", "\tx", "＝1", "\0a", "\r=1"]
DOCUMENTS = {"hospital": ["sophia0 wright0 is here", "=1+1"], "general": ["nobody"]}


@pytest.fixture(scope="module")
def report() -> AuditReport:
    made = make_report(1)
    linking = {"rank_by_passage": [{"name_id": 0, "passage_id": "Wright0-chart", "rank": 1.0}]}
    return made.changed(details={"linking": linking})


def zipped(report: AuditReport, choice: ReportChoice, **more: Any) -> bytes:
    files = bundle_files(report, choice=choice, **more)
    return bundle(files, folder=bundle_name(report, choice=choice))


def rows(data: str | bytes) -> list[dict[str, str]]:
    text = data if isinstance(data, str) else data.decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


# --- the files of a run ---


def test_the_table_of_names_has_its_columns_in_order_and_empty_cells_for_nothing() -> None:
    assert list(csv.reader(io.StringIO(names_csv(report_of())))) == [
        ["name_id", "first_name", "last_name", "is_member", "score", "popularity", "is_unmatched"],
        ["0", "Anna", "山田", "1", "0.25", "1e-09", "0"],
        ["1", 'O"Brien, the "2nd"', "NA", "", "", "inf", "1"],
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_name_is_never_a_formula(text: str) -> None:
    made = report_of()
    made = made.changed(names={**made.names, "first_name": [text, "Bob"]})
    cell = next(csv.reader(io.StringIO(names_csv(made).split("\n", 1)[1], newline="")))[1]
    assert cell == "'" + text


def test_the_files_of_a_report_hold_it_for_their_owner_alone(tmp_path: Path) -> None:
    out, made = tmp_path / "new" / "out", report_of()
    assert len(write_report(report_of(digest="e" * 64), out)) == 3
    documents = {"hospital": ["=1+1", "a"], "general": ["b"]}
    paths = write_report(made, out, documents=documents)  # written anew
    assert sorted(out.iterdir()) == sorted(paths)  # nothing half-written is left
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    held = {path.name: path.read_text("utf-8") for path in paths}
    whole = json.loads(held["report.json"], parse_constant=refuse)
    assert same_answer(AuditReport.from_json(whole), made)
    measures = json.loads(held["measures.json"], parse_constant=refuse)
    kept = {"digest", "scenario", "fixed_score", "verdict", "measures", "curve",
            "mentions", "details", "candidates", "notes"}  # fmt: skip
    assert measures == measures_json(made) == {key: made.to_json()[key] for key in kept}
    assert held["names.csv"] == names_csv(made)
    assert list(csv.reader(io.StringIO(held["documents.csv"]))) == [
        ["document_id", "model", "text"],
        ["0", "general", "b"],
        ["0", "hospital", "'=1+1"],
        ["1", "hospital", "a"],
    ]
    (tmp_path / "file").write_text("x")
    with pytest.raises(AuditError, match=r"out: The folder cannot be written \(.+\)"):
        write_report(made, tmp_path / "file" / "out")


# --- the bundle ---


@pytest.mark.parametrize("form", NAME_FORMS)
def test_a_zip_is_whole_the_same_each_time_and_each_file_can_be_had_alone(
    report: AuditReport, form: Any, tmp_path: Path
) -> None:
    choice = ReportChoice(names=form, language="ja")
    data = zipped(report, choice, documents=DOCUMENTS)
    assert data == zipped(report, choice, documents=DOCUMENTS)
    files = bundle_files(report, choice=choice, documents=DOCUMENTS)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(tmp_path)
        assert {(one.date_time, one.external_attr >> 16) for one in archive.infolist()} == {
            ((1980, 1, 1, 0, 0, 0), 0o100600)
        }
    folder = tmp_path / f"audit-{report.digest[:12]}-{form}-ja"
    names = {"report.html", "names.csv", "measures.csv", "measures.json", "report.json",
             "README.txt", "MANIFEST.sha256"}  # fmt: skip
    names |= {"names_key.csv", "documents.csv"} if form == "full" else set()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert set(files) == names
    for name in names - {"README.txt", "MANIFEST.sha256"}:
        assert bundle_files(report, choice=choice, documents=DOCUMENTS, only=name) == {
            name: files[name]
        }
    done = subprocess.run(
        ["sha256sum", "--strict", "-c", "MANIFEST.sha256"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    listed = {line.partition(": ")[0] for line in done.stdout.splitlines()}
    assert listed == names - {"MANIFEST.sha256"}
    words = catalogue("ja", "report")
    readme = files["README.txt"].decode().splitlines()
    told = ["html", "names", "measures", "json", *(["documents", "key"] * (form == "full")),
            "manifest"]  # fmt: skip
    assert readme == [
        words["readme_title"], report.digest, "", words[f"names_{form}"], "",
        *(words[f"readme_{what}"] for what in told), "", words["readme_care"],
    ]  # fmt: skip
    again = AuditReport.from_json(json.loads(files["report.json"]))
    assert again.to_json() == report.with_names_as(form).to_json()
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
    parts = [part.encode() for name in MEMBERS for part in name]
    for form in ("masked", "pseudonyms"):
        files = bundle_files(report, choice=ReportChoice(names=form), documents=DOCUMENTS)
        for name, content in files.items():
            assert not any(part in content or part.lower() in content for part in parts), name
    full = bundle_files(report, choice=ReportChoice(names="full"), documents=DOCUMENTS)
    assert rows(full["names.csv"])[0]["first_name"] == "Sophia0"
    key = rows(full["names_key.csv"])
    assert key[1] == {"pseudonym": "P-0003", "first_name": "Sophia1", "last_name": "Wright1"}
    assert rows(full["documents.csv"])[2]["text"] == "'=1+1"
    shown = rows(bundle_files(report, choice=ReportChoice(names="pseudonyms"))["names.csv"])
    assert [row["first_name"] for row in shown] == [row["pseudonym"] for row in key]
    assert {row["popularity"] for row in shown} == {""}


# --- the long table ---


def cells(value: Any) -> list[str]:
    """Return an interval of the report's JSON as the table writes it, counts behind it."""
    keys = ("value", "low", "high", "n_hits", "n_total")
    return ["" if value.get(key) is None else str(value[key]) for key in keys]


def judged(stratum: Any) -> list[list[str]]:
    rules = [
        *(("rule", *item) for item in stratum["rules"].items()),
        *(("baseline_rule", *item) for item in stratum["baseline_rules"].items()),
        *(("held_out", *item) for item in stratum["held_out"].items()),
        ("guess", "always_member", stratum["always_member"]),
    ]
    lines = []
    for kind, name, rule in rules:
        lines.append([kind, name, "f1", *cells(rule["f1"])])
        for rate in ("recall", "false_positive_rate", "precision", "accuracy"):
            lines.append([kind, name, rate, *cells(rule["confusion"][rate])])
        for count in ("tp", "fn", "fp", "tn"):
            lines.append([kind, name, count, str(rule["confusion"][count]), *[""] * 4])
    return lines


def ranked(stratum: Any) -> list[list[str]]:
    lines = []
    for kind in ("score", "baseline"):
        for name, ranking in stratum[f"{kind}s"].items():
            lines.append([kind, name, "auc", *cells(ranking["auc"])])
            for fpr, tpr in ranking["tpr_at_fpr"].items():
                lines.append([kind, name, f"tpr_at_fpr_{fpr}", *cells(tpr)])
    return lines


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_long_table_has_a_line_for_every_measure(scenario: int) -> None:
    report = make_report(scenario, names=make_special_names())
    kept, wanted = report.to_json(), []
    for controls, one in kept["measures"]["strata"].items():
        sizes = [str(one["n_members"]), str(one["n_controls"])]
        wanted += [[controls, *line, *sizes] for line in (*judged(one), *ranked(one))]
    for role in kept["details"]["roles"]:
        sizes = [str(role["n_members"]), str(role["n_controls"])]
        for name in ("auc", "general_auc", "flagged", "general_flagged"):
            wanted.append(["all", "role", role["role"], name, *cells(role[name]), *sizes])
    for score, measured in kept["details"]["canaries"]["scores"].items():
        kind = "baseline" if score == "general_alone" else "score"
        for group in (*measured["groups"], measured["all"]):
            times, sizes = group["n_mentions"] or "all", [str(group["n_names"]), "24"]
            for name, told in (("bits", "exposure_bits"), ("found",) * 2, ("above_twin",) * 2):
                line = [kind, score, f"{told}_{times}", *cells(group[name]), *sizes]
                wanted.append(["canary", *line])
    found = list(csv.reader(io.StringIO(measures_csv(report))))
    assert found[0] == list(MEASURE_COLUMNS)
    assert sorted(found[1:]) == sorted(wanted)
    assert rows(measures_csv(make_report(2, has_truth=False))) == []


def test_measures_hold_canaries_and_roles_without_a_name_and_no_other_audit() -> None:
    report = make_report(2, names=make_special_names())
    details = json.loads(bundle_files(report, choice=ReportChoice())["measures.json"])["details"]
    assert [role["role"] for role in details["roles"]] == ["staff", "patient"]
    assert not any(first in json.dumps(details) for first in report.names["first_name"])
    own, other = make_reference_reports("general", "on-other-names")
    files = bundle_files(
        own, choice=ReportChoice(), references=compare_references(own, others=[other])
    )
    assert "on-other-names" in files["report.html"].decode()
    assert "on-other-names" not in files["measures.json"].decode()
