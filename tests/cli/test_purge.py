"""Retention: what is past its time goes, with a line of the log; what is needed stays."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from audit import access_log, cli
from audit.corpus.corpora import CORPORA
from audit.deid.sets.incoming_notes import keep_upload
from audit.home import results_dir
from audit.jobs import service, table
from audit.names.candidates import Candidates, make_candidates
from audit.names.lists import all_names, keep_names, keep_passages, list_passages
from audit.notes.passages import read_passages
from audit.report.audit_store import keep_demo_digests
from audit.report.report import AuditReport
from audit.shelf import Shelf, take_lock
from audit.task import Question
from cache.store import Store
from tests.pages.make_reports import make_report

OLD = time.time() - 100 * 86_400
NAMES = make_candidates([("Thomas", "Young"), ("太郎", "山田")], is_member=True)
OTHERS = make_candidates([("Mary", "James")], is_member=True)
PASSAGES = b"text\nThe patient [NAME] was seen.\n"


@pytest.fixture(scope="module")
def report() -> AuditReport:
    return make_report(2)


@pytest.fixture
def purge(run):
    """Purge and return, by kind, all counts that are not 0."""

    def purge(*words: str) -> dict[str, dict[str, int]]:
        removals = run("purge", *words)["purged"]
        return {
            removal.pop("kind"): {key: n for key, n in removal.items() if n} for removal in removals
        }

    return purge


def grow_old(home: Path) -> None:
    """Let all that is kept be from a hundred days ago."""
    for path in home.rglob("*"):
        os.utime(path, (OLD, OLD))


def keep(report: AuditReport, names: Candidates | None = None, **parts: Any) -> str:
    store = Store(results_dir())
    question = {**report.question, **({"candidates": names.digest()} if names else {}), **parts}
    variant = report.changed(question=question)
    for kind in ("documents", "finished", "decision"):
        store.put_record(f"{kind}/{variant.digest}", ["Thomas Young"])
    store.put_record(f"audit/{variant.digest}", variant.to_json())
    return variant.digest


def test_nothing_goes_before_a_period_is_set_and_periods_are_shown_set_and_unset(
    home, report, purge, capsys
):
    keep(report)
    grow_old(home)
    assert purge() == {}
    for words, days in (
        (["--audits", "365", "--lists", "30"], (365, 30)),
        ([], (365, 30)),
        (["--lists", "0"], (365, 0)),
    ):
        assert cli.main(["retention", *words, "--json"]) == 0
        periods = json.loads(capsys.readouterr().out)["days"]
        assert (periods["audits"], periods["lists"], periods["corpora"]) == (*days, 0)
    assert purge() == {"audits": {}} and Store(results_dir()).keys("audit/")
    for words in (
        ["retention", "--audits", "-1"],
        ["purge", "--older-than", "-1"],
        ["purge", "--kind", "models; x"],
    ):
        assert cli.main(words) == 2
    capsys.readouterr()
    (home / "retention.json").write_text("{")
    assert cli.main(["purge"]) == 2 and "Traceback" not in capsys.readouterr().err


def test_an_audit_goes_with_its_documents_evidence_and_decision_and_the_log_says_so(
    home, report, purge
):
    store = Store(results_dir())
    digest = keep(report)
    store.put_record(f"shard/{'a' * 64}", [1])
    aside = home / "results" / "quarantine"
    aside.mkdir()
    (aside / "x.val").write_bytes(b"Thomas Young")
    grow_old(home)
    young = "b" * 64
    store.put_record(f"documents/{young}", [])
    store.put_record(f"shard/{young}", [])
    cli.main(["retention", "--audits", "99"])
    assert purge("--dry-run") == {"audits": {"n_removed": 1, "n_files": 2}}
    assert store.get_record(f"audit/{digest}") and not access_log.entries()
    assert purge() == {"audits": {"n_removed": 1, "n_files": 2}}
    assert store.keys() == (f"documents/{young}", f"shard/{young}")
    assert not list(aside.iterdir())
    lines = [(entry.action, entry.audit, dict(entry.counts)) for entry in access_log.entries()]
    assert lines == [
        ("removed", "", {"what": "audits-files", "reason": "retention", "n_files": 2}),
        ("removed", digest[:12], {"what": "audits", "reason": "retention"}),
    ]
    assert purge() == {"audits": {}}
    log = (home / "access" / "log.jsonl").read_text()
    assert "Young" not in log and access_log.verify().is_intact


def test_the_demo_stays_and_so_does_all_evidence_while_an_audit_is_at_work(home, report, purge):
    store = Store(results_dir())
    digest = keep(report)
    keep_demo_digests({"masked_lm": digest}, store=store)
    store.put_record(f"audit/{'c' * 64}", {})
    store.put_record(f"shard/{'a' * 64}", [1])
    grow_old(home)
    job = table.insert(Question("audit", "x", 2, "cpu", "c" * 64, (), {}))
    assert job is not None
    words = ("--kind", "audits", "--older-than", "1")
    assert purge(*words) == {"audits": {"n_in_use": 1, "n_demo": 1}}
    service.cancel(job.job_id)
    counts = {"audits": {"n_removed": 1, "n_files": 1, "n_demo": 1}}
    assert purge(*words) == counts
    assert store.keys("audit/") == (f"audit/{digest}",)


def test_a_list_and_passages_stay_as_long_as_an_audit_that_asked_about_them(home, report, purge):
    store = Store(results_dir())
    for candidates in (NAMES, OTHERS):
        keep_names(candidates, label="", store=store)
    keep_passages(PASSAGES, file_name="p.csv", label="", store=store)
    keep(report, NAMES, passages=read_passages(PASSAGES).digest())
    grow_old(home)
    kinds = {"lists": {"n_removed": 1, "n_rested_on": 1}, "passages": {"n_rested_on": 1}}
    for kind, counts in kinds.items():
        removals = purge("--kind", kind, "--older-than", "9")
        assert removals == {kind: counts}
    assert [line.n for line in all_names(store) if line.at] == [2]
    removals = purge("--older-than", "9", "--dry-run")
    assert (removals["lists"], removals["passages"]) == ({"n_removed": 1}, {"n_removed": 1})
    purge("--older-than", "9")
    assert not [line for line in (*all_names(store), *list_passages(store)) if line.at]


def make_entries(kind: str, record: str, *codes: str, named: str = "") -> None:
    for code in codes:
        shelf = Shelf(kind, label=kind, read=lambda folder: folder)
        with shelf.making(code) as folder:
            (folder / record).write_text(json.dumps({"ref": named}))


SCORED, FREE, BUSY, CORPUS, LOCKED = (digit * 12 for digit in "abcde")


@pytest.fixture
def shelves(home: Path) -> Iterator[None]:
    make_entries("tagged", "tagged.json", SCORED, FREE, BUSY)
    make_entries("scores", "score.json", "1" * 12, named=SCORED)
    make_entries("corpora", "corpus.json", CORPUS)
    make_entries("models", "training.json", LOCKED, named=CORPUS)
    grow_old(home)
    order = {"tagged_id": BUSY}
    assert table.insert(Question("tagging", "x", 0, "cpu", "f" * 64, (), order)) is not None
    lock = take_lock(home / "models" / LOCKED, is_folder=True)
    assert lock is not None
    yield
    lock.release()


def list_codes(home: Path, kind: str) -> set[str]:
    return {path.name for path in (home / kind).iterdir() if not path.name.startswith(".")}


@pytest.mark.usefixtures("shelves")
def test_what_a_job_uses_or_another_thing_rests_on_stays(home, purge):
    removals = purge("--kind", "tagged", "--older-than", "9")
    assert removals == {"tagged": {"n_removed": 1, "n_rested_on": 1, "n_in_use": 1}}
    assert list_codes(home, "tagged") == {SCORED, BUSY}
    removals = purge("--older-than", "9")
    assert removals["scores"] == {"n_removed": 1}
    assert removals["tagged"] == {"n_removed": 1, "n_in_use": 1}  # its score went before it
    assert removals["models"] == {"n_in_use": 1} and removals["corpora"] == {"n_rested_on": 1}
    assert list_codes(home, "tagged") == {BUSY} and list_codes(home, "corpora") == {CORPUS}
    assert access_log.entries()[0].counts["what"] in ("tagged", "scores")


def test_what_was_given_and_jobs_that_ended_go_by_their_age(home, purge):
    keep_upload(b'{"doc_id": "1", "text": "x", "spans": []}\n', name="n.jsonl", subject="gold")
    grow_old(home)
    ended_job = table.insert(Question("audit", "x", 2, "cpu", "g" * 64, (), {}), result=("r",))
    waiting = table.insert(Question("audit", "x", 2, "cpu", "h" * 64, (), {"names": ["x"]}))
    assert ended_job and waiting
    assert purge("--kind", "given", "--older-than", "9") == {"given": {"n_files": 1}}
    assert not list((home / "scores" / ".given").iterdir())
    assert purge("--kind", "jobs", "--older-than", "9") == {"jobs": {}}
    removals = purge("--kind", "jobs", "--older-than", "0")
    assert removals == {"jobs": {"n_removed": 1}}
    assert [job.job_id for job in service.jobs()] == [waiting.job_id]


def test_a_log_that_cannot_be_written_keeps_everything(home, report, monkeypatch):
    digest = keep(report)
    grow_old(home)
    (home / "access" / "log.jsonl").unlink(missing_ok=True)
    (home / "access").mkdir(exist_ok=True)
    (home / "access" / "log.jsonl").mkdir()
    assert cli.main(["purge", "--older-than", "9"]) == 2
    assert Store(results_dir()).get_record(f"audit/{digest}") is not None


def test_a_server_purges_at_its_start_and_a_fault_of_it_stops_nothing(home, report):
    calls = []

    def daily() -> None:
        calls.append(time.monotonic())
        raise ValueError("a fault")

    job = table.insert(Question("audit", "x", 2, "cpu", "k" * 64, (), {}), runner=table.COMMAND)
    assert job is not None
    with service.look_after_jobs(daily=daily):
        end = time.monotonic() + 60
        while table.get(job.job_id).state == "queued" and time.monotonic() < end:  # type: ignore[union-attr]
            time.sleep(0.01)
    assert len(calls) == 1
    ended_job = table.get(job.job_id)
    assert ended_job is not None and ended_job.state == "interrupted"
    assert CORPORA.all() == ()


@pytest.mark.parametrize("function_name", ["open", "unlink"])
def test_a_data_directory_that_cannot_be_written_is_an_error_in_words(
    home, report, capsys, monkeypatch, function_name
):
    Store(results_dir()).put_record(f"shard/{'a' * 64}", [1])
    keep(report)
    grow_old(home)
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    usual = getattr(os, function_name)

    def read_only(path: Any, *flags: Any, **options: Any) -> Any:
        is_inside = isinstance(path, str | Path) and Path(path).is_relative_to(home)
        if is_inside and (function_name == "unlink" or flags[0] & writes):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return usual(path, *flags, **options)

    monkeypatch.setattr(os, function_name, read_only)
    assert cli.main(["purge", "--older-than", "9"]) == 2
    errors = capsys.readouterr().err
    assert (
        "Read-only file system" in errors and str(home) not in errors and "Traceback" not in errors
    )
