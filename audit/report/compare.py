"""Two audits compared name by name: whom each flags, which ranks better, and what was asked.

Comes in: two reports. Goes out: one frozen value. Names are paired by their folded parts. Undefined
numbers are NaN. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.report.names import is_canary_kind, name_kinds, number
from audit.report.report import AuditReport, name_labels
from audit.report.threshold import ALL
from audit.stats import Z_95, BoolArray, Estimate, FloatArray, auc, wilson
from audit.text import fold_name


@dataclass(frozen=True)
class Flags:
    """Names flagged by both audits, by the first only, by the second only, by neither."""

    both: int
    only_one: int
    only_other: int
    neither: int

    @property
    def n_names(self) -> int:
        """Names with a q in both audits."""
        return self.both + self.only_one + self.only_other + self.neither

    @property
    def p(self) -> float:
        """McNemar's exact two-sided p-value."""
        return mcnemar_p(self.only_one, self.only_other)

    @property
    def difference(self) -> Estimate:
        """Share flagged by the first minus share flagged by the second audit."""
        return paired_difference(self)


def mcnemar_p(only_one: int, only_other: int) -> float:
    """Return the exact two-sided p-value: twice the smaller tail of a fair coin, at most 1.

    Source: McNemar 1947, doi:10.1007/BF02295996; exact form: the binomial sign test.
    """
    n, k = only_one + only_other, min(only_one, only_other)
    tail = sum(math.comb(n, i) for i in range(k + 1))
    return float(min(1.0, 2 * tail / 2**n))


def paired_difference(flags: Flags) -> Estimate:
    """Return the difference of two paired shares with its 95 % interval; NaN without names.

    Source: Newcombe 1998, method 10, doi:10.1002/(SICI)1097-0258(19981130)17:22<2635::AID-SIM954>
    3.0.CO;2-C: Wilson intervals of both shares, joined with the correlation of the pairs.
    """
    a, b, c, d = flags.both, flags.only_one, flags.only_other, flags.neither
    n = flags.n_names
    if not n:
        return Estimate(math.nan, math.nan, math.nan)
    one, other = wilson((a + b) / n, n_total=n), wilson((a + c) / n, n_total=n)
    value = (b - c) / n
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    excess = float(a * d - b * c)
    if excess > 0:
        excess = max(excess - n / 2, 0.0)
    phi = excess / math.sqrt(margins) if margins else 0.0

    def reach(down: float, up: float) -> float:
        return math.sqrt(max(down**2 - 2 * phi * down * up + up**2, 0.0))

    below = reach(one.value - one.low, other.high - other.value)
    above = reach(other.value - other.low, one.high - one.value)
    return Estimate(value, max(-1.0, value - below), min(1.0, value + above))


def auc_difference(
    one: FloatArray, *, other: FloatArray, is_member: BoolArray
) -> tuple[float, float, Estimate]:
    """Return the AUCs of two scores [N] on the same names, and their difference with its interval.

    Names with a NaN in either are left out; NaN without members or without controls.
    Source: DeLong, DeLong & Clarke-Pearson 1988, doi:10.2307/2531595; by ranks as Sun & Xu 2014.
    Differs: where the variance is 0 (both rank perfectly, say) it knows no error; the Wilson bound
    of a share of 1 among the smaller group takes its place.
    """
    keep = ~np.isnan(one) & ~np.isnan(other)
    member = is_member[keep]
    scores = [one[keep], other[keep]]
    m, n = int(member.sum()), int((~member).sum())
    aucs = [auc(score, member) for score in scores]
    value = aucs[0] - aucs[1]
    if not m or not n:
        return aucs[0], aucs[1], Estimate(math.nan, math.nan, math.nan)
    wins = [_wins(score, member) for score in scores]
    variance = math.nan
    if m > 1 and n > 1:
        variance = float(np.var(wins[0][0] - wins[1][0], ddof=1)) / m
        variance += float(np.var(wins[0][1] - wins[1][1], ddof=1)) / n
    if not variance > 0:
        half = 1 - wilson(1.0, n_total=min(m, n)).low
    else:
        half = Z_95 * math.sqrt(variance)
    return aucs[0], aucs[1], Estimate(value, max(-1.0, value - half), min(1.0, value + half))


