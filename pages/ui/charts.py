"""Charts: values in, plotly figures out. Rust is the hospital model and a leak, grey all else.

Colours hold on light and dark ground; shape and place say the same as colour. Fonts and grid come
from Streamlit's theme. Text that is not our own is escaped, for plotly reads a few tags.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

import plotly.graph_objects as go

from audit.report.names import KindScores
from audit.report.report import MentionBin
from audit.stats import Estimate
from pages.ui.text import escaped

RUST, GREY = "#C4552F", "#7D8590"
LINE = "rgba(125, 133, 144, 0.35)"
CONFIG = {"displayModeBar": False, "responsive": True}
_GOLDEN = 0.618033988749895


def scores_by_kind(
    kinds: Sequence[KindScores], *, labels: Mapping[str, str], axis: str
) -> go.Figure:
    """Return one dot per name, a row per kind of names, with the median as a bar."""
    figure = go.Figure()
    names = [escaped(labels[kind.kind]) for kind in kinds]
    for row, kind in enumerate(kinds):
        is_member = kind.kind in ("member", "unknown", "planted")
        xs = list(kind.scores)
        figure.add_scatter(
            x=xs,
            # Dots are spread by their order: the same picture each time, and no two rows alike.
            y=[row + 0.62 * ((i * _GOLDEN) % 1 - 0.5) for i in range(len(xs))],
            mode="markers",
            marker={
                "color": RUST if is_member else GREY,
                "size": 7,
                "opacity": 0.75,
                "symbol": "circle" if is_member else "circle-open",
            },
            hovertemplate="%{x:.3g}<extra></extra>",
            showlegend=False,
        )
        if xs:
            middle = median(xs)
            figure.add_scatter(
                x=[middle, middle],
                y=[row - 0.42, row + 0.42],
                mode="lines",
                line={"color": RUST if is_member else GREY, "width": 3},
                hoverinfo="skip",
                showlegend=False,
            )
    figure.update_yaxes(
        tickvals=list(range(len(kinds))), ticktext=names, autorange="reversed", showgrid=False,
        zeroline=False, automargin=True,
    )  # fmt: skip
    figure.update_xaxes(title=axis, zeroline=False, gridcolor=LINE)
    return _finished(figure, height=90 + 85 * len(kinds))


def leak_by_mentions(
    bins: Sequence[MentionBin], *, controls: Estimate, words: Mapping[str, str]
) -> go.Figure:
    """Return the share of names that stand out against how often a name occurs in the notes.

    `words` has "x", "y", "controls" and "names" (with a place {n}).
    """
    names = [f"{escaped(b.label)}<br>{escaped(words['names'].format(n=b.n_names))}" for b in bins]
    figure = go.Figure()
    if not math.isnan(controls.value):
        figure.add_hrect(
            y0=100 * controls.low,
            y1=100 * controls.high,
            fillcolor=GREY,
            opacity=0.22,
            line_width=0,
        )
        figure.add_hline(
            y=100 * controls.value,
            line={"color": GREY, "dash": "dot", "width": 2},
            annotation={"text": escaped(words["controls"]), "font": {"size": 12}, "yshift": -5},
            annotation_position="bottom left",
        )
    figure.add_scatter(
        x=names,
        y=[100 * b.flagged.value for b in bins],
        error_y={
            "array": [100 * (b.flagged.high - b.flagged.value) for b in bins],
            "arrayminus": [100 * (b.flagged.value - b.flagged.low) for b in bins],
            "color": RUST,
            "thickness": 2,
            "width": 6,
        },
        mode="markers",
        marker={"color": RUST, "size": 11},
        hovertemplate="%{y:.1f} %<extra></extra>",
        showlegend=False,
    )
    figure.update_yaxes(
        title=words["y"], range=[-9, 104], gridcolor=LINE, zeroline=False, ticksuffix=" %"
    )
    figure.update_xaxes(title=words["x"], showgrid=False, type="category")
    return _finished(figure, height=345)


def _finished(figure: go.Figure, *, height: int) -> go.Figure:
    return figure.update_layout(
        height=height,
        margin={"l": 10, "r": 16, "t": 14, "b": 10},
        font={"size": 13},
        showlegend=False,
    )
