"""Members by role: counts by hand, AUC against a second source, what is left out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from audit.attack.metrics import MAX_ROLES, measures_by_role
from audit.names.candidates import Candidates, make_candidates


def names_of(roles: list[str], *, n_controls: int = 4) -> Candidates:
    members = [(f"F{i}", f"L{i}") for i in range(len(roles))]
    controls = [(f"C{i}", "X") for i in range(n_controls)]
    listed = make_candidates(members, is_member=True, n_mentions=list(range(1, len(roles) + 1)))
    listed += make_candidates(controls, is_member=False, control_kind="easy")
    return replace(listed, role=(*roles, *[""] * n_controls))


def measured(names: Candidates, score: np.ndarray, **more: Any) -> list[dict[str, Any]]:
    scores = (score, -score)
    return measures_by_role(names, scores=scores, flags=[one > 2 for one in scores], **more)


def test_each_role_is_ranked_against_the_same_controls_by_hand() -> None:
    names = names_of(["patient", "staff", "patient", "staff", "patient"])
    names = replace(names, role=(*names.role[:5], "staff", "", "", ""))
    score = np.array([9.0, 1.5, 3.0, 0.5, math.nan, 2.5, 1.0, 0.0, 2.0])
    patient, staff = measured(names, score, threshold=1.2)
    assert (patient["role"], patient["n_members"], patient["n_controls"]) == ("patient", 3, 4)
    assert (patient["n_not_scored"], patient["median_mentions"]) == (1, 3)
    assert patient["auc"]["value"] == 1.0 and patient["general_auc"]["value"] == 0.0
    assert (patient["flagged"]["n_hits"], patient["flagged"]["n_total"]) == (2, 2)
    assert patient["above"] is not None and patient["above"]["n_hits"] == 2
    # 1.5 beats 0 and 1, 0.5 beats 0: 3 of 8 pairs.
    assert staff["auc"]["value"] == pytest.approx(3 / 8)
    assert (staff["flagged"]["n_hits"], staff["flagged"]["n_total"]) == (0, 2)
    assert (staff["n_role_controls"], staff["role_controls_flagged"]["n_hits"]) == (1, 1)
    assert staff["above"] is not None and staff["above"]["n_hits"] == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), min_size=2, max_size=12))
def test_the_auc_is_scikit_learns(rows: list[tuple[str, int]]) -> None:
    names = names_of([role for role, _ in rows], n_controls=5)
    score = np.array([*(value for _, value in rows), -2, 0, 0, 1, 3], dtype=float)
    lines = measured(names, score)
    assert sum(line["n_members"] for line in lines) == len(rows)
    for line in lines:
        own = np.array([role == line["role"] for role, _ in rows] + [True] * 5)
        truth = np.array([1] * len(rows) + [0] * 5)[own]
        assert line["auc"]["value"] == pytest.approx(roc_auc_score(truth, score[own]))
        low, high = line["auc"]["low"], line["auc"]["high"]
        assert len(set(score[own])) == 1 or low <= line["auc"]["value"] <= high


def test_the_flag_of_the_general_model_has_its_own_names_without_a_score() -> None:
    names = names_of(["a", "a"])
    score = np.array([3.0, 3.0, 0.0, 0.0, 0.0, 0.0])
    general = np.array([math.nan, 5.0, 0, 0, 0, 0])
    flags = (score > 2, np.ones(6, dtype=bool))
    (line,) = measures_by_role(names, scores=(score, general), flags=flags)
    assert (line["general_flagged"]["n_hits"], line["general_flagged"]["n_total"]) == (1, 1)
    assert (line["flagged"]["n_hits"], line["flagged"]["n_total"]) == (2, 2)


def test_without_a_role_there_is_nothing_and_many_roles_are_cut_off() -> None:
    assert measured(names_of(["", ""]), np.arange(6.0)) == []
    roles = [f"r{i}" for i in range(MAX_ROLES + 3)] + ["r1"]
    lines = measured(names_of(roles), np.arange(len(roles) + 4.0))
    assert len(lines) == MAX_ROLES and lines[0]["role"] == "r1" and lines[0]["n_members"] == 2


def test_names_without_a_role_are_a_line_of_their_own_and_no_controls_give_no_auc() -> None:
    lines = measured(names_of(["staff", "", ""], n_controls=0), np.arange(3.0))
    assert [(line["role"], line["n_members"]) for line in lines] == [("", 2), ("staff", 1)]
    assert lines[0]["auc"]["value"] is None and lines[0]["flagged"]["n_total"] == 2
