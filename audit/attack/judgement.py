"""Judgement: from scores per name to decisions, measures, curve and verdict, as plain values.

Comes in: an attack's result. Goes out: the parts of a report. Torch-free.

Source: Nakamura et al., section 4.3; what goes beyond it is in `decisions.py`, `metrics.py`,
`cohort.py` and `verdict.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from audit.attack.cohort import cohort_test, relabelling_test
from audit.attack.decisions import NOT_JUDGED, Decisions, decide, undecided_mask
from audit.attack.exposure import exposure_record
from audit.attack.metrics import (
    GENERAL_ALONE,
    ScoredNames,
    by_mentions,
    measures_by_role,
    membership_metrics,
    plain,
    quick_measures,
    truth_mask,
)
from audit.attack.scores import (
    FIXED_SCORE,
    GENERAL_SCORE,
    AttackResult,
    Score,
    name_limits,
    part_limits,
    part_p_values,
    scores_of,
)
from audit.attack.verdict import Ranked, give_verdict, smallest_finding
from audit.names.candidates import Candidates
from audit.stats import FloatArray, IntArray, two_sample_ks

_CURVE_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class Judgement:
    """Everything that follows from the scores, as a report keeps it, and the names' decisions.

    Canaries have decisions, among themselves, and `details["canaries"]`; everything else is of the
    other names alone. `details` holds "null_check", "canaries" and "roles" where the list has what
    they need. `n_flagged_by_general` counts those tested names that M_general alone flags too:
    names that stand out for another reason than the notes, such as fame or frequency.
    """

    decisions: Decisions
    n_flagged_by_general: int
    metrics: dict[str, Any]
    verdict: dict[str, Any]
    cohort: dict[str, Any]
    curve: list[dict[str, Any]]
    mentions: list[dict[str, Any]]
    details: dict[str, Any]


def judge(
    attack: AttackResult,
    *,
    candidates: Candidates,
    scenario: int,
    seed: int,
    threshold: float | None,
) -> Judgement:
    """Judge N listed names against R reference controls that follow them in the attack's scores.

    `threshold` is a free one on the fixed score, or None.
    """
    n, fixed, general = len(candidates), FIXED_SCORE[scenario], GENERAL_SCORE[scenario]
    is_canary = canary_mask(candidates)
    rows, canaries = np.flatnonzero(~is_canary), np.flatnonzero(is_canary)
    patients, listed = attack.of_rows(rows, n_listed=n), candidates.rows(rows.tolist())
    tested = ~truth_mask(listed, truth=False)
    decisions = _decisions(patients, listed, score=fixed, asks_both_parts=True)
    by_general = _decisions(patients, listed, score=general)
    metrics = membership_metrics(
        scored_names(patients, listed, scenario=scenario), seed=seed, threshold=threshold
    )
    judged = decisions.q[tested & ~np.isnan(decisions.q)]
    verdict = give_verdict(
        float(judged.min()) if len(judged) else math.nan,
        n_flagged=int(decisions.point_flag[tested].sum()),
        n_undecided=int(decisions.is_undecided[tested].sum()),
        n_tested=len(judged),
        ranked=_ranked(patients, listed, metrics=metrics, seed=seed),
        smallest=smallest_finding(
            int(tested.sum()), n_reference=len(patients.n_pieces) - len(listed)
        ),
    )
    if verdict["state"] != "leak_found":
        decisions, by_general = decisions.without_flags(), by_general.without_flags()
    among = _decisions(
        attack.of_rows(canaries, n_listed=n), candidates.rows(canaries.tolist()), score=fixed,
        asks_both_parts=True,
    )  # fmt: skip
    scores = [patients.scores[name].value for name in (fixed, general)]
    return Judgement(
        decisions=_joined((rows, canaries), (decisions, among)),
        n_flagged_by_general=int((tested & decisions.point_flag & by_general.point_flag).sum()),
        metrics=plain(metrics),
        verdict=verdict,
        cohort=_cohort(scores[0], patients, listed, seed=seed),
        curve=curve_of(patients, listed, scenario=scenario),
        mentions=by_mentions(scores[0][: len(listed)], decisions.point_flag, listed),
        details=_details(
            attack, candidates, scenario=scenario, seed=seed,
            roles=measures_by_role(
                listed,
                scores=[score[: len(listed)] for score in scores],
                flags=(decisions.point_flag, by_general.point_flag),
                parts=patients.parts.of_name[: len(listed)],
                threshold=threshold,
            ),
        ),
    )  # fmt: skip


def _joined(rows: tuple[IntArray, IntArray], parts: tuple[Decisions, Decisions]) -> Decisions:
    """Return decisions of two sets of names, with their places in the list, as one list's."""
    order = np.argsort(np.concatenate(rows))
    return Decisions(
        *(np.concatenate([getattr(one, column.name) for one in parts])[order]
          for column in fields(Decisions))
    )  # fmt: skip


