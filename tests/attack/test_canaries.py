"""Canaries in a judged attack: their own measures, and no trace of them in those of patients."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from audit.attack.decisions import decide
from audit.attack.exposure import MIN_HELD_OUT, bits_without_leak
from audit.attack.judgement import Judgement, judge, name_columns, null_check
from audit.attack.scores import AttackResult, Score
from audit.names.candidates import Candidates, make_candidates
from tests.attack.planted_table import given_attack

FORMULAS = (
    "residual", "difference", "log_ratio", "mean_log_ratio", "hospital_posterior",
    "general_posterior", "general_mean_log",
)  # fmt: skip
N_REFERENCE = 2000
N_CANARIES = 40
HOW = {"scenario": 2, "seed": 0}


def patients(n: int = 40) -> Candidates:
    listed = make_candidates([(f"F{i}", f"L{i}") for i in range(n)], is_member=True,
                             n_mentions=[1 + i % 3 for i in range(n)])  # fmt: skip
    controls = [(f"E{i}", "X") for i in range(n)]
    listed += make_candidates(controls, is_member=False, control_kind="easy")
    return replace(listed, role=("patient", "staff") * (n // 2) + ("",) * n)


def canaries(n_planted: int = N_CANARIES, *, n_held_out: int | None = None) -> Candidates:
    counts = [1, 2, 4, 8] * n_planted
    planted = make_candidates([(f"P{i}", f"Q{i}") for i in range(n_planted)], is_member=True,
                              n_mentions=counts[:n_planted])  # fmt: skip
    twins = [(f"T{i}", f"U{i}") for i in range(n_planted if n_held_out is None else n_held_out)]
    planted += make_candidates(twins, is_member=False, control_kind="canary")
    return replace(planted, role=("canary",) * len(planted))


def table(names: Candidates, *, effect: float = 0.0, seed: int = 0) -> AttackResult:
    """Normal scores; planted names rise with the logarithm of their mentions, members by 1."""
    n, rng = len(names), np.random.default_rng(seed)
    rise = np.zeros(n + N_REFERENCE)
    for i in range(n):
        if names.is_member[i]:
            rise[i] = (
                effect * (1 + math.log2(names.n_mentions[i] or 1)) if names.is_canary(i) else 1
            )
    noise = {name: rng.normal(size=n + N_REFERENCE) for name in FORMULAS}
    scores = {
        name: Score(value + rise * (not name.startswith("general")), np.full(len(value), 0.1))
        for name, value in noise.items()
    }
    return given_attack(scores, n_reference=N_REFERENCE)


def judged(names: Candidates, attack: AttackResult) -> Judgement:
    return judge(attack, candidates=names, threshold=None, **HOW)  # type: ignore[arg-type]


def among_others(names: Candidates, whole: AttackResult, *, others: Candidates) -> AttackResult:
    """The same attack with more names on the list, between the listed and the reference ones."""
    n, extra = len(names), table(others, effect=2.0, seed=9)
    return given_attack(
        {
            name: Score(
                np.concatenate([s.value[:n], extra.scores[name].value[: len(others)], s.value[n:]]),
                np.full(len(s.value) + len(others), 0.1),
            )
            for name, s in whole.scores.items()
        },
        n_reference=N_REFERENCE,
    )


def test_measures_of_patients_are_those_of_a_list_without_canaries() -> None:
    names, others = patients(), canaries()
    alone = table(names)
    whole = judged(names + others, among_others(names, alone, others=others))
    plain = judged(names, alone)
    assert json.dumps(whole.metrics) == json.dumps(plain.metrics)
    assert whole.verdict == plain.verdict and whole.cohort == plain.cohort
    assert (whole.curve, whole.mentions) == (plain.curve, plain.mentions)
    assert whole.details["roles"] == plain.details["roles"]
    np.testing.assert_array_equal(whole.decisions.decision[: len(names)], plain.decisions.decision)
    np.testing.assert_array_equal(whole.decisions.q[: len(names)], plain.decisions.q)
    assert "canaries" not in plain.details and "canaries" in whole.details
    assert "canary" not in whole.metrics["strata"]


def test_canaries_are_decided_among_themselves_in_the_order_of_the_list() -> None:
    names = canaries(4) + patients() + canaries(8).rows([4, 5, 6, 7, 12, 13, 14, 15])
    attack = table(names, effect=2.0)
    found = judged(names, attack)
    rows = [i for i in range(len(names)) if names.is_canary(i)]
    score = attack.scores["residual"]
    own = decide(
        score.value[rows], standard_error=score.standard_error[rows], group=np.full(len(rows), 2),
        is_member=[names.is_member[i] for i in rows], reference_scores=score.value[len(names):],
        reference_group=np.full(N_REFERENCE, 2), n_blocks=10,
    )  # fmt: skip
    np.testing.assert_array_equal(found.decisions.q[rows], own.q)
    columns = name_columns(attack, found, candidates=names, scenario=2)
    assert [columns["decision"][i] for i in rows] == list(own.decision)
    assert columns["role"][0] == "canary" and columns["control_kind"][rows[-1]] == "canary"


def test_a_leak_that_grows_with_mentions_is_reported_from_a_number_on() -> None:
    names = patients() + canaries(80)
    record = judged(names, table(names, effect=0.9)).details["canaries"]
    fixed, general = (record["scores"][s] for s in ("residual", "general_alone"))
    bits = [group["bits"]["value"] for group in fixed["groups"]]
    assert [group["n_mentions"] for group in fixed["groups"]] == [1, 2, 4, 8]
    assert bits == sorted(bits)
    assert fixed["found_from"]["value"] in (2, 4, 8) and general["found_from"]["value"] is None
    assert fixed["all"]["above_twin_p"] < 1e-6 < 0.01 < general["all"]["above_twin_p"]
    assert fixed["max_bits"] == pytest.approx(math.log2(81))
    hits = fixed["all"]["found"]["n_hits"]
    assert f"{hits} of 80 planted names" in record["english"]
    assert f"{hits} 名が見つかりました" in record["japanese"]


def test_the_ith_planted_name_pairs_with_the_ith_twin() -> None:
    names = canaries(3, n_held_out=3)
    attack = table(names)
    attack.scores["residual"].value[:6] = [5.0, 1.0, 3.0, 2.0, 4.0, 0.0]
    record = judged(names, attack).details["canaries"]
    assert record is not None and record["is_paired"]
    assert [(one["name_id"], one["twin_id"]) for one in record["names"]] == [(0, 3), (1, 4), (2, 5)]
    assert [one["twin_score"] for one in record["names"]] == [2.0, 4.0, 0.0]
    # Of four ranks: 5 is first, 1 is third (4 and 2 above it), 3 is second.
    assert [one["p"] for one in record["names"]] == [1 / 4, 3 / 4, 2 / 4]
    assert [one["bits"] for one in record["names"]] == pytest.approx([2, math.log2(4 / 3), 1])
    whole = record["scores"]["residual"]["all"]
    assert (whole["above_twin"]["n_hits"], whole["above_twin"]["n_total"]) == (2, 3)
    assert whole["above_twin_p"] == pytest.approx(0.5)


def test_with_other_numbers_the_held_out_names_only_give_ranks() -> None:
    names = patients() + canaries(4, n_held_out=30)
    record = judged(names, table(names, effect=3.0)).details["canaries"]
    assert not record["is_paired"]
    fixed = record["scores"]["residual"]
    assert fixed["n_held_out"] == 30 and fixed["all"]["above_twin"]["n_total"] == 0
    assert fixed["all"]["above_twin_p"] is None
    assert {one["twin_id"] for one in record["names"]} == {None}
    assert "twins" not in record["english"]


@pytest.mark.parametrize("n_held_out", [0, MIN_HELD_OUT - 1])
def test_too_few_held_out_names_are_said_to_find_nobody(n_held_out: int) -> None:
    names = patients() + canaries(4, n_held_out=n_held_out)
    record = judged(names, table(names, effect=3.0)).details["canaries"]
    assert "too few" in record["english"] and f"{n_held_out} 名しかなく" in record["japanese"]
    assert bool(record["scores"]) == bool(n_held_out)


def test_enough_held_out_names_can_find_one() -> None:
    names = canaries(1, n_held_out=MIN_HELD_OUT)
    attack = table(names, effect=90.0)
    record = judged(names, attack).details["canaries"]
    assert record is not None and "1 of 1 planted names are found" in record["english"]


def test_bits_without_a_leak_are_the_mean_over_uniform_ranks() -> None:
    for n_held_out in (1, 19, 200):
        ranks = np.arange(1, n_held_out + 2)
        mean = float((np.log2(len(ranks)) - np.log2(ranks)).mean())
        assert bits_without_leak(n_held_out) == pytest.approx(mean)
    assert bits_without_leak(10**6) == pytest.approx(1 / math.log(2), abs=1e-4)


def test_a_list_of_canaries_alone_has_no_measures_of_patients() -> None:
    names = canaries()
    attack = table(names, effect=3.0)
    found = judged(names, attack)
    assert found.metrics["strata"] == {} and found.curve == [] and found.verdict["n_tested"] == 0
    assert found.verdict["state"] == "not_enough_evidence" and "canaries" in found.details
    check = null_check(attack.scores["residual"].value, candidates=names)
    assert math.isnan(check["ks_p"])
