"""Measures of de-identification: precision, recall, F1, and records complete, clean, exact.

Formulas of the paper's tables, checked number by number: precision and recall each have true
positives of their own, `n - missed` of the golds and `m - spurious` of the predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.deid.bootstrap import N_REPLICATES, interval, ratio, replicates
from audit.deid.counts import ANY, COLUMNS, MatchCounts, as_table, total
from audit.rates import Estimate, FloatArray

MEASURES = ("precision", "recall", "f1", "complete", "clean", "exact")
_AT = {name: i for i, name in enumerate(COLUMNS)}
_TOTALS = ("n_predicted", "n_gold", "n_gold", "n_with_gold", "n_with_predicted", "n_with_either")


@dataclass(frozen=True)
class LabelMetrics:
    """The measures of one label, with their 95 % intervals over patients.

    Attributes
    ----------
    label
        `ANY` for all labels together (micro).
    counts
        A number for each of `audit.deid.counts.COLUMNS`.
    estimates
        In the order of `MEASURES`; NaN where the denominator is empty.
    """

    label: str
    counts: tuple[int, ...]
    estimates: tuple[Estimate, ...]

    def count(self, name: str) -> int:
        """Return one of the counts."""
        return self.counts[_AT[name]]

    def estimate(self, name: str) -> Estimate:
        """Return one of the measures."""
        return self.estimates[MEASURES.index(name)]

    def n_total(self, name: str) -> int:
        """Return the denominator of a measure; the golds for F1."""
        return self.count(_TOTALS[MEASURES.index(name)])


@dataclass(frozen=True)
class DeidMetrics:
    """What one criterion says of a tagger.

    Attributes
    ----------
    labels
        One entry a label.
    together
        All labels counted together; a record is complete if no span of any label is missed.
    macro
        Means over the labels of `labels` where they are defined, in the order of `MEASURES`.
    n_records, n_patients
        What was measured.
    """

    labels: tuple[LabelMetrics, ...]
    together: LabelMetrics
    macro: tuple[Estimate, ...]
    n_records: int
    n_patients: int


def measured(
    by_patient: Sequence[MatchCounts], *, seed: int = 0, n_replicates: int = N_REPLICATES
) -> DeidMetrics:
    """Return the measures of counts by patient, in an order that does not depend on the input's.

    Raises
    ------
    ValueError
        If there are no patients.
    """
    if not by_patient:
        raise ValueError("no patients")
    counts = total(by_patient)
    names = (*counts.labels, ANY)
    table = as_table(by_patient, labels=names)  # [P, labels, columns]
    values = _measures(table.sum(axis=0, dtype=np.int64)[None].astype(np.float64))[0]
    drawn = replicates(table, _measures, seed=seed, n_replicates=n_replicates)
    n = len(MEASURES)
    entries = []
    for i, name in enumerate(names):
        row = counts.row(name)
        estimates = tuple(
            interval(
                float(values[i * n + j]), drawn[:, i * n + j], n_total=row[_AT[_TOTALS[j]]]
            )
            for j in range(n)
        )  # fmt: skip
        entries.append(LabelMetrics(name, row, estimates))
    n_labels = max(len(entries) - 1, 1)
    macro = tuple(
        interval(float(v), d, n_total=n_labels)
        for v, d in zip(values[-n:], drawn[:, -n:].T, strict=True)
    )
    return DeidMetrics(
        tuple(entries[:-1]), entries[-1], macro, counts.n_records, len(by_patient)
    )  # fmt: skip


def _measures(table: FloatArray) -> FloatArray:
    """Return the measures of counts [R, labels, columns], each label's and their means [R, V]."""
    n_gold, n_predicted, n_missed, n_spurious = (table[..., i] for i in range(4))
    precision = ratio(n_predicted - n_spurious, n_predicted)
    recall = ratio(n_gold - n_missed, n_gold)
    records = [ratio(table[..., i + 1], table[..., i]) for i in (4, 6, 8)]
    every = np.stack([precision, recall, f1(precision, recall), *records], axis=-1)
    each = every[:, :-1]  # without "all labels together"
    is_defined = ~np.isnan(each)
    means = ratio(np.where(is_defined, each, 0).sum(axis=1), is_defined.sum(axis=1) * 1.0)
    return np.concatenate([every.reshape(len(table), -1), means], axis=1)


def f1(precision: FloatArray, recall: FloatArray) -> FloatArray:
    """Return the harmonic mean of unrounded precision and recall.

    0 where both are 0; NaN where one of them is.
    """
    both = precision + recall
    is_zero = both == 0
    return np.where(is_zero, 0.0, 2 * precision * recall / np.where(is_zero, 1.0, both))
