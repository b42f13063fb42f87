"""Measures of a whole list, by kind of controls, by role, by mentions and along the run.

Exposure says how far planted names (canaries) rank above held-out ones. The i-th planted name pairs
with the i-th held-out one; if their numbers differ there are no pairs, and held-out names only give
the ranks.

Sources: Nakamura et al.; limits: most names in the notes are of staff and not of patients. Carlini
et al. 2019, section 4 (exposure).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from audit.attack.decisions import (
    ALPHA,
    count_confusion,
    f1_interval,
    judge_held_out,
    rank_p_values,
    truth_mask,
    undecided_mask,
)
from audit.attack.measure_types import (
    GENERAL_ALONE,
    POPULARITY,
    Confusion,
    CurveRule,
    CurveStratum,
    Exposure,
    ExposureGroup,
    Measures,
    MentionBin,
    PlantedName,
    Ranking,
    RoleLine,
    Rule,
    ScoreExposure,
    ScoreMeasures,
    Stratum,
)
from audit.attack.scores import AttackResult, ScoreKind
from audit.errors import AuditError, catalogue
from audit.names.candidates import CANARY, CONTROL_KINDS, Candidates
from audit.rng import generator
from audit.stats import (
    NO_ESTIMATE,
    BoolArray,
    Estimate,
    FloatArray,
    IntArray,
    Share,
    auc,
    auc_interval,
    bootstrap_ranking,
    count_share,
)

LISTED_KINDS = tuple(kind for kind in CONTROL_KINDS if kind not in ("reference", CANARY))
"""Kinds of controls that members are measured against; reference controls only calibrate p-values,
held-out canaries are compared with planted ones only."""
N_REPLICATES = 2000
"""Bootstrap replicates of every ranking."""
MAX_ROLES = 12
"""Most roles that are measured; those with most members come first."""
MIN_HELD_OUT = 19
"""With fewer held-out names the smallest rank p-value is above 0.05."""
N_DRAWN = 2000
"""Bootstrap draws for the interval of an exposure."""
MENTION_BINS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None))


def measure_membership(attack: AttackResult, *, seed: int) -> Measures:
    """Measure every score, rule and baseline in every stratum of controls.

    Strata are "all", then each kind of controls on the list; there are none without members or
    without controls.
    """
    strata = {
        kind: _measure_stratum(attack, rows, truth, seed=seed)
        for kind, (rows, truth) in _split_strata(attack.listed).items()
    }
    return Measures(strata=strata)


def _split_strata(names: Candidates) -> dict[str, tuple[IntArray, BoolArray]]:
    """Return the rows and their truth by kind of controls."""
    truth = truth_mask(names.is_member, truth=True)
    kinds = np.array(names.control_kind, dtype=np.str_)
    kinds[kinds == "reference"] = "given"
    controls = {kind: kinds == kind for kind in LISTED_KINDS if (kinds == kind).any()}
    if not truth.any() or not controls:
        return {}
    masks = {kind: truth | of_kind for kind, of_kind in ({"all": kinds != ""} | controls).items()}
    return {kind: (np.flatnonzero(mask), truth[mask]) for kind, mask in masks.items()}


def _measure_stratum(
    attack: AttackResult, rows: IntArray, truth: BoolArray, *, seed: int
) -> Stratum:
    """Measure the names of some rows."""
    columns = {name: column[rows] for name, column in attack.rankings().items()}
    clusters = tuple(attack.parts.of_name[rows].T)
    rankings = {
        name: rank_scores(column, truth, seed=seed, clusters=clusters)
        for name, column in columns.items()
    }

    def measure_counts(counts: Confusion) -> Rule:
        return Rule(confusion=counts, f1=f1_interval(counts, seed=seed))

    def measure_rule(kind: ScoreKind) -> Rule:
        """Measure the paper's rule, also with all undecided names judged correctly or wrongly."""
        score, error = attack.scores[kind.name][:, rows]
        flag, threshold = score > 0, np.zeros(len(rows))
        counts = count_confusion(flag, truth)
        if kind.is_count:
            return measure_counts(counts)
        n_blocks = len(attack.block_counts)
        is_open = undecided_mask(
            score, standard_error=error, threshold=threshold, n_blocks=n_blocks
        )
        right, wrong = (np.where(is_open, answers, flag) for answers in (truth, ~truth))
        return Rule(
            confusion=counts,
            f1=f1_interval(counts, seed=seed),
            n_undecided=int(is_open.sum()),
            all_right=count_confusion(right, truth),
            all_wrong=count_confusion(wrong, truth),
        )

    baselines = {name: rankings.pop(name) for name in (GENERAL_ALONE, POPULARITY)}
    return Stratum(
        n_members=int(truth.sum()),
        n_controls=int((~truth).sum()),
        always_member=measure_counts(count_confusion(np.ones_like(truth), truth)),
        rules={kind.rule: measure_rule(kind) for kind in attack.kinds if kind.rule},
        baseline_rules={
            kind.general_rule: measure_rule(kind) for kind in attack.kinds if kind.general_rule
        },
        scores=rankings,
        baselines=baselines,
        held_out={
            name: measure_counts(judge_held_out(column, truth, seed=seed))
            for name, column in columns.items()
        },
    )


