"""Fills typed placeholders with an identity: a note with names, and where each value stands.

Comes in: a note with placeholders, its patient's identity. Goes out: the note with names, and a
span for every value with its type and whose it is. A placeholder of unknown kind stays.

Source: paper 002, section 2.1, steps 4 and 5. Differs: the type of a value follows from its kind
and its form, it is not guessed by a model and checked by people.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from audit.corpus.build import PatientTable, facts_of_note, patient_key
from audit.deid.masks import FAMILY, KINDS, OVER_89, PATIENT, Mark, MaskKind, find_marks, mark_text
from audit.names import people
from audit.notes import dates
from audit.notes.read import Note

UNDATED = date(2150, 1, 1)
_MAX_YEARS = 110
# The first character decides quickly, which is why what stands before it is asked after it.
_ENGLISH_AGE = re.compile(
    r"([0-9](?<![\d.][0-9])[0-9]{0,2})(?=\s?-?\s?(?:(?:years?|yrs?)\s?-?\s?old\b|y\.?/?o\b))",
    re.IGNORECASE,
)
_JAPANESE_AGE = re.compile(r"([0-9０-９](?<![\d.．].)[0-9０-９]{0,2})(?=\s?[歳才])")
_JAPANESE_SEX = re.compile(r"男性|女性|男児|女児|男子|女子|性別\s*[:：]\s*[男女]")


@dataclass(slots=True)
class _Known:
    """What the notes of a patient say; `day` is that of the first note with an age."""

    age: int | None = None
    day: date | None = None
    sex: str = ""

    def add(self, note: Note) -> None:
        if self.age is None and (age := read_age(note.text)) is not None:
            self.age, self.day = age, dates.parse_day(note.chart_time)
        if not self.sex and (match := _JAPANESE_SEX.search(note.text)):
            self.sex = "M" if "男" in match[0] else "F"


class ProfileTable:
    """What is known about every patient of a source."""

    def __init__(self) -> None:
        self._table = PatientTable()
        self._known = defaultdict[str, _Known](_Known)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, note: Note) -> None:
        """Take in a note; one without a patient is passed over."""
        self._table.add(note)
        if note.patient_id:
            self._known[note.patient_id].add(note)

    def context(self, note: Note, *, seed: int, locale: str) -> NoteContext:
        """Return whose note it is; KeyError if no note of its patient was taken in."""
        owner = patient_key(note)
        if note.patient_id:
            facts = self._table.facts(note.patient_id)
            known = self._known[note.patient_id]
        else:
            known, facts = _Known(), facts_of_note(note)
            known.add(note)
        first = facts.first_day or UNDATED
        number = people.draw(seed, "interval", owner)
        interval = dates.choose_interval(first, facts.last_day or first, draw=number)
        day = _moved(known.day or first, interval, beyond=date(2010, 1, 1))
        profile = people.Profile(facts.sex or known.sex, known.age, day)
        return NoteContext(
            seed=seed,
            identity=people.identity_of(seed, owner, profile, locale=locale),
            stay=f"{owner}/{note.admission_id}",
            note=f"{owner}/{note.row}",
            near=dates.parse_day(note.chart_time) or first,
            interval=interval,
            locale=locale,
        )


def read_age(text: str) -> int | None:
    """Return the first age of a text, English or Japanese; None where there is none."""
    ages = (
        int(unicodedata.normalize("NFKC", match[1]))
        for pattern in _patterns(text)
        for match in pattern.finditer(text)
    )
    return next((age for age in ages if age <= _MAX_YEARS), None)


def _patterns(text: str) -> list[re.Pattern[str]]:
    has_word = "歳" in text or "才" in text
    return [_JAPANESE_AGE, _ENGLISH_AGE] if has_word else [_ENGLISH_AGE]


def with_marked_ages(text: str) -> str:
    """Return a text in which ages that it tells itself are typed placeholders that keep them."""
    for pattern in _patterns(text):
        text = pattern.sub(lambda age: mark_text(KINDS["Age"], content=f"={age[1]}"), text)
    return text


def _moved(day: date, interval: dates.Interval, *, beyond: date) -> date:
    try:
        return interval.move(day)
    except OverflowError:
        return beyond


_OLDEST_AGES = 10
_YOUNG_STAFF, _N_STAFF_YEARS = 1935, 60
# The same for a patient in all notes; the others belong to the stay.
_OF_PATIENT = frozenset({"company", "school", "job", "ethnicity", "country", "state"})
_ENGLISH_STYLES = ("%m/%d/%Y", "%Y-%m-%d", "%B %d, %Y")
_OF_BOTH = ("hospital", "ward", "school", "company", "job", "telephone", "record_number")
_IN_JAPANESE = ("address", "postcode", "city", "state", "country", "ethnicity", "holiday")
_IN_ENGLISH = {"postcode": "zipcode"} | {
    name: name
    for name in (
        "url",
        "identifier",
        "po_box",
        "city",
        "address",
        "state",
        "country",
        "holiday",
        "ethnicity",
    )
}
"""What `value_of` calls a value; all others are serial numbers."""


@dataclass(frozen=True, slots=True)
class NoteContext:
    """Whose note is filled, and when it was written: the source's day, and how dates move.

    `stay` and `note` are keys: staff and places are the same within a stay, no two notes have one.
    """

    seed: int
    identity: people.Identity
    stay: str
    note: str
    near: date
    interval: dates.Interval
    locale: str

    @property
    def is_japanese(self) -> bool:
        """Whether the values are Japanese."""
        return self.locale == people.JAPANESE

    @property
    def day(self) -> date:
        """The note's day as it is moved."""
        return _moved(self.near, self.interval, beyond=self.near)

    def draw(self, purpose: str, *keys: str) -> int:
        """Return a number of 64 bits for one place."""
        return people.draw(self.seed, purpose, *keys)

    def style(self, ways: Sequence[str]) -> str:
        """Return which of the ways of writing dates the note has."""
        return ways[self.draw("date style", self.note) % len(ways)]


