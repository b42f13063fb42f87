"""Decisions: from a score per name to p, q, and flagged / not flagged / undecided.

The null hypothesis of a name: it is exchangeable with reference controls, names from the same
generator that are not in the notes. It is never "the score is zero", for further training on
clinical text moves every name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from audit.stats import (
    MIN_CONTROLS,
    NOTHING,
    BoolArray,
    Estimate,
    FloatArray,
    RankingIntervals,
    Rate,
    benjamini_hochberg,
)


@dataclass(frozen=True)
class Confusion:
    """Members flagged (tp) and missed (fn), controls flagged (fp) and left alone (tn)."""

    tp: int
    fn: int
    fp: int
    tn: int

    @property
    def n_members(self) -> int:
        """Members judged."""
        return self.tp + self.fn

    @property
    def n_controls(self) -> int:
        """Controls judged."""
        return self.fp + self.tn

    @property
    def recall(self) -> Rate:
        """Members flagged, of the members."""
        return Rate(self.tp, self.n_members)

    @property
    def false_positive_rate(self) -> Rate:
        """Controls flagged, of the controls."""
        return Rate(self.fp, self.n_controls)

    @property
    def precision(self) -> Rate:
        """Members, of the names flagged."""
        return Rate(self.tp, self.tp + self.fp)

    @property
    def accuracy(self) -> Rate:
        """Names judged rightly, of all names."""
        return Rate(self.tp + self.tn, self.n_members + self.n_controls)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, 2 tp / (2 tp + fp + fn); NaN for 0 / 0."""
        total = 2 * self.tp + self.fp + self.fn
        return 2 * self.tp / total if total else math.nan


