"""The ROC curve with its band, and the names of a volcano chart: what is drawn beside a threshold.

Comes in: one score over a list (`audit.view.threshold`). Goes out: few points for any list.
Torch-free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit.membership.decisions import ALPHA
from audit.rates import FloatArray, percentile_interval, wilson
from audit.report import AuditReport
from audit.view.threshold import RankedNames, ranked_names

_N_REPLICATES = 2000
_N_POINTS = 120
_GRID = (150, 100)
"""Columns and rows of the grid to which a volcano's points are thinned."""


@dataclass(frozen=True, eq=False)
class RocView:
    """One score's ROC: steps at FPR [P], and the pointwise 95 % band of the TPR at the same FPR.

    `tpr` is the largest TPR with at most so many controls flagged; `lowest_fpr` = 1 / controls is
    the smallest FPR above 0 that the list resolves.
    """

    score: str
    stratum: str
    n_members: int
    n_controls: int
    fpr: FloatArray
    tpr: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def lowest_fpr(self) -> float:
        """Return 1 / number of controls; NaN without controls."""
        return 1 / self.n_controls if self.n_controls else math.nan


@dataclass(frozen=True, eq=False)
class VolcanoNames:
    """Names of one kind in a volcano chart: places on the score's axis [P], -log10 q [P].

    Names that would be drawn on top of each other are one point; `n_names` [P] counts them.
    """

    kind: str
    x: FloatArray
    y: FloatArray
    n_names: np.ndarray


def roc_view(names: RankedNames, *, seed: int = 0) -> RocView:
    """Return the ROC of one score with a bootstrap band; empty without members or controls.

    The band is the percentile interval of a bootstrap over names, members and controls apart, the
    threshold chosen anew in each replicate. It is drawn without resampling names: of n controls
    drawn with replacement the (k+1)-th highest is the one at place floor(n B), B ~ Beta(k+1, n-k)
    (an order statistic of n uniforms), and the members above it are binomial.
    Source: Efron & Tibshirani 1993, chapter 13; David & Nagaraja 2003, section 2.1.
    """
    is_scored = ~np.isnan(names.values)
    truth = names.is_member[is_scored]
    members = np.sort(names.values[is_scored][truth])
    controls = np.sort(names.values[is_scored][~truth])[::-1]
    n, m = len(controls), len(members)
    if not names.has_truth or not n or not m:
        empty = np.zeros(0)
        return RocView(names.score, names.stratum, m, n, empty, empty, empty, empty)

    def share_above(limits: FloatArray) -> FloatArray:
        share: FloatArray = (m - np.searchsorted(members, limits, side="right")) / m
        return share

    rng = np.random.default_rng(seed)
    n_allowed = _few_counts(n)
    tpr = np.append(share_above(controls[n_allowed[:-1]]), 1.0)
    low, high = np.ones(len(tpr)), np.ones(len(tpr))
    for i, k in enumerate(n_allowed[:-1].tolist()):
        places = np.floor(n * rng.beta(k + 1, n - k, size=_N_REPLICATES)).astype(int)
        limits = controls[np.minimum(places, n - 1)]
        replicates = rng.binomial(m, share_above(limits)) / m
        band = percentile_interval(float(tpr[i]), replicates=replicates, n_names=m)
        low[i], high[i] = band.low, band.high
        if tpr[i] == 1:  # members who are all found leave a bootstrap too sure of itself
            low[i] = min(band.low, wilson(1.0, n_total=m).low)
    return RocView(names.score, names.stratum, m, n, n_allowed / n, tpr, low, high)


def volcano(report: AuditReport, *, score: str) -> tuple[VolcanoNames, ...]:
    """Return every name that has a score and a q, by kind: "member", "unknown", "control"."""
    names = ranked_names(report, score=score)
    truth = [report.names["is_member"][row] for row in names.rows.tolist()]
    kinds = np.array(["unknown" if t is None else "member" if t else "control" for t in truth])
    x = names.axis.place(names.values)
    with np.errstate(divide="ignore"):
        y = -np.log10(names.q)
    found = []
    for kind in ("control", "unknown", "member"):
        rows = (kinds == kind) & np.isfinite(x) & np.isfinite(y)
        if rows.any():
            found.append(_thinned(kind, x[rows], y[rows]))
    return tuple(found)


def fdr_line() -> float:
    """Return where q = 0.05 stands on a volcano's axis."""
    return -math.log10(ALPHA)


def _few_counts(n: int) -> np.ndarray:
    """Numbers of controls from 0 to n at which the curve is read: all of few, else spread out."""
    if n <= _N_POINTS:
        return np.arange(n + 1)
    spread = np.concatenate([np.linspace(0, n, _N_POINTS // 2), np.geomspace(1, n, _N_POINTS // 2)])
    return np.unique(np.concatenate([[0, n], np.round(spread)]).astype(int))


def _thinned(kind: str, x: FloatArray, y: FloatArray) -> VolcanoNames:
    """Keep one point of each cell of the grid, in the order of the cells."""

    def cells(values: FloatArray, n_cells: int) -> np.ndarray:
        width = np.ptp(values) or 1.0
        place = (values - values.min()) / width * (n_cells - 1)
        return np.asarray(np.floor(place), dtype=np.int64)

    cell = cells(x, _GRID[0]) * _GRID[1] + cells(y, _GRID[1])
    _, first, count = np.unique(cell, return_index=True, return_counts=True)
    return VolcanoNames(kind, x[first], y[first], count)
