"""Commands of jobs: list, stop and resume them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from audit.cli.commands import Result, command
from audit.home import (
    results_dir,
)
from audit.jobs import service
from audit.report.audit_store import read_finished_sizes
from cache.store import Store

JobId = Annotated[str, "the job's id, or the beginning of it"]


@command()
def jobs() -> Result:
    """List what waits, runs and has ended; `--json` says what both models of an audit finished."""
    service.recover()
    with Store(results_dir()) as store:
        job_rows = [
            asdict(job)
            | {"stage": job.stage, "finished": read_finished_sizes(job.question, store=store)}
            for job in service.jobs()
        ]
    return {"jobs": job_rows}


@command()
def cancel(job: JobId) -> Result:
    """Stop a job; what is finished is kept."""
    return asdict(service.cancel(job))


@command()
def resume(job: JobId) -> Result:
    """Let a job go on where it stopped, in the background."""
    return asdict(service.resume(job))
