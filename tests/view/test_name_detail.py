"""One name's detail: blocks by hand, its place among controls against its own p-value."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from audit.attack.decisions import name_p_values
from audit.notes.passages import Passage
from audit.report.names import among_controls, name_detail, name_table
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
    report = make_report(2)
    values = np.full((3, report.n_names), -1.0, dtype=np.float32)
    values[:, 0] = [1.0, 2.0, 3.0]
    inspection = made(hospital=values, general=values, n_per_block=np.array([100, 100, 50]))
    detail = name_detail(name_table(report), row=0, inspection=inspection, report=report)
    hospital, general = detail.blocks
    assert (hospital.who, general.who) == ("hospital", "general")
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
    table, inspection = name_table(report), made()
    lengths = np.array([2, 3] * 300)
    inspection = replace(inspection, reference_n_pieces=lengths)
    scores = table.numbers["score"]
    p = name_p_values(
        scores,
        group=np.full(len(scores), 2),
        control_scores=inspection.reference_score,
        control_group=lengths,
    )
    for row in range(len(table)):
        among = name_detail(table, row=row, inspection=inspection, report=report).among
        assert among is not None
        n = among.below.n_total
        assert n == 300
        assert (1 + n - among.below.n_hits) / (1 + n) == pytest.approx(p[row])
        assert among.counts.sum() + among.n_at_zero == n


@pytest.mark.parametrize("n_rare", [0, 7])
def test_a_rare_length_is_compared_with_its_own_length_alone(n_rare: int) -> None:
    lengths = np.array([7] * n_rare + [2] * (600 - n_rare))
    among = among_controls(
        0.0, threshold=math.inf, n_pieces=7, is_unmatched=True, is_log=False,
        inspection=made(reference_n_pieces=lengths),
    )  # fmt: skip
    assert (among.below.n_total if among else 0) == n_rare
    assert among is None or among.is_unmatched


def test_zeros_have_no_logarithm_and_are_counted() -> None:
    scores = np.array([0.0, 0.0, 1e-6, 1e-4, np.nan])
    inspection = made(reference_score=scores, reference_n_pieces=np.full(5, 2))
    for score, position in ((1e-5, -5.0), (0.0, -math.inf), (math.nan, math.nan)):
        among = among_controls(
            score, threshold=1e-3, n_pieces=2, is_unmatched=False, is_log=True,
            inspection=inspection,
        )  # fmt: skip
        assert among is not None
        assert among.position == pytest.approx(position, nan_ok=True)
        assert (among.n_at_zero, int(among.counts.sum())) == (2, 2)
        assert among.edges[-1] == pytest.approx(-3)
        assert among.below.n_hits == (3 if score == 1e-5 else 0)


def test_passages_say_whose_they_are() -> None:
    report = replace(
        make_report(2),
        details={"linking": {"rank_by_passage": [
            {"passage_id": "a", "name_id": 0, "rank": 1.0},
            {"passage_id": "b", "name_id": 1, "rank": 4.5},
        ]}},
    )  # fmt: skip
    table, inspection = name_table(report), made()
    whose = {}
    for row in (0, 1, 2):
        detail = name_detail(table, row=row, inspection=inspection, report=report)
        whose[row] = {p.passage_id: (p.is_own, p.rank) for p in detail.passages}
        ratios = [p.log_ratio for p in detail.passages]
        assert ratios == sorted(ratios, reverse=True)
    assert whose[0] == {"a": (True, 1.0), "b": (False, None), "c": (None, None)}
    assert whose[1] == {"a": (False, None), "b": (True, 4.5), "c": (None, None)}
    assert whose[2]["a"] == (False, None)


def test_without_an_inspection_the_report_still_speaks() -> None:
    report = make_report(1)
    detail = name_detail(name_table(report), row=5, inspection=None, report=report)
    assert (detail.blocks, detail.among, detail.passages) == ((), None, ())
    assert detail.numbers["score"] == report.names["score"][5]
    assert (detail.first, detail.kind) == ("Sophia5", "member")
