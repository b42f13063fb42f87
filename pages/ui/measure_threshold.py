"""The threshold of the Measures page: slider, exact value, useful values, and what they reach."""

from __future__ import annotations

import math

import streamlit as st

from audit.attack.scores import GENERAL_ALONE, POPULARITY
from audit.report import threshold as thresholds
from audit.report.report import AuditReport
from audit.report.threshold import LOW_FPRS, USEFUL, RankedNames, Reached, RocView
from audit.words import Words
from pages.ui import blocks, cached
from pages.ui.blocks import measured, percent, percent_interval
from pages.ui.charts import Axis, Series, plot
from pages.ui.form import choose
from pages.ui.section import Table, draw_table, empty, figure, head, refusals, remark
from pages.ui.state import write

_LAST, _SLIDER, _EXACT = "measures_threshold", "measures_slider", "measures_exact"
_N_STEPS = 200
_FIRST_PREVALENCE = 1.0
"""Percent of members in the crowd for which a predictive value is first given."""


def draw(say: Words, report: AuditReport) -> None:
    """Draw the choice of score and controls, and the threshold's panel."""
    left, right = st.columns(2, gap="large")
    with left:
        score = choose(say, "measures_score", thresholds.list_score_codes(report), is_long=True)
    with right:
        strata = tuple(report.measures.strata)
        stratum = choose(say, "kind", strata, what="stratum") if strata else "all"
    _panel(say, report.digest, score=score, stratum=stratum)


@st.fragment
def _panel(say: Words, digest: str, *, score: str, stratum: str) -> None:
    """Draw the threshold of one score, and everything that moves with it."""
    with refusals(say):
        names = cached.ranked(cached.report(digest), score=score, stratum=stratum)
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
            empty(say, "measures_no_truth")
            return
        with right:
            _draw_rates(say, digest, view=view)
        _draw_roc(say, digest, names=names, view=view)


def _threshold(say: Words, names: RankedNames, *, owner: str) -> float:
    """Draw the ways to move a threshold and return it: `?t=`, which all of them write."""
    state, axis, useful = st.session_state, names.axis, thresholds.find_useful_thresholds(names)
    whose, written = state.get(_LAST, ("", ""))
    # What was written for another score counts no more; a link, or the browser's way back, does.
    texts = [
        one for one in (st.query_params.get("t", ""), written) if one != written or whose == owner
    ]
    asked = [one for one in map(thresholds.read_threshold, texts) if not math.isnan(one)]
    threshold = state[_EXACT] = (asked or [thresholds.choose_first_threshold(useful)])[0]
    state[_SLIDER], state[_LAST] = axis.place_of(threshold), (owner, repr(threshold))
    write("t", repr(threshold))
    for column, code in zip(st.columns(len(USEFUL)), USEFUL, strict=True):
        is_missing = math.isnan(useful[code])
        column.button(
            say.text(f"measures_use_{code}"),
            key=f"measures_use_{code}",
            width="stretch",
            help=say.text(f"measures_why_not_{code}" if is_missing else f"measures_help_{code}"),
            disabled=is_missing,
            on_click=write,
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
        on_change=lambda: write("t", repr(axis.score_at(state[_SLIDER]))),
    )
    exact.number_input(
        say.text("measures_exact"),
        format="%.6g",
        key=_EXACT,
        on_change=lambda: write("t", repr(state[_EXACT])),
    )
    return threshold


def _draw_counts(say: Words, digest: str, *, view: Reached, stratum: str) -> None:
    """Draw the four counts at a threshold; without truth, the number flagged."""
    counts, flagged = view.counts, view.flagged
    lines = {"unknown": (flagged.n_hits, flagged.n_total - flagged.n_hits, flagged)}
    if counts is not None:
        lines = {
            "member": (counts.tp, counts.fn, counts.recall),
            stratum: (counts.fp, counts.tn, counts.false_positive_rate),
        }
    rows = [
        (say.text(f"kind_{kind}"), k, rest, measured(rate.interval()))
        for kind, (k, rest, rate) in lines.items()
    ]
    table = Table(("kind", "above", "not_above", "share_interval"), rows)
    draw_table(say, "measures_confusion", table, audit=digest, n=view.n_not_scored)


