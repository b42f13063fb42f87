"""Judgement: from scores per name to decisions, measures, curve and verdict, as plain values.

Comes in: an attack's result. Goes out: the parts of a report. Torch-free.

Source: Nakamura et al., section 4.3; what goes beyond it is in `membership/decisions.py`,
`metrics.py`, `cohort.py` and `verdict.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from audit.membership.candidates import Candidates
from audit.membership.cohort import cohort_test, smallest_detectable_auc, smallest_finding
from audit.membership.confusion import confusion
from audit.membership.decisions import Decisions, decide, undecided_mask
from audit.membership.metrics import (
    GENERAL_ALONE,
    MembershipMetrics,
    ScoredNames,
    membership_metrics,
)
from audit.membership.plain import plain
from audit.membership.scores import Floats, Ids, Score
from audit.membership.verdict import Verdict, give_verdict
from audit.rates import Rate, auc, two_sample_ks

RULES = {
    1: {"name_occurs": "hits", "full_name_occurs": "full_hits"},
    2: {"difference_above_zero": "difference"},
}
"""The paper's yes/no rules: each says that the score it names is above 0."""
GENERAL_RULES = {
    1: {"name_occurs_general": "general_hits", "full_name_occurs_general": "general_full_hits"},
    2: {},
}
RANKED = {
    1: ("product", "minimum", "product_log_ratio", "minimum_log_ratio", "hits", "full_hits"),
    2: (
        "difference", "log_ratio", "mean_log_ratio", "hospital_posterior",
        "chain_difference", "chain_log_ratio", "chain_mean_log_ratio",
    ),
}  # fmt: skip
MENTION_BINS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None))
_CURVE_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


