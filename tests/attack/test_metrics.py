"""Measures of a list and exposure: papers' tables, hand counts, scikit-learn and scipy."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    precision_score,
    recall_score,
)

from audit.attack.decisions import count_confusion, f1_interval
from audit.attack.measure_types import Confusion, RoleLine, ScoreExposure, write_json
from audit.attack.metrics import (
    MAX_ROLES,
    measure_by_role,
    measure_exposure,
    measure_membership,
    measure_scores,
)
from audit.attack.scores import AttackResult
from audit.errors import AuditError
from audit.names.candidates import Candidates, make_candidates
from tests.attack.planted_table import given_attack
from tests.scored_lists import quick

TABLES = json.loads(
    (Path(__file__).parents[1] / "golden" / "kart_tables.json").read_text(encoding="utf-8")
)
PUBLISHED = [row for table in ("table1", "table2") for row in TABLES[table] if "tp" in row]

# --- counts and rates ---


def make_confusion(tp: int, fn: int, fp: int, tn: int) -> Confusion:
    return Confusion(tp=tp, fn=fn, fp=fp, tn=tn)


def test_published_counts_give_the_published_rates() -> None:
    assert len(PUBLISHED) == 6
    for row in PUBLISHED:
        table = make_confusion(row["tp"], row["fn"], row["fp"], row["tn"])
        assert (table.n_members, table.n_controls) == (TABLES["n_members"], TABLES["n_negatives"])
        rates = (
            table.compute_f1(),
            table.accuracy.value,
            table.recall.value,
            table.precision.value,
        )
        published = tuple(row[key] for key in ("f1", "accuracy", "recall", "precision"))
        assert tuple(round(rate, 4) for rate in rates) == published


@quick
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_counts_and_rates_equal_sklearns(rows: list[tuple[bool, bool]]) -> None:
    flagged, is_member = (np.array(column) for column in zip(*rows, strict=True))
    table = count_confusion(flagged, is_member)
    tn, fp, fn, tp = confusion_matrix(is_member, flagged, labels=[False, True]).ravel()
    assert (table.tp, table.fn, table.fp, table.tn) == (tp, fn, fp, tn)
    assert table.accuracy.value == pytest.approx(accuracy_score(is_member, flagged))
    assert table.false_positive_rate.value == pytest.approx(
        fp / (fp + tn) if fp + tn else math.nan, nan_ok=True
    )
    ours = [table.recall.value, table.precision.value, table.compute_f1()]
    theirs = [
        score(is_member, flagged, zero_division=np.nan)
        for score in (recall_score, precision_score, f1_score)
    ]
    assert ours == pytest.approx(theirs, nan_ok=True)


def test_f1_interval_equals_a_plain_bootstrap_over_names() -> None:
    table = make_confusion(40, 90, 30, 100)
    flagged = np.repeat([True, False, True, False], [40, 90, 30, 100])
    is_member = np.arange(260) < 130
    rng = np.random.default_rng(2)
    f1 = []
    for _ in range(2000):
        rows = np.concatenate([rng.integers(0, 130, 130), rng.integers(130, 260, 130)])
        f1.append(count_confusion(flagged[rows], is_member[rows]).compute_f1())
    interval = f1_interval(table, seed=1)
    assert interval.value == pytest.approx(0.4)
    assert [interval.low, interval.high] == pytest.approx(
        np.quantile(f1, [0.025, 0.975]), abs=0.015
    )


@pytest.mark.parametrize(
    ("counts", "low", "value", "high"),
    [
        ((130, 0, 130, 0), 2 / 3, 2 / 3, 2 / 3),  # always "member" has no sampling error
        # Wilson for 3 of 3: from 3 / (3 + z^2); worst case: 1.3155 hits, 1.6845 false alarms.
        ((3, 0, 0, 3), 2 * (9 / 6.841459) / 6, 1.0, 1.0),
        # None of 4 found, none of 6 wrongly: at best z^2 / (4 + z^2) are.
        ((0, 4, 0, 6), 0.0, 0.0, 2 * 4 * 0.489890 / (4 + 4 * 0.489890)),
        ((0, 0, 0, 0), math.nan, math.nan, math.nan),
    ],
)
def test_a_rule_without_spread_is_not_certain(
    counts: tuple[int, ...], low: float, value: float, high: float
) -> None:
    interval = f1_interval(make_confusion(*counts), seed=1)
    assert list(vars(interval).values()) == pytest.approx([value, low, high], abs=1e-6, nan_ok=True)


# --- a whole list (all of its numbers: test_judgement.py) ---


def scored_by(listed: Candidates, **values: np.ndarray) -> AttackResult:
    """An attack with these scores, all with an error of 0.1."""
    scores = {name: np.stack([x, np.full(len(x), 0.1)]) for name, x in values.items()}
    return given_attack(listed, scores)


def test_rules_and_undecided_names_are_counted_by_hand() -> None:
    listed = make_candidates([("F", "L")] * 3, is_member=True)
    listed += make_candidates([("G", "M")] * 2, is_member=False, control_kind="given")
    listed += make_candidates([("Una", "Known")])
    # Errors of 0.1 and ten blocks: what lies within 0.226 of zero is undecided.
    value = np.array([3.0, 0.2, -0.1, 2.5, -0.2, 0.1])
    attack = scored_by(listed, residual=value, difference=value, general_mean_log=value)
    strata = measure_membership(attack, seed=1).strata
    assert list(strata) == ["all", "given"]
    rule = strata["all"].rules["difference_above_zero"]
    assert (rule.confusion, rule.n_undecided) == (Confusion(tp=2, fn=1, fp=1, tn=1), 3)
    assert rule.all_right == Confusion(tp=3, fn=0, fp=1, tn=1)
    assert rule.all_wrong == Confusion(tp=1, fn=2, fp=2, tn=0)
    assert strata["all"].always_member.confusion == make_confusion(3, 0, 2, 0)


def test_undefined_and_infinite_numbers_become_none() -> None:
    numbers = (math.nan, math.inf, -math.inf, 1.5)
    assert write_json(numbers) == [None, None, None, 1.5]
    assert write_json(numbers, spells_infinity=True) == [None, "inf", "-inf", 1.5]
    nothing = {"n_hits": 0, "n_total": 0, "value": None, "low": None, "high": None}
    assert Confusion(tp=0, fn=3, fp=0, tn=2).to_json()["precision"] == nothing


# --- by role ---


def names_of(roles: list[str], *, n_controls: int = 4) -> Candidates:
    members = [(f"F{i}", f"L{i}") for i in range(len(roles))]
    controls = [(f"C{i}", "X") for i in range(n_controls)]
    listed = make_candidates(members, is_member=True, n_mentions=list(range(1, len(roles) + 1)))
    listed += make_candidates(controls, is_member=False, control_kind="easy")
    return replace(listed, role=(*roles, *[""] * n_controls))


def measured(names: Candidates, score: np.ndarray) -> tuple[RoleLine, ...]:
    attack = scored_by(names, residual=score, general_mean_log=-score)
    return measure_by_role(attack, score > 2, general_flag=-score > 2)


def test_each_role_is_ranked_against_the_same_controls_by_hand() -> None:
    names = names_of(["patient", "staff", "patient", "staff", "patient"])
    names = replace(names, role=(*names.role[:5], "staff", "", "", ""))
    score = np.array([9.0, 1.5, 3.0, 0.5, math.nan, 2.5, 1.0, 0.0, 2.0])
    patient, staff = measured(names, score)
    counts = ("role", "n_members", "n_controls")
    assert [getattr(patient, key) for key in counts] == ["patient", 3, 4]
    assert [getattr(staff, key) for key in counts] == ["staff", 2, 4]
    assert (patient.median_mentions, staff.median_mentions) == (3, 3)
    # 1.5 beats 0 and 1, 0.5 beats 0: 3 of 8 pairs.
    aucs = [
        [getattr(role, key).value for key in ("auc", "general_auc")] for role in (patient, staff)
    ]
    assert aucs == [[1.0, 0.0], pytest.approx([3 / 8, 5 / 8])]
    rates = ("flagged", "role_controls_flagged", "general_flagged")
    of_role = [
        [(getattr(role, key).n_hits, getattr(role, key).n_total) for key in rates]
        for role in (patient, staff)
    ]
    assert of_role == [[(2, 2), (0, 0), (0, 2)], [(0, 2), (1, 1), (0, 2)]]


def test_without_a_role_there_is_nothing_and_many_roles_are_cut_off() -> None:
    assert measured(names_of(["", ""]), np.arange(6.0)) == ()
    roles = [f"r{i}" for i in range(MAX_ROLES + 3)] + ["r1"]
    lines = measured(names_of(roles), np.arange(len(roles) + 4.0))
    assert len(lines) == MAX_ROLES and lines[0].role == "r1" and lines[0].n_members == 2


# --- a plain column of scores ---


def test_five_names_by_hand() -> None:
    # members 3, 1; controls 2, 1, 0; above 1: one member, one control; two are not scored
    scores, truth = [3, 1, 2, 1, 0, math.nan, math.nan], [1, 1, 0, 0, 0, 1, 0]
    measures = measure_scores(scores, truth, threshold=1.0, seed=1).to_json()
    assert measures.pop("auc_low") < 0.75 < measures.pop("auc_high")
    # One of three controls is 33 %: finer rates are not resolvable.
    nothing = dict.fromkeys(["0.1", "0.01", "0.001"])
    assert measures == {
        "n_members": 2,
        "n_controls": 3,
        "n_not_scored": 2,
        "auc": 0.75,
        "tpr_at_fpr": nothing,
        "tpr_at_fpr_low": nothing,
        "tpr_at_fpr_high": nothing,
        "threshold": 1.0,
        "tp": 1,
        "fn": 1,
        "fp": 1,
        "tn": 2,
        "f1": 0.5,
        "accuracy": 0.6,
        "precision": 0.5,
        "recall": 0.5,
    }
    assert "tp" not in measure_scores([1, 0], [1, 0], seed=1).to_json()
    assert measure_scores([1, 0], [1, 0], threshold=5.0, seed=1).to_json()["precision"] is None


@pytest.mark.parametrize(
    ("scores", "truth", "word"),
    [([1, 2], [1, 1], "controls"), ([1, math.nan], [0, 1], "members"), ([], [], "members")],
)
def test_a_file_with_one_kind_of_rows_is_refused_in_words(
    scores: list[float], truth: list[int], word: str
) -> None:
    with pytest.raises(
        AuditError, match=f"no {word} with a score.* is_member = {int(word == 'members')}"
    ):
        measure_scores(scores, truth, seed=1)


# --- exposure ---


def exposed(scores: Any, **more: Any) -> ScoreExposure:
    measures = measure_exposure(scores, seed=1, **more)
    assert measures is not None
    return measures


def test_twins_are_compared_pair_by_pair_as_scipy_does() -> None:
    scores = np.array([3.0, 3.0, 3.0, 1.0, math.nan])
    twins = np.array([1.0, 2.0, 3.0, 0.0, 0.0])
    (group,) = exposed(scores, n_mentions=[1] * 5, held_out=twins).groups
    above = group.above_twin
    assert (above.n_hits, above.n_total, group.n_names) == (3, 4, 4)
    expected = stats.binomtest(3, 4, alternative="greater").pvalue
    assert group.above_twin_p == pytest.approx(expected)


@pytest.mark.parametrize("n", [1, 2, 7, 40, 300])
def test_the_p_value_of_pairs_is_the_sum_of_binomial_terms(n: int) -> None:
    rng = np.random.default_rng(n)
    scores, twins = rng.integers(0, 4, size=(2, n)).astype(float)  # many ties
    whole = exposed(scores, n_mentions=[1] * n, held_out=twins).whole
    n_above = int((scores > twins).sum())
    expected = sum(math.comb(n, k) for k in range(n_above, n + 1)) / 2**n
    assert whole.above_twin_p == pytest.approx(expected, rel=1e-12)


def test_one_name_alone_has_no_interval_and_many_held_out_names_make_finer_ranks() -> None:
    measures = exposed([9.0], n_mentions=[1], held_out=np.zeros(1023))
    assert measures.groups[0].to_json()["bits"] == {"value": 10, "low": None, "high": None}
    assert measures.max_bits == 10 and measures.groups[0].above_twin.n_total == 0


def test_names_of_one_rank_are_as_certain_as_the_held_out_names_allow() -> None:
    measures = exposed(
        [99.0] * 3 + [15.5] * 2,
        n_mentions=[1] * 3 + [2] * 2,
        held_out=np.r_[np.zeros(5), np.arange(5.0, 19)],
    )
    above, below = (group.bits for group in measures.groups)
    # 0 of 19 above: at most 3.84 / 22.84 of them (Wilson); 3 of 19 (16, 17, 18) above the others.
    highest = stats.norm.ppf(0.975) ** 2 / (19 + stats.norm.ppf(0.975) ** 2)
    assert above.high == above.value == measures.max_bits
    assert above.low == pytest.approx(math.log2(20 / (1 + 19 * highest)))
    assert below.value == pytest.approx(math.log2(20 / 4))
    low, high = stats.binomtest(3, 19).proportion_ci(method="wilson")
    assert below.low == pytest.approx(math.log2(20 / (1 + 19 * high)))
    assert below.high == pytest.approx(math.log2(20 / (1 + 19 * low)))
