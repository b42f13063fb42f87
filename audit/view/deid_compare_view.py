"""Two kept scores on the same gold notes: differences with interval and p, and who missed what.

Comes in: two identifiers. Goes out: plain values, and the numbers of the spans that only one of
the taggers misses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.deid.comparison import Difference, Discordant, compare
from audit.deid.counts import ANY, MISSED
from audit.deid.kept_scores import kept_score, patients_of, score_content
from audit.deid.labels import ordered
from audit.deid.span_records import SpanIndex, span_index
from audit.errors import AuditError
from audit.rates import IntArray


@dataclass(frozen=True)
class ComparedLabel:
    """The differences of one label, first minus second; "" is all labels together."""

    label: str
    n_gold: int
    differences: tuple[Difference, ...]


@dataclass(frozen=True, eq=False)
class ScoresCompared:
    """Two scores side by side.

    Attributes
    ----------
    lines
        All labels together, then a line a label.
    discordant
        Golds by which of the two found them.
    first_only, second_only
        Numbers of the cases, in the index of the score that missed them: golds that only the first
        tagger misses, and that only the second one misses.
    """

    lines: tuple[ComparedLabel, ...]
    discordant: Discordant
    first_only: IntArray
    second_only: IntArray


def compare_scores(first: str, *, second: str, criterion: str) -> ScoresCompared:
    """Compare two kept scores of the same gold notes.

    Raises
    ------
    AuditError
        If one of them is not there, or they are not of the same gold notes.
    """
    one, other = kept_score(first), kept_score(second)
    if one.gold_digest != other.gold_digest:
        raise AuditError(
            "These two scores are not of the same gold notes.",
            where="score",
            do="Measure both taggers on the same notes, with the same labels.",
        )
    counts = [patients_of(score_id, criterion=criterion) for score_id in (first, second)]
    seed = int(score_content(first)["summary"]["seed"])
    n_replicates = int(score_content(first)["summary"]["n_replicates"])
    labels = ordered({label for side in counts for c in side for label in c.rows} - {ANY})
    lines = []
    for label in (ANY, *labels):
        n_gold = sum(c.row(label)[0] for c in counts[0])
        found = compare(
            counts[0], counts[1], label=label, seed=seed, n_replicates=n_replicates
        )  # fmt: skip
        lines.append(ComparedLabel(label, n_gold, found))
    indices = [span_index(side.path) for side in (one, other)]
    missed = [_missed(index, criterion=criterion) for index in indices]
    first_only = [number for key, number in missed[0].items() if key not in missed[1]]
    second_only = [number for key, number in missed[1].items() if key not in missed[0]]
    n_both_missed = len(missed[0]) - len(first_only)
    split = Discordant(
        n_first_only=len(second_only),
        n_second_only=len(first_only),
        n_both=one.n_gold - len(first_only) - len(second_only) - n_both_missed,
        n_neither=n_both_missed,
    )
    return ScoresCompared(
        tuple(lines), split,
        np.array(sorted(first_only), dtype=np.int64), np.array(sorted(second_only), dtype=np.int64),
    )  # fmt: skip


def _missed(index: SpanIndex, *, criterion: str) -> dict[tuple[str, int, int, str], int]:
    """Return the golds that were missed, and the number of each case."""
    numbers = index.chosen(criterion=criterion, kinds=(MISSED,)).tolist()
    # Under a criterion that wants more, a gold is missed too where its partner does not qualify:
    # then it stands as missed of its own, beside the pair of the other criteria.
    return {
        (case.doc_id, *case.gold, case.row): number
        for number, case in zip(numbers, index.cases(numbers), strict=True)
        if case.gold is not None
    }
