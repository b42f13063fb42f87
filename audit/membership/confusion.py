"""Confusion counts of a yes/no rule, and the rates that follow from them.

Source: Nakamura et al., section 4.3 (F1, accuracy, precision, recall over the list L).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit.rates import Estimate, Rate


@dataclass(frozen=True)
class Confusion:
    """Members flagged (tp) and missed (fn), controls flagged (fp) and left alone (tn); adds with +.

    Raises
    ------
    ValueError
        If a count is negative.
    """

    tp: int
    fn: int
    fp: int
    tn: int

    def __post_init__(self) -> None:
        """Check the counts, once."""
        if min(self.tp, self.fn, self.fp, self.tn) < 0:
            raise ValueError(f"negative count: {self}")

    def __add__(self, other: Confusion) -> Confusion:
        return Confusion(
            self.tp + other.tp, self.fn + other.fn, self.fp + other.fp, self.tn + other.tn
        )

    @property
    def n_members(self) -> int:
        """Members judged."""
        return self.tp + self.fn

    @property
    def n_controls(self) -> int:
        """Controls judged."""
        return self.fp + self.tn

    @property
    def n_flagged(self) -> int:
        """Names flagged, rightly or not."""
        return self.tp + self.fp

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
        return Rate(self.tp, self.n_flagged)

    @property
    def accuracy(self) -> Rate:
        """Names judged rightly, of all names."""
        return Rate(self.tp + self.tn, self.n_members + self.n_controls)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, 2 tp / (2 tp + fp + fn); NaN for 0 / 0."""
        total = 2 * self.tp + self.fp + self.fn
        return 2 * self.tp / total if total else math.nan


def confusion(flagged: ArrayLike, is_member: ArrayLike) -> Confusion:
    """Count decisions [N] against truth [N], both booleans.

    Raises
    ------
    ValueError
        If the two columns do not fit.
    """
    flag = np.asarray(flagged, dtype=np.bool_)
    member = np.asarray(is_member, dtype=np.bool_)
    if flag.ndim != 1 or flag.shape != member.shape:
        raise ValueError(f"decisions {flag.shape} and truth {member.shape}: two columns are needed")
    return Confusion(
        tp=int((flag & member).sum()),
        fn=int((~flag & member).sum()),
        fp=int((flag & ~member).sum()),
        tn=int((~flag & ~member).sum()),
    )


def f1_interval(counts: Confusion, *, seed: int, n_replicates: int = 2000) -> Estimate:
    """Return F1 with the percentile interval of a bootstrap over names, stratified by truth.

    Of a rule's decisions a bootstrap keeps only how many members and how many controls are flagged,
    and these are binomial: the same distribution as drawing the names, without drawing them.
    Always "member" has an F1 without sampling error, hence an interval of width zero.
    Differs: where else every replicate is the same (a rule never wrong, or never right), the Wilson
    bounds of recall and false-positive rate take its place.
    """
    value, n_members, n_controls = counts.f1, counts.n_members, counts.n_controls
    if math.isnan(value):
        return Estimate(math.nan, math.nan, math.nan)
    rng = np.random.default_rng(seed)
    tp = rng.binomial(n_members, counts.tp / max(n_members, 1), size=n_replicates)
    fp = rng.binomial(n_controls, counts.fp / max(n_controls, 1), size=n_replicates)
    f1 = 2 * tp / np.maximum(n_members + tp + fp, 1)  # tp + fn stays n_members
    if f1.min() < f1.max() or counts.n_flagged == n_members + n_controls:
        low, high = np.quantile(f1, [0.025, 0.975])
        return Estimate(value, float(low), float(high))
    recall, fpr = counts.recall.interval(), counts.false_positive_rate.interval()
    bounds = []
    for recall_bound, fpr_bound in ((recall.low, fpr.high), (recall.high, fpr.low)):
        hits = recall_bound * n_members if n_members else 0.0
        false = fpr_bound * n_controls if n_controls else 0.0
        bounds.append(2 * hits / (n_members + hits + false))
    return Estimate(value, bounds[0], bounds[1])
