"""Charts of the De-identification measures page: rates by type, and the confusion matrix.

Values in, plotly figures out. Rust is what is missed or wrong, or the criterion that is asked for;
grey is all else. A count is written in every cell, so that colour is never alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from audit.stats import Estimate
from pages.ui.charts import GREY, LINE, RUST
from pages.ui.text import escaped

_SYMBOLS = ("circle", "diamond-open", "square-open")
_INK = ("#26241F", "#F3F1EE")  # of counts on light and on dark ground: a cell is half either
_ROW_PIXELS = 58
_RUST_SCALE = ((0.0, "rgba(196, 85, 47, 0.05)"), (1.0, "rgba(196, 85, 47, 0.80)"))
_GREY_SCALE = ((0.0, "rgba(125, 133, 144, 0.05)"), (1.0, "rgba(125, 133, 144, 0.62)"))


@dataclass(frozen=True)
class Series:
    """Rates of several rows under one name; `texts` are shown at the dots."""

    name: str
    estimates: tuple[Estimate, ...]
    texts: tuple[str, ...]
    is_strong: bool


def rate_chart(rows: Sequence[str], series: Sequence[Series], *, axis: str) -> go.Figure:
    """Return dots with intervals: a row for each label, a symbol for each series."""
    figure = go.Figure()
    n = len(series)
    for place, one in enumerate(series):
        shift = (place - (n - 1) / 2) * 0.24
        colour = RUST if one.is_strong else GREY
        values = [None if math.isnan(e.value) else 100 * e.value for e in one.estimates]
        figure.add_scatter(
            x=values,
            y=[row + shift for row in range(len(rows))],
            mode="markers",
            name=escaped(one.name),
            error_x={
                "array": [_reach(e.high - e.value) for e in one.estimates],
                "arrayminus": [_reach(e.value - e.low) for e in one.estimates],
                "color": colour,
                "thickness": 1.8,
                "width": 4,
            },
            marker={
                "color": colour,
                "size": 11 if one.is_strong else 9,
                "symbol": _SYMBOLS[place % len(_SYMBOLS)],
            },
            customdata=list(map(escaped, one.texts)),
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=list(map(escaped, rows)), automargin=True,
        range=[len(rows) - 0.5, -0.5], showgrid=False, zeroline=False,
    )  # fmt: skip
    figure.update_xaxes(
        title=axis, range=[-2, 102], gridcolor=LINE, zeroline=False, ticksuffix=" %"
    )
    return figure.update_layout(
        height=120 + _ROW_PIXELS * len(rows),
        margin={"l": 10, "r": 16, "t": 44, "b": 10},
        font={"size": 13},
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom"},
    )


def matrix_chart(
    matrix: Sequence[Sequence[int]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    chosen: tuple[int, int] | None,
    words: Mapping[str, str],
    is_dark: bool = False,
) -> go.Figure:
    """Return a confusion matrix whose cells can be clicked; their `customdata` is (row, column).

    `words` has "x" and "y". The diagonal is grey, all that is wrong is rust, both by the logarithm
    of the count. `chosen` is outlined. The corner of the margins holds nothing.
    """
    figure = go.Figure()
    n_rows, n_columns = len(rows), len(columns)
    logs = [[math.log10(1 + n) for n in row] for row in matrix]
    top = max((value for row in logs for value in row), default=1.0) or 1.0
    for is_right, scale in ((True, _GREY_SCALE), (False, _RUST_SCALE)):
        figure.add_heatmap(
            z=[
                [v if (r == c) == is_right and v > 0 else None for c, v in enumerate(row)]
                for r, row in enumerate(logs)
            ],
            x=list(range(n_columns)), y=list(range(n_rows)), zmin=0, zmax=top,
            colorscale=[list(step) for step in scale], showscale=False, hoverinfo="skip",
            xgap=3, ygap=3,
        )  # fmt: skip
    cells = [
        (r, c) for r in range(n_rows) for c in range(n_columns)
        if not (r == n_rows - 1 and c == n_columns - 1)
    ]  # fmt: skip
    # A heat map's cells cannot be selected; squares over them can.
    figure.add_scatter(
        x=[c for _, c in cells], y=[r for r, _ in cells], mode="markers+text",
        text=[f"{matrix[r][c]:,}" for r, c in cells],
        customdata=[[r, c] for r, c in cells],
        hovertext=[f"{escaped(rows[r])} → {escaped(columns[c])}: {matrix[r][c]:,}"
                   for r, c in cells],
        hovertemplate="%{hovertext}<extra></extra>",
        marker={"symbol": "square", "size": 46, "color": "rgba(125, 133, 144, 0.01)"},
        textfont={"color": _INK[is_dark]},
        selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}},
        showlegend=False,
    )  # fmt: skip
    if chosen is not None:
        row, column = chosen
        figure.add_shape(
            type="rect", x0=column - 0.48, x1=column + 0.48, y0=row - 0.48, y1=row + 0.48,
            line={"color": RUST, "width": 3},
        )  # fmt: skip
    for at in (n_rows - 1.5,):
        figure.add_hline(y=at, line={"color": LINE, "width": 2})
    figure.add_vline(x=n_columns - 1.5, line={"color": LINE, "width": 2})
    _matrix_axes(figure, rows, columns, words)
    return figure


def _matrix_axes(
    figure: go.Figure, rows: Sequence[str], columns: Sequence[str], words: Mapping[str, str]
) -> None:
    shown = {"showgrid": False, "zeroline": False, "automargin": True, "fixedrange": True}
    figure.update_xaxes(
        title=words["x"], side="top", tickvals=list(range(len(columns))),
        ticktext=list(map(escaped, columns)), range=[-0.5, len(columns) - 0.5], **shown,
    )  # fmt: skip
    figure.update_yaxes(
        title=words["y"], tickvals=list(range(len(rows))), ticktext=list(map(escaped, rows)),
        range=[len(rows) - 0.5, -0.5], **shown,
    )  # fmt: skip
    figure.update_layout(
        height=110 + 52 * len(rows),
        margin={"l": 10, "r": 16, "t": 20, "b": 10},
        font={"size": 13},
        showlegend=False,
        dragmode=False,
        clickmode="event+select",
        hovermode="closest",
        hoverdistance=-1,  # a click anywhere in a cell means the cell
    )


def _reach(length: float) -> float:
    return 0.0 if math.isnan(length) else max(0.0, 100 * length)
