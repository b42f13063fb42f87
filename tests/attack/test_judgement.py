"""From scores to a verdict: a planted table is found out, one without a leak is not."""

from __future__ import annotations

import numpy as np
import pytest

from audit.attack.judgement import name_columns, null_check
from audit.attack.scores import FIXED_SCORE, both_parts, part_limits
from audit.names.candidates import make_candidates
from tests.attack.planted_table import (
    N_CONTROLS,
    N_MEMBERS,
    N_REFERENCE,
    fewer_replicates,
    judged,
    listed,
    put,
    table,
)

__all__ = ["fewer_replicates"]


@pytest.mark.parametrize("scenario", [1, 2])
def test_a_planted_leak_is_found(scenario):
    names = listed()
    judgement = judged(table(names, scenario=scenario, effect=4.0), names, scenario)
    assert judgement.verdict["state"] == "leak_found"
    assert judgement.verdict["reasons"] == ["group_stands_out", "names_stand_out"]
    assert judgement.verdict["n_tested"] == N_MEMBERS
    assert judgement.verdict["n_flagged"] > 20
    assert judgement.cohort["group"] == "members"
    assert judgement.cohort["p"] < 0.001


@pytest.mark.parametrize("scenario", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_a_null_table_is_not_flagged(scenario, seed):
    names = listed()
    judgement = judged(table(names, scenario=scenario, effect=0.0, seed=seed), names, scenario)
    assert judgement.verdict["state"] != "leak_found"
    assert judgement.verdict["n_flagged"] == 0
    assert judgement.cohort["p"] > 0.01


def test_ill_matched_controls_are_not_called_a_leak():
    names = listed()
    for direction in (0.8, -0.8):
        attack = table(names, scenario=2, effect=0.0, general_effect=direction, seed=2)
        verdict = judged(attack, names, 2).verdict
        assert verdict["state"] == "ill_matched"
        assert verdict["reasons"][0] == "general_separates"


def test_one_member_far_above_all_reference_controls_is_enough():
    names = listed()
    attack = table(names, scenario=2, effect=0.0)
    put(attack, 3, 50.0)
    judgement = judged(attack, names, 2)
    assert judgement.verdict["state"] == "leak_found"
    assert judgement.decisions.decision[3] == "flagged"
    assert judgement.decisions.p[3] == 1 / (N_REFERENCE + 1)


def test_a_control_that_stands_out_is_no_leak():
    names = listed()
    attack = table(names, scenario=2, effect=0.0)
    put(attack, N_MEMBERS + 3, 50.0)
    assert judged(attack, names, 2).verdict["state"] != "leak_found"


def test_where_no_leak_is_found_nobody_stands_out_anywhere():
    names = listed()
    attack = table(names, scenario=2, effect=0.0)
    # Rank 5 of 3,001 in a family of 60: q = .04, which one route alone needs at .025.
    reference = np.sort(attack.scores["residual"].value[len(names) :])
    put(attack, 3, (reference[-1] + reference[-2]) / 2)
    judgement = judged(attack, names, 2)
    assert 0.025 < judgement.decisions.q[3] <= 0.05
    assert judgement.verdict["state"] != "leak_found"
    assert judgement.verdict["n_flagged"] == 0
    assert not judgement.decisions.point_flag.any()
    assert judgement.decisions.decision[3] == "not flagged"
    assert sum(one["flagged"]["n_hits"] for one in judgement.mentions) == 0


def test_everything_that_counts_names_counts_the_same():
    names = listed()
    judgement = judged(table(names, scenario=2, effect=1.5), names, 2)
    flag = judgement.decisions.point_flag
    assert 0 < flag[:N_MEMBERS].sum() < N_MEMBERS
    assert judgement.verdict["n_flagged"] == flag[:N_MEMBERS].sum()
    assert sum(one["flagged"]["n_hits"] for one in judgement.mentions) == flag[:N_MEMBERS].sum()


def test_a_control_with_one_known_part_does_not_stand_out():
    names = listed(("easy", "hard"))
    attack = table(names, scenario=2, effect=4.0)
    first = attack.parts.of_name[:, 0]
    hard = np.arange(2 * N_MEMBERS, 3 * N_MEMBERS)
    attack.part_residual[first[hard]] += 50.0  # a member's first name, and a last name of nobody
    limits = part_limits(attack.part_residual, parts=attack.parts)
    residual = both_parts(*attack.parts.pairs(attack.part_residual), limits=limits)
    attack.scores["residual"].value[:] = residual
    found = judged(attack, names, 2)
    assert found.decisions.point_flag[:N_MEMBERS].sum() > 0.9 * N_MEMBERS
    # One in twenty last names of nobody lies beyond the limit by chance.
    assert found.decisions.point_flag[hard].sum() <= 8
    np.testing.assert_array_equal(
        found.decisions.point_flag[:N_MEMBERS], found.decisions.q[:N_MEMBERS] <= 0.05
    )


def test_a_name_without_comparable_controls_is_not_judged():
    names = listed()
    attack = table(names, scenario=2, effect=0.0)
    attack.n_pieces[5] = 7
    decisions = judged(attack, names, 2).decisions
    assert decisions.decision[5] == "not judged"
    assert np.isnan(decisions.q[5]) and not decisions.point_flag[5]


def test_without_truth_the_q_values_alone_are_judged():
    members = make_candidates([(f"F{i}", f"L{i}") for i in range(20)])
    attack = table(members, scenario=1, effect=0.0)
    judgement = judged(attack, members, 1)
    assert judgement.verdict["state"] == "not_enough_evidence"
    assert judgement.verdict["auc"] is None
    assert judgement.metrics["strata"] == {}
    assert judgement.curve == []
    assert judgement.mentions == []
    assert judgement.cohort["group"] == "unknown"
    for row in range(5):
        put(attack, row, 50.0)
    assert judged(attack, members, 1).verdict["state"] == "leak_found"


def test_strata_hold_each_kind_of_controls_and_reference_controls_none():
    names = listed(("easy", "hard"))
    strata = judged(table(names, scenario=2, effect=1.0), names, 2).metrics["strata"]
    assert {k: (s["n_members"], s["n_controls"]) for k, s in strata.items()} == {
        "all": (60, 120), "easy": (60, 60), "hard": (60, 60),
    }  # fmt: skip


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_paper_s_rule_counts_scores_above_zero(scenario):
    names = listed()
    attack = table(names, scenario=scenario, effect=1.0)
    name, rule = (
        ("hits", "name_occurs") if scenario == 1 else ("difference", "difference_above_zero")
    )
    flagged = attack.scores[name].value[: len(names)] > 0
    counts = judged(attack, names, scenario).metrics["strata"]["all"]["rules"][rule]["confusion"]
    assert (counts["tp"], counts["fp"]) == (flagged[:N_MEMBERS].sum(), flagged[N_MEMBERS:].sum())
    assert (counts["fn"], counts["tn"]) == (N_MEMBERS - counts["tp"], N_CONTROLS - counts["fp"])


def test_a_free_threshold_is_judged_on_the_fixed_score():
    names = listed()
    attack = table(names, scenario=2, effect=1.0)
    free = judged(attack, names, 2, threshold=0.5).metrics["strata"]["all"]["free"]
    above = attack.scores["residual"].value[: len(names)] > 0.5
    assert free["confusion"]["tp"] == above[:N_MEMBERS].sum()
    assert free["thresholds"] == [0.5]


# --- the table of names ---


def test_the_table_has_the_promised_columns_in_their_order():
    first = ["name_id", "file_row", "first_name", "last_name", "is_member", "control_kind"]
    later = ["n_pieces", "score", "standard_error", "p_value", "q_value", "decision"]
    special = {
        1: ["hospital_hits", "general_hits", "hospital_product", "general_product"],
        2: ["hospital_posterior", "general_posterior", "difference", "log_ratio", "mean_log_ratio"],
    }
    for scenario in (1, 2):
        names = listed()
        attack = table(names, scenario=scenario, effect=1.0)
        columns = name_columns(
            attack, judged(attack, names, scenario), candidates=names, scenario=scenario
        )  # fmt: skip
        order = list(columns)
        assert order[:6] == first
        assert [name for name in order if name in later] == later
        assert set(special[scenario]) <= set(order)
        assert {len(column) for column in columns.values()} == {len(names)}
        assert columns["score"] == attack.scores[FIXED_SCORE[scenario]].value[: len(names)].tolist()
        assert columns["is_member"] == [1] * N_MEMBERS + [0] * N_CONTROLS
        if scenario == 1:
            shares = attack.scores["general_hits"].value[: len(names)]
            assert columns["general_hits"] == (shares * 950).round().tolist()
            assert all(isinstance(n, int) for n in columns["hospital_hits"])
            assert "hits" not in columns


def test_truth_that_is_not_known_is_left_empty():
    names = make_candidates([("A", "B"), ("C", "D")])
    attack = table(names, scenario=2, effect=0.0)
    columns = name_columns(attack, judged(attack, names, 2), candidates=names, scenario=2)
    assert columns["is_member"] == [None, None]


def test_the_null_check_tells_members_from_reference_controls():
    names = listed()
    shifted = table(names, scenario=2, effect=2.0).scores["log_ratio"].value
    null = table(names, scenario=2, effect=0.0).scores["log_ratio"].value
    assert null_check(shifted, candidates=names)["ks_p"] < 1e-6
    assert null_check(null, candidates=names)["ks_p"] > 0.05
    null[N_MEMBERS : len(names)] = 99.0  # listed controls play no part
    assert null_check(null, candidates=names)["ks_p"] > 0.05
