"""Pseudo identities: one invented person for each patient, matched on sex and age.

Comes in: a seed, who it is for, what the notes say of that patient. Goes out: names in all
writings, birth, address, telephone, and the numbers of hospitals and public bodies. An identity
depends on these alone, so that a list of any length need not be kept.

Source: paper 002, section 2.1 and appendix A. Differs: the paper makes a list first and looks for
a person who fits; here the person is drawn to fit, which gives the same people at any list length.
"""

from __future__ import annotations

import functools
import hashlib
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate, product
from operator import mul
from pathlib import Path
from typing import Any

from audit.names.pools import us_pool
from audit.notes.dates import FIRST_DAY, Interval, interval_for
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER

_YOUNGEST, _OLDEST = 18, 89


def draw(seed: int, purpose: str, *keys: str) -> int:
    """Return a number of 64 bits for one place: hashed from seed, purpose and keys."""
    # No key holds a NUL (such rows are refused), so no two places have the same text.
    text = "\0".join((str(seed), purpose, *keys))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


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


@dataclass(frozen=True, slots=True)
class Facts:
    """What the notes say about a patient before an identity is chosen.

    Attributes
    ----------
    sex
        "M", "F" or "" where the notes do not tell.
    first_day, last_day
        Of the notes, as the source has them; None where it has no dates.
    """

    sex: str
    first_day: date | None
    last_day: date | None


