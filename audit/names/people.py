"""Invents people: names in all writings, birth, places, and the numbers of public bodies.

Input: a seed, a key, and what the notes say of that patient. Output: a person who fits. The person
depends on these alone, so that no list of people need be kept.

Source: paper 002, section 2.1 and appendix A. Differs: the paper makes a list first and looks for
a person who fits; here the person is drawn to fit, so that the length of a list changes nobody.
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

from audit.notes.dates import FIRST_DAY, Interval, choose_interval
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER

JAPANESE, ENGLISH = "ja_JP", "en_US"
LOCALES = (JAPANESE, ENGLISH)
_YOUNGEST, _OLDEST, _OLDEST_LISTED = 18, 89, 94
_FOLDER = Path(__file__).resolve().parent
_HEAD = re.compile(r"^(==?|~) ([A-Za-z_][A-Za-z0-9_.]*)$", re.MULTILINE)


def draw(seed: int, purpose: str, *keys: str) -> int:
    """Return a number of 64 bits, hashed from seed, purpose and keys."""
    # No key holds a NUL (such rows are refused), so different keys give different texts.
    text = "\0".join((str(seed), purpose, *keys))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def parse_rules(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    r"""Yield the rules of a file: name and alternatives, unchanged.

    `~ name` stands before words, `= name` before alternatives of one line each (in which \n is a
    new line), `== name` before alternatives of several lines with -- between them.
    """
    _, *parts = _HEAD.split(text)
    for sign, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if sign == "==":
            alternatives = [block.strip("\n") for block in body.split("\n--\n")]
        else:
            alternatives = [
                line for line in body.split("\n") if line.strip() and not line.startswith("#")
            ]
            if sign == "~":
                alternatives = " ".join(alternatives).split(" ")
        yield (
            name,
            tuple(alternative.replace("\\n", "\n") for alternative in alternatives if alternative),
        )


def _read_name_parts(name: str) -> Iterator[NamePart]:
    """Yield the names of a file, each with its kana and its Latin letters."""
    lines = (_FOLDER / "ja" / f"{name}.txt").read_text("utf-8").splitlines()
    words = " ".join(line for line in lines if not line.startswith("#")).split()
    return map(NamePart, words[::3], words[1::3], words[2::3])


_RULES = dict(parse_rules((_FOLDER / "values.txt").read_text("utf-8")))


# Names and their writings


@dataclass(frozen=True, slots=True)
class NamePart:
    """A surname or a given name: in its native script, in katakana, in Latin letters.

    `kana` is "" for English names.
    """

    native: str
    kana: str
    romaji: str


@dataclass(frozen=True, slots=True)
class PersonName:
    """A name: surname, given name, and the initial of a middle name ("" if there is none)."""

    surname: NamePart
    given_name: NamePart
    middle: str
    locale: str


# Forms of the whole name, each as often as it occurs among 20 names in text (our choice: no count
# of real notes is published).
_FULL_FORMS = {
    JAPANESE: ("joined",) * 12 + ("spaced",) * 5 + ("wide",) * 3,
    ENGLISH: ("spaced",) * 17 + ("middle",) * 3,
}

# Patterns of {s}urname, {g}iven name and {m}iddle initial by form; "": any other form.
_WRITTEN = {
    JAPANESE: {
        **{"joined": "{s.native}{g.native}", "wide": "{s.native}\u3000{g.native}"},
        **{"initials": "{s.romaji[0]}.{g.romaji[0]}.", "": "{s.native} {g.native}"},
    },
    ENGLISH: {
        **{"middle": "{g.native} {m} {s.native}", "": "{g.native} {s.native}"},
        **{"initials": "{g.romaji[0]}.{m}{s.romaji[0]}."},
    },
}
_IN_BOTH = {
    **{"surname": "{s.native}", "given": "{g.native}"},
    **{"romaji": "{g.romaji} {s.romaji}", "reversed": "{s.romaji}, {g.romaji}"},
}


def write_name(name: PersonName, form: str) -> str:
    """Write a name in a form; in full if it lacks this form (English names have no kana)."""
    if form in _KANA and name.locale == JAPANESE:
        return f"{name.surname.kana} {name.given_name.kana}".translate(_KANA[form])
    middle = f"{name.middle}." if name.middle else ""
    forms = _WRITTEN[name.locale] | _IN_BOTH
    pattern = forms.get(form if middle or form != "middle" else "", forms[""])
    return pattern.format(s=name.surname, g=name.given_name, m=middle)


def label_of(form: str) -> str:
    """Return the label of a name in a form."""
    return QUASI_IDENTIFIER if form in ("surname", "given", "initials") else IDENTIFIER


def choose_full_form(locale: str, number: int) -> str:
    """Return a form of the whole name for a drawn number, as often as notes may have it."""
    return _FULL_FORMS[locale][number % 20]


def _half_width() -> dict[int, str]:
    """Return katakana with their half-width forms; voiced marks are separate characters."""
    plain = [chr(code) for code in range(0xFF66, 0xFF9E)]
    halves = (*plain, *(c + mark for c in plain for mark in "ﾞﾟ"))
    table = {unicodedata.normalize("NFKC", half): half for half in halves}
    return {ord(letter): half for letter, half in table.items() if len(letter) == 1}


_KANA: dict[str, Mapping[int, int | str]] = {
    "kana": {},
    "half_kana": _half_width(),
    "hiragana": {code: code - 0x60 for code in range(ord("ァ"), ord("ヶ") + 1)},
}


def half_width(kana: str) -> str:
    """Return a text with its katakana in half width."""
    return kana.translate(_KANA["half_kana"])


class NameTable:
    """Names with weights, to draw from."""

    def __init__(self, weights: Mapping[NamePart, float]) -> None:
        self.names = tuple(weights)
        self._totals = tuple(accumulate(weights.values()))

    def pick(self, number: int) -> NamePart:
        """Return the name for a drawn number of 64 bits."""
        share = number / 2**64 * self._totals[-1]
        return self.names[bisect_right(self._totals, share, hi=len(self.names) - 1)]


def birth_period(birth_year: int) -> str:
    """Return the period of birth by which given names differ: "old", "middle" or "young"."""
    return "old" if birth_year < 1950 else "middle" if birth_year < 1980 else "young"


@functools.cache
def surnames() -> NameTable:
    """Return all surnames: Faker's with its weights, then the others with weights of 1 / rank."""
    from faker.providers.person.ja_JP import Provider

    weights = {NamePart(*names): float(n) for names, n in Provider.last_name_pairs.items()}
    n_faker, least = len(weights), min(weights.values())
    faker_names = {part.native for part in weights}
    for rank, part in enumerate(_read_name_parts("surnames"), n_faker + 1):
        if part.native not in faker_names:
            weights[part] = least * n_faker / rank
    return NameTable(weights)


