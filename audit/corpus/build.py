"""Builds a corpus: D_private with dummy identities, D_public as it was, and the truth about both.

Comes in: a source of notes with placeholders, a seed. Goes out: a folder with `private.jsonl`,
`public.jsonl`, `truth.jsonl`, `people.jsonl`, `refused.jsonl` and `summary.json`. Every byte
depends on the notes and the seed, not on the number of workers.

Source: Nakamura et al., section 3.2.
"""

from __future__ import annotations

import functools
import hashlib
import json
import multiprocessing
import os
import re
import threading
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

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
from audit.notes.placeholders import BLANK, NAME_KINDS, Placeholder, find_placeholders, has_marks
from audit.notes.read import Note, NoteSource
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.shelf import new_file, whole_folder
from audit.tables import RowNote

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 3
_WORK: list[Callable[[Any], Any]] = []


@contextmanager
def ordered_map(
    work: Callable[[Item], Result], *, n_workers: int
) -> Iterator[Callable[[Iterator[Item]], Iterator[Result]]]:
    """Give a function that maps `work` over items; with one worker, in this process.

    Raises
    ------
    AuditError
        If a worker is ended from outside.
    """
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


PRIVATE, PUBLIC, TRUTH = "private.jsonl", "public.jsonl", "truth.jsonl"
PEOPLE, REFUSED, SUMMARY = "people.jsonl", "refused.jsonl", "summary.json"
FORMAT = 1
MAX_CATEGORIES = 5_000
OTHERS = "(others)"


@dataclass(frozen=True)
class CategoryCount:
    """How often a category occurs, what stands for it, and the row where it occurs first."""

    category: str
    kind: str
    n: int
    first_row: int


@dataclass(frozen=True)
class CorpusSummary:
    """What a build gave.

    Attributes
    ----------
    source_kind
        "csv", "jsonl", "parquet" or "folder".
    seed
        Of the identities.
    has_blanks
        Whether `___` was taken for a placeholder: it is where no note has `[** ... **]`.
    n_notes, n_refused
        Rows that became notes, and rows that were refused (each in `refused.jsonl`).
    n_patients, n_named_patients
        With an id; and how many of them are named, first and last name together.
    n_inserted, n_left, n_malformed
        Placeholders replaced; those of unknown category, which stay; openings never closed.
    replaced, unknown
        By category, most frequent first.
    digests
        File -> SHA-256.
    faker
        Version of the names' source: another one may give other identities.
    """

    source_kind: str
    seed: int
    has_blanks: bool
    n_notes: int
    n_refused: int
    n_patients: int
    n_named_patients: int
    n_inserted: int
    n_left: int
    n_malformed: int
    replaced: tuple[CategoryCount, ...]
    unknown: tuple[CategoryCount, ...]
    digests: Mapping[str, str]
    faker: str


