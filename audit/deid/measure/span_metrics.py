"""The measures of a tagger with their intervals, and comparisons of taggers on the same notes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np

from audit.deid.measure.span_matching import ANY, COLUMNS, MISSED, SPURIOUS, MatchCounts
from audit.notes.spans import TaggedDocument
from audit.stats import (
    N_REPLICATES,
    Estimate,
    FloatArray,
    IntArray,
    Rate,
    bootstrap_measures,
    interval,
    ratio,
)
from audit.task import Record

ENTITY, RECORD = ("precision", "recall", "f1"), ("complete", "clean", "exact")
MEASURES = (*ENTITY, *RECORD)
_PARTS = {
    "precision": ("n_predicted", "n_spurious"),
    "recall": ("n_gold", "n_missed"),
    "complete": ("n_with_gold", "n_complete"),
    "clean": ("n_with_predicted", "n_clean"),
    "exact": ("n_with_either", "n_exact"),
}
"""The denominator of a measure, and its wrong part (precision, recall) or right part (others)."""
_TOTALS = [COLUMNS.index(_PARTS.get(measure, ("n_gold", ""))[0]) for measure in MEASURES]
FEW_SPANS = 30
"""Below this number of spans a rate says little, and the screen says so."""

Pair = tuple[TaggedDocument, TaggedDocument]
"""A note with its gold spans, and the same note with its predicted spans."""


class MacroScore(Record):
    """Measures 0-1 with their 95 % intervals over patients; None if undefined.

    Each measure of this class is the mean over the labels for which it is defined.
    """

    precision: float | None
    recall: float | None
    f1: float | None
    complete: float | None
    clean: float | None
    exact: float | None
    intervals: dict[str, tuple[float, float] | None]

    def estimate(self, measure: str) -> Estimate:
        """Return one of the measures; NaN if it is undefined."""
        value = getattr(self, measure)
        low, high = self.intervals[measure] or (math.nan, math.nan)
        return Estimate(math.nan if value is None else value, low, high)

    @classmethod
    def from_estimates(cls, estimates: Sequence[Estimate], **counts: Any) -> Self:
        """Return the record of estimates, which are in the order of `MEASURES`."""
        named = list(zip(MEASURES, estimates, strict=True))
        values = {name: None if math.isnan(e.value) else e.value for name, e in named}
        intervals = {name: None if math.isnan(e.low) else (e.low, e.high) for name, e in named}
        return cls(**values, intervals=intervals, **counts)


class LabelScore(MacroScore):
    """The measures of one label, or of all labels together (micro), with counts (see `COLUMNS`)."""

    n_gold: int
    n_predicted: int
    n_missed: int
    n_spurious: int
    n_with_gold: int
    n_complete: int
    n_with_predicted: int
    n_clean: int
    n_with_either: int
    n_exact: int

    def rate(self, measure: str) -> Rate | None:
        """Return the counts of a measure as a rate; None for F1, which is not a share."""
        if measure not in _PARTS:
            return None
        n_total, n = (getattr(self, name) for name in _PARTS[measure])
        return Rate(n_total - n if measure in ENTITY else n, n_total)

    @property
    def is_few(self) -> bool:
        """Whether there are too few golds to say much."""
        return self.n_gold < FEW_SPANS


class Matrix(Record):
    """A confusion matrix: gold labels and `spurious`, by predicted labels and `missed`."""

    columns: tuple[str, ...]
    rows: dict[str, tuple[int, ...]]

    def cells(self) -> dict[tuple[int, int], tuple[str, str, int]]:
        """Return (gold, predicted, count) by (row, column) of the cells that are not zero.

        Missed golds come first, in the order of rows. Spurious predictions, errors of label and
        hits follow, each with the largest counts first.
        """
        filled_cells = {
            (r, c): (row, column, n)
            for r, (row, counts) in enumerate(self.rows.items())
            for c, (column, n) in enumerate(zip(self.columns, counts, strict=True))
            if n
        }

        def rank(place: tuple[int, int]) -> tuple[int, ...]:
            row, column, n = filled_cells[place]
            kind = 0 if column == MISSED else 1 if row == SPURIOUS else 3 if row == column else 2
            return kind, -n if kind else 0, *place

        return {place: filled_cells[place] for place in sorted(filled_cells, key=rank)}


class CriterionScore(Record):
    """The measures of a tagger under one criterion, by label in the order of tables.

    A record is complete for all labels `together` if no span of any label is missed.
    `n_pairs_differ` golds have a different partner under the other matcher.
    """

    labels: dict[str, LabelScore]
    together: LabelScore
    macro: MacroScore
    matrix: Matrix
    n_pairs_differ: int

    @property
    def lines(self) -> dict[str, LabelScore]:
        """The measures of each label, and of all of them together as `ANY`."""
        return {**self.labels, ANY: self.together}


def measure_counts(
    counts: MatchCounts, *, seed: int = 0, n_replicates: int = N_REPLICATES
) -> CriterionScore:
    """Return the measures of counts, with intervals of a bootstrap over patients."""
    sums = counts.table.sum(axis=0)  # [labels, columns]
    draws = bootstrap_measures(counts.table, _measures, seed=seed, n_replicates=n_replicates)
    n_means = [max(len(sums) - 1, 1)] * len(MEASURES)
    values = _measures(sums[None].astype(np.float64))[0].tolist()
    totals = [*sums[:, _TOTALS].ravel().tolist(), *n_means]
    estimates = [
        interval(value, column, n_total=n)
        for value, column, n in zip(values, draws.T, totals, strict=True)
    ]
    *rows, means = (estimates[i : i + 6] for i in range(0, len(estimates), len(MEASURES)))
    lines = {
        label: LabelScore.from_estimates(row, **dict(zip(COLUMNS, n.tolist(), strict=True)))
        for label, row, n in zip(counts.labels, rows, sums, strict=True)
    }
    together = lines.pop(ANY)
    columns = (*lines, MISSED)
    cells = {
        gold: tuple(counts.cells.get((gold, predicted_label), 0) for predicted_label in columns)
        for gold in (*lines, SPURIOUS)
    }
    return CriterionScore(
        labels=lines,
        together=together,
        macro=MacroScore.from_estimates(means),
        matrix=Matrix(columns=columns, rows=cells),
        n_pairs_differ=counts.n_differing,
    )


def _entity_measures(table: FloatArray) -> list[FloatArray]:
    """Return precision, recall and F1 of counts [..., columns]."""
    n_gold, n_predicted, n_missed, n_spurious = (table[..., i] for i in range(4))
    precision = ratio(n_predicted - n_spurious, n_predicted)
    recall = ratio(n_gold - n_missed, n_gold)
    return [precision, recall, f1(precision, recall)]


def _measures(table: FloatArray) -> FloatArray:
    """Return the measures of counts [R, labels, columns]: all labels, then their means [R, V]."""
    records = [ratio(table[..., i + 1], table[..., i]) for i in (4, 6, 8)]
    measures = np.stack([*_entity_measures(table), *records], axis=-1)
    label_measures = measures[:, :-1]  # without "all labels together"
    means = ratio(
        np.nansum(label_measures, axis=1),
        (~np.isnan(label_measures)).sum(axis=1).astype(np.float64),
    )
    return np.concatenate([measures.reshape(len(table), -1), means], axis=1)


def f1(precision: FloatArray, recall: FloatArray) -> FloatArray:
    """Return the harmonic mean of unrounded precision and recall.

    It is 0 if both are 0, and NaN if one of them is NaN.
    """
    total = precision + recall
    is_zero = total == 0
    return np.where(is_zero, 0.0, 2 * precision * recall / np.where(is_zero, 1.0, total))


def compare(
    first: MatchCounts,
    second: MatchCounts,
    *,
    label: str = ANY,
    seed: int = 0,
    n_replicates: int = N_REPLICATES,
) -> tuple[Estimate, ...]:
    """Compare two taggers by their counts of the same notes.

    Returns the measures of `ENTITY`, first minus second, with intervals of a bootstrap over
    patients.
    """
    sides = np.stack(
        [side.by_patient(label)[:, :4] for side in (first, second)], axis=1
    )  # [P, taggers, 4]
    values = _differences(sides.sum(axis=0)[None].astype(np.float64))[0].tolist()
    draws = bootstrap_measures(sides, _differences, seed=seed, n_replicates=n_replicates)
    return tuple(map(_estimate, values, draws.T))


@dataclass(frozen=True)
class Shares:
    """Shares of several taggers on the same notes, in the order of their counts.

    `sides` has the shares of each tagger. `differences` has, by (first, second), the shares of the
    first minus those of the second, with 95 % intervals of one bootstrap over patients.
    """

    sides: tuple[tuple[Estimate, ...], ...]
    differences: Mapping[tuple[int, int], tuple[Estimate, ...]]


def compare_shares(table: IntArray, *, seed: int = 0, n_replicates: int = N_REPLICATES) -> Shares:
    """Compare taggers by hits and totals [patients, taggers, shares, 2] of the same notes."""
    n_taggers, n_shares = table.shape[1:3]

    def shares(counts: FloatArray) -> FloatArray:
        return ratio(counts[..., 0], counts[..., 1]).reshape(len(counts), -1)

    sums = table.sum(axis=0)
    values = ratio(sums[..., 0].astype(np.float64), sums[..., 1].astype(np.float64))
    draws = bootstrap_measures(table, shares, seed=seed, n_replicates=n_replicates)
    draws = draws.reshape(-1, n_taggers, n_shares)
    sides = [
        tuple(
            interval(float(values[i, k]), draws[:, i, k], n_total=int(sums[i, k, 1]))
            for k in range(n_shares)
        )
        for i in range(n_taggers)
    ]
    differences = {
        (i, j): tuple(
            _estimate(float(values[i, k] - values[j, k]), draws[:, i, k] - draws[:, j, k])
            for k in range(n_shares)
        )
        for i, j in combinations(range(n_taggers), 2)
    }
    return Shares(tuple(sides), differences)


def _estimate(value: float, draws: FloatArray) -> Estimate:
    defined = draws[~np.isnan(draws)]
    if math.isnan(value) or not len(defined):
        return Estimate(value, math.nan, math.nan)
    # If all draws agree, no Wilson interval can replace this one: a difference is not a share.
    low, high = np.quantile(defined, [0.025, 0.975]).tolist()
    return Estimate(value, low, high)


def _differences(counts: FloatArray) -> FloatArray:
    """Return first minus second for counts [R, taggers, columns]: [R, measures]."""
    measures = np.stack(_entity_measures(counts), axis=-1)
    return np.asarray(measures[:, 0] - measures[:, 1], dtype=np.float64)
