"""The measures of a whole list: strata, baselines, thresholds, and their plain form."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import numpy as np
import pytest

from audit.attack.decisions import Confusion, held_out_threshold
from audit.attack.metrics import ScoredNames, membership_metrics, plain
from audit.stats import auc
from tests.scored_lists import tpr_at_fpr


def a_list(n_members=40, n_easy=40, n_hard=30, n_unknown=3, seed=0, shift=1.0):
    rng = np.random.default_rng(seed)
    truth = (True,) * n_members + (False,) * (n_easy + n_hard) + (None,) * n_unknown
    kinds = ("",) * n_members + ("easy",) * n_easy + ("hard",) * n_hard + ("",) * n_unknown
    n = len(truth)
    member = np.array([t is True for t in truth])
    score = rng.normal(size=n) + shift * member
    return ScoredNames(
        is_member=truth,
        control_kind=kinds,
        scores={"mean_log_ratio": score, "difference": rng.normal(size=n)},
        rules={"paper": score > 0.5},
        baselines={"general_alone": rng.normal(size=n), "popularity": rng.normal(size=n)},
        baseline_rules={"paper_general": rng.normal(size=n) > 0},
        fixed_score="mean_log_ratio",
        undecided={"paper": np.abs(score - 0.5) < 0.2},
    )


def rows_of(names, kind):
    return np.array(
        [
            t is True or (t is False and kind in ("all", k))
            for t, k in zip(names.is_member, names.control_kind, strict=True)
        ]
    )


def test_strata_are_all_and_each_kind_of_controls_that_is_there():
    metrics = membership_metrics(a_list(), seed=1)
    assert list(metrics["strata"]) == ["all", "easy", "hard"]
    sizes = {name: (s["n_members"], s["n_controls"]) for name, s in metrics["strata"].items()}
    assert sizes == {"all": (40, 70), "easy": (40, 40), "hard": (40, 30)}
    assert metrics["n_unknown"] == 3


@pytest.mark.parametrize("kind", ["all", "easy", "hard"])
def test_every_ranking_is_that_of_its_own_rows(kind):
    names = a_list()
    rows = rows_of(names, kind)
    truth = np.array([t is True for t in names.is_member])[rows]
    stratum = membership_metrics(names, seed=1)["strata"][kind]
    for name, column in {**names.scores, **names.baselines}.items():
        ranking = {**stratum["scores"], **stratum["baselines"]}[name]
        assert ranking.auc.value == auc(column[rows], truth)
        assert ranking.auc.low < ranking.auc.value < ranking.auc.high
        assert dict(ranking.tpr_at_fpr)[0.1].value == tpr_at_fpr(column[rows], truth, fpr=0.1)
        counts, thresholds = held_out_threshold(column[rows], truth, seed=1)
        assert stratum["held_out"][name]["confusion"] == counts
        assert stratum["held_out"][name]["thresholds"] == thresholds


def test_rules_and_undecided_names_are_counted_by_hand():
    names = ScoredNames(
        is_member=(True, True, True, False, False, None),
        control_kind=("", "", "", "given", "given", ""),
        scores={"score": np.array([3.0, 2.0, 1.0, 2.5, 0.0, 9.0])},
        rules={"paper": np.array([True, True, False, True, False, True])},
        baselines={},
        baseline_rules={"paper_general": np.array([True] * 6)},
        fixed_score="score",
        undecided={"paper": np.array([False, True, True, False, True, True])},
    )
    metrics = membership_metrics(names, seed=1, threshold=2.0)
    assert list(metrics["strata"]) == ["all", "given"]
    stratum = metrics["strata"]["all"]
    rule = stratum["rules"]["paper"]
    assert rule["confusion"] == Confusion(tp=2, fn=1, fp=1, tn=1)
    assert rule["n_undecided"] == 3
    # Undecided: members 1, 2 and control 4.
    assert rule["all_right"] == Confusion(tp=3, fn=0, fp=1, tn=1)
    assert rule["all_wrong"] == Confusion(tp=1, fn=2, fp=2, tn=0)
    assert stratum["baseline_rules"]["paper_general"]["confusion"] == Confusion(3, 0, 2, 0)
    assert stratum["baseline_rules"]["paper_general"]["n_undecided"] is None
    assert stratum["always_member"]["confusion"] == Confusion(3, 0, 2, 0)
    # Strictly greater than 2: the member at 2 is not flagged.
    assert stratum["free"] is not None
    assert stratum["free"]["confusion"] == Confusion(tp=1, fn=2, fp=1, tn=1)
    assert stratum["free"]["thresholds"] == [2.0]


def test_unscored_names_are_left_out_of_scores_and_counted():
    names = a_list()
    score = names.scores["mean_log_ratio"].copy()
    score[[0, 50]] = math.nan  # one member, one easy control
    names = replace(names, scores={"mean_log_ratio": score})
    stratum = membership_metrics(names, seed=1, threshold=0.0)["strata"]["all"]
    ranking = stratum["scores"]["mean_log_ratio"]
    assert (ranking.n_members, ranking.n_controls, ranking.n_not_scored) == (39, 69, 2)
    assert stratum["free"] is not None
    assert (stratum["free"]["n_not_scored"], stratum["free"]["confusion"].n_members) == (2, 39)
    assert stratum["held_out"]["mean_log_ratio"]["n_not_scored"] == 2


@pytest.mark.parametrize("sizes", [(0, 5, 0), (5, 0, 0), (0, 0, 0)])
def test_a_list_without_truth_has_no_strata(sizes):
    n_members, n_easy, n_hard = sizes
    metrics = membership_metrics(a_list(n_members, n_easy, n_hard), seed=1)
    assert metrics["strata"] == {}
    assert metrics["n_unknown"] == 3


def test_plain_form_is_json_with_stable_keys():
    metrics = membership_metrics(a_list(), seed=1, threshold=0.5)
    result = json.loads(json.dumps(plain(metrics), allow_nan=False))
    assert set(result) == {"fixed_score", "n_unknown", "seed", "strata"}
    stratum = result["strata"]["all"]
    assert set(stratum) == {
        *("n_members", "n_controls", "always_member", "rules", "baseline_rules"),
        *("scores", "baselines", "held_out", "free"),
    }
    tpr = stratum["scores"]["mean_log_ratio"]["tpr_at_fpr"]
    assert list(tpr) == ["0.1", "0.01", "0.001"]
    assert tpr["0.1"]["is_resolvable"] is True
    # 70 controls cannot show 1 %.
    assert tpr["0.01"] == {"value": None, "low": None, "high": None, "is_resolvable": False}
    rule = stratum["rules"]["paper"]
    assert rule["confusion"]["recall"]["n_total"] == 40
    assert rule["confusion"]["recall"]["low"] < rule["confusion"]["recall"]["value"]
    assert {"tp", "fn", "fp", "tn", "precision", "accuracy", "false_positive_rate"} < set(
        rule["confusion"]
    )
    assert set(rule["f1"]) == {"value", "low", "high"}
    assert stratum["always_member"]["n_undecided"] is None


def test_undefined_and_infinite_numbers_become_none():
    assert plain((math.nan, math.inf, -math.inf, 1.5)) == [None, None, None, 1.5]
    rates = plain(Confusion(0, 3, 0, 2))
    assert rates["precision"] == {
        "n_hits": 0, "n_total": 0, "value": None, "low": None, "high": None,
    }  # fmt: skip


def test_same_seed_same_measures_and_rows_in_any_order():
    names = a_list()
    first = plain(membership_metrics(names, seed=1))
    assert plain(membership_metrics(names, seed=1)) == first
    order = np.random.default_rng(1).permutation(len(names.is_member))
    shuffled = ScoredNames(
        is_member=tuple(names.is_member[i] for i in order),
        control_kind=tuple(names.control_kind[i] for i in order),
        scores={k: v[order] for k, v in names.scores.items()},
        rules={k: v[order] for k, v in names.rules.items()},
        baselines={k: v[order] for k, v in names.baselines.items()},
        baseline_rules={k: v[order] for k, v in names.baseline_rules.items()},
        fixed_score=names.fixed_score,
    )
    again = plain(membership_metrics(shuffled, seed=1))
    for part in ("scores", "baselines", "baseline_rules"):
        assert again["strata"]["all"][part] == first["strata"]["all"][part]
    other_seed = plain(membership_metrics(names, seed=2))
    assert other_seed["strata"]["all"]["scores"] != first["strata"]["all"]["scores"]


def test_ten_thousand_names_take_a_few_seconds():
    names = a_list(n_members=5000, n_easy=2500, n_hard=2500)
    start = time.perf_counter()
    stratum = membership_metrics(names, seed=1)["strata"]["all"]
    assert time.perf_counter() - start < 10
    assert stratum["scores"]["mean_log_ratio"].n_replicates == 2000
    assert stratum["baselines"]["general_alone"].n_replicates == 2000
    assert stratum["scores"]["difference"].n_replicates == 200
