"""Judgement: from scores per name to decisions, measures, curve and verdict.

Source: Nakamura et al., section 4.3; what goes beyond it is in `decisions.py`, `metrics.py`,
`cohort.py`, `guards.py`, `exposure.py` and `verdicts.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audit.attack.cohort import (
    NO_TEST,
    GroupTest,
    Sharing,
    find_sharing,
    group_test,
)
from audit.attack.decisions import (
    LOOK_ALPHA,
    NOT_JUDGED,
    ComparisonPool,
    Decisions,
    decide,
    name_p_values,
    q_values,
    truth_mask,
)
from audit.attack.exposure import EXPOSED_P, MIN_BOUND_CONTROLS, find_usual_dose
from audit.attack.guards import (
    PIECES,
    SPELLING,
    adjust_scores,
    assign_folds,
    guard_list,
    number_written_parts,
    score_spelling,
)
from audit.attack.measure_types import (
    GENERAL_ALONE,
    POPULARITY,
    CurvePoint,
    CurveStratum,
    Details,
    DoseLine,
    Measures,
    MentionBin,
    NullCheck,
    Verdict,
)
from audit.attack.metrics import (
    measure_by_mentions,
    measure_by_role,
    measure_canaries,
    measure_membership,
    quick_measures,
)
from audit.attack.routes import joint_p
from audit.attack.scores import AttackResult, NameParts, soft_minimum
from audit.attack.verdicts import ListEvidence, give_verdict
from audit.names.candidates import CHOSEN_KINDS, OF_HOSPITAL, Candidates, ControlSource
from audit.stats import (
    MIN_NAMES,
    NO_ESTIMATE,
    BoolArray,
    Estimate,
    FloatArray,
    IntArray,
    auc_interval,
    two_sample_ks,
)

UNSETTLED_RATE = 0.05
"""Largest share of sequential audits in which some name's decision differs from that of endless
inputs."""
NO_PARTS: IntArray = np.zeros(0, dtype=np.int64)
_CURVE_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
_MANY_NAMES, _FEW_PERMUTATIONS = 5_000, 499
"""Longer lists get fewer permutations of their labels, since every hundred of these takes seconds.
"""


Columns = dict[str, list[Any]]
"""The table of names by column, as values of JSON; numbers may be NaN or infinite."""


@dataclass(frozen=True)
class ListJudgement:
    """The parts of a report that depend on the rule of the verdict.

    Attributes
    ----------
    names
        The columns of names.csv that hold the decisions.
    verdict, mentions, details
        As in a report; `details` has `roles` and `doses`, each if there are any.
    n_flagged_by_general
        Tested names that M_general alone flags too: they stand out for another reason than the
        notes, such as fame or frequency.
    """

    names: Columns
    verdict: Verdict
    mentions: tuple[MentionBin, ...]
    details: Details
    n_flagged_by_general: int


@dataclass(frozen=True)
class Judgement(ListJudgement):
    """All parts of a report that are judged from scores.

    `names` has all columns of names.csv in their order, and `details` has `null_check` and
    `canaries` too if the list has what they need. Measures and curve leave canaries out.
    """

    measures: Measures
    curve: tuple[CurvePoint, ...]


def judge(
    attack: AttackResult,
    *,
    control_source: ControlSource,
    seed: int,
    sibling: Mapping[int, DoseLine] | None = None,
) -> Judgement:
    """Judge the listed names against the controls of their source.

    The controls of `held_out` and `own` are listed; those of `invented` and `drawn` are the
    reference controls that follow the listed names in the attack. `sibling` holds what the attack
    sees of the known names in a sibling model's notes, by number of mentions.
    """
    patients = attack.select_names(find_patient_rows(attack.listed))
    list_judgement = decide_list(attack, control_source=control_source, seed=seed, sibling=sibling)
    details = {
        "null_check": _check_null(patients),
        "canaries": measure_canaries(attack, seed=seed),
    }
    return Judgement(
        names=_name_columns(attack, list_judgement.names),
        verdict=list_judgement.verdict,
        mentions=list_judgement.mentions,
        details=list_judgement.details.with_parts(details),
        n_flagged_by_general=list_judgement.n_flagged_by_general,
        measures=measure_membership(patients, seed=seed),
        curve=_measure_curve(patients, seed=seed),
    )


def decide_list(
    attack: AttackResult,
    *,
    control_source: ControlSource,
    seed: int,
    sibling: Mapping[int, DoseLine] | None = None,
) -> ListJudgement:
    """Decide on every name and on the list as a whole.

    Canaries are decided among themselves; everything else is about the other names alone.
    """
    listed = attack.listed
    rows = find_patient_rows(listed)
    canary_rows = np.setdiff1d(np.arange(len(listed)), rows)
    patients, canaries = attack.select_names(rows), attack.select_names(canary_rows)
    tested = ~truth_mask(patients.listed.is_member, truth=False)
    sharing = _find_sharing(patients, source=control_source, seed=seed)
    decisions = decide_names(
        patients, attack.fixed_score, source=control_source, shared=sharing.parts
    )
    by_general = decide_names(patients, attack.general_score, source=control_source)
    planted = measure_doses(canaries, patients, source=control_source, seed=seed)
    evidence = replace(
        _gather_evidence(patients, decisions, source=control_source, sharing=sharing, seed=seed),
        positive_controls=planted or sibling or {},
        positive_origin="canaries" if planted else "sibling" if sibling else "",
    )
    verdict = give_verdict(evidence)
    if verdict.state != "leak_found":
        decisions, by_general = decisions.without_flags(), by_general.without_flags()
    among_canaries = decide_names(canaries, attack.fixed_score, source="invented")
    order = np.argsort(np.concatenate([rows, canary_rows]))
    joined = {
        name: np.concatenate([column, vars(among_canaries)[name]])[order]
        for name, column in vars(decisions).items()
    }
    flag, general_flag = decisions.point_flag, by_general.point_flag
    member_lines = measure_doses(patients, patients, source=control_source, seed=seed)
    details = {
        "roles": measure_by_role(patients, flag, general_flag=general_flag),
        "doses": tuple(member_lines.values()),
    }
    return ListJudgement(
        names=_decision_columns(Decisions(**joined)),
        n_flagged_by_general=int((tested & flag & general_flag).sum()),
        verdict=verdict,
        mentions=measure_by_mentions(flag, patients.listed),
        details=Details().with_parts(details),
    )


def find_patient_rows(listed: Candidates) -> IntArray:
    """Return the rows of a list that are not canaries."""
    return np.flatnonzero([not listed.is_canary(row) for row in range(len(listed))])


def _decision_columns(decisions: Decisions) -> Columns:
    """Return the columns of names.csv that hold the decisions."""
    columns = {
        "p_value": decisions.p,
        "q_value": decisions.q,
        "decision": decisions.decision,
        "is_undecided": decisions.is_undecided,
        "threshold": decisions.threshold,
        "is_unmatched": decisions.decision == NOT_JUDGED,
    }
    return {name: np.asarray(column, dtype=object).tolist() for name, column in columns.items()}


def make_comparison_pool(
    attack: AttackResult, score: str, *, source: ControlSource
) -> ComparisonPool:
    """Return the controls that the listed names are ranked among."""
    rows = find_ranked_controls(attack, source=source)
    groups = assign_groups(attack.parts, attack.n_pieces)
    is_listed = rows < len(attack.listed)
    return ComparisonPool(
        attack.scores[score][0, rows], groups[rows], np.where(is_listed, rows, -1)
    )


def find_ranked_controls(attack: AttackResult, *, source: ControlSource) -> IntArray:
    """Return the rows, among all names of the attack, of the controls for ranking."""
    if source in OF_HOSPITAL:
        return np.flatnonzero(attack.listed.is_person)
    return np.arange(len(attack.listed), len(attack.n_pieces))


def find_group_controls(names: Candidates, *, source: ControlSource) -> BoolArray:
    """Return which listed names [N] are the controls of the group's test.

    Controls that were chosen because they share a part with a member are left out if there are
    enough others.
    """
    if source in OF_HOSPITAL:
        return np.array(names.is_person, dtype=np.bool_)
    is_control = truth_mask(names.is_member, truth=False)
    is_chosen = np.isin(names.control_kind, CHOSEN_KINDS)
    is_chosen &= ~np.array(names.is_kind_guessed, dtype=np.bool_)
    has_others = (is_control & ~is_chosen).sum() >= MIN_NAMES
    return is_control & ~is_chosen if has_others else is_control


def decide_names(
    attack: AttackResult, score: str, *, source: ControlSource, shared: IntArray = NO_PARTS
) -> Decisions:
    """Decide on the listed names by one score, among the controls of their source.

    `shared` are parts that members share more often than chance explains (`cohort.Sharing`).
    """
    n = len(attack.listed)
    pool = make_comparison_pool(attack, score, source=source)
    scores, errors = attack.scores[score][:, :n]
    return decide(
        scores,
        standard_errors=errors,
        n_blocks=len(attack.block_counts),
        groups=assign_groups(attack.parts, attack.n_pieces)[:n],
        is_member=attack.listed.is_member,
        pool=pool,
        namesakes=_namesake_scores(attack, source=source, shared=shared)
        if score == attack.fixed_score
        else {},
    )


def _namesake_scores(
    attack: AttackResult, *, source: ControlSource, shared: IntArray
) -> dict[int, FloatArray]:
    """Return, by row, the scores of namesakes, who hold a part that somebody else in the notes has.

    A `shared` part counts as somebody else's too. A namesake is made of that part and the other
    part of a comparable control. If others carry both parts of a name, the namesakes that reach
    higher count.
    """
    listed, parts = attack.listed, attack.parts
    groups = assign_groups(parts, attack.n_pieces)
    pool = make_comparison_pool(attack, attack.fixed_score, source=source)
    control_rows = pool.rows if source in OF_HOSPITAL else np.arange(len(listed), len(groups))
    shared_parts = set(shared.tolist())
    namesakes = {}
    for row in range(len(listed)):
        carried_roles = [
            role
            for role in (0, 1)
            if (listed.n_others(row)[role] or 0) > 0 or parts.of_name[row, role] in shared_parts
        ]
        comparable_rows = control_rows[
            (groups[control_rows] == groups[row]) & (control_rows != row)
        ]
        columns = [attack.score_namesakes(row, role, comparable_rows) for role in carried_roles]
        if columns and len(comparable_rows):
            namesakes[row] = max(columns, key=lambda column: float(np.nanquantile(column, 0.95)))
    return namesakes


def assign_groups(parts: NameParts, n_pieces: IntArray) -> IntArray:
    """Return the group of each name [N]; names of one group are comparable.

    They have the same number of word pieces and the same parts.
    """
    groups: IntArray = 4 * n_pieces + (parts.of_name >= 0) @ np.array([1, 2])
    return groups


def _gather_evidence(
    attack: AttackResult,
    decisions: Decisions,
    *,
    source: ControlSource,
    sharing: Sharing,
    seed: int,
) -> ListEvidence:
    """Return the numbers that the verdict of a list without canaries rests on."""
    listed, n = attack.listed, len(attack.listed)
    is_tested = ~truth_mask(listed.is_member, truth=False)
    scores, errors = attack.scores[attack.fixed_score][:, :n]
    groups = assign_groups(attack.parts, attack.n_pieces)
    pool = make_comparison_pool(attack, attack.fixed_score, source=source)
    seen_p = name_p_values(scores, groups=groups[:n], pool=pool, min_controls=MIN_BOUND_CONTROLS)[
        is_tested
    ]
    judged_q = decisions.q[is_tested & ~np.isnan(decisions.q)]
    rows, is_member = find_compared_rows(attack, source=source)
    columns = attack.parts.of_name[rows]
    baselines = compute_baselines(attack, rows, is_member)
    guard = guard_list(baselines, is_member, columns=columns)
    compared_scores = attack.scores[attack.fixed_score][0, rows]
    if source != "held_out":
        covariates = [baselines[name] for name in (GENERAL_ALONE, POPULARITY, PIECES)]
        compared_scores = adjust_scores(
            compared_scores, np.stack(covariates, axis=1), folds=assign_folds(columns)
        )
    members = is_tested & truth_mask(listed.is_member, truth=True)
    counted = members if members.any() else is_tested
    return ListEvidence(
        control_source=source,
        n_tested=len(judged_q),
        n_controls=int((~np.isnan(pool.scores)).sum()),
        n_flagged=int((decisions.point_flag & is_tested).sum()),
        n_worth_a_look=int((judged_q <= LOOK_ALPHA).sum()),
        n_undecided=int((decisions.is_undecided & is_tested).sum()),
        p_names=float(judged_q.min()) if len(judged_q) else math.nan,
        group=_test_group(
            attack, rows, is_member, compared_scores, source=source, sharing=sharing, seed=seed
        ),
        auc=_members_auc(attack, rows, is_member),
        baselines=guard.aucs,
        mismatched=guard.mismatched if listed.has_truth or source == "own" else (),
        has_truth=listed.has_truth,
        has_evidence=attack.has_evidence,
        n_scored=int((~np.isnan(scores)).sum()),
        n_listed=n,
        reliability=_reliability(scores, errors),
        n_seen=int((seen_p <= EXPOSED_P).sum()),
        n_bounded=int((~np.isnan(seen_p)).sum()),
        dose=find_usual_dose(
            [m for m, is_counted in zip(listed.n_mentions, counted, strict=True) if is_counted]
        ),
    )


def _members_auc(attack: AttackResult, rows: IntArray, is_member: BoolArray) -> Estimate:
    """Return the AUC of members against controls; none if nobody is known to be a member."""
    if True not in attack.listed.is_member or not (~is_member).any():
        return NO_ESTIMATE
    columns = attack.parts.of_name[rows]
    return auc_interval(
        attack.scores[attack.fixed_score][0, rows], is_member, clusters=tuple(columns.T)
    )


def find_compared_rows(
    attack: AttackResult, *, source: ControlSource
) -> tuple[IntArray, BoolArray]:
    """Return the rows [K] of the group's test, and which of them are members.

    If nobody is known to be a member, unknown names count as members. If the names in the notes
    were invented and the list has too few controls, the reference controls take their place.
    """
    listed = attack.listed
    n = len(listed)
    members = truth_mask(listed.is_member, truth=True)
    if not members.any():
        members = truth_mask(listed.is_member, truth=None)
    is_control = find_group_controls(listed, source=source)
    rows = np.flatnonzero(members | is_control)
    is_member = members[rows]
    if is_control.sum() < MIN_NAMES and source not in OF_HOSPITAL:
        member_rows = np.flatnonzero(members)
        references = np.arange(n, len(attack.n_pieces))
        rows = np.concatenate([member_rows, references])
        is_member = np.arange(len(rows)) < len(member_rows)
    return rows, is_member


def compute_baselines(
    attack: AttackResult, rows: IntArray, is_member: BoolArray
) -> dict[str, FloatArray]:
    """Return the baselines of the names of some rows [K]; none of them needs M_hospital."""
    n = len(attack.listed)
    log_share = attack.parts.sum_parts(attack.parts.log_share)[rows]
    baselines = {
        GENERAL_ALONE: attack.scores[attack.general_score][0, rows],
        POPULARITY: log_share,
        PIECES: attack.n_pieces[rows].astype(np.float64),
    }
    if rows.max(initial=-1) < n:
        names = [attack.listed.full_name(row) for row in rows.tolist()]
        parts = number_written_parts(attack.listed.rows(rows.tolist()))
        baselines[SPELLING] = score_spelling(names, is_member, columns=parts)
    return baselines


def _test_group(
    attack: AttackResult,
    rows: IntArray,
    is_member: BoolArray,
    scores: FloatArray,
    *,
    source: ControlSource,
    sharing: Sharing,
    seed: int,
) -> GroupTest:
    """Test the names of some rows [K] as a group."""
    if not is_member.any() or is_member.all():
        return NO_TEST
    parts = attack.parts
    donor_names = (
        rows[~is_member]
        if source in OF_HOSPITAL
        else np.arange(len(attack.listed), len(parts.of_name))
    )
    donors = np.unique(parts.of_name[donor_names])
    options = {"n_permutations": _FEW_PERMUTATIONS} if len(rows) > _MANY_NAMES else {}
    return group_test(
        scores,
        is_member,
        strata=assign_groups(parts, attack.n_pieces)[rows],
        columns=parts.of_name[rows],
        by_part=attack.part_residual,
        parts=parts,
        donors=donors[donors >= 0],
        sharing=sharing,
        seed=seed,
        **options,
    )


def _find_sharing(attack: AttackResult, *, source: ControlSource, seed: int) -> Sharing:
    """Find the parts that members share more often than chance explains."""
    rows, is_member = find_compared_rows(attack, source=source)
    if not is_member.any() or is_member.all():
        return Sharing()
    options = {"n_permutations": _FEW_PERMUTATIONS} if len(rows) > _MANY_NAMES else {}
    return find_sharing(
        attack.parts.of_name[rows],
        is_member,
        strata=assign_groups(attack.parts, attack.n_pieces)[rows],
        seed=seed,
        **options,
    )


def _reliability(scores: FloatArray, errors: FloatArray) -> float:
    """Return the share of the scores' variance that is not Monte-Carlo error; NaN: not known."""
    is_scored = np.isfinite(scores)
    if is_scored.sum() < MIN_NAMES or not np.isfinite(errors[is_scored]).all():
        return math.nan
    spread = float(scores[is_scored].var())
    noise = float(np.square(errors[is_scored]).mean())
    return 1 - noise / spread if spread > 0 else math.nan


