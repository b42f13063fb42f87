"""Builds notes with dummy identities: D_private, the unchanged D_public, and the truth about both.

Every value depends on the note, the facts about its patient and a seed alone, not on other notes.

Source: Nakamura et al., section 3.2.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from audit.corpus.truth import NoteTruth, Place
from audit.names.people import (
    Facts,
    Patient,
    Person,
    age_on,
    draw,
    patient_of,
    person_of,
    prefix_of,
    value_of,
)
from audit.notes.dates import DateContext, parse_day, replace_date
from audit.notes.placeholders import BLANK, NAME_KINDS, Placeholder, find_placeholders, has_marks
from audit.notes.read import Note
from audit.shelf import JSON, create_file, whole_folder


class CorpusFile:
    """A file that is being written, and the SHA-256 of its content."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._file.write(data)
        self._sha256.update(data)

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes written so far."""
        return self._sha256.hexdigest()

    def flush(self) -> int:
        """Flush the file, so that others can read it, and return its number of bytes."""
        self._file.flush()
        return self._file.tell()


@contextmanager
def corpus_folder(
    out: Path, *, names: Sequence[str], lasting_file: str = "", subject: str = "corpus folder"
) -> Iterator[dict[str, CorpusFile]]:
    """Write the files of a new folder, which appears when the block ends without an error.

    `lasting_file` is the name of a file that the block itself writes in
    `audit.shelf.building_folder`: it stays if the block fails, and is removed when the folder is
    complete.
    """
    with whole_folder(out, place=subject, stays=(lasting_file,)) as folder:
        with ExitStack() as files:
            yield {
                name: CorpusFile(files.enter_context(create_file(folder / name))) for name in names
            }
        if lasting_file:
            (folder / lasting_file).unlink(missing_ok=True)


def patient_key(note: Note) -> str:
    """Return the key of a note's patient in the truth file."""
    return f"patient:{note.patient_id}" if note.patient_id else f"note:{note.row}"


_OLDEST_AGES = 10
# Kinds with one value for a patient, whatever the admission.
_PATIENT_KINDS = frozenset({"medical_record_number", "ssn", "email"})
# Kinds with a new value at each place, unless a number says that it is the same.
_SINGLE_KINDS = frozenset({"clip_number", "job_number", "serial_number", "identifier"})


def with_surrogates(note: Note, *, facts: Facts, seed: int, has_blanks: bool = False) -> NoteTruth:
    """Return a note with a dummy value in the place of every placeholder of a known kind.

    `facts` come from all of the patient's notes; `has_blanks`: `___` is a placeholder. The same
    seed gives the same text, whatever other notes there are.
    """
    parsed = find_placeholders(note.text, has_blanks=has_blanks)
    writer = _Writer(note, patient_of(seed, patient_key(note), facts), seed)
    texts, length, end = list[str](), 0, 0
    inserted, left = list[Place](), list[Place]()
    for place in parsed.places:
        texts.append(note.text[end : place.start])
        length += place.start - end
        end = place.stop
        is_left = place.kind == "unknown"
        identity, value = (
            ("", note.text[place.start : end]) if is_left else writer.write_value(place)
        )
        (left if is_left else inserted).append(
            Place(
                length,
                length + len(value),
                place.start,
                end,
                place.category,
                place.kind,
                place.role,
                identity,
                value,
                place.group,
            )
        )
        texts.append(value)
        length += len(value)
    private = "".join((*texts, note.text[end:]))
    return NoteTruth(
        private,
        note.text,
        tuple(inserted),
        tuple(left),
        parsed.n_malformed,
        chart_time=writer.chart_time(),
    )


def person_of_key(seed: int, key: str) -> Person:
    """Return the dummy person of somebody who is no patient, by the key in the truth file."""
    return person_of(seed, key, sex=key[-1] if key.endswith(("/M", "/F")) else "")


