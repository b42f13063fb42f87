"""The report of one audit: everything that was found, as one value and as files.

Comes in: judged results. Goes out: JSON, `names.csv`, `measures.json`, `documents.csv`. Torch-free:
pages read reports. Two reports of one question are equal but for `made` (when, where, how long).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from audit.errors import AuditError
from audit.membership.decisions import ALPHA, FLAGGED
from audit.membership.verdict import equal_models_record
from audit.tables import write_table

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
    return write_private_files({name: t.encode("utf-8") for name, t in contents.items()}, out)


def write_private_files(files: Mapping[str, bytes], out: Path) -> tuple[Path, ...]:
    """Write files into a directory, each whole or not at all, for their owner alone.

    Raises
    ------
    AuditError
        If the directory cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, content in files.items():
            partial = out / f".{name}.part"
            partial.unlink(missing_ok=True)
            partial.touch(mode=0o600)  # private before there is anything in it
            partial.write_bytes(content)
            partial.replace(out / name)
    except OSError as error:
        raise AuditError(
            f"The results cannot be written ({error.strerror}).",
            where="out",
            do="Choose a directory that you may write to.",
        ) from None
    return tuple(out / name for name in files)


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
