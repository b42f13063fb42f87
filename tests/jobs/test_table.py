"""The table of jobs by itself, without any process."""

from __future__ import annotations

import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from audit.errors import AuditError
from audit.jobs import service, table
from audit.jobs.locks import jobs_dir
from audit.jobs.table import Failure, Job
from audit.progress import Progress
from audit.task import Question, queue_of

pytestmark = pytest.mark.usefixtures("home")


def own_locks(path: Path) -> list[list[str]]:
    """Return this process's POSIX locks on a file, as the system lists them."""
    status = path.stat()
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sorted(
        line[1:] for line in lines if line[1] == "POSIX" and line[4:6] == [str(os.getpid()), file]
    )


def add(question: str = "q", **changes: Any) -> Job:
    columns = {name: changes.pop(name) for name in ("owner", "runner", "result") if name in changes}
    new_question = replace(Question("audit", "a → b", 2, "cpu", question, (), {}), **changes)
    job = table.insert(new_question, **{"owner": "me"} | columns)
    assert job is not None
    return job


def test_a_job_goes_through_its_states():
    job = add()
    assert (job.state, job.stage, job.n_attempts, job.result) == ("queued", "waiting", 0, ())
    assert len(job.job_id) == 12
    assert table.claim(job.job_id)
    assert not table.claim(job.job_id)
    running = service.job(job.job_id)
    assert (running.state, running.stage, running.n_attempts) == ("running", "loading", 1)
    progress = Progress("hospital model: chain", 1, 2, 7.5)
    table.note_progress(job.job_id, progress)
    running = service.job(job.job_id)
    assert (running.stage, running.share, running.seconds_left) == ("hospital_chain", 0.5, 7.5)
    failure = Failure("It broke.", "here", "Mend it.")
    assert table.end(job.job_id, state="failed", failure=failure)
    assert not table.end(job.job_id, state="done", result=("x",))
    failed = service.job(job.job_id)
    assert (failed.state, failed.failure, failed.seconds_left) == ("failed", failure, None)
    assert failed.finished
    table.note_progress(job.job_id, Progress("late", 9, 10, 1))
    assert service.job(job.job_id) == failed
    assert table.queue_again(job.job_id)
    again = service.job(job.job_id)
    assert (again.state, again.failure, again.finished, again.n_attempts) == ("queued", None, "", 0)


def test_a_question_is_active_once():
    job = add()
    assert table.insert(Question("audit", "", 1, "cuda", "q", (), {})) is None
    table.end(job.job_id, state="cancelled")
    next_job = add()
    assert not table.queue_again(job.job_id)
    assert service.job(job.job_id).state == "cancelled"
    table.end(next_job.job_id, state="done", result=("d",))
    assert table.find_latest_done("q") == service.job(next_job.job_id)
    assert not table.queue_again(next_job.job_id)


def test_turns_are_by_asking_and_a_resumed_job_is_the_last():
    a, b, c, elsewhere = add("a"), add("b"), add("c"), add("d", device="cuda")
    assert table.find_oldest_queued("cpu") == a
    assert [service.job(j.job_id).n_before for j in (a, b, c, elsewhere)] == [0, 1, 2, 0]
    table.claim(a.job_id)
    table.put_back(a.job_id)
    assert table.find_oldest_queued("cpu") == service.job(a.job_id)  # put back into its old turn
    table.ask_to_cancel(a.job_id)
    table.queue_again(a.job_id)
    assert table.find_oldest_queued("cpu").job_id == b.job_id
    assert [j.job_id for j in service.jobs()] == [job.job_id for job in (a, elsewhere, c, b)]


def test_cancelling_asks_what_runs_and_ends_what_waits():
    waiting, running = add("a"), add("b")
    table.claim(running.job_id)
    for job in (waiting, running):
        table.ask_to_cancel(job.job_id)
    assert service.job(waiting.job_id).state == "cancelled"
    assert service.job(running.job_id).stage == "stopping"
    assert table.is_cancel_wanted(running.job_id)
    assert table.is_cancel_wanted("no such job")


