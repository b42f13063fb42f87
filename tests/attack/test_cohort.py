"""What a list could have shown, and the relabelling test of its members as a group."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from audit.attack.cohort import relabelling_test, smallest_detectable_auc
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
    found = smallest_detectable_auc(a_list(m, n), n_drawn=4000)
    assert found == pytest.approx(0.5 + (1.959964 + 0.841621) * error, rel=0.02)


def test_shared_surnames_make_a_list_worth_less():
    by_number = [smallest_detectable_auc(a_list(60, 120, n_surnames=k)) for k in (1, 3, 10, 0)]
    assert by_number == sorted(by_number, reverse=True)
    assert by_number[0] > 0.8 > 0.66 > by_number[-1]


@pytest.mark.parametrize(("m", "n"), [(4, 500), (0, 500), (5, 4)])
def test_under_five_names_nothing_can_be_shown(m, n):
    assert math.isnan(smallest_detectable_auc(a_list(m, n)))


# --- relabelling ----------------------------------------------------------------------------


def listed_parts(n_firsts: int, n_lasts: int, n_reference: int = 400) -> NameParts:
    """`n_firsts` + `n_lasts` listed parts, then as many of the reference controls as are asked."""
    is_last = [False] * n_firsts + [True] * n_lasts
    is_last += [False] * (n_reference // 2) + [True] * (n_reference // 2)
    held = (np.arange(len(is_last)) >= n_firsts + n_lasts) * 1
    return parts_of(np.zeros((0, 2), dtype=np.int64), is_last, n_reference=held)


def relabelled(seed: int, *, n_surnames: int, shift: float = 0.0, n: int = 199, m: int = 30):
    """m members with few surnames against 60 controls with surnames of their own."""
    rng = np.random.default_rng(seed)
    parts = listed_parts(m + 60, n_surnames + 60)
    evidence = rng.normal(size=len(parts.is_last))
    evidence[:m] += shift
    evidence[m + 60 : m + 60 + n_surnames] += shift
    first = np.arange(m + 60)
    last = m + 60 + np.concatenate([np.arange(m) % n_surnames, n_surnames + np.arange(60)])
    return relabelling_test(
        np.stack([first, last], axis=1), np.arange(m + 60) < m, by_part=evidence, parts=parts,
        seed=seed, n_relabelled=n,
    )  # fmt: skip


@pytest.mark.parametrize("n_surnames", [1, 3, 30])
def test_without_a_leak_p_is_uniform_however_many_names_share_a_surname(n_surnames):
    p = [relabelled(seed, n_surnames=n_surnames)["p"] for seed in range(200)]
    assert stats.kstest(p, "uniform").pvalue > 0.01
    assert np.mean(np.array(p) <= 0.05) <= 0.09


def test_the_relabelled_auc_is_that_of_the_list():
    found = relabelled(5, n_surnames=3, m=7)
    rng = np.random.default_rng(5)
    evidence = rng.normal(size=7 + 60 + 3 + 60 + 400)
    first = evidence[:67]
    last = evidence[67 + np.concatenate([np.arange(7) % 3, 3 + np.arange(60)])]
    score = -np.log(np.exp(-first) + np.exp(-last))
    wins = [a > b for a in score[:7] for b in score[7:]]
    assert found["auc"] == pytest.approx(np.mean(wins))
    # 199 relabellings, and the list itself counted in.
    assert found["p"] * 200 == pytest.approx(round(found["p"] * 200)) and 1 / 200 <= found["p"] <= 1
