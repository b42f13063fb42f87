"""The published figures: tables 1 and 2 of the paper, to stand beside an audit's own.

Comes in: nothing. Goes out: rows as printed. The facts are in `paper_tables.json`.

Source: Nakamura et al., section 5.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from audit.attack.decisions import ALPHA, Confusion
from audit.attack.metrics import GENERAL_ALONE, RoleMeasures
from audit.report.compare import AucDifference, compare_audits
from audit.report.names import (
    KindScores,
    StrongName,
    is_canary_kind,
    kind_scores,
    name_kinds,
    number,
    strongest_names,
)
from audit.report.report import AuditReport, name_labels
from audit.report.threshold import POPULARITY
from audit.stats import FPRS, Estimate, FloatArray, Rate, wilson

HEADLINE_FPR = "0.01"
ATTACKS = {1: "generation", 2: "masked_lm"}
PAPER_RULE = {1: "name_occurs", 2: "difference_above_zero"}
"""The rule of the paper's tables, by scenario."""
PAPER_RULE_ON_GENERAL = {1: "name_occurs_general"}
"""The same rule with M_general attacked; in scenario 2 the rule itself compares the two models."""


@dataclass(frozen=True)
class Ranking:
    """How well one score ranks members above controls.

    `who` is "attack", "general_alone" or "popularity"; `tpr` is read at an FPR of 1 %, NaN where
    that is not resolvable.
    """

    who: str
    auc: Estimate
    tpr: Estimate


@dataclass(frozen=True)
class StratumFigures:
    """The rankings of one kind of controls ("all", "easy", "hard", ...), the attack's first."""

    stratum: str
    n_members: int
    n_controls: int
    rankings: tuple[Ranking, ...]


@dataclass(frozen=True)
class RuleFigures:
    """What the paper's rule reaches; `model` is "hospital", "general" or "always_member"."""

    stratum: str
    attack: str
    model: str
    f1: Estimate
    accuracy: Estimate
    recall: Estimate
    precision: Estimate
    counts: tuple[int, int, int, int]


@dataclass(frozen=True)
class MentionBin:
    """Members mentioned `low` to `high` times (None: or more), and the share that stands out."""

    low: int
    high: int | None
    n_names: int
    n_flagged: int
    share: Estimate


@dataclass(frozen=True, eq=False)
class Overview:
    """What one screen says of one audit.

    Attributes
    ----------
    state, english, japanese
        The verdict, and its sentence in both languages.
    flagged
        Members and unknown names with q <= 0.05, of those tested.
    controls_flagged
        The same of the listed controls, among themselves.
    strata, rules
        Empty without truth.
    canaries_english, canaries_japanese
        What planted names show, in a sentence of its own; "" where none were planted.
    """

    digest: str
    at: str
    scenario: int
    general: str
    hospital: str
    state: str
    english: str
    japanese: str
    now_english: str
    now_japanese: str
    fixed_score: str
    flagged: Rate
    controls_flagged: Rate
    n_reference: int
    strata: tuple[StratumFigures, ...]
    rules: tuple[RuleFigures, ...]
    kinds: tuple[KindScores, ...]
    mentions: tuple[MentionBin, ...]
    strongest: tuple[StrongName, ...]
    notes: tuple[str, ...]
    canaries_english: str = ""
    canaries_japanese: str = ""

    @property
    def is_log(self) -> bool:
        """Whether the fixed score is a product of masses (older versions), drawn by its log."""
        return self.fixed_score == "product"

    @property
    def attack(self) -> str:
        """Return "generation" or "masked_lm"."""
        return ATTACKS[self.scenario]

    def stratum(self, name: str) -> StratumFigures | None:
        """Return the rankings against one kind of controls, if the list has them."""
        return next((s for s in self.strata if s.stratum == name), None)


