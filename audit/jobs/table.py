"""The table of jobs, their orders, and the contact by which running work uses the table."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from audit.errors import AuditError, Message, make_version_error
from audit.jobs.locks import explain_unusable, jobs_dir, table_lock
from audit.progress import FINISHING, LOADING, Progress, ProgressListener
from audit.shelf import is_code, make_time_stamp, new_identifier, whole_file
from audit.task import Contact, Question
from cache.store import private_database

ACTIVE = ("queued", "running")
RESUMABLE = ("failed", "cancelled", "interrupted")
WORKER, COMMAND = "worker", "cli"
"""Runner of a job: the device's worker, or the command that asked for it."""


@dataclass(frozen=True)
class Failure:
    """Why a job failed, in the words of an `AuditError`."""

    what: str
    where: str = ""
    do: str = ""

    def to_text(self) -> str:
        """Return the failure as JSON: each sentence with its key and values."""
        return json.dumps({name: Message(part).dump() for name, part in asdict(self).items()})

    @classmethod
    def read(cls, text: str) -> Failure:
        """Return the failure that `to_text` wrote."""
        messages = json.loads(text)
        return cls(*(Message.read(messages[name]) for name in ("what", "where", "do")))


@dataclass(frozen=True)
class Job:
    """One line of the table of jobs."""

    job_id: str  # 12 random hexadecimal digits
    kind: str  # one of `audit.jobs.service.KINDS`
    label: str  # the models or notes; never a person's name
    scenario: int  # 1 or 2; 0 for none or several
    device: str  # its queue: "cpu", "cuda", or "short"
    question: str  # digest of the question; active jobs never share one
    state: str  # one of `ACTIVE`, "done", or one of `RESUMABLE`
    phase: str  # current phase, in the engine's words
    share: float  # share done, 0-1
    seconds_left: float | None  # None if it cannot be estimated yet
    moved: str  # when phase or share last changed, like `created`; "" before the first start
    created: str  # like the next two an ISO time stamp in UTC, "" for none
    started: str
    finished: str
    n_attempts: int  # number of starts
    is_cancel_wanted: bool  # whether somebody asked to stop it
    runner: str  # `WORKER` or `COMMAND`
    failure: Failure | None  # None unless it failed
    result: tuple[str, ...]  # digests of audits, or the identifier of another result
    owner: str  # who asked, by the name of their login
    n_before: int  # jobs ahead of it on the same device; 0 unless it waits

    @property
    def is_active(self) -> bool:
        """Whether it waits or runs."""
        return self.state in ACTIVE

    @property
    def stage(self) -> str:
        """The current phase as a code: letters and underscores only."""
        if self.state == "queued":
            return "waiting"
        if self.state == "running" and self.is_cancel_wanted:
            return "stopping"
        if self.share >= 1:
            return FINISHING
        return (self.phase or LOADING).replace(" model: ", "_").replace(" ", "_")


def write_order(job_id: str, *, order: Mapping[str, JsonValue]) -> None:
    """Store an order completely or not at all, readable only by its owner."""
    try:
        with whole_file(_find_order_path(job_id)) as file:
            file.write(json.dumps(order).encode("ascii"))
    except OSError as error:
        raise explain_unusable(error) from None


def read_order(job_id: str) -> dict[str, JsonValue]:
    """Return a job's order. Raises AuditError if it is missing or damaged."""
    try:
        order = json.loads(_find_order_path(job_id).read_text(encoding="ascii"))
    except (OSError, ValueError):
        order = None
    if not isinstance(order, dict):
        raise AuditError("What this job was to do is no longer kept.", do="Start it again.")
    return order


def has_order(job_id: str) -> bool:
    """Whether a job's order is still kept."""
    return _find_order_path(job_id).is_file()


def forget_order(job_id: str) -> None:
    """Remove an order that will not be needed again."""
    try:
        _find_order_path(job_id).unlink(missing_ok=True)
    except OSError as error:
        raise explain_unusable(error) from None


def _find_order_path(job_id: str) -> Path:
    if not is_code(job_id):
        raise ValueError("no job has such an id")
    return jobs_dir("orders") / f"{job_id}.json"


FILE = "jobs.sqlite3"
_VERSION = 3
_BUSY_SECONDS = 20
_ACTIVE, _RESUMABLE = str(ACTIVE), str(RESUMABLE)
_COLUMNS = """
    job_id text primary key, kind text not null, label text not null, scenario integer not null,
    device text not null, question text not null, state text not null, phase text not null,
    share real not null, seconds_left real, created text not null, started text not null,
    finished text not null, n_attempts integer not null,
    is_cancel_wanted integer not null, runner text not null, failure text not null,
    result text not null, owner text not null, turn integer not null,
    moved text not null default ''
"""
_ADDED = {2: "alter table jobs add column moved text not null default ''"}
"""Earlier version of the table -> what makes it the next version."""
_BEFORE = """
    case when state = 'queued' then (
        select count(*) from jobs other where other.device = jobs.device
        and (other.state = 'running' or (other.state = 'queued' and other.turn < jobs.turn))
    ) else 0 end as n_before
"""


