"""A tally of where names stand: which notes hold a passage of a name that gets onto a list.

Comes in: notes, names found in them, one by one. Goes out: the notes of the names that were drawn
in the end. 12 bytes a mention and 4 bytes a note, so that millions of both fit.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from audit.corpora.listed_notes import ListedNotes
from audit.curation.pattern_tally import hash_of
from audit.membership.controls import Name
from audit.membership.corpus_names import pair_of


class ListedTally:
    """Places of names, and whose the notes are; notes are told in the corpus's order."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._n_patients = 0
        self._patients = array("I")
        self._notes = array("I")
        self._names = array("Q")

    def add_note(self, patient: str) -> None:
        """Count the next note; `patient` is "" where nobody is told."""
        number = self._numbers.get(patient) if patient else None
        if number is None:
            number = self._n_patients
            self._n_patients += 1
            if patient:
                self._numbers[patient] = number
        self._patients.append(number)

    def add_name(self, first: str, last: str, *, note: int) -> None:
        """Say that a passage of a name stands in the note at a position."""
        self._notes.append(note)
        self._names.append(_key((first, last)))

    def listed(self, names: Iterable[Name], *, planted: Iterable[int] = ()) -> ListedNotes:
        """Return the notes of some names, and those into which canaries were planted."""
        wanted = {_key(name) for name in names}
        is_listed = bytearray(len(self._patients))
        for note, name in zip(self._notes, self._names, strict=True):
            if name in wanted:
                is_listed[note] = 1
        for note in planted:
            is_listed[note] = 1
        notes = array("I", (note for note, found in enumerate(is_listed) if found))
        patients = {self._patients[note] for note in notes}
        return ListedNotes(len(self._patients), self._n_patients, len(patients), notes)


def _key(name: Name) -> int:
    first, last = pair_of(*name)
    return hash_of(f"{first}\0{last}")