@dataclass(frozen=True, slots=True)
class Patient:
    """A patient's dummy identity.

    Attributes
    ----------
    key
        Who it is in the truth file: "patient:ID", or "note:ROW" where a note has no patient.
    interval
        By which all dates move.
    first_day
        Of the notes, as the source has it.
    birth
        After the move.
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
    interval = interval_for(
        first_day, facts.last_day or first_day, draw=draw(seed, "interval", key)
    )
    age = _YOUNGEST + draw(seed, "age", key) % (_OLDEST - _YOUNGEST)
    days = age * 1461 // 4 + draw(seed, "birthday", key) % 365
    start = max(interval.move(first_day), FIRST_DAY)
    person = person_of(seed, key, sex=facts.sex)
    return Patient(key, person, interval, first_day, start - timedelta(days=days))


@functools.lru_cache(maxsize=50_000)
def person_of(seed: int, key: str, *, sex: str = "") -> Person:
    """Return a person for a key; the sex is drawn where it is not given."""
    sex = sex or "MF"[draw(seed, "sex", key) & 1]
    names, totals = _first_names(sex)
    first = _picked(names, totals, draw(seed, "first", key))
    last = _picked(*_last_names(), draw(seed, "last", key))
    middle = _picked(names, totals, draw(seed, "middle", key))
    return Person(first, middle[0], last, sex)


def _picked(names: tuple[str, ...], totals: tuple[float, ...], number: int) -> str:
    return names[bisect_right(totals, number / 2**64 * totals[-1], hi=len(names) - 1)]


@functools.cache
def _first_names(sex: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    from faker.providers.person.en_US import Provider

    return _name_weights(Provider.first_names_male if sex == "M" else Provider.first_names_female)


@functools.cache
def _last_names() -> tuple[tuple[str, ...], tuple[float, ...]]:
    from faker.providers.person.en_US import Provider

    return _name_weights(Provider.last_names)


def _name_weights(weights: Mapping[str, float]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    return tuple(weights), tuple(accumulate(weights.values()))


_N_LISTED = 2000
_LIST_SEED = 2006

_HOSPITALS = (
    "General Hospital",
    "Memorial Hospital",
    "Medical Center",
    "Community Hospital",
    "Regional Hospital",
    "Clinic",
)
_SAINTS = ("St. Anne's Hospital", "St. Luke's Medical Center", "Mercy Hospital")
_WARDS = ("North", "South", "East", "West", "Main", "Tower")
_HOLIDAYS = ("Christmas", "Thanksgiving", "Easter", "New Year's Day", "Labor Day", "Memorial Day")
_ETHNICITIES = ("Irish", "Italian", "Haitian", "Portuguese", "Russian", "Vietnamese", "Hispanic")
_PARTICLES = ("van", "de", "von", "la", "del", "di")
_TITLES = {"M": ("Mr.",), "F": ("Mrs.", "Ms.")}


def value_of(kind: str, number: int) -> str:
    """Return the value of a kind for a drawn number of 64 bits."""
    return _VALUES[kind](number)


def prefix_of(sex: str, number: int, *, is_before_last_name: bool) -> str:
    """Return a particle before a last name ("van"), else a title that fits the sex."""
    choices = _PARTICLES if is_before_last_name else _TITLES[sex]
    return choices[number % len(choices)]


def _number_of_form(form: str) -> Callable[[int], str]:
    def written(number: int) -> str:
        text = ""
        for mark in form:
            if mark == "#":
                number, digit = divmod(number, 10)
                text += str(digit)
            elif mark == "N":
                number, digit = divmod(number, 8)
                text += str(digit + 2)
            else:
                text += mark
        return text

    return written


def _listed(name: str) -> Callable[[int], str]:
    return lambda number: (values := _list(name))[number % len(values)]


def _one_of(values: tuple[str, ...]) -> Callable[[int], str]:
    return lambda number: values[number % len(values)]


def _hospital(number: int) -> str:
    choice, number = number % 8, number // 8
    if choice >= len(_HOSPITALS):
        return _SAINTS[number % len(_SAINTS)]
    return f"{_listed('city')(number)} {_HOSPITALS[choice]}"


@functools.cache
def _list(name: str) -> tuple[str, ...]:
    faker = _faker()
    faker.seed_instance(_LIST_SEED)
    make = getattr(faker, name)
    # As a dictionary: each value once, in the order of the draws.
    return tuple(dict.fromkeys(str(make()).replace("\n", ", ") for _ in range(_N_LISTED)))


@functools.cache
def _faker() -> Any:
    from faker import Faker

    return Faker("en_US")


_VALUES: dict[str, Callable[[int], str]] = {
    "hospital": _hospital,
    "ward": lambda number: f"{_one_of(_WARDS)(number)} {number // 8 % 12 + 1}",
    "city": _listed("city"),
    "address": lambda n: f"{n // 2**32 % 9899 + 100} {_listed('street_name')(n)}",
    "po_box": lambda number: f"PO Box {number % 9000 + 100}",
    "state": _listed("state"),
    "zipcode": lambda number: f"{_listed('state_abbr')(number)} {number // 64 % 99500 + 501:05d}",
    "country": _listed("country"),
    "company": _listed("company"),
    "university": lambda number: f"{_listed('city')(number)} University",
    "email": _listed("ascii_safe_email"),
    "url": lambda number: f"www.{_listed('domain_name')(number)}",
    "phone": _number_of_form("(N##) N##-####"),
    "ssn": _number_of_form("9##-##-####"),
    "medical_record_number": _number_of_form("N######"),
    "clip_number": _number_of_form("N#######"),
    "job_number": _number_of_form("N#####"),
    "serial_number": _number_of_form("N########"),
    "identifier": _number_of_form("N####"),
    "holiday": _one_of(_HOLIDAYS),
    "ethnicity": _one_of(_ETHNICITIES),
}
VALUE_KINDS = frozenset(_VALUES)


JAPANESE, ENGLISH = "ja_JP", "en_US"
LOCALES = (JAPANESE, ENGLISH)


@dataclass(frozen=True, slots=True)
class NamePart:
    """A surname or a given name.

    Attributes
    ----------
    written
        As the person writes it: kanji or kana in Japanese, letters in English.
    kana
        Its reading in katakana; "" for English names.
    romaji
        In Latin letters.
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

    @property
    def full(self) -> str:
        """Both parts, as lists of people write them: what namesakes share."""
        if self.locale == JAPANESE:
            return f"{self.surname.written} {self.given.written}"
        return f"{self.given.written} {self.surname.written}"


