"""The threshold of the Measures page: slider, exact value, useful values, and what they reach."""

from __future__ import annotations

import math
from collections.abc import Mapping

import streamlit as st

from audit.attack.decisions import Confusion
from audit.attack.scores import GENERAL_ALONE, POPULARITY
from audit.report.report import AuditReport
from audit.report.threshold import (
    LOW_FPRS,
    USEFUL,
    RankedNames,
    Reached,
    RocView,
    ScoreAxis,
    at_threshold,
    drawn,
    first_threshold,
    read_threshold,
    score_codes,
    strata_of,
    useful_thresholds,
)
from audit.words import Words
from pages.ui import blocks, cached
from pages.ui.blocks import measured, percent, percent_interval
from pages.ui.charts import Axis, Series, plot
from pages.ui.measured import choose_stratum, controls_name, one_of, score_name
from pages.ui.section import Table, draw_table, empty, figure, head, refusals, remark

_VALUE, _OWNER, _WRITTEN = "measures_threshold", "measures_threshold_of", "measures_t_written"
_SLIDER, _EXACT, _PREVALENCE = "measures_slider", "measures_exact", "measures_prevalence"
_N_STEPS = 200
_FIRST_PREVALENCE = 1.0
"""Percent of members in the crowd for which a predictive value is first given."""


def draw(say: Words, report: AuditReport) -> None:
    """Draw the choice of score and controls, and the threshold's panel."""
    left, right = st.columns(2, gap="large")
    with left:
        names = {code: score_name(say, code) for code in score_codes(report)}
        score = one_of(say, "score", names, label="measures_score", is_long=True)
    with right:
        stratum = choose_stratum(say, strata_of(report)) if report.has_truth else "all"
    _panel(say, report.digest, score=score, stratum=stratum)


@st.fragment
def _panel(say: Words, digest: str, *, score: str, stratum: str) -> None:
    """Draw the threshold of one score, and everything that moves with it."""
    with refusals(say):
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
            _draw_counts(say, digest, view=view, names=names)
        if view.counts is None:
            empty(say, "measures_no_truth")
            return
        with right:
            st.number_input(
                say.text("measures_prevalence"),
                min_value=0.01,
                max_value=99.0,
                value=_FIRST_PREVALENCE,
                key=_PREVALENCE,
            )
            _draw_rates(say, digest, view=view, counts=view.counts)
        _draw_roc(say, digest, names=names, counts=view.counts)


def _begin(axis: ScoreAxis, *, useful: dict[str, float], owner: tuple[str, str]) -> None:
    """Take the threshold from the address where it says another, else one to begin with."""
    state, wanted = st.session_state, st.query_params.get("t", "")
    asked = read_threshold(wanted)
    if wanted != state.get(_WRITTEN) and not math.isnan(asked):
        _set(asked, axis)  # a link, or the browser's way back
    elif state.get(_OWNER) != owner:
        _set(first_threshold(useful), axis)
    elif _SLIDER not in state or _EXACT not in state:
        _set(state[_VALUE], axis)
    state[_OWNER] = owner


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
    slider, exact = st.columns([2, 1], gap="large", vertical_alignment="bottom")
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
        say.text("measures_exact"), format="%.6g", key=_EXACT, on_change=_typed, args=(axis,)
    )


def _set(threshold: float, axis: ScoreAxis) -> None:
    state = st.session_state
    state[_VALUE] = state[_EXACT] = threshold
    state[_SLIDER] = axis.place_of(threshold)
    state[_WRITTEN] = st.query_params["t"] = repr(threshold)


def _slid(axis: ScoreAxis) -> None:
    _set(axis.score_at(st.session_state[_SLIDER]), axis)


def _typed(axis: ScoreAxis) -> None:
    value = st.session_state[_EXACT]
    _set(st.session_state[_VALUE] if value is None else value, axis)


def _draw_counts(say: Words, digest: str, *, view: Reached, names: RankedNames) -> None:
    """Draw the four counts at a threshold; without truth, the number flagged."""
    counts, flagged = view.counts, view.flagged
    lines = [(say.text("kind_unknown"), flagged.n_hits, flagged.n_total - flagged.n_hits, flagged)]
    if counts is not None:
        controls = controls_name(say, names.stratum)
        lines = [
            (say.text("kind_member"), counts.tp, counts.fn, counts.recall),
            (controls, counts.fp, counts.tn, counts.false_positive_rate),
        ]
    rows = [(who, str(k), str(rest), measured(rate.interval())) for who, k, rest, rate in lines]
    header = ("column_kind", "measures_above", "measures_below_t", "measures_share")
    table = Table(header, rows)
    draw_table(say, "measures_confusion", table, audit=digest, n=view.n_not_scored)


