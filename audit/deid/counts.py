"""Counts of matched, missed and spurious spans, by label: everything rates are made of.

Counts of two notes are added with `+`; rates are made from the sum, never averaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from audit.deid.labels import ordered
from audit.deid.matching import Matches
from audit.rates import IntArray

MISSED, SPURIOUS = "missed", "spurious"
ANY = ""
"""The label under which spans of all labels are counted together."""

COLUMNS = (
    "n_gold", "n_predicted", "n_missed", "n_spurious",
    "n_with_gold", "n_complete", "n_with_predicted", "n_clean", "n_with_either", "n_exact",
)  # fmt: skip
"""Spans, then records: with a gold span, of those with none missed; with a predicted span, of those
with none spurious; with either, of those with none missed and none spurious."""

Row = tuple[int, ...]
_NONE: Row = (0,) * len(COLUMNS)


@dataclass(frozen=True)
class MatchCounts:
    """What one criterion gave, for one note or many.

    Attributes
    ----------
    rows
        By label, and under `ANY` for all labels together: a number for each of `COLUMNS`.
    cells
        The confusion matrix by (gold label or `SPURIOUS`, predicted label or `MISSED`).
    n_records
        How many notes were counted.
    """

    rows: Mapping[str, Row] = field(default_factory=dict)
    cells: Mapping[tuple[str, str], int] = field(default_factory=dict)
    n_records: int = 0

    def __add__(self, other: MatchCounts) -> MatchCounts:
        """Count two sets of notes together."""
        return total((self, other))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that occur, in the order of tables."""
        return ordered(label for label in self.rows if label != ANY)

    def row(self, label: str) -> Row:
        """Return the numbers of a label; zeros where it does not occur."""
        return self.rows.get(label, _NONE)

    def matrix(self, labels: Iterable[str]) -> list[list[int]]:
        """Return the confusion matrix: rows gold and `SPURIOUS`, columns predicted and `MISSED`."""
        labels = list(labels)
        return [
            [self.cells.get((gold, predicted), 0) for predicted in (*labels, MISSED)]
            for gold in (*labels, SPURIOUS)
        ]


def total(counts: Iterable[MatchCounts]) -> MatchCounts:
    """Return the sum of counts."""
    rows: dict[str, list[int]] = {}
    cells: Counter[tuple[str, str]] = Counter()
    n_records = 0
    for one in counts:
        n_records += one.n_records
        cells.update(one.cells)
        for label, row in one.rows.items():
            known = rows.setdefault(label, list(_NONE))
            for i, number in enumerate(row):
                known[i] += number
    return MatchCounts({label: tuple(row) for label, row in rows.items()}, dict(cells), n_records)


def count(matches: Matches, *, unaligned: Iterable[str] = ()) -> MatchCounts:
    """Count one note; predictions without a place in it (`unaligned` labels) are spurious."""
    spurious = [span.label for span in matches.spurious] + list(unaligned)
    cells = Counter((gold.label, predicted.label) for gold, predicted in matches.pairs)
    cells.update((span.label, MISSED) for span in matches.missed)
    cells.update((SPURIOUS, label) for label in spurious)
    golds, predictions = Counter[str](), Counter[str]()
    for (gold, predicted), n in cells.items():
        for side, label in ((golds, gold), (predictions, predicted)):
            if label not in (SPURIOUS, MISSED):
                side[label] += n
                side[ANY] += n
    rows = {}
    for label in {*golds, *predictions}:
        lost = len(matches.missed) if label == ANY else cells[label, MISSED]
        extra = len(spurious) if label == ANY else cells[SPURIOUS, label]
        rows[label] = _row(golds[label], predictions[label], lost, extra)
    return MatchCounts(rows, dict(cells), 1)


def _row(n_gold: int, n_predicted: int, n_missed: int, n_spurious: int) -> Row:
    has_gold, has_predicted = n_gold > 0, n_predicted > 0
    return (
        n_gold,
        n_predicted,
        n_missed,
        n_spurious,
        int(has_gold),
        int(has_gold and not n_missed),
        int(has_predicted),
        int(has_predicted and not n_spurious),
        int(has_gold or has_predicted),
        int((has_gold or has_predicted) and not n_missed and not n_spurious),
    )


def as_table(counts: Iterable[MatchCounts], *, labels: Iterable[str]) -> IntArray:
    """Return counts as numbers [patients, labels, columns]."""
    labels = list(labels)
    rows = [[one.row(label) for label in labels] for one in counts]
    return np.array(rows, dtype=np.int64).reshape(-1, len(labels), len(COLUMNS))
