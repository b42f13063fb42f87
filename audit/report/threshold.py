"""One score on a list: its threshold, its ROC with a band, and p-values of controls.

The number of points is limited for lists of any length. Undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pandas as pd

from audit.attack.decisions import ALPHA, count_confusion, f1_interval
from audit.attack.measure_types import GENERAL_ALONE, POPULARITY, Confusion
from audit.attack.scores import GENERAL_SCORE, find_score_kind
from audit.report.report import AuditReport
from audit.stats import NO_ESTIMATE, Estimate, FloatArray, Rate, interval, roc_curve, wilson

ALL = "all"
"""The stratum of every listed control; the others are kinds of controls."""
LOW_FPR = 0.01
PAPER_THRESHOLD = 0.0
"""The paper's rules flag scores above this (sections 4.1 and 4.2)."""
USEFUL = ("fpr", "fdr", "youden", "paper")
"""Codes of the thresholds that are offered."""
_FIRST = ("fdr", "fpr", "youden", "paper")
LOW_FPRS = (LOW_FPR, 0.001)
"""False-positive rates at which rankings are read."""
_N_REPLICATES = 2000
_N_POINTS = 120
_N_P_VALUES = 300


@dataclass(frozen=True)
class ScoreAxis:
    """The axis on which scores are drawn, from `low` to `high`: linear, or by log10.

    On a logarithmic axis scores of 0 and less are drawn at `low`, one decade or more below the
    smallest score above 0.
    """

    is_log: bool
    low: float
    high: float

    def place_of(self, threshold: float) -> float:
        """Return the place of a threshold on the axis, clipped to the axis."""
        if self.is_log and math.isfinite(threshold):
            threshold = math.log10(threshold) if threshold > 0 else self.low
        return min(max(self.low, threshold), self.high)

    def score_at(self, place: float) -> float:
        """Return the score at a place on the axis; the lower end of a logarithmic one is 0."""
        if not self.is_log:
            return float(place)
        return 0.0 if place <= self.low else float(10.0**place)


@dataclass(frozen=True, eq=False)
class RankedNames:
    """N names of a list in one stratum, with one score.

    Attributes
    ----------
    names
        One row per name: "value" (the score, NaN if not scored), "is_member", "q" of the fixed
        score, and "critical", which only the fixed score has: the score above which a tested name
        stands out. It is infinite if no leak is found or no score is high enough, and NaN for
        controls and names that are not judged.
    axis
        Where the scores are drawn.
    """

    score: str
    stratum: str
    has_truth: bool
    names: pd.DataFrame
    axis: ScoreAxis


@dataclass(frozen=True)
class Reached:
    """The results of one threshold; without truth (`counts` None) only the flagged are counted.

    `ppv` is the share of members among flagged people if the share `prevalence` of all people are
    members. It follows from the recall and the false-positive rate; its interval combines the
    bounds of both.
    """

    threshold: float
    flagged: Rate
    n_not_scored: int
    counts: Confusion | None
    f1: Estimate
    prevalence: float
    ppv: Estimate


def list_score_codes(report: AuditReport) -> tuple[str, ...]:
    """Return the codes of the scores that can be shown, the fixed one first, baselines last."""
    ranked = report.measures.strata[ALL].scores if report.has_truth else ()
    drawable = [code for code in ranked if _column(report, code)[0] in report.names]
    return tuple(dict.fromkeys((report.fixed_score, *drawable, GENERAL_ALONE, POPULARITY)))


def list_strata(report: AuditReport) -> tuple[str, ...]:
    """Return the kinds of controls to choose from: "all" first, and only "all" without truth."""
    return tuple(report.measures.strata) or (ALL,)


def rank_names(report: AuditReport, *, score: str, stratum: str = ALL) -> RankedNames:
    """Return the names of one stratum with one score, without canaries.

    Raises ValueError if the report has no such score or stratum.
    """
    if score not in list_score_codes(report) or stratum not in list_strata(report):
        raise ValueError("no such score or stratum in this report")
    table, (column, is_log) = report.table, _column(report, score)
    is_control = table["is_control"] & ((table["control_kind"] == stratum) | (stratum == ALL))
    tested_kinds = ("member",) if report.has_truth else ("member", "unknown")
    rows = table[is_control | table["kind"].isin(tested_kinds)]
    is_judged = ~rows["is_control"] & rows["q"].notna() & (score == report.fixed_score)
    ranked = pd.DataFrame(
        {
            "value": rows[column],
            "is_member": rows["kind"] == "member",
            "q": rows["q"],
            "critical": rows["threshold"].where(is_judged),
        }
    )
    axis = _axis(rows[column].to_numpy(), is_log=is_log)
    return RankedNames(score, stratum, report.has_truth, ranked, axis)


