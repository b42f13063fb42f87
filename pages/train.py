"""Train: which model learned from which notes, and what would another training take?"""

from __future__ import annotations

import streamlit as st

from audit.errors import AuditError
from audit.jobs import service
from audit.jobs.table import Job
from audit.pretrain import PretrainTask
from audit.training.kept import MODELS, TrainedModel
from pages.ui import blocks, cached
from pages.ui.job_card import job_head
from pages.ui.language import Words, link, words
from pages.ui.train_list import draw_list
from pages.ui.train_plan import draw_new
from pages.ui.train_run import draw_job, draw_training, run_of


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("train_title"), anchor=False)
    st.html(blocks.heading("", below=say.text("train_below")))
    try:
        trainings = MODELS.all()
        active = [job for job in service.active_jobs() if job.kind == PretrainTask.job]
        draw_shown(say, trainings, active=active)
        if trainings or not active:
            draw_list(say, trainings)
        draw_new(say)
    except cached.AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))


def draw_shown(say: Words, trainings: tuple[TrainedModel, ...], *, active: list[Job]) -> None:
    """Draw the training that the link names, else the one that runs."""
    run = st.query_params.get("run", "")
    live = [job for job in active if not run or run_of(job.job_id) == run]
    if run and not live:
        model = next((one for one in trainings if one.run_id == run), None)
        if model is not None:
            draw_training(say, model)
            return
        st.html(blocks.heading(say.text("train_not_here"), below=say.text("train_not_here_do")))
    for job in live or active:
        draw_job(say, job)
    wanted = st.query_params.get("job", "")
    if wanted and not any(job.job_id == wanted for job in active):
        draw_ended(say, wanted)


def draw_ended(say: Words, job_id: str) -> None:
    """Go on to what came of a job that the link names; where nothing did, say why."""
    try:
        job = service.job(job_id)
    except AuditError:
        return
    if job.kind == PretrainTask.job and job.result:
        st.query_params.pop("job", None)
        st.query_params["run"] = job.result[0]
        st.rerun()
    elif job.kind == PretrainTask.job:
        st.html(blocks.heading(say.text("train_job_failed")))
        with st.container(border=True, key=f"train-job-{job.job_id}"):
            st.html(job_head(say, job))
            link("jobs", label=say.text("train_see_jobs"), job=job.job_id)


page()
