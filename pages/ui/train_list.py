"""The list of trainings: which model learned from which notes, and how well it predicts others."""

from __future__ import annotations

import math

import streamlit as st

from audit.training.kept import TrainedModel
from pages.ui import blocks
from pages.ui.language import Words, link
from pages.ui.text import day, decimal
from pages.ui.train_names import epochs_text, notes_name, start_name, training_name

N_SHOWN = 12
_ALL = "train_all"


def draw_list(say: Words, trainings: tuple[TrainedModel, ...]) -> None:
    """Draw the trainings, the newest first, each with a link to its curve."""
    if not trainings:
        st.html(blocks.heading(say.text("train_list_empty"), below=say.text("train_list_empty_do")))
        return
    below = say.text("train_list_below")
    st.html(blocks.heading(say.text("train_list"), below=below))
    shown = trainings if st.session_state.get(_ALL) else trainings[:N_SHOWN]
    for model in shown:
        left, right = st.columns([6, 1], vertical_alignment="center")
        is_here = model.run_id == st.query_params.get("run", "")
        with left:
            st.html(
                blocks.line(training_name(say, model), facts_line(say, model), is_strong=is_here)
            )
        with right:
            if is_here:
                st.html(blocks.heading("", below=say.text("train_shown")))
            else:
                link("train", label=say.text("train_open"), run=model.run_id)
    n_more = len(trainings) - len(shown)
    if n_more and st.button(say.text("train_show_all", n=n_more), key="train_show_all_button"):
        st.session_state[_ALL] = True
        st.rerun()


def facts_line(say: Words, model: TrainedModel) -> str:
    """Return what there is to say of a training in one line; untrusted text."""
    facts = model.facts
    pieces = [
        notes_name(say, model),
        start_name(say, facts.parent, from_scratch=facts.settings.from_scratch),
        say.text("train_line_epochs", n=epochs_text(model.n_epochs_done)),
    ]
    if model.held_out is not None:
        first = math.nan if model.first_held_out is None else model.first_held_out
        pieces.append(
            say.text("train_line_loss", first=decimal(first), last=decimal(model.held_out))
        )
    if not model.is_whole:
        pieces.append(say.text("train_line_unfinished"))
    return " · ".join([*pieces, day(facts.created)])
