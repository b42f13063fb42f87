"""The plan of a training beside its settings, and the one button that starts it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from audit.errors import AuditError
from audit.jobs import service
from audit.pretrain import PretrainTask
from audit.task import Question, queue_of
from audit.training.config import PRECISIONS, SCHEDULES, TrainSettings
from audit.training.kept import (
    PRESETS,
    NotesLoad,
    TrainingPlan,
    make_training_plan,
    preset,
)
from pages.ui import blocks, cached
from pages.ui.blocks import refused
from pages.ui.language import Words, go_to
from pages.ui.logged import note, who
from pages.ui.setup_choice import model_name
from pages.ui.train_choice import Subject, ask_subject, choice, corpus_name
from pages.ui.train_names import epochs_text, start_name

DEVICES = ("auto", "cpu", "cuda")
LENGTHS = ("epochs", "steps")
_MOST_STEPS, _MOST_EPOCHS = 100_000_000, 1_000.0
_LEAST_RATE, _MOST_RATE = 0.0, 1.0


def ask_preset(say: Words) -> str:
    """Draw the presets and return the code of the chosen one."""
    return choice(
        "preset",
        PRESETS,
        usual=PRESETS[0],
        draw=lambda key: st.radio(
            say.text("train_preset"),
            PRESETS,
            format_func=lambda code: say.text(f"train_preset_{code}"),
            captions=[say.text(f"train_preset_why_{code}") for code in PRESETS],
            key=key,
            persist_state="session",
        ),
    ) or PRESETS[0]  # fmt: skip


def ask_settings(say: Words, *, preset: str, usual: TrainSettings) -> tuple[TrainSettings, str]:
    """Ask for the length and, if somebody looks, for every setting; return them and the device.

    Raises
    ------
    AuditError
        If no training can have the settings.
    """
    # Boxes begin anew where the preset, or what it says for these notes, is another.
    asked = Asked(say, f"{preset}_{zlib.crc32(repr(usual).encode()):08x}")
    wanted = asked.length(usual)
    with st.expander(say.text("train_details"), key="train_details"):
        st.html(blocks.heading("", below=say.text("train_details_below")))
        wanted |= asked.rest(usual)
        device = asked.one_of(
            "device", DEVICES[0], among=DEVICES, shown=lambda code: say.text(f"train_device_{code}")
        )
    return usual.with_(**wanted), device


@dataclass(frozen=True)
class Asked:
    """Boxes for settings; `where` keeps those of one preset apart from another's."""

    say: Words
    where: str

    def length(self, usual: TrainSettings) -> dict[str, Any]:
        """Ask how long: in passes over the notes, or in steps."""
        left, right = st.columns(2, vertical_alignment="bottom")
        with left:
            unit = st.radio(
                self.say.text("train_length"),
                LENGTHS,
                index=LENGTHS.index("steps" if usual.n_epochs is None else "epochs"),
                format_func=lambda code: self.say.text(f"train_length_{code}"),
                horizontal=True,
                key=f"set-train-length-{self.where}",
                persist_state="session",
            )
        with right:
            if unit == "epochs":
                n_epochs = usual.n_epochs or 1.0
                return {"n_epochs": self.number("n_epochs", n_epochs, low=0.01, high=_MOST_EPOCHS)}
            return {"n_epochs": None, "n_steps": self.whole("n_steps", usual.n_steps)}

    def rest(self, usual: TrainSettings) -> dict[str, Any]:
        """Ask for all other settings."""
        found: dict[str, Any] = {}
        left, right = st.columns(2)
        with left:
            for field in ("n_tokens", "batch", "micro_batch"):
                found[field] = self.whole(field, getattr(usual, field))
            for field in ("evaluate_every", "checkpoint_every"):
                found[field] = self.whole(field, getattr(usual, field))
            found["seed"] = self.whole("seed", usual.seed, low=0)
            found["from_scratch"] = self.toggle("from_scratch", usual.from_scratch)
        with right:
            rates = ("learning_rate", "head_learning_rate")
            for field in rates:
                found[field] = self.number(
                    field, getattr(usual, field) or 0.0, low=_LEAST_RATE, high=_MOST_RATE,
                    shown="%.2e", step=1e-5,
                )  # fmt: skip
            for field in ("warmup_share", "weight_decay", "mask_share", "held_out_share"):
                found[field] = self.number(field, getattr(usual, field), low=0.0, high=1.0)
            found["clip"] = self.number("clip", usual.clip, low=0.0, high=1e6)
            found["schedule"] = self.one_of(
                "schedule", usual.schedule, among=SCHEDULES,
                shown=lambda code: self.say.text(f"train_schedule_{code}"),
            )  # fmt: skip
            found["precision"] = self.one_of(
                "precision", usual.precision, among=PRECISIONS,
                shown=lambda code: self.say.text(f"train_precision_{code}"),
            )  # fmt: skip
        found["head_learning_rate"] = found["head_learning_rate"] or None
        return found

    def whole(self, field: str, value: int, *, low: int = 1) -> int:
        """Ask for a whole number; the engine says which ones it takes."""
        found = st.number_input(
            self.say.text(f"train_set_{field}"), min_value=low, max_value=_MOST_STEPS, value=value,
            help=self.say.text(f"train_help_{field}"), key=f"set-train-{field}-{self.where}",
            persist_state="session",
        )  # fmt: skip
        return int(found)

    def number(
        self,
        field: str,
        value: float,
        *,
        low: float,
        high: float,
        shown: str = "%.3g",
        step: float = 0.01,
    ) -> float:
        """Ask for a number."""
        found = st.number_input(
            self.say.text(f"train_set_{field}"), min_value=low, max_value=high, value=float(value),
            format=shown, step=step, help=self.say.text(f"train_help_{field}"),
            key=f"set-train-{field}-{self.where}", persist_state="session",
        )  # fmt: skip
        return float(found)

    def toggle(self, field: str, value: bool) -> bool:
        """Ask for yes or no."""
        return st.toggle(
            self.say.text(f"train_set_{field}"), value=value,
            help=self.say.text(f"train_help_{field}"), key=f"set-train-{field}-{self.where}",
            persist_state="session",
        )  # fmt: skip

    def one_of(
        self, field: str, value: str, *, among: tuple[str, ...], shown: Callable[[str], str]
    ) -> str:
        """Ask for one of several codes."""
        found = st.selectbox(
            self.say.text(f"train_set_{field}"), among, index=among.index(value),
            format_func=shown,
            help=self.say.text(f"train_help_{field}"), key=f"set-train-{field}-{self.where}",
            persist_state="session",
        )  # fmt: skip
        return str(found)


