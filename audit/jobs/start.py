"""Starting a device's worker: detached, so that it outlives the server and leaves no zombie."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from audit.jobs.locks import jobs_dir, unusable, worker_lock

WORKER_MODULE = "audit.jobs.worker"
_MAX_LOG_BYTES = 1_000_000  # where a worker cannot live, another is started each second
_CHECKOUT = Path(__file__).resolve().parents[2]


def ensure_worker(device: str) -> bool:
    """Start a device's worker if none lives; return whether one was started.

    Raises
    ------
    AuditError
        If the data directory cannot be used.
    """
    lock = worker_lock(device)
    if lock is None:
        return False
    # The shell ends at once, so that the worker is nobody's child here. It is handed the lock.
    worker = [sys.executable, "-m", WORKER_MODULE, device, str(lock.descriptor)]
    command = ["/bin/sh", "-c", '"$@" &', "sh", *worker]
    log = log_descriptor(f"worker-{device}")
    try:
        subprocess.run(
            command, cwd=_CHECKOUT, start_new_session=True, check=True,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(lock.descriptor,),
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        raise unusable(error) from None
    finally:
        os.close(log)
        lock.release()
    return True


def start_child(module: str, *, job_id: str, device_descriptor: int) -> subprocess.Popen[bytes]:
    """Start the process of one job, which from then on holds the device's lock too."""
    log = log_descriptor(f"job-{job_id}")
    try:
        return subprocess.Popen(
            [sys.executable, "-m", module, job_id], cwd=_CHECKOUT, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(device_descriptor,),
        )  # fmt: skip
    finally:
        os.close(log)


def log_descriptor(name: str) -> int:
    """Open a log file of the jobs for appending, readable for its owner only."""
    path = jobs_dir("logs") / f"{name}.log"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(path, flags, 0o600)
        if os.fstat(log).st_size > _MAX_LOG_BYTES:
            os.ftruncate(log, 0)
        return log
    except OSError as error:
        raise unusable(error) from None
