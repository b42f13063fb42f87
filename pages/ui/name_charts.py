"""Charts of one name: both models' evidence block by block, and its score among the controls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import plotly.graph_objects as go

from audit.report.names import AmongControls, ModelBlocks
from audit.tables import raised
from pages.ui.charts import GREY, LINE, RUST
from pages.ui.text import escaped

_GOLDEN = 0.618033988749895
_MAX_TICKS = 7


def block_strip(
    blocks: Sequence[ModelBlocks], *, labels: Mapping[str, str], axis: str, is_share: bool
) -> go.Figure:
    """Return one dot per block and model, a row per model, with the mean and its interval.

    `is_share`: values are products of masses, drawn on a log axis unless one of them is zero.
    """
    figure = go.Figure()
    for row, model in enumerate(blocks):
        is_hospital = model.who == "hospital"
        colour, values = RUST if is_hospital else GREY, model.values.tolist()
        figure.add_scatter(
            x=values,
            y=[row + 0.5 * ((i * _GOLDEN) % 1 - 0.5) for i in range(len(values))],
            mode="markers",
            marker={
                "color": colour,
                "size": 8,
                "opacity": 0.6,
                "symbol": "circle" if is_hospital else "circle-open",
            },
            hovertemplate="%{x:.4g}<extra></extra>",
        )
        mean = model.mean
        half = (mean.high - mean.low) / 2
        figure.add_scatter(
            x=[mean.value],
            y=[row],
            error_x={
                "array": [0 if math.isnan(half) else half],
                "color": colour,
                "thickness": 3,
                "width": 9,
            },
            mode="markers",
            marker={
                "color": colour,
                "size": 15,
                "symbol": "diamond" if is_hospital else "diamond-open",
                "line": {"width": 2, "color": colour},
            },
            hovertemplate="%{x:.4g}<extra></extra>",
        )
    values = [value for model in blocks for value in model.values.tolist()]
    figure.update_yaxes(
        tickvals=list(range(len(blocks))),
        ticktext=[escaped(labels[model.who]) for model in blocks],
        range=[len(blocks) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
        automargin=True,
    )
    figure.update_xaxes(title=escaped(axis), zeroline=False, gridcolor=LINE, nticks=_MAX_TICKS)
    if is_share and values and min(values) > 0:
        figure.update_xaxes(type="log", exponentformat="power", dtick=_log_tick(values))
    return _finished(figure, height=250)


def among_histogram(among: AmongControls, *, words: Mapping[str, str]) -> go.Figure:
    """Return the controls' scores as a histogram in which the name's own score is marked.

    `words` has "x", "y", "name" and "threshold".
    """
    edges, counts = among.edges.tolist(), among.counts.tolist()
    width = edges[1] - edges[0]
    centres = [(one + two) / 2 for one, two in pairwise(edges)]
    zero = edges[0] - 2.5 * width
    top = max([*counts, 1]) * 1.3
    figure = go.Figure()
    if among.n_at_zero:
        # A bar of zeros may be far higher than the rest: it is cut, and its number stands on it.
        centres, counts = [zero, *centres], [min(among.n_at_zero, top * 0.85), *counts]
        is_cut = among.n_at_zero > counts[0]
        figure.add_annotation(
            x=zero,
            y=counts[0],
            text=f"{among.n_at_zero} ↑" if is_cut else str(among.n_at_zero),
            showarrow=False,
            yanchor="bottom",
        )
    figure.add_bar(
        x=centres,
        y=counts,
        width=width * 0.92,
        marker={"color": GREY, "opacity": 0.75, "line": {"width": 0}},
        hovertemplate="%{y}<extra></extra>",
    )
    if math.isfinite(among.threshold):
        _line(figure, among.threshold, top=top * 0.8, colour=GREY, dash="dash", width=2)
        _note(figure, among.threshold, y=top * 0.8, text=words["threshold"], centres=centres)
    if not math.isnan(among.position):
        place = among.position if math.isfinite(among.position) else zero
        _line(figure, place, top=top * 0.93, colour=RUST, dash="solid", width=3)
        _note(figure, place, y=top * 0.93, text=words["name"], centres=centres, is_bold=True)
    figure.update_xaxes(title=escaped(words["x"]), zeroline=False, showgrid=False)
    figure.update_yaxes(
        title=escaped(words["y"]), gridcolor=LINE, zeroline=False, range=[0, top * 1.08]
    )
    if among.is_log:
        ticks = _decades(edges[0], edges[-1])
        if among.n_at_zero or among.position == -math.inf:
            ticks = {zero: "0", **ticks}
        figure.update_xaxes(tickvals=list(ticks), ticktext=list(ticks.values()))
    return _finished(figure, height=330)


def _line(figure: go.Figure, x: float, *, top: float, colour: str, dash: str, width: int) -> None:
    figure.add_scatter(
        x=[x, x],
        y=[0, top],
        mode="lines",
        line={"color": colour, "dash": dash, "width": width},
        hoverinfo="skip",
    )


def _note(
    figure: go.Figure,
    x: float,
    *,
    y: float,
    text: str,
    centres: Sequence[float],
    is_bold: bool = False,
) -> None:
    """Write beside a line, on the side where there is room."""
    is_right = x > (min(centres) + max(centres)) / 2
    figure.add_annotation(
        x=x,
        y=y,
        text=f"<b>{escaped(text)}</b>" if is_bold else escaped(text),
        showarrow=False,
        xanchor="right" if is_right else "left",
        xshift=-7 if is_right else 7,
        yanchor="bottom",
    )


def _decades(low: float, high: float) -> dict[float, str]:
    first, last = math.ceil(low), math.floor(high)
    step = max(1, math.ceil((last - first) / _MAX_TICKS))
    return {float(k): _power(k) for k in range(first, last + 1, step)}


def _power(exponent: int) -> str:
    return f"10{raised(exponent)}" if exponent else "1"


def _log_tick(values: Sequence[float]) -> int:
    spread = math.log10(max(values)) - math.log10(min(values))
    return max(1, math.ceil(spread / _MAX_TICKS))


def _finished(figure: go.Figure, *, height: int) -> go.Figure:
    return figure.update_layout(
        height=height,
        margin={"l": 10, "r": 16, "t": 14, "b": 10},
        font={"size": 13},
        showlegend=False,
        bargap=0,
    )
