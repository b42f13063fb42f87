"""A look into a file of notes before a corpus is made: what is in it, one note as it will be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from audit.corpus.build import facts_of_note, with_surrogates
from audit.corpus.examine import CategoryCount, CategoryCounter
from audit.corpus.identified import RegisterFinder
from audit.corpus.truth import NoteTruth
from audit.notes.placeholders import NAME_KINDS, find_placeholders, has_marks
from audit.notes.read import Note, open_notes
from audit.tables import RowNote

_N_ROWS = 200
GROUPS = ("patient", "other", "date", "place", "number", "unknown")
"""What an inserted value is: a patient's name, another person's, a date or an age, a place, a
number or an address of a person, a placeholder that was not understood."""
_NAMES = NAME_KINDS | {"middle"}
_DATES = frozenset({"date", "date_range", "age", "age_over_90", "holiday", "birth"})
_PLACES = frozenset(
    {"university", "ward", "hospital", "city", "address", "po_box", "zipcode", "state", "country"}
) | {"company", "ethnicity"}


@dataclass(frozen=True)
class Survey:
    """What the first 200 rows of a file hold: notes, rows that are none, what is to be replaced.

    `categories` have what stands for each ("unknown": not understood), the most frequent first.
    Without any, notes are identified and need a register. `has_blanks`: `___` is a placeholder.
    """

    notes: tuple[Note, ...]
    refused: tuple[RowNote, ...]
    categories: tuple[CategoryCount, ...]
    has_blanks: bool


def survey_head(path: Path, *, columns: Mapping[str, str] | None = None) -> Survey:
    """Return what the first rows of a file hold."""
    read = list(islice(open_notes(path, columns=columns).read(), _N_ROWS))
    notes = tuple(note for note in read if isinstance(note, Note))
    has_blanks = not any(has_marks(note.text) for note in notes)
    counter = CategoryCounter()
    for note in notes:
        for place in find_placeholders(note.text, has_blanks=has_blanks).places:
            counter.add(place.category, place.kind, row=note.row)
    refused = tuple(row for row in read if isinstance(row, RowNote))
    return Survey(notes, refused, counter.ranked(), has_blanks)


def preview(
    note: Note, *, has_blanks: bool = False, seed: int = 0, finder: RegisterFinder | None = None
) -> NoteTruth:
    """Return a note as it will be in a corpus, with the finder of a register or without.

    The patient's sex and dates are told from this note alone, so that the build's values may be
    others; who replaces whom is the same within the note.
    """
    if finder is not None:
        return finder.truth(note)
    return with_surrogates(note, facts=facts_of_note(note), seed=seed, has_blanks=has_blanks)


def group_of(kind: str, *, role: str = "") -> str:
    """Return the one of `GROUPS` that a placeholder's kind belongs to."""
    if kind in _NAMES:
        return "patient" if role == "patient" else "other"
    if kind == "prefix":
        return "other"
    if kind in _DATES:
        return "date"
    return "place" if kind in _PLACES else "unknown" if kind == "unknown" else "number"
