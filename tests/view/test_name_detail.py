"""One name's detail: blocks by hand, its place among controls against its own p-value."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from audit.attack.decisions import name_p_values
from audit.notes.passages import Passage
from audit.report.names import among_controls, fitting_passages, model_blocks
from audit.report.report import Inspection
from tests.pages.make_reports import make_inspection, make_report

PASSAGES = (
    Passage("Mr. ", ("first", "last"), " ", " is 50.", "a", ("sophia0", "WRIGHT0")),
    Passage("", ("full",), "", "は50歳", "b", 1),
    Passage("by ", ("full",), "", "", "c", None),
)


def made(**changes: object) -> Inspection:
    inspection = make_inspection(make_report(2), passages=PASSAGES)
    return replace(inspection, **changes)  # type: ignore[arg-type]


def test_blocks_and_their_interval_by_hand() -> None:
    evidence = np.array([1.0, 2.0, 3.0], dtype=np.float32)
    hospital = model_blocks("hospital", evidence, n_per_block=np.array([100, 100, 50]))
    assert hospital.values.tolist() == [1, 2, 3]
    assert hospital.mean.value == pytest.approx(450 / 250)
    # Blocks of 100, 100 and 50 inputs: the jackknife of Busing, Meijer & van der Leeden 1999.
    whole, without, times = 450 / 250, [350 / 150, 250 / 150, 300 / 200], [2.5, 2.5, 5.0]
    jack = 3 * whole - sum((1 - 1 / h) * x for x, h in zip(without, times, strict=True))
    pseudo = [h * whole - (h - 1) * x for x, h in zip(without, times, strict=True)]
    error = math.sqrt(
        sum((p - jack) ** 2 / (h - 1) for p, h in zip(pseudo, times, strict=True)) / 3
    )
    assert hospital.mean.high - hospital.mean.value == pytest.approx(1.959964 * error)


def test_the_share_below_agrees_with_the_p_value() -> None:
    report = make_report(2)
    inspection, lengths = made(), np.array([2, 3] * 300)
    scores = report.table["score"].to_numpy()
    p = name_p_values(
        scores,
        group=np.full(len(scores), 2),
        control_scores=inspection.reference_score,
        control_group=lengths,
    )
    for row, name in report.table.iterrows():
        among = among_controls(
            name["score"], threshold=name["threshold"], is_log=False,
            controls=inspection.reference_score[lengths == name["n_pieces"]],
        )  # fmt: skip
        assert among is not None
        n = among.below.n_total
        assert n == 300
        assert (1 + n - among.below.n_hits) / (1 + n) == pytest.approx(p[row])
        assert among.counts.sum() + among.n_at_zero == n


def test_without_controls_of_its_length_there_is_no_place() -> None:
    for controls in (np.zeros(0), np.full(3, np.nan)):
        assert among_controls(0.0, threshold=1.0, controls=controls, is_log=False) is None


def test_zeros_have_no_logarithm_and_are_counted() -> None:
    scores = np.array([0.0, 0.0, 1e-6, 1e-4, np.nan])
    for score, position in ((1e-5, -5.0), (0.0, -math.inf), (math.nan, math.nan)):
        among = among_controls(score, threshold=1e-3, controls=scores, is_log=True)
        assert among is not None
        assert among.position == pytest.approx(position, nan_ok=True)
        assert (among.n_at_zero, int(among.counts.sum())) == (2, 2)
        assert among.edges[-1] == pytest.approx(-3)
        assert among.below.n_hits == (3 if score == 1e-5 else 0)


def test_passages_say_whose_they_are() -> None:
    table, inspection = make_report(2).table, made()
    whose = {}
    for row in (0, 1, 2):
        places, ratios = inspection.best_passages[row], inspection.best_log_ratio[row]
        found = fitting_passages(PASSAGES, places=places, ratios=ratios, name=table.loc[row])
        whose[row] = {one.passage.passage_id: one.is_own for one in found}
        fits = [one.log_ratio for one in found]
        assert fits == sorted(fits, reverse=True)
    assert whose[0] == {"a": True, "b": False, "c": None}
    assert whose[1] == {"a": False, "b": True, "c": None}
    assert whose[2]["a"] is False
    none = fitting_passages(PASSAGES, places=[-1], ratios=[np.nan], name=table.loc[0])
    assert none == []
