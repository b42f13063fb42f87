"""Guards: differences between members and controls that do not come from M_hospital.

Baselines that know nothing of M_hospital are M_general alone, popularity, word pieces and spelling.
A list is ill-matched if one of them tells its members from its controls: what the attack shows of
such a list may be nothing but the same difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from audit.attack.measure_types import GENERAL_ALONE, POPULARITY
from audit.names.candidates import Candidates
from audit.stats import BoolArray, Estimate, FloatArray, IntArray, auc_interval
from audit.text import fold_letters

PIECES, SPELLING = "pieces", "spelling"
ILL_MATCHED_BEYOND = 0.05
"""A list is ill-matched if the interval of a baseline's AUC lies farther than this from one half.
With half of it long lists of well-matched controls are refused for trifles; with twice the value
members may outrank controls in three pairs of five without the hospital's model."""
MIN_EACH_SIDE = 20
"""Fewest names on each side for a list to be called ill-matched. With 10 the interval is wider than
the mismatch, with 40 short lists are never guarded."""
_N_FOLDS = 5


@dataclass(frozen=True)
class Guard:
    """How well each baseline tells members from controls, and which of them forbid a verdict."""

    aucs: Mapping[str, Estimate]
    mismatched: tuple[str, ...]


def guard_list(
    baselines: Mapping[str, FloatArray], is_member: BoolArray, *, columns: IntArray
) -> Guard:
    """Return the AUC of every baseline [N] with its interval, and the mismatched baselines.

    `columns` [N, 2] are the places of the names' parts: names that share one rise and fall
    together. With fewer than `MIN_EACH_SIDE` members or controls nothing is mismatched. Spelling is
    mismatched only above 1/2: where there is nothing to learn, a classifier falls below 1/2 on
    names that it was not fitted on.
    """
    aucs = {
        name: auc_interval(column, is_member, clusters=tuple(columns.T))
        for name, column in baselines.items()
    }
    has_enough = min(int(is_member.sum()), int((~is_member).sum())) >= MIN_EACH_SIDE
    mismatched = tuple(
        name
        for name, area in aucs.items()
        if has_enough
        and (
            area.low > 0.5 + ILL_MATCHED_BEYOND
            or (area.high < 0.5 - ILL_MATCHED_BEYOND and name != SPELLING)
        )
    )
    return Guard(aucs, mismatched)


def score_spelling(names: list[str], is_member: BoolArray, *, columns: IntArray) -> FloatArray:
    """Return how member-like each name [N] is spelt, judging by names that share no part with it.

    A logistic regression on character 1- to 3-grams is fitted on four folds and applied to the
    fifth. Names that are connected through shared parts stay in one fold. NaN if the names fall
    into fewer than two folds, or if the other folds hold only members or only controls.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    scores = np.full(len(names), math.nan)
    folds = assign_folds(columns)
    name_array = np.array(names, dtype=object)
    for fold in np.unique(folds):
        in_fold, in_other_folds = folds == fold, folds != fold
        if len(np.unique(is_member[in_other_folds])) < 2:
            continue
        model = make_pipeline(
            TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 3), lowercase=True),
            LogisticRegression(class_weight="balanced", max_iter=1000),
        )
        model.fit(name_array[in_other_folds], is_member[in_other_folds])
        scores[in_fold] = model.decision_function(name_array[in_fold])
    return scores


def number_written_parts(names: Candidates) -> IntArray:
    """Return the numbers [N, 2] of the first and last parts, equal for parts written alike.

    The columns of evidence do not tell: a part has another one in a name of more tokens. A missing
    part is -1.
    """
    numbers = []
    n_before = 0
    for parts in (names.first, names.last):
        folded, place = np.unique(list(map(fold_letters, parts)), return_inverse=True)
        is_there = np.array(list(map(bool, parts)), dtype=np.bool_)
        numbers.append(np.where(is_there, n_before + place.reshape(-1), -1))
        n_before += len(folded)
    return np.stack(numbers, axis=1)


def assign_folds(columns: IntArray) -> IntArray:
    """Put names [N] into folds of about equal size; names connected by parts share a fold."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n = len(columns)
    rows, roles = np.nonzero(columns >= 0)
    _, part = np.unique(columns[rows, roles], return_inverse=True)
    n_nodes = n + int(part.max(initial=-1)) + 1
    edges = csr_array((np.ones(len(rows)), (rows, n + part)), shape=(n_nodes, n_nodes))
    component = connected_components(edges, directed=False)[1][:n]
    labels, sizes = np.unique(component, return_counts=True)
    fold_sizes = np.zeros(_N_FOLDS, dtype=np.int64)
    fold_of = dict[int, int]()
    for place in np.argsort(-sizes, kind="stable"):
        smallest = int(fold_sizes.argmin())
        fold_of[int(labels[place])] = smallest
        fold_sizes[smallest] += sizes[place]
    return np.array([fold_of[int(label)] for label in component], dtype=np.int64)


def adjust_scores(scores: FloatArray, covariates: FloatArray, *, folds: IntArray) -> FloatArray:
    """Return scores [N] minus their prediction from covariates [N, K], fitted on the other folds.

    The fit never sees who is a member. A missing covariate counts as the mean, and a column of its
    own marks it as missing.
    """
    is_scored = ~np.isnan(scores)
    columns = [np.ones(len(scores))]
    for column in covariates.T:
        is_missing = ~np.isfinite(column)
        mean = float(column[~is_missing].mean()) if (~is_missing).any() else 0.0
        columns.append(np.where(is_missing, mean, column))
        if is_missing.any() and not is_missing.all():
            columns.append(is_missing.astype(np.float64))
    basis = np.stack(columns, axis=1)
    adjusted = np.full(len(scores), math.nan)
    for fold in np.unique(folds):
        in_fold, in_other_folds = (folds == fold) & is_scored, (folds != fold) & is_scored
        if in_other_folds.sum() <= basis.shape[1]:
            adjusted[in_fold] = scores[in_fold]
            continue
        weights = np.linalg.lstsq(basis[in_other_folds], scores[in_other_folds], rcond=None)[0]
        adjusted[in_fold] = scores[in_fold] - basis[in_fold] @ weights
    return adjusted


BASELINES = (GENERAL_ALONE, POPULARITY, PIECES, SPELLING)
"""The baselines that guard a list, in the order of the report."""
