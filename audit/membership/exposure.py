"""Exposure: how far a canary's rank among names that were not planted falls below chance.

Comes in: scores of planted names and of their twins. Goes out: bits and exact p-values for each
name, shares found by number of mentions, and the number of mentions from which names are found.

Source: Carlini et al. 2019, "The Secret Sharer", section 4.3 (rank-based exposure:
log2 |R| - log2 rank). Differs: R is the held-out names and the canary itself, not all possible
names; so the largest exposure that can be seen is log2 (1 + number of held-out names).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit.membership.controls import Name, draw_names
from audit.membership.corpus_names import Pair, pair_of
from audit.membership.name_pools import NamePool
from audit.randomness import generator
from audit.rates import Estimate, FloatArray, IntArray, Rate


@dataclass(frozen=True)
class GroupExposure:
    """Names planted `n_mentions` times.

    Attributes
    ----------
    bits
        Mean exposure with its bootstrap interval over names. Differs: where all of several names
        have one rank, resampling knows no error; the Wilson bounds of the share of held-out names
        above them stand in. One name alone has no interval.
    found
        Names with p <= alpha.
    above_twin
        Pairs in which the planted name scores above its twin; ties count for the twin.
    above_twin_p
        Exact one-sided binomial p-value of that number, 1/2 under no leakage.
    """

    n_mentions: int
    n_not_scored: int
    bits: Estimate
    found: Rate
    above_twin: Rate
    above_twin_p: float


@dataclass(frozen=True, eq=False)
class Exposure:
    """Exposure of K planted names against H held-out ones.

    Attributes
    ----------
    bits, p
        [K] exposure in bits and exact rank p-value of each planted name; NaN where not scored. It
        holds bits = -log2 p.
    n_mentions
        [K] how often each is in the notes.
    n_held_out
        H, scored ones.
    max_bits
        The largest exposure that can be seen: log2(1 + H).
    alpha
        p up to which a name counts as found.
    groups
        By number of mentions, ascending.
    found_from
        The smallest planted number of mentions from which on at least half of the names are found,
        the shares made to rise; infinite where none reaches it. The interval comes from draws of
        the shares (beta, Jeffreys' prior).
    """

    bits: FloatArray
    p: FloatArray
    n_mentions: tuple[int, ...]
    n_held_out: int
    max_bits: float
    alpha: float
    groups: tuple[GroupExposure, ...]
    found_from: Estimate


def canary_names(
    pool: NamePool, *, n: int, seed: int, found: Mapping[Pair, int], exclude: Sequence[Name] = ()
) -> tuple[Name, ...]:
    """Draw n names of the pool that are not in the notes, to be planted or held out."""
    taken = {*found, *(pair_of(*name) for name in exclude)}

    def absent(first: str, last: str) -> bool:
        return pair_of(first, last) not in taken and pair_of(last, first) not in taken

    drawn = draw_names(pool, n=n, seed=seed, accepts=absent, purpose="canaries")
    return tuple(zip(drawn.first, drawn.last, strict=True))


def rank_p_values(scores: ArrayLike, *, held_out: ArrayLike) -> FloatArray:
    """Return p [K] = (1 + number of held-out scores [H] at least as high) / (1 + H).

    NaN scores stay NaN; NaN held-out scores are left out. Exact: under no leakage a name is as
    likely at any rank, so P(p <= a) <= a.
    """
    score = np.asarray(scores, dtype=np.float64)
    others = np.asarray(held_out, dtype=np.float64)
    others = np.sort(others[~np.isnan(others)])
    n_above = len(others) - np.searchsorted(others, score, side="left")
    p: FloatArray = np.where(np.isnan(score), math.nan, (1 + n_above) / (1 + len(others)))
    return p


def exposure_bits(scores: ArrayLike, *, held_out: ArrayLike) -> FloatArray:
    """Return log2 |R| - log2 rank [K] in bits; R is the held-out names and the name itself."""
    return np.asarray(0.0 - np.log2(rank_p_values(scores, held_out=held_out)), dtype=np.float64)


def exposure(
    scores: ArrayLike,
    *,
    n_mentions: Sequence[int],
    twin_scores: ArrayLike,
    more_held_out: ArrayLike = (),
    seed: int,
    alpha: float = 0.05,
    n_replicates: int = 2000,
) -> Exposure:
    """Measure the exposure of planted names.

    Parameters
    ----------
    scores
        [K] of the planted names; higher is more member-like.
    n_mentions
        [K] how often each was planted.
    twin_scores
        [K] of their twins, in the same order.
    more_held_out
        Scores of further names that were not planted, drawn in the same way.
    seed
        Of the intervals.

    Raises
    ------
    ValueError
        If the columns differ in length or no held-out name is scored.
    """
    score, twin = (np.asarray(column, dtype=np.float64) for column in (scores, twin_scores))
    counts = np.asarray(n_mentions, dtype=np.int64)
    if not score.shape == twin.shape == counts.shape or score.ndim != 1:
        raise ValueError("scores, twins and numbers of mentions: three columns are needed")
    held_out = np.concatenate([twin, np.asarray(more_held_out, dtype=np.float64)])
    held_out = held_out[~np.isnan(held_out)]
    if not len(held_out):
        raise ValueError("no held-out name is scored")
    p = rank_p_values(score, held_out=held_out)
    bits = exposure_bits(score, held_out=held_out)
    draws = (seed, n_replicates, len(held_out))
    groups = tuple(
        _group(count, counts, p=p, bits=bits, alpha=alpha, pair=(score, twin), draws=draws)
        for count in sorted(set(counts.tolist()))
    )
    return Exposure(
        bits=bits,
        p=p,
        n_mentions=tuple(counts.tolist()),
        n_held_out=len(held_out),
        max_bits=math.log2(1 + len(held_out)),
        alpha=alpha,
        groups=groups,
        found_from=_found_from(groups, seed=seed, n_replicates=n_replicates),
    )


def _group(
    count: int,
    counts: IntArray,
    *,
    p: FloatArray,
    bits: FloatArray,
    alpha: float,
    pair: tuple[FloatArray, FloatArray],
    draws: tuple[int, int, int],
) -> GroupExposure:
    score, twin = pair
    rows = np.flatnonzero((counts == count) & ~np.isnan(p))
    pairs = rows[~np.isnan(twin[rows])]
    above = Rate(int((score[pairs] > twin[pairs]).sum()), len(pairs))
    return GroupExposure(
        n_mentions=count,
        n_not_scored=int((counts == count).sum()) - len(rows),
        bits=_mean(bits[rows], count=count, draws=draws),
        found=Rate(int((p[rows] <= alpha).sum()), len(rows)),
        above_twin=above,
        above_twin_p=_binomial_tail(above),
    )


def rising(shares: FloatArray, *, weights: FloatArray) -> FloatArray:
    """Return the rising sequence nearest to shares [..., G] in weighted squares.

    Source: Ayer et al. 1955, doi:10.1214/aoms/1177728423, as a maximum of minima: the fit at g is
    the largest, over starts up to g, of the smallest, over ends from g on, mean of that stretch.
    """
    total = np.cumsum(shares * weights, axis=-1)
    weight = np.cumsum(weights)
    n_groups = shares.shape[-1]
    fit = np.full(shares.shape, -np.inf)
    for start in range(n_groups):
        sums = total[..., start:] - (total[..., start - 1, None] if start else 0.0)
        means = sums / (weight[start:] - (weight[start - 1] if start else 0.0))
        smallest = np.minimum.accumulate(means[..., ::-1], axis=-1)[..., ::-1]
        fit[..., start:] = np.maximum(fit[..., start:], smallest)
    return fit


def _mean(bits: FloatArray, *, count: int, draws: tuple[int, int, int]) -> Estimate:
    seed, n_replicates, n_held_out = draws
    if len(bits) < 2:
        value = float(bits[0]) if len(bits) else math.nan
        return Estimate(value, math.nan, math.nan)
    if bits.min() == bits.max():
        n_ranks = 1 + n_held_out
        n_above = round(n_ranks / 2 ** float(bits[0])) - 1
        above = Rate(n_above, n_held_out).interval()
        low, high = (
            math.log2(n_ranks / (1 + n_held_out * share)) for share in (above.high, above.low)
        )
        return Estimate(float(bits[0]), low, high)
    rng = generator(seed, "exposure/bits", count)
    drawn = bits[rng.integers(len(bits), size=(n_replicates, len(bits)))].mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(float(bits.mean()), float(low), float(high))


def _binomial_tail(rate: Rate) -> float:
    if not rate.n_total:
        return math.nan
    ways: int = sum(math.comb(rate.n_total, k) for k in range(rate.n_hits, rate.n_total + 1))
    return float(ways / 2**rate.n_total)


def _found_from(groups: Sequence[GroupExposure], *, seed: int, n_replicates: int) -> Estimate:
    scored = [group for group in groups if group.found.n_total]
    if not scored:
        return Estimate(math.nan, math.nan, math.nan)
    counts = np.array([group.n_mentions for group in scored], dtype=np.float64)
    totals = np.array([group.found.n_total for group in scored], dtype=np.float64)
    hits = np.array([group.found.n_hits for group in scored], dtype=np.float64)
    # Drawing names again would never move a share of 0 or 1.
    rng = generator(seed, "exposure/from")
    drawn = rng.beta(hits + 0.5, totals - hits + 0.5, size=(n_replicates, len(scored)))
    value = _first_half(hits[None] / totals, totals, counts)[0]
    low, high = np.sort(_first_half(drawn, totals, counts))[
        [int(0.025 * n_replicates), min(n_replicates - 1, int(0.975 * n_replicates))]
    ]
    return Estimate(float(value), float(low), float(high))


def _first_half(shares: FloatArray, weights: FloatArray, counts: FloatArray) -> FloatArray:
    reached = rising(shares, weights=weights) >= 0.5 - 1e-12
    first: FloatArray = np.where(reached.any(axis=-1), counts[reached.argmax(axis=-1)], np.inf)
    return first
