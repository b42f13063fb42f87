"""Audits compared name by name: the names each flags, which ranks better, and their settings.

Names are paired by their folded parts. Undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from audit.attack.question import MODEL_ROLES
from audit.names.candidates import ControlSource
from audit.report.name_table import ASKED
from audit.report.report import AuditReport
from audit.stats import (
    NO_ESTIMATE,
    Z_95,
    BoolArray,
    Estimate,
    FloatArray,
    auc,
    auc_influence,
    wilson,
)
from audit.text import fold_name

MAX_REFERENCES = 8
"""Number of references shown beside an audit's own at most, the newest first."""
SETTINGS = (
    "general_name",
    "hospital_name",
    "scenario",
    "kind",
    "general",
    "hospital",
    "candidates",
    "control_source",
    "sibling",
    "judged_by_rule",
    "passages",
    "seed",
    "threshold",
    "dtype",
    "n_inputs",
    "n_chain_inputs",
    "max_chain_rows",
    "is_sequential",
    "is_dropout_on",
    "micro_batch",
    "max_tokens",
    "n_documents",
    "n_steps",
    "n_tokens",
    "top_k",
    "top_p",
    "temperature",
    "prompt",
    "header",
    "is_remasked",
    "evidence_version",
    "name_pool",
    "n_rows_left_out",
    "fixed_score",
    "n_names",
)
"""Parts of a question in the order in which they are listed; all others follow."""
DIGESTS = ("general", "hospital", "candidates", "sibling", "passages", "name_pool")
"""The settings that are digests."""
_COMPARED = (
    "name_id",
    "number",
    "first_name",
    "last_name",
    "kind",
    "is_control",
    "score",
    "q",
    "stands_out",
)


_CHANGES = {(True, True): "both", (True, False): "only_one", (False, True): "only_other"}
"""Whether each audit flags a name -> the field of `Flags` that counts it."""


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
        """McNemar's exact two-sided p-value: twice the smaller tail of a fair coin, at most 1.

        Source: McNemar 1947, doi:10.1007/BF02295996; exact form: the binomial sign test.
        """
        from scipy.stats import binomtest

        n = self.only_one + self.only_other
        return float(binomtest(self.only_one, n).pvalue) if n else 1.0


def measure_auc_difference(
    first_scores: FloatArray, *, other_scores: FloatArray, is_member: BoolArray
) -> tuple[float, float, Estimate]:
    """Return the AUCs of two scores [N] on the same names, and their difference with its interval.

    Names with NaN in either score are left out. NaN without members or without controls.
    Source: DeLong, DeLong & Clarke-Pearson 1988, doi:10.2307/2531595; by ranks as Sun & Xu 2014.
    Differs: if the variance is 0 (for example if both rank perfectly), the method gives no error;
    the Wilson bound of a share of 1 in the smaller group takes its place.
    """
    keep = ~np.isnan(first_scores) & ~np.isnan(other_scores)
    member = is_member[keep]
    scores = [first_scores[keep], other_scores[keep]]
    m, n = int(member.sum()), int((~member).sum())
    aucs = [auc(score, member) for score in scores]
    value = aucs[0] - aucs[1]
    if not m or not n:
        return aucs[0], aucs[1], NO_ESTIMATE
    pairs = zip(scores, aucs, strict=True)
    gaps = np.subtract(*(auc_influence(score, member, area) for score, area in pairs))
    variance = float((gaps**2).sum()) if min(m, n) > 1 else 0.0
    half = Z_95 * math.sqrt(variance) if variance > 0 else 1 - wilson(1.0, n_total=min(m, n)).low
    return aucs[0], aucs[1], Estimate(value, max(-1.0, value - half), min(1.0, value + half))


@dataclass(frozen=True)
class AucDifference:
    """AUCs of the two fixed scores on the names that both audits list, and their difference."""

    stratum: str
    n_members: int
    n_controls: int
    one: float
    other: float
    difference: Estimate


