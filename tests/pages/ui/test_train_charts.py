"""The chart of a training: what is drawn is what was given."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.training.config import LossCurve
from pages.ui import charts
from pages.ui.train_run import epoch_ticks, loss_chart

WORDS = {
    "x": "steps", "y": "nats", "epochs": "passes", "loss": "raw", "smoothed": "mean",
    "held_out": "<b>held out", "unigram": "frequencies",
}  # fmt: skip
CURVE = LossCurve((1, 2), (5.0, 3.0), (5.0, 4.0), ((0, 6.0), (2, 4.5)), 5.5, 10, 2.5)


def test_every_value_is_drawn_and_the_held_out_loss_is_rust() -> None:
    figure = loss_chart(CURVE, words=WORDS)
    raw, mean, held_out, unigram, _ = figure.data
    assert (list(raw.x), list(raw.y)) == ([1, 2], [5.0, 3.0])
    assert list(mean.y) == [5.0, 4.0]
    assert (list(held_out.x), list(held_out.y)) == ([0, 2], [6.0, 4.5])
    assert held_out.line.color == charts.RUST
    assert charts.RUST not in (raw.line.color, mean.line.color, unigram.line.color)
    assert list(unigram.y) == [5.5, 5.5]
    assert held_out.name == "&lt;b&gt;held out"
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("steps", "nats")


def test_epochs_stand_where_their_steps_are() -> None:
    axis = loss_chart(CURVE, words=WORDS).layout.xaxis2
    ticks = dict(zip(axis.ticktext, axis.tickvals, strict=True))
    assert ticks["0"] == 0
    assert ticks["4"] == 10
    assert axis.range == loss_chart(CURVE, words=WORDS).layout.xaxis.range


def test_without_a_baseline_or_epochs_neither_is_drawn() -> None:
    bare = LossCurve((1,), (5.0,), (5.0,), (), math.nan, 10, math.nan)
    figure = loss_chart(bare, words=WORDS)
    assert [trace.name for trace in figure.data] == ["raw", "mean", "&lt;b&gt;held out"]
    assert "xaxis2" not in figure.layout.to_plotly_json()


@given(st.floats(1e-4, 1e6))
def test_ticks_are_few_begin_at_zero_and_reach_most_of_the_way(n_epochs: float) -> None:
    ticks = epoch_ticks(n_epochs)
    assert ticks[0] == 0
    assert 2 <= len(ticks) <= 10
    assert ticks == sorted(set(ticks))
    assert 0.5 * n_epochs <= ticks[-1] <= n_epochs * (1 + 1e-9)


@pytest.mark.parametrize("n", [0.0, math.nan, math.inf])
def test_no_epochs_have_one_tick(n: float) -> None:
    assert epoch_ticks(n) == [0.0]
