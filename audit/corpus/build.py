"""Builds notes with dummy identities: D_private, D_public as it was, and the truth about both.

Comes in: a note with placeholders, facts about its patient, a seed. Goes out: the note in both
corpora. Every value depends on these alone, not on the notes around it.

Source: Nakamura et al., section 3.2.
"""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import os
import re
import threading
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from audit.corpus.truth import (
    Doubt,
    NoteTruth,
    Place,
    note_line,
    patient_key,
)
from audit.errors import AuditError
from audit.names.people import (
    Facts,
    Patient,
    Person,
    draw,
    patient_of,
    person_of,
    prefix_of,
    value_of,
)
from audit.notes.dates import DateContext, new_date, parsed_day
from audit.notes.placeholders import BLANK, NAME_KINDS, Placeholder, find_placeholders
from audit.notes.read import Note
from audit.shelf import new_file, whole_folder
from audit.task import Record

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 3
_WORK: list[Callable[[Any], Any]] = []


@contextmanager
def ordered_map(
    work: Callable[[Item], Result], *, n_workers: int
) -> Iterator[Callable[[Iterator[Item]], Iterator[Result]]]:
    """Give a function that maps `work` over items; with one worker, in this process."""
    if n_workers <= 1:
        yield partial(map, work)
        return
    pool = ProcessPoolExecutor(
        n_workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(work,),
    )
    try:
        yield partial(_in_order, pool, _AHEAD * n_workers)
    finally:
        pool.shutdown(cancel_futures=True)


def _in_order(pool: ProcessPoolExecutor, n_ahead: int, items: Iterator[Any]) -> Iterator[Any]:
    waiting: deque[Future[Any]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(_do, item))
            if len(waiting) >= n_ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise AuditError(
            "A worker process was ended from outside.",
            where="corpus",
            do="There may be too little memory; try with fewer workers.",
        ) from None


def _start(work: Callable[[Any], Any]) -> None:
    _WORK[:] = [work]
    # A worker whose parent was killed would wait for work for ever.
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _do(item: Any) -> Any:
    return _WORK[0](item)


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


_WHERE = "corpus folder"


class CorpusFile:
    """A file that is being written, and the SHA-256 of what is in it."""

    def __init__(self, path: Path) -> None:
        self._file = new_file(path)
        self._digest = hashlib.sha256()
        self.n_bytes = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self.n_bytes += self._file.write(data)
        self._digest.update(data)

    @property
    def digest(self) -> str:
        """SHA-256 of what was written so far."""
        return self._digest.hexdigest()

    def close(self, *, is_whole: bool) -> None:
        """Close, on the disk for good if the file is whole."""
        if is_whole:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()


@contextmanager
def corpus_folder(
    out: Path, *, names: Sequence[str], kept: str = ""
) -> Iterator[dict[str, CorpusFile]]:
    """Write the files of a new folder; it appears when the block ends well.

    `kept` is the name of a file that the block itself writes in `audit.shelf.building_folder`: it
    outlasts a block that fails, and is removed when the folder is whole. Raises as `whole_folder`.
    """
    with whole_folder(out, where=_WHERE, stays=(kept,)) as folder:
        with open_files(folder, names) as files:
            yield files
        if kept:
            (folder / kept).unlink(missing_ok=True)


@contextmanager
def open_files(folder: Path, names: Sequence[str]) -> Iterator[dict[str, CorpusFile]]:
    """Open new files; they are closed with the block, on the disk for good if it ends well."""
    files = {name: CorpusFile(folder / name) for name in names}
    is_whole = False
    try:
        yield files
        is_whole = True
    finally:
        for file in files.values():
            file.close(is_whole=is_whole)


MAX_CATEGORIES = 5_000
OTHERS = "(others)"


class CategoryCount(Record):
    """How often a category occurs, what stands for it, and the row where it occurs first."""

    category: str
    kind: str
    n: int
    first_row: int


