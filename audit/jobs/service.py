"""Jobs for pages and commands: ask, cancel, resume, list. Torch-free; every call is quick."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import BinaryIO

from audit.errors import AuditCancelled, AuditError, Message
from audit.executor import PASSIVE_THREADS
from audit.foreign import find_free_memory
from audit.home import check_change_allowed
from audit.jobs import locks, table
from audit.jobs.table import COMMAND, WORKER, Failure, Job, has_order, read_order
from audit.shelf import Lock, seconds_since
from audit.task import Question, Task

KINDS = {
    "audit": "audit.run:AuditTask",
    "judge": "audit.rejudge:JudgeTask",
    "rank": "audit.rank:RankTask",
    "demo": "audit.demo:DemoTask",
    "convert": "audit.models.convert:ConvertTask",
    "pretrain": "audit.training.trainings:PretrainTask",
    "corpus": "audit.corpus.make:CorpusTask",
    "experiment": "audit.experiment.paper:ExperimentTask",
    "leakage": "audit.experiment.leakage:LeakageTask",
    "tagger_audit": "audit.experiment.tagger_audit:TaggerAuditTask",
    "tagger": "audit.deid.learn.tagger_task:TaggerTask",
    "tagging": "audit.deid.tasks:TaggingTask",
    "score": "audit.deid.measure.scoring:ScoreTask",
}
"""Kind of long work -> its task class, which is imported when the kind is first needed."""
WORKER_MODULE = "audit.jobs.worker"
_MAX_LOG_BYTES = 1_000_000  # if a worker dies at its start, another starts every second
_CHECKOUT = Path(__file__).resolve().parents[2]


def task_class(kind: str) -> type[Task]:
    """Return the task class of a kind of work."""
    if kind not in KINDS:
        raise AuditError("This kind of work is of another version of the program.", where=kind)
    task_type: type[Task] = resolve_name(KINDS[kind])
    return task_type


@contextmanager
def open_task(job: Job) -> Iterator[Task]:
    """Yield the task of a job; if the block fails or is stopped, record that in the table."""
    try:
        yield task_class(job.kind).from_order(read_order(job.job_id))
    except (AuditCancelled, KeyboardInterrupt):
        table.end(job.job_id, state="cancelled")
        raise
    except (AuditError, MemoryError) as error:
        failure = Failure("Memory ran out; everything finished before is kept.", do=_FREE)
        if isinstance(error, AuditError):
            failure = Failure(error.what, error.where, error.do)
        table.end(job.job_id, state="failed", failure=failure)
        raise


def ensure_worker(device: str, *, expected_kind: str = "") -> bool:
    """Start a device's worker if none lives; return whether one was started.

    With an `expected_kind` of work, the worker also starts a process that imports what such work
    needs, and gives it the first job of that kind.
    """
    lock = locks.worker_lock(device)
    if lock is None:
        return False
    # The shell ends at once, so the worker is no child of this process. It inherits the lock.
    words = ["/bin/sh", "-c", '"$@" &', "sh", sys.executable, "-m", WORKER_MODULE, device]
    words += [str(lock.descriptor), *filter(None, [expected_kind])]
    with lock:
        started = _start(words, log=f"worker-{device}", descriptor=lock.descriptor)
        if started.wait():
            raise locks.explain_unusable(OSError("the worker cannot be started"))
    return True


@dataclass(frozen=True)
class ReadyChild:
    """A process that imports what a kind of work needs and waits for its job.

    It ends with the process that started it.
    """

    kind: str
    process: subprocess.Popen[bytes]
    line: socket.socket

    @classmethod
    def start(cls, module: str, *, kind: str) -> ReadyChild:
        """Start the process."""
        line, child_line = socket.socketpair()
        with child_line:
            words = [sys.executable, "-m", module, kind, str(child_line.fileno())]
            process = _start(words, log=f"ready-{kind}", descriptor=child_line.fileno())
        return cls(kind, process, line)

    def give(self, job_id: str, *, lock: Lock) -> subprocess.Popen[bytes] | None:
        """Give it a job and the device's lock; return its process, None if it no longer lives."""
        with self.line, suppress(OSError):
            socket.send_fds(self.line, [job_id.encode()], [lock.descriptor])
            if self.process.poll() is None:
                return self.process
        return None


