"""Values for typed placeholders: what a note says there about an invented person.

Comes in: a typed placeholder and whose note it stands in. Goes out: a text, its type, and whose
value it is. Values of one owner and kind are the same wherever they stand in a patient's notes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from audit.corpora.identities import draw
from audit.corpora.identity_values import prefix_of, value_of
from audit.corpora.placeholder_dates import DateContext, Interval, new_date
from audit.deid import identity_places as places
from audit.deid.identities import (
    Identity,
    age_on,
    email_of,
    hospital_of,
    name_of,
)
from audit.deid.identity_numbers import record_number
from audit.deid.japanese_dates import STYLES, in_japanese, written_date
from audit.deid.mask_kinds import FAMILY, PATIENT, Mark, MaskKind
from audit.deid.mask_types import OVER_89
from audit.deid.name_variants import JAPANESE, PersonName, full_form, label_of, written

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
            "ward": places.ward,
            "school": places.school,
            "company": places.company,
            "job": places.job,
            "telephone": places.telephone,
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
        return places.japanese_address(number)
    if value == "postcode":
        return places.japanese_postcode(number)
    if value == "city":
        return places.japanese_city(number)
    if value == "state":
        return places.prefecture(number)
    if value == "country":
        return places.country(number)
    if value == "ethnicity":
        return f"{places.country(number)}系"
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
