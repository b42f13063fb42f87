"""Charts of one name: what is drawn is what came in, in all odd cases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from audit.report.names import AmongControls, ModelBlocks
from audit.stats import Estimate, Rate
from pages.ui.charts import GREY, RUST
from pages.ui.name_panel import among_histogram, block_strip

LABELS = {"hospital": "<b>Hospital", "general": "General"}
WORDS = {"x": "score", "y": "controls", "name": "P-0001", "threshold": "threshold"}
AMONG = AmongControls(
    edges=np.array([0.0, 1.0, 2.0]),
    counts=np.array([3, 5]),
    n_at_zero=0,
    is_log=False,
    position=1.5,
    threshold=1.8,
    below=Rate(6, 8),
)


def model(who: str, values: list[float]) -> ModelBlocks:
    mean = float(np.mean(values)) if values else math.nan
    return ModelBlocks(who, np.array(values), Estimate(mean, mean - 0.5, mean + 0.5))


def test_each_block_is_a_dot_and_the_mean_has_its_interval() -> None:
    figure = block_strip(
        [model("hospital", [-5.0, -4.0]), model("general", [-9.0])],
        labels=LABELS, axis="ln p", is_share=False,
    )  # fmt: skip
    dots, mean, grey, _ = figure.data
    assert list(dots.x) == [-5, -4]
    assert (dots.marker.color, grey.marker.color) == (RUST, GREY)
    assert (dots.marker.symbol, grey.marker.symbol) == ("circle", "circle-open")
    assert list(mean.x) == [-4.5]
    assert list(mean.error_x.array) == [0.5]
    assert "<b>" not in "".join(figure.layout.yaxis.ticktext)


@pytest.mark.parametrize(("values", "kind"), [([1e-6, 1e-3], "log"), ([0.0, 1e-3], None)])
def test_shares_are_drawn_by_their_logarithm_unless_one_is_zero(
    values: list[float], kind: str | None
) -> None:
    figure = block_strip([model("hospital", values)], labels=LABELS, axis="m", is_share=True)
    assert figure.layout.xaxis.type == kind


def test_the_name_and_the_threshold_stand_in_the_histogram() -> None:
    figure = among_histogram(AMONG, words=WORDS)
    bars, limit, name = figure.data
    assert (list(bars.x), list(bars.y)) == ([0.5, 1.5], [3, 5])
    assert list(limit.x) == [1.8, 1.8]
    assert (list(name.x), name.line.color) == ([1.5, 1.5], RUST)
    assert {a.text for a in figure.layout.annotations} == {"threshold", "<b>P-0001</b>"}


def test_a_threshold_that_is_never_reached_and_a_missing_score_are_not_drawn() -> None:
    bare = replace(AMONG, threshold=math.inf, position=math.nan)
    assert len(among_histogram(bare, words=WORDS).data) == 1


def test_zeros_stand_apart_with_their_number() -> None:
    zeros = replace(AMONG, is_log=True, n_at_zero=900, position=-math.inf, threshold=math.inf)
    figure = among_histogram(zeros, words=WORDS)
    bars, name = figure.data
    assert bars.x[0] < 0
    assert bars.y[0] < 900
    assert name.x[0] == bars.x[0]
    assert "900 ↑" in {a.text for a in figure.layout.annotations}
    assert list(figure.layout.xaxis.ticktext) == ["0", "1", "10¹", "10²"]
    few = among_histogram(replace(zeros, n_at_zero=2), words=WORDS)
    assert few.data[0].y[0] == 2
    assert "2" in {a.text for a in few.layout.annotations}


def test_no_background_is_fixed() -> None:
    for figure in (
        among_histogram(AMONG, words=WORDS),
        block_strip([model("general", [1.0])], labels=LABELS, axis="", is_share=False),
    ):
        assert figure.layout.paper_bgcolor is None
        assert figure.layout.plot_bgcolor is None
