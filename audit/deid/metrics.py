"""The measures of a tagger with their intervals, and two taggers on the same notes compared.

Also: names that the training notes held against names they did not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from pydantic import SerializerFunctionWrapHandler, model_serializer

from audit.deid.matching import ANY, COLUMNS, OPTIMAL, MatchCounts, as_table, match, total
from audit.notes.spans import JAPANESE, TaggedDocument, ordered
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
from audit.task import Record
from audit.text import fold_name

ENTITY, RECORD = ("precision", "recall", "f1"), ("complete", "clean", "exact")
MEASURES = (*ENTITY, *RECORD)
_PARTS = {
    "precision": ("n_predicted", "n_spurious"), "recall": ("n_gold", "n_missed"),
    "complete": ("n_with_gold", "n_complete"), "clean": ("n_with_predicted", "n_clean"),
    "exact": ("n_with_either", "n_exact"),
}  # fmt: skip
"""Denominator, and what of it is wrong (precision, recall) or right (the others)."""
FEW_SPANS = 30
"""Below these a rate says little, and the screen says so."""
NO_ESTIMATE = Estimate(math.nan, math.nan, math.nan)

Interval = tuple[float, float] | None


class MacroScore(Record):
    """Measures 0-1 with their 95 % intervals over patients; None where undefined.

    As they are, means over the labels where these are defined.
    """

    precision: float | None
    recall: float | None
    f1: float | None
    complete: float | None
    clean: float | None
    exact: float | None
    intervals: dict[str, Interval]

    def estimate(self, measure: str) -> Estimate:
        """Return one of the measures; NaN where it is undefined."""
        value = getattr(self, measure)
        low, high = self.intervals[measure] or (math.nan, math.nan)
        return Estimate(math.nan if value is None else value, low, high)

    @classmethod
    def of(cls, estimates: Sequence[Estimate], **more: Any) -> Self:
        """Return the record of estimates in the order of `MEASURES`."""
        by_name = dict(zip(MEASURES, estimates, strict=True))
        return cls(
            **{name: None if math.isnan(e.value) else e.value for name, e in by_name.items()},
            intervals={
                name: None if math.isnan(e.low) else (e.low, e.high) for name, e in by_name.items()
            },
            **more,
        )


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
    label_ja: str | None = None

    @model_serializer(mode="wrap")
    def _without_nothing(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = written(self)
        return {name: one for name, one in values.items() if name != "label_ja" or one is not None}

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


class Measured(Record):
    """What one criterion says of a tagger, by label in the order of tables.

    A record is complete for all labels `together` if no span of any label is missed.
    """

    labels: dict[str, LabelScore]
    together: LabelScore
    macro: MacroScore

    def line(self, label: str) -> LabelScore | None:
        """Return the measures of a label; `ANY` is all of them together."""
        return self.together if label == ANY else self.labels.get(label)


def measured(
    by_patient: Sequence[MatchCounts], *, seed: int = 0, n_replicates: int = N_REPLICATES
) -> Measured:
    """Return the measures of counts by patient, in an order that does not depend on the input's."""
    if not by_patient:
        raise ValueError("no patients")
    counts = total(by_patient)
    names = (*counts.labels, ANY)
    table = as_table(by_patient, labels=names)  # [P, labels, columns]
    values = _measures(table.sum(axis=0, dtype=np.int64)[None].astype(np.float64))[0]
    drawn = replicates(table, _measures, seed=seed, n_replicates=n_replicates)
    n_totals = [
        counts.row(name)[COLUMNS.index(_PARTS.get(measure, ("n_gold", ""))[0])]
        for name in names for measure in MEASURES
    ] + [max(len(names) - 1, 1)] * len(MEASURES)  # fmt: skip
    estimates = [
        interval(float(value), column, n_total=n)
        for value, column, n in zip(values, drawn.T, n_totals, strict=True)
    ]
    rows = [estimates[i : i + len(MEASURES)] for i in range(0, len(estimates), len(MEASURES))]
    labels = {
        name: LabelScore.of(
            row, **dict(zip(COLUMNS, counts.row(name), strict=True)), label_ja=JAPANESE.get(name)
        )
        for name, row in zip(names, rows, strict=False)
    }
    return Measured(together=labels.pop(ANY), labels=labels, macro=MacroScore.of(rows[-1]))


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


@dataclass(frozen=True)
class Difference:
    """A measure (of `ENTITY`) of the first tagger minus that of the second.

    With its 95 % interval over patients, and a two-sided p by approximate randomisation: results
    are swapped patient by patient.
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
        for i, name in enumerate(ENTITY)
    )  # fmt: skip


def _with_interval(value: float, drawn: FloatArray, *, n_gold: int) -> Estimate:
    defined = drawn[~np.isnan(drawn)]
    if len(defined) and defined.min() == defined.max():  # every draw agrees: no Wilson here
        return Estimate(value, float(defined.min()), float(defined.max()))
    return interval(value, drawn, n_total=n_gold)


def _differences(counts: FloatArray) -> FloatArray:
    """Return first minus second for counts [R, taggers, columns]: [R, measures]."""
    every = np.stack(_entity_measures(counts), axis=-1)
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
        from scipy.stats import binomtest

        n = self.n_first_only + self.n_second_only
        return float(binomtest(self.n_first_only, n).pvalue) if n else 1.0


class SeenRecall(Record):
    """(found, all) golds of a label that stood in the training notes, and of others."""

    label: str
    seen: tuple[int, int]
    unseen: tuple[int, int]


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
    return tuple(
        SeenRecall(label=label, seen=(n_seen, of_seen), unseen=(n_other, of_others))
        for label in ordered(counts)
        for n_other, of_others, n_seen, of_seen in (counts[label],)
    )
