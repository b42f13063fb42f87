"""Decisions: from a score per name to p, q, and flagged / not flagged / undecided.

The null hypothesis of a name: it is exchangeable with reference controls, names from the same
generator that are not in the notes. It is never "the score is zero", for further training on
clinical text moves every name. Columns of different length raise ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.membership.confusion import Confusion, confusion
from audit.rates import Z_95, BoolArray, FloatArray, benjamini_hochberg

FLAGGED, NOT_FLAGGED, UNDECIDED, NOT_SCORED = DECISIONS = (
    "flagged",
    "not flagged",
    "undecided",
    "not scored",
)
"""The four words a decision can be."""

ALPHA = 0.05
"""Share of false findings among the flagged that is accepted."""

MIN_CONTROLS = 100
"""With fewer controls of a name's own length, controls of every length are taken."""


@dataclass(frozen=True, eq=False)
class NamePValues:
    """p-value [N] of each name (NaN: not scored), and against whom.

    `n_compared` [N] counts the controls; `is_unmatched` [N] is True where they are of other lengths
    too, because too few have the name's number of word pieces.
    """

    p: FloatArray
    n_compared: NDArray[np.int64]
    is_unmatched: BoolArray


@dataclass(frozen=True, eq=False)
class Decisions:
    """One decision for each of N names.

    Attributes
    ----------
    decision
        One of `DECISIONS`.
    point_flag
        [N], score > threshold: the decision without regard to Monte-Carlo error.
    threshold
        [N], the critical score; inf where the list is too short to flag anybody.
    p, q
        [N], NaN where not scored. q counts members and unknown names as one family, listed
        controls as another.
    is_unmatched
        [N], as in `NamePValues`.
    rule
        The rule in words.
    """

    decision: tuple[str, ...]
    point_flag: BoolArray
    threshold: FloatArray
    p: FloatArray
    q: FloatArray
    is_unmatched: BoolArray
    rule: str


@dataclass(frozen=True)
class HeldOut:
    """Pooled counts of a threshold chosen on one half of the names and judged on the other."""

    confusion: Confusion
    thresholds: tuple[float, float]
    n_not_scored: int


def rank_p_values(scores: ArrayLike, *, controls: ArrayLike) -> FloatArray:
    """Return p [N] = (1 + number of controls with score >= s) / (1 + n); NaN for a NaN score.

    NaN controls are left out. Valid (super-uniform) if name and controls are exchangeable.
    Source: Phipson & Smyth 2010, doi:10.2202/1544-6115.1585.
    """
    score = np.asarray(scores, dtype=np.float64)
    pool = _sorted_scored(controls)
    n_as_high = len(pool) - np.searchsorted(pool, score, side="left")
    return np.asarray(np.where(np.isnan(score), math.nan, (1 + n_as_high) / (1 + len(pool))))


def name_p_values(
    scores: ArrayLike,
    *,
    n_pieces: ArrayLike,
    control_scores: ArrayLike,
    control_n_pieces: ArrayLike,
    min_controls: int = MIN_CONTROLS,
) -> NamePValues:
    """Return each name's p-value against reference controls of the same number of word pieces.

    Where fewer than `min_controls` such controls are scored, all controls are taken and the name is
    marked. Scores and piece counts [N], of controls [K].
    """
    score = np.asarray(scores, dtype=np.float64)
    pools, pool_of = _pools(n_pieces, control_scores, control_n_pieces, min_controls=min_controls)
    if pool_of.shape != score.shape:
        raise ValueError(f"scores {score.shape} and piece counts {pool_of.shape} do not fit")
    p = np.full(score.shape, math.nan)
    n_compared = np.zeros(score.shape, dtype=np.int64)
    for length, pool in pools.items():
        rows = pool_of == length
        p[rows] = rank_p_values(score[rows], controls=pool)
        n_compared[rows] = len(pool)
    return NamePValues(p, n_compared, is_unmatched=pool_of == _ANY_LENGTH)


def q_values(p: ArrayLike, *, is_member: Sequence[bool | None]) -> FloatArray:
    """Return Benjamini-Hochberg q [N]; members and unknown are one family, controls another."""
    p_values = np.asarray(p, dtype=np.float64)
    is_control = _is_control(is_member)
    q = np.full(p_values.shape, math.nan)
    for family in (is_control, ~is_control):
        q[family] = benjamini_hochberg(p_values[family])
    # Rank p-values are fractions: q is exactly 0.05 for some, and must not miss it by rounding.
    return np.round(q, 12)


def decide(
    scores: ArrayLike,
    *,
    standard_error: ArrayLike,
    n_pieces: ArrayLike,
    is_member: Sequence[bool | None],
    reference_scores: ArrayLike,
    reference_n_pieces: ArrayLike,
    min_controls: int = MIN_CONTROLS,
) -> Decisions:
    """Flag the names with q <= 0.05, and mark those whose Monte-Carlo error covers the threshold.

    Scores, their standard errors and piece counts [N]; reference controls [K]. The threshold is the
    score at which q reaches 0.05 with everybody else's decision as it is, so that
    score > threshold is the same as q <= 0.05.
    """
    score = np.asarray(scores, dtype=np.float64)
    if not len(score) == len(is_member) == len(np.asarray(standard_error)):
        raise ValueError("scores, standard errors and truth differ in length")
    ranked = name_p_values(
        score,
        n_pieces=n_pieces,
        control_scores=reference_scores,
        control_n_pieces=reference_n_pieces,
        min_controls=min_controls,
    )
    q = q_values(ranked.p, is_member=is_member)
    pools, pool_of = _pools(
        n_pieces, reference_scores, reference_n_pieces, min_controls=min_controls
    )
    is_control = _is_control(is_member)
    threshold = np.full(score.shape, math.inf)
    for family in (is_control, ~is_control):
        n_tested = int((~np.isnan(q[family])).sum())
        n_flagged = int((q[family] <= ALPHA).sum())
        for length, pool in pools.items():
            threshold[family & (pool_of == length)] = critical_score(
                pool, n_flagged=n_flagged, n_tested=n_tested
            )
    flag = score > threshold
    undecided = undecided_mask(score, standard_error=standard_error, threshold=threshold)
    words = np.select(
        [np.isnan(score), undecided, flag], [NOT_SCORED, UNDECIDED, FLAGGED], NOT_FLAGGED
    )
    rule = f"q <= {ALPHA} (Benjamini-Hochberg); undecided within {Z_95:.2f} standard errors"
    return Decisions(tuple(words.tolist()), flag, threshold, ranked.p, q, ranked.is_unmatched, rule)


