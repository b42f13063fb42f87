"""Charts: values in, plotly figures out. Rust is the hospital model and a leak, grey all else.

Colours are chosen for a light background; `apply_theme` replaces them for a dark one. Each has a
contrast of at least 4.5:1. Shape and position repeat what colour says. Foreign text is escaped,
because plotly reads a few tags.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, TypedDict, Unpack

import plotly.graph_objects as go

from audit.stats import Estimate
from pages.ui.blocks import escape_html

RUST, GREY = "#B5482A", "#5F6670"
_ON_DARK = {RUST: "#E0754F", GREY: "#9BA3AE"}
_INK = {False: "#31333F", True: "#E6E7EB"}
_GROUND = {False: "#FFFFFF", True: "#14171D"}
LINE = "rgba(125, 133, 144, 0.35)"
CONFIG = {"displayModeBar": False, "responsive": True}
_TITLE, _WIDE_TITLE = 36, 14
"""Characters in one line of an axis' title, in Latin or wide letters: plotly does not wrap titles,
but cuts long ones."""
_GOLDEN = 0.618033988749895
_BANDS = {True: "rgba(196, 85, 47, 0.18)", False: "rgba(125, 133, 144, 0.16)"}
_DASHES = ("dash", "dot", "dashdot")


@dataclass(frozen=True)
class Axis:
    """An axis: its title with the unit, its range, scale and ticks."""

    title: str
    is_log: bool = False
    range: tuple[float, float] | None = None
    ticks: Mapping[float, str] | None = None
    suffix: str = ""
    has_grid: bool = True


class Look(TypedDict, total=False):
    """How a series is drawn; see `Series`."""

    is_attack: bool
    dash: str
    symbol: str
    hover: str
    has_legend: bool


@dataclass(frozen=True)
class Series:
    """Points of one curve: rust, filled and wide for the attack, grey and open for all else.

    Attributes
    ----------
    form
        "line", "step" (upright first), "marked" (a line with dots), "dots", "points" (large, with
        intervals), "bars".
    low, high
        The interval of each point; for lines and steps a band.
    left, right
        The interval of each point along x.
    dash
        Plotly's name of a line's dashes; "" chooses them by the position of the series.
    facts
        What a click on a point returns, and what `hover` shows as `%{customdata[0]}`; text in it
        must be escaped.
    """

    name: str
    x: Sequence[object]
    y: Sequence[float | None]
    form: str = "line"
    is_attack: bool = False
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    left: Sequence[float] = ()
    right: Sequence[float] = ()
    dash: str = ""
    symbol: str = "circle"
    hover: str = "%{x:.3f} → %{y:.3f}"
    has_legend: bool = True
    facts: Sequence[Sequence[object]] = ()


def plot(series: Sequence[Series], *, x: Axis, y: Axis, height: int = 400) -> go.Figure:
    """Return a figure of several series; the last one lies on top and comes first in the legend."""
    figure = go.Figure()
    n_others = 0
    for curve in series:
        n_others += not curve.is_attack
        dash = curve.dash or (
            "solid" if curve.is_attack else _DASHES[(n_others - 1) % len(_DASHES)]
        )
        _draw_series(figure, curve, dash=dash)
    for axis, update in ((x, figure.update_xaxes), (y, figure.update_yaxes)):
        update(
            title="<br>".join(map(escape_html, _wrap_title(axis.title))),
            zeroline=False,
            gridcolor=LINE,
            showgrid=axis.has_grid,
            ticksuffix=axis.suffix,
            type="log" if axis.is_log else None,
            exponentformat="power",
            minexponent=4,
            range=axis.range,
        )
        if axis.ticks is not None:
            texts = [escape_html(text).replace("\n", "<br>") for text in axis.ticks.values()]
            update(tickvals=list(axis.ticks), ticktext=texts, automargin=True)
    legend_names = {curve.name for curve in series if curve.has_legend}
    has_legend = len(legend_names) > 1
    return figure.update_layout(
        height=height + 30 * has_legend,
        font={"size": 13},
        showlegend=has_legend,
        margin={"l": 10, "r": 16, "t": 44 if has_legend else 14, "b": 10},
        legend={
            "orientation": "h",
            "x": 0,
            "y": 1.01,
            "yanchor": "bottom",
            "traceorder": "reversed",
        },
    )


def _draw_series(figure: go.Figure, series: Series, *, dash: str) -> None:
    colour, name = RUST if series.is_attack else GREY, _break_name(series.name)
    trace: dict[str, Any] = {"type": "scatter", "x": series.x, "y": series.y, "name": name}
    if series.facts:
        trace["customdata"] = series.facts
    if series.hover:
        trace["hovertemplate"] = f"{series.hover}<extra></extra>"
    else:
        trace["hoverinfo"] = "skip"
    if series.form == "bars":
        hatched = {"shape": "" if series.is_attack else "/", "size": 5, "solidity": 0.25}
        look = {"color": colour, "opacity": 0.75, "pattern": hatched}
        figure.add_trace({**trace, "type": "bar", "marker": look})
        return
    shape = "hv" if series.form == "step" else "linear"
    is_line = series.form in ("line", "step", "marked")
    if is_line and series.low:
        for ys, fill in ((series.low, "none"), (series.high, "tonexty")):
            figure.add_scatter(
                x=series.x,
                y=ys,
                mode="lines",
                fill=fill,
                fillcolor=_BANDS[series.is_attack],
                line={"width": 0, "shape": shape},
                hoverinfo="skip",
                showlegend=False,
            )
    trace |= _line_look(series, colour, dash=dash) if is_line else _marker_look(series, colour)
    figure.add_trace({**trace, "showlegend": series.has_legend})


def _line_look(series: Series, colour: str, *, dash: str) -> dict[str, Any]:
    """Return the look of a line; where its points can be clicked, they are seen as dots."""
    shape, width = "hv" if series.form == "step" else "linear", 3 if series.is_attack else 2
    look: dict[str, Any] = {
        "mode": "lines",
        "line": {"color": colour, "dash": dash, "width": width, "shape": shape},
    }
    if series.form == "marked" or series.facts:
        symbol = series.symbol if series.is_attack else "circle-open"
        size = 8 if series.form == "marked" else 6
        look |= {"mode": "lines+markers", "marker": {"size": size, "symbol": symbol}}
    return look


def _marker_look(series: Series, colour: str) -> dict[str, Any]:
    """Return the look of dots, or of points with the arms of their intervals."""
    is_large = series.form == "points"
    look: dict[str, Any] = {
        "mode": "markers",
        "marker": {
            "color": colour,
            "size": 12 if is_large else 7,
            "opacity": 1.0 if is_large else 0.7,
            "symbol": series.symbol if series.is_attack else f"{series.symbol}-open",
            "line": {"width": 2 * is_large, "color": colour},
        },
    }
    xs = [x for x in series.x if isinstance(x, int | float)]
    arms: tuple[tuple[str, Sequence[float | None], Sequence[float], Sequence[float]], ...] = (
        ("y", series.y, series.low, series.high),
        ("x", xs, series.left, series.right),
    )
    for axis, coordinates, low, high in arms:
        if low:
            look[f"error_{axis}"] = {
                "array": [_length(h, y) for h, y in zip(high, coordinates, strict=True)],
                "arrayminus": [_length(y, end) for y, end in zip(coordinates, low, strict=True)],
                "color": colour,
                "thickness": 2,
                "width": 6,
            }
    return look


def _length(upper: float | None, lower: float | None) -> float:
    """Return the length of an interval's arm; 0 if one of its ends is unknown."""
    length = math.nan if upper is None or lower is None else upper - lower
    return 0.0 if math.isnan(length) else length


