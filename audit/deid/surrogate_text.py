"""Surrogates: what takes the place of a span so that the note still reads like one.

The same text of the same patient gets the same surrogate. Names become names of the same script and
of the same parts; numbers and dates keep their form; hospitals become hospitals. What has no
surrogate here, an address or a sex, becomes a placeholder. Distances between dates are not kept.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from audit.corpora.mention_japanese import split_japanese
from audit.deid.labels import IDENTIFIER, QUASI_IDENTIFIER
from audit.deid.redact import Request, placeholder
from audit.deid.rule import HAN, HIRA, KATA, folded_text

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NAMES = ("January", "February", "March", "April", "May", "June", "July", "August",
                "September", "October", "November", "December")  # fmt: skip
_MONTH = re.compile(rf"(?i)\b({'|'.join(_MONTHS)})[a-z]*")
_NUMBER = re.compile(r"[0-9]+")
_IS_AGE = re.compile(r"(?i)[歳才代]|old|y\.?/?o\b|生後|日齢|月齢")
_IS_HOSPITAL = re.compile(
    r"(?:病院|医院|クリニック|診療所|センター|大学)|\b(?:Hospital|Clinic|Center|Centre|University)\b"
)
_IS_NAME = re.compile(rf"[{HAN}{KATA}{HIRA}ｦ-ﾟ ・=]+|[A-Z][A-Za-z.,'\- ]*")
_IS_SEX = re.compile(r"(?i)[男女][性児子]?|male|female|m|f|man|woman|boy|girl|lady|gentleman")
_IS_POSTCODE = re.compile(r"[0-9]{3}-?[0-9]{4}|[0-9]{5}(?:-[0-9]{4})?")
_IS_PLACE = re.compile(r"[都道府県市区町村]|\d.*[A-Z][a-z]+|, [A-Z]{2}\b")


@dataclass(frozen=True)
class Surrogates:
    """Gives surrogates; all of them follow from the seed, the patient and the text.

    Parameters
    ----------
    seed
        Of the invented names and numbers.
    """

    seed: int

    def __call__(self, request: Request) -> str:
        """Return the text that takes a place."""
        folded = folded_text(request.text)
        language = "en" if folded.isascii() else "ja"
        if request.label == IDENTIFIER and _IS_NAME.fullmatch(folded):
            return self._name(folded, request.patient)
        if "@" in folded:
            return f"mail{self._number('mail', folded, request.patient) % 10**6}@example.org"
        if request.label != QUASI_IDENTIFIER or _IS_POSTCODE.fullmatch(folded):
            new = self._code(request.text, request.patient)
            return new if new != request.text else placeholder(request.label, language=language)
        new = self._quasi(folded, request)
        return new if new != request.text else placeholder(request.label, language=language)

    def _quasi(self, folded: str, request: Request) -> str:
        if _IS_HOSPITAL.search(folded):
            from audit.deid.identities import hospital_of

            locale = "en_US" if folded.isascii() else "ja_JP"
            number = self._number("hospital", folded, request.patient)
            return hospital_of(number, locale=locale)
        if _IS_AGE.search(folded) or folded.isdigit():
            return self._age(request.text, request.patient)
        if re.search(r"[年月日]", folded) or _MONTH.match(folded) or _is_date(folded):
            return self._date(request.text, request.patient)
        if _IS_SEX.fullmatch(folded) or _IS_PLACE.search(folded) or not _IS_NAME.fullmatch(folded):
            return request.text
        return self._name(folded, request.patient)

    def _number(self, *parts: object) -> int:
        text = "\0".join(map(str, (self.seed, *parts)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def _name(self, name: str, patient: tuple[int, str]) -> str:
        if name.isascii():
            parts = re.findall(r"[^\s,]+|[\s,]+", name)
            last = max((i for i, p in enumerate(parts) if p.strip(" ,")), default=0)
            if "," in name:
                last = 0
            return "".join(
                part if not part.strip(" ,") else self._part(part, i == last, patient, "en_US")
                for i, part in enumerate(parts)
            )
        given, surname = split_japanese(name) if len(name) > 2 or " " in name else ("", name)
        blank = " " if " " in name else ""
        new = self._part(surname, True, patient, "ja_JP") if surname else ""
        return new + (blank + self._part(given, False, patient, "ja_JP") if given else "")

    def _part(self, part: str, is_surname: bool, patient: tuple[int, str], locale: str) -> str:
        from audit.deid.identities import name_of

        if re.fullmatch(r"[A-Z]\.?", part):
            return chr(65 + self._number("initial", part, patient) % 26) + part[1:]
        for attempt in range(9):
            key = f"{patient} {part} {attempt}"
            sex = "MF"[self._number("sex", patient) % 2]
            name = name_of(self.seed, key, sex=sex, birth_year=1960, locale=locale)
            found = name.surname if is_surname else name.given
            is_kana = re.fullmatch(rf"[{KATA}{HIRA}ｦ-ﾟ・]+", part)
            new = found.kana if is_kana and found.kana else found.written
            if new != part:
                break
        return new

    def _code(self, text: str, patient: tuple[int, str]) -> str:
        """Return letters for letters and digits for digits, of the same width."""
        new = []
        for place, char in enumerate(text):
            number = self._number("code", folded_text(text), place, patient)
            plain = folded_text(char)
            if place == 0 and plain == "0":  # a telephone number stays one
                new.append(char)
            elif plain.isascii() and plain.isdigit():
                new.append(chr(ord(char) - int(plain) + number % 10))
            elif plain.isascii() and plain.isalpha():
                first = ord("A") if plain.isupper() else ord("a")
                new.append(chr(ord(char) - ord(plain) + first + number % 26))
            else:
                new.append(char)
        return "".join(new)

    def _age(self, text: str, patient: tuple[int, str]) -> str:
        shift = (-3, -2, -1, 1, 2, 3)[self._number("age", patient) % 6]

        def moved(match: re.Match[str]) -> str:
            number = int(match.group())
            step = 10 * (shift // abs(shift)) if number % 10 == 0 and "代" in text else shift
            return str(number + step if number + step > 0 else number + abs(step))

        return _numbers_replaced(text, moved)

    def _date(self, text: str, patient: tuple[int, str]) -> str:
        folded = folded_text(text)
        n_months = 1 + self._number("month", patient) % 11
        n_days = 1 + self._number("day", patient) % 27
        n_years = 1 + self._number("year", patient) % 3
        units = _units(folded)

        def moved(match: re.Match[str]) -> str:
            number, width = int(match.group()), len(match.group())
            unit = units[match.start()]
            if unit == "year":
                number = number - n_years if number > n_years else number + n_years
            elif unit == "month":
                number = (number - 1 + n_months) % 12 + 1
            else:
                number = (number - 1 + n_days) % 28 + 1
            return str(number).zfill(width if match.group()[0] == "0" else 1)

        def named(match: re.Match[str]) -> str:
            month = (_MONTHS.index(match[1].lower()) + n_months) % 12
            return _MONTH_NAMES[month][: 3 if len(match.group()) == 3 else None]

        return _MONTH.sub(named, _numbers_replaced(text, moved))


def _is_date(folded: str) -> bool:
    return bool(re.fullmatch(r"['MTSHR]?[0-9元]+([./-][0-9]+){1,2}|[0-9]{4}s?", folded))


def _units(folded: str) -> dict[int, str]:
    """Return for each number of a date, by its place, whether it is a year, a month or a day."""
    found = list(_NUMBER.finditer(folded))
    signs = {"年": "year", "月": "month", "日": "day"}
    units: dict[int, str] = {}
    bare = [match for match in found if folded[match.end() :].lstrip()[:1] not in signs]
    for match in found:
        units[match.start()] = signs.get(folded[match.end() :].lstrip()[:1], "day")
    is_year_first = bool(bare) and (len(bare[0].group()) == 4 or bare[0].start() > 0)
    order = ("year", "month", "day") if is_year_first else ("month", "day", "year")
    if not _MONTH.search(folded):
        units.update({match.start(): unit for match, unit in zip(bare, order, strict=False)})
    units.update({match.start(): "year" for match in found if len(match.group()) == 4})
    return units


def _numbers_replaced(text: str, moved: Callable[[re.Match[str]], str]) -> str:
    """Replace the numbers of a text; full-width digits stay full-width."""
    folded = folded_text(text)
    pieces, at = [], 0
    for match in _NUMBER.finditer(folded):
        new = moved(match)
        is_wide = text[match.start()] != folded[match.start()]
        pieces += [text[at : match.start()]]
        pieces += ["".join(chr(ord(c) + 0xFEE0) for c in new) if is_wide else new]
        at = match.end()
    return "".join([*pieces, text[at:]])
