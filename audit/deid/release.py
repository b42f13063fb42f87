"""Redaction: the note with its spans replaced. What is released is always source + replacements."""

from __future__ import annotations

import hashlib
import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

from audit.deid.patterns import HIRA, KATA, folded_text, pattern_table
from audit.deid.rules import RuleTagger, without_clinical
from audit.notes.dates import ERAS, era_year
from audit.notes.mention_words import JAPANESE_SURNAMES, NO_NAMES, word_set
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

_K = "〇一二三四五六七八九十"
_PARTS, _TABLE = pattern_table("release.txt", numbers=_K)
_RE = {name: re.compile(pattern) for name, pattern in _PARTS.items()}
_FORMS = tuple(re.compile(pattern) for _, pattern in _TABLE["written dates"])
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
           "october", "november", "december")  # fmt: skip
_CENTURY = 69  # two digits from here on are of the 1900s, as POSIX has it
_DEFAULT_YEAR = 2022
_WEEKS_A_YEAR = 52
_MAX_YEARS, _LEAST_WEEKS, _MOST_WEEKS = 4, 4, 48
MAX_OFFSET_DAYS = 7 * (_MAX_YEARS * _WEEKS_A_YEAR + _MOST_WEEKS)


def offset_days(number: int) -> int:
    """Return by how many days the dates of a patient move, from a drawn number.

    Into the past, by 1 to 4 years and 4 to 48 weeks: never about a whole number of years.
    """
    number, weeks = divmod(number, _MOST_WEEKS - _LEAST_WEEKS + 1)
    years = 1 + number % _MAX_YEARS
    return -7 * (years * _WEEKS_A_YEAR + _LEAST_WEEKS + weeks)


