"""Decisions: from a score per name to p, q, and flagged / not flagged / undecided.

The null hypothesis of a name: it is exchangeable with reference controls, names from the same
generator that are not in the notes. It is never "the score is zero", for further training on
clinical text moves every name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from audit.attack.measure_types import Confusion
from audit.stats import (
    MIN_CONTROLS,
    NO_ESTIMATE,
    BoolArray,
    Estimate,
    FloatArray,
    IntArray,
    benjamini_hochberg,
)


def count_confusion(flagged: ArrayLike, is_member: ArrayLike) -> Confusion:
    """Count decisions [N] against truth [N], both booleans."""
    flag, member = np.asarray(flagged, dtype=np.bool_), np.asarray(is_member, dtype=np.bool_)
    cells = (flag & member, ~flag & member, flag & ~member, ~flag & ~member)
    tp, fn, fp, tn = (int(cell.sum()) for cell in cells)
    return Confusion(tp=tp, fn=fn, fp=fp, tn=tn)


_F1_REPLICATES = 2000


def f1_interval(counts: Confusion, *, seed: int) -> Estimate:
    """Return F1 with the percentile interval of a bootstrap over names, stratified by truth.

    F1 depends only on how many members and how many controls are flagged. In a bootstrap both
    numbers are binomial, so they are drawn instead of the names, with the same distribution. The
    rule that always says "member" has an F1 without sampling error, so its interval has width zero.
    Differs: if all replicates of another rule are equal (it is never wrong, or never right), the
    interval follows from the Wilson bounds of recall and false-positive rate.
    """
    value, n_members, n_controls = counts.compute_f1(), counts.n_members, counts.n_controls
    if math.isnan(value):
        return NO_ESTIMATE
    rng = np.random.default_rng(seed)
    tp = rng.binomial(n_members, counts.tp / max(n_members, 1), size=_F1_REPLICATES)
    fp = rng.binomial(n_controls, counts.fp / max(n_controls, 1), size=_F1_REPLICATES)
    f1 = 2 * tp / np.maximum(n_members + tp + fp, 1)  # tp + fn stays n_members
    if f1.min() < f1.max() or counts.fn + counts.tn == 0:
        low, high = np.quantile(f1, [0.025, 0.975])
        return Estimate(value, float(low), float(high))
    recall, fpr = counts.recall, counts.false_positive_rate
    bounds = []
    for recall_bound, fpr_bound in ((recall.low, fpr.high), (recall.high, fpr.low)):
        hits = recall_bound * n_members if n_members else 0.0
        false = fpr_bound * n_controls if n_controls else 0.0
        bounds.append(2 * hits / (n_members + hits + false))
    return Estimate(value, *bounds)


FLAGGED, WORTH_A_LOOK, NOT_FLAGGED, NOT_SCORED, NOT_JUDGED = DECISIONS = (
    "flagged",
    "worth a look",
    "not flagged",
    "not scored",
    "not judged",
)
"""The possible decisions. A name without comparable controls is scored, but not judged."""

ALPHA, LOOK_ALPHA = 0.05, 0.2
"""Shares of false findings that are accepted among the flagged, and among those worth a look."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """One decision for each of N names."""

    decision: np.ndarray  # [N] of `DECISIONS`, without regard to Monte-Carlo error.
    point_flag: BoolArray  # [N], score > threshold: who stands out.
    is_undecided: BoolArray  # [N], whether Monte-Carlo error covers the threshold.
    # [N], the critical score; inf where the list is too short to flag anybody.
    threshold: FloatArray
    # [N], NaN where not scored or not judged. q counts members and unknown names as one family,
    # listed controls as another.
    p: FloatArray
    q: FloatArray

    def without_flags(self) -> Decisions:
        """Return the same p and q without flags: without a leak found, nobody stands out."""
        nobody = np.zeros_like(self.point_flag)
        return replace(
            self,
            decision=np.where(
                np.isin(self.decision, (FLAGGED, WORTH_A_LOOK)), NOT_FLAGGED, self.decision
            ),
            point_flag=nobody,
            is_undecided=nobody,
            threshold=np.full_like(self.threshold, math.inf),
        )


def rank_p_values(scores: ArrayLike, *, controls: ArrayLike) -> FloatArray:
    """Return p [N] = (1 + number of controls with score >= s) / (1 + n); NaN for a NaN score.

    NaN controls are left out. Valid (super-uniform) if name and controls are exchangeable.
    Source: Phipson & Smyth 2010, doi:10.2202/1544-6115.1585.
    """
    score, pool = np.asarray(scores, dtype=np.float64), _sort_scores(controls)
    n_as_high = len(pool) - np.searchsorted(pool, score, side="left")
    return np.asarray(np.where(np.isnan(score), math.nan, (1 + n_as_high) / (1 + len(pool))))


@dataclass(frozen=True, eq=False)
class ComparisonPool:
    """K controls that names are ranked among, by groups of comparable names.

    Names of a group are comparable: they have the same number of word pieces and the same parts.
    `rows` [K] is the row of each control on the list; -1: it is not listed.
    """

    scores: FloatArray  # [K]
    groups: IntArray  # [K]
    rows: IntArray  # [K]

    def group_scores(self, group: int) -> FloatArray:
        """Return the scores of one group's controls, ascending, without NaN."""
        return _sort_scores(self.scores[self.groups == group])


