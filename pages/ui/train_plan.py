"""The plan of a training beside its settings, and the one button that starts it."""

from __future__ import annotations

import math

import streamlit as st

from audit.errors import AuditError
from audit.jobs import service
from audit.task import queue_of
from audit.training.config import TrainSettings
from audit.training.kept import (
    TrainedModel,
    TrainingPlan,
    make_training_plan,
    measured_pace,
    preset,
    same_training,
)
from pages.ui import blocks, train_cached
from pages.ui.language import Words
from pages.ui.logged import note, who
from pages.ui.place import go_to, link
from pages.ui.setup_choice import model_name, refused
from pages.ui.train_choice import Subject, ask_subject, corpus_name
from pages.ui.train_jobs import PRETRAIN_JOB_KIND, question_of, run_of
from pages.ui.train_names import epochs_text, start_name
from pages.ui.train_settings import ask_preset, ask_settings

MANY_EPOCHS, FEW_EPOCHS = 50, 0.5


def draw_new(say: Words, trainings: tuple[TrainedModel, ...]) -> None:
    """Draw what can be trained, how, what that takes, and the button that starts it."""
    st.html(blocks.heading(say.text("train_new"), below=say.text("train_new_below")))
    left, right = st.columns([3, 2], gap="large")
    with left:
        subject = ask_subject(say)
        if subject is None:
            return
        code = ask_preset(say)
        title = st.text_input(
            say.text("train_set_title"), help=say.text("train_help_title"), key="train_title",
            max_chars=80,
        )  # fmt: skip
    try:
        with left:
            parent = subject.parent
            with st.spinner(say.text("train_counting")):
                load = train_cached.load(subject.corpus, source=subject.source, model=parent.path)
            assert parent.summary is not None
            usual = preset(code, parent=parent.summary, n_tokens=load.n_tokens)
            settings, device = ask_settings(say, preset=code, usual=usual)
        with right, st.container(border=True, key="train_plan"):
            st.html(blocks.heading(say.text("train_plan")))
            queue = queue_of(device)
            n = parent.summary.n_parameters
            pace = measured_pace(trainings, device=queue, n_parameters=n)
            plan = make_training_plan(
                settings, parent=parent.summary, load=load, seconds_per_work=pace
            )
            draw_plan(say, plan, subject, settings, queue=queue)
            draw_start(
                say, subject, settings, trainings=trainings, title=title, device=device, plan=plan
            )
    except AuditError as error:
        refused(say, error)


def draw_plan(
    say: Words, plan: TrainingPlan, subject: Subject, settings: TrainSettings, *, queue: str
) -> None:
    """Draw the plan as a table, and what to think of it."""
    load = plan.load
    about = "train_plan_tokens" if load.is_exact else "train_plan_tokens_about"
    source = say.text(f"train_source_{subject.source}")
    length = say.text(
        "train_plan_steps", n=f"{plan.n_steps:,}", epochs=epochs_text(plan.n_epochs),
        per_epoch=f"{math.ceil(plan.steps_per_epoch):,}",
    )  # fmt: skip
    name = model_name(say, subject.parent.model_id)
    shape = say.text(
        "train_fact_rows", batch=f"{settings.batch:,}", n_tokens=f"{settings.n_tokens:,}",
        rate=f"{settings.learning_rate:g}",
    )  # fmt: skip
    rows = [
        (say.text("train_fact_parent"),
         start_name(say, name, from_scratch=settings.from_scratch)),
        (say.text("train_fact_notes"),
         say.text("train_notes_of", source=source, corpus=corpus_name(say, subject.corpus))),
        (say.text("train_fact_text"),
         say.text(about, n_notes=f"{load.n_notes:,}", n_tokens=f"{load.n_tokens:,}")),
        (say.text("train_plan_length"), length),
        (say.text("train_fact_how"), shape),
        (say.text("train_plan_device"), say.text(f"train_device_{queue}")),
        (say.text("train_plan_time"), time_line(say, plan.seconds)),
    ]  # fmt: skip
    header = [say.text("train_column_fact"), say.text("train_column_value")]
    caption = say.text("train_plan_caption")
    st.html(blocks.simple_table(header, rows, caption=caption, n_text=2))
    if plan.n_epochs > MANY_EPOCHS:
        st.html(blocks.heading("", below=say.text("train_many", n=f"{plan.n_epochs:,.0f}")))
    elif plan.n_epochs < FEW_EPOCHS:
        st.html(blocks.heading("", below=say.text("train_few")))


def is_running(model: TrainedModel) -> bool:
    """Whether a job works on a training just now."""
    active = [job for job in service.active_jobs() if job.kind == PRETRAIN_JOB_KIND]
    return any(run_of(job.job_id) == model.run_id for job in active)


def time_line(say: Words, seconds: float | None) -> str:
    """Return the expected time, or that nothing is known."""
    if seconds is None:
        return say.text("train_time_unknown")
    if seconds < 90:
        return say.text("train_time_seconds", n=10 * max(1, math.ceil(seconds / 10)))
    if seconds < 5400:
        return say.text("train_time_minutes", n=math.ceil(seconds / 60))
    return say.text("train_time_hours", n=f"{seconds / 3600:,.1f}")


def draw_start(
    say: Words,
    subject: Subject,
    settings: TrainSettings,
    *,
    trainings: tuple[TrainedModel, ...],
    title: str,
    device: str,
    plan: TrainingPlan,
) -> None:
    """Draw the button that starts the training, or what is known of the same question."""
    same = same_training(
        trainings, parent=subject.parent.path, corpus_id=subject.corpus.corpus_id,
        source=subject.source, settings=settings,
    )  # fmt: skip
    if same is not None and same.is_whole:
        st.html(blocks.heading(say.text("train_done"), below=say.text("train_done_below")))
        link("train", label=say.text("train_open"), run=same.run_id)
        return
    if same is not None and is_running(same):
        st.html(blocks.heading(say.text("train_active"), below=say.text("train_active_below")))
        return
    if same is not None:
        st.html(blocks.heading("", below=say.text("train_goes_on", n=f"{same.n_steps_done:,}")))
    if not st.button(
        say.text("train_start"), key="train_start", type="primary", icon=":material/play_arrow:",
        width="stretch",
    ):  # fmt: skip
        return
    with st.spinner(say.text("train_starting")):
        job = service.ask(question_of(subject, settings, title=title, device=device), owner=who())
    note("ran", kind=job.kind, job=job.job_id, device=job.device, n_steps=plan.n_steps,
         n_notes=plan.load.n_notes)  # fmt: skip
    if job.result:
        go_to("train", run=job.result[0])
    go_to("train", job=job.job_id)
