"""Charts of a corpus: how many names have how many passages and mentions, beside the paper's."""

from __future__ import annotations

import plotly.graph_objects as go

from pages.ui.charts import GREY, LINE, RUST
from pages.ui.corpus_view import CountBin, CountView
from pages.ui.text import escaped


def count_chart(view: CountView, *, x: str, y: str, labels: tuple[str, str]) -> go.Figure:
    """Return the share of names in each bin: this corpus rust, the paper grey and hatched."""
    ticks = [bin_label(one) for one in view.bins]
    figure = go.Figure()
    for shares, label, colour, pattern in (
        ([one.here for one in view.bins], labels[0], RUST, ""),
        ([one.paper for one in view.bins], labels[1], GREY, "/"),
    ):
        figure.add_bar(
            x=ticks,
            y=[100 * share for share in shares],
            name=escaped(label),
            marker={"color": colour, "pattern": {"shape": pattern, "size": 5, "solidity": 0.25}},
            hovertemplate="%{x}: %{y:.1f} %<extra></extra>",
        )
    figure.update_xaxes(title=x, type="category", showgrid=False)
    figure.update_yaxes(
        title=y, gridcolor=LINE, zeroline=False, ticksuffix=" %", rangemode="tozero"
    )
    return figure.update_layout(
        barmode="group",
        height=300,
        margin={"l": 10, "r": 16, "t": 30, "b": 10},
        font={"size": 13},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
    )


def bin_label(one: CountBin) -> str:
    """Return the bounds of a bin: "1", "6–10" or "101+"."""
    if one.high is None:
        return f"{one.low}+"
    return str(one.low) if one.low == one.high else f"{one.low}–{one.high}"
