"""Jobs that tag notes, on the page that asked: started, followed, and what came of them."""

from __future__ import annotations

import streamlit as st

from audit.deid.kept_tagged import ReleaseSettings, tagged_set
from audit.deid.known_taggers import KnownTagger
from audit.errors import AuditError
from audit.jobs import service
from audit.jobs.job import Job
from audit.jobs.tagging_job import KIND, NotesToTag, tagging_question
from audit.translation import error_text
from pages.ui import blocks
from pages.ui.job_card import job_head, progress_text
from pages.ui.language import Words
from pages.ui.logged import note, who
from pages.ui.place import link

_FOLLOWED = "deidentify_job"


def start(notes: NotesToTag, *, tagger: KnownTagger, how: ReleaseSettings, title: str = "") -> None:
    """Ask for notes to be tagged and follow the job; a set that is there already is shown.

    Raises
    ------
    AuditError
        If the notes cannot be read, or as `service.ask`.
    """
    question = tagging_question(notes, tagger=tagger, how=how, title=title)
    tagged_id = question.order["tagged_id"]
    if tagged_set(tagged_id).is_whole:
        show(tagged_id)
        return
    job = service.ask(question, owner=who())
    note("ran", kind=job.kind, job=job.job_id, device=job.device)
    st.session_state[_FOLLOWED] = job.job_id


def show(tagged_id: str) -> None:
    """Let the page show a kept set from its next run on."""
    for field in ("view", "note"):
        st.query_params.pop(field, None)
    st.query_params["tagged"] = tagged_id


def draw_jobs(say: Words) -> None:
    """Draw the jobs that tag notes now, and how the one that was followed has ended."""
    service.recover()
    active = _active()
    draw_ended(say, active)
    if not active:
        return
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


def draw_card(say: Words, job: Job) -> None:
    """Draw a job that runs or waits."""
    with st.container(border=True, key=f"deidentify-job-{job.job_id}"):
        st.html(job_head(say, job))
        st.progress(job.share, text=progress_text(say, job))
        link("jobs", label=say.text("deidentify_see_job"), job=job.job_id)


def draw_ended(say: Words, active: tuple[Job, ...]) -> None:
    """Show the notes of the followed job once they are tagged, or why they are not."""
    followed = st.session_state.get(_FOLLOWED, "")
    if not followed or followed in {job.job_id for job in active}:
        return
    st.session_state.pop(_FOLLOWED)
    try:
        job = service.job(followed)
    except AuditError:
        return  # somebody removed it from the list
    if job.result:
        show(job.result[0])
        st.html(
            blocks.heading(say.text("deidentify_done"), below=say.text("deidentify_done_below"))
        )
        return
    with st.container(border=True, key=f"deidentify-job-{job.job_id}"):
        st.html(job_head(say, job))
        link("jobs", label=say.text("deidentify_see_job"), job=job.job_id)


def _active() -> tuple[Job, ...]:
    return tuple(job for job in service.active_jobs() if job.kind == KIND)