@dataclass(frozen=True)
class Written:
    """A date as it is written, whole or in part; years are western.

    Attributes
    ----------
    match
        Where it stands in the folded text of its mark.
    order
        Of numbers without words: letters of year, month and day.
    """

    match: re.Match[str]
    year: int | None
    month: int | None
    day: int | None
    order: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether year, month and day are written."""
        return None not in (self.year, self.month, self.day)


def written_dates(text: str, *, is_japanese: bool, is_day_first: bool) -> tuple[Written, ...]:
    """Return the dates of which a mark consists; none where anything else stands in it.

    Parameters
    ----------
    is_japanese
        Whether three short numbers begin with the year.
    is_day_first
        Whether the day stands before the month in numbers, otherwise.
    """
    folded = folded_text(text)
    found: list[Written] = []
    at = 0
    while at < len(folded):
        at = _RE["BETWEEN"].match(folded, at).end()  # type: ignore[union-attr]
        if at == len(folded):
            break
        one = _date_at(folded, at, is_japanese=is_japanese, is_day_first=is_day_first)
        if one is None:
            return ()
        found.append(one)
        at = one.match.end()
    return tuple(found)


def _date_at(folded: str, at: int, *, is_japanese: bool, is_day_first: bool) -> Written | None:
    """Return the longest date that begins here."""
    best: Written | None = None
    for form in _FORMS:
        match = form.match(folded, at)
        if match and (best is None or match.end() > best.match.end()):
            one = _read(match, is_japanese=is_japanese, is_day_first=is_day_first)
            best = one or best
    return best


def _read(match: re.Match[str], *, is_japanese: bool, is_day_first: bool) -> Written | None:
    given = match.groupdict()
    if given.get("n1"):
        return _of_numbers(match, is_japanese=is_japanese, is_day_first=is_day_first)
    number = _number(given.get("y"))
    year = None if number is None else _western(number)
    if given.get("ey"):
        era = _year_of_era(given["era"], given["ey"])
        if era is None or (year is not None and year != era):
            return None
        year = era
    month = _number(given.get("m"))
    if given.get("mn"):
        month = next(i for i, name in enumerate(_MONTHS, 1) if name[:3] == given["mn"][:3].lower())
    return _valid(Written(match, year, month, _number(given.get("d"))))


def _of_numbers(match: re.Match[str], *, is_japanese: bool, is_day_first: bool) -> Written | None:
    """Return a date of two or three numbers, in the first order in which they are one."""
    n1, n2, n3 = match["n1"], match["n2"], match.groupdict().get("n3")
    orders = ["dmy", "mdy"] if is_day_first else ["mdy", "dmy"]
    if n3 is None:
        is_year = int(n2) > 31 and len(n2) == 2  # 9/92 is a month and a year
        orders = ["my"] if is_year else [order[:2] for order in orders]
    elif len(n3) < 4 and (is_japanese or int(n1) > 31):
        orders = ["ymd"]
    for order in orders:
        part = dict(zip(order, (int(n) for n in (n1, n2, n3) if n), strict=True))
        year = _western(part["y"]) if "y" in part else None
        found = _valid(Written(match, year, part["m"], part.get("d"), order))
        if found:
            return found
    return None


def _western(year: int) -> int:
    """Return the year that two digits mean, or the year itself."""
    return year if year > 99 else year + (1900 if year >= _CENTURY else 2000)


def _valid(one: Written) -> Written | None:
    if one.month is not None and not 1 <= one.month <= 12:
        return None
    if one.day is None:
        return one
    most = 31
    if one.month is not None:
        most = monthrange(one.year if one.year is not None else 2024, one.month)[1]
    return one if 1 <= one.day <= most else None


def is_day_first(texts: Sequence[str]) -> bool:
    """Whether dates in numbers have the day first, as one of them tells; the month otherwise."""
    for text in texts:
        for match in re.finditer(
            r"(?<![0-9A-Za-z./-])([0-9]{1,2})([./-])([0-9]{1,2})\2[0-9]{2,4}", text
        ):
            if 12 < int(match[1]) <= 31 and int(match[3]) <= 12:
                return True
    return False


@dataclass(frozen=True)
class MarkedDate:
    """A mark that is made of dates, and what stands around it."""

    text: str
    before: str
    after: str
    dates: tuple[Written, ...]

    @property
    def is_birth(self) -> bool:
        """Whether somebody was born on that day: no other date is near it."""
        return bool(_RE["BIRTH"].search(self.before[-20:])) or self.after.startswith("生")

    @property
    def is_relative(self) -> bool:
        """Whether a word ties it to another year or month, which moving may make untrue."""
        return bool(_RE["RELATIVE"].search(self.before[-3:]) or _RE["RELATIVE"].search(self.text))


def moved(marks: Sequence[MarkedDate], *, days: int) -> list[str | None]:
    """Return the marks of a note with their dates moved; None for one that cannot be."""
    resolved = _resolved(marks)
    pads = any(re.search(r"(?<![0-9])0[1-9](?![0-9])", folded_text(mark.text)) for mark in marks)
    found: list[str | None] = []
    for mark, days_of_it in zip(marks, resolved, strict=True):
        new: list[tuple[Written, date]] = []
        for written, day in zip(mark.dates, days_of_it, strict=True):
            try:
                if day is not None:
                    new.append((written, day + timedelta(days=days)))
            except OverflowError:
                break
        is_moved = bool(mark.dates) and len(new) == len(mark.dates) and not mark.is_relative
        found.append(_written(mark.text, new, pads=pads) if is_moved else None)
    return found


def _resolved(marks: Sequence[MarkedDate]) -> list[list[date | None]]:
    """Return for each date of each mark the day that stands for it; None where nothing tells it."""
    whole = [
        date(one.year, one.month, one.day)  # type: ignore[arg-type]
        for mark in marks if not mark.is_birth for one in mark.dates if one.is_whole
    ]  # fmt: skip
    first = whole[0] if whole else None
    found: list[list[date | None]] = []
    anchor = first
    finer: list[date] = list(whole)
    for mark in marks:
        own: list[date | None] = []
        for one in mark.dates:
            day = _day_of(one, anchor=anchor)
            own.append(day)
            if day is not None and one.day is not None and not mark.is_birth:
                anchor = day
                finer.append(day)
        found.append(own)
    # What is coarse stands for a finer date inside it, if the note has one; else for its middle.
    for is_year in (False, True):
        for mark, own in zip(marks, found, strict=True):
            for place, one in enumerate(mark.dates):
                if one.day is None and (one.month is None) == is_year:
                    own[place] = _inside(one, own[place], finer) or own[place]
        finer += [
            day for mark, own in zip(marks, found, strict=True)
            for one, day in zip(mark.dates, own, strict=True)
            if day is not None and one.day is None and one.month is not None
        ]  # fmt: skip
    return found


def _inside(one: Written, middle: date | None, finer: Sequence[date]) -> date | None:
    if middle is None:
        return None
    for day in finer:
        if day.year == middle.year and (one.month is None or day.month == middle.month):
            return day
    return None


def _day_of(one: Written, *, anchor: date | None) -> date | None:
    year, month, day = one.year, one.month, one.day
    if year is not None:
        if month is None:
            return date(year, 7, 2)
        return date(year, month, day or 15)
    if month is not None:
        near = anchor or date(_DEFAULT_YEAR, 7, 2)
        return _nearest([(near.year + k, month) for k in range(-4, 5)], day or 15, near)
    if day is None or anchor is None:
        return None
    months = [divmod(anchor.year * 12 + anchor.month - 1 + k, 12) for k in range(-2, 3)]
    return _nearest([(y, m + 1) for y, m in months], day, anchor)


def _nearest(months: Sequence[tuple[int, int]], day: int, near: date) -> date | None:
    days = [date(y, m, day) for y, m in months if 1 <= y <= 9999 and day <= monthrange(y, m)[1]]
    return min(days, key=lambda one: (abs((one - near).days), one), default=None)


def _written(text: str, new: Sequence[tuple[Written, date]], *, pads: bool) -> str | None:
    """Return a mark's text with its dates replaced; None where one has no such form."""
    folded, changes = folded_text(text), []
    for one, day in new:
        match = one.match
        for group in match.groupdict():
            if match[group] is None or group in ("s", "dot"):
                continue
            value = _value(group, one, day, pads=pads)
            if value is None:
                return None
            changes.append((*match.span(group), value))
    pieces, at = [], 0
    for start, end, value in sorted(changes):
        is_wide = text[start:end] != folded[start:end]
        pieces += [text[at:start], _wide(value) if is_wide else value]
        at = end
    return "".join([*pieces, text[at:]])


