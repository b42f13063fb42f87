"""Invented people: names in all writings, birth, places, and the numbers of public bodies.

Comes in: a seed, who it is for, what the notes say of that patient. Goes out: a person who fits.
All of it depends on these alone, so that a list of any length need not be kept.

Source: paper 002, section 2.1 and appendix A. Differs: the paper makes a list first and looks for
a person who fits; here the person is drawn to fit, which gives the same people at any list length.
"""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

from audit.notes.dates import FIRST_DAY, Interval, choose_interval
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER

JAPANESE, ENGLISH = "ja_JP", "en_US"
LOCALES = (JAPANESE, ENGLISH)
_YOUNGEST, _OLDEST, _OLDEST_LISTED = 18, 89, 94
_FOLDER = Path(__file__).resolve().parent
_HEAD = re.compile(r"^(==?|~) ([A-Za-z_][A-Za-z0-9_.]*)$", re.MULTILINE)


def draw(seed: int, purpose: str, *keys: str) -> int:
    """Return a number of 64 bits for one place: hashed from seed, purpose and keys."""
    # No key holds a NUL (such rows are refused), so no two places have the same text.
    text = "\0".join((str(seed), purpose, *keys))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def rules_of(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    r"""Yield the rules of a file: name and alternatives as written.

    `~ name` stands before words, `= name` before alternatives of a line (in which \n is a new
    line), `== name` before alternatives of several lines with -- between them.
    """
    _, *parts = _HEAD.split(text)
    for sign, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if sign == "==":
            found = [block.strip("\n") for block in body.split("\n--\n")]
        else:
            found = [one for one in body.split("\n") if one.strip() and not one.startswith("#")]
            if sign == "~":
                found = " ".join(found).split(" ")
        yield name, tuple(each.replace("\\n", "\n") for each in found if each)


def _listed(name: str) -> Iterator[NamePart]:
    """Yield the names of a list, each with its kana and in Latin letters."""
    lines = (_FOLDER / "ja" / f"{name}.txt").read_text("utf-8").splitlines()
    words = " ".join(line for line in lines if not line.startswith("#")).split()
    return map(NamePart, words[::3], words[1::3], words[2::3])


_RULES = dict(rules_of((_FOLDER / "values.txt").read_text("utf-8")))


# Names and their writings


@dataclass(frozen=True, slots=True)
class NamePart:
    """A surname or a given name: as the person writes it, in katakana, in Latin letters.

    `kana` is "" for English names.
    """

    written: str
    kana: str
    romaji: str


@dataclass(frozen=True, slots=True)
class PersonName:
    """A name: surname, given name, and the initial of a middle name ("" where there is none)."""

    surname: NamePart
    given: NamePart
    middle: str
    locale: str


# Forms that stand for the whole name in text, as many of each as of 20 names have it (our choice:
# no count of real notes is published).
_FULL_FORMS = {
    JAPANESE: ("joined",) * 12 + ("spaced",) * 5 + ("wide",) * 3,
    ENGLISH: ("spaced",) * 17 + ("middle",) * 3,
}

# Of {s}urname, {g}iven name and {m}iddle initial; forms that stand for the whole name else.
_WRITTEN = {
    JAPANESE: {
        **{"joined": "{s.written}{g.written}", "wide": "{s.written}\u3000{g.written}"},
        **{"initials": "{s.romaji[0]}.{g.romaji[0]}.", "": "{s.written} {g.written}"},
    },
    ENGLISH: {
        **{"middle": "{g.written} {m} {s.written}", "": "{g.written} {s.written}"},
        **{"initials": "{g.romaji[0]}.{m}{s.romaji[0]}."},
    },
}
_IN_BOTH = {
    **{"surname": "{s.written}", "given": "{g.written}"},
    **{"romaji": "{g.romaji} {s.romaji}", "reversed": "{s.romaji}, {g.romaji}"},
}


def written(name: PersonName, form: str) -> str:
    """Return a name in a form, whole where it has no other: English names have no kana."""
    if form in _KANA and name.locale == JAPANESE:
        return f"{name.surname.kana} {name.given.kana}".translate(_KANA[form])
    middle = f"{name.middle}." if name.middle else ""
    forms = _WRITTEN[name.locale] | _IN_BOTH
    pattern = forms.get(form if middle or form != "middle" else "", forms[""])
    return pattern.format(s=name.surname, g=name.given, m=middle)


def label_of(form: str) -> str:
    """Return the type of a name in a form."""
    return QUASI_IDENTIFIER if form in ("surname", "given", "initials") else IDENTIFIER


def full_form(locale: str, number: int) -> str:
    """Return a form that holds the whole name, drawn as often as notes may have it."""
    return _FULL_FORMS[locale][number % 20]


def _half_width() -> dict[int, str]:
    """Return katakana with their half-width forms, voiced marks as characters of their own."""
    plain = [chr(code) for code in range(0xFF66, 0xFF9E)]
    halves = (*plain, *(c + mark for c in plain for mark in "ﾞﾟ"))
    table = {unicodedata.normalize("NFKC", half): half for half in halves}
    return {ord(whole): half for whole, half in table.items() if len(whole) == 1}


_KANA: dict[str, dict[int, Any]] = {
    "kana": {},
    "half_kana": _half_width(),
    "hiragana": {code: code - 0x60 for code in range(ord("ァ"), ord("ヶ") + 1)},
}


def half_width(kana: str) -> str:
    """Return a text with its katakana in half width."""
    return kana.translate(_KANA["half_kana"])


class NameTable:
    """Names, drawn as often as `weights` has them."""

    def __init__(self, weights: Mapping[NamePart, float]) -> None:
        self.names = tuple(weights)
        self._totals = tuple(accumulate(weights.values()))

    def picked(self, number: int) -> NamePart:
        """Return the name of a drawn number of 64 bits."""
        share = number / 2**64 * self._totals[-1]
        return self.names[bisect_right(self._totals, share, hi=len(self.names) - 1)]


def time_of(birth_year: int) -> str:
    """Return the time of birth by which given names differ: "old", "middle" or "young"."""
    return "old" if birth_year < 1950 else "middle" if birth_year < 1980 else "young"


@functools.cache
def surnames() -> NameTable:
    """Return all surnames: Faker's with its weights, then the others as 1 / rank."""
    from faker.providers.person.ja_JP import Provider

    weights = {NamePart(*names): float(n) for names, n in Provider.last_name_pairs.items()}
    n_faker, least = len(weights), min(weights.values())
    known = {part.written for part in weights}
    for rank, part in enumerate(_listed("surnames"), n_faker + 1):
        if part.written not in known:
            weights[part] = least * n_faker / rank
    return NameTable(weights)


@functools.cache
def given_names(sex: str, time: str) -> NameTable:
    """Return the given names of a sex and time of birth: Faker's and ours, all as likely."""
    from faker.providers.person.ja_JP import Provider

    pairs = Provider.first_name_male_pairs if sex == "M" else Provider.first_name_female_pairs
    parts = {names[0]: NamePart(*names) for names in pairs}
    for part in _listed(f"{'male' if sex == 'M' else 'female'}_{time}"):
        parts.setdefault(part.written, part)
    return NameTable(dict.fromkeys(parts.values(), 1.0))


@functools.cache
def _english_names(kind: str) -> NameTable:
    from faker.providers.person.en_US import Provider

    tables = {"M": Provider.first_names_male, "F": Provider.first_names_female}
    weights = tables.get(kind, Provider.last_names)
    return NameTable({NamePart(name, "", name): weight for name, weight in weights.items()})


@dataclass(frozen=True, slots=True)
class Person:
    """A name that stands for somebody: sex is "M" or "F", `initial` one letter."""

    first: str
    initial: str
    last: str
    sex: str

    @property
    def full(self) -> str:
        """First and last name."""
        return f"{self.first} {self.last}"


@functools.lru_cache(maxsize=50_000)
def person_of(seed: int, key: str, *, sex: str = "") -> Person:
    """Return a person with an English name for a key; the sex is drawn where it is not given."""
    sex = sex or "MF"[draw(seed, "sex", key) & 1]
    first, middle = (
        _english_names(sex).picked(draw(seed, what, key)).written for what in ("first", "middle")
    )
    last = _english_names("last").picked(draw(seed, "last", key)).written
    return Person(first, middle[0], last, sex)


def name_of(seed: int, key: str, *, sex: str, birth_year: int, locale: str) -> PersonName:
    """Return the name of a key: surnames as common as Faker has them, given names of the time."""
    if locale == JAPANESE:
        given = given_names(sex, time_of(birth_year)).picked(draw(seed, "given", key))
        return PersonName(surnames().picked(draw(seed, "surname", key)), given, "", locale)
    one = person_of(seed, key, sex=sex)
    last, first = (NamePart(name, "", name) for name in (one.last, one.first))
    return PersonName(last, first, one.initial, locale)


def prefix_of(sex: str, number: int, *, is_before_last_name: bool) -> str:
    """Return a particle before a last name ("van"), else a title that fits the sex."""
    titles = ("Mr.",) if sex == "M" else ("Mrs.", "Ms.")
    choices = _RULES["particles"] if is_before_last_name else titles
    return choices[number % len(choices)]


# Numbers of hospitals and public bodies

_LETTERS = "ACDEFGHJKMNPQRTUVWXY"
_MARKS = {
    **{"#": "0123456789", "N": "23456789", "C": "123456789", "A": _LETTERS, "T": "TM"},
    **{"X": "0123456789" + _LETTERS, "L": "S" + _LETTERS[1:]},
}
# Kinds of insurance: association, company, day labourers, public servants, teachers, late elderly.
_INSURANCE_LAWS = ("01", "06", "03", "31", "32", "34", "39")
# Of the commissions that issue licences: Hokkaido, the prefectures, by tens of the region.
_COMMISSIONS = ("10", "20", "30", "40", "44", "45", "50", "54", "60", "62", "73", "90")


def in_form(form: str, number: int) -> str:
    """Return a drawn number in a form: each of `_MARKS` is one of its characters.

    Every 0 of the form is a digit of what is left of the number then, in their order.
    """
    text = ""
    for mark in form:
        choices = _MARKS.get(mark, "")
        if choices:
            number, choice = divmod(number, len(choices))
        text += choices[choice] if choices else mark
    n = form.count("0")
    digits = iter(f"{number % 10**n:0{n}d}")
    return "".join(next(digits) if mark == "0" else c for mark, c in zip(form, text, strict=True))


def my_number(number: int) -> str:
    """Return a My Number: 11 digits and their check digit."""
    body = in_form("0" * 11, number)
    return body + my_number_check_digit(body)


def my_number_check_digit(body: str) -> str:
    """Return the check digit of the first 11 digits: modulus 11; a rest of 0 or 1 gives 0."""
    rest = sum(map(mul, map(int, body), (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2))) % 11
    return "0" if rest <= 1 else str(11 - rest)


def insurer_number(number: int) -> str:
    """Return an insurer's number: 8 digits, the last one checks.

    The prefecture is one of 47, the kind one of those in use; the insurer is invented.
    """
    number, law = divmod(number, len(_INSURANCE_LAWS))
    number, prefecture = divmod(number, 47)
    body = f"{_INSURANCE_LAWS[law]}{prefecture + 1:02d}{number % 1000:03d}"
    return body + insurer_check_digit(body)


def insurer_check_digit(body: str) -> str:
    """Return the check digit: weights 2, 1, 2 ... from the right, digits of products added up."""
    products = (int(digit) * (2 - place % 2) for place, digit in enumerate(reversed(body)))
    return str(-sum(sum(divmod(product, 10)) for product in products) % 10)


def licence_number(number: int, *, year: int) -> str:
    """Return a Japanese driving licence's number, first given in `year`.

    It is made of commission, year, 6 digits, and 2 that end it.
    """
    number, commission = divmod(number, len(_COMMISSIONS))
    return f"{_COMMISSIONS[commission]}{year % 100:02d}{in_form('0' * 7, number)}0"


# Values by kind and locale

Value = Callable[[int], str] | str
"""What makes a value of a drawn number: a function, or the form of `in_form`."""
_N_LISTED, _LIST_SEED = 2000, 2006


def value_of(kind: str, number: int, *, locale: str = ENGLISH) -> str:
    """Return the value of a kind for a drawn number of 64 bits."""
    value = _VALUES[locale][kind]
    return in_form(value, number) if isinstance(value, str) else value(number)


def _one_of(name: str, *, per: int = 1) -> Callable[[int], str]:
    """Return one of a list of words: of Faker's, or of ours; a choice lasts for `per` numbers."""

    def chosen(number: int) -> str:
        values = _RULES.get(name) or _list(name)
        return values[number // per % len(values)]

    return chosen


@functools.cache
def _list(name: str) -> tuple[str, ...]:
    from faker import Faker
    from faker.providers.address.ja_JP import Provider

    if name.startswith("ja."):
        return tuple(getattr(Provider, name.removeprefix("ja.")))
    faker = Faker("en_US")
    faker.seed_instance(_LIST_SEED)
    make = getattr(faker, name)
    # As a dictionary: each value once, in the order of the draws.
    return tuple(dict.fromkeys(str(make()).replace("\n", ", ") for _ in range(_N_LISTED)))


def _hospital(number: int) -> str:
    number, choice = divmod(number, 8)
    if choice >= len(_RULES["hospitals"]):
        return _one_of("saints")(number)
    return f"{_one_of('city')(number)} {_RULES['hospitals'][choice]}"


def _japanese_hospital(number: int) -> str:
    number, kind = divmod(number, len(_RULES["ja.hospitals"]))
    return _one_of("ja.cities" if kind < 6 else "ja.towns")(number) + _RULES["ja.hospitals"][kind]


def _japanese_address(number: int) -> str:
    number, town = divmod(number, 1 << 16)
    block = f"{number % 9 + 1}-{number // 9 % 30 + 1}-{number // 270 % 20 + 1}"
    prefecture, city = _one_of("ja.prefectures", per=5400), _one_of("ja.cities", per=5400 * 64)
    return prefecture(number) + city(number) + _one_of("ja.towns")(town) + block


def _japanese_telephone(number: int) -> str:
    """Return the number of a mobile or a fixed line."""
    number, kind = divmod(number, 5)
    last = f"{number % 10_000:04d}"
    if kind < 3:
        return f"0{(70, 80, 90)[kind]}-{number // 10_000 % 9000 + 1000}-{last}"
    code = _one_of("ja.area_codes", per=10_000)(number)
    least = 10 ** (5 - len(code))
    return f"{code}-{number // 200_000 % (9 * least) + least}-{last}"


def _zip_code(number: int) -> str:
    return f"{number // 64 % 99500 + 501:05d}"


_ENGLISH: dict[str, Value] = {
    "hospital": _hospital,
    "ward": lambda number: f"{_one_of('wards')(number)} {number // 8 % 12 + 1}",
    "address": lambda n: f"{n // 2**32 % 9899 + 100} {_one_of('street_name')(n)}",
    "po_box": lambda number: f"PO Box {number % 9000 + 100}",
    "zipcode": lambda number: f"{_one_of('state_abbr')(number)} {_zip_code(number)}",
    "university": lambda number: f"{_one_of('city')(number)} University",
    "email": _one_of("ascii_safe_email"),
    "url": lambda number: f"www.{_one_of('domain_name')(number)}",
    "phone": "(N##) N##-####",
    "ssn": "9##-##-####",
    "medical_record_number": "N######",
    "clip_number": "N#######",
    "job_number": "N#####",
    "serial_number": "N########",
    "identifier": "N####",
    "holiday": _one_of("holidays"),
    "ethnicity": _one_of("ethnicities"),
    **{name: _one_of(name) for name in ("city", "state", "country", "company")},
}
VALUE_KINDS = frozenset(_ENGLISH)
"""Of those that notes in English have."""
_VALUES: dict[str, dict[str, Value]] = {
    ENGLISH: {
        **_ENGLISH,
        "telephone": _ENGLISH["phone"],
        "school": _ENGLISH["university"],
        "job": _one_of("jobs"),
        "postcode": _zip_code,
        "record_number": "C000000",
        # From the range 900-999, which is never given out.
        "my_number": "900-00-0000",
        "pension": "",
        # As on a Medicare card: 1EG4-TE5-MK73.
        "insurer": "CAX#-AX#-AA##",
        "insured": "00000-000",
        "resident": "",
        "licence": "L00000000",
        "passport": "000000000",
    },
    JAPANESE: {
        "hospital": _japanese_hospital,
        "ward": lambda n: f"{_one_of('ja.wards')(n)}{n // 8 % 9 + 1}病棟",
        "school": lambda n: _one_of("ja.towns", per=8)(n) + _one_of("ja.schools")(n),
        "company": lambda n: f"株式会社{_one_of('ja.towns', per=8)(n)}{_one_of('ja.companies')(n)}",
        "job": _one_of("ja.jobs"),
        "telephone": _japanese_telephone,
        "address": _japanese_address,
        # Not beginning with 000.
        "postcode": lambda number: f"{number % 990 + 10:03d}-{number // 990 % 10_000:04d}",
        "city": _one_of("ja.cities"),
        "state": _one_of("ja.prefectures"),
        "country": _one_of("ja.countries"),
        "ethnicity": lambda number: f"{_one_of('ja.countries')(number)}系",
        "holiday": _one_of("ja.holidays"),
        "record_number": "C0000000",
        "my_number": my_number,
        # No published rule for a check digit of these was found, so there is none.
        "pension": "0000-000000",
        "insurer": insurer_number,
        "insured": "00000-000",
        "resident": "0" * 11,
        "passport": "TA0000000",
    },
}


# Who stands for a patient


@dataclass(frozen=True, slots=True)
class Facts:
    """What the notes say about a patient before an identity is chosen.

    `sex` is "M", "F" or "" where they do not tell; the days are those of the notes, as the source
    has them, None where it has no dates.
    """

    sex: str
    first_day: date | None
    last_day: date | None


@dataclass(frozen=True, slots=True)
class Patient:
    """A patient's dummy identity.

    `key` says who it is in the truth file: "patient:ID", or "note:ROW" where a note has no patient.
    All dates move by `interval`; `first_day` is as the source has it, `birth` after the move.
    """

    key: str
    person: Person
    interval: Interval
    first_day: date
    birth: date


@functools.lru_cache(maxsize=20_000)
def patient_of(seed: int, key: str, facts: Facts) -> Patient:
    """Return a patient's identity: the same for the same seed, key and facts."""
    first_day = facts.first_day or date(2150, 1, 1)
    interval = choose_interval(
        first_day, facts.last_day or first_day, draw=draw(seed, "interval", key)
    )
    age = _YOUNGEST + draw(seed, "age", key) % (_OLDEST - _YOUNGEST)
    days = age * 1461 // 4 + draw(seed, "birthday", key) % 365
    start = max(interval.move(first_day), FIRST_DAY)
    person = person_of(seed, key, sex=facts.sex)
    return Patient(key, person, interval, first_day, start - timedelta(days=days))


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known about somebody before an identity is drawn.

    `sex` is "M", "F" or "", `age` in years or None: what is not known is drawn. Ages are counted
    on the day `on`, in the time into which dates are moved.
    """

    sex: str
    age: int | None
    on: date


@dataclass(frozen=True, slots=True)
class Identity:
    """An invented person, who stands for `key`; the profile's age is right on the profile's day.

    `values` are address, telephone and so on by their kind. In English `my_number` is the social
    security number, `insurer` the health plan's, and `pension` and `resident` are "".
    """

    key: str
    name: PersonName
    sex: str
    birth: date
    values: Mapping[str, str]


# Values of an identity, and what their draws are called.
_OF_IDENTITY = {
    **{"record_number": "record", "my_number": "my number"},
    **{kind: kind for kind in ("postcode", "address", "telephone", "hospital", "pension")},
    **{kind: kind for kind in ("insurer", "insured", "resident", "passport")},
}


def age_on(birth: date, day: date) -> int:
    """Return the age in whole years, at least 0."""
    return max(0, day.year - birth.year - ((day.month, day.day) < (birth.month, birth.day)))


@functools.lru_cache(maxsize=20_000)
def identity_of(seed: int, key: str, profile: Profile, *, locale: str) -> Identity:
    """Return the identity of a key: the same for the same seed, key, profile and locale."""
    sex = profile.sex or "MF"[draw(seed, "sex", key) & 1]
    birth = _birth(seed, key, profile)
    name = name_of(seed, key, sex=sex, birth_year=birth.year, locale=locale)
    values = {
        kind: value_of(kind, draw(seed, purpose, key), locale=locale)
        for kind, purpose in _OF_IDENTITY.items()
    }
    values["email"] = email_of(name, number=draw(seed, "email", key))
    number = draw(seed, "licence", key)
    is_japanese = locale == JAPANESE
    values["licence"] = (
        licence_number(number, year=birth.year + 20) if is_japanese else value_of("licence", number)
    )
    return Identity(key, name, sex, birth, values)


def email_of(name: PersonName, *, number: int) -> str:
    """Return an address at a domain that can never exist (RFC 2606)."""
    letters = re.sub("[^a-z.]", "", f"{name.given.romaji}.{name.surname.romaji}".lower())
    return f"{letters}{number % 100}@example.{('com', 'org', 'net')[number // 100 % 3]}"


def _birth(seed: int, key: str, profile: Profile) -> date:
    age = profile.age
    if age is None:
        age = _YOUNGEST + draw(seed, "age", key) % (_OLDEST_LISTED - _YOUNGEST)
    on = profile.on
    year = max(1, on.year - age)
    # Who was born on 29 February has a birthday on the 28th where there is no 29th.
    latest = on.replace(year=year, day=28) if (on.month, on.day) == (2, 29) else on.replace(year)
    return latest - timedelta(days=draw(seed, "birthday", key) % 365) if year > 1 else latest
