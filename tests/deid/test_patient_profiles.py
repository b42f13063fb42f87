"""Profiles: sex, age and dates of patients, out of all of their notes."""

from __future__ import annotations

from datetime import date

import pytest

from audit.deid.fill import ProfileTable, age_in, profile_of_note, with_marked_ages
from audit.deid.masks import find_marks
from audit.notes.read import Note


def note(text: str, *, patient: str = "p", day: str = "2151-08-04", row: int = 2) -> Note:
    return Note(str(row), patient, "a", "", day, text, row)


@pytest.mark.parametrize(
    ("text", "age"),
    [("a 70-year-old man", 70), ("70 y/o", 70), ("症例は７０歳，男性", 70), ("12.5歳 then 8歳", 8),
     ("for 3 years", None), ("999 years old, 41 yo", 41), ("0歳", 0)],
)  # fmt: skip
def test_the_first_age_is_read(text: str, age: int | None) -> None:
    assert age_in(text) == age


def test_a_patients_profile_comes_from_all_notes() -> None:
    table = ProfileTable()
    table.add(note("came again, she is well"))
    table.add(note("a 70 year old woman", day="2152-01-02", row=3))
    table.add(note("nothing", patient="", row=4))
    known = table.profile("p", seed=1)
    assert (known.profile.sex, known.profile.age) == ("F", 70)
    assert known.profile.on == known.interval.move(date(2152, 1, 2))
    assert 2000 <= known.profile.on.year <= 2019
    assert (len(table), table.n_notes("p")) == (1, 2)
    with pytest.raises(KeyError):
        table.profile("q", seed=1)


def test_japanese_sex_is_read() -> None:
    assert profile_of_note(note("４０歳男性．娘は女性"), seed=1).profile.sex == "M"
    assert profile_of_note(note("性別：女"), seed=1).profile.sex == "F"
    assert profile_of_note(note("不明"), seed=1).profile.sex == ""
    table = ProfileTable()
    table.add(note("６歳女児．"))
    assert table.profile("p", seed=1).profile.sex == "F"


def test_ages_in_the_text_are_marked_and_kept() -> None:
    text = "a 70-year-old man, ８歳"
    marked = with_marked_ages(text)
    assert marked == "a {{Age|=70}}-year-old man, {{Age|=８}}歳"
    assert [mark.content for mark in find_marks(marked)] == ["=70", "=８"]