def test_a_thousand_ticks_of_work_reach_the_table_four_times_a_second(monkeypatch):
    job = add()
    table.claim(job.job_id)
    clock, n_opened, connect = [100.0], [0], sqlite3.connect

    def opened(*args: Any, **options: Any) -> sqlite3.Connection:
        n_opened[0] += 1
        return connect(*args, **options)

    monkeypatch.setattr(table, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    contact = table.table_contact(job.job_id)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", opened)
        for tick in range(1000):  # of ten seconds
            contact.listen(Progress("hospital model: documents", tick, 1000, None))
            assert not contact.should_stop()
            clock[0] += 0.01
    assert 38 <= n_opened[0] <= 42
    assert service.job(job.job_id).share == pytest.approx(0.975, abs=0.02)
    table.ask_to_cancel(job.job_id)
    clock[0] += table.ASK_SECONDS
    assert contact.should_stop()


def test_a_job_is_found_by_the_beginning_of_its_id_and_forgotten_with_its_order():
    job = add()
    table.write_order(job.job_id, order={"name": "x"})
    service.forget(job.job_id)
    assert service.job(job.job_id) == job  # it waits: nothing is removed
    assert service.job(job.job_id[:5]) == job
    for wrong in ("", job.job_id[:3], "zzzz", "%%%%", "____"):
        with pytest.raises(AuditError):
            service.job(wrong)
    table.end(job.job_id, state="cancelled")
    service.forget(job.job_id)
    assert service.jobs() == ()
    assert not table.has_order(job.job_id)


def test_orders_are_private_whole_and_only_under_ids(tmp_path):
    table.write_order("0123456789ab", order={"names": ["佐藤", "\ud800"]})
    assert table.read_order("0123456789ab") == {"names": ["佐藤", "\ud800"]}
    (path,) = jobs_dir("orders").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("[")
    with pytest.raises(AuditError, match="no longer kept"):
        table.read_order("0123456789ab")
    path.unlink()
    path.mkdir()
    with pytest.raises(AuditError, match="cannot be read or written"):
        table.forget_order("0123456789ab")
    for wrong in ("../x", "", "0123456789AB", "0123456789ab\n"):
        with pytest.raises(ValueError, match="no job"):
            table.write_order(wrong, order={})


def test_auto_is_the_gpu_where_there_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr("audit.task._FIRST_GPU", tmp_path / "nvidia0")
    assert [queue_of(device) for device in ("auto", "cpu", "cuda")] == ["cpu", "cpu", "cuda"]
    (tmp_path / "nvidia0").touch()
    assert [queue_of(device) for device in ("auto", "cpu", "cuda")] == ["cuda", "cpu", "cuda"]


@pytest.mark.parametrize("difference", [-2, 1])
def test_a_table_of_another_version_is_refused(monkeypatch, difference):
    add()
    monkeypatch.setattr(table, "_VERSION", table._VERSION + difference)
    with pytest.raises(AuditError, match="jobs: This was written by another version"):
        service.jobs()


def test_a_table_of_the_version_before_is_carried_over():
    job = add()
    with closing(sqlite3.connect(jobs_dir() / table.FILE)) as connection:
        connection.execute("alter table jobs drop column moved")
        connection.execute("pragma user_version = 2")
        connection.commit()
    assert service.job(job.job_id) == job
    assert table.claim(job.job_id)
    assert service.job(job.job_id).moved > job.created


def test_only_a_change_of_phase_or_share_is_progress():
    job = add()
    table.claim(job.job_id)
    moments = [service.job(job.job_id).moved]
    for phase, share in (("loading", 0), ("loading", 0), ("loading", 0.5), ("finishing", 0.5)):
        table.note_progress(job.job_id, Progress(phase, share, 1, None))
        moments.append(service.job(job.job_id).moved)
    assert moments == sorted(moments)
    assert len(set(moments)) == 3
    assert moments[0] == moments[1] == moments[2]


def make_still(job: Job, *, seconds: float) -> Job:
    earlier = datetime.now(UTC) - timedelta(seconds=seconds)
    return replace(job, moved=earlier.isoformat(), created=earlier.isoformat())


@pytest.mark.parametrize(
    ("load", "free", "cause"),
    [
        (50.0, 2**33, "about 50 processes share"),
        (50.0, 2**27, "only 128 MB of memory are free"),
        (0.0, 2**33, "one step takes long"),
    ],
)
def test_a_job_without_progress_says_what_it_waits_for(monkeypatch, load, free, cause):
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(service, "find_free_memory", lambda: float(free))
    job = add()
    assert service.find_wait_cause(job) is None
    table.claim(job.job_id)
    running = service.job(job.job_id)
    assert service.find_wait_cause(make_still(running, seconds=20)) is None
    message = service.find_wait_cause(make_still(running, seconds=90.3))
    assert message is not None
    assert message.startswith("No progress for 90 s: ") and cause in message
    assert message.render("ja").startswith("90 秒間進んでいません。")
    later_message = service.find_wait_cause(make_still(running, seconds=190))
    assert later_message is not None and later_message.startswith("No progress for 3 min: ")
    assert service.find_wait_cause(make_still(replace(running, state="done"), seconds=90)) is None


def test_a_job_behind_others_names_them():
    add("a"), add("b")
    waiting = service.job(add("c").job_id)
    message = service.find_wait_cause(make_still(waiting, seconds=31))
    assert message is not None and message.startswith("It waits for 2 jobs before it.")


def test_a_table_that_cannot_be_used_is_refused():
    add()
    (jobs_dir() / table.FILE).write_bytes(b"no database" * 500)
    with pytest.raises(AuditError, match="list of jobs cannot be read or written"):
        service.jobs()


def test_using_the_table_leaves_the_locks_of_who_uses_it_already():
    job = add()
    path = jobs_dir() / table.FILE
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from jobs").fetchone() == (1,)
        old_locks = own_locks(path)
        assert old_locks
        table.claim(job.job_id)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: table.list_jobs(), range(20)))
        assert own_locks(path) == old_locks
