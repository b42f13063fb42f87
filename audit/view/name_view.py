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

N_STRONGEST = 10
NAME_EVIDENCE = {
    1: ("hospital_product", "general_product"),
    2: ("hospital_posterior", "general_posterior"),
}
"""Columns that show a name's evidence with each model, by scenario."""
_KIND_ORDER = ("member", "unknown", "easy", "hard", "recombined", "given", "reference")


@dataclass(frozen=True)
class KindScores:
    """Scores of one kind of names: "member", "unknown", or a kind of controls.

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
    first: str
    last: str
    kind: str
    n_mentions: int | None
    hospital: float
    general: float
    score: float
    standard_error: float
    q: float


def _kind(truth: int | None, control_kind: str) -> str:
    return "unknown" if truth is None else "member" if truth else control_kind


def kind_scores(names: Mapping[str, Sequence[Any]]) -> tuple[KindScores, ...]:
    """Return the scores of every kind of names on the list, members first."""
    scores: dict[str, list[float]] = {}
    for truth, control_kind, score in zip(
        names["is_member"], names["control_kind"], names["score"], strict=True
    ):
        scores.setdefault(_kind(truth, control_kind), []).append(number(score))
    return tuple(
        KindScores(
            kind,
            scores=tuple(s for s in found if math.isfinite(s)),
            n_not_scored=sum(not math.isfinite(s) for s in found),
        )
        for kind, found in sorted(scores.items(), key=lambda item: _KIND_ORDER.index(item[0]))
    )


def strongest_names(names: Mapping[str, Sequence[Any]], *, scenario: int) -> tuple[StrongName, ...]:
    """Return the tested names with the highest scores, best q first; never listed controls."""
    hospital, general = (names[column] for column in NAME_EVIDENCE[scenario])
    rows = [
        row
        for row, truth in enumerate(names["is_member"])
        if truth != 0 and names["score"][row] is not None and names["q_value"][row] is not None
    ]
    rows.sort(key=lambda row: (names["q_value"][row], -number(names["score"][row]), row))
    return tuple(
        StrongName(
            name_id=int(names["name_id"][row]),
            first=names["first_name"][row],
            last=names["last_name"][row],
            kind=_kind(names["is_member"][row], names["control_kind"][row]),
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
