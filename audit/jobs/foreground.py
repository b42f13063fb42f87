"""A job in the process of the command that asks for it: queued and listed like all others."""

from __future__ import annotations

import time
from collections.abc import Callable

from audit.errors import AuditCancelled, AuditError
from audit.jobs import table
from audit.jobs.locks import device_lock, forget_job_lock, job_lock
from audit.jobs.service import open_task, recover, settle
from audit.jobs.table import COMMAND, Job, table_contact
from audit.progress import Progress, ProgressListener
from audit.shelf import Lock, new_identifier
from audit.task import Question, Task

POLL_SECONDS = 0.1
_RECOVER_SECONDS = 2.0
Say = Callable[[str], None]


def _ignore(_: object) -> None:
    pass


def answer_task(
    task: Task, *, progress: ProgressListener = _ignore, say: Say = _ignore
) -> tuple[str, ...]:
    """Return the results of a task: stored ones at once, otherwise after doing the work here.

    The work is registered as a job, which pages and other commands see, and waits for its turn.
    """
    recover()
    question = task.question()
    if answer := task.read_answer(question):
        say("Answered before; nothing is computed.")
        return answer
    return answer_here(question, progress=progress, say=say)


def answer_here(question: Question, *, progress: ProgressListener, say: Say) -> tuple[str, ...]:
    """Answer a question in this process, in its turn, or wait for a job that already answers it.

    Raises AuditError if it cannot be answered, and AuditCancelled if somebody stopped it.
    """
    result: tuple[str, ...] | None = None
    while result is None:
        job_id = new_identifier()
        lock = job_lock(
            job_id
        )  # held before the job is listed: a process that finds it free may end the job
        try:
            if (job := table.insert(question, runner=COMMAND, job_id=job_id)) is not None:
                return _answer(job, progress=progress, say=say)
        finally:
            forget_job_lock(job_id)
            if lock is not None:
                lock.release()
        active_job = table.find_active(question.digest)
        result = _follow(active_job, progress=progress, say=say) if active_job else None
    return result


def _answer(job: Job, *, progress: ProgressListener, say: Say) -> tuple[str, ...]:
    device: Lock | None = None
    try:
        with open_task(job) as task:
            device = _await_turn(job, say=say)
            result = task.run(table_contact(job.job_id, listener=progress, say=say))
            table.end(job.job_id, state="done", result=result)
            return result
    finally:
        table.end(job.job_id, state="interrupted")  # does nothing if the job has ended above
        if device is not None:
            device.release()


def _await_turn(job: Job, *, say: Say) -> Lock:
    """Return the device's lock as soon as the job is the oldest that waits for it."""
    n_announced, last_look = 0, -_RECOVER_SECONDS
    while True:
        if (lock := _claim_device(job)) is not None:
            return lock
        last_look = _look_after_others(last_look)
        current = table.get(job.job_id)
        if current is None or current.state != "queued":
            raise AuditCancelled
        if current.n_before != n_announced:
            n_announced = current.n_before
            say(
                f"Waiting for {n_announced} other job(s) on {current.device}. This is job "
                f"{current.job_id}; `python -m audit jobs` lists them."
            )
        time.sleep(POLL_SECONDS)


def _claim_device(job: Job) -> Lock | None:
    """Return the device's lock if it is free and the job is the oldest that waits for it."""
    first = table.find_oldest_queued(job.device)
    if first is None or first.job_id != job.job_id or (lock := device_lock(job.device)) is None:
        return None
    settle(job.device)
    first = table.find_oldest_queued(job.device)  # an older job may have been put back just now
    if first is not None and first.job_id == job.job_id and table.claim(job.job_id):
        return lock
    lock.release()
    return None


def _look_after_others(last_look: float) -> float:
    """Recover jobs whose process died, every few seconds; return the time of the last look."""
    if time.monotonic() - last_look <= _RECOVER_SECONDS:
        return last_look
    recover()
    return time.monotonic()


def _follow(job: Job, *, progress: ProgressListener, say: Say) -> tuple[str, ...] | None:
    """Wait for another process's job; return None if it was interrupted and must be done here."""
    say(f"The same question is being answered by job {job.job_id}; its progress follows.")
    last_look = -_RECOVER_SECONDS
    try:
        while job.is_active:
            progress(Progress(job.phase or "waiting", job.share, 1.0, job.seconds_left))
            last_look = _look_after_others(last_look)
            time.sleep(POLL_SECONDS)
            job = table.get(job.job_id) or job
    except KeyboardInterrupt:
        say(f"Job {job.job_id} goes on; `python -m audit cancel {job.job_id}` stops it.")
        raise
    if job.state == "cancelled":
        raise AuditCancelled
    if job.state == "failed" and job.failure:
        raise AuditError(job.failure.what, where=job.failure.where, do=job.failure.do)
    return job.result if job.state == "done" else None
