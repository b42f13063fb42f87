"""Jobs: what is running, what is waiting, what has ended and how?"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from audit.jobs import service
from audit.jobs.table import Job, read_order
from audit.run import AuditTask, finished_part
from pages.ui import blocks, cached
from pages.ui.job_card import job_head, progress_text
from pages.ui.job_line import run_demo_button
from pages.ui.language import Words, link, words
from pages.ui.logged import note, who

N_ENDED = 20
_ALL = "jobs_all"
_REFUSAL = "jobs_refusal"
RESULTS = {
    "corpus": ("corpus", "corpus"), "pretrain": ("train", "run"),
    "tagging": ("deidentify", "tagged"), "score": ("deid_measures", "score"),
    "leakage": ("deid_measures", "leakage"),
}  # fmt: skip
"""Kind of job -> the page that shows what came of it, and the link's parameter."""


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("jobs_title"), anchor=False)
    try:
        service.recover()
        chosen = st.query_params.get("job", "")
        n_ended = None if st.session_state.get(_ALL) else N_ENDED
        jobs = service.jobs()
        st.html(blocks.heading("", below=say.text("jobs_below")))
        if refusal := st.session_state.pop(_REFUSAL, ""):
            st.html(blocks.heading(say.text("jobs_refused"), below=refusal))
        if not jobs:
            draw_nothing(say)
            return
        active = sorted((j for j in jobs if j.is_active), key=lambda j: (j.device, j.n_before))
        draw_active(say, tuple(active), chosen=chosen)
        ended = [job for job in jobs if not job.is_active]
        shown = [
            j for n, j in enumerate(ended) if n_ended is None or n < n_ended or j.job_id == chosen
        ]
        draw_ended(say, shown, n_hidden=len(ended) - len(shown), chosen=chosen)
    except cached.AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))


def draw_nothing(say: Words) -> None:
    """Say how to get a first job."""
    st.html(blocks.heading(say.text("jobs_empty"), below=say.text("jobs_empty_do")))
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        run_demo_button(say, key="jobs_run_demo")
        link("run", label=say.text("go_to_run"))


def draw_active(say: Words, active: tuple[Job, ...], *, chosen: str) -> None:
    """Draw what runs and waits, anew each second as long as there is any."""
    st.html(
        blocks.heading(
            say.text("jobs_active"), below="" if active else say.text("jobs_none_active")
        )
    )

    def cards() -> None:
        try:
            now = service.active_jobs()
            if {job.job_id for job in now} != {job.job_id for job in active}:
                st.rerun(scope="app")
            current = {job.job_id: job for job in now}
            for job in active:
                draw_active_card(say, current[job.job_id], is_chosen=job.job_id == chosen)
        except cached.AuditError as error:
            st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))

    st.fragment(cards, run_every="1s" if active else None)()


def draw_active_card(say: Words, job: Job, *, is_chosen: bool) -> None:
    """Draw a job that runs or waits, with its progress and the way to stop it."""
    with st.container(border=True, key=f"job-{job.job_id}"):
        left, right = st.columns([5, 1], vertical_alignment="center")
        with left:
            st.html(job_head(say, job, is_chosen=is_chosen))
        with right:
            draw_cancel(say, job)
        st.progress(job.share, text=progress_text(say, job))


def draw_cancel(say: Words, job: Job) -> None:
    """Draw the button that stops a job, which asks once more."""
    with st.popover(
        say.text("jobs_cancel"), width="stretch", disabled=job.is_cancel_wanted,
        key=f"cancel-ask-{job.job_id}",
    ):  # fmt: skip
        of = "_corpus" if job.kind == "corpus" else ""
        st.html(blocks.heading("", below=say.text(f"jobs_cancel_why{of}")))
        if st.button(say.text("jobs_cancel_now"), key=f"cancel-{job.job_id}", type="primary"):
            do(lambda: service.cancel(job.job_id), action="cancelled")


def draw_ended(say: Words, ended: list[Job], *, n_hidden: int, chosen: str) -> None:
    """Draw the jobs that ended, the newest first."""
    if not ended:
        return
    st.html(blocks.heading(say.text("jobs_ended"), below=say.text("jobs_ended_below")))
    for job in ended:
        with st.container(border=True, key=f"job-{job.job_id}"):
            st.html(job_head(say, job, is_chosen=job.job_id == chosen))
            draw_actions(say, job)
    if n_hidden and st.button(say.text("jobs_show_all", n=n_hidden), key="jobs_show_all_button"):
        st.session_state[_ALL] = True
        st.rerun()


def draw_actions(say: Words, job: Job) -> None:
    """Draw what can be done with a job that ended."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if job.result:
            draw_result(say, job)
        elif service.can_resume(job):
            draw_ways_on(say, job)
        if st.button(
            say.text("jobs_forget"), key=f"forget-{job.job_id}", type="tertiary",
            help=say.text("jobs_forget_why"),
        ):  # fmt: skip
            service.forget(job.job_id)
            st.rerun()


def draw_ways_on(say: Words, job: Job) -> None:
    """Draw how a job without a result goes on, and the way to what both models have finished."""
    if st.button(say.text("jobs_resume"), key=f"resume-{job.job_id}"):
        do(lambda: service.resume(job.job_id), action="resumed")
    part = finished_part(job.question, store=cached.store())
    if part and st.button(
        say.text("jobs_part", n=f"{part.get('n_documents') or part['n_inputs']:,}"),
        key=f"part-{job.job_id}", help=say.text("jobs_part_why"),
    ):  # fmt: skip
        do(lambda: ask_part(job, part), action="ran")


def ask_part(job: Job, part: Mapping[str, int]) -> Job:
    """Ask the question of an audit's job with as many inputs or documents as are finished."""
    task = AuditTask.ordered(read_order(job.job_id)).of_size(part)
    return service.ask(task.question(), owner=who())


def draw_result(say: Words, job: Job) -> None:
    """Draw the link to what came of a job: an audit, a corpus or a trained model."""
    icon = ":material/arrow_forward:"
    if job.kind in RESULTS:
        page, code = RESULTS[job.kind]
        label = say.text(f"jobs_open_{job.kind}")
        link(page, label=label, icon=icon, **{code: job.result[0]})
    else:
        link("overview", label=say.text("jobs_open"), audit=job.result[0], icon=icon)


def do(change: Callable[[], Job], *, action: str) -> None:
    """Change something, note it in the access log, and draw the page anew with that job in view."""
    try:
        job = change()
        note(action, **codes(job))
        st.query_params["job"] = job.job_id
    except cached.AuditError as error:
        st.session_state[_REFUSAL] = error.written(words().language)
    st.rerun(scope="app")


def codes(job: Job) -> Mapping[str, str]:
    """Return what the access log says of a job."""
    return {"job": job.job_id, "kind": job.kind, "device": job.device}


page()
