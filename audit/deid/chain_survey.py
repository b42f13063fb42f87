"""The first pass of the chain: whom the notes are about, how they are masked and split."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from audit.corpora.notes import NoteSource
from audit.corpora.placeholders import has_marks
from audit.deid.patient_profiles import ProfileTable
from audit.deid.splits import SplitSizes, split_notes, usual_sizes
from audit.errors import AuditError
from audit.tables import RowNote


@dataclass(frozen=True, eq=False)
class Surveyed:
    """What the first pass found.

    Attributes
    ----------
    profiles
        Of the patients.
    has_blanks
        Whether blanks are masks: no note has a placeholder.
    n_notes
        Rows that are notes.
    split
        For each note the number of its split in `SPLITS`.
    has_same_ids
        Whether two notes have the same name.
    """

    profiles: ProfileTable
    has_blanks: bool
    n_notes: int
    split: bytes
    has_same_ids: bool


def survey(
    source: NoteSource, *, sizes: SplitSizes | None, seed: int, on_bytes: Callable[[int], None]
) -> Surveyed:
    """Read all notes once.

    Parameters
    ----------
    sizes
        Of the splits; None for the paper's, or less where there are fewer notes.
    on_bytes
        Told of the bytes that were read.

    Raises
    ------
    AuditError
        If the source cannot be read, holds no note, or has too few for the splits.
    """
    profiles = ProfileTable()
    owners = array("q")
    place_of: dict[str, int] = {}
    ids: set[int] = set()
    marks = False
    for note in source.read(on_bytes=on_bytes):
        if isinstance(note, RowNote):
            continue
        profiles.add(note)
        # A note without a patient is a patient of its own.
        own = place_of.setdefault(note.patient_id, len(place_of)) if note.patient_id else -1
        owners.append(own)
        ids.add(hash(note.note_id))
        marks = marks or has_marks(note.text)
    if not owners:
        raise AuditError("No row is a note.", where="notes")
    patients = list(place_of)
    single = [own < 0 or profiles.n_notes(patients[own]) == 1 for own in owners]
    wanted = sizes or usual_sizes(n_notes=len(owners), n_single=sum(single))
    split = split_notes(len(owners), single=single, sizes=wanted, seed=seed)
    return Surveyed(profiles, not marks, len(owners), split, len(ids) < len(owners))
