"""A look into a file of notes before a corpus is made: what is in it, one note as it will be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from audit.corpus.build import facts_of_note, with_surrogates
from audit.corpus.examine import CategoryCount, CategoryCounter
from audit.corpus.register import MentionFinder, Register
from audit.errors import AuditError
from audit.notes.placeholders import find_placeholders, has_marks
from audit.notes.read import Note, open_notes
from audit.tables import RowNote

MAX_NOTES = 1_000
_N_SURVEYED = 200


class Mark(NamedTuple):
    """A stretch of a text, the kind of value in it ("unknown": it stays), and whose name it is."""

    start: int
    end: int
    kind: str
    role: str


@dataclass(frozen=True)
class Preview:
    """One note of a row of the file as it is, and as it would be, with marks in order.

    `after` has dummy values, as D_private; with a register, places for names, as D_public.
    """

    row: int
    before: str
    after: str
    before_marks: tuple[Mark, ...]
    after_marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Survey:
    """What the first notes of a file hold: rows that are no notes, categories of placeholders.

    `categories` have what stands for each ("unknown": not understood), the most frequent first.
    """

    n_notes: int
    refused: tuple[RowNote, ...]
    categories: tuple[CategoryCount, ...]

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
    found = list(islice(_notes(path, columns), number))
    if len(found) < number:
        raise AuditError("The file has {n_found:,} notes.", where="note", n_found=len(found))
    note = found[-1]
    if register is None:
        first = islice(_notes(path, columns), _N_SURVEYED)
        has_blanks = not any(has_marks(each.text) for each in first)
        facts = facts_of_note(note)
        truth = with_surrogates(note, facts=facts, seed=seed, has_blanks=has_blanks)
    else:
        truth = MentionFinder(register).truth(note.text, patient_id=note.patient_id)
    places = sorted((*(truth.inserted or ()), *truth.left), key=lambda place: place.start)
    private = tuple(Mark(p.start, p.stop, p.kind, p.role) for p in places)
    public = tuple(Mark(p.source_start, p.source_stop, p.kind, p.role) for p in places)
    if register is None:
        return Preview(note.row, truth.public, truth.private, public, private)
    return Preview(note.row, truth.private, truth.public, private, public)


def survey_head(
    path: Path, n: int = _N_SURVEYED, *, columns: Mapping[str, str] | None = None
) -> Survey:
    """Return what the first n notes of a file hold."""
    read = list(islice(open_notes(path, columns=columns).read(), n))
    notes = [note for note in read if isinstance(note, Note)]
    has_blanks = not any(has_marks(note.text) for note in notes)
    counter = CategoryCounter()
    for note in notes:
        for place in find_placeholders(note.text, has_blanks=has_blanks).places:
            counter.add(place.category, place.kind, row=note.row)
    refused = tuple(row for row in read if isinstance(row, RowNote))
    return Survey(len(notes), refused, counter.ranked())


def _notes(path: Path, columns: Mapping[str, str] | None) -> Iterator[Note]:
    notes = open_notes(path, columns=columns).read()
    return (note for note in notes if isinstance(note, Note))