def measure_doses(
    member_attack: AttackResult, listed: AttackResult, *, source: ControlSource, seed: int
) -> dict[int, DoseLine]:
    """Return how well the attack sees names known to be in the notes, by number of mentions.

    `member_attack` holds these names and their held-out twins, `listed` the list whose controls
    they are ranked among. Each dose is judged as a list of its own, by the two tests of the
    verdict.
    """
    names, n = member_attack.listed, len(member_attack.listed)
    members = truth_mask(names.is_member, truth=True)
    mentions = np.array([n_mentions or 0 for n_mentions in names.n_mentions])
    if not (members & (mentions > 0)).any():
        return {}
    pool = make_comparison_pool(listed, listed.fixed_score, source=source)
    pool = replace(pool, rows=np.full(len(pool.rows), -1))
    groups = assign_groups(member_attack.parts, member_attack.n_pieces)[:n]
    scores = member_attack.listed_scores(listed.fixed_score)
    control_rows, is_member = find_compared_rows(listed, source=source)
    control_rows = control_rows[~is_member]
    lines = {}
    for dose in np.unique(mentions[members & (mentions > 0)]).tolist():
        rows = np.flatnonzero(members & (mentions == dose))
        ranked_p = name_p_values(scores[rows], groups=groups[rows], pool=pool)
        seen_p = name_p_values(
            scores[rows], groups=groups[rows], pool=pool, min_controls=MIN_BOUND_CONTROLS
        )
        q = q_values(ranked_p, is_member=[True] * len(rows))
        p_names = float(np.nanmin(q)) if not np.isnan(q).all() else math.nan
        group = _test_against(member_attack, rows, listed, control_rows, source=source, seed=seed)
        lines[dose] = DoseLine(
            dose=dose,
            n_names=int((~np.isnan(seen_p)).sum()),
            n_seen=int((seen_p <= EXPOSED_P).sum()),
            p_group=group.p,
            p_names=p_names,
            p=joint_p(
                group.p,
                p_names,
                n_tested=int((~np.isnan(q)).sum()),
                n_controls=int((~np.isnan(pool.scores)).sum()),
            ),
        )
    return lines


