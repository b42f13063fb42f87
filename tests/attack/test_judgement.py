"""From scores to a verdict: a planted table is found out, one without a leak is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from audit.attack import judgement as judging
from audit.attack.curve import MENTION_BINS, by_mentions, curve_of
from audit.attack.judgement import Judgement, judge, name_columns, null_check
from audit.membership import metrics
from audit.membership.candidates import Candidates, make_candidates
from audit.membership.cohort import cohort_test
from audit.membership.decisions import Decisions, decide
from audit.membership.scores import Score

N_MEMBERS = 60
N_CONTROLS = 60
N_REFERENCE = 3000
MENTIONS = [1] * 30 + [2] * 10 + [3] * 5 + [4] * 5 + [6] * 6 + [25] * 4
SCORES = {
    1: ("product", "minimum", "product_log_ratio", "minimum_log_ratio", "hits", "full_hits",
        "general_product", "general_minimum", "general_hits", "general_full_hits"),
    2: ("difference", "log_ratio", "mean_log_ratio", "hospital_posterior", "general_posterior",
        "general_mean_log"),
}  # fmt: skip
FIXED = {1: ("product", "general_product"), 2: ("mean_log_ratio", "general_mean_log")}


@pytest.fixture(scope="module", autouse=True)
def fewer_replicates():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "cohort_test", partial(cohort_test, n_permutations=1999))
        patch.setattr(metrics, "N_REPLICATES", 400)
        yield


@dataclass
class Table:
    """An attack whose scores are given; after b of its blocks they are a bth part as clear."""

    scores: Mapping[str, Score]
    after: Callable[[int], Mapping[str, Score]]
    n_pieces: np.ndarray
    n_units: int = 950
    n_blocks: int = 10


def listed(kinds: tuple[str, ...] = ("easy",)) -> Candidates:
    names = [(f"F{i}", f"L{i}") for i in range(N_MEMBERS)]
    result = make_candidates(
        names, is_member=True, n_mentions=MENTIONS, popularity=[i / 1000 for i in range(N_MEMBERS)]
    )
    for kind in kinds:
        controls = [(f"{kind}{i}", "X") for i in range(N_CONTROLS)]
        result += make_candidates(
            controls, is_member=False, control_kind=kind, popularity=[0.03] * N_CONTROLS
        )
    return result


def table(
    candidates: Candidates,
    *,
    scenario: int,
    effect: float,
    general_effect: float = 0.0,
    seed: int = 0,
) -> Table:
    """Normal scores; members are `effect` standard deviations higher, in M_general alone too."""
    n = len(candidates)
    rng = np.random.default_rng(seed)
    noise = {name: rng.normal(size=n + N_REFERENCE) for name in SCORES[scenario]}
    is_member = np.array([*(m is True for m in candidates.is_member), *[False] * N_REFERENCE])

    def after(n_blocks: int) -> dict[str, Score]:
        result = {}
        for name in SCORES[scenario]:
            size = general_effect if name.startswith("general") else effect * n_blocks / 10
            value = noise[name] + size * is_member
            if "hits" in name:
                value = np.where(np.arange(n + N_REFERENCE) < n, (value > 1) / 950, math.nan)
            result[name] = Score(value, np.full_like(value, 0.1))
        return result

    return Table(after(10), after, n_pieces=np.full(n + N_REFERENCE, 2))


def judged(
    attack: Table, candidates: Candidates, scenario: int, threshold: float | None = None
) -> Judgement:
    fixed, general = FIXED[scenario]
    return judge(
        attack, candidates=candidates, scenario=scenario, fixed=fixed, general=general, seed=0,
        threshold=threshold,
    )  # fmt: skip


@pytest.mark.parametrize("scenario", [1, 2])
def test_a_planted_leak_is_found(scenario):
    names = listed()
    judgement = judged(table(names, scenario=scenario, effect=4.0), names, scenario)
    assert judgement.verdict.state == "leak_found"
    assert judgement.verdict.reasons == ("auc_above_half", "names_stand_out")
    assert judgement.verdict.n_tested == N_MEMBERS
    assert judgement.verdict.n_flagged > 20
    assert judgement.cohort["group"] == "members"
    assert judgement.cohort["p"] < 0.001


@pytest.mark.parametrize("scenario", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_a_null_table_is_not_flagged(scenario, seed):
    names = listed()
    judgement = judged(table(names, scenario=scenario, effect=0.0, seed=seed), names, scenario)
    assert judgement.verdict.state != "leak_found"
    assert judgement.verdict.n_flagged == 0
    assert judgement.cohort["p"] > 0.01


def test_ill_matched_controls_are_not_called_a_leak():
    names = listed()
    attack = table(names, scenario=2, effect=0.8, general_effect=0.8, seed=2)
    verdict = judged(attack, names, 2).verdict
    assert verdict.state == "not_enough_evidence"
    assert "general_separates_too" in verdict.reasons


def test_one_member_far_above_all_reference_controls_is_enough():
    names = listed()
    attack = table(names, scenario=2, effect=0.0)
    attack.scores["mean_log_ratio"].value[3] = 50.0
    judgement = judged(attack, names, 2)
    assert judgement.verdict.state == "leak_found"
    assert judgement.decisions.decision[3] == "flagged"
    assert judgement.decisions.p[3] == 1 / (N_REFERENCE + 1)


def test_a_control_that_stands_out_is_no_leak():
    names = listed()
    attack = table(names, scenario=2, effect=0.0)
    attack.scores["mean_log_ratio"].value[N_MEMBERS + 3] = 50.0
    assert judged(attack, names, 2).verdict.state != "leak_found"


def test_without_truth_the_q_values_alone_are_judged():
    members = make_candidates([(f"F{i}", f"L{i}") for i in range(20)])
    attack = table(members, scenario=1, effect=0.0)
    judgement = judged(attack, members, 1)
    assert judgement.verdict.state == "not_enough_evidence"
    assert judgement.verdict.auc is None
    assert judgement.metrics.strata == {}
    assert judgement.curve == []
    assert judgement.mentions == []
    assert judgement.cohort["group"] == "unknown"
    attack.scores["product"].value[:5] = 50.0
    assert judged(attack, members, 1).verdict.state == "leak_found"


def test_strata_hold_each_kind_of_controls_and_reference_controls_none():
    names = listed(("easy", "hard"))
    strata = judged(table(names, scenario=2, effect=1.0), names, 2).metrics.strata
    assert {k: (s.n_members, s.n_controls) for k, s in strata.items()} == {
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
    counts = judged(attack, names, scenario).metrics.strata["all"].rules[rule].confusion
    assert (counts.tp, counts.fp) == (flagged[:N_MEMBERS].sum(), flagged[N_MEMBERS:].sum())
    assert (counts.fn, counts.tn) == (N_MEMBERS - counts.tp, N_CONTROLS - counts.fp)


def test_a_free_threshold_is_judged_on_the_fixed_score():
    names = listed()
    attack = table(names, scenario=2, effect=1.0)
    free = judged(attack, names, 2, threshold=0.5).metrics.strata["all"].free
    above = attack.scores["mean_log_ratio"].value[: len(names)] > 0.5
    assert free.confusion.tp == above[:N_MEMBERS].sum()
    assert free.thresholds == (0.5,)


# --- the table of names ---


def test_the_table_has_the_promised_columns_in_their_order():
    first = ["name_id", "first_name", "last_name", "is_member", "control_kind"]
    later = ["n_pieces", "score", "standard_error", "p_value", "q_value", "decision"]
    special = {
        1: ["hospital_hits", "general_hits", "hospital_product", "general_product"],
        2: ["hospital_posterior", "general_posterior", "difference", "log_ratio", "mean_log_ratio"],
    }
    for scenario in (1, 2):
        names = listed()
        attack = table(names, scenario=scenario, effect=1.0)
        columns = name_columns(
            attack, judged(attack, names, scenario), candidates=names, scenario=scenario,
            fixed=FIXED[scenario][0],
        )  # fmt: skip
        order = list(columns)
        assert order[:5] == first
        assert [name for name in order if name in later] == later
        assert set(special[scenario]) <= set(order)
        assert {len(column) for column in columns.values()} == {len(names)}
        assert columns["score"] == attack.scores[FIXED[scenario][0]].value[: len(names)].tolist()
        assert columns["is_member"] == [1] * N_MEMBERS + [0] * N_CONTROLS
        if scenario == 1:
            shares = attack.scores["general_hits"].value[: len(names)]
            assert columns["general_hits"] == (shares * 950).round().tolist()
            assert all(isinstance(n, int) for n in columns["hospital_hits"])
            assert "hits" not in columns


def test_truth_that_is_not_known_is_left_empty():
    names = make_candidates([("A", "B"), ("C", "D")])
    attack = table(names, scenario=2, effect=0.0)
    columns = name_columns(
        attack, judged(attack, names, 2), candidates=names, scenario=2, fixed="mean_log_ratio"
    )
    assert columns["is_member"] == [None, None]


def test_the_null_check_tells_members_from_reference_controls():
    names = listed()
    shifted = table(names, scenario=2, effect=2.0).scores["log_ratio"].value
    null = table(names, scenario=2, effect=0.0).scores["log_ratio"].value
    assert null_check(shifted, candidates=names)["ks_p"] < 1e-6
    assert null_check(null, candidates=names)["ks_p"] > 0.05
    null[N_MEMBERS : len(names)] = 99.0  # listed controls play no part
    assert null_check(null, candidates=names)["ks_p"] > 0.05


# --- curve and mentions ---


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_last_point_of_the_curve_equals_the_measures(scenario):
    names = listed(("easy", "hard"))
    attack = table(names, scenario=scenario, effect=1.5)
    judgement = judged(attack, names, scenario)
    assert [point["n"] for point in judgement.curve] == [100, 200, 400, 500, 800, 950]
    for stratum, quick in judgement.curve[-1]["strata"].items():
        whole = judgement.metrics.strata[stratum]
        rankings = {**whole.scores, **whole.baselines}
        assert {k: r.auc.value for k, r in rankings.items()} == quick["auc"]
        for name, rule in {**whole.rules, **whole.baseline_rules}.items():
            for cell in ("tp", "fn", "fp", "tn"):
                assert quick["rules"][name][cell] == getattr(rule.confusion, cell)


def test_the_curve_judges_prefixes_of_the_run():
    names = listed()
    attack = table(names, scenario=2, effect=3.0)
    asked: list[int] = []

    def after(n_blocks: int) -> Mapping[str, Score]:
        asked.append(n_blocks)
        return table(names, scenario=2, effect=3.0).after(n_blocks)

    attack.after = after
    curve = curve_of(attack, names, scenario=2, fixed="mean_log_ratio", general="general_mean_log")
    assert asked == [1, 2, 4, 5, 8, 10]
    aucs = [point["strata"]["all"]["auc"]["mean_log_ratio"] for point in curve]
    assert aucs == sorted(aucs)
    assert aucs[0] < 0.75 < 0.95 < aucs[-1]


def test_a_run_of_one_block_has_one_point():
    names = listed()
    attack = table(names, scenario=2, effect=1.0)
    attack.n_blocks, attack.n_units = 1, 30
    curve = curve_of(attack, names, scenario=2, fixed="mean_log_ratio", general="general_mean_log")
    assert [point["n"] for point in curve] == [30]


def decisions_of(score: np.ndarray, candidates: Candidates, reference: np.ndarray) -> Decisions:
    return decide(
        score, standard_error=np.full(len(score), 0.1), n_pieces=np.full(len(score), 2),
        is_member=candidates.is_member, reference_scores=reference,
        reference_n_pieces=np.full(len(reference), 2),
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
    rows = by_mentions(score, decisions, names)
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
    rows = by_mentions(score, decisions_of(score, names, np.zeros(50)), names)
    assert [(r["from"], r["auc"]) for r in rows] == [(1, None), (3, None)]


def test_bins_of_mentions_leave_no_gap():
    for (_, high), (low, _) in pairwise(MENTION_BINS):
        assert low == high + 1
    assert MENTION_BINS[0][0] == 1
    assert MENTION_BINS[-1][1] is None
