"""Charts of the Measures page: ROC, AUC by inputs, ranks of passages, p-values.

Values in, plotly figures out, with the colours of `charts`: rust is the attack, grey all else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from audit.report.report import Linking
from audit.report.threshold import Calibration, RocView
from pages.ui.charts import GREY, LINE, RUST
from pages.ui.text import escaped

_RUST_BAND, _GREY_BAND = "rgba(196, 85, 47, 0.18)", "rgba(125, 133, 144, 0.16)"
_DASHES = ("solid", "dash", "dot", "dashdot")
Point = tuple[float, float]


def roc_chart(
    curves: Sequence[RocView],
    *,
    labels: Sequence[str],
    words: Mapping[str, str],
    is_log: bool,
    at: Point | None = None,
) -> go.Figure:
    """Return ROC curves with their 95 % bands, the attack's first; `at` is (FPR, TPR) of a rule.

    On logarithmic axes a rate of 0 has no place: it is drawn at half of what the list resolves.
    """
    figure = go.Figure()
    floor_x = min((1 / c.n_controls for c in curves if c.n_controls), default=1.0) / (
        2 if is_log else math.inf
    )
    floor_y = min((0.5 / c.n_members for c in curves if c.n_members), default=0.0) * is_log
    low = max(floor_x, floor_y)
    figure.add_scatter(
        x=[low or 0, 1], y=[low or 0, 1], mode="lines", name=escaped(words["chance"]),
        line={"color": LINE, "dash": "dash", "width": 1.5}, hoverinfo="skip",
    )  # fmt: skip
    for place, (curve, label) in reversed(list(enumerate(zip(curves, labels, strict=True)))):
        start = [] if is_log else [0.0]  # up to the first point the curve is upright
        xs = [max(x, floor_x) for x in curve.fpr.tolist()]
        if place == 0:
            _band(figure, curve, xs, floor_y=floor_y, colour=_RUST_BAND)
        figure.add_scatter(
            x=start + xs,
            y=start + [max(y, floor_y) for y in curve.tpr.tolist()],
            mode="lines",
            name=escaped(label),
            line={
                "color": GREY if place else RUST,
                "shape": "hv",
                "width": 2 if place else 3,
                "dash": _DASHES[place % len(_DASHES)],
            },
            hovertemplate="%{x:.3f} → %{y:.3f}<extra></extra>",
        )
    if at is not None and not math.isnan(at[0] + at[1]):
        figure.add_scatter(
            x=[max(at[0], floor_x)], y=[max(at[1], floor_y)], mode="markers",
            name=escaped(words["at"]), hovertemplate="%{x:.3f} → %{y:.3f}<extra></extra>",
            marker={"color": RUST, "size": 14, "symbol": "diamond", "line": {"width": 2}},
        )  # fmt: skip
    for update, title in ((figure.update_xaxes, words["x"]), (figure.update_yaxes, words["y"])):
        update(title=title, gridcolor=LINE, zeroline=False, type="log" if is_log else "linear")
        update(tickformat=".3~g" if is_log else ".1f", **({"dtick": 1} if is_log else {}))
    return _finished(figure, height=430)


def curve_chart(
    curve: Mapping[int, Mapping[str, float]],
    *,
    labels: Mapping[str, str],
    words: Mapping[str, str],
    has_chance: bool,
) -> go.Figure:
    """Return a measure by number of inputs or documents and by code, the attack's line first.

    `labels` are the codes that are drawn; with `has_chance` a line at 0.5 stands for chance.
    """
    figure = go.Figure()
    numbers = list(curve)
    for place, (code, label) in enumerate(labels.items()):
        values = [found.get(code, math.nan) for found in curve.values()]
        figure.add_scatter(
            x=numbers,
            y=[None if math.isnan(value) else value for value in values],
            mode="lines+markers",
            name=escaped(label),
            line={
                "color": GREY if place else RUST,
                "width": 2 if place else 3,
                "dash": _DASHES[place % len(_DASHES)],
            },
            marker={"symbol": "circle-open" if place else "circle", "size": 8},
            hovertemplate="%{x:,} → %{y:.3f}<extra></extra>",
        )
    if has_chance:
        figure.add_hline(y=0.5, line={"color": LINE, "dash": "dash", "width": 1.5})
    figure.update_xaxes(
        title=words["x"], type="log", gridcolor=LINE, tickvals=numbers,
        ticktext=[f"{n:,}" for n in numbers], zeroline=False,
    )  # fmt: skip
    figure.update_yaxes(title=words["y"], range=[0, 1.03], gridcolor=LINE, zeroline=False)
    return _finished(figure, height=400)


def linking_chart(linking: Linking, *, words: Mapping[str, str]) -> go.Figure:
    """Return the share of passages whose own name is among the first so many, beside chance."""
    figure = go.Figure()
    n = linking.n_names
    figure.add_scatter(
        x=list(range(1, n + 1)), y=[100 * k / n for k in range(1, n + 1)], mode="lines",
        name=escaped(words["chance"]), line={"color": GREY, "dash": "dash", "width": 2},
        hovertemplate="%{x} → %{y:.1f} %<extra></extra>",
    )  # fmt: skip
    general, (ranks, share) = linking.general_alone, linking.reached()
    figure.add_scatter(
        x=[1, 5], y=[100 * general.top_1, 100 * general.top_5], mode="markers",
        name=escaped(words["general"]),
        marker={"color": GREY, "symbol": "circle-open", "size": 11, "line": {"width": 2}},
        hovertemplate="%{x} → %{y:.1f} %<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=[*ranks.tolist(), n], y=[*(100 * share).tolist(), 100], mode="lines",
        name=escaped(words["attack"]), line={"color": RUST, "shape": "hv", "width": 3},
        hovertemplate="%{x} → %{y:.1f} %<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title=words["x"], type="log", gridcolor=LINE, zeroline=False, dtick=1)
    figure.update_yaxes(
        title=words["y"], range=[0, 102], gridcolor=LINE, zeroline=False, ticksuffix=" %"
    )
    return _finished(figure, height=400)


def calibration_chart(found: Calibration, *, words: Mapping[str, str]) -> go.Figure:
    """Return the controls' p-values against uniform ones, with the band in which they may stray."""
    figure = go.Figure()
    half = found.half_width
    for sign, fill in ((1, None), (-1, "tonexty")):
        ends = [min(max(x + sign * half, 0), 1) for x in (0, max(half, 0), 1 - half, 1)]
        figure.add_scatter(
            x=[0, half, 1 - half, 1], y=ends, mode="lines", line={"width": 0}, fill=fill,
            fillcolor=_GREY_BAND, hoverinfo="skip", showlegend=fill is not None,
            name=escaped(words["band"]),
        )  # fmt: skip
    figure.add_scatter(
        x=[0, 1], y=[0, 1], mode="lines", line={"color": LINE, "dash": "dash"},
        hoverinfo="skip", showlegend=False,
    )  # fmt: skip
    figure.add_scatter(
        x=found.expected.tolist(), y=found.p.tolist(), mode="markers",
        name=escaped(words["controls"]),
        marker={"color": GREY, "symbol": "circle-open", "size": 7},
        hovertemplate="%{x:.3f} → %{y:.4f}<extra></extra>",
    )  # fmt: skip
    for update, key in ((figure.update_xaxes, "x"), (figure.update_yaxes, "y")):
        update(title=words[key], range=[-0.01, 1.01], gridcolor=LINE, zeroline=False)
    return _finished(figure, height=430)


def _band(
    figure: go.Figure, curve: RocView, xs: list[float], *, floor_y: float, colour: str
) -> None:
    for ys, fill in ((curve.low, None), (curve.high, "tonexty")):
        figure.add_scatter(
            x=xs, y=[max(y, floor_y) for y in ys.tolist()], mode="lines", fill=fill,
            line={"width": 0, "shape": "hv"}, fillcolor=colour, hoverinfo="skip",
            showlegend=False,
        )  # fmt: skip


def _finished(figure: go.Figure, *, height: int) -> go.Figure:
    return figure.update_layout(
        height=height,
        margin={"l": 10, "r": 16, "t": 44, "b": 10},
        font={"size": 13},
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom"},
    )
