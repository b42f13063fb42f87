"""The published figures of de-identification, and the same again from the paper's own matrix.

Comes in: nothing. Goes out: what the paper prints, and what the formulas of this tool make of its
figure 2. The facts are in `published_deid.json`.

Source: Yada et al., tables 1, 3 and 6 to 9, figure 2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from audit.deid.counts import MISSED, SPURIOUS
from audit.deid.labels import TYPES
from audit.deid.matching import CRITERIA
from audit.deid.metrics import f1

_FILE = Path(__file__).resolve().parent / "published_deid.json"
ENTITY = ("precision", "recall", "f1")
RECORD = ("complete", "clean", "exact")


@dataclass(frozen=True)
class PublishedType:
    """What the paper prints of a type, in percent as printed, and what figure 2 gives.

    Attributes
    ----------
    label
        One of the five types.
    n_gold
        Of the test notes.
    printed
        By criterion: precision, recall, F1.
    records
        By criterion: complete, clean, exact.
    recomputed
        Precision, recall and F1 of the Label-Relaxed criterion from the matrix: shares 0-1.
    """

    label: str
    n_gold: int
    printed: Mapping[str, tuple[float, ...]]
    records: Mapping[str, tuple[float, ...]]
    recomputed: tuple[float, ...]


@dataclass(frozen=True)
class PublishedDeid:
    """The paper's figures: types in the order of tables, the Label-Relaxed matrix, the source.

    `matrix` is by row (gold label or `spurious`), then column (predicted label or `missed`).
    """

    source: str
    n_notes: int
    types: tuple[PublishedType, ...]
    matrix: Mapping[str, Mapping[str, int]]


@cache
def published_deid() -> PublishedDeid:
    """Return the paper's figures."""
    facts = json.loads(_FILE.read_text(encoding="utf-8"))
    matrix: Mapping[str, Mapping[str, int]] = facts["matrix"]
    types = tuple(
        PublishedType(
            label=label,
            n_gold=facts["n_gold"][label],
            printed={name: tuple(facts["percent"][name][label]) for name in CRITERIA},
            records={name: tuple(facts["records"][name][label]) for name in CRITERIA},
            recomputed=recomputed(matrix, label=label),
        )
        for label in TYPES
    )
    return PublishedDeid(facts["source"], facts["n_notes"], types, matrix)


def recomputed(matrix: Mapping[str, Mapping[str, int]], *, label: str) -> tuple[float, ...]:
    """Return precision, recall and F1 of a label from a confusion matrix with margins.

    recall = (row sum - missed) / row sum, precision = (column sum - spurious) / column sum, F1 from
    both unrounded. Source: checked against all 15 numbers of the paper's table 3.
    """
    n = sum(matrix[label].values())
    m = sum(row[label] for row in matrix.values())
    precision = (m - matrix[SPURIOUS][label]) / m
    recall = (n - matrix[label][MISSED]) / n
    both = f1(np.array([precision]), np.array([recall]))
    return precision, recall, float(both[0])
