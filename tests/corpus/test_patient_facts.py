"""What the notes say of a patient: sex and days, from all notes in any order."""

from __future__ import annotations

from datetime import date

import pytest

from audit.corpus.build import PatientTable, facts_of_note
from audit.names.people import Facts
from audit.notes.read import Note


def note(text: str, *, patient: str = "p", day: str = "2177-12-05") -> Note:
    return Note("1", patient, "", "", day, text, 2)


@pytest.mark.parametrize(
    ("text", "sex"),
    [
        ("Sex:  M\nshe she she", "M"),
        ("a 42 year old pleasant woman. he said", "F"),
        ("42 yo M with pain", "M"),
        ("Mrs. [**Known lastname 1**]", "F"),
        ("and she was with her husband", "F"),
        ("nothing", ""),
    ],
)
def test_the_notes_tell_the_sex(text: str, sex: str) -> None:
    assert facts_of_note(note(text)).sex == sex


def test_facts_are_of_all_notes_in_any_order() -> None:
    notes = [
        note("Sex: F", day="2177-12-05"),
        note("he is the son", day="2170-01-01 10:00:00"),
        note("x", patient="q", day=""),
        note("[**2160-2-30**] [**2161-3-4**] [**2165**]", patient="q", day=""),
        note("no patient", patient=""),
    ]
    for order in (notes, notes[::-1]):
        table = PatientTable()
        for item in order:
            table.add(item)
        assert table.facts("p") == Facts("F", date(2170, 1, 1), date(2177, 12, 5))
        assert table.facts("q") == Facts("", date(2161, 3, 4), date(2165, 7, 1))
        assert sorted(table) == ["p", "q"]
