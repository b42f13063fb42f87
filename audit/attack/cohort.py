"""The group as a whole: whether it stands out, and what its list could have shown at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.attack.decisions import ALPHA
from audit.attack.scores import NameParts, both_parts, part_limits, soft_minimum
from audit.names.candidates import Candidates
from audit.stats import MIN_NAMES, Z_95, BoolArray, FloatArray
from audit.text import fold_name

Ids = NDArray[np.int64]
POWER = 0.8
"""Share of cases in which the smallest detectable effect is found."""
_Z_POWER = NormalDist().inv_cdf(POWER)
_MIN_STRATUM = 20
"""Reference parts from which a stratum of word pieces or popularity is one of its own."""
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
class RelabellingTest:
    """Whether members rank above controls by more than their names alone explain.

    Attributes
    ----------
    p
        One-sided; NaN where there are no scored members or controls.
    auc
        Of the list itself.
    spread
        Standard deviation of the AUC under relabelling: it knows which names share parts.
    smallest_auc
        The AUC that this list would show to be above chance in four cases out of five.
    n_relabelled
        Times that parts were given others' evidence.
    """

    p: float
    auc: float
    spread: float
    smallest_auc: float
    n_relabelled: int


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


def relabelling_test(
    first: Ids,
    last: Ids,
    is_member: BoolArray,
    *,
    by_part: FloatArray,
    parts: NameParts,
    seed: int,
    n_relabelled: int = 1999,
) -> RelabellingTest:
    """Test whether members rank above controls by more than their names alone explain.

    Names that share a part rise and fall together. Here each distinct part is given the evidence of
    a random part of the reference controls, of the same role, word pieces and popularity; which
    names share parts stays as it is, and the AUC is taken anew: p = (1 + #) / (1 + n_relabelled).

    Parameters
    ----------
    first, last
        [N] columns of the listed names' parts; -1: none.
    is_member
        [N] members; all others are controls.
    by_part
        [U] evidence of parts; NaN: not scored.
    """
    if not first.shape == last.shape == is_member.shape or by_part.shape != parts.n_reference.shape:
        raise ValueError("columns of different length")
    padded = np.append(by_part, math.nan)
    scored = ~np.isnan(soft_minimum(padded[first], padded[last]))
    first, last, member = first[scored], last[scored], is_member[scored]
    if not member.any() or member.all():
        return RelabellingTest(math.nan, math.nan, math.nan, math.nan, 0)
    rng = np.random.default_rng(seed)
    listed = np.unique(np.concatenate([first, last]))
    listed = listed[listed >= 0]
    drawn = _relabelled(listed, by_part, parts=parts, rng=rng, n_relabelled=n_relabelled)
    place = np.full(len(padded), len(listed))
    place[listed] = np.arange(len(listed))
    limits = part_limits(by_part, parts=parts)
    null = _null_aucs(drawn, place[first], place[last], member, limits=limits)
    observed = float(
        _row_aucs(both_parts(padded[first], padded[last], limits=limits)[None], member)[0]
    )
    critical, spread = float(np.quantile(null, 0.975)), float(null.std())
    return RelabellingTest(
        p=(1 + int((null >= observed - 1e-12).sum())) / (1 + n_relabelled),
        auc=observed,
        spread=spread,
        smallest_auc=critical + _Z_POWER * spread,
        n_relabelled=n_relabelled,
    )


def _null_aucs(
    drawn: FloatArray, first: Ids, last: Ids, member: BoolArray, *, limits: tuple[float, float]
) -> FloatArray:
    """AUCs [R] of names whose parts have the drawn evidence [R, L]; the place L: none."""
    aucs = []
    n_rows = max(1, _CELLS_PER_CHUNK // len(first))
    for start in range(0, len(drawn), n_rows):
        chunk = np.pad(drawn[start : start + n_rows], ((0, 0), (0, 1)), constant_values=math.nan)
        scores = both_parts(chunk[:, first], chunk[:, last], limits=limits)
        aucs.append(_row_aucs(scores, member))
    return np.concatenate(aucs)


def smallest_detectable_auc(candidates: Candidates, *, seed: int = 0, n_drawn: int = 499) -> float:
    """Return the AUC that a list could show in four cases out of five, before any model is asked.

    Every distinct part is given a random normal evidence, so that only which names share parts
    counts; 0.5 + (z_0.975 + z_0.8) standard deviations of the AUC. NaN with fewer than
    `rates.MIN_NAMES` members or controls.
    """
    rows = [
        row
        for row, truth in enumerate(candidates.is_member)
        if truth is not None and not candidates.is_canary(row)
    ]
    member = np.array([candidates.is_member[row] is True for row in rows], dtype=np.bool_)
    if min(member.sum(), (~member).sum()) < MIN_NAMES:
        return math.nan
    texts = [[fold_name(part[row]) for row in rows] for part in (candidates.first, candidates.last)]
    rng = np.random.default_rng(seed)
    aucs: list[FloatArray] = []
    columns = [np.unique(part, return_inverse=True) for part in texts]
    n_rows = max(1, _CELLS_PER_CHUNK // len(rows))
    for start in range(0, n_drawn, n_rows):
        n_here = min(n_rows, n_drawn - start)
        parts = [
            np.where(names == "", math.nan, rng.normal(size=(n_here, len(names))))[:, place]
            for names, place in columns
        ]
        aucs.append(_row_aucs(soft_minimum(*parts), member))
    return 0.5 + (Z_95 + _Z_POWER) * float(np.concatenate(aucs).std())


def members_enough(n_members: int, n_controls: int, *, smallest_auc: float, wanted: float) -> int:
    """Return the members (and as many controls) that would show an AUC of `wanted`, in tens.

    The error falls with the root of the names; a list of m and n is worth their harmonic mean.
    """
    n_each = 2 / (1 / n_members + 1 / n_controls)
    return math.ceil(n_each * ((smallest_auc - 0.5) / (wanted - 0.5)) ** 2 / 10) * 10


def _relabelled(
    listed: Ids,
    by_part: FloatArray,
    *,
    parts: NameParts,
    rng: np.random.Generator,
    n_relabelled: int,
) -> FloatArray:
    """Evidence of random reference parts in the place of the listed ones [n_relabelled, L]."""
    drawn = np.empty((n_relabelled, len(listed)))
    is_reference = (parts.n_reference > 0) & ~np.isnan(by_part)
    for role in (False, True):
        of_role = is_reference & (parts.is_last == role)
        mine = np.flatnonzero(parts.is_last[listed] == role)
        for n_pieces in np.unique(parts.n_pieces[listed[mine]]):
            here = mine[parts.n_pieces[listed[mine]] == n_pieces]
            pool = np.flatnonzero(of_role & (parts.n_pieces == n_pieces))
            pool = pool if len(pool) >= _MIN_STRATUM else np.flatnonzero(of_role)
            if not len(pool):
                drawn[:, here] = math.nan
                continue
            n_bins = min(5, max(1, len(pool) // _MIN_STRATUM))
            edges = np.quantile(parts.log_share[pool], np.linspace(0, 1, n_bins + 1)[1:-1])
            bin_of_pool = np.searchsorted(edges, parts.log_share[pool])
            bin_of_listed = np.searchsorted(edges, parts.log_share[listed[here]])
            for number in np.unique(bin_of_listed):
                columns = here[bin_of_listed == number]
                stratum = pool[bin_of_pool == number] if (bin_of_pool == number).any() else pool
                chosen = rng.integers(len(stratum), size=(n_relabelled, len(columns)))
                drawn[:, columns] = by_part[stratum[chosen]]
    return drawn


def _row_aucs(scores: FloatArray, member: BoolArray) -> FloatArray:
    """Mann-Whitney of each row [R, N]; ties count one half."""
    order = np.argsort(scores, axis=1, kind="stable")
    ordered = np.take_along_axis(scores, order, axis=1)
    number = np.arange(scores.shape[1])
    is_new = np.concatenate([np.ones((len(scores), 1), bool), ordered[:, 1:] > ordered[:, :-1]], 1)
    low = np.maximum.accumulate(np.where(is_new, number, 0), axis=1)
    is_end = np.concatenate([is_new[:, 1:], np.ones((len(scores), 1), bool)], 1)
    high = np.minimum.accumulate(np.where(is_end, number, len(number))[:, ::-1], axis=1)[:, ::-1]
    ranks = (low + high) / 2 + 1
    m, n = int(member.sum()), int((~member).sum())
    wins = (ranks * member[order]).sum(axis=1) - m * (m + 1) / 2
    return np.asarray(wins / (m * n), dtype=np.float64)


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
