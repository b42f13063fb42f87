"""Which name fits which passage, as a report holds it: shares, ranks, and what chance gives.

Comes in: a report's record. Goes out: frozen values; undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.rates import Estimate, FloatArray, wilson

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
