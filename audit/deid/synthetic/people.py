"""The people, places, days and numbers of one Japanese synthetic note.

A slot `{@kind}` of the grammar is answered here. People: patient, family, family2, doctor, doctor2,
doctor3, nurse, other, other2; behind a dot the form: surname, given, kana, half_kana, hiragana,
romaji, initials, initial, dotted; `new` draws somebody else each time. In wide notes some people
have names of other countries. Whole names are identifiers, parts
of names quasi-identifiers. Other kinds are those of `NUMBERS` and `PLACES`, age, sex, job, days.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate
from pathlib import Path
from typing import ClassVar

from audit.deid.synthetic.grammar import Dice, Piece, word_list
from audit.names import people
from audit.names.people import (
    ENGLISH,
    JAPANESE,
    NamePart,
    PersonName,
    full_form,
    half_width,
    hiragana,
    label_of,
    romaji_of,
    written,
)
from audit.notes.dates import era_year
from audit.notes.spans import CONTACT, IDENTIFIER, LINKAGE_CODE, PERSONAL_ID_CODE
from audit.notes.spans import QUASI_IDENTIFIER as QUASI

_LISTED_SHARE = 0.55
_RARE_SHARE = 0.12
_OLD_BEFORE, _MIDDLE_BEFORE = 1950, 1980


def japanese_name(dice: Dice, *, sex: str, birth_year: int, is_wide: bool = False) -> PersonName:
    """Return a name: sex is "M" or "F"; given names in kana are of the old and the young.

    A wide one has a rare surname more often.
    """
    surname = (
        _ranked("surnames", dice) if dice.chance(_LISTED_SHARE) else _composed("surname", dice)
    )
    if is_wide and dice.chance(_RARE_SHARE):
        surname = dice.pick(_parts("surnames_rare"))
    return PersonName(surname, given_name(dice, sex=sex, birth_year=birth_year), "", JAPANESE)


def given_name(dice: Dice, *, sex: str, birth_year: int) -> NamePart:
    """Return a Japanese given name of a sex and a year of birth."""
    time = "old" if birth_year < _OLD_BEFORE else "middle"
    if birth_year >= _MIDDLE_BEFORE:
        time = "young"
    kind = f"{'male' if sex == 'M' else 'female'}_{time}"
    if dice.chance(_LISTED_SHARE):
        return dice.pick(_parts(kind))
    return _composed("male" if sex == "M" else "female", dice)


def english_name(dice: Dice, *, sex: str, is_wide: bool = False) -> PersonName:
    """Return an English name, with the initial of a middle name; a wide one is of more names."""
    first = dice.pick(word_list("en", "male" if sex == "M" else "female"))
    last = dice.pick(word_list("en", "surnames"))
    if is_wide:
        first, last = _wide_given(first, dice, sex=sex), _wide_surname(last, dice)
    if dice.chance(0.04):
        last = f"{last}-{dice.pick(word_list('en', 'surnames'))}"
    middle = dice.pick("ABCDEFGHJKLMNPRSTW")
    return PersonName(NamePart(last, "", last), NamePart(first, "", first), middle, ENGLISH)


def _wide_given(listed: str, dice: Dice, *, sex: str) -> str:
    if dice.chance(0.4):
        return listed
    return dice.pick(word_list("en", "male_more" if sex == "M" else "female_more"))


def _wide_surname(listed: str, dice: Dice) -> str:
    kind = dice.between(0, 9)
    if kind < 3:
        return listed
    if kind < 6:
        return dice.pick(word_list("en", "surnames_more"))
    halves = ("surname_first", "surname_last") if kind < 9 else ("surname_roots", "surname_ends")
    return "".join(dice.pick(word_list("en", half)) for half in halves)


@functools.cache
def _parts(name: str) -> tuple[NamePart, ...]:
    words = word_list("ja", name)
    return tuple(
        NamePart(written, kana, romaji_of(kana))
        for written, kana in zip(words[::2], words[1::2], strict=True)
    )


def _ranked(name: str, dice: Dice) -> NamePart:
    parts = _parts(name)
    totals = _totals(len(parts))
    return parts[bisect_right(totals, dice.number() / 2**53 * totals[-1], hi=len(parts) - 1)]


@functools.cache
def _totals(n: int) -> tuple[float, ...]:
    return tuple(accumulate(1 / (rank + 8) for rank in range(n)))


def _composed(kind: str, dice: Dice) -> NamePart:
    first, last = (dice.pick(_halves(f"{kind}_{half}")) for half in ("first", "last"))
    if first[0] == last[0]:
        return _composed(kind, dice)
    kana = first[1] + last[1]
    return NamePart(first[0] + last[0], kana, romaji_of(kana))


@functools.cache
def _halves(name: str) -> tuple[tuple[str, str], ...]:
    words = word_list("ja", name)
    return tuple(zip(words[::2], words[1::2], strict=True))


_FIRST_DAY, _N_DAYS = date(2003, 4, 1), 22 * 365
_EARLY_SHARE, _EARLY_DAYS = 0.15, 30 * 365


@dataclass(frozen=True, slots=True)
class PatientFacts:
    """Who a patient is: sex is "M" or "F", `first_day` that of the first note."""

    name: PersonName
    sex: str
    birth: date
    first_day: date
    dice_key: str
    is_wide: bool = False


def patient_facts(seed: int, key: str, *, language: str, is_wide: bool = False) -> PatientFacts:
    """Return the invented patient of a key, of any age, more often old than young.

    Notes of a wide patient have more names and ways of writing, those of training alone.
    """
    dice = Dice(seed, "synthetic patient", key)
    sex = dice.pick("MF")
    first_day = _FIRST_DAY + timedelta(days=dice.between(0, _N_DAYS))
    if dice.chance(_EARLY_SHARE):
        first_day -= timedelta(days=dice.between(0, _EARLY_DAYS))
    kind = dice.between(0, 19)
    age = dice.between(20, 97) if kind > 2 else dice.between(0, 19)
    if kind > 11:
        age = dice.between(60, 94)
    days = age * 1461 // 4 + dice.between(1, 364)
    birth = first_day - timedelta(days=days if age or dice.chance(0.5) else dice.between(1, 27))
    if language == "en":
        name = english_name(dice, sex=sex, is_wide=is_wide)
    else:
        name = japanese_name(dice, sex=sex, birth_year=birth.year, is_wide=is_wide)
    return PatientFacts(name, sex, birth, first_day, key, is_wide)


_DOTS, _GAPS = ("・", "・", "・", "・", " ", "　", "＝", "･"), (" ", "", "　")


@functools.cache
def _countries() -> tuple[tuple[tuple[str, ...], ...], ...]:
    # A line for a country; the words for each part of a name stand between bars.
    path = Path(__file__).resolve().parent / "ja" / "foreign_people.txt"
    lines = (line for line in path.read_text("utf-8").splitlines() if not line.startswith("#"))
    return tuple(tuple(tuple(part.split()) for part in line.split("|")) for line in lines)


def foreign_parts(dice: Dice) -> tuple[str, ...]:
    """Return the parts of a name."""
    return tuple(dice.pick(words) for words in dice.pick(_countries()))


def foreign_name(parts: tuple[str, ...], dice: Dice) -> str:
    """Return the whole name of some parts: with dots most often, in kanji with a blank or none."""
    is_katakana = "ァ" <= parts[0][0] <= "ヿ"
    return dice.pick(_DOTS if is_katakana else _GAPS).join(parts)


_USUAL_SHARE = 0.85
_READINGS = ("kana", "half_kana", "hiragana")


def named(name: PersonName, form: str, *, usual: str, dice: Dice) -> Piece:
    """Return a name in a form; "" is the whole name in kanji, most often in the `usual` form."""
    if form == "foreign":
        return Piece(_foreign(dice), IDENTIFIER)
    if form == "romaji":
        return Piece(_romaji(name, dice), IDENTIFIER)
    if form in _READINGS:
        gaps = (" ", " ", "") if form == "half_kana" else (" ", " ", "　", "")
        return Piece(written(name, form).replace(" ", dice.pick(gaps)), IDENTIFIER)
    if form == "initial":
        return Piece(name.surname.romaji[0], QUASI)
    if form == "dotted":
        return Piece(_dotted(name, dice), QUASI)
    if form == "initials":
        return Piece(_initials(name, dice), QUASI)
    if form.startswith("surname_"):
        return Piece(_surname(name, form.partition("_")[2]), QUASI)
    if not form:
        form = usual if dice.chance(_USUAL_SHARE) else full_form(name.locale, dice.number())
    return Piece(written(name, form), label_of(form))


def _foreign(dice: Dice) -> str:
    surname = dice.pick(word_list("ja", "foreign_surnames"))
    return surname + dice.pick(("・", " ", "　")) + dice.pick(word_list("ja", "foreign_given"))


def _surname(name: PersonName, form: str) -> str:
    kana = name.surname.kana
    return {
        "kana": kana,
        "hiragana": hiragana(kana),
        "half_kana": half_width(kana),
        "romaji": name.surname.romaji,
    }[form]


def _initials(name: PersonName, dice: Dice) -> str:
    surname, given = name.surname.romaji[0], name.given.romaji[0]
    wide = f"{surname}．{given}．"
    return dice.pick((f"{surname}.{given}.", f"{surname}.{given}", f"{surname}{given}", wide))


def _dotted(name: PersonName, dice: Dice) -> str:
    surname, given = name.surname.romaji[0], name.given.romaji[0]
    wide = "".join(chr(ord(letter) + 0xFEE0) for letter in surname + given)
    forms = (
        f"{surname}・{given}",
        f"{surname}.{given}.",
        f"{surname}. {given}.",
        f"{surname}.{given}",
    )
    return dice.pick(
        (
            *forms,
            f"{wide[0]}・{wide[1]}",
            forms[0],
            forms[0],
            f"{wide[0]}.{wide[1]}.",
            wide,
            f"{given}.{surname}.",
        )
    )


def _romaji(name: PersonName, dice: Dice) -> str:
    surname, given = name.surname.romaji, name.given.romaji
    return dice.pick(
        (
            f"{given} {surname}",
            f"{surname} {given}",
            f"{surname.upper()} {given}",
            f"{surname.upper()} {given.upper()}",
            f"{given} {surname.upper()}",
            f"{surname}, {given}",
        )
    )


_AREA_CODES = (
    *("03", "06", "011", "022", "025", "043", "045", "052", "075", "078", "082", "092", "0466"),
    *("0238", "0263", "0776", "0877", "0942", "0980", "0155", "0268", "0594", "0749", "0835"),
)
_DOMAINS = ("com", "org", "net")
_HOSTS = ("mail", "renkei", "hosp", "clinic", "info", "home")


def telephone(dice: Dice) -> str:
    """Return a Japanese telephone number of a fixed line."""
    code = dice.pick(_AREA_CODES)
    local = str(dice.between(2 * 10 ** (5 - len(code)), 10 ** (6 - len(code)) - 1))
    last = _digits_of(dice, 4)
    forms = (f"{code}-{local}-{last}",) * 6 + (
        f"{code}({local}){last}",
        f"({code}){local}-{last}",
        f"{code} {local} {last}",
        f"{code}{local}{last}",
        f"{code}（{local}）{last}",
        f"{code}ー{local}ー{last}",
        f"+81-{code[1:]}-{local}-{last}",
    )
    return dice.pick(forms)


def mobile(dice: Dice) -> str:
    """Return the number of a mobile telephone."""
    first = dice.pick(("070", "080", "090"))
    middle, last = str(dice.between(1000, 9999)), _digits_of(dice, 4)
    if dice.chance(0.15):
        return first + middle + last
    sign = dice.pick(("-",) * 8 + (" ", "ー", "－"))
    return f"{first}{sign}{middle}{sign}{last}"


def extension(dice: Dice) -> str:
    """Return the number of a telephone inside a hospital."""
    return str(dice.between(1000, 89999)) if dice.chance(0.3) else str(dice.between(2000, 8999))


def email(dice: Dice) -> str:
    """Return an address at a domain that can never exist (RFC 2606)."""
    name = "".join(dice.pick("abcdefghijklmnoprstuwy") for _ in range(dice.between(3, 9)))
    name += dice.pick(("", "", f".{dice.pick('abcdehikmnst')}", f"_{dice.between(1, 99)}", "0401"))
    host = dice.pick(("", "", f"{dice.pick(_HOSTS)}."))
    return f"{name}@{host}example.{dice.pick(_DOMAINS)}"


def web_address(dice: Dice) -> str:
    """Return the address of a page at a domain that can never exist."""
    page = dice.pick(("", "/", "/renkei/", "/gairai/index.html", "/contact"))
    return f"{dice.pick(('https://', 'http://', ''))}www.{dice.pick(_HOSTS)}.example.jp{page}"


def record(dice: Dice) -> str:
    """Return the number of a record, as one of many hospitals writes it."""
    n = dice.between(5, 10)
    forms = (_digits_of(dice, n, is_first_zero=n > 7),) * 6 + (
        f"{_digits_of(dice, 3)}-{_digits_of(dice, 4)}",
        f"{_digits_of(dice, 2)}-{_digits_of(dice, 5)}-{_digits_of(dice, 1)}",
        f"{dice.pick('ABCHKNPSX')}{_digits_of(dice, 6)}",
        f"{_digits_of(dice, 4)} {_digits_of(dice, 4)}",
        f"{dice.pick(('PT', 'ID', 'KH', 'NB'))}-{_digits_of(dice, 6)}",
    )
    return dice.pick(forms)


def specimen(dice: Dice) -> str:
    """Return the number of a specimen, an examination or a document."""
    year, letter = dice.between(5, 25), dice.pick("SPHBCTGKRX")
    forms = (
        f"{letter}{year:02d}-{_digits_of(dice, 5)}",
        f"{year:02d}-{_digits_of(dice, 5)}",
        f"20{year:02d}{_digits_of(dice, 6)}",
        f"{letter}-{_digits_of(dice, 6)}",
        f"{dice.pick(('CT', 'MR', 'US', 'XR', 'EN'))}{_digits_of(dice, 8)}",
        _digits_of(dice, dice.between(6, 12)),
        f"20{year:02d}-{_digits_of(dice, 4)}",
    )
    return dice.pick(forms)


def _digits_of(dice: Dice, n: int, *, is_first_zero: bool = True) -> str:
    low = 0 if is_first_zero or n == 1 else 10 ** (n - 1)
    return f"{dice.between(low, 10**n - 1):0{n}d}"


def _my_number(dice: Dice) -> str:
    text = people.my_number(dice.number())
    sign = dice.pick(("", "", " ", "-"))
    return sign.join((text[:4], text[4:8], text[8:]))


def _licence(dice: Dice) -> str:
    return people.licence_number(dice.number(), year=date(1960, 1, 1).year + dice.between(0, 55))


def _insured(dice: Dice) -> str:
    symbol = dice.pick(("", "", "国", "い", "公立", "健"))
    sign = dice.pick(("-", "・", "‐"))
    first = _digits_of(dice, dice.between(2, 8))
    return f"{symbol}{first}{sign}{_digits_of(dice, dice.between(1, 7))}"


def _card(dice: Dice) -> str:
    def letters() -> str:
        return dice.pick("ABCDEFGHJKLMNPRSTU") + dice.pick("ABCDEFGHJKLMNPRSTU")

    return f"{letters()}{_digits_of(dice, 8)}{letters()}"


def _pension(dice: Dice) -> str:
    text = people.pension_number(dice.number())
    return text if dice.chance(0.8) else text.replace("-", "")


NUMBERS: dict[str, tuple[str, Callable[[Dice], str]]] = {
    "phone": (CONTACT, telephone),
    "fax": (CONTACT, telephone),
    "mobile": (CONTACT, mobile),
    "extension": (CONTACT, extension),
    "email": (CONTACT, email),
    "url": (CONTACT, web_address),
    "record": (LINKAGE_CODE, record),
    "specimen": (LINKAGE_CODE, specimen),
    "my_number": (PERSONAL_ID_CODE, _my_number),
    "pension": (PERSONAL_ID_CODE, _pension),
    "insurer": (PERSONAL_ID_CODE, lambda dice: people.insurer_number(dice.number())),
    "insured": (PERSONAL_ID_CODE, _insured),
    "insured.symbol": (PERSONAL_ID_CODE, lambda dice: _digits_of(dice, dice.between(2, 8))),
    "insured.number": (PERSONAL_ID_CODE, lambda dice: _digits_of(dice, dice.between(1, 7))),
    "resident": (PERSONAL_ID_CODE, lambda dice: people.resident_code(dice.number())),
    "licence": (PERSONAL_ID_CODE, _licence),
    "passport": (PERSONAL_ID_CODE, lambda dice: people.passport_number(dice.number())),
    "care_insured": (PERSONAL_ID_CODE, lambda dice: _digits_of(dice, 10)),
    "welfare": (PERSONAL_ID_CODE, lambda dice: _digits_of(dice, dice.pick((7, 8)))),
    "residence_card": (PERSONAL_ID_CODE, _card),
    "late_elderly": (PERSONAL_ID_CODE, lambda dice: _digits_of(dice, 8)),
}
"""Type and maker of each kind of number."""


_KANJI = "〇一二三四五六七八九"
_LONG = (
    *("western", "western", "western", "era", "era", "slashes", "slashes", "plain slashes"),
    *("letter", "letter slashes", "dashes", "dots", "short", "kanji", "spaced", "packed", "big"),
)
_SHORT = ("月日", "月日", "月日", "/", "/", "0/", "wide /", ".", "kanji")


def kanji_number(number: int) -> str:
    """Return a number below 100 in kanji: 二十三."""
    tens, ones = divmod(number, 10)
    text = "" if not tens else ("十" if tens == 1 else f"{_KANJI[tens]}十")
    return text + (_KANJI[ones] if ones else "") or _KANJI[0]


def sexed_age(years: int, sex: str, dice: Dice) -> str:
    """Return an age in years and a sex, "M" or "F", in one piece: 34F, 58♂, 72歳男."""
    letter, sign, word = (sex, "♂♀"[sex == "F"], "男女"[sex == "F"])
    return dice.pick(
        (f"{years}{letter}",) * 4
        + (f"{years}{sign}",) * 3
        + (f"{years}歳{sign}", f"{years}歳{word}", f"{years}{word}", f"{years}y{letter}")
        + (f"{years}{letter}", f"{max(1, years // 10) * 10}代{sign}", f"{years}歳{letter}")
    )


class DateWriter:
    """Writes the days of one note."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._long = dice.pick(_LONG)
        self._short = dice.pick(_SHORT)
        self._is_steady = dice.chance(0.7)

    def long(self, day: date) -> str:
        """Return a day with its year."""
        style = self._long if self._is_steady else self._dice.pick(_LONG)
        year, month, of_month = day.year, day.month, day.day
        era, letter, n = era_year(day)
        numbered = "元" if n == 1 else str(n)
        if style == "kanji":
            first = "元" if n == 1 else kanji_number(n)
            return f"{era}{first}年{kanji_number(month)}月{kanji_number(of_month)}日"
        return {
            "western": f"{year}年{month}月{of_month}日",
            "era": f"{era}{numbered}年{month}月{of_month}日",
            "slashes": f"{year}/{month:02d}/{of_month:02d}",
            "plain slashes": f"{year}/{month}/{of_month}",
            "letter": f"{letter}{n}.{month}.{of_month}",
            "letter slashes": f"{letter}{n}/{month}/{of_month}",
            "dashes": day.isoformat(),
            "dots": f"{year}.{month}.{of_month}",
            "short": f"{letter}{n:02d}.{month:02d}.{of_month:02d}",
            "spaced": f"{era} {n}年 {month}月 {of_month}日",
            "packed": f"{year}{month:02d}{of_month:02d}",
            "big": f"西暦{year}年{month}月{of_month}日",
        }[style]

    def short(self, day: date) -> str:
        """Return a day without its year."""
        style = self._short if self._is_steady else self._dice.pick(_SHORT)
        if style == "kanji":
            return f"{kanji_number(day.month)}月{kanji_number(day.day)}日"
        sign = style[-1]
        if sign == "日":
            return f"{day.month}月{day.day}日"
        text = f"{day.month}{sign}{day.day}"
        if style.startswith("0"):
            text = f"{day.month:02d}{sign}{day.day:02d}"
        return text.translate(WIDE) if style.startswith("wide") else text.replace(".", "/")

    def month(self, day: date) -> str:
        """Return a month, with its year or without."""
        era, letter, n = era_year(day)
        return self._dice.pick(
            (
                f"{day.year}年{day.month}月",
                f"{era}{n}年{day.month}月",
                f"{day.month}月",
                f"{day.year}/{day.month}",
                f"{letter}{n}年{day.month}月",
            )
        )

    def year(self, day: date) -> str:
        """Return a year."""
        era, letter, n = era_year(day)
        return self._dice.pick(
            (f"{day.year}年", f"{era}{n}年", f"{letter}{n}年", f"{day.year}年", f"{era}{n}年")
        )

    def age(self, years: int, *, days: int) -> str:
        """Return an age with its unit; of infants in months or days."""
        dice = self._dice
        if years == 0:
            if days < 28:
                return dice.pick((f"日齢{days}", f"生後{days}日", f"生後{max(1, days // 7)}週"))
            month = dice.pick(("か月", "ヶ月", "カ月"))
            return dice.pick((f"生後{days // 30}{month}", f"{days // 30}{month}"))
        if years < 4:
            return f"{years}歳{days % 365 * 12 // 365}{dice.pick(('か月', 'ヶ月'))}"
        if dice.chance(0.04):
            return f"{kanji_number(years)}歳" if years < 100 else f"{years}歳"
        return f"{years}{dice.pick(('歳',) * 14 + ('才', ' 歳'))}"

    def tens(self, years: int) -> str:
        """Return an age in tens of years."""
        tens = years // 10 * 10
        return f"{tens}{self._dice.pick(('歳代', '代', '代'))}" if tens else "10歳未満"