def overview_of(report: AuditReport) -> Overview:
    """Return what one screen says of a report."""
    verdict, names = report.verdict, report.names
    scenario = int(report.scenario["number"])
    is_control = [k not in ("member", "unknown", "planted", "canary") for k in name_kinds(names)]
    strata: Mapping[str, Any] = report.measures["strata"]
    canaries: Mapping[str, Any] = report.details.get("canaries") or {}
    return Overview(
        digest=report.digest,
        at=str(report.made.get("at", "")),
        scenario=scenario,
        general=report.models["general"]["name"],
        hospital=report.models["hospital"]["name"],
        state=verdict["state"],
        english=verdict["english"],
        japanese=verdict["japanese"],
        now_english=str((verdict.get("what_now") or {}).get("english", "")),
        now_japanese=str((verdict.get("what_now") or {}).get("japanese", "")),
        fixed_score=report.fixed_score,
        flagged=Rate(int(verdict["n_flagged"]), int(verdict["n_tested"])),
        controls_flagged=Rate(
            sum(f and c for f, c in zip(report.stands_out, is_control, strict=True)),
            sum(is_control),
        ),
        n_reference=int(report.candidates["n_reference"]),
        strata=tuple(
            _overview_stratum(name, measured, fixed=report.fixed_score)
            for name, measured in strata.items()
        ),
        rules=tuple(
            row
            for name, measured in strata.items()
            for row in _overview_rules(name, measured, scenario)
        ),
        kinds=kind_scores(names),
        mentions=tuple(map(_mention_bin, report.mentions)),
        strongest=strongest_names(report),
        notes=tuple(report.notes),
        canaries_english=str(canaries.get("english", "")),
        canaries_japanese=str(canaries.get("japanese", "")),
    )


def estimate(record: Mapping[str, Any] | None) -> Estimate:
    """Return an estimate that a report holds; what is not there is NaN."""
    values = record or {}
    return Estimate(*(number(values.get(key)) for key in ("value", "low", "high")))


def _overview_stratum(name: str, measured: Mapping[str, Any], *, fixed: str) -> StratumFigures:
    found = {"attack": measured["scores"][fixed]}
    found |= {
        who: measured["baselines"][who]
        for who in (GENERAL_ALONE, "popularity")
        if who in measured["baselines"]
    }
    return StratumFigures(
        stratum=name,
        n_members=int(measured["n_members"]),
        n_controls=int(measured["n_controls"]),
        rankings=tuple(
            Ranking(who, estimate(r["auc"]), estimate(r["tpr_at_fpr"].get(HEADLINE_FPR)))
            for who, r in found.items()
        ),
    )


def _overview_rules(stratum: str, measured: Mapping[str, Any], scenario: int) -> list[RuleFigures]:
    found = [("hospital", measured["rules"].get(PAPER_RULE[scenario]))]
    on_general = PAPER_RULE_ON_GENERAL.get(scenario, "")
    found.append(("general", measured["baseline_rules"].get(on_general)))
    found.append(("always_member", measured["always_member"]))
    return [
        RuleFigures(
            stratum=stratum,
            attack=ATTACKS[scenario],
            model=model,
            f1=estimate(rule["f1"]),
            accuracy=estimate(rule["confusion"]["accuracy"]),
            recall=estimate(rule["confusion"]["recall"]),
            precision=estimate(rule["confusion"]["precision"]),
            counts=_overview_counts(rule["confusion"]),
        )
        for model, rule in found
        if rule is not None
    ]


def _overview_counts(record: Mapping[str, Any]) -> tuple[int, int, int, int]:
    return int(record["tp"]), int(record["fn"]), int(record["fp"]), int(record["tn"])


def _mention_bin(record: Mapping[str, Any]) -> MentionBin:
    flagged = record["flagged"]
    return MentionBin(
        low=int(record["from"]),
        high=None if record["to"] is None else int(record["to"]),
        n_names=int(record["n_names"]),
        n_flagged=int(flagged["n_hits"]),
        share=estimate(flagged),
    )


@dataclass(frozen=True)
class ExposureGroup:
    """Names planted `n_mentions` times (None: all of them); shares with their counts.

    `bits` is the mean exposure, `found` counts names with p <= alpha, `above_twin` pairs in which
    the planted name scores higher, `above_twin_p` is that number's exact one-sided p-value.
    """

    n_mentions: int | None
    n_names: int
    n_not_scored: int
    bits: Estimate
    found: Rate
    above_twin: Rate
    above_twin_p: float


@dataclass(frozen=True)
class ScoreExposure:
    """Exposure by one score.

    Attributes
    ----------
    n_held_out
        Held-out names with a score.
    max_bits, smallest_p
        The most that so many held-out names can show.
    bits_without_leak
        What a name shows on average that is like the held-out ones.
    found_from
        Smallest planted number of mentions from which on half of the names are found; infinite
        where none is, or a bound is beyond the planted numbers.
    whole, groups
        All planted names, and by number of mentions.
    """

    score: str
    is_fixed: bool
    is_baseline: bool
    n_held_out: int
    max_bits: float
    smallest_p: float
    bits_without_leak: float
    found_from: Estimate
    whole: ExposureGroup
    groups: tuple[ExposureGroup, ...]


