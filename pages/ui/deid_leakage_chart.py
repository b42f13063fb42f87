"""The chart of leakage: the attack's AUC against the share of patients' names that were left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from audit.experiment.leakage_tables import (
    PERFECT,
    RAW,
    TAGGER,
    ArmRow,
    LeakRow,
)
from pages.ui.charts import GREY, LINE, RUST
from pages.ui.text import escaped

Leaks = Sequence[tuple[ArmRow, LeakRow]]
_SYMBOLS = {"mentions": "circle", "patients": "square-open", TAGGER: "diamond"}
_ZERO_BELOW = 3.0  # zero stands this factor left of the smallest share
_SMALLEST = 0.01


def leakage_chart(leaks: Leaks, *, words: Mapping[str, str]) -> go.Figure:
    """Return a point an arm with its interval; raw and perfect notes are lines.

    The shares stand on a logarithmic axis with zero at its left end. `words` has "x", "y", "raw",
    "perfect", "chance", "mentions", "patients", "tagger", and for each tagger its name under its
    identifier.
    """
    shares = [arm.left.value for arm, _ in leaks if arm.kind not in (RAW, PERFECT)]
    low = min([share for share in shares if share > 0] + [_SMALLEST])
    zero = low / _ZERO_BELOW
    figure = go.Figure()
    edges = [zero / 1.6, 1.6]
    for arm, one in leaks:
        if arm.kind in (RAW, PERFECT):
            _line(figure, edges, one.auc.value, name=words[arm.kind],
                  dash="solid" if arm.kind == RAW else "dash")  # fmt: skip
    _line(figure, edges, 0.5, name=words["chance"], dash="dot")
    for kind, symbol in _SYMBOLS.items():
        rows = [(arm, one) for arm, one in leaks if arm.kind == kind]
        if rows:
            _points(figure, rows, kind=kind, symbol=symbol, zero=zero, words=words)
    ticks = [share for share in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0) if share >= low / 1.01]
    figure.update_xaxes(
        title=words["x"], type="log", range=[math.log10(edge) for edge in edges], zeroline=False,
        showgrid=False, tickvals=[zero, *ticks],
        ticktext=["0 %", *(f"{100 * share:g} %" for share in ticks)],
    )  # fmt: skip
    figure.update_yaxes(title=words["y"], gridcolor=LINE, zeroline=False)
    return figure.update_layout(
        height=420, margin={"l": 10, "r": 16, "t": 40, "b": 10}, font={"size": 13},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )  # fmt: skip


def _line(figure: go.Figure, edges: list[float], height: float, *, name: str, dash: str) -> None:
    figure.add_scatter(
        x=edges, y=[height, height], mode="lines", name=escaped(name),
        line={"color": GREY, "dash": dash, "width": 1.8}, hovertemplate="%{y:.2f}<extra></extra>",
    )  # fmt: skip


def _points(
    figure: go.Figure,
    rows: Leaks,
    *,
    kind: str,
    symbol: str,
    zero: float,
    words: Mapping[str, str],
) -> None:
    is_tagger = kind == TAGGER
    figure.add_scatter(
        x=[arm.left.value or zero for arm, _ in rows],
        y=[one.auc.value for _, one in rows],
        error_y={
            "array": [one.auc.high - one.auc.value for _, one in rows],
            "arrayminus": [one.auc.value - one.auc.low for _, one in rows],
            "color": RUST,
            "thickness": 1.5,
            "width": 5,
        },
        mode="markers+text" if is_tagger else "markers",
        text=[escaped(words.get(arm.tagger, "")) for arm, _ in rows] if is_tagger else None,
        textposition="middle right",
        name=escaped(words[kind]),
        marker={"color": RUST, "size": 14 if is_tagger else 10, "symbol": symbol},
        customdata=[[arm.left.n_hits, arm.left.n_total] for arm, _ in rows],
        hovertemplate="%{customdata[0]} / %{customdata[1]} · %{y:.2f}<extra></extra>",
    )
