"""Shares, rankings, tests and bootstraps, each with its interval; undefined is NaN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.rng import generator

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Z_95 = 1.959963984540054
FPRS = (0.1, 0.01, 0.001)
"""False-positive rates (fractions) at which the TPR of a ranking is reported."""
MIN_NAMES = 5
"""With fewer members or controls an AUC decides nothing."""
MIN_CONTROLS = 200
"""With fewer comparable controls a name is not judged."""
MIN_PARTS = 10
"""Fewest effectively different parts on each side for an interval of names that share parts."""
N_REPLICATES = 1000
"""Bootstrap replicates over patients."""
DRAW_SIZE = 100
"""Number of inputs or documents whose randomness is drawn together."""

_DRAWS_PER_CHUNK = 4_000_000  # bounds memory to some 100 MB


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval, in the unit of the value; NaN where undefined."""

    value: float
    low: float
    high: float


NO_ESTIMATE = Estimate(math.nan, math.nan, math.nan)


def wilson(value: float, *, n_total: int) -> Estimate:
    """Return a share of `n_total` trials with its Wilson 95 % score interval; NaN for no trial.

    Source: Wilson 1927, doi:10.1080/01621459.1927.10502953.
    """
    if n_total == 0 or math.isnan(value):
        return NO_ESTIMATE
    shrink = 1 / (1 + Z_95**2 / n_total)
    centre = (value + Z_95**2 / (2 * n_total)) * shrink
    spread = value * (1 - value) / n_total + Z_95**2 / (4 * n_total**2)
    half = Z_95 * math.sqrt(spread) * shrink
    # At 0 and 1 the bound equals the value; rounding must not push it past.
    return Estimate(value, max(0.0, min(value, centre - half)), min(1.0, max(value, centre + half)))


@dataclass(frozen=True)
class Rate:
    """`n_hits` hits in `n_total` trials."""

    n_hits: int
    n_total: int

    @property
    def value(self) -> float:
        """The share of hits, 0-1; NaN without a trial."""
        return self.n_hits / self.n_total if self.n_total else math.nan

    def interval(self) -> Estimate:
        """Return the share with its Wilson 95 % interval."""
        return wilson(self.value, n_total=self.n_total)


@dataclass(frozen=True)
class Share(Estimate):
    """A rate with its interval and its counts."""

    n_hits: int
    n_total: int


def count_share(n_hits: int, n_total: int) -> Share:
    """Return the share of hits in trials with its Wilson 95 % interval; NaN without a trial."""
    interval = Rate(n_hits, n_total).interval()
    return Share(interval.value, interval.low, interval.high, n_hits=n_hits, n_total=n_total)


@dataclass(frozen=True)
class RankingIntervals:
    """How well scores rank members above controls, each number with its bootstrap interval.

    `tpr_at_fpr` holds (fpr, estimate); the estimate is NaN ("not resolvable") below 1/n_controls.
    """

    n_members: int
    n_controls: int
    n_not_scored: int
    n_replicates: int
    auc: Estimate
    tpr_at_fpr: tuple[tuple[float, Estimate], ...]


def _sort_scores(scores: ArrayLike, is_member: ArrayLike) -> tuple[FloatArray, BoolArray, IntArray]:
    """Return scores, truth and rows without NaN, controls first, each side by ascending score.

    To the last bit, the result does not depend on the order of the rows.
    """
    score, member = np.asarray(scores, dtype=np.float64), np.asarray(is_member, dtype=np.bool_)
    if score.ndim != 1 or score.shape != member.shape:
        raise ValueError(f"scores {score.shape} and truth {member.shape}: two columns are needed")
    rows = np.lexsort((score, member))
    rows = rows[~np.isnan(score[rows])]
    return score[rows], member[rows], rows


def _count_ties(scores: ArrayLike, is_member: ArrayLike) -> tuple[FloatArray, IntArray, IntArray]:
    """Return the distinct scores [G], highest first, and the members and controls with each."""
    score, member, _ = _sort_scores(scores, is_member)
    value, place = np.unique(score, return_inverse=True)
    members, controls = (
        np.bincount(place[side], minlength=len(value))[::-1] for side in (member, ~member)
    )
    return value[::-1], members, controls


def _tpr_at_fpr(members: IntArray, controls: IntArray, *, fpr: float) -> float:
    """Return the largest TPR at an FPR of at most `fpr`; counts [G], highest score first."""
    n_members, n_controls = int(members.sum()), int(controls.sum())
    if fpr < 1 / n_controls:
        return math.nan
    # Divide instead of multiplying: 13 / 130 is the same float as 0.1, but 0.1 * 130 may not be 13.
    n_allowed = int((np.cumsum(controls) / n_controls <= fpr).sum())
    return float(members[:n_allowed].sum() / n_members)


