"""Recovery: what becomes of jobs whose process died; under the device's lock nothing is guessed."""

from __future__ import annotations

from audit.curation.corpus_place import clear_abandoned
from audit.curation.kept_corpora import corpora_dir
from audit.errors import AuditError
from audit.jobs import table
from audit.jobs.job import COMMAND, Failure, Job, Setting
from audit.jobs.locks import DEVICES, device_lock, forget_job_lock, job_lock
from audit.jobs.orders import read_order

MAX_ATTEMPTS = 3
_CORPUS = "corpus"
_DIED = (
    "The system stopped this process {n} times, most often because memory ran out; everything "
    "finished before is kept."
)
_SMALLER = "Try a smaller micro-batch; that is a new question, and begins anew."
_FREE = "Free memory on this machine, then resume."


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


def known_devices() -> tuple[str, ...]:
    """Return the queues in which something waits or runs."""
    found = {job.device for job in table.every_job(is_active=True)}
    return tuple(device for device in DEVICES if device in found)


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