def _draw_rates(say: Words, digest: str, *, view: Reached, counts: Confusion) -> None:
    """Draw the rates at a threshold with their intervals."""
    ppv = say.text("measures_ppv", share=f"{100 * view.prevalence:g} %")
    rows = [
        (say.text("rate_precision"), measured(counts.precision.interval())),
        (say.text("rate_f1"), measured(view.f1)),
        (say.text("rate_accuracy"), measured(counts.accuracy.interval())),
        (ppv, measured(view.ppv)),
    ]
    table = Table(("measures_rate", "measures_share"), rows)
    draw_table(say, "measures_rates", table, audit=digest)


def _draw_roc(say: Words, digest: str, *, names: RankedNames, counts: Confusion) -> None:
    """Draw the score's ROC beside M_general alone and popularity, and where the threshold lies."""
    head(say, "measures_roc")
    codes = list(dict.fromkeys((names.score, GENERAL_ALONE, POPULARITY)))
    labels = [score_name(say, code) for code in codes]
    curves = [cached.roc(digest, score=code, stratum=names.stratum) for code in codes]
    if not curves[0].n_members or not curves[0].n_controls:
        empty(say, "measures_no_roc")
        return
    kinds = {code: say.text(f"measures_axes_{code}") for code in ("log", "linear")}
    axes = one_of(say, "axes", kinds, label="measures_axes")
    at = (counts.false_positive_rate.value, counts.recall.value)
    chart = _roc_chart(say, curves, labels=labels, at=at, is_log=axes == "log")
    rows = [
        (label, percent(f), percent(t), f"{percent(low)} – {percent(high)}")
        for label, one in zip(labels, curves, strict=True)
        for f, t, low, high in zip(one.fpr, one.tpr, one.low, one.high, strict=True)
    ]
    header = ("measures_score", "measures_rate_fpr", "rate_recall", "column_interval")
    table = Table(header, rows, n_merged=1)
    figure(say, "measures_roc", chart, table=table, audit=digest)
    _draw_low_rates(
        say, cached.report(digest), names.stratum, scores=dict(zip(codes, labels, strict=True))
    )


def _draw_low_rates(
    say: Words, report: AuditReport, stratum: str, *, scores: Mapping[str, str]
) -> None:
    """Draw the TPR at low FPRs as cards, and say what the list cannot resolve."""
    one = report.measures.strata[stratum]
    ranked, is_resolved = one.ranked(report.fixed_score), True
    cards = []
    for fpr in LOW_FPRS:
        own, *others = ((name, ranked[code].tpr(fpr)) for code, name in scores.items())
        cards.append(
            blocks.Figures(
                label=say.text("measures_tpr", fpr=f"{100 * fpr:g} %"),
                value=percent(own[1].value),
                interval=percent_interval(own[1]),
                others=tuple((name, percent(tpr.value)) for name, tpr in others),
            )
        )
        is_resolved &= not math.isnan(own[1].value)
    st.html(blocks.figure_cards(cards))
    if not is_resolved:
        remark(say, "measures_unresolved", n=one.n_controls)


def _roc_chart(
    say: Words, curves: list[RocView], *, labels: list[str], at: tuple[float, float], is_log: bool
) -> object:
    shown, floor = drawn(curves, is_log=is_log)
    ends = [100 * max(floor), 100.0]
    series = [Series(say.text("measures_chance"), ends, ends, dash="longdash", hover="")]
    for place, (one, label) in reversed(list(enumerate(zip(shown, labels, strict=True)))):
        x, y, low, high = ((100 * axis).tolist() for axis in (one.fpr, one.tpr, one.low, one.high))
        band = {"low": low, "high": high, "is_attack": True} if place == 0 else {}
        series.append(Series(label, x, y, "step", hover="%{x:.1f} % → %{y:.1f} %", **band))
    if not math.isnan(sum(at)):
        x, y = ([100 * max(rate, low)] for rate, low in zip(at, floor, strict=True))
        hover = f"{percent(at[0])} → {percent(at[1])}"
        mark = Series(
            say.text("measures_roc_at"), x, y, "points", is_attack=True, symbol="diamond",
            hover=hover,
        )  # fmt: skip
        series.append(mark)
    ticks = {t: f"{t:g} %" for t in (0.01, 0.1, 1.0, 10.0, 100.0)} if is_log else None
    titles = (say.text("measures_roc_x"), say.text("measures_roc_y"))
    x_axis, y_axis = (Axis(title, is_log=is_log, ticks=ticks, suffix=" %") for title in titles)
    return plot(series, x=x_axis, y=y_axis)
