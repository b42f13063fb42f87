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
from audit.report.report import AuditReport
from cache.store import Store
from tests.pages.make_reports import MEMBERS, make_report

DOCUMENTS = {"hospital": ["sophia0 wright0"], "general": ["nobody"]}


@pytest.fixture(scope="module")
def made() -> AuditReport:
    made = make_report(1)
    made = made.changed(digest=question_digest(made.question))
    return AuditReport.from_json(json.loads(json.dumps(made.to_json())))


@pytest.fixture
def report(made: AuditReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AuditReport:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    store = Store(results_dir())
    store.put_record(f"audit/{made.digest}", made.to_json())
    store.put_record(f"documents/{made.digest}", DOCUMENTS)
    access_log.record("opened", page="verdict")
    return made


def bundled(report: AuditReport, **choice: Any) -> dict[str, bytes]:
    choice = ReportChoice(
        decision=read_decision(report.digest, store=Store(results_dir())), **choice
    )
    seal = access_log.log_seal()
    return bundle_files(report, choice=choice, documents=DOCUMENTS, seal=seal)


def verified(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    code = cli.main(["verify", str(path), "--json"])
    found = capsys.readouterr()
    assert not any(part in found.out + found.err for member in MEMBERS for part in member)
    rows = json.loads(found.out or "{}").get("findings", ())
    by_kind = {
        kind: [row["what"] for row in rows if row["found"] == kind]
        for kind in ("holds", "unchecked", "fault")
    }
    answer = json.loads(found.out or "{}")
    keys = ("state", "altered", "n_files", "n_belonging")
    return {"code": code, **by_kind, "told": found.err, **{key: answer.get(key) for key in keys}}


def zipped(files: dict[str, bytes], at: Path, *, folder: str = "report") -> Path:
    at.write_bytes(bundle(files, folder=folder))
    return at


@pytest.mark.parametrize("names", NAME_FORMS)
def test_a_report_as_it_was_handed_over_holds_as_zip_folder_and_file(
    report: AuditReport, tmp_path: Path, names: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    files = bundled(report, names=names)
    path = zipped(files, tmp_path / "report.zip")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    for one in (
        path,
        tmp_path / "report",
        *(tmp_path / "report" / f"report.{e}" for e in ("json", "html")),
    ):
        found = verified(one, capsys)
        assert (found["code"], found["fault"], found["unchecked"]) == (0, [], [])
        assert f"All {len(files) - 1} files fit the manifest." in found["holds"]
        assert "The audit that is kept here says the same." in found["holds"]
        assert "The access log still holds what its seal says." in found["holds"]


def test_files_of_a_run_have_no_manifest_which_is_said(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_report(report, tmp_path / "out", documents=DOCUMENTS, seal=access_log.log_seal())
    found = verified(tmp_path / "out", capsys)
    assert (found["code"], found["fault"]) == (0, [])
    assert [one[:20] for one in found["unchecked"]] == ["There is no manifest"]


def test_a_file_that_was_handed_over_alone_is_checked_alone(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / "audit-0123-masked-en-report.json"
    alone.write_bytes(bundled(report)["report.json"])
    (tmp_path / "names.csv").write_text("of something else")
    found = verified(alone, capsys)
    assert (found["code"], len(found["holds"])) == (0, 3)
    page = tmp_path / "audit-0123-masked-en-report.html"  # of one download each
    page.write_bytes(bundled(report)["report.html"])
    found = verified(page, capsys)  # nothing tells of the page, report.json is as it was
    assert (found["code"], found["state"], found["altered"]) == (3, "unchecked", [])
    assert "nothing here tells of report.html" in found["told"]
    alone.write_bytes(alone.read_bytes().replace(b"leak_found", b"none_found"))
    assert verified(alone, capsys)["code"] == 1


def changed_number(files: dict[str, bytes]) -> None:
    files["names.csv"] = files["names.csv"].replace(b"0.", b"1.", 1)


def changed_report(files: dict[str, bytes]) -> None:
    report = json.loads(files["report.json"])
    report["verdict"]["n_flagged"] = 0
    files["report.json"] = json.dumps(report).encode()


def other_question(files: dict[str, bytes]) -> None:
    report = json.loads(files["report.json"])
    report["question"]["seed"] = 7
    files["report.json"] = json.dumps(report).encode()


@pytest.mark.parametrize("has_new_manifest", [False, True])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed_number, "names.csv: it does not say what report.json says."),
        (changed_report, "The audit that is kept here says something else."),
        (other_question, "report.json: its digest is not that of its question."),
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
    said: str,
    has_new_manifest: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = bundled(report, names="full")
    change(files)
    if has_new_manifest:
        import hashlib

        lines = (
            f"{hashlib.sha256(d).hexdigest()}  {n}\n" for n, d in files.items() if n != MANIFEST
        )
        files[MANIFEST] = "".join(lines).encode()
    found = verified(zipped(files, tmp_path / "report.zip"), capsys)
    if "report.json" not in files and not has_new_manifest:  # missing is not altered
        assert (found["code"], found["state"]) == (3, "unchecked")
        assert (found["n_files"], found["n_belonging"]) == (len(files), len(files) + 1)
        return
    assert (found["code"], found["state"]) == (1, "altered") and found["altered"]
    assert any(said in one for one in found["fault"]), found["fault"]
    if "report.json" in files:
        assert any("manifest" in one for one in found["fault"]) is not has_new_manifest


def test_a_manifest_that_is_damaged_or_short_is_a_fault_and_without_one_pages_are_not_checked(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = bundled(report)
    lines = whole[MANIFEST].splitlines(keepends=True)
    for manifest in (b"x\n", b"", b"".join(lines[:2]), whole[MANIFEST] + b"x\n"):
        found = verified(zipped(whole | {MANIFEST: manifest}, tmp_path / "report.zip"), capsys)
        assert (found["code"], found["altered"]) == (1, [MANIFEST])
    files = {name: data for name, data in whole.items() if name != MANIFEST}
    found = verified(zipped(files, tmp_path / "report.zip"), capsys)
    assert (found["code"], found["fault"]) == (3, [])
    assert "nothing here tells of README.txt, report.html" in found["told"]


ONE_BY_ONE = ("report.html", "names.csv", "measures.csv", "report.json")
"""What the page hands out alone."""


def one_by_one(report: AuditReport, folder: Path) -> dict[str, Path]:
    """Download files one after the other, each with the access log's seal of its moment."""
    folder.mkdir()
    paths = {name: folder / f"audit-{report.digest[:12]}-masked-en-{name}" for name in ONE_BY_ONE}
    for name, path in paths.items():
        access_log.record("exported", audit=report.digest, what="html", names="masked")
        path.write_bytes(bundled(report)[name])
    return paths


def test_genuine_files_that_were_downloaded_one_by_one_are_never_called_altered(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = one_by_one(report, tmp_path / "one")
    (tmp_path / "one" / ".DS_Store").write_bytes(b"x")
    (tmp_path / "one" / "letter.pdf").write_bytes(b"x")
    for path in (tmp_path / "one", *paths.values()):
        found = verified(path, capsys)
        assert (found["state"], found["fault"], found["altered"]) == ("unchecked", [], [])
        assert (found["code"], found["n_files"]) == (3, 4)
        assert "nothing here tells of report.html" in found["told"]
    paths["report.html"].unlink()
    found = verified(tmp_path / "one", capsys)  # the others follow from the audit that is kept
    assert (found["code"], found["state"]) == (0, "unchanged")
    for name in ("names.csv", "measures.csv", "report.json"):
        others = {one: path.read_bytes() for one, path in paths.items() if path.exists()}
        for one, path in paths.items():
            if one != name:
                path.unlink(missing_ok=True)
        found = verified(paths[name], capsys)
        assert found["fault"] == [] and found["code"] == (0 if name == "report.json" else 3), name
        for one, data in others.items():
            paths[one].write_bytes(data)


@pytest.mark.parametrize("name", ONE_BY_ONE[1:])
def test_a_downloaded_file_that_was_altered_is_named(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = one_by_one(report, tmp_path / "one")[name]
    changed = path.read_bytes().replace(b"0.", b"1.", 1)
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    found = verified(tmp_path / "one", capsys)
    assert (found["code"], found["state"]) == (1, "altered") and name in found["altered"]


def test_the_page_alone_is_checked_by_a_manifest_beside_it_and_by_its_seal(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = bundled(report)
    alone = tmp_path / "alone" / "report.html"
    alone.parent.mkdir()
    alone.write_bytes(files["report.html"])
    found = verified(alone, capsys)
    assert (found["code"], found["fault"]) == (3, [])
    seal = access_log.log_seal()
    assert seal.encode() in files["report.html"]
    other = f"{seal.split('-')[0]}-{'0' * 64}-{seal.split('-')[2]}"
    alone.write_bytes(files["report.html"].replace(seal.encode(), other.encode()))
    found = verified(alone, capsys)
    assert (found["code"], found["altered"]) == (1, ["report.html"])
    (alone.parent / MANIFEST).write_bytes(files[MANIFEST])
    alone.write_bytes(files["report.html"])
    found = verified(alone, capsys)
    assert (found["code"], found["fault"], found["n_files"]) == (3, [], 2)
    assert found["n_belonging"] == len(files)
    assert f"2 of {len(files)} files are here" in found["told"]
    alone.write_bytes(files["report.html"].replace(b"<p", b"<b", 1))
    found = verified(alone, capsys)
    assert (found["code"], found["altered"]) == (1, ["report.html"])


def test_files_of_two_reports_in_one_folder_are_told_apart_by_name(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = one_by_one(report, tmp_path / "one")
    (tmp_path / "one" / "audit-0123-masked-ja-names.csv").write_bytes(b"x")
    assert verified(tmp_path / "one", capsys)["code"] == 2
    paths["report.html"].unlink()
    assert verified(paths["report.json"], capsys)["code"] == 0


def test_a_report_of_another_version_is_not_called_altered(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = tmp_path / "report.json"
    older.write_text('{"schema": 0}')
    found = verified(older, capsys)
    assert (found["code"], found["state"], found["fault"]) == (3, "unchecked", [])


def test_a_log_that_was_put_back_is_a_fault_and_another_machines_cannot_be_checked(
    report: AuditReport,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, seal = zipped(bundled(report), tmp_path / "report.zip"), access_log.log_seal()
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "elsewhere"))
    found = verified(path, capsys)
    assert (found["code"], found["fault"]) == (0, [])
    assert cli.main(["log", "verify", "--seal", seal]) == 1
    assert "another machine" in capsys.readouterr().err
    assert [one[:30] for one in found["unchecked"]] == [
        "Its audit is not kept on this ",
        "It is of another machine: its ",
    ]
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    folder = tmp_path / "home" / "access"
    for file in folder.iterdir():
        file.unlink()
    access_log.record("opened", page="names")
    found = verified(path, capsys)
    assert found["code"] == 1 and "does not fit its seal" in found["fault"][0]


def test_the_decision_of_a_report_must_be_one_that_was_kept(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(results_dir())
    seen = read_decision(report.digest, store=store)
    seen = decide(seen, recommendation="retrain", reasons="x", language="en", by="a", store=store)
    path = zipped(bundled(report), tmp_path / "report.zip")
    assert verified(path, capsys)["unchecked"] == []
    sign(seen, name="A. Auditor", role="auditor", by="a", store=store)
    assert verified(path, capsys)["unchecked"] == ["The decision was changed after it was written."]
    files = bundled(report)
    files["report.json"] = files["report.json"].replace(b'"retrain"', b'"release"')
    found = verified(zipped(files, path), capsys)
    assert "Its decision is none that was kept here." in found["fault"]


def link(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


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
    found = verified(tmp_path / "report.zip", capsys)
    assert found["code"] == 2 and "Traceback" not in found["told"]
    assert {one.name for one in tmp_path.iterdir()} == {"home", "report.zip"}


def test_links_in_a_folder_and_what_is_no_report_are_refused(
    report: AuditReport, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").write_text("{}")
    assert verified(folder, capsys)["code"] == 2
    (folder / "report.json").symlink_to(tmp_path / "secret")
    assert verified(folder, capsys)["code"] == 2
    assert verified(tmp_path / "secret", capsys)["code"] == 2
    assert verified(tmp_path / "nothing.zip", capsys)["code"] == 2
