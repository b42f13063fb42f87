"""Dummy identities: counted draws, names as frequent as Faker's, values of every kind."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date

import pytest
from faker.providers.person.en_US import Provider
from scipy.stats import chisquare

from audit.corpus.build import PatientTable, facts_of_note
from audit.names.people import VALUE_KINDS, Facts, draw, patient_of, person_of, prefix_of, value_of
from audit.notes.read import Note


def note(text: str, *, patient: str = "p", day: str = "2177-12-05") -> Note:
    return Note("1", patient, "", "", day, text, 2)


def test_a_draw_depends_on_all_of_its_key() -> None:
    draws = {
        draw(1, "a", "b", "c"),
        draw(2, "a", "b", "c"),
        draw(1, "b", "b", "c"),
        draw(1, "a", "bc", ""),
        draw(1, "a", "bc"),
        draw(1, "a", "", "bc"),
    }
    assert len(draws) == 6
    assert draw(1, "a", "b", "c") == draw(1, "a", "b", "c")


def test_names_are_as_frequent_as_fakers() -> None:
    n = 4000
    people = [person_of(7, f"patient:{i}", sex="F") for i in range(n)]
    weights = Provider.first_names_female
    common = sorted(weights, key=lambda name: -weights[name])[:12]
    counts = Counter(person.first for person in people)
    seen = [counts[name] for name in common]
    expected = [n * weights[name] / sum(weights.values()) for name in common]
    rest = (n - sum(seen), n - sum(expected))
    assert chisquare([*seen, rest[0]], [*expected, rest[1]]).pvalue > 0.001
    assert {person.first for person in people} <= set(weights)
    assert {person.last for person in people} <= set(Provider.last_names)


def test_the_sex_is_taken_where_it_is_known() -> None:
    assert {person_of(1, str(i), sex="M").sex for i in range(50)} == {"M"}
    assert {person_of(1, str(i)).sex for i in range(50)} == {"M", "F"}


def test_a_patients_age_fits_blanks() -> None:
    for i in range(100):
        patient = patient_of(3, f"patient:{i}", Facts("F", date(2150, 1, 1), date(2151, 1, 1)))
        first = patient.interval.move(patient.first_day)
        assert 17 < (first - patient.birth).days / 365.25 < 91


FORMS = {
    "phone": r"\([2-9]\d\d\) [2-9]\d\d-\d{4}",
    "ssn": r"9\d\d-\d\d-\d{4}",
    "email": r"[^@\s]+@example\.\w+",
    "url": r"www\.[\w.-]+",
    "zipcode": r"[A-Z]{2} \d{5}",
    "po_box": r"PO Box \d+",
    "address": r"\d+ .+",
    "medical_record_number": r"\d{7}",
}


@pytest.mark.parametrize("kind", sorted(VALUE_KINDS))
def test_values_have_their_form_and_differ(kind: str) -> None:
    values = [value_of(kind, draw(1, kind, str(i))) for i in range(200)]
    assert values == [value_of(kind, draw(1, kind, str(i))) for i in range(200)]
    assert all(value.strip() == value != "" and "\n" not in value for value in values)
    assert len(set(values)) > (3 if kind in ("holiday", "ethnicity") else 40)
    assert all(re.fullmatch(FORMS.get(kind, ".+"), value) for value in values)


def test_prefixes_are_particles_before_last_names_and_titles_elsewhere() -> None:
    assert {prefix_of("M", i, is_before_last_name=False) for i in range(9)} == {"Mr."}
    assert "van" in {prefix_of("F", i, is_before_last_name=True) for i in range(9)}


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
        assert len(table) == 2
