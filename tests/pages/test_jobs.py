"""The Jobs page, the sidebar's line and the demo button through Streamlit's own tester."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from audit.access_log import entries
from audit.attack.question import AuditRequest, GenerationSettings
from audit.home import results_dir
from audit.jobs import service, table
from audit.jobs.table import Failure, Job
from audit.names.candidates import make_candidates
from audit.progress import Progress
from audit.task import Question
from tests.pages.make_reports import keep, make_report
from tests.pages.screen import links, open_page, texts

TITLE = "What is running, and what came of it?"


def ask(digest: str = "a", *, label: str = "general → hospital", kind: str = "audit") -> Job:
    request = AuditRequest(
        scenario_number=1, general=Path("/general"), hospital=Path("/hospital"),
        candidates=make_candidates([("Mary", "Smith")]), device="cpu",
        generation=GenerationSettings(n_documents=1000),
    )  # fmt: skip
    order = {"request": request.plain(), "directory": None}
    return service.ask(
        Question(kind, label, 1 if kind == "audit" else 0, "cpu", digest, (), order), owner="me"
    )


def run(job: Job, *, share: float = 0.25) -> None:
    assert table.claim(job.job_id)
    progress = Progress("hospital model: documents", share, 1.0, 400.0)
    table.note_progress(job.job_id, progress)


def progress(app: AppTest) -> list[tuple[float, str]]:
    return [(bar.proto.value, bar.proto.text) for bar in app.get("progress")]


def labels(app: AppTest) -> list[str]:
    return [button.label for button in app.button]


def test_without_a_job_the_page_says_how_to_get_one() -> None:
    app = open_page("jobs")
    assert app.title[0].value == TITLE
    assert "Nothing has been asked yet" in texts(app)
    assert "Run the demo" in labels(app)
    assert any(page == "run" for _, page, _ in links(app))


def test_what_runs_and_waits_is_shown_with_its_progress() -> None:
    first, _ = ask("a"), ask("b", kind="demo")
    run(first)
    app = open_page("jobs")
    shown = texts(app)
    assert shown.index("Audit, scenario 1") < shown.index("Demonstration, both scenarios")
    assert "1 before it on this device" in shown
    assert "by me" in shown
    said = "The hospital model writes documents · 25 % · about 7 min left"
    assert progress(app) == [(25, said), (0, "Waiting its turn")]
    line = [label for label, page, _ in links(app) if page == "jobs"]
    assert line == ["25 % · The hospital model writes documents · 1 more"]
    assert "Mary" not in shown


def test_a_job_is_cancelled_by_its_button_and_can_be_resumed_and_removed() -> None:
    job = ask()
    app = open_page("jobs")
    app.button(key=f"cancel-{job.job_id}").click().run()
    assert not app.exception
    assert service.job(job.job_id).state == "cancelled"
    assert "Stopped by a person" in texts(app)
    assert progress(app) == []
    app.button(key=f"resume-{job.job_id}").click().run()
    assert service.job(job.job_id).state == "queued"
    assert progress(app) == [(0, "Waiting its turn")]
    app.button(key=f"cancel-{job.job_id}").click().run()
    app.button(key=f"forget-{job.job_id}").click().run()
    assert service.jobs() == ()
    assert "Nothing has been asked yet" in texts(app)
    done = [(line.action, dict(line.counts)["job"]) for line in reversed(entries())
            if line.action in ("cancelled", "resumed")]  # fmt: skip
    assert done == [(what, job.job_id) for what in ("cancelled", "resumed", "cancelled")]


def test_a_failed_job_says_why_and_can_be_resumed() -> None:
    job = ask()
    run(job)
    failure = Failure("Memory ran out.", "micro-batch", "Try less.")
    table.end(job.job_id, state="failed", failure=failure)
    app = open_page("jobs")
    shown = texts(app)
    assert "micro-batch: Memory ran out." in shown
    assert "Try less." in shown
    assert "25 % done" in shown
    assert "Resume" in labels(app)


def test_a_done_job_leads_to_its_result() -> None:
    report = make_report(2)
    keep({"masked_lm": report}, directory=results_dir(), is_demo=False)
    job = ask()
    run(job)
    table.end(job.job_id, state="done", result=(report.digest,))
    app = open_page("jobs")
    opened = [(page, query) for label, page, query in links(app) if label == "Open the result"]
    assert opened == [("", f"lang=en&audit={report.digest[:12]}")]
    assert f"resume-{job.job_id}" not in [button.key for button in app.button]


def test_the_demo_button_submits_once_and_leads_to_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def submit(kind: str, **how: Any) -> Job:
        asked.append(how)
        return ask(kind, kind=kind)

    monkeypatch.setattr(service, "submit", submit)
    app = open_page("jobs")
    app.button(key="jobs_run_demo").click().run()
    assert not app.exception
    (job,) = service.jobs()
    assert len(asked) == 1
    assert asked[0]["owner"]
    assert app.title[0].value == TITLE
    assert app.query_params["job"] in (job.job_id, [job.job_id])
    assert " ka-job-chosen" in texts(app)
