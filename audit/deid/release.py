"""Redaction: the note with its spans replaced. What is released is always source + replacements.

Spans that overlap are replaced as one stretch, a mark. A placeholder says in brackets what stood
there; a surrogate is invented from the seed, the patient and the text, where a rule or a cue in the
note tells what stood there; a mask is a square for each character.
"""

from __future__ import annotations

import hashlib
import re
from calendar import monthrange
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Any, NamedTuple

from pydantic import Field

from audit.deid.patterns import HIRA, KATA, folded_text, pattern_table
from audit.deid.rules import RuleTagger, without_clinical
from audit.notes.dates import ERAS, era_year
from audit.notes.mention_words import JAPANESE_SURNAMES, NO_NAMES
from audit.notes.mentions_ja import split_japanese
from audit.notes.spans import (
    CONTACT,
    IDENTIFIER,
    LINKAGE_CODE,
    PERSONAL_ID_CODE,
    QUASI_IDENTIFIER,
    RISK_ORDER,
    Span,
    TaggedDocument,
)
from audit.task import MAX_SEED, Record

_DIGITS = "〇一二三四五六七八九"
_PARTS, _TABLE = pattern_table("release.txt", numbers=f"{_DIGITS}十")
_RE = {name: re.compile(pattern) for name, pattern in _PARTS.items()}
_FORMS = tuple(re.compile(pattern) for _, pattern in _TABLE["written dates"])

PLACEHOLDER, SURROGATE, MASK = MODES = ("placeholder", "surrogate", "mask")
MASK_CHAR = "■"
FROM_TEXT = "text"
"""The language of placeholders that each note decides itself."""
LANGUAGES = (FROM_TEXT, "ja", "en")
VERSION = 2
"""Of what takes a mark's place: goes up with every change of a released text."""

_WORDS = {
    "name": ("氏名", "NAME"), "date": ("日付", "DATE"), "age": ("年齢", "AGE"),
    "sex": ("性別", "SEX"), "place": ("場所", "PLACE"), "id": ("番号", "ID"),
    "contact": ("連絡先", "CONTACT"), "other": ("その他", "OTHER"),
}  # fmt: skip
"""The kinds of what stood at a mark, and what placeholders call them."""
_KIND_OF_LABEL = {
    IDENTIFIER: "name", PERSONAL_ID_CODE: "id", LINKAGE_CODE: "id", CONTACT: "contact",
}  # fmt: skip
_GROUPS = {
    "name": {"names"}, "date": {"dates"}, "age": {"dates"}, "sex": {"dates"}, "id": {"numbers"},
    "place": {"hospitals", "contact"}, "contact": {"contact"},
}  # fmt: skip
"""The groups of rules that tell a kind."""
_RISKS = {label: place for place, label in enumerate(RISK_ORDER)}
_N_AROUND = 40

_ENGLISH, _NOT_ENGLISH = (set(_PARTS[name].split("|")) for name in ("ENGLISH", "NOT_ENGLISH"))
_MIN_FOREIGN = 3


def language_of(text: str) -> str:
    """Return "ja" or "en", in which language a note is written; "" where it is in neither.

    Kana or Chinese characters are Japanese; Latin letters are English but for those texts in which
    small words of other languages are more than those of English.
    """
    if _RE["JAPANESE"].search(text):
        return "ja"
    words = [word.casefold() for word in _RE["WORD"].findall(text)]
    n_english, n_other = (sum(w in known for w in words) for known in (_ENGLISH, _NOT_ENGLISH))
    n_latin = sum(word[0] < "\u0250" for word in words)
    is_foreign = 2 * n_latin < len(words) or n_other >= max(_MIN_FOREIGN, n_english + 1)
    return "" if is_foreign else "en"


@dataclass(frozen=True)
class Replacement:
    """A stretch of the source, `start` to `end`, and what stands in its place.

    It begins at `new_start` of the released text; `labels` are those of all spans that were joined
    here, `label` the one that names it.
    """

    start: int
    end: int
    label: str
    labels: tuple[str, ...]
    text: str
    new_start: int

    @property
    def new_end(self) -> int:
        """Where the replacement ends in the released text."""
        return self.new_start + len(self.text)