def _test_against(
    member_attack: AttackResult,
    rows: IntArray,
    listed: AttackResult,
    control_rows: IntArray,
    *,
    source: ControlSource,
    seed: int,
) -> GroupTest:
    """Test some names of one attack against controls of another attack on the same parts."""
    fixed_score = listed.fixed_score
    joined = replace(
        listed,
        listed=member_attack.listed.rows(rows.tolist()) + listed.listed,
        scores={
            fixed_score: np.concatenate(
                [member_attack.scores[fixed_score][:, rows], listed.scores[fixed_score]], axis=1
            )
        },
        n_pieces=np.concatenate([member_attack.n_pieces[rows], listed.n_pieces]),
        parts=replace(
            listed.parts,
            of_name=np.concatenate([member_attack.parts.of_name[rows], listed.parts.of_name]),
        ),
    )
    test_rows = np.concatenate([np.arange(len(rows)), len(rows) + control_rows])
    # Planted names are drawn at random, so the parts that they share mean nothing.
    return _test_group(
        joined,
        test_rows,
        np.arange(len(test_rows)) < len(rows),
        joined.scores[fixed_score][0, test_rows],
        source=source,
        sharing=Sharing(),
        seed=seed,
    )


def _check_null(attack: AttackResult) -> NullCheck | None:
    """Test whether members differ from reference controls; None without members."""
    members = truth_mask(attack.listed.is_member, truth=True)
    if not members.any():
        return None
    score = attack.scores[attack.fixed_score][0]
    statistic, p = two_sample_ks(score[: len(members)][members], score[len(members) :])
    return NullCheck(ks_statistic=statistic, ks_p=p)


