"""Members by role (patient, staff, ...), as a report holds them: counts, AUC, names that stand out.

Comes in: a report. Goes out: frozen values; undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit.rates import Estimate, Rate
from audit.report import AuditReport
from audit.view.exposure_view import rate_of
from audit.view.name_view import number
from audit.view.overview import estimate


@dataclass(frozen=True)
class RoleLine:
    """One role's members against all listed controls.

    `role` is the auditor's own word (untrusted), "" for names without one. `flagged` and
    `general_flagged` are members with q <= 0.05 by the attack and by M_general alone; `above` those
    above the free threshold, None where none was asked for.
    """

    role: str
    n_members: int
    n_controls: int
    n_not_scored: int
    n_role_controls: int
    median_mentions: float
    auc: Estimate
    general_auc: Estimate
    flagged: Rate
    general_flagged: Rate
    role_controls_flagged: Rate
    above: Rate | None


def role_lines(report: AuditReport) -> tuple[RoleLine, ...]:
    """Return a report's roles, most members first; () where the list has none."""
    return tuple(map(_line, report.details.get("roles") or ()))


def _line(record: Mapping[str, Any]) -> RoleLine:
    counts = ("n_members", "n_controls", "n_not_scored", "n_role_controls")
    n_members, n_controls, n_not_scored, n_role_controls = (int(record[key]) for key in counts)
    return RoleLine(
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