@dataclass(frozen=True)
class Redacted:
    """A note as it may be released, and what was replaced in it.

    `n_unchanged` replacements are equal to what they replace: they hide nothing. `language` is that
    of the note, as `language_of` says it.
    """

    text: str
    replacements: tuple[Replacement, ...]
    n_unchanged: int
    language: str


class Release(Record):
    """How spans are replaced; `language` is that of placeholders, `seed` that of surrogates."""

    mode: str = Field(default=PLACEHOLDER, pattern=f"^({'|'.join(MODES)})$")
    language: str = Field(default=FROM_TEXT, pattern=f"^({'|'.join(LANGUAGES)})$")
    seed: int = Field(default=0, ge=0, le=MAX_SEED)

    def decisive(self) -> dict[str, Any]:
        """Return what decides the released text: a seed only where there are surrogates."""
        seed = self.seed if self.mode == SURROGATE else None
        language = self.language if self.mode == PLACEHOLDER else None
        return {"mode": self.mode, "language": language, "seed": seed, "version": VERSION}

    def of(self, document: TaggedDocument) -> Redacted:
        """Return a note with every character of every span replaced.

        A mask keeps line ends, so that offsets stay.
        """
        text, marks = document.text, list(_marks(document))
        own = language_of(text)
        words = (own or "en") if self.language == FROM_TEXT else self.language
        if self.mode == MASK:
            new = [re.sub(r"[^\r\n]", MASK_CHAR, mark.text) for mark in marks]
        elif self.mode == SURROGATE and marks:
            new = _Surrogates(self.seed, document.patient).of(text, marks, language=words)
        else:
            new = [_placeholder(mark, words) for mark in marks]
        n_longer, replacements = 0, []
        for (span, labels, *_), value in zip(marks, new, strict=True):
            at = span.start + n_longer
            replacements.append(Replacement(span.start, span.end, span.label, labels, value, at))
            n_longer += len(value) - span.n_chars
        released = _changed(text, ((one.start, one.end, one.text) for one in replacements))
        n_unchanged = sum(mark.text == value for mark, value in zip(marks, new, strict=True))
        return Redacted(released, tuple(replacements), n_unchanged, own)


def is_placeholder(text: str) -> bool:
    """Whether a replacement is a placeholder, which says itself what stood there."""
    return text[:1] + text[-1:] in ("【】", "[]")