class Attack(Protocol):
    """What is needed of an attack's result (`audit.attacks.AttackResult`)."""

    scores: Mapping[str, Score]
    n_pieces: Ids
    unit: str
    n_blocks: int

    def after(self, n_blocks: int, /) -> Mapping[str, Score]:
        """Return the scores that as many blocks would have given."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """Everything that follows from the scores."""

    decisions: Decisions
    metrics: MembershipMetrics
    verdict: Verdict
    cohort: dict[str, object]
    curve: list[dict[str, object]]
    mentions: list[dict[str, object]]


def judge(
    attack: Attack,
    *,
    candidates: Candidates,
    scenario: int,
    fixed: str,
    general: str,
    seed: int,
    threshold: float | None,
) -> Judgement:
    """Judge N listed names against R reference controls that follow them in the attack's scores.

    Parameters
    ----------
    fixed, general
        The score chosen beforehand, and the one that is M_general alone.
    threshold
        A free threshold on the fixed score, or None.
    """
    n = len(candidates)
    score, error = attack.scores[fixed].value, attack.scores[fixed].standard_error
    decisions = decide(
        score[:n],
        standard_error=error[:n],
        n_pieces=attack.n_pieces[:n],
        is_member=candidates.is_member,
        reference_scores=score[n:],
        reference_n_pieces=attack.n_pieces[n:],
    )
    names = _scored_names(attack, candidates, scenario=scenario, fixed=fixed, general=general)
    metrics = membership_metrics(names, seed=seed, threshold=threshold)
    tested = np.array([truth is not False for truth in candidates.is_member])
    return Judgement(
        decisions=decisions,
        metrics=metrics,
        verdict=_verdict(decisions, metrics, tested=tested, n_reference=len(score) - n),
        cohort=_cohort(score, attack.n_pieces, candidates, seed=seed),
        curve=_curve(attack, candidates, scenario=scenario, fixed=fixed, general=general),
        mentions=_by_mentions(score[:n], decisions, candidates),
    )


def name_columns(
    attack: Attack, judgement: Judgement, *, candidates: Candidates, scenario: int, fixed: str
) -> dict[str, list[Any]]:
    """Return the per-name table as columns, in the order of `names.csv`."""
    n = len(candidates)
    decisions = judgement.decisions
    columns: dict[str, list[Any]] = {
        "name_id": list(range(n)),
        "first_name": list(candidates.first),
        "last_name": list(candidates.last),
        "is_member": [None if m is None else int(m) for m in candidates.is_member],
        "control_kind": list(candidates.control_kind),
        "role": list(candidates.role),
        "n_mentions": list(candidates.n_mentions),
        "popularity": list(candidates.popularity),
        "n_pieces": [int(k) for k in attack.n_pieces[:n]],
        "score": _floats(attack.scores[fixed].value[:n]),
        "standard_error": _floats(attack.scores[fixed].standard_error[:n]),
        "p_value": _floats(decisions.p),
        "q_value": _floats(decisions.q),
        "decision": list(decisions.decision),
        "threshold": _floats(decisions.threshold),
        "is_unmatched": [bool(x) for x in decisions.is_unmatched],
    }
    for name in attack.scores:
        columns[name] = _floats(attack.scores[name].value[:n])
    if scenario == 1:  # shares of documents become counts, as the paper reports them
        for name, hits in (("hospital_hits", "hits"), ("general_hits", "general_hits"),
                           ("hospital_full_hits", "full_hits"), ("general_full_hits", "general_full_hits")):  # fmt: skip
            shares = attack.scores[hits].value[:n]
            columns[name] = [round(float(s) * _n_units(attack)) for s in shares]
        columns["hospital_product"] = columns.pop("product")
        columns["hospital_minimum"] = columns.pop("minimum")
        for name in ("hits", "full_hits"):
            del columns[name]
    return columns


def null_check(score: Floats, *, candidates: Candidates) -> dict[str, float]:
    """Compare the scores of members with those of the reference controls that follow them.

    For a null pair the two must be alike: two-sample Kolmogorov-Smirnov (rank p-values that share
    controls are not independent, so they are not tested).
    """
    n = len(candidates)
    members = score[:n][np.array([m is True for m in candidates.is_member])]
    statistic, p = two_sample_ks(members, score[n:])
    return {"ks_statistic": statistic, "ks_p": p}


def _n_units(attack: Attack) -> int:
    return int(getattr(attack, "n_units", 0))


def _floats(column: Floats) -> list[float]:
    return [float(x) for x in column]


def _scored_names(
    attack: Attack, candidates: Candidates, *, scenario: int, fixed: str, general: str
) -> ScoredNames:
    n = len(candidates)

    def flags(rules: Mapping[str, str]) -> dict[str, Any]:
        return {rule: attack.scores[name].value[:n] > 0 for rule, name in rules.items()}

    kinds = tuple("given" if k == "reference" else k for k in candidates.control_kind)
    undecided = {
        rule: undecided_mask(
            attack.scores[name].value[:n],
            standard_error=attack.scores[name].standard_error[:n],
            threshold=np.zeros(n),
        )
        for rule, name in RULES[scenario].items()
        if scenario == 2
    }
    return ScoredNames(
        is_member=candidates.is_member,
        control_kind=kinds,
        scores={k: attack.scores[k].value[:n] for k in RANKED[scenario] if k in attack.scores},
        rules=flags(RULES[scenario]),
        baselines={
            GENERAL_ALONE: attack.scores[general].value[:n],
            "popularity": np.array(candidates.popularity),
        },
        baseline_rules=flags(GENERAL_RULES[scenario]),
        fixed_score=fixed,
        undecided=undecided,
    )


def _verdict(
    decisions: Decisions, metrics: MembershipMetrics, *, tested: Any, n_reference: int
) -> Verdict:
    finding = smallest_finding(int(tested.sum()), n_reference=n_reference)
    stratum = metrics.strata.get("all")
    if stratum is None:
        return give_verdict(decisions.q[tested], smallest_finding=finding)
    return give_verdict(
        decisions.q[tested],
        auc=stratum.scores[metrics.fixed_score].auc,
        general_auc=stratum.baselines[GENERAL_ALONE].auc,
        smallest_auc=smallest_detectable_auc(stratum.n_members, n_controls=stratum.n_controls),
        smallest_finding=finding,
    )


def _cohort(score: Floats, n_pieces: Ids, candidates: Candidates, *, seed: int) -> dict[str, object]:
    """Test whether the names as a group stand out from the reference controls."""
    n = len(candidates)
    has_members = any(m is True for m in candidates.is_member)
    group = np.array([m is True if has_members else m is None for m in candidates.is_member])
    test = cohort_test(
        score[:n][group],
        control_scores=score[n:],
        member_n_pieces=n_pieces[:n][group],
        control_n_pieces=n_pieces[n:],
        seed=seed,
    )
    return {"group": "members" if has_members else "unknown", **_plain_dict(test)}


def _curve(
    attack: Attack, candidates: Candidates, *, scenario: int, fixed: str, general: str
) -> list[dict[str, object]]:
    """Return every measure after a part of the inputs or documents: prefixes of one run."""
    if not candidates.has_truth:
        return []
    points = sorted({max(1, math.ceil(share * attack.n_blocks)) for share in _CURVE_SHARES})
    curve = []
    for n_blocks in points:
        names = _scored_names(
            _Prefix(attack, n_blocks), candidates, scenario=scenario, fixed=fixed, general=general
        )
        curve.append({"n": n_blocks * 100, "strata": _quick_measures(names)})
    last = curve[-1]
    last["n"] = _n_units(attack) or last["n"]
    return curve


class _Prefix:
    """An attack's result after its first blocks."""

    def __init__(self, attack: Attack, n_blocks: int) -> None:
        self.scores = attack.after(n_blocks)
        self.n_pieces, self.unit, self.n_blocks = attack.n_pieces, attack.unit, n_blocks

    def after(self, n_blocks: int, /) -> Mapping[str, Score]:
        raise ValueError(f"no prefix of {n_blocks} blocks of a prefix")


