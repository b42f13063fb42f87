"""Kept audits: which there are, and which one a screen shows.

Comes in: reports, the digits of a link. Goes out: a line per audit, and the choice. Torch-free.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from audit.report import AuditReport


@dataclass(frozen=True)
class KeptAudit:
    """One line of the list of kept audits.

    `family` is the same for audits that differ in the general model alone; "" where the report does
    not say what was asked. `is_demo`: of the demo hospital, in which everything is invented.
    """

    digest: str
    at: str
    scenario: int
    general: str
    hospital: str
    n_names: int
    state: str
    family: str = ""
    is_demo: bool = False


def kept_audit(report: AuditReport, *, is_demo: bool = False) -> KeptAudit:
    """Return a report's line in the list of kept audits; `audit.demo.is_demo` says whose it is."""
    return KeptAudit(
        digest=report.digest,
        at=str(report.made.get("at", "")),
        scenario=int(report.scenario["number"]),
        general=report.models["general"]["name"],
        hospital=report.models["hospital"]["name"],
        n_names=report.n_names,
        state=report.verdict["state"],
        family=_family(report.question),
        is_demo=is_demo,
    )


def same_but_reference(audit: KeptAudit, *, kept: Sequence[KeptAudit]) -> tuple[KeptAudit, ...]:
    """Return the audits that differ from this one in the general model alone, as they are kept."""
    return tuple(
        other
        for other in kept
        if audit.family and other.family == audit.family and other.digest != audit.digest
    )


def _family(question: Mapping[str, object]) -> str:
    if not question.get("general") or not question.get("hospital"):
        return ""
    rest = {key: value for key, value in question.items() if key != "general"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def choose_audit(
    wanted: str, *, kept: Sequence[KeptAudit], demo: Mapping[str, str]
) -> KeptAudit | None:
    """Return the audit to show: the one whose digest begins so, else the newest own, else the demo.

    `wanted` comes from a link, and is "" for none; one that fits no audit, or several, gives None.
    `demo` are the demo's digests by name: where it is alone, its headline audit comes first.
    """
    if wanted:
        if not re.fullmatch("[0-9a-f]{4,64}", wanted):
            return None
        found = [audit for audit in kept if audit.digest.startswith(wanted)]
        return found[0] if len(found) == 1 else None
    shown = [audit for audit in kept if not audit.is_demo] or kept
    headline = [audit for audit in shown if audit.digest == demo.get("masked_lm")]
    return max(headline or shown, key=lambda audit: audit.at, default=None)


def other_scenario(
    audit: KeptAudit, *, kept: Iterable[KeptAudit], demo: Mapping[str, str]
) -> KeptAudit | None:
    """Return the audit of the same pair in the other scenario: the demo's, else the newest."""
    partners = [
        other
        for other in kept
        if (other.general, other.hospital) == (audit.general, audit.hospital)
        and other.scenario != audit.scenario
        and other.n_names == audit.n_names
        and other.is_demo == audit.is_demo
    ]
    of_demo = set(demo.values())
    return max(partners, key=lambda other: (other.digest in of_demo, other.at), default=None)
