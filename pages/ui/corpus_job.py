"""Jobs that build corpora, on the page that asked: started, followed, and what came of them."""

from __future__ import annotations

import streamlit as st

from audit.curation.order import CorpusOrder
from audit.errors import AuditError
from audit.jobs import service
from audit.jobs.corpus_job import KIND, corpus_question
from audit.jobs.job import Job
from audit.translation import error_text
from pages.ui import blocks, corpus_choice
from pages.ui.job_card import job_head, progress_text
from pages.ui.language import Words
from pages.ui.logged import note, who
from pages.ui.place import link

_FOLLOWED = "corpus_job"


def start(order: CorpusOrder) -> None:
    """Ask for a corpus and follow its job; raises `AuditError` as `service.ask`."""
    job = service.ask(corpus_question(order), owner=who())
    note("ran", kind=job.kind, job=job.job_id, device=job.device, seed=order.seed)
    st.session_state[_FOLLOWED] = job.job_id


def draw_jobs(say: Words) -> bool:
    """Draw the jobs that build corpora now, and how the one that was followed has ended.

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
    with st.container(border=True, key=f"corpus-job-{job.job_id}"):
        st.html(job_head(say, job))
        st.progress(job.share, text=progress_text(say, job))
        link("jobs", label=say.text("corpus_see_job"), job=job.job_id)


def draw_ended(say: Words, active: tuple[Job, ...]) -> None:
    """Show the corpus of the followed job once it is built, or why it is not."""
    followed = st.session_state.get(_FOLLOWED, "")
    if not followed or followed in {job.job_id for job in active}:
        return
    st.session_state.pop(_FOLLOWED)
    try:
        job = service.job(followed)
    except AuditError:
        return  # somebody removed it from the list
    if job.result:
        corpus_choice.show_corpus(job.result[0])
        st.html(blocks.heading(say.text("corpus_built"), below=say.text("corpus_built_below")))
        return
    with st.container(border=True, key=f"corpus-job-{job.job_id}"):
        st.html(job_head(say, job))
        link("jobs", label=say.text("corpus_see_job"), job=job.job_id)


def _active() -> tuple[Job, ...]:
    return tuple(job for job in service.active_jobs() if job.kind == KIND)
