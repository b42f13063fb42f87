"""A score as plain JSON: every measure by criterion and label, with what it was counted from."""

from __future__ import annotations

import math

from audit.deid.bootstrap import N_REPLICATES
from audit.deid.counts import ANY, COLUMNS, MISSED, SPURIOUS, MatchCounts
from audit.deid.coverage import CoverageCounts
from audit.deid.labels import JAPANESE
from audit.deid.metrics import MEASURES, LabelMetrics, measured
from audit.deid.score import CriterionCounts, Scored
from audit.rates import Estimate, Rate


def score_summary(
    scored: Scored, *, matcher: str, seed: int = 0, n_replicates: int = N_REPLICATES
) -> dict[str, object]:
    """Return measures, confusion matrices and coverage; shares 0-1, null where undefined.

    `criteria[criterion]["labels"][label]` holds precision, recall, f1, complete, clean, exact,
    their `intervals` (95 %, bootstrap over patients) and all counts; `together` the same for all
    labels counted together, `macro` the mean over labels.
    """
    criteria = {
        name: _criterion(one, seed=seed, n_replicates=n_replicates)
        for name, one in scored.criteria.items()
    }
    blind = {}
    for name, one in scored.blind.items():
        metrics = measured(one.by_patient, seed=seed, n_replicates=n_replicates)
        blind[name] = _label(metrics.together)
    return {
        "matcher": matcher,
        "n_documents": scored.n_documents,
        "n_patients": scored.n_patients,
        "n_duplicate_spans": scored.n_duplicates,
        "n_overlapping_gold": scored.n_overlapping_gold,
        "seed": seed,
        "n_replicates": n_replicates,
        "criteria": criteria,
        "type_blind": blind,
        "coverage": coverage_summary(scored.covered),
    }


def _criterion(one: CriterionCounts, *, seed: int, n_replicates: int) -> dict[str, object]:
    metrics = measured(one.by_patient, seed=seed, n_replicates=n_replicates)
    return {
        "labels": {entry.label: _label(entry) for entry in metrics.labels},
        "together": _label(metrics.together),
        "macro": {
            **{name: _number(e.value) for name, e in zip(MEASURES, metrics.macro, strict=True)},
            "intervals": {
                name: _interval(e) for name, e in zip(MEASURES, metrics.macro, strict=True)
            },
        },
        "matrix": matrix_summary(one.counts),
        "n_pairs_differ": one.n_differing,
    }


def matrix_summary(counts: MatchCounts) -> dict[str, object]:
    """Return the confusion matrix: `rows` gold labels and "spurious", `columns` predicted labels
    and "missed".
    """  # noqa: D205
    labels = counts.labels
    rows = zip((*labels, SPURIOUS), counts.matrix(labels), strict=True)
    return {"columns": [*labels, MISSED], "rows": dict(rows)}


def _label(entry: LabelMetrics) -> dict[str, object]:
    summary: dict[str, object] = {
        name: _number(entry.estimate(name).value) for name in MEASURES
    }  # fmt: skip
    summary["intervals"] = {name: _interval(entry.estimate(name)) for name in MEASURES}
    summary |= dict(zip(COLUMNS, entry.counts, strict=True))
    if entry.label in JAPANESE:
        summary["label_ja"] = JAPANESE[entry.label]
    return summary


def coverage_summary(covered: CoverageCounts) -> dict[str, object]:
    """Return what redaction would take out: golds covered whole, characters covered and left."""
    labels = MatchCounts({label: () for label in covered.rows}).labels
    n_text = covered.n_text_chars
    return {
        "labels": {label: _coverage_row(covered, label) for label in labels},
        "together": _coverage_row(covered, ANY),
        "n_text_chars": n_text,
        "n_predicted_chars": covered.n_predicted_chars,
        "n_left_chars": covered.n_left_chars,
        "left_per_1000_chars": 1000 * covered.n_left_chars / n_text if n_text else None,
        "n_over_chars": covered.n_over_chars,
        "over_redaction": _number(Rate(covered.n_over_chars, covered.n_outside_chars).value),
    }


def _coverage_row(covered: CoverageCounts, label: str) -> dict[str, object]:
    n_gold, n_whole, n_chars, n_covered = covered.row(label)
    return {
        "n_gold": n_gold,
        "n_covered_whole": n_whole,
        "covered_whole": _number(Rate(n_whole, n_gold).value),
        "n_gold_chars": n_chars,
        "n_covered_chars": n_covered,
        "covered_chars": _number(Rate(n_covered, n_chars).value),
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _interval(estimate: Estimate) -> list[float] | None:
    return None if math.isnan(estimate.low) else [estimate.low, estimate.high]
