"""Move all dates of a patient by one interval, and write dates in the forms of Japanese notes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import MINYEAR, date, timedelta
from functools import lru_cache

FIRST_DAY = date(2000, 1, 1)
LAST_DAY = date(2019, 12, 31)
_DAYS_PER_YEAR = 365.2425
# MIMIC-III dates the birth of a patient over 89 three hundred years before the admission.
_MARKED_YEARS = 150
_MARK_YEARS = 300
_OLDEST_YEARS = 91

_NUMBER = re.compile(r"\d+")
_UNITS = re.compile("month|day|year")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class Interval:
    """The shift of a patient's dates: `n_days`, which differs from `n_years` by a few days."""

    n_days: int
    n_years: int

    def move(self, day: date) -> date:
        """Return the moved day; raise ValueError or OverflowError where the calendar ends."""
        return day + timedelta(days=self.n_days)


def choose_interval(first: date, last: date, *, draw: int) -> Interval:
    """Return an interval that moves the days `first` to `last` into 2000-2019.

    If they do not fit into these 20 years, the interval moves the first day into 2000 or 2001.
    """
    lowest, highest = (
        a.toordinal() - b.toordinal() for a, b in ((FIRST_DAY, first), (LAST_DAY, last))
    )
    fitting = [
        interval
        for n_years in range(FIRST_DAY.year - first.year, LAST_DAY.year + 1 - first.year)
        if lowest <= (interval := _round_to_weeks(n_years)).n_days <= highest
    ] or [_round_to_weeks(FIRST_DAY.year + 1 - first.year)]
    return fitting[draw % len(fitting)]


@lru_cache(maxsize=10_000)
def _round_to_weeks(n_years: int) -> Interval:
    return Interval(7 * round(n_years * _DAYS_PER_YEAR / 7), n_years)


@dataclass(frozen=True, slots=True)
class DateContext:
    """Everything but the date itself that determines its new text.

    `near` is the note's own date in the source; it gives the year of dates that have none.
    `draw` is a number drawn for this date; it is used where the form does not name the day.
    """

    interval: Interval
    near: date
    draw: int


def replace_date(content: str, category: str, *, number: str, context: DateContext) -> str:
    """Return the new text of a date placeholder; the arguments are parts of a `Placeholder`."""
    if content.startswith(("-", "/", *"0123456789")):
        return _move_numbers(content, context)
    words = category.lower()
    month = next((i for i, name in enumerate(MONTHS, 1) if words.startswith(name.lower())), 0)
    if month:
        return _move_month(month, number, context)
    day = context.interval.move(context.near) - timedelta(days=context.draw % 30)
    if words.startswith("date range"):
        return _format_range(words, day, draw=context.draw)
    return _format_by_category(words, day)


def _move_numbers(content: str, context: DateContext) -> str:
    numbers, form = _parse_numbers(content)
    is_short = "{y:02d}" in form
    moved = _move_parts(numbers, is_short, context)
    if is_short:
        moved["y"] %= 100
    return form.format_map(moved)


@lru_cache(maxsize=10_000)
def _parse_numbers(content: str) -> tuple[dict[str, int], str]:
    """Return those of year, month and day that the content has, and a format string for them."""
    numbers = _NUMBER.findall(content)
    roles = _assign_roles(numbers)
    is_short = "y" in roles and len(numbers[roles.index("y")]) <= 2
    is_padded = any(text.startswith("0") for text in numbers if len(text) < 3)
    n_digits = {"y": 2 if is_short else 4, **dict.fromkeys("md", 2 if is_padded else 1)}
    forms = iter(f"{{{role}:0{n_digits[role]}d}}" for role in roles)
    return dict(zip(roles, map(int, numbers), strict=True)), _NUMBER.sub(
        lambda match: next(forms), content
    )


def _assign_roles(numbers: list[str]) -> str:
    """Return the letters "y", "m" and "d" in the order of the numbers."""
    if len(numbers[0]) > 2:
        return "ymd"[: len(numbers)]
    if len(numbers) == 1:
        return "m"
    if len(numbers) == 2 and (len(numbers[1]) > 2 or int(numbers[1]) > 31):
        return "my"
    first = "dm" if int(numbers[0]) > 12 >= int(numbers[1]) else "md"
    return f"{first}y"[: len(numbers)]


