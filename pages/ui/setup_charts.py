"""Charts of a list of names: word pieces, and how common the names are."""

from __future__ import annotations

import plotly.graph_objects as go

from pages.ui.charts import GREY, LINE, RUST
from pages.ui.setup_facts import Bins
from pages.ui.text import escaped

_RAISED = str.maketrans("-0123456789.", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹·")


def histogram(
    bins: Bins, *, ticks: list[str], x: str, y: str, labels: tuple[str, str]
) -> go.Figure:
    """Return how many names fall into each bin: tested names rust, controls grey.

    `ticks` names the bins; `labels` the two groups.
    """
    figure = go.Figure()
    for counts, label, colour, pattern in (
        (bins.n_tested, labels[0], RUST, ""),
        (bins.n_controls, labels[1], GREY, "/"),
    ):
        figure.add_bar(
            x=ticks,
            y=list(counts),
            name=escaped(label),
            marker={"color": colour, "pattern": {"shape": pattern, "size": 5, "solidity": 0.25}},
            hovertemplate="%{x}: %{y}<extra></extra>",
        )
    figure.update_xaxes(title=x, type="category", showgrid=False)
    figure.update_yaxes(title=y, gridcolor=LINE, zeroline=False, tickformat="d")
    return figure.update_layout(
        barmode="group",
        height=290,
        margin={"l": 10, "r": 16, "t": 30, "b": 10},
        font={"size": 13},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
    )


def pieces_ticks(bins: Bins) -> list[str]:
    """Return the bins of word pieces as whole numbers."""
    return [f"{start:.0f}" for start in bins.starts]


def share_ticks(bins: Bins) -> list[str]:
    """Return the bins of popularity as powers of ten."""
    return [f"10{f'{start:g}'.translate(_RAISED)}" for start in bins.starts]