MANY_EPOCHS, FEW_EPOCHS = 50, 0.5


def draw_new(say: Words) -> None:
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
                load = cached.text_load(subject.corpus, source=subject.source, model=parent.path)
            assert parent.summary is not None
            usual = preset(code, parent=parent.summary, n_tokens=load.n_tokens)
            settings, device = ask_settings(say, preset=code, usual=usual)
        with right, st.container(border=True, key="train_plan"):
            st.html(blocks.heading(say.text("train_plan")))
            plan = make_training_plan(settings, parent=parent.summary, load=load)
            draw_plan(say, plan, subject, settings, load=load, queue=queue_of(device))
            draw_start(
                say, subject, settings, title=title, device=device, plan=plan, n_notes=load.n_notes
            )
    except AuditError as error:
        refused(say, error)


def draw_plan(
    say: Words, plan: TrainingPlan, subject: Subject, settings: TrainSettings, *, load: NotesLoad,
    queue: str,
) -> None:  # fmt: skip
    """Draw the plan as a table, and what to think of it."""
    about = "train_plan_tokens" if load.is_exact else "train_plan_tokens_about"
    source = say.text(f"train_source_{subject.source}")
    length = say.text(
        "train_plan_steps", n=f"{plan.n_steps:,}", epochs=epochs_text(plan.n_epochs),
        per_epoch=f"{math.ceil(plan.steps_per_epoch):,}",
    )  # fmt: skip
    name = model_name(say, subject.parent.model_id, among=cached.models())
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
    ]  # fmt: skip
    header = [say.text("train_column_fact"), say.text("train_column_value")]
    caption = say.text("train_plan_caption")
    st.html(blocks.simple_table(header, rows, caption=caption, n_text=2))
    if plan.n_epochs > MANY_EPOCHS:
        st.html(blocks.heading("", below=say.text("train_many", n=f"{plan.n_epochs:,.0f}")))
    elif plan.n_epochs < FEW_EPOCHS:
        st.html(blocks.heading("", below=say.text("train_few")))


def question_of(subject: Subject, settings: TrainSettings, *, title: str, device: str) -> Question:
    """Return a training as a question of the table of jobs.

    Raises
    ------
    AuditError
        If the model or the corpus is gone or refused.
    """
    task = PretrainTask(
        general=subject.parent.path,
        settings=settings,
        corpus_id=subject.corpus.corpus_id,
        source=subject.source,
        title=" ".join(title.split()),
        device=device,
    )
    return task.question()


def draw_start(
    say: Words, subject: Subject, settings: TrainSettings, *, title: str, device: str,
    plan: TrainingPlan, n_notes: int,
) -> None:  # fmt: skip
    """Draw the button that starts the training, or leads to the one that was asked the same."""
    if not st.button(
        say.text("train_start"), key="train_start", type="primary", icon=":material/play_arrow:",
        width="stretch",
    ):  # fmt: skip
        return
    with st.spinner(say.text("train_starting")):
        job = service.ask(question_of(subject, settings, title=title, device=device), owner=who())
    note("ran", kind=job.kind, job=job.job_id, device=job.device, n_steps=plan.n_steps,
         n_notes=n_notes)  # fmt: skip
    if job.result:
        go_to("train", run=job.result[0])
    go_to("train", job=job.job_id)
