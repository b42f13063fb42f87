"""Filling: every value lies where its span says, and one person is one person everywhere."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.fill import NoteContext, filled
from audit.deid.masks import KINDS, mark_text
from audit.names.people import ENGLISH, JAPANESE, LOCALES, Profile, age_on, identity_of, written
from audit.notes.dates import Interval
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, TYPES

NEAR = date(2151, 8, 4)
WEEKS = Interval(-7 * 7305, -140)
DAY = WEEKS.move(NEAR)


def context(locale: str, *, seed: int = 1, note: str = "n1", stay: str = "s1") -> NoteContext:
    profile = Profile("F", 70, DAY)
    identity = identity_of(seed, "patient:7", profile, locale=locale)
    return NoteContext(seed, identity, stay, note, NEAR, WEEKS, locale)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="{}"), max_size=12)
MARKS = st.builds(
    lambda kind, number, sex, content: mark_text(kind, number=number, sex=sex, content=content),
    st.sampled_from(list(KINDS.values())), st.sampled_from(["", "1", "23"]),
    st.sampled_from(["", "M", "F"]),
    st.sampled_from([None, "2151-8-4", "8-4", "Month/Day (2)", "=７０歳", "over 89"]),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(TEXTS, MARKS), max_size=8), TEXTS, st.sampled_from(LOCALES))
def test_every_value_lies_where_its_span_says(
    parts: list[tuple[str, str]], tail: str, locale: str
) -> None:
    done = filled("".join(a + b for a, b in parts) + tail, context=context(locale))
    assert tuple(done.text[s.start : s.end] for s in done.spans) == done.values
    # What is left when the values are cut out is the text around the placeholders, and titles.
    rest, at = "", 0
    for span in done.spans:
        assert span.start >= at
        rest, at = rest + done.text[at : span.start], span.end
    rest += done.text[at:]
    if not any("{{Title" in mark for _, mark in parts):
        assert rest == "".join(a for a, _ in parts) + tail
    again = filled("".join(a + b for a, b in parts) + tail, context=context(locale))
    assert again == done
    assert all(span.start < span.end and span.label in TYPES for span in done.spans)


@pytest.mark.parametrize("locale", LOCALES)
def test_a_patient_is_the_same_in_all_notes_and_forms(locale: str) -> None:
    text = "{{Patient Name}}; {{Patient Surname}}; {{Patient Initials}}; {{Record Number}}"
    one = filled(text, context=context(locale, note="n1", stay="s1"))
    two = filled(text + "{{Patient Name 99}}", context=context(locale, note="n2", stay="s2"))
    name = context(locale).identity.name
    forms = {written(name, form) for form in ("joined", "spaced", "wide", "middle")}
    assert {one.values[0], two.values[0], two.values[4]} <= forms
    assert one.values[1:4] == two.values[1:4] == (
        name.surname.written, written(name, "initials"), context(locale).identity.record_number,
    )  # fmt: skip
    assert {span.person for span in two.spans} == {"patient:7"}
    assert [span.label for span in one.spans[:3]] == [
        IDENTIFIER, QUASI_IDENTIFIER, QUASI_IDENTIFIER,
    ]  # fmt: skip


def test_staff_are_the_same_within_a_stay() -> None:
    text = "{{Physician Name 3}} {{Physician Surname 3}} {{Physician Surname 4}}"
    one = filled(text, context=context(ENGLISH, note="n1"))
    two = filled(text, context=context(ENGLISH, note="n2"))
    other = filled(text, context=context(ENGLISH, stay="s2"))
    assert one.values[0].endswith(one.values[1])
    assert one.values[1:] == two.values[1:]
    assert one.spans[0].person == one.spans[1].person != one.spans[2].person
    assert other.spans[0].person != one.spans[0].person


def test_dates_move_by_the_patients_interval_and_ages_fit() -> None:
    done = filled(
        "{{Admission Date|2151-8-4}} {{Birth Date}} {{Age}} {{Sex}}", context=context(ENGLISH)
    )
    assert done.values[0] == f"{DAY.year}-{DAY.month}-{DAY.day}"
    assert done.values[2:] == ("70", "female")
    assert age_on(context(ENGLISH).identity.birth, DAY) == 70
    ja = filled("{{Date|2151-8-4}}／{{Sex}}", context=context(JAPANESE))
    assert ja.values[1] == "女性"
    assert "2151" not in ja.text


def test_a_value_that_is_known_stays_and_unknown_names_are_counted() -> None:
    done = filled("{{Age|=７０歳}}の{{Title}}{{Shoe Size}}", context=context(JAPANESE))
    assert done.values == ("７０歳",)
    assert done.text.startswith("７０歳の")
    assert done.text.endswith("{{Shoe Size}}")
    assert done.n_left == 1


def test_families_mostly_share_the_surname() -> None:
    text = "".join(f"{{{{Family Member Surname {n}}}}}" for n in range(80))
    done = filled(text, context=context(JAPANESE))
    own = context(JAPANESE).identity.name.surname.written
    assert 45 <= done.values.count(own) <= 75


@pytest.mark.parametrize("unit", ["歳", "才"])
def test_the_unit_behind_an_age_belongs_to_it_once(unit: str) -> None:
    done = filled(f"（{{{{Age}}}}{unit}）{{{{Age|=７０{unit}}}}}", context=context(JAPANESE))
    assert [value[-1] for value in done.values] == [unit, unit]
    assert done.text == f"（{done.values[0]}）{done.values[1]}"
    assert done.values[0][:-1].isdigit()