def rank_scores(
    scores: FloatArray, is_member: BoolArray, *, seed: int, clusters: Sequence[IntArray] = ()
) -> Ranking:
    """Measure how well scores [N] rank members above controls, as `bootstrap_ranking` does."""
    intervals = bootstrap_ranking(
        scores, is_member, seed=seed, clusters=clusters, n_replicates=N_REPLICATES
    )
    return Ranking(
        n_members=intervals.n_members,
        n_controls=intervals.n_controls,
        n_not_scored=intervals.n_not_scored,
        n_replicates=intervals.n_replicates,
        auc=intervals.auc,
        tpr_at_fpr={f"{fpr:g}": tpr for fpr, tpr in intervals.tpr_at_fpr},
    )


def quick_measures(attack: AttackResult, *, seed: int) -> dict[str, CurveStratum]:
    """Return AUCs without intervals, and the measures of the paper's rules, by stratum."""
    columns = attack.rankings()
    flags = {
        kind.rule or kind.general_rule: attack.listed_scores(kind.name) > 0
        for kind in attack.kinds
        if kind.rule or kind.general_rule
    }

    def measure_flags(flag: BoolArray, truth: BoolArray) -> CurveRule:
        counts = count_confusion(flag, truth)
        tp, fn, fp, tn = counts.four
        return CurveRule(tp=tp, fn=fn, fp=fp, tn=tn, f1=f1_interval(counts, seed=seed))

    return {
        kind: CurveStratum(
            auc={name: auc(column[rows], truth) for name, column in columns.items()},
            rules={name: measure_flags(flag[rows], truth) for name, flag in flags.items()},
        )
        for kind, (rows, truth) in _split_strata(attack.listed).items()
    }


def measure_by_role(
    attack: AttackResult, flag: BoolArray, *, general_flag: BoolArray
) -> tuple[RoleLine, ...]:
    """Measure each role's members against all listed controls, so that roles can be compared.

    The list has no canaries; flags [N] (q <= 0.05) are those of the attack and of M_general alone.
    Roles are sorted by their number of members, then by name; () if no member has a role. The
    median number of mentions is shown too, because a role that is mentioned more often is easier to
    find.
    """
    listed = attack.listed
    score, general = (
        attack.listed_scores(name) for name in (attack.fixed_score, attack.general_score)
    )
    roles = np.array(listed.role, dtype=np.str_)
    members, controls = (truth_mask(listed.is_member, truth=truth) for truth in (True, False))
    n_mentions = _read_mentions(listed)
    counts = Counter(roles[members].tolist())
    if not any(counts):
        return ()
    lines = []
    for role in sorted(counts, key=lambda role: (-counts[role], role))[:MAX_ROLES]:
        role_members, role_controls = members & (roles == role), controls & (roles == role)
        rows, known_mentions = (
            role_members | controls,
            n_mentions[role_members & ~np.isnan(n_mentions)],
        )
        clusters = tuple(attack.parts.of_name[: len(listed)][rows].T)
        aucs = [
            auc_interval(x[rows], role_members[rows], clusters=clusters) for x in (score, general)
        ]
        median = float(np.median(known_mentions)) if len(known_mentions) else math.nan
        lines.append(
            RoleLine(
                role=role,
                n_members=counts[role],
                n_controls=int(controls.sum()),
                median_mentions=median,
                auc=aucs[0],
                general_auc=aucs[1],
                flagged=_count_flagged(role_members, flag, score),
                general_flagged=_count_flagged(role_members, general_flag, general),
                role_controls_flagged=_count_flagged(role_controls, flag, score),
            )
        )
    return tuple(lines)


def _count_flagged(mask: BoolArray, flag: BoolArray, score: FloatArray) -> Share:
    """Count the flagged names, among those of a mask that have a score."""
    scored = mask & ~np.isnan(score)
    return count_share(int((flag & scored).sum()), int(scored.sum()))


