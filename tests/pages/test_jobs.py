"""The Jobs page, the sidebar's line and the demo button through Streamlit's own tester."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from audit.access_log import entries
from audit.attack.question import AuditRequest, GenerationSettings
from audit.deid.measure.score_report import Source
from audit.deid.measure.scoring import ScoreTask
from audit.home import results_dir
from audit.jobs import service, table
from audit.jobs.table import Failure, Job, read_order
from audit.names.candidates import make_candidates
from audit.progress import Progress
from audit.task import Question
from cache.store import Store
from pages.ui.running import FIRST_LOOK
from tests.pages.make_reports import keep, keep_demo, make_report
from tests.pages.screen import keys, links, open_page, parameter, press, texts

RESULT = "3d3d3d3d3d3d"
FAILURE = Failure(
    "Memory ran out in the middle of a shard; everything finished before it is kept.",
    where="micro-batch",
    do="Try a smaller micro-batch (scenario 2), or run on the CPU.",
)


def ask(digest: str = "a", *, kind: str = "audit", label: str = "general → hospital") -> Job:
    scenario = 1 if kind == "audit" else 0
    order = {"run_id": RESULT, "directory": None}
    question = Question(kind, label, scenario, "cpu", digest, (), order)
    return service.ask(question, owner="me")


def run(job: Job, phase: str) -> None:
    assert table.claim(job.job_id)
    table.note_progress(job.job_id, Progress(phase, 0.25, 1.0, 400.0))


def progress(app: AppTest) -> list[tuple[float, str]]:
    return [(bar.proto.value, bar.proto.text) for bar in app.get("progress")]


def test_what_runs_and_waits_is_shown_with_its_progress() -> None:
    first, _ = ask("a"), ask("b", kind="demo", label="<b>ward")
    run(first, "hospital model: documents")
    app = open_page("jobs")
    page_text = texts(app)
    assert page_text.index("Audit, scenario 1") < page_text.index("Demonstration, both scenarios")
    assert "1 ahead of it on this device" in page_text
    assert "by me" in page_text
    assert "&lt;b&gt;ward" in page_text and "<b>ward" not in page_text
    progress_line = "The hospital model writes documents · 25 % · about 7 min left"
    assert progress(app) == [(25, progress_line), (0, "Waiting for its turn")]
    line = [label for label, page, _ in links(app) if page == "jobs"]
    assert line == ["25 % · The hospital model writes documents · 1 more"]


@pytest.mark.parametrize(
    ("lang", "label"),
    [
        ("en", "Default tagger on English example notes"),
        ("ja", "標準の検出器：英語の例"),
    ],
)
def test_a_measurement_says_what_it_measures_on_which_notes(lang: str, label: str) -> None:
    gold, predicted = Source(kind="example", ref="en"), Source(kind="tagger", ref="default")
    service.ask(ScoreTask(gold=gold, predicted=predicted).question())
    assert f"</strong> {label}</p>" in texts(open_page("jobs", lang=lang))


@pytest.mark.parametrize(
    ("kind", "phase", "sentence"),
    [
        ("corpus", "something new", "Working on the notes"),
        ("pretrain", "tokenizing the notes", "Splitting the notes into tokens"),
        ("experiment", "tables", "Working on the experiment"),
    ],
)
def test_what_a_job_does_is_told_in_the_words_of_its_kind(
    kind: str, phase: str, sentence: str
) -> None:
    run(ask(kind=kind), phase)
    assert progress(open_page("jobs")) == [(25, f"{sentence} · 25 % · about 7 min left")]


def test_a_job_is_cancelled_by_its_button_and_can_be_resumed_and_removed() -> None:
    job = ask()
    app = press(open_page("jobs"), f"cancel-{job.job_id}")
    assert service.job(job.job_id).state == "cancelled"
    assert "Somebody cancelled it" in texts(app)
    assert progress(app) == []
    press(app, f"resume-{job.job_id}")
    assert progress(app) == [(0, "Waiting for its turn")]
    press(press(app, f"cancel-{job.job_id}"), f"forget-{job.job_id}")
    assert service.jobs() == ()
    assert "There are no jobs yet" in texts(app)
    assert any(page == "audit" for _, page, _ in links(app))
    actions = [
        (line.action, dict(line.counts)["job"])
        for line in reversed(entries())
        if line.action in ("cancelled", "resumed")
    ]
    assert actions == [(action, job.job_id) for action in ("cancelled", "resumed", "cancelled")]


@pytest.mark.parametrize(
    ("lang", "sentences"),
    [
        ("en", (f"{FAILURE.where}: {FAILURE.what}", FAILURE.do, "25 % done")),
        (
            "ja",
            (
                "1回の計算でまとめる行数：計算の途中でメモリが足りなくなりました。",
                "CPU で実行してください。",
            ),
        ),
    ],
)
def test_a_failed_job_says_why_and_can_be_resumed(lang: str, sentences: tuple[str, ...]) -> None:
    job = ask()
    run(job, "hospital model: documents")
    table.end(job.job_id, state="failed", failure=FAILURE)
    app = open_page("jobs", lang=lang)
    assert all(sentence in texts(app) for sentence in sentences)
    assert f"resume-{job.job_id}" in keys(app)


def test_what_is_finished_of_a_stopped_audit_is_asked_by_its_button(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        AuditRequest, "audit_digest", lambda asked: f"{asked.generation.n_documents:064}"
    )
    request = AuditRequest(
        scenario_number=1,
        general=Path("general"),
        hospital=Path("hospital"),
        candidates=make_candidates([("Mary", "Smith")]),
        device="cpu",
    )
    job = service.submit("audit", request=request)
    app = press(open_page("jobs"), f"cancel-{job.job_id}")
    assert f"part-{job.job_id}" not in keys(app)
    with Store(results_dir()) as store:
        store.put_record(f"finished/{job.question}", {"n_documents": 2_000})
    press(app.run(), f"part-{job.job_id}")
    (active_job,) = service.active_jobs()
    assert parameter(app, "job") == active_job.job_id and entries()[0].action == "ran"
    order = table.read_order(active_job.job_id)["request"]
    assert order == request.with_(generation=GenerationSettings(n_documents=2_000)).plain()


@pytest.mark.parametrize(
    ("kind", "label", "page", "field"),
    [
        ("audit", "Open the result", "", "audit"),
        ("corpus", "Open the corpus", "workshop", "corpus"),
        ("pretrain", "Open the training", "workshop", "run"),
        ("leakage", "Open the results", "workshop", "leakage"),
        ("score", "Open the score", "deidentify", "score"),
    ],
)
def test_a_finished_job_leads_to_what_came_of_it(
    kind: str, label: str, page: str, field: str
) -> None:
    report = make_report(2)
    keep(report)
    result = report.digest if kind == "audit" else RESULT
    job = ask(kind=kind)
    assert table.claim(job.job_id)
    table.end(job.job_id, state="done", result=(result,))
    app = open_page("jobs")
    where, query = next(link[1:] for link in links(app) if link[0] == label)
    assert where == page and f"{field}={result[:12]}" in query.split("&")
    assert f"resume-{job.job_id}" not in keys(app)


def test_models_of_the_demo_are_named_for_what_they_learned() -> None:
    report = make_report(2)
    keep_demo({"masked_lm": report})
    job = ask(label="general → hospital-40")
    assert table.claim(job.job_id)
    table.end(job.job_id, state="done", result=(report.digest,))
    ask("b", kind="demo", label="general → null")
    page_text = texts(open_page("jobs"))
    assert "</strong> General model → 40 epochs of the notes</p>" in page_text
    assert "</strong> General model → Trained on other names (null)</p>" in page_text


def test_the_demo_button_submits_once_and_leads_to_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    submissions: list[dict[str, Any]] = []

    def submit(kind: str, **how: Any) -> Job:
        submissions.append(how)
        return ask(kind, kind=kind)

    monkeypatch.setattr(service, "submit", submit)
    app = press(open_page("jobs"), "jobs_run_demo")
    (job,) = service.jobs()
    assert len(submissions) == 1 and submissions[0]["owner"]
    assert submissions[0].items() >= FIRST_LOOK.items()
    assert parameter(app, "job") == job.job_id
    assert " ka-job-chosen" in texts(app)


def test_whoever_reads_japanese_is_shown_the_japanese_demo_hospital() -> None:
    press(open_page("jobs", lang="ja"), "jobs_run_demo")
    (job,) = service.active_jobs()
    assert read_order(job.job_id)["language"] == "ja"


def test_the_causal_demo_is_offered_too_whose_hospital_is_english() -> None:
    press(open_page("jobs", lang="ja"), "jobs_run_demo_causal")
    (job,) = service.active_jobs()
    order = read_order(job.job_id)
    assert (order["is_causal"], order["language"]) == (True, "en")
    assert order.items() >= FIRST_LOOK.items()
