"""Dates: one interval for a patient, the form kept, into 2000-2019."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.notes.dates import DateContext, Interval, interval_for, new_date

# 172 years are 62,822 days; the nearest whole number of weeks is 62,825.
INTERVAL = interval_for(date(2177, 1, 1), date(2196, 12, 1), draw=0)


def moved(content: str, *, near: date = date(2177, 12, 1), draw: int = 5) -> str:
    context = DateContext(Interval(-7 * 8975, -172), near, draw)
    return new_date(content, content, number="", context=context)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("2177-12-5", "2005-12-2"),
        ("2177-12-05", "2005-12-02"),
        ("12-5-2177", "12-2-2005"),
        ("12/5/77", "12/2/05"),
        ("12-5", "12-2"),
        ("12/05", "12/02"),
        ("1-2", "12-30"),
        ("2177", "2005"),
        ("12/2177", "12/2005"),
        ("12-/2177", "12-/2005"),
        ("2177-12", "2005-12"),
        ("-2177", "-2005"),
        ("13-31", "13-31"),
        ("9999-1-1", "2005-1-1"),
        ("1877-2-3", "1909-2-1"),
    ],
)
def test_forms_by_hand(content: str, expected: str) -> None:
    day = date(2177, 12, 5) + timedelta(days=-7 * 8975)
    assert (day.year, day.month) == (2005, 12)
    assert moved(content) == expected


days = st.dates(date(2100, 1, 1), date(2210, 1, 1))


@given(days, st.integers(0, 365 * 18), st.integers(0, 2**64 - 1))
def test_a_stay_of_18_years_lies_within_2000_to_2019(first: date, n_days: int, draw: int) -> None:
    last = first + timedelta(days=n_days)
    interval = interval_for(first, last, draw=draw)
    assert date(2000, 1, 1) <= interval.move(first) <= interval.move(last) <= date(2019, 12, 31)
    assert interval.n_days % 7 == 0
    assert abs(interval.n_days - interval.n_years * 365.2425) <= 3.5


@given(days, days, st.integers(0, 100))
def test_full_dates_keep_their_distance(one: date, other: date, draw: int) -> None:
    context = DateContext(INTERVAL, one, draw)
    texts = [
        new_date(day.isoformat(), "9999-99-99", number="", context=context) for day in (one, other)
    ]
    new = [date(*map(int, text.split("-"))) for text in texts]
    assert new[1] - new[0] == other - one
    assert new[0].weekday() == one.weekday()


@pytest.mark.parametrize(
    ("category", "form"),
    [
        ("Month (only)", r"[A-Z][a-z]+"),
        ("Month Day", r"[A-Z][a-z]+ \d{1,2}"),
        ("Day Month", r"\d{1,2} [A-Z][a-z]+"),
        ("Month Day Year (2)", r"[A-Z][a-z]+ \d{1,2}, 20[01]\d"),
        ("Day Month Year", r"\d{1,2} [A-Z][a-z]+ 20[01]\d"),
        ("Month/Day (2)", r"\d{1,2}/\d{1,2}"),
        ("Month/Year 1", r"\d{1,2}/20[01]\d"),
        ("Month Year", r"[A-Z][a-z]+ 20[01]\d"),
        ("Year/Month/Day", r"20[01]\d/\d{1,2}/\d{1,2}"),
        ("Month/Day/Year", r"\d{1,2}/\d{1,2}/20[01]\d"),
        ("Year (4 digits)", r"20[01]\d"),
        ("Year (2 digits)", r"[01]\d"),
        ("Date range (1)", r"\d{1,2}/\d{1,2}-\d{1,2}/\d{1,2}"),
        ("Date range (2)", r"\d{1,2}/\d{1,2}/20[01]\d-\d{1,2}/\d{1,2}/20[01]\d"),
    ],
)
def test_categories_of_dates_have_their_form(category: str, form: str) -> None:
    context = DateContext(INTERVAL, date(2180, 5, 5), 12345)
    assert re.fullmatch(form, new_date(category + " 7", category, number="7", context=context))


def test_a_month_with_a_year_keeps_the_month() -> None:
    context = DateContext(INTERVAL, date(2180, 5, 5), 3)
    text = new_date("January 2181", "January", number="2181", context=context)
    assert text == f"January {2181 + INTERVAL.n_years}"
    text = new_date("July 10342", "July", number="10342", context=context)
    assert re.fullmatch(r"(June|July|August) \d{1,2}", text)
