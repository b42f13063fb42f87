"""What the kinds of jobs do: from an order to the digests of the audits that came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.attack.question import AuditRequest
from audit.corpus.make import CorpusTask
from audit.deid.scoring import ScoreTask
from audit.deid.tasks import TaggerTask, TaggingTask
from audit.demo import DemoSettings, demo_audits, demo_request, remember
from audit.experiment.leakage_tables import LeakageTask
from audit.experiment.paper_tables import ExperimentTask
from audit.home import DEMO_HOSPITAL, results_dir
from audit.progress import Pace, Progress
from audit.report.report import AuditReport
from audit.task import Contact, Part
from audit.training.kept import PretrainTask
from cache.store import Store

Answer = Callable[[Mapping[str, Any], Contact], tuple[str, ...]]


def answer_audit(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Answer one question."""
    from audit.run import run_audit

    request = AuditRequest.read(json.dumps(order["request"]), where="request")
    with Store(results_dir()) as store:
        report = run_audit(
            request,
            store=store,
            progress=lambda p: contact.report(p, finished_part(request, p)),
            should_stop=contact.should_stop,
        )
    return (report.digest,)


def answer_demo(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Audit the demo hospital, and note which audits are the demo's."""
    from audit.run import run_audit

    requests = demo_requests(order)
    reports: dict[str, AuditReport] = {}
    pace = Pace()
    with Store(results_dir()) as store:
        for number, (name, request) in enumerate(requests):
            contact.say(f"Demo audit, of a made-up hospital: {name}")
            reports[name] = run_audit(
                request,
                store=store,
                progress=_over_all(number, n_audits=len(requests), pace=pace, contact=contact),
                should_stop=contact.should_stop,
            )
            contact.say(reports[name].verdict.english)
            # At once, and with a name of its own where the demo hospital is another.
            known = name if order["directory"] is None else f"{name} in {order['directory']}"
            remember({known: reports[name]}, store=store)
    return tuple(report.digest for report in reports.values())


KINDS: dict[str, Answer] = {
    "audit": answer_audit,
    "demo": answer_demo,
    "pretrain": PretrainTask.answer,
    "corpus": CorpusTask.answer,
    "experiment": ExperimentTask.answer,
    "leakage": LeakageTask.answer,
    "tagger": TaggerTask.answer,
    "tagging": TaggingTask.answer,
    "score": ScoreTask.answer,
}
"""Kind of job -> what it does."""


def demo_order(
    settings: DemoSettings, *, all_of_them: bool = False, directory: Path | None = None
) -> dict[str, Any]:
    """Return the order of a demo; a directory holds a demo hospital other than the shipped one."""
    return {
        "settings": vars(settings).copy(),
        "all_of_them": all_of_them,
        "directory": None if directory is None else str(directory),
    }


def demo_requests(order: Mapping[str, Any]) -> tuple[tuple[str, AuditRequest], ...]:
    """Return the demo's audits as (name, request)."""
    settings = DemoSettings(**order["settings"])
    directory = DEMO_HOSPITAL if order["directory"] is None else Path(order["directory"])
    audits = demo_audits(all_of_them=order["all_of_them"])
    return tuple(
        (name, demo_request(settings=settings, directory=directory, **how)) for name, how in audits
    )


def finished_part(request: AuditRequest, progress: Progress) -> Part:
    """Return how many inputs or documents both models have finished, as settings of a question.

    Only whole shards are kept. M_general comes first, so M_hospital's share is what both have.
    """
    from audit.attack.evidence import CHAIN_INPUTS_PER_SHARD, DOCUMENTS_PER_SHARD, INPUTS_PER_SHARD
    from audit.models.load import pick_device

    shares = dict(progress.by_phase)
    if request.scenario_number == 1:
        n_shard = DOCUMENTS_PER_SHARD[pick_device(request.device).partition(":")[0]]
        n = _whole_shards(
            request.generation.n_documents, shares, phase="hospital model: documents", n=n_shard
        )
        return (("n_documents", n),) if n else ()
    wanted = request.posterior
    n = _whole_shards(
        wanted.n_inputs, shares, phase="hospital model: posteriors", n=INPUTS_PER_SHARD
    )
    n_chain = _whole_shards(
        wanted.n_chain_inputs, shares, phase="hospital model: chain", n=CHAIN_INPUTS_PER_SHARD
    )
    return (("n_inputs", n), ("n_chain_inputs", n_chain)) if n else ()


def _whole_shards(n_total: int, shares: Mapping[str, float], *, phase: str, n: int) -> int:
    share = shares.get(phase, 0.0)
    # A share is a fraction of floats: a whole shard may be told as one unit less.
    return n_total if share >= 1 else int(share * n_total + 1e-6) // n * n


def _over_all(
    number: int, *, n_audits: int, pace: Pace, contact: Contact
) -> Callable[[Progress], None]:
    """Return a listener that tells the progress of one of several audits as that of all."""

    def listen(progress: Progress) -> None:
        done = number + progress.share
        left = pace.seconds_left(done, total=n_audits, now=time.monotonic())
        whole = replace(progress, done=done, total=n_audits, seconds_left=left, by_phase=())
        contact.report(whole, ())

    return listen
