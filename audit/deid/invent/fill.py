"""Fills typed placeholders with the values of an identity.

Input: a note with placeholders, and its patient's identity. Output: the note with names, and a span
for every value with its type and owner. A placeholder of unknown kind stays.

Source: paper 002, section 2.1, steps 4 and 5. Differs: the type of a value follows from its kind
and form; in the paper a model guesses it and people check it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from audit.corpus.build import PatientTable, facts_of_note, patient_key
from audit.deid.invent.masks import (
    FAMILY,
    KINDS,
    OVER_89,
    PATIENT,
    Mark,
    MaskKind,
    find_marks,
    mark_text,
)
from audit.names import people
from audit.notes import dates
from audit.notes.read import Note

UNDATED = date(2150, 1, 1)
_MAX_YEARS = 110
# The lookbehind comes after the first character, which rejects most places quickly.
_ENGLISH_AGE = re.compile(
    r"([0-9](?<![\d.][0-9])[0-9]{0,2})(?=\s?-?\s?(?:(?:years?|yrs?)\s?-?\s?old\b|y\.?/?o\b))",
    re.IGNORECASE,
)
_JAPANESE_AGE = re.compile(r"([0-9０-９](?<![\d.．].)[0-9０-９]{0,2})(?=\s?[歳才])")
_JAPANESE_SEX = re.compile(r"男性|女性|男児|女児|男子|女子|性別\s*[:：]\s*[男女]")


@dataclass(slots=True)
class _Clues:
    """Age and sex from the notes of a patient; `day` is the day of the first note with an age."""

    age: int | None = None
    day: date | None = None
    sex: str = ""

    def add(self, note: Note) -> None:
        if self.age is None and (age := find_age(note.text)) is not None:
            self.age, self.day = age, dates.parse_day(note.chart_time)
        if not self.sex and (match := _JAPANESE_SEX.search(note.text)):
            self.sex = "M" if "男" in match[0] else "F"


class ProfileTable:
    """The facts about every patient of a source."""

    def __init__(self) -> None:
        self._table = PatientTable()
        self._clues = defaultdict[str, _Clues](_Clues)

    def __len__(self) -> int:
        return len(self._clues)

    def add(self, note: Note) -> None:
        """Add a note; notes without a patient get their facts later, from the note alone."""
        self._table.add(note)
        if note.patient_id:
            self._clues[note.patient_id].add(note)

    def context(self, note: Note, *, seed: int, locale: str) -> NoteContext:
        """Return the context of a note; KeyError if no note of its patient was added."""
        owner = patient_key(note)
        if note.patient_id:
            facts = self._table.facts(note.patient_id)
            clues = self._clues[note.patient_id]
        else:
            clues, facts = _Clues(), facts_of_note(note)
            clues.add(note)
        first = facts.first_day or UNDATED
        number = people.draw(seed, "interval", owner)
        interval = dates.choose_interval(first, facts.last_day or first, draw=number)
        day = _move_day(clues.day or first, interval, fallback=date(2010, 1, 1))
        profile = people.Profile(facts.sex or clues.sex, clues.age, day)
        return NoteContext(
            seed=seed,
            identity=people.identity_of(seed, owner, profile, locale=locale),
            stay=f"{owner}/{note.admission_id}",
            note=f"{owner}/{note.row}",
            near=dates.parse_day(note.chart_time) or first,
            interval=interval,
            locale=locale,
        )


def find_age(text: str) -> int | None:
    """Return the first age in an English or Japanese text; None if there is none."""
    ages = (
        int(unicodedata.normalize("NFKC", match[1]))
        for pattern in _patterns(text)
        for match in pattern.finditer(text)
    )
    return next((age for age in ages if age <= _MAX_YEARS), None)


def _patterns(text: str) -> list[re.Pattern[str]]:
    has_word = "歳" in text or "才" in text
    return [_JAPANESE_AGE, _ENGLISH_AGE] if has_word else [_ENGLISH_AGE]


def mark_ages(text: str) -> str:
    """Replace the ages in a text by typed placeholders that keep these ages."""
    for pattern in _patterns(text):
        text = pattern.sub(lambda age: mark_text(KINDS["Age"], content=f"={age[1]}"), text)
    return text


def _move_day(day: date, interval: dates.Interval, *, fallback: date) -> date:
    try:
        return interval.move(day)
    except OverflowError:
        return fallback


_OLDEST_AGES = 10
_YOUNG_STAFF, _N_STAFF_YEARS = 1935, 60
# These values are the same in all notes of a patient; all others belong to the stay.
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
"""The name of a value for `value_of`; all other values are serial numbers."""


@dataclass(frozen=True, slots=True)
class NoteContext:
    """The owner of a note, and its time: `near` is its day in the source, `interval` moves dates.

    `stay` and `note` are keys for draws: staff and places are the same within a stay; every note
    has its own key.
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
        """The day of the note after the move."""
        return _move_day(self.near, self.interval, fallback=self.near)

    def draw(self, purpose: str, *keys: str) -> int:
        """Return a 64-bit number, the same for the same arguments."""
        return people.draw(self.seed, purpose, *keys)

    def pick_style(self, styles: Sequence[str]) -> str:
        """Return the style in which this note writes dates."""
        return styles[self.draw("date style", self.note) % len(styles)]


