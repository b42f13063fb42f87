"""Leakage against missed names: what the attacks on each arm's model found, as rows without names.

Comes in: an audit of each arm, and which names each arm left in its notes. Goes out: AUCs with
intervals, beside the same names on the raw and on the perfectly redacted model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.deid.coverage import CoverageCounts
from audit.experiment.deid_arms import PART, WHOLE, NameMisses
from audit.experiment.deid_order import PERFECT, RAW, Arm
from audit.experiment.deid_rows import (
    ALL,
    CAUGHT,
    CONTROLS,
    GROUPS,
    LEFT,
    ArmRow,
    LeakRow,
    SplitRow,
)
from audit.experiment.deid_training import ArmModel
from audit.rates import BoolArray, Estimate, FloatArray, Rate, bootstrap_ranking
from audit.report import AuditReport
from audit.view.paired_tests import auc_difference

FPRS = (0.01, 0.1)
N_REPLICATES = 2000


@dataclass(frozen=True, eq=False)
class ArmResult:
    """What came of one arm: what it left, its model, and the audit of each scenario."""

    arm: Arm
    tagger_digest: str
    misses: NameMisses
    model: ArmModel
    reports: Mapping[int, AuditReport]


def arm_row(result: ArmResult) -> ArmRow:
    """Return what an arm replaced and how it was trained."""
    misses = result.misses
    return ArmRow(
        code=result.arm.code,
        kind=result.arm.kind,
        share=result.arm.share,
        tagger=result.arm.tagger,
        tagger_digest=result.tagger_digest,
        n_mentions=len(misses.mentions),
        n_whole=misses.mentions.count(WHOLE),
        n_part=misses.mentions.count(PART),
        n_patients=len(misses.is_exposed),
        n_exposed=misses.n_exposed,
        n_staff=misses.n_staff,
        n_staff_whole=misses.n_staff_whole,
        other_chars=_other_chars(misses.coverage),
        n_steps=result.model.n_steps,
        n_tokens=result.model.n_tokens,
        loss=result.model.loss,
    )


def leak_rows(results: Sequence[ArmResult], *, seed: int) -> tuple[LeakRow, ...]:
    """Return the rows of all arms, scenarios, controls and groups; empty groups are left out."""
    by_kind = {result.arm.kind: result for result in results}
    raw, perfect = by_kind[RAW], by_kind[PERFECT]
    return tuple(
        row
        for result in results
        for scenario in result.reports
        for row in _leaks(
            result, scenario=scenario, raw=raw.reports[scenario],
            perfect=perfect.reports[scenario], seed=seed,
        )
    )  # fmt: skip


def split_rows(results: Sequence[ArmResult], *, seed: int) -> tuple[SplitRow, ...]:
    """Return the rows of the arms that left some patients and caught others."""
    perfect = next(result for result in results if result.arm.kind == PERFECT)
    return tuple(
        _split(result, scenario=scenario, perfect=perfect.reports[scenario], seed=seed)
        for result in results
        if 0 < result.misses.n_exposed < len(result.misses.is_exposed)
        for scenario in result.reports
    )


def _leaks(
    result: ArmResult, *, scenario: int, raw: AuditReport, perfect: AuditReport, seed: int
) -> Iterator[LeakRow]:
    report = result.reports[scenario]
    score, out = _column(report, "score"), np.array(report.stands_out, dtype=np.bool_)
    kinds = np.array(report.names["control_kind"], dtype=np.str_)
    for controls in CONTROLS:
        against = kinds == controls
        for group in GROUPS:
            members = _members(result, group, n_names=len(score))
            if not members.any() or not against.any():
                continue
            rows = members | against
            ranking = bootstrap_ranking(
                score[rows], members[rows], seed=seed, fprs=FPRS, n_replicates=N_REPLICATES
            )
            tprs = dict(ranking.tpr_at_fpr)
            minus_raw, minus_perfect = (
                _difference(report, other=other, rows=rows, is_member=members)
                for other in (raw, perfect)
            )
            yield LeakRow(
                code=result.arm.code,
                scenario=scenario,
                controls=controls,
                group=group,
                n_members=int(members.sum()),
                n_controls=int(against.sum()),
                auc=ranking.auc,
                tpr_at_1=tprs[FPRS[0]],
                tpr_at_10=tprs[FPRS[1]],
                minus_raw=minus_raw,
                minus_perfect=minus_perfect,
                flagged=Rate(int(out[members].sum()), int(members.sum())),
                digest=report.digest,
            )


def _split(result: ArmResult, *, scenario: int, perfect: AuditReport, seed: int) -> SplitRow:
    score = _column(result.reports[scenario], "score")
    left = _members(result, LEFT, n_names=len(score))
    rows = _members(result, ALL, n_names=len(score))
    ranking = bootstrap_ranking(
        score[rows], left[rows], seed=seed, fprs=FPRS, n_replicates=N_REPLICATES
    )
    other = _column(perfect, "score")
    _, on_perfect, difference = auc_difference(score[rows], other=other[rows], is_member=left[rows])
    n_left = int(left.sum())
    return SplitRow(
        result.arm.code, scenario, n_left, int(rows.sum()) - n_left, ranking.auc, on_perfect,
        difference,
    )  # fmt: skip


def _difference(
    report: AuditReport, *, other: AuditReport, rows: BoolArray, is_member: BoolArray
) -> Estimate:
    """Return the difference of two AUCs on the same names; NaN for an audit beside itself."""
    if report.digest == other.digest:
        return Estimate(math.nan, math.nan, math.nan)
    one, against = (_column(each, "score")[rows] for each in (report, other))
    return auc_difference(one, other=against, is_member=is_member[rows])[2]


def _members(result: ArmResult, group: str, *, n_names: int) -> BoolArray:
    """Return [N] which names are of a group: patients are the first names of the list."""
    is_exposed = np.array(result.misses.is_exposed, dtype=np.bool_)
    chosen = {ALL: np.ones_like(is_exposed), LEFT: is_exposed, CAUGHT: ~is_exposed}[group]
    members = np.zeros(n_names, dtype=np.bool_)
    members[: len(chosen)] = chosen
    return members


def _column(report: AuditReport, name: str) -> FloatArray:
    cells: Sequence[Any] = report.names[name]
    return np.array([math.nan if cell is None else cell for cell in cells], dtype=np.float64)


def _other_chars(covered: CoverageCounts) -> float:
    """Return the share of the characters outside names that is replaced."""
    return covered.n_over_chars / covered.n_outside_chars if covered.n_outside_chars else 0.0