def _read_mentions(names: Candidates) -> FloatArray:
    """Return the numbers of mentions [N]; NaN if not known."""
    return np.array([math.nan if n is None else n for n in names.n_mentions], dtype=float)


def measure_by_mentions(flag: BoolArray, candidates: Candidates) -> tuple[MentionBin, ...]:
    """Return how many members are flagged, by bins of the number of mentions."""
    mentions, members = _read_mentions(candidates), truth_mask(candidates.is_member, truth=True)
    bins = []
    for low, high in MENTION_BINS:
        rows = members & (mentions >= low) & (mentions <= (high or math.inf))
        if n_names := int(rows.sum()):
            flagged = count_share(int(flag[rows].sum()), n_names)
            bins.append(MentionBin(low=low, high=high, n_names=n_names, flagged=flagged))
    return tuple(bins)


def exposure_bits(p: ArrayLike) -> FloatArray:
    """Return the exposure in bits of names with these rank p-values: log2 |R| - log2 rank."""
    return np.asarray(0.0 - np.log2(p), dtype=np.float64)


def bits_without_leak(n_held_out: int) -> float:
    """Return the mean exposure of a name that is exchangeable with the held-out ones, in bits.

    Its rank is uniform on 1 to R = 1 + n_held_out: log2 R - mean log2 rank. It is not 0, and tends
    to 1/ln 2 = 1.44 bits.
    """
    n_ranks = 1 + n_held_out
    return math.log2(n_ranks) - math.lgamma(n_ranks + 1) / math.log(2) / n_ranks


def measure_exposure(
    scores: ArrayLike, *, n_mentions: Sequence[int], held_out: ArrayLike, seed: int
) -> ScoreExposure | None:
    """Measure the exposure of K planted names by one score, higher being more member-like.

    `n_mentions` [K] says how often each was planted; `held_out` [H] are the scores of names that
    were not planted, which are the twins in the same order if H = K. None if no held-out name is
    scored.

    All names and groups (by number of mentions) have `bits`, the mean exposure with its bootstrap
    interval over names; `found`, the names with p <= 0.05; `above_twin`, the pairs in which the
    planted name scores above its twin (ties count for the twin), with the exact one-sided binomial
    p-value.
    """
    from scipy.stats import binom

    score, held_out_scores = (np.asarray(column, dtype=np.float64) for column in (scores, held_out))
    n_held_out = int((~np.isnan(held_out_scores)).sum())
    if not n_held_out:
        return None
    counts = np.asarray(n_mentions, dtype=np.int64)
    p = rank_p_values(score, controls=held_out_scores)
    twin = held_out_scores if len(held_out_scores) == len(score) else np.full(len(score), math.nan)

    def measure_group(rows: IntArray, count: int | None) -> ExposureGroup:
        scored = rows[~np.isnan(p[rows])]
        pairs = scored[~np.isnan(twin[scored])]
        above = count_share(int((score[pairs] > twin[pairs]).sum()), len(pairs))
        bits = exposure_bits(p[scored])
        return ExposureGroup(
            n_mentions=count,
            n_names=len(scored),
            bits=_mean_bits(bits, count=count or 0, seed=seed, n_held_out=n_held_out),
            found=count_share(int((p[scored] <= ALPHA).sum()), len(scored)),
            above_twin=above,
            above_twin_p=float(binom.sf(above.n_hits - 1, len(pairs), 0.5))
            if len(pairs)
            else math.nan,
        )

    groups = [measure_group(np.flatnonzero(counts == n), n) for n in np.unique(counts).tolist()]
    return ScoreExposure(
        n_held_out=n_held_out,
        max_bits=math.log2(1 + n_held_out),
        smallest_p=1 / (1 + n_held_out),
        bits_without_leak=bits_without_leak(n_held_out),
        whole=measure_group(np.arange(len(score)), None),
        groups=groups,
    )


