"""The threshold of the Measures page: slider, exact value, useful values, and their results."""

from __future__ import annotations

import math
from dataclasses import replace

import streamlit as st

from audit.attack.measure_types import GENERAL_ALONE, POPULARITY
from audit.report import threshold as thresholds
from audit.report.report import AuditReport
from audit.report.threshold import LOW_FPRS, USEFUL, RankedNames, Reached, RocView
from audit.stats import Estimate
from audit.tables import UNDEFINED, small
from audit.words import Words
from pages.ui import blocks, cached
from pages.ui.blocks import estimate_cell, format_percent, format_percent_interval
from pages.ui.charts import Axis, Series, plot
from pages.ui.form import choose
from pages.ui.section import (
    Columns,
    Table,
    draw_absence,
    draw_figure,
    draw_heading,
    draw_remark,
    draw_table,
    show_refusals,
)
from pages.ui.state import write_parameter

_LAST, _SLIDER, _EXACT = "measures_threshold", "measures_slider", "measures_exact"
_N_STEPS = 200
_FIRST_PREVALENCE = 1.0
"""Initial percentage of members in the population, for the predictive value."""


def draw(say: Words, report: AuditReport) -> None:
    """Draw the choice of score and controls, and the threshold's panel."""
    left, right = st.columns(2, gap="large")
    with left:
        score = choose(say, "measures_score", thresholds.list_score_codes(report), is_long=True)
    with right:
        strata = tuple(report.measures.strata)
        stratum = choose(say, "kind", strata, parameter="stratum") if strata else "all"
    _panel(say, report.digest, score=score, stratum=stratum)


@st.fragment
def _panel(say: Words, digest: str, *, score: str, stratum: str) -> None:
    """Draw the threshold of one score, and all results that depend on it."""
    with show_refusals(say):
        names = cached.ranking(cached.report(digest), score=score, stratum=stratum)
        threshold, prevalence = _threshold(say, names, owner=f"{digest} {score}"), _FIRST_PREVALENCE
        left, right = st.columns(2, gap="large")
        if names.has_truth:
            prevalence = right.number_input(
                say.text("measures_prevalence"),
                min_value=0.01,
                max_value=99.0,
                value=prevalence,
                key="prevalence",
                bind="query-params",
            )
        view = thresholds.apply_threshold(names, threshold=threshold, prevalence=prevalence / 100)
        with left:
            _draw_counts(say, digest, view=view, stratum=stratum)
        if view.counts is None:
            draw_absence(say, "measures_no_truth")
            return
        with right:
            _draw_rates(say, digest, view=view)
        _draw_roc(say, digest, names=names, view=view)


def _threshold(say: Words, names: RankedNames, *, owner: str) -> float:
    """Draw the inputs for a threshold and return it; all of them write `?t=`."""
    state, axis, useful = st.session_state, names.axis, thresholds.find_useful_thresholds(names)
    last_owner, last_text = state.get(_LAST, ("", ""))
    # A threshold written for another score is ignored; one of a link or of a step back is not.
    texts = [
        text
        for text in (st.query_params.get("t", ""), last_text)
        if text != last_text or last_owner == owner
    ]
    linked_thresholds = [
        threshold
        for threshold in map(thresholds.read_threshold, texts)
        if not math.isnan(threshold)
    ]
    threshold = state[_EXACT] = (linked_thresholds or [thresholds.choose_first_threshold(useful)])[
        0
    ]
    state[_SLIDER], state[_LAST] = axis.place_of(threshold), (owner, repr(threshold))
    write_parameter("t", repr(threshold))
    for column, code in zip(st.columns(len(USEFUL)), USEFUL, strict=True):
        is_missing = math.isnan(useful[code])
        column.button(
            say.text(f"measures_use_{code}"),
            key=f"measures_use_{code}",
            width="stretch",
            help=say.text(f"measures_why_not_{code}" if is_missing else f"measures_help_{code}"),
            disabled=is_missing,
            on_click=write_parameter,
            args=("t", repr(useful[code])),
        )
    slider, exact = st.columns([2, 1], gap="large", vertical_alignment="bottom")
    slider.slider(
        say.text("measures_slider_log" if axis.is_log else "measures_slider"),
        min_value=axis.low,
        max_value=axis.high,
        step=(axis.high - axis.low) / _N_STEPS,
        format="%.3g",
        key=_SLIDER,
        on_change=lambda: write_parameter("t", repr(axis.score_at(state[_SLIDER]))),
    )
    exact.number_input(
        say.text("measures_exact"),
        format="%.6g",
        key=_EXACT,
        on_change=lambda: write_parameter("t", repr(state[_EXACT])),
    )
    return threshold


def _draw_counts(say: Words, digest: str, *, view: Reached, stratum: str) -> None:
    """Draw the four counts at a threshold or, without truth, the number flagged."""
    counts, flagged = view.counts, view.flagged
    lines: dict[str, tuple[int, int, Estimate]] = {
        "unknown": (flagged.n_hits, flagged.n_total - flagged.n_hits, flagged.interval())
    }
    if counts is not None:
        lines = {
            "member": (counts.tp, counts.fn, counts.recall),
            stratum: (counts.fp, counts.tn, counts.false_positive_rate),
        }
    rows = [
        (say.text(f"kind_{kind}"), k, rest, estimate_cell(rate))
        for kind, (k, rest, rate) in lines.items()
    ]
    table = Table(("kind", "above", "not_above", "share_interval"), rows)
    draw_table(say, "measures_confusion", table, audit=digest, n=view.n_not_scored)