_WIDE = "\u3000"
# Forms that stand for the whole name in text, and how many of 20 names have each (our choice: no
# count of real notes is published).
_FULL_FORMS = {
    JAPANESE: (("joined", 12), ("spaced", 5), ("wide", 3)),
    ENGLISH: (("spaced", 17), ("middle", 3)),
}
FORMS = (
    *("joined", "spaced", "wide", "middle", "reversed", "surname", "given", "initials"),
    *("kana", "half_kana", "hiragana", "romaji"),
)
_PARTS = frozenset({"surname", "given", "initials"})


def written(name: PersonName, form: str) -> str:
    """Return a name in one of `FORMS`; English names have no kana, they stay as they are."""
    if form not in FORMS:
        raise ValueError(f"{form}: no such form of a name")
    surname, given = name.surname, name.given
    if form == "surname":
        return surname.written
    if form == "given":
        return given.written
    if form == "initials":
        return _initials(name)
    if form == "romaji":
        return f"{given.romaji} {surname.romaji}"
    if form == "reversed":
        return f"{surname.romaji}, {given.romaji}"
    if name.locale != JAPANESE:
        middle = f" {name.middle}." if form == "middle" and name.middle else ""
        return f"{given.written}{middle} {surname.written}"
    return _japanese(name, form)


def _japanese(name: PersonName, form: str) -> str:
    surname, given = name.surname, name.given
    if form == "kana":
        return f"{surname.kana} {given.kana}"
    if form == "half_kana":
        return half_width(f"{surname.kana} {given.kana}")
    if form == "hiragana":
        return hiragana(f"{surname.kana} {given.kana}")
    gap = {"spaced": " ", "wide": _WIDE, "middle": " "}.get(form, "")
    return surname.written + gap + given.written


def _initials(name: PersonName) -> str:
    surname, given = name.surname.romaji[0], name.given.romaji[0]
    if name.locale == JAPANESE:
        return f"{surname}.{given}."
    middle = f"{name.middle}." if name.middle else ""
    return f"{given}.{middle}{surname}."


def label_of(form: str) -> str:
    """Return the type of a name in a form."""
    return QUASI_IDENTIFIER if form in _PARTS else IDENTIFIER


def full_form(locale: str, number: int) -> str:
    """Return a form that holds the whole name, drawn as often as notes may have it."""
    forms = _FULL_FORMS[locale]
    number %= sum(share for _, share in forms)
    for form, share in forms:
        if number < share:
            return form
        number -= share
    raise AssertionError("the shares were added up")


def hiragana(kana: str) -> str:
    """Return katakana as hiragana; other characters stay."""
    return "".join(chr(ord(c) - 0x60) if "ァ" <= c <= "ヶ" else c for c in kana)


def half_width(kana: str) -> str:
    """Return katakana as half-width katakana, voiced marks as characters of their own."""
    return "".join(_HALF_WIDTH.get(c, c) for c in kana)


def _half_width_table() -> dict[str, str]:
    plain = [chr(code) for code in range(0xFF66, 0xFF9E)]
    voiced = [c + mark for c in plain for mark in "ﾞﾟ"]
    table = {unicodedata.normalize("NFKC", c): c for c in (*plain, *voiced)}
    return {whole: half for whole, half in table.items() if len(whole) == 1}


_HALF_WIDTH = _half_width_table()

# Hepburn without marks for long vowels, as in passports.
_ROMAJI_ROWS = (
    ("アイウエオ", "a i u e o"),
    ("カキクケコ", "ka ki ku ke ko"),
    ("サシスセソ", "sa shi su se so"),
    ("タチツテト", "ta chi tsu te to"),
    ("ナニヌネノ", "na ni nu ne no"),
    ("ハヒフヘホ", "ha hi fu he ho"),
    ("マミムメモ", "ma mi mu me mo"),
    ("ヤユヨ", "ya yu yo"),
    ("ラリルレロ", "ra ri ru re ro"),
    ("ワヲン", "wa o n"),
    ("ガギグゲゴ", "ga gi gu ge go"),
    ("ザジズゼゾ", "za ji zu ze zo"),
    ("ダヂヅデド", "da ji zu de do"),
    ("バビブベボ", "ba bi bu be bo"),
    ("パピプペポ", "pa pi pu pe po"),
)
_ROMAJI = {
    kana: sound
    for row, sounds in _ROMAJI_ROWS
    for kana, sound in zip(row, sounds.split(), strict=True)
}
_SMALL = {"ャ": "a", "ュ": "u", "ョ": "o"}


