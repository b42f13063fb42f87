"""How measures grow: with the number of inputs or documents, and with the mentions of a name.

Comes in: an attack's result. Goes out: plain values. Every point of a curve is a prefix of one run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from audit.attack.decisions import Decisions, confusion, undecided_mask
from audit.attack.metrics import GENERAL_ALONE, ScoredNames, plain
from audit.attack.scores import Floats, Ids, NameParts, Score
from audit.names.candidates import Candidates
from audit.stats import Rate, auc

RULES = {
    1: {"name_occurs": "hits", "full_name_occurs": "full_hits"},
    2: {"difference_above_zero": "difference"},
}
"""The paper's yes/no rules: each says that the score it names is above 0."""
GENERAL_RULES = {
    1: {"name_occurs_general": "general_hits", "full_name_occurs_general": "general_full_hits"},
    2: {},
}
_BY_PART = ("residual", "residual_minimum", "residual_sum", "part_log_ratio")
RANKED = {
    1: (
        *_BY_PART, "product", "minimum", "half_log_ratio", "product_log_ratio",
        "minimum_log_ratio", "hits", "full_hits",
    ),
    2: (
        *_BY_PART, "difference", "log_ratio", "mean_log_ratio", "hospital_posterior",
        "chain_difference", "chain_log_ratio", "chain_mean_log_ratio",
    ),
}  # fmt: skip
MENTION_BINS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None))
_CURVE_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


class Attack(Protocol):
    """What is needed of an attack's result (`audit.attack.attacks.AttackResult`)."""

    @property
    def scores(self) -> Mapping[str, Score]:
        """Formula -> score of N listed names, then R reference controls."""

    @property
    def n_pieces(self) -> Ids:
        """Word pieces of each name [N + R]."""

    @property
    def parts(self) -> NameParts:
        """All names as pairs of parts."""

    @property
    def part_residual(self) -> Floats:
        """What M_hospital adds to a part [U]."""

    @property
    def block_counts(self) -> Ids:
        """Inputs or documents of each block."""

    @property
    def n_units(self) -> int:
        """Inputs or documents."""

    @property
    def n_blocks(self) -> int:
        """Blocks of evidence."""

    @property
    def after(self) -> Callable[[int], Mapping[str, Score]]:
        """From a number of blocks to the scores that as many blocks would have given."""


def scored_names(
    attack: Attack,
    candidates: Candidates,
    *,
    scenario: int,
    fixed: str,
    general: str,
    scores: Mapping[str, Score] | None = None,
) -> ScoredNames:
    """Return what of N listed names the measures need, out of an attack's scores [N + R].

    `scores` stands in for the attack's own: those of a part of its blocks.
    """
    scores, n = scores or attack.scores, len(candidates)

    def flags(rules: Mapping[str, str]) -> dict[str, Any]:
        return {rule: scores[name].value[:n] > 0 for rule, name in rules.items()}

    kinds = tuple("given" if k == "reference" else k for k in candidates.control_kind)
    undecided = {
        rule: undecided_mask(
            scores[name].value[:n],
            standard_error=scores[name].standard_error[:n],
            threshold=np.zeros(n),
            n_blocks=attack.n_blocks,
        )
        for rule, name in RULES[scenario].items()
        if scenario == 2
    }
    return ScoredNames(
        is_member=candidates.is_member,
        control_kind=kinds,
        scores={k: scores[k].value[:n] for k in RANKED[scenario] if k in scores},
        rules=flags(RULES[scenario]),
        baselines={
            GENERAL_ALONE: scores[general].value[:n],
            "popularity": np.array(candidates.popularity),
        },
        baseline_rules=flags(GENERAL_RULES[scenario]),
        fixed_score=fixed,
        undecided=undecided,
        parts=attack.parts.of_name[:n],
    )


def curve_of(
    attack: Attack, candidates: Candidates, *, scenario: int, fixed: str, general: str
) -> list[dict[str, object]]:
    """Return every measure after a part of the inputs or documents: prefixes of one run."""
    if not candidates.has_truth:
        return []
    units = np.cumsum(attack.block_counts)
    points = sorted({int(np.searchsorted(units, share * units[-1])) + 1 for share in _CURVE_SHARES})
    curve = []
    for n_blocks in points:
        names = scored_names(
            attack, candidates, scenario=scenario, fixed=fixed, general=general,
            scores=attack.after(n_blocks),
        )  # fmt: skip
        n = int(attack.block_counts[:n_blocks].sum())
        curve.append({"n": n, "strata": _quick_measures(names)})
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
