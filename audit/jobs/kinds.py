"""The kinds of long work: where the task of each stands, loaded when its kind is asked for."""

from __future__ import annotations

from pkgutil import resolve_name

from audit.errors import AuditError
from audit.jobs.table import Job, read_order
from audit.task import Task

KINDS = {
    "audit": "audit.run:AuditTask",
    "demo": "audit.demo:DemoTask",
    "pretrain": "audit.pretrain:PretrainTask",
    "corpus": "audit.corpus.make:CorpusTask",
    "experiment": "audit.experiment.paper:ExperimentTask",
    "leakage": "audit.experiment.leakage:LeakageTask",
    "tagger": "audit.deid.tasks:TaggerTask",
    "tagging": "audit.deid.tasks:TaggingTask",
    "score": "audit.deid.scoring:ScoreTask",
}


def task_class(kind: str) -> type[Task]:
    """Return what a kind of work is asked to do."""
    if kind not in KINDS:
        raise AuditError("This kind of work is of another version of the program.", where=kind)
    found: type[Task] = resolve_name(KINDS[kind])
    return found


def task_of(job: Job) -> Task:
    """Return what a job is to do; an `AuditError` where that is no longer kept."""
    return task_class(job.kind).ordered(read_order(job.job_id))
