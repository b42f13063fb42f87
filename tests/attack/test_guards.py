"""Baselines of a list: what differs before M_hospital is asked."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from audit.attack.guards import (
    ILL_MATCHED_BEYOND,
    adjust_scores,
    assign_folds,
    guard_list,
    number_written_parts,
    score_spelling,
)
from audit.names.candidates import make_candidates


def own_columns(n: int) -> np.ndarray:
    return np.stack([np.arange(n), n + np.arange(n)], axis=1)


@pytest.mark.parametrize(("m", "n"), [(1, 200), (200, 1), (19, 500), (500, 19)])
def test_few_names_on_a_side_are_never_ill_matched(m, n):
    baseline = np.arange(m + n, dtype=float)[::-1]
    guard = guard_list({"popularity": baseline}, np.arange(m + n) < m, columns=own_columns(m + n))
    assert guard.mismatched == ()


def test_spelling_that_misleads_is_no_mismatch_but_any_other_baseline_is():
    """A classifier of names that it did not learn from falls below one half by chance alone."""
    is_member = np.arange(400) < 200
    reversed_scores = np.random.default_rng(0).normal(size=400) - 1.0 * is_member
    baselines = {"spelling": reversed_scores, "pieces": reversed_scores}
    guard = guard_list(baselines, is_member, columns=own_columns(400))
    assert guard.aucs["spelling"].high < 0.5 - ILL_MATCHED_BEYOND
    assert guard.mismatched == ("pieces",)


def test_a_trifle_on_a_long_list_is_no_mismatch_and_a_clear_difference_is_one():
    rng = np.random.default_rng(0)
    n = 20_000
    is_member = np.arange(n) < n // 2
    trifle = rng.normal(size=n) + 0.1 * is_member  # AUC .528, surely off one half
    clear = rng.normal(size=n) + 0.3 * is_member  # AUC .584
    guard = guard_list({"popularity": trifle, "pieces": clear}, is_member, columns=own_columns(n))
    assert guard.aucs["popularity"].low > 0.5
    assert guard.aucs["pieces"].low > 0.5 + ILL_MATCHED_BEYOND
    assert guard.mismatched == ("pieces",)


def test_names_that_are_connected_through_parts_share_a_fold():
    columns = np.array([(0, 5), (0, 6), (1, 6), (2, 7), (3, 8), (-1, 8), (4, -1)])
    folds = assign_folds(columns)
    assert folds[0] == folds[1] == folds[2] and folds[4] == folds[5]
    assert len(set(folds.tolist())) == 4


WESTERN = ["Smith", "Miller", "Johnson", "Walker", "Harris", "Turner", "Cooper", "Foster"]
OTHERS = ["Kowalczyk", "Wiśniewska", "Szymański", "Przybylski", "Zielińska", "Dąbrowski"]


def surnames(stems: list[str], n: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [f"{stems[rng.integers(len(stems))]}{rng.integers(10_000)}" for _ in range(n)]


def test_spelling_tells_two_populations_and_not_one_from_itself():
    n = 60
    is_member = np.arange(2 * n) < n
    columns = own_columns(2 * n)
    apart = surnames(OTHERS, n, 1) + surnames(WESTERN, n, 2)
    alike = surnames(WESTERN, n, 3) + surnames(WESTERN, n, 4)
    aucs = [
        guard_list(
            {"spelling": score_spelling(names, is_member, columns=columns)},
            is_member,
            columns=columns,
        )
        .aucs["spelling"]
        .value
        for names in (apart, alike)
    ]
    assert aucs[0] > 0.95 and 0.35 < aucs[1] < 0.65


def test_spelling_does_not_learn_names_by_their_shared_parts():
    # Members have one surname, controls another: what is connected is judged by other names only.
    names = ["Ann Hill"] * 30 + ["Bob Lake"] * 30
    columns = np.stack([np.arange(60), np.repeat([60, 61], 30)], axis=1)
    assert np.isnan(score_spelling(names, np.arange(60) < 30, columns=columns)).all()


def test_adjusted_scores_do_not_hang_on_the_covariates():
    rng = np.random.default_rng(3)
    covariates = rng.normal(size=(400, 2))
    covariates[::7, 1] = np.nan
    scores = covariates[:, 0] * 2 + np.nan_to_num(covariates[:, 1]) + rng.normal(size=400)
    scores[5] = np.nan
    folds = np.arange(400) % 5
    adjusted = adjust_scores(scores, covariates, folds=folds)
    assert np.isnan(adjusted[5]) and np.isfinite(np.delete(adjusted, 5)).all()
    is_finite = np.isfinite(adjusted)
    assert abs(stats.pearsonr(adjusted[is_finite], covariates[is_finite, 0])[0]) < 0.1
    assert np.var(adjusted[is_finite]) < 1.3


def test_names_share_a_fold_by_what_is_written_however_many_tokens_it_has():
    """A surname has another column of evidence beside a first name of more tokens."""
    names = make_candidates([("Ann", "Hill"), ("Anastasia", "Hill"), ("Hill", ""), ("Bob", "Lake")])
    parts = number_written_parts(names)
    assert parts[0, 1] == parts[1, 1] and parts[2, 1] == -1
    assert len(np.unique(parts[:, 0])) == 4 and parts[2, 0] != parts[0, 1]
    folds = assign_folds(parts)
    assert folds[0] == folds[1] != folds[3]