def _wins(scores: FloatArray, is_member: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Share of controls below each member [m], and of members above each control [n], ties half."""
    members, controls = np.sort(scores[is_member]), np.sort(scores[~is_member])

    def share_below(values: FloatArray, pool: FloatArray) -> FloatArray:
        below = np.searchsorted(pool, values, side="left")
        below_or_equal = np.searchsorted(pool, values, side="right")
        share: FloatArray = (below + below_or_equal) / (2 * len(pool))
        return share

    of_members = share_below(scores[is_member], controls)
    return of_members, 1 - share_below(scores[~is_member], members)


@dataclass(frozen=True)
class PairedName:
    """One name that both audits list; numbers are (first audit, second audit).

    `kind` is one of `audit.report.names.KINDS`, or "differs" where the audits contradict each
    other. A flag is None where the name has no q.
    """

    name_id: int
    other_id: int
    label: str
    first: str
    last: str
    kind: str
    score: tuple[float, float]
    q: tuple[float, float]
    is_flagged: tuple[bool | None, bool | None]

    @property
    def is_different(self) -> bool:
        """Whether one audit flags the name and the other does not."""
        return self.is_flagged[0] is not self.is_flagged[1]


@dataclass(frozen=True)
class AucDifference:
    """AUCs of the two fixed scores on the names that both audits list, and their difference."""

    stratum: str
    n_members: int
    n_controls: int
    one: float
    other: float
    difference: Estimate


@dataclass(frozen=True)
class Setting:
    """One part of the question, as text; "" where an audit has no such setting."""

    key: str
    one: str
    other: str

    @property
    def is_different(self) -> bool:
        """Whether the audits differ in it."""
        return self.one != self.other


@dataclass(frozen=True)
class Comparison:
    """Two audits beside each other.

    `n_only_one`, `n_only_other`: names that the other audit does not list (or lists twice).
    `n_truth_differs`: paired names that the audits call member and control. `n_kind_differs`:
    controls whose kinds differ; they count as the first audit's. `tested` counts members
    and unknown names, `controls` listed controls; canaries are counted in neither.
    """

    names: tuple[PairedName, ...]
    n_only_one: int
    n_only_other: int
    n_truth_differs: int
    n_kind_differs: int
    tested: Flags
    controls: Flags
    aucs: tuple[AucDifference, ...]
    settings: tuple[Setting, ...]


def compare_audits(one: AuditReport, *, other: AuditReport) -> Comparison:
    """Return two reports paired by name."""
    left, right = _rows_by_name(one), _rows_by_name(other)
    shared = [key for key in left if key in right]
    kinds = (name_kinds(one.names), name_kinds(other.names))
    out = (one.stands_out, other.stands_out)
    labels = name_labels(one.names)
    names = tuple(
        _paired(
            one, other, rows=(left[key], right[key]), kinds=kinds, out=out, label=labels[left[key]]
        )
        for key in shared
    )
    return Comparison(
        names=names,
        n_only_one=one.n_names - len(shared),
        n_only_other=other.n_names - len(shared),
        n_truth_differs=sum(name.kind == "differs" for name in names),
        n_kind_differs=sum(
            kinds[0][left[key]] != kinds[1][right[key]]
            and _is_control(kinds[0][left[key]])
            and _is_control(kinds[1][right[key]])
            for key in shared
        ),
        tested=_flags([n for n in names if n.kind in ("member", "unknown")]),
        controls=_flags([n for n in names if _is_control(n.kind)]),
        aucs=_aucs(names),
        settings=_settings(one, other),
    )


def _rows_by_name(report: AuditReport) -> dict[tuple[str, str], int]:
    """Rows of the names that are listed once."""
    rows: dict[tuple[str, str], list[int]] = {}
    pairs = zip(report.names["first_name"], report.names["last_name"], strict=True)
    for row, (first, last) in enumerate(pairs):
        rows.setdefault((fold_name(first), fold_name(last)), []).append(row)
    return {key: found[0] for key, found in rows.items() if len(found) == 1}


def _paired(
    one: AuditReport,
    other: AuditReport,
    *,
    rows: tuple[int, int],
    kinds: tuple[list[str], list[str]],
    out: tuple[list[bool], list[bool]],
    label: str,
) -> PairedName:
    tables = ((one.names, rows[0]), (other.names, rows[1]))
    own, others = kinds[0][rows[0]], kinds[1][rows[1]]
    score = [number(names["score"][row]) for names, row in tables]
    q = [number(names["q_value"][row]) for names, row in tables]
    flags = [
        None if math.isnan(value) else flagged[row]
        for value, flagged, row in zip(q, out, rows, strict=True)
    ]
    return PairedName(
        name_id=int(one.names["name_id"][rows[0]]),
        other_id=int(other.names["name_id"][rows[1]]),
        label=label,
        first=one.names["first_name"][rows[0]],
        last=one.names["last_name"][rows[0]],
        kind=own if own == others else _joined([own, others]),
        score=(score[0], score[1]),
        q=(q[0], q[1]),
        is_flagged=(flags[0], flags[1]),
    )


def _is_control(kind: str) -> bool:
    return kind not in ("member", "unknown", "differs") and not is_canary_kind(kind)


def _joined(kinds: list[str]) -> str:
    """Kind of a name that the audits call differently; controls of two kinds are the first's."""
    known = [kind for kind in kinds if kind != "unknown"]
    if len(known) == 1:
        return known[0]
    return "differs" if {"member", "planted"} & set(known) else known[0]


def _flags(names: Sequence[PairedName]) -> Flags:
    pairs = [name.is_flagged for name in names if None not in name.is_flagged]
    return Flags(
        both=pairs.count((True, True)),
        only_one=pairs.count((True, False)),
        only_other=pairs.count((False, True)),
        neither=pairs.count((False, False)),
    )


def _aucs(names: Sequence[PairedName]) -> tuple[AucDifference, ...]:
    kinds = np.array([name.kind for name in names], dtype=np.str_)
    scores = np.array([name.score for name in names], dtype=np.float64).reshape(-1, 2)
    is_member = kinds == "member"
    is_control = np.array([_is_control(name.kind) for name in names], dtype=np.bool_)
    strata = {ALL: is_control} | {
        kind: kinds == kind for kind in ("easy", "hard") if (kinds == kind).any()
    }
    found = []
    for stratum, controls in strata.items():
        rows = is_member | controls
        if not is_member.any() or not controls.any():
            continue
        one, other, difference = auc_difference(
            scores[rows, 0], other=scores[rows, 1], is_member=is_member[rows]
        )
        n_members, n_controls = int(is_member.sum()), int(controls.sum())
        found.append(AucDifference(stratum, n_members, n_controls, one, other, difference))
    return tuple(found)


def _settings(one: AuditReport, other: AuditReport) -> tuple[Setting, ...]:
    flat = [_flat_question(report) for report in (one, other)]
    keys = [*flat[0], *(key for key in flat[1] if key not in flat[0])]
    return tuple(Setting(key, *(facts.get(key, "") for facts in flat)) for key in keys)


def _flat_question(report: AuditReport) -> dict[str, str]:
    facts: dict[str, str] = {}
    for who in ("general", "hospital"):
        facts[f"{who}_name"] = str(report.models[who]["name"])
    for key, value in report.question.items():
        parts = value.items() if isinstance(value, Mapping) else [("", value)]
        for part, setting in parts:
            facts[part or key] = "" if setting is None else str(setting)
    facts["fixed_score"] = report.fixed_score
    facts["n_names"] = str(report.n_names)
    return facts
