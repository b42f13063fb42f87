"""A look into a file of notes before a corpus is made of it: what it holds, one note as it will be.

Comes in: a file of notes, a number. Goes out: categories of the first notes, and a note before and
after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from audit.corpus.build import facts_of_note, with_surrogates
from audit.corpus.examine import CategoryCount, CategoryCounter
from audit.corpus.register import MentionFinder, Register
from audit.errors import AuditError
from audit.notes.placeholders import find_placeholders, has_marks
from audit.notes.read import Note, open_notes
from audit.tables import RowNote

MAX_NOTES = 1_000
_N_SURVEYED = 200


@dataclass(frozen=True)
class Mark:
    """A stretch of a text: offsets, its category as written, the kind of value, whose name."""

    start: int
    end: int
    category: str
    kind: str
    role: str


@dataclass(frozen=True)
class Preview:
    """One note, before and after.

    Attributes
    ----------
    row
        Of the file.
    before, after
        The note as it is, and as it would be: with dummy values in D_private; or, where there is a
        register, with places for names in D_public.
    before_marks, after_marks
        In order. Those that stay have the kind "unknown".
    is_last
        Whether the file has no further note.
    """

    row: int
    before: str
    after: str
    before_marks: tuple[Mark, ...]
    after_marks: tuple[Mark, ...]
    is_last: bool


@dataclass(frozen=True)
class Survey:
    """What the first notes of a file hold.

    Attributes
    ----------
    n_notes
        Read.
    refused
        Rows among them that are no notes.
    n_patients
        Different patients among the notes that name one.
    n_without_patient
        Notes without a patient: each is a patient of its own.
    has_blanks
        Whether `___` counts as a placeholder: no note has `[** **]`.
    categories
        With what stands for each, the most frequent first; "unknown" for what is not understood.
    n_chars
        Of all notes read.
    """

    n_notes: int
    refused: tuple[RowNote, ...]
    n_patients: int
    n_without_patient: int
    has_blanks: bool
    categories: tuple[CategoryCount, ...]
    n_chars: int

    @property
    def has_placeholders(self) -> bool:
        """Whether there is anything to replace; identified notes need a register."""
        return bool(self.categories)


def preview(
    path: Path,
    *,
    number: int = 1,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    register: Register | None = None,
) -> Preview:
    """Return a note of a file by its number, from 1, before and after a build with this seed.

    The patient's sex and dates are told from this note alone, so that the build's values may be
    others; who replaces whom is the same within the note.
    """
    if not 1 <= number <= MAX_NOTES:
        raise AuditError(
            "The number must lie from 1 to {max_notes:,}.", where="note", max_notes=MAX_NOTES
        )
    notes = _notes(path, columns)
    found = list(islice(notes, number))
    if len(found) < number:
        raise AuditError("The file has {n_found:,} notes.", where="note", n_found=len(found))
    is_last = next(notes, None) is None
    note = found[-1]
    if register is None:
        first = islice(_notes(path, columns), _N_SURVEYED)
        has_blanks = not any(has_marks(each.text) for each in first)
        facts = facts_of_note(note)
        truth = with_surrogates(note, facts=facts, seed=seed, has_blanks=has_blanks)
    else:
        truth = MentionFinder(register).truth(note.text, patient_id=note.patient_id)
    places = sorted((*(truth.inserted or ()), *truth.left), key=lambda place: place.start)
    private = tuple(Mark(p.start, p.stop, p.category, p.kind, p.role) for p in places)
    public = tuple(Mark(p.source_start, p.source_stop, p.category, p.kind, p.role) for p in places)
    if register is None:
        return Preview(note.row, truth.public, truth.private, public, private, is_last)
    return Preview(note.row, truth.private, truth.public, private, public, is_last)


def survey_head(
    path: Path, n: int = _N_SURVEYED, *, columns: Mapping[str, str] | None = None
) -> Survey:
    """Return what the first n notes of a file hold."""
    read = list(islice(open_notes(path, columns=columns).read(), min(n, MAX_NOTES)))
    notes = [note for note in read if isinstance(note, Note)]
    has_blanks = not any(has_marks(note.text) for note in notes)
    counter = CategoryCounter()
    for note in notes:
        for place in find_placeholders(note.text, has_blanks=has_blanks).places:
            counter.add(place.category, place.kind, row=note.row)
    return Survey(
        n_notes=len(notes),
        refused=tuple(row for row in read if isinstance(row, RowNote)),
        n_patients=len({note.patient_id for note in notes if note.patient_id}),
        n_without_patient=sum(not note.patient_id for note in notes),
        has_blanks=has_blanks,
        categories=counter.ranked(),
        n_chars=sum(len(note.text) for note in notes),
    )


def _notes(path: Path, columns: Mapping[str, str] | None) -> Iterator[Note]:
    notes = open_notes(path, columns=columns).read()
    return (note for note in notes if isinstance(note, Note))
