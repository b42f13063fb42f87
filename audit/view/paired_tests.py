"""Tests of paired things: shares flagged by two audits (McNemar), AUCs of two scores (DeLong).

Knows no names and no reports, only counts and numbers. Undefined numbers are NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit.rates import Z_95, BoolArray, Estimate, FloatArray, auc, wilson


@dataclass(frozen=True)
class Flags:
    """Names flagged by both audits, by the first only, by the second only, by neither."""

    both: int
    only_one: int
    only_other: int
    neither: int

    @property
    def n_names(self) -> int:
        """Names with a q in both audits."""
        return self.both + self.only_one + self.only_other + self.neither

    @property
    def p(self) -> float:
        """McNemar's exact two-sided p-value."""
        return mcnemar_p(self.only_one, self.only_other)

    @property
    def difference(self) -> Estimate:
        """Share flagged by the first minus share flagged by the second audit."""
        return paired_difference(self)


def mcnemar_p(only_one: int, only_other: int) -> float:
    """Return the exact two-sided p-value: twice the smaller tail of a fair coin, at most 1.

    Source: McNemar 1947, doi:10.1007/BF02295996; exact form: the binomial sign test.
    """
    n, k = only_one + only_other, min(only_one, only_other)
    tail = sum(math.comb(n, i) for i in range(k + 1))
    return float(min(1.0, 2 * tail / 2**n))


def paired_difference(flags: Flags) -> Estimate:
    """Return the difference of two paired shares with its 95 % interval; NaN without names.

    Source: Newcombe 1998, method 10, doi:10.1002/(SICI)1097-0258(19981130)17:22<2635::AID-SIM954>
    3.0.CO;2-C: Wilson intervals of both shares, joined with the correlation of the pairs.
    """
    a, b, c, d = flags.both, flags.only_one, flags.only_other, flags.neither
    n = flags.n_names
    if not n:
        return Estimate(math.nan, math.nan, math.nan)
    one, other = wilson((a + b) / n, n_total=n), wilson((a + c) / n, n_total=n)
    value = (b - c) / n
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    excess = float(a * d - b * c)
    if excess > 0:
        excess = max(excess - n / 2, 0.0)
    phi = excess / math.sqrt(margins) if margins else 0.0

    def reach(down: float, up: float) -> float:
        return math.sqrt(max(down**2 - 2 * phi * down * up + up**2, 0.0))

    below = reach(one.value - one.low, other.high - other.value)
    above = reach(other.value - other.low, one.high - one.value)
    return Estimate(value, max(-1.0, value - below), min(1.0, value + above))


def auc_difference(
    one: FloatArray, *, other: FloatArray, is_member: BoolArray
) -> tuple[float, float, Estimate]:
    """Return the AUCs of two scores [N] on the same names, and their difference with its interval.

    Names with a NaN in either are left out; NaN without members or without controls.
    Source: DeLong, DeLong & Clarke-Pearson 1988, doi:10.2307/2531595; by ranks as Sun & Xu 2014.
    Differs: where the variance is 0 (both rank perfectly, say) it knows no error; the Wilson bound
    of a share of 1 among the smaller group takes its place.
    """
    keep = ~np.isnan(one) & ~np.isnan(other)
    member = is_member[keep]
    scores = [one[keep], other[keep]]
    m, n = int(member.sum()), int((~member).sum())
    aucs = [auc(score, member) for score in scores]
    value = aucs[0] - aucs[1]
    if not m or not n:
        return aucs[0], aucs[1], Estimate(math.nan, math.nan, math.nan)
    wins = [_wins(score, member) for score in scores]
    variance = math.nan
    if m > 1 and n > 1:
        variance = float(np.var(wins[0][0] - wins[1][0], ddof=1)) / m
        variance += float(np.var(wins[0][1] - wins[1][1], ddof=1)) / n
    if not variance > 0:
        half = 1 - wilson(1.0, n_total=min(m, n)).low
    else:
        half = Z_95 * math.sqrt(variance)
    return aucs[0], aucs[1], Estimate(value, max(-1.0, value - half), min(1.0, value + half))


def _wins(scores: FloatArray, is_member: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Share of controls below each member [m], and of members above each control [n], ties half."""
    members, controls = np.sort(scores[is_member]), np.sort(scores[~is_member])

    def share_below(values: FloatArray, pool: FloatArray) -> FloatArray:
        below = np.searchsorted(pool, values, side="left")
        below_or_equal = np.searchsorted(pool, values, side="right")
        share: FloatArray = (below + below_or_equal) / (2 * len(pool))
        return share

    of_members = share_below(scores[is_member], controls)
    return of_members, 1 - share_below(scores[~is_member], members)
