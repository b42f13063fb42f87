"""Recovery: what becomes of jobs whose process died; under the device's lock nothing is guessed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from audit.curation.corpus_place import clear_abandoned
from audit.curation.kept_corpora import corpora_dir
from audit.errors import AuditError
from audit.jobs import table
from audit.jobs.job import COMMAND, WORKER, Failure, Job, Setting
from audit.jobs.locks import QUEUES, device_lock, forget_job_lock, job_lock
from audit.jobs.orders import read_order
from audit.jobs.start import ensure_worker

MAX_ATTEMPTS = 3
LOOK_SECONDS = 1.0
"""How often servers and workers look whether a job waits for a process that died."""
_CORPUS = "corpus"
_DIED = (
    "The system stopped this process {n} times, most often because memory ran out; everything "
    "finished before is kept."
)
_SMALLER = "Try a smaller micro-batch; that is a new question, and begins anew."
_FREE = "Free memory on this machine, then resume."


def recover() -> None:
    """Settle jobs whose process died, and see that every queue with work has a worker.

    One look is not enough: the locks of a process that dies fall some moments after it.
    """
    known = {job.device for job in table.every_job(is_active=True)}
    for device in known.intersection(QUEUES):
        recover_device(device)
        left = table.every_job(is_active=True)
        if any((job.device, job.runner) == (device, WORKER) for job in left):
            ensure_worker(device)


@contextmanager
def looking_after() -> Iterator[None]:
    """Look after all jobs, again and again, in a thread that lives as long as the block."""
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            with suppress(Exception):  # the pages say why; the next look may go well
                recover()
            over.wait(LOOK_SECONDS)

    thread = threading.Thread(target=look, name="looking after jobs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def recover_device(device: str) -> bool:
    """Settle the dead jobs of a device; False where somebody computes on it, so nothing is dead."""
    lock = device_lock(device)
    if lock is None:
        return False
    try:
        settle(device)
    finally:
        lock.release()
    return True


def settle(device: str) -> None:
    """Settle a device's dead jobs; the caller holds the device's lock.

    Whoever runs a job holds that lock, so under it every job that is said to run is dead.
    """
    for job in table.running(device):
        _settle(job)
    for job in table.every_job(is_active=True):
        if job.device == device and job.state == "queued" and job.runner == COMMAND:
            leave_to_command(job)


def leave_to_command(job: Job) -> bool:
    """Whether a waiting job's command lives; if not, the job is marked as interrupted."""
    lock = job_lock(job.job_id)
    if lock is None:
        return True
    try:
        if table.end(job.job_id, state="interrupted"):
            forget_job_lock(job.job_id)
    finally:
        lock.release()
    return False


def smaller_batch(job: Job) -> tuple[tuple[str, Setting], ...]:
    """Return the setting with which a job needs less memory; empty where there is none."""
    try:
        order = read_order(job.job_id)
        micro_batch = int(order["request"]["posterior"]["micro_batch"])
        is_masked_lm = order["request"]["scenario_number"] == 2
    except (AuditError, KeyError, TypeError, ValueError):
        return ()
    return (("micro_batch", micro_batch // 2),) if is_masked_lm and micro_batch > 1 else ()


def _settle(job: Job) -> None:
    if job.kind == _CORPUS:  # private notes of a half-made corpus serve nobody
        with suppress(AuditError, OSError):
            clear_abandoned(corpora_dir())
    if job.is_cancel_wanted:
        table.end(job.job_id, state="cancelled")
    elif job.runner == COMMAND:
        table.end(job.job_id, state="interrupted")
        forget_job_lock(job.job_id)
    elif job.n_attempts < MAX_ATTEMPTS:
        table.put_back(job.job_id)
    else:
        table.end(job.job_id, state="failed", failure=died(job))


def died(job: Job) -> Failure:
    """Return the cause that is told of a job whose process was stopped again and again."""
    settings = smaller_batch(job)
    do = _SMALLER if settings else _FREE
    return Failure(_DIED.format(n=job.n_attempts), do=do, settings=settings)


def failure_of(error: Exception, *, job: Job) -> Failure:
    """Return what is told of a job that ended with this error."""
    if isinstance(error, AuditError):
        settings = smaller_batch(job) if error.where == "micro-batch" else ()
        return Failure(error.what, error.where, error.do, settings)
    if isinstance(error, MemoryError):
        settings = smaller_batch(job)
        do = _SMALLER if settings else _FREE
        return Failure("Memory ran out; everything finished before is kept.", "", do, settings)
    return Failure(str(error))