class _Writer:
    """Writes the values for the placeholders of one note."""

    def __init__(self, note: Note, patient: Patient, seed: int) -> None:
        self._note, self._patient, self._seed = note, patient, seed
        self._stay = f"{patient.key}/{note.admission_id}"
        self._day = parse_day(note.chart_time)
        self._context_day = self._day or patient.first_day
        try:
            self._moved: date | None = patient.interval.move(self._context_day)
        except OverflowError:  # beyond the calendar
            self._moved = None

    def chart_time(self) -> str:
        """Return the time of the note, moved like all days; "" beyond the calendar."""
        original_time = self._note.chart_time
        if self._day is None:
            return original_time
        return self._moved.isoformat() + original_time[10:] if self._moved else ""

    def write_value(self, place: Placeholder) -> tuple[str, str]:
        """Return (identity, text) for a placeholder of a known kind."""
        kind, patient, seed = place.kind, self._patient, self._seed
        if kind in NAME_KINDS or kind == "prefix":
            return self._write_name(place)
        if kind in ("date", "date_range"):
            return patient.key, self._write_date(place)
        if kind == "age_over_90":
            return patient.key, str(90 + draw(seed, kind, patient.key) % _OLDEST_AGES)
        if kind == "age":
            return patient.key, str(age_on(patient.birth, self._moved or patient.birth))
        if kind in _PATIENT_KINDS:
            identity = f"{patient.key}/{place.number}"
        elif place.number:
            identity = f"{kind}:{place.number}"
        else:
            note_place = f"{self._note.row}/{place.start}"
            identity = f"{kind}:{note_place if kind in _SINGLE_KINDS else self._stay}"
        return identity, value_of(kind, draw(seed, kind, identity))

    def _write_name(self, place: Placeholder) -> tuple[str, str]:
        text, seed, kind = self._note.text, self._seed, place.kind
        key, person = self._patient.key, self._patient.person
        if place.role != "patient" or kind == "prefix":
            key = f"{'staff' if kind == 'prefix' else place.role}:{self._stay}/{place.number}"
            # Two places with one number and different sexes are two people.
            sex = "" if key.startswith("staff:") else place.sex
            key += f"/{sex}" if sex else ""
            person = person_of_key(seed, key)
        if kind == "prefix":
            following_text = text[place.stop : place.stop + 40].lstrip().lower()
            is_before = following_text.startswith(("[**last name", "[**known lastname"))
            number = draw(seed, kind, key, str(is_before))
            return key, prefix_of(person.sex, number, is_before_last_name=is_before)
        if kind == "initial":
            is_followed = text[place.stop : place.stop + 1] == "."
            return key, person.initial if is_followed else f"{person.initial}."
        return key, str(getattr(person, kind))

    def _write_date(self, place: Placeholder) -> str:
        note, patient = self._note, self._patient
        if place.category == BLANK:
            preceding_text = note.text[max(0, place.start - 24) : place.start].lower()
            is_birth = any(word in preceding_text for word in ("birth", "dob", "d.o.b"))
            return (patient.birth if is_birth else self._moved or patient.birth).isoformat()
        key = (place.number, "") if place.number else (str(place.start), str(note.row))
        number = draw(self._seed, "date", patient.key, *key)
        context = DateContext(patient.interval, self._context_day, number)
        return replace_date(place.content, place.category, number=place.number, context=context)


def dummy_people(patients: PatientTable, *, seed: int) -> Iterator[dict[str, JSON]]:
    """Yield what is known about each patient: the identity, and by how much dates move."""
    for patient_id in patients:
        facts = patients.facts(patient_id)
        patient = patient_of(seed, f"patient:{patient_id}", facts)
        person = {
            name: getattr(patient.person, name) for name in ("first", "initial", "last", "sex")
        }
        yield {
            "identity": patient.key,
            "patient_id": patient_id,
            **person,
            "is_sex_known": facts.sex != "",
            "moved_days": patient.interval.n_days,
        }


