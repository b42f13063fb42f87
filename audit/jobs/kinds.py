"""The kinds of jobs: a list of tasks, and the two that audit; torch-free until they run."""

from __future__ import annotations

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
from audit.models.inspect import display_name
from audit.progress import Pace, Progress
from audit.report.report import AuditReport
from audit.task import Contact, Part, Question, Task, queue_of
from audit.training.kept import PretrainTask
from cache.store import Store


class AuditTask(Task):
    """One audit of a pair of models."""

    job = "audit"

    request: AuditRequest

    def question(self) -> Question:
        """Return the question, named as its audit is; reads every byte of both models."""
        asked, digest = self.request, self.request.audit_digest()
        label = f"{display_name(asked.general)} → {display_name(asked.hospital)}"
        return Question(
            self.job, label, asked.scenario_number, queue_of(asked.device), digest, (digest,),
            self.plain(),
        )  # fmt: skip

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Answer the question; returns the digest of its audit."""
        from audit.run import run_audit

        with Store(results_dir()) as store:
            report = run_audit(
                self.request,
                store=store,
                progress=lambda p: contact.report(p, finished_part(self.request, p)),
                should_stop=contact.should_stop,
            )
        return (report.digest,)


class DemoTask(Task):
    """The audits of the demo hospital."""

    job = "demo"

    settings: DemoSettings = DemoSettings()
    all_of_them: bool = False
    directory: Path | None = None
    """Of a demo hospital other than the shipped one."""

    def requests(self) -> tuple[tuple[str, AuditRequest], ...]:
        """Return the demo's audits as (name, request)."""
        directory = self.directory or DEMO_HOSPITAL
        audits = demo_audits(all_of_them=self.all_of_them)
        return tuple(
            (name, demo_request(settings=self.settings, directory=directory, **how))
            for name, how in audits
        )

    def question(self) -> Question:
        """Return the question, which its audits answer."""
        requests = self.requests()
        digests = tuple(request.audit_digest() for _, request in requests)
        first = requests[0][1]
        label = f"{first.general.name} → {first.hospital.name}"
        device = queue_of(first.device)
        return self.asked(label=label, about=digests, device=device, audits=digests)

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Audit the demo hospital, and note which audits are the demo's."""
        from audit.run import run_audit

        requests = self.requests()
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
                known = name if self.directory is None else f"{name} in {self.directory}"
                remember({known: reports[name]}, store=store)
        return tuple(report.digest for report in reports.values())


TASKS: tuple[type[Task], ...] = (
    AuditTask, DemoTask, PretrainTask, CorpusTask, ExperimentTask, LeakageTask, TaggerTask,
    TaggingTask, ScoreTask,
)  # fmt: skip
KINDS: dict[str, Callable[[Mapping[str, Any], Contact], tuple[str, ...]]] = {
    task.job: task.answer for task in TASKS
}
"""Kind of job -> what it does."""


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
