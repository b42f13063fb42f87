"""Judgement: from scores per name to decisions, measures, curve and verdict, as plain values.

Source: Nakamura et al., section 4.3; what goes beyond it is in `decisions.py`, `metrics.py`,
`cohort.py` and `verdict.py`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from audit.attack.cohort import relabelling_test
from audit.attack.decisions import NOT_JUDGED, Decisions, decide, plain, truth_mask
from audit.attack.metrics import (
    by_mentions,
    exposure_record,
    measures_by_role,
    membership_metrics,
    quick_measures,
)
from audit.attack.scores import (
    FIXED_SCORE,
    GENERAL_ALONE,
    AttackResult,
    NameParts,
    name_limits,
    part_limits,
    part_p_values,
    soft_minimum,
)
from audit.attack.verdict import Ranked, give_verdict, smallest_finding
from audit.names.candidates import Candidates
from audit.stats import BoolArray, FloatArray, IntArray, two_sample_ks

UNSETTLED_RATE = 0.05
"""Share of sequential audits, at most, in which a name's decision is not that of endless inputs."""
_CURVE_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


def judge(attack: AttackResult, *, seed: int) -> dict[str, Any]:
    """Judge the listed names against the reference controls that follow them in the attack.

    The parts of a report come back: "names" (columns in the order of names.csv), "measures",
    "verdict", "curve", "mentions", and "details" with "null_check", "canaries" and
    "roles" where the list has what they need. Canaries are decided among themselves; all else is of
    the other names alone. "n_flagged_by_general" counts those tested names that M_general alone
    flags too: names that stand out for another reason than the notes, such as fame or frequency.
    """
    n = len(attack.listed)
    is_canary = np.array([attack.listed.is_canary(row) for row in range(n)], dtype=np.bool_)
    rows, canaries = np.flatnonzero(~is_canary), np.flatnonzero(is_canary)
    patients = attack.of_rows(rows)
    tested = ~truth_mask(patients.listed.is_member, truth=False)
    decisions = decisions_on(patients, FIXED_SCORE)
    by_general = decisions_on(patients, attack.general_score)
    metrics = membership_metrics(patients, seed=seed)
    judged = decisions.q[tested & ~np.isnan(decisions.q)]
    verdict = give_verdict(
        float(judged.min()) if len(judged) else math.nan,
        n_flagged=int(decisions.point_flag[tested].sum()),
        n_undecided=int(decisions.is_undecided[tested].sum()),
        n_tested=len(judged),
        ranked=_ranked(patients, metrics["strata"].get("all"), seed=seed),
        smallest=smallest_finding(int(tested.sum()), n_reference=len(attack.n_pieces) - n),
        has_evidence=attack.has_evidence,
    )
    if verdict["state"] != "leak_found":
        decisions, by_general = decisions.without_flags(), by_general.without_flags()
    among = decisions_on(attack.of_rows(canaries), FIXED_SCORE)
    order = np.argsort(np.concatenate([rows, canaries]))
    joined = {name: np.concatenate([one, vars(among)[name]])[order]
              for name, one in vars(decisions).items()}  # fmt: skip
    flag, general_flag = decisions.point_flag, by_general.point_flag
    roles = measures_by_role(patients, flag, general_flag=general_flag)
    found = {
        "null_check": _null_check(patients),
        "canaries": exposure_record(attack, seed=seed),
        "roles": roles,
    }
    return {
        "names": _columns(attack, Decisions(**joined)),
        "n_flagged_by_general": int((tested & flag & general_flag).sum()),
        "measures": plain(metrics),
        "verdict": verdict,
        "curve": _curve(patients, seed=seed),
        "mentions": by_mentions(flag, patients.listed),
        "details": {name: one for name, one in found.items() if one},
    }


def _null_check(attack: AttackResult) -> dict[str, float] | None:
    """Say whether members differ from reference controls; None without members."""
    members = truth_mask(attack.listed.is_member, truth=True)
    if not members.any():
        return None
    score = attack.scores[FIXED_SCORE][0]
    statistic, p = two_sample_ks(score[: len(members)][members], score[len(members) :])
    return {"ks_statistic": statistic, "ks_p": p}


def decisions_on(attack: AttackResult, score: str) -> Decisions:
    """Decide on one score; on the fixed one a name must also pass both of its parts."""
    n, parts, found = len(attack.listed), attack.parts, attack.scores[score]
    groups = _groups(parts, attack.n_pieces)
    more: dict[str, Any] = {}
    if score == FIXED_SCORE:
        limits = part_limits(attack.part_residual, parts=parts)
        more = {
            "limit": name_limits(*parts.pairs(attack.part_residual), limits=limits)[:n],
            "part_p": part_p_values(attack.part_residual, parts=parts)[:n],
        }
    return decide(
        found[0, :n],
        standard_error=found[1, :n],
        n_blocks=len(attack.block_counts),
        group=groups[:n],
        is_member=attack.listed.is_member,
        reference_scores=found[0, n:],
        reference_group=groups[n:],
        **more,
    )


def _groups(parts: NameParts, n_pieces: IntArray) -> IntArray:
    """Comparable are names [N] of as many word pieces that have the same parts."""
    groups: IntArray = 4 * n_pieces + (parts.of_name >= 0) @ np.array([1, 2])
    return groups