def apply_threshold(ranked: RankedNames, *, threshold: float, prevalence: float) -> Reached:
    """Return the results of the rule "score above threshold"; `prevalence` is a fraction."""
    scored = ranked.names[ranked.names["value"].notna()]
    flag = (scored["value"] > threshold).to_numpy()
    flagged, n_not_scored = Rate(int(flag.sum()), len(flag)), len(ranked.names) - len(flag)
    if not ranked.has_truth:
        return Reached(threshold, flagged, n_not_scored, None, NO_ESTIMATE, prevalence, NO_ESTIMATE)
    counts = count_confusion(flag, scored["is_member"].to_numpy())
    ppv = predictive_value(counts.recall, fpr=counts.false_positive_rate, prevalence=prevalence)
    f1 = f1_interval(counts, seed=0)
    return Reached(threshold, flagged, n_not_scored, counts, f1, prevalence, ppv)


def predictive_value(recall: Estimate, *, fpr: Estimate, prevalence: float) -> Estimate:
    """Return the share of members among the flagged, where `prevalence` of all are members.

    The value follows from Bayes' rule. The interval pairs the lower bound of one rate with the
    upper bound of the other, so it covers the truth in at least 90 of 100 cases. NaN if nobody
    would be flagged.
    """

    def share(hit: float, false: float) -> float:
        flagged = prevalence * hit + (1 - prevalence) * false
        return prevalence * hit / flagged if flagged > 0 else math.nan

    return Estimate(
        share(recall.value, fpr.value), share(recall.low, fpr.high), share(recall.high, fpr.low)
    )


def find_useful_thresholds(ranked: RankedNames) -> dict[str, float]:
    """Return the thresholds of `USEFUL`; NaN if the list does not give one.

    "fpr" is the lowest threshold with at most 1 % of the controls above it (needs 100 controls).
    Above "fdr" every tested name stands out, q <= 0.05 (only for the fixed score; NaN if no name
    stands out). "youden" has the largest difference of recall and false-positive rate. "paper" is
    0. All but "paper" are chosen on the names they judge.
    """
    thresholds, names = dict.fromkeys(USEFUL, math.nan) | {"paper": PAPER_THRESHOLD}, ranked.names
    tested = names[names["critical"].notna()]
    if (tested["q"] <= ALPHA).any():
        thresholds["fdr"] = float(tested["critical"].max())
    fpr, tpr, threshold = roc_curve(names["value"].to_numpy(), names["is_member"].to_numpy())
    if ranked.has_truth and not np.isnan(fpr + tpr).any():
        if (names["value"].notna() & ~names["is_member"]).sum() * LOW_FPR >= 1:
            thresholds["fpr"] = float(threshold[np.flatnonzero(fpr <= LOW_FPR)[-1]])
        thresholds["youden"] = float(threshold[np.argmax(tpr - fpr)])
    return {code: value if math.isfinite(value) else math.nan for code, value in thresholds.items()}


def choose_first_threshold(useful: dict[str, float]) -> float:
    """Return the threshold to begin with: q <= 0.05, else an FPR of 1 %, else Youden's, else 0."""
    return next(useful[code] for code in _FIRST if not math.isnan(useful[code]))


def read_threshold(text: str) -> float:
    """Return the threshold in a link; NaN if it is not a finite number."""
    with suppress(ValueError):
        return float(text) if math.isfinite(float(text)) else math.nan
    return math.nan


def _column(report: AuditReport, code: str) -> tuple[str, bool]:
    """Return a score's column in the table of names, and whether its axis is logarithmic."""
    scenario = report.scenario.number
    name = GENERAL_SCORE[scenario] if code == GENERAL_ALONE else code
    kind = find_score_kind(name, scenario=scenario)
    return (kind.column or name, kind.is_log) if kind else (name, name == POPULARITY)


def _axis(values: FloatArray, *, is_log: bool) -> ScoreAxis:
    drawable = values[np.isfinite(values) & ((values > 0) | (not is_log))]
    if is_log:
        logs = np.log10(drawable) if len(drawable) else np.zeros(1)
        return ScoreAxis(is_log, math.floor(logs.min()) - 1.0, float(math.ceil(logs.max())))
    if not len(drawable):
        return ScoreAxis(is_log, -1.0, 1.0)
    low, high = (
        min(float(drawable.min()), PAPER_THRESHOLD),
        max(float(drawable.max()), PAPER_THRESHOLD),
    )
    margin = (high - low or 1.0) / 50
    return ScoreAxis(is_log, low - margin, high + margin)


@dataclass(frozen=True, eq=False)
class RocView:
    """One score's ROC: steps at FPR [P], and the pointwise 95 % band of the TPR at the same FPR.

    `tpr` is the largest TPR with at most this share of controls flagged, and `threshold` the score
    above which names are then flagged; NaN where no score of the list is the threshold.
    """

    score: str
    n_members: int
    n_controls: int
    fpr: FloatArray
    tpr: FloatArray
    low: FloatArray
    high: FloatArray
    threshold: FloatArray


