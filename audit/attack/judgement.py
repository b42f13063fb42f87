"""Judgement: from scores per name to decisions, measures, curve and verdict, as plain values.

Source: Nakamura et al., section 4.3; what goes beyond it is in `decisions.py`, `metrics.py`,
`cohort.py` and `verdict.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from audit.attack.cohort import cohort_test, relabelling_test
from audit.attack.decisions import NOT_JUDGED, Decisions, decide, undecided_mask
from audit.attack.metrics import (
    GENERAL_ALONE,
    ScoredNames,
    by_mentions,
    exposure_record,
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
    Columns,
    name_limits,
    part_limits,
    part_p_values,
    scores_of,
)
from audit.attack.verdict import Ranked, give_verdict, smallest_finding
from audit.names.candidates import Candidates
from audit.stats import BoolArray, two_sample_ks

_CURVE_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


def judge(
    attack: AttackResult,
    *,
    candidates: Candidates,
    scenario: int,
    seed: int,
    threshold: float | None,
) -> dict[str, Any]:
    """Judge N listed names against R reference controls that follow them in the attack's scores.

    `threshold` is a free one on the fixed score, or None. The parts of a report come back: "names"
    (columns in the order of names.csv), "measures", "verdict", "cohort", "curve", "mentions", and
    "details" with "null_check", "canaries" and "roles" where the list has
    what they need. Canaries are decided among themselves; all else is of the other names alone.
    "n_flagged_by_general" counts those tested names that M_general alone flags too: names that
    stand out for another reason than the notes, such as fame or frequency.
    """
    n, fixed, general = len(candidates), FIXED_SCORE[scenario], GENERAL_SCORE[scenario]
    is_canary = np.array([candidates.is_canary(row) for row in range(n)], dtype=np.bool_)
    rows, canaries = np.flatnonzero(~is_canary), np.flatnonzero(is_canary)
    patients, listed = attack.of_rows(rows, n_listed=n), candidates.rows(rows.tolist())
    tested = ~truth_mask(listed, truth=False)
    decisions = _decisions(patients, listed, score=fixed)
    by_general = _decisions(patients, listed, score=general)
    metrics = membership_metrics(
        _scored_names(patients, listed, patients.scores, scenario=scenario), seed=seed,
        threshold=threshold,
    )  # fmt: skip
    judged = decisions.q[tested & ~np.isnan(decisions.q)]
    verdict = give_verdict(
        float(judged.min()) if len(judged) else math.nan,
        n_flagged=int(decisions.point_flag[tested].sum()),
        n_undecided=int(decisions.is_undecided[tested].sum()),
        n_tested=len(judged),
        ranked=_ranked(patients, listed, metrics["strata"].get("all"), fixed=fixed, seed=seed),
        smallest=smallest_finding(int(tested.sum()), n_reference=len(attack.n_pieces) - n),
    )
    if verdict["state"] != "leak_found":
        decisions, by_general = decisions.without_flags(), by_general.without_flags()
    among = _decisions(
        attack.of_rows(canaries, n_listed=n), candidates.rows(canaries.tolist()), score=fixed
    )
    order = np.argsort(np.concatenate([rows, canaries]))
    joined = {name: np.concatenate([one, vars(among)[name]])[order]
              for name, one in vars(decisions).items()}  # fmt: skip
    flags = decisions.point_flag, by_general.point_flag
    return {
        "names": _columns(attack, Decisions(**joined), candidates, scenario=scenario),
        "n_flagged_by_general": int((tested & flags[0] & flags[1]).sum()),
        "measures": plain(metrics),
        "verdict": verdict,
        "cohort": _cohort(patients, listed, fixed=fixed, seed=seed),
        "curve": _curve(patients, listed, scenario=scenario),
        "mentions": by_mentions(patients.scores[fixed][0, : len(listed)], flags[0], listed),
        "details": _details(attack, candidates, scenario=scenario, seed=seed)
        | _roles(patients, listed, flags, scores=(fixed, general), threshold=threshold),
    }


def _details(
    attack: AttackResult, candidates: Candidates, *, scenario: int, seed: int
) -> dict[str, Any]:
    """Say whether members differ from reference controls, and what canaries show."""
    fixed, n = attack.scores[FIXED_SCORE[scenario]][0], len(candidates)
    found: dict[str, Any] = {}
    if (members := truth_mask(candidates, truth=True)).any():
        patients = [not candidates.is_canary(row) for row in range(n)]
        statistic, p = two_sample_ks(fixed[:n][members & patients], fixed[n:])
        found["null_check"] = {"ks_statistic": statistic, "ks_p": p}
    ranked = {kind.name: attack.scores[kind.name][0] for kind in scores_of(scenario)
              if kind.is_ranked and kind.name in attack.scores}  # fmt: skip
    ranked[GENERAL_ALONE] = attack.scores[GENERAL_SCORE[scenario]][0]
    record = exposure_record(ranked, candidates, fixed=FIXED_SCORE[scenario], seed=seed)
    return found | ({"canaries": record} if record else {})


def _roles(
    attack: AttackResult,
    candidates: Candidates,
    flags: tuple[BoolArray, BoolArray],
    *,
    scores: tuple[str, str],
    threshold: float | None,
) -> dict[str, Any]:
    n = len(candidates)
    roles = measures_by_role(
        candidates, scores=[attack.scores[name][0, :n] for name in scores], flags=flags,
        parts=attack.parts.of_name[:n], threshold=threshold,
    )  # fmt: skip
    return {"roles": roles} if roles else {}


def _cohort(
    attack: AttackResult, candidates: Candidates, *, fixed: str, seed: int
) -> dict[str, Any]:
    """Test whether the names as a group stand out from the reference controls."""
    n, score, pieces = len(candidates), attack.scores[fixed][0], attack.n_pieces
    has_members = truth_mask(candidates, truth=True).any()
    group = truth_mask(candidates, truth=True if has_members else None)
    test = cohort_test(
        score[:n][group], control_scores=score[n:], member_n_pieces=pieces[:n][group],
        control_n_pieces=pieces[n:], seed=seed,
    )  # fmt: skip
    return {"group": "members" if has_members else "unknown", **plain(test)}


def _decisions(attack: AttackResult, candidates: Candidates, *, score: str) -> Decisions:
    """Decide on one score; on the fixed one a name must also pass both of its parts."""
    n, parts, found = len(candidates), attack.parts, attack.scores[score]
    # Comparable are names of as many word pieces that have the same parts.
    groups = 4 * attack.n_pieces + (parts.of_name >= 0) @ np.array([1, 2])
    more: dict[str, Any] = {}
    if score in FIXED_SCORE.values():
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
        is_member=candidates.is_member,
        reference_scores=found[0, n:],
        reference_group=groups[n:],
        **more,
    )


def _ranked(
    attack: AttackResult,
    candidates: Candidates,
    stratum: dict[str, Any] | None,
    *,
    fixed: str,
    seed: int,
) -> Ranked | None:
    """Members against controls; names of unknown truth are left out."""
    if stratum is None:
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
        stratum["scores"][fixed].auc,
        stratum["baselines"][GENERAL_ALONE].auc,
        relabelled["p"],
        relabelled["smallest_auc"],
    )


def _scored_names(
    attack: AttackResult, candidates: Candidates, scores: Columns, *, scenario: int
) -> ScoredNames:
    """What of N listed names the measures need, out of all or a part of an attack's blocks."""
    n, kinds = len(candidates), [kind for kind in scores_of(scenario) if kind.name in scores]
    values = {kind.name: scores[kind.name][0, :n] for kind in kinds}
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
                standard_error=scores[kind.name][1, :n],
                threshold=np.zeros(n),
                n_blocks=len(attack.block_counts),
            )
            for kind in kinds
            if kind.rule and not kind.is_count
        },
        parts=attack.parts.of_name[:n],
    )


