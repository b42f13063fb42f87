"""Names on a screen: scores by kind of names, and the names that stand out most.

Comes in: a report's per-name columns. Goes out: frozen values; undefined numbers are NaN.
Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.membership.candidates import CANARY, is_canary
from audit.report import AuditReport, name_labels

N_STRONGEST = 10
NAME_EVIDENCE = {
    1: ("hospital_product", "general_product"),
    2: ("hospital_posterior", "general_posterior"),
}
"""Columns that show a name's evidence with each model, by scenario."""
KINDS = (
    "member", "unknown", "easy", "hard", "recombined", "given", "reference", "planted", "canary",
)  # fmt: skip
"""Kinds of names on a screen, in their order; "planted" and "canary" never existed, and only the
first of them are in the notes."""


@dataclass(frozen=True)
class KindScores:
    """Scores of one kind of names, of `KINDS`.

    Scores that are missing or infinite cannot be drawn and are counted in `n_not_scored`.
    """

    kind: str
    scores: tuple[float, ...]
    n_not_scored: int

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Return the lower quartile, the median and the upper quartile; NaN without a score."""
        if not self.scores:
            return math.nan, math.nan, math.nan
        low, middle, high = np.quantile(self.scores, [0.25, 0.5, 0.75])
        return float(low), float(middle), float(high)


@dataclass(frozen=True)
class StrongName:
    """One of the names that stand out most; its parts are for the masking helper only."""

    name_id: int
    label: str
    first: str
    last: str
    kind: str
    n_mentions: int | None
    hospital: float
    general: float
    score: float
    standard_error: float
    q: float


def name_kinds(names: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the kind of every name of a report, one of `KINDS`."""
    columns = (names["is_member"], names["control_kind"], names["role"])
    return [_kind(*cells) for cells in zip(*columns, strict=True)]


def is_canary_kind(kind: str) -> bool:
    """Whether names of this kind never existed, and belong to no table of patients."""
    return kind in ("planted", CANARY)


def _kind(truth: int | None, control_kind: str, role: str) -> str:
    if truth is None:
        return "unknown"
    if is_canary(truth, control_kind=control_kind, role=role):
        return "planted" if truth else CANARY
    return "member" if truth else control_kind


def kind_scores(names: Mapping[str, Sequence[Any]]) -> tuple[KindScores, ...]:
    """Return the scores of every kind of names on the list, members first."""
    scores: dict[str, list[float]] = {}
    for kind, score in zip(name_kinds(names), names["score"], strict=True):
        scores.setdefault(kind, []).append(number(score))
    return tuple(
        KindScores(
            kind,
            scores=tuple(s for s in found if math.isfinite(s)),
            n_not_scored=sum(not math.isfinite(s) for s in found),
        )
        for kind, found in sorted(scores.items(), key=lambda item: KINDS.index(item[0]))
    )


def strongest_names(report: AuditReport) -> tuple[StrongName, ...]:
    """Return the tested names that stand out, best q first; no controls, no canaries."""
    names = report.names
    hospital, general = (names[column] for column in NAME_EVIDENCE[int(report.scenario["number"])])
    kinds, labels = name_kinds(names), name_labels(names)
    both = enumerate(zip(kinds, report.stands_out, strict=True))
    rows = [row for row, (kind, out) in both if kind in ("member", "unknown") and out]
    rows.sort(key=lambda row: (names["q_value"][row], -number(names["score"][row]), row))
    return tuple(
        StrongName(
            name_id=int(names["name_id"][row]),
            label=labels[row],
            first=names["first_name"][row],
            last=names["last_name"][row],
            kind=kinds[row],
            n_mentions=names["n_mentions"][row],
            hospital=number(hospital[row]),
            general=number(general[row]),
            score=number(names["score"][row]),
            standard_error=number(names["standard_error"][row]),
            q=float(names["q_value"][row]),
        )
        for row in rows[:N_STRONGEST]
    )


def number(value: Any) -> float:
    """Return a number that a report holds; None is NaN, and infinity is written as a word."""
    return math.nan if value is None else float(value)
