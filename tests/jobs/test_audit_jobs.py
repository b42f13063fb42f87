"""Real audits as jobs: the same answer as without, finished parts, other settings, the demo."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit.attack.question import AuditRequest, GenerationSettings, PosteriorSettings
from audit.errors import AuditCancelled, AuditError
from audit.home import HOME_VARIABLE, results_dir
from audit.jobs import service, table
from audit.jobs import service as start
from audit.jobs.locks import device_lock, worker_lock
from audit.jobs.table import Job, table_contact
from audit.names.candidates import make_candidates
from audit.notes.passages import read_passages
from audit.progress import Progress
from audit.report.report import AuditReport
from audit.run import AuditTask, finished_part, run_audit
from audit.task import Contact
from cache.store import Store
from tests.jobs.fake_jobs import until, until_state
from tests.models.make_models import WORDS, make_bert
from tests.small_audit import same_answer

PASSAGES = b"text\nmr [NAME] was seen by dr john\n[NAME] is a patient of dr mary\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "data"))
    return results_dir().parent


@pytest.fixture
def no_worker(home: Path) -> Iterator[None]:
    """Nothing is ever started: a worker seems to live."""
    locks = [worker_lock(device) for device in ("cpu", "cuda")]
    yield
    for lock in locks:
        assert lock is not None
        lock.release()


@pytest.fixture
def request_2(tmp_path: Path) -> AuditRequest:
    return AuditRequest(
        scenario_number=2,
        general=make_bert(tmp_path / "general", seed=1, words=WORDS),
        hospital=make_bert(tmp_path / "hospital", seed=2, words=WORDS),
        candidates=make_candidates([("mary", "smith"), ("john", "brown")], is_member=True)
        + make_candidates([("mary", "brown")], is_member=False, control_kind="hard"),
        passages=read_passages(PASSAGES),
        posterior=PosteriorSettings(n_inputs=40, n_chain_inputs=0),
        device="cpu",
    )


@pytest.fixture
def request_1(request_2: AuditRequest) -> AuditRequest:
    return request_2.with_(
        scenario_number=1, passages=None,
        generation=GenerationSettings(n_documents=250, n_steps=2, n_tokens=16),
    )  # fmt: skip


def kept(digest: str) -> AuditReport:
    with Store(results_dir()) as store:
        return AuditReport.from_json(store.get_record(f"audit/{digest}"))


def test_a_worker_gives_the_answer_that_run_audit_gives(
    home: Path, request_2: AuditRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "WORKER_MODULE", "tests.jobs.brief_worker")
    job = service.submit("audit", request=request_2, owner="me")
    done = until_state(job, "done", "failed")
    assert done.failure is None
    with Store(tmp_path / "other") as store:
        alone = run_audit(request_2, store=store)
    assert done.result == (alone.digest,) == (done.question,)
    assert same_answer(kept(alone.digest), alone)
    # What is answered costs nothing, and is the same job.
    until(lambda: (lock := device_lock("cpu")) is not None and lock.release() is None)
    assert service.submit("audit", request=request_2) == service.job(job.job_id)


def test_what_a_command_answered_needs_no_job(home: Path, request_2: AuditRequest) -> None:
    with Store(results_dir()) as store:
        report = run_audit(request_2, store=store)
    assert service.jobs() == ()
    job = service.submit("audit", request=request_2, owner="me")
    assert (job.state, job.result, job.share) == ("done", (report.digest,), 1.0)
    assert service.submit("audit", request=request_2).job_id == job.job_id
    assert not service.can_resume(job)


def cancelled_after(request: AuditRequest, *, phase: str, share: float) -> Job:
    """Answer a request in this process until a phase has come so far, then cancel it."""
    job = service.submit("audit", request=request)
    assert table.claim(job.job_id)
    contact = table_contact(job.job_id)
    has_come = [False]

    def report(progress: Progress, part: Any) -> None:
        has_come[0] = has_come[0] or dict(progress.by_phase).get(phase, 0.0) >= share
        contact.report(replace(progress, phase=f"{progress.phase} {progress.done}"), part)

    order = service.read_order(job.job_id)
    with pytest.raises(AuditCancelled):
        AuditTask.ordered(order).run(Contact(report, lambda: has_come[0], lambda _: None))
    table.end(job.job_id, state="cancelled")
    return service.job(job.job_id)


def test_the_finished_part_of_a_cancelled_job_can_be_looked_at(
    home: Path, no_worker: None, request_1: AuditRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.progress._REPORT_SECONDS", 0.0)
    job = cancelled_after(request_1, phase="hospital model: documents", share=0.85)
    assert dict(job.part) == {"n_documents": 200}
    assert service.finished_part(job) == 200
    part = service.submit_part(job.job_id)
    assert (part.state, part.question != job.question) == ("queued", True)
    contact = Contact(lambda *_: None, lambda: False, lambda _: None)
    order = service.read_order(part.job_id)
    monkeypatch.setattr("audit.attack.generation.generated_shard", None)  # all shards are kept
    (digest,) = AuditTask.ordered(order).run(contact)
    with Store(results_dir()) as store:
        whole = request_1.with_(generation=request_1.generation.with_(n_documents=200))
        assert same_answer(kept(digest), run_audit(whole, store=store))
    assert digest == part.question


@pytest.mark.parametrize(
    ("shares", "part"),
    [
        ({}, ()),
        ({"general model: posteriors": 1.0, "hospital model: posteriors": 0.09}, ()),
        (
            {"general model: posteriors": 1.0, "hospital model: posteriors": 0.5},
            (("n_inputs", 5000), ("n_chain_inputs", 0)),
        ),
        ({"hospital model: posteriors": 0.29999999}, (("n_inputs", 2000), ("n_chain_inputs", 0))),
        (
            {"hospital model: posteriors": 1.0, "hospital model: chain": 0.7},
            (("n_inputs", 10_000), ("n_chain_inputs", 100)),
        ),
    ],
)
def test_only_whole_shards_of_both_models_are_a_finished_part(
    request_2: AuditRequest, shares: dict[str, float], part: tuple[tuple[str, int], ...]
) -> None:
    request = request_2.with_(posterior=PosteriorSettings(n_inputs=10_000, n_chain_inputs=200))
    progress = Progress("", 0, 1, None, tuple(shares.items()))
    assert finished_part(request, progress) == part


def test_a_retry_with_another_setting_is_another_question(
    home: Path, no_worker: None, request_2: AuditRequest
) -> None:
    job = service.submit("audit", request=request_2)
    service.cancel(job.job_id)
    again = service.retry_with(job.job_id, micro_batch=16, owner="me")
    assert again.question != job.question
    assert (again.state, again.owner) == ("queued", "me")
    order = service.read_order(again.job_id)
    assert order["request"]["posterior"] == {
        "n_inputs": 40, "n_chain_inputs": 0, "is_dropout_on": True, "micro_batch": 16,
        "max_tokens": 512,
    }  # fmt: skip
    with pytest.raises(AuditError, match="no such setting"):
        service.retry_with(job.job_id, general="x")
    with pytest.raises(AuditError, match="No part"):
        service.submit_part(job.job_id)