def romaji_of(kana: str) -> str:
    """Return a katakana reading in Latin letters: Hepburn as in passports ("オオタ" is "Ota")."""
    sounds: list[str] = []
    is_doubled = False
    for c in kana:
        if c == "ッ":
            is_doubled = True
        elif c in _SMALL and sounds and sounds[-1].endswith("i"):
            stem = sounds.pop()[:-1]
            sounds.append(stem + ("" if stem.endswith(("sh", "ch", "j")) else "y") + _SMALL[c])
        elif c in _ROMAJI:
            sound = _ROMAJI[c]
            sounds.append(_doubled(sound) if is_doubled else sound)
            is_doubled = False
        else:
            raise ValueError("a reading holds a character that is no katakana of a name")
    return _folded_vowels(sounds).capitalize()


def _doubled(sound: str) -> str:
    return "t" + sound if sound.startswith("ch") else sound[0] + sound


def _folded_vowels(sounds: list[str]) -> str:
    # A long o or u is written once, but a final "o" of its own stays: セノオ is "Senoo".
    text = ""
    for place, sound in enumerate(sounds):
        is_last = place == len(sounds) - 1
        if sound == "u" and text.endswith(("o", "u")) and sounds[place + 1 : place + 2] != ["e"]:
            continue  # イノウエ is "Inoue"
        if sound == "o" and text.endswith("o") and not is_last:
            continue
        if sound[0] in "bmp" and text.endswith("n"):
            text = text[:-1] + "m"
        text += sound
    return text


_WORDS = Path(__file__).resolve().parent / "ja"
_OLD_BEFORE, _MIDDLE_BEFORE = 1950, 1980


@dataclass(frozen=True)
class NameTable:
    """Names, and the share of people who carry each (0-1, summing to 1)."""

    names: tuple[NamePart, ...]
    shares: tuple[float, ...]
    totals: tuple[float, ...]

    def picked(self, number: int) -> NamePart:
        """Return the name of a drawn number of 64 bits."""
        return self.names[bisect_right(self.totals, number / 2**64, hi=len(self.names) - 1)]


def time_of(birth_year: int) -> str:
    """Return the time of birth by which given names differ: "old", "middle" or "young"."""
    if birth_year < _OLD_BEFORE:
        return "old"
    return "middle" if birth_year < _MIDDLE_BEFORE else "young"


@functools.cache
def surnames() -> NameTable:
    """Return all surnames: Faker's with its weights, then the others as 1 / rank."""
    from faker.providers.person.ja_JP import Provider

    weights = {NamePart(*names): float(n) for names, n in Provider.last_name_pairs.items()}
    n_faker, least = len(weights), min(weights.values())
    known = {part.written for part in weights}
    for rank, part in enumerate(_parts("surnames"), start=n_faker + 1):
        if part.written not in known:
            weights[part] = least * n_faker / rank
    return _name_table(weights)


@functools.cache
def given_names(sex: str, time: str) -> NameTable:
    """Return the given names of a sex and time of birth: Faker's and ours, all as likely."""
    from faker.providers.person.ja_JP import Provider

    pairs = Provider.first_name_male_pairs if sex == "M" else Provider.first_name_female_pairs
    parts = {NamePart(*names).written: NamePart(*names) for names in pairs}
    for part in _parts(f"{'male' if sex == 'M' else 'female'}_{time}"):
        parts.setdefault(part.written, part)
    return _name_table(dict.fromkeys(parts.values(), 1.0))


