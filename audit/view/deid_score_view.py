"""A kept score as a screen shows it: rates with what they are made of, headline, coverage, copies.

Comes in: the content of `score.json`. Goes out: plain values; shares 0-1, NaN where undefined.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit.deid.counts import ANY
from audit.deid.kept_scores import KeptScore
from audit.deid.labels import IDENTIFIER
from audit.deid.matching import CRITERIA
from audit.deid.metrics import MEASURES
from audit.rates import Estimate, Rate

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