class CategoryCounter:
    """Counts categories; beyond 5,000 different ones they are counted together."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], int] = {}

    def add(self, places: Iterable[Place | Placeholder], *, row: int) -> None:
        """Count the places of a note."""
        for place in places:
            self._add((place.category, place.kind), 1, row)

    def merge(self, other: CategoryCounter) -> None:
        """Add the counts of a later part."""
        for key, n in other._counts.items():
            self._add(key, n, other._first[key])

    def _add(self, key: tuple[str, str], n: int, row: int) -> None:
        if key not in self._counts and len(self._counts) >= MAX_CATEGORIES:
            key = (OTHERS, key[1])
        self._counts[key] += n
        self._first.setdefault(key, row)

    def ranked(self) -> tuple[CategoryCount, ...]:
        """Return the counts, most frequent first, then by name."""
        order = sorted(self._counts.items(), key=lambda item: (-item[1], *item[0]))
        return tuple(
            CategoryCount(category=key[0], kind=key[1], n=n, first_row=self._first[key])
            for key, n in order
        )


_OLDEST_AGES = 10
# Of one patient, whatever the admission.
_OWN = frozenset({"medical_record_number", "ssn", "email"})
# Another one each time, unless a number says that it is the same.
_EACH = frozenset({"clip_number", "job_number", "serial_number", "identifier"})


@dataclass(frozen=True, slots=True)
class BuiltNote:
    """A note in both corpora, with its time in D_private and what was left in doubt."""

    truth: NoteTruth
    chart_time: str
    doubts: tuple[Doubt, ...] = ()


class Tally:
    """Counts over built notes.

    `inserted` and `unknown`: places by category. By patient id, `own`, `full` and `notes`: mentions
    in the own notes, those with first and last name together, and notes with one; `others`:
    mentions in the notes of others. `forms`: own mentions by form; `doubts`: places left, by why.
    """

    def __init__(self) -> None:
        self.n_malformed = self.n_others = 0
        self.inserted, self.unknown = CategoryCounter(), CategoryCounter()
        self.own, self.full, self.notes, self.others, self.forms, self.doubts = (
            Counter[str]() for _ in range(6)
        )

    def add(self, note: Note, built: BuiltNote) -> None:
        """Count a note."""
        truth, places = built.truth, built.truth.inserted or ()
        self.inserted.add(places, row=note.row)
        self.unknown.add(truth.left, row=note.row)
        self.n_malformed += truth.n_malformed
        self.doubts.update(doubt.why for doubt in built.doubts)
        key = patient_key(note) if note.patient_id else ""
        named: dict[int, list[Place]] = {}
        for place in places:
            if place.role == "patient" and place.group >= 0:
                named.setdefault(place.group, []).append(place)
            elif place.identity == key:
                self.forms[place.category] += 1
        own = [parts for parts in named.values() if parts[0].identity == key]
        for parts in own:
            kinds = {part.kind for part in parts}
            self.forms[parts[0].category] += 1
            self.own[note.patient_id] += 1
            self.full[note.patient_id] += "full" in kinds or {"first", "last"} <= kinds
        self.notes[note.patient_id] += bool(own)
        for first, *_ in named.values():
            if first.identity != key:
                self.n_others += 1
                people = (first.identity, *first.namesakes)
                self.others.update(person.removeprefix("patient:") for person in people)

    def merge(self, other: Tally) -> None:
        """Add the counts of a later part."""
        for name, mine in vars(self).items():
            theirs = getattr(other, name)
            if isinstance(mine, CategoryCounter):
                mine.merge(theirs)
            elif isinstance(mine, Counter):
                mine.update(theirs)
            else:
                setattr(self, name, mine + theirs)


@dataclass(frozen=True)
class Surrogates:
    """How placeholders become dummy identities; `has_blanks`: whether `___` is a placeholder."""

    seed: int
    has_blanks: bool

    def built(self, note: Note, facts: Facts | None) -> BuiltNote:
        """Return a note in both corpora; the same in every process."""
        assert facts is not None
        truth = with_surrogates(note, facts=facts, seed=self.seed, has_blanks=self.has_blanks)
        patient = patient_of(self.seed, patient_key(note), facts)
        return BuiltNote(truth, _moved(note.chart_time, patient))

    def private_text(self, note: Note, facts: Facts | None) -> str:
        """Return a note's text in D_private."""
        return self.built(note, facts).truth.private

    def public_line(self, note: Note, text: str) -> bytes:
        """Return a note's line in D_public."""
        return note_line(note, text=text, chart_time=note.chart_time)


def with_surrogates(note: Note, *, facts: Facts, seed: int, has_blanks: bool = False) -> NoteTruth:
    """Return a note in which every placeholder of a known kind is a dummy value.

    Parameters
    ----------
    facts
        About the patient, from all of the patient's notes.
    seed
        The same seed gives the same text, whatever other notes there are.
    has_blanks
        Whether `___` is a placeholder.
    """
    parsed = find_placeholders(note.text, has_blanks=has_blanks)
    if not parsed.places:
        return NoteTruth(note.text, note.text, (), (), parsed.n_malformed)
    writer = _Writer(note, patient_of(seed, patient_key(note), facts), seed)
    pieces: list[str] = []
    inserted: list[Place] = []
    left: list[Place] = []
    done = length = 0
    for place in parsed.places:
        pieces.append(note.text[done : place.start])
        length += place.start - done
        done = place.stop
        if place.kind == "unknown":
            value = note.text[place.start : place.stop]
            stop = length + len(value)
            left.append(Place(length, stop, place.start, place.stop, place.category))
        else:
            identity, value = writer.value(place)
            inserted.append(
                Place(
                    length,
                    length + len(value),
                    place.start,
                    place.stop,
                    place.category,
                    place.kind,
                    place.role,
                    identity,
                    value,
                    place.group,
                )
            )
        pieces.append(value)
        length += len(value)
    pieces.append(note.text[done:])
    return NoteTruth("".join(pieces), note.text, tuple(inserted), tuple(left), parsed.n_malformed)


