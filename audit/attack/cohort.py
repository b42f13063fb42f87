"""Members as a group: whether they rank above their controls, and what their list could show.

Sources: Savage 1956, doi:10.1214/aoms/1177728257 (exponential scores); Phipson & Smyth 2010,
doi:10.2202/1544-6115.1585 (p-values of permutation tests); measurements: docs/results.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from audit.attack.decisions import ALPHA
from audit.attack.scores import NameParts, soft_minimum
from audit.names.candidates import Candidates
from audit.rng import generator
from audit.stats import MIN_NAMES, Z_95, BoolArray, FloatArray, IntArray
from audit.text import fold_name

POWER = 0.8
"""Share of cases in which the smallest detectable effect is found."""
N_PERMUTATIONS = 1999
"""Draws of each test. The smallest p-value is 1 / 2,000. Half as many would move a p-value near
0.05 by 0.007 (one standard deviation) instead of 0.005, twice as many by 0.003."""
MIN_STRATUM = 20
"""Least number of parts in a stratum of word pieces or popularity. With 10 the strata are finer and
the drawn parts repeat more often; with 40 popularity is matched in fewer steps."""
_Z_POWER = NormalDist().inv_cdf(POWER)
_CELLS_PER_CHUNK = 1_000_000  # bounds the memory of permuted tables to some 10 MB


@dataclass(frozen=True)
class GroupTest:
    """The test of members against controls.

    Attributes
    ----------
    p
        One-sided p-value; NaN where there are too few scored names. Where members share parts more
        often than chance explains, it is the larger of `p_labels` and `p_parts`.
    p_labels
        p-value with labels permuted within strata of parts and word pieces.
    p_parts
        p-value with parts renamed; NaN if members share parts no more often than chance explains.
    p_sharing
        p-value of members sharing parts as often as they do, by chance.
    smallest_auc
        The AUC that this list shows to be above chance in four cases out of five.
    """

    p: float
    p_labels: float
    p_parts: float
    p_sharing: float
    smallest_auc: float


NO_TEST = GroupTest(*[math.nan] * 5)


@dataclass(frozen=True)
class Sharing:
    """Whether members share parts more often than chance explains, and which parts these are.

    Such members were probably picked by a name, such as a doctor's. The model may know that name
    from elsewhere, so it tells nothing about them.
    """

    p: float = math.nan
    parts: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def find_sharing(
    columns: IntArray,
    is_member: BoolArray,
    *,
    strata: IntArray,
    seed: int,
    n_permutations: int = N_PERMUTATIONS,
) -> Sharing:
    """Test whether members among N names share parts more often than chance explains.

    `columns` [N, 2] are the places of the names' parts (-1: none); labels are permuted within
    `strata` [N]. The statistic is the sum over parts of the squared number of members. If p <=
    0.05, the parts of at least two members are returned.
    """
    observed = _sum_squared_counts(columns, is_member[None])[0]
    tables = _draw_labels(
        is_member, strata, rng=generator(seed, "verdict/sharing"), n_rows=n_permutations
    )
    permuted_counts = [_sum_squared_counts(columns, labels) for labels in tables]
    p = _p_value(np.concatenate(permuted_counts), observed)
    if p > ALPHA:
        return Sharing(p)
    member_parts, counts = np.unique(columns[is_member], return_counts=True)
    return Sharing(p, member_parts[(member_parts >= 0) & (counts > 1)])


def savage_scores(scores: FloatArray) -> FloatArray:
    """Return exponential scores [..., N] of the ranks along the last axis.

    The score of rank r of N is -ln(1 - (r - 1/2) / N), ranks ascending, midranks for ties. A few
    names far up weigh as much as many names a little up, so the test sees both kinds of leaks.
    """
    from scipy.stats import rankdata

    rank = rankdata(scores, axis=-1)
    return np.asarray(-np.log1p(-(rank - 0.5) / scores.shape[-1]))


def group_test(
    scores: FloatArray,
    is_member: BoolArray,
    *,
    strata: IntArray,
    columns: IntArray,
    by_part: FloatArray,
    parts: NameParts,
    donors: IntArray,
    sharing: Sharing,
    seed: int,
    n_permutations: int = N_PERMUTATIONS,
) -> GroupTest:
    """Test whether the labels of N members and controls are exchangeable.

    Parameters
    ----------
    scores, is_member, strata
        [N] score, truth, and the stratum within which labels are permuted. Names without a score
        (NaN) are left out.
    columns
        [N, 2] places of each name's parts among the U parts; -1: the name has none.
    by_part, parts
        [U] the parts' residuals, and the description of the parts.
    donors
        Places of the parts [D] whose evidence stands in for a listed part in the second test.
    sharing
        The parts that members share; if there are any, the second test is made too.
    """
    is_scored = ~np.isnan(scores)
    scores, is_member = scores[is_scored], is_member[is_scored]
    strata, columns = strata[is_scored], columns[is_scored]
    if min(int(is_member.sum()), int((~is_member).sum())) < MIN_NAMES:
        return NO_TEST
    statistics, aucs = _permute_labels(
        scores, is_member, strata=strata, seed=seed, n_permutations=n_permutations
    )
    p_labels = _p_value(statistics, float(savage_scores(scores)[is_member].sum()))
    p_parts = math.nan
    renamed_lists = _rename_parts(
        columns,
        by_part=by_part,
        parts=parts,
        donors=donors,
        shared=sharing.parts,
        is_member=is_member,
        rng=generator(seed, "verdict/parts"),
        n_rows=n_permutations,
    )
    if renamed_lists is not None:
        differences = renamed_lists.statistics - renamed_lists.own_statistics
        p_parts, aucs = _p_value(differences, 0.0), renamed_lists.aucs
    return GroupTest(
        p=float(np.nanmax([p_labels, p_parts])),
        p_labels=p_labels,
        p_parts=p_parts,
        p_sharing=sharing.p,
        smallest_auc=float(np.quantile(aucs, 0.975)) + _Z_POWER * float(aucs.std()),
    )


def _p_value(null_statistics: FloatArray, observed: float) -> float:
    """Return the share of draws at least as high as the observed one, itself counted as a draw."""
    return (1 + int((null_statistics >= observed - 1e-9).sum())) / (1 + len(null_statistics))


def _permute_labels(
    scores: FloatArray,
    is_member: BoolArray,
    *,
    strata: IntArray,
    seed: int,
    n_permutations: int,
) -> tuple[FloatArray, FloatArray]:
    """Permute labels within strata; return the statistic and the AUC of each list [R]."""
    rank_scores, ranks, n_members = savage_scores(scores), _midranks(scores), int(is_member.sum())
    tables = _draw_labels(
        is_member, strata, rng=generator(seed, "verdict/labels"), n_rows=n_permutations
    )
    chunks = [
        (labels @ rank_scores, _auc_of_ranks(labels @ ranks, n_members, len(scores)))
        for labels in tables
    ]
    statistics, aucs = map(np.concatenate, zip(*chunks, strict=True))
    return statistics, aucs


def _draw_labels(
    is_member: BoolArray, strata: IntArray, *, rng: np.random.Generator, n_rows: int
) -> Iterator[FloatArray]:
    """Yield tables [R, N] of ones (member) and zeros, permuted within strata, n_rows in all."""
    for n_chunk in _split_rows(n_rows, width=len(is_member)):
        labels = np.zeros((n_chunk, len(is_member)))
        for stratum in np.unique(strata):
            rows = np.flatnonzero(strata == stratum)
            n_members = int(is_member[rows].sum())
            if n_members in (0, len(rows)):
                labels[:, rows] = float(n_members > 0)
                continue
            keys = rng.random((n_chunk, len(rows)))
            chosen = np.argpartition(keys, n_members - 1, axis=1)[:, :n_members]
            np.put_along_axis(labels, rows[chosen], 1.0, axis=1)
        yield labels


def _sum_squared_counts(columns: IntArray, labels: np.ndarray) -> FloatArray:
    """Return, for each row of labels [R, N], the sum over parts of squared counts of members."""
    from scipy.sparse import csr_array

    rows, roles = np.nonzero(columns >= 0)
    _, part = np.unique(columns[rows, roles], return_inverse=True)
    holds = csr_array(
        (np.ones(len(rows)), (part, rows)), shape=(int(part.max(initial=0)) + 1, len(columns))
    )
    counts = np.asarray(holds @ np.asarray(labels, dtype=np.float64).T)  # [parts, R]
    return np.asarray(np.square(counts).sum(axis=0))


class _RenamedLists(NamedTuple):
    """Statistics [R] of lists with renamed parts, and of the same lists with their own parts."""

    own_statistics: FloatArray
    statistics: FloatArray
    aucs: FloatArray


def _rename_parts(
    columns: IntArray,
    *,
    by_part: FloatArray,
    parts: NameParts,
    donors: IntArray,
    shared: IntArray,
    is_member: BoolArray,
    rng: np.random.Generator,
    n_rows: int,
) -> _RenamedLists | None:
    """Rename the parts of a list: each part gets the evidence of a random donor.

    A donor has the same role, word pieces and popularity; which names share parts does not change.
    In the list's own statistic the same donors replace the `shared` parts, so that these count
    neither for nor against the members. None if none is shared, or some part has no donor.
    """
    if not len(shared):
        return None
    listed = np.unique(columns[columns >= 0])
    donor_evidence = _draw_evidence(
        listed, by_part, parts=parts, donors=donors, rng=rng, n_rows=n_rows
    )
    place = np.full(int(columns.max(initial=-1)) + 2, len(listed))
    place[listed] = np.arange(len(listed))
    first, last = place[columns].T
    is_shared = np.isin(listed, shared)
    n_members, n = int(is_member.sum()), len(columns)
    chunks: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    begin = 0
    for n_chunk in _split_rows(n_rows, width=n):
        evidence = donor_evidence[begin : begin + n_chunk]
        begin += n_chunk
        own_evidence = np.where(is_shared, evidence, by_part[listed])
        name_scores = [
            soft_minimum(padded[:, first], padded[:, last])
            for padded in (
                np.pad(part_evidence, ((0, 0), (0, 1)), constant_values=math.nan)
                for part_evidence in (own_evidence, evidence)
            )
        ]
        if np.isnan(name_scores).any():
            return None
        own_statistic, statistic = (
            savage_scores(scores)[:, is_member].sum(axis=1) for scores in name_scores
        )
        ranks = _midranks(name_scores[1])[:, is_member].sum(axis=1)
        chunks.append((own_statistic, statistic, _auc_of_ranks(ranks, n_members, n)))
    return _RenamedLists(*(np.concatenate(column) for column in zip(*chunks, strict=True)))


def _draw_evidence(
    listed: IntArray,
    by_part: FloatArray,
    *,
    parts: NameParts,
    donors: IntArray,
    rng: np.random.Generator,
    n_rows: int,
) -> FloatArray:
    """Return the evidence of random donors in the place of the listed parts [n_rows, L]."""
    donor_evidence = np.full((n_rows, len(listed)), math.nan)
    is_donor = np.zeros(len(by_part), dtype=np.bool_)
    is_donor[donors] = True
    is_donor &= ~np.isnan(by_part)
    kinds = np.stack([parts.is_last[listed], parts.n_pieces[listed]], axis=1)
    for role, n_pieces in np.unique(kinds, axis=0):
        listed_rows = np.flatnonzero((kinds == (role, n_pieces)).all(axis=1))
        is_role_donor = is_donor & (parts.is_last == role)
        pool = np.flatnonzero(is_role_donor & (parts.n_pieces == n_pieces))
        pool = pool if len(pool) >= MIN_STRATUM else np.flatnonzero(is_role_donor)
        if not len(pool):
            continue
        n_bins = min(5, max(1, len(pool) // MIN_STRATUM))
        edges = np.quantile(parts.log_share[pool], np.linspace(0, 1, n_bins + 1)[1:-1])
        bins = np.searchsorted(edges, parts.log_share)
        for number in np.unique(bins[listed[listed_rows]]):
            places = listed_rows[bins[listed[listed_rows]] == number]
            stratum = pool[bins[pool] == number]
            stratum = stratum if len(stratum) else pool
            chosen = rng.integers(len(stratum), size=(n_rows, len(places)))
            donor_evidence[:, places] = by_part[stratum[chosen]]
    return donor_evidence


GROUP_AUC = 0.6
"""The weak leak that a plan is made for: in three of five pairs the member ranks above the control.
It takes a quarter of the names to see 0.7, and four times as many to see 0.55."""


def count_group_controls(n_tested: int) -> int | None:
    """Return how many controls show `GROUP_AUC` in four cases out of five; None: no number does.

    Names are assumed to share no parts, so the variance of the AUC is (1 / m + 1 / n) / 12.
    """
    variance = ((GROUP_AUC - 0.5) / (Z_95 + _Z_POWER)) ** 2
    remainder = 12 * variance - (1 / n_tested if n_tested else math.inf)
    return math.ceil(1 / remainder) if remainder > 0 else None


def smallest_detectable_auc(candidates: Candidates, *, n_drawn: int = 499) -> float:
    """Return the AUC that a list shows in four cases out of five, before any model is run.

    Every distinct part gets random normal evidence, so only the sharing of parts matters: 0.5 +
    (z_0.975 + z_0.8) standard deviations of the AUC. NaN with fewer than `MIN_NAMES` members or
    controls.
    """
    names = candidates.without_canaries()
    names = names.rows([row for row, truth in enumerate(names.is_member) if truth is not None])
    is_member = np.array(names.is_member, dtype=np.bool_)
    n_members = int(is_member.sum())
    if min(n_members, len(names) - n_members) < MIN_NAMES:
        return math.nan
    columns = [
        np.unique(list(map(fold_name, part)), return_inverse=True)
        for part in (names.first, names.last)
    ]
    rng = np.random.default_rng(0)
    aucs = []
    # The spread of long lists is small, and an error of a tenth of it does not matter.
    n_drawn = min(n_drawn, max(99, 5 * _CELLS_PER_CHUNK // len(names)))
    for n_rows in _split_rows(n_drawn, width=len(names)):
        evidence = [
            np.where(part == "", math.nan, rng.normal(size=(n_rows, len(part))))[:, place]
            for part, place in columns
        ]
        ranks = _midranks(soft_minimum(*evidence))
        aucs.append(_auc_of_ranks(ranks[:, is_member].sum(axis=1), n_members, len(names)))
    return 0.5 + (Z_95 + _Z_POWER) * float(np.concatenate(aucs).std())


def _midranks(scores: FloatArray) -> FloatArray:
    from scipy.stats import rankdata

    return np.asarray(rankdata(scores, axis=-1), dtype=np.float64)


def _auc_of_ranks(rank_sums: FloatArray, n_members: int, n: int) -> FloatArray:
    """Return the AUC of sums of the members' midranks among n names (Mann-Whitney)."""
    n_controls = n - n_members
    return np.asarray((rank_sums - n_members * (n_members + 1) / 2) / (n_members * n_controls))


def _split_rows(n_rows: int, *, width: int) -> list[int]:
    n_chunk = max(1, _CELLS_PER_CHUNK // max(width, 1))
    return [min(n_chunk, n_rows - start) for start in range(0, n_rows, n_chunk)]
