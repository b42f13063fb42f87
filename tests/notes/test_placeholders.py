"""Placeholders, the place of a name, what stands for dates, and sentences."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from audit.notes.dates import (
    DateContext,
    Interval,
    choose_interval,
    format_date,
    format_japanese_date,
    parse_day,
    replace_date,
)
from audit.notes.placeholders import (
    NameSlot,
    Placeholder,
    find_name_slot,
    find_placeholders,
    has_marks,
)
from audit.notes.sentences import find_sentence_start, find_sentences, find_sentences_end
from tests.corpus.make_notes import CATEGORIES, DATES


def only(text: str, **settings: bool) -> Placeholder:
    (place,) = find_placeholders(text, **settings).places
    return place


def test_every_category_has_its_kind() -> None:
    for category, kind in CATEGORIES.items():
        for number in ("", "4"):
            placeholder = f"[**{category} {number}**]"
            place = only(f"a {placeholder} b")
            assert (place.kind, place.category, place.number) == (kind, category, number)
            assert (place.start, place.stop) == (2, 2 + len(placeholder))
    assert {only(f"[**{form}**]").kind for form in DATES} == {"date"}
    for category in ("Spaceship", "", "Name3 (zz)", "12345678901"):
        assert only(f"x [**{category} **]").kind == "unknown"
    assert only("[**Last Name\n (STitle)  44**]") == Placeholder(
        0, 29, "Last Name (STitle) 44", "Last Name (STitle)", "last", "44", "staff", "", 0
    )
    assert only("[**2177-12-05**]").category == "9999-99-99"
    parsed = find_placeholders("[**Name [**Hospital 3**] and [** more " + "x" * 300 + "**]")
    assert ([place.kind for place in parsed.places], parsed.n_malformed) == (["hospital"], 2)


def test_whose_name_it_is() -> None:
    for text, expected in (
        ("[**Known lastname 1**], [**Known firstname 2**]", "last patient 0, first patient 0"),
        (
            "[**First Name4 (NamePattern1) 1**] [**Last Name (un) 2**] is a 42 year old",
            "first patient 0, last patient 0",
        ),
        (
            "[**First Name3 (LF) 1**] [**Last Name (LF) 2**], a 42\nyear old man",
            "first patient 0, last patient 0",
        ),
        ("[**Last Name (un) 2**] is a 3 day course", "last other 0"),
        ("Mr. [**Last Name (STitle) 1**]", "last patient 0 M"),
        ("Mrs. [**Known lastname 1**]", "last patient 0 F"),
        ("Dr. [**Last Name (STitle) 1**]", "last staff 0"),
        ("Dr. [**Known lastname 1**]", "last patient 0"),
        ("Dr. [**Name (NI) 1**]", "last staff 0"),
        ("met [**Name (NI) 1**]", "first other 0"),
        ("[**Doctor First Name 1**] [**Doctor Last Name 2**], MD", "first staff 0, last staff 0"),
        ("[**Male First Name (un) 1**]", "first other 0 M"),
        ("[**Attending Info **]", "full staff 0"),
        ("[**Last Name (un) 1**] [**First Name (STitle) 2**]", "last other 0, first staff 1"),
        (
            "[**First Name4 (NamePattern1) 1**] [**Initial (NamePattern1) **]. "
            "[**Last Name (un) 2**], [**First Name4 (NamePattern1) 3**] [**Last Name (un) 4**].\n\n"
            "[**Last Name (un) 5**]. [**First Name (STitle) 6**]",
            "first staff 0, initial staff 0, last staff 0, first staff 1, last staff 1, "
            "last other 2, first staff 3",
        ),
    ):
        places = find_placeholders(text).places
        descriptions = (f"{p.kind} {p.role} {p.group} {p.sex}".strip() for p in places)
        assert ", ".join(descriptions) == expected
        assert all(place.number for place in places[1:])  # an initial has its name's number


def test_blanks_are_told_by_the_words_around() -> None:
    for text, expected in (
        ("Name:  ___ ", "full patient"),
        ("Unit No:   ___", "medical_record_number "),
        ("Admission Date:  ___", "date "),
        ("Date of Birth:  ___", "date "),
        ("Attending: ___.", "full staff"),
        ("seen by Dr. ___ today", "last staff"),
        ("Ms. ___ was well", "last patient"),
        ("a ___ year old woman", "age "),
        ("___ is a 43 year old woman", "full patient"),
        ("at the ___ Clinic", "city "),
        ("transferred to ___ for", "hospital "),
        ("phone number is ___", "phone "),
        ("discharged on ___ in good", "date "),
        ("foo ___ bar", "unknown "),
    ):
        place = only(text, has_blanks=True)
        assert f"{place.kind} {place.role}" == expected
        assert find_placeholders(text).places == () and not has_marks(text)
    assert find_placeholders("____ and _____", has_blanks=True).places == ()


FIRST_LAST, LAST_FIRST, FULL = ("first", "last"), ("last", "first"), ("full",)


def test_names_are_found_in_their_written_order() -> None:
    for names, roles, separator in (
        (("[NAME]", "[氏名]", "［氏名］"), FULL, ""),
        (
            (
                "[FIRST] [LAST]",
                "[FIRST_NAME]\n[LAST NAME]",
                "[FIRST] [MIDDLE] [LAST]",
                "[FIRST] J. [LAST]",
                "[**Known firstname 123**] [**Known lastname 456**]",
                "[**First Name4 (NamePattern1) **] [**Initials (NamePattern4) **] "
                "[**Last Name (NamePattern1) 9**]",
                "[**Known firstname **] [**Name Initial (MD) 5**]. [**Known lastname **]",
                "[**Male First Name (un) 1**] [**Doctor Last Name 3**]",
                "[**Female First Name (un) 1**]\n[**Name (STitle) 3**]",
                "[**Name10 (NameIs) 1**] [**Name11 (NameIs) 2**]",
                "[**Name6 (MD) **] [**Name7 (MD) **]",
                "[**Known firstname 1**] [**Name5 (PTitle) 2**]",
            ),
            FIRST_LAST,
            " ",
        ),
        (("[LAST] ,[FIRST]", "[**Known lastname 4**], [**Known firstname 1**]"), LAST_FIRST, ", "),
        (("[姓][名]",), LAST_FIRST, ""),
        (("[姓]　[名]",), LAST_FIRST, "\u3000"),
    ):
        for name in names:
            slot = find_name_slot(f"Seen: {name} is a 40 year old man.")
            assert slot == NameSlot("Seen: ", roles, separator, " is a 40 year old man."), name


def test_texts_without_a_full_name_have_no_place() -> None:
    for text in (
        "no placeholder",
        "Mr. [LAST] is well",
        "[FIRST] and [LAST]",
        "[2177] [name] is text",
        "seen by [FIRST]. [LAST] said",
        "[LAST] [DATE] [FIRST]",
        "[FIRST]" + " " * 30 + "[LAST]",
        "[**Hospital1 18**] [**Known lastname 3**]",
        "[**2177-12-5**] ___",
        "Dr. [**Name (NI)**] and [**Initials (NamePattern4) **] [**Last Name (un) 1**]",
    ):
        assert find_name_slot(text) is None, text


def test_other_placeholders_go_and_lines_become_spaces() -> None:
    for text, left, right in (
        ("On [DATE], [NAME] left [**Hospital1 18**] .", "On , ", " left ."),
        ("[NAME][SUFFIX] is old", "", " is old"),
        ("from [DATE][NAME] on", "from ", " on"),
        ("[NAME] and [NAME], [FIRST] [LAST]", "", " and ,"),
        ("a\n\n[NAME]\r\nb ___ c  d\n", "a ", " b c  d"),
        ("see [note 3] [NAME] [sic] [**Last Name (un) **]", "see [note 3] ", " [sic]"),
        ("[CLS] [MASK] [NAME] x [SEP]", "", " x"),
        ("[年齢]歳、[氏名]は[病院名]を受診[別紙]", "歳、", "はを受診[別紙]"),
        ("a\0b [NAME] \0 c", "ab ", "  c"),
    ):
        slot = find_name_slot(text)
        assert slot is not None and (slot.left, slot.right) == (left, right)


WORDS = st.lists(
    st.sampled_from(["a", "is", "[DATE]", "[**Hospital1 18**]", "___", "[sic]", "\n", ".", "  "]),
    max_size=8,
).map(" ".join)


@given(WORDS, WORDS, st.sampled_from(["[NAME]", "[FIRST] [LAST]", "[姓][名]"]))
def test_every_word_of_text_is_kept_and_every_placeholder_goes(
    before: str, after: str, name: str
) -> None:
    slot = find_name_slot(f"{before} {name} {after}")
    assert slot is not None

    def words(text: str) -> list[str]:
        return [word for word in text.split() if word.islower() or word in (".", "[sic]")]

    assert slot.left.split() == words(before)
    assert slot.right.split() == words(after)
    assert "\n" not in slot.left + slot.right


# 172 years are 62,822 days; the nearest whole number of weeks is 62,825.
BACK = Interval(-7 * 8975, -172)


def moved(content: str, category: str = "", *, number: str = "", draw: int = 5) -> str:
    context = DateContext(BACK, date(2177, 12, 1), draw)
    return replace_date(content, category or content, number=number, context=context)


def test_numbers_of_dates_are_moved_in_their_own_form() -> None:
    forms = {
        "2177-12-5": "2005-12-2",
        "2177-12-05": "2005-12-02",
        "12-5-2177": "12-2-2005",
        "12/5/77": "12/2/05",
        "12-5": "12-2",
        "12/05": "12/02",
        "1-2": "12-30",
        "2177": "2005",
        "12/2177": "12/2005",
        "12-/2177": "12-/2005",
        "2177-12": "2005-12",
        "-2177": "-2005",
        "13-31": "13-31",
        "9999-1-1": "2005-1-1",
        "1877-2-3": "1909-2-1",
        "25-12-2177": "22-12-2005",
        "2-29": "2-29",
        "6-3": "5-31",
        "12/77": "12/05",
        "2177-2-30": "2005-2-30",
    }
    assert {form: moved(form) for form in forms} == forms


def test_dates_in_words_have_the_form_of_their_category() -> None:
    forms = {
        "Month (only)": "November",
        "Month Day": "November 3",
        "Day Month": "3 November",
        "Month Day Year (2)": "November 3, 2005",
        "Day Month Year": "3 November 2005",
        "Month/Day (2)": "11/3",
        "Month/Year 1": "11/2005",
        "Month Year": "November 2005",
        "Year/Month/Day": "2005/11/3",
        "Month/Day/Year": "11/3/2005",
        "Year (4 digits)": "2005",
        "Year (2 digits)": "05",
        "Date": "2005-11-03",
        "Date range (1)": "10/31-11/3",
        "Date range (2)": "10/31/2005-11/3/2005",
        "Date range (3)": "10/31-11/3/2005",
    }
    assert {form: moved(f"{form} 7", form, number="7", draw=85) for form in forms} == forms
    assert moved("January 2181", "January", number="2181") == "January 2009"
    assert moved("July 10342", "July", number="10342") == "July 3"
    assert moved("July 20", "July", number="20") == "July 17"


days = st.dates(date(2100, 1, 1), date(2210, 1, 1))


@given(days, st.integers(0, 365 * 18), st.integers(0, 2**64 - 1))
def test_a_stay_of_18_years_lies_within_2000_to_2019(first: date, n_days: int, draw: int) -> None:
    last = first + timedelta(days=n_days)
    interval = choose_interval(first, last, draw=draw)
    assert date(2000, 1, 1) <= interval.move(first) <= interval.move(last) <= date(2019, 12, 31)
    assert interval.n_days % 7 == 0
    assert abs(interval.n_days - interval.n_years * 365.2425) <= 3.5
    context = DateContext(interval, first, draw)
    texts = [replace_date(str(d), "9999-99-99", number="", context=context) for d in (first, last)]
    first_day, second_day = (date(*map(int, text.split("-"))) for text in texts)
    assert second_day - first_day == last - first and first_day.weekday() == first.weekday()
    too_long = choose_interval(first, first + timedelta(days=30 * 366), draw=draw)
    assert too_long.move(first).year in (2000, 2001)


def test_japanese_forms_of_dates() -> None:
    styles = ("western", "slashes", "era", "letter", "wide", "dashes")
    assert [format_date(date(2019, 5, 1), style=style) for style in styles] == [
        "2019年5月1日",
        "2019/05/01",
        "令和元年5月1日",
        "R1.5.1",
        "２０１９年５月１日",
        "2019-05-01",
    ]
    assert format_date(date(1989, 1, 7), style="era") == "昭和64年1月7日"
    assert format_date(date(1860, 1, 7), style="era") == "1860年1月7日"
    forms = {
        "2011-8-4": "平成23年8月4日",
        "8/4": "8月4日",
        "2011": "2011年",
        "2011/8": "2011年8月",
        "8/4/2011": "平成23年8月4日",
        "2011-2-30": "2011-2-30",
        "2011-1-1-2011": "2011-1-1-2011",
    }
    assert {form: format_japanese_date(form, style="era") for form in forms} == forms
    assert parse_day("2151-08-04 12:00:00") == date(2151, 8, 4)
    assert parse_day("August") is None


def test_sentences_by_hand() -> None:
    for sentences in (
        "He fell.| She came.",
        "Seen by Dr. Lee today.| Well.",
        "John K. Smith is well.| Ok.",
        "Took 2.5 mg q.d. with food.| Ok.",
        "Lasix 40 mg p.o. b.i.d.| She slept.",
        "Plan:|\n1. Rest.|\n2. Fluids.",
        "He is a 42\nyear old man.| Ok",
        "No stop here|\n\nNext one",
        "HPI: Fell.|\nPLAN: Rest.",
        'He said "no."| Then left!',
        "Well ...| Ok.",
        "p.o.",
        "Dr. [**Name (STitle) 1.**] saw.| Ok.",
        "It was 12.| Well, 5.|\n 7. Then.",
        "Mr. [**Name**] [**Initial (NamePattern1)**]. [**Name**] left.| Ok.",
        "男性．|値４．６。|軽快。",
        "",
    ):
        text = f"  {sentences} \n".replace("|", "")
        spans = list(find_sentences(text))
        assert [text[start:end] for start, end in spans] == [
            s.strip() for s in sentences.split("|") if s
        ]
        for n in range(len(spans) + 2):
            end = find_sentences_end(text, start=0, n=n)
            assert end == (spans[min(n, len(spans)) - 1][1] if n and spans else 0)


def test_the_start_of_a_sentence_within_reach() -> None:
    text = "One is here. Two is there."
    assert find_sentence_start(text, offset=text.index("there")) == text.index("Two")
    assert find_sentence_start(text, offset=2) == 0
    assert find_sentence_start("word " * 200 + "name", offset=1000, reach=100) == 1000


@given(st.text(alphabet="Ab. \n!1)。[*]", max_size=80))
def test_sentences_cover_all_that_is_not_white(text: str) -> None:
    spans = list(find_sentences(text))
    assert all(start < end for start, end in spans)
    assert all(span[1] <= two[0] for span, two in pairwise(spans))
    joined_text = "".join(text[start:end] for start, end in spans)
    assert "".join(joined_text.split()) == "".join(text.split())
