"""Jobs for pages and commands: ask, cancel, resume, look. Torch-free, and answered at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from audit.demo import DemoSettings, demo_digests
from audit.errors import AuditError
from audit.home import results_dir
from audit.inspection import kept_inspection
from audit.jobs import table
from audit.jobs.job import Job, Setting, Wait
from audit.jobs.kinds import demo_order, demo_requests
from audit.jobs.locks import queue_of
from audit.jobs.orders import forget_order, has_order, read_order, write_order
from audit.jobs.question import Question
from audit.jobs.recovery import recover as recover
from audit.jobs.start import ensure_worker
from audit.models.folder import display_name
from audit.report import AuditReport
from audit.request import AuditRequest, GenerationSettings, PosteriorSettings, question_digest
from audit.request_file import audit_digest, request_from_json, request_to_json
from cache.store import Store

_NO_JOB = "There is no such job."


def submit(request: AuditRequest, *, owner: str = "") -> Job:
    """Ask a question: the job that answers it, be it new, under way, or done already.

    Raises
    ------
    AuditError
        If a model directory is refused, or the data directory cannot be used.
    """
    return ask(audit_question(request), owner=owner)


def submit_demo(*, owner: str = "") -> Job:
    """Ask for the demo's audits; raises as `submit`."""
    return ask(demo_question(demo_order(DemoSettings())), owner=owner)


def ask(question: Question, *, owner: str = "") -> Job:
    """Add a job for a question, or return the one that is about it already."""
    result = kept_answer(question)
    if result and (known := table.latest_done(question.digest)) is not None:
        return known
    job_id = table.new_id()
    if not result:
        write_order(job_id, order=question.order)  # before any worker can see the job
    job = table.insert(
        kind=question.kind, label=question.label, scenario=question.scenario,
        device=question.device, question=question.digest, owner=owner, result=result,
        job_id=job_id,
    )  # fmt: skip
    if job is None:
        forget_order(job_id)
        job = table.active(question.digest)
        if job is None:  # it ended in this moment
            return ask(question, owner=owner)
    if job.is_active:
        ensure_worker(job.device)
    return job


def cancel(job_id: str) -> Job:
    """Stop a job; what is finished is kept. A job that has ended stays as it is."""
    table.ask_to_cancel(job(job_id).job_id)
    recover()
    return job(job_id)


def resume(job_id: str) -> Job:
    """Let a failed, cancelled or interrupted job go on where it stopped; others stay as they are.

    Raises
    ------
    AuditError
        If there is no such job, or what it was to do is no longer kept.
    """
    old = job(job_id)
    if old.state in ("done", "queued", "running"):
        return old
    read_order(old.job_id)
    if not table.queue_again(old.job_id):
        return table.active(old.question) or job(job_id)
    ensure_worker(old.device)
    return job(job_id)


def retry_with(job_id: str, *, owner: str = "", **settings: Setting) -> Job:
    """Ask a job's question with other settings, which is a new question.

    Raises
    ------
    AuditError
        If the job was no audit, or there is no such setting.
    """
    return submit(with_settings(_request(job_id), settings), owner=owner)


def submit_part(job_id: str, *, owner: str = "") -> Job:
    """Ask for the part of a job's question that its finished shards answer already.

    Raises
    ------
    AuditError
        If nothing of it is finished.
    """
    part = dict(job(job_id).part)
    if not part:
        raise AuditError("No part of this job is finished yet.", do="Resume it.")
    return retry_with(job_id, owner=owner, **part)


def finished_part(job: Job) -> int:
    """Return how many inputs or documents both models have finished."""
    return job.part[0][1] if job.part else 0


def jobs() -> tuple[Job, ...]:
    """Return all jobs, the one asked last first."""
    return table.every_job()


def active_jobs() -> tuple[Job, ...]:
    """Return the jobs that wait or run, the one asked last first."""
    return table.every_job(is_active=True)


@dataclass(frozen=True)
class Board:
    """What a screen shows of the jobs.

    Attributes
    ----------
    active
        Those that run or wait, in the order in which they will run.
    ended
        The newest of those that ended, the newest first.
    n_hidden
        How many more have ended.
    """

    active: tuple[Job, ...]
    ended: tuple[Job, ...]
    n_hidden: int


