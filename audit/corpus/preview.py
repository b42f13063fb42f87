"""Previews a corpus before it is made: the content of a file of notes, and one built note."""

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
"""Groups of inserted values: a patient's name, another person's name, a date or an age, a place, a
number or an address of a person, a placeholder that was not understood."""
_NAMES = NAME_KINDS | {"middle"}
_DATES = frozenset({"date", "date_range", "age", "age_over_90", "holiday", "birth"})
_PLACES = frozenset(
    {"university", "ward", "hospital", "city", "address", "po_box", "zipcode", "state", "country"}
) | {"company", "ethnicity"}


@dataclass(frozen=True)
class Survey:
    """The content of the first 200 rows of a file: notes, refused rows, placeholders to replace.

    `categories` have the kind of each placeholder ("unknown": not understood), the most frequent
    first. If there are none, the notes are identified and need a register. `has_blanks`: `___` is a
    placeholder.
    """

    notes: tuple[Note, ...]
    refused: tuple[RowNote, ...]
    categories: tuple[CategoryCount, ...]
    has_blanks: bool


def survey_head(path: Path, *, columns: Mapping[str, str] | None = None) -> Survey:
    """Return the content of the first rows of a file."""
    rows = list(islice(open_notes(path, columns=columns).read(), _N_ROWS))
    notes = tuple(note for note in rows if isinstance(note, Note))
    has_blanks = not any(has_marks(note.text) for note in notes)
    counter = CategoryCounter()
    for note in notes:
        for place in find_placeholders(note.text, has_blanks=has_blanks).places:
            counter.add(place.category, place.kind, row=note.row)
    refused = tuple(row for row in rows if isinstance(row, RowNote))
    return Survey(notes, refused, counter.rank_counts(), has_blanks)


def preview(
    note: Note, *, has_blanks: bool = False, seed: int = 0, finder: RegisterFinder | None = None
) -> NoteTruth:
    """Return a note as it will be in a corpus, with or without the finder of a register.

    The patient's sex and dates come from this note alone, so that the values of the build may
    differ; within the note, the same person is always replaced by the same dummy person.
    """
    if finder is not None:
        return finder.make_truth(note)
    return with_surrogates(note, facts=facts_of_note(note), seed=seed, has_blanks=has_blanks)


def group_of(kind: str, *, role: str = "") -> str:
    """Return the group (one of `GROUPS`) of a placeholder's kind."""
    if kind in _NAMES:
        return "patient" if role == "patient" else "other"
    if kind == "prefix":
        return "other"
    if kind in _DATES:
        return "date"
    return "place" if kind in _PLACES else "unknown" if kind == "unknown" else "number"