def _quick_measures(names: ScoredNames) -> dict[str, object]:
    """Return AUCs and rule counts by stratum, without intervals."""
    truth = np.array([m is True for m in names.is_member])
    kinds = np.array(names.control_kind)
    strata = {"all": kinds != ""} | {str(k): kinds == k for k in sorted(set(names.control_kind) - {""})}
    result: dict[str, object] = {}
    for stratum, is_control in strata.items():
        rows = truth | is_control
        rankings = {
            name: auc(column[rows], truth[rows])
            for name, column in (*names.scores.items(), *names.baselines.items())
        }
        rules = {
            name: confusion(flag[rows], truth[rows])
            for name, flag in (*names.rules.items(), *names.baseline_rules.items())
        }
        result[stratum] = {"auc": plain(rankings), "rules": plain(rules)}
    return result


def _by_mentions(score: Floats, decisions: Decisions, candidates: Candidates) -> list[dict[str, object]]:
    """Return detection against the number of mentions: how many members of each bin are flagged."""
    mentions = np.array([np.nan if m is None else m for m in candidates.n_mentions], dtype=float)
    is_member = np.array([m is True for m in candidates.is_member])
    controls = score[np.array([m is False for m in candidates.is_member])]
    result: list[dict[str, object]] = []
    for low, high in MENTION_BINS:
        rows = is_member & (mentions >= low) & (mentions <= (high or math.inf))
        if not rows.any():
            continue
        flagged = Rate(int((decisions.q[rows] <= 0.05).sum()), int(rows.sum()))
        both = np.concatenate([score[rows], controls])
        labels = np.concatenate([np.ones(rows.sum(), bool), np.zeros(len(controls), bool)])
        result.append(
            {
                "from": low,
                "to": high,
                "n_names": int(rows.sum()),
                "flagged": {**_plain_dict(flagged), **_plain_dict(flagged.interval())},
                "median_score": plain(float(np.nanmedian(score[rows]))),
                "auc": plain(auc(both, labels)) if len(controls) else None,
            }
        )
    return result


def _plain_dict(value: object) -> dict[str, object]:
    result = plain(value)
    if not isinstance(result, dict):
        raise TypeError(f"{type(value).__name__} is no record")
    return result


__all__: Sequence[str] = ("Judgement", "judge", "name_columns", "null_check")
