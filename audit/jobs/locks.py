"""Queues and locks: the right to compute for a device, to be its worker, to run a job."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from audit.errors import AuditError
from audit.home import home_folder
from audit.shelf import Lock, take_lock
from audit.task import DEVICES, SHORT

QUEUES = (*DEVICES, SHORT)


def jobs_dir(folder: str = "") -> Path:
    """Return the directory of the jobs or a folder in it, created with mode 700."""
    path = home_folder("jobs")
    return home_folder(f"jobs/{folder}") if folder else path


def device_lock(device: str) -> Lock | None:
    """Take the right to compute for a queue; None if another process has it."""
    return _take_lock(f"device-{device}.lock")


def worker_lock(device: str) -> Lock | None:
    """Take the right to be a queue's worker; None if another process has it."""
    return _take_lock(f"worker-{device}.lock")


def job_lock(job_id: str) -> Lock | None:
    """Take the lock of a job that a command runs itself; None while that command lives."""
    return _take_lock(f"job-{job_id}.lock")


def forget_job_lock(job_id: str) -> None:
    """Remove the lock file of a job that has ended; if it cannot be removed, it does no harm."""
    with suppress(OSError):
        (jobs_dir() / f"job-{job_id}.lock").unlink(missing_ok=True)


def table_lock() -> Lock:
    """Wait for the right to create the table of jobs, and take it."""
    lock = _take_lock("table-jobs.lock", waits=True)
    assert lock is not None
    return lock


def explain_unusable(error: Exception) -> AuditError:
    """Return the error for a directory of jobs that cannot be used."""
    return AuditError(
        "The list of jobs cannot be read or written ({reason}).",
        do="See that the disk has room and that the data directory is writable, then try again.",
        reason=getattr(error, "strerror", "") or str(error),
    )


def _take_lock(name: str, *, waits: bool = False) -> Lock | None:
    try:
        return take_lock(jobs_dir() / name, waits=waits)
    except OSError as error:
        raise explain_unusable(error) from None