class CategoryCounter:
    """Counts categories; beyond 5,000 different ones they are counted together."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], int] = {}

    def add(self, category: str, kind: str, *, row: int, n: int = 1) -> None:
        """Count `n` places of a category, the first of them in this row."""
        key = (category, kind)
        if key not in self._counts and len(self._counts) >= MAX_CATEGORIES:
            key = (OTHERS, kind)
        self._counts[key] += n
        self._first.setdefault(key, row)

    def merge(self, counts: tuple[CategoryCount, ...]) -> None:
        """Add the counts of a later part."""
        for count in counts:
            self.add(count.category, count.kind, row=count.first_row, n=count.n)

    def counts(self) -> tuple[CategoryCount, ...]:
        """Return the counts in the order of their first place."""
        return tuple(
            CategoryCount(category, kind, n, self._first[category, kind])
            for (category, kind), n in self._counts.items()
        )

    def ranked(self) -> tuple[CategoryCount, ...]:
        """Return the counts, most frequent first, then by name."""
        return tuple(sorted(self.counts(), key=lambda c: (-c.n, c.category, c.kind)))


def summary_bytes(summary: CorpusSummary) -> bytes:
    """Return the summary as JSON."""
    content = {"format": FORMAT, **asdict(summary)}
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def read_summary(folder: Path) -> CorpusSummary:
    """Read the summary of a built corpus.

    Raises
    ------
    AuditError
        If the folder is no whole corpus of this version.
    """
    try:
        content = json.loads((folder / SUMMARY).read_bytes())
        if content.pop("format") != FORMAT:
            raise ValueError
        for name in ("replaced", "unknown"):
            content[name] = tuple(CategoryCount(**count) for count in content[name])
        return CorpusSummary(**content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise AuditError("This is no built corpus.", where="corpus folder") from None


_OLDEST_AGES = 10
# Of one patient, whatever the admission.
_OWN = frozenset({"medical_record_number", "ssn", "email"})
# Another one each time, unless a number says that it is the same.
_EACH = frozenset({"clip_number", "job_number", "serial_number", "identifier"})


@dataclass(frozen=True, slots=True)
class Inserted:
    """One value put in the place of a placeholder.

    Attributes
    ----------
    start, stop
        In characters of the new text.
    source_start, source_stop
        Of the placeholder, in characters of the note.
    category, kind, role
        Of the placeholder.
    identity
        Whose value it is: values of one identity and kind are the same, but for dates, which move
        by the interval of the patient, and for the full stop of an initial.
    value
        The text that was put in.
    group
        Names of one person that stand together have the same number; -1 for what is no name.
    """

    start: int
    stop: int
    source_start: int
    source_stop: int
    category: str
    kind: str
    role: str
    identity: str
    value: str
    group: int


@dataclass(frozen=True, slots=True)
class Left:
    """A placeholder that stayed: its place in the new text and in the note, and its category."""

    start: int
    stop: int
    source_start: int
    source_stop: int
    category: str


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A note with dummy identities.

    Attributes
    ----------
    text
        The new text.
    inserted, left
        What was put in, and what stayed, in order.
    n_malformed
        Openings `[**` that are never closed; they stay.
    """

    text: str
    inserted: tuple[Inserted, ...]
    left: tuple[Left, ...]
    n_malformed: int


def patient_key(note: Note) -> str:
    """Return who a note is about, as the truth file says it."""
    return f"patient:{note.patient_id}" if note.patient_id else f"note:{note.row}"


def with_surrogates(note: Note, *, facts: Facts, seed: int, has_blanks: bool = False) -> Surrogate:
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
        return Surrogate(note.text, (), (), parsed.n_malformed)
    writer = _Writer(note, patient_of(seed, patient_key(note), facts), seed)
    pieces: list[str] = []
    inserted: list[Inserted] = []
    left: list[Left] = []
    done = length = 0
    for place in parsed.places:
        pieces.append(note.text[done : place.start])
        length += place.start - done
        done = place.stop
        if place.kind == "unknown":
            value = note.text[place.start : place.stop]
            left.append(Left(length, length + len(value), place.start, place.stop, place.category))
        else:
            identity, value = writer.value(place)
            inserted.append(_inserted(place, length, identity, value))
        pieces.append(value)
        length += len(value)
    pieces.append(note.text[done:])
    return Surrogate("".join(pieces), tuple(inserted), tuple(left), parsed.n_malformed)


def _inserted(place: Placeholder, start: int, identity: str, value: str) -> Inserted:
    return Inserted(
        start=start,
        stop=start + len(value),
        source_start=place.start,
        source_stop=place.stop,
        category=place.category,
        kind=place.kind,
        role=place.role,
        identity=identity,
        value=value,
        group=place.group,
    )


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


_encode = json.JSONEncoder(ensure_ascii=False).encode
_INSERTED = tuple(field.name for field in fields(Inserted))
_LEFT = tuple(field.name for field in fields(Left))


@dataclass(frozen=True)
class BuildSettings:
    """What every note is built with; `has_blanks`: whether `___` is a placeholder."""

    seed: int
    has_blanks: bool


@dataclass(frozen=True)
class Batch:
    """N notes and N facts about their patients."""

    notes: tuple[Note, ...]
    facts: tuple[Facts, ...]


@dataclass(frozen=True)
class Built:
    """What became of a batch.

    Attributes
    ----------
    private, public, truth
        Lines of JSON.
    n_notes, n_malformed
        Notes; placeholders that are opened and never closed.
    replaced, unknown
        Places by category.
    named
        Patient id -> how often first and last name stand together.
    """

    private: bytes
    public: bytes
    truth: bytes
    n_notes: int
    n_malformed: int
    replaced: tuple[CategoryCount, ...]
    unknown: tuple[CategoryCount, ...]
    named: Mapping[str, int]