def _wrap_title(title: str) -> list[str]:
    """Break an axis' title into lines; lines of wide letters are of about one length."""
    if title.isascii():
        return wrap(title, _TITLE)
    n_lines = math.ceil(len(title) / _WIDE_TITLE)
    return wrap(title, math.ceil(len(title) / n_lines))


def _break_name(name: str) -> str:
    """Break a name into lines that fit the legend on a telephone."""
    return "<br>".join(map(escape_html, wrap(name, 36 if name.isascii() else 20)))


def point_series(
    name: str,
    x: Sequence[float],
    estimates: Sequence[Estimate],
    *,
    scale: float = 1,
    **look: Unpack[Look],
) -> Series:
    """Return estimates with their intervals as large points; `scale` 100 is for percent."""
    y, low, high = (
        [scale * getattr(estimate, end) for estimate in estimates]
        for end in ("value", "low", "high")
    )
    return Series(name, list(x), y, "points", low=low, high=high, **look)


def apply_theme(figure: go.Figure, *, is_dark: bool) -> go.Figure:
    """Return a figure in the colours of the reader's light or dark theme."""
    if is_dark:
        text = figure.to_json()
        for light, dark in _ON_DARK.items():
            text = text.replace(light, dark)
        figure = go.Figure(json.loads(text))
    ink = {"color": _INK[is_dark]}
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(tickfont=ink, title_font=ink)
    label = {"align": "left", "font": ink, "bgcolor": _GROUND[is_dark], "bordercolor": LINE}
    return figure.update_layout(font=ink, legend_font=ink, hoverlabel=label)


def spread_dots(n: int, *, width: float = 0.62) -> list[float]:
    """Return offsets for `n` dots of one row so that no two dots overlap."""
    return [width * ((i * _GOLDEN) % 1 - 0.5) for i in range(n)]
