"""Measures of an attack over a list with truth, each beside what trivial guesses reach.

Comes in: scores and yes/no rules of the attack, and the same of baselines (M_general alone,
popularity). Goes out: one value with counts, rankings and intervals, by stratum of controls.

Source: Nakamura et al., section 4.3; what is beyond the paper: AUC, TPR at FPR, intervals,
baselines, and thresholds chosen on other names than those they judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from audit.membership.candidates import CANARY, CONTROL_KINDS
from audit.membership.confusion import Confusion, confusion, f1_interval
from audit.membership.decisions import held_out_threshold
from audit.membership.plain import plain
from audit.rates import BoolArray, Estimate, FloatArray, RankingIntervals, bootstrap_ranking

__all__ = [
    "Confusion",
    "MembershipMetrics",
    "RuleMetrics",
    "ScoredNames",
    "StratumMetrics",
    "confusion",
    "f1_interval",
    "membership_metrics",
]

LISTED_KINDS = tuple(kind for kind in CONTROL_KINDS if kind not in ("reference", CANARY))
"""Kinds of controls that members are measured against; reference controls only calibrate p-values,
held-out canaries are compared with planted ones only."""

N_REPLICATES = 2000
"""Bootstrap replicates of the score fixed beforehand and of M_general alone."""

_DRAWN_NAMES = 2_000_000
"""Names drawn at most for the interval of any other ranking: 2,000 replicates up to 1,000 names,
200 for 10,000, which keeps a list of 10,000 names and ten rankings within some seconds."""

GENERAL_ALONE = "general_alone"
"""Name of the baseline that ranks by M_general alone."""


@dataclass(frozen=True, eq=False)
class ScoredNames:
    """N names of a list with what attacks and baselines say of each; higher = more member-like.

    Attributes
    ----------
    is_member
        None: unknown, left out of every measure and counted.
    control_kind
        One of `LISTED_KINDS` for controls; "" for others.
    scores, baselines
        Name of formula -> [N]; NaN: not scored.
    rules, baseline_rules
        Name of rule -> [N] decisions.
    fixed_score
        The one of `scores` chosen beforehand.
    undecided
        Name of rule -> [N], True where Monte-Carlo error covers its threshold.
    parts
        [N, 2] columns of each name's first and last part (-1: none): names that share one are no
        independent draws. None: no two share any.

    Raises
    ------
    ValueError
        If a column does not fit, or a name is not there.
    """

    is_member: tuple[bool | None, ...]
    control_kind: tuple[str, ...]
    scores: Mapping[str, FloatArray]
    rules: Mapping[str, BoolArray]
    baselines: Mapping[str, FloatArray]
    baseline_rules: Mapping[str, BoolArray]
    fixed_score: str
    undecided: Mapping[str, BoolArray] = field(default_factory=dict)
    parts: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        """Check the columns against each other, once."""
        shape = (len(self.is_member),)
        columns = (self.scores, self.rules, self.baselines, self.baseline_rules, self.undecided)
        for name, column in (item for columns_of in columns for item in columns_of.items()):
            if column.shape != shape:
                raise ValueError(f"{name}: shape {column.shape}, but {shape[0]} names")
        if len(self.control_kind) != shape[0]:
            raise ValueError(f"{len(self.control_kind)} control kinds, but {shape[0]} names")
        if set(self.scores) & set(self.baselines) or set(self.rules) & set(self.baseline_rules):
            raise ValueError("a baseline has the name of a score or rule")
        if self.fixed_score not in self.scores:
            raise ValueError(f"the fixed score {self.fixed_score!r} is not among the scores")
        if stray := set(self.undecided) - set(self.rules) - set(self.baseline_rules):
            raise ValueError(f"undecided names for no rule: {sorted(stray)}")
        for row, (truth, kind) in enumerate(zip(self.is_member, self.control_kind, strict=True)):
            is_control = truth is not None and not truth
            if is_control != bool(kind) or (kind and kind not in LISTED_KINDS):
                raise ValueError(f"row {row}: control kind {kind!r} with truth {truth}")


@dataclass(frozen=True)
class RuleMetrics:
    """What a yes/no rule reaches.

    `all_right` and `all_wrong` count every undecided name as judged rightly and wrongly: the best
    and the worst case of the attack. None where Monte-Carlo error is not known. `thresholds`
    (strictly greater) are those of a threshold rule; `n_not_scored` names are not counted.
    """

    confusion: Confusion
    f1: Estimate
    n_not_scored: int = 0
    thresholds: tuple[float, ...] = ()
    n_undecided: int | None = None
    all_right: Confusion | None = None
    all_wrong: Confusion | None = None


@dataclass(frozen=True)
class StratumMetrics:
    """All measures of the members against one kind of controls.

    `held_out` is for each score and baseline the threshold chosen on the other half of the names;
    `free` the threshold that was asked for, on the fixed score.
    """

    n_members: int
    n_controls: int
    always_member: RuleMetrics
    rules: Mapping[str, RuleMetrics]
    baseline_rules: Mapping[str, RuleMetrics]
    scores: Mapping[str, RankingIntervals]
    baselines: Mapping[str, RankingIntervals]
    held_out: Mapping[str, RuleMetrics]
    free: RuleMetrics | None


@dataclass(frozen=True)
class MembershipMetrics:
    """Measures by stratum: "all" (every listed control pooled), then each kind on the list."""

    fixed_score: str
    n_unknown: int
    seed: int
    strata: Mapping[str, StratumMetrics]

    def to_json(self) -> dict[str, object]:
        """Return plain values with stable keys (the fields); NaN and infinity become None."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self)}


