"""Dates as Japanese notes write them: western years, eras, letters of eras, full-width digits."""

from __future__ import annotations

import re
from datetime import date

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
_WHOLE = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})")
_MONTH_FIRST = re.compile(r"(\d{1,2})[-/](\d{1,2})[-/](\d{4})")
_YEAR_MONTH = re.compile(r"(\d{4})[-/](\d{1,2})")
_MONTH_DAY = re.compile(r"(\d{1,2})[-/](\d{1,2})")
_YEAR = re.compile(r"\d{4}")


def era_year(day: date) -> tuple[str, str, int]:
    """Return the era's name, its letter, and the year in it, from 1.

    Raises
    ------
    ValueError
        If the day is before the Meiji era.
    """
    for first, name, letter in ERAS:
        if day >= first:
            return name, letter, day.year - first.year + 1
    raise ValueError("before the first era that is known here")


def written_date(day: date, *, style: str) -> str:
    """Return a day in one of `STYLES`; before the Meiji era always with the western year.

    Raises
    ------
    ValueError
        If there is no such style.
    """
    if style not in STYLES:
        raise ValueError(f"{style}: no such style of a date")
    western = f"{day.year}年{day.month}月{day.day}日"
    if style == "slashes":
        return f"{day.year}/{day.month:02d}/{day.day:02d}"
    if style == "dashes":
        return day.isoformat()
    if style == "wide":
        return western.translate(_WIDE_DIGITS)
    if style == "western" or day < ERAS[-1][0]:
        return western
    name, letter, year = era_year(day)
    if style == "letter":
        return f"{letter}{year}.{day.month}.{day.day}"
    return f"{name}{'元' if year == 1 else year}年{day.month}月{day.day}日"


def in_japanese(numbers: str, *, style: str) -> str:
    """Return a date that is written in numbers ("2011-8-4", "8/4", "2011") as Japanese has it.

    What is no such date stays as it is.
    """
    for pattern, order in ((_WHOLE, (1, 2, 3)), (_MONTH_FIRST, (3, 1, 2))):
        match = pattern.fullmatch(numbers)
        if match:
            try:
                day = date(*(int(match[group]) for group in order))
            except ValueError:
                return numbers
            return written_date(day, style=style)
    if match := _YEAR_MONTH.fullmatch(numbers):
        return f"{match[1]}年{int(match[2])}月"
    if match := _MONTH_DAY.fullmatch(numbers):
        return f"{int(match[1])}月{int(match[2])}日"
    return f"{numbers}年" if _YEAR.fullmatch(numbers) else numbers