@functools.cache
def given_names(sex: str, time: str) -> NameTable:
    """Return the given names of a sex and period of birth: Faker's and ours, equally likely."""
    from faker.providers.person.ja_JP import Provider

    pairs = Provider.first_name_male_pairs if sex == "M" else Provider.first_name_female_pairs
    parts = {names[0]: NamePart(*names) for names in pairs}
    for part in _read_name_parts(f"{'male' if sex == 'M' else 'female'}_{time}"):
        parts.setdefault(part.native, part)
    return NameTable(dict.fromkeys(parts.values(), 1.0))


@functools.cache
def _english_names(kind: str) -> NameTable:
    from faker.providers.person.en_US import Provider

    tables = {"M": Provider.first_names_male, "F": Provider.first_names_female}
    weights = tables.get(kind, Provider.last_names)
    return NameTable({NamePart(name, "", name): weight for name, weight in weights.items()})


@dataclass(frozen=True, slots=True)
class Person:
    """A dummy name with a sex: "M" or "F"; `initial` is one letter."""

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
    """Return a person with an English name for a key; the sex is drawn if it is not given."""
    sex = sex or "MF"[draw(seed, "sex", key) & 1]
    first, middle = (
        _english_names(sex).pick(draw(seed, purpose, key)).native for purpose in ("first", "middle")
    )
    last = _english_names("last").pick(draw(seed, "last", key)).native
    return Person(first, middle[0], last, sex)


def name_of(seed: int, key: str, *, sex: str, birth_year: int, locale: str) -> PersonName:
    """Return the name for a key: surnames with Faker's frequencies, given names of the period."""
    if locale == JAPANESE:
        given_name = given_names(sex, birth_period(birth_year)).pick(draw(seed, "given", key))
        return PersonName(surnames().pick(draw(seed, "surname", key)), given_name, "", locale)
    person = person_of(seed, key, sex=sex)
    last, first = (NamePart(name, "", name) for name in (person.last, person.first))
    return PersonName(last, first, person.initial, locale)


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
# Codes of the commissions that issue licences: Hokkaido and prefectures, with the region as tens.
_COMMISSIONS = ("10", "20", "30", "40", "44", "45", "50", "54", "60", "62", "73", "90")