def _parts(name: str) -> list[NamePart]:
    lines = (_WORDS / f"{name}.txt").read_text("utf-8").splitlines()
    words = " ".join(line for line in lines if not line.startswith("#")).split()
    return [
        NamePart(name, kana, romaji_of(kana))
        for name, kana in zip(words[::2], words[1::2], strict=True)
    ]


def _name_table(weights: dict[NamePart, float]) -> NameTable:
    total = sum(weights.values())
    shares = tuple(weight / total for weight in weights.values())
    return NameTable(tuple(weights), shares, tuple(accumulate(shares)))


_LETTERS = "ACDEFGHJKMNPQRTUVWXY"
_MY_NUMBER_WEIGHTS = (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)
_N_PREFECTURES = 47
# Kinds of insurance: association, company, day labourers, public servants, teachers, late elderly.
_INSURANCE_LAWS = ("01", "06", "03", "31", "32", "34", "39")
# Of the commissions that issue licences: Hokkaido, the prefectures, by tens of the region.
_COMMISSIONS = ("10", "20", "30", "40", "44", "45", "50", "54", "60", "62", "73", "90")
_PASSPORT_LETTERS = "TM"


def my_number(number: int) -> str:
    """Return a My Number: 11 digits and their check digit."""
    body = _digits(number, "#" * 11)
    return body + my_number_check_digit(body)


def my_number_check_digit(body: str) -> str:
    """Return the check digit of the first 11 digits: modulus 11; a rest of 0 or 1 gives 0."""
    if len(body) != len(_MY_NUMBER_WEIGHTS) or not (body.isascii() and body.isdigit()):
        raise ValueError("11 digits were expected")
    rest = sum(map(mul, map(int, body), _MY_NUMBER_WEIGHTS)) % 11
    return "0" if rest <= 1 else str(11 - rest)


def insurer_number(number: int) -> str:
    """Return an insurer's number: 8 digits, the last one checks.

    The prefecture is one of 47, the kind one of those in use; the insurer is invented.
    """
    number, law = divmod(number, len(_INSURANCE_LAWS))
    number, prefecture = divmod(number, _N_PREFECTURES)
    body = f"{_INSURANCE_LAWS[law]}{prefecture + 1:02d}{number % 1000:03d}"
    return body + insurer_check_digit(body)


def insurer_check_digit(body: str) -> str:
    """Return the check digit: weights 2, 1, 2 ... from the right, digits of products added up."""
    products = (int(digit) * (2 - place % 2) for place, digit in enumerate(reversed(body)))
    return str(-sum(sum(divmod(product, 10)) for product in products) % 10)


def insured_symbol(number: int) -> str:
    """Return symbol and number of an insured person, as on a card: "12345-678"."""
    return _digits(number, "#####-###")


def pension_number(number: int) -> str:
    """Return a basic pension number: 4 digits, a dash, 6 digits.

    No published rule for a check digit of these was found, so there is none.
    """
    return _digits(number, "####-######")


def resident_code(number: int) -> str:
    """Return a resident record code: 11 digits, the form only."""
    return _digits(number, "#" * 11)


def licence_number(number: int, *, year: int) -> str:
    """Return a Japanese driving licence's number: commission, year, 6 digits, 2 that end it.

    Parameters
    ----------
    year
        In which it was first given.
    """
    number, commission = divmod(number, len(_COMMISSIONS))
    return f"{_COMMISSIONS[commission]}{year % 100:02d}{_digits(number, '#' * 7)}0"


def passport_number(number: int) -> str:
    """Return a Japanese passport's number: two letters and 7 digits."""
    number, first = divmod(number, len(_PASSPORT_LETTERS))
    number, second = divmod(number, len(_LETTERS))
    return _PASSPORT_LETTERS[first] + _LETTERS[second] + _digits(number, "#" * 7)


def record_number(number: int, *, n_digits: int) -> str:
    """Return a hospital's record number, which does not begin with 0."""
    number, first = divmod(number, 9)
    return str(first + 1) + _digits(number, "#" * (n_digits - 1))