def membership_metrics(
    names: ScoredNames, *, seed: int, threshold: float | None = None
) -> MembershipMetrics:
    """Measure every score, rule and baseline in every stratum of controls.

    `threshold`, if given, is applied to the fixed score (strictly greater). Without members or
    without controls there are no strata. The same `seed` draws the same number of names for every
    ranking of a stratum; intervals of others than the fixed score and M_general alone use fewer
    replicates on long lists (the number is part of the result).
    """
    truth = np.array([bool(t) for t in names.is_member], dtype=np.bool_)
    kinds = np.array(names.control_kind, dtype=np.str_)
    present = [kind for kind in LISTED_KINDS if (kinds == kind).any()]
    rows_of = {"all": np.flatnonzero(truth | (kinds != ""))}
    rows_of |= {kind: np.flatnonzero(truth | (kinds == kind)) for kind in present}
    has_truth = truth.any() and present
    return MembershipMetrics(
        fixed_score=names.fixed_score,
        n_unknown=sum(t is None for t in names.is_member),
        seed=seed,
        strata={
            name: _stratum(names, rows, truth[rows], seed=seed, threshold=threshold)
            for name, rows in rows_of.items()
        }
        if has_truth
        else {},
    )


def _stratum(
    names: ScoredNames,
    rows: NDArray[np.int64],
    truth: BoolArray,
    *,
    seed: int,
    threshold: float | None,
) -> StratumMetrics:
    """Measure the given rows."""
    fixed = names.scores[names.fixed_score][rows]

    def rules(columns: Mapping[str, BoolArray]) -> dict[str, RuleMetrics]:
        return {
            name: _rule(
                flag[rows], truth, undecided=_rows(names.undecided.get(name), rows), seed=seed
            )
            for name, flag in columns.items()
        }

    def rankings(columns: Mapping[str, FloatArray]) -> dict[str, RankingIntervals]:
        return {
            name: bootstrap_ranking(
                score[rows],
                truth,
                seed=seed,
                clusters=() if names.parts is None else tuple(names.parts[rows].T),
                n_replicates=_n_replicates(len(rows), name in (names.fixed_score, GENERAL_ALONE)),
            )
            for name, score in columns.items()
        }

    return StratumMetrics(
        n_members=int(truth.sum()),
        n_controls=int((~truth).sum()),
        always_member=_rule(np.ones_like(truth), truth, undecided=None, seed=seed),
        rules=rules(names.rules),
        baseline_rules=rules(names.baseline_rules),
        scores=rankings(names.scores),
        baselines=rankings(names.baselines),
        held_out={
            name: _held_out(score[rows], truth, seed=seed)
            for name, score in {**names.baselines, **names.scores}.items()
        },
        free=None if threshold is None else _free(fixed, truth, threshold=threshold, seed=seed),
    )


def _n_replicates(n_names: int, is_headline: bool) -> int:
    if is_headline:
        return N_REPLICATES
    return max(200, min(N_REPLICATES, _DRAWN_NAMES // max(n_names, 1)))


def _rows(column: BoolArray | None, rows: NDArray[np.int64]) -> BoolArray | None:
    return None if column is None else column[rows]


def _rule(
    flag: BoolArray, truth: BoolArray, *, undecided: BoolArray | None, seed: int
) -> RuleMetrics:
    counts = confusion(flag, truth)
    f1 = f1_interval(counts, seed=seed)
    if undecided is None:
        return RuleMetrics(counts, f1)
    return RuleMetrics(
        counts,
        f1,
        n_undecided=int(undecided.sum()),
        all_right=confusion(np.where(undecided, truth, flag), truth),
        all_wrong=confusion(np.where(undecided, ~truth, flag), truth),
    )


def _held_out(scores: FloatArray, truth: BoolArray, *, seed: int) -> RuleMetrics:
    result = held_out_threshold(scores, truth, seed=seed)
    f1 = f1_interval(result.confusion, seed=seed)
    return RuleMetrics(result.confusion, f1, result.n_not_scored, result.thresholds)


def _free(scores: FloatArray, truth: BoolArray, *, threshold: float, seed: int) -> RuleMetrics:
    is_scored = ~np.isnan(scores)
    counts = confusion(scores[is_scored] > threshold, truth[is_scored])
    f1 = f1_interval(counts, seed=seed)
    return RuleMetrics(counts, f1, int((~is_scored).sum()), (threshold,))
