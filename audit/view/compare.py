"""Two audits compared name by name: whom each flags, which ranks better, and what was asked.

Comes in: two reports. Goes out: one frozen value. Names are paired by their folded parts. Undefined
numbers are NaN. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.names import fold_name
from audit.rates import Estimate
from audit.report import AuditReport, name_labels
from audit.view.name_view import is_canary_kind, name_kinds, number
from audit.view.paired_tests import Flags, auc_difference
from audit.view.threshold import ALL


@dataclass(frozen=True)
class PairedName:
    """One name that both audits list; numbers are (first audit, second audit).

    `kind` is one of `audit.view.name_view.KINDS`, or "differs" where the audits contradict each
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
