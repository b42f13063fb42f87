"""Dates of a patient move by one offset: intervals, order, validity and form stay."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.release import MAX_OFFSET_DAYS, Redacted, Release
from audit.notes.dates import era_year
from audit.notes.spans import Span, TaggedDocument, tagged

WIDE = str.maketrans("0123456789/", "０１２３４５６７８９／")
NARROW = str.maketrans("０１２３４５６７８９／", "0123456789/")
KANJI = "〇一二三四五六七八九"


def kanji(number: int) -> str:
    tens, ones = divmod(number, 10)
    return (
        ("" if tens < 2 else KANJI[tens]) + ("十" if tens else "") + (KANJI[ones] if ones else "")
    )


def of_kanji(text: str) -> int:
    return next(n for n in range(1, 100) if kanji(n) == text)


def read_era(text: str) -> date:
    name, year, month, day = re.fullmatch(r"(\D+?)(\d+|元)\D(\d+)\D(\d+)\D?", text).groups()  # type: ignore[union-attr]
    first = {"令": 2019, "R": 2019, "平": 1989, "H": 1989, "昭": 1926, "S": 1926}[name[0]]
    return date(first + (1 if year == "元" else int(year)) - 1, int(month), int(day))


def read_kanji(text: str) -> date:
    year, month, day = re.fullmatch("(.{4})年(.+)月(.+)日", text).groups()  # type: ignore[union-attr]
    return date(int("".join(str(KANJI.index(c)) for c in year)), of_kanji(month), of_kanji(day))


def of_form(form: str) -> Callable[[str], date]:
    return lambda text: datetime.strptime(text, form).replace(tzinfo=UTC).date()


def read_short(text: str) -> date:
    # May is as long as its short name: what follows from it may be written in full.
    return of_form("%d %B %Y" if len(text.split()[1]) > 3 else "%d %b %Y")(text)


def plain(*order: str, by: str) -> tuple[Callable[[date], str], Callable[[str], date]]:
    def write(day: date) -> str:
        return by.join(str(getattr(day, part)) for part in order)

    def read(text: str) -> date:
        numbers = dict(zip(order, map(int, text.split(by)), strict=True))
        return date(numbers["year"], numbers["month"], numbers["day"])

    return write, read


def era(day: date) -> str:
    name, _, year = era_year(day)
    return f"{name}{'元' if year == 1 else year}年{day.month}月{day.day}日"


def letter(day: date) -> str:
    _, sign, year = era_year(day)
    return f"{sign}{year}.{day.month}.{day.day}"


def numerals(day: date) -> str:
    year = "".join(KANJI[int(digit)] for digit in str(day.year))
    return f"{year}年{kanji(day.month)}月{kanji(day.day)}日"


def western(day: date) -> str:
    return f"{day.year}年{day.month}月{day.day}日"


FORMS: dict[str, tuple[Callable[[date], str], Callable[[str], date], str]] = {
    "iso": (lambda d: d.isoformat(), date.fromisoformat, r"\d{4}-\d\d-\d\d"),
    "us padded": (lambda d: f"{d:%m/%d/%Y}", of_form("%m/%d/%Y"), r"\d\d?/\d\d?/\d{4}"),
    "us short": (lambda d: f"{d:%m/%d/%y}", of_form("%m/%d/%y"), r"\d\d?/\d\d?/\d\d"),
    "us plain": (*plain("month", "day", "year", by="/"), r"\d{1,2}/\d{1,2}/\d{4}"),
    "slashes": (*plain("year", "month", "day", by="/"), r"\d{4}/\d{1,2}/\d{1,2}"),
    "points": (*plain("year", "month", "day", by="."), r"\d{4}\.\d{1,2}\.\d{1,2}"),
    "packed": (lambda d: f"{d:%Y%m%d}", of_form("%Y%m%d"), r"\d{8}"),
    "month name": (
        lambda d: f"{d:%B} {d.day}, {d.year}",
        of_form("%B %d, %Y"),
        r"[A-Z][a-z]+ \d+, \d{4}",
    ),
    "short name": (lambda d: f"{d.day} {d:%b} {d.year}", read_short, r"\d+ [A-Z][a-z]+ \d{4}"),
    "japanese": (western, of_form("%Y年%m月%d日"), r"\d{4}年\d+月\d+日"),
    "wide": (
        lambda d: western(d).translate(WIDE),
        lambda text: of_form("%Y年%m月%d日")(text.translate(NARROW)),
        "[０-９]{4}年[０-９]+月[０-９]+日",
    ),
    "era": (era, read_era, r"(令和|平成|昭和)(\d+|元)年\d+月\d+日"),
    "letter": (letter, read_era, r"[RHS]\d+\.\d+\.\d+"),
    "numerals": (numerals, read_kanji, f"[{KANJI}]{{4}}年[{KANJI}十]+月[{KANJI}十]+日"),
}
DAYS = st.dates(date(1950, 1, 1), date(2030, 12, 31))
SHORT = "us short"  # in a Japanese note three short numbers begin with the year
ENGLISH = ("iso", "us padded", "us plain", "month name", "short name", SHORT)
JAPANESE = tuple(form for form in FORMS if form != SHORT)
CASES = st.one_of(
    st.lists(st.tuples(DAYS, st.sampled_from(JAPANESE)), min_size=2, max_size=5),
    st.lists(
        st.tuples(st.dates(date(1975, 1, 1), date(2060, 1, 1)), st.sampled_from(ENGLISH)),
        min_size=2,
        max_size=5,
    ),
)


def moved(
    text: str, *marks: str, seed: int = 1, patient: str | None = "p"
) -> tuple[str, list[str]]:
    """Return the released text and what took the place of the marks, in their order."""
    spans, at = [], 0
    for mark in marks:
        at = text.index(mark, at)
        spans.append(Span(at, at + len(mark), "quasi_identifier"))
        at += len(mark)
    document = tagged("1", text=text, spans=spans, patient_id=patient)
    done: Redacted = Release(mode="surrogate", seed=seed).of(document)
    return done.text, [one.text for one in done.replacements]


@settings(max_examples=300, deadline=None)
@given(CASES, st.integers(0, 99))
def test_intervals_order_validity_and_form_of_whole_dates_stay(
    dates: list[tuple[date, str]], seed: int
) -> None:
    written = [FORMS[form][0](day) for day, form in dates]
    lines = [f"visit {i}, on {text} he came.\n" for i, text in enumerate(written)]
    released, new = moved("".join(lines), *written, seed=seed)
    found = []
    for text, (_, form) in zip(new, dates, strict=True):
        assert re.fullmatch(FORMS[form][2], text), (form, text)
        found.append(FORMS[form][1](text))
    offsets = {(other - day).days for other, (day, _) in zip(found, dates, strict=True)}
    assert len(offsets) == 1
    (offset,) = offsets
    assert offset % 7 == 0 and -MAX_OFFSET_DAYS <= offset < -300
    kept = "".join(f"visit {i}, on {text} he came.\n" for i, text in enumerate(new))
    assert released == kept, "nothing outside the marks changes"


@settings(max_examples=200, deadline=None)
@given(
    DAYS,
    st.lists(st.integers(-150, 150), min_size=1, max_size=4),
    st.integers(0, 99),
    st.sampled_from(["{0.month}/{0.day}", "{0.month}月{0.day}日", "{0:%B} {0.day}"]),
)
def test_days_without_a_year_keep_their_distance_to_the_date_before(
    first: date, steps: list[int], seed: int, form: str
) -> None:
    days = [first + timedelta(days=step) for step in steps]
    start = f"{first.year}/{first.month}/{first.day}"
    # Each stands behind a whole date, so that its year is plain.
    text = "".join(f"on {start} and on {form.format(day)} again\n" for day in days)
    marks = [mark for day in days for mark in (start, form.format(day))]
    _, new = moved(text, *marks, seed=seed)
    for place, day in enumerate(days):
        base = FORMS["slashes"][1](new[2 * place])
        expected = base + (day - first)
        assert new[2 * place + 1] == form.format(expected)


@settings(max_examples=200, deadline=None)
@given(DAYS, DAYS, st.integers(0, 99))
def test_months_and_years_never_contradict_whole_dates(day: date, other: date, seed: int) -> None:
    written = (
        f"{day.year}年{day.month}月{day.day}日",
        f"{other.year}年{other.month}月",
        f"{other.year}年",
    )
    _, new = moved("{}入院、{}発症、{}手術".format(*written), *written, seed=seed)
    whole = FORMS["japanese"][1](new[0])
    year, month = map(int, re.fullmatch(r"(\d{4})年(\d+)月", new[1]).groups())  # type: ignore[union-attr]
    alone = int(new[2].removesuffix("年"))
    is_same_month = (day.year, day.month) == (other.year, other.month)
    if is_same_month:
        assert (whole.year, whole.month) == (year, month)
    elif day < other:
        assert (whole.year, whole.month) <= (year, month)
    else:
        assert (whole.year, whole.month) >= (year, month)
    assert alone == (whole.year if day.year == other.year else year)
    assert abs((year - whole.year) * 12 + month - whole.month
               - (other.year - day.year) * 12 - other.month + day.month) <= 1  # fmt: skip


@pytest.mark.parametrize(
    ("text", "marks", "form"),
    [
        ("seen on 5/12 (Mon)", ["5/12"], r"\d+/\d+"),
        ("Jan. 5th, 2020 visit", ["Jan. 5th, 2020"], r"[A-Z][a-z]{2}\. \d+(st|nd|rd|th), 20\d\d"),
        ("since May 2020", ["May 2020"], r"[A-Z][a-z]+ 20\d\d"),
        ("on 04/11/26 again", ["04/11/26"], r"\d\d/\d\d/\d\d"),
        (
            "令和6(2024)年5月3日入院",
            ["令和6(2024)年5月3日"],
            r"(令和|平成)\d+\(20\d\d\)年\d+月\d+日",
        ),
        ("24/5/3 入院", ["24/5/3"], r"\d\d/\d+/\d+"),
        (
            "２０２４／０５／０３ 受診",
            ["２０２４／０５／０３"],
            r"[０-９]{4}／[０-９]{2}／[０-９]{2}",
        ),
        ("R6.5.10 採血", ["R6.5.10"], r"[RH]\d+\.\d+\.\d+"),
        ("2024年5月3日〜12日 入院", ["2024年5月3日〜12日"], r"\d{4}年\d+月\d+日〜\d+日"),
        ("2024年5月3日 14:30 受診", ["2024年5月3日 14:30"], r"\d{4}年\d+月\d+日 14:30"),
        ("平成30年に手術", ["平成30年"], r"平成\d+年"),
        ("since 2019", ["2019"], r"20\d\d"),
    ],
)
def test_the_form_stays(text: str, marks: list[str], form: str) -> None:
    released, new = moved(text, *marks)
    assert re.fullmatch(form, new[0]), new
    assert new[0] != marks[0]
    assert released == text.replace(marks[0], new[0])


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("Ratio 9/10 of it", "9/10"),
        ("値は 5/12 であった", "5/12"),
        ("13/45/2020 noted", "13/45/2020"),
        ("同年5月に再発", "5月"),
        ("翌14日に退院した", "14日"),
        ("on 2/30/2021 seen", "2/30/2021"),
        ("2024年13月1日受診", "2024年13月1日"),
        ("spring 2024 visit", "spring 2024"),
    ],
)
def test_what_is_no_date_for_sure_or_cannot_be_moved_becomes_a_placeholder(
    text: str, mark: str
) -> None:
    _, new = moved(text, mark)
    assert new[0][0] + new[0][-1] in ("【】", "[]"), new


def test_zeros_stand_where_the_note_writes_them() -> None:
    _, new = moved("on 10/12/2024, on 03/04/2024", "10/12/2024", "03/04/2024")
    assert all(re.fullmatch(r"\d\d/\d\d/\d{4}", text) for text in new)
    _, new = moved("on 10/12/2024, on 3/4/2024", "10/12/2024", "3/4/2024", seed=4)
    assert not any(re.search(r"\b0", text) for text in new)


def test_days_first_is_told_by_the_note() -> None:
    _, new = moved("on 25/12/2020 and on 03/01/2021", "25/12/2020", "03/01/2021")
    first, last = map(of_form("%d/%m/%Y"), new)
    assert (last - first).days == 9


def test_a_patient_moves_as_one_and_others_otherwise() -> None:
    def offset(doc_id: str, patient: str | None, day: str) -> int:
        note = TaggedDocument(doc_id, f"on {day}.", (Span(3, 13, "quasi_identifier"),), patient)
        new = Release(mode="surrogate", seed=1).of(note).replacements[0].text
        return (date.fromisoformat(new) - date.fromisoformat(day)).days

    assert offset("1", "p", "2024-05-03") == offset("2", "p", "2019-01-31")
    assert offset("1", "p", "2024-05-03") != offset("1", "q", "2024-05-03")
    alone = {offset(str(i), None, "2024-05-03") for i in range(30)}
    assert len(alone) > 20, "a note of unknown owner is a patient of its own"