class _Writer:
    """Values for the placeholders of one note."""

    def __init__(self, note: Note, patient: Patient, seed: int) -> None:
        self._note = note
        self._patient = patient
        self._seed = seed
        self._stay = f"{patient.key}/{note.admission_id}"
        self._near = parsed_day(note.chart_time) or patient.first_day

    def value(self, place: Placeholder) -> tuple[str, str]:
        """Return (identity, text) for a placeholder of a known kind."""
        if place.kind in NAME_KINDS:
            return self._name(place)
        if place.kind == "prefix":
            return self._prefix(place)
        if place.kind in ("date", "date_range"):
            return self._patient.key, self._date(place)
        if place.kind == "age_over_90":
            age = 90 + draw(self._seed, place.kind, self._patient.key) % _OLDEST_AGES
            return self._patient.key, str(age)
        if place.kind == "age":
            return self._patient.key, str(_years(self._patient.birth, self._moved(self._near)))
        identity = self._owner(place)
        return identity, value_of(place.kind, draw(self._seed, place.kind, identity))

    def _person(self, place: Placeholder) -> tuple[str, Person]:
        if place.role == "patient":
            return self._patient.key, self._patient.person
        key = f"{place.role}:{self._stay}/{place.number}"
        if place.role == "staff" or not place.sex:
            return key, person_of(self._seed, key)
        # Two places of one number and different sexes are two people.
        key = f"{key}/{place.sex}"
        return key, person_of(self._seed, key, sex=place.sex)

    def _name(self, place: Placeholder) -> tuple[str, str]:
        key, person = self._person(place)
        if place.kind == "initial":
            is_followed = self._note.text[place.stop : place.stop + 1] == "."
            return key, person.initial if is_followed else f"{person.initial}."
        return key, {"first": person.first, "last": person.last, "full": person.full}[place.kind]

    def _prefix(self, place: Placeholder) -> tuple[str, str]:
        after = self._note.text[place.stop : place.stop + 40].lstrip().lower()
        is_before_last_name = after.startswith(("[**last name", "[**known lastname"))
        key = f"staff:{self._stay}/{place.number}"
        sex = person_of(self._seed, key).sex
        number = draw(self._seed, "prefix", key, str(is_before_last_name))
        return key, prefix_of(sex, number, is_before_last_name=is_before_last_name)

    def _owner(self, place: Placeholder) -> str:
        if place.kind in _OWN:
            return f"{self._patient.key}/{place.number}"
        if place.number:
            return f"{place.kind}:{place.number}"
        if place.kind in _EACH:
            return f"{place.kind}:{self._note.row}/{place.start}"
        return f"{place.kind}:{self._stay}"

    def _date(self, place: Placeholder) -> str:
        if place.category == BLANK:
            return self._blank_date(place)
        key = (place.number or str(place.start), str(self._note.row) if not place.number else "")
        number = draw(self._seed, "date", self._patient.key, *key)
        context = DateContext(self._patient.interval, self._near, number)
        return new_date(place.content, place.category, number=place.number, context=context)

    def _blank_date(self, place: Placeholder) -> str:
        before = self._note.text[max(0, place.start - 24) : place.start].lower()
        if "birth" in before or "dob" in before or "d.o.b" in before:
            return self._patient.birth.isoformat()
        return self._moved(self._near).isoformat()

    def _moved(self, day: date) -> date:
        try:
            return self._patient.interval.move(day)
        except OverflowError:
            return self._patient.birth


def _years(birth: date, day: date) -> int:
    return max(0, day.year - birth.year - ((day.month, day.day) < (birth.month, birth.day)))


def _moved(chart_time: str, patient: Patient) -> str:
    day = parsed_day(chart_time)
    if day is None:
        return chart_time
    try:
        return patient.interval.move(day).isoformat() + chart_time[10:]
    except OverflowError:
        return ""


def dummy_people(patients: PatientTable, *, seed: int) -> Iterator[dict[str, object]]:
    """Yield what is known of each patient: the identity, and how far dates move."""
    for patient_id in patients:
        facts = patients.facts(patient_id)
        patient = patient_of(seed, f"patient:{patient_id}", facts)
        person = patient.person
        yield {
            "identity": patient.key,
            "patient_id": patient_id,
            "first": person.first,
            "initial": person.initial,
            "last": person.last,
            "sex": person.sex,
            "is_sex_known": facts.sex != "",
            "moved_days": patient.interval.n_days,
        }


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
