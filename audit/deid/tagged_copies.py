"""Per note of a tagged set: how faithful the copy is that its tagger wrote, where it wrote one."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.deid.alignment import STATUSES
from audit.deid.kept_tagged import RESULT, TaggedSet
from audit.deid.tag_files import COPIES
from audit.errors import AuditError

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CopyOfNote:
    """How a copy relates to its note.

    Attributes
    ----------
    status
        One of `audit.deid.alignment.STATUSES`.
    error_rate
        Edited characters over those of the note; None for an empty note.
    n_unaligned
        Marks of the copy without a place in the note: they are lost.
    n_malformed
        Tags that were not well written.

    Raises
    ------
    ValueError
        If there is no such status.
    """

    status: str
    error_rate: float | None
    n_unaligned: int
    n_malformed: int

    def __post_init__(self) -> None:
        """Check the status, once."""
        if self.status not in STATUSES:
            raise ValueError("no such status")


def copy_places(tagged: TaggedSet) -> Places:
    """Return (N,) bytes before each note's line; empty where the tagger wrote no copies.

    Raises
    ------
    AuditError
        If there is not a line for each note.
    """
    path = tagged.path / RESULT / COPIES
    if not path.is_file():
        return np.empty(0, dtype=np.int64)
    try:
        with path.open("rb") as lines:
            ends = np.cumsum([0, *map(len, lines)], dtype=np.int64)
    except OSError:
        raise _damaged() from None
    if len(ends) != tagged.n_notes + 1:
        raise _damaged()
    return ends[:-1]


def copy_at(tagged: TaggedSet, number: int, *, places: Places) -> CopyOfNote | None:
    """Return how faithful the copy of a note is; None where the tagger wrote none.

    Raises
    ------
    AuditError
        If its line cannot be read.
    """
    if not len(places):
        return None
    try:
        with (tagged.path / RESULT / COPIES).open("rb") as file:
            file.seek(int(places[number]))
            record = json.loads(file.readline().decode("utf-8", "surrogatepass"))
        rate = record["error_rate"]
        return CopyOfNote(
            str(record["status"]),
            None if rate is None else float(rate),
            len(record["unaligned"]),
            int(record["tags"]["n_malformed"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        raise _damaged() from None


def _damaged() -> AuditError:
    return AuditError("The tagger's copies cannot be read.", where="tagged notes")
