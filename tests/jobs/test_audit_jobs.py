"""Real audits as jobs: the same answer as without, finished parts, other settings, the demo."""

from __future__ import annotations

import pytest

from audit.attack.question import PosteriorSettings
from audit.home import results_dir
from audit.jobs import service
from audit.jobs.locks import device_lock
from audit.jobs.worker import IDLE_VARIABLE
from audit.report.report import AuditReport
from audit.run import run_audit
from cache.store import Store
from tests.jobs.fake_jobs import until, until_state, usual_home
from tests.small_audit import models, request_of, same_answer

__all__ = ["models", "usual_home"]


@pytest.fixture
def request_2(models):
    return request_of(models, 2, posterior=PosteriorSettings(n_inputs=40, n_chain_inputs=0))


def read_report(digest: str) -> AuditReport:
    with Store(results_dir()) as store:
        return AuditReport.from_json(store.get_record(f"audit/{digest}"))


@pytest.mark.long
def test_a_worker_answers_as_run_audit_does(usual_home, request_2, tmp_path, monkeypatch):
    monkeypatch.setenv(IDLE_VARIABLE, "1")
    job = service.submit("audit", request=request_2, owner="me")
    with service.look_after_jobs():  # as the server does: what dies is seen, and tried again
        ended_job = until_state(job, "done", "failed")
    assert ended_job.failure is None
    with Store(tmp_path / "other") as store:
        alone = run_audit(request_2, store=store)
    assert ended_job.result == (alone.digest,) == (ended_job.question,)
    assert same_answer(read_report(alone.digest), alone)
    # What is answered costs nothing, and is the same job.
    until(lambda: (lock := device_lock("cpu")) is not None and lock.release() is None)
    assert service.submit("audit", request=request_2) == service.job(job.job_id)


@pytest.mark.long
def test_what_a_command_answered_needs_no_job(usual_home, request_2):
    with Store(results_dir()) as store:
        report = run_audit(request_2, store=store)
    assert service.jobs() == ()
    job = service.submit("audit", request=request_2, owner="me")
    assert (job.state, job.result, job.share) == ("done", (report.digest,), 1.0)
    assert service.submit("audit", request=request_2).job_id == job.job_id
    assert not service.can_resume(job)
