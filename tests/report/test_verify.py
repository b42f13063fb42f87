"""A report that comes back: what was changed is said, and what cannot be known is said too."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit import access_log, cli
from audit.attack.question import question_digest
from audit.home import HOME_VARIABLE, results_dir
from audit.report.decision import decide, read_decision, sign
from audit.report.export import MANIFEST, bundle, bundle_files, write_report
from audit.report.html import ReportChoice
from audit.report.name_table import NAME_FORMS
from audit.report.report import AuditReport, kept_audit
from cache.store import Store
from tests.pages.make_reports import MEMBERS, make_report

DOCUMENTS = {"hospital": ["sophia0 wright0"], "general": ["nobody"]}


@pytest.fixture(scope="module")
def kept_report() -> AuditReport:
    audit_report = make_report(1)
    audit_report = audit_report.changed(digest=question_digest(audit_report.question))
    return AuditReport.from_json(json.loads(json.dumps(audit_report.to_json())))


@pytest.fixture
def report(
    kept_report: AuditReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AuditReport:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    store = Store(results_dir())
    store.put_record(f"audit/{kept_report.digest}", kept_report.to_json())
    store.put_record(f"documents/{kept_report.digest}", DOCUMENTS)
    access_log.record("opened", page="verdict")
    return kept_report


def bundle_report(report: AuditReport, **choice: Any) -> dict[str, bytes]:
    choice = ReportChoice(
        decision=read_decision([report.digest], store=Store(results_dir())), **choice
    )
    seal = access_log.log_seal()
    return bundle_files(report, choice=choice, documents=DOCUMENTS, seal=seal)


def verify_path(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    code = cli.main(["verify", str(path), "--json"])
    streams = capsys.readouterr()
    assert not any(part in streams.out + streams.err for member in MEMBERS for part in member)
    rows = json.loads(streams.out or "{}").get("findings", ())
    by_kind = {
        kind: [row["what"] for row in rows if row["found"] == kind]
        for kind in ("holds", "unchecked", "fault")
    }
    verification = json.loads(streams.out or "{}")
    keys = ("state", "altered", "n_files", "n_belonging")
    return {
        "code": code,
        **by_kind,
        "told": streams.err,
        **{key: verification.get(key) for key in keys},
    }


def write_zip(files: dict[str, bytes], path: Path, *, folder: str = "report") -> Path:
    path.write_bytes(bundle(files, folder=folder))
    return path


@pytest.mark.parametrize("names", NAME_FORMS)
def test_a_report_as_it_was_handed_over_holds_as_zip_folder_and_file(
    report: AuditReport, tmp_path: Path, names: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    files = bundle_report(report, names=names)
    path = write_zip(files, tmp_path / "report.zip")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    for report_path in (
        path,
        tmp_path / "report",
        *(tmp_path / "report" / f"report.{e}" for e in ("json", "html")),
    ):
        outcome = verify_path(report_path, capsys)
        assert (outcome["code"], outcome["fault"], outcome["unchecked"]) == (0, [], [])
        assert f"All {len(files) - 1} files fit the manifest." in outcome["holds"]
        assert "The audit that is kept here says the same." in outcome["holds"]
        assert "The access log still holds what its seal says." in outcome["holds"]


def test_files_of_a_run_have_no_manifest_which_is_said(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_report(report, tmp_path / "out", documents=DOCUMENTS, seal=access_log.log_seal())
    outcome = verify_path(tmp_path / "out", capsys)
    assert (outcome["code"], outcome["fault"]) == (0, [])
    assert [finding[:20] for finding in outcome["unchecked"]] == ["There is no manifest"]


def test_a_file_that_was_handed_over_alone_is_checked_alone(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / "audit-0123-masked-en-report.json"
    alone.write_bytes(bundle_report(report)["report.json"])
    (tmp_path / "names.csv").write_text("of something else")
    outcome = verify_path(alone, capsys)
    assert (outcome["code"], len(outcome["holds"])) == (0, 3)
    page = tmp_path / "audit-0123-masked-en-report.html"  # of one download each
    page.write_bytes(bundle_report(report)["report.html"])
    outcome = verify_path(page, capsys)  # nothing tells of the page, report.json is as it was
    assert (outcome["code"], outcome["state"], outcome["altered"]) == (3, "unchecked", [])
    assert "nothing here confirms report.html" in outcome["told"]
    alone.write_bytes(alone.read_bytes().replace(b"leak_found", b"none_found"))
    assert verify_path(alone, capsys)["code"] == 1


def change_number(files: dict[str, bytes]) -> None:
    files["names.csv"] = files["names.csv"].replace(b"0.", b"1.", 1)


def change_report(files: dict[str, bytes]) -> None:
    report = json.loads(files["report.json"])
    report["verdict"]["n_flagged"] = 0
    files["report.json"] = json.dumps(report).encode()


def change_question(files: dict[str, bytes]) -> None:
    report = json.loads(files["report.json"])
    report["question"]["seed"] = 7
    files["report.json"] = json.dumps(report).encode()


@pytest.mark.parametrize("has_new_manifest", [False, True])
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (change_number, "names.csv: it does not say what report.json says."),
        (change_report, "The audit that is kept here says something else."),
        (change_question, "report.json: its digest is not that of its question."),
        (lambda f: f.update({"measures.csv": b"measure\n"}), "measures.csv: it does not say"),
        (lambda f: f.update({"measures.json": b"[" * 9999}), "measures.json: it does not say"),
        (lambda f: f.update({"documents.csv": b"x"}), "documents.csv: it does not say"),
        (lambda f: f.update({"report.html": b"<p>"}), "report.html: it does not say"),
        (lambda f: f.update({"log_seal.txt": b"1-" + b"0" * 64}), "different seals"),
        (lambda f: f.update({"report.json": b"{}"}), "written by another version"),
        (lambda f: f.update({"report.json": b"["}), "report.json cannot be read"),
        (lambda f: f.update({"report.json": b"7"}), "report.json cannot be read"),
        (lambda f: f.pop("report.json"), "The manifest is damaged"),
    ],
)
def test_what_was_changed_is_said_in_a_line(
    report: AuditReport,
    tmp_path: Path,
    change: Callable[[dict[str, bytes]], Any],
    fault: str,
    has_new_manifest: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = bundle_report(report, names="full")
    change(files)
    if has_new_manifest:
        import hashlib

        lines = (
            f"{hashlib.sha256(d).hexdigest()}  {n}\n" for n, d in files.items() if n != MANIFEST
        )
        files[MANIFEST] = "".join(lines).encode()
    outcome = verify_path(write_zip(files, tmp_path / "report.zip"), capsys)
    if "report.json" not in files and not has_new_manifest:  # missing is not altered
        assert (outcome["code"], outcome["state"]) == (3, "unchecked")
        assert (outcome["n_files"], outcome["n_belonging"]) == (len(files), len(files) + 1)
        return
    assert (outcome["code"], outcome["state"]) == (1, "altered") and outcome["altered"]
    assert any(fault in finding for finding in outcome["fault"]), outcome["fault"]
    if "report.json" in files:
        assert any("manifest" in finding for finding in outcome["fault"]) is not has_new_manifest


def test_a_manifest_that_is_damaged_or_short_is_a_fault_and_without_one_pages_are_not_checked(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    all_files = bundle_report(report)
    lines = all_files[MANIFEST].splitlines(keepends=True)
    for manifest in (b"x\n", b"", b"".join(lines[:2]), all_files[MANIFEST] + b"x\n"):
        outcome = verify_path(
            write_zip(all_files | {MANIFEST: manifest}, tmp_path / "report.zip"), capsys
        )
        assert (outcome["code"], outcome["altered"]) == (1, [MANIFEST])
    files = {name: data for name, data in all_files.items() if name != MANIFEST}
    outcome = verify_path(write_zip(files, tmp_path / "report.zip"), capsys)
    assert (outcome["code"], outcome["fault"]) == (3, [])
    assert "nothing here confirms README.txt, report.html" in outcome["told"]


DOWNLOADS = ("report.html", "names.csv", "measures.csv", "report.json")
"""What the page hands out alone."""


def download_files(report: AuditReport, folder: Path) -> dict[str, Path]:
    """Download files one after the other, each with the access log's seal of its moment."""
    folder.mkdir()
    paths = {name: folder / f"audit-{report.digest[:12]}-masked-en-{name}" for name in DOWNLOADS}
    for name, path in paths.items():
        access_log.record("exported", audit=report.digest, what="html", names="masked")
        path.write_bytes(bundle_report(report)[name])
    return paths


