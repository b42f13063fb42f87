"""The line of the sidebar that says what is running, and the button that runs the demonstration."""

from __future__ import annotations

import streamlit as st

from audit.errors import AuditError
from audit.jobs import service
from audit.jobs.table import Job
from pages.ui import blocks
from pages.ui.job_card import stage_text, whole_percent
from pages.ui.language import Words, go_to, link
from pages.ui.logged import note, who


def job_line(words: Words) -> None:
    """Draw one line of job state while something runs; the page is drawn anew when all has ended.

    Only a whole percent is shown: the Jobs page counts faster, and two numbers would differ.
    """
    if not _active():
        return

    def line() -> None:
        active = _active()
        if not active:
            st.rerun(scope="app")
        # The one that runs, else the one whose turn comes next.
        job = next((job for job in active if job.state == "running"), active[-1])
        values = {
            "stage": stage_text(words, job),
            "percent": whole_percent(job),
        }
        n_more = len(active) - 1
        link(
            "jobs",
            label=words.text("job_line_more", n=n_more, **values)
            if n_more
            else words.text("job_line_now", **values),
            icon=":material/progress_activity:",
            job=job.job_id,
        )

    with st.container(key="job_line"):
        st.fragment(line, run_every="5s")()


def run_demo_button(say: Words, *, key: str) -> None:
    """Draw the button that submits the demonstration and goes to the Jobs page."""
    if not st.button(say.text("start_demo_button"), key=key, type="primary"):
        return
    try:
        job = service.submit("demo", owner=who())
        note("ran", kind=job.kind, job=job.job_id, device=job.device)
    except AuditError as error:
        st.html(blocks.heading(say.text("jobs_refused"), below=error.written(say.language)))
        return
    if job.result:
        go_to("overview", audit=job.result[0])
    go_to("jobs", job=job.job_id)


def _active() -> tuple[Job, ...]:
    try:
        return service.active_jobs()
    except AuditError:
        return ()  # the page says why
