"""A device's worker: runs jobs one by one, each in its own process, and stops them on request."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from audit.jobs import table
from audit.jobs.locks import device_lock, worker_lock
from audit.jobs.service import (
    LOOK_SECONDS,
    ReadyChild,
    is_left_to_command,
    recover,
    settle,
    start_child,
)
from audit.jobs.table import COMMAND, Job
from audit.shelf import Lock

T = TypeVar("T")
POLL_SECONDS = 0.1
IDLE_VARIABLE = "KART_AUDIT_WORKER_IDLE_SECONDS"
IDLE_SECONDS = float(os.environ.get(IDLE_VARIABLE, "300"))
"""A worker without a job for this long ends; the next job starts another."""
TERMINATE_AFTER, KILL_AFTER = 0.4, 0.8
"""Seconds after a request to cancel; every finished shard is kept in any case."""
CHILD_MODULE = "audit.jobs.child"


def work(device: str, *, lock: Lock | None, expected_kind: str = "") -> None:
    """Do a device's jobs until none has come for a while. The caller holds the worker's lock.

    The first job of an `expected_kind` runs in a process that has imported what it needs.
    """
    ready = [ReadyChild.start(CHILD_MODULE, kind=expected_kind)] if expected_kind else []
    while lock is not None:
        _serve(device, ready=ready)
        lock.release()
        # A process that asked in this moment saw a living worker and started none.
        is_asked = _Rounds().do(
            lambda: table.find_oldest_queued(device) is not None, otherwise=True
        )
        lock = worker_lock(device) if is_asked else None


class _Rounds:
    """Repeated steps of a worker; no failure ends it, because jobs would then wait for ever."""

    def __init__(self) -> None:
        self._last_look = -LOOK_SECONDS
        self._last_trouble = ""

    def do(self, step: Callable[[], T], *, otherwise: T) -> T:
        """Return a step's result; if it fails, log the kind of error and return `otherwise`."""
        try:
            return step()
        except Exception as error:  # noqa: BLE001 (a full disk, a busy table, no room for a child)
            # Only the kind is logged, once: the text may hold a name, and the error may recur.
            if self._last_trouble != (trouble := type(error).__name__):
                sys.stderr.write(f"{trouble} in {getattr(step, '__qualname__', '')}\n")
                self._last_trouble = trouble
            return otherwise

    def look(self) -> None:
        """Recover the jobs of all devices: their workers may also have died."""
        if time.monotonic() - self._last_look >= LOOK_SECONDS:
            self.do(recover, otherwise=None)
            self._last_look = time.monotonic()


def _serve(device: str, *, ready: list[ReadyChild]) -> None:
    rounds = _Rounds()
    idle_since = time.monotonic()
    while time.monotonic() - idle_since < IDLE_SECONDS:
        rounds.look()
        if rounds.do(lambda: table.has_work(device), otherwise=False):
            child = rounds.do(lambda: _start_next(device, ready=ready), otherwise=None)
            if child is not None:
                _watch(*child, rounds=rounds)
            idle_since = time.monotonic()
        time.sleep(POLL_SECONDS)


def _start_next(
    device: str, *, ready: list[ReadyChild]
) -> tuple[Job, subprocess.Popen[bytes]] | None:
    """Start the oldest waiting job if the device is free and no command runs that job.

    The job takes a process of its kind out of `ready` if there is one.
    """
    lock = device_lock(device)
    if lock is None:
        return None
    with lock:
        settle(device)
        job = table.find_oldest_queued(device)
        if job is None or (job.runner == COMMAND and is_left_to_command(job)):
            return None
        if not table.claim(job.job_id):
            return None
        try:
            if ready and ready[0].kind == job.kind:
                child = ready.pop().give(job.job_id, lock=lock)
                if child is not None:
                    return job, child
            return job, start_child(CHILD_MODULE, job_id=job.job_id, lock=lock)
        except BaseException:
            table.put_back(job.job_id, is_tried=False)
            raise


def _watch(job: Job, child: subprocess.Popen[bytes], *, rounds: _Rounds) -> None:
    """Wait for a job's process; a job that it left unfinished is settled later."""
    wanted_since: float | None = None
    while True:
        try:
            child.wait(timeout=POLL_SECONDS)
            return
        except subprocess.TimeoutExpired:
            pass
        rounds.look()
        if wanted_since is None and rounds.do(
            lambda: table.is_cancel_wanted(job.job_id), otherwise=False
        ):
            wanted_since = time.monotonic()
        waited = time.monotonic() - wanted_since if wanted_since is not None else 0.0
        if waited > KILL_AFTER:
            child.kill()
        elif waited > TERMINATE_AFTER:
            child.terminate()


def main() -> int:
    """Work for the device on the command line, with the lock whose descriptor follows.

    A kind of work may follow, whose first job is expected soon.
    """
    os.umask(0o077)
    device, descriptor, *kinds = sys.argv[1:]
    work(device, lock=Lock(int(descriptor)), expected_kind="".join(kinds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
