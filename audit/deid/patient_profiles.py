"""Profiles of patients, read from all notes before identities are drawn: sex, age, dates.

Comes in: notes, in any order. Goes out: for each patient the sex and an age with its day, as far as
the notes tell, and the interval by which dates move. Some 300 bytes for each patient, none for a
note.

Source: paper 002, appendix A. Differs: rules read them, not a language model.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date

from audit.corpora.identities import Facts, draw
from audit.corpora.notes import Note
from audit.corpora.patient_facts import PatientTable, facts_of_note
from audit.corpora.placeholder_dates import Interval, interval_for, parsed_day
from audit.deid.identities import Profile
from audit.deid.mask_kinds import KINDS, mark_text

UNDATED = date(2150, 1, 1)
_MAX_YEARS = 110
# The first character decides quickly, which is why what stands before it is asked after it.
_ENGLISH_AGE = re.compile(
    r"([0-9](?<![\d.][0-9])[0-9]{0,2})(?=\s?-?\s?(?:(?:years?|yrs?)\s?-?\s?old\b|y\.?/?o\b))",
    re.IGNORECASE,
)
_JAPANESE_AGE = re.compile(r"([0-9０-９](?<![\d.．].)[0-9０-９]{0,2})(?=\s?[歳才])")
_JAPANESE_SEX = re.compile(r"男性|女性|男児|女児|男子|女子|性別\s*[:：]\s*[男女]")
_MALE = "男"


@dataclass(frozen=True, slots=True)
class PatientProfile:
    """What is known about a patient: the profile, and how the notes' dates move."""

    profile: Profile
    interval: Interval
    first_day: date


class ProfileTable:
    """Profiles of every patient of a source, and how many notes each has."""

    def __init__(self) -> None:
        self._table = PatientTable()
        self._ages = array("h")
        self._days = array("i")
        self._sexes = array("b")
        self._n_notes = array("i")

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[str]:
        """Go through the patients in the order of their first note."""
        return iter(self._table)

    def add(self, note: Note) -> None:
        """Take in a note; one without a patient is left out.

        Raises
        ------
        AuditError
            If there are more than two million patients.
        """
        place = self._table.add(note)
        if place is None:
            return
        if place == len(self._ages):
            self._ages.append(-1)
            self._days.append(0)
            self._sexes.append(0)
            self._n_notes.append(0)
        self._n_notes[place] += 1
        if self._ages[place] < 0:
            age = age_in(note.text)
            if age is not None:
                day = parsed_day(note.chart_time)
                self._ages[place] = age
                self._days[place] = day.toordinal() if day else 0
        if not self._sexes[place]:
            self._sexes[place] = " MF".index(_japanese_sex(note.text) or " ")

    def n_notes(self, patient_id: str) -> int:
        """Return how many notes a patient has."""
        return self._n_notes[self._table.place(patient_id)]

    def profile(self, patient_id: str, *, seed: int) -> PatientProfile:
        """Return what is known about a patient.

        Raises
        ------
        KeyError
            If no note of this patient was taken in.
        """
        place = self._table.place(patient_id)
        facts = self._table.facts(patient_id)
        sex = facts.sex or " MF"[self._sexes[place]].strip()
        age = self._ages[place] if self._ages[place] >= 0 else None
        ordinal = self._days[place]
        day = date.fromordinal(ordinal) if ordinal else None
        return _profile(replace(facts, sex=sex), age, day, key=f"patient:{patient_id}", seed=seed)


def profile_of_note(note: Note, *, seed: int) -> PatientProfile:
    """Return what one note says about its patient, of whom nothing else is known."""
    facts = facts_of_note(note)
    facts = replace(facts, sex=facts.sex or _japanese_sex(note.text))
    day = parsed_day(note.chart_time)
    return _profile(facts, age_in(note.text), day, key=f"note:{note.row}", seed=seed)


def age_in(text: str) -> int | None:
    """Return the first age of a text, English or Japanese; None where there is none."""
    for pattern in _patterns(text):
        for match in pattern.finditer(text):
            years = int(unicodedata.normalize("NFKC", match[1]))
            if years <= _MAX_YEARS:
                return years
    return None


def _patterns(text: str) -> list[re.Pattern[str]]:
    has_word = "歳" in text or "才" in text
    return [_JAPANESE_AGE, _ENGLISH_AGE] if has_word else [_ENGLISH_AGE]


def with_marked_ages(text: str) -> str:
    """Return a text in which ages that it tells itself are typed placeholders that keep them."""
    for pattern in _patterns(text):
        text = pattern.sub(lambda age: mark_text(KINDS["Age"], content=f"={age[1]}"), text)
    return text


def _japanese_sex(text: str) -> str:
    match = _JAPANESE_SEX.search(text)
    if match is None:
        return ""
    return "M" if _MALE in match[0] else "F"


def _profile(
    facts: Facts, age: int | None, day: date | None, *, key: str, seed: int
) -> PatientProfile:
    first = facts.first_day or UNDATED
    interval = interval_for(first, facts.last_day or first, draw=draw(seed, "interval", key))
    on = day or first
    try:
        moved = interval.move(on)
    except OverflowError:
        moved = date(2010, 1, 1)
    return PatientProfile(Profile(facts.sex, age, moved), interval, first)
