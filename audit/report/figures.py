"""Figures of an audit that answer to a pointer: for Python, and for the folder without a server.

They hold no names: a name is called by its pseudonym.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from audit.report.name_table import ASKED
from audit.report.report import AuditReport
from audit.stats import Estimate
from audit.tables import decimal, decimal_interval
from audit.words import Words

COLOURS = {False: "#5F6670", True: "#B5482A"}
"""Grey for a control or a comparison, rust for what is asked for."""


def draw_scores(
    report: AuditReport, *, words: Words | None = None, max_dots: int | None = None
) -> go.Figure:
    """Draw the fixed score of every name, by kind of name: rust is asked for, grey a control.

    The figure holds no names. A higher score is more member-like. With `words` (those of reports)
    kinds and axis are written out, and a point tells its name's number and mentions. Kinds of more
    than `max_dots` names are drawn without points.
    """
    figure = go.Figure()
    for kind, rows in report.table.groupby("kind", observed=True):
        n_mentions = rows["n_mentions"].map(lambda n: f"{n:.0f}" if n >= 0 else "")
        has_dots = max_dots is None or len(rows) <= max_dots
        trace: dict[str, Any] = {
            "type": "box",
            "x": rows["score"].tolist(),
            "boxpoints": "all" if has_dots else False,
            "marker": {"color": COLOURS[kind in ASKED]},
        }
        title = words.text(f"kind_{kind}") if words else str(kind)
        if words and has_dots:
            hover_text = (
                f"{title}<br>%{{customdata[0]}}: %{{x:.3g}}<br>{words.text('column_mentions')}: "
            )
            trace |= {
                "customdata": list(zip(rows["number"], n_mentions, strict=True)),
                "hovertemplate": f"{hover_text}%{{customdata[1]}}<extra></extra>",
                "hoveron": "points",
            }
        figure.add_trace({**trace, "name": f"{title} ({len(rows)})"})
    title = words.text(f"axis_{report.fixed_score}") if words else f"score: {report.fixed_score}"
    return figure.update_layout(xaxis_title=title, showlegend=False)


def draw_figures(report: AuditReport, *, words: Words, max_dots: int) -> Mapping[str, go.Figure]:
    """Return the figures of the report by their keys in its templates, without empty ones."""
    figures = {"scores": draw_scores(report, words=words, max_dots=max_dots)}
    if strata := report.measures.strata:
        aucs = {
            source: {
                words.text(f"stratum_{name}"): ranking.auc
                for name in strata
                if (ranking := report.headline(name).get(source))
            }
            for source in ("general_alone", "attack")
        }
        named = {
            words.text("this_attack" if source == "attack" else source): aucs[source]
            for source in aucs
        }
        figures["aucs"] = _draw_intervals(named, title=words.text("axis_auc"))
        figures["aucs"].add_vline(x=0.5, line={"dash": "dot", "color": COLOURS[False]})
    if report.mentions:
        shares = {f"{group.label} ({group.n_names})": group.flagged for group in report.mentions}
        figures["mentions"] = _draw_intervals(
            {words.text("column_flagged"): shares}, title=words.text("axis_share"), scale=100
        )
        controls = report.controls_flagged.interval()
        if not math.isnan(controls.low + controls.high):
            figures["mentions"].add_vrect(
                x0=100 * controls.low,
                x1=100 * controls.high,
                fillcolor=COLOURS[False],
                opacity=0.2,
                line_width=0,
            )
    return figures


def _draw_intervals(
    series: Mapping[str, Mapping[str, Estimate]],
    *,
    title: str,
    scale: float = 1,
) -> go.Figure:
    """Draw estimates between 0 and 1 with their intervals, a row each; the last series in rust."""
    figure = go.Figure()
    for place, (name, estimates) in enumerate(series.items()):
        values, is_asked = list(estimates.values()), place == len(series) - 1
        trace: dict[str, Any] = {
            "type": "scatter",
            "x": [scale * estimate.value for estimate in values],
            "y": list(estimates),
            "name": name,
            "mode": "markers",
            "marker": {
                "size": 11,
                "color": COLOURS[is_asked],
                "symbol": "circle" if is_asked else "circle-open",
                "line": {"width": 2, "color": COLOURS[is_asked]},
            },
            "error_x": {
                "array": _arms(values, scale=scale, is_upper=True),
                "arrayminus": _arms(values, scale=scale, is_upper=False),
            },
            "customdata": [
                f"{decimal(estimate.value)} ({decimal_interval(estimate)})" for estimate in values
            ],
            "hovertemplate": f"{name}<br>%{{y}}<br>%{{customdata}}<extra></extra>",
        }
        figure.add_trace(trace)
    figure.update_yaxes(autorange="reversed", type="category")
    return figure.update_layout(
        xaxis={"title": title, "range": [0, 1.02 * scale]},
        scattermode="group",
        showlegend=len(series) > 1,
        legend={"orientation": "h", "y": 1.15},
    )


def _arms(estimates: Sequence[Estimate], *, scale: float, is_upper: bool) -> list[float]:
    return [
        scale * (estimate.high - estimate.value if is_upper else estimate.value - estimate.low)
        for estimate in estimates
    ]