WIDE = str.maketrans(
    "0123456789/ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz()%+-=:.,",
    "０１２３４５６７８９／ＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯＰＱＲＳＴＵＶＷＸＹＺａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ（）％＋－＝：．，",
)


_BRITISH_HOSPITALS = (
    *("Royal Infirmary", "General", "Infirmary", "District General Hospital", "Hospital", "RI"),
    *("Health Centre", "Surgery", "Community Hospital", "Medical Practice", "Hospice", "DGH"),
    *("VA Medical Center", "Eye Institute", "Urgent Care", "Medical Group", "Walk-in Centre"),
)
_SAINTS = ("Thomas", "George", "Mary", "James", "Barnabas", "Columba", "Hilda", "Cuthbert", "Bride")
_ROADS = (
    "Road",
    "Rd",
    "Street",
    "Close",
    "Crescent",
    "Terrace",
    "Grove",
    "Gardens",
    "Hill",
    "Mews",
)
_WARDS = (
    "Ward {n}",
    "Ward {n}{letter}",
    "{letter}{n}",
    "ward {n}",
    "{word} Ward",
    "Level {n} East",
)
_WARD_NAMES = ("Nightingale", "Elm", "Lister", "Churchill", "Cedar", "Fleming", "Heron", "Willow")
_BRITISH = (
    *(
        "{0:%d}/{0:%m}/{0:%Y}",
        "{0:%d}/{0:%m}/{0:%y}",
        "{0:%d}.{0:%m}.{0:%y}",
        "{0.day} {0:%B} {0.year}",
    ),
    *("{0.day}{nth} {0:%B} {0.year}", "{0.day} {0:%b} {0:%y}", "{0:%d}-{0:%b}-{0:%Y}"),
    *("{0.day}.{0.month}.{0.year}", "{0:%d}{0:%b}{0:%Y}"),
)
_BRIEF = (
    *(
        "{0.day}/{0.month}",
        "{0.month}/{0.day}",
        "{0.day} {0:%B}",
        "{0.day}{nth} {0:%B}",
        "{0:%b} {0.day}",
    ),
    *("{0.day} {0:%b}", "{0:%d}-{0:%b}", "{0:%B} {0.day}", "{0:%d}/{0:%m}", "{0.day}{nth} {0:%b}"),
)