def name_p_values(
    scores: FloatArray,
    *,
    groups: IntArray,
    pool: ComparisonPool,
    min_controls: int = MIN_CONTROLS,
) -> FloatArray:
    """Return the p-value of each name [N] among the controls of its own group.

    NaN if fewer than `min_controls` of them are scored. A control is ranked among the others.
    """
    p = np.full(scores.shape, math.nan)
    in_pool = np.zeros(scores.shape, dtype=np.bool_)
    in_pool[pool.rows[pool.rows >= 0]] = True
    for group in np.unique(groups):
        controls = pool.group_scores(group)
        for is_control, n in ((False, len(controls)), (True, len(controls) - 1)):
            rows = (groups == group) & (in_pool == is_control) & ~np.isnan(scores)
            if n >= min_controls and rows.any():
                n_as_high = len(controls) - np.searchsorted(controls, scores[rows], side="left")
                p[rows] = (1 + n_as_high - is_control) / (1 + n)
    return p


def q_values(p: ArrayLike, *, is_member: Sequence[bool | None]) -> FloatArray:
    """Return Benjamini-Hochberg q [N]; listed controls are a family of their own."""
    q = np.array(p, dtype=np.float64)
    is_control = truth_mask(is_member, truth=False)
    for family in (is_control, ~is_control):
        q[family] = benjamini_hochberg(q[family])
    # Rank p-values are fractions: q is exactly 0.05 for some, and must not miss it by rounding.
    return np.round(q, 12)


def decide(
    scores: FloatArray,
    *,
    standard_errors: FloatArray,
    n_blocks: int,
    groups: IntArray,
    is_member: Sequence[bool | None],
    pool: ComparisonPool,
    namesakes: Mapping[int, FloatArray] = MappingProxyType({}),
) -> Decisions:
    """Decide on N names by their q-values, and mark those that the Monte-Carlo error leaves open.

    Scores, their standard errors (over `n_blocks` blocks) and groups of comparable names are [N].
    If somebody else in the notes carries a part of a name, the name is ranked a second time, among
    `namesakes` (row -> scores of names with that part), and the larger p-value counts.

    The threshold is the score at which q reaches 0.05 while all other decisions stay as they are,
    so score > threshold is equivalent to q <= 0.05. The same threshold applies to listed controls,
    so those above it are false findings of the same rule. If nobody reaches it, it is infinite.
    """
    p = name_p_values(scores, groups=groups, pool=pool)
    for row, namesake_scores in namesakes.items():
        p[row] = max(p[row], float(rank_p_values(scores[row], controls=namesake_scores)))
    q = q_values(p, is_member=is_member)
    is_control = truth_mask(is_member, truth=False)
    tested_q = q[is_control] if is_control.all() else q[~is_control]
    n_tested, n_flagged = int((~np.isnan(tested_q)).sum()), int((tested_q <= ALPHA).sum())
    threshold = np.full(scores.shape, math.inf)
    if n_flagged:
        for group in np.unique(groups[~np.isnan(p)]):
            threshold[groups == group] = critical_score(
                pool.group_scores(group), n_flagged=n_flagged, n_tested=n_tested
            )
        for row, namesake_scores in namesakes.items():
            own_threshold = critical_score(namesake_scores, n_flagged=n_flagged, n_tested=n_tested)
            threshold[row] = max(threshold[row], own_threshold)
    is_flagged = scores > threshold
    is_worth_a_look = (q <= LOOK_ALPHA) & ~is_control
    is_undecided = undecided_mask(
        scores, standard_error=standard_errors, threshold=threshold, n_blocks=n_blocks
    )
    words = np.select(
        [np.isnan(scores), np.isnan(p), is_flagged, is_worth_a_look],
        [NOT_SCORED, NOT_JUDGED, FLAGGED, WORTH_A_LOOK],
        NOT_FLAGGED,
    )
    return Decisions(words, is_flagged, is_undecided, threshold, p, q)


