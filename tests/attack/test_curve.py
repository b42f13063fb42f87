"""Verdicts after less of a run, and by how often a name is mentioned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from audit.attack.decisions import decide
from audit.attack.judgement import curve_of
from audit.attack.metrics import MENTION_BINS, by_mentions
from audit.attack.scores import Score
from audit.names.candidates import Candidates, make_candidates
from tests.attack.planted_table import fewer_replicates, judged, listed, table

__all__ = ["fewer_replicates"]


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_last_point_of_the_curve_equals_the_measures(scenario):
    names = listed(("easy", "hard"))
    attack = table(names, scenario=scenario, effect=1.5)
    judgement = judged(attack, names, scenario)
    assert [point["n"] for point in judgement.curve] == [100, 200, 400, 500, 800, 950]
    for stratum, quick in judgement.curve[-1]["strata"].items():
        whole = judgement.metrics["strata"][stratum]
        rankings = {**whole["scores"], **whole["baselines"]}
        assert {k: r["auc"]["value"] for k, r in rankings.items()} == quick["auc"]
        for name, rule in {**whole["rules"], **whole["baseline_rules"]}.items():
            for cell in ("tp", "fn", "fp", "tn"):
                assert quick["rules"][name][cell] == rule["confusion"][cell]


def test_the_curve_judges_prefixes_of_the_run():
    names = listed()
    attack = table(names, scenario=2, effect=3.0)
    asked: list[int] = []

    def after(n_blocks: int) -> Mapping[str, Score]:
        asked.append(n_blocks)
        return table(names, scenario=2, effect=3.0).after(n_blocks)

    attack = replace(attack, after=after)
    curve = curve_of(attack, names, scenario=2)
    assert asked == [1, 2, 4, 5, 8, 10]
    aucs = [point["strata"]["all"]["auc"]["mean_log_ratio"] for point in curve]
    assert aucs == sorted(aucs)
    assert aucs[0] < 0.75 < 0.95 < aucs[-1]


def test_a_run_of_one_block_has_one_point():
    names = listed()
    attack = table(names, scenario=2, effect=1.0)
    attack = replace(attack, n_units=30, block_counts=np.array([30]))
    curve = curve_of(attack, names, scenario=2)
    assert [point["n"] for point in curve] == [30]


# --- mentions ---


def decisions_of(score: np.ndarray, candidates: Candidates, reference: np.ndarray) -> Any:
    return decide(
        score, standard_error=np.full(len(score), 0.1), n_blocks=20, group=np.full(len(score), 2),
        is_member=candidates.is_member, reference_scores=reference,
        reference_group=np.full(len(reference), 2),
    )  # fmt: skip


def test_the_table_of_mentions_by_hand():
    names = make_candidates(
        [(f"F{i}", "L") for i in range(8)],
        is_member=True,
        n_mentions=[1, 1, 2, 4, 5, 9, 10, None],
    ) + make_candidates([("C0", "L"), ("C1", "L")], is_member=False, control_kind="easy")
    score = np.array([1.0, 5.0, 3.0, 2.0, 9.0, 7.0, 8.0, 9.0, 0.0, 4.0])
    # q <= 0.05: with 999 controls all below 6 and 8 tested, p = .001 for the scores above 6.
    decisions = decisions_of(score, names, np.linspace(4.5, 6.0, 999))
    assert decisions.q[:8].round(3).tolist()[4:] == [0.002] * 4
    rows = by_mentions(score, decisions.point_flag, names)
    assert [(r["from"], r["to"], r["n_names"]) for r in rows] == [
        (1, 1, 2), (2, 2, 1), (3, 4, 1), (5, 9, 2), (10, None, 1),
    ]  # fmt: skip
    assert [r["flagged"]["n_hits"] for r in rows] == [0, 0, 0, 2, 1]
    assert [r["flagged"]["n_total"] for r in rows] == [2, 1, 1, 2, 1]
    assert [r["median_score"] for r in rows] == [3.0, 3.0, 2.0, 8.0, 8.0]
    assert [r["auc"] for r in rows] == [0.75, 0.5, 0.5, 1.0, 1.0]
    assert [r["flagged"]["value"] for r in rows] == [0, 0, 0, 1, 1]
    assert 0 < rows[3]["flagged"]["low"] < rows[3]["flagged"]["high"] <= 1


def test_mentions_without_controls_have_no_auc():
    names = make_candidates([("A", "B"), ("C", "D")], is_member=True, n_mentions=[1, 3])
    score = np.array([1.0, 2.0])
    rows = by_mentions(score, decisions_of(score, names, np.zeros(50)).point_flag, names)
    assert [(r["from"], r["auc"]) for r in rows] == [(1, None), (3, None)]


def test_bins_of_mentions_leave_no_gap():
    for (_, high), (low, _) in pairwise(MENTION_BINS):
        assert low == high + 1
    assert MENTION_BINS[0][0] == 1
    assert MENTION_BINS[-1][1] is None