def social_security_number(number: int) -> str:
    """Return a US social security number from the range 900-999, which is never given out."""
    return _digits(number, "9##-##-####")


def us_passport_number(number: int) -> str:
    """Return a US passport's number: 9 digits."""
    return _digits(number, "#" * 9)


def us_licence_number(number: int) -> str:
    """Return a number as many US states write a driving licence's: a letter and 8 digits."""
    number, letter = divmod(number, len(_LETTERS))
    return (
        "S" + _digits(number, "#" * 8)
        if letter == 0
        else _LETTERS[letter] + _digits(number, "#" * 8)
    )


def health_plan_number(number: int) -> str:
    """Return a number of the form of a Medicare card: 1EG4-TE5-MK73."""
    text = ""
    for mark in "CAND-AND-AADD":
        if mark == "-":
            text += mark
            continue
        choices = {"C": "123456789", "A": _LETTERS, "D": "0123456789"}.get(
            mark, "0123456789" + _LETTERS
        )
        number, choice = divmod(number, len(choices))
        text += choices[choice]
    return text


def _digits(number: int, form: str) -> str:
    """Return the last digits of a number in the places of a form's #."""
    n = form.count("#")
    digits = iter(f"{number % 10**n:0{n}d}")
    return "".join(next(digits) if mark == "#" else mark for mark in form)


_JAPANESE_HOSPITALS = (
    *("市民病院", "総合病院", "中央病院", "記念病院", "医療センター", "赤十字病院"),
    *("クリニック", "内科医院", "整形外科", "大学病院", "診療所", "リハビリテーション病院"),
)
_JAPANESE_WARDS = ("東", "西", "南", "北", "中央", "新館")
_SCHOOLS = ("小学校", "中学校", "高等学校", "大学", "専門学校")
_COMPANIES = ("工業", "商事", "建設", "運輸", "食品", "電機", "製作所", "不動産")
_JOBS = (
    *("会社員", "農業", "自営業", "公務員", "教員", "看護師", "運転手", "大工", "調理師", "事務員"),
    *(
        "漁業",
        "介護職員",
        "銀行員",
        "美容師",
        "溶接工",
        "警備員",
        "主婦",
        "学生",
        "元教員",
        "元会社員",
    ),
)
_ENGLISH_JOBS = (
    *("teacher", "carpenter", "nurse", "accountant", "truck driver", "farmer", "engineer"),
    *("cook", "lawyer", "librarian", "plumber", "postal worker", "clerk", "electrician"),
)
_AREA_CODES = ("03", "06", "011", "022", "025", "043", "045", "052", "075", "078", "082", "092")


