"""Measures of any scores with truth: no model, no names, one flat dictionary."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from audit.errors import AuditError
from audit.membership.confusion import confusion
from audit.rates import BoolArray, FloatArray, bootstrap_ranking


def score_file(
    scores: ArrayLike, is_member: ArrayLike, *, seed: int, threshold: float | None = None
) -> dict[str, object]:
    """Return AUC, TPR at FPR and, with a threshold, the confusion table of a column of scores.

    Higher scores are more member-like; NaN scores are left out and counted; flagged is
    score > threshold. A number that is undefined, or that so few controls cannot resolve, is None.

    Parameters
    ----------
    scores, is_member
        Columns [N]; truth is True or 1 for a member, False or 0 for a control.

    Raises
    ------
    AuditError
        If there are no scored members or no scored controls.
    """
    score = np.asarray(scores, dtype=np.float64)
    member = np.asarray(is_member, dtype=np.bool_)
    ranking = bootstrap_ranking(score, member, seed=seed)
    for n_names, kind, value in (
        (ranking.n_members, "members", 1),
        (ranking.n_controls, "controls", 0),
    ):
        if not n_names:
            raise AuditError(
                f"There are no {kind} with a score.",
                where="is_member",
                do=f"Give at least one row with is_member = {value} and a number as its score.",
            )
    numbers: dict[str, float] = {
        "n_members": ranking.n_members,
        "n_controls": ranking.n_controls,
        "n_not_scored": ranking.n_not_scored,
        "auc": ranking.auc.value,
        "auc_low": ranking.auc.low,
        "auc_high": ranking.auc.high,
    }
    if threshold is not None:
        numbers |= {"threshold": threshold, **_at_threshold(score, member, threshold)}
    tpr = {f"{fpr:g}": estimate for fpr, estimate in ranking.tpr_at_fpr}
    return {
        **_without_nan(numbers),
        "tpr_at_fpr": _without_nan({key: x.value for key, x in tpr.items()}),
        "tpr_at_fpr_low": _without_nan({key: x.low for key, x in tpr.items()}),
        "tpr_at_fpr_high": _without_nan({key: x.high for key, x in tpr.items()}),
    }


def _at_threshold(score: FloatArray, member: BoolArray, threshold: float) -> dict[str, float]:
    is_scored = ~np.isnan(score)
    counts = confusion(score[is_scored] > threshold, member[is_scored])
    return {
        "tp": counts.tp,
        "fn": counts.fn,
        "fp": counts.fp,
        "tn": counts.tn,
        "f1": counts.f1,
        "accuracy": counts.accuracy.value,
        "precision": counts.precision.value,
        "recall": counts.recall.value,
    }


def _without_nan(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {key: None if math.isnan(x) else x for key, x in numbers.items()}
