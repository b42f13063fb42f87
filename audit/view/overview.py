"""What the Overview page says of one report, read out of it and nothing more.

Comes in: a report. Goes out: one frozen value, its numbers with their intervals. Undefined numbers
are NaN. Torch-free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit.membership.metrics import GENERAL_ALONE
from audit.rates import Estimate, Rate
from audit.report import AuditReport
from audit.view.name_view import (
    KindScores,
    StrongName,
    kind_scores,
    name_kinds,
    number,
    strongest_names,
)

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
            _stratum(name, measured, fixed=report.fixed_score) for name, measured in strata.items()
        ),
        rules=tuple(
            row for name, measured in strata.items() for row in _rules(name, measured, scenario)
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


def _stratum(name: str, measured: Mapping[str, Any], *, fixed: str) -> StratumFigures:
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


def _rules(stratum: str, measured: Mapping[str, Any], scenario: int) -> list[RuleFigures]:
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
            counts=_counts(rule["confusion"]),
        )
        for model, rule in found
        if rule is not None
    ]


def _counts(record: Mapping[str, Any]) -> tuple[int, int, int, int]:
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
