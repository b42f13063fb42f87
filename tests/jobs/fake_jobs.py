"""Jobs of made-up kinds, and a data directory whose workers run them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.home import HOME_VARIABLE, data_home
from audit.jobs import service
from audit.jobs.child import NICENESS_VARIABLE
from audit.jobs.locks import device_lock
from audit.jobs.service import KINDS
from audit.jobs.table import Job
from audit.task import Question

PATIENCE_SECONDS = 1800.0
"""No test waits for this: it ends a run that hangs. What is waited for are events, which take as
long as the machine takes."""
KINDS |= {
    name.lower(): f"tests.jobs.fake_child:{name}"
    for name in ("Count", "Shards", "Deaf", "Mistake", "Refuse", "Die")
}


@pytest.fixture
def home(usual_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data directory with workers of made-up kinds; what was started is stopped at the end."""
    monkeypatch.setattr(service, "WORKER_MODULE", "tests.jobs.fake_worker")
    yield usual_home
    for role in ("worker", "child"):
        for pid in processes(role):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def usual_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory whose jobs have the usual priority: what gives way may starve here."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setenv(NICENESS_VARIABLE, "0")
    return data_home()


def question(kind: str, *, digest: str = "q", device: str = "cpu", **order: Any) -> Question:
    return Question(
        kind=kind,
        label="general → hospital",
        scenario=1,
        device=device,
        digest=digest,
        audits=(),
        order=order,
    )


def counting(path: Path, *, n: int = 5, is_held: bool = False, **fields: str) -> Question:
    return question("count", path=str(path), n=n, is_held=is_held, **fields)


def start_held_job(path: Path, **options: Any) -> Job:
    """Ask for counting and return its job, running; it goes on when `hold` beside it is gone."""
    (path.parent / "hold").touch()
    job = service.ask(counting(path, **options))
    until(lambda: processes("child"))
    return until_state(job, "running")


@contextlib.contextmanager
def busy_device(is_busy: bool = True) -> Iterator[None]:
    """Keep the cpu's jobs waiting, or just see that it is free."""
    lock = device_lock("cpu")
    assert lock is not None
    if not is_busy:
        lock.release()
    yield
    lock.release()


def processes(role: str) -> list[int]:
    """Return the process ids of all workers or children so far."""
    path = data_home() / "processes"
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [int(pid) for kind, pid in lines if kind == role]


def alive(pid: int) -> bool:
    """Whether any thread of a process runs; one that died and was not reaped does not.

    A killed process holds its locks until its last thread is gone, not its main thread.
    """
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            if (thread / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                return True
    return False


def until(condition: Callable[[], object]) -> None:
    """Wait for an event, however long it takes."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited in vain; {what_happened()}"
        time.sleep(0.01)


def what_happened() -> str:
    """Return the processes so far, the jobs, and the ends of all logs: why a wait was in vain."""
    jobs = [(job.state, job.n_attempts, job.is_cancel_wanted) for job in service.jobs()]
    logs = {path.name: path.read_text()[-800:] for path in (data_home() / "jobs/logs").glob("*")}
    return f"workers {processes('worker')}, children {processes('child')}, jobs {jobs}, logs {logs}"


def until_state(job: Job, *states: str) -> Job:
    """Wait until a job is in one of some states; fails at once where it has ended otherwise."""

    def is_there() -> bool:
        current_job = service.job(job.job_id)
        assert current_job.state in states or current_job.is_active, (
            f"it is {current_job.state}; {what_happened()}"
        )
        return current_job.state in states

    until(is_there)
    return service.job(job.job_id)
