"""Notes of a corpus that hold a listed name: whose patients a training must not hold out.

Comes in: `listed.json` of a corpus's folder, or positions. Goes out: the other one. A position
counts from 0 in `private.jsonl`, and is the same in the corpus's other files of notes.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from audit.errors import AuditError

LISTED = "listed.json"
_COUNTS = ("n_notes", "n_patients", "n_listed_patients")


@dataclass(frozen=True, eq=False)
class ListedNotes:
    """Where listed names stand.

    Attributes
    ----------
    n_notes
        Of the corpus.
    n_patients, n_listed_patients
        Patients, a note of nobody counting as one; and those of them with a listed note.
    notes
        Positions of the notes that hold a passage of a listed name or a planted canary, rising,
        as 4-byte numbers.
    """

    n_notes: int
    n_patients: int
    n_listed_patients: int
    notes: array[int]

    def __post_init__(self) -> None:
        """Check that positions rise and lie in the corpus, and that counts fit each other."""
        is_rising = all(a < b for a, b in pairwise(self.notes))
        is_inside = not self.notes or self.notes[-1] < self.n_notes
        if not (is_rising and is_inside):
            raise ValueError("positions rise from 0 to n_notes - 1")
        least = 1 if self.notes else 0
        if not least <= self.n_listed_patients <= min(self.n_patients, len(self.notes)):
            raise ValueError("listed patients are some of the patients of listed notes")

    @property
    def digest(self) -> str:
        """SHA-256 of the positions."""
        return hashlib.sha256(_joined(self.notes)).hexdigest()

    @property
    def free_share(self) -> float:
        """Share of the patients that may be held out; 0 without any patient."""
        return 1 - self.n_listed_patients / self.n_patients if self.n_patients else 0.0


def listed_bytes(listed: ListedNotes) -> bytes:
    """Return what `listed.json` holds."""
    head = json.dumps({name: getattr(listed, name) for name in _COUNTS}).removesuffix("}")
    return f'{head}, "notes": ['.encode() + _joined(listed.notes) + b"]}\n"


def read_listed(path: Path) -> ListedNotes:
    """Return what a `listed.json` says.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    try:
        content = json.loads(path.read_bytes())
        n_notes, n_patients, n_listed = (content[name] for name in _COUNTS)
        if any(type(count) is not int for count in (n_notes, n_patients, n_listed)):
            raise TypeError
        return ListedNotes(n_notes, n_patients, n_listed, array("I", content["notes"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        raise AuditError(
            "A file of the corpus cannot be read.", where="corpus", do="Build the corpus again."
        ) from None


def listed_file(notes: Path) -> Path | None:
    """Return the `listed.json` beside a corpus's file of notes; None where there is none."""
    path = notes.with_name(LISTED)
    return path if path.is_file() else None


def _joined(notes: array[int]) -> bytes:
    return ", ".join(map(str, notes)).encode()