def _changed(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with stretches (start, end) replaced, which are in order."""
    pieces, at = [], 0
    for start, end, new in changes:
        pieces += [text[at:start], new]
        at = end
    return "".join([*pieces, text[at:]])


class _Mark(NamedTuple):
    """A stretch of a note that is to be replaced, and what stands around it, folded."""

    span: Span
    labels: tuple[str, ...]
    text: str
    folded: str
    before: str
    after: str


def _marks(document: TaggedDocument) -> Iterator[_Mark]:
    """Yield spans joined that share characters; spans that only touch stay apart.

    A mark is named after its longest span, then by risk.
    """
    text = document.text
    groups: list[list[Span]] = []
    reached = 0
    for span in document.spans:
        if span.start >= reached:
            groups.append([])
        groups[-1].append(span)
        reached = max(reached, span.end)
    for spans in groups:
        start, end = spans[0].start, max(span.end for span in spans)
        risks = [(-x.n_chars, _RISKS.get(x.label, len(_RISKS)), x.start, x.label) for x in spans]
        around = (text[start:end], text[max(0, start - _N_AROUND) : start], text[end:][:_N_AROUND])
        labels = tuple(sorted({span.label for span in spans}))
        yield _Mark(Span(start, end, min(risks)[-1]), labels, text[start:end],
                    *map(folded_text, around))  # fmt: skip


def _placeholder(mark: _Mark, language: str) -> str:
    """Return what stands for a mark: 【氏名】 or [NAME]; of a label unknown here the label."""
    label = mark.span.label
    japanese, english = _WORDS.get(_kind(mark), (label, label.upper()))
    return f"【{japanese}】" if language == "ja" else f"[{english}]"


def _kind(mark: _Mark) -> str:
    """Return what stood there, by type and form; "" for a label that is unknown here."""
    folded, label = mark.folded, mark.span.label
    if label != QUASI_IDENTIFIER:
        return _KIND_OF_LABEL.get(label, "")
    if _RE["HOSPITAL"].search(folded):
        return "place"
    is_cued = _RE["AGE_AFTER"].match(mark.after) or _RE["AGE_BEFORE"].search(mark.before)
    if _RE["AGE"].search(folded) or (is_cued and re.fullmatch(r"[0-9]{1,3}", folded)):
        return "age"
    is_date = any(_dates(folded, is_japanese=known, is_day_first=False) for known in (True, False))
    if is_date or _RE["WEEKDAY"].fullmatch(folded):
        return "date"
    if _RE["SEX"].fullmatch(folded):
        return "sex"
    if _RE["POSTCODE"].fullmatch(folded) or _RE["PLACE"].search(folded):
        return "place"
    is_name = _RE["NAME"].fullmatch(folded) and (folded[0].isascii() or _is_named(mark))
    return "name" if is_name else "other"


def _is_named(mark: _Mark) -> bool:
    """Whether a title or a list of names says that this is somebody's name."""
    if _RE["TITLE_AFTER"].match(mark.after) or _RE["TITLE_BEFORE"].search(mark.before):
        return True
    if not mark.folded.isascii():
        bare = mark.folded.replace(" ", "")
        is_surname = any(bare[:n] in JAPANESE_SURNAMES for n in (2, 3) if n <= len(bare))
        return is_surname or bare in _japanese_given_names()
    parts = [part.strip(".") for part in re.split(r"[ ,]+", mark.folded) if part]
    if any(part.lower() in NO_NAMES or not part[:1].isupper() for part in parts):
        return False
    return not _english_names().isdisjoint(parts)


@cache
def _japanese_given_names() -> frozenset[str]:
    from audit.names.people import given_names

    tables = (given_names(sex, time) for sex in "MF" for time in ("old", "middle", "young"))
    names = {part.written for table in tables for part in table.names}
    return frozenset(name for name in names if len(name) > 1)


@cache
def _english_names() -> frozenset[str]:
    from faker.providers.person.en_US import Provider

    return frozenset((*Provider.first_names, *Provider.last_names))


class _Written(NamedTuple):
    """A date as it is written, whole or in part, with its western year.

    `match` is its place in the folded mark; `roles` say what each of its groups is, those that are
    numbers without words too.
    """

    match: re.Match[str]
    roles: Mapping[str, str]
    year: int | None
    month: int | None
    day: int | None


_Dates = tuple[_Written, ...]


def _dates(folded: str, *, is_japanese: bool, is_day_first: bool) -> _Dates:
    """Return the dates of which a mark consists; none where anything else stands in it.

    In a Japanese note three short numbers begin with the year, otherwise with day or month.
    """
    found: list[_Written] = []
    at = 0
    while (at := _RE["BETWEEN"].match(folded, at).end()) < len(folded):  # type: ignore[union-attr]
        matches = [match for form in _FORMS if (match := form.match(folded, at))]
        matches.sort(key=lambda match: -match.end())
        read = (_read(one, is_japanese=is_japanese, is_day_first=is_day_first) for one in matches)
        longest = next(filter(None, read), None)
        if longest is None:
            return ()
        found.append(longest)
        at = longest.match.end()
    return tuple(found)


def _read(match: re.Match[str], *, is_japanese: bool, is_day_first: bool) -> _Written | None:
    """Return a date, of numbers in the first order in which they are one."""
    given = {name: text for name, text in match.groupdict().items() if text}
    orders = [""]
    if "n1" in given:
        orders = ["dmy", "mdy"] if is_day_first else ["mdy", "dmy"]
        if "n3" not in given:
            # 9/92 is a month and a year
            orders = ["my"] if int(given["n2"]) > 31 else [order[:2] for order in orders]
        elif len(given["n3"]) < 4 and (is_japanese or int(given["n1"]) > 31):
            orders = ["ymd"]
    for order in orders:
        numbers = dict(zip(("n1", "n2", "n3"), order, strict=False))
        roles = {name: numbers.get(name, name) for name in given}
        with suppress(ValueError):
            parts = {roles[name]: text for name, text in given.items()}
            return _Written(match, roles, *_year_month_day(parts))
    return None


_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
           "october", "november", "december")  # fmt: skip
