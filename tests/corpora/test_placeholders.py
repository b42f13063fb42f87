"""Placeholders: every category, whose names they are, and what is not known."""

from __future__ import annotations

import pytest

from audit.notes.placeholders import Placeholder, find_placeholders
from tests.corpus.make_notes import CATEGORIES, DATES


def only(text: str, **settings: bool) -> Placeholder:
    (place,) = find_placeholders(text, **settings).places
    return place


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("number", ["", "4"])
def test_every_category_has_its_kind(category: str, number: str) -> None:
    place = only(f"a [**{category} {number}**] b")
    assert (place.kind, place.category, place.number) == (CATEGORIES[category], category, number)
    assert (place.start, place.stop) == (2, 2 + len(f"[**{category} {number}**]"))


@pytest.mark.parametrize("form", DATES)
def test_every_form_of_a_date_is_a_date(form: str) -> None:
    assert only(f"[**{form}**]").kind == "date"


@pytest.mark.parametrize("category", ["Spaceship", "", "Name3 (zz)", "12345678901"])
def test_an_unknown_category_keeps_its_place(category: str) -> None:
    place = only(f"x [**{category} **]")
    assert (place.kind, place.start) == ("unknown", 2)


def test_what_is_never_closed_is_counted() -> None:
    parsed = find_placeholders("[**Name [**Hospital 3**] and [** more " + "x" * 300 + "**]")
    assert [place.kind for place in parsed.places] == ["hospital"]
    assert parsed.n_malformed == 2


def test_white_space_inside_a_placeholder_is_single() -> None:
    place = only("[**Last Name\n (STitle)  44**]")
    assert (place.category, place.number) == ("Last Name (STitle)", "44")


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("[**Known lastname 1**], [**Known firstname 2**]", ["patient"] * 2),
        ("[**First Name8 (NamePattern2) 1**] [**Known lastname 2**]", ["patient"] * 2),
        (
            "[**First Name4 (NamePattern1) 1**] [**Last Name (un) 2**] is a 42 year old",
            ["patient"] * 2,
        ),
        ("[**First Name3 (LF) 1**] [**Last Name (LF) 2**], a 42\nyear old man", ["patient"] * 2),
        ("[**Last Name (un) 2**] is a 3 day course", ["other"]),
        ("Mr. [**Last Name (STitle) 1**]", ["patient"]),
        ("Dr. [**Last Name (STitle) 1**]", ["staff"]),
        ("Dr. [**Known lastname 1**]", ["patient"]),
        ("Dr. [**Name (NI) 1**]", ["staff"]),
        ("[**Doctor First Name 1**] [**Doctor Last Name 2**], MD", ["staff"] * 2),
        ("[**Female First Name (un) 1**]", ["other"]),
        ("[**Attending Info **]", ["staff"]),
    ],
)
def test_whose_name_it_is(text: str, roles: list[str]) -> None:
    places = find_placeholders(text).places
    assert [place.role for place in places] == roles
    assert {place.group for place in places} == {0}


def test_names_after_doctor_are_last_names() -> None:
    assert only("Dr. [**Name (NI) 1**]").kind == "last"
    assert only("met [**Name (NI) 1**]").kind == "first"


def test_groups_end_where_the_next_person_begins() -> None:
    text = (
        "[**First Name4 (NamePattern1) 1**] [**Initial (NamePattern1) **]. [**Last Name (un) 2**], "
        "[**First Name4 (NamePattern1) 3**] [**Last Name (un) 4**].\n\n[**Last Name (un) 5**]. "
        "[**First Name (STitle) 6**]"
    )
    places = find_placeholders(text).places
    assert [place.group for place in places] == [0, 0, 0, 1, 1, 2, 3]
    assert [place.number for place in places] == ["1", "2", "2", "3", "4", "5", "6"]


def test_titles_and_categories_tell_the_sex() -> None:
    assert only("Mrs. [**Known lastname 1**]").sex == "F"
    assert only("[**Male First Name (un) 1**]").sex == "M"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Name:  ___ ", ("full", "patient")),
        ("Unit No:   ___", ("medical_record_number", "")),
        ("Admission Date:  ___", ("date", "")),
        ("Date of Birth:  ___", ("date", "")),
        ("Attending: ___.", ("full", "staff")),
        ("seen by Dr. ___ today", ("last", "staff")),
        ("Ms. ___ was well", ("last", "patient")),
        ("___ is a 43 year old woman", ("full", "patient")),
        ("a ___ year old woman", ("age", "")),
        ("transferred to ___ for", ("hospital", "")),
        ("phone number is ___", ("phone", "")),
        ("discharged on ___ in good", ("date", "")),
        ("foo ___ bar", ("unknown", "")),
    ],
)
def test_blanks_are_told_by_the_words_around(text: str, expected: tuple[str, str]) -> None:
    place = only(text, has_blanks=True)
    assert (place.kind, place.role) == expected


def test_blanks_are_lines_where_there_are_marks() -> None:
    assert find_placeholders("sign here ___").places == ()
    assert find_placeholders("____ and _____", has_blanks=True).places == ()
