"""The group as a whole: whether it stands out, and what its list could have shown at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from audit.membership.decisions import ALPHA
from audit.rates import Z_95, FloatArray

_CELLS_PER_CHUNK = 1_000_000  # ranks held at once while permuting


@dataclass(frozen=True)
class CohortTest:
    """Whether a group of names scores higher than its controls.

    Attributes
    ----------
    p
        One-sided permutation p-value; NaN where no group can be compared.
    effect
        Share of pairs of equal length in which the group's name scores higher, ties one half: the
        common-language effect, an AUC stratified by length.
    n_members, n_controls
        Names compared.
    n_not_scored
        Names without a score, of both kinds.
    n_unmatched
        Scored names for whose number of word pieces the other group has none: left out.
    n_permutations
        Permutations drawn.
    """

    p: float
    effect: float
    n_members: int
    n_controls: int
    n_not_scored: int
    n_unmatched: int
    n_permutations: int


@dataclass(frozen=True)
class SmallestFinding:
    """The least that a list without truth could show.

    `p` is the smallest p-value a name can get, `n_flagged` the smallest number of names that can be
    flagged together at q <= 0.05; None where not even all of them could.
    """

    p: float
    n_flagged: int | None


@dataclass(frozen=True, eq=False)
class _Stratum:
    """Names of one length: their mid-ranks, the group's names first."""

    ranks: FloatArray  # [m + c]
    n_members: int

    @property
    def n_controls(self) -> int:
        return len(self.ranks) - self.n_members

    @property
    def weight(self) -> float:
        return 1 / (len(self.ranks) + 1)

    @property
    def rank_sum(self) -> float:
        """The group's ranks added up: halves, hence exact in any order."""
        return float(self.ranks[: self.n_members].sum())

    @property
    def n_wins(self) -> float:
        """Pairs in which the group's name scores higher (Mann-Whitney U)."""
        return self.rank_sum - self.n_members * (self.n_members + 1) / 2


def cohort_test(
    member_scores: ArrayLike,
    *,
    control_scores: ArrayLike,
    member_n_pieces: ArrayLike,
    control_n_pieces: ArrayLike,
    seed: int,
    n_permutations: int = 9999,
) -> CohortTest:
    """Test by permutation whether the group [M] ranks higher than its controls [C].

    Ranks are taken, and labels permuted, among names of the same number of word pieces; the sum of
    ranks over (n + 1) weighs the lengths. p = (1 + #) / (1 + n_permutations), one-sided.
    Source: van Elteren 1960 (stratified rank sum); Phipson & Smyth 2010 (the two ones),
    doi:10.2202/1544-6115.1585.

    Raises
    ------
    ValueError
        If the columns do not fit.
    """
    members, controls = (np.asarray(x, dtype=np.float64) for x in (member_scores, control_scores))
    n_scored = int((~np.isnan(members)).sum()) + int((~np.isnan(controls)).sum())
    strata = _strata(members, member_n_pieces, controls, control_n_pieces)
    n_members = sum(s.n_members for s in strata)
    n_controls = sum(s.n_controls for s in strata)
    p = effect = math.nan
    if strata:
        rng = np.random.default_rng(seed)
        permuted = np.zeros(n_permutations)
        for stratum in strata:
            sums = _permuted_sums(stratum, rng=rng, n_permutations=n_permutations)
            permuted += stratum.weight * sums
        observed = sum(s.weight * s.rank_sum for s in strata)
        # Equal statistics of different labellings may differ in the last bits.
        n_as_high = int((permuted >= observed - 1e-9 * observed).sum())
        p = (1 + n_as_high) / (1 + n_permutations)
        effect = sum(s.n_wins for s in strata) / sum(s.n_members * s.n_controls for s in strata)
    return CohortTest(
        p=p,
        effect=effect,
        n_members=n_members,
        n_controls=n_controls,
        n_not_scored=len(members) + len(controls) - n_scored,
        n_unmatched=n_scored - n_members - n_controls,
        n_permutations=n_permutations,
    )