@dataclass(frozen=True)
class PlantedName:
    """One planted name by the fixed score; without pairs it has no twin."""

    name_id: int
    label: str
    n_mentions: int
    score: float
    bits: float
    p: float
    twin_id: int | None
    twin_score: float


@dataclass(frozen=True)
class ExposureView:
    """Everything that an audit says of its planted names; the fixed score's exposure comes first.

    `scores` is empty where no held-out name has a score.
    """

    n_planted: int
    n_held_out: int
    is_paired: bool
    alpha: float
    english: str
    japanese: str
    scores: tuple[ScoreExposure, ...]
    names: tuple[PlantedName, ...]


def exposure_view(report: AuditReport) -> ExposureView | None:
    """Return what a report says of planted names; None where none were planted."""
    record: Mapping[str, Any] | None = report.details.get("canaries")
    if not record:
        return None
    fixed = str(record["fixed_score"])
    found = [_score(name, one, fixed=fixed) for name, one in record["scores"].items()]
    labels = name_labels(report.names)
    found.sort(key=lambda one: (not one.is_fixed, not one.is_baseline))
    return ExposureView(
        n_planted=int(record["n_planted"]),
        n_held_out=int(record["n_held_out"]),
        is_paired=bool(record["is_paired"]),
        alpha=float(record["alpha"]),
        english=str(record["english"]),
        japanese=str(record["japanese"]),
        scores=tuple(found),
        names=tuple(_name(one, labels=labels) for one in record["names"]),
    )


def _score(name: str, record: Mapping[str, Any], *, fixed: str) -> ScoreExposure:
    reached = record["found_from"]
    bounds = (number(reached[key]) for key in ("value", "low", "high"))
    return ScoreExposure(
        score=name,
        is_fixed=name == fixed,
        is_baseline=name == GENERAL_ALONE,
        n_held_out=int(record["n_held_out"]),
        max_bits=float(record["max_bits"]),
        smallest_p=float(record["smallest_p"]),
        bits_without_leak=float(record["bits_without_leak"]),
        found_from=Estimate(*(math.inf if math.isnan(bound) else bound for bound in bounds)),
        whole=_group(record["all"]),
        groups=tuple(map(_group, record["groups"])),
    )


def _group(record: Mapping[str, Any]) -> ExposureGroup:
    n_mentions = record["n_mentions"]
    return ExposureGroup(
        n_mentions=None if n_mentions is None else int(n_mentions),
        n_names=int(record["n_names"]),
        n_not_scored=int(record["n_not_scored"]),
        bits=estimate(record["bits"]),
        found=rate_of(record["found"]),
        above_twin=rate_of(record["above_twin"]),
        above_twin_p=number(record["above_twin_p"]),
    )


def rate_of(record: Mapping[str, Any]) -> Rate:
    """Return the counts of a rate that a report holds."""
    return Rate(int(record["n_hits"]), int(record["n_total"]))


def _name(record: Mapping[str, Any], *, labels: Sequence[str]) -> PlantedName:
    twin = record["twin_id"]
    return PlantedName(
        name_id=int(record["name_id"]),
        label=labels[int(record["name_id"])],
        n_mentions=int(record["n_mentions"]),
        score=number(record["score"]),
        bits=number(record["bits"]),
        p=number(record["p"]),
        twin_id=None if twin is None else int(twin),
        twin_score=number(record["twin_score"]),
    )


def role_lines(report: AuditReport) -> tuple[RoleMeasures, ...]:
    """Return a report's roles, most members first; () where the list has none."""
    return tuple(map(_role_view_line, report.details.get("roles") or ()))