def british_day(day: date, dice: Dice, *, has_year: bool) -> str:
    """Return a day in one of many ways, with its year or without."""
    last = day.day % 10 if day.day not in (11, 12, 13) else 0
    nth = {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
    return dice.pick(_BRITISH if has_year else _BRIEF).format(day, nth=nth)


def short_age(years: int, sex: str, dice: Dice) -> str:
    """Return an age in short: 34y, or with the sex M or F where `sex` is one, in one piece: 34F."""
    if sex:
        return dice.pick((f"{years}{sex}",) * 5 + (f"{years}y{sex}", f"{years}yo{sex}"))
    unit = dice.pick(
        ("y", "y", "yo", "yrs", " yrs", " yo", " years", "y/o", " yr old", " years old")
    )
    return f"{years}{unit}"


def _blanked(name: str) -> Callable[[Dice], str]:
    return lambda dice: dice.pick(word_list("en", name)).replace("_", " ")


_place, _craft = _blanked("places"), _blanked("crafts")


def _infirmary(dice: Dice) -> str:
    kind = dice.between(0, 9)
    if kind == 0:
        return f"St {dice.pick(_SAINTS)}'{dice.pick(('s', 's', ''))} Hospital"
    if kind == 1:
        return f"St. {dice.pick(_SAINTS)}'s"
    where = _place(dice) if kind < 7 else dice.pick(word_list("en", "surnames_more"))
    return f"{where} {dice.pick(_BRITISH_HOSPITALS)}"


def _street(dice: Dice) -> str:
    name = dice.pick(word_list("en", dice.pick(("surnames_more", "towns", "surnames"))))
    flat = dice.pick(("", "", "", f"Flat {dice.between(1, 30)}, "))
    return f"{flat}{dice.between(1, 240)} {name} {dice.pick(_ROADS)}"


def _postcode(dice: Dice) -> str:
    letters = "ABDEFGHJLNPQRSTUWXYZ"
    end = f"{dice.between(1, 9)}{dice.pick(letters)}{dice.pick(letters)}"
    area = dice.pick(("LS", "M", "SW", "E", "NE", "EX", "CF", "BT", "G", "PO", "B", "YO", "TN"))
    return f"{area}{dice.between(1, 28)} {end}"


def _full_address(dice: Dice) -> str:
    return f"{_street(dice)}, {_place(dice)}{dice.pick((' ', ', '))}{_postcode(dice)}"


def _telephone(dice: Dice) -> str:
    # Numbers that Ofcom and the NANP keep for stories.
    last = f"{dice.between(0, 999):03d}"
    return dice.pick(
        (
            f"020 7946 0{last}",
            f"07700 900{last}",
            f"07700900{last}",
            f"0113 496 0{last}",
            f"01632 960{last}",
            f"01632 960 {last}",
            f"+44 7700 900{last}",
            f"(0161) 496 0{last}",
            f"555-0{last}",
            f"1-800-555-0{last}",
        )
    )


def _ward(dice: Dice) -> str:
    form, word = dice.pick(_WARDS), dice.pick(_WARD_NAMES)
    return form.format(n=dice.between(1, 34), letter=dice.pick("ABCDE"), word=word)


def _health_number(dice: Dice) -> str:
    sign = dice.pick((" ", " ", "-", ""))
    return sign.join((f"9{_digits_of(dice, 2)}", _digits_of(dice, 3), _digits_of(dice, 4)))


def _passport(dice: Dice) -> str:
    letters = "".join(dice.pick("ABCEGHJKLMNPRTXZ") for _ in range(2))
    return dice.pick(
        (
            _digits_of(dice, 9),
            letters[0] + _digits_of(dice, 8),
            letters + _digits_of(dice, 7),
        )
    )


def _device(dice: Dice) -> str:
    letters = "".join(dice.pick("ABCDEFGHKLMNPRSTX") for _ in range(3))
    return dice.pick(
        (
            f"{letters}{_digits_of(dice, 6)}",
            f"{letters}-{_digits_of(dice, 4)}-{_digits_of(dice, 3)}",
            f"{letters[:2]}{_digits_of(dice, 2)}-{_digits_of(dice, 5)}",
            f"SN{_digits_of(dice, 8)}",
            _digits_of(dice, 10),
            f"{_digits_of(dice, 4)}{letters[0]}{_digits_of(dice, 4)}",
        )
    )


def _insurance_number(dice: Dice) -> str:
    pairs = (dice.pick("ABCEHJKLMNPRSTWXYZ") + dice.pick("ABCEHJKLMNPRSTWXYZ"), dice.pick("ABCD"))
    sign = dice.pick((" ", ""))
    return sign.join((pairs[0], *(_digits_of(dice, 2) for _ in range(3)), pairs[1]))


MORE_PLACES: dict[str, Callable[[Dice], str]] = {
    "place": _place,
    "place2": _place,
    "craft": _craft,
    "infirmary": _infirmary,
    "street": _street,
    "full_address": _full_address,
    "uk_ward": _ward,
}
"""Makers of quasi-identifiers by the kind of a slot."""

MORE_NUMBERS: dict[str, tuple[str, Callable[[Dice], str]]] = {
    "telephone": (CONTACT, _telephone),
    "extension": (CONTACT, lambda dice: str(dice.between(1000, 9999))),
    "health_number": (PERSONAL_ID_CODE, _health_number),
    "insurance_number": (PERSONAL_ID_CODE, _insurance_number),
    "any_passport": (PERSONAL_ID_CODE, _passport),
    "device": (LINKAGE_CODE, _device),
}
"""Type and maker of each kind of number."""


_PRACTICES = (
    *("病院", "総合病院", "中央病院", "記念病院", "医療センター", "赤十字病院", "市民病院"),
    *("クリニック", "内科クリニック", "内科医院", "整形外科", "診療所", "医院", "厚生病院"),
    *("リハビリテーション病院", "胃腸科外科", "小児科", "眼科", "耳鼻咽喉科", "循環器病院"),
    *("こどもクリニック", "脳神経外科病院", "産婦人科", "皮フ科", "泌尿器科クリニック"),
)
_CITY_KINDS = (
    *("市立病院", "市民病院", "市立総合病院", "中央病院", "赤十字病院", "医師会病院", "労災病院"),
    *("大学病院", "大学医学部附属病院", "医科大学病院", "がんセンター", "総合医療センター"),
)
_SHORT_KINDS = (
    *(
        "日赤",
        "医大",
        "大",
        "大病院",
        "市民",
        "中央",
        "県立",
        "市立",
        "労災",
        "済生会",
        "医療センター",
    ),
    *("厚生", "大附属", "がんセンター", "こども", "逓信", "共済", "成人病センター", "病院"),
)
_SHORT_PRACTICES = (
    *("眼科", "内科", "医院", "クリニック", "皮膚科", "整形", "耳鼻科", "小児科", "歯科", "胃腸科"),
    *("産婦人科", "外科", "泌尿器科", "メンタル", "ペインクリニック", "脳外科", "レディース"),
)
_BEFORE = ("国立病院機構", "済生会", "医療法人社団", "独立行政法人", "社会医療法人", "聖", "JA")
_HOMES = ("苑", "荘", "の里", "の郷", "ホーム", "園")
_HOME_KINDS = (
    *("特別養護老人ホーム", "介護老人保健施設", "グループホーム", "有料老人ホーム", "ケアハウス"),
    *("サービス付き高齢者向け住宅", "デイサービス", "小規模多機能ホーム", "特養", "老健"),
)
_SCHOOLS = ("高校", "高等学校", "大学", "看護専門学校", "工業高校", "中学校")
_SCHOOLS_OF = (
    (6, ("幼稚園", "保育園", "こども園")),
    (12, ("小学校", "小学校", "学童クラブ")),
    (15, ("中学校", "中学")),
    (18, ("高校", "高等学校")),
)
_COMPANIES = ("工業", "商事", "建設", "運輸", "食品", "電機", "製作所", "不動産", "水産", "農園")
_ROOMS = ("号室", "号室", "号")
_MANSIONS = ("マンション", "ハイツ", "コーポ", "レジデンス", "団地", "メゾン", "荘")


def address(dice: Dice) -> str:
    """Return an address: with prefecture or without, with or without a building."""
    place = dice.pick(word_list("ja", "cities"))
    if dice.chance(0.65):
        place = dice.pick(word_list("ja", "prefectures")) + place
    place += dice.pick(word_list("ja", "towns"))
    one, two, three = dice.between(1, 9), dice.between(1, 40), dice.between(1, 30)
    number = (
        f"{one}-{two}-{three}",
        f"{one}丁目{two}番{three}号",
        f"{one}丁目{two}-{three}",
        f"{two}番地{three}",
        f"{two * 37 + three}",
        f"{two * 11}番地",
    )
    place += number[min(dice.between(0, 8), 5)] if dice.chance(0.6) else number[0]
    if dice.chance(0.2):
        building = dice.pick(word_list("ja", "hospital_words")) + dice.pick(_MANSIONS)
        place += f"{dice.pick((' ', '', '　'))}{building}{dice.between(1, 12)}0{dice.between(1, 9)}"
        place += dice.pick(("", "号室", "号"))
    return place


def hospital(dice: Dice) -> str:
    """Return the name of a hospital or clinic."""
    kind = dice.between(0, 9)
    if kind < 3:
        city = dice.pick(word_list("ja", "cities"))
        return city[:-1] + dice.pick(_CITY_KINDS)
    if kind == 3:
        return dice.pick(word_list("ja", "prefectures")) + dice.pick(("立中央病院", "立こども病院"))
    if kind == 4:
        own = dice.pick(word_list("ja", "hospital_words")) + "会"
        return dice.pick(_BEFORE) + own + dice.pick(("", " ", "")) + _plain(dice)
    return _plain(dice)


def clinic(dice: Dice) -> str:
    """Return the name of a practice, as often as not called after its doctor."""
    if dice.chance(0.55):
        name = japanese_name(dice, sex="M", birth_year=1960).surname
        own = name.kana if dice.chance(0.08) else name.written
        return own + dice.pick(_PRACTICES[7:])
    return _plain(dice)


def _plain(dice: Dice) -> str:
    words = word_list("ja", "towns" if dice.chance(0.5) else "hospital_words")
    return dice.pick(words) + dice.pick(_PRACTICES)


def home(dice: Dice) -> str:
    """Return the name of a home for old people, or of a day service."""
    name = dice.pick(word_list("ja", "hospital_words")) + dice.pick(_HOMES)
    return name if dice.chance(0.3) else dice.pick(_HOME_KINDS) + name


def pharmacy(dice: Dice) -> str:
    """Return the name of a pharmacy."""
    return dice.pick(word_list("ja", "hospital_words")) + dice.pick(
        ("薬局", "調剤薬局", "ファーマシー")
    )


def nursing_station(dice: Dice) -> str:
    """Return the name of a home nursing service or a care manager's office."""
    kind = dice.pick(("訪問看護ステーション", "居宅介護支援事業所", "地域包括支援センター"))
    name = dice.pick(word_list("ja", "hospital_words"))
    return name + kind if dice.chance(0.4) else kind + name


def ward(dice: Dice) -> str:
    """Return a ward."""
    number, letter = dice.between(2, 12), dice.pick("ABCEWNS東西南北")
    forms = (
        f"{letter}{number}病棟",
        f"{number}階{letter}病棟",
        f"{number}{letter}病棟",
        f"{letter}{number}",
    )
    return forms[dice.between(0, 2)] if dice.chance(0.9) else forms[0]


def room(dice: Dice) -> str:
    """Return a room."""
    return f"{dice.between(2, 12)}{dice.between(0, 3)}{dice.between(1, 9)}{dice.pick(_ROOMS)}"


def school(dice: Dice, *, age: int = 40) -> str:
    """Return a school for somebody of an age in years."""
    kinds = next((kinds for limit, kinds in _SCHOOLS_OF if age < limit), _SCHOOLS)
    place = dice.pick(word_list("ja", "cities")) if dice.chance(0.4) else ""
    kind = dice.pick(kinds)
    own = dice.pick(word_list("ja", "towns"))
    return f"{place}立{own}{kind}" if place and "大学" not in kind else own + kind


def company(dice: Dice) -> str:
    """Return an employer."""
    name = dice.pick(word_list("ja", "towns" if dice.chance(0.5) else "hospital_words"))
    name += dice.pick(_COMPANIES)
    return dice.pick(("株式会社{}", "{}株式会社", "(株){}", "有限会社{}", "{}")).format(name)


def nickname(dice: Dice) -> str:
    """Return what staff call a hospital or a practice: a town and 日赤, a surname and 眼科."""
    if dice.chance(0.5):
        return dice.pick(word_list("ja", "bare_places")) + dice.pick(_SHORT_KINDS)
    name = japanese_name(dice, sex="M", birth_year=1960, is_wide=True).surname
    return name.written + dice.pick(_SHORT_PRACTICES)


def listed(name: str) -> Callable[[Dice], str]:
    """Return a maker that picks from a list of words."""
    return lambda dice: dice.pick(word_list("ja", name))


PLACES: dict[str, Callable[[Dice], str]] = {
    "address": address,
    "hospital": hospital,
    "clinic": clinic,
    "home": home,
    "pharmacy": pharmacy,
    "station": nursing_station,
    "ward": ward,
    "room": room,
    "school": school,
    "company": company,
    "city": listed("cities"),
    "prefecture": listed("prefectures"),
    "job": listed("jobs"),
    "country": listed("countries"),
    "place": listed("bare_places"),
    "place2": listed("bare_places"),
    "craft": listed("jobs_more"),
    "nickname": nickname,
    "nickname2": nickname,
}
"""Makers of quasi-identifiers by the kind of a slot."""


_ENGLISH_ROLES = ("patient", "family", "doctor", "doctor2", "nurse", "other")
_STREETS = ("Street", "St", "Avenue", "Ave.", "Road", "Lane", "Drive", "Blvd", "Court", "Way")
_STATES = ("MA", "NY", "OH", "TX", "CA", "WA", "FL", "PA", "IL", "Vermont", "Oregon", "Maine")
_AMERICAN_HOSPITALS = (
    *("General Hospital", "Memorial Hospital", "Medical Center", "Community Hospital", "Clinic"),
    *("Regional Medical Center", "Family Practice", "Cancer Center", "Children's Hospital"),
)
_ENGLISH_HOMES = ("Nursing Home", "Rehabilitation Center", "Assisted Living", "Hospice", "Manor")
_ENGLISH_RELATIONS = {
    "F": ("wife", "daughter", "sister", "mother"),
    "M": ("husband", "son", "brother"),
}
_DATES = (
    *("{0:%m}/{0:%d}/{0:%Y}", "{0.month}/{0.day}/{0:%y}", "{0:%Y}-{0:%m}-{0:%d}"),
    *("{0:%B} {0.day}, {0.year}", "{0.day} {0:%b} {0.year}", "{0:%b} {0.day}, {0.year}"),
    *("{0:%m}-{0:%d}-{0:%Y}", "{0.day}-{0:%b}-{0.year}", "{0:%m}/{0:%d}/{0:%y}"),
)
_ENGLISH_STEADY = frozenset(
    {"phone", "record", "address", "hospital", "hospital2", "job", "town", "ward"}
    | {"telephone", "health_number", "full_address", "infirmary", "place", "craft", "uk_ward"}
)


class _Cast:
    """What the casts of both languages share: each value is drawn once where it is steady.

    `steady` kinds stay the same within a note; `own` ones belong to the patient, in all notes.
    """

    steady: ClassVar[frozenset[str]]
    own: ClassVar[tuple[str, ...]]

    def __init__(self, facts: PatientFacts, *, seed: int, note: str) -> None:
        self._facts = facts
        self._own = Dice(seed, "synthetic patient's values", facts.dice_key)
        self._dice = Dice(seed, "synthetic note's values", note)
        self._steady: dict[str, str] = {}

    def _kept(self, kind: str, maker: Callable[[Dice], str]) -> str:
        if kind not in self.steady:
            return maker(self._dice)
        if kind not in self._steady:
            self._steady[kind] = maker(self._own if kind in self.own else self._dice)
        return self._steady[kind]


class EnglishCast(_Cast):
    """Answers the slots of one note."""

    steady = _ENGLISH_STEADY
    own = ("record", "address", "job", "full_address", "health_number", "craft")

    def __init__(self, facts: PatientFacts, *, seed: int, note: str) -> None:
        super().__init__(facts, seed=seed, note=note)
        dice = self._dice
        self._today = facts.first_day + timedelta(days=dice.between(0, 300))
        self._course = self._admitted = self._today - timedelta(days=dice.between(2, 30))
        self._years = (self._today - facts.birth).days * 4 // 1461
        self._long = dice.pick(_DATES)
        self._people: dict[str, tuple[PersonName, str]] = {}

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
        if who in _ENGLISH_ROLES:
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
            relation = self._dice.pick(_ENGLISH_RELATIONS[sex])
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
    return f"{dice.pick(word_list('en', 'towns'))} {dice.pick(_AMERICAN_HOSPITALS)}"


def _phone(dice: Dice) -> str:
    area, last = dice.between(201, 989), f"{dice.between(0, 9999):04d}"
    forms = (f"({area}) 555-{last}", f"{area}-555-{last}", f"{area}.555.{last}", f"555-{last}")
    return dice.pick(forms)


def _record(dice: Dice) -> str:
    text = people.record_number(dice.number(), n_digits=dice.between(6, 8))
    return dice.pick((text, text, f"{text[:3]}-{text[3:]}", f"{dice.pick('AMX')}{text}"))


def _town(dice: Dice) -> str:
    return dice.pick(word_list("en", "towns"))


_PLACES: dict[str, Callable[[Dice], str]] = {
    "address": _address,
    "hospital": _hospital,
    "hospital2": _hospital,
    "home": lambda dice: f"{_town(dice)} {dice.pick(_ENGLISH_HOMES)}",
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
    "ssn": (PERSONAL_ID_CODE, lambda dice: people.social_security_number(dice.number())),
    "plan": (PERSONAL_ID_CODE, lambda dice: people.health_plan_number(dice.number())),
    "licence": (PERSONAL_ID_CODE, lambda dice: people.us_licence_number(dice.number())),
    "passport": (PERSONAL_ID_CODE, lambda dice: people.us_passport_number(dice.number())),
    **MORE_NUMBERS,
}


_STAFF_BORN = (1945, 1998)
_FOREIGN_SHARE = 0.04
# By the patient's age: below 20, 45, 65, and above; then by the relative's sex.
_RELATIONS = (
    (20, {"F": ("母", "姉", "祖母", "母", "叔母"), "M": ("父", "兄", "祖父", "父", "叔父")}),
    (45, {"F": ("母", "妻", "姉", "妹", "婚約者"), "M": ("父", "夫", "兄", "弟", "友人")}),
    (65, {"F": ("妻", "長女", "母", "姉", "次女"), "M": ("夫", "長男", "弟", "父", "次男")}),
    (999, {"F": ("妻", "長女", "次女", "嫁", "姪"), "M": ("夫", "長男", "次男", "甥", "娘婿")}),
)
_ROLES = (
    "patient",
    "family",
    "family2",
    "doctor",
    "doctor2",
    "doctor3",
    "nurse",
    "other",
    "other2",
    "foreign",
)
# The values that stay the same within a note.
_STEADY = frozenset(
    {"phone", "mobile", "record", "address", "hospital", "clinic", "ward", "room", "home", "job"}
    | {"station", "pharmacy", "insurer", "insured", "city", "school", "company", "extension"}
    | {"craft", "place", "nickname"}
)


_FIELDS = ("", "", "heart", "lung", "gut", "gut", "brain", "bone", "gland", "onco", "skin", "mind")
_HOLIDAYS = ("正月", "お盆", "大型連休", "ゴールデンウィーク", "クリスマス", "敬老の日")


class JapaneseCast(_Cast):
    """Answers the slots of one note."""

    steady = _STEADY
    own = ("record", "address", "job", "school", "company", "insured", "craft")

    def __init__(self, facts: PatientFacts, *, seed: int, note: str) -> None:
        super().__init__(facts, seed=seed, note=note)
        later = self._dice.between(0, 400) if self._dice.chance(0.6) else 0
        self._fields = Dice(seed, "synthetic field", note)
        self._today = facts.first_day + timedelta(days=later)
        self._years = (self._today - facts.birth).days * 4 // 1461
        self._admitted = self._today - timedelta(days=self._dice.between(2, 45))
        self._course = self._admitted
        self._dates = DateWriter(self._dice)
        self._people: dict[str, tuple[PersonName, str, str]] = {}
        self._foreign: dict[str, tuple[str, ...]] = {}
        is_girl = facts.sex == "F"
        self._suffix = self._dice.pick(("ちゃん", "ちゃん" if is_girl else "くん", "さん"))
        self._form = self._dice.pick(("joined",) * 3 + ("spaced",) * 3 + ("wide",) * 2)

    @property
    def field(self) -> str:
        """Of which field of medicine the note is, as fits the patient."""
        if self._years < 15:
            return "child"
        own = "male" if self._facts.sex == "M" else "female"
        return self._fields.pick((*_FIELDS, own, own))

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
        if who == "job":
            return Piece(self._job(form), QUASI)
        if kind == "school":
            return Piece(self._kept(kind, lambda dice: school(dice, age=self._years)), QUASI)
        if kind == "holiday":
            return Piece(self._dice.pick(_HOLIDAYS), QUASI)
        if kind in ("record.new", "birth.new"):
            return self._of_another(kind)
        if kind in NUMBERS:
            label, maker = NUMBERS[kind]
            return Piece(self._kept(kind, maker), label)
        if kind in PLACES or kind in ("hospital2", "city2", "clinic2", "ward2", "room2"):
            return Piece(self._kept(kind, PLACES[kind.rstrip("2")]), QUASI)
        if kind == "postcode":
            text = f"{self._dice.between(1, 999):03d}-{self._dice.between(0, 9999):04d}"
            return Piece(text if self._dice.chance(0.9) else text.replace("-", ""), QUASI)
        if who in ("age", "sex"):
            return Piece(self._age(form) if who == "age" else self._sex(form), QUASI)
        return Piece(self._dated(kind), QUASI)

    def _of_another(self, kind: str) -> Piece:
        if kind == "record.new":
            label, maker = NUMBERS["record"]
            return Piece(maker(self._dice), label)
        born = self._today - timedelta(days=self._dice.between(400, 33_000))
        return Piece(self._dates.long(born), QUASI)

    def _job(self, form: str) -> str:
        if self._years < 18 and form != "adult":
            names = ("園児", "小学生", "中学生", "高校生")
            return names[min(3, max(0, self._years - 4) // 4)]
        if self._years < 23 and form != "adult":
            return "大学生"
        job = self._kept("job", PLACES["job"])
        is_old = self._years > 68 and form != "adult" and not job.startswith("元")
        return f"元{job}" if is_old and "主婦" not in job else job

    def _person(self, who: str) -> tuple[PersonName, str, str]:
        if who not in self._people:
            self._people[who] = self._new_person(who)
        return self._people[who]

    def _new_person(self, who: str) -> tuple[PersonName, str, str]:
        if who == "patient":
            return self._facts.name, self._facts.sex, "本人"
        dice = self._dice
        sex = dice.pick("MF")
        if who == "nurse":
            sex = "F" if dice.chance(0.85) else "M"
        born, is_wide = dice.between(*_STAFF_BORN), self._facts.is_wide
        name = japanese_name(dice, sex=sex, birth_year=born, is_wide=is_wide)
        if not who.startswith("family"):
            return name, sex, ""
        own = self._facts
        choices = next(by_sex[sex] for age, by_sex in _RELATIONS if self._years < age)
        relation = dice.pick(choices)
        if relation in ("妻", "夫") and sex == own.sex:
            relation = "姉" if sex == "F" else "兄"
        if dice.chance(0.7):
            given = given_name(dice, sex=sex, birth_year=dice.between(*_STAFF_BORN))
            name = PersonName(own.name.surname, given, "", name.locale)
        return name, sex, relation

    def _named(self, who: str, form: str) -> Piece:
        if who == "foreign":
            return self._of_abroad(who, form or "whole")
        if form == "new":
            self._people.pop(who, None)
            self._foreign.pop(who, None)
            form = ""
        name, _, relation = self._person(who)
        if form == "relation":
            return Piece(relation)
        if form == "suffix":
            return Piece(self._suffix)
        if form in ("", "surname", "given", "kana") and self._is_of_abroad(who):
            return self._of_abroad(who, "part" if form in ("surname", "given") else "whole")
        return named(name, form, usual=self._form, dice=self._dice)

    def _is_of_abroad(self, who: str) -> bool:
        if who not in self._foreign:
            dice = self._own if who == "patient" else self._dice
            is_foreign = self._facts.is_wide and dice.chance(_FOREIGN_SHARE)
            self._foreign[who] = foreign_parts(dice) if is_foreign else ()
        return bool(self._foreign[who])

    def _of_abroad(self, who: str, form: str) -> Piece:
        if not self._foreign.get(who):
            self._foreign[who] = foreign_parts(self._dice)
        parts = self._foreign[who]
        if form == "part":
            # Katakana names are told by their last part or their first, rarely by the middle one.
            return Piece(parts[self._dice.pick((0, -1))], QUASI)
        return Piece(foreign_name(parts, self._dice), IDENTIFIER)

    def _age(self, form: str) -> str:
        dice = self._dice
        if form == "other":
            return f"{dice.between(35, 88)}{dice.pick(('歳', '歳', '歳', '才'))}"
        days, years = (self._today - self._facts.birth).days, self._years
        if form in ("sexed", "other_sexed"):
            sex = self._facts.sex if form == "sexed" else dice.pick("MF")
            return sexed_age(years if form == "sexed" else dice.between(2, 97), sex, dice)
        if form == "earlier":
            return f"{dice.between(min(5, years), max(years - 1, 1))}歳"
        if form == "number":
            return str(years)
        if form == "latin":
            return dice.pick(
                (f"{years} y/o", f"{years}y.o.", f"{years}yo", f"{years}y/o", f"{years}Y")
            )
        if form == "tens":
            return self._dates.tens(years)
        return self._dates.age(years, days=days)

    def _sex(self, form: str) -> str:
        is_female = self._facts.sex == "F"
        if form == "short":
            return "男女"[is_female]
        if form == "latin":
            return "MF"[is_female]
        if form == "sign":
            return "♂♀"[is_female]
        return (("男児", "女児") if self._years < 12 else ("男性", "女性"))[is_female]

    def _dated(self, kind: str) -> str:
        what, _, form = kind.partition(".")
        day = self._day(what, kind_is_month=form == "month")
        writers: dict[str, Callable[[date], str]] = {
            "": self._dates.long,
            "short": self._dates.short,
            "month": self._dates.month,
            "year": self._dates.year,
            "dotted": lambda day: f"{day.month}.{day.day}",
            "slash": lambda day: f"{day.month}/{day.day}",
        }
        if form == "day":
            return f"{day.day}日"
        if form not in writers:
            raise ValueError(f"{kind}: no such value")
        return writers[form](day)

    def _day(self, what: str, *, kind_is_month: bool = False) -> date:
        dice = self._dice
        if what == "course":
            self._course += timedelta(days=dice.between(1, 4))
            return min(self._course, self._today)
        if what == "next":
            return self._today + timedelta(days=dice.between(3, 120))
        if what == "date":
            return self._today - timedelta(days=dice.between(1, 90))
        if what == "past":
            most = 900 if kind_is_month else 9000
            days = dice.between(
                100, max(101, min(most, (self._today - self._facts.birth).days - 1))
            )
            return self._today - timedelta(days=days)
        known = {
            "today": self._today,
            "admitted": self._admitted,
            "discharged": self._today,
            "birth": self._facts.birth,
        }
        if what not in known:
            raise ValueError(f"{what}: no such value")
        return known[what]