def make_roc_view(ranked: RankedNames) -> RocView:
    """Return the ROC of one score with a bootstrap band; empty without members or controls.

    The band is the percentile interval of a bootstrap over names, members and controls apart, the
    threshold chosen anew in each replicate. It is drawn without resampling names: of n controls
    drawn with replacement the (k+1)-th highest is the one at place floor(n B), B ~ Beta(k+1, n-k)
    (an order statistic of n uniforms), and the members above it are binomial.
    Source: Efron & Tibshirani 1993, chapter 13; David & Nagaraja 2003, section 2.1.
    """
    scored = ranked.names[ranked.names["value"].notna()].sort_values("value")
    members = scored["value"][scored["is_member"]].to_numpy()
    controls = scored["value"][~scored["is_member"]].to_numpy()[::-1]
    n, m = len(controls), len(members)
    if not ranked.has_truth or not n or not m:
        return RocView(ranked.score, m, n, *np.zeros((5, 0)))

    def share_above(limits: FloatArray) -> FloatArray:
        share: FloatArray = (m - np.searchsorted(members, limits, side="right")) / m
        return share

    rng = np.random.default_rng(0)
    n_allowed = _spread_counts(n)
    thresholds = controls[n_allowed[:-1]]
    tpr = np.append(share_above(thresholds), 1.0)
    bands = []
    for value, k in zip(tpr.tolist(), n_allowed[:-1].tolist(), strict=False):
        places = np.floor(n * rng.beta(k + 1, n - k, size=_N_REPLICATES)).astype(int)
        limits = controls[np.minimum(places, n - 1)]
        band = interval(value, rng.binomial(m, share_above(limits)) / m, n_total=m)
        # If all members are found, the bootstrap interval is too narrow.
        sure = wilson(1.0, n_total=m).low if value == 1 else math.inf
        bands.append((min(band.low, sure), band.high))
    low, high = np.array([*bands, (1.0, 1.0)]).T
    threshold = np.append(thresholds, math.nan)
    return RocView(ranked.score, m, n, n_allowed / n, tpr, low, high, threshold)


def fit_to_axes(
    curves: Sequence[RocView], *, is_log: bool
) -> tuple[list[RocView], tuple[float, float]]:
    """Return ROC curves for linear or logarithmic axes, and the smallest FPR and TPR shown.

    Logarithmic axes cannot show a rate of 0, so it is drawn at half of the smallest rate that the
    list resolves. On linear axes every curve begins at 0.
    """
    x = min((0.5 / curve.n_controls for curve in curves if curve.n_controls), default=0.5) * is_log
    y = min((0.5 / curve.n_members for curve in curves if curve.n_members), default=0.5) * is_log
    start, lowest = [] if is_log else [0.0], (x, y, y, y)
    fitted = []
    for view in curves:
        axes = zip((view.fpr, view.tpr, view.low, view.high), lowest, strict=True)
        fpr, tpr, low, high = (np.append(start, np.maximum(axis, floor)) for axis, floor in axes)
        threshold = np.append([math.nan] * len(start), view.threshold)
        fitted.append(
            RocView(view.score, view.n_members, view.n_controls, fpr, tpr, low, high, threshold)
        )
    return fitted, (x, y)


def _spread_counts(n: int) -> np.ndarray:
    """Return numbers of controls, 0 to n, at which the curve is read: all if few, else spread."""
    if n <= _N_POINTS:
        return np.arange(n + 1)
    spread = np.linspace(0, n, _N_POINTS // 2), np.geomspace(1, n, _N_POINTS // 2)
    return np.unique(np.concatenate(spread).round().astype(int))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Sorted p-values [P] of the listed controls, and the values expected of uniform ones.

    Of more than 300 controls, 300 are kept, spread evenly by rank; `n_controls` counts all.
    `half_width` is the 95 % Dvoretzky-Kiefer-Wolfowitz band for that many independent uniform
    p-values: Massart 1990, doi:10.1214/aop/1176990746. `n_low` counts p-values of at most 0.05.
    """

    p: FloatArray
    expected: FloatArray
    half_width: float
    n_low: int
    n_controls: int

    def band(self) -> tuple[list[float], list[float], list[float]]:
        """Return the corners of the band: expected p-values, lower and upper ends."""
        half = min(self.half_width, 0.5)
        corners = [0.0, half, 1 - half, 1.0]
        half = self.half_width
        return corners, [max(x - half, 0.0) for x in corners], [min(x + half, 1.0) for x in corners]


def make_calibration(report: AuditReport) -> Calibration | None:
    """Return the p-values of the listed controls, or None without controls."""
    p = np.sort(report.table.loc[report.table["is_control"], "p"].dropna())
    if not (n := len(p)):
        return None
    rows = np.unique(np.linspace(0, n - 1, min(n, _N_P_VALUES)).round().astype(int))
    half_width = math.sqrt(math.log(2 / 0.05) / (2 * n))
    return Calibration(p[rows], (rows + 1) / (n + 1), half_width, int((p <= ALPHA).sum()), n)