def settled_names(
    residual: FloatArray,
    *,
    counts: IntArray,
    listed: Candidates,
    parts: NameParts,
    n_pieces: IntArray,
    n_looks: int,
) -> BoolArray:
    """Return whose decision [N] endless inputs would not change.

    `residual` [2, U] are the parts' residuals and their jackknife errors over blocks of `counts`
    [b] inputs; parts, names and pieces as in `AttackResult`. That all of it is so at every one of
    `n_looks` looks holds in 1 - `UNSETTLED_RATE` of audits: each part has an interval of t,
    Bonferroni over parts, sides and looks, and nothing else is uncertain, for decisions only hang
    on residuals, and one way. Whoever is flagged with own parts at their lower ends and the
    references' at their upper ones is flagged wherever all lie between; and the reverse.
    """
    from scipy.stats import t

    n, (value, error) = len(listed), residual
    known = np.isfinite(value)
    if not np.isfinite(error[known]).all():
        return np.zeros(n, dtype=np.bool_)
    # Blocks of unequal size know as much of the error as so many equal ones (Satterthwaite).
    n_equal = counts.sum() ** 2 / np.square(counts).sum()
    reach = error * t.isf(UNSETTLED_RATE / (2 * known.sum() * n_looks), n_equal - 1)
    low, high = value - reach, value + reach
    low_limits, high_limits = (part_limits(bound, parts=parts) for bound in (low, high))
    groups = _groups(parts, n_pieces)
    canary = np.array([listed.is_canary(row) for row in range(n)], dtype=np.bool_)

    def scores(by_part: FloatArray, limits: tuple[float, float]) -> FloatArray:
        """Of names that fail in a part none: they are never flagged, nor above who is."""
        first, last = parts.pairs(by_part)
        fails = (first <= limits[0]) | (last <= limits[1])
        return np.where(fails, -math.inf, soft_minimum(first, last))

    def flags(own: FloatArray, others: FloatArray) -> BoolArray:
        flag = np.zeros(n, dtype=np.bool_)
        for rows in filter(len, map(np.flatnonzero, (~canary, canary))):
            flag[rows] = decide(
                own[rows],
                standard_error=np.zeros(len(rows)),
                n_blocks=len(counts),
                group=groups[rows],
                is_member=listed.rows(rows.tolist()).is_member,
                reference_scores=others[n:],
                reference_group=groups[n:],
            ).point_flag
        return flag

    least = flags(scores(low, high_limits), scores(high, low_limits))
    most = flags(scores(high, low_limits), scores(low, high_limits))
    return np.asarray(least == most)


def _ranked(attack: AttackResult, stratum: dict[str, Any] | None, *, seed: int) -> Ranked | None:
    """Members against controls; names of unknown truth are left out."""
    if stratum is None:
        return None
    members = truth_mask(attack.listed.is_member, truth=True)
    known = members | truth_mask(attack.listed.is_member, truth=False)
    columns = attack.parts.of_name[: len(members)][known]
    relabelled = relabelling_test(
        columns,
        members[known],
        by_part=attack.part_residual,
        parts=attack.parts,
        seed=seed,
        n_relabelled=1999 if len(columns) <= 5000 else 499,
    )
    return Ranked(
        stratum["n_members"],
        stratum["n_controls"],
        stratum["scores"][FIXED_SCORE].auc,
        stratum["baselines"][GENERAL_ALONE].auc,
        relabelled["p"],
        relabelled["smallest_auc"],
    )


def _curve(attack: AttackResult, *, seed: int) -> list[dict[str, Any]]:
    """Return measures after a part of the inputs or documents: prefixes of one run."""
    if not attack.listed.has_truth:
        return []
    units = np.cumsum(attack.block_counts)
    points = sorted({int(np.searchsorted(units, share * units[-1])) + 1 for share in _CURVE_SHARES})

    def strata(n: int) -> dict[str, Any]:
        return quick_measures(replace(attack, scores=attack.after(n)), seed=seed)

    return [{"n": int(units[n - 1]), "strata": strata(n)} for n in points]


def _columns(attack: AttackResult, decisions: Decisions) -> dict[str, list[Any]]:
    """Return the per-name table as columns, in the order of `names.csv`."""
    candidates, fixed = attack.listed, attack.scores[FIXED_SCORE]
    n = len(candidates)
    residuals = attack.parts.pairs(attack.part_residual)
    columns: dict[str, Any] = {
        "name_id": range(n),
        "file_row": candidates.row,
        "first_name": candidates.first,
        "last_name": candidates.last,
        "is_member": [None if m is None else int(m) for m in candidates.is_member],
        "control_kind": candidates.control_kind,
        "role": candidates.role,
        "n_mentions": candidates.n_mentions,
        "popularity": attack.popularity,
        "n_pieces": attack.n_pieces[:n],
        "score": fixed[0, :n],
        "standard_error": fixed[1, :n],
        "p_value": decisions.p,
        "q_value": decisions.q,
        "decision": decisions.decision,
        "is_undecided": decisions.is_undecided,
        "threshold": decisions.threshold,
        "is_unmatched": decisions.decision == NOT_JUDGED,
    }
    renamed: dict[str, Any] = {}
    for kind in attack.kinds:
        found = attack.listed_scores(kind.name)
        if kind.is_count:  # as the paper reports them
            found = np.round(found * int(attack.block_counts.sum())).astype(np.int64)
        (renamed if kind.column else columns)[kind.column or kind.name] = found
    columns |= {"first_residual": residuals[0][:n], "last_residual": residuals[1][:n]} | renamed
    return {name: np.asarray(one, dtype=object).tolist() for name, one in columns.items()}
