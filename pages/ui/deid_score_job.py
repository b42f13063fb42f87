"""Jobs that measure de-identifiers, on the page that asked: started, followed, and their end."""

from __future__ import annotations

import streamlit as st

from audit.deid.score_order import ScoreOrder
from audit.errors import AuditError
from audit.jobs import service
from audit.jobs.job import Job
from audit.jobs.score_job import KIND, score_question
from audit.translation import error_text
from pages.ui import blocks
from pages.ui.job_card import job_head, progress_text
from pages.ui.language import Words
from pages.ui.logged import note, who
from pages.ui.place import link

_FOLLOWED = "deid_measures_job"


def start(order: ScoreOrder) -> None:
    """Ask for a score and follow its job; raises `AuditError` as `service.ask`."""
    job = service.ask(score_question(order), owner=who())
    note("ran", kind=job.kind, job=job.job_id, device=job.device, seed=order.seed)
    st.session_state[_FOLLOWED] = job.job_id


def draw_jobs(say: Words) -> bool:
    """Draw the jobs that measure now, and how the one that was followed has ended.

    Returns whether the one that was asked for here is still at work.
    """
    service.recover()
    active = _active()
    draw_ended(say, active)
    if not active:
        return False
    ids = {job.job_id for job in active}

    def cards() -> None:
        try:
            now = {job.job_id: job for job in _active()}
        except AuditError as error:
            below = error_text(error, language=say.language)
            st.html(blocks.heading(say.text("no_data"), below=below))
            return
        if set(now) != ids:
            st.rerun(scope="app")
        for job in now.values():
            draw_card(say, job)

    st.fragment(cards, run_every="1s")()
    return st.session_state.get(_FOLLOWED, "") in ids


def draw_card(say: Words, job: Job) -> None:
    """Draw a job that runs or waits."""
    with st.container(border=True, key=f"deid-measures-job-{job.job_id}"):
        st.html(job_head(say, job))
        st.progress(job.share, text=progress_text(say, job))
        link("jobs", label=say.text("deid_measures_see_job"), job=job.job_id)


def draw_ended(say: Words, active: tuple[Job, ...]) -> None:
    """Show the score of the followed job once it is there, or why it is not."""
    followed = st.session_state.get(_FOLLOWED, "")
    if not followed or followed in {job.job_id for job in active}:
        return
    st.session_state.pop(_FOLLOWED)
    try:
        job = service.job(followed)
    except AuditError:
        return  # somebody removed it from the list
    if job.result:
        show_score(job.result[0])
        return
    with st.container(border=True, key=f"deid-measures-job-{job.job_id}"):
        st.html(job_head(say, job))
        link("jobs", label=say.text("deid_measures_see_job"), job=job.job_id)


def show_score(score_id: str) -> None:
    """Let the page show a kept score from its next run on."""
    st.query_params["score"] = score_id
    for name in ("view", "cell", "other"):
        st.query_params.pop(name, None)
    for name in ("deid_cell", "deid_measures_other"):
        st.session_state.pop(name, None)


def _active() -> tuple[Job, ...]:
    return tuple(job for job in service.active_jobs() if job.kind == KIND)
