"""Japanese dates: eras by hand at their borders, all styles, dates in numbers."""

from __future__ import annotations

from datetime import date

import pytest

from audit.notes.dates import STYLES, era_year, in_japanese, written_date


@pytest.mark.parametrize(
    ("day", "era"),
    [(date(2019, 5, 1), ("令和", "R", 1)), (date(2019, 4, 30), ("平成", "H", 31)),
     (date(1989, 1, 7), ("昭和", "S", 64)), (date(1926, 12, 24), ("大正", "T", 15)),
     (date(1912, 7, 29), ("明治", "M", 45))],
)  # fmt: skip
def test_eras_at_their_borders(day: date, era: tuple[str, str, int]) -> None:
    assert era_year(day) == era


def test_a_day_in_every_style() -> None:
    assert [written_date(date(2019, 6, 3), style=style) for style in STYLES] == [
        *("2019年6月3日", "2019/06/03", "令和元年6月3日", "R1.6.3", "２０１９年６月３日"),
        "2019-06-03",
    ]


def test_before_the_first_era_the_western_year_stands() -> None:
    assert written_date(date(1860, 1, 2), style="era") == "1860年1月2日"
    with pytest.raises(ValueError, match="era"):
        era_year(date(1860, 1, 2))
    with pytest.raises(ValueError, match="style"):
        written_date(date(2000, 1, 2), style="roman")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [("2011-8-4", "平成23年8月4日"), ("8/4/2011", "平成23年8月4日"), ("8-4", "8月4日"),
     ("2011-8", "2011年8月"), ("2011", "2011年"), ("2011-13-4", "2011-13-4"), ("May", "May")],
)  # fmt: skip
def test_numbers_become_japanese(numbers: str, text: str) -> None:
    assert in_japanese(numbers, style="era") == text