def insert(
    question: Question,
    *,
    owner: str = "",
    runner: str = WORKER,
    job_id: str = "",
    result: tuple[str, ...] = (),
) -> Job | None:
    """Add a waiting job, or a finished one if there is a result; None if the question is active.

    The order of a waiting job is stored before any worker can find the job.
    """
    job_id = job_id or new_identifier()
    if not result:
        write_order(job_id, order=question.order)
    values: dict[str, SqlValue] = dict(
        job_id=job_id,
        kind=question.kind,
        label=question.label,
        scenario=question.scenario,
        device=question.device,
        question=question.digest,
        state="done" if result else "queued",
        phase="",
        share=float(bool(result)),
        seconds_left=None,
        created=make_time_stamp(),
        started="",
        moved="",
        finished=make_time_stamp() if result else "",
        n_attempts=0,
        is_cancel_wanted=0,
        runner=runner,
        failure="",
        result=json.dumps(result),
        owner=owner,
    )
    places = ", ".join(f":{name}" for name in values)
    n_added = _execute(
        f"insert into jobs ({', '.join(values)}, turn) select {places}, "
        "coalesce(max(turn), 0) + 1 from jobs where true on conflict do nothing",
        values,
    )
    if not n_added:
        forget_order(job_id)
    return get(job_id) if n_added else None


def get(job_id: str) -> Job | None:
    """Return the job with this id, or None."""
    return _select_first("job_id = ?", job_id)


def find_active(question: str) -> Job | None:
    """Return the waiting or running job of a question."""
    return _select_first(f"question = ? and state in {_ACTIVE}", question)


def find_latest_done(question: str) -> Job | None:
    """Return the newest job that answered a question."""
    return _select_first("question = ? and state = 'done'", question)


def find_oldest_queued(device: str) -> Job | None:
    """Return the job that is next on a device."""
    return _select_first("device = ? and state = 'queued'", device, order="turn")


def has_work(device: str) -> bool:
    """Return whether a job of a device waits or is marked as running."""
    return _select_first(f"device = ? and state in {_ACTIVE}", device) is not None


def list_jobs(*, is_active: bool = False) -> tuple[Job, ...]:
    """Return all jobs, or those that wait or run, the newest first."""
    return _select(
        f"state in {_ACTIVE} order by turn desc" if is_active else "1 order by turn desc"
    )


def find_by_prefix(prefix: str) -> tuple[Job, ...]:
    """Return the jobs whose id begins with `prefix`."""
    return _select("substr(job_id, 1, ?) = ?", len(prefix), prefix)


def claim(job_id: str) -> bool:
    """Mark a waiting job as running; return False if it no longer waits."""
    return _change(
        job_id,
        "state = 'queued'",
        "state = 'running', n_attempts = n_attempts + 1, phase = 'loading', started = :now, "
        "moved = :now, seconds_left = null",
    )


def note_progress(job_id: str, progress: Progress) -> bool | None:
    """Record a running job's progress; return whether it should stop, None if it is not running."""
    values = {
        "job_id": job_id,
        "phase": FINISHING if progress.share >= 1 else progress.phase,
        "share": progress.share,
        "left": progress.seconds_left,
        "now": make_time_stamp(),
    }
    with _open_table() as table:
        rows = table.execute(
            "update jobs set moved = case when phase = :phase and share = :share then moved "
            "else :now end, phase = :phase, share = :share, seconds_left = :left "
            "where job_id = :job_id and state = 'running' returning is_cancel_wanted",
            values,
        ).fetchall()
    return bool(rows[0]["is_cancel_wanted"]) if rows else None


def is_cancel_wanted(job_id: str) -> bool:
    """Return whether a job should stop, or no longer exists."""
    job = get(job_id)
    return job is None or job.is_cancel_wanted


def ask_to_cancel(job_id: str) -> None:
    """End a waiting job at once, or ask a running job to stop."""
    _change(job_id, "state = 'queued'", "state = 'cancelled', finished = :now")
    _change(job_id, "state = 'running'", "is_cancel_wanted = 1")


def end(
    job_id: str, *, state: str, result: tuple[str, ...] = (), failure: Failure | None = None
) -> bool:
    """Record how an active job ended; return False if it had already ended."""
    has_ended = _change(
        job_id,
        f"state in {_ACTIVE}",
        "state = :state, finished = :now, seconds_left = null, result = :result, "
        "failure = :failure, share = case when :state = 'done' then 1 else share end",
        state=state,
        result=json.dumps(result),
        failure=failure.to_text() if failure else "",
    )
    if state == "done":
        forget_order(job_id)
    return has_ended


def put_back(job_id: str, *, is_tried: bool = True) -> bool:
    """Queue a job again in its old turn, after its process died or could not be started."""
    return _change(
        job_id,
        "state = 'running'",
        "state = 'queued', seconds_left = null, n_attempts = n_attempts - :n_not_tried",
        n_not_tried=int(not is_tried),
    )


