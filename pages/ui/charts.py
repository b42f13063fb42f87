"""Charts: values in, plotly figures out. Rust is the hospital model and a leak, grey all else.

Colours are those of a light ground, and `themed` turns them into those of a dark one: each stands
out by at least 4.5:1. Shape and place say the same as colour. Text that is not our own is escaped,
for plotly reads a few tags.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from audit.stats import Estimate
from pages.ui.blocks import escaped

RUST, GREY = "#B5482A", "#5F6670"
_ON_DARK = {RUST: "#E0754F", GREY: "#9BA3AE"}
_INK = {False: "#31333F", True: "#E6E7EB"}
LINE = "rgba(125, 133, 144, 0.35)"
CONFIG = {"displayModeBar": False, "responsive": True}
_TITLE = 36
"""Characters of an axis' title in one line: plotly breaks none, and cuts what is too long."""
_GOLDEN = 0.618033988749895
_BANDS = {True: "rgba(196, 85, 47, 0.18)", False: "rgba(125, 133, 144, 0.16)"}
_DASHES = ("dash", "dot", "dashdot")


@dataclass(frozen=True)
class Axis:
    """An axis: its title with the unit, and what it shows."""

    title: str
    is_log: bool = False
    range: tuple[float, float] | None = None
    ticks: Mapping[float, str] | None = None
    suffix: str = ""
    has_grid: bool = True


@dataclass(frozen=True)
class Series:
    """Points of one thing: rust, filled and wide if it is the attack's, grey and open if not.

    Attributes
    ----------
    form
        "line", "step" (upright first), "marked" (a line with dots), "dots", "points" (large, with
        intervals), "bars".
    low, high
        Of points an interval each, of lines and steps a band.
    left, right
        Of points an interval each along x.
    dash
        Plotly's name of a line's dashes; "" chooses by place.
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


def plot(series: Sequence[Series], *, x: Axis, y: Axis, height: int = 400) -> go.Figure:
    """Return a figure of several series; the last one lies above and leads the legend."""
    figure = go.Figure()
    n_others = 0
    for one in series:
        n_others += not one.is_attack
        dash = one.dash or ("solid" if one.is_attack else _DASHES[(n_others - 1) % len(_DASHES)])
        _draw(figure, one, dash=dash)
    for axis, update in ((x, figure.update_xaxes), (y, figure.update_yaxes)):
        update(
            title="<br>".join(escaped(line) for line in wrap(axis.title, _TITLE)),
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
            texts = [escaped(text).replace("\n", "<br>") for text in axis.ticks.values()]
            update(tickvals=list(axis.ticks), ticktext=texts, automargin=True)
    shown = {one.name for one in series if one.has_legend}
    has_legend = len(shown) > 1
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


def _draw(figure: go.Figure, one: Series, *, dash: str) -> None:
    colour, name = RUST if one.is_attack else GREY, _broken(one.name)
    hover = {"hovertemplate": f"{one.hover}<extra></extra>"} if one.hover else {"hoverinfo": "skip"}
    if one.form == "bars":
        hatched = {"shape": "" if one.is_attack else "/", "size": 5, "solidity": 0.25}
        look = {"color": colour, "opacity": 0.75, "pattern": hatched}
        figure.add_bar(x=one.x, y=one.y, name=name, marker=look, **hover)
        return
    shape = "hv" if one.form == "step" else "linear"
    is_line = one.form in ("line", "step", "marked")
    if is_line and one.low:
        for ys, fill in ((one.low, None), (one.high, "tonexty")):
            figure.add_scatter(
                x=one.x,
                y=ys,
                mode="lines",
                fill=fill,
                fillcolor=_BANDS[one.is_attack],
                line={"width": 0, "shape": shape},
                hoverinfo="skip",
                showlegend=False,
            )
    looks: dict[str, object] = {
        "line": {"color": colour, "dash": dash, "width": 3 if one.is_attack else 2, "shape": shape}
    }
    if one.form == "marked":
        looks["marker"] = {"size": 8, "symbol": one.symbol if one.is_attack else "circle-open"}
    if not is_line:
        is_large = one.form == "points"
        symbol = one.symbol if one.is_attack else f"{one.symbol}-open"
        size, opacity = (12, 1.0) if is_large else (7, 0.7)
        looks = {
            "marker": {
                "color": colour,
                "size": size,
                "opacity": opacity,
                "symbol": symbol,
                "line": {"width": 2 * is_large, "color": colour},
            },
        }
        arms = (("y", one.y, one.low, one.high), ("x", one.x, one.left, one.right))
        for axis, values, low, high in arms:
            if low:
                looks[f"error_{axis}"] = {
                    "array": [_length(h, y) for h, y in zip(high, values, strict=True)],
                    "arrayminus": [_length(y, end) for y, end in zip(values, low, strict=True)],
                    "color": colour,
                    "thickness": 2,
                    "width": 6,
                }
    figure.add_scatter(
        x=one.x,
        y=one.y,
        name=name,
        mode="markers" if not is_line else "lines+markers" if one.form == "marked" else "lines",
        showlegend=one.has_legend,
        **looks,
        **hover,
    )


def _length(upper: float | None, lower: float | None) -> float:
    """Return an interval's arm; 0 where an end is not known."""
    length = math.nan if upper is None or lower is None else upper - lower
    return 0.0 if math.isnan(length) else length


def _broken(name: str) -> str:
    """Return a name in lines that a legend has room for on a telephone."""
    return "<br>".join(map(escaped, wrap(name, 36 if name.isascii() else 20)))


def points(
    name: str, x: Sequence[float], of: Sequence[Estimate], *, scale: float = 1, **looks: Any
) -> Series:
    """Return estimates with their intervals as large points; `scale` 100 is for percent."""
    y, low, high = ([scale * getattr(one, end) for one in of] for end in ("value", "low", "high"))
    return Series(name, list(x), y, "points", low=low, high=high, **looks)


def themed(figure: go.Figure, *, is_dark: bool) -> go.Figure:
    """Return a figure in the colours of the reader's ground."""
    if is_dark:
        text = figure.to_json()
        for light, dark in _ON_DARK.items():
            text = text.replace(light, dark)
        figure = go.Figure(json.loads(text))
    ink = {"color": _INK[is_dark]}
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(tickfont=ink, title_font=ink)
    return figure.update_layout(font=ink, legend_font=ink)


def spread(n: int, *, width: float = 0.62) -> list[float]:
    """Return where to put `n` dots of one row, so that no two lie on each other."""
    return [width * ((i * _GOLDEN) % 1 - 0.5) for i in range(n)]
