"""Charts of the Measures page: what is drawn where, in which colour, and nothing untrusted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from audit.report.report import CurvePoint, Linking
from audit.report.threshold import Calibration, RocView, ScoreAxis, VolcanoNames
from pages.ui.charts import GREY, RUST
from pages.ui.measure_charts import (
    calibration_chart,
    curve_chart,
    linking_chart,
    roc_chart,
    volcano_chart,
)

HALF = np.array([0.0, 0.5, 1.0])
ROC = RocView("score", "all", 10, 2, HALF, np.array([0.0, 0.8, 1.0]), HALF, np.ones(3))
ROC_WORDS = {"x": "x", "y": "y", "chance": "chance", "at": "here"}
EVIL = "<img src=x>"


def traces(figure, name: str):  # type: ignore[no-untyped-def]
    return [trace for trace in figure.data if trace.name == name]


def test_the_roc_of_the_attack_is_rust_and_the_others_grey() -> None:
    figure = roc_chart(
        [ROC, ROC], labels=["attack", EVIL], words=ROC_WORDS, is_log=False, at=(0.5, 0.8)
    )
    assert traces(figure, "attack")[0].line.color == RUST
    assert traces(figure, "&lt;img src=x&gt;")[0].line.color == GREY
    assert tuple(traces(figure, "attack")[0].x) == (0, 0, 0.5, 1)
    assert tuple(traces(figure, "attack")[0].y) == (0, 0, 0.8, 1)
    assert (tuple(traces(figure, "here")[0].x), tuple(traces(figure, "here")[0].y)) == (
        (0.5,),
        (0.8,),
    )
    assert figure.layout.xaxis.type == "linear"
    assert figure.layout.paper_bgcolor is None


def test_a_rate_of_zero_has_a_place_on_logarithmic_axes() -> None:
    figure = roc_chart([ROC], labels=["attack"], words=ROC_WORDS, is_log=True, at=(0.0, 0.0))
    for trace in figure.data:
        assert min(trace.x) > 0
        assert min(trace.y) > 0
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"


def test_an_undefined_rule_is_not_drawn() -> None:
    at = (math.nan, 0.5)
    figure = roc_chart([ROC], labels=["attack"], words=ROC_WORDS, is_log=False, at=at)
    assert not traces(figure, "here")


@pytest.mark.parametrize("is_log", [True, False])
def test_the_volcano_has_both_lines(is_log: bool) -> None:
    kinds = [
        VolcanoNames(kind, np.array([-3.0]), np.array([1.0]), np.array([7]))
        for kind in ("control", "member")
    ]
    figure = volcano_chart(
        kinds,
        labels={"control": "c", "member": "m"},
        axis=ScoreAxis(is_log=is_log, low=-5, high=0),
        threshold=-2.0,
        line=1.3,
        words={"x": "x", "y": "y", "line": "l", "threshold": "t"},
    )
    assert traces(figure, "m")[0].marker.color == RUST
    assert traces(figure, "c")[0].marker.symbol == "circle-open"
    across, upright = figure.layout.shapes
    assert (across.y0, upright.x0) == (1.3, -2.0)
    assert ("0" in (figure.layout.xaxis.ticktext or ())) == is_log


def test_the_curve_leaves_out_what_is_undefined() -> None:
    curve = [
        CurvePoint.model_validate({"n": n, "strata": {"all": {"auc": auc}}})
        for n, auc in (
            (100, {"fixed": None, "general_alone": 0.5}),
            (200, {"fixed": 0.9, "general_alone": 0.5}),
        )
    ]
    labels = {"fixed": "a", "general_alone": "b"}
    figure = curve_chart(curve, stratum="all", labels=labels, words={"x": "n", "y": "AUC"})
    assert traces(figure, "a")[0].y == (None, 0.9)
    assert traces(figure, "b")[0].line.color == GREY
    assert list(figure.layout.xaxis.ticktext) == ["100", "200"]


def test_linking_stands_beside_chance_and_the_general_model() -> None:
    shares = {"top_1": 0.5, "top_5": 1.0, "median_rank": 1.5}
    record = {
        "n_passages": 2, "n_names": 10, "chance": shares, "hospital_against_general": shares,
        "hospital_alone": shares, "general_alone": shares,
        "rank_by_passage": [{"name_id": i, "passage_id": "", "rank": i} for i in (1, 2)],
    }  # fmt: skip
    linking = Linking.model_validate(record)
    keys = ("x", "y", "attack", "general", "chance")
    figure = linking_chart(linking, words={key: key for key in keys})
    assert tuple(traces(figure, "attack")[0].y) == (50, 100, 100)
    assert tuple(traces(figure, "chance")[0].y)[:2] == (10, 20)
    assert tuple(traces(figure, "general")[0].y) == (50, 100)


def test_the_band_of_p_values_stays_between_0_and_1() -> None:
    found = Calibration(np.array([0.2, 0.9]), np.array([1 / 3, 2 / 3]), 0.3, 0, 2)
    words = {key: key for key in ("x", "y", "band", "controls")}
    for half in (0.3, 0.9):
        figure = calibration_chart(replace(found, half_width=half), words=words)
        for trace in figure.data:
            assert 0 <= min(trace.y) <= max(trace.y) <= 1
        assert tuple(traces(figure, "controls")[0].y) == (0.2, 0.9)