def _draw_rates(say: Words, digest: str, *, view: Reached) -> None:
    assert view.counts is not None
    rates = {
        say.text("column_precision"): view.counts.precision,
        say.text("column_f1"): view.f1,
        say.text("column_accuracy"): view.counts.accuracy,
        say.text("measures_ppv", share=f"{100 * view.prevalence:g} %"): view.ppv,
    }
    table: Columns = {
        "rate": list(rates),
        "share_interval": list(map(estimate_cell, rates.values())),
    }
    draw_table(say, "measures_rates", table, audit=digest)


def _draw_roc(say: Words, digest: str, *, names: RankedNames, view: Reached) -> None:
    """Draw the ROC of the score, of M_general alone and of popularity, with the threshold."""
    draw_heading(say, "measures_roc")
    curves = {
        code: cached.roc(cached.report(digest), score=code, stratum=names.stratum)
        for code in dict.fromkeys((names.score, GENERAL_ALONE, POPULARITY))
    }
    if not curves[names.score].n_members or not curves[names.score].n_controls:
        draw_absence(say, "measures_no_roc")
        return
    is_log = choose(say, "measures_axes", ("log", "linear")) == "log"
    rows = [
        (
            say.text(f"measures_score_{code}"),
            format_percent(f),
            format_percent(t),
            f"{format_percent(a)} – {format_percent(b)}",
        )
        for code, curve in curves.items()
        for f, t, a, b in zip(curve.fpr, curve.tpr, curve.low, curve.high, strict=True)
    ]
    table = Table(("measures_score", "fpr", "recall", "interval"), rows, n_merged=1)
    chart = _roc_chart(say, curves, view=view, is_log=is_log)
    clicked_facts = draw_figure(
        say, "measures_roc", chart, table=table, audit=digest, is_clickable=True
    )
    if clicked_facts and clicked_facts[0] not in ("", repr(view.threshold)):
        write_parameter("t", str(clicked_facts[0]))
        st.rerun()
    _draw_low_rates(say, cached.report(digest), names.stratum, codes=list(curves))


def _draw_low_rates(say: Words, report: AuditReport, stratum: str, *, codes: list[str]) -> None:
    """Draw the TPR at low FPRs as cards, with a remark if the list cannot resolve one."""
    measures, cards = report.measures.strata[stratum], []
    ranked = measures.rank_scores(report.fixed_score)
    for fpr in LOW_FPRS:
        own_tpr, *other_tprs = (ranked[code].tpr(fpr) for code in codes)
        compared_tprs = zip(codes[1:], other_tprs, strict=True)
        cards.append(
            blocks.Figures(
                say.text("measures_tpr", fpr=f"{100 * fpr:g} %"),
                format_percent(own_tpr.value),
                format_percent_interval(own_tpr),
                tuple(
                    (say.text(f"measures_score_{code}"), format_percent(tpr.value))
                    for code, tpr in compared_tprs
                ),
            )
        )
    st.html(blocks.figure_cards(cards))
    if any(math.isnan(ranked[codes[0]].tpr(fpr).value) for fpr in LOW_FPRS):
        draw_remark(say, "measures_unresolved", n=measures.n_controls)


def _roc_facts(curve: RocView, *, n_points: int) -> list[list[str]]:
    """Return of each drawn point the threshold that a click sets, and what a pointer over it shows.

    Linear axes draw a point before those of the curve. A logarithmic axis draws a rate of 0
    elsewhere, so the rates are told here.
    """
    points = zip(curve.threshold.tolist(), curve.fpr, curve.tpr, strict=True)
    facts = [
        [
            "" if math.isnan(threshold) else repr(threshold),
            small(threshold),
            format_percent(fpr),
            format_percent(tpr),
        ]
        for threshold, fpr, tpr in points
    ]
    start = ["", UNDEFINED, format_percent(0.0), format_percent(0.0)]
    return [start] * (n_points - len(facts)) + facts


def _roc_chart(say: Words, curves: dict[str, RocView], *, view: Reached, is_log: bool) -> object:
    assert view.counts is not None
    visible_curves, floor = thresholds.fit_to_axes(list(curves.values()), is_log=is_log)
    ends = [100 * max(floor), 100.0]
    series = [Series(say.text("measures_chance"), ends, ends, dash="longdash", hover="")]
    for curve in reversed(visible_curves):
        x, y, low, high = (
            (100 * axis).tolist() for axis in (curve.fpr, curve.tpr, curve.low, curve.high)
        )
        name = say.text(f"measures_score_{curve.score}")
        line = Series(name, x, y, "step", hover="%{x:.1f} % → %{y:.1f} %")
        if curve is visible_curves[0]:
            line = replace(line, low=low, high=high, is_attack=True)
            threshold, fpr, recall = (f"%{{customdata[{place}]}}" for place in (1, 2, 3))
            hover = say.text("measures_roc_point", t=threshold, fpr=fpr, recall=recall)
            facts = _roc_facts(curves[curve.score], n_points=len(x))
            line = replace(line, facts=facts, hover=hover.replace("\n", "<br>"))
        series.append(line)
    point = (view.counts.false_positive_rate.value, view.counts.recall.value)
    if not math.isnan(sum(point)):
        x, y = ([100 * max(rate, low)] for rate, low in zip(point, floor, strict=True))
        hover = f"{format_percent(point[0])} → {format_percent(point[1])}"
        name = say.text("measures_roc_at")
        series.append(Series(name, x, y, "points", is_attack=True, symbol="diamond", hover=hover))
    ticks = {t: f"{t:g} %" for t in (0.01, 0.1, 1.0, 10.0, 100.0)} if is_log else None
    titles = (say.text("measures_roc_x"), say.text("measures_roc_y"))
    x_axis, y_axis = (Axis(title, is_log=is_log, ticks=ticks, suffix=" %") for title in titles)
    return plot(series, x=x_axis, y=y_axis)
