"""Judgement: from scores per name to decisions, measures, curve and verdict, as plain values.

Comes in: an attack's result. Goes out: the parts of a report. Torch-free.

Source: Nakamura et al., section 4.3; what goes beyond it is in `membership/decisions.py`,
`metrics.py`, `cohort.py` and `verdict.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.attack.cohort import RelabellingTest, cohort_test, relabelling_test, smallest_finding
from audit.attack.curve import by_mentions, curve_of, plain_record, scored_names
from audit.attack.decisions import NOT_JUDGED, Decisions, decide
from audit.attack.exposure import (
    canary_mask,
    exposure_record,
    joined_decisions,
    role_record,
)
from audit.attack.metrics import (
    GENERAL_ALONE,
    Attacked,
    MembershipMetrics,
    measures_by_role,
    membership_metrics,
)
from audit.attack.scores import (
    FIXED_SCORE,
    GENERAL_SCORE,
    AttackResult,
    Floats,
    Ids,
    name_limits,
    part_limits,
    part_p_values,
    scores_of,
)
from audit.attack.verdict import Ranked, Verdict, give_verdict
from audit.names.candidates import Candidates
from audit.stats import two_sample_ks


@dataclass(frozen=True, eq=False)
class Judgement:
    """Everything that follows from the scores. Who stands out is `decisions.point_flag`.

    Canaries have decisions, among themselves, and `exposure`; everything else is of the other names
    alone. `exposure` is None and `roles` empty where the list has neither. `n_flagged_by_general`
    counts those tested names that M_general alone flags too: names that stand out for another
    reason than the notes, such as fame or frequency.
    """

    decisions: Decisions
    n_flagged_by_general: int
    metrics: MembershipMetrics
    verdict: Verdict
    cohort: dict[str, object]
    curve: list[dict[str, object]]
    mentions: list[dict[str, object]]
    exposure: dict[str, Any] | None = None
    roles: tuple[dict[str, object], ...] = ()


def judge(
    attack: AttackResult,
    *,
    candidates: Candidates,
    scenario: int,
    seed: int,
    threshold: float | None,
) -> Judgement:
    """Judge N listed names against R reference controls that follow them in the attack's scores.

    Parameters
    ----------
    threshold
        A free threshold on the fixed score, or None.
    """
    n, fixed, general = len(candidates), FIXED_SCORE[scenario], GENERAL_SCORE[scenario]
    is_canary = canary_mask(candidates)
    rows = np.flatnonzero(~is_canary)
    patients, listed = attack.of_rows(rows, n_listed=n), candidates.rows(rows.tolist())
    score = patients.scores[fixed].value
    decisions = _decisions(patients, listed, score=fixed, asks_both_parts=True)
    by_general = _decisions(patients, listed, score=general)
    names = scored_names(patients, listed, scenario=scenario)
    metrics = membership_metrics(names, seed=seed, threshold=threshold)
    tested = np.array([truth is not False for truth in listed.is_member], dtype=np.bool_)
    verdict = _verdict(patients, listed, decisions=decisions, metrics=metrics, seed=seed)
    if verdict.state != "leak_found":
        decisions, by_general = decisions.without_flags(), by_general.without_flags()
    canaries = np.flatnonzero(is_canary)
    among = candidates.rows(canaries.tolist())
    of_canaries = _decisions(
        attack.of_rows(canaries, n_listed=n), among, score=fixed, asks_both_parts=True
    )
    both_flag = decisions.point_flag & by_general.point_flag
    roles = measures_by_role(
        listed,
        attack=Attacked(score[: len(listed)], decisions.point_flag),
        general=Attacked(patients.scores[general].value[: len(listed)], by_general.point_flag),
        parts=patients.parts.of_name[: len(listed)],
        threshold=threshold,
    )
    return Judgement(
        decisions=joined_decisions([(rows, decisions), (canaries, of_canaries)]),
        n_flagged_by_general=int((tested & both_flag).sum()),
        metrics=metrics,
        verdict=verdict,
        cohort=_cohort(score, patients.n_pieces, listed, seed=seed),
        curve=curve_of(patients, listed, scenario=scenario),
        mentions=by_mentions(score[: len(listed)], decisions, listed),
        exposure=exposure_record(attack, candidates, scenario=scenario, seed=seed),
        roles=tuple(role_record(one) for one in roles),
    )


def _decisions(
    attack: AttackResult, candidates: Candidates, *, score: str, asks_both_parts: bool = False
) -> Decisions:
    n = len(candidates)
    value, error = attack.scores[score].value, attack.scores[score].standard_error
    # Comparable are names of as many word pieces that have the same parts.
    groups = 4 * attack.n_pieces + (attack.parts.of_name >= 0) @ np.array([1, 2])
    limit = part_p = None
    if asks_both_parts:
        limits = part_limits(attack.part_residual, parts=attack.parts)
        limit = name_limits(*attack.parts.pairs(attack.part_residual), limits=limits)[:n]
        part_p = part_p_values(attack.part_residual, parts=attack.parts)[:n]
    return decide(
        value[:n],
        standard_error=error[:n],
        n_blocks=len(attack.block_counts),
        group=groups[:n],
        is_member=candidates.is_member,
        reference_scores=value[n:],
        reference_group=groups[n:],
        limit=limit,
        part_p=part_p,
    )


def name_columns(
    attack: AttackResult, judgement: Judgement, *, candidates: Candidates, scenario: int
) -> dict[str, list[Any]]:
    """Return the per-name table as columns, in the order of `names.csv`."""
    n = len(candidates)
    decisions, fixed = judgement.decisions, attack.scores[FIXED_SCORE[scenario]]
    columns: dict[str, list[Any]] = {
        "name_id": list(range(n)),
        "file_row": list(candidates.row),
        "first_name": list(candidates.first),
        "last_name": list(candidates.last),
        "is_member": [None if m is None else int(m) for m in candidates.is_member],
        "control_kind": list(candidates.control_kind),
        "role": list(candidates.role),
        "n_mentions": list(candidates.n_mentions),
        "popularity": list(candidates.popularity),
        "n_pieces": [int(k) for k in attack.n_pieces[:n]],
        "score": _floats(fixed.value[:n]),
        "standard_error": _floats(fixed.standard_error[:n]),
        "p_value": _floats(decisions.p),
        "q_value": _floats(decisions.q),
        "decision": list(decisions.decision),
        "is_undecided": [bool(x) for x in decisions.is_undecided],
        "threshold": _floats(decisions.threshold),
        "is_unmatched": [word == NOT_JUDGED for word in decisions.decision],
    }
    renamed: dict[str, list[Any]] = {}
    for kind in scores_of(scenario):
        if kind.name in attack.scores:
            found: list[Any] = _floats(attack.scores[kind.name].value[:n])
            if kind.is_count:  # as the paper reports them
                found = [round(share * attack.n_units) for share in found]
            (renamed if kind.column else columns)[kind.column or kind.name] = found
    first, last = attack.parts.pairs(attack.part_residual)
    columns |= {"first_residual": _floats(first[:n]), "last_residual": _floats(last[:n])}
    return columns | renamed


def null_check(score: Floats, *, candidates: Candidates) -> dict[str, float]:
    """Compare the scores of members with those of the reference controls that follow them.

    Canaries are left out. For a null pair the two must be alike: two-sample Kolmogorov-Smirnov
    (rank p-values that share controls are not independent, so they are not tested).
    """
    n = len(candidates)
    is_member = np.array([m is True for m in candidates.is_member], dtype=np.bool_)
    members = score[:n][is_member & ~canary_mask(candidates)]
    statistic, p = two_sample_ks(members, score[n:])
    return {"ks_statistic": statistic, "ks_p": p}


def _floats(column: Floats) -> list[float]:
    return [float(x) for x in column]


def _verdict(
    attack: AttackResult,
    candidates: Candidates,
    *,
    decisions: Decisions,
    metrics: MembershipMetrics,
    seed: int,
) -> Verdict:
    n = len(candidates)
    tested = np.array([truth is not False for truth in candidates.is_member], dtype=np.bool_)
    q = decisions.q[tested]
    judged = q[~np.isnan(q)]
    ranked = None
    if (stratum := metrics.strata.get("all")) is not None:
        ranked = Ranked(
            n_members=stratum.n_members,
            n_controls=stratum.n_controls,
            auc=stratum.scores[metrics.fixed_score].auc,
            general_auc=stratum.baselines[GENERAL_ALONE].auc,
            relabelled=_relabelled(attack, candidates, seed=seed),
        )
    return give_verdict(
        float(judged.min()) if len(judged) else math.nan,
        n_flagged=int(decisions.point_flag[tested].sum()),
        n_undecided=int(decisions.is_undecided[tested].sum()),
        n_tested=len(judged),
        ranked=ranked,
        smallest_finding=smallest_finding(int(tested.sum()), n_reference=len(attack.n_pieces) - n),
    )


def _relabelled(attack: AttackResult, candidates: Candidates, *, seed: int) -> RelabellingTest:
    """Test members against controls; names of unknown truth are left out."""
    known = np.array([m is not None for m in candidates.is_member], dtype=np.bool_)
    columns = attack.parts.of_name[: len(candidates)][known]
    return relabelling_test(
        columns[:, 0],
        columns[:, 1],
        np.array([m is True for m in candidates.is_member], dtype=np.bool_)[known],
        by_part=attack.part_residual,
        parts=attack.parts,
        seed=seed,
        n_relabelled=1999 if len(columns) <= 5000 else 499,
    )


def _cohort(
    score: Floats, n_pieces: Ids, candidates: Candidates, *, seed: int
) -> dict[str, object]:
    """Test whether the names as a group stand out from the reference controls."""
    n = len(candidates)
    has_members = any(m is True for m in candidates.is_member)
    wanted = True if has_members else None
    group = np.array([m is wanted for m in candidates.is_member], dtype=np.bool_)
    test = cohort_test(
        score[:n][group],
        control_scores=score[n:],
        member_n_pieces=n_pieces[:n][group],
        control_n_pieces=n_pieces[n:],
        seed=seed,
    )
    return {"group": "members" if has_members else "unknown", **plain_record(test)}
