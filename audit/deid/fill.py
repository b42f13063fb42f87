"""Fills typed placeholders with an identity: a note with names, and where each value stands.

Comes in: a note with placeholders, its patient's identity. Goes out: the note with names, and a
span for every value with its type and whose it is. A placeholder of unknown kind stays.

Source: paper 002, section 2.1, steps 4 and 5. Differs: the type of a value follows from its kind
and its form, it is not guessed by a model and checked by people.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta

from audit.corpus.build import PatientTable, facts_of_note
from audit.deid.masks import FAMILY, KINDS, OVER_89, PATIENT, Mark, MaskKind, find_marks, mark_text
from audit.names import people
from audit.names.people import (
    JAPANESE,
    Facts,
    Identity,
    PersonName,
    Profile,
    age_on,
    draw,
    email_of,
    full_form,
    hospital_of,
    label_of,
    name_of,
    prefix_of,
    record_number,
    value_of,
    written,
)
from audit.notes.dates import (
    STYLES,
    DateContext,
    Interval,
    in_japanese,
    interval_for,
    new_date,
    parsed_day,
    written_date,
)
from audit.notes.read import Note
from audit.notes.spans import TYPES, Span, TaggedDocument, tagged

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
        """Return what is known about a patient."""
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


_OLDEST_AGES = 10
_YOUNG_STAFF, _N_STAFF_YEARS = 1935, 60
_OWN = frozenset(
    {"address", "postcode", "telephone", "email", "hospital", "record_number", "my_number"}
    | {"pension", "insurer", "insured", "resident", "licence", "passport"}
)
# The same for a patient in all notes; the others belong to the stay.
_OF_PATIENT = frozenset({"company", "school", "job", "ethnicity", "country", "state"})
_ENGLISH_STYLES = ("%m/%d/%Y", "%Y-%m-%d", "%B %d, %Y")
_HOLIDAYS = ("正月", "お盆", "大型連休", "クリスマス", "七五三", "敬老の日")


@dataclass(frozen=True, slots=True)
class NoteContext:
    """Whose note is filled, and when it was written.

    Attributes
    ----------
    seed
        Of all draws.
    identity
        Of the patient.
    stay
        Of the hospital stay: staff and places are the same within one.
    note
        Of the note, different for each one.
    near
        The note's day as the source has it.
    interval
        By which the patient's dates move.
    locale
        Of the values.
    """

    seed: int
    identity: Identity
    stay: str
    note: str
    near: date
    interval: Interval
    locale: str


@dataclass(frozen=True, slots=True)
class Value:
    """A text that stands for a mask: of which type ("" for none), and whose it is."""

    text: str
    label: str
    person: str


class ValueWriter:
    """Writes the values of one note."""

    def __init__(self, context: NoteContext) -> None:
        self._context = context
        self._is_japanese = context.locale == JAPANESE
        self._day = _moved(context.near, context.interval)
        self._style = self._draw("date style", context.note)

    def value(self, mark: Mark, kind: MaskKind) -> Value:
        """Return the value of a placeholder of a known kind."""
        content = mark.content
        if content is not None and content.startswith("=") and len(content) > 1:
            return Value(content[1:], kind.label, self._context.identity.key)
        if kind.role:
            return self._name(mark, kind)
        if kind.value == "prefix":
            sex = mark.sex or self._context.identity.sex
            text = prefix_of(sex, self._draw("prefix", mark.number), is_before_last_name=False)
            return Value(text, "", "")
        if kind.value == "age":
            return self._own(kind, self._age(content))
        if kind.value == "sex":
            return self._own(kind, self._sex())
        if kind.value == "birth_date":
            return self._own(kind, self._dated(self._context.identity.birth))
        if kind.value.endswith(("date", "date_range")):
            return self._own(kind, self._date(mark, kind))
        if kind.value in _OWN and not mark.number:
            return self._own(kind, getattr(self._context.identity, kind.value))
        return self._other(mark, kind)

    def _draw(self, purpose: str, *keys: str) -> int:
        return draw(self._context.seed, purpose, *keys)

    def _own(self, kind: MaskKind, text: str) -> Value:
        # English identities lack some Japanese numbers.
        key = self._context.identity.key
        return Value(text or str(self._draw(kind.value, key) % 10**10), kind.label, key)

    def _name(self, mark: Mark, kind: MaskKind) -> Value:
        key, name = self._person(mark, kind.role)
        form = kind.value
        if form == "full":
            place = self._draw("form", self._context.note, str(mark.start))
            form = full_form(name.locale, place)
        elif form == "reversed" and self._is_japanese:
            form = "joined"
        return Value(written(name, form), label_of(form), key)

    def _person(self, mark: Mark, role: str) -> tuple[str, PersonName]:
        identity = self._context.identity
        if role == PATIENT:
            return identity.key, identity.name
        owner = identity.key if role == FAMILY else self._context.stay
        key = "/".join(part for part in (f"{role}:{owner}", mark.number, mark.sex) if part)
        sex = mark.sex or "MF"[self._draw("sex", key) & 1]
        year = _YOUNG_STAFF + self._draw("year", key) % _N_STAFF_YEARS
        name = name_of(
            self._context.seed, key, sex=sex, birth_year=year, locale=self._context.locale
        )
        if role == FAMILY and self._draw("family", key) % 4:  # three of four, our choice
            own = identity.name.surname
            name = PersonName(own, name.given, name.middle, name.locale)
        return key, name

    def _age(self, content: str | None) -> str:
        if content == OVER_89:
            return str(90 + self._draw("age", self._context.identity.key) % _OLDEST_AGES)
        return str(age_on(self._context.identity.birth, self._day))

    def _sex(self) -> str:
        words = ("男性", "女性") if self._is_japanese else ("male", "female")
        return words[self._context.identity.sex == "F"]

    def _dated(self, day: date) -> str:
        if self._is_japanese:
            return written_date(day, style=STYLES[self._style % len(STYLES)])
        form = _ENGLISH_STYLES[self._style % len(_ENGLISH_STYLES)]
        return day.strftime(form)

    def _date(self, mark: Mark, kind: MaskKind) -> str:
        key = self._context.identity.key
        if mark.content:
            place = mark.number or f"{self._context.note}/{mark.start}"
            context = DateContext(
                self._context.interval, self._context.near, self._draw("date", key, place)
            )
            text = new_date(mark.content, mark.content, number=mark.number, context=context)
            if not self._is_japanese:
                return text
            return in_japanese(text, style=STYLES[self._style % len(STYLES)])
        stay = self._context.stay
        before = {"discharge_date": 0, "admission_date": 1 + self._draw("stay", stay) % 9}
        days = before.get(
            kind.value, self._draw(kind.value, stay, mark.number or str(mark.start)) % 10
        )
        return self._dated(_earlier(self._day, days))

    def _other(self, mark: Mark, kind: MaskKind) -> Value:
        owner = self._context.identity.key if kind.value in _OF_PATIENT else self._context.stay
        person = f"{kind.value}:{owner}/{mark.number}" if mark.number else f"{kind.value}:{owner}"
        number = self._draw(kind.value, person)
        return Value(self._drawn(kind.value, number, person), kind.label, person)

    def _drawn(self, value: str, number: int, person: str) -> str:
        locale = self._context.locale
        makers = {
            "hospital": hospital_of,
            "ward": people.ward,
            "school": people.school,
            "company": people.company,
            "job": people.job,
            "telephone": people.telephone,
        }
        if value in makers:
            return makers[value](number, locale=locale)
        if value == "record_number":
            return record_number(number, n_digits=8 if self._is_japanese else 7)
        if value == "email":
            sex = "MF"[number & 1]
            seed = self._context.seed
            name = name_of(seed, person, sex=sex, birth_year=1960, locale=locale)
            return email_of(name, number=number)
        if self._is_japanese:
            return _japanese(value, number)
        return _english(value, number)


def _japanese(value: str, number: int) -> str:
    if value == "address":
        return people.japanese_address(number)
    if value == "postcode":
        return people.japanese_postcode(number)
    if value == "city":
        return people.japanese_city(number)
    if value == "state":
        return people.prefecture(number)
    if value == "country":
        return people.country(number)
    if value == "ethnicity":
        return f"{people.country(number)}系"
    if value == "holiday":
        return _HOLIDAYS[number % len(_HOLIDAYS)]
    return _english(value, number)


def _english(value: str, number: int) -> str:
    if value == "postcode":
        return value_of("zipcode", number)
    known = {
        "url", "identifier", "serial_number", "po_box", "city", "address", "state", "country",
        "holiday", "ethnicity",
    }  # fmt: skip
    return value_of(value if value in known else "serial_number", number)


def _moved(day: date, interval: Interval) -> date:
    try:
        return interval.move(day)
    except OverflowError:
        return day


def _earlier(day: date, days: int) -> date:
    return day - timedelta(days=days) if day.toordinal() > days else day


_AGE = "Age"
_YEARS_OLD = ("歳", "才")


@dataclass(frozen=True, slots=True)
class FilledSpan:
    """One value in a text.

    Attributes
    ----------
    start, end
        In characters of the text.
    label
        One of the five types.
    kind
        The name of its kind of mask.
    person
        Whose value it is.
    """

    start: int
    end: int
    label: str
    kind: str
    person: str

    def __post_init__(self) -> None:
        """Check offsets and type, once."""
        if not 0 <= self.start < self.end or self.label not in TYPES:
            raise ValueError("a span is empty, or of no known type")


@dataclass(frozen=True)
class FilledNote:
    """A note with names.

    `values` are the texts of the spans, in their order; `n_left` placeholders of unknown kind
    stayed.
    """

    text: str
    spans: tuple[FilledSpan, ...]
    values: tuple[str, ...]
    n_left: int

    def document(self, doc_id: str, *, patient_id: str | None) -> TaggedDocument:
        """Return the note as taggers and measurement take it."""
        spans = [Span(span.start, span.end, span.label) for span in self.spans]
        return tagged(doc_id, text=self.text, spans=spans, patient_id=patient_id)


def filled(text: str, *, context: NoteContext) -> FilledNote:
    """Return a note with every placeholder of a known kind filled.

    The same text and context give the same note, whatever other notes there are.
    """
    writer = ValueWriter(context)
    pieces: list[str] = []
    spans: list[FilledSpan] = []
    values: list[str] = []
    done = length = n_left = 0
    for mark in find_marks(text):
        if mark.kind is None:
            n_left += 1
            continue
        value = writer.value(mark, mark.kind)
        pieces += [text[done : mark.start], value.text]
        start = length + mark.start - done
        done = mark.stop
        if mark.kind.name == _AGE and text[done : done + 1] in _YEARS_OLD:
            value = replace(value, text=value.text + text[done])
            pieces[-1] = value.text
            done += 1
        length = start + len(value.text)
        if value.label:
            spans.append(FilledSpan(start, length, value.label, mark.kind.name, value.person))
            values.append(value.text)
    pieces.append(text[done:])
    return FilledNote("".join(pieces), tuple(spans), tuple(values), n_left)
