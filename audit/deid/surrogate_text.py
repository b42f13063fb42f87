"""Surrogates: what takes the place of a mark so that the note still reads like one.

The same text of the same patient gets the same surrogate, and nothing is invented that would be
medicine: only what a rule or a cue tells to be a name, a date, an age, a number of a person, a
telephone or a hospital is invented anew. All else becomes a placeholder: what nothing tells, an
address, a sex, a child's age. Dates of one patient move by one number of days (`moved_dates`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from audit.corpora.mention_japanese import split_japanese
from audit.deid.labels import IDENTIFIER
from audit.deid.moved_dates import MarkedDate, moved, offset_days
from audit.deid.redact import MarkedNote, placeholder
from audit.deid.rule import HIRA, KATA, folded_text
from audit.deid.what_stood import (
    AGE,
    CONTACT_DETAIL,
    DATE,
    ID,
    NAME,
    PLACE,
    Mark,
    Stood,
    what_stood,
)

_NUMBER = re.compile(r"[0-9]+")
_IS_HOSPITAL = re.compile(
    r"(?:病院|医院|クリニック|診療所|センター|大学)|\b(?:Hospital|Clinic|Center|Centre|University"
    r"|Infirmary|Hospice)\b"
)
_IS_YEARS = re.compile(r"(?i)[歳才]|y(?:ea)?rs?|y\.?/?o\b|^[0-9]+$")
_IS_POSTCODE = re.compile(r"[0-9]{3}-?[0-9]{4}|[0-9]{5}(?:-[0-9]{4})?")
_YOUNGEST, _OLDEST = 20, 89
_N_TRIES = 9
_VERSION = 2  # of what stands for what


@dataclass(frozen=True)
class Surrogates:
    """Gives surrogates; all of them follow from the seed, the patient and the text.

    Parameters
    ----------
    seed
        Of the invented names and numbers, and of the days by which dates move.
    """

    seed: int

    @property
    def digest(self) -> str:
        """SHA-256 of all that decides its answers but the notes."""
        return hashlib.sha256(f"{_VERSION} seed {self.seed}".encode()).hexdigest()

    def __call__(self, note: MarkedNote) -> Sequence[str]:
        """Return the texts that take the places of a note's marks."""
        stood = what_stood(note.text, note.marks, is_japanese=note.language == "ja")
        dates = iter(self._dates(note, stood))
        new = []
        for mark, what in zip(note.marks, stood, strict=True):
            value = next(dates) if what.kind == DATE else None
            if what.is_told and what.kind != DATE:
                value = self._told(mark, what.kind, note.patient)
            is_new = value is not None and value != mark.text
            new.append(str(value) if is_new else placeholder(mark, language=note.language))
        return new

    def _dates(self, note: MarkedNote, stood: Sequence[Stood]) -> list[str | None]:
        days = offset_days(self._number("days", note.patient))
        # A date that nothing tells may still be a number of another kind: none follows from it.
        marks = [
            MarkedDate(mark.text, mark.before, mark.after, what.dates if what.is_told else ())
            for mark, what in zip(note.marks, stood, strict=True) if what.kind == DATE
        ]  # fmt: skip
        return moved(marks, days=days)

    def _told(self, mark: Mark, kind: str, patient: tuple[int, str]) -> str | None:
        folded = mark.folded
        if kind == NAME:
            return self._name(folded, patient, is_full=mark.label == IDENTIFIER)
        if kind == AGE:
            return self._age(mark, patient)
        if "@" in folded:
            return f"mail{self._number('mail', folded, patient) % 10**6}@example.org"
        if kind in (ID, CONTACT_DETAIL) or _IS_POSTCODE.fullmatch(folded):
            return self._code(mark.text, patient) if any(c.isdigit() for c in folded) else None
        if kind == PLACE and _IS_HOSPITAL.search(folded):
            from audit.deid.identities import hospital_of

            locale = "en_US" if folded.isascii() else "ja_JP"
            numbers = (self._number("hospital", folded, patient, n) for n in range(_N_TRIES))
            new = (hospital_of(number, locale=locale) for number in numbers)
            return next((name for name in new if name != folded), None)
        return None

    def _number(self, *parts: object) -> int:
        text = "\0".join(map(str, (self.seed, *parts)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def _name(self, name: str, patient: tuple[int, str], *, is_full: bool) -> str:
        if name.isascii():
            parts = re.findall(r"[^\s,]+|[\s,]+", name)
            last = max((i for i, p in enumerate(parts) if p.strip(" ,")), default=0)
            if "," in name:
                last = 0
            return "".join(
                part if not part.strip(" ,") else self._part(part, i == last, patient, "en_US")
                for i, part in enumerate(parts)
            )
        n_least = 2 if is_full else 3  # a surname of three characters is no full name
        is_split = len(name) > n_least or " " in name
        given, surname = split_japanese(name) if is_split else ("", name)
        blank = " " if " " in name else ""
        new = self._part(surname, True, patient, "ja_JP") if surname else ""
        return new + (blank + self._part(given, False, patient, "ja_JP") if given else "")

    def _part(self, part: str, is_surname: bool, patient: tuple[int, str], locale: str) -> str:
        from audit.deid.identities import name_of

        if re.fullmatch(r"[A-Z]\.?", part):
            return chr(65 + self._number("initial", part, patient) % 26) + part[1:]
        for attempt in range(_N_TRIES):
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
        """Return digits for digits, of the same width, and letters for letters beside digits."""
        new = []
        words = {
            place for word in re.finditer(r"\S+", text) if not any(c.isdigit() for c in word[0])
            for place in range(*word.span())
        }  # fmt: skip
        for place, char in enumerate(text):
            number = self._number("code", folded_text(text), place, patient)
            plain = folded_text(char)
            if place == 0 and plain == "0":  # a telephone number stays one
                new.append(char)
            elif plain.isascii() and plain.isdigit():
                new.append(chr(ord(char) - int(plain) + number % 10))
            elif plain.isascii() and plain.isalpha() and place not in words:
                first = ord("A") if plain.isupper() else ord("a")
                new.append(chr(ord(char) - ord(plain) + first + number % 26))
            else:
                new.append(char)
        return "".join(new)

    def _age(self, mark: Mark, patient: tuple[int, str]) -> str | None:
        """Return an adult's age in years, moved by at most three; None for any other age."""
        numbers = _NUMBER.findall(mark.folded)
        is_years = bool(_IS_YEARS.search(mark.folded + mark.after[:2]))
        ages = [int(number) for number in numbers]
        if not is_years or "代" in mark.folded or len(ages) != 1:
            return None
        if not _YOUNGEST <= ages[0] <= _OLDEST:
            return None
        shift = (-3, -2, -1, 1, 2, 3)[self._number("age", patient) % 6]
        if not _YOUNGEST <= ages[0] + shift <= _OLDEST:
            shift = -shift
        return _numbers_replaced(mark.text, lambda match: str(int(match.group()) + shift))


def _numbers_replaced(text: str, moved_number: Callable[[re.Match[str]], str]) -> str:
    """Replace the numbers of a text; full-width digits stay full-width."""
    folded = folded_text(text)
    pieces, at = [], 0
    for match in _NUMBER.finditer(folded):
        new = moved_number(match)
        is_wide = text[match.start()] != folded[match.start()]
        pieces += [text[at : match.start()]]
        pieces += ["".join(chr(ord(c) + 0xFEE0) for c in new) if is_wide else new]
        at = match.end()
    return "".join([*pieces, text[at:]])