def find_settled_names(
    residual: FloatArray,
    *,
    counts: IntArray,
    listed: Candidates,
    parts: NameParts,
    n_pieces: IntArray,
    n_looks: int,
    source: ControlSource,
) -> BoolArray:
    """Return which names [N] have a decision that endless inputs would not change.

    `residual` [2, U] holds the parts' residuals and their jackknife errors over blocks of `counts`
    [b] inputs; parts, names and pieces are as in `AttackResult`. The statement holds at every one
    of `n_looks` looks in 1 - `UNSETTLED_RATE` of audits. Each part has an interval by Student's t,
    with Bonferroni's correction over parts, sides and looks. Nothing else is uncertain, because
    decisions depend on residuals alone and rise with them: a name that is flagged with its own
    parts at their lower ends and the controls' parts at their upper ends is flagged for all values
    between, and the reverse.
    """
    from scipy.stats import t

    n, (value, error) = len(listed), residual
    is_known = np.isfinite(value)
    if not np.isfinite(error[is_known]).all():
        return np.zeros(n, dtype=np.bool_)
    # Blocks of unequal size tell the error as well as this many equal ones (Satterthwaite).
    n_equal = counts.sum() ** 2 / np.square(counts).sum()
    reach = error * t.isf(UNSETTLED_RATE / (2 * is_known.sum() * n_looks), n_equal - 1)
    low, high = (soft_minimum(*parts.pairs(value + sign * reach)) for sign in (-1, 1))
    groups = assign_groups(parts, n_pieces)
    is_canary = np.array([listed.is_canary(row) for row in range(n)], dtype=np.bool_)
    control_rows = np.flatnonzero(np.array(listed.is_person) & ~is_canary)
    if source not in OF_HOSPITAL:
        control_rows = np.arange(n, len(groups))

    def flag_names(name_scores: FloatArray, control_scores: FloatArray) -> BoolArray:
        pool = ComparisonPool(
            control_scores[control_rows], groups[control_rows], np.full(len(control_rows), -1)
        )
        flags = np.zeros(n, dtype=np.bool_)
        for rows in filter(len, map(np.flatnonzero, (~is_canary, is_canary))):
            flags[rows] = decide(
                name_scores[rows],
                standard_errors=np.zeros(len(rows)),
                n_blocks=len(counts),
                groups=groups[rows],
                is_member=listed.rows(rows.tolist()).is_member,
                pool=pool,
            ).point_flag
        return flags

    return np.asarray(flag_names(low, high) == flag_names(high, low))


