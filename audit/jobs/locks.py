"""Locks and folders of the jobs: a lock is held by whoever lives, and freed by any death.

`flock` belongs to the open file, so a lock that is handed to a child lives as long as the child,
also when its parent is killed. A process id would say "alive" of a dead process nobody reaped.
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from audit.errors import AuditError
from audit.home import results_dir

DEVICES = ("cpu", "cuda")
SHORT = "short"
"""The queue of work that takes minutes at most: it runs on the CPU beside what takes hours."""
QUEUES = (*DEVICES, SHORT)
_FIRST_GPU = Path("/dev/nvidia0")


@dataclass
class Lock:
    """A lock that this process holds, until it is released or every holder of the file is gone."""

    descriptor: int

    def release(self) -> None:
        """Let go of it here; a child that it was handed to goes on holding it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def jobs_dir(folder: str = "") -> Path:
    """Return the directory of the jobs or a folder in it, made with mode 700.

    Raises
    ------
    AuditError
        If the data directory cannot be used.
    """
    path = results_dir().parent / "jobs" / folder
    try:
        for directory in (path.parent, path) if folder else (path,):
            directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise unusable(error) from None
    return path


def queue_of(device: str) -> str:
    """Return the queue of a device: "auto" is the GPU where there is one."""
    return device if device in DEVICES else "cuda" if _FIRST_GPU.exists() else "cpu"


def device_lock(device: str) -> Lock | None:
    """Take the right to compute for a queue; None where another process has it."""
    return _taken(f"device-{device}.lock")


def worker_lock(device: str) -> Lock | None:
    """Take the right to be a queue's worker; None where another process has it."""
    return _taken(f"worker-{device}.lock")


def job_lock(job_id: str) -> Lock | None:
    """Take the lock of a job that a command runs itself; None where that command lives."""
    return _taken(f"job-{job_id}.lock")


def forget_job_lock(job_id: str) -> None:
    """Remove the lock file of a job that has ended; one that cannot be removed does no harm."""
    with suppress(OSError):
        (jobs_dir() / f"job-{job_id}.lock").unlink(missing_ok=True)


def unusable(error: Exception) -> AuditError:
    """Return what a person is told where the jobs' directory cannot be used."""
    return AuditError(
        f"The list of jobs cannot be read or written ({getattr(error, 'strerror', '') or error}).",
        do="See that the disk has room and that the data directory is writable, then try again.",
    )


def table_lock() -> Lock:
    """Wait for the right to make the table of jobs, and take it."""
    lock = _taken("table-jobs.lock", is_patient=True)
    assert lock is not None
    return lock


def _taken(name: str, *, is_patient: bool = False) -> Lock | None:
    if not re.fullmatch(r"[a-z]+-[a-z0-9]+\.lock", name):
        raise ValueError("no name of a lock")
    path = jobs_dir() / name
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unusable(error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        return None
    return Lock(descriptor)