def hanley_mcneil_error(auc: float, *, n_members: int, n_controls: int) -> float:
    """Return the standard error of an AUC.

    Source: Hanley & McNeil 1982, doi:10.1148/radiology.143.1.7063747.
    """
    both_members_win = auc / (2 - auc)
    beats_both_controls = 2 * auc**2 / (1 + auc)
    variance = auc * (1 - auc)
    variance += (n_members - 1) * (both_members_win - auc**2)
    variance += (n_controls - 1) * (beats_both_controls - auc**2)
    return math.sqrt(max(variance, 0.0) / (n_members * n_controls))


def smallest_detectable_auc(n_members: int, *, n_controls: int, power: float = 0.8) -> float:
    """Return the smallest AUC whose 95 % interval lies above one half with the given power.

    The A at which A = 0.5 + (z_0.975 + z_power) SE(A), found by bisection. NaN where even perfect
    separation could be chance: fewer than one in 40 labellings of so few names, or none at all.

    Raises
    ------
    ValueError
        If `power` is not between 0.5 and 1.
    """
    if not 0.5 <= power < 1:
        raise ValueError(f"power {power} is not between 0.5 and 1")
    if min(n_members, n_controls) < 1 or math.comb(n_members + n_controls, n_members) < 40:
        return math.nan
    z = Z_95 + NormalDist().inv_cdf(power)
    low, high = 0.5, 1.0
    for _ in range(60):  # halves the interval down to the last bit
        middle = (low + high) / 2
        error = hanley_mcneil_error(middle, n_members=n_members, n_controls=n_controls)
        low, high = (low, middle) if middle - 0.5 >= z * error else (middle, high)
    return high


def smallest_finding(n_tested: int, *, n_reference: int) -> SmallestFinding:
    """Return the least that `n_tested` names against `n_reference` controls could show.

    Names above every control have p = 1 / (n + 1); Benjamini-Hochberg flags k of m of them if
    p <= 0.05 k / m.
    """
    smallest_p = Fraction(1, n_reference + 1)
    n_flagged = math.ceil(n_tested * smallest_p / Fraction(str(ALPHA)))
    is_possible = 0 < n_flagged <= n_tested
    return SmallestFinding(float(smallest_p), n_flagged if is_possible else None)


def _strata(
    members: FloatArray,
    member_n_pieces: ArrayLike,
    controls: FloatArray,
    control_n_pieces: ArrayLike,
) -> list[_Stratum]:
    """Lengths that both groups have, ranked."""
    member_length, control_length = np.asarray(member_n_pieces), np.asarray(control_n_pieces)
    if members.shape != member_length.shape or controls.shape != control_length.shape:
        raise ValueError("scores and piece counts differ in length")
    strata = []
    for length in np.unique(member_length):
        own = members[(member_length == length) & ~np.isnan(members)]
        others = controls[(control_length == length) & ~np.isnan(controls)]
        if len(own) and len(others):
            ranks = _mid_ranks(np.concatenate([own, others]))
            strata.append(_Stratum(ranks, n_members=len(own)))
    return strata


def _mid_ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1 up, ties at the middle of the places they share."""
    _, group, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: FloatArray = (np.cumsum(count) - (count - 1) / 2)[group]
    return ranks


def _permuted_sums(
    stratum: _Stratum, *, rng: np.random.Generator, n_permutations: int
) -> FloatArray:
    """The group's sum of ranks under random labels [n_permutations]."""
    # Sorted: the order of the rows in the file must not matter.
    ranks, m = np.sort(stratum.ranks), stratum.n_members
    n_rows = max(1, _CELLS_PER_CHUNK // len(ranks))
    sums = []
    for start in range(0, n_permutations, n_rows):
        rows = min(n_rows, n_permutations - start)
        shuffled = rng.permuted(np.broadcast_to(ranks, (rows, len(ranks))), axis=1)
        sums.append(shuffled[:, :m].sum(axis=1))
    return np.concatenate(sums)
