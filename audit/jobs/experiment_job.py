"""The job "experiment": the paper's sections 3 and 4, asked for by commands.

Comes in: an order and a folder. Goes out: the digests of its audits; the tables lie in the folder.
Asking is torch-free and reads no note.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.experiment.order import ExperimentOrder, order_from_json
from audit.home import results_dir
from audit.jobs.contact import Contact
from audit.jobs.locks import queue_of
from audit.jobs.question import Question
from audit.models.files import inspect_model
from audit.request import question_digest
from cache.store import Store

KIND = "experiment"


def experiment_question(order: ExperimentOrder, *, out: Path) -> Question:
    """Return an experiment as a question of the table.

    Parameters
    ----------
    out
        The folder of its corpus, models and tables.

    Raises
    ------
    AuditError
        If the general model is refused.
    """
    folder = str(out.resolve())
    return Question(
        kind=KIND,
        label=inspect_model(order.general).name,
        scenario=0,
        device=queue_of(order.device),
        digest=question_digest({KIND: order.digest(), "out": folder}),
        audits=(),
        order={"experiment": order.to_json(), "out": folder},
    )


def answer_experiment(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Do an experiment, or what is left of it; returns the digests of its audits."""
    from audit.experiment.run import run_experiment

    with Store(results_dir()) as store:
        result = run_experiment(
            order_from_json(order["experiment"]),
            out=Path(order["out"]),
            store=store,
            progress=lambda report: contact.report(report, ()),
            should_stop=contact.should_stop,
            say=contact.say,
        )
    return result.digests