def _curve(attack: AttackResult, candidates: Candidates, *, scenario: int) -> list[dict[str, Any]]:
    """Return every measure after a part of the inputs or documents: prefixes of one run."""
    if not candidates.has_truth:
        return []
    units = np.cumsum(attack.block_counts)
    points = sorted({int(np.searchsorted(units, share * units[-1])) + 1 for share in _CURVE_SHARES})
    return [
        {
            "n": int(units[n_blocks - 1]),
            "strata": quick_measures(
                _scored_names(attack, candidates, attack.after(n_blocks), scenario=scenario)
            ),
        }
        for n_blocks in points
    ]


def _columns(
    attack: AttackResult, decisions: Decisions, candidates: Candidates, *, scenario: int
) -> dict[str, list[Any]]:
    """Return the per-name table as columns, in the order of `names.csv`."""
    n, fixed = len(candidates), attack.scores[FIXED_SCORE[scenario]]
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
        "popularity": candidates.popularity,
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
    for kind in scores_of(scenario):
        if kind.name in attack.scores:
            found = attack.scores[kind.name][0, :n]
            if kind.is_count:  # as the paper reports them
                found = np.round(found * int(attack.block_counts.sum())).astype(np.int64)
            (renamed if kind.column else columns)[kind.column or kind.name] = found
    columns |= {"first_residual": residuals[0][:n], "last_residual": residuals[1][:n]} | renamed
    return {name: np.asarray(one, dtype=object).tolist() for name, one in columns.items()}
