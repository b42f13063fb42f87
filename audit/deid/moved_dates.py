"""Dates of one patient, moved by one number of days in the calendar, so that intervals stay.

What is written in part is completed before it is moved: a month and day by the date before it, a
month or year by a date of the same note that lies in it, else by its middle. The form stays: era or
western year, order, signs, zeros, full-width digits, Chinese numerals, names of months. The offset
is a whole number of weeks, so that a day of the week beside a date stays true.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from audit.deid.japanese_dates import ERAS, era_year
from audit.deid.rule import folded_text

_K = "〇一二三四五六七八九十"
_N2 = rf"(?:[0-9]{{1,2}}|[{_K}]{{1,3}})"
_ERA = r"(?P<era>明治|大正|昭和|平成|令和|[MTSHR明大昭平令])\.?\ ?"
_ERA_YEAR = rf"{_ERA}(?P<ey>[0-9]{{1,2}}|元|[{_K}]{{1,3}})"
_Y4 = rf"(?P<y>(?:1[6-9]|2[01])[0-9]{{2}}|[{_K}]{{4}})"
_REST = rf"(?:\ ?(?P<m>{_N2})\ ?月(?:\ ?(?P<d>{_N2})\ ?日)?)?"
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
           "october", "november", "december")  # fmt: skip
_MN = (
    r"(?i:(?P<mn>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)(?P<dot>\.)?)"
)
_OD = r"(?P<d>0?[1-9]|[12][0-9]|3[01])(?P<th>st|nd|rd|th)?"
_YEAR = r"(?P<y>(?:1[6-9]|2[01])[0-9]{2}|'?[0-9]{2}(?![0-9]))"
_FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:西暦)?{_Y4}(?:[(]{_ERA_YEAR}年?[)])?年{_REST}",
        rf"{_ERA_YEAR}(?:年?[(]{_Y4}年?[)])?年{_REST}",
        rf"(?P<m>{_N2})\ ?月(?:\ ?(?P<d>{_N2})\ ?日)?",
        rf"(?P<d>{_N2})\ ?日",
        r"(?P<y>(?:1[6-9]|2[01])[0-9]{2})(?P<s>[./-])(?P<m>[0-9]{1,2})"
        r"(?:(?P=s)(?P<d>[0-9]{1,2}))?(?![0-9])",
        rf"{_ERA_YEAR}(?P<s>[./-])(?P<m>[0-9]{{1,2}})(?:(?P=s)(?P<d>[0-9]{{1,2}}))?(?![0-9])",
        r"'(?P<y>[0-9]{2})(?P<s>[./-])(?P<m>[0-9]{1,2})(?:(?P=s)(?P<d>[0-9]{1,2}))?(?![0-9])",
        r"(?P<y>(?:19|20)[0-9]{2})(?P<m>[0-9]{2})(?P<d>[0-9]{2})(?![0-9])",
        r"(?P<n1>[0-9]{1,2})(?P<s>[./-])(?P<n2>[0-9]{1,2})(?P=s)(?P<n3>[0-9]{4}"
        r"|[0-9]{1,2})(?![0-9])",
        r"(?P<m>[0-9]{1,2})(?P<s>[/-])(?P<y>(?:19|20)[0-9]{2})(?![0-9])",
        r"(?P<n1>[0-9]{1,2})(?P<s>/)(?P<n2>[0-9]{1,2})(?![0-9])",
        rf"{_MN}\ ?{_OD}(?:,?\ {_YEAR})?(?![0-9])",
        rf"{_OD}(?:\ of)?[ -]?{_MN}(?:(?:,?[ -]){_YEAR})?(?![0-9])",
        rf"{_MN}(?:\ of|,)?[ -]?{_YEAR}(?![0-9])",
        rf"{_MN}(?![a-z])",
        r"(?P<d>0?[1-9]|[12][0-9]|3[01])(?P<th>st|nd|rd|th)\b",
        rf"{_ERA_YEAR}(?![0-9])",
        r"(?P<y>(?:1[6-9]|2[01])[0-9]{2})(?![0-9s])",
    )
)
_BETWEEN = re.compile(
    r"(?:[\s,、。()\[\]~〜～:;&-]|から|より|および|及び|と|頃|ころ|ごろ|まで|付|\bto\b"
    r"|\band\b|\bthrough\b"
    r"|\bof\b|\bthe\b|\bon\b|[(][月火水木金土日][)]|[月火水木金土日]曜日?"
    r"|\b(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?\b\.?"
    r"|(?:午前|午後)?[0-2]?[0-9](?:時(?:[0-5]?[0-9]分|半)?"
    r"|:[0-5][0-9](?::[0-5][0-9])?(?:\ ?[AaPp]\.?[Mm]\.?)?))*"
)
_RELATIVE = re.compile(r"(?:[同翌前昨今本来]|一昨)年|[同翌前来今先]月")
_BIRTH = re.compile(
    r"生年月日|誕生日|\b(?:DOB|[Dd]ate of [Bb]irth|[Bb]irth(?:day|date)|[Bb]orn)\b|D\.O\.B"
)
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
        at = _BETWEEN.match(folded, at).end()  # type: ignore[union-attr]
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
        return bool(_BIRTH.search(self.before[-20:])) or self.after.startswith("生")

    @property
    def is_relative(self) -> bool:
        """Whether a word ties it to another year or month, which moving may make untrue."""
        return bool(_RELATIVE.search(self.before[-3:]) or _RELATIVE.search(self.text))


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