# Votes: a field of the note counts more than a description, which counts more than a pronoun.
_TITLE, _MAX_PRONOUN = 5, 3
_TITLES = re.compile(r"M(?:rs?|s)\. ")
_SEX_WORDS = (
    (40, re.compile(r":(?:(?<=Sex:)|(?<=SEX:)|(?<=Gender:))\s*([MFmf])")),
    (
        10,
        re.compile(
            r"old,?\s+(?:[a-z\-]+\s+){0,3}?(male|female|man|woman|gentleman|lady|boy|girl)\b"
        ),
    ),
    (10, re.compile(r"y/?o,?\s+(?:[a-z\-]+\s+){0,3}?(male|female|man|woman|M|F)\b")),
)
_MALE = frozenset({"male", "man", "gentleman", "boy", "m", "M"})
_TEXT_DATE = re.compile(r"\[\*\*(\d{4})(?:-(\d{1,2})-(\d{1,2}))?\*\*\]")


@dataclass(slots=True)
class _PatientEvidence:
    """What the notes read so far say about a patient."""

    votes: int = 0
    first: date = date.max
    last: date = date.min

    def add(self, note: Note) -> None:
        days = _days(note)
        self.votes += sex_votes(note.text)
        self.first, self.last = min([self.first, *days]), max([self.last, *days])

    def include(self, evidence: _PatientEvidence) -> None:
        self.votes += evidence.votes
        self.first, self.last = min(self.first, evidence.first), max(self.last, evidence.last)

    def facts(self) -> Facts:
        sex = "M" if self.votes > 0 else "F" if self.votes < 0 else ""
        days = (self.first, self.last) if self.first <= self.last else (None, None)
        return Facts(sex, *days)


class PatientTable:
    """Facts about every patient of a source, in the order of their first notes.

    `has_marks`: some note has placeholders of MIMIC-III, so that `___` is no placeholder.
    """

    def __init__(self) -> None:
        self._evidence_by_patient: dict[str, _PatientEvidence] = {}
        self.has_marks = False

    def __iter__(self) -> Iterator[str]:
        return iter(self._evidence_by_patient)

    def add(self, note: Note) -> None:
        """Add a note; a note without a patient adds no facts."""
        self.has_marks = self.has_marks or has_marks(note.text)
        if note.patient_id:
            self._evidence_by_patient.setdefault(note.patient_id, _PatientEvidence()).add(note)

    def include(self, table: PatientTable) -> None:
        """Add the table of later notes."""
        self.has_marks = self.has_marks or table.has_marks
        for patient_id, evidence in table._evidence_by_patient.items():
            self._evidence_by_patient.setdefault(patient_id, _PatientEvidence()).include(evidence)

    def facts(self, patient_id: str) -> Facts:
        """Return the facts about a patient."""
        return self._evidence_by_patient[patient_id].facts()


def facts_of_note(note: Note) -> Facts:
    """Return the facts about the patient of one note, from this note alone."""
    evidence = _PatientEvidence()
    evidence.add(note)
    return evidence.facts()


def sex_votes(text: str) -> int:
    """Return the votes of an English text on the sex: above 0 for a man, below 0 for a woman."""
    titles = _TITLES.findall(text)
    votes = _TITLE * (2 * titles.count("Mr. ") - len(titles))
    for weight, pattern in _SEX_WORDS:
        if match := pattern.search(text):
            votes += weight if match[1] in _MALE else -weight
    pronouns = text.count(" he ") + text.count(" his ") - text.count(" she ") - text.count(" her ")
    return votes + max(-_MAX_PRONOUN, min(_MAX_PRONOUN, pronouns))


def _days(note: Note) -> list[date]:
    if day := _day(note.chart_time[:10]):
        return [day]
    days = (
        _day(f"{year}-{int(month or 7):02d}-{int(number or 1):02d}")
        for year, month, number in _TEXT_DATE.findall(note.text)
        if 1900 <= int(year) < 2300
    )
    return [day for day in days if day]


_day = lru_cache(maxsize=50_000)(parse_day)
