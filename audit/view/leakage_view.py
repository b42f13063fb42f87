"""Leakage against missed names, for the screen: arms as points, and patients left or caught.

Comes in: the tables of a kept leakage experiment as plain values. Goes out: frozen values.
Undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit.errors import AuditError
from audit.rates import Estimate, Rate

RAW, PERFECT, TAGGER = "raw", "perfect", "tagger"
ALL, LEFT, CAUGHT = "all", "left", "caught"


@dataclass(frozen=True)
class LeakageArm:
    """One way of making the notes, and what it leaves of names.

    `kind` is "raw", "perfect", "tagger", "mentions" or "patients"; `share` what was asked for.
    """

    code: str
    kind: str
    share: float
    tagger: str
    left: Rate
    n_part: int
    n_exposed: int
    n_patients: int
    staff_left: Rate
    other_chars: float


@dataclass(frozen=True)
class Leak:
    """How well an attack tells a group of an arm's patients from controls."""

    arm: LeakageArm
    scenario: int
    controls: str
    group: str
    n_members: int
    n_controls: int
    auc: Estimate
    tpr_at_10: Estimate
    minus_perfect: Estimate
    flagged: Rate
    digest: str


@dataclass(frozen=True)
class LeakageView:
    """A kept leakage experiment.

    Attributes
    ----------
    language, mode, epochs, seed, scenarios
        As asked.
    n_notes, n_patients
        Of the demo hospital.
    arms, leaks
        In the order of the experiment.
    """

    language: str
    mode: str
    epochs: float
    seed: int
    scenarios: tuple[int, ...]
    n_notes: int
    n_patients: int
    arms: tuple[LeakageArm, ...]
    leaks: tuple[Leak, ...]

    def of(self, *, scenario: int, controls: str, group: str = ALL) -> tuple[Leak, ...]:
        """Return the rows of one attack, one kind of controls and one group of patients."""
        wanted = (scenario, controls, group)
        return tuple(one for one in self.leaks if (one.scenario, one.controls, one.group) == wanted)

    def split(self, *, scenario: int, controls: str) -> tuple[tuple[Leak, Leak], ...]:
        """Return (left, caught) of the arms that have patients of both groups."""
        caught = {
            one.arm.code: one for one in self.of(scenario=scenario, controls=controls, group=CAUGHT)
        }
        return tuple(
            (one, caught[one.arm.code])
            for one in self.of(scenario=scenario, controls=controls, group=LEFT)
            if one.arm.code in caught
        )


def leakage_view(tables: Mapping[str, Any]) -> LeakageView:
    """Return what the tables of an experiment say.

    Raises
    ------
    AuditError
        If they were written by another version.
    """
    try:
        order = tables["order"]
        arms = {row["code"]: _arm(row) for row in tables["arms"]}
        return LeakageView(
            language=str(order["language"]),
            mode=str(order["mode"]),
            epochs=float(order["epochs"]),
            seed=int(order["seed"]),
            scenarios=tuple(int(number) for number in order["scenarios"]),
            n_notes=int(tables["n_notes"]),
            n_patients=int(tables["n_patients"]),
            arms=tuple(arms.values()),
            leaks=tuple(_leak(row, arms[row["code"]]) for row in tables["leaks"]),
        )
    except (KeyError, TypeError, ValueError):
        raise AuditError(
            "This experiment was written by another version.", do="Run it again."
        ) from None


def _arm(row: Mapping[str, Any]) -> LeakageArm:
    return LeakageArm(
        code=str(row["code"]),
        kind=str(row["kind"]),
        share=_number(row["share"]),
        tagger=str(row["tagger"]),
        left=Rate(row["n_mentions"] - row["n_whole"], row["n_mentions"]),
        n_part=int(row["n_part"]),
        n_exposed=int(row["n_exposed"]),
        n_patients=int(row["n_patients"]),
        staff_left=Rate(row["n_staff"] - row["n_staff_whole"], row["n_staff"]),
        other_chars=float(row["other_chars"]),
    )


def _leak(row: Mapping[str, Any], arm: LeakageArm) -> Leak:
    return Leak(
        arm=arm,
        scenario=int(row["scenario"]),
        controls=str(row["controls"]),
        group=str(row["group"]),
        n_members=int(row["n_members"]),
        n_controls=int(row["n_controls"]),
        auc=_estimate(row["auc"]),
        tpr_at_10=_estimate(row["tpr_at_10"]),
        minus_perfect=_estimate(row["minus_perfect"]),
        flagged=Rate(int(row["flagged"]["n_hits"]), int(row["flagged"]["n_total"])),
        digest=str(row["digest"]),
    )


def _estimate(row: Mapping[str, Any]) -> Estimate:
    return Estimate(*(_number(row[name]) for name in ("value", "low", "high")))


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
