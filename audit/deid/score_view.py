"""The published figures of de-identification, and the same again from the paper's own matrix.

Comes in: nothing. Goes out: what the paper prints, and what the formulas of this tool make of its
figure 2. The facts are in `published_deid.json`.

Source: Yada et al., tables 1, 3 and 6 to 9, figure 2.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from audit.deid.matching import ANY, CRITERIA, MISSED, SPURIOUS
from audit.deid.metrics import MEASURES, Difference, Discordant, compare, f1
from audit.deid.score import SCORES, KeptScore, SpanIndex, patients_of, span_index
from audit.errors import AuditError
from audit.notes.spans import IDENTIFIER, TYPES, ordered
from audit.stats import Estimate, IntArray, Rate

HEADLINE_CRITERION = "label_relaxed"
FEW_SPANS, FEW_PATIENTS = 30, 20
"""Below these a rate says little, and the screen says so."""

_PARTS = {
    "precision": ("n_predicted", "n_spurious"),
    "recall": ("n_gold", "n_missed"),
    "complete": ("n_with_gold", "n_complete"),
    "clean": ("n_with_predicted", "n_clean"),
    "exact": ("n_with_either", "n_exact"),
}
_COUNTED_DOWN = ("precision", "recall")


@dataclass(frozen=True)
class Share:
    """A rate, its 95 % interval over patients, and what it was counted from.

    `n_hits` is None for F1, which is no share of anything; its `n_total` are the golds.
    """

    estimate: Estimate
    n_hits: int | None
    n_total: int


@dataclass(frozen=True)
class LabelLine:
    """The rates of one label, by measure; `label` is "" for all labels together."""

    label: str
    shares: Mapping[str, Share]
    n_gold: int
    n_predicted: int

    @property
    def is_few(self) -> bool:
        """Whether there are too few golds to say much."""
        return self.n_gold < FEW_SPANS


@dataclass(frozen=True)
class CriterionView:
    """What one criterion says.

    Attributes
    ----------
    lines
        A line a label, in the order of tables.
    together
        All labels counted together (micro).
    macro
        Means over the labels, by measure.
    rows, columns
        Names of the matrix: gold labels and `spurious`; predicted labels and `missed`.
    matrix
        Counts [rows][columns].
    n_pairs_differ
        Golds that the other matcher gives another partner.
    """

    criterion: str
    lines: tuple[LabelLine, ...]
    together: LabelLine
    macro: Mapping[str, Estimate]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    matrix: tuple[tuple[int, ...], ...]
    n_pairs_differ: int

    def line(self, label: str) -> LabelLine | None:
        """Return the line of a label; "" is all labels together."""
        every = (*self.lines, self.together)
        return next((line for line in every if line.label == label), None)


@dataclass(frozen=True)
class CoverageLine:
    """What redaction would take out of the golds of a label; "" is all labels."""

    label: str
    whole: Rate
    characters: Rate


@dataclass(frozen=True)
class Headline:
    """What a reader must know first.

    Attributes
    ----------
    label
        `identifier`, or "" for all labels where there is no identifier.
    missed
        Golds that no prediction touches, of all golds.
    share
        That share with its interval.
    notes
        Notes in which at least one was missed, of all notes with one.
    readable
        Golds of which at least one character would stay in the text, of all golds.
    is_few
        Whether there are too few golds or patients to say much.
    """

    label: str
    missed: Rate
    share: Estimate
    notes: Rate
    readable: Rate
    is_few: bool


@dataclass(frozen=True)
class SeenLine:
    """Recall of a label on names that stood in the training notes, and on others."""

    label: str
    seen: Rate
    unseen: Rate


@dataclass(frozen=True)
class ScoreView:
    """A score, ready to be shown.

    Attributes
    ----------
    kept
        Which score it is.
    criteria
        By name of the criterion.
    blind
        All labels made equal, by criterion.
    coverage
        A line a label, all labels last.
    left_per_1000, over_redaction
        Gold characters left, per 1,000 characters of the notes; share of the other characters that
        is taken out for nothing.
    seen
        Empty where the training notes are not known.
    copies, verbatim
        How a model's copies came out, and the criteria of exact copies alone; None and empty where
        there are no copies.
    facts
        The rest of `score.json` that is a count or a choice.
    """

    kept: KeptScore
    criteria: Mapping[str, CriterionView]
    blind: Mapping[str, LabelLine]
    coverage: tuple[CoverageLine, ...]
    left_per_1000: float
    over_redaction: float
    headline: Headline
    seen: tuple[SeenLine, ...]
    copies: Mapping[str, Any] | None
    verbatim: Mapping[str, CriterionView]
    facts: Mapping[str, Any]

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels of either side, in the order of tables."""
        return tuple(line.label for line in self.criteria[HEADLINE_CRITERION].lines)


