"""What the Measures page says of one report beside its thresholds, read out of it and nothing more.

Comes in: a report. Goes out: frozen values; undefined numbers are NaN, what the report does not
hold is empty or None. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.membership.confusion import Confusion
from audit.membership.decisions import ALPHA
from audit.membership.metrics import GENERAL_ALONE
from audit.rates import FPRS, Estimate, FloatArray
from audit.report import AuditReport
from audit.view.linking_view import Linking, linking_of
from audit.view.name_view import is_canary_kind, name_kinds, number
from audit.view.overview import estimate
from audit.view.threshold import POPULARITY

_N_POINTS = 300
LOW_FPRS = FPRS[1:]
"""False-positive rates at which rankings are read here: 1 % and 0.1 %."""


@dataclass(frozen=True)
class RuleLine:
    """One yes/no rule against one kind of controls.

    `who` is "hospital", "general" or "guess": what the rule was applied to. `is_held_out` rules
    have thresholds chosen on the other half of the names. `n_undecided` is None where Monte-Carlo
    error is not known; `best`, `worst` count undecided names as judged rightly and wrongly.
    """

    stratum: str
    rule: str
    who: str
    is_held_out: bool
    counts: Confusion
    f1: Estimate
    accuracy: Estimate
    recall: Estimate
    precision: Estimate
    fpr: Estimate
    n_undecided: int | None
    best: Confusion | None
    worst: Confusion | None


@dataclass(frozen=True)
class ScoreLine:
    """How one score ranks members above one kind of controls; `tprs` at `LOW_FPRS`."""

    stratum: str
    score: str
    is_fixed: bool
    is_baseline: bool
    n_members: int
    n_controls: int
    n_not_scored: int
    auc: Estimate
    tprs: tuple[Estimate, ...]


@dataclass(frozen=True)
class CurveLine:
    """AUC of one score (fixed or baseline) after a part of the inputs or documents."""

    score: str
    is_baseline: bool
    n_units: tuple[int, ...]
    auc: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Calibration:
    """p-values [P] of the listed controls, sorted, beside what uniform ones would be.

    Of more than 300 controls 300 are kept, evenly by rank; `n_controls` counts all of them.

    `half_width` is the Dvoretzky-Kiefer-Wolfowitz band of C independent uniform p-values at 95 %.
    `n_low` counts p-values of at most 0.05.
    """

    p: FloatArray
    expected: FloatArray
    half_width: float
    n_low: int
    n_controls: int


@dataclass(frozen=True)
class Cohort:
    """Whether the group ("members" or "unknown") as a whole stands out from reference controls."""

    group: str
    p: float
    effect: float
    n_members: int
    n_controls: int
    n_left_out: int


@dataclass(frozen=True, eq=False)
class MeasuresView:
    """Everything that the Measures page shows of one audit without a choice of threshold."""

    scenario: int
    fixed_score: str
    has_truth: bool
    strata: tuple[str, ...]
    rules: tuple[RuleLine, ...]
    scores: tuple[ScoreLine, ...]
    curve: Mapping[str, tuple[CurveLine, ...]]
    linking: Linking | None
    calibration: Calibration | None
    cohort: Cohort


def measures_view(report: AuditReport) -> MeasuresView:
    """Return what the Measures page shows of a report."""
    strata: Mapping[str, Any] = report.measures["strata"]
    return MeasuresView(
        scenario=int(report.scenario["number"]),
        fixed_score=report.fixed_score,
        has_truth=bool(strata),
        strata=tuple(strata),
        rules=tuple(
            line
            for name, measured in strata.items()
            for line in _rules(name, measured, fixed=report.fixed_score)
        ),
        scores=tuple(
            line
            for name, measured in strata.items()
            for line in _scores(name, measured, fixed=report.fixed_score)
        ),
        curve={name: _curve(report, stratum=name) for name in strata} if report.curve else {},
        linking=linking_of(report.details.get("linking")),
        calibration=_calibration(report),
        cohort=_cohort(report.cohort),
    )


def _rules(stratum: str, measured: Mapping[str, Any], *, fixed: str) -> list[RuleLine]:
    found = [(rule, "hospital", False, record) for rule, record in measured["rules"].items()]
    found += [(r, "general", False, record) for r, record in measured["baseline_rules"].items()]
    who_of = {fixed: "hospital", GENERAL_ALONE: "general", POPULARITY: "guess"}
    found += [
        (score, who, True, measured["held_out"][score])
        for score, who in who_of.items()
        if score in measured["held_out"]
    ]
    found.append(("always_member", "guess", False, measured["always_member"]))
    return [
        _rule(stratum, rule, who=who, is_held_out=is_held_out, record=record)
        for rule, who, is_held_out, record in found
    ]


def _rule(
    stratum: str, rule: str, *, who: str, is_held_out: bool, record: Mapping[str, Any]
) -> RuleLine:
    rates = record["confusion"]
    undecided = record["n_undecided"]
    return RuleLine(
        stratum=stratum,
        rule=rule,
        who=who,
        is_held_out=is_held_out,
        counts=_counts(rates),
        f1=estimate(record["f1"]),
        accuracy=estimate(rates["accuracy"]),
        recall=estimate(rates["recall"]),
        precision=estimate(rates["precision"]),
        fpr=estimate(rates["false_positive_rate"]),
        n_undecided=None if undecided is None else int(undecided),
        best=_counts(record["all_right"]) if record["all_right"] else None,
        worst=_counts(record["all_wrong"]) if record["all_wrong"] else None,
    )


def _counts(record: Mapping[str, Any]) -> Confusion:
    return Confusion(*(int(record[name]) for name in ("tp", "fn", "fp", "tn")))


def _scores(stratum: str, measured: Mapping[str, Any], *, fixed: str) -> list[ScoreLine]:
    found = [(name, False, record) for name, record in measured["scores"].items()]
    found.sort(key=lambda item: item[0] != fixed)
    found += [(name, True, record) for name, record in measured["baselines"].items()]
    return [
        ScoreLine(
            stratum=stratum,
            score=name,
            is_fixed=name == fixed,
            is_baseline=is_baseline,
            n_members=int(record["n_members"]),
            n_controls=int(record["n_controls"]),
            n_not_scored=int(record["n_not_scored"]),
            auc=estimate(record["auc"]),
            tprs=tuple(estimate(record["tpr_at_fpr"].get(f"{fpr:g}")) for fpr in LOW_FPRS),
        )
        for name, is_baseline, record in found
    ]


def _curve(report: AuditReport, *, stratum: str) -> tuple[CurveLine, ...]:
    points = report.curve
    n_units = tuple(int(point["n"]) for point in points)
    return tuple(
        CurveLine(
            score,
            is_baseline=score != report.fixed_score,
            n_units=n_units,
            auc=tuple(number(point["strata"][stratum]["auc"].get(score)) for point in points),
        )
        for score in (report.fixed_score, GENERAL_ALONE, POPULARITY)
    )


def _calibration(report: AuditReport) -> Calibration | None:
    names = report.names
    found = [
        number(p)
        for p, truth, kind in zip(
            names["p_value"], names["is_member"], name_kinds(names), strict=True
        )
        if truth == 0 and p is not None and not is_canary_kind(kind)
    ]
    if not found:
        return None
    p, n = np.sort(found), len(found)
    rows = np.unique(np.linspace(0, n - 1, min(n, _N_POINTS)).round().astype(int))
    return Calibration(
        p=p[rows],
        expected=(rows + 1) / (n + 1),
        half_width=band_half_width(n),
        n_low=int((p <= ALPHA).sum()),
        n_controls=n,
    )


def band_half_width(n: int) -> float:
    """Return by how much the distribution of n uniform draws strays at most, in 95 % of cases.

    Source: Massart 1990, doi:10.1214/aop/1176990746 (the constant of Dvoretzky, Kiefer, Wolfowitz).
    """
    return math.sqrt(math.log(2 / 0.05) / (2 * n))


def _cohort(record: Mapping[str, Any]) -> Cohort:
    return Cohort(
        group=str(record["group"]),
        p=number(record["p"]),
        effect=number(record["effect"]),
        n_members=int(record["n_members"]),
        n_controls=int(record["n_controls"]),
        n_left_out=int(record["n_not_scored"]) + int(record["n_unmatched"]),
    )
