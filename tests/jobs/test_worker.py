"""Jobs in real processes: done, stopped, killed at any place, and never done twice."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from audit.jobs import service, table, worker
from audit.jobs.child import NICENESS_VARIABLE
from audit.jobs.locks import device_lock, jobs_dir, worker_lock
from audit.jobs.service import look_after_jobs
from audit.jobs.table import Failure
from audit.task import SHORT, Question
from tests.jobs.fake_child import SECRET
from tests.jobs.fake_jobs import (
    alive,
    counting,
    home,
    processes,
    question,
    start_held_job,
    until,
    until_state,
    usual_home,
)

__all__ = ["home", "usual_home"]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))


def test_a_job_is_done_and_its_order_is_forgotten(home, tmp_path):
    job = service.ask(counting(tmp_path / "count"), owner="me")
    assert job.state in ("queued", "running", "done")
    ended_job = until_state(job, "done", "failed")
    assert (ended_job.state, ended_job.result, ended_job.share, ended_job.owner) == (
        "done",
        (f"{5:064d}",),
        1.0,
        "me",
    )
    assert ended_job.n_attempts == 1
    assert ended_job.created <= ended_job.started <= ended_job.finished
    assert not service.can_resume(ended_job)
    until(lambda: list(jobs_dir("orders").iterdir()) == [])
    for path in (home / "jobs").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_an_expected_job_gets_a_process_that_is_ready_and_others_do_not(home, tmp_path):
    service.ensure_worker("cpu", expected_kind="count")
    until(lambda: processes("child"))
    ready = processes("child")[0]
    refused = service.ask(question("refuse", digest="refuse"))
    until_state(refused, "failed")
    assert len(processes("child")) == 2
    assert alive(ready)
    path = tmp_path / "count"
    until_state(service.ask(counting(path)), "done")
    assert {int(line.split()[1]) for line in path.read_text().splitlines()} == {ready}
    until(lambda: not alive(ready))
    again = service.ask(counting(tmp_path / "again", digest="again"))
    until_state(again, "done")
    assert len(processes("child")) == 3


def test_a_ready_process_ends_with_its_worker_and_is_not_missed(home, tmp_path):
    service.ensure_worker("cpu", expected_kind="count")
    until(lambda: processes("child"))
    kill(processes("worker")[0])
    until(lambda: not alive(processes("child")[0]))
    ended_job = until_state(service.ask(counting(tmp_path / "count")), "done")
    assert ended_job.n_attempts == 1


@pytest.mark.parametrize(("setting", "niceness"), [("", 19), ("4", 4), ("-5", 19), ("99", 19)])
def test_a_job_gives_way_to_pages_and_its_worker_does_not(
    home, tmp_path, monkeypatch, setting, niceness
):
    monkeypatch.setenv(NICENESS_VARIABLE, setting)
    start_held_job(tmp_path / "a")
    own_niceness = os.getpriority(os.PRIO_PROCESS, 0)
    child = min(own_niceness + niceness, 19)
    until(lambda: os.getpriority(os.PRIO_PROCESS, processes("child")[0]) == child)
    assert os.getpriority(os.PRIO_PROCESS, processes("worker")[0]) == own_niceness
    session = Path(f"/proc/{processes('child')[0]}/autogroup")
    if session.exists():  # else the kernel does not group processes by session
        until(lambda: session.read_text().endswith(f"nice {niceness}\n"))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["count", "deaf"])
def test_a_running_job_is_cancelled_within_a_second(home, tmp_path, kind):
    job = service.ask(question(kind, path=str(tmp_path / "a"), n=3, is_held=True))
    until((tmp_path / "a").exists)
    start = time.monotonic()
    service.cancel(job.job_id)
    cancelled = until_state(job, "cancelled")
    assert time.monotonic() - start < 2
    until(lambda: not any(map(alive, processes("child"))))
    assert service.can_resume(cancelled)


@pytest.mark.long
def test_what_was_cancelled_goes_on_where_it_stopped(home, tmp_path):
    path = tmp_path / "a"
    path.write_text("0 0\n1 0\n")
    job = start_held_job(path, n=4)
    until(lambda: service.job(job.job_id).share == 0.5)
    service.cancel(job.job_id)
    until_state(job, "cancelled")
    (tmp_path / "hold").unlink()
    assert service.resume(job.job_id).job_id == job.job_id
    ended_job = until_state(job, "done")
    assert [line.split()[0] for line in path.read_text().splitlines()] == ["0", "1", "2", "3"]
    assert service.resume(ended_job.job_id).state == "done"


@pytest.mark.long
def test_a_killed_worker_leaves_its_job_running_and_the_next_one_waits(home, tmp_path):
    first = start_held_job(tmp_path / "a", digest="a")
    kill(processes("worker")[0])
    second = service.ask(counting(tmp_path / "b", digest="b"))
    until(lambda: len(processes("worker")) == 2)
    service.recover()
    assert service.job(first.job_id).state == "running"
    assert service.job(second.job_id).state == "queued"
    assert device_lock("cpu") is None
    (tmp_path / "hold").unlink()
    until_state(second, "done")
    first = service.job(first.job_id)
    assert (first.state, first.n_attempts) == ("done", 1)
    assert len(processes("child")) == 2


@pytest.mark.long
@pytest.mark.parametrize("is_to_stop", [False, True])
def test_worker_and_child_killed_together_are_made_good(home, tmp_path, is_to_stop):
    job = start_held_job(tmp_path / "a")
    kill(processes("worker")[0])
    kill(processes("child")[0])
    assert service.job(job.job_id).state == "running"  # nobody has looked yet
    if is_to_stop:
        assert service.cancel(job.job_id).state == "cancelled"
        return
    (tmp_path / "hold").unlink()
    service.recover()
    ended_job = until_state(job, "done", "failed")
    assert (ended_job.state, ended_job.n_attempts) == ("done", 2)


@pytest.mark.long
def test_jobs_that_die_are_refused_or_go_wrong_are_told_in_plain_words(home):
    jobs = [service.ask(question(kind, digest=kind)) for kind in ("die", "refuse", "mistake")]
    died, refused, mistaken = (until_state(job, "failed", "done") for job in jobs)
    assert [job.n_attempts for job in (died, refused, mistaken)] == [3, 1, 1]
    assert "memory ran out" in died.failure.what
    assert refused.failure == Failure("Memory ran out.", "micro-batch", "Try less.")
    assert "ValueError" in mistaken.failure.what
    until(lambda: not any(map(alive, processes("child"))))
    log = (jobs_dir("logs") / f"job-{mistaken.job_id}.log").read_text()
    assert "fake_child.py" in log
    for path in (home / "jobs").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


@pytest.mark.long
def test_starting_a_worker_leaves_no_child_behind(home, tmp_path):
    asking = f"""
