"""What the command line does with jobs: answer a question as one, list, cancel, resume, work."""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from audit.console import progress_line, say
from audit.errors import AuditError
from audit.jobs import service
from audit.jobs.here import answer_here, waits_for_text
from audit.jobs.job import Job
from audit.jobs.locks import queue_of
from audit.jobs.question import Question
from audit.jobs.worker import work
from audit.progress import duration
from audit.report import AuditReport
from cache.store import Store

_WATCH_SECONDS = 1.0


def answered(question: Question) -> tuple[str, ...]:
    """Return the digests of the audits that answer a question, computed here if need be.

    What is kept is returned at once. Otherwise a job is registered, so that the pages and other
    commands see it; it waits for its turn and runs in this process.
    """
    service.recover()
    if known := service.kept_answer(question):
        say("Answered before; nothing is computed.")
        return known
    return answer_here(question, progress=progress_line(), say=say)


def kept_report(digest: str, *, store: Store) -> AuditReport:
    """Return a kept audit's report."""
    record = store.get_record(f"audit/{digest}")
    if record is None:
        raise AuditError("The result is damaged.", do="Run the same command again.")
    return AuditReport.from_json(record)


def jobs(options: Namespace) -> dict[str, Any]:
    """List the jobs; with --watch until none is left that waits or runs."""
    service.recover()
    found = service.jobs()
    while options.watch and any(job.is_active for job in found):
        for job in reversed(found):
            if job.is_active:
                say(_line(job))
        time.sleep(_WATCH_SECONDS)
        service.recover()
        found = service.jobs()
    for job in reversed(found):
        say(_line(job))
    return {"jobs": [_plain(job) for job in found]}


def cancel(options: Namespace) -> dict[str, Any]:
    """Stop a job; what is finished is kept."""
    return _said(service.cancel(options.job))


def resume(options: Namespace) -> dict[str, Any]:
    """Let a job go on where it stopped, in the background."""
    return _said(service.resume(options.job))


def worker(options: Namespace) -> dict[str, Any]:
    """Do the jobs of a device here, until none has come for some minutes."""
    device = queue_of(options.device)
    if not work(device):
        say(f"There is a worker for {device} already.")
    return {"device": device}


def _said(job: Job) -> dict[str, Any]:
    say(_line(job))
    return _plain(job)


def _plain(job: Job) -> dict[str, Any]:
    failure = None if job.failure is None else asdict(job.failure)
    if failure is not None:
        failure["settings"] = dict(failure["settings"])
    return asdict(job) | {
        "failure": failure, "part": dict(job.part), "result": list(job.result),
        "stage": job.stage,
    }  # fmt: skip


def _line(job: Job) -> str:
    what = f"scenario {job.scenario}" if job.scenario else job.kind
    how_far = f"  {100 * job.share:.0f} %" if job.state == "running" else ""
    left = "" if job.seconds_left is None else f", {duration(job.seconds_left)} left"
    phase = f"  {job.phase}" if job.state == "running" else ""
    why = f"  {job.failure.what}" if job.failure else ""
    wait = service.waits_for(job)
    waits = "" if wait is None else f"  waits for {waits_for_text(wait)}"
    answers = "  " + " ".join(digest[:12] for digest in job.result) if job.result else ""
    return (
        f"{job.job_id}  {job.created}  {job.state}{how_far}{left}{phase}  {what}  {job.label}  "
        f"{job.device}{waits}{answers}{why}"
    )
