"""Surrogates: a note in which dummy identities stand where the placeholders stood.

Comes in: a note, what is known about its patient, a seed. Goes out: the text, and for every value
where it stands, what it is and whose. A placeholder of unknown kind stays and is listed.

Source: Nakamura et al., section 3.2. Differs: one identity for each patient in all notes, staff
the same within an admission, dates moved by one interval for each patient.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from audit.corpora.identities import Facts, Patient, Person, draw, patient_of, person_of
from audit.corpora.identity_values import prefix_of, value_of
from audit.corpora.notes import Note
from audit.corpora.placeholder_dates import DateContext, new_date, parsed_day
from audit.corpora.placeholders import BLANK, NAME_KINDS, Placeholder, find_placeholders

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
