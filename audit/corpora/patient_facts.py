"""Facts about patients, collected over all notes before identities are chosen: sex and dates.

Comes in: notes, in any order. Goes out: for each patient the sex that the notes speak of and the
first and last day. Needs some 200 bytes for each patient, none for a note.
"""

from __future__ import annotations

import functools
import re
from array import array
from collections.abc import Iterator
from datetime import date

from audit.corpora.identities import Facts
from audit.corpora.notes import Note
from audit.corpora.placeholder_dates import parsed_day
from audit.errors import AuditError

MAX_PATIENTS = 2_000_000

# Votes: a field of the note counts more than a description, that more than a pronoun.
_FIELD, _OLD, _TITLE, _PRONOUN, _MAX_PRONOUN = 40, 10, 5, 1, 3
_SEX_FIELD = re.compile(r"(?:Sex|SEX|Gender):\s*([MFmf])")
_AFTER_OLD = re.compile(
    r"old,?\s+(?:[a-z\-]+\s+){0,3}?(male|female|man|woman|gentleman|lady|boy|girl)\b"
)
_AFTER_YO = re.compile(r"y/?o,?\s+(?:[a-z\-]+\s+){0,3}?(male|female|man|woman|M|F)\b")
_WORD_SEX = dict.fromkeys(("male", "man", "gentleman", "boy", "m", "M"), "M") | dict.fromkeys(
    ("female", "woman", "lady", "girl", "f", "F"), "F"
)
_TEXT_DATE = re.compile(r"\[\*\*(\d{4})(?:-(\d{1,2})-(\d{1,2}))?\*\*\]")
_YEARS = range(1900, 2300)
_MAX_VOTES = 2**30


class PatientTable:
    """Facts about every patient of a source."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._votes = array("i")
        self._first = array("i")
        self._last = array("i")

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        """Go through the patients in the order of their first note."""
        return iter(self._places)

    def add(self, note: Note) -> int | None:
        """Take in a note and return its patient's place; one without a patient is left out.

        Places are numbered from 0 in the order of the patients' first notes.

        Raises
        ------
        AuditError
            If there are more than two million patients.
        """
        if not note.patient_id:
            return None
        place = self._places.get(note.patient_id)
        if place is None:
            place = len(self._places)
            if place == MAX_PATIENTS:
                raise AuditError(f"There are more than {MAX_PATIENTS:,} patients.", where="notes")
            self._places[note.patient_id] = place
            for column in (self._votes, self._first, self._last):
                column.append(0)
        votes = self._votes[place] + _votes(note.text)
        self._votes[place] = max(-_MAX_VOTES, min(_MAX_VOTES, votes))
        for day in _days(note):
            number = day.toordinal()
            self._first[place] = min(self._first[place] or number, number)
            self._last[place] = max(self._last[place], number)
        return place

    def place(self, patient_id: str) -> int:
        """Return a patient's place; KeyError where no note of the patient was taken in."""
        return self._places[patient_id]

    def facts(self, patient_id: str) -> Facts:
        """Return what is known about a patient."""
        place = self._places[patient_id]
        first, last = self._first[place], self._last[place]
        return Facts(
            _sex(self._votes[place]),
            date.fromordinal(first) if first else None,
            date.fromordinal(last) if last else None,
        )


def facts_of_note(note: Note) -> Facts:
    """Return what one note says about its patient."""
    days = _days(note)
    return Facts(_sex(_votes(note.text)), min(days, default=None), max(days, default=None))


def _sex(votes: int) -> str:
    return "M" if votes > 0 else "F" if votes < 0 else ""


def _votes(text: str) -> int:
    votes = 0
    for weight, pattern in ((_FIELD, _SEX_FIELD), (_OLD, _AFTER_OLD), (_OLD, _AFTER_YO)):
        match = pattern.search(text)
        if match:
            votes += weight if _WORD_SEX[match[1]] == "M" else -weight
    votes += _TITLE * (text.count("Mr. ") - text.count("Mrs. ") - text.count("Ms. "))
    pronouns = text.count(" he ") + text.count(" his ") - text.count(" she ") - text.count(" her ")
    return votes + max(-_MAX_PRONOUN, min(_MAX_PRONOUN, pronouns * _PRONOUN))


def _days(note: Note) -> list[date]:
    day = _day(note.chart_time[:10])
    if day is not None:
        return [day]
    days = []
    for year, month, day_of_month in _TEXT_DATE.findall(note.text):
        if int(year) in _YEARS:
            parsed = _day(f"{year}-{int(month or 7):02d}-{int(day_of_month or 1):02d}")
            days += [parsed] if parsed else []
    return days


@functools.lru_cache(maxsize=50_000)
def _day(text: str) -> date | None:
    return parsed_day(text)