def board(*, n_ended: int | None = None, chosen: str = "") -> Board:
    """Return the jobs as a screen shows them; a chosen one is among them if it exists."""
    found = table.every_job()
    active = sorted((j for j in found if j.is_active), key=lambda j: (j.device, j.n_before))
    ended = [j for j in found if not j.is_active]
    shown = ended if n_ended is None else ended[:n_ended]
    shown += [j for j in ended if j.job_id == chosen and j not in shown]
    return Board(tuple(active), tuple(shown), len(ended) - len(shown))


def active_job(digest: str) -> Job | None:
    """Return the job that is answering a question just now."""
    return table.active(digest)


def job(job_id: str) -> Job:
    """Return a job by its id or the beginning of it, at least 4 digits.

    Raises
    ------
    AuditError
        If none or several begin so.
    """
    found = table.with_prefix(job_id) if len(job_id) >= 4 else ()
    if len(found) != 1:
        what = f"{len(found)} jobs begin so." if found else _NO_JOB
        raise AuditError(what, where="job", do="`python -m audit jobs` lists all.")
    return found[0]


def waits_for(job: Job) -> Wait | None:
    """Return what a job waits for, and about how long; None where it waits for nothing."""
    return table.waits_for(job)


def can_resume(job: Job) -> bool:
    """Whether a job ended without an answer and its order is still kept."""
    return not job.is_active and job.state != "done" and has_order(job.job_id)


def forget(job_id: str) -> None:
    """Remove an ended job, and the names in its order, from the list; its results stay."""
    if table.forget(job_id):
        forget_order(job_id)


def audit_question(request: AuditRequest) -> Question:
    """Return a request as a question of the table; reads every byte of both models."""
    digest = audit_digest(request)
    return Question(
        kind="audit",
        label=f"{display_name(request.general)} → {display_name(request.hospital)}",
        scenario=request.scenario_number,
        device=queue_of(request.device),
        digest=digest,
        audits=(digest,),
        order={"request": request_to_json(request)},
    )


def demo_question(order: Mapping[str, Any]) -> Question:
    """Return a demo as a question of the table."""
    requests = demo_requests(order)
    digests = tuple(audit_digest(request) for _, request in requests)
    first = requests[0][1]
    return Question(
        kind="demo",
        label=f"{first.general.name} → {first.hospital.name}",
        scenario=0,
        device=queue_of(first.device),
        digest=question_digest({"demo": digests}),
        audits=digests,
        order=order,
    )


def kept_answer(question: Question) -> tuple[str, ...]:
    """Return the digests of the kept audits that answer a question; empty unless all are there."""
    with Store(results_dir()) as store:
        is_known = question.kind != "demo" or bool(question.order["directory"])
        is_known = is_known or set(question.audits) <= set(demo_digests(store).values())
        is_kept = is_known and all(_is_kept(digest, store=store) for digest in question.audits)
    return question.audits if is_kept else ()


def with_settings(request: AuditRequest, settings: Mapping[str, Setting]) -> AuditRequest:
    """Return a request with other settings of its scenario, or another dtype, device or seed."""
    kind = GenerationSettings if request.scenario_number == 1 else PosteriorSettings
    own = {name: v for name, v in settings.items() if name in {f.name for f in fields(kind)}}
    rest = {name: v for name, v in settings.items() if name not in own}
    if not rest.keys() <= {"dtype", "device", "seed"}:
        raise AuditError("There is no such setting.", where=", ".join(sorted(rest)))
    chosen: Any = kind(**asdict(request.settings) | own)
    which = "generation" if request.scenario_number == 1 else "posterior"
    changes: dict[str, Any] = {which: chosen, **rest}
    return replace(request, **changes)


def _request(job_id: str) -> AuditRequest:
    order = read_order(job(job_id).job_id)
    if "request" not in order:
        raise AuditError("This job has no settings of its own.", do="Resume it.")
    return request_from_json(order["request"])


def _is_kept(digest: str, *, store: Store) -> bool:
    record = store.get_record(f"audit/{digest}")
    if record is None or kept_inspection(digest, store=store) is None:
        return False
    try:
        report = AuditReport.from_json(record)
    except AuditError:
        return False
    return report.scenario["number"] != 1 or store.get_record(f"documents/{digest}") is not None