def build_batch(settings: BuildSettings, batch: Batch) -> Built:
    """Return what a batch gives; the same in every process."""
    private, public, truth = bytearray(), bytearray(), bytearray()
    replaced, unknown = CategoryCounter(), CategoryCounter()
    named: Counter[str] = Counter()
    n_malformed = 0
    for note, facts in zip(batch.notes, batch.facts, strict=True):
        new = with_surrogates(note, facts=facts, seed=settings.seed, has_blanks=settings.has_blanks)
        patient = patient_of(settings.seed, patient_key(note), facts)
        private += note_line(note, text=new.text, chart_time=_moved(note.chart_time, patient))
        public += note_line(note, text=note.text, chart_time=note.chart_time)
        if new.inserted or new.left or new.n_malformed:
            truth += json_line(_truth(note, new))
        for place in new.inserted:
            replaced.add(place.category, place.kind, row=note.row)
        for left in new.left:
            unknown.add(left.category, "unknown", row=note.row)
        n_malformed += new.n_malformed
        if note.patient_id:
            named[note.patient_id] += n_full_names(new.inserted)
    return Built(
        private=bytes(private),
        public=bytes(public),
        truth=bytes(truth),
        n_notes=len(batch.notes),
        n_malformed=n_malformed,
        replaced=replaced.counts(),
        unknown=unknown.counts(),
        named=+named,
    )


def n_full_names(inserted: tuple[Inserted, ...]) -> int:
    """Return how often the patient's first and last name stand together."""
    parts: dict[int, set[str]] = {}
    for place in inserted:
        if place.role == "patient":
            parts.setdefault(place.group, set()).add(place.kind)
    return sum("full" in kinds or {"first", "last"} <= kinds for kinds in parts.values())


def people_lines(
    patients: Iterator[tuple[str, Facts]], *, seed: int, named: Mapping[str, int]
) -> Iterator[bytes]:
    """Return a line about each patient: the identity, and how often it is named in full."""
    for patient_id, facts in patients:
        patient = patient_of(seed, f"patient:{patient_id}", facts)
        person = patient.person
        yield json_line(
            {
                "identity": patient.key,
                "patient_id": patient_id,
                "first": person.first,
                "initial": person.initial,
                "last": person.last,
                "sex": person.sex,
                "is_sex_known": facts.sex != "",
                "moved_days": patient.interval.n_days,
                "n_full_names": named.get(patient_id, 0),
            }
        )


def note_line(note: Note, *, text: str, chart_time: str) -> bytes:
    """Return a note as a line of JSON."""
    return json_line(
        {
            "row": note.row,
            "note_id": note.note_id,
            "patient_id": note.patient_id,
            "admission_id": note.admission_id,
            "category": note.category,
            "chart_time": chart_time,
            "text": text,
        }
    )


def json_line(content: Mapping[str, object]) -> bytes:
    """Return a line of JSON."""
    return (_encode(content) + "\n").encode()


def _truth(note: Note, new: Surrogate) -> dict[str, object]:
    return {
        "row": note.row,
        "note_id": note.note_id,
        "patient": patient_key(note),
        "inserted": [{name: getattr(place, name) for name in _INSERTED} for place in new.inserted],
        "left": [{name: getattr(place, name) for name in _LEFT} for place in new.left],
        "n_malformed": new.n_malformed,
    }


def _moved(chart_time: str, patient: Patient) -> str:
    day = parsed_day(chart_time)
    if day is None:
        return chart_time
    try:
        return patient.interval.move(day).isoformat() + chart_time[10:]
    except OverflowError:
        return ""


_WHERE = "corpus folder"


class CorpusFile:
    """A file that is being written, and the SHA-256 of what is in it."""

    def __init__(self, path: Path) -> None:
        self._file = new_file(path)
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._file.write(data)
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


FILES = (PRIVATE, PUBLIC, TRUTH, PEOPLE, REFUSED, SUMMARY)
SURVEY, BUILD = "reading who the notes are about", "building the corpus"
_BATCH_CHARS = 1_000_000
_BATCH_NOTES = 1000


