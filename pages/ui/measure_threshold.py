"""The threshold of the Measures page: slider, exact value, useful values, and what they reach."""

from __future__ import annotations

import math

import streamlit as st

from audit.report.threshold import (
    USEFUL,
    RankedNames,
    Reached,
    ScoreAxis,
    at_threshold,
    first_threshold,
    read_threshold,
    useful_thresholds,
)
from pages.ui import blocks, cached, charts, measure_charts, measure_tables
from pages.ui.language import Words

_VALUE, _OWNER = "measures_threshold", "measures_threshold_of"
_SLIDER, _EXACT, _PREVALENCE = "measures_slider", "measures_exact", "measures_prevalence"
_N_STEPS = 200
_FIRST_PREVALENCE = 1.0
"""Percent of members in the crowd for which a predictive value is first given."""


@st.fragment
def panel(say: Words, digest: str, *, score: str, stratum: str) -> None:
    """Draw the threshold of one score, and everything that moves with it."""
    names = cached.ranked(digest, score=score, stratum=stratum)
    useful = useful_thresholds(names)
    _begin(names.axis, useful=useful, owner=(digest, score))
    _inputs(say, names.axis, useful=useful)
    view = at_threshold(
        names,
        threshold=st.session_state[_VALUE],
        prevalence=st.session_state.get(_PREVALENCE, _FIRST_PREVALENCE) / 100,
    )
    left, right = st.columns(2, gap="large")
    with left:
        st.html(measure_tables.confusion_table(say, view, names=names))
    with right:
        if view.counts is not None:
            st.number_input(
                say.text("measures_prevalence"),
                min_value=0.01,
                max_value=99.0,
                value=_FIRST_PREVALENCE,
                key=_PREVALENCE,
            )
            st.html(measure_tables.threshold_rates(say, view, counts=view.counts))
    _draw_roc(say, digest, names=names, view=view)


def _begin(axis: ScoreAxis, *, useful: dict[str, float], owner: tuple[str, str]) -> None:
    """Take the threshold from the address on a first visit, else one to begin with."""
    state = st.session_state
    if state.get(_OWNER) != owner:
        wanted = read_threshold(st.query_params.get("t", "")) if _OWNER not in state else math.nan
        state[_OWNER] = owner
        _set(first_threshold(useful) if math.isnan(wanted) else wanted, axis)
    elif _SLIDER not in state or _EXACT not in state:
        _set(state[_VALUE], axis)


def _inputs(say: Words, axis: ScoreAxis, *, useful: dict[str, float]) -> None:
    for column, code in zip(st.columns(len(USEFUL)), USEFUL, strict=True):
        is_missing = math.isnan(useful[code])
        column.button(
            say.text(f"measures_use_{code}"),
            key=f"measures_use_{code}",
            help=say.text(f"measures_why_not_{code}" if is_missing else f"measures_help_{code}"),
            disabled=is_missing,
            on_click=_set,
            args=(useful[code], axis),
            width="stretch",
        )
    slider, exact = st.columns([3, 1], gap="large", vertical_alignment="bottom")
    slider.slider(
        say.text("measures_slider_log" if axis.is_log else "measures_slider"),
        min_value=axis.low,
        max_value=axis.high,
        step=(axis.high - axis.low) / _N_STEPS,
        format="%.3g",
        key=_SLIDER,
        on_change=_slid,
        args=(axis,),
    )
    exact.number_input(
        say.text("measures_exact"),
        format="%.6g",
        key=_EXACT,
        on_change=_typed,
        args=(axis,),
    )


def _draw_roc(say: Words, digest: str, *, names: RankedNames, view: Reached) -> None:
    if view.counts is None:
        why = say.text("measures_no_truth_do")
        st.html(blocks.heading(say.text("measures_no_truth"), below=why))
        return
    curve = cached.roc(digest, score=names.score, stratum=names.stratum)
    at = (view.counts.false_positive_rate.value, view.counts.recall.value)
    texts = {key: say.sentences[f"measures_roc_{key}"] for key in ("x", "y", "chance", "at")}
    figure = measure_charts.roc_chart(
        [curve],
        labels=[measure_tables.score_name(say, names.score)],
        words=texts,
        is_log=False,
        at=at,
    )
    st.html(blocks.heading(say.text("measures_roc_here")))
    alt = say.text("measures_roc_here_alt")
    st.plotly_chart(figure, config=charts.CONFIG, alt=alt, key="measures_roc_at")
    with st.expander(say.text("as_table")):
        st.html(measure_tables.roc_table(say, curve))


def _set(threshold: float, axis: ScoreAxis) -> None:
    st.session_state[_VALUE] = st.session_state[_EXACT] = threshold
    st.session_state[_SLIDER] = axis.place_of(threshold)
    st.query_params["t"] = repr(threshold)


def _slid(axis: ScoreAxis) -> None:
    _set(axis.score_at(st.session_state[_SLIDER]), axis)


def _typed(axis: ScoreAxis) -> None:
    value = st.session_state[_EXACT]
    _set(st.session_state[_VALUE] if value is None else value, axis)