def queue_again(job_id: str) -> bool:
    """Queue an ended job again, behind all others; return False if its question is active."""
    try:
        return _change(
            job_id,
            f"state in {_RESUMABLE}",
            "state = 'queued', turn = (select max(turn) + 1 from jobs), runner = 'worker', "
            "is_cancel_wanted = 0, n_attempts = 0, failure = '', finished = '', share = 0, "
            "phase = ''",
        )
    except sqlite3.IntegrityError:
        return False


def forget(job_id: str) -> None:
    """Remove an ended job and its order; a job that waits or runs stays."""
    if _execute(f"delete from jobs where job_id = ? and state not in {_ACTIVE}", (job_id,)):
        forget_order(job_id)


SqlValue = str | int | float | None


def _change(job_id: str, condition: str, change: str, **values: SqlValue) -> bool:
    query = f"update jobs set {change} where job_id = :job_id and {condition}"
    return _execute(query, values | {"job_id": job_id, "now": make_time_stamp()}) > 0


def _execute(query: str, values: Mapping[str, SqlValue] | tuple[SqlValue, ...]) -> int:
    """Execute a statement and return the number of rows that it changed."""
    with _open_table() as table:
        return table.execute(query, values).rowcount


def _select_first(condition: str, value: str, *, order: str = "turn desc") -> Job | None:
    return next(iter(_select(f"{condition} order by {order} limit 1", value)), None)


def _select(condition: str, *values: str | int) -> tuple[Job, ...]:
    with _open_table() as table:
        rows = table.execute(f"select *, {_BEFORE} from jobs where {condition}", values).fetchall()
    return tuple(_read_job(dict(row)) for row in rows)


def _read_job(row: dict[str, Any]) -> Job:
    row |= {
        "is_cancel_wanted": bool(row["is_cancel_wanted"]),
        "failure": Failure.read(row["failure"]) if row["failure"] else None,
        "result": tuple(json.loads(row["result"])),
    }
    return Job(**{field.name: row[field.name] for field in fields(Job)})


@contextmanager
def _open_table() -> Iterator[sqlite3.Connection]:
    path = jobs_dir() / FILE
    try:
        private_database(path)
        # One connection per call: pages run in new threads, and opening one takes 0.2 ms.
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as table:
            table.row_factory = sqlite3.Row
            if _read_version(table) != _VERSION:
                _make_table(table)
            yield table
    except sqlite3.IntegrityError:
        raise
    except (sqlite3.Error, OSError) as error:
        raise explain_unusable(error) from None


@contextmanager
def lock_table() -> Iterator[Path]:
    """Block changes of the table while the block runs; yield its file."""
    with _open_table() as table:
        table.execute("begin immediate")
        try:
            yield jobs_dir() / FILE
        finally:
            table.execute("rollback")


def _read_version(table: sqlite3.Connection) -> int:
    return int(table.execute("pragma user_version").fetchone()[0])


def _make_table(table: sqlite3.Connection) -> None:
    # If two processes changed the journal at once, both would fail because the table is locked.
    with table_lock():
        version = _read_version(table)
        if version not in (0, _VERSION, *_ADDED):  # 0: it is new
            raise make_version_error(where="jobs")
        for statement in (
            *(change for earlier, change in _ADDED.items() if 0 < version <= earlier),
            "pragma journal_mode = wal",
            f"create table if not exists jobs ({_COLUMNS})",
            "create unique index if not exists one_active on jobs (question) "
            f"where state in {_ACTIVE}",
            "create index if not exists by_turn on jobs (device, state, turn)",
            f"pragma user_version = {_VERSION}",
        ):
            table.execute(statement)


WRITE_SECONDS = 0.25
ASK_SECONDS = 0.25
"""Seconds between two writes, and between two checks whether to stop; a write also checks."""


def table_contact(
    job_id: str,
    *,
    listener: ProgressListener = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Contact:
    """Return a contact that writes progress to the table a few times a second and reads from it."""
    last_write = last_question = 0.0
    last_phase, is_wanted = "", False

    def listen(progress: Progress) -> None:
        nonlocal last_write, last_question, last_phase, is_wanted
        listener(progress)
        moment, phase = time.monotonic(), FINISHING if progress.share >= 1 else progress.phase
        if last_phase != phase or moment - last_write >= WRITE_SECONDS:
            last_write, last_phase = moment, phase
            with suppress(AuditError):  # a busy table or a full disk must not end long work
                if (answer := note_progress(job_id, progress)) is not None:
                    last_question, is_wanted = moment, answer

    def should_stop() -> bool:
        nonlocal last_question, is_wanted
        moment = time.monotonic()
        if not is_wanted and moment - last_question >= ASK_SECONDS:
            last_question = moment
            with suppress(AuditError):  # the next call checks again
                is_wanted = is_cancel_wanted(job_id)
        return is_wanted

    return Contact(listen, should_stop, say)