def _count_twice_below(x: FloatArray, pool: FloatArray) -> IntArray:
    """Return twice the number of values of a sorted pool below each x [N]; a tie counts half."""
    return np.searchsorted(pool, x, "left") + np.searchsorted(pool, x, "right")


def auc(scores: ArrayLike, is_member: ArrayLike) -> float:
    """Return the share of member-control pairs in which the member scores higher, ties one half.

    Scores and truth [N]; NaN without members or without controls. Time O(n log n).
    Source: Mann & Whitney 1947, doi:10.1214/aoms/1177730491.
    """
    score, member, _ = _sort_scores(scores, is_member)
    n_pairs = int(member.sum()) * int((~member).sum())
    twice_wins = int(_count_twice_below(score[member], score[~member]).sum())
    return twice_wins / (2.0 * n_pairs) if n_pairs else math.nan


def roc_curve(scores: ArrayLike, is_member: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return FPR and TPR (fractions) of the rule `score > threshold`, and the thresholds, [G + 1].

    The curve runs from (0, 0) to (1, 1), with one point for each distinct score and one for "all
    flagged".
    """
    value, members, controls = _count_ties(scores, is_member)
    tpr, fpr = (
        np.append(0, np.cumsum(side)) / (side.sum() or math.nan) for side in (members, controls)
    )
    return fpr, tpr, np.append(value, -np.inf)


def auc_interval(
    scores: ArrayLike, is_member: ArrayLike, *, clusters: Sequence[ArrayLike] = ()
) -> Estimate:
    """Return the AUC with its 95 % interval, where names may share parts.

    The variance is DeLong's, of the placement values, summed over clusters of first parts and of
    last parts, minus the sum over names, because names that share a part rise and fall together.
    The interval is symmetric in the logit, with Satterthwaite's t. If the smaller group times
    min(A, 1 - A) is below 5, the normal approximation of a share fails, and the interval is widened
    to include Wilson's interval of that group. With fewer than 5 names Wilson's interval stands
    alone. The bounds are NaN if names share parts and fewer than 10 parts (1 / sum of squared
    shares) are effectively different on some side.

    Scores and truth [N]; NaN scores are left out. `clusters` are ids [N] of each name's first and
    last part; -1 stands for no part and is a cluster of its own.

    Sources: DeLong et al. 1988, doi:10.2307/2531595; Cameron, Gelbach & Miller 2011,
    doi:10.1198/jbes.2010.07136; coverage: `benchmarks/score_errors.py`.
    """
    from scipy.special import expit, logit
    from scipy.stats import t

    score, member, rows = _sort_scores(scores, is_member)
    n_smaller = min(int(member.sum()), int((~member).sum()))
    value = auc(score, member)
    by_wilson = wilson(value, n_total=n_smaller)
    if n_smaller < MIN_NAMES:
        return by_wilson
    ids = [_number_clusters(np.asarray(cluster_ids)[rows]) for cluster_ids in clusters]
    variance, freedom = _clustered_variance(auc_influence(score, member, value), member, ids)
    if math.isnan(variance):
        return Estimate(value, math.nan, math.nan)
    if value in (0.0, 1.0):
        return by_wilson
    half = float(t.ppf(0.975, freedom)) * math.sqrt(variance) / (value * (1 - value))
    low, high = (float(expit(logit(value) + sign * half)) for sign in (-1, 1))
    if n_smaller * min(value, 1 - value) < 5:
        low, high = min(low, by_wilson.low), max(high, by_wilson.high)
    return Estimate(value, low, high)


def auc_influence(score: FloatArray, member: BoolArray, value: float) -> FloatArray:
    """Return each name's share in the AUC's error [N]; the squares sum to DeLong's variance."""
    influence = np.empty(len(score))
    for side in (member, ~member):
        pool, n = np.sort(score[~side]), int(side.sum())
        below = _count_twice_below(score[side], pool) / (2 * len(pool))
        above_chance = (below if side is member else 1 - below) - value
        influence[side] = above_chance / math.sqrt(n * max(n - 1, 1))
    return influence


def _number_clusters(ids: IntArray) -> IntArray:
    """Number clusters from 0; every -1 becomes a cluster of its own."""
    fresh_ids = ids.max(initial=0) + 1 + np.arange(len(ids))
    return np.unique(np.where(ids < 0, fresh_ids, ids), return_inverse=True)[1]


def _clustered_variance(
    influence: FloatArray, member: BoolArray, ids: Sequence[IntArray]
) -> tuple[float, float]:
    """Return the AUC's variance and its degrees of freedom; NaN if too few parts are different."""
    sides = (member, ~member)
    by_side = np.array([(influence[side] ** 2).sum() for side in sides])
    total = float(by_side.sum())
    sizes = np.array([side.sum() for side in sides])
    freedom = total**2 / float((by_side**2 / (sizes - 1)).sum()) if total else 1.0
    if all(len(np.unique(cluster_ids)) == len(cluster_ids) for cluster_ids in ids):
        return total, freedom
    n_effective = min(
        1 / float((np.bincount(cluster_ids[side]) ** 2 / side.sum() ** 2).sum())
        for cluster_ids in ids
        for side in sides
    )
    if n_effective < MIN_PARTS:
        return math.nan, math.nan
    clustered_sums = [
        float((np.bincount(cluster_ids, weights=influence) ** 2).sum()) for cluster_ids in ids
    ]
    return max(total, sum(clustered_sums) - (len(ids) - 1) * total), min(freedom, n_effective - 1)


def interval(value: float, replicate_values: FloatArray, *, n_total: int) -> Estimate:
    """Return `value` with the 2.5th and 97.5th percentile of its bootstrap replicates [R].

    Undefined replicates (NaN) are left out; the bounds are NaN if no replicate is defined. Differs:
    if all replicates are equal (a perfect or a constant ranking), resampling shows no error, and
    three names against three would look certain. Then the interval is the Wilson interval of that
    share among `n_total` trials.
    """
    defined = replicate_values[~np.isnan(replicate_values)]
    if math.isnan(value) or not len(defined):
        return Estimate(value, math.nan, math.nan)
    if defined.min() == defined.max():
        return wilson(value, n_total=n_total)
    low, high = np.quantile(defined, [0.025, 0.975])
    return Estimate(value, float(low), float(high))


def bootstrap_ranking(
    scores: ArrayLike,
    is_member: ArrayLike,
    *,
    seed: int,
    clusters: Sequence[ArrayLike] = (),
    fprs: Sequence[float] = FPRS,
    n_replicates: int = 2000,
) -> RankingIntervals:
    """Return the AUC (`auc_interval`), and TPR at FPR with intervals of a bootstrap over names.

    Members and controls [N] are resampled separately, so their numbers stay the same; thresholds
    are chosen anew in each replicate. To the last bit, the result does not depend on the order of
    the rows.

    Source: Efron & Tibshirani 1993, chapter 13.
    """
    _, *counts = _count_ties(scores, is_member)
    sizes = [int(side.sum()) for side in counts]
    tprs = [NO_ESTIMATE] * len(fprs)
    if all(sizes):
        resampled_tprs = _resample_tprs(counts, fprs, n_replicates=n_replicates, seed=seed)
        tprs = [
            interval(
                _tpr_at_fpr(*counts, fpr=fpr),
                replicate_tprs,
                n_total=sizes[0],
            )
            for fpr, replicate_tprs in zip(fprs, resampled_tprs, strict=True)
        ]
    return RankingIntervals(
        n_members=sizes[0],
        n_controls=sizes[1],
        n_not_scored=np.size(scores) - sum(sizes),
        n_replicates=n_replicates,
        auc=auc_interval(scores, is_member, clusters=clusters),
        tpr_at_fpr=tuple(zip(fprs, tprs, strict=True)),
    )


def _resample_tprs(
    counts: Sequence[IntArray], fprs: Sequence[float], *, n_replicates: int, seed: int
) -> FloatArray:
    """Return the TPR at each FPR [F, R] in resamples of members and controls; `counts` [G] each.

    Names are not drawn one by one. If k controls are allowed, the (k + 1)-th highest of n resampled
    controls sets the threshold. Its place among all controls is floor(n B), where B is the same
    order statistic of n uniforms, and a binomial number of the m resampled members lies above it.
    The distribution is the same as that of drawing every name.

    Source: David & Nagaraja 2003, Order Statistics, section 2.3.
    """
    rng = np.random.default_rng(seed)
    members, controls = (np.cumsum(side_counts) for side_counts in counts)
    m, n = int(members[-1]), int(controls[-1])
    tprs = np.full((len(fprs), n_replicates), math.nan)
    for row, fpr in enumerate(fprs):
        # Divide instead of multiplying, as in `_tpr_at_fpr`.
        k = int(np.searchsorted(np.arange(n + 1) / n, fpr, side="right")) - 1
        if k < 1:
            continue
        if k >= n:
            tprs[row] = 1.0
            continue
        place = np.floor(n * rng.beta(k + 1, n - k, size=n_replicates)).astype(np.int64)
        group = np.searchsorted(controls, np.minimum(place, n - 1), side="right")
        above = members[group] - counts[0][group]  # members in the groups before it
        tprs[row] = rng.binomial(m, above / m) / m
    return tprs


def _count_draws(
    rng: np.random.Generator, group_of_unit: IntArray, n_rows: int, n_groups: int
) -> IntArray:
    """Count how often each group is drawn [R, G] in R resamples of N units.

    `group_of_unit` [N] is the group of each unit.
    """
    drawn_groups = group_of_unit[
        rng.integers(len(group_of_unit), size=(n_rows, len(group_of_unit)))
    ]
    cells = (drawn_groups + np.arange(n_rows)[:, None] * n_groups).ravel()
    return np.bincount(cells, minlength=n_rows * n_groups).reshape(n_rows, n_groups)


def benjamini_hochberg(p: ArrayLike) -> FloatArray:
    """Return q values [N] for p-values [N]; a NaN stays NaN and does not belong to the family.

    Source: Benjamini & Hochberg 1995, doi:10.1111/j.2517-6161.1995.tb02031.x.
    """
    from scipy.stats import false_discovery_control

    q = np.array(p, dtype=np.float64)
    q[~np.isnan(q)] = false_discovery_control(q[~np.isnan(q)])
    return q


def two_sample_ks(a: ArrayLike, b: ArrayLike) -> tuple[float, float]:
    """Return the two-sided two-sample Kolmogorov-Smirnov statistic and its asymptotic p-value.

    NaN values are left out; (NaN, NaN) if either sample is empty then.
    Source: Stephens 1970, doi:10.1111/j.2517-6161.1970.tb00821.x (small-sample correction).
    """
    from scipy.special import kolmogorov
    from scipy.stats import ks_2samp

    first, second = (x[~np.isnan(x)] for x in (np.asarray(a, float), np.asarray(b, float)))
    if not len(first) or not len(second):
        return math.nan, math.nan
    statistic = float(ks_2samp(first, second, method="asymp").statistic)
    root = math.sqrt(len(first) * len(second) / (len(first) + len(second)))
    return statistic, float(kolmogorov((root + 0.12 + 0.11 / root) * statistic))


def bootstrap_measures(
    table: IntArray,
    measure: Callable[[FloatArray], FloatArray],
    *,
    seed: int,
    n_replicates: int = N_REPLICATES,
) -> FloatArray:
    """Return V measures [R, V] of R bootstrap resamples of patients.

    `table` [P, ...] holds the counts of each patient. `measure` turns the counts of R resamples [R,
    ...] into V values each [R, V], NaN where undefined. Sort the patients before: their order
    changes the last digits.

    Source: Efron & Tibshirani 1993, chapter 13.
    """
    n_patients = len(table)
    flat = table.reshape(n_patients, -1).astype(np.float64)
    n_rows = max(1, _DRAWS_PER_CHUNK // max(n_patients, 1))
    measures = []
    for start in range(0, n_replicates, n_rows):
        rng = generator(seed, "deid-patients", start)
        weights = _count_draws(
            rng, np.arange(n_patients), min(n_rows, n_replicates - start), n_patients
        )
        measures.append(measure((weights.astype(float) @ flat).reshape(-1, *table.shape[1:])))
    return np.concatenate(measures)


def ratio(hits: FloatArray, totals: FloatArray) -> FloatArray:
    """Return hits / totals; NaN where there is no trial."""
    shares = np.full(np.broadcast(hits, totals).shape, np.nan)
    np.divide(hits, totals, out=shares, where=totals > 0)
    return shares


_BLOCK_SIZES = (1, 5, 20, 100, 500)
_FINE, _COARSE = (40, 400, 2000, 2**62), (20, 200, 800, 4000, 2**62)
"""Numbers of inputs or documents up to which blocks have each size."""


def assign_blocks(first: int, n: int, *, is_coarse: bool = False) -> IntArray:
    """Return the block number [n], from 0 up, of the inputs or documents first ... first + n - 1.

    Errors are jackknifed over blocks. Whatever the run's size, a block is one input up to 40
    inputs, then 5 up to 400, 20 up to 2,000 and 100 beyond. So a run of 100 has 52 blocks, one of
    300 has 92 and one of 10,000 has 272, and a longer run keeps the blocks of a shorter one. Coarse
    blocks, for evidence of a whole vocabulary, are unions of these: a run of 100 has 36, one of
    10,000 has 130, and from 100 inputs on they are worth at least 20 equal ones. `first` is a
    multiple of `DRAW_SIZE`.
    """
    number = np.arange(first, first + n)
    block, n_blocks_before, begin = np.zeros(n, dtype=np.int64), 0, 0
    for size, end in zip(_BLOCK_SIZES, _COARSE if is_coarse else _FINE, strict=False):
        is_in_range = (number >= begin) & (number < end)
        block[is_in_range] = n_blocks_before + (number[is_in_range] - begin) // size
        n_blocks_before, begin = n_blocks_before + (end - begin) // size, end
    block_numbers: IntArray = block - block[:1]
    return block_numbers