def test_genuine_files_that_were_downloaded_one_by_one_are_never_called_altered(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = download_files(report, tmp_path / "one")
    (tmp_path / "one" / ".DS_Store").write_bytes(b"x")
    (tmp_path / "one" / "letter.pdf").write_bytes(b"x")
    for path in (tmp_path / "one", *paths.values()):
        outcome = verify_path(path, capsys)
        assert (outcome["state"], outcome["fault"], outcome["altered"]) == ("unchecked", [], [])
        assert (outcome["code"], outcome["n_files"]) == (3, 4)
        assert "nothing here confirms report.html" in outcome["told"]
    paths["report.html"].unlink()
    outcome = verify_path(tmp_path / "one", capsys)  # the others follow from the audit that is kept
    assert (outcome["code"], outcome["state"]) == (0, "unchanged")
    for name in ("names.csv", "measures.csv", "report.json"):
        contents = {
            file_name: path.read_bytes() for file_name, path in paths.items() if path.exists()
        }
        for file_name, path in paths.items():
            if file_name != name:
                path.unlink(missing_ok=True)
        outcome = verify_path(paths[name], capsys)
        assert outcome["fault"] == [] and outcome["code"] == (0 if name == "report.json" else 3), (
            name
        )
        for file_name, data in contents.items():
            paths[file_name].write_bytes(data)


@pytest.mark.parametrize("name", DOWNLOADS[1:])
def test_a_downloaded_file_that_was_altered_is_named(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = download_files(report, tmp_path / "one")[name]
    changed = path.read_bytes().replace(b"0.", b"1.", 1)
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    outcome = verify_path(tmp_path / "one", capsys)
    assert (outcome["code"], outcome["state"]) == (1, "altered") and name in outcome["altered"]


def test_the_page_alone_is_checked_by_a_manifest_beside_it_and_by_its_seal(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = bundle_report(report)
    alone = tmp_path / "alone" / "report.html"
    alone.parent.mkdir()
    alone.write_bytes(files["report.html"])
    outcome = verify_path(alone, capsys)
    assert (outcome["code"], outcome["fault"]) == (3, [])
    seal = access_log.log_seal()
    assert seal.encode() in files["report.html"]
    foreign_seal = f"{seal.split('-')[0]}-{'0' * 64}-{seal.split('-')[2]}"
    alone.write_bytes(files["report.html"].replace(seal.encode(), foreign_seal.encode()))
    outcome = verify_path(alone, capsys)
    assert (outcome["code"], outcome["altered"]) == (1, ["report.html"])
    (alone.parent / MANIFEST).write_bytes(files[MANIFEST])
    alone.write_bytes(files["report.html"])
    outcome = verify_path(alone, capsys)
    assert (outcome["code"], outcome["fault"], outcome["n_files"]) == (3, [], 2)
    assert outcome["n_belonging"] == len(files)
    assert f"2 of {len(files)} files are here" in outcome["told"]
    alone.write_bytes(files["report.html"].replace(b"<p", b"<b", 1))
    outcome = verify_path(alone, capsys)
    assert (outcome["code"], outcome["altered"]) == (1, ["report.html"])


def test_files_of_two_reports_in_one_folder_are_told_apart_by_name(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = download_files(report, tmp_path / "one")
    (tmp_path / "one" / "audit-0123-masked-ja-names.csv").write_bytes(b"x")
    assert verify_path(tmp_path / "one", capsys)["code"] == 2
    paths["report.html"].unlink()
    assert verify_path(paths["report.json"], capsys)["code"] == 0


def test_a_report_of_another_version_is_not_called_altered(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = tmp_path / "report.json"
    older.write_text('{"schema": 0}')
    outcome = verify_path(older, capsys)
    assert (outcome["code"], outcome["state"], outcome["fault"]) == (3, "unchecked", [])


def test_a_log_that_was_put_back_is_a_fault_and_another_machines_cannot_be_checked(
    report: AuditReport,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, seal = write_zip(bundle_report(report), tmp_path / "report.zip"), access_log.log_seal()
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "elsewhere"))
    outcome = verify_path(path, capsys)
    assert (outcome["code"], outcome["fault"]) == (0, [])
    assert cli.main(["log", "verify", "--seal", seal]) == 1
    assert "another machine" in capsys.readouterr().err
    assert [finding[:30] for finding in outcome["unchecked"]] == [
        "Its audit is not kept on this ",
        "It is of another machine: its ",
    ]
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    folder = tmp_path / "home" / "access"
    for file in folder.iterdir():
        file.unlink()
    access_log.record("opened", page="names")
    outcome = verify_path(path, capsys)
    assert outcome["code"] == 1 and "does not fit its seal" in outcome["fault"][0]


def test_the_decision_of_a_report_must_be_one_that_was_kept(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(results_dir())
    decision = read_decision([report.digest], store=store)
    pair = [kept_audit(report)]
    decision = decide(
        decision,
        pair=pair,
        recommendation="retrain",
        reasons="x",
        language="en",
        by="a",
        store=store,
    )
    path = write_zip(bundle_report(report), tmp_path / "report.zip")
    assert verify_path(path, capsys)["unchecked"] == []
    sign(decision, pair=pair, name="A. Auditor", role="auditor", by="a", store=store)
    assert verify_path(path, capsys)["unchecked"] == [
        "The decision was changed after it was written."
    ]
    files = bundle_report(report)
    files["report.json"] = files["report.json"].replace(b'"retrain"', b'"release"')
    outcome = verify_path(write_zip(files, path), capsys)
    assert "Its decision is none that was kept here." in outcome["fault"]


def link(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


@pytest.mark.long
@pytest.mark.parametrize(
    "entries",
    [
        [("../report.json", b"{}")],
        [("a/report.json", b"{}"), ("b/names.csv", b"")],
        [("/report.json", b"{}"), ("../../x/names.csv", b"")],
        [("a/report.json", b"{}"), ("a/patients.csv", b"")],
        [(link("a/report.json"), b"/etc/passwd")],
        [("a/report.json", b"0" * 700_000_000)],
        [("a/report.json", b"0" * 60_000_000)],
        [(f"a/{i}", b"") for i in range(200)],
        [],
    ],
    ids=["up", "two folders", "root", "other file", "link", "bomb", "small bomb", "many", "empty"],
)
def test_hostile_archives_are_refused(
    report: AuditReport, tmp_path: Path, entries: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    (tmp_path / "report.zip").write_bytes(buffer.getvalue())
    outcome = verify_path(tmp_path / "report.zip", capsys)
    assert outcome["code"] == 2 and "Traceback" not in outcome["told"]
    assert {path.name for path in tmp_path.iterdir()} == {"home", "report.zip"}


def test_links_in_a_folder_and_what_is_no_report_are_refused(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").write_text("{}")
    assert verify_path(folder, capsys)["code"] == 2
    (folder / "report.json").symlink_to(tmp_path / "secret")
    assert verify_path(folder, capsys)["code"] == 2
    assert verify_path(tmp_path / "secret", capsys)["code"] == 2
    assert verify_path(tmp_path / "nothing.zip", capsys)["code"] == 2
