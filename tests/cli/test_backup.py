"""Backup and restore: all that is kept comes back, or nothing is changed, whatever happens."""

from __future__ import annotations

import io
import json
import random
import signal
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from audit import access_log, backup, cli
from audit.corpus.corpora import CORPORA
from audit.home import HOME_VARIABLE, results_dir, salted_digest
from audit.jobs import service, table
from audit.jobs.locks import QUEUES, device_lock, worker_lock
from audit.names.candidates import make_candidates
from audit.names.lists import keep_names, load_names
from audit.report.report import AuditReport
from audit.task import Question
from cache.store import Store
from tests.corpus.make_notes import dummy_notes
from tests.pages.make_reports import make_report
from tests.repository import REPOSITORY

NAMES = make_candidates([("Thomas", "Young"), ("太郎", "山田")], is_member=True)
JOB = Question("audit", "general → hospital", 2, "cpu", "q" * 64, (), {"names": ["Thomas Young"]})


@pytest.fixture(scope="module")
def report() -> AuditReport:
    return make_report(2)


@pytest.fixture
def home(home, report, tmp_path):
    """A data directory with an audit, a list, a corpus, a waiting job and a log."""
    notes = dummy_notes(tmp_path)
    assert cli.main(["corpus", "build", "--notes", str(notes), "--column", "text=TEXT"]) == 0
    store = Store(results_dir())
    keep_report(report, store=store)
    keep_names(NAMES, label="Ward", store=store)
    table.insert(JOB)
    access_log.record("ran", job="0123456789ab")
    return home


def keep_report(report: AuditReport, *, store: Store) -> None:
    store.put_record(f"documents/{report.digest}", {"hospital": ["x"]})
    store.put_record(f"audit/{report.digest}", report.to_json())


def state(home: Path) -> dict[str, bytes]:
    """Return what is kept, but for the log and what is made anew."""
    return {
        path.relative_to(home).as_posix(): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file()
        and not path.name.endswith("lock")
        and path.name != "paces.json"  # of this machine
        and not {"index", "access", "logs"} & set(path.parts)
        and "jobs.sqlite3" not in path.name
    }


def test_everything_comes_back_and_goes_on(home, report, tmp_path, monkeypatch, run):
    seal, digest, file = access_log.log_seal(), salted_digest("x"), tmp_path / "all.tar"
    corpus, old_state = CORPORA.all(), state(home)
    (home / "results" / "values" / ".x.part").write_bytes(b"half")
    (home / "models" / ".0123456789ab.making").mkdir(parents=True)
    backup_reply = run("backup", file)
    assert backup_reply["code"] == 0 and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("backup", file)["code"] == 2  # nothing is written over
    assert run("backup", home / "x.tar")["code"] == 2

    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "new"))
    restore_reply = run("restore", file)
    assert (restore_reply["code"], restore_reply["before"]) == (0, "")
    assert restore_reply["n_files"] == backup_reply["n_files"]
    assert state(tmp_path / "new") == old_state
    store = Store(results_dir())
    restored_report = AuditReport.from_json(store.get_record(f"audit/{report.digest}"))
    assert restored_report.digest == report.digest
    (code,) = (key.partition("/")[2] for key in store.keys("list/"))
    assert load_names(code, store=store).candidates == NAMES
    assert [entry.corpus_id for entry in CORPORA.all()] == [entry.corpus_id for entry in corpus]
    assert salted_digest("x") == digest
    waiting = table.find_active(JOB.digest)
    assert waiting is not None and table.read_order(waiting.job_id) == JOB.order
    assert access_log.verify(seal).is_intact
    actions = [entry.action for entry in access_log.entries()]
    assert actions[:2] == ["restored", "backed_up"]
    for path in (tmp_path / "new").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert not list(tmp_path.glob(".new*"))


def test_a_directory_with_something_in_it_is_moved_aside_only_by_force(home, tmp_path, run):
    file = tmp_path / "all.tar"
    assert run("backup", file)["code"] == 0
    old_state = state(home)
    Store(results_dir()).put_record("list/later", 1)
    later = state(home)
    refused = run("restore", file)
    assert refused["code"] == 2 and "--force" in refused["said"] and state(home) == later
    locks = [lock(queue) for queue in QUEUES for lock in (device_lock, worker_lock)]
    assert "A job computes" in run("restore", file, "--force")["said"]
    for lock in locks:
        assert lock is not None
        lock.release()
    reply = run("restore", file, "--force")
    assert reply["code"] == 0 and state(home) == old_state
    assert state(Path(reply["before"])) == later
    assert access_log.verify().is_intact


def test_a_copy_made_while_others_write_has_no_report_without_its_parts_and_no_half_thing(
    home, report, tmp_path, monkeypatch, run
):
    (corpus,) = CORPORA.all()
    store, file = Store(results_dir()), tmp_path / "all.tar"
    add_file, names = backup._Archive.add, list[str]()

    def adding(self: Any, path: Path) -> None:
        name = path.relative_to(home).as_posix()
        names.append(name)
        if name.startswith("results/values/documents/"):  # reports are copied by now
            new_report = report.changed(digest=f"{len(names):064x}")
            keep_report(new_report, store=store)
        add_file(self, path)
        if name.endswith(".jsonl") and corpus.path.is_dir():
            CORPORA.forget(corpus.corpus_id)

    monkeypatch.setattr(backup._Archive, "add", adding)
    assert run("backup", file)["code"] == 0
    assert any(name.startswith("corpora/") for name in names)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "new"))
    assert run("restore", file)["code"] == 0
    store = Store(results_dir())
    for key in store.keys("audit/"):
        assert store.get_record(key.replace("audit/", "documents/")) is not None
    assert len(store.keys("audit/")) == 1
    assert not any((tmp_path / "new" / "corpora").rglob("*.json"))


