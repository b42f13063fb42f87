"""A job in words: what it is, how far it has come, why it ended."""

from __future__ import annotations

from audit.errors import AuditError, written
from audit.jobs.table import COMMAND, FINISHING, Job
from audit.task import SHORT
from pages.ui.language import Words
from pages.ui.text import day, escaped

_MINUTE, _HOUR = 60, 3600


def job_head(say: Words, job: Job, *, is_chosen: bool = False) -> str:
    """Return the upper part of a job's card as HTML."""
    classes = f"ka-job ka-job-{job.state}{' ka-job-chosen' if is_chosen else ''}"
    return (
        f'<div class="{classes}"><p class="ka-job-line">'
        f'<span class="ka-job-state">{escaped(say.text(f"jobs_state_{job.state}"))}</span> '
        f"<strong>{escaped(_what(say, job))}</strong> {escaped(job.label)}</p>"
        f"{_reasons(say, job)}"
        f'<p class="ka-footer">{escaped(" · ".join(_facts(say, job)))}</p></div>'
    )


def progress_text(say: Words, job: Job) -> str:
    """Return what stands at a job's progress bar; trusted text, for a Streamlit label."""
    stage = stage_text(say, job)
    if job.state == "queued":
        return stage
    percent = whole_percent(job)
    left = time_left(say, job.seconds_left)
    if not left or job.stage == "stopping" or job.stage == FINISHING:
        return say.text("jobs_progress", stage=stage, percent=percent)
    return say.text("jobs_progress_left", stage=stage, percent=percent, left=left)


def whole_percent(job: Job) -> int:
    """Return the share done as a whole percent, 100 only at the end."""
    return int(100 * job.share)


def time_left(say: Words, seconds: float | None) -> str:
    """Return how long a job will still take, in words that do not pretend to be exact."""
    if seconds is None:
        return ""
    if seconds < 2 * _MINUTE:
        return say.text("jobs_left_seconds", n=max(1, round(seconds)))
    if seconds < _HOUR:
        return say.text("jobs_left_minutes", n=round(seconds / _MINUTE))
    hours, rest = divmod(round(seconds / _MINUTE), _MINUTE)
    return say.text("jobs_left_hours", h=hours, n=rest)


def _what(say: Words, job: Job) -> str:
    if job.kind == "audit":
        return say.text(f"jobs_kind_audit_{job.scenario}")
    return _known_text(say, f"jobs_kind_{job.kind}", "jobs_kind_other")


def stage_text(say: Words, job: Job) -> str:
    """Return what a job is doing, in the words of its kind where it has its own."""
    of_kind = (f"{job.kind}_{job.stage}", job.stage, f"{job.kind}_other", "other")
    return _known_text(say, *(f"jobs_stage_{stage}" for stage in of_kind))


def _known_text(say: Words, *keys: str) -> str:
    return say.text(next(key for key in keys if key in say.sentences))


def _facts(say: Words, job: Job) -> list[str]:
    on = say.text("jobs_beside") if job.device == SHORT else say.text("jobs_on", device=job.device)
    facts = [on, say.text("jobs_asked", at=day(job.created))]
    if job.finished:
        facts.append(say.text("jobs_ended_at", at=day(job.finished)))
    if not job.is_active and job.state != "done" and job.share > 0:
        facts.append(say.text("jobs_reached", percent=whole_percent(job)))
    if job.state == "queued" and job.n_before:
        facts.append(say.text("jobs_position", n=job.n_before))
    if job.owner:
        facts.append(say.text("jobs_by", who=job.owner))
    if job.runner == COMMAND:
        facts.append(say.text("jobs_by_command"))
    if job.n_attempts > 1:
        facts.append(say.text("jobs_attempts", n=job.n_attempts))
    facts.append(say.text("jobs_id", id=job.job_id))
    return facts


def _reasons(say: Words, job: Job) -> str:
    if job.failure is not None:
        what, where = job.failure.what, job.failure.where
        lines = [
            AuditError(what, where=where).written(say.language),
            written(job.failure.do, say.language),
        ]
    elif job.state in ("cancelled", "interrupted"):
        # A corpus is whole or not at all: nothing of a build that was stopped is kept.
        of = "_corpus" if job.kind == "corpus" else ""
        lines = [say.text(f"jobs_{job.state}_why{of}")]
    else:
        lines = []
    return "".join(f'<p class="ka-job-why">{escaped(line)}</p>' for line in lines if line)