def canary_mask(candidates: Candidates) -> np.ndarray:
    """Return which names [N] are canaries."""
    return np.array([candidates.is_canary(row) for row in range(len(candidates))], dtype=np.bool_)


def _details(
    attack: AttackResult, candidates: Candidates, *, scenario: int, seed: int, roles: list[Any]
) -> dict[str, Any]:
    fixed = FIXED_SCORE[scenario]
    ranked = [
        kind.name for kind in scores_of(scenario) if kind.is_ranked and kind.name in attack.scores
    ]
    columns = {name: attack.scores[name].value for name in ranked}
    columns[GENERAL_ALONE] = attack.scores[GENERAL_SCORE[scenario]].value
    found = {
        "null_check": null_check(columns[fixed], candidates=candidates)
        if truth_mask(candidates, truth=True).any()
        else None,
        "canaries": exposure_record(columns, candidates, fixed=fixed, seed=seed),
        "roles": roles,
    }
    return {name: one for name, one in found.items() if one}


def _decisions(
    attack: AttackResult, candidates: Candidates, *, score: str, asks_both_parts: bool = False
) -> Decisions:
    n, parts, found = len(candidates), attack.parts, attack.scores[score]
    # Comparable are names of as many word pieces that have the same parts.
    groups = 4 * attack.n_pieces + (parts.of_name >= 0) @ np.array([1, 2])
    more: dict[str, Any] = {}
    if asks_both_parts:
        limits = part_limits(attack.part_residual, parts=parts)
        more = {
            "limit": name_limits(*parts.pairs(attack.part_residual), limits=limits)[:n],
            "part_p": part_p_values(attack.part_residual, parts=parts)[:n],
        }
    return decide(
        found.value[:n],
        standard_error=found.standard_error[:n],
        n_blocks=len(attack.block_counts),
        group=groups[:n],
        is_member=candidates.is_member,
        reference_scores=found.value[n:],
        reference_group=groups[n:],
        **more,
    )


def _ranked(
    attack: AttackResult, candidates: Candidates, *, metrics: dict[str, Any], seed: int
) -> Ranked | None:
    """Members against controls; names of unknown truth are left out."""
    if (stratum := metrics["strata"].get("all")) is None:
        return None
    members = truth_mask(candidates, truth=True)
    known = members | truth_mask(candidates, truth=False)
    columns = attack.parts.of_name[: len(candidates)][known]
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
        stratum["scores"][metrics["fixed_score"]].auc,
        stratum["baselines"][GENERAL_ALONE].auc,
        relabelled.p,
        relabelled.smallest_auc,
    )


