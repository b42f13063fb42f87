"""The people, places, days and numbers of one synthetic note.

A slot `{@kind}` of the grammar is answered here, by a cast. People are those of `roles`; behind a
dot stands the form of the name; `new` draws somebody else each time. In wide notes some people have
names of other countries. Whole names are identifiers, parts of names quasi-identifiers. Other kinds
are those of `makers`, age, sex, pronouns, and days: today, admitted, discharged, birth, course,
next, date, past.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import accumulate
from string import ascii_letters, digits
from typing import ClassVar

from audit.names.people import (
    ENGLISH,
    JAPANESE,
    NamePart,
    PersonName,
    birth_period,
    choose_full_form,
    fill_form,
    label_of,
    licence_number,
    value_of,
    write_name,
)
from audit.notes.dates import find_era_year
from audit.notes.spans import CONTACT, IDENTIFIER, LINKAGE_CODE, PERSONAL_ID_CODE
from audit.notes.spans import QUASI_IDENTIFIER as QUASI
from benchmarks.synthetic.grammar import Dice, Piece, words

Maker = Callable[[Dice], str]
_LISTED_SHARE, _RARE_SHARE = 0.55, 0.12
WIDE = {ord(sign): ord(sign) + 0xFEE0 for sign in digits + ascii_letters + "/()%+-=:.,"}
"""Digits, letters and some signs, with those of full width."""


def japanese_name(dice: Dice, *, sex: str, birth_year: int, is_wide: bool = False) -> PersonName:
    """Return a name: sex is "M" or "F"; given names in kana are of the old and the young.

    A wide one has a rare surname more often.
    """
    if dice.chance(_LISTED_SHARE):
        listed = _readings("surnames")
        totals = _totals(len(listed))
        place = bisect_right(totals, dice.number() / 2**53 * totals[-1], hi=len(totals) - 1)
        surname = listed[place]
    else:
        surname = _composed("surname", dice)
    if is_wide and dice.chance(_RARE_SHARE):
        surname = dice.pick(_readings("surnames_rare"))
    given_name = _draw_given_name(dice, sex=sex, birth_year=birth_year)
    return PersonName(_part(*surname), _part(*given_name), "", JAPANESE)


def _draw_given_name(dice: Dice, *, sex: str, birth_year: int) -> tuple[str, str]:
    gender = "male" if sex == "M" else "female"
    if dice.chance(_LISTED_SHARE):
        return dice.pick(_readings(f"{gender}_{birth_period(birth_year)}"))
    return _composed(gender, dice)


def _composed(kind: str, dice: Dice) -> tuple[str, str]:
    while True:
        first, last = (dice.pick(_readings(f"{kind}_{half}")) for half in ("first", "last"))
        if first[0] != last[0]:
            return first[0] + last[0], first[1] + last[1]


_SMALL = {"ャ": "a", "ュ": "u", "ョ": "o"}


def romaji_of(kana: str) -> str:
    """Return a katakana reading in Latin letters: Hepburn as in passports ("オオタ" is "Ota")."""
    sound_of = dict(zip(words("ja/katakana"), words("ja/hepburn"), strict=True))
    sounds: list[str] = []
    is_doubled = False
    for c in kana:
        if c == "ッ":
            is_doubled = True
        elif c in _SMALL and sounds and sounds[-1].endswith("i"):
            stem = sounds.pop()[:-1]
            sounds.append(stem + ("" if stem.endswith(("sh", "ch", "j")) else "y") + _SMALL[c])
        elif c in sound_of:
            sound = sound_of[c]
            doubled = "t" if sound.startswith("ch") else sound[0]
            sounds.append(doubled + sound if is_doubled else sound)
            is_doubled = False
        else:
            raise ValueError("a reading holds a character that is no katakana of a name")
    # A long o or u is written once, but a final "o" of its own stays: セノオ is "Senoo".
    text = ""
    for place, sound in enumerate(sounds):
        next_sound = sounds[place + 1 : place + 2]
        if sound == "u" and text.endswith(("o", "u")) and next_sound != ["e"]:
            continue  # イノウエ is "Inoue"
        if sound == "o" and text.endswith("o") and next_sound:
            continue
        if sound[0] in "bmp" and text.endswith("n"):
            text = text[:-1] + "m"
        text += sound
    return text.capitalize()


def _part(text: str, kana: str) -> NamePart:
    return NamePart(text, kana, romaji_of(kana))


@functools.cache
def _readings(name: str) -> tuple[tuple[str, str], ...]:
    listed = words(f"ja/{name}")
    return tuple(zip(listed[::2], listed[1::2], strict=True))


@functools.cache
def _totals(n: int) -> tuple[float, ...]:
    return tuple(accumulate(1 / (rank + 8) for rank in range(n)))


def english_name(dice: Dice, *, sex: str, is_wide: bool = False) -> PersonName:
    """Return an English name, with the initial of a middle name; a wide one is of more names."""
    given_list = "en/male" if sex == "M" else "en/female"
    first, last = dice.word(given_list), dice.word("en/surnames")
    if is_wide:
        first = first if dice.chance(0.4) else dice.word(f"{given_list}_more")
        last = _wide_surname(last, dice)
    if dice.chance(0.04):
        last = f"{last}-{dice.word('en/surnames')}"
    middle = dice.pick("ABCDEFGHJKLMNPRSTW")
    return PersonName(NamePart(last, "", last), NamePart(first, "", first), middle, ENGLISH)


def _wide_surname(listed: str, dice: Dice) -> str:
    kind = dice.between(0, 9)
    if kind < 3:
        return listed
    if kind < 6:
        return dice.word("en/surnames_more")
    halves = ("first", "last") if kind < 9 else ("roots", "ends")
    return "".join(dice.word(f"en/surname_{half}") for half in halves)


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
    first_day = _FIRST_DAY + _days(dice.between(0, _N_DAYS))
    if dice.chance(_EARLY_SHARE):
        first_day -= _days(dice.between(0, _EARLY_DAYS))
    kind = dice.between(0, 19)
    age = dice.between(20, 97) if kind > 2 else dice.between(0, 19)
    if kind > 11:
        age = dice.between(60, 94)
    days = age * 1461 // 4 + dice.between(1, 364)
    birth = first_day - _days(days if age or dice.chance(0.5) else dice.between(1, 27))
    if language == "en":
        name = english_name(dice, sex=sex, is_wide=is_wide)
    else:
        name = japanese_name(dice, sex=sex, birth_year=birth.year, is_wide=is_wide)
    return PatientFacts(name, sex, birth, first_day, key, is_wide)


def _days(n: int) -> timedelta:
    return timedelta(days=n)


def foreign_parts(dice: Dice) -> tuple[str, ...]:
    """Return the parts of a name of another country."""
    parts = dice.word("ja/foreign_people").split("|")
    return tuple(dice.pick(choices.split()) for choices in parts)


def foreign_name(parts: tuple[str, ...], dice: Dice) -> str:
    """Return the whole name of some parts: with dots most often, in kanji with a blank or none."""
    is_katakana = "ァ" <= parts[0][0] <= "ヿ"
    return dice.pick("・・・・ 　＝･" if is_katakana else (" ", "", "　")).join(parts)


def _name_fields(name: PersonName) -> dict[str, str]:
    """Return what the ways of writing a name in Latin letters are made of."""
    surname, given_name = name.surname.romaji, name.given_name.romaji
    initials = {"s": surname[0], "g": given_name[0]}
    wide = {letter.upper(): text.translate(WIDE) for letter, text in initials.items()}
    capitals = {"SURNAME": surname.upper(), "GIVEN": given_name.upper()}
    return {"surname": surname, "given": given_name} | capitals | initials | wide


def _listed(*names: str, gap: str = "") -> Maker:
    """Return a maker that joins a word of each list."""
    return lambda dice: gap.join(dice.word(name) for name in names)


def _filled(form: str, letters: str = "") -> Maker:
    return lambda dice: dice.filled(form, letters=letters)


def _digits(low: int, high: int) -> Maker:
    return lambda dice: dice.filled("#" * dice.between(low, high))


def _public(kind: str, *, locale: str = JAPANESE) -> Maker:
    """Return a maker of numbers as a public office gives them."""
    return lambda dice: value_of(kind, dice.number(), locale=locale)


def _telephone(dice: Dice) -> str:
    code = dice.word("ja/area_codes")
    local = dice.between(2 * 10 ** (5 - len(code)), 10 ** (6 - len(code)) - 1)
    last = dice.filled("####")
    return dice.form("ja/telephone", code=code, local=local, last=last, bare=code[1:])


def _mobile(dice: Dice) -> str:
    first, middle = dice.pick(("070", "080", "090")), dice.between(1000, 9999)
    last = dice.filled("####")
    sign = "" if dice.chance(0.15) else dice.pick("-------- ー－")
    return f"{first}{sign}{middle}{sign}{last}"


def _extension(dice: Dice) -> str:
    return str(dice.between(1000, 89999) if dice.chance(0.3) else dice.between(2000, 8999))


_HOSTS = ("mail", "renkei", "hosp", "clinic", "info", "home")


def email(dice: Dice) -> str:
    """Return an address at a domain that can never exist (RFC 2606)."""
    name = "".join(dice.pick("abcdefghijklmnoprstuwy") for _ in range(dice.between(3, 9)))
    name += dice.pick(("", "", f".{dice.pick('abcdehikmnst')}", f"_{dice.between(1, 99)}", "0401"))
    host = dice.pick(("", "", f"{dice.pick(_HOSTS)}."))
    return f"{name}@{host}example.{dice.pick(('com', 'org', 'net'))}"


def _web_address(dice: Dice) -> str:
    page = dice.pick(("", "/", "/renkei/", "/gairai/index.html", "/contact"))
    return f"{dice.pick(('https://', 'http://', ''))}www.{dice.pick(_HOSTS)}.example.jp{page}"


def _record(dice: Dice) -> str:
    n = dice.between(5, 10)
    plain = f"{dice.between(0 if n > 7 else 10 ** (n - 1), 10**n - 1):0{n}}"
    forms = ("###-####", "##-#####-#", "?######", "#### ####")
    other_forms = [dice.filled(form, letters="ABCHKNPSX") for form in forms]
    prefix = dice.pick(("PT", "ID", "KH", "NB"))
    return dice.pick((*[plain] * 6, *other_forms, dice.filled(f"{prefix}-######")))


def _specimen(dice: Dice) -> str:
    """Return the number of a specimen, an examination or a document."""
    year, letter = f"{dice.between(5, 25):02}", dice.pick("SPHBCTGKRX")
    forms = (f"{letter}{year}-#####", f"{year}-#####", f"20{year}######", f"{letter}-######")
    filled_forms = [dice.filled(form) for form in forms]
    filled_forms.append(dice.pick(("CT", "MR", "US", "XR", "EN")) + dice.filled("########"))
    filled_forms.append(_digits(6, 12)(dice))
    return dice.pick((*filled_forms, dice.filled(f"20{year}-####")))


def _my_number(dice: Dice) -> str:
    text = value_of("my_number", dice.number(), locale=JAPANESE)
    return dice.pick(("", "", " ", "-")).join((text[:4], text[4:8], text[8:]))


def _insured(dice: Dice) -> str:
    symbol = dice.pick(("", "", "国", "い", "公立", "健"))
    sign = dice.pick("-・‐")
    return f"{symbol}{_digits(2, 8)(dice)}{sign}{_digits(1, 7)(dice)}"


def _pension(dice: Dice) -> str:
    text = value_of("pension", dice.number(), locale=JAPANESE)
    return text if dice.chance(0.8) else text.replace("-", "")


def _licence(dice: Dice) -> str:
    return licence_number(dice.number(), year=dice.between(1960, 2015))


def _address(dice: Dice) -> str:
    place = dice.word("ja/cities")
    if dice.chance(0.65):
        place = dice.word("ja/prefectures") + place
    place += dice.word("ja/towns")
    block_number, lot_number, house_number = (
        dice.between(1, 9),
        dice.between(1, 40),
        dice.between(1, 30),
    )
    number = f"{block_number}-{lot_number}-{house_number}"
    if dice.chance(0.6):
        large = {"sum": lot_number * 37 + house_number, "product": lot_number * 11}
        number = dice.form(
            "ja/house", one=block_number, two=lot_number, three=house_number, **large
        )
    place += number
    if dice.chance(0.2):
        building = dice.word("ja/hospital_words") + dice.word("ja/mansions")
        place += f"{dice.pick((' ', '', '　'))}{building}{dice.between(1, 12)}0{dice.between(1, 9)}"
        place += dice.pick(("", "号室", "号"))
    return place


def _hospital(dice: Dice) -> str:
    kind = dice.between(0, 9)
    if kind < 3:
        return dice.word("ja/cities")[:-1] + dice.word("ja/city_hospitals")
    if kind == 3:
        return dice.word("ja/prefectures") + dice.pick(("立中央病院", "立こども病院"))
    if kind == 4:
        hospital_name = dice.word("ja/hospital_words") + "会"
        return (
            dice.word("ja/hospital_owners")
            + hospital_name
            + dice.pick(("", " ", ""))
            + _practice(dice)
        )
    return _practice(dice)


def _practice(dice: Dice) -> str:
    return _town_or_word(dice) + dice.word("ja/practices")


def _town_or_word(dice: Dice) -> str:
    return dice.word("ja/towns" if dice.chance(0.5) else "ja/hospital_words")


def _clinic(dice: Dice) -> str:
    """Return the name of a practice, as often as not called after its doctor."""
    if not dice.chance(0.55):
        return _practice(dice)
    name = japanese_name(dice, sex="M", birth_year=1960).surname
    practice_name = name.kana if dice.chance(0.08) else name.native
    return practice_name + dice.word("ja/doctors_practices")


def _home(dice: Dice) -> str:
    name = dice.word("ja/hospital_words") + dice.word("ja/home_ends")
    return name if dice.chance(0.3) else dice.word("ja/home_kinds") + name


def _nursing_station(dice: Dice) -> str:
    kind, name = dice.word("ja/nursing_stations"), dice.word("ja/hospital_words")
    return name + kind if dice.chance(0.4) else kind + name


def _ward(dice: Dice) -> str:
    number, letter = dice.between(2, 12), dice.pick("ABCEWNS東西南北")
    forms = (f"{letter}{number}病棟", f"{number}階{letter}病棟", f"{number}{letter}病棟")
    return forms[dice.between(0, 2)] if dice.chance(0.9) else forms[0]


def _room(dice: Dice) -> str:
    number = f"{dice.between(2, 12)}{dice.between(0, 3)}{dice.between(1, 9)}"
    return number + dice.pick(("号室", "号室", "号"))


_SCHOOLS = ((6, "nurseries"), (12, "primary_schools"), (15, "middle_schools"), (18, "high_schools"))


def _school(dice: Dice, *, age: int) -> str:
    kinds = next((kinds for limit, kinds in _SCHOOLS if age < limit), "schools")
    place = dice.word("ja/cities") if dice.chance(0.4) else ""
    kind, town = dice.word(f"ja/{kinds}"), dice.word("ja/towns")
    return f"{place}立{town}{kind}" if place and "大学" not in kind else town + kind


def _company(dice: Dice) -> str:
    return dice.form("ja/company", name=_town_or_word(dice) + dice.word("ja/trades"))


def _nickname(dice: Dice) -> str:
    """Return what staff call a hospital or a practice: a town and 日赤, a surname and 眼科."""
    if dice.chance(0.5):
        return dice.word("ja/bare_places") + dice.word("ja/short_hospitals")
    name = japanese_name(dice, sex="M", birth_year=1960, is_wide=True).surname
    return name.native + dice.word("ja/short_practices")


def _postcode(dice: Dice) -> str:
    text = f"{dice.between(1, 999):03}-{dice.between(0, 9999):04}"
    return text if dice.chance(0.9) else text.replace("-", "")


JAPANESE_MAKERS: dict[str, dict[str, Maker]] = {
    CONTACT: {
        "phone": _telephone,
        "fax": _telephone,
        "mobile": _mobile,
        "extension": _extension,
        "email": email,
        "url": _web_address,
    },
    LINKAGE_CODE: {"record": _record, "specimen": _specimen},
    PERSONAL_ID_CODE: {
        "my_number": _my_number,
        "pension": _pension,
        "insurer": _public("insurer"),
        "insured": _insured,
        "insured.symbol": _digits(2, 8),
        "insured.number": _digits(1, 7),
        "resident": _public("resident"),
        "licence": _licence,
        "passport": _public("passport"),
        "care_insured": _filled("##########"),
        "welfare": _digits(7, 8),
        "residence_card": _filled("??########??", "ABCDEFGHJKLMNPRSTU"),
        "late_elderly": _filled("########"),
    },
    QUASI: {
        "address": _address,
        "hospital": _hospital,
        "clinic": _clinic,
        "home": _home,
        "pharmacy": _listed("ja/hospital_words", "ja/pharmacies"),
        "station": _nursing_station,
        "ward": _ward,
        "room": _room,
        "company": _company,
        "city": _listed("ja/cities"),
        "prefecture": _listed("ja/prefectures"),
        "country": _listed("ja/countries"),
        "place": _listed("ja/bare_places"),
        "craft": _listed("ja/jobs_more"),
        "nickname": _nickname,
        "holiday": _listed("ja/holidays"),
        "postcode": _postcode,
    },
}
"""Makers of values by type, and by kind of the slot."""


def _american_address(dice: Dice) -> str:
    number, name, street = dice.between(1, 9800), dice.word("en/surnames"), dice.word("en/streets")
    flat = f", Apt {dice.between(1, 40)}" if dice.chance(0.2) else ""
    town, state = dice.word("en/towns"), dice.word("en/states")
    return f"{number} {name} {street}{flat}, {town}, {state} {dice.between(10000, 99899)}"


def _american_hospital(dice: Dice) -> str:
    if dice.chance(0.2):
        saint = dice.word("en/american_saints")
        return f"St. {saint}'s {dice.pick(('Hospital', 'Medical Center'))}"
    return f"{dice.word('en/towns')} {dice.word('en/american_hospitals')}"


def _american_ward(dice: Dice) -> str:
    return dice.word("en/american_wards").format(n=dice.between(2, 12))


def _american_record(dice: Dice) -> str:
    number, n_digits = dice.number(), dice.between(6, 8)
    text = fill_form("C" + "0" * (n_digits - 1), number)
    return dice.pick((text, text, f"{text[:3]}-{text[3:]}", f"{dice.pick('AMX')}{text}"))


def _phone(dice: Dice) -> str:
    return dice.form("en/phone", area=dice.between(201, 989), last=dice.filled("####"))


def _infirmary(dice: Dice) -> str:
    kind = dice.between(0, 9)
    if kind == 0:
        return f"St {dice.word('en/saints')}'{dice.pick(('s', 's', ''))} Hospital"
    if kind == 1:
        return f"St. {dice.word('en/saints')}'s"
    place_name = dice.word("en/places" if kind < 7 else "en/surnames_more")
    return f"{place_name} {dice.word('en/british_hospitals')}"


def _street(dice: Dice) -> str:
    name = dice.word(dice.pick(("en/surnames_more", "en/towns", "en/surnames")))
    flat = dice.pick(("", "", "", f"Flat {dice.between(1, 30)}, "))
    return f"{flat}{dice.between(1, 240)} {name} {dice.word('en/roads')}"


def _full_address(dice: Dice) -> str:
    place = f"{_street(dice)}, {dice.word('en/places')}{dice.pick((' ', ', '))}"
    end = f"{dice.between(1, 9)}{dice.filled('??', letters='ABDEFGHJLNPQRSTUWXYZ')}"
    return f"{place}{dice.word('en/post_towns')}{dice.between(1, 28)} {end}"


def _british_ward(dice: Dice) -> str:
    form, word = dice.word("en/wards"), dice.word("en/ward_names")
    return form.format(n=dice.between(1, 34), letter=dice.pick("ABCDE"), word=word)


def _health_number(dice: Dice) -> str:
    sign = dice.pick((" ", " ", "-", ""))
    return "9" + sign.join(dice.filled(part) for part in ("##", "###", "####"))


def _passport(dice: Dice) -> str:
    letters = dice.filled("??", letters="ABCEGHJKLMNPRTXZ")
    forms = ("#########", f"{letters[0]}########", f"{letters}#######")
    return dice.pick([dice.filled(form) for form in forms])


def _device(dice: Dice) -> str:
    letters = dice.filled("???", letters="ABCDEFGHKLMNPRSTX")
    forms = (
        f"{letters}######",
        f"{letters}-####-###",
        f"{letters[:2]}##-#####",
        "SN########",
        "##########",
        f"####{letters[0]}####",
    )
    return dice.pick([dice.filled(form) for form in forms])


def _insurance_number(dice: Dice) -> str:
    start, end = dice.filled("??", letters="ABCEHJKLMNPRSTWXYZ"), dice.pick("ABCD")
    sign = dice.pick((" ", ""))
    return sign.join((start, *(dice.filled("##") for _ in range(3)), end))


ENGLISH_MAKERS: dict[str, dict[str, Maker]] = {
    CONTACT: {
        "phone": _phone,
        "fax": _phone,
        "pager": lambda dice: str(dice.between(10000, 99999)),
        "email": email,
        "telephone": lambda dice: dice.form("en/telephone", last=dice.filled("###")),
        "extension": lambda dice: str(dice.between(1000, 9999)),
    },
    LINKAGE_CODE: {"record": _american_record, "specimen": _specimen, "device": _device},
    PERSONAL_ID_CODE: {
        "ssn": _public("my_number", locale=ENGLISH),
        "plan": _public("insurer", locale=ENGLISH),
        "licence": _public("licence", locale=ENGLISH),
        "passport": _public("passport", locale=ENGLISH),
        "health_number": _health_number,
        "insurance_number": _insurance_number,
        "any_passport": _passport,
    },
    QUASI: {
        "address": _american_address,
        "hospital": _american_hospital,
        "home": _listed("en/towns", "en/homes", gap=" "),
        "town": _listed("en/towns"),
        "ward": _american_ward,
        "school": _listed("en/towns", "en/schools", gap=" "),
        "company": _listed("en/surnames", "en/companies", gap=" "),
        "job": _listed("en/jobs"),
        "place": _listed("en/places"),
        "craft": _listed("en/crafts"),
        "infirmary": _infirmary,
        "street": _street,
        "full_address": _full_address,
        "uk_ward": _british_ward,
    },
}
"""Makers of values by type, and by kind of the slot."""


def kanji_number(number: int) -> str:
    """Return a number below 100 in kanji: 二十三."""
    digit = "〇一二三四五六七八九"
    tens, units = divmod(number, 10)
    text = ("" if tens == 1 else digit[tens]) + "十" if tens else ""
    return text + digit[units] if units or not tens else text


def sexed_age(years: int, sex: str, dice: Dice) -> str:
    """Return an age in years and a sex, "M" or "F", in one piece: 34F, 58♂, 72歳男."""
    is_female, tens = sex == "F", max(1, years // 10) * 10
    signs = {"sign": "♂♀"[is_female], "word": "男女"[is_female]}
    return dice.form("ja/sexed_age", years=years, sex=sex, tens=tens, **signs)


def _date_fields(day: date) -> dict[str, object]:
    """Return what the ways of writing a day in Japanese are made of."""
    era, letter, n = find_era_year(day)
    first = "元" if n == 1 else None
    return {
        **{"d": day, "era": era, "letter": letter, "n": n, "year": first or n},
        "wide": f"{day.month}/{day.day}".translate(WIDE),
        "kanji_year": first or kanji_number(n),
        "kanji_month": kanji_number(day.month),
        "kanji_day": kanji_number(day.day),
    }


class Cast(ABC):
    """The people and values of one note: those of `steady` kinds are drawn once.

    Values of `own_kinds` belong to the patient, in all notes.
    """

    roles: ClassVar[tuple[str, ...]]
    makers: ClassVar[dict[str, dict[str, Maker]]]
    steady: ClassVar[frozenset[str]]
    own_kinds: ClassVar[tuple[str, ...]]
    field = ""
    """Of which field of medicine the note is; "" has words of none."""

    def __init__(self, facts: PatientFacts, *, seed: int, note: str) -> None:
        self._facts, self._is_female = facts, facts.sex == "F"
        self._patient_dice = Dice(seed, "synthetic patient's values", facts.dice_key)
        self._dice = Dice(seed, "synthetic note's values", note)
        self._values: dict[str, str] = {}
        self._people: dict[str, tuple[PersonName, str]] = {}
        self._foreign: dict[str, tuple[str, ...]] = {}

    def _begin(self, *, later: int, stay: tuple[int, int]) -> None:
        """Fix the days: how many after the patient's first one, and from how many to how many."""
        self._today = self._facts.first_day + _days(later)
        self._course = self._today - _days(self._dice.between(*stay))
        self._lived = (self._today - self._facts.birth).days
        self._years = self._lived * 4 // 1461
        self._known_days = {
            "today": self._today,
            "admitted": self._course,
            "discharged": self._today,
            "birth": self._facts.birth,
        }

    def value(self, kind: str) -> Piece:
        """Return the value of a slot; ValueError if there is no such kind."""
        role, _, form = kind.partition(".")
        if role in self.roles:
            if form == "new":
                self._people.pop(role, None)
                self._foreign.pop(role, None)
            return self._named(role, form.removeprefix("new"))
        maker_of = kind.removesuffix(".new").removesuffix("2")
        for label, makers in self.makers.items():
            if maker_of in makers:
                return Piece(self._make_value(kind, makers[maker_of]), label)
        if role in ("age", "sex"):
            return Piece(self._age(form) if role == "age" else self._sex(form), QUASI)
        return self._fill_other(role, form)

    @abstractmethod
    def _named(self, role: str, form: str) -> Piece: ...

    @abstractmethod
    def _age(self, form: str) -> str: ...

    @abstractmethod
    def _sex(self, form: str) -> str: ...

    @abstractmethod
    def _fill_other(self, subject: str, form: str) -> Piece: ...

    def _make_value(self, kind: str, maker: Maker) -> str:
        if kind not in self.steady:
            return maker(self._dice)
        if kind not in self._values:
            dice = self._patient_dice if kind in self.own_kinds else self._dice
            self._values[kind] = maker(dice)
        return self._values[kind]

    def _next_day(self, max_days: int) -> date:
        self._course = min(self._course + _days(self._dice.between(1, max_days)), self._today)
        return self._course