def build_corpus(
    source: NoteSource,
    *,
    out: Path,
    seed: int,
    n_workers: int = 1,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> CorpusSummary:
    """Build a corpus from notes with placeholders.

    Parameters
    ----------
    source
        From `open_notes`; it is read twice.
    out
        The folder to make: must not be there, or be empty. It appears when it is whole.
    seed
        Of the identities.
    n_workers
        Processes beside this one; 1 builds in this one.
    progress, should_stop
        Asked once for each megabyte; the unit is bytes of the source.

    Raises
    ------
    AuditError
        If the source cannot be read to its end, changes while it is read, holds no note, or the
        folder cannot be written.
    AuditCancelled
        If the person asked to stop; nothing is left.
    """
    totals = {SURVEY: float(source.n_bytes), BUILD: float(source.n_bytes)}
    meter = Meter(totals, listener=progress, should_stop=should_stop)
    with corpus_folder(out, names=FILES) as files:
        table, settings = _survey(source, meter, seed=seed)
        tally = _Tally()
        with ordered_map(partial(build_batch, settings), n_workers=n_workers) as build:
            batches = _batches(source, table, meter, refused=files[REFUSED], tally=tally)
            for built in build(batches):
                files[PRIVATE].write(built.private)
                files[PUBLIC].write(built.public)
                files[TRUTH].write(built.truth)
                tally.add(built)
        meter.finish(BUILD)
        if tally.n_rows != table.n_rows:
            raise AuditError("The notes changed while they were read.", where="notes")
        if not tally.n_notes:
            raise AuditError("No row is a note.", where="notes")
        patients = ((name, table.patients.facts(name)) for name in table.patients)
        for line in people_lines(patients, seed=seed, named=tally.named):
            files[PEOPLE].write(line)
        digests = {name: files[name].digest for name in FILES if name != SUMMARY}
        summary = tally.summary(source, settings, digests, n_patients=len(table.patients))
        files[SUMMARY].write(summary_bytes(summary))
    return summary


@dataclass(frozen=True)
class _Surveyed:
    patients: PatientTable
    n_rows: int


def _survey(source: NoteSource, meter: Meter, *, seed: int) -> tuple[_Surveyed, BuildSettings]:
    table = PatientTable()
    marks = False
    n_rows = 0
    for note in source.read(on_bytes=partial(meter.add, SURVEY)):
        n_rows += 1
        if isinstance(note, Note):
            table.add(note)
            marks = marks or has_marks(note.text)
    meter.finish(SURVEY)
    return _Surveyed(table, n_rows), BuildSettings(seed=seed, has_blanks=not marks)


class _Tally:
    """Counts over all batches."""

    def __init__(self) -> None:
        self.n_notes = self.n_refused = self.n_malformed = 0
        self.named: Counter[str] = Counter()
        self._replaced = CategoryCounter()
        self._unknown = CategoryCounter()

    @property
    def n_rows(self) -> int:
        return self.n_notes + self.n_refused

    def add(self, built: Built) -> None:
        self.n_notes += built.n_notes
        self.n_malformed += built.n_malformed
        self.named.update(built.named)
        self._replaced.merge(built.replaced)
        self._unknown.merge(built.unknown)

    def summary(
        self,
        source: NoteSource,
        settings: BuildSettings,
        digests: dict[str, str],
        *,
        n_patients: int,
    ) -> CorpusSummary:
        from faker import VERSION

        replaced, unknown = self._replaced.ranked(), self._unknown.ranked()
        return CorpusSummary(
            source_kind=source.kind,
            seed=settings.seed,
            has_blanks=settings.has_blanks,
            n_notes=self.n_notes,
            n_refused=self.n_refused,
            n_patients=n_patients,
            n_named_patients=len(self.named),
            n_inserted=sum(count.n for count in replaced),
            n_left=sum(count.n for count in unknown),
            n_malformed=self.n_malformed,
            replaced=replaced,
            unknown=unknown,
            digests=digests,
            faker=VERSION,
        )


def _batches(
    source: NoteSource, table: _Surveyed, meter: Meter, *, refused: CorpusFile, tally: _Tally
) -> Iterator[Batch]:
    notes: list[Note] = []
    n_chars = 0
    for note in source.read(on_bytes=partial(meter.add, BUILD)):
        if isinstance(note, RowNote):
            tally.n_refused += 1
            refused.write(json_line(asdict(note)))
            continue
        notes.append(note)
        n_chars += len(note.text)
        if n_chars >= _BATCH_CHARS or len(notes) >= _BATCH_NOTES:
            yield _with_facts(notes, table.patients)
            notes, n_chars = [], 0
    if notes:
        yield _with_facts(notes, table.patients)


def _with_facts(notes: list[Note], table: PatientTable) -> Batch:
    try:
        facts = [
            table.facts(note.patient_id) if note.patient_id else facts_of_note(note)
            for note in notes
        ]
    except KeyError:
        raise AuditError("The notes changed while they were read.", where="notes") from None
    return Batch(tuple(notes), tuple(facts))
