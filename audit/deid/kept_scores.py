"""Kept scores: taggers that were measured here, each score in a folder of its own.

A score lies in `scores/<score_id>` of the data directory, its files for their owner alone:
`score.json` (measures, what was measured), `patients.npz` (counts by patient), `spans.jsonl` with
`spans.npz` (every span in context: private). Torch-free.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.deid.counts import COLUMNS, MatchCounts
from audit.deid.matching import CRITERIA
from audit.deid.score import Scored
from audit.deid.span_records import INDEX, SPANS
from audit.errors import AuditError
from audit.home import home_folder
from audit.kept_folders import coded_folders, forget_folder, is_code

SCORE, PATIENTS = "score.json", "patients.npz"
FORMAT = 1
MAX_TITLE_CHARS = 80
_NEEDED = (SCORE, PATIENTS, SPANS, INDEX)


@dataclass(frozen=True)
class KeptScore:
    """A score that is kept.

    Attributes
    ----------
    score_id
        12 hexadecimal digits.
    title
        As given: untrusted text; may be empty.
    gold, predicted
        Kind and reference of both sides, as in `audit.deid.score_order.Source`.
    tagger
        What the tagger calls itself: untrusted text; empty where predictions were given.
    gold_digest
        SHA-256 of the gold notes in any order: two scores with the same one can be compared.
    created
        ISO time stamp in UTC.
    n_documents, n_patients, n_gold
        Of the gold notes.
    path
        The folder.
    """

    score_id: str
    title: str
    gold: tuple[str, str]
    predicted: tuple[str, str]
    tagger: str
    gold_digest: str
    created: str
    n_documents: int
    n_patients: int
    n_gold: int
    path: Path

    def __post_init__(self) -> None:
        """Check the code, once."""
        if not is_code(self.score_id):
            raise ValueError("a score_id is 12 hexadecimal digits")


def scores_dir() -> Path:
    """Return the directory of the kept scores, made with mode 700 if it is not there.

    Raises
    ------
    AuditError
        As `audit.home.data_home`.
    """
    return home_folder("scores")


def score_dir(score_id: str) -> Path:
    """Return the folder of a score, be it there already or not."""
    if not is_code(score_id):
        raise _unknown()
    return scores_dir() / score_id


def kept_scores() -> tuple[KeptScore, ...]:
    """Return the kept scores, the newest first; what is damaged is left out."""
    found = []
    for folder in coded_folders(scores_dir()):
        try:
            found.append(kept_score(folder.name))
        except AuditError:
            continue
    return tuple(sorted(found, key=lambda one: (one.created, one.score_id), reverse=True))


def kept_score(score_id: str) -> KeptScore:
    """Return a kept score.

    Raises
    ------
    AuditError
        If there is none of this id, or it is damaged.
    """
    content = score_content(score_id)
    try:
        summary = content["summary"]
        return KeptScore(
            score_id=score_id,
            title=str(content["title"]),
            gold=(str(content["gold"]["kind"]), str(content["gold"]["ref"])),
            predicted=(str(content["predicted"]["kind"]), str(content["predicted"]["ref"])),
            tagger=str(content["tagger"]["name"]),
            gold_digest=str(content["gold_digest"]),
            created=str(content["created"]),
            n_documents=int(summary["n_documents"]),
            n_patients=int(summary["n_patients"]),
            n_gold=int(summary["criteria"][CRITERIA[0]]["together"]["n_gold"]),
            path=score_dir(score_id),
        )
    except (KeyError, TypeError, ValueError):
        raise _damaged() from None


def score_content(score_id: str) -> dict[str, Any]:
    """Return all that `score.json` says.

    Raises
    ------
    AuditError
        If there is no such score, it is damaged, or of another version.
    """
    folder = score_dir(score_id)
    if not folder.is_dir():
        raise _unknown()
    try:
        content = json.loads((folder / SCORE).read_bytes())
        if content["format"] != FORMAT or not all((folder / name).is_file() for name in _NEEDED):
            raise ValueError
    except (OSError, ValueError, TypeError, KeyError):
        raise _damaged() from None
    return dict(content)


def forget_score(score_id: str) -> None:
    """Remove a kept score with all of its files.

    Raises
    ------
    AuditError
        If there is none of this id, or it cannot be removed.
    """
    refused = AuditError("The score cannot be removed.", where="score")
    forget_folder(score_dir(score_id), unknown=_unknown(), refused=refused)


def write_patients(folder: Path, scored: Scored) -> None:
    """Write the counts by patient, in the order of `Scored`: an array for each criterion."""
    tables: dict[str, Any] = {}
    for name, one in scored.criteria.items():
        labels = sorted({label for counts in one.by_patient for label in counts.rows})
        rows = [[counts.row(label) for label in labels] for counts in one.by_patient]
        shape = (len(one.by_patient), len(labels), len(COLUMNS))
        tables[name] = np.array(rows, dtype=np.int64).reshape(shape)
        tables[f"{name} labels"] = np.array(labels, dtype=np.str_)
    with (folder / PATIENTS).open("wb") as file:
        np.savez_compressed(file, **tables)


def patients_of(score_id: str, *, criterion: str) -> tuple[MatchCounts, ...]:
    """Return the counts by patient, sorted as the score's patients are; without the matrix.

    Raises
    ------
    AuditError
        If there is no such score, or it is damaged.
    """
    path = kept_score(score_id).path / PATIENTS
    try:
        with np.load(path, allow_pickle=False) as tables:
            table, labels = tables[criterion], [str(x) for x in tables[f"{criterion} labels"]]
    except (OSError, KeyError, ValueError):
        raise _damaged() from None
    return tuple(_counts(labels, rows.tolist()) for rows in table)


def _counts(labels: Sequence[str], rows: Sequence[Sequence[int]]) -> MatchCounts:
    found: Mapping[str, tuple[int, ...]] = {
        label: tuple(row) for label, row in zip(labels, rows, strict=True) if any(row)
    }
    return MatchCounts(found)


def _unknown() -> AuditError:
    return AuditError(
        "There is no such score here.", where="score", do="Choose one of those that are listed."
    )


def _damaged() -> AuditError:
    return AuditError(
        "This is no whole score of this version.", where="score", do="Measure the tagger again."
    )
