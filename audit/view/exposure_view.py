"""What planted names show, as a report holds it: exposure in bits, names found, pairs with twins.

Comes in: a report. Goes out: frozen values; undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.membership.metrics import GENERAL_ALONE
from audit.rates import Estimate, Rate
from audit.report import AuditReport, name_labels
from audit.view.name_view import number
from audit.view.overview import estimate


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