def fill_form(form: str, number: int) -> str:
    """Fill a form from a drawn number: each of `_MARKS` becomes one of its characters.

    The zeros of the form become the last digits of the rest of the number, in their order.
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
    body = fill_form("0" * 11, number)
    return body + my_number_check_digit(body)


def my_number_check_digit(body: str) -> str:
    """Return the check digit of the first 11 digits: modulus 11; a remainder of 0 or 1 gives 0."""
    rest = sum(map(mul, map(int, body), (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2))) % 11
    return "0" if rest <= 1 else str(11 - rest)


def insurer_number(number: int) -> str:
    """Return an insurer's number: 8 digits, of which the last is the check digit.

    The prefecture is one of 47 and the kind one of those in use; the insurer is invented.
    """
    number, law = divmod(number, len(_INSURANCE_LAWS))
    number, prefecture = divmod(number, 47)
    body = f"{_INSURANCE_LAWS[law]}{prefecture + 1:02d}{number % 1000:03d}"
    return body + insurer_check_digit(body)


def insurer_check_digit(body: str) -> str:
    """Return the check digit: weights 2, 1, 2 ... from the right, products' digits added."""
    products = (int(digit) * (2 - place % 2) for place, digit in enumerate(reversed(body)))
    return str(-sum(sum(divmod(product, 10)) for product in products) % 10)


def licence_number(number: int, *, year: int) -> str:
    """Return the number of a Japanese driving licence that was first issued in `year`.

    It consists of the commission, the year, 6 digits, and 2 final digits.
    """
    number, commission = divmod(number, len(_COMMISSIONS))
    return f"{_COMMISSIONS[commission]}{year % 100:02d}{fill_form('0' * 7, number)}0"


# Values by kind and locale

ValueRecipe = Callable[[int], str] | str
"""Makes a value from a drawn number: a function, or a form for `fill_form`."""
_N_LISTED, _LIST_SEED = 2000, 2006


def value_of(kind: str, number: int, *, locale: str = ENGLISH) -> str:
    """Return the value of a kind for a drawn number of 64 bits."""
    recipe = _VALUES[locale][kind]
    return fill_form(recipe, number) if isinstance(recipe, str) else recipe(number)