def critical_score(controls: ArrayLike, *, n_flagged: int, n_tested: int) -> float:
    """Return the score above which q <= 0.05, given that `n_flagged` of `n_tested` names reach it.

    This is the r-th highest control, r = floor(p* (n + 1)), p* = 0.05 k / m (0.05 / m for k = 0);
    inf if r = 0, because so few controls cannot flag anybody.
    """
    pool = _sort_scores(controls)
    # Exact fractions: in floats 0.05 k / m (n + 1) falls just short of a whole number now and then.
    critical_p = Fraction(str(ALPHA)) * max(n_flagged, 1) / max(n_tested, 1)
    r = int(critical_p * (len(pool) + 1))
    return float(pool[-r]) if 0 < r <= len(pool) else math.inf


def undecided_mask(
    scores: ArrayLike, *, standard_error: ArrayLike, threshold: ArrayLike, n_blocks: int
) -> BoolArray:
    """Return which scores [N] lie within t standard errors of the threshold.

    t is the 97.5 % quantile with n_blocks - 1 degrees of freedom. A score without a standard error
    (NaN) is undecided; no score, or an infinite threshold, is not.
    """
    from scipy.stats import t

    quantile = float(t.ppf(0.975, n_blocks - 1)) if n_blocks > 1 else math.inf
    with np.errstate(invalid="ignore"):  # inf - inf
        is_clear = np.abs(np.subtract(scores, threshold)) > np.multiply(quantile, standard_error)
    return np.asarray(~is_clear & ~np.isnan(scores) & np.isfinite(threshold))


def judge_held_out(scores: ArrayLike, is_member: ArrayLike, *, seed: int) -> Confusion:
    """Choose a threshold on one half of the names, judge the other half, swap, and pool the counts.

    Halves are drawn stratified by truth; the threshold is the lowest control score above which at
    most 5 % of that half's controls lie (inf without controls: nobody is flagged).
    """
    score, member = np.asarray(scores, dtype=np.float64), np.asarray(is_member, dtype=np.bool_)
    rng = np.random.default_rng(seed)
    fold = np.full(score.shape, -1)
    for truth in (True, False):
        rows = np.flatnonzero((member == truth) & ~np.isnan(score))
        fold[rng.permutation(rows)] = np.arange(len(rows)) % 2
    thresholds = []
    for judged_fold in (0, 1):
        controls = np.sort(score[(fold == 1 - judged_fold) & ~member])
        n_allowed = int(0.05 * len(controls) + 1e-9)  # 0.05 * 20 may fall just short of 1
        thresholds.append(float(controls[-1 - n_allowed]) if len(controls) else math.inf)
    is_judged = fold >= 0
    limits = np.array(thresholds)[fold[is_judged]]
    return count_confusion(score[is_judged] > limits, member[is_judged])


def _sort_scores(scores: ArrayLike) -> FloatArray:
    values = np.asarray(scores, dtype=np.float64)
    return np.sort(values[~np.isnan(values)])


def truth_mask(is_member: Sequence[bool | None], *, truth: bool | None) -> BoolArray:
    """Return which names [N] are members (True), controls (False) or unknown (None)."""
    return np.array([label is truth for label in is_member], dtype=np.bool_)
