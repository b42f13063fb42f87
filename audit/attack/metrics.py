"""Measures of a whole list, by kind of controls, by role, by mentions and along the run.

Comes in: what attacks and baselines say of each name. Goes out: values of JSON as a report keeps
them (`audit.report.report` reads them).

Source: Nakamura et al.; limits: most names in the notes are of staff and not of patients.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from audit.attack.decisions import Confusion, confusion, f1_interval, held_out_threshold
from audit.errors import AuditError
from audit.names.candidates import CANARY, CONTROL_KINDS, Candidates
from audit.stats import (
    BoolArray,
    FloatArray,
    IntArray,
    RankingIntervals,
    Rate,
    auc,
    auc_interval,
    bootstrap_ranking,
)

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
MAX_ROLES = 12
"""Roles that are measured: those with most members."""
MENTION_BINS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None))


def plain(value: object) -> Any:
    """Return a measure as dicts, lists, numbers and None.

    NaN and infinity become None, also "not resolvable". A rate carries its interval, a confusion
    its rates, a TPR at FPR the key of its FPR ("0.01") and whether the list resolves it.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if not is_dataclass(value):
        return value
    more: dict[str, object] = {}
    if isinstance(value, Rate):
        more = vars(value.interval())
    elif isinstance(value, Confusion):
        names = "n_members", "n_controls", "recall", "false_positive_rate", "precision", "accuracy"
        more = {name: getattr(value, name) for name in names}
    elif isinstance(value, RankingIntervals):
        more["tpr_at_fpr"] = {
            f"{fpr:g}": vars(tpr) | {"is_resolvable": not math.isnan(tpr.value)}
            for fpr, tpr in value.tpr_at_fpr
        }
    return plain({one.name: getattr(value, one.name) for one in fields(value)} | more)


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
    parts: IntArray | None = None

    def strata(self) -> dict[str, tuple[IntArray, BoolArray]]:
        """Return rows and their truth by kind of controls: "all", then each kind on the list.

        Without members or without controls there are none.
        """
        truth = np.array([one is True for one in self.is_member], dtype=np.bool_)
        kinds = np.array(self.control_kind, dtype=np.str_)
        controls = {kind: kinds == kind for kind in LISTED_KINDS if (kinds == kind).any()}
        if not truth.any() or not controls:
            return {}
        rows = {
            kind: np.flatnonzero(truth | of_kind)
            for kind, of_kind in ({"all": kinds != ""} | controls).items()
        }
        return {kind: (some, truth[some]) for kind, some in rows.items()}


def membership_metrics(
    names: ScoredNames, *, seed: int, threshold: float | None = None
) -> dict[str, Any]:
    """Measure every score, rule and baseline in every stratum of controls; `plain` writes it.

    `threshold`, if given, is applied to the fixed score (strictly greater). The same `seed` draws
    the same number of names for every ranking of a stratum; intervals of others than the fixed
    score and M_general alone use fewer replicates on long lists (the number is part of the result).
    """
    strata = {
        kind: _stratum(names, rows, truth, seed=seed, threshold=threshold)
        for kind, (rows, truth) in names.strata().items()
    }
    return {
        "fixed_score": names.fixed_score,
        "n_unknown": names.is_member.count(None),
        "seed": seed,
        "strata": strata,
    }


