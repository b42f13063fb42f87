"""The chart of leakage: what is drawn is what was given, zero at the left end."""

from __future__ import annotations

import pytest

from audit.experiment.leakage import ArmRow, LeakRow
from pages.ui import charts
from pages.ui.deid_leakage import leakage_chart
from tests.experiment.tiny_leakage import tiny_tables

WORDS = {
    "x": "left", "y": "auc", "raw": "raw notes", "perfect": "perfect notes", "chance": "chance",
    "mentions": "mentions", "patients": "patients", "tagger": "taggers", "rules": "<b>rules",
}  # fmt: skip
LEAKS = tiny_tables().of(scenario=2, controls="easy")


def with_tagger(n_left: int) -> tuple[tuple[ArmRow, LeakRow], ...]:
    """Return the rows, and one of a tagger that left some of 200 mentions."""
    arm, leak = LEAKS[-1]
    counts = {"n_mentions": 200, "n_whole": 200 - n_left}
    tagger = arm.model_copy(update={"kind": "tagger", "tagger": "rules", **counts})
    return (*LEAKS, (tagger, leak))


def traces(leaks: tuple[tuple[ArmRow, LeakRow], ...]):
    figure = leakage_chart(leaks, words=WORDS)
    return {trace.name: trace for trace in figure.data}, figure


def test_raw_and_perfect_are_grey_lines_and_doses_rust_points():
    drawn, figure = traces(LEAKS)
    assert set(drawn) == {"raw notes", "perfect notes", "chance", "mentions"}
    assert list(drawn["raw notes"].y) == [1.0, 1.0]
    assert list(drawn["chance"].y) == [0.5, 0.5]
    assert drawn["raw notes"].line.color == charts.GREY
    points = drawn["mentions"]
    assert (list(points.x), list(points.y)) == ([0.5], [pytest.approx(7 / 8)])
    assert points.marker.color == charts.RUST
    assert next(iter(points.error_y.array)) == pytest.approx(LEAKS[-1][1].auc.high - 7 / 8)
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("left", "auc")


@pytest.mark.parametrize("n_left", [0, 1, 100])
def test_a_tagger_is_named_and_zero_has_a_place_of_its_own(n_left: int):
    drawn, figure = traces(with_tagger(n_left))
    tagger = drawn["taggers"]
    assert tuple(tagger.text) == ("&lt;b&gt;rules",)
    ticks = dict(zip(figure.layout.xaxis.ticktext, figure.layout.xaxis.tickvals, strict=True))
    expected = n_left / 200 if n_left else ticks["0 %"]
    assert list(tagger.x) == [expected]
    assert ticks["0 %"] < min(value for text, value in ticks.items() if text != "0 %")
    low, high = (10**edge for edge in figure.layout.xaxis.range)
    assert low < ticks["0 %"] <= expected < high