_FilledValue = tuple[str, str, str]
"""The text for a placeholder, its type ("" for none), and the key of its owner."""


def _fill_mark(mark: Mark, kind: MaskKind, context: NoteContext) -> _FilledValue:
    """Return the value of a placeholder of a known kind."""
    identity, form, content = context.identity, kind.value, mark.content or ""
    if content.startswith("=") and len(content) > 1:
        return content[1:], kind.label, identity.key
    if kind.role:
        return _fill_name(mark, kind, context)
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
        text = _write_date(identity.birth, context)
    elif form.endswith(("date", "date_range")):
        text = _fill_date(mark, kind, context)
    elif form in identity.values and not mark.number:
        text = identity.values[form]
    else:
        owner = identity.key if form in _OF_PATIENT else context.stay
        person = f"{form}:{owner}/{mark.number}" if mark.number else f"{form}:{owner}"
        return _draw_value(form, person, context), kind.label, person
    # English identities lack some numbers that Japanese ones have.
    text = text or str(context.draw(form, identity.key) % 10**10)
    return text, kind.label, identity.key


def _fill_name(mark: Mark, kind: MaskKind, context: NoteContext) -> _FilledValue:
    key, name = _draw_person(mark, kind.role, context)
    form = kind.value
    if form == "full":
        form = people.choose_full_form(
            name.locale, context.draw("form", context.note, str(mark.start))
        )
    elif form == "reversed" and context.is_japanese:
        form = "joined"
    return people.write_name(name, form), people.label_of(form), key


def _draw_person(mark: Mark, role: str, context: NoteContext) -> tuple[str, people.PersonName]:
    identity = context.identity
    if role == PATIENT:
        return identity.key, identity.name
    owner = identity.key if role == FAMILY else context.stay
    key = "/".join(part for part in (f"{role}:{owner}", mark.number, mark.sex) if part)
    sex = mark.sex or "MF"[context.draw("sex", key) & 1]
    year = _YOUNG_STAFF + context.draw("year", key) % _N_STAFF_YEARS
    name = people.name_of(context.seed, key, sex=sex, birth_year=year, locale=context.locale)
    if role == FAMILY and context.draw("family", key) % 4:  # three of four; our choice
        name = people.PersonName(identity.name.surname, name.given_name, name.middle, name.locale)
    return key, name


def _write_date(day: date, context: NoteContext) -> str:
    if context.is_japanese:
        return dates.format_date(day, style=context.pick_style(dates.STYLES))
    return day.strftime(context.pick_style(_ENGLISH_STYLES))


def _fill_date(mark: Mark, kind: MaskKind, context: NoteContext) -> str:
    if mark.content:
        place = mark.number or f"{context.note}/{mark.start}"
        number = context.draw("date", context.identity.key, place)
        moves = dates.DateContext(context.interval, context.near, number)
        text = dates.replace_date(mark.content, mark.content, number=mark.number, context=moves)
        if not context.is_japanese:
            return text
        return dates.format_japanese_date(text, style=context.pick_style(dates.STYLES))
    days = context.draw(kind.value, context.stay, mark.number or str(mark.start)) % 10
    if kind.value == "discharge_date":
        days = 0
    elif kind.value == "admission_date":
        days = 1 + context.draw("stay", context.stay) % 9
    day = context.day
    return _write_date(day - timedelta(days=days) if day.toordinal() > days else day, context)


def _draw_value(form: str, person: str, context: NoteContext) -> str:
    number, locale = context.draw(form, person), context.locale
    if form in _OF_BOTH or (context.is_japanese and form in _IN_JAPANESE):
        return people.value_of(form, number, locale=locale)
    if form == "email":
        sex = "MF"[number & 1]
        name = people.name_of(context.seed, person, sex=sex, birth_year=1960, locale=locale)
        return people.email_of(name, number=number)
    return people.value_of(_IN_ENGLISH.get(form, "serial_number"), number)


@dataclass(frozen=True, slots=True)
class FilledSpan:
    """One value in a text: its type (`label`), the name of its kind of mask, and its owner."""

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


def fill_placeholders(text: str, *, context: NoteContext) -> FilledNote:
    """Fill every placeholder of a known kind in a text.

    The same text and context give the same note, independent of other notes.
    """
    filled_text, end, n_left = "", 0, 0
    spans: list[FilledSpan] = []
    for mark in find_marks(text):
        if mark.kind is None:
            n_left += 1
            continue
        value_text, label, person = _fill_mark(mark, mark.kind, context)
        filled_text += text[end : mark.start]
        end = mark.stop
        if mark.kind.name == "Age" and text[end : end + 1] in ("歳", "才"):
            value_text += text[end]
            end += 1
        if label:
            place = len(filled_text), len(filled_text) + len(value_text)
            spans.append(FilledSpan(*place, label, mark.kind.name, person))
        filled_text += value_text
    return FilledNote(filled_text + text[end:], tuple(spans), n_left)
