"""The people, places, days and numbers of one English synthetic note.

A slot `{@kind}` of the grammar is answered here. People: patient, family, doctor, doctor2, nurse,
other; behind a dot the form: surname, given, initials, capitals, middle, reversed, relation, new,
turned, capital_surname, short (R Smith), letters (RS).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

from audit.deid import identity_numbers as numbers
from audit.deid.labels import CONTACT, IDENTIFIER, LINKAGE_CODE, PERSONAL_ID_CODE
from audit.deid.labels import QUASI_IDENTIFIER as QUASI
from audit.deid.name_variants import PersonName, label_of, written
from audit.deid.synthetic.dice import Dice
from audit.deid.synthetic.grammar import word_list
from audit.deid.synthetic.numbers import email, specimen
from audit.deid.synthetic.patients import PatientFacts
from audit.deid.synthetic.people import english_name
from audit.deid.synthetic.places_en import MORE_NUMBERS, MORE_PLACES, british_day, short_age
from audit.deid.synthetic.writer import Piece

_ROLES = ("patient", "family", "doctor", "doctor2", "nurse", "other")
_STREETS = ("Street", "St", "Avenue", "Ave.", "Road", "Lane", "Drive", "Blvd", "Court", "Way")
_STATES = ("MA", "NY", "OH", "TX", "CA", "WA", "FL", "PA", "IL", "Vermont", "Oregon", "Maine")
_KINDS = (
    *("General Hospital", "Memorial Hospital", "Medical Center", "Community Hospital", "Clinic"),
    *("Regional Medical Center", "Family Practice", "Cancer Center", "Children's Hospital"),
)
_HOMES = ("Nursing Home", "Rehabilitation Center", "Assisted Living", "Hospice", "Manor")
_RELATIONS = {"F": ("wife", "daughter", "sister", "mother"), "M": ("husband", "son", "brother")}
_DATES = (
    *("{0:%m}/{0:%d}/{0:%Y}", "{0.month}/{0.day}/{0:%y}", "{0:%Y}-{0:%m}-{0:%d}"),
    *("{0:%B} {0.day}, {0.year}", "{0.day} {0:%b} {0.year}", "{0:%b} {0.day}, {0.year}"),
    *("{0:%m}-{0:%d}-{0:%Y}", "{0.day}-{0:%b}-{0.year}", "{0:%m}/{0:%d}/{0:%y}"),
)
_STEADY = frozenset(
    {"phone", "record", "address", "hospital", "hospital2", "job", "town", "ward"}
    | {"telephone", "health_number", "full_address", "infirmary", "place", "craft", "uk_ward"}
)


class EnglishCast:
    """Answers the slots of one note."""

    def __init__(self, facts: PatientFacts, *, seed: int, note: str) -> None:
        self._facts = facts
        self._own = Dice(seed, "synthetic patient's values", facts.dice_key)
        self._dice = dice = Dice(seed, "synthetic note's values", note)
        self._today = facts.first_day + timedelta(days=dice.between(0, 300))
        self._course = self._admitted = self._today - timedelta(days=dice.between(2, 30))
        self._years = (self._today - facts.birth).days * 4 // 1461
        self._long = dice.pick(_DATES)
        self._people: dict[str, tuple[PersonName, str]] = {}
        self._steady: dict[str, str] = {}

    @property
    def field(self) -> str:
        """Of which field of medicine the note is: English notes have words of one only."""
        return ""

    def value(self, kind: str) -> Piece:
        """Return the value of a slot.

        Raises
        ------
        ValueError
            If there is no such kind.
        """
        who, _, form = kind.partition(".")
        if who in _ROLES:
            return self._named(who, form)
        if kind in _NUMBERS or kind in _PLACES:
            label, maker = _NUMBERS.get(kind) or (QUASI, _PLACES[kind])
            return Piece(self._kept(kind, maker), label)
        if who == "age":
            return Piece(self._age(form), QUASI)
        if who == "sex":
            return Piece(self._sex(form), QUASI)
        if kind in ("he", "He", "his", "title"):
            return Piece(self._pronoun(kind))
        return Piece(self._dated(who, form), QUASI)

    def _kept(self, kind: str, maker: Callable[[Dice], str]) -> str:
        if kind not in _STEADY:
            return maker(self._dice)
        if kind not in self._steady:
            is_own = kind in ("record", "address", "job", "full_address", "health_number", "craft")
            self._steady[kind] = maker(self._own if is_own else self._dice)
        return self._steady[kind]

    def _person(self, who: str) -> tuple[PersonName, str]:
        if who not in self._people:
            sex = self._dice.pick("MF")
            name = english_name(self._dice, sex=sex, is_wide=self._facts.is_wide)
            if who == "patient":
                name, sex = self._facts.name, self._facts.sex
            elif who == "family" and self._dice.chance(0.7):
                own = self._facts.name
                name = PersonName(own.surname, name.given, name.middle, own.locale)
            self._people[who] = name, sex
        return self._people[who]

    def _named(self, who: str, form: str) -> Piece:
        if form == "new":
            self._people.pop(who, None)
            form = ""
        name, sex = self._person(who)
        if form == "relation":
            relation = self._dice.pick(_RELATIONS[sex])
            is_odd = relation in ("wife", "husband") and (
                sex == self._facts.sex or self._years < 20
            )
            return Piece({"F": "sister", "M": "brother"}[sex] if is_odd else relation)
        if form == "turned":
            return Piece(f"{name.surname.written} {name.given.written}", IDENTIFIER)
        if form == "capital_surname":
            return Piece(f"{name.surname.written.upper()} {name.given.written}", IDENTIFIER)
        if form == "short":
            return Piece(f"{name.given.written[0]} {name.surname.written}", IDENTIFIER)
        if form == "letters":
            return Piece(name.given.written[0] + name.surname.written[0], QUASI)
        if form == "capitals":
            return Piece(f"{name.surname.written}, {name.given.written}".upper(), IDENTIFIER)
        form = form or self._dice.pick(("spaced",) * 5 + ("middle",))
        return Piece(written(name, form), label_of(form))

    def _pronoun(self, kind: str) -> str:
        is_female = self._facts.sex == "F"
        if kind == "title":
            return self._dice.pick(("Mrs.", "Ms.")) if is_female else "Mr."
        return {"he": ("he", "she"), "He": ("He", "She"), "his": ("his", "her")}[kind][is_female]

    def _age(self, form: str) -> str:
        years, dice = self._years, self._dice
        if form == "number":
            return str(years)
        if form == "other":
            return str(dice.between(35, 88))
        if form in ("sexed", "years"):
            sex = self._facts.sex if form == "sexed" else ""
            return short_age(years, sex, dice)
        if form == "other_sexed":
            return short_age(dice.between(17, 96), dice.pick("MF"), dice)
        if years < 2:
            return f"{max(1, (self._today - self._facts.birth).days // 30)}-month-old"
        return dice.pick(
            (f"{years}-year-old",) * 4 + (f"{years} year old", f"{years} y/o", f"{years}yo")
        )

    def _sex(self, form: str) -> str:
        is_female = self._facts.sex == "F"
        if form == "letter":
            return "MF"[is_female]
        if self._years < 14:
            return ("boy", "girl")[is_female]
        return self._dice.pick(
            (("man", "male", "gentleman"), ("woman", "female", "lady"))[is_female]
        )

    def _dated(self, what: str, form: str) -> str:
        day = self._day(what)
        if form == "short":
            return f"{day.month}/{day.day}"
        if form in ("british", "brief"):
            return british_day(day, self._dice, has_year=form == "british")
        if form == "month":
            return f"{day:%B} {day.year}"
        if form == "year":
            return str(day.year)
        if form:
            raise ValueError(f"{what}.{form}: no such value")
        return self._long.format(day)

    def _day(self, what: str) -> date:
        if what == "course":
            later = self._course + timedelta(days=self._dice.between(1, 3))
            self._course = min(later, self._today)
            return self._course
        known = {
            "today": self._today,
            "admitted": self._admitted,
            "discharged": self._today,
            "birth": self._facts.birth,
            "next": self._today + timedelta(days=self._dice.between(3, 90)),
            "date": self._today - timedelta(days=self._dice.between(1, 90)),
            "past": self._today - timedelta(days=self._dice.between(200, 6000)),
        }
        if what not in known:
            raise ValueError(f"{what}: no such value")
        return known[what]


def _address(dice: Dice) -> str:
    street = (
        f"{dice.between(1, 9800)} {dice.pick(word_list('en', 'surnames'))} {dice.pick(_STREETS)}"
    )
    flat = f", Apt {dice.between(1, 40)}" if dice.chance(0.2) else ""
    town, state = dice.pick(word_list("en", "towns")), dice.pick(_STATES)
    return f"{street}{flat}, {town}, {state} {dice.between(10000, 99899)}"


def _hospital(dice: Dice) -> str:
    if dice.chance(0.2):
        name = f"St. {dice.pick(('Anne', 'Luke', 'Mary', 'Jude', 'Vincent', 'Agnes'))}"
        return f"{name}'s {dice.pick(('Hospital', 'Medical Center'))}"
    return f"{dice.pick(word_list('en', 'towns'))} {dice.pick(_KINDS)}"


def _phone(dice: Dice) -> str:
    area, last = dice.between(201, 989), f"{dice.between(0, 9999):04d}"
    forms = (f"({area}) 555-{last}", f"{area}-555-{last}", f"{area}.555.{last}", f"555-{last}")
    return dice.pick(forms)


def _record(dice: Dice) -> str:
    text = numbers.record_number(dice.number(), n_digits=dice.between(6, 8))
    return dice.pick((text, text, f"{text[:3]}-{text[3:]}", f"{dice.pick('AMX')}{text}"))


def _town(dice: Dice) -> str:
    return dice.pick(word_list("en", "towns"))


_PLACES: dict[str, Callable[[Dice], str]] = {
    "address": _address,
    "hospital": _hospital,
    "hospital2": _hospital,
    "home": lambda dice: f"{_town(dice)} {dice.pick(_HOMES)}",
    "town": _town,
    "ward": lambda dice: dice.pick(("{} North", "{} West", "{}B", "Tower {}")).format(
        dice.between(2, 12)
    ),
    "school": lambda dice: f"{_town(dice)} {dice.pick(('High School', 'College', 'University'))}",
    "company": lambda dice: (
        f"{dice.pick(word_list('en', 'surnames'))} "
        + dice.pick(("Industries", "Foods", "Logistics", "& Sons", "Inc."))
    ),
    "job": lambda dice: dice.pick(word_list("en", "jobs")),
    **MORE_PLACES,
}
_NUMBERS: dict[str, tuple[str, Callable[[Dice], str]]] = {
    "phone": (CONTACT, _phone),
    "fax": (CONTACT, _phone),
    "pager": (CONTACT, lambda dice: str(dice.between(10000, 99999))),
    "email": (CONTACT, email),
    "record": (LINKAGE_CODE, _record),
    "specimen": (LINKAGE_CODE, specimen),
    "ssn": (PERSONAL_ID_CODE, lambda dice: numbers.social_security_number(dice.number())),
    "plan": (PERSONAL_ID_CODE, lambda dice: numbers.health_plan_number(dice.number())),
    "licence": (PERSONAL_ID_CODE, lambda dice: numbers.us_licence_number(dice.number())),
    "passport": (PERSONAL_ID_CODE, lambda dice: numbers.us_passport_number(dice.number())),
    **MORE_NUMBERS,
}
