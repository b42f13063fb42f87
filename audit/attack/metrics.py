"""By role: how well members of each role (patient, staff, ...) are told from the same controls.

Comes in: a list with roles, scores and flags. Goes out: counts and rankings, role by role. Every
role is ranked against all listed controls, so that the roles can be compared; canaries are no role.

Source: Nakamura et al., limits: most names in the notes are of staff and not of patients.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass

import numpy as np
from numpy.typing import NDArray

from audit.attack.decisions import Confusion, confusion, f1_interval, held_out_threshold
from audit.names.candidates import CANARY, CONTROL_KINDS, Candidates
from audit.stats import (
    BoolArray,
    Estimate,
    FloatArray,
    RankingIntervals,
    Rate,
    auc_interval,
    bootstrap_ranking,
)


def plain(value: object) -> object:
    """Return a measure as dicts, lists, numbers and None.

    NaN and infinity become None, also "not resolvable". A confusion carries its rates, a TPR at FPR
    the key of its FPR ("0.01") and whether the list resolves it.

    Raises
    ------
    TypeError
        If there is something in it that is no measure.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Confusion):
        return _confusion(value)
    if isinstance(value, RankingIntervals):
        return _ranking(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return _fields(value)
    raise TypeError(f"{type(value).__name__} is no measure")


def _fields(value: object) -> dict[str, object]:
    return {f.name: plain(getattr(value, f.name)) for f in fields(value)}  # type: ignore[arg-type]


def _confusion(counts: Confusion) -> dict[str, object]:
    result = _fields(counts)
    result |= {"n_members": counts.n_members, "n_controls": counts.n_controls}
    for name in ("recall", "false_positive_rate", "precision", "accuracy"):
        rate = getattr(counts, name)
        result[name] = {**_fields(rate), **_fields(rate.interval())}
    return result


def _ranking(ranking: RankingIntervals) -> dict[str, object]:
    result = _fields(ranking)
    result["tpr_at_fpr"] = {
        f"{fpr:g}": {**_fields(tpr), "is_resolvable": not math.isnan(tpr.value)}
        for fpr, tpr in ranking.tpr_at_fpr
    }
    return result


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


MAX_ROLES = 12
"""Roles that are measured: those with most members."""


@dataclass(frozen=True, eq=False)
class Attacked:
    """What one model says of N names: a score [N], higher = more member-like, and who is flagged.

    `is_flagged` [N] is the decision at the audit's threshold (q <= 0.05).
    """

    score: FloatArray
    is_flagged: BoolArray


@dataclass(frozen=True)
class RoleMeasures:
    """One role's members against all C listed controls.

    Attributes
    ----------
    role
        As given; "" for names without a role.
    n_members, n_controls, n_not_scored
        Members of the role, all controls, and those of both without a score.
    n_role_controls, role_controls_flagged
        Controls that carry the role themselves, and how many of them are flagged.
    median_mentions
        Of the members; NaN where not known. A role that is mentioned more often is easier to find.
    auc, general_auc
        Of the fixed score and of M_general alone; NaN without controls.
    flagged, general_flagged
        Members flagged at the audit's threshold: the true-positive rate.
    above
        Members above the free threshold, if one was asked for.
    """

    role: str
    n_members: int
    n_controls: int
    n_not_scored: int
    n_role_controls: int
    median_mentions: float
    auc: Estimate
    general_auc: Estimate
    flagged: Rate
    general_flagged: Rate
    role_controls_flagged: Rate
    above: Rate | None


def measures_by_role(
    candidates: Candidates,
    *,
    attack: Attacked,
    general: Attacked,
    parts: NDArray[np.int64] | None = None,
    threshold: float | None = None,
) -> tuple[RoleMeasures, ...]:
    """Measure every role; most members first, then by name; () where no member has a role.

    Parameters
    ----------
    candidates
        N names without canaries.
    attack, general
        The score fixed beforehand, and M_general alone.
    parts
        [N, 2] columns of the names' parts, as in `ScoredNames`.
    threshold
        A free threshold on the fixed score, or None.
    """
    roles = np.array(candidates.role, dtype=np.str_)
    truth = np.array([m is True for m in candidates.is_member], dtype=np.bool_)
    is_control = np.array([m is False for m in candidates.is_member], dtype=np.bool_)
    for column in (attack.score, attack.is_flagged, general.score, general.is_flagged):
        if column.shape != truth.shape:
            raise ValueError(f"a column of shape {column.shape} for {len(truth)} names")
    counts = Counter(roles[truth].tolist())
    if not any(counts):
        return ()
    order = sorted(counts, key=lambda role: (-counts[role], role))
    return tuple(
        _measure(
            role,
            mentions=candidates.n_mentions,
            who=(truth & (roles == role), is_control, is_control & (roles == role)),
            models=(attack, general),
            threshold=threshold,
            parts=parts,
        )
        for role in order[:MAX_ROLES]
    )


def _measure(
    role: str,
    *,
    mentions: tuple[int | None, ...],
    who: tuple[BoolArray, BoolArray, BoolArray],
    models: tuple[Attacked, Attacked],
    threshold: float | None,
    parts: NDArray[np.int64] | None,
) -> RoleMeasures:
    """Measure one role; `who` are its members, all controls and its own controls [N] each."""
    members, controls, own = who
    attack, general = models
    rows = members | controls
    clusters = () if parts is None else tuple(parts[rows].T)
    aucs = [auc_interval(one.score[rows], members[rows], clusters=clusters) for one in models]
    known = [k for k, is_own in zip(mentions, members, strict=True) if is_own and k is not None]
    return RoleMeasures(
        role=role,
        n_members=int(members.sum()),
        n_controls=int(controls.sum()),
        n_not_scored=int(np.isnan(attack.score[rows]).sum()),
        n_role_controls=int(own.sum()),
        median_mentions=float(np.median(known)) if known else math.nan,
        auc=aucs[0],
        general_auc=aucs[1],
        flagged=_share(attack.is_flagged, members, score=attack.score),
        general_flagged=_share(general.is_flagged, members, score=general.score),
        role_controls_flagged=_share(attack.is_flagged, own, score=attack.score),
        above=None
        if threshold is None
        else _share(attack.score > threshold, members, score=attack.score),
    )


def _share(flag: BoolArray, rows: BoolArray, *, score: FloatArray) -> Rate:
    scored = rows & ~np.isnan(score)
    return Rate(int((flag & scored).sum()), int(scored.sum()))
