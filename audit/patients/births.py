"""Read birth dates from a register, and find them in notes in any form.

The dates of a note are read, in English and Japanese, and compared with the birth date. So no form
needs a list of its own, and "8/4/51" is found in either order of month and day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date
from functools import cache

from audit.notes.dates import ERAS, MONTHS
from audit.notes.patterns import fold_characters, read_pattern_table

_PARTS, _TABLE = read_pattern_table(__file__)


@cache  # compiled when they are first used, because that takes as long as many imports
def _compile(*groups: str) -> tuple[re.Pattern[str], ...]:
    entries = (entry for group in groups for entry in _TABLE[group])
    return tuple(re.compile(pattern, re.IGNORECASE) for _, pattern in entries)


_CUED = ("cued days", "cued months", "cued years", "cued days of a year")
_ONE_YEAR = re.compile(_PARTS["ONE_YEAR"], re.IGNORECASE)
_NUMBER_BEFORE = re.compile(rf"(?:{_PARTS['DAY']}{_PARTS['GAP']}{_PARTS['OF']})$", re.IGNORECASE)
_NUMBERS = re.compile(
    f"[0-9]+|[千百{_PARTS['KANJI'][1:]}+|(?:eight|nine)teen|thousand|twenty", re.IGNORECASE
)
_N_BEFORE, _N_AROUND_CUE = 60, 45

_COMPACT = (6, 8, 12, 14)
_FIRST_YEAR, _LAST_YEAR = 1800, 2100
_CENTURIES = (1800, 1900, 2000)
_ERA_SIGNS = dict(zip("㋿㍻㍼㍽㍾", "令平昭大明", strict=True))
_ERA_STARTS = {
    sign: first.year for first, name, letter in ERAS for sign in (name[0], letter.lower())
}
"""From the first character of an era's name, or its letter, to its first year."""
_KANJI = dict(zip("〇零一二三四五六七八九壱弐参元", (0, 0, *range(1, 10), 1, 2, 3, 1), strict=True))
_PLACES = {"十": 10, "拾": 10, "百": 100, "千": 1000}
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
_NAMED_NUMBERS = {
    word: number
    for number, word in enumerate(f"{_PARTS['ONES']}|{_PARTS['TEENS']}".split("|"), start=1)
} | {word: 10 * tens for tens, word in enumerate(_PARTS["TENS"].split("|"), start=2)}
_ORDINALS = {
    word: number
    for number, word in enumerate(
        f"{_PARTS['ORDINAL_UNIT']}|{_PARTS['ORDINAL_TEEN']}".split("|"), start=1
    )
} | {"thirtieth": 30, "twenty": 20, "thirty": 30}

Reading = tuple[int | None, int | None, int | None]
"""Year, month and day; None for a part that is missing."""