import os, sys
from pathlib import Path
from typing import Any
from audit.jobs import service
from tests.jobs.fake_jobs import counting, until_state
service.WORKER_MODULE = "tests.jobs.fake_worker"
until_state(service.ask(counting(Path({str(tmp_path / "a")!r}))), "done")
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child")
"""
    process = subprocess.run(
        [sys.executable, "-c", asking],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    assert process.stdout == "no child\n"
    assert alive(processes("worker")[0])  # it outlives who asked


def test_many_questions_at_once_from_many_threads_give_one_job(home, tmp_path):
    count_question = counting(tmp_path / "a", is_held=True)
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda _: service.ask(count_question), range(8)))
    assert len({job.job_id for job in jobs}) == 1
    assert len(table.list_jobs()) == len(list(jobs_dir("orders").iterdir())) == 1
    service.cancel(jobs[0].job_id)
    until_state(jobs[0], "cancelled")


@pytest.mark.long
@pytest.mark.parametrize("who_lives", ["server", "other worker"])
def test_a_job_asked_for_while_a_worker_dies_is_started_all_the_same(home, tmp_path, who_lives):
    dying = worker_lock("cpu")
    assert dying is not None
    with contextlib.ExitStack() as lives:
        if who_lives == "server":
            lives.enter_context(look_after_jobs())
        else:
            cuda_question = counting(tmp_path / "b", digest="b", is_held=True, device="cuda")
            until_state(service.ask(cuda_question), "running")
        job = service.ask(counting(tmp_path / "a"))
        assert service.job(job.job_id).state == "queued"
        dying.release()
        until_state(job, "done")


def busy_table(seconds: float) -> threading.Thread:
    """Keep everybody else from writing into the table, and from reading it, for some seconds."""
    lock_event = threading.Event()

    def hold() -> None:
        with contextlib.closing(sqlite3.connect(jobs_dir() / table.FILE)) as connection:
            connection.execute("pragma locking_mode = exclusive")
            connection.execute("begin exclusive")
            lock_event.set()
            time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    lock_event.wait()
    return thread


@pytest.mark.long
def test_no_trouble_of_its_own_ends_a_worker(home, tmp_path, monkeypatch):
    order = {"path": str(tmp_path / "a"), "n": 3}
    job = table.insert(Question("count", "", 1, "cpu", "q", (), order))
    assert job is not None
    troubles = [OSError(errno.ENOSPC, SECRET), OSError(errno.EAGAIN, SECRET), MemoryError(SECRET)]
    n_waited = [0]
    real, wait = subprocess.Popen, subprocess.Popen.wait

    def fails_at_first(*arguments: Any, **options: Any) -> Any:
        if troubles:
            raise troubles.pop()
        return real(*arguments, **options)

    def busy_while_waiting(*arguments: Any, **options: Any) -> Any:
        n_waited[0] += 1
        if n_waited[0] == 1:
            monkeypatch.setattr(table, "_BUSY_SECONDS", 0.05)
            busy_table(0.5)
        return wait(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", fails_at_first)
    monkeypatch.setattr(real, "wait", busy_while_waiting)
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(worker, "IDLE_SECONDS", 2)
    monkeypatch.setattr(worker, "CHILD_MODULE", "tests.jobs.fake_child")
    worker.work("cpu", lock=worker_lock("cpu"))
    ended_job = service.job(job.job_id)
    assert (ended_job.state, ended_job.n_attempts) == ("done", 1)
    assert troubles == []
    assert "MemoryError" in stderr.getvalue()
    assert "AuditError" in stderr.getvalue()
    assert SECRET not in stderr.getvalue()


@pytest.mark.long
def test_short_work_runs_beside_what_takes_hours(home, tmp_path):
    long = service.ask(counting(tmp_path / "a", digest="a", is_held=True))
    until_state(long, "running")
    short = service.ask(counting(tmp_path / "b", digest="b", device=SHORT))
    assert short.n_before == 0
    until_state(short, "done")
    assert service.job(long.job_id).state == "running"
    service.cancel(long.job_id)
    until_state(long, "cancelled")