def _measure_curve(attack: AttackResult, *, seed: int) -> tuple[CurvePoint, ...]:
    """Return the measures after a part of the inputs or documents: prefixes of one run."""
    if not attack.listed.has_truth:
        return ()
    units = np.cumsum(attack.block_counts)
    points = sorted({int(np.searchsorted(units, share * units[-1])) + 1 for share in _CURVE_SHARES})

    def measure_prefix(n: int) -> dict[str, CurveStratum]:
        return quick_measures(replace(attack, scores=attack.prefix_scores(n)), seed=seed)

    return tuple(CurvePoint(n=int(units[n - 1]), strata=measure_prefix(n)) for n in points)


def _name_columns(attack: AttackResult, decision_columns: Columns) -> Columns:
    """Return the per-name table as columns, in the order of `names.csv`."""
    candidates, fixed = attack.listed, attack.scores[attack.fixed_score]
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
        **decision_columns,
        "n_others_first": [candidates.n_others(row)[0] for row in range(n)],
        "n_others_last": [candidates.n_others(row)[1] for row in range(n)],
    }
    last_columns: dict[str, Any] = {}
    for kind in attack.kinds:
        scores = attack.listed_scores(kind.name)
        if kind.is_count:  # as the paper reports them
            scores = np.round(scores * int(attack.block_counts.sum())).astype(np.int64)
        (last_columns if kind.column else columns)[kind.column or kind.name] = scores
    columns |= {
        "first_residual": residuals[0][:n],
        "last_residual": residuals[1][:n],
    } | last_columns
    return {name: np.asarray(column, dtype=object).tolist() for name, column in columns.items()}
