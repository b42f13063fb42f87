"""How measures grow: with the number of inputs or documents, and with the mentions of a name.

Every point of a curve is a prefix of one run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from audit.attack.decisions import Decisions, confusion, undecided_mask
from audit.attack.metrics import GENERAL_ALONE, ScoredNames, plain
from audit.attack.scores import (
    FIXED_SCORE,
    GENERAL_SCORE,
    AttackResult,
    Floats,
    Score,
    scores_of,
)
from audit.names.candidates import Candidates
from audit.stats import BoolArray, Rate, auc

MENTION_BINS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None))
_CURVE_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


def scored_names(
    attack: AttackResult,
    candidates: Candidates,
    *,
    scenario: int,
    scores: Mapping[str, Score] | None = None,
) -> ScoredNames:
    """Return what of N listed names the measures need, out of an attack's scores [N + R].

    `scores` stands in for the attack's own: those of a part of its blocks.
    """
    scores, n = scores or attack.scores, len(candidates)
    kinds = [kind for kind in scores_of(scenario) if kind.name in scores]
    rules: dict[str, BoolArray] = {}
    general_rules: dict[str, BoolArray] = {}
    undecided: dict[str, BoolArray] = {}
    for kind in kinds:
        value, error = scores[kind.name].value[:n], scores[kind.name].standard_error[:n]
        if kind.general_rule:
            general_rules[kind.general_rule] = value > 0
        if kind.rule:
            rules[kind.rule] = value > 0
        if kind.rule and not kind.is_count:
            undecided[kind.rule] = undecided_mask(
                value, standard_error=error, threshold=np.zeros(n),
                n_blocks=len(attack.block_counts),
            )  # fmt: skip
    return ScoredNames(
        is_member=candidates.is_member,
        control_kind=tuple("given" if k == "reference" else k for k in candidates.control_kind),
        scores={k.name: scores[k.name].value[:n] for k in kinds if k.is_ranked},
        rules=rules,
        baselines={
            GENERAL_ALONE: scores[GENERAL_SCORE[scenario]].value[:n],
            "popularity": np.array(candidates.popularity),
        },
        baseline_rules=general_rules,
        fixed_score=FIXED_SCORE[scenario],
        undecided=undecided,
        parts=attack.parts.of_name[:n],
    )


def curve_of(
    attack: AttackResult, candidates: Candidates, *, scenario: int
) -> list[dict[str, object]]:
    """Return every measure after a part of the inputs or documents: prefixes of one run."""
    if not candidates.has_truth:
        return []
    units = np.cumsum(attack.block_counts)
    points = sorted({int(np.searchsorted(units, share * units[-1])) + 1 for share in _CURVE_SHARES})
    curve = []
    for n_blocks in points:
        after = attack.after(n_blocks)
        names = scored_names(attack, candidates, scenario=scenario, scores=after)
        curve.append({"n": int(units[n_blocks - 1]), "strata": _quick_measures(names)})
    return curve


def _quick_measures(names: ScoredNames) -> dict[str, object]:
    """Return AUCs and rule counts by stratum, without intervals."""
    truth = np.array([m is True for m in names.is_member])
    kinds = np.array(names.control_kind)
    strata = {"all": kinds != ""} | {
        str(k): kinds == k for k in sorted(set(names.control_kind) - {""})
    }
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


def by_mentions(
    score: Floats, decisions: Decisions, candidates: Candidates
) -> list[dict[str, object]]:
    """Return detection against the number of mentions: how many members of each bin are flagged."""
    mentions = np.array([np.nan if m is None else m for m in candidates.n_mentions], dtype=float)
    is_member = np.array([m is True for m in candidates.is_member], dtype=np.bool_)
    controls = score[np.array([m is False for m in candidates.is_member], dtype=np.bool_)]
    result: list[dict[str, object]] = []
    for low, high in MENTION_BINS:
        rows = is_member & (mentions >= low) & (mentions <= (high or math.inf))
        if not rows.any():
            continue
        flagged = Rate(int(decisions.point_flag[rows].sum()), int(rows.sum()))
        both = np.concatenate([score[rows], controls])
        labels = np.concatenate([np.ones(rows.sum(), bool), np.zeros(len(controls), bool)])
        result.append(
            {
                "from": low,
                "to": high,
                "n_names": int(rows.sum()),
                "flagged": {**plain_record(flagged), **plain_record(flagged.interval())},
                "median_score": plain(float(np.nanmedian(score[rows]))),
                "auc": plain(auc(both, labels)) if len(controls) else None,
            }
        )
    return result


def plain_record(value: object) -> dict[str, object]:
    """Return a measure that is a record as a dict."""
    result = plain(value)
    if not isinstance(result, dict):
        raise TypeError(f"{type(value).__name__} is no record")
    return result