def make_archive(*entries: tuple[str, bytes, bytes], manifest: Any = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, data in entries:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, len(data), "/etc/passwd"
            archive.addfile(member, io.BytesIO(data))
        if manifest is not None:
            data = json.dumps(manifest).encode()
            member = tarfile.TarInfo(backup.MANIFEST)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


X = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
GOOD = {"format": 1, "files": {"x": [X, 1]}}
PLAIN = ("x", tarfile.REGTYPE, b"x")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04",
        make_archive(),
        make_archive(PLAIN),
        make_archive(PLAIN, manifest=[]),
        make_archive(PLAIN, manifest={"format": 2, "files": GOOD["files"]}),
        make_archive(PLAIN, PLAIN, manifest=GOOD),
        make_archive(manifest=GOOD),
        make_archive(PLAIN, ("../y", tarfile.REGTYPE, b"y"), manifest=GOOD),
        make_archive(PLAIN, ("/y", tarfile.REGTYPE, b"y"), manifest=GOOD),
        make_archive(PLAIN, ("a/../../y", tarfile.REGTYPE, b"y"), manifest=GOOD),
        make_archive(PLAIN, ("x/y", tarfile.REGTYPE, b"y"), manifest=GOOD),
        make_archive(PLAIN, ("y", tarfile.SYMTYPE, b""), manifest=GOOD),
        make_archive(PLAIN, ("y", tarfile.LNKTYPE, b""), manifest=GOOD),
        make_archive(PLAIN, ("y", tarfile.CHRTYPE, b""), manifest=GOOD),
        make_archive(PLAIN, ("y", tarfile.DIRTYPE, b""), manifest=GOOD),
        make_archive(("x", tarfile.REGTYPE, b"z"), manifest=GOOD),
        make_archive(PLAIN, manifest={"format": 1, "files": {"x": [X, 1], "../y": [X, 1]}}),
    ],
)
def test_what_is_no_backup_changes_nothing(data, tmp_path, monkeypatch, run):
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    results_dir()
    old_state = state(tmp_path / "home")
    (tmp_path / "all.tar").write_bytes(data)
    reply = run("restore", tmp_path / "all.tar", "--force")
    assert reply["code"] == 2 and state(tmp_path / "home") == old_state
    assert ("written by another version" in reply["said"]) == (b'"format": 2' in data)
    assert {path.name for path in tmp_path.iterdir()} == {"home", "all.tar"}


@pytest.mark.long
def test_a_bit_that_flips_or_an_end_that_is_missing_is_found_before_anything_changes(
    home, tmp_path, monkeypatch, run
):
    file, draws = tmp_path / "all.tar", random.Random(0)
    assert run("backup", file)["code"] == 0
    content, old_state = file.read_bytes(), state(home)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "new"))
    n_refused = 0
    for place in draws.sample(range(len(content)), 40):
        file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        code = run("restore", file, "--force")["code"]
        new_state = state(tmp_path / "new")
        n_refused += code == 2
        assert new_state in ({}, old_state) and (code == 0) is bool(new_state)
        if new_state:  # the flipped bit stood in a header's padding
            monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / f"new{place}"))
            (tmp_path / "new").rename(tmp_path / f"was{place}")
            monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "new"))
    assert n_refused > 20
    for place in draws.sample(range(len(content) - 10_240), 10):
        file.write_bytes(content[:place])
        assert run("restore", file)["code"] == 2
        assert state(tmp_path / "new") == {}


KILLED = """
import os, sys
from audit import backup, cli, shelf
place, n = sys.argv[1], int(sys.argv[2])
owner = backup if hasattr(backup, place) else shelf
real = getattr(owner, place)
def fails(*arguments, **options):
    global n
    n -= 1
    if n == 0:
        os.kill(os.getpid(), 9)
    outcome = real(*arguments, **options)
    if n == -1:
        os.kill(os.getpid(), 9)
    return outcome
setattr(owner, place, fails)
if n < 0:
    n = 0
cli.main(["restore", sys.argv[3], "--force"])
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "n", "is_new"),
    [
        ("_copy_with_digest", 1, False),
        ("_copy_with_digest", 5, False),
        ("seal_folder", 1, False),
        ("_exchange", 1, False),
        ("_exchange", -1, True),
        ("record", 1, True),
    ],
)
def test_a_restore_that_is_killed_leaves_the_old_or_the_new_and_can_be_asked_again(
    home, tmp_path, place, n, is_new, run
):
    file = tmp_path / "all.tar"
    assert run("backup", file)["code"] == 0
    new = state(home)
    Store(results_dir()).put_record("list/later", 1)
    old = state(home)
    words = [sys.executable, "-c", KILLED, place, str(n), str(file)]
    process = subprocess.run(words, cwd=REPOSITORY, check=False, capture_output=True)
    assert process.returncode == -signal.SIGKILL
    assert state(home) == (new if is_new else old)
    assert access_log.verify().is_intact
    moved_states = [state(folder) for folder in tmp_path.glob("home.before-*")]
    assert old in [state(home), *moved_states]
    assert run("restore", file, "--force")["code"] == 0
    assert state(home) == new and not (tmp_path / ".home.making").exists()
    service.recover()