def japanese_address(number: int) -> str:
    """Return an address without its postal code."""
    number, town = divmod(number, 1 << 16)
    block = f"{number % 9 + 1}-{number // 9 % 30 + 1}-{number // 270 % 20 + 1}"
    return _area(number // 5400) + _of("towns", town) + block


def japanese_postcode(number: int) -> str:
    """Return a postal code: 123-4567, not beginning with 000."""
    return f"{number % 990 + 10:03d}-{number // 990 % 10_000:04d}"


def japanese_city(number: int) -> str:
    """Return the name of a city or ward."""
    return _of("cities", number)


def prefecture(number: int) -> str:
    """Return the name of a prefecture."""
    return _of("prefectures", number)


def country(number: int) -> str:
    """Return the Japanese name of a country."""
    return _of("countries", number)


def japanese_hospital(number: int) -> str:
    """Return the name of a hospital or clinic."""
    number, kind = divmod(number, len(_JAPANESE_HOSPITALS))
    name = _JAPANESE_HOSPITALS[kind]
    return (_of("cities", number) if kind < 6 else _of("towns", number)) + name


def ward(number: int, *, locale: str) -> str:
    """Return the name of a ward."""
    if locale != JAPANESE:
        return value_of("ward", number)
    return f"{_JAPANESE_WARDS[number % len(_JAPANESE_WARDS)]}{number // 8 % 9 + 1}病棟"


def school(number: int, *, locale: str) -> str:
    """Return the name of a school."""
    if locale != JAPANESE:
        return value_of("university", number)
    return _of("towns", number // 8) + _SCHOOLS[number % len(_SCHOOLS)]


def company(number: int, *, locale: str) -> str:
    """Return the name of a company."""
    if locale != JAPANESE:
        return value_of("company", number)
    return f"株式会社{_of('towns', number // 8)}{_COMPANIES[number % len(_COMPANIES)]}"


def job(number: int, *, locale: str) -> str:
    """Return what somebody does for a living."""
    jobs = _JOBS if locale == JAPANESE else _ENGLISH_JOBS
    return jobs[number % len(jobs)]


def telephone(number: int, *, locale: str) -> str:
    """Return a telephone number: of a mobile or a fixed line, in the country's form."""
    if locale != JAPANESE:
        return value_of("phone", number)
    number, kind = divmod(number, 5)
    last = f"{number % 10_000:04d}"
    if kind < 3:
        return f"0{(70, 80, 90)[kind]}-{number // 10_000 % 9000 + 1000}-{last}"
    code = _AREA_CODES[number // 10_000 % len(_AREA_CODES)]
    digits = 10 - len(code) - 4
    local = number // 200_000 % (9 * 10 ** (digits - 1)) + 10 ** (digits - 1)
    return f"{code}-{local}-{last}"


def _area(number: int) -> str:
    return _of("prefectures", number) + _of("cities", number // 64)


def _of(table: str, number: int) -> str:
    values = _japanese_table(table)
    return values[number % len(values)]


@functools.cache
def _japanese_table(name: str) -> tuple[str, ...]:
    from faker.providers.address.ja_JP import Provider

    return tuple(getattr(Provider, name))


_OLDEST_LISTED = 94
_NAMESAKES_OF = 100_000


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known about somebody before an identity is drawn.

    Attributes
    ----------
    sex
        "M", "F", or "" where it is not known: then it is drawn.
    age
        In years on the day `on`; None where it is not known: then it is drawn.
    on
        The day on which ages are counted, in the time into which dates are moved.
    """

    sex: str
    age: int | None
    on: date


@dataclass(frozen=True, slots=True)
class Identity:
    """An invented person.

    Attributes
    ----------
    key
        Who it stands for.
    sex
        "M" or "F".
    birth
        Such that the profile's age is right on the profile's day.
    record_number
        Of the hospital; all of `my_number` to `passport` are numbers of public bodies. In English
        `my_number` is the social security number, `insurer` the health plan's, and there is
        neither `pension` nor `resident`: they are "".
    """

    key: str
    name: PersonName
    sex: str
    birth: date
    postcode: str
    address: str
    telephone: str
    email: str
    hospital: str
    record_number: str
    my_number: str
    pension: str
    insurer: str
    insured: str
    resident: str
    licence: str
    passport: str


def age_on(birth: date, day: date) -> int:
    """Return the age in whole years, at least 0."""
    return max(0, day.year - birth.year - ((day.month, day.day) < (birth.month, birth.day)))


@functools.lru_cache(maxsize=20_000)
def identity_of(seed: int, key: str, profile: Profile, *, locale: str) -> Identity:
    """Return the identity of a key: the same for the same seed, key, profile and locale."""
    if locale not in LOCALES:
        raise ValueError(f"{locale}: no names of this locale")
    sex = profile.sex or "MF"[draw(seed, "sex", key) & 1]
    birth = _birth(seed, key, profile)
    name = name_of(seed, key, sex=sex, birth_year=birth.year, locale=locale)
    common = {
        "key": key,
        "name": name,
        "sex": sex,
        "birth": birth,
        "telephone": telephone(draw(seed, "telephone", key), locale=locale),
        "email": email_of(name, number=draw(seed, "email", key)),
        "hospital": hospital_of(draw(seed, "hospital", key), locale=locale),
    }
    own = _japanese_values if locale == JAPANESE else _english_values
    return Identity(**common, **own(seed, key, birth))  # type: ignore[arg-type]


def name_of(seed: int, key: str, *, sex: str, birth_year: int, locale: str) -> PersonName:
    """Return the name of a key: surnames as common as Faker has them, given names of the time."""
    if locale == JAPANESE:
        given = given_names(sex, time_of(birth_year)).picked(draw(seed, "given", key))
        return PersonName(surnames().picked(draw(seed, "surname", key)), given, "", locale)
    person = person_of(seed, key, sex=sex)
    return PersonName(_english(person.last), _english(person.first), person.initial, locale)


def hospital_of(number: int, *, locale: str) -> str:
    """Return the name of a hospital."""
    if locale != JAPANESE:
        return value_of("hospital", number)
    return japanese_hospital(number)


def email_of(name: PersonName, *, number: int) -> str:
    """Return an address at a domain that can never exist (RFC 2606)."""
    given, surname = name.given.romaji.lower(), name.surname.romaji.lower()
    letters = "".join(c for c in f"{given}.{surname}" if c.isascii() and (c.isalpha() or c == "."))
    return f"{letters}{number % 100}@example.{('com', 'org', 'net')[number // 100 % 3]}"


def namesakes_expected(*, locale: str) -> float:
    """Return how many of 100,000 people of all ages share a person's full name, on average.

    The chance that two people drawn apart have the same name, times 100,000. Sexes count half
    each, times of birth as drawn ages have them in 2015.
    """
    pool = us_pool()
    given: dict[str, float] = dict(zip(pool.first, pool.first_share, strict=True))
    last = pool.last_share
    if locale == JAPANESE:
        times = Counter(time_of(2015 - age) for age in range(_YOUNGEST, _OLDEST_LISTED))
        given, last = defaultdict(float), surnames().shares
        for sex, (time, n) in product("MF", times.items()):
            table = given_names(sex, time)
            for part, share in zip(table.names, table.shares, strict=True):
                given[part.written] += share * n / times.total() / 2
    return _NAMESAKES_OF * sum(share**2 for share in given.values()) * sum(s**2 for s in last)


def _birth(seed: int, key: str, profile: Profile) -> date:
    age = profile.age
    if age is None:
        age = _YOUNGEST + draw(seed, "age", key) % (_OLDEST_LISTED - _YOUNGEST)
    on = profile.on
    year = max(1, on.year - age)
    # Who was born on 29 February has a birthday on the 28th where there is no 29th.
    latest = on.replace(year=year, day=28) if (on.month, on.day) == (2, 29) else on.replace(year)
    return latest - timedelta(days=draw(seed, "birthday", key) % 365) if year > 1 else latest


def _japanese_values(seed: int, key: str, birth: date) -> dict[str, str]:
    number = functools.partial(draw, seed)
    return {
        "postcode": japanese_postcode(number("postcode", key)),
        "address": japanese_address(number("address", key)),
        "record_number": record_number(number("record", key), n_digits=8),
        "my_number": my_number(number("my number", key)),
        "pension": pension_number(number("pension", key)),
        "insurer": insurer_number(number("insurer", key)),
        "insured": insured_symbol(number("insured", key)),
        "resident": resident_code(number("resident", key)),
        "licence": licence_number(number("licence", key), year=birth.year + 20),
        "passport": passport_number(number("passport", key)),
    }


def _english_values(seed: int, key: str, birth: date) -> dict[str, str]:
    number = functools.partial(draw, seed)
    return {
        "postcode": value_of("zipcode", number("postcode", key)).split()[-1],
        "address": value_of("address", number("address", key)),
        "record_number": record_number(number("record", key), n_digits=7),
        "my_number": social_security_number(number("my number", key)),
        "pension": "",
        "insurer": health_plan_number(number("insurer", key)),
        "insured": insured_symbol(number("insured", key)),
        "resident": "",
        "licence": us_licence_number(number("licence", key)),
        "passport": us_passport_number(number("passport", key)),
    }


def _english(name: str) -> NamePart:
    return NamePart(name, "", name)