def critical_score(controls: ArrayLike, *, n_flagged: int, n_tested: int) -> float:
    """Return the score above which q <= 0.05, given that `n_flagged` of `n_tested` names reach it.

    The r-th highest control, r = floor(p* (n + 1)), p* = 0.05 k / m (0.05 / m for k = 0); inf where
    r = 0: so few controls cannot flag anybody.
    """
    pool = _sorted_scored(controls)
    # Exact fractions: in floats 0.05 k / m (n + 1) falls just short of a whole number now and then.
    critical_p = Fraction(str(ALPHA)) * max(n_flagged, 1) / max(n_tested, 1)
    r = int(critical_p * (len(pool) + 1))
    return float(pool[-r]) if 0 < r <= len(pool) else math.inf


def undecided_mask(
    scores: ArrayLike, *, standard_error: ArrayLike, threshold: ArrayLike
) -> BoolArray:
    """Return where |score - threshold| <= 1.96 standard errors [N].

    A score without a standard error (NaN) is undecided; no score, or an infinite threshold, is not.
    """
    score = np.asarray(scores, dtype=np.float64)
    limit = np.asarray(threshold, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # inf - inf
        is_clear = np.abs(score - limit) > Z_95 * np.asarray(standard_error, dtype=np.float64)
    return np.asarray(~is_clear & ~np.isnan(score) & np.isfinite(limit))


def held_out_threshold(
    scores: ArrayLike, is_member: ArrayLike, *, seed: int, max_fpr: float = 0.05
) -> HeldOut:
    """Choose a threshold on one half of the names, judge the other half, swap, and pool the counts.

    Halves are drawn stratified by truth; the threshold is the lowest control score above which at
    most `max_fpr` of that half's controls lie (inf without controls). Scores and truth [N].
    """
    score = np.asarray(scores, dtype=np.float64)
    member = np.asarray(is_member, dtype=np.bool_)
    if score.shape != member.shape:
        raise ValueError(f"scores {score.shape} and truth {member.shape} do not fit")
    rng = np.random.default_rng(seed)
    fold = np.full(score.shape, -1)
    for truth in (True, False):
        rows = np.flatnonzero((member == truth) & ~np.isnan(score))
        fold[rng.permutation(rows)] = np.arange(len(rows)) % 2
    counts, thresholds = Confusion(0, 0, 0, 0), []
    for judged in (0, 1):
        controls = np.sort(score[(fold == 1 - judged) & ~member])
        n_allowed = int(max_fpr * len(controls) + 1e-9)  # 0.05 * 20 may fall just short of 1
        # Without controls nothing is known and nobody flagged.
        ladder = [*controls, math.inf] if not len(controls) else [-math.inf, *controls]
        limit = float(ladder[-1 - n_allowed])
        rows = np.flatnonzero(fold == judged)
        counts += confusion(score[rows] > limit, member[rows])
        thresholds.append(limit)
    n_not_scored = int(np.isnan(score).sum())
    return HeldOut(counts, (thresholds[0], thresholds[1]), n_not_scored)


_ANY_LENGTH = -1  # key of the pool of all controls


def _sorted_scored(scores: ArrayLike) -> FloatArray:
    values = np.asarray(scores, dtype=np.float64)
    return np.sort(values[~np.isnan(values)])


def _is_control(is_member: Sequence[bool | None]) -> BoolArray:
    return np.array([truth is not None and not truth for truth in is_member], dtype=np.bool_)


def _pools(
    n_pieces: ArrayLike,
    control_scores: ArrayLike,
    control_n_pieces: ArrayLike,
    *,
    min_controls: int,
) -> tuple[dict[int, FloatArray], NDArray[np.int64]]:
    """Controls to compare with, sorted, by length in pieces; and the pool's key for each name."""
    scores = np.asarray(control_scores, dtype=np.float64)
    lengths = np.asarray(control_n_pieces, dtype=np.int64)
    if scores.ndim != 1 or scores.shape != lengths.shape:
        raise ValueError(f"control scores {scores.shape} and lengths {lengths.shape} do not fit")
    everybody = _sorted_scored(scores)
    pools = {_ANY_LENGTH: everybody}
    pool_of = np.asarray(n_pieces, dtype=np.int64).copy()
    for length in np.unique(pool_of).tolist():
        pool = _sorted_scored(scores[lengths == length])
        # A list of one length only is matched, however short it is.
        if len(pool) >= min_controls or len(pool) == len(everybody):
            pools[length] = pool
        else:
            pool_of[pool_of == length] = _ANY_LENGTH
    return pools, pool_of
