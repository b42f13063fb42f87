"""The chart of a training: training loss, held-out loss and the unigram baseline, by step."""

from __future__ import annotations

import math
from collections.abc import Mapping

import plotly.graph_objects as go

from audit.training.config import LossCurve
from pages.ui.charts import GREY, LINE, RUST
from pages.ui.text import escaped

_FAINT = "rgba(125, 133, 144, 0.6)"
_MARGIN = 1.01
_N_EPOCH_TICKS = 8


def loss_chart(curve: LossCurve, *, words: Mapping[str, str]) -> go.Figure:
    """Return losses by step, epochs written at the upper edge; rust is what the notes taught.

    `words` has "x", "y", "epochs", "loss", "smoothed", "held_out" and "unigram".
    """
    figure = go.Figure()
    _line(figure, curve.steps, curve.losses, name=words["loss"], colour=_FAINT, width=1)
    _line(figure, curve.steps, curve.smoothed, name=words["smoothed"], colour=GREY, width=2.5)
    figure.add_scatter(
        x=[step for step, _ in curve.held_out],
        y=[loss for _, loss in curve.held_out],
        mode="lines+markers",
        name=escaped(words["held_out"]),
        line={"color": RUST, "width": 3},
        marker={"color": RUST, "size": 8},
        hovertemplate="%{x:,} · %{y:.3f}<extra></extra>",
    )
    if not math.isnan(curve.unigram):
        figure.add_scatter(
            x=[0, curve.n_steps],
            y=[curve.unigram] * 2,
            mode="lines",
            name=escaped(words["unigram"]),
            line={"color": GREY, "width": 2, "dash": "dot"},
            hovertemplate="%{y:.3f}<extra></extra>",
        )
    figure.update_yaxes(title=words["y"], gridcolor=LINE, zeroline=False)
    figure.update_xaxes(
        title=words["x"], range=[0, _MARGIN * max(1, curve.n_steps)], showgrid=False,
        zeroline=False, tickformat=",",
    )  # fmt: skip
    if not math.isnan(curve.steps_per_epoch):
        _epoch_axis(figure, curve, title=words["epochs"])
    return figure.update_layout(
        height=400,
        margin={"l": 10, "r": 16, "t": 46, "b": 10},
        font={"size": 13},
        legend={"orientation": "h", "y": -0.22, "x": 0},
    )


def epoch_ticks(n_epochs: float) -> list[float]:
    """Return at most some eight round numbers of epochs from 0 up to `n_epochs`."""
    if not 0 < n_epochs < math.inf:
        return [0.0]
    decade = 10.0 ** math.floor(math.log10(n_epochs / _N_EPOCH_TICKS))
    step = next(k * decade for k in (1, 2, 5, 10) if n_epochs / (k * decade) <= _N_EPOCH_TICKS)
    return [i * step for i in range(int(n_epochs / step + 1e-9) + 1)]


def _line(
    figure: go.Figure,
    x: tuple[int, ...],
    y: tuple[float, ...],
    *,
    name: str,
    colour: str,
    width: float,
) -> None:
    figure.add_scatter(
        x=list(x), y=list(y), mode="lines", name=escaped(name),
        line={"color": colour, "width": width}, hovertemplate="%{x:,} · %{y:.3f}<extra></extra>",
    )  # fmt: skip


def _epoch_axis(figure: go.Figure, curve: LossCurve, *, title: str) -> None:
    ticks = epoch_ticks(curve.epochs(curve.n_steps))
    # An axis without a trace is not drawn: this one has an invisible point.
    figure.add_scatter(
        x=[0], y=[None], xaxis="x2", showlegend=False, hoverinfo="skip", mode="markers"
    )
    figure.update_layout(
        xaxis2={
            "overlaying": "x", "side": "top", "range": [0, _MARGIN * max(1, curve.n_steps)],
            "tickvals": [tick * curve.steps_per_epoch for tick in ticks],
            "ticktext": [f"{tick:g}" for tick in ticks],
            "title": {"text": title}, "showgrid": False, "zeroline": False,
        }
    )  # fmt: skip
