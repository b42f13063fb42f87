"""Two taggers on the same notes: the difference of each measure, and whether chance could make it.

Also: names that the training notes held against names they did not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from audit.deid.matching import ANY, COLUMNS, OPTIMAL, MatchCounts, as_table, match, total
from audit.notes.spans import TaggedDocument
from audit.rng import generator
from audit.stats import (
    N_REPLICATES,
    Estimate,
    FloatArray,
    IntArray,
    Rate,
    interval,
    ratio,
    replicates,
)
from audit.text import fold_name

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
        A number for each of `audit.deid.matching.COLUMNS`.
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


COMPARED = ("precision", "recall", "f1")


@dataclass(frozen=True)
class Difference:
    """A measure of the first tagger minus that of the second.

    Attributes
    ----------
    measure
        One of `COMPARED`.
    estimate
        The difference with its 95 % interval over patients.
    p
        Two-sided, by approximate randomisation: results are swapped patient by patient.
    """

    measure: str
    estimate: Estimate
    p: float


def compare(
    first: Sequence[MatchCounts],
    second: Sequence[MatchCounts],
    *,
    label: str = ANY,
    seed: int = 0,
    n_replicates: int = N_REPLICATES,
) -> tuple[Difference, ...]:
    """Compare two taggers by their counts by patient, of the same patients in the same order.

    Source: Noreen 1989, Computer-Intensive Methods for Testing Hypotheses (randomisation).

    Raises
    ------
    ValueError
        If the counts are not of the same patients' gold spans.
    """
    tables = [as_table(side, labels=(label,))[:, 0, :4] for side in (first, second)]
    if len(first) != len(second) or (tables[0][:, 0] != tables[1][:, 0]).any():
        raise ValueError("the counts are not of the same notes")
    both = np.stack(tables, axis=1)  # [P, taggers, columns]
    values = _differences(both.sum(axis=0)[None].astype(np.float64))[0]
    drawn = replicates(both, _differences, seed=seed, n_replicates=n_replicates)
    swapped = _swapped(both, seed=seed, n_replicates=n_replicates)
    n_gold = int(tables[0][:, 0].sum())
    return tuple(
        Difference(name, _with_interval(float(values[i]), drawn[:, i], n_gold=n_gold),
                   _p(float(values[i]), swapped[:, i]))
        for i, name in enumerate(COMPARED)
    )  # fmt: skip


def _with_interval(value: float, drawn: FloatArray, *, n_gold: int) -> Estimate:
    defined = drawn[~np.isnan(drawn)]
    if len(defined) and defined.min() == defined.max():  # every draw agrees: no Wilson here
        return Estimate(value, float(defined.min()), float(defined.max()))
    return interval(value, drawn, n_total=n_gold)


def _differences(counts: FloatArray) -> FloatArray:
    """Return first minus second for counts [R, taggers, columns]: [R, measures]."""
    n_gold, n_predicted, n_missed, n_spurious = (counts[..., i] for i in range(4))
    precision = ratio(n_predicted - n_spurious, n_predicted)
    recall = ratio(n_gold - n_missed, n_gold)
    every = np.stack([precision, recall, f1(precision, recall)], axis=-1)
    return np.asarray(every[:, 0] - every[:, 1], dtype=np.float64)


def _swapped(both: IntArray, *, seed: int, n_replicates: int) -> FloatArray:
    """Return the differences after swapping the taggers of random patients [R, measures]."""
    rng = generator(seed, "deid-swaps")
    change = (both[:, ::-1] - both).reshape(len(both), -1).astype(np.float64)
    base = both.sum(axis=0).reshape(1, -1)
    parts = []
    n_rows = max(1, 4_000_000 // max(len(both), 1))
    for start in range(0, n_replicates, n_rows):
        is_swapped = rng.random((min(n_rows, n_replicates - start), len(both))) < 0.5
        parts.append(_differences((base + is_swapped @ change).reshape(-1, 2, both.shape[2])))
    return np.concatenate(parts)


def _p(value: float, drawn: FloatArray) -> float:
    defined = drawn[~np.isnan(drawn)]
    if math.isnan(value) or not len(defined):
        return math.nan
    n_as_large = int((np.abs(defined) >= abs(value) - 1e-12).sum())
    return (n_as_large + 1) / (len(defined) + 1)


@dataclass(frozen=True)
class Discordant:
    """Golds that only one of two taggers found, and the two-sided exact sign test on them.

    Differs: golds of one note are taken as independent; `compare` does not.
    """

    n_first_only: int
    n_second_only: int
    n_both: int
    n_neither: int

    @property
    def p(self) -> float:
        """Probability of a split at least as uneven; 1 where nothing is discordant."""
        n, low = self.n_first_only + self.n_second_only, min(self.n_first_only, self.n_second_only)
        tail = sum(math.comb(n, i) for i in range(low + 1))
        return min(1.0, 2 * tail / (1 << n))


def discordant(
    notes: Iterable[tuple[TaggedDocument, TaggedDocument, TaggedDocument]],
    *,
    criterion: str,
    matcher: str = OPTIMAL,
) -> Discordant:
    """Count golds by which of two taggers found them; notes are (gold, first, second)."""
    counts = [0, 0, 0, 0]
    for gold, *taggers in notes:
        found = [
            {g for g, _ in match(gold.spans, t.spans, criterion=criterion, matcher=matcher).pairs}
            for t in taggers
        ]
        for span in gold.spans:
            counts[2 * (span in found[0]) + (span in found[1])] += 1
    return Discordant(counts[2], counts[1], counts[3], counts[0])


@dataclass(frozen=True)
class SeenRecall:
    """Recall of one label on names that stood in the training notes, and on others."""

    label: str
    seen: Rate
    unseen: Rate


def surface_forms(documents: Iterable[TaggedDocument]) -> frozenset[str]:
    """Return what the spans of notes say, in the form in which names are compared."""
    return frozenset(
        fold_name(document.text[span.start : span.end])
        for document in documents
        for span in document.spans
    )


def seen_recall(
    pairs: Iterable[tuple[TaggedDocument, TaggedDocument]],
    *,
    seen: Collection[str],
    criterion: str,
    matcher: str = OPTIMAL,
) -> tuple[SeenRecall, ...]:
    """Return recall by label, golds split by whether their text is among `seen` surface forms."""
    counts: dict[str, list[int]] = {}
    for gold, predicted in pairs:
        matches = match(gold.spans, predicted.spans, criterion=criterion, matcher=matcher)
        missed = set(matches.missed)
        for span in gold.spans:
            is_seen = fold_name(gold.text[span.start : span.end]) in seen
            row = counts.setdefault(span.label, [0, 0, 0, 0])
            row[2 * is_seen] += span not in missed
            row[2 * is_seen + 1] += 1
    labels = total([MatchCounts(dict.fromkeys(counts, ()))]).labels
    return tuple(
        SeenRecall(label, Rate(*counts[label][2:]), Rate(*counts[label][:2])) for label in labels
    )