_CENTURY = 69  # two digits from here on are of the 1900s, as POSIX has it


def _year_month_day(parts: Mapping[str, str]) -> tuple[int | None, int | None, int | None]:
    """Return what parts of a date say; ValueError where there is no such day."""
    year, month, day = (_number(parts.get(name)) for name in "ymd")
    if year is not None and year < 100:
        year += 1900 if year >= _CENTURY else 2000
    if "ey" in parts:
        number = 1 if parts["ey"] == "元" else _number(parts["ey"])
        first = next(first for first, name, letter in ERAS
                     if parts["era"].upper() in (name, name[0], letter))  # fmt: skip
        if not number or year not in (None, first.year + number - 1):
            raise ValueError("another year")
        year = first.year + number - 1
    if "mn" in parts:
        month = 1 + [name[:3] for name in _MONTHS].index(parts["mn"][:3].lower())
    date(2024 if year is None else year, 1 if month is None else month, 1 if day is None else day)
    return year, month, day


def _number(written: str | None) -> int | None:
    if written is None:
        return None
    digits = written.lstrip("'").translate({ord(c): str(i) for i, c in enumerate(_DIGITS)})
    tens, ten, ones = digits.partition("十")
    if not ten:
        return int(digits)
    return None if len(tens) > 1 or len(ones) > 1 else 10 * int(tens or 1) + int(ones or 0)


def _what_stood(
    text: str, marks: Sequence[_Mark], *, is_japanese: bool
) -> Iterator[tuple[_Mark, str, bool, _Dates]]:
    """Yield marks with the kind of what stood there, and whether a rule or a cue says so.

    Last come the dates of which a mark consists that is surely a date.
    """
    found = list(RuleTagger().found(folded_text(text)))
    # Dates in numbers have the day first where one of them tells so.
    pairs = ((int(m["a"]), int(m["b"])) for one in marks for m in _RE["PAIR"].finditer(one.folded))
    is_day_first = not is_japanese and any(12 < a <= 31 and b <= 12 for a, b in pairs)
    personal = set(without_clinical(text, [mark.span for mark in marks]))
    for mark in marks:
        kind, span, dates = _kind(mark), mark.span, _Dates()
        groups = {group for group, one in found if 2 * span.overlap(one.span) > span.n_chars}
        is_told = not groups.isdisjoint(_GROUPS.get(kind, ()))
        if kind == "date" and span in personal:
            dates = _dates(mark.folded, is_japanese=is_japanese, is_day_first=is_day_first)
            # A date that nothing tells may still be a number of another kind.
            dates = dates if is_told or _is_told_date(mark, dates) else ()
        yield mark, kind, span in personal and (is_told or _is_told(mark, kind)), dates


def _is_told(mark: _Mark, kind: str) -> bool:
    folded, before = mark.folded, mark.before
    n_digits = sum(char.isdigit() for char in folded)
    if kind == "name":
        return bool(_RE["NAME"].fullmatch(folded)) and _is_named(mark)
    if kind == "id":
        return n_digits > 0 and bool(_RE["ID_BEFORE"].search(before))
    if kind == "contact":
        is_cued = n_digits >= 3 and _RE["CONTACT_BEFORE"].search(before)
        return "@" in mark.text or bool(is_cued or _RE["TELEPHONE"].fullmatch(folded))
    if kind == "place":
        return before.endswith("〒") or bool(_RE["HOSPITAL"].search(folded))
    return kind == "age"


