"""The measures of a tagger with their intervals, and two taggers on the same notes compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
from pydantic import ConfigDict

from audit.deid.span_matching import ANY, COLUMNS, MISSED, SPURIOUS, MatchCounts
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
"""Denominator, and what of it is wrong (precision, recall) or right (the others)."""
_TOTALS = [COLUMNS.index(_PARTS.get(measure, ("n_gold", ""))[0]) for measure in MEASURES]
FEW_SPANS = 30
"""Below these a rate says little, and the screen says so."""

Pair = tuple[TaggedDocument, TaggedDocument]
"""A note with its golds, and with what was predicted."""


class Kept(Record):
    """A part of a score; what older ones have besides is passed over."""

    model_config = ConfigDict(extra="ignore")


class MacroScore(Kept):
    """Measures 0-1 with their 95 % intervals over patients; None where undefined.

    As they are, means over the labels where these are defined.
    """

    precision: float | None
    recall: float | None
    f1: float | None
    complete: float | None
    clean: float | None
    exact: float | None
    intervals: dict[str, tuple[float, float] | None]

    def estimate(self, measure: str) -> Estimate:
        """Return one of the measures; NaN where it is undefined."""
        value = getattr(self, measure)
        low, high = self.intervals[measure] or (math.nan, math.nan)
        return Estimate(math.nan if value is None else value, low, high)

    @classmethod
    def of(cls, estimates: Sequence[Estimate], **more: Any) -> Self:
        """Return the record of estimates in the order of `MEASURES`."""
        named = list(zip(MEASURES, estimates, strict=True))
        values = {name: None if math.isnan(e.value) else e.value for name, e in named}
        intervals = {name: None if math.isnan(e.low) else (e.low, e.high) for name, e in named}
        return cls(**values, intervals=intervals, **more)


class LabelScore(MacroScore):
    """The measures of one label, or of all together (micro), and their counts (see `COLUMNS`)."""

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
        """Return what a measure was counted from; None for F1, which is no share of anything."""
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
        """Return (gold, predicted, count) by (row, column) of what holds something.

        Missed comes first, then the largest.
        """
        found = {
            (r, c): (row, column, n)
            for r, (row, counts) in enumerate(self.rows.items())
            for c, (column, n) in enumerate(zip(self.columns, counts, strict=True))
            if n
        }

        def rank(place: tuple[int, int]) -> tuple[int, ...]:
            row, column, n = found[place]
            kind = 0 if column == MISSED else 1 if row == SPURIOUS else 3 if row == column else 2
            return kind, -n if kind else 0, *place

        return {place: found[place] for place in sorted(found, key=rank)}


class CriterionScore(Record):
    """What one criterion says of a tagger, by label in the order of tables.

    A record is complete for all labels `together` if no span of any label is missed.
    `n_pairs_differ` golds have another partner with the other matcher.
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


def measured(
    counts: MatchCounts, *, seed: int = 0, n_replicates: int = N_REPLICATES
) -> CriterionScore:
    """Return the measures of counts, with intervals of a bootstrap over patients."""
    sums = counts.table.sum(axis=0)  # [labels, columns]
    drawn = bootstrap_measures(counts.table, _measures, seed=seed, n_replicates=n_replicates)
    n_means = [max(len(sums) - 1, 1)] * len(MEASURES)
    values = _measures(sums[None].astype(np.float64))[0].tolist()
    totals = [*sums[:, _TOTALS].ravel().tolist(), *n_means]
    estimates = [
        interval(value, column, n_total=n)
        for value, column, n in zip(values, drawn.T, totals, strict=True)
    ]
    *rows, means = (estimates[i : i + 6] for i in range(0, len(estimates), len(MEASURES)))
    lines = {
        label: LabelScore.of(row, **dict(zip(COLUMNS, n.tolist(), strict=True)))
        for label, row, n in zip(counts.labels, rows, sums, strict=True)
    }
    together = lines.pop(ANY)
    columns = (*lines, MISSED)
    cells = {
        gold: tuple(counts.cells.get((gold, said), 0) for said in columns)
        for gold in (*lines, SPURIOUS)
    }
    return CriterionScore(
        labels=lines,
        together=together,
        macro=MacroScore.of(means),
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
    """Return the measures of counts [R, labels, columns], each label's and their means [R, V]."""
    records = [ratio(table[..., i + 1], table[..., i]) for i in (4, 6, 8)]
    every = np.stack([*_entity_measures(table), *records], axis=-1)
    each = every[:, :-1]  # without "all labels together"
    means = ratio(np.nansum(each, axis=1), (~np.isnan(each)).sum(axis=1).astype(np.float64))
    return np.concatenate([every.reshape(len(table), -1), means], axis=1)


def f1(precision: FloatArray, recall: FloatArray) -> FloatArray:
    """Return the harmonic mean of unrounded precision and recall.

    0 where both are 0; NaN where one of them is.
    """
    both = precision + recall
    is_zero = both == 0
    return np.where(is_zero, 0.0, 2 * precision * recall / np.where(is_zero, 1.0, both))


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
    both = np.stack([side.of(label)[:, :4] for side in (first, second)], axis=1)  # [P, taggers, 4]
    values = _differences(both.sum(axis=0)[None].astype(np.float64))[0].tolist()
    drawn = bootstrap_measures(both, _differences, seed=seed, n_replicates=n_replicates)
    return tuple(map(_estimate, values, drawn.T))


@dataclass(frozen=True)
class Shares:
    """Shares of several taggers on the same notes, in the order of their counts.

    `sides` has the shares of each tagger, `differences` by (first, second) first minus second, with
    95 % intervals of one bootstrap over patients.
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
    drawn = bootstrap_measures(table, shares, seed=seed, n_replicates=n_replicates)
    drawn = drawn.reshape(-1, n_taggers, n_shares)
    sides = [
        tuple(
            interval(float(values[i, k]), drawn[:, i, k], n_total=int(sums[i, k, 1]))
            for k in range(n_shares)
        )
        for i in range(n_taggers)
    ]
    differences = {
        (i, j): tuple(
            _estimate(float(values[i, k] - values[j, k]), drawn[:, i, k] - drawn[:, j, k])
            for k in range(n_shares)
        )
        for i, j in combinations(range(n_taggers), 2)
    }
    return Shares(tuple(sides), differences)


def _estimate(value: float, drawn: FloatArray) -> Estimate:
    defined = drawn[~np.isnan(drawn)]
    if math.isnan(value) or not len(defined):
        return Estimate(value, math.nan, math.nan)
    # Where every draw agrees there is no Wilson interval to stand in: a difference is no share.
    low, high = np.quantile(defined, [0.025, 0.975]).tolist()
    return Estimate(value, low, high)


def _differences(counts: FloatArray) -> FloatArray:
    """Return first minus second for counts [R, taggers, columns]: [R, measures]."""
    every = np.stack(_entity_measures(counts), axis=-1)
    return np.asarray(every[:, 0] - every[:, 1], dtype=np.float64)