class BirthFinder:
    """Finds the birth dates of one patient in notes."""

    def __init__(self, births: Iterable[date]) -> None:
        self._days = {(day.year, day.month, day.day) for day in births}
        self._partial: set[Reading] = set()
        self._numbers: set[str] = set()
        months = sorted({month for _, month, _ in self._days})
        self._month = re.compile("|".join(map(_build_month_pattern, months)), re.IGNORECASE)
        for year, month, day in self._days:
            self._partial |= {(year, month, None), (year, None, None), (None, month, day)}
            era_years = [year - start + 1 for start in _ERA_STARTS.values()]
            self._numbers |= {f"{year}", f"{year % 100:02d}"}
            self._numbers |= {
                f"{count:{width}d}"
                for count in era_years
                if 0 < count < 100
                for width in ("", "02")
            }

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the places where a text has one of the birth dates, or an identifying part of one.

        A month with its year counts anywhere. A year alone, a day without a year, and ambiguous
        numbers count only beside a cue: "born in 1951", "8月4日生まれ".

        Parameters
        ----------
        folded
            A text folded by `audit.notes.patterns.fold_characters`.
        """
        for start in _find_starts(text, self._find_years(text), n_after=1):
            for match in _match_all("days", text=text, start=start):
                if not self._days.isdisjoint(_read_dates(match)):
                    yield _include_weekday(text, *match.span())
            for match in _match_all("months", text=text, start=start):
                left_text = text[max(0, start - _N_BEFORE) : start]
                if not self._partial.isdisjoint(_read_dates(match)) and not (
                    _NUMBER_BEFORE.search(left_text)
                ):
                    yield _include_weekday(text, *match.span())
        any_cue, _, _ = _compile("cues")
        cues = (cue.start() for cue in any_cue.finditer(text))
        for start in _find_starts(text, cues, n_after=_N_AROUND_CUE):
            for match in _match_all(*_CUED, text=text, start=start):
                readings = set(_read_dates(match))
                is_birth = not self._days.isdisjoint(readings) or not self._partial.isdisjoint(
                    readings
                )
                if is_birth and _is_cued(text, *match.span()):
                    yield _include_weekday(text, *match.span())

    def _find_years(self, text: str) -> Iterator[int]:
        """Yield the places of numbers that may be the year of a birth, or contain it."""
        for match in _NUMBERS.finditer(text):
            number = match[0]
            if number[0].isdecimal():
                is_year = number in self._numbers or (
                    len(number) in _COMPACT and any(year in number for year in self._numbers)
                )
            else:
                is_year = (
                    number[0].isascii()
                    or "千" in number
                    or f"{_read_number(number)}" in (self._numbers)
                )
            near = max(0, match.start() - _N_BEFORE), match.end() + _N_BEFORE
            is_compact = len(number) in _COMPACT
            if is_year and (is_compact or self._month.search(text, *near)):
                yield match.start()


def _build_month_pattern(month: int) -> str:
    """Return a pattern for all forms of a month."""
    numbers = (_KANJI | _PLACES).items()
    last = sorted(char for char, number in numbers if number in (month, month % 10))
    return (
        rf"{MONTHS[month - 1][:3]}|[{''.join(last)}]|(?<![a-z]){_ROMAN[month - 1]}(?![a-z])"
        rf"|(?<![0-9])(?:0?{month}|{month:02d}[0-9]{{2}}|[0-9]{{2}}{month:02d})(?![0-9])"
    )


def read_birth(text: str) -> frozenset[date]:
    """Return the days that a cell of a register may mean; 04/08/1951 may mean two.

    The result is empty if the cell is not a date, or if its year has neither century nor era.
    """
    folded = fold_characters(text).strip()
    days = set[date]()
    with suppress(ValueError):  # the form of most registers needs no pattern
        return frozenset({date.fromisoformat(folded)})
    for match in _match_all("days", text=folded):
        rest = folded[match.end() :].lstrip(" tT")
        part = match.groupdict()
        digits = part.get("digits")
        is_exact = len(digits) > 6 or bool(part.get("era")) if digits else _says_century(match)
        if is_exact and (not rest or not rest[0].isdecimal() or ":" in rest[:3]):
            for year, month, day in _read_dates(match):
                with suppress(ValueError):  # the calendar has no such day
                    days.add(date(year or 0, month or 0, day or 0))
    return frozenset(days)


def _says_century(match: re.Match[str]) -> bool:
    years = match.groupdict().get("year") or ""
    return bool(re.fullmatch(_PARTS["YEAR"], years, re.IGNORECASE))


def _find_starts(text: str, places: Iterable[int], *, n_after: int) -> Iterator[int]:
    """Yield each offset, once, where a date may begin before a place or shortly after it."""
    (begin,), searched_end = _compile("starts"), 0
    for place in places:
        for match in begin.finditer(
            text, max(searched_end, place - _N_BEFORE), place + n_after + 8
        ):
            if match.start() >= place + n_after:
                break
            yield match.start()
        searched_end = max(searched_end, place + n_after)


def _match_all(*groups: str, text: str, start: int = 0) -> Iterator[re.Match[str]]:
    for pattern in _compile(*groups):
        if match := pattern.match(text, start):
            yield match


def _is_cued(text: str, start: int, stop: int) -> bool:
    _, cue_before, cue_after = _compile("cues")
    left_text = text[max(0, start - _N_BEFORE) : start]
    return bool(cue_before.search(left_text) or cue_after.match(text, stop))


def _include_weekday(text: str, start: int, stop: int) -> tuple[int, int]:
    """Extend a place by the weekday and the bracket beside it; cut white space at its end."""
    weekday_before, weekday_after = _compile("beside")
    stop = start + len(text[start:stop].rstrip())
    date_text = text[start:stop]
    start -= text[start - 1 : start] == "(" and date_text.count(")") > date_text.count("(")
    first = max(0, start - _N_BEFORE)
    if left_match := weekday_before.search(text[first:start]):
        start = first + left_match.start()
    if right_match := weekday_after.match(text, stop):
        stop = right_match.end()
    return start, stop


def _read_dates(match: re.Match[str]) -> Iterator[Reading]:
    """Yield every date, or part of a date, that the groups of a match may mean."""
    part = match.groupdict()
    if digits := re.sub("[^0-9]", "", part.get("digits") or ""):
        yield from _read_digits(digits, era=part.get("era") or "")
        return
    years = _read_years(part["year"]) if part.get("year") else {None}
    pairs: set[tuple[int | None, int | None]]
    if part.get("one"):
        first, second = int(part["one"]), int(part["two"])
        pairs = {(first, second), (second, first)}
    else:
        month = _read_month(part["month"]) if part.get("month") else None
        day = _read_number(part["day"]) if part.get("day") else None
        pairs = {(month, day)}
    for year in years:
        yield from ((year, month, day) for month, day in pairs)


def _read_digits(digits: str, *, era: str) -> Iterator[Reading]:
    """Yield the days that six or eight digits in a row may mean."""
    orders = ("ymd",) if era else ("ymd", "mdy", "dmy")
    n_year = len(digits) - 4
    for order in orders:
        places = {part: (n_year if part == "y" else 2) for part in order}
        numbers, offset = dict[str, str](), 0
        for part, width in places.items():
            numbers[part], offset = digits[offset : offset + width], offset + width
        for year in _read_years(era + numbers["y"]):
            if _FIRST_YEAR <= year < _LAST_YEAR:
                yield year, int(numbers["m"]), int(numbers["d"])


def _read_years(text: str) -> set[int]:
    """Return the years that a text may mean; two digits may mean a year of any century or era."""
    years = set[int]()
    for match in _ONE_YEAR.finditer(text):
        year_text = match[0].lower()
        if match["era"]:
            sign = _ERA_SIGNS.get(year_text[0], year_text[0])
            years.add(_ERA_STARTS[sign] + _read_number(match["count"]) - 1)
            continue
        number = (
            _read_year_words(year_text)
            if year_text[0].isascii() and year_text[0].isalpha()
            else (_read_number(year_text))
        )
        if len(year_text) == 4 or number >= 1000:
            years.add(number)
        else:
            years |= {century + number for century in _CENTURIES}
            years |= {start + number - 1 for start in _ERA_STARTS.values()}
    return {year for year in years if 0 < year < 3000}


def _read_year_words(text: str) -> int:
    """Return a year such as "nineteen fifty-one", "two thousand and five"."""
    words = [
        word for word in re.findall("[a-z]+", text) if word not in ("and", "hundred", "oh", "o")
    ]
    numbers = [_NAMED_NUMBERS.get(word, 0) for word in words]
    if "thousand" in words:
        return 2000 + sum(numbers[2:])
    return 100 * numbers[0] + sum(numbers[1:])


def _read_month(text: str) -> int:
    folded = text.lower()
    if folded in _ROMAN:
        return _ROMAN.index(folded) + 1
    for number, name in enumerate(MONTHS, start=1):
        if name.lower().startswith(folded[:3]):
            return number
    return _read_number(text)


def _read_number(text: str) -> int:
    """Return the number written in digits, kanji or as an English ordinal; 0 if there is none."""
    if digits := re.match("[0-9]+", text):
        return int(digits[0])
    if text[:1].isascii():
        return sum(_ORDINALS.get(word, 0) for word in re.findall("[a-z]+", text.lower()))
    kanji = text.replace("廿", "二十").replace("卅", "三十")
    total = last = 0
    for char in kanji:
        if char in _PLACES:
            total, last = total + (last or 1) * _PLACES[char], 0
        else:
            last = 10 * last + _KANJI.get(char, 0)
    return total + last
