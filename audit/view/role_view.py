"""Members by role (patient, staff, ...), as a report holds them: counts, AUC, names that stand out.

Comes in: a report. Goes out: frozen values; undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.membership.by_role import RoleMeasures
from audit.report import AuditReport
from audit.view.exposure_view import rate_of
from audit.view.name_view import number
from audit.view.overview import estimate


def role_lines(report: AuditReport) -> tuple[RoleMeasures, ...]:
    """Return a report's roles, most members first; () where the list has none."""
    return tuple(map(_line, report.details.get("roles") or ()))


def _line(record: Mapping[str, Any]) -> RoleMeasures:
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
