"""Kept audits: which there are, and which one a screen shows.

Comes in: reports, the digits of a link. Goes out: a line per audit, and the choice. Torch-free.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.attack.decisions import ALPHA, FLAGGED
from audit.attack.verdict import equal_models_record
from audit.errors import AuditError
from audit.notes.passages import Passage
from audit.shelf import write_private
from audit.tables import write_table
from cache.store import Store

SCHEMA = 1


@dataclass(frozen=True, eq=False)
class AuditReport:
    """One answered question; every field is plain JSON.

    Attributes
    ----------
    digest
        Names the audit: the digest of `question`.
    question
        Everything that determined the answer.
    scenario
        The KART tuple.
    models
        "general" and "hospital": name, digest, architecture, parameters.
    candidates
        Counts of the list: names, members, controls by kind, reference controls.
    columns, names
        The per-name table: names of its columns in their order, and each column.
    measures
        By stratum: rules, scores and baselines with intervals.
    verdict, cohort, curve, mentions
        As `audit.judgement` makes them.
    details
        What only this scenario reports.
    notes
        What a reader must know, in sentences.
    made
        When, on what, with which versions, how long; no part of equality.
    """

    digest: str
    question: Mapping[str, Any]
    scenario: Mapping[str, Any]
    models: Mapping[str, Any]
    candidates: Mapping[str, Any]
    fixed_score: str
    columns: Sequence[str]
    names: Mapping[str, list[Any]]
    measures: Mapping[str, Any]
    verdict: Mapping[str, Any]
    cohort: Mapping[str, Any]
    curve: Sequence[Any]
    mentions: Sequence[Any]
    details: Mapping[str, Any]
    notes: Sequence[str]
    made: Mapping[str, Any]
    schema: int = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values; numbers that are not finite become None or words."""
        return {name: _finite(value) for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AuditReport:
        """Read a report that `to_json` wrote.

        Raises
        ------
        AuditError
            If it was written by another version.
        """
        if value.get("schema") != SCHEMA or set(value) != {f.name for f in fields(cls)}:
            raise AuditError(
                f"This result was written by another version (schema {value.get('schema')}).",
                do="Run the audit again: its evidence is reused where it still holds.",
            )
        report = cls(**value)
        general, hospital = (report.models[who].get("digest") for who in ("general", "hospital"))
        if general is not None and general == hospital:
            return replace(report, verdict=equal_models_record())
        return report

    @property
    def stands_out(self) -> list[bool]:
        """Who stands out [N]: what every count of such names is made of."""
        if self.verdict["state"] != "leak_found":
            return [False] * self.n_names
        if "is_undecided" in self.names:
            return [word == FLAGGED for word in self.names["decision"]]
        # A report of an older version.
        return [q is not None and q <= ALPHA for q in self.names["q_value"]]

    @property
    def n_names(self) -> int:
        """Number of listed names."""
        return len(self.names["name_id"])


def same_answer(one: AuditReport, other: AuditReport) -> bool:
    """Return whether two reports are equal byte for byte, `made` excluded."""

    def content(report: AuditReport) -> str:
        return json.dumps({**report.to_json(), "made": None}, sort_keys=True)

    return content(one) == content(other)


def name_labels(names: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
    """Return what each name of a report's table is called where it is not named.

    "P-0088" is row 88 of the auditor's own file, as a spreadsheet counts; "L-0131" has no row there
    (typed, drawn, from a corpus, or in a report of an older version) and is `name_id` 131.
    """
    n = len(names["name_id"])
    rows = zip(names["name_id"], names.get("file_row") or [None] * n, strict=True)
    return tuple(f"L-{i:04d}" if row is None else f"P-{row:04d}" for i, row in rows)


def names_csv(report: AuditReport) -> str:
    """Return the per-name table as CSV, guarded against formulas; undefined numbers are empty."""
    header = list(report.columns)
    rows = zip(*(report.names[name] for name in header), strict=True)
    return write_table(header, [["" if cell is None else cell for cell in row] for row in rows])


def measures_json(report: AuditReport) -> dict[str, Any]:
    """Return what `measures.json` holds: verdict, measures, cohort test and curve."""
    whole = report.to_json()
    keys = (
        "digest", "scenario", "fixed_score", "verdict", "measures", "cohort", "curve", "mentions",
        "details", "candidates", "notes",
    )  # fmt: skip
    return {key: whole[key] for key in keys}


def write_report(
    report: AuditReport, out: Path, *, documents: Mapping[str, Sequence[str]] | None = None
) -> tuple[Path, ...]:
    """Write `names.csv`, `measures.json`, `report.json`, and `documents.csv` in scenario 1.

    Raises
    ------
    AuditError
        If the directory cannot be written.
    """
    contents = {
        "names.csv": names_csv(report),
        "measures.json": _json_text(measures_json(report)),
        "report.json": _json_text(report.to_json()),
    }
    if documents:
        rows = [
            [number, model, text]
            for model, texts in sorted(documents.items())
            for number, text in enumerate(texts)
        ]
        contents["documents.csv"] = write_table(["document_id", "model", "text"], rows)
    return write_private({name: t.encode("utf-8") for name, t in contents.items()}, out)


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


N_BEST_PASSAGES = 10
_ARRAYS = (
    "n_per_block", "hospital", "general", "reference_score", "reference_n_pieces",
    "best_passages", "best_log_ratio",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Inspection:
    """Evidence of one audit for N listed names and R reference controls.

    Attributes
    ----------
    n_per_block
        [b] inputs or documents of each block.
    hospital, general
        [b, N] each model's mean evidence in a block: ln p (nats) in scenario 2, product of the
        masses of both parts in scenario 1. NaN where a name cannot be scored.
    reference_score, reference_n_pieces
        [R] fixed score and word pieces of the reference controls.
    best_passages, best_log_ratio
        [N, K] rows of `passages` that a name fits best, by the mean of ln p_hospital - ln p_general
        (nats), best first; -1 and NaN where there are fewer. K = 0 in scenario 1.
    passages
        The passages of the audit; empty in scenario 1.
    """

    n_per_block: NDArray[np.int64]
    hospital: NDArray[np.float32]
    general: NDArray[np.float32]
    reference_score: NDArray[np.float64]
    reference_n_pieces: NDArray[np.int64]
    best_passages: NDArray[np.int32]
    best_log_ratio: NDArray[np.float32]
    passages: tuple[Passage, ...] = ()


def best_passages(
    log_ratio: NDArray[np.float64], *, n_best: int = N_BEST_PASSAGES
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the passages [N, K] with each name's largest log ratios [P, N], and these ratios.

    K is `n_best`, or P if there are fewer.
    """
    n_here = min(n_best, len(log_ratio))
    known = np.where(np.isfinite(log_ratio), log_ratio, -np.inf).T
    order = np.argsort(-known, axis=1, kind="stable")[:, :n_here]
    found = np.take_along_axis(known, order, axis=1)
    is_known = np.isfinite(found)
    rows = np.where(is_known, order, -1).astype(np.int32)
    return rows, np.where(is_known, found, np.nan).astype(np.float32)


def keep_inspection(digest: str, inspection: Inspection, *, store: Store) -> None:
    """Keep an audit's inspection beside its report."""
    store.put(
        _key(digest),
        arrays={name: getattr(inspection, name) for name in _ARRAYS},
        meta={"passages": [asdict(passage) for passage in inspection.passages]},
    )


def kept_inspection(digest: str, *, store: Store) -> Inspection | None:
    """Return an audit's inspection; None where it is not kept, or of another version."""
    stored = store.get(_key(digest))
    if stored is None or set(stored.arrays) != set(_ARRAYS):
        return None
    names = {field.name for field in fields(Passage)}
    passages = stored.meta.get("passages", [])
    if not all(set(passage) == names for passage in passages):
        return None
    return Inspection(**stored.arrays, passages=tuple(_passage(passage) for passage in passages))


def _key(digest: str) -> str:
    return f"inspection/{digest}"


def _passage(record: dict[str, object]) -> Passage:
    owner = record["owner"]
    values = record | {
        "slots": tuple(record["slots"]),  # type: ignore[arg-type]
        "owner": tuple(owner) if isinstance(owner, list) else owner,
    }
    return Passage(**values)  # type: ignore[arg-type]


@dataclass(frozen=True)
class KeptAudit:
    """One line of the list of kept audits.

    `family` is the same for audits that differ in the general model alone; "" where the report does
    not say what was asked. `is_demo`: of the demo hospital, in which everything is invented.
    """

    digest: str
    at: str
    scenario: int
    general: str
    hospital: str
    n_names: int
    state: str
    family: str = ""
    is_demo: bool = False


def kept_audit(report: AuditReport, *, is_demo: bool = False) -> KeptAudit:
    """Return a report's line in the list of kept audits; `audit.demo.is_demo` says whose it is."""
    return KeptAudit(
        digest=report.digest,
        at=str(report.made.get("at", "")),
        scenario=int(report.scenario["number"]),
        general=report.models["general"]["name"],
        hospital=report.models["hospital"]["name"],
        n_names=report.n_names,
        state=report.verdict["state"],
        family=_family(report.question),
        is_demo=is_demo,
    )


def same_but_reference(audit: KeptAudit, *, kept: Sequence[KeptAudit]) -> tuple[KeptAudit, ...]:
    """Return the audits that differ from this one in the general model alone, as they are kept."""
    return tuple(
        other
        for other in kept
        if audit.family and other.family == audit.family and other.digest != audit.digest
    )


def _family(question: Mapping[str, object]) -> str:
    if not question.get("general") or not question.get("hospital"):
        return ""
    rest = {key: value for key, value in question.items() if key != "general"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def choose_audit(
    wanted: str, *, kept: Sequence[KeptAudit], demo: Mapping[str, str]
) -> KeptAudit | None:
    """Return the audit to show: the one whose digest begins so, else the newest own, else the demo.

    `wanted` comes from a link, and is "" for none; one that fits no audit, or several, gives None.
    `demo` are the demo's digests by name: where it is alone, its headline audit comes first.
    """
    if wanted:
        if not re.fullmatch("[0-9a-f]{4,64}", wanted):
            return None
        found = [audit for audit in kept if audit.digest.startswith(wanted)]
        return found[0] if len(found) == 1 else None
    shown = [audit for audit in kept if not audit.is_demo] or kept
    headline = [audit for audit in shown if audit.digest == demo.get("masked_lm")]
    return max(headline or shown, key=lambda audit: audit.at, default=None)


def other_scenario(
    audit: KeptAudit, *, kept: Iterable[KeptAudit], demo: Mapping[str, str]
) -> KeptAudit | None:
    """Return the audit of the same pair in the other scenario: the demo's, else the newest."""
    partners = [
        other
        for other in kept
        if (other.general, other.hospital) == (audit.general, audit.hospital)
        and other.scenario != audit.scenario
        and other.n_names == audit.n_names
        and other.is_demo == audit.is_demo
    ]
    of_demo = set(demo.values())
    return max(partners, key=lambda other: (other.digest in of_demo, other.at), default=None)