def _cohort(
    score: FloatArray, attack: AttackResult, candidates: Candidates, *, seed: int
) -> dict[str, Any]:
    """Test whether the names as a group stand out from the reference controls."""
    n, group = len(candidates), truth_mask(candidates, truth=True)
    has_members = bool(group.any())
    if not has_members:
        group = truth_mask(candidates, truth=None)
    test = cohort_test(
        score[:n][group],
        control_scores=score[n:],
        member_n_pieces=attack.n_pieces[:n][group],
        control_n_pieces=attack.n_pieces[n:],
        seed=seed,
    )
    return {"group": "members" if has_members else "unknown", **plain(test)}


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
    values = {kind.name: scores[kind.name].value[:n] for kind in kinds}
    return ScoredNames(
        is_member=candidates.is_member,
        control_kind=tuple("given" if k == "reference" else k for k in candidates.control_kind),
        scores={kind.name: values[kind.name] for kind in kinds if kind.is_ranked},
        rules={kind.rule: values[kind.name] > 0 for kind in kinds if kind.rule},
        baselines={
            GENERAL_ALONE: values[GENERAL_SCORE[scenario]],
            "popularity": np.array(candidates.popularity),
        },
        baseline_rules={
            kind.general_rule: values[kind.name] > 0 for kind in kinds if kind.general_rule
        },
        fixed_score=FIXED_SCORE[scenario],
        undecided={
            kind.rule: undecided_mask(
                values[kind.name],
                standard_error=scores[kind.name].standard_error[:n],
                threshold=np.zeros(n),
                n_blocks=len(attack.block_counts),
            )
            for kind in kinds
            if kind.rule and not kind.is_count
        },
        parts=attack.parts.of_name[:n],
    )


def curve_of(
    attack: AttackResult, candidates: Candidates, *, scenario: int
) -> list[dict[str, Any]]:
    """Return every measure after a part of the inputs or documents: prefixes of one run."""
    if not candidates.has_truth:
        return []
    units = np.cumsum(attack.block_counts)
    points = sorted({int(np.searchsorted(units, share * units[-1])) + 1 for share in _CURVE_SHARES})
    curve = []
    for n_blocks in points:
        after = attack.after(n_blocks)
        names = scored_names(attack, candidates, scenario=scenario, scores=after)
        curve.append({"n": int(units[n_blocks - 1]), "strata": quick_measures(names)})
    return curve


def name_columns(
    attack: AttackResult, judgement: Judgement, *, candidates: Candidates, scenario: int
) -> dict[str, list[Any]]:
    """Return the per-name table as columns, in the order of `names.csv`."""
    n, decisions = len(candidates), judgement.decisions
    fixed, residuals = (
        attack.scores[FIXED_SCORE[scenario]],
        attack.parts.pairs(attack.part_residual),
    )
    columns: dict[str, Any] = {
        "name_id": range(n),
        "file_row": candidates.row,
        "first_name": candidates.first,
        "last_name": candidates.last,
        "is_member": [None if m is None else int(m) for m in candidates.is_member],
        "control_kind": candidates.control_kind,
        "role": candidates.role,
        "n_mentions": candidates.n_mentions,
        "popularity": candidates.popularity,
        "n_pieces": attack.n_pieces[:n],
        "score": fixed.value[:n],
        "standard_error": fixed.standard_error[:n],
        "p_value": decisions.p,
        "q_value": decisions.q,
        "decision": decisions.decision,
        "is_undecided": decisions.is_undecided,
        "threshold": decisions.threshold,
        "is_unmatched": decisions.decision == NOT_JUDGED,
    }
    renamed: dict[str, Any] = {}
    for kind in scores_of(scenario):
        if kind.name in attack.scores:
            found = attack.scores[kind.name].value[:n]
            if kind.is_count:  # as the paper reports them
                found = np.round(found * attack.n_units).astype(np.int64)
            (renamed if kind.column else columns)[kind.column or kind.name] = found
    columns |= {"first_residual": residuals[0][:n], "last_residual": residuals[1][:n]} | renamed
    return {name: np.asarray(one, dtype=object).tolist() for name, one in columns.items()}


def null_check(score: FloatArray, *, candidates: Candidates) -> dict[str, float]:
    """Compare the scores of members with those of the reference controls that follow them.

    Canaries are left out. For a null pair the two must be alike: two-sample Kolmogorov-Smirnov
    (rank p-values that share controls are not independent, so they are not tested).
    """
    n, is_member = len(candidates), truth_mask(candidates, truth=True)
    statistic, p = two_sample_ks(score[:n][is_member & ~canary_mask(candidates)], score[n:])
    return {"ks_statistic": statistic, "ks_p": p}