def _choose_from(name: str, *, per: int = 1) -> Callable[[int], str]:
    """Return a function that chooses a word of Faker's or our list, one for `per` numbers."""

    def choose(number: int) -> str:
        word_list = _RULES.get(name) or _load_words(name)
        return word_list[number // per % len(word_list)]

    return choose


@functools.cache
def _load_words(name: str) -> tuple[str, ...]:
    from faker import Faker
    from faker.providers.address.ja_JP import Provider

    if name.startswith("ja."):
        return tuple(getattr(Provider, name.removeprefix("ja.")))
    faker = Faker("en_US")
    faker.seed_instance(_LIST_SEED)
    make = getattr(faker, name)
    # A dictionary keeps each value once, in the order of the draws.
    return tuple(dict.fromkeys(str(make()).replace("\n", ", ") for _ in range(_N_LISTED)))


def _make_hospital(number: int) -> str:
    number, choice = divmod(number, 8)
    if choice >= len(_RULES["hospitals"]):
        return _choose_from("saints")(number)
    return f"{_choose_from('city')(number)} {_RULES['hospitals'][choice]}"


def _make_japanese_hospital(number: int) -> str:
    number, kind = divmod(number, len(_RULES["ja.hospitals"]))
    return (
        _choose_from("ja.cities" if kind < 6 else "ja.towns")(number) + _RULES["ja.hospitals"][kind]
    )


def _make_japanese_address(number: int) -> str:
    number, town = divmod(number, 1 << 16)
    block = f"{number % 9 + 1}-{number // 9 % 30 + 1}-{number // 270 % 20 + 1}"
    prefecture, city = (
        _choose_from("ja.prefectures", per=5400),
        _choose_from("ja.cities", per=5400 * 64),
    )
    return prefecture(number) + city(number) + _choose_from("ja.towns")(town) + block


def _make_japanese_telephone(number: int) -> str:
    """Return the number of a mobile or a fixed line."""
    number, kind = divmod(number, 5)
    last = f"{number % 10_000:04d}"
    if kind < 3:
        return f"0{(70, 80, 90)[kind]}-{number // 10_000 % 9000 + 1000}-{last}"
    code = _choose_from("ja.area_codes", per=10_000)(number)
    least = 10 ** (5 - len(code))
    return f"{code}-{number // 200_000 % (9 * least) + least}-{last}"


def _make_zip_code(number: int) -> str:
    return f"{number // 64 % 99500 + 501:05d}"


_ENGLISH: dict[str, ValueRecipe] = {
    "hospital": _make_hospital,
    "ward": lambda number: f"{_choose_from('wards')(number)} {number // 8 % 12 + 1}",
    "address": lambda n: f"{n // 2**32 % 9899 + 100} {_choose_from('street_name')(n)}",
    "po_box": lambda number: f"PO Box {number % 9000 + 100}",
    "zipcode": lambda number: f"{_choose_from('state_abbr')(number)} {_make_zip_code(number)}",
    "university": lambda number: f"{_choose_from('city')(number)} University",
    "email": _choose_from("ascii_safe_email"),
    "url": lambda number: f"www.{_choose_from('domain_name')(number)}",
    "phone": "(N##) N##-####",
    "ssn": "9##-##-####",
    "medical_record_number": "N######",
    "clip_number": "N#######",
    "job_number": "N#####",
    "serial_number": "N########",
    "identifier": "N####",
    "holiday": _choose_from("holidays"),
    "ethnicity": _choose_from("ethnicities"),
    **{name: _choose_from(name) for name in ("city", "state", "country", "company")},
}
VALUE_KINDS = frozenset(_ENGLISH)
"""Kinds of values in English notes."""
_VALUES: dict[str, dict[str, ValueRecipe]] = {
    ENGLISH: {
        **_ENGLISH,
        "telephone": _ENGLISH["phone"],
        "school": _ENGLISH["university"],
        "job": _choose_from("jobs"),
        "postcode": _make_zip_code,
        "record_number": "C000000",
        # The range 900-999 is never issued.
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
        "hospital": _make_japanese_hospital,
        "ward": lambda n: f"{_choose_from('ja.wards')(n)}{n // 8 % 9 + 1}病棟",
        "school": lambda n: _choose_from("ja.towns", per=8)(n) + _choose_from("ja.schools")(n),
        "company": lambda n: (
            f"株式会社{_choose_from('ja.towns', per=8)(n)}{_choose_from('ja.companies')(n)}"
        ),
        "job": _choose_from("ja.jobs"),
        "telephone": _make_japanese_telephone,
        "address": _make_japanese_address,
        # No postcode begins with 000.
        "postcode": lambda number: f"{number % 990 + 10:03d}-{number // 990 % 10_000:04d}",
        "city": _choose_from("ja.cities"),
        "state": _choose_from("ja.prefectures"),
        "country": _choose_from("ja.countries"),
        "ethnicity": lambda number: f"{_choose_from('ja.countries')(number)}系",
        "holiday": _choose_from("ja.holidays"),
        "record_number": "C0000000",
        "my_number": my_number,
        # No published rule for a check digit was found for these, so there is none.
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

    `sex` is "M", "F" or "" if the notes do not say; the days are those of the notes in the source,
    None if it has no dates.
    """

    sex: str
    first_day: date | None
    last_day: date | None


@dataclass(frozen=True, slots=True)
class Patient:
    """A patient's dummy identity.

    `key` identifies the patient in the truth file: "patient:ID", or "note:ROW" for a note without a
    patient. All dates move by `interval`; `first_day` is before the move, `birth` after it.
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

    `sex` is "M", "F" or "", `age` in years or None: unknown ones are drawn. The age is that on
    `reference_day`, which is a date after the move.
    """

    sex: str
    age: int | None
    reference_day: date


@dataclass(frozen=True, slots=True)
class Identity:
    """An invented person who replaces `key`, with the profile's age on its reference day.

    `values` are address, telephone and so on by kind. In English, `my_number` is the social
    security number and `insurer` the health plan's number; `pension` and `resident` are "".
    """

    key: str
    name: PersonName
    sex: str
    birth: date
    values: Mapping[str, str]


# Kinds of values of an identity, and the purposes of their draws.
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
    """Return the identity for a key: the same for the same seed, key, profile and locale."""
    sex = profile.sex or "MF"[draw(seed, "sex", key) & 1]
    birth = _draw_birth(seed, key, profile)
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
    letters = re.sub("[^a-z.]", "", f"{name.given_name.romaji}.{name.surname.romaji}".lower())
    return f"{letters}{number % 100}@example.{('com', 'org', 'net')[number // 100 % 3]}"


def _draw_birth(seed: int, key: str, profile: Profile) -> date:
    age = profile.age
    if age is None:
        age = _YOUNGEST + draw(seed, "age", key) % (_OLDEST_LISTED - _YOUNGEST)
    reference_day = profile.reference_day
    year = max(1, reference_day.year - age)
    # A person born on 29 February has the birthday on the 28th in other years.
    latest = (
        reference_day.replace(year=year, day=28)
        if (reference_day.month, reference_day.day) == (2, 29)
        else reference_day.replace(year)
    )
    return latest - timedelta(days=draw(seed, "birthday", key) % 365) if year > 1 else latest
