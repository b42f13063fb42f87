"""Charts: what is drawn is what was given."""

from __future__ import annotations

import math

import pytest

from audit.report.names import KindScores
from audit.report.report import MentionBin, Share
from audit.stats import Estimate, Rate
from pages.ui import charts

WORDS = {"x": "mentions", "y": "share", "controls": "controls", "names": "n = {n}"}
LABELS = {"member": "<b>Members", "easy": "Easy"}


def mention_bin(low: int, high: int | None, rate: Rate) -> MentionBin:
    interval = rate.interval()
    flagged = Share(
        interval.value, interval.low, interval.high, n_hits=rate.n_hits, n_total=rate.n_total
    )
    parts = {"from": low, "to": high, "n_names": rate.n_total, "flagged": flagged}
    return MentionBin.model_validate(parts)


def kinds(member: tuple[float, ...], easy: tuple[float, ...]) -> list[KindScores]:
    return [KindScores("member", member, 0), KindScores("easy", easy, 0)]


def dots(figure: object) -> list[object]:
    return [trace for trace in figure.data if trace.mode == "markers"]  # type: ignore[attr-defined]


def test_every_score_is_one_dot_and_the_median_is_a_bar() -> None:
    figure = charts.scores_by_kind(
        kinds((1.0, 2.0, 4.0), (-1.0, 0.0)), labels=LABELS, axis="nats", is_log=False
    )
    members, easy = dots(figure)
    assert list(members.x) == [1.0, 2.0, 4.0]  # type: ignore[attr-defined]
    assert list(easy.x) == [-1.0, 0.0]  # type: ignore[attr-defined]
    bars = [trace for trace in figure.data if trace.mode == "lines"]
    assert [bar.x[0] for bar in bars] == [2.0, -0.5]
    assert figure.layout.xaxis.title.text == "nats"
    assert figure.layout.yaxis.ticktext[0] == "&lt;b&gt;Members"


def test_members_differ_from_controls_in_colour_and_in_shape() -> None:
    figure = charts.scores_by_kind(kinds((1.0,), (0.0,)), labels=LABELS, axis="", is_log=False)
    members, easy = (trace.marker for trace in dots(figure))  # type: ignore[attr-defined]
    assert members.color != easy.color
    assert members.symbol != easy.symbol


def test_on_a_log_axis_zeros_stand_apart_at_the_left() -> None:
    figure = charts.scores_by_kind(
        kinds((1e-2, 1e-4), (0.0, 1e-6)), labels=LABELS, axis="", is_log=True
    )
    members, easy = dots(figure)
    assert list(members.x) == pytest.approx([-2, -4])  # type: ignore[attr-defined]
    zero, tiny = easy.x  # type: ignore[attr-defined]
    assert tiny == pytest.approx(-6)
    assert zero < -6
    axis = figure.layout.xaxis
    ticks = dict(zip(axis.tickvals, axis.ticktext, strict=True))
    assert ticks[zero] == "0"
    assert ticks[-2.0] == "10⁻²"
    assert list(easy.customdata) == [0.0, 1e-6]  # type: ignore[attr-defined]


def test_a_log_axis_with_zeros_only_can_be_drawn() -> None:
    figure = charts.scores_by_kind(kinds((0.0,), ()), labels=LABELS, axis="", is_log=True)
    assert list(figure.layout.xaxis.ticktext) == ["0"]


def test_shares_are_drawn_in_percent_with_their_intervals() -> None:
    bins = [
        mention_bin(1, 1, Rate(1, 4)),
        mention_bin(10, None, Rate(2, 2)),
    ]
    figure = charts.leak_by_mentions(bins, controls=Rate(1, 50).interval(), words=WORDS)
    (trace,) = figure.data
    assert list(trace.x) == ["1<br>n = 4", "10+<br>n = 2"]
    assert list(trace.y) == [25.0, 100.0]
    low, high = trace.error_y.arrayminus[0], trace.error_y.array[0]
    interval = Rate(1, 4).interval()
    assert 25 - low == pytest.approx(100 * interval.low)
    assert 25 + high == pytest.approx(100 * interval.high)
    assert [shape.y0 for shape in figure.layout.shapes if shape.type == "line"] == [2.0]


def test_without_controls_no_line_is_drawn() -> None:
    undefined = Estimate(math.nan, math.nan, math.nan)
    bins = [mention_bin(1, 1, Rate(1, 4))]
    assert not charts.leak_by_mentions(bins, controls=undefined, words=WORDS).layout.shapes


@pytest.mark.parametrize(("low", "high", "label"), [(1, 1, "1"), (3, 4, "3–4"), (10, None, "10+")])
def test_bins_are_named_by_their_bounds(low: int, high: int | None, label: str) -> None:
    assert mention_bin(low, high, Rate(0, 1)).label == label
