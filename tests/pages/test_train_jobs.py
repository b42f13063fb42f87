"""Corpora, trainings and experiments on the Jobs page: their words, and where their links lead."""

from __future__ import annotations

import pytest

from audit.jobs import service, table
from audit.jobs.table import Job
from audit.progress import Progress
from audit.task import Question
from tests.pages.screen import links, open_page, texts

RESULT = "3d3d3d3d3d3d"


def ask(kind: str, *, label: str = "general") -> Job:
    return service.ask(Question(kind, label, 0, "cpu", kind, (), {"run_id": RESULT}))


@pytest.mark.parametrize(
    ("kind", "label", "page", "query"),
    [
        ("corpus", "Open the corpus", "corpus", f"corpus={RESULT}"),
        ("pretrain", "Open the training", "train", f"run={RESULT}"),
        ("experiment", "Open the result", "", f"audit={RESULT}"),
    ],
)
def test_a_finished_job_leads_to_what_came_of_it(
    kind: str, label: str, page: str, query: str
) -> None:
    job = ask(kind)
    assert table.claim(job.job_id)
    table.end(job.job_id, state="done", result=(RESULT,))
    where, shown = next(link[1:] for link in links(open_page("jobs")) if link[0] == label)
    assert where == page
    assert query in shown.split("&")


@pytest.mark.parametrize(
    ("kind", "phase", "said"),
    [
        ("corpus", "building the corpus", "Building the corpus · 25 %"),
        ("corpus", "something new", "Working on the notes · 25 %"),
        ("pretrain", "tokenizing the notes", "Splitting the notes into tokens · 25 %"),
        ("experiment", "tables", "Working on the experiment · 25 %"),
    ],
)
def test_what_a_job_does_is_told_in_its_own_words(kind: str, phase: str, said: str) -> None:
    job = ask(kind, label="<b>ward")
    assert table.claim(job.job_id)
    table.note_progress(job.job_id, Progress(phase, 1, 4, None))
    app = open_page("jobs")
    (bar,) = app.get("progress")
    assert bar.proto.text == said
    assert "&lt;b&gt;ward" in texts(app)
    assert "<b>ward" not in texts(app)