def _role_view_line(record: Mapping[str, Any]) -> RoleMeasures:
    counts = ("n_members", "n_controls", "n_not_scored", "n_role_controls")
    n_members, n_controls, n_not_scored, n_role_controls = (int(record[key]) for key in counts)
    return RoleMeasures(
        role=str(record["role"]),
        n_members=n_members,
        n_controls=n_controls,
        n_not_scored=n_not_scored,
        n_role_controls=n_role_controls,
        median_mentions=number(record["median_mentions"]),
        auc=estimate(record["auc"]),
        general_auc=estimate(record["general_auc"]),
        flagged=rate_of(record["flagged"]),
        general_flagged=rate_of(record["general_flagged"]),
        role_controls_flagged=rate_of(record["role_controls_flagged"]),
        above=rate_of(record["above"]) if record["above"] else None,
    )


LINKED_BY = ("hospital_against_general", "hospital_alone", "general_alone")
"""What a passage's names are ranked by; the first one is the attack."""


@dataclass(frozen=True)
class LinkingLine:
    """How often passages fit their own patient's name best; `by` is one of `LINKED_BY` or "chance".

    `top_1`, `top_5` are shares of passages; their Wilson intervals (NaN for chance) take passages
    as independent, which several passages of one patient are not.
    """

    by: str
    top_1: Estimate
    top_5: Estimate
    median_rank: float


@dataclass(frozen=True, eq=False)
class Linking:
    """Which name fits which passage: lines, and the share of passages [R] up to each rank [R]."""

    n_passages: int
    n_names: int
    lines: tuple[LinkingLine, ...]
    ranks: FloatArray
    share: FloatArray


def linking_of(record: Mapping[str, Any] | None) -> Linking | None:
    """Return what a report says of linking; None where no passage says whose it is."""
    if not record:
        return None
    n_passages, n_names = int(record["n_passages"]), int(record["n_names"])

    def line(by: str, n_trials: int) -> LinkingLine:
        found = record[by]
        top_1, top_5 = (
            wilson(found[key], n_total=n_trials)
            if n_trials
            else Estimate(found[key], math.nan, math.nan)
            for key in ("top_1", "top_5")
        )
        return LinkingLine(by, top_1, top_5, float(found["median_rank"]))

    lines = [line(by, n_passages) for by in LINKED_BY] + [line("chance", 0)]
    found = np.sort([float(one["rank"]) for one in record["rank_by_passage"]])
    ranks = np.unique(found)
    share = np.searchsorted(found, ranks, side="right") / max(len(found), 1)
    return Linking(n_passages, n_names, tuple(lines), ranks=ranks, share=share)


MAX_REFERENCES = 8
"""References that are shown beside an audit's own, the newest first."""


@dataclass(frozen=True)
class ReferenceStratum:
    """The fixed score against one kind of controls, with one reference.

    `alone` is the AUC of the reference itself. `recall` and `fpr` are read at a threshold that was
    chosen on the other half of the names, at an FPR of 5 %.
    """

    stratum: str
    n_members: int
    n_controls: int
    auc: Estimate
    alone: Estimate
    recall: Estimate
    fpr: Estimate


@dataclass(frozen=True)
class ReferenceLine:
    """One audit of the question; `is_own` marks the one that the others stand beside."""

    digest: str
    name: str
    model: str
    at: str
    is_own: bool
    state: str
    flagged: Rate
    strata: tuple[ReferenceStratum, ...]


@dataclass(frozen=True)
class ReferenceDifference:
    """The own audit minus another: AUCs of the same names (paired), and names that stand out."""

    digest: str
    name: str
    aucs: tuple[AucDifference, ...]
    flagged: Estimate
    p: float


@dataclass(frozen=True)
class ReferenceView:
    """Audits that differ in the reference alone, the own first, and the others' differences.

    `n_left_out` older ones are not shown.
    """

    lines: tuple[ReferenceLine, ...]
    differences: tuple[ReferenceDifference, ...]
    n_left_out: int = 0


def reference_view(
    own: AuditReport, *, others: Sequence[AuditReport], n_left_out: int = 0
) -> ReferenceView:
    """Return an audit beside those that differ in the reference alone, the newest first."""
    shown = others[:MAX_REFERENCES]
    return ReferenceView(
        lines=(
            _reference_view_line(own, is_own=True),
            *(_reference_view_line(other, is_own=False) for other in shown),
        ),
        differences=tuple(_difference(own, other) for other in shown),
        n_left_out=n_left_out + len(others) - len(shown),
    )