def _move_parts(numbers: dict[str, int], is_short: bool, context: DateContext) -> dict[str, int]:
    near = context.near
    year = numbers.get("y", near.year)
    if is_short:
        year = near.year - (near.year - year + 50) % 100 + 50
    if year < near.year - _MARKED_YEARS:
        year += _MARK_YEARS - _OLDEST_YEARS - context.draw % 9
    unknown = numbers | {"y": FIRST_DAY.year + context.draw % 20}
    if year > near.year + _MARKED_YEARS:
        return unknown
    if "m" not in numbers:
        return {"y": max(MINYEAR, year + context.interval.n_years)}
    try:
        day = date(year, numbers["m"], numbers.get("d", 15))
        if "y" not in numbers and abs((day - near).days) > 182:
            # The same day of the year, at most half a year away.
            is_leap_day = (day.month, day.day) == (2, 29)
            nearer = day.year + (1 if day < near else -1)
            day = day.replace(nearer, day=28 if is_leap_day else day.day)
        day = context.interval.move(day)
    except (ValueError, OverflowError):  # month 13, 30 February, year 9999
        return unknown
    return {"y": day.year, "m": day.month, "d": day.day}


def _move_month(month: int, number: str, context: DateContext) -> str:
    # "January 2150" holds a year, "January 12" a day; any other number only distinguishes dates.
    value = int(number) if number.isdigit() else 0
    if 1700 <= value <= 2400:
        moved = _move_parts({"m": month, "y": value}, False, context)
        return f"{MONTHS[moved['m'] - 1]} {moved['y']}"
    day = value if 1 <= value <= 28 else 1 + context.draw % 28
    moved = _move_parts({"m": month, "d": day}, False, context)
    return f"{MONTHS[moved['m'] - 1]} {moved['d']}"


def _format_by_category(words: str, day: date) -> str:
    units = _UNITS.findall(words.split("(")[0])
    if "(only" in words or units == ["month"]:
        return MONTHS[day.month - 1]
    if units == ["year"]:
        return f"{day.year % 100:02d}" if "2 digit" in words else str(day.year)
    if "/" in words:
        return "/".join(str(getattr(day, unit)) for unit in units)
    texts = {"month": MONTHS[day.month - 1], "day": str(day.day), "year": str(day.year)}
    if not units:
        return day.isoformat()
    text = " ".join(texts[unit] for unit in units)
    return text.replace(f" {day.day} {day.year}", f" {day.day}, {day.year}")


def _format_range(words: str, last: date, *, draw: int) -> str:
    first = last - timedelta(days=1 + draw // 30 % 20)
    start, end = (f"{day.month}/{day.day}" for day in (first, last))
    if "(2)" in words:
        return f"{start}/{first.year}-{end}/{last.year}"
    return f"{start}-{end}/{last.year}" if "(3)" in words else f"{start}-{end}"


def parse_day(text: str) -> date | None:
    """Return the day at the start of a text ("2151-08-04 12:00:00"); None if there is none."""
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return None


# First day, name, letter.
ERAS = (
    (date(2019, 5, 1), "令和", "R"),
    (date(1989, 1, 8), "平成", "H"),
    (date(1926, 12, 25), "昭和", "S"),
    (date(1912, 7, 30), "大正", "T"),
    (date(1868, 1, 25), "明治", "M"),
)
STYLES = ("western", "slashes", "era", "letter", "wide", "dashes")
_WIDE_DIGITS = str.maketrans("0123456789", "０１２３４５６７８９")
_DAY = re.compile(r"(?:(\d{4})[-/])?(\d{1,2})[-/](\d{1,2})(?:[-/](\d{4}))?")
_YEAR_MONTH = re.compile(r"(\d{4})(?:[-/](\d{1,2}))?")


def find_era_year(day: date) -> tuple[str, str, int]:
    """Return the name of a day's era, its letter, and the year within the era, from 1."""
    for first, name, letter in ERAS:
        if day >= first:
            return name, letter, day.year - first.year + 1
    raise ValueError("before the first era that is known here")


def format_date(day: date, *, style: str) -> str:
    """Write a day in one of `STYLES`; a day before the Meiji era always has the western year."""
    western = f"{day.year}年{day.month}月{day.day}日"
    if style in ("era", "letter") and day >= ERAS[-1][0]:
        name, letter, year = find_era_year(day)
        if style == "letter":
            return f"{letter}{year}.{day.month}.{day.day}"
        return f"{name}{'元' if year == 1 else year}年{day.month}月{day.day}日"
    forms = {
        "slashes": f"{day.year}/{day.month:02d}/{day.day:02d}",
        "dashes": day.isoformat(),
        "wide": western.translate(_WIDE_DIGITS),
    }
    return forms.get(style, western)


def format_japanese_date(numbers: str, *, style: str) -> str:
    """Write a date of numbers ("2011-8-4", "8/4", "2011") in Japanese.

    Any other text is returned unchanged.
    """
    if match := _YEAR_MONTH.fullmatch(numbers):
        return f"{match[1]}年{int(match[2])}月" if match[2] else f"{match[1]}年"
    match = _DAY.fullmatch(numbers)
    if match is None or (match[1] and match[4]):
        return numbers
    year, month, day = match[1] or match[4], int(match[2]), int(match[3])
    if not year:
        return f"{month}月{day}日"
    try:
        return format_date(date(int(year), month, day), style=style)
    except ValueError:
        return numbers