def _stratum(
    names: ScoredNames,
    rows: IntArray,
    truth: BoolArray,
    *,
    seed: int,
    threshold: float | None,
) -> dict[str, object]:
    """Measure the given rows."""

    def rules(columns: Mapping[str, BoolArray]) -> dict[str, object]:
        return {
            name: _rule(
                confusion(flag[rows], truth), seed=seed,
                **_at_worst(flag[rows], truth, names.undecided[name][rows])
                if name in names.undecided else {},
            )
            for name, flag in columns.items()
        }  # fmt: skip

    def ranking(name: str, score: FloatArray) -> RankingIntervals:
        is_headline = name in (names.fixed_score, GENERAL_ALONE)
        n_fewer = max(200, min(N_REPLICATES, _DRAWN_NAMES // len(rows)))
        return bootstrap_ranking(
            score[rows],
            truth,
            seed=seed,
            clusters=() if names.parts is None else tuple(names.parts[rows].T),
            n_replicates=N_REPLICATES if is_headline else n_fewer,
        )

    def held_out(score: FloatArray) -> dict[str, object]:
        counts, thresholds = held_out_threshold(score, truth, seed=seed)
        n_not_scored = int(np.isnan(score).sum())
        return _rule(counts, seed=seed, n_not_scored=n_not_scored, thresholds=thresholds)

    free, fixed = None, names.scores[names.fixed_score][rows]
    if threshold is not None:
        counts = _above(fixed, truth, threshold)
        n_not_scored = int(np.isnan(fixed).sum())
        free = _rule(counts, seed=seed, n_not_scored=n_not_scored, thresholds=[threshold])
    return {
        "n_members": int(truth.sum()),
        "n_controls": int((~truth).sum()),
        "always_member": _rule(confusion(np.ones_like(truth), truth), seed=seed),
        "rules": rules(names.rules),
        "baseline_rules": rules(names.baseline_rules),
        "scores": {name: ranking(name, score) for name, score in names.scores.items()},
        "baselines": {name: ranking(name, score) for name, score in names.baselines.items()},
        "held_out": {
            name: held_out(score[rows])
            for name, score in {**names.baselines, **names.scores}.items()
        },
        "free": free,
    }


def _rule(counts: Confusion, *, seed: int, **more: object) -> dict[str, object]:
    """What a yes/no rule reaches; `n_not_scored` names are not counted."""
    return {
        "confusion": counts,
        "f1": f1_interval(counts, seed=seed),
        "n_not_scored": 0,
        "thresholds": (),
        "n_undecided": None,
        "all_right": None,
        "all_wrong": None,
    } | more


def _at_worst(flag: BoolArray, truth: BoolArray, undecided: BoolArray) -> dict[str, object]:
    """Every undecided name judged rightly, and wrongly: the attack's best and worst case."""
    return {
        "n_undecided": int(undecided.sum()),
        "all_right": confusion(np.where(undecided, truth, flag), truth),
        "all_wrong": confusion(np.where(undecided, ~truth, flag), truth),
    }


def _above(score: FloatArray, truth: BoolArray, threshold: float) -> Confusion:
    is_scored = ~np.isnan(score)
    return confusion(score[is_scored] > threshold, truth[is_scored])


def quick_measures(names: ScoredNames) -> dict[str, Any]:
    """Return AUCs and rule counts by stratum, without intervals."""
    return {
        kind: plain({
            "auc": {
                name: auc(column[rows], truth)
                for name, column in (*names.scores.items(), *names.baselines.items())
            },
            "rules": {
                name: confusion(flag[rows], truth)
                for name, flag in (*names.rules.items(), *names.baseline_rules.items())
            },
        })
        for kind, (rows, truth) in names.strata().items()
    }  # fmt: skip


def truth_mask(candidates: Candidates, *, truth: bool | None) -> BoolArray:
    """Return which names [N] are members (True), controls (False) or unknown (None)."""
    return np.array([one is truth for one in candidates.is_member], dtype=np.bool_)


def measures_by_role(
    candidates: Candidates,
    *,
    scores: Sequence[FloatArray],
    flags: Sequence[BoolArray],
    parts: IntArray | None = None,
    threshold: float | None = None,
) -> list[dict[str, Any]]:
    """Measure each role's members against all listed controls, so that roles can be compared.

    Parameters
    ----------
    candidates
        N names without canaries.
    scores, flags
        [N] each, of the attack and of M_general alone: the score fixed beforehand, and who is
        flagged (q <= 0.05).
    parts
        [N, 2] columns of the names' parts, as in `ScoredNames`.
    threshold
        A free threshold on the fixed score, or None.

    Returns
    -------
    Roles with most members first, then by name; () where no member has one. Of each the counts of
    members, of all controls, of both without a score, and of controls that carry the role; median
    mentions (a role that is mentioned more often is easier to find); AUCs; and the rates of members
    flagged, of its own controls flagged, and of members above the free threshold.
    """
    roles = np.array(candidates.role, dtype=np.str_)
    members, controls = (truth_mask(candidates, truth=truth) for truth in (True, False))
    counts = Counter(roles[members].tolist())
    if not any(counts):
        return []
    found = []
    for role in sorted(counts, key=lambda role: (-counts[role], role))[:MAX_ROLES]:
        mine, own = members & (roles == role), controls & (roles == role)
        rows = mine | controls
        clusters = () if parts is None else tuple(parts[rows].T)
        mentions = [n for n, is_mine in zip(candidates.n_mentions, mine, strict=True)
                    if is_mine and n is not None]  # fmt: skip
        aucs = [auc_interval(one[rows], mine[rows], clusters=clusters) for one in scores]
        above = None if threshold is None else _flagged(mine, scores[0] > threshold, scores[0])
        found.append(plain({
            "role": role,
            "n_members": counts[role],
            "n_controls": int(controls.sum()),
            "n_not_scored": int(np.isnan(scores[0][rows]).sum()),
            "n_role_controls": int(own.sum()),
            "median_mentions": float(np.median(mentions)) if mentions else math.nan,
            "auc": aucs[0],
            "general_auc": aucs[1],
            "flagged": _flagged(mine, flags[0], scores[0]),
            "general_flagged": _flagged(mine, flags[1], scores[1]),
            "role_controls_flagged": _flagged(own, flags[0], scores[0]),
            "above": above,
        }))  # fmt: skip
    return found


def _flagged(who: BoolArray, flag: BoolArray, score: FloatArray) -> Rate:
    """Names flagged, of those that have a score."""
    scored = who & ~np.isnan(score)
    return Rate(int((flag & scored).sum()), int(scored.sum()))


def by_mentions(
    score: FloatArray, flag: BoolArray, candidates: Candidates
) -> list[dict[str, object]]:
    """Return detection against the number of mentions: how many members of each bin are flagged."""
    mentions = np.array([math.nan if n is None else n for n in candidates.n_mentions], dtype=float)
    members, controls = (truth_mask(candidates, truth=truth) for truth in (True, False))
    found = []
    for low, high in MENTION_BINS:
        rows = members & (mentions >= low) & (mentions <= (high or math.inf))
        if rows.any():
            found.append(plain({
                "from": low,
                "to": high,
                "n_names": int(rows.sum()),
                "flagged": Rate(int(flag[rows].sum()), int(rows.sum())),
                "median_score": float(np.nanmedian(score[rows])),
                "auc": auc(score[rows | controls], rows[rows | controls]),
            }))  # fmt: skip
    return found


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
    """
    score, member = np.asarray(scores, dtype=np.float64), np.asarray(is_member, dtype=np.bool_)
    told: dict[str, Any] = plain(bootstrap_ranking(score, member, seed=seed))
    for kind, value in (("members", 1), ("controls", 0)):
        if not told[f"n_{kind}"]:
            raise AuditError(
                "There are no {kind} with a score.",
                where="is_member",
                do=(
                    "Give at least one row with is_member = {is_member} and a number as its score."
                ),
                kind=kind,
                is_member=value,
            )
    area, tprs, _ = (told.pop(name) for name in ("auc", "tpr_at_fpr", "n_replicates"))
    for end, name in (("", "value"), ("_low", "low"), ("_high", "high")):
        told[f"auc{end}"] = area[name]
        told[f"tpr_at_fpr{end}"] = {fpr: tpr[name] for fpr, tpr in tprs.items()}
    if threshold is not None:
        counts = _above(score, member, threshold)
        rates = {name: getattr(counts, name).value for name in ("accuracy", "precision", "recall")}
        told |= plain({"threshold": threshold, **vars(counts), "f1": counts.f1, **rates})
    return told