def start_child(module: str, *, job_id: str, lock: Lock) -> subprocess.Popen[bytes]:
    """Start the process of one job, which from then on also holds the device's lock."""
    words = [sys.executable, "-m", module, job_id]
    return _start(words, log=f"job-{job_id}", descriptor=lock.descriptor)


def open_log(name: str) -> BinaryIO:
    """Open a log of the jobs to write at its end; only its owner can read it."""
    path, flags = locks.jobs_dir("logs") / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.fdopen(os.open(path, flags | os.O_CLOEXEC, 0o600), "ab")


def _start(words: list[str], *, log: str, descriptor: int) -> subprocess.Popen[bytes]:
    try:
        with open_log(log) as file:
            if os.fstat(file.fileno()).st_size > _MAX_LOG_BYTES:
                file.truncate(0)
            return subprocess.Popen(
                words,
                cwd=_CHECKOUT,
                env=PASSIVE_THREADS | os.environ,
                start_new_session=True,
                pass_fds=(descriptor,),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
    except OSError as error:
        raise locks.explain_unusable(error) from None


MAX_ATTEMPTS = 3
_DAY_SECONDS = 86_400.0
LOOK_SECONDS = 1.0
"""Seconds between two looks of servers and workers for jobs whose process died."""
_DIED = (
    "The system stopped this process {n} times, most often because memory ran out; everything "
    "finished before is kept."
)
_FREE = (
    "Free memory on this machine, then resume; or ask anew with a smaller micro-batch, which is "
    "another question."
)


def recover() -> None:
    """Settle jobs whose process died, and see that every queue with work has a worker.

    One look is not enough: the locks of a dying process are released some moments later.
    """
    active_devices = {job.device for job in table.list_jobs(is_active=True)}
    for device in active_devices.intersection(locks.QUEUES):
        if (lock := locks.device_lock(device)) is not None:  # no process computes on it
            with lock:
                settle(device)
        remaining_jobs = table.list_jobs(is_active=True)
        if any((job.device, job.runner) == (device, WORKER) for job in remaining_jobs):
            ensure_worker(device)


@contextmanager
def look_after_jobs(*, daily: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Recover jobs repeatedly in a thread that runs as long as the block.

    `daily` is called at the beginning and once a day.
    """
    ended = threading.Event()

    def look() -> None:
        due = 0.0
        while not ended.is_set():
            if time.monotonic() >= due:
                due = time.monotonic() + _DAY_SECONDS
                with suppress(Exception):  # `audit purge` shows the error
                    daily()
            with suppress(Exception):  # the pages show the error; the next look may succeed
                recover()
            ended.wait(LOOK_SECONDS)

    thread = threading.Thread(target=look, name="looking after jobs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def settle(device: str) -> None:
    """Settle a device's dead jobs; the caller holds the device's lock.

    The process of a running job holds that lock, so every job still marked as running is dead.
    """
    for job in table.list_jobs(is_active=True):
        if job.device == device and job.state == "running":
            _settle(job)
        elif job.device == device and job.runner == COMMAND:
            is_left_to_command(job)


def is_left_to_command(job: Job) -> bool:
    """Return whether a waiting job's command lives; if not, mark the job as interrupted."""
    lock = locks.job_lock(job.job_id)
    if lock is None:
        return True
    with lock:
        if table.end(job.job_id, state="interrupted"):
            locks.forget_job_lock(job.job_id)
    return False


def _settle(job: Job) -> None:
    with suppress(AuditError, OSError):
        task_class(job.kind).clear_abandoned()
    if job.is_cancel_wanted:
        table.end(job.job_id, state="cancelled")
    elif job.runner == COMMAND:
        table.end(job.job_id, state="interrupted")
        locks.forget_job_lock(job.job_id)
    elif job.n_attempts < MAX_ATTEMPTS:
        table.put_back(job.job_id)
    else:
        failure = Failure(Message(_DIED, n=job.n_attempts), do=_FREE)
        table.end(job.job_id, state="failed", failure=failure)


jobs = table.list_jobs
active_job = table.find_active


def active_jobs() -> tuple[Job, ...]:
    """Return the jobs that wait or run, the newest first."""
    return table.list_jobs(is_active=True)


def submit(kind: str, *, owner: str = "", **fields: object) -> Job:
    """Ask for work of a kind; return the job that does it: new, active, or already done.

    Raises AuditError if a field is refused, or the data directory cannot be used.
    """
    return ask(task_class(kind)(**fields).question(), owner=owner)


def ask(question: Question, *, owner: str = "") -> Job:
    """Add a job for a question, or return the job that the question already has."""
    check_change_allowed()
    result = task_class(question.kind).read_answer(question)
    if result and (done_job := table.find_latest_done(question.digest)):
        return done_job
    job = table.insert(question, owner=owner, result=result) or table.find_active(question.digest)
    if job is None:  # it ended in this moment
        return ask(question, owner=owner)
    if job.is_active:
        ensure_worker(job.device)
    return job


def cancel(job_id: str) -> Job:
    """Stop a job; finished parts are kept. A job that has ended stays unchanged."""
    check_change_allowed()
    table.ask_to_cancel(job(job_id).job_id)
    recover()
    return job(job_id)


def resume(job_id: str) -> Job:
    """Continue a failed, cancelled or interrupted job where it stopped; leave others unchanged.

    Raises AuditError if there is no such job, or if its order is no longer kept.
    """
    check_change_allowed()
    old = job(job_id)
    if old.state not in table.RESUMABLE:
        return old
    read_order(old.job_id)
    if not table.queue_again(old.job_id):
        return table.find_active(old.question) or job(job_id)
    ensure_worker(old.device)
    return job(job_id)


def job(job_id: str) -> Job:
    """Return the job with this id or beginning of an id (at least 4 digits).

    Raises AuditError unless exactly one job fits.
    """
    matches = table.find_by_prefix(job_id) if len(job_id) >= 4 else ()
    if len(matches) != 1:
        sentence = "{n_found} jobs begin so." if matches else "There is no such job."
        do = "`python -m audit jobs` lists all."
        raise AuditError(sentence, where="job", do=do, n_found=len(matches))
    return matches[0]


def can_resume(job: Job) -> bool:
    """Return whether a job ended without an answer and its order is still kept."""
    return job.state in table.RESUMABLE and has_order(job.job_id)


STILL_SECONDS = 30.0
"""Seconds without progress after which a page says what a job waits for."""
_LONG_SECONDS = 120.0  # from here on in whole minutes
_LITTLE_MEMORY = 2**28


def find_wait_cause(job: Job) -> Message | None:
    """Return what an active job waits for and how to change that; None while it makes progress."""
    since = job.created if job.state == "queued" else job.moved
    if not (job.is_active and since) or (seconds := seconds_since(since)) < STILL_SECONDS:
        return None
    n_cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    duration = Message("{n:.0f} s", n=seconds)
    if seconds >= _LONG_SECONDS:
        duration = Message("{n:.0f} min", n=seconds / 60)
    if job.state == "queued" and job.n_before:
        return Message(
            "It waits for {n_before} jobs before it. Cancel one of them, and this one starts "
            "sooner.",
            n_before=job.n_before,
        )
    if (free := find_free_memory()) < _LITTLE_MEMORY:
        return Message(
            "No progress for {duration}: only {free:.0f} MB of memory are free. Close other "
            "programs, or cancel this job and ask for a smaller one.",
            duration=duration,
            free=free / 2**20,
        )
    if load > 1.5 * n_cores:
        return Message(
            "No progress for {duration}: about {load:.0f} processes share the {n_cores} "
            "processor cores of this machine. Stop other work on it, or wait: nothing is lost.",
            duration=duration,
            load=load,
            n_cores=n_cores,
        )
    return Message(
        "No progress for {duration}: one step takes long, for example reading a large "
        "model. You can wait, or cancel this job and resume it later: finished parts are kept.",
        duration=duration,
    )


def forget(job_id: str) -> None:
    """Remove an ended job and its order, which holds names; its results stay."""
    check_change_allowed()
    table.forget(job_id)
