"""Members as a group: exponential scores, labels and parts permuted, and what a list could show."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from audit.attack.cohort import (
    GROUP_AUC,
    GroupTest,
    Sharing,
    count_group_controls,
    find_sharing,
    group_test,
    savage_scores,
    smallest_detectable_auc,
)
from audit.attack.scores import NameParts
from audit.names.candidates import Candidates, make_candidates
from tests.attack.planted_table import parts_of

# --- what a list could have shown -----------------------------------------------------------


def a_list(n_members: int, n_controls: int, *, n_surnames: int = 0) -> Candidates:
    """A list of names of their own, or whose members share a few surnames."""
    last = [f"L{i % n_surnames if n_surnames else i}" for i in range(n_members)]
    members = make_candidates([(f"F{i}", last[i]) for i in range(n_members)], is_member=True)
    controls = [(f"G{i}", f"M{i}") for i in range(n_controls)]
    return members + make_candidates(controls, is_member=False, control_kind="easy")


@pytest.mark.parametrize(("m", "n"), [(130, 130), (130, 260), (20, 500), (5, 5)])
def test_names_of_their_own_have_the_rank_sum_tests_error(m, n):
    # The variance of the Mann-Whitney U under the null: m n (m + n + 1) / 12.
    error = math.sqrt((m + n + 1) / (12 * m * n))
    smallest = smallest_detectable_auc(a_list(m, n), n_drawn=4000)
    assert smallest == pytest.approx(0.5 + (1.959964 + 0.841621) * error, rel=0.02)


def test_shared_surnames_make_a_list_worth_less():
    by_number = [smallest_detectable_auc(a_list(60, 120, n_surnames=k)) for k in (1, 3, 10, 0)]
    assert by_number == sorted(by_number, reverse=True)
    assert by_number[0] > 0.8 > 0.66 > by_number[-1]


@pytest.mark.parametrize(("m", "n"), [(4, 500), (0, 500), (5, 4)])
def test_under_five_names_nothing_can_be_shown(m, n):
    assert math.isnan(smallest_detectable_auc(a_list(m, n)))


def test_as_many_controls_as_the_plan_says_show_the_group():
    n = count_group_controls(130)
    assert n is not None
    assert smallest_detectable_auc(a_list(130, n), n_drawn=4000) == pytest.approx(
        GROUP_AUC, abs=0.004
    )
    assert count_group_controls(30) is None and count_group_controls(0) is None


# --- the test -------------------------------------------------------------------------------


def own_parts(n: int, n_donors: int = 400) -> NameParts:
    """2 n parts of n names (first ones, then last ones), then parts of donors."""
    n_parts = 2 * n + n_donors
    place = np.arange(n_parts)
    is_last = np.where(place < 2 * n, place >= n, place >= 2 * n + n_donors // 2)
    return parts_of(np.stack([place[:n], n + place[:n]], axis=1), is_last)


def group_of_names(scores: np.ndarray, is_member: np.ndarray, **options) -> GroupTest:
    n = len(scores)
    parts = own_parts(n)
    fixed_options = {
        "strata": np.zeros(n, dtype=np.int64),
        "columns": parts.of_name,
        "parts": parts,
        "by_part": np.zeros(len(parts.is_last)),
        "donors": np.arange(2 * n, len(parts.is_last)),
        "seed": 0,
        "sharing": Sharing(),
    }
    return group_test(scores, is_member, **fixed_options | options)


def test_savage_scores_are_those_of_ranks():
    scores = savage_scores(np.array([3.0, 1.0, 2.0, 2.0]))
    ranks = np.array([4, 1, 2.5, 2.5])
    assert scores == pytest.approx(-np.log(1 - (ranks - 0.5) / 4))


def test_p_is_the_share_of_all_labellings_that_are_as_high():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=12)
    is_member = np.arange(12) < 5
    weights = savage_scores(scores)
    sums = [weights[list(rows)].sum() for rows in combinations(range(12), 5)]
    exact = np.mean(np.array(sums) >= weights[:5].sum() - 1e-9)
    p = group_of_names(scores, is_member, n_permutations=20_000).p
    assert p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000))


def test_labels_stay_within_their_strata():
    # In each stratum members and controls are alike; between the strata everything differs.
    rng = np.random.default_rng(4)
    p_within, p_across = [], []
    for seed in range(60):
        strata = np.repeat([0, 1], 30)
        is_member = np.concatenate([np.arange(30) < 25, np.arange(30) < 5])
        scores = rng.normal(size=60) - 3 * strata
        p_within.append(
            group_of_names(scores, is_member, strata=strata, seed=seed, n_permutations=199).p
        )
        p_across.append(group_of_names(scores, is_member, seed=seed, n_permutations=199).p)
    assert np.mean(np.array(p_within) <= 0.05) <= 0.15
    assert np.mean(np.array(p_across) <= 0.05) >= 0.9


def test_a_leak_of_a_few_is_seen_where_an_auc_does_not_see_it():
    rng = np.random.default_rng(5)
    p_savage, p_auc = [], []
    for seed in range(40):
        scores = rng.normal(size=390)
        scores[:10] += 4.0
        is_member = np.arange(390) < 130
        p_savage.append(group_of_names(scores, is_member, seed=seed, n_permutations=199).p)
        p_auc.append(stats.mannwhitneyu(scores[:130], scores[130:], alternative="greater").pvalue)
    rates = [np.mean(np.array(p) <= 0.05) for p in (p_savage, p_auc)]
    assert rates[0] > 0.8 and rates[0] > rates[1] + 0.3


def test_without_a_leak_p_is_uniform():
    rng = np.random.default_rng(6)
    is_member = np.arange(60) < 20
    p = [
        group_of_names(rng.normal(size=60), is_member, seed=seed, n_permutations=199).p
        for seed in range(200)
    ]
    assert stats.kstest(p, "uniform").pvalue > 0.01


def few_surnames(
    seed: int, *, n_surnames: int, first: float = 0.0, last: float = 0.0, m: int = 30
) -> GroupTest:
    """m members with few surnames against 60 controls with surnames of their own.

    The members' first names stand out by `first`, their surnames by `last`.
    """
    rng = np.random.default_rng(seed)
    n = m + 60
    parts = own_parts(n)
    by_part = rng.normal(size=len(parts.is_last))
    by_part[:m] += first
    surnames = n + np.concatenate([np.arange(m) % n_surnames, m + np.arange(60)])
    by_part[n : n + n_surnames] += last
    columns = np.stack([np.arange(n), surnames], axis=1)
    scores = -np.logaddexp(-by_part[columns[:, 0]], -by_part[columns[:, 1]])
    is_member, strata = np.arange(n) < m, np.zeros(n, dtype=np.int64)
    sharing = find_sharing(columns, is_member, strata=strata, seed=seed, n_permutations=199)
    assert sharing.parts.tolist() == [*range(n, n + n_surnames)] and sharing.p <= 0.05
    return group_of_names(
        scores,
        is_member,
        columns=columns,
        by_part=by_part,
        parts=parts,
        sharing=sharing,
        seed=seed,
        n_permutations=199,
    )


@pytest.mark.long
@pytest.mark.parametrize("last", [0.0, 4.0])
@pytest.mark.parametrize("n_surnames", [1, 3])
def test_surnames_that_members_share_do_not_make_a_leak(n_surnames, last):
    tests = [few_surnames(seed, n_surnames=n_surnames, last=last) for seed in range(120)]
    by_labels, by_both = (
        np.mean([getattr(test, name) <= 0.05 for test in tests]) for name in ("p_labels", "p")
    )
    assert by_both <= 0.09 < by_labels


def test_members_with_few_surnames_are_seen_by_their_first_names():
    tests = [few_surnames(seed, n_surnames=3, first=2.0, last=2.0) for seed in range(20)]
    assert np.mean([test.p <= 0.05 for test in tests]) >= 0.9


def test_names_of_their_own_are_not_taken_to_share_parts():
    rng = np.random.default_rng(8)
    is_member = np.arange(60) < 20
    sharing = find_sharing(
        own_parts(60).of_name, is_member, strata=np.zeros(60, dtype=np.int64), seed=0
    )
    assert sharing.p == 1.0 and len(sharing.parts) == 0
    group = group_of_names(rng.normal(size=60), is_member, sharing=sharing)
    assert group.p_sharing == 1.0 and math.isnan(group.p_parts) and group.p == group.p_labels


def test_under_five_scored_names_there_is_no_test():
    scores = np.where(np.arange(40) < 3, np.nan, 1.0)
    assert math.isnan(group_of_names(scores, np.arange(40) < 7).p)
