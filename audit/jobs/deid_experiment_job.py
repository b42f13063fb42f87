"""The job "leakage": leakage against missed names, asked for by pages and commands.

Comes in: an order. Goes out: the identifier of a kept experiment. Asking is torch-free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.deid.known_taggers import load_tagger
from audit.experiment.deid_kept import arms_dir, is_kept, keep_leakage, leakage_id
from audit.experiment.deid_order import LeakageOrder, leakage_order_from_json
from audit.home import results_dir
from audit.jobs.contact import Contact
from audit.jobs.locks import queue_of
from audit.jobs.question import Question
from audit.request import question_digest
from cache.store import Store

KIND = "leakage"


def leakage_question(order: LeakageOrder) -> Question:
    """Return an experiment as a question of the table.

    Raises
    ------
    AuditError
        If there is no such tagger, or the demo's model is not there.
    """
    kept_as = leakage_id(order)
    return Question(
        kind=KIND,
        label=f"demo {order.language}",
        scenario=0,
        device=queue_of(order.device),
        digest=question_digest({KIND: kept_as}),
        audits=(),
        order={"leakage": order.to_json(), "leakage_id": kept_as},
    )


def answer_leakage(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Do an experiment, or what is left of it; returns its identifier."""
    from audit.experiment.deid_run import run_leakage

    wanted = leakage_order_from_json(order["leakage"])
    # A tagger that was changed since the job was asked for makes another experiment.
    kept_as = leakage_id(wanted)
    if is_kept(kept_as):
        return (kept_as,)
    with Store(results_dir()) as store:
        result = run_leakage(
            wanted,
            load=lambda tagger: load_tagger(tagger, device=wanted.device),
            arms_folder=arms_dir(),
            store=store,
            progress=lambda report: contact.report(report, ()),
            should_stop=contact.should_stop,
            say=contact.say,
        )
    keep_leakage(kept_as, result.tables.files())
    return (kept_as,)