class EnglishCast(Cast):
    """Answers the slots of one English note."""

    roles = ("patient", "family", "doctor", "doctor2", "nurse", "other")
    makers = ENGLISH_MAKERS
    steady = frozenset(
        {"phone", "record", "address", "hospital", "hospital2", "job", "town", "ward", "craft"}
        | {"telephone", "health_number", "full_address", "infirmary", "place", "uk_ward"}
    )
    own_kinds = ("record", "address", "job", "full_address", "health_number", "craft")
    _forms: ClassVar = {
        "turned": "{surname} {given}",
        "capital_surname": "{SURNAME} {given}",
        "capitals": "{SURNAME}, {GIVEN}",
        "short": "{g} {surname}",
        "letters": "{g}{s}",
    }
    _pronouns: ClassVar = {"he": ("he", "she"), "He": ("He", "She"), "his": ("his", "her")}

    def __init__(self, facts: PatientFacts, *, seed: int, note: str) -> None:
        super().__init__(facts, seed=seed, note=note)
        self._begin(later=self._dice.between(0, 300), stay=(2, 30))
        self._long = self._dice.word("en/american")

    def _person(self, role: str) -> tuple[PersonName, str]:
        if role not in self._people:
            sex = self._dice.pick("MF")
            name = english_name(self._dice, sex=sex, is_wide=self._facts.is_wide)
            if role == "patient":
                name, sex = self._facts.name, self._facts.sex
            elif role == "family" and self._dice.chance(0.7):
                name = replace(name, surname=self._facts.name.surname)
            self._people[role] = name, sex
        return self._people[role]

    def _named(self, role: str, form: str) -> Piece:
        name, sex = self._person(role)
        if form == "relation":
            relation = self._dice.word(f"en/relatives_{sex}")
            is_young = self._years < 20 or sex == self._facts.sex
            if relation in ("wife", "husband") and is_young:
                relation = "sister" if sex == "F" else "brother"
            return Piece(relation)
        if form in self._forms:
            text = self._forms[form].format(**_name_fields(name))
            return Piece(text, QUASI if form == "letters" else IDENTIFIER)
        form = form or self._dice.pick(("spaced",) * 5 + ("middle",))
        return Piece(write_name(name, form), label_of(form))

    def _age(self, form: str) -> str:
        years, dice = self._years, self._dice
        if form == "number":
            return str(years)
        if form == "other":
            return str(dice.between(35, 88))
        if form == "years":
            return dice.form("en/short_age", years=years)
        if form == "sexed":
            return dice.form("en/sexed_age", years=years, sex=self._facts.sex)
        if form == "other_sexed":
            return dice.form("en/sexed_age", years=dice.between(17, 96), sex=dice.pick("MF"))
        if years < 2:
            return f"{max(1, self._lived // 30)}-month-old"
        return dice.form("en/age", years=years)

    def _sex(self, form: str) -> str:
        if form == "letter":
            return self._facts.sex
        if self._years < 14:
            return "girl" if self._is_female else "boy"
        return self._dice.pick(
            ("woman", "female", "lady") if self._is_female else ("man", "male", "gentleman")
        )

    def _fill_other(self, subject: str, form: str) -> Piece:
        if subject == "title":
            return Piece(self._dice.pick(("Mrs.", "Ms.")) if self._is_female else "Mr.")
        if subject in self._pronouns:
            return Piece(self._pronouns[subject][self._is_female])
        day = self._day(subject)
        last = day.day % 10 if day.day not in (11, 12, 13) else 0
        nth = {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
        ways = {"": self._long, "short": "{d.month}/{d.day}", "month": "{d:%B} {d.year}"}
        ways["year"] = "{d.year}"
        if form in ("british", "brief"):
            ways[form] = self._dice.word(f"en/{form}")
        if form not in ways:
            raise ValueError(f"{subject}.{form}: no such value")
        return Piece(ways[form].format(d=day, nth=nth), QUASI)

    def _day(self, subject: str) -> date:
        if subject == "course":
            return self._next_day(3)
        gaps = {"next": self._dice.between(3, 90), "date": -self._dice.between(1, 90)}
        gaps["past"] = -self._dice.between(200, 6000)
        if subject in gaps:
            return self._today + _days(gaps[subject])
        if subject not in self._known_days:
            raise ValueError(f"{subject}: no such value")
        return self._known_days[subject]


_STAFF_BORN = (1945, 1998)
_FOREIGN_SHARE, _USUAL_SHARE = 0.04, 0.85


class JapaneseCast(Cast):
    """Answers the slots of one Japanese note."""

    roles = (
        *("patient", "family", "family2", "doctor", "doctor2", "doctor3", "nurse"),
        *("other", "other2", "foreign"),
    )
    makers = JAPANESE_MAKERS
    steady = frozenset(
        {"phone", "mobile", "record", "address", "hospital", "clinic", "ward", "room", "home"}
        | {"job", "station", "pharmacy", "insurer", "insured", "city", "school", "company"}
        | {"extension", "craft", "place", "nickname"}
    )
    own_kinds = ("record", "address", "job", "school", "company", "insured", "craft")

    def __init__(self, facts: PatientFacts, *, seed: int, note: str) -> None:
        super().__init__(facts, seed=seed, note=note)
        dice = self._dice
        self._begin(later=dice.between(0, 400) if dice.chance(0.6) else 0, stay=(2, 45))
        self._own_ways = {form: dice.word(f"ja/{form}") for form in ("long", "short")}
        self._is_steady = dice.chance(0.7)
        boys = "ちゃん" if self._is_female else "くん"
        self._suffix = dice.pick(("ちゃん", boys, "さん"))
        self._usual = dice.pick(("joined",) * 3 + ("spaced",) * 3 + ("wide",) * 2)
        gender = "male" if facts.sex == "M" else "female"
        field = Dice(seed, "synthetic field", note).pick((*words("ja/fields"), gender, gender))
        self.field = "child" if self._years < 15 else field

    def _person(self, role: str) -> tuple[PersonName, str]:
        """Return a person's name and relation to the patient."""
        if role not in self._people:
            self._people[role] = self._new_person(role)
        return self._people[role]

    def _new_person(self, role: str) -> tuple[PersonName, str]:
        facts, dice = self._facts, self._dice
        if role == "patient":
            return facts.name, "本人"
        sex = dice.pick("MF")
        if role == "nurse":
            sex = "F" if dice.chance(0.85) else "M"
        born = dice.between(*_STAFF_BORN)
        name = japanese_name(dice, sex=sex, birth_year=born, is_wide=facts.is_wide)
        if not role.startswith("family"):
            return name, ""
        age = next(limit for limit in (20, 45, 65, 999) if self._years < limit)
        relation = dice.word(f"ja/relatives_{sex}_{age}")
        if relation in ("妻", "夫") and sex == facts.sex:
            relation = "姉" if sex == "F" else "兄"
        if dice.chance(0.7):
            given_name = _draw_given_name(dice, sex=sex, birth_year=dice.between(*_STAFF_BORN))
            name = PersonName(facts.name.surname, _part(*given_name), "", name.locale)
        return name, relation

    def _named(self, role: str, form: str) -> Piece:
        if role == "foreign":
            return self._of_abroad(role, is_part=form == "part")
        name, relation = self._person(role)
        if form in ("relation", "suffix"):
            return Piece(relation if form == "relation" else self._suffix)
        if form in ("", "surname", "given", "kana") and self._is_of_abroad(role):
            return self._of_abroad(role, is_part=form in ("surname", "given"))
        return self._write_piece(name, form)

    def _write_piece(self, name: PersonName, form: str) -> Piece:
        """Return a name in a form; "" is the whole name in kanji, most often in the usual form."""
        dice = self._dice
        if form == "foreign":
            surname, gap = dice.word("ja/foreign_surnames"), dice.pick("・ 　")
            return Piece(surname + gap + dice.word("ja/foreign_given"), IDENTIFIER)
        if form in ("romaji", "initials", "dotted"):
            text = dice.form(f"ja/{form}", **_name_fields(name))
            return Piece(text, IDENTIFIER if form == "romaji" else QUASI)
        if form in ("kana", "half_kana", "hiragana"):
            gap = dice.pick((" ", " ", "") if form == "half_kana" else (" ", " ", "　", ""))
            return Piece(write_name(name, form).replace(" ", gap), IDENTIFIER)
        if form == "initial":
            return Piece(name.surname.romaji[0], QUASI)
        if form in ("surname_kana", "surname_romaji"):
            return Piece(getattr(name.surname, form.removeprefix("surname_")), QUASI)
        if not form:
            is_usual = dice.chance(_USUAL_SHARE)
            form = self._usual if is_usual else choose_full_form(name.locale, dice.number())
        return Piece(write_name(name, form), label_of(form))

    def _is_of_abroad(self, role: str) -> bool:
        if role not in self._foreign:
            dice = self._patient_dice if role == "patient" else self._dice
            is_foreign = self._facts.is_wide and dice.chance(_FOREIGN_SHARE)
            self._foreign[role] = foreign_parts(dice) if is_foreign else ()
        return bool(self._foreign[role])

    def _of_abroad(self, role: str, *, is_part: bool) -> Piece:
        parts = self._foreign.setdefault(role, ()) or foreign_parts(self._dice)
        self._foreign[role] = parts
        if is_part:
            # Katakana names are told by their last part or their first, rarely by the middle one.
            return Piece(parts[self._dice.pick((0, -1))], QUASI)
        return Piece(foreign_name(parts, self._dice), IDENTIFIER)

    def _age(self, form: str) -> str:
        dice, years = self._dice, self._years
        if form == "other":
            return f"{dice.between(35, 88)}{dice.pick(('歳', '歳', '歳', '才'))}"
        if form == "sexed":
            return sexed_age(years, self._facts.sex, dice)
        if form == "other_sexed":
            sex = dice.pick("MF")
            return sexed_age(dice.between(2, 97), sex, dice)
        if form == "earlier":
            return f"{dice.between(min(5, years), max(years - 1, 1))}歳"
        if form == "number":
            return str(years)
        if form == "latin":
            return dice.form("ja/latin_age", years=years)
        if form == "tens":
            tens = years // 10 * 10
            return f"{tens}{dice.pick(('歳代', '代', '代'))}" if tens else "10歳未満"
        return self._usual_age()

    def _usual_age(self) -> str:
        """Return the patient's age with its unit; of infants in months or days."""
        dice, years, days = self._dice, self._years, self._lived
        if years == 0 and days < 28:
            return dice.pick((f"日齢{days}", f"生後{days}日", f"生後{max(1, days // 7)}週"))
        if years == 0:
            months = f"{days // 30}{dice.pick(('か月', 'ヶ月', 'カ月'))}"
            return dice.pick((f"生後{months}", months))
        if years < 4:
            return f"{years}歳{days % 365 * 12 // 365}{dice.pick(('か月', 'ヶ月'))}"
        if dice.chance(0.04):
            return f"{kanji_number(years) if years < 100 else years}歳"
        return f"{years}{dice.pick(('歳',) * 14 + ('才', ' 歳'))}"

    def _sex(self, form: str) -> str:
        usual = ("男児", "女児") if self._years < 12 else ("男性", "女性")
        words = {"short": "男女", "latin": "MF", "sign": "♂♀"}.get(form, usual)
        return words[self._is_female]

    def _job(self, *, is_adult: bool) -> str:
        if self._years < 18 and not is_adult:
            return words("ja/places_in_life")[min(3, max(0, self._years - 4) // 4)]
        if self._years < 23 and not is_adult:
            return "大学生"
        job = self._make_value("job", _listed("ja/jobs"))
        is_former = self._years > 68 and not is_adult and not job.startswith("元")
        return f"元{job}" if is_former and "主婦" not in job else job

    def _fill_other(self, subject: str, form: str) -> Piece:
        if subject == "job":
            return Piece(self._job(is_adult=form == "adult"), QUASI)
        if subject == "school":
            school = functools.partial(_school, age=self._years)
            return Piece(self._make_value(subject, school), QUASI)
        dice, day = self._dice, self._day(subject, form)
        if form in ("dotted", "slash"):
            return Piece(f"{day.month}{'.' if form == 'dotted' else '/'}{day.day}", QUASI)
        form = "long" if form in ("", "new") else form
        if form not in ("long", "short", "month", "year"):
            raise ValueError(f"{subject}.{form}: no such value")
        is_own = self._is_steady and form in self._own_ways
        name_form = self._own_ways[form] if is_own else dice.word(f"ja/{form}")
        return Piece(name_form.format(**_date_fields(day)), QUASI)

    def _day(self, subject: str, form: str) -> date:
        dice = self._dice
        if subject == "course":
            return self._next_day(4)
        if subject == "next":
            return self._today + _days(dice.between(3, 120))
        if subject == "date":
            return self._today - _days(dice.between(1, 90))
        if subject == "past":
            max_days = min(900 if form == "month" else 9000, self._lived - 1)
            return self._today - _days(dice.between(100, max(101, max_days)))
        if (subject, form) == ("birth", "new"):
            return self._today - _days(dice.between(400, 33_000))
        if subject not in self._known_days:
            raise ValueError(f"{subject}: no such value")
        return self._known_days[subject]
