"""The chart of planted names: exposure in bits against how often each was planted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from audit.report.report import PlantedName, ScoreExposure
from pages.ui.charts import GREY, LINE, RUST
from pages.ui.text import escaped

_SPREAD = 0.28  # how far the dots of one number lie apart, in steps of the axis


def exposure_chart(
    attack: ScoreExposure,
    *,
    general: ScoreExposure | None,
    names: Sequence[PlantedName],
    alpha: float,
    words: Mapping[str, str],
) -> go.Figure:
    """Return one dot a planted name, the mean of each number with its interval, and three limits.

    `words` has "x", "y", "attack", "general", "one", "most", "found" and "chance". Numbers of
    mentions stand at equal steps, in their order.
    """
    counts = [group.n_mentions for group in attack.groups]
    figure = go.Figure()
    edges = [-0.6, len(counts) - 0.4]
    for height, key, dash in (
        (attack.max_bits, "most", "solid"),
        (-math.log2(alpha), "found", "dash"),
        (attack.bits_without_leak, "chance", "dot"),
    ):
        if key == "found" and height > attack.max_bits:
            continue  # so few held-out names cannot find anybody
        figure.add_scatter(
            x=edges, y=[height, height], mode="lines", name=escaped(words[key]),
            line={"color": GREY, "dash": dash, "width": 1.5}, hoverinfo="skip",
        )  # fmt: skip
    _dots(figure, names, counts=counts, name=words["one"])
    if general is not None:
        _means(figure, general, at=-0.12, colour=GREY, symbol="diamond", name=words["general"])
    _means(figure, attack, at=0.12, colour=RUST, symbol="circle", name=words["attack"])
    figure.update_xaxes(
        title=words["x"], showgrid=False, zeroline=False, tickvals=list(range(len(counts))),
        ticktext=[str(count) for count in counts], range=edges,
    )  # fmt: skip
    figure.update_yaxes(
        title=words["y"], gridcolor=LINE, zeroline=False, range=[-0.4, attack.max_bits * 1.12 + 0.2]
    )
    return figure.update_layout(
        height=400, margin={"l": 10, "r": 16, "t": 40, "b": 10}, font={"size": 13},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )  # fmt: skip


def _dots(
    figure: go.Figure, names: Sequence[PlantedName], *, counts: Sequence[int | None], name: str
) -> None:
    places = []
    seen = dict.fromkeys(counts, 0)
    total = {count: sum(one.n_mentions == count for one in names) for count in counts}
    for one in names:
        k, n = seen[one.n_mentions], total[one.n_mentions]
        seen[one.n_mentions] += 1
        shift = 0.0 if n < 2 else _SPREAD * (2 * k / (n - 1) - 1)
        places.append(counts.index(one.n_mentions) + shift)
    figure.add_scatter(
        x=places, y=[one.bits for one in names], mode="markers", name=escaped(name),
        marker={"color": RUST, "size": 6, "opacity": 0.4}, hovertemplate="%{y:.2f}<extra></extra>",
    )  # fmt: skip


def _means(
    figure: go.Figure, one: ScoreExposure, *, at: float, colour: str, symbol: str, name: str
) -> None:
    bits = [group.bits for group in one.groups]
    # A name alone has no interval: its mean stands without a bar.
    figure.add_scatter(
        x=[place + at for place in range(len(bits))],
        y=[mean.value for mean in bits],
        error_y={
            "array": [0.0 if math.isnan(m.high) else m.high - m.value for m in bits],
            "arrayminus": [0.0 if math.isnan(m.low) else m.value - m.low for m in bits],
            "color": colour,
            "thickness": 2,
            "width": 6,
        },
        mode="markers",
        name=escaped(name),
        marker={"color": colour, "size": 11, "symbol": symbol},
        hovertemplate="%{y:.2f}<extra></extra>",
    )
