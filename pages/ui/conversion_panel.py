"""Conversion of refused models: the choice, the job, and the converted models that are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import streamlit as st

from audit.errors import AuditError
from audit.models.conversion import Rounding
from audit.models.convert import CONVERTED, ConvertedModel, ConvertTask, Need
from audit.models.registry import RegisteredModel, find_model
from audit.words import Words
from pages.ui import blocks, cached
from pages.ui.access import log_action, may
from pages.ui.display_names import converted_name, model_name, model_names
from pages.ui.form import choose, draw_button, pick, set_pick
from pages.ui.running import FollowedJobs
from pages.ui.section import draw_heading, draw_remark, draw_removal


def _say_done(say: Words, model_id: str) -> None:
    draw_remark(say, "convert_done", name=model_name(say, model_id))


JOBS = FollowedJobs(ConvertTask.job, page="convert", on_done=_say_done)


def draw_conversion(say: Words, models: Sequence[RegisteredModel]) -> None:
    """Draw the choice of a refused model that can be converted, and the button that starts it."""
    needs = _list_needs(models)
    if not needs or not may("ran"):
        return
    draw_heading(say, "convert_heading")
    names = {model_id: model_name(say, model_id) for model_id in needs}
    left, right = st.columns(2, gap="large")
    with left:
        model_id = choose(say, "convert_model", names, parameter="convert", is_long=True)
    source = find_model(model_id, models=tuple(models))
    assert source is not None
    is_headless = needs[model_id] == "head"
    with right:
        head_id = pick(say, "convert_head", model_names(say, tuple(models)), parameter="head")
    head = find_model(head_id, models=tuple(models))
    draw_remark(say, "convert_needs_head" if is_headless else "convert_may_need_head")
    is_missing = is_headless and head is None
    if draw_button(say, "convert_start", kind="primary", icon="autorenew", is_disabled=is_missing):
        _start(say, ConvertTask(source=source.path, head_from=head.path if head else None))


def _list_needs(models: Sequence[RegisteredModel]) -> Mapping[str, Need]:
    """Return what the convertible ones of the refused models need, by identifier."""
    needs: dict[str, Need] = {}
    for model in models:
        with suppress(AuditError):  # it has gone since it was listed
            if model.refusal and (need := cached.find_need(model.path)):
                needs[model.model_id] = need
    return needs


def draw_rounding(say: Words, base: RegisteredModel) -> None:
    """Draw the button that rounds a base for an adapter of a QLoRA training."""
    if base.summary is None or not may("ran"):
        return
    if rounded := base.summary.rounding:
        draw_remark(say, "convert_is_rounded", rounding=rounded)
        return
    with st.expander(say.text("convert_rounding"), key="rounding"):
        draw_remark(say, "convert_rounding_why")
        names: dict[Rounding, str] = {
            "nf4": say.text("convert_rounded_plain"),
            "nf4-double": say.text("convert_rounded_double"),
        }
        rounding = choose(say, "convert_rounded", names, parameter="rounding")
        if draw_button(say, "convert_round", kind="secondary", icon="autorenew"):
            _start(say, ConvertTask(source=base.path, rounding=rounding))


def _start(say: Words, task: ConvertTask) -> None:
    try:
        with st.spinner(say.text("convert_starting")):
            JOBS.start(task.question())
    except AuditError as error:
        blocks.draw_refusal(say, error)
        return
    st.rerun()


def draw_converted(say: Words) -> None:
    """Draw the models that were converted here, and the button that removes one."""
    converted = {model.conversion_id: model for model in CONVERTED.all()}
    if not converted:
        return
    with st.expander(say.text("convert_kept", n=len(converted)), key="converted_models"):
        for model in converted.values():
            st.html(blocks.line(converted_name(say, model), _describe_conversion(say, model)))
        if not may("removed"):
            return
        names = {code: converted_name(say, model) for code, model in converted.items()}
        chosen = pick(say, "convert_kept_model", names, parameter="converted")

        def remove() -> None:
            CONVERTED.forget(chosen)
            set_pick("converted", "")
            log_action("removed", what="converted-model", run=chosen)

        if chosen:
            draw_removal(say, "convert_forget", remove, leaves="converted")


def _describe_conversion(say: Words, model: ConvertedModel) -> str:
    if rounding := model.record.rounding:
        return say.text("convert_line_rounded", rounding=rounding)
    if head := model.record.head_name:
        return say.text("convert_line_head", head=head)
    return say.text("convert_line_own")