@dataclass(frozen=True, eq=False)
class Comparison:
    """An audit compared with a second one, `other`.

    `names` holds the names that both audits list: columns of the first audit's table, and of the
    second with the suffix "_other". `kind` is "differs" if the audits contradict each other;
    `is_flagged` is None if a name has no q; `is_different` is true if only one audit flags it;
    `change` is the field of `Flags` that counts the name, "neither" also without a q.
    `n_only_one` and `n_only_other` count names that the other audit does not list (or lists twice).
    Controls of different kinds have the first audit's kind. `tested` counts members and unknown
    names; canaries are not counted. `settings` are parts of the question as text, "" if an audit
    lacks one. `sources` are the sources of both audits' controls.
    """

    other: AuditReport
    names: pd.DataFrame
    n_only_one: int
    n_only_other: int
    tested: Flags
    controls: Flags
    aucs: tuple[AucDifference, ...]
    settings: Mapping[str, tuple[str, str]]
    sources: tuple[ControlSource, ControlSource]

    @property
    def has_one_source(self) -> bool:
        """Whether the controls of both audits come from the same place."""
        return self.sources[0] == self.sources[1]

    @property
    def n_truth_differs(self) -> int:
        """Number of paired names that are a member in one audit and a control in the other."""
        return int((self.names["kind"] == "differs").sum())


def compare_audits(report: AuditReport, *, other_report: AuditReport) -> Comparison:
    """Return two reports paired by name."""
    names = _select_unique(report).merge(
        _select_unique(other_report),
        left_index=True,
        right_index=True,
        suffixes=("", "_other"),
        sort=False,
    )
    kinds = list(zip(names["kind"], names["kind_other"], strict=True))
    names["kind"] = [_join_kinds(*pair) for pair in kinds]
    names["is_control"] = ~names["kind"].isin((*ASKED, "canary", "differs"))
    flagged = names["is_flagged"], names["is_flagged_other"]
    names["is_different"] = flagged[0].ne(flagged[1]) & ~(flagged[0].isna() & flagged[1].isna())
    names["change"] = [_CHANGES.get(pair, "neither") for pair in zip(*flagged, strict=True)]
    flat, other_flat = _flatten_question(report), _flatten_question(other_report)
    return Comparison(
        other=other_report,
        names=names,
        n_only_one=report.n_names - len(names),
        n_only_other=other_report.n_names - len(names),
        tested=_count_flags(names[names["kind"].isin(("member", "unknown"))]),
        controls=_count_flags(names[names["is_control"]]),
        aucs=tuple(_yield_aucs(names)),
        settings={
            key: (flat.get(key, ""), other_flat.get(key, ""))
            for key in dict.fromkeys((*SETTINGS, *flat, *other_flat))
            if key in flat | other_flat
        },
        sources=(report.verdict.control_source, other_report.verdict.control_source),
    )


def _select_unique(report: AuditReport) -> pd.DataFrame:
    """Return the names that are listed only once, indexed by their folded parts."""
    table = report.table[list(_COMPARED)].astype({"kind": object})
    table["is_flagged"] = table["stands_out"].astype(object).where(table["q"].notna(), None)
    parts = zip(table["first_name"], table["last_name"], strict=True)
    table.index = pd.Index([(fold_name(a), fold_name(b)) for a, b in parts], tupleize_cols=False)
    return table[~table.index.duplicated(keep=False)]


def _join_kinds(kind: str, other_kind: str) -> str:
    """Return the kind of a name in two audits; of two kinds of controls, the first audit's."""
    if "unknown" in (kind, other_kind) or kind == other_kind:
        return other_kind if kind == "unknown" else kind
    return "differs" if {"member", "planted"} & {kind, other_kind} else kind


def _count_flags(names: pd.DataFrame) -> Flags:
    pairs = list(zip(names["is_flagged"], names["is_flagged_other"], strict=True))
    return Flags(*(pairs.count((a, b)) for a, b in product((True, False), repeat=2)))


def _yield_aucs(names: pd.DataFrame) -> Iterator[AucDifference]:
    is_member = (names["kind"] == "member").to_numpy()
    for stratum in ("all", "easy", "hard"):
        is_control = names["is_control"] if stratum == "all" else names["kind"] == stratum
        rows = is_member | is_control.to_numpy()
        n_members, n_controls = int(is_member.sum()), int(is_control.sum())
        if n_members and n_controls:
            scores, other_scores = names.loc[rows, ["score", "score_other"]].to_numpy().T
            aucs = measure_auc_difference(
                scores, other_scores=other_scores, is_member=is_member[rows]
            )
            yield AucDifference(stratum, n_members, n_controls, *aucs)


def _flatten_question(report: AuditReport) -> dict[str, str]:
    facts = {f"{model_role}_name": report.models[model_role].name for model_role in MODEL_ROLES}
    for key, value in report.question.items():
        parts = value.items() if isinstance(value, Mapping) else [(key, value)]
        facts |= {part: "" if setting is None else str(setting) for part, setting in parts}
    facts |= {"dtype": report.dtype} if report.dtype else {}
    return facts | {"fixed_score": report.fixed_score, "n_names": str(report.n_names)}