def plain(value: object) -> Any:
    """Return a measure as dicts, lists, numbers and None.

    NaN and infinity become None, also "not resolvable". A rate carries its interval, a confusion
    its rates, a TPR at FPR the key of its FPR ("0.01") and whether the list resolves it.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if not is_dataclass(value):
        return value
    more: dict[str, object] = {}
    if isinstance(value, Rate):
        more = vars(value.interval())
    elif isinstance(value, Confusion):
        names = "n_members", "n_controls", "recall", "false_positive_rate", "precision", "accuracy"
        more = {name: getattr(value, name) for name in names}
    elif isinstance(value, RankingIntervals):
        more["tpr_at_fpr"] = {
            f"{fpr:g}": vars(tpr) | {"is_resolvable": not math.isnan(tpr.value)}
            for fpr, tpr in value.tpr_at_fpr
        }
    return plain({one.name: getattr(value, one.name) for one in fields(value)} | more)


def confusion(flagged: ArrayLike, is_member: ArrayLike) -> Confusion:
    """Count decisions [N] against truth [N], both booleans."""
    flag, member = np.asarray(flagged, dtype=np.bool_), np.asarray(is_member, dtype=np.bool_)
    cells = (flag & member, ~flag & member, flag & ~member, ~flag & ~member)
    return Confusion(*(int(cell.sum()) for cell in cells))


_F1_REPLICATES = 2000


def f1_interval(counts: Confusion, *, seed: int) -> Estimate:
    """Return F1 with the percentile interval of a bootstrap over names, stratified by truth.

    Of a rule's decisions a bootstrap keeps only how many members and how many controls are flagged,
    and these are binomial: the same distribution as drawing the names, without drawing them.
    Always "member" has an F1 without sampling error, hence an interval of width zero.
    Differs: where else every replicate is the same (a rule never wrong, or never right), the Wilson
    bounds of recall and false-positive rate take its place.
    """
    value, n_members, n_controls = counts.f1, counts.n_members, counts.n_controls
    if math.isnan(value):
        return NOTHING
    rng = np.random.default_rng(seed)
    tp = rng.binomial(n_members, counts.tp / max(n_members, 1), size=_F1_REPLICATES)
    fp = rng.binomial(n_controls, counts.fp / max(n_controls, 1), size=_F1_REPLICATES)
    f1 = 2 * tp / np.maximum(n_members + tp + fp, 1)  # tp + fn stays n_members
    if f1.min() < f1.max() or counts.fn + counts.tn == 0:
        low, high = np.quantile(f1, [0.025, 0.975])
        return Estimate(value, float(low), float(high))
    recall, fpr = counts.recall.interval(), counts.false_positive_rate.interval()
    bounds = []
    for recall_bound, fpr_bound in ((recall.low, fpr.high), (recall.high, fpr.low)):
        hits = recall_bound * n_members if n_members else 0.0
        false = fpr_bound * n_controls if n_controls else 0.0
        bounds.append(2 * hits / (n_members + hits + false))
    return Estimate(value, *bounds)


FLAGGED, NOT_FLAGGED, UNDECIDED, NOT_SCORED, NOT_JUDGED = DECISIONS = (
    "flagged",
    "not flagged",
    "undecided",
    "not scored",
    "not judged",
)
"""The words a decision can be. A name without comparable controls is scored, but not judged;
"undecided" stands in reports of older versions only: today it is a mark beside the decision."""

ALPHA = 0.05
"""Share of false findings among the flagged that is accepted."""


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
        """Return the same p and q in an audit that found no leak: there nobody stands out."""
        nobody = np.zeros_like(self.point_flag)
        return replace(
            self,
            decision=np.where(self.decision == FLAGGED, NOT_FLAGGED, self.decision),
            point_flag=nobody,
            is_undecided=nobody,
            threshold=np.full_like(self.threshold, math.inf),
        )


def rank_p_values(scores: ArrayLike, *, controls: ArrayLike) -> FloatArray:
    """Return p [N] = (1 + number of controls with score >= s) / (1 + n); NaN for a NaN score.

    NaN controls are left out. Valid (super-uniform) if name and controls are exchangeable.
    Source: Phipson & Smyth 2010, doi:10.2202/1544-6115.1585.
    """
    score, pool = np.asarray(scores, dtype=np.float64), _sorted_scored(controls)
    n_as_high = len(pool) - np.searchsorted(pool, score, side="left")
    return np.asarray(np.where(np.isnan(score), math.nan, (1 + n_as_high) / (1 + len(pool))))


def name_p_values(
    scores: FloatArray,
    *,
    group: np.ndarray,
    control_scores: FloatArray,
    control_group: np.ndarray,
) -> FloatArray:
    """Return each name's p-value [N] against reference controls of its own group.

    A group is what makes names comparable: numbers of word pieces and of parts. Where fewer than
    `MIN_CONTROLS` such controls are scored the name is not judged (NaN). Scores and groups [N], of
    controls [K].
    """
    p = np.full(scores.shape, math.nan)
    for key in np.unique(group):
        pool = _sorted_scored(control_scores[control_group == key])
        if len(pool) >= MIN_CONTROLS:
            p[group == key] = rank_p_values(scores[group == key], controls=pool)
    return p


def q_values(p: ArrayLike, *, is_member: Sequence[bool | None]) -> FloatArray:
    """Return Benjamini-Hochberg q [N]; members and unknown are one family, controls another."""
    q = np.array(p, dtype=np.float64)
    is_control = truth_mask(is_member, truth=False)
    for family in (is_control, ~is_control):
        q[family] = benjamini_hochberg(q[family])
    # Rank p-values are fractions: q is exactly 0.05 for some, and must not miss it by rounding.
    return np.round(q, 12)


def decide(
    scores: FloatArray,
    *,
    standard_error: FloatArray,
    n_blocks: int,
    group: np.ndarray,
    is_member: Sequence[bool | None],
    reference_scores: FloatArray,
    reference_group: np.ndarray,
    limit: FloatArray | float = -math.inf,
    part_p: FloatArray | float = math.nan,
) -> Decisions:
    """Flag the names with q <= 0.05, and mark those whose Monte-Carlo error covers the threshold.

    Scores, their standard errors (over `n_blocks` blocks) and groups of comparable names [N];
    reference controls [K]. The threshold is the score at which q reaches 0.05 with everybody else's
    decision as it is, so that score > threshold is the same as q <= 0.05; listed controls are
    asked at the same threshold, so that those above it are false findings of the same rule.

    `limit` [N] is a score that must be exceeded in any case, and `part_p` [N] the p-value that
    says so: names for which it is above 0.05, which lie at the limit or below, have at least this.
    """
    p = name_p_values(
        scores, group=group, control_scores=reference_scores, control_group=reference_group
    )
    p = np.where(np.greater(part_p, ALPHA), np.maximum(p, part_p), p)
    q = q_values(p, is_member=is_member)
    is_control = truth_mask(is_member, truth=False)
    tested = q[is_control] if is_control.all() else q[~is_control]
    n_tested, n_flagged = int((~np.isnan(tested)).sum()), int((tested <= ALPHA).sum())
    threshold = np.full(scores.shape, math.inf)
    for key in np.unique(group[~np.isnan(p)]):
        threshold[group == key] = critical_score(
            reference_scores[reference_group == key], n_flagged=n_flagged, n_tested=n_tested
        )
    threshold = np.maximum(threshold, limit)
    flag = scores > threshold
    undecided = undecided_mask(
        scores, standard_error=standard_error, threshold=threshold, n_blocks=n_blocks
    )
    words = np.select(
        [np.isnan(scores), np.isnan(p), flag], [NOT_SCORED, NOT_JUDGED, FLAGGED], NOT_FLAGGED
    )
    return Decisions(words, flag, undecided, threshold, p, q)


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
    scores: ArrayLike, *, standard_error: ArrayLike, threshold: ArrayLike, n_blocks: int
) -> BoolArray:
    """Return where |score - threshold| <= t standard errors [N], t of 97.5 % and n_blocks - 1.

    A score without a standard error (NaN) is undecided; no score, or an infinite threshold, is not.
    """
    from scipy.stats import t

    quantile = float(t.ppf(0.975, n_blocks - 1)) if n_blocks > 1 else math.inf
    with np.errstate(invalid="ignore"):  # inf - inf
        is_clear = np.abs(np.subtract(scores, threshold)) > np.multiply(quantile, standard_error)
    return np.asarray(~is_clear & ~np.isnan(scores) & np.isfinite(threshold))


def held_out_threshold(scores: ArrayLike, is_member: ArrayLike, *, seed: int) -> Confusion:
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
    for judged in (0, 1):
        controls = np.sort(score[(fold == 1 - judged) & ~member])
        n_allowed = int(0.05 * len(controls) + 1e-9)  # 0.05 * 20 may fall just short of 1
        thresholds.append(float(controls[-1 - n_allowed]) if len(controls) else math.inf)
    is_judged = fold >= 0
    limits = np.array(thresholds)[fold[is_judged]]
    return confusion(score[is_judged] > limits, member[is_judged])


def _sorted_scored(scores: ArrayLike) -> FloatArray:
    values = np.asarray(scores, dtype=np.float64)
    return np.sort(values[~np.isnan(values)])


def truth_mask(is_member: Sequence[bool | None], *, truth: bool | None) -> BoolArray:
    """Return which names [N] are members (True), controls (False) or unknown (None)."""
    return np.array([one is truth for one in is_member], dtype=np.bool_)