def _value(group: str, one: Written, day: date, *, pads: bool) -> str | None:
    old = one.match[group]
    if group in ("n1", "n2", "n3"):
        group = one.order[int(group[1]) - 1]
    if group in ("era", "ey"):
        return _era_value(group, old, day)
    if group == "mn":
        return _month_name(old, day.month, has_dot=bool(one.match["dot"]))
    if group == "th":
        if 10 <= day.day % 100 <= 20:
            return "th"
        return {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    number = {"y": day.year, "m": day.month, "d": day.day}[group]
    if re.fullmatch(rf"[{_K}]+", old):
        return _kanji(number, is_by_digit=len(old) == 4)
    if group == "y":
        if len(old.lstrip("'")) == 4:
            return f"{number:04d}"
        return old[: len(old) - 2] + f"{number % 100:02d}"
    is_packed = (
        "s" not in one.match.groupdict() and one.match[0].isdigit() and len(one.match[0]) == 8
    )
    parts = [v for k, v in one.match.groupdict().items() if v and k in ("m", "d", "n1", "n2")]
    is_padded = any(len(part) == 2 and part[0] == "0" for part in parts)
    is_plain = any(len(part) == 1 for part in parts)
    is_iso = one.match.groupdict().get("s") == "-" and not is_plain
    return str(number).zfill(
        2 if is_packed or is_padded or is_iso or (pads and not is_plain) else 1
    )


def _era_value(group: str, old: str, day: date) -> str | None:
    try:
        name, letter, year = era_year(day)
    except ValueError:
        return None
    if group == "era":
        if old.isascii():
            return letter if old.isupper() else letter.lower()
        return name if len(old) == 2 else name[0]
    if re.fullmatch(rf"[{_K}]+", old):
        return _kanji(year, is_by_digit=False)
    return (
        "元"
        if year == 1 and not old.isdigit()
        else str(year).zfill(len(old) if old[0] == "0" else 1)
    )


def _month_name(old: str, month: int, *, has_dot: bool) -> str:
    name = _MONTHS[month - 1]
    is_short = len(old) <= 4 and (has_dot or old.lower() not in ("may", "june", "july"))
    new = name[:3] if is_short else name
    return new.upper() if old.isupper() else new if old.islower() else new.capitalize()


def _year_of_era(era: str, written: str) -> int | None:
    number = 1 if written == "元" else _number(written)
    for first, name, letter in ERAS:
        if number and era.upper() in (name, name[0], letter):
            return first.year + number - 1
    return None


def _number(written: str | None) -> int | None:
    if written is None:
        return None
    written = written.lstrip("'")
    if written.isascii():
        return int(written)
    if "十" not in written:
        return int("".join(str("〇一二三四五六七八九".index(char)) for char in written))
    tens, _, ones = written.partition("十")
    if len(tens) > 1 or len(ones) > 1:
        return None
    digits = "〇一二三四五六七八九"
    return (digits.index(tens) if tens else 1) * 10 + (digits.index(ones) if ones else 0)


def _kanji(number: int, *, is_by_digit: bool) -> str:
    digits = "〇一二三四五六七八九"
    if is_by_digit:
        return "".join(digits[int(char)] for char in f"{number:04d}")
    tens, ones = divmod(number, 10)
    return (
        ("" if tens < 2 else digits[tens]) + ("十" if tens else "") + (digits[ones] if ones else "")
    )


def _wide(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


NAME, DATE, AGE, SEX, PLACE, ID, CONTACT_DETAIL, OTHER = (
    "name", "date", "age", "sex", "place", "id", "contact", "other",
)  # fmt: skip
KINDS = (NAME, DATE, AGE, SEX, PLACE, ID, CONTACT_DETAIL, OTHER)
N_AROUND = 40
_MIN_DIGITS = 3
_KIND_OF_LABEL = {
    IDENTIFIER: NAME, PERSONAL_ID_CODE: ID, LINKAGE_CODE: ID, CONTACT: CONTACT_DETAIL,
}  # fmt: skip
_GROUPS = {
    NAME: "names", DATE: "dates", AGE: "dates", SEX: "dates", PLACE: "hospitals contact",
    ID: "numbers", CONTACT_DETAIL: "contact",
}  # fmt: skip


@dataclass(frozen=True)
class Mark:
    """A stretch of a note that is to be replaced: its place, its type, what stands around it."""

    start: int
    end: int
    label: str
    text: str
    before: str
    after: str

    @property
    def folded(self) -> str:
        """The text as rules read it."""
        return folded_text(self.text)


def mark_of(text: str, *, start: int, end: int, label: str) -> Mark:
    """Return the mark of a place in a note."""
    before, after = text[max(0, start - N_AROUND) : start], text[end : end + N_AROUND]
    return Mark(start, end, label, text[start:end], folded_text(before), folded_text(after))


def kind_of(mark: Mark) -> str:
    """Return which of `KINDS` stood there, by its type and form; "" for a label unknown here."""
    folded = mark.folded
    if mark.label != QUASI_IDENTIFIER:
        return _KIND_OF_LABEL.get(mark.label, "")
    if _RE["HOSPITAL"].search(folded):
        return PLACE
    if _is_age(mark):
        return AGE
    if _dates(folded, is_japanese=True, day_first=False) or _dates(
        folded, is_japanese=False, day_first=False
    ):
        return DATE
    if _RE["WEEKDAY"].fullmatch(folded):
        return DATE
    if _RE["SEX"].fullmatch(folded):
        return SEX
    if _RE["POSTCODE"].fullmatch(folded) or _RE["PLACE"].search(folded):
        return PLACE
    return (
        NAME
        if _RE["NAME"].fullmatch(folded) and (folded[0].isascii() or _is_named(mark))
        else OTHER
    )


@dataclass(frozen=True)
class Stood:
    """What stood at a mark.

    Attributes
    ----------
    kind
        One of `KINDS`, or "".
    is_told
        Whether a rule or a cue in the note says so.
    dates
        Of which a mark consists that is a date.
    """

    kind: str
    is_told: bool
    dates: tuple[Written, ...] = ()


def what_stood(text: str, marks: Sequence[Mark], *, is_japanese: bool) -> tuple[Stood, ...]:
    """Return what stood at the marks of a note."""
    folded = folded_text(text)
    found = [(group, one.span) for group, one in RuleTagger().found(folded)] if marks else []
    day_first = not is_japanese and is_day_first([mark.folded for mark in marks])
    spans = [Span(mark.start, mark.end, mark.label) for mark in marks]
    personal = set(without_clinical(text, spans))
    answers = []
    for mark, span in zip(marks, spans, strict=True):
        kind = kind_of(mark)
        if span not in personal:
            answers.append(Stood(kind, is_told=False))
            continue
        groups = {
            group for group, one in found
            if 2 * (min(one.end, mark.end) - max(one.start, mark.start)) > mark.end - mark.start
        }  # fmt: skip
        is_told = not groups.isdisjoint(_GROUPS.get(kind, "").split())
        dates: tuple[Written, ...] = ()
        if kind == DATE:
            dates = _dates(mark.folded, is_japanese=is_japanese, day_first=day_first)
            is_told = bool(dates) and (is_told or _is_told_date(mark, dates))
        answers.append(Stood(kind, is_told or _is_told(mark, kind), dates))
    return tuple(answers)


def _is_told(mark: Mark, kind: str) -> bool:
    if kind == NAME:
        return bool(_RE["NAME"].fullmatch(mark.folded)) and _is_named(mark)
    if kind == AGE:
        return _is_age(mark)
    if kind == ID:
        return bool(_RE["ID_BEFORE"].search(mark.before)) and any(c.isdigit() for c in mark.folded)
    if kind == CONTACT_DETAIL:
        has_digits = sum(char.isdigit() for char in mark.folded) >= _MIN_DIGITS
        is_cued = has_digits and bool(_RE["CONTACT_BEFORE"].search(mark.before))
        return "@" in mark.text or is_cued or bool(_RE["TELEPHONE"].fullmatch(mark.folded))
    if kind == PLACE:
        return bool(_RE["HOSPITAL"].search(mark.folded)) or mark.before.endswith("〒")
    return False


def _is_age(mark: Mark) -> bool:
    folded = mark.folded
    if _RE["AGE"].search(folded):
        return True
    is_number = bool(re.fullmatch(r"[0-9]{1,3}", folded))
    return is_number and bool(
        _RE["AGE_AFTER"].match(mark.after) or _RE["AGE_BEFORE"].search(mark.before)
    )


def _is_told_date(mark: Mark, dates: Sequence[Written]) -> bool:
    is_by_form = all(_is_by_form(one) for one in dates)
    if is_by_form or _RE["DAY_AFTER"].match(mark.after) or _RE["DAY_BEFORE"].search(mark.before):
        return True
    is_year = len(dates) == 1 and dates[0].month is None and dates[0].year is not None
    return is_year and bool(_RE["YEAR_BEFORE"].search(mark.before))


def _is_by_form(one: Written) -> bool:
    """Whether the form alone tells that this is a date."""
    has_word = bool(_RE["DAY_WORD"].search(one.match[0]))
    is_day_alone = one.year is None and one.month is None
    if not has_word and re.fullmatch(r"[0-9]([-./][0-9])+", one.match[0]):
        return False  # 4-4-4 may be a dose
    return (has_word and not is_day_alone) or (one.year is not None and one.month is not None)


def _dates(folded: str, *, is_japanese: bool, day_first: bool) -> tuple[Written, ...]:
    return written_dates(folded, is_japanese=is_japanese, is_day_first=day_first)


def _is_named(mark: Mark) -> bool:
    """Whether a title or a list of names says that this is somebody's name."""
    if _RE["TITLE_AFTER"].match(mark.after) or _RE["TITLE_BEFORE"].search(mark.before):
        return True
    name = mark.folded
    if not name.isascii():
        bare = name.replace(" ", "")
        return (
            any(bare[:n] in JAPANESE_SURNAMES for n in (2, 3) if n <= len(bare)) or bare in _given()
        )
    parts = [part.strip(".") for part in re.split(r"[ ,]+", name) if part]
    if any(part.lower() in NO_NAMES for part in parts):
        return False
    return any(part in _english() for part in parts) and all(part[:1].isupper() for part in parts)


@cache
def _given() -> frozenset[str]:
    from audit.names.people import given_names

    tables = (given_names(sex, time) for sex in "MF" for time in ("old", "middle", "young"))
    return frozenset(
        part.written for table in tables for part in table.names if len(part.written) > 1
    )


@cache
def _english() -> frozenset[str]:
    from faker.providers.person.en_US import Provider

    return frozenset((*Provider.first_names, *Provider.last_names))


PLACEHOLDER, SURROGATE, MASK = "placeholder", "surrogate", "mask"
MODES = (PLACEHOLDER, SURROGATE, MASK)
MASK_CHAR = "■"
VERSION = 2  # of what takes a mark's place
FROM_TEXT = "text"
"""The language of placeholders that each note decides itself."""
LANGUAGES = (FROM_TEXT, "ja", "en")

_WORDS = {
    "name": ("氏名", "NAME"), "date": ("日付", "DATE"), "age": ("年齢", "AGE"),
    "sex": ("性別", "SEX"), "place": ("場所", "PLACE"), "id": ("番号", "ID"),
    "contact": ("連絡先", "CONTACT"), "other": ("その他", "OTHER"),
}  # fmt: skip
_ENGLISH = word_set(
    """
    the of and with was is are to in no for on not at has had this that from by she he her his
    patient were be as or
    """
)
_NOT_ENGLISH = word_set(
    """
    der die das und ist mit nicht wurde eine einen dem den bei el la los las del con en que por
    para una le les des est avec pas dans il della di che per non het een van op voor met os com
    não uma og och av till på ett med ikke
    """
)
_MIN_FOREIGN = 3


def language_of(text: str) -> str:
    """Return "ja" or "en", in which language a note is written; "" where it is in neither.

    Kana or Chinese characters are Japanese; Latin letters are English but for those texts in which
    small words of other languages are more than those of English.
    """
    if _RE["KANA"].search(text) or _RE["HAN_CHAR"].search(text):
        return "ja"
    words = [word.casefold() for word in _RE["WORD"].findall(text)]
    n_english, n_other = (sum(w in known for w in words) for known in (_ENGLISH, _NOT_ENGLISH))
    n_latin = sum(word[0] < "\u0250" for word in words)
    if 2 * n_latin < len(words) or n_other >= max(_MIN_FOREIGN, n_english + 1):
        return ""
    return "en"


@dataclass(frozen=True)
class MarkedNote:
    """What surrogates are wanted for: the marks of a note, and whose note it is."""

    text: str
    patient: tuple[int, str]
    marks: tuple[Mark, ...]
    language: str


Surrogate = Callable[[MarkedNote], Sequence[str]]
"""Gives the texts that take the places of the marks: of one patient always from the same person."""


@dataclass(frozen=True)
class Replacement:
    """A stretch of the source, `start` to `end`, and what stands in its place.

    `new_start` and `new_end` are offsets in the released text; `labels` are those of all spans that
    were joined here, `label` the one that names it.
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

    `n_unchanged` replacements are equal to what they replace: a surrogate that hides nothing.
    `language` is that of the note, as `language_of` says it.
    """

    text: str
    replacements: tuple[Replacement, ...]
    n_unchanged: int
    language: str


def redact(
    document: TaggedDocument,
    *,
    mode: str = PLACEHOLDER,
    surrogate: Surrogate | None = None,
    language: str = FROM_TEXT,
) -> Redacted:
    """Return the note with every character of every span replaced.

    Spans that overlap are replaced as one stretch, named after the longest of them, then by risk.
    `placeholder` puts what stood there in brackets, in the language of the note unless another is
    given, `surrogate` asks the function, `mask` puts a square for each character and keeps line
    ends, so that offsets stay.
    """
    if mode not in MODES or (mode == SURROGATE) != (surrogate is not None):
        raise ValueError(f"{mode}: no such mode, or it and the surrogate function do not fit")
    text = document.text
    stretches = [
        (spans[0].start, max(span.end for span in spans), min(spans, key=_priority).label, spans)
        for spans in _joined(document.spans)
    ]
    marks = tuple(
        mark_of(text, start=start, end=end, label=label) for start, end, label, _ in stretches
    )
    own = language_of(text)
    words = (own or "en") if language == FROM_TEXT else language
    if surrogate is not None:
        note = MarkedNote(text, document.patient, marks, words)
        new = list(surrogate(note)) if marks else []
    elif mode == MASK:
        new = ["".join(c if c in "\r\n" else MASK_CHAR for c in mark.text) for mark in marks]
    else:
        new = [placeholder(mark, language=words) for mark in marks]
    pieces: list[str] = []
    replacements = []
    at = n_released = 0
    for (start, end, label, spans), value in zip(stretches, new, strict=True):
        pieces += [text[at:start], value]
        n_released += start - at
        labels = tuple(sorted({span.label for span in spans}))
        replacements.append(Replacement(start, end, label, labels, value, n_released))
        n_released += len(value)
        at = end
    pieces.append(text[at:])
    n_unchanged = sum(r.text == text[r.start : r.end] for r in replacements)
    return Redacted("".join(pieces), tuple(replacements), n_unchanged, own)


def placeholder(mark: Mark, *, language: str) -> str:
    """Return what stands for a mark: 【氏名】 or [NAME]; of a label unknown here the label."""
    japanese, english = _WORDS.get(kind_of(mark), (mark.label, mark.label.upper()))
    return f"【{japanese}】" if language == "ja" else f"[{english}]"


def is_placeholder(text: str) -> bool:
    """Whether a replacement is a placeholder, which says itself what stood there."""
    return text[:1] + text[-1:] in ("【】", "[]")


def _joined(spans: Iterable[Span]) -> list[list[Span]]:
    """Return spans in groups that share characters; spans that only touch stay apart."""
    groups: list[list[Span]] = []
    reached = 0
    for span in sorted(spans):
        if groups and span.start < reached:
            groups[-1].append(span)
        else:
            groups.append([span])
        reached = max(reached, span.end)
    return groups


def _priority(span: Span) -> tuple[int, int, int, str]:
    risk = RISK_ORDER.index(span.label) if span.label in RISK_ORDER else len(RISK_ORDER)
    return -span.n_chars, risk, span.start, span.label


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
        if kind in (ID, CONTACT_DETAIL) or _RE["IS_POSTCODE"].fullmatch(folded):
            return self._code(mark.text, patient) if any(c.isdigit() for c in folded) else None
        if kind == PLACE and _RE["IS_HOSPITAL"].search(folded):
            from audit.names.people import hospital_of

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
        from audit.names.people import name_of

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
        numbers = list(_RE["NUMBER"].finditer(mark.folded))
        is_years = bool(_RE["IS_YEARS"].search(mark.folded + mark.after[:2]))
        if not is_years or "代" in mark.folded or len(numbers) != 1:
            return None
        start, end = numbers[0].span()
        age = int(numbers[0][0])
        if not _YOUNGEST <= age <= _OLDEST:
            return None
        shift = (-3, -2, -1, 1, 2, 3)[self._number("age", patient) % 6]
        if not _YOUNGEST <= age + shift <= _OLDEST:
            shift = -shift
        is_wide = mark.text[start] != mark.folded[start]
        new = str(age + shift)
        return mark.text[:start] + (_wide(new) if is_wide else new) + mark.text[end:]
