"""The jobs of the Train page: the question that starts one, and which training a job works on."""

from __future__ import annotations

from audit.errors import AuditError
from audit.jobs.table import read_order
from audit.pretrain import PretrainTask
from audit.task import Question
from audit.training.config import TrainSettings
from pages.ui.train_choice import Subject

PRETRAIN_JOB_KIND = PretrainTask.job
__all__ = ["PRETRAIN_JOB_KIND", "question_of", "run_of"]


def question_of(subject: Subject, settings: TrainSettings, *, title: str, device: str) -> Question:
    """Return a training as a question of the table of jobs.

    Raises
    ------
    AuditError
        If the model or the corpus is gone or refused.
    """
    task = PretrainTask(
        general=subject.parent.path,
        settings=settings,
        corpus_id=subject.corpus.corpus_id,
        source=subject.source,
        title=" ".join(title.split()),
        device=device,
    )
    return task.question()


def run_of(job_id: str) -> str:
    """Return the identifier of the training that a job works on; "" where it is not known."""
    try:
        return str(read_order(job_id).get("run_id", ""))
    except AuditError:
        return ""