def score_view(kept: KeptScore, *, content: Mapping[str, Any]) -> ScoreView:
    """Return a kept score as a screen shows it; KeyError where the content is not whole."""
    summary = content["summary"]
    criteria = _criteria(summary)
    coverage = tuple(
        _coverage(label, one)
        for label, one in (
            *summary["coverage"]["labels"].items(),
            (ANY, summary["coverage"]["together"]),
        )
    )
    return ScoreView(
        kept=kept,
        criteria=criteria,
        blind={name: _line(ANY, one) for name, one in summary["type_blind"].items()},
        coverage=coverage,
        left_per_1000=_number(summary["coverage"]["left_per_1000_chars"]),
        over_redaction=_number(summary["coverage"]["over_redaction"]),
        headline=_headline(criteria[HEADLINE_CRITERION], coverage, kept.n_patients),
        seen=tuple(
            SeenLine(one["label"], Rate(*one["seen"]), Rate(*one["unseen"]))
            for one in (content["seen"] or {"labels": ()})["labels"]
        ),
        copies=content.get("copies"),
        verbatim=_criteria(content["verbatim"]) if "verbatim" in content else {},
        facts={
            "matcher": summary["matcher"],
            "seed": summary["seed"],
            "n_replicates": summary["n_replicates"],
            "n_duplicates": summary["n_duplicate_spans"],
            "n_overlapping": summary["n_overlapping_gold"],
            "n_gold_only": content["n_gold_only"],
            "n_predicted_only": content["n_predicted_only"],
            "n_left_out": content["n_left_out"],
            "unknown_labels": tuple(content["unknown_labels"]),
            "tagger_digest": content["tagger"]["digest"],
        },
    )


def _criteria(summary: Mapping[str, Any]) -> dict[str, CriterionView]:
    return {name: _criterion(name, summary["criteria"][name]) for name in CRITERIA}


def _criterion(name: str, one: Mapping[str, Any]) -> CriterionView:
    rows = one["matrix"]["rows"]
    return CriterionView(
        criterion=name,
        lines=tuple(_line(label, entry) for label, entry in one["labels"].items()),
        together=_line(ANY, one["together"]),
        macro={
            measure: _estimate(one["macro"][measure], one["macro"]["intervals"][measure])
            for measure in MEASURES
        },
        rows=tuple(rows),
        columns=tuple(one["matrix"]["columns"]),
        matrix=tuple(tuple(row) for row in rows.values()),
        n_pairs_differ=int(one["n_pairs_differ"]),
    )


def _line(label: str, entry: Mapping[str, Any]) -> LabelLine:
    shares = {}
    for measure in MEASURES:
        estimate = _estimate(entry[measure], entry["intervals"][measure])
        if measure not in _PARTS:
            shares[measure] = Share(estimate, None, int(entry["n_gold"]))
            continue
        total, part = (int(entry[name]) for name in _PARTS[measure])
        hits = total - part if measure in _COUNTED_DOWN else part
        shares[measure] = Share(estimate, hits, total)
    return LabelLine(label, shares, int(entry["n_gold"]), int(entry["n_predicted"]))


def _headline(view: CriterionView, coverage: tuple[CoverageLine, ...], n_patients: int) -> Headline:
    named = view.line(IDENTIFIER)
    line = named if named is not None and named.n_gold else view.together
    recall, complete = line.shares["recall"], line.shares["complete"]
    whole = next(one.whole for one in coverage if one.label == line.label)
    missed = Rate(recall.n_total - (recall.n_hits or 0), recall.n_total)
    complete_notes = complete.n_hits or 0
    return Headline(
        label=line.label,
        missed=missed,
        share=Estimate(missed.value, 1 - recall.estimate.high, 1 - recall.estimate.low),
        notes=Rate(complete.n_total - complete_notes, complete.n_total),
        readable=Rate(whole.n_total - whole.n_hits, whole.n_total),
        is_few=line.is_few or n_patients < FEW_PATIENTS,
    )


def _coverage(label: str, one: Mapping[str, Any]) -> CoverageLine:
    return CoverageLine(
        label,
        Rate(int(one["n_covered_whole"]), int(one["n_gold"])),
        Rate(int(one["n_covered_chars"]), int(one["n_gold_chars"])),
    )


def _estimate(value: float | None, bounds: list[float] | None) -> Estimate:
    low, high = bounds if bounds is not None else (math.nan, math.nan)
    return Estimate(_number(value), low, high)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


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
    one, other = SCORES.get(first), SCORES.get(second)
    if one.gold_digest != other.gold_digest:
        raise AuditError(
            "These two scores are not of the same gold notes.",
            where="score",
            do="Measure both taggers on the same notes, with the same labels.",
        )
    counts = [patients_of(score_id, criterion=criterion) for score_id in (first, second)]
    seed = int(SCORES.get(first).content["summary"]["seed"])
    n_replicates = int(SCORES.get(first).content["summary"]["n_replicates"])
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
