"""One question asked with several models in M_general's place, and what each of them makes of it.

Comes in: reports of the same hospital model, names, scenario and settings. Goes out: frozen values;
undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.membership.metrics import GENERAL_ALONE
from audit.rates import Estimate, Rate
from audit.report import AuditReport
from audit.view.compare import AucDifference, compare_audits
from audit.view.overview import estimate

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
        lines=(_line(own, is_own=True), *(_line(other, is_own=False) for other in shown)),
        differences=tuple(_difference(own, other) for other in shown),
        n_left_out=n_left_out + len(others) - len(shown),
    )


def _line(report: AuditReport, *, is_own: bool) -> ReferenceLine:
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
            _stratum(name, measured, fixed=report.fixed_score)
            for name, measured in strata.items()
            if name != "all" or len(strata) == 1
        ),
    )


def _stratum(name: str, measured: Mapping[str, Any], *, fixed: str) -> ReferenceStratum:
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