_Value = tuple[str, str, str]
"""A text that stands for a mask, of which type it is ("" for none), and whose."""


def _value(mark: Mark, kind: MaskKind, context: NoteContext) -> _Value:
    """Return the value of a placeholder of a known kind."""
    identity, form, content = context.identity, kind.value, mark.content or ""
    if content.startswith("=") and len(content) > 1:
        return content[1:], kind.label, identity.key
    if kind.role:
        return _name(mark, kind, context)
    if form == "prefix":
        sex, number = mark.sex or identity.sex, context.draw("prefix", mark.number)
        return people.prefix_of(sex, number, is_before_last_name=False), "", ""
    if form == "age":
        oldest = 90 + context.draw("age", identity.key) % _OLDEST_AGES
        text = str(oldest if content == OVER_89 else people.age_on(identity.birth, context.day))
    elif form == "sex":
        words = ("男性", "女性") if context.is_japanese else ("male", "female")
        text = words[identity.sex == "F"]
    elif form == "birth_date":
        text = _dated(identity.birth, context)
    elif form.endswith(("date", "date_range")):
        text = _date(mark, kind, context)
    elif form in identity.values and not mark.number:
        text = identity.values[form]
    else:
        owner = identity.key if form in _OF_PATIENT else context.stay
        person = f"{form}:{owner}/{mark.number}" if mark.number else f"{form}:{owner}"
        return _drawn(form, person, context), kind.label, person
    # English identities lack some Japanese numbers.
    text = text or str(context.draw(form, identity.key) % 10**10)
    return text, kind.label, identity.key


def _name(mark: Mark, kind: MaskKind, context: NoteContext) -> _Value:
    key, name = _person(mark, kind.role, context)
    form = kind.value
    if form == "full":
        form = people.full_form(name.locale, context.draw("form", context.note, str(mark.start)))
    elif form == "reversed" and context.is_japanese:
        form = "joined"
    return people.written(name, form), people.label_of(form), key


def _person(mark: Mark, role: str, context: NoteContext) -> tuple[str, people.PersonName]:
    identity = context.identity
    if role == PATIENT:
        return identity.key, identity.name
    owner = identity.key if role == FAMILY else context.stay
    key = "/".join(part for part in (f"{role}:{owner}", mark.number, mark.sex) if part)
    sex = mark.sex or "MF"[context.draw("sex", key) & 1]
    year = _YOUNG_STAFF + context.draw("year", key) % _N_STAFF_YEARS
    name = people.name_of(context.seed, key, sex=sex, birth_year=year, locale=context.locale)
    if role == FAMILY and context.draw("family", key) % 4:  # three of four, our choice
        name = people.PersonName(identity.name.surname, name.given, name.middle, name.locale)
    return key, name


def _dated(day: date, context: NoteContext) -> str:
    if context.is_japanese:
        return dates.format_date(day, style=context.style(dates.STYLES))
    return day.strftime(context.style(_ENGLISH_STYLES))


def _date(mark: Mark, kind: MaskKind, context: NoteContext) -> str:
    if mark.content:
        place = mark.number or f"{context.note}/{mark.start}"
        number = context.draw("date", context.identity.key, place)
        moves = dates.DateContext(context.interval, context.near, number)
        text = dates.replace_date(mark.content, mark.content, number=mark.number, context=moves)
        if not context.is_japanese:
            return text
        return dates.format_japanese_date(text, style=context.style(dates.STYLES))
    days = context.draw(kind.value, context.stay, mark.number or str(mark.start)) % 10
    if kind.value == "discharge_date":
        days = 0
    elif kind.value == "admission_date":
        days = 1 + context.draw("stay", context.stay) % 9
    day = context.day
    return _dated(day - timedelta(days=days) if day.toordinal() > days else day, context)


def _drawn(value: str, person: str, context: NoteContext) -> str:
    number, locale = context.draw(value, person), context.locale
    if value in _OF_BOTH or (context.is_japanese and value in _IN_JAPANESE):
        return people.value_of(value, number, locale=locale)
    if value == "email":
        sex = "MF"[number & 1]
        name = people.name_of(context.seed, person, sex=sex, birth_year=1960, locale=locale)
        return people.email_of(name, number=number)
    return people.value_of(_IN_ENGLISH.get(value, "serial_number"), number)


@dataclass(frozen=True, slots=True)
class FilledSpan:
    """One value in a text: its type, the name of its kind of mask, and whose value it is."""

    start: int
    end: int
    label: str
    kind: str
    person: str


@dataclass(frozen=True)
class FilledNote:
    """A note with names; `n_left` placeholders of unknown kind stayed."""

    text: str
    spans: tuple[FilledSpan, ...]
    n_left: int


def filled(text: str, *, context: NoteContext) -> FilledNote:
    """Return a note with every placeholder of a known kind filled.

    The same text and context give the same note, whatever other notes there are.
    """
    new, done, n_left = "", 0, 0
    spans: list[FilledSpan] = []
    for mark in find_marks(text):
        if mark.kind is None:
            n_left += 1
            continue
        value, label, person = _value(mark, mark.kind, context)
        new += text[done : mark.start]
        done = mark.stop
        if mark.kind.name == "Age" and text[done : done + 1] in ("歳", "才"):
            value += text[done]
            done += 1
        if label:
            place = len(new), len(new) + len(value)
            spans.append(FilledSpan(*place, label, mark.kind.name, person))
        new += value
    return FilledNote(new + text[done:], tuple(spans), n_left)