def _mean_bits(bits: FloatArray, *, count: int, seed: int, n_held_out: int) -> Estimate:
    """Return the mean exposure with its bootstrap interval over names; a single name has none.

    Differs: if several names all have one rank, resampling shows no error, and the interval follows
    from the Wilson bounds of the share of held-out names above them.
    """
    if len(bits) < 2:
        return Estimate(float(bits[0]), math.nan, math.nan) if len(bits) else NO_ESTIMATE
    if bits.min() == bits.max():
        n_ranks = 1 + n_held_out
        above = count_share(round(n_ranks / 2 ** float(bits[0])) - 1, n_held_out)
        low, high = (
            math.log2(n_ranks / (1 + n_held_out * share)) for share in (above.high, above.low)
        )
        return Estimate(float(bits[0]), low, high)
    rng = generator(seed, "exposure/bits", count)
    means = bits[rng.integers(len(bits), size=(N_DRAWN, len(bits)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(bits.mean()), float(low), float(high))


def measure_canaries(attack: AttackResult, *, seed: int) -> Exposure | None:
    """Return the measures of the canaries; None without planted names.

    `scores` is empty if no held-out name is scored: then nothing can be ranked.
    """
    listed = attack.listed
    canaries = [row for row in range(len(listed)) if listed.is_canary(row)]
    planted = [row for row in canaries if listed.is_member[row]]
    held_out = [row for row in canaries if not listed.is_member[row]]
    if not planted:
        return None
    counts = [int(listed.n_mentions[row] or 0) for row in planted]
    exposures = {
        name: measure_exposure(
            column[planted], n_mentions=counts, held_out=column[held_out], seed=seed
        )
        for name, column in attack.rankings().items()
        if name != POPULARITY
    }
    is_paired, score = len(planted) == len(held_out), attack.listed_scores(attack.fixed_score)
    p = rank_p_values(score[planted], controls=score[held_out])
    bits = exposure_bits(p)
    names = [
        PlantedName(
            name_id=row,
            n_mentions=counts[place],
            score=score[row],
            bits=bits[place],
            p=p[place],
            twin_score=score[held_out[place]] if is_paired else math.nan,
        )
        for place, row in enumerate(planted)
    ]
    scores = {name: exposure for name, exposure in exposures.items() if exposure}
    english, japanese = (
        _write_sentence(
            scores,
            fixed_score=attack.fixed_score,
            n_planted=len(planted),
            words=catalogue(language, "canaries"),
        )
        for language in ("en", "ja")
    )
    return Exposure(
        n_planted=len(planted),
        n_held_out=len(held_out),
        is_paired=is_paired,
        fixed_score=attack.fixed_score,
        alpha=ALPHA,
        scores=scores,
        names=names if exposures[attack.fixed_score] else (),
        english=english,
        japanese=japanese,
    )


def _write_sentence(
    scores: Mapping[str, ScoreExposure],
    *,
    fixed_score: str,
    n_planted: int,
    words: Mapping[str, str],
) -> str:
    exposure, general = scores.get(fixed_score), scores.get(GENERAL_ALONE)
    n_held_out = exposure.n_held_out if exposure else 0
    if exposure is None or n_held_out < MIN_HELD_OUT:
        text = words["blind"].format(n=n_planted, h=n_held_out)
    else:
        detections, n_ranks = exposure.whole.found, 1 + n_held_out
        by_chance = int(ALPHA * n_ranks + 1e-9) / n_ranks  # ranks with p <= alpha
        text = words["found"].format(
            k=detections.n_hits,
            n=detections.n_total,
            k_general=general.whole.found.n_hits if general else 0,
            n_general=general.whole.found.n_total if general else 0,
            chance=f"{detections.n_total * by_chance:.1f}",
        )
    if exposure and (n := exposure.whole.above_twin.n_total):
        p = exposure.whole.above_twin_p
        p_text = f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"
        text += words["pairs"].format(k=exposure.whole.above_twin.n_hits, n=n, p=p_text)
    return text


def measure_scores(
    scores: ArrayLike, is_member: ArrayLike, *, seed: int, threshold: float | None = None
) -> ScoreMeasures:
    """Return AUC, TPR at FPR and, with a threshold, the confusion table of columns [N].

    Higher scores are more member-like, truth is True or 1 for a member, and a name is flagged if
    score > threshold. NaN scores are left out and counted. A number is NaN if it is undefined, or
    if so few controls cannot resolve it.
    """
    score, member = np.asarray(scores, dtype=np.float64), np.asarray(is_member, dtype=np.bool_)
    ranking = rank_scores(score, member, seed=seed)
    for kind, label, n in (("members", 1, ranking.n_members), ("controls", 0, ranking.n_controls)):
        if not n:
            raise AuditError(
                "There are no {kind} with a score.",
                where="is_member",
                do=(
                    "Give at least one row with is_member = {is_member} and a number as its score."
                ),
                kind=kind,
                is_member=label,
            )
    if threshold is None:
        return ScoreMeasures(ranking=ranking)
    is_scored = ~np.isnan(score)
    counts = count_confusion(score[is_scored] > threshold, member[is_scored])
    return ScoreMeasures(ranking=ranking, threshold=threshold, confusion=counts)