def _draw_rates(say: Words, digest: str, *, view: Reached) -> None:
    assert view.counts is not None
    rates = {
        say.text("column_precision"): view.counts.precision.interval(),
        say.text("column_f1"): view.f1,
        say.text("column_accuracy"): view.counts.accuracy.interval(),
        say.text("measures_ppv", share=f"{100 * view.prevalence:g} %"): view.ppv,
    }
    table = {"rate": list(rates), "share_interval": list(map(measured, rates.values()))}
    draw_table(say, "measures_rates", table, audit=digest)


def _draw_roc(say: Words, digest: str, *, names: RankedNames, view: Reached) -> None:
    """Draw the score's ROC beside M_general alone and popularity, and where the threshold lies."""
    head(say, "measures_roc")
    curves = {
        code: cached.roc(cached.report(digest), score=code, stratum=names.stratum)
        for code in dict.fromkeys((names.score, GENERAL_ALONE, POPULARITY))
    }
    if not curves[names.score].n_members or not curves[names.score].n_controls:
        empty(say, "measures_no_roc")
        return
    is_log = choose(say, "measures_axes", ("log", "linear")) == "log"
    rows = [
        (say.text(f"measures_score_{code}"), percent(f), percent(t), f"{percent(a)} – {percent(b)}")
        for code, one in curves.items()
        for f, t, a, b in zip(one.fpr, one.tpr, one.low, one.high, strict=True)
    ]
    table = Table(("measures_score", "fpr", "recall", "interval"), rows, n_merged=1)
    chart = _roc_chart(say, curves, view=view, is_log=is_log)
    figure(say, "measures_roc", chart, table=table, audit=digest)
    _draw_low_rates(say, cached.report(digest), names.stratum, codes=list(curves))


def _draw_low_rates(say: Words, report: AuditReport, stratum: str, *, codes: list[str]) -> None:
    """Draw the TPR at low FPRs as cards, and say what the list cannot resolve."""
    one, cards = report.measures.strata[stratum], []
    ranked = one.rank_scores(report.fixed_score)
    for fpr in LOW_FPRS:
        own, *others = (ranked[code].tpr(fpr) for code in codes)
        beside = zip(codes[1:], others, strict=True)
        cards.append(
            blocks.Figures(
                say.text("measures_tpr", fpr=f"{100 * fpr:g} %"),
                percent(own.value),
                percent_interval(own),
                tuple(
                    (say.text(f"measures_score_{code}"), percent(tpr.value)) for code, tpr in beside
                ),
            )
        )
    st.html(blocks.figure_cards(cards))
    if any(math.isnan(ranked[codes[0]].tpr(fpr).value) for fpr in LOW_FPRS):
        remark(say, "measures_unresolved", n=one.n_controls)


def _roc_chart(say: Words, curves: dict[str, RocView], *, view: Reached, is_log: bool) -> object:
    assert view.counts is not None
    shown, floor = thresholds.fit_to_axes(list(curves.values()), is_log=is_log)
    ends = [100 * max(floor), 100.0]
    series = [Series(say.text("measures_chance"), ends, ends, dash="longdash", hover="")]
    for one in reversed(shown):
        x, y, low, high = ((100 * axis).tolist() for axis in (one.fpr, one.tpr, one.low, one.high))
        band = {"low": low, "high": high, "is_attack": True} if one is shown[0] else {}
        name = say.text(f"measures_score_{one.score}")
        series.append(Series(name, x, y, "step", hover="%{x:.1f} % → %{y:.1f} %", **band))
    at = (view.counts.false_positive_rate.value, view.counts.recall.value)
    if not math.isnan(sum(at)):
        x, y = ([100 * max(rate, low)] for rate, low in zip(at, floor, strict=True))
        looks = {"symbol": "diamond", "hover": f"{percent(at[0])} → {percent(at[1])}"}
        series.append(Series(say.text("measures_roc_at"), x, y, "points", is_attack=True, **looks))
    ticks = {t: f"{t:g} %" for t in (0.01, 0.1, 1.0, 10.0, 100.0)} if is_log else None
    titles = (say.text("measures_roc_x"), say.text("measures_roc_y"))
    x_axis, y_axis = (Axis(title, is_log=is_log, ticks=ticks, suffix=" %") for title in titles)
    return plot(series, x=x_axis, y=y_axis)