def _is_told_date(mark: _Mark, dates: _Dates) -> bool:
    """Whether a cue tells that dates are dates, or the form of each; 4-4-4 may be a dose."""
    if _RE["DAY_AFTER"].match(mark.after) or _RE["DAY_BEFORE"].search(mark.before):
        return True
    known = [(one.year is not None, one.month is not None) for one in dates]
    if known == [(True, False)] and _RE["YEAR_BEFORE"].search(mark.before):
        return True
    return all(
        any(has) if _RE["DAY_WORD"].search(one.match[0])
        else all(has) and not re.fullmatch(r"[0-9]([-./][0-9])+", one.match[0])
        for one, has in zip(dates, known, strict=True)
    )  # fmt: skip


_MAX_YEARS, _LEAST_WEEKS, _MOST_WEEKS = 4, 4, 48
MAX_OFFSET_DAYS = 7 * (_MAX_YEARS * 52 + _MOST_WEEKS)
_DEFAULT_DAY = date(2022, 7, 2)
_ADULT = range(20, 90)
_N_TRIES = 9


@dataclass(frozen=True)
class _Surrogates:
    """Invents what stands in the notes of a patient; all of it follows from seed and text."""

    seed: int
    patient: tuple[int, str]

    def of(self, text: str, marks: Sequence[_Mark], *, language: str) -> list[str]:
        """Return the texts that take the places of a note's marks."""
        stood = list(_what_stood(text, marks, is_japanese=language == "ja"))
        # Dates move by whole weeks into the past, never whole years: 1 to 4 years, 4 to 48 weeks.
        number, weeks = divmod(self._draw("days", self.patient), _MOST_WEEKS - _LEAST_WEEKS + 1)
        by = timedelta(days=-7 * ((1 + number % _MAX_YEARS) * 52 + _LEAST_WEEKS + weeks))
        moved = _moved([(mark, dates) for mark, kind, _, dates in stood if kind == "date"], by)
        new = []
        for mark, kind, is_told, _ in stood:
            value = next(moved) if kind == "date" else self._told(mark, kind) if is_told else None
            new.append(_placeholder(mark, language) if value in (None, mark.text) else str(value))
        return new

    def _draw(self, *parts: object) -> int:
        text = "\0".join(map(str, (self.seed, *parts)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def _told(self, mark: _Mark, kind: str) -> str | None:
        folded = mark.folded
        if kind == "name":
            return self._name(folded, is_full=mark.span.label == IDENTIFIER)
        if kind == "age":
            return self._age(mark)
        if "@" in folded:
            return f"mail{self._draw('mail', folded, self.patient) % 10**6}@example.org"
        if kind in ("id", "contact") or _RE["IS_POSTCODE"].fullmatch(folded):
            return self._code(mark) if any(c.isdigit() for c in folded) else None
        if _RE["IS_HOSPITAL"].search(folded):
            from audit.names.people import value_of

            locale = "en_US" if folded.isascii() else "ja_JP"
            draws = (self._draw("hospital", folded, self.patient, n) for n in range(_N_TRIES))
            return _other(folded, (value_of("hospital", draw, locale=locale) for draw in draws))
        return None

    def _name(self, name: str, *, is_full: bool) -> str:
        if name.isascii():
            words = [match.span() for match in re.finditer(r"[^\s,]+", name)]
            last = words[-1:] if "," not in name else words[:1] if name[0] not in ", " else []
            return _changed(name, ((*word, self._part(name[slice(*word)], word in last, "en_US"))
                                   for word in words))  # fmt: skip
        n_least = 2 if is_full else 3  # a surname of three characters is no full name
        is_split = len(name) > n_least or " " in name
        given, surname = split_japanese(name) if is_split else ("", name)
        parts = [self._part(part, is_surname, "ja_JP")
                 for part, is_surname in ((surname, True), (given, False)) if part]  # fmt: skip
        return (" " if " " in name and given else "").join(parts if surname else ["", *parts])

    def _part(self, part: str, is_surname: bool, locale: str) -> str:
        from audit.names.people import name_of

        if re.fullmatch(r"[A-Z]\.?", part):
            return chr(65 + self._draw("initial", part, self.patient) % 26) + part[1:]
        is_kana = re.fullmatch(rf"[{KATA}{HIRA}ｦ-ﾟ・]+", part)
        sex = "MF"[self._draw("sex", self.patient) % 2]

        def invented(attempt: int) -> str:
            key = f"{self.patient} {part} {attempt}"
            name = name_of(self.seed, key, sex=sex, birth_year=1960, locale=locale)
            found = name.surname if is_surname else name.given
            return found.kana if is_kana and found.kana else found.written

        return _other(part, map(invented, range(_N_TRIES))) or part

    def _code(self, mark: _Mark) -> str:
        """Return digits for digits, of the same width, and letters for letters beside digits."""
        new = list(mark.text)
        for word in re.finditer(r"\S+", mark.text):
            has_digit = any(char.isdigit() for char in word[0])
            for place in range(*word.span()):
                plain = mark.folded[place]
                draw = self._draw("code", mark.folded, place, self.patient)
                if (place, plain) == (0, "0") or not plain.isascii():
                    continue  # a telephone number stays one
                if plain.isdigit():
                    to = ord("0") + draw % 10
                elif plain.isalpha() and has_digit:
                    to = ord("A" if plain.isupper() else "a") + draw % 26
                else:
                    continue
                new[place] = chr(ord(new[place]) - ord(plain) + to)
        return "".join(new)

    def _age(self, mark: _Mark) -> str | None:
        """Return an adult's age in years, moved by at most three; None for any other age."""
        numbers = list(_RE["NUMBER"].finditer(mark.folded))
        is_years = _RE["IS_YEARS"].search(mark.folded + mark.after[:2])
        if not is_years or "代" in mark.folded or len(numbers) != 1:
            return None
        age = int(numbers[0][0])
        if age not in _ADULT:
            return None
        shift = (-3, -2, -1, 1, 2, 3)[self._draw("age", self.patient) % 6]
        new = age + shift if age + shift in _ADULT else age - shift
        return _rewritten(mark, [(*numbers[0].span(), str(new))])


def _other(than: str, values: Iterable[str]) -> str | None:
    return next((value for value in values if value != than), None)


def _rewritten(mark: _Mark, changes: Iterable[tuple[int, int, str]]) -> str:
    """Return a mark with stretches replaced, in wide characters where such stood there."""
    wide = {code: code + 0xFEE0 for code in range(ord("!"), ord("~") + 1)}
    return _changed(
        mark.text,
        ((a, b, new.translate(wide) if mark.text[a:b] != mark.folded[a:b] else new)
         for a, b, new in sorted(changes)),
    )  # fmt: skip


def _moved(marks: Sequence[tuple[_Mark, _Dates]], by: timedelta) -> Iterator[str | None]:
    """Yield the marks of a note with their dates moved; None for one that cannot be.

    A mark without dates, or which a word ties to another year or month, cannot be moved.
    """
    resolved = iter(_resolved(marks))
    pads = any(re.search(r"(?<![0-9])0[1-9](?![0-9])", mark.folded) for mark, _ in marks)
    for mark, dates in marks:
        days = [next(resolved) for _ in dates]
        is_tied = _RE["RELATIVE"].search(mark.before[-3:]) or _RE["RELATIVE"].search(mark.text)
        new = None
        if dates and None not in days and not is_tied:
            with suppress(OverflowError, ValueError):
                new = _rewritten(mark, [
                    (*one.match.span(group), _value(role, one.match[group], one, day + by, pads))
                    for one, day in zip(dates, days, strict=True) if day is not None
                    for group, role in one.roles.items() if role not in ("s", "dot")
                ])  # fmt: skip
        yield new


def _resolved(marks: Sequence[tuple[_Mark, _Dates]]) -> list[date | None]:
    """Return the day that stands for each date of all marks; None where nothing tells it."""
    rows = [(one, bool(_RE["BIRTH"].search(mark.before[-20:])) or mark.after.startswith("生"))
            for mark, dates in marks for one in dates]  # fmt: skip
    finer = [
        date(one.year, one.month, one.day) for one, is_birth in rows
        if not is_birth and one.year is not None and one.month is not None and one.day is not None
    ]  # fmt: skip
    anchor = next(iter(finer), None)
    days: list[date | None] = []
    for one, is_birth in rows:  # no other date is near a birth
        day = _day_of(one, anchor)
        days.append(day)
        if day is not None and one.day is not None and not is_birth:
            anchor = day
            finer.append(day)
    # What is coarse stands for a finer date inside it, if the note has one; else for its middle.
    for is_year in (False, True):
        coarse = [i for i, (one, _) in enumerate(rows)
                  if one.day is None and (one.month is None) == is_year]  # fmt: skip
        for i in coarse:
            middle = days[i]
            inside = (day for day in finer if middle and day.year == middle.year
                      and (is_year or day.month == middle.month))  # fmt: skip
            days[i] = next(inside, middle)
        finer += [day for i in coarse if (day := days[i]) is not None]
    return days


def _day_of(one: _Written, anchor: date | None) -> date | None:
    """Return a date, or the middle of it; of one without a year that which is next to `anchor`."""
    _, _, year, month, day = one
    if year is not None:
        return date(year, 7, 2) if month is None else date(year, month, day or 15)
    near = anchor or _DEFAULT_DAY
    if month is not None:
        months = [(near.year + k, month) for k in range(-4, 5)]
    elif anchor is not None:
        first = near.year * 12 + near.month - 1
        months = [(at // 12, at % 12 + 1) for at in range(first - 2, first + 3)]
    else:
        return None
    day = day or 15
    days = [date(y, m, day) for y, m in months if 1 <= y <= 9999 and day <= monthrange(y, m)[1]]
    return min(days, key=lambda found: (abs((found - near).days), found), default=None)


def _value(role: str, old: str, one: _Written, day: date, pads: bool) -> str:
    """Return the new text of a part of a date; ValueError where an era has none."""
    if role == "mn":
        return _month_name(old, day.month, has_dot=bool(one.match["dot"]))
    if role == "th":
        is_teen = 10 <= day.day % 100 <= 20
        return "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    numbers, n_digits = {"y": day.year, "m": day.month, "d": day.day}, 1
    if role in ("era", "ey"):
        name, letter, numbers["ey"] = era_year(day)
        if role == "era":
            written = letter if old.isascii() else name if len(old) == 2 else name[0]
            return written.lower() if old.islower() else written
    number, bare = numbers[role], old.lstrip("'")
    if old == "元":
        return old if number == 1 else str(number)
    if not bare.isascii():
        return _kanji(number, is_by_digit=len(old) == 4)
    if role == "y":
        return f"{number:04d}" if len(bare) == 4 else old[:-2] + f"{number % 100:02d}"
    if role == "ey":
        n_digits = len(old) if old[0] == "0" else 1
    elif _is_padded(one.match, pads):
        n_digits = 2
    return str(number).zfill(n_digits)


def _is_padded(match: re.Match[str], pads: bool) -> bool:
    """Whether month and day have two digits, as they are written; `pads` says so of the note."""
    given = match.groupdict()
    parts = [text for name in ("m", "d", "n1", "n2") if (text := given.get(name))]
    is_packed = "s" not in given and match[0].isdigit() and len(match[0]) == 8
    is_plain = any(len(part) == 1 for part in parts)
    has_zero = any(len(part) == 2 and part[0] == "0" for part in parts)
    return is_packed or has_zero or ((given.get("s") == "-" or pads) and not is_plain)


def _month_name(old: str, month: int, *, has_dot: bool) -> str:
    name = _MONTHS[month - 1]
    is_short = len(old) <= 4 and (has_dot or old.lower() not in ("may", "june", "july"))
    new = name[:3] if is_short else name
    return new.upper() if old.isupper() else new if old.islower() else new.capitalize()


def _kanji(number: int, *, is_by_digit: bool) -> str:
    tens, ones = divmod(number, 10)
    digits = f"{number:04d}" if is_by_digit else (
        ("" if tens < 2 else str(tens)) + "十" * (tens > 0) + (str(ones) if ones else "")
    )  # fmt: skip
    return digits.translate({ord("0") + i: char for i, char in enumerate(_DIGITS)})