def _reference_view_line(report: AuditReport, *, is_own: bool) -> ReferenceLine:
    strata: Mapping[str, Any] = report.measures["strata"]
    general = report.models["general"]
    return ReferenceLine(
        digest=report.digest,
        name=str(general["name"]),
        model=str(general.get("digest", "")),
        at=str(report.made.get("at", "")),
        is_own=is_own,
        state=str(report.verdict["state"]),
        flagged=Rate(int(report.verdict["n_flagged"]), int(report.verdict["n_tested"])),
        strata=tuple(
            _reference_view_stratum(name, measured, fixed=report.fixed_score)
            for name, measured in strata.items()
            if name != "all" or len(strata) == 1
        ),
    )


def _reference_view_stratum(
    name: str, measured: Mapping[str, Any], *, fixed: str
) -> ReferenceStratum:
    rates = measured["held_out"][fixed]["confusion"]
    return ReferenceStratum(
        stratum=name,
        n_members=int(measured["n_members"]),
        n_controls=int(measured["n_controls"]),
        auc=estimate(measured["scores"][fixed]["auc"]),
        alone=estimate(measured["baselines"][GENERAL_ALONE]["auc"]),
        recall=estimate(rates["recall"]),
        fpr=estimate(rates["false_positive_rate"]),
    )


def _difference(own: AuditReport, other: AuditReport) -> ReferenceDifference:
    found = compare_audits(own, other=other)
    return ReferenceDifference(
        digest=other.digest,
        name=str(other.models["general"]["name"]),
        aucs=found.aucs,
        flagged=found.tested.difference,
        p=found.tested.p,
    )


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
            for line in _measures_view_rules(name, measured, fixed=report.fixed_score)
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


def _measures_view_rules(
    stratum: str, measured: Mapping[str, Any], *, fixed: str
) -> list[RuleLine]:
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
        counts=_measures_view_counts(rates),
        f1=estimate(record["f1"]),
        accuracy=estimate(rates["accuracy"]),
        recall=estimate(rates["recall"]),
        precision=estimate(rates["precision"]),
        fpr=estimate(rates["false_positive_rate"]),
        n_undecided=None if undecided is None else int(undecided),
        best=_measures_view_counts(record["all_right"]) if record["all_right"] else None,
        worst=_measures_view_counts(record["all_wrong"]) if record["all_wrong"] else None,
    )


def _measures_view_counts(record: Mapping[str, Any]) -> Confusion:
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


_FILE = Path(__file__).resolve().parent / "paper_tables.json"


@dataclass(frozen=True)
class PublishedRow:
    """One printed row: rates as fractions, counts as (tp, fn, fp, tn) or None where not printed.

    Attributes
    ----------
    controls
        "easy" or "hard".
    attack
        "generation" (scenario 1) or "masked_lm" (scenario 2).
    model
        "hospital" or "general": the model that was attacked.
    is_implied
        True where the counts are not printed but follow from the rates.
    """

    controls: str
    attack: str
    model: str
    f1: float
    accuracy: float
    recall: float
    precision: float
    counts: tuple[int, int, int, int] | None
    is_implied: bool


@dataclass(frozen=True)
class PublishedTables:
    """Tables 1 and 2, and where they stand."""

    source: str
    n_members: int
    n_controls: int
    table1: tuple[PublishedRow, ...]
    table2: tuple[PublishedRow, ...]

    def row(self, *, controls: str, attack: str, model: str) -> PublishedRow | None:
        """Return the first printed row of this kind; None if the paper has none."""
        for row in self.table1 + self.table2:
            if (row.controls, row.attack, row.model) == (controls, attack, model):
                return row
        return None


@cache
def published_tables() -> PublishedTables:
    """Return the paper's tables 1 and 2."""
    facts = json.loads(_FILE.read_text(encoding="utf-8"))
    return PublishedTables(
        source=facts["source"],
        n_members=facts["n_members"],
        n_controls=facts["n_controls"],
        table1=tuple(map(_row, facts["table1"])),
        table2=tuple(map(_row, facts["table2"])),
    )


def _row(facts: dict[str, Any]) -> PublishedRow:
    counts = tuple(facts[name] for name in ("tp", "fn", "fp", "tn") if name in facts)
    return PublishedRow(
        controls=facts["controls"],
        attack=facts["attack"],
        model=facts["model"],
        f1=facts["f1"],
        accuracy=facts["accuracy"],
        recall=facts["recall"],
        precision=facts["precision"],
        counts=(counts[0], counts[1], counts[2], counts[3]) if counts else None,
        is_implied="counts" in facts,
    )
