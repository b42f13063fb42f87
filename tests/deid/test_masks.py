"""Masks: typed by rules or a model, translated, filled; profiles of the patients behind them."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.find.causal_model import LocalModel
from audit.deid.invent.fill import (
    FilledNote,
    NoteContext,
    ProfileTable,
    fill_placeholders,
    find_age,
    mark_ages,
)
from audit.deid.invent.masks import (
    KINDS,
    Mark,
    find_kind,
    find_marks,
    has_marks,
    mark_text,
    translate_texts,
    type_masks,
)
from audit.names.people import ENGLISH, JAPANESE, LOCALES, Profile, age_on, identity_of, write_name
from audit.notes.dates import Interval
from audit.notes.read import Note
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, TYPES

TYPED = [
    row.replace("\\n", "\n")
    for row in (Path(__file__).parent / "masks_typed.txt").read_text("utf-8").split("\n")
]


@pytest.mark.parametrize(("text", "expected"), zip(TYPED[::3], TYPED[1::3], strict=True))
def test_rules_type_mimic(text: str, expected: str) -> None:
    assert type_masks([text], has_blanks="___" in text)[0].text == expected


def test_an_answer_is_read_however_it_is_written_and_the_others_are_counted() -> None:
    reply = (
        "Sure:\n1: Patient Name\n [[2]]: {{Physician Name 3}}\n3. TEXT 7.4 {{x\n4：医師名\n"
        "5: shoe size\n6: TEXT\n1: Hospital Name\n7 Patient\n8: Date 1234"
    )
    text = " ".join(f"{n} ___" for n in range(1, 9)) + " [**Foo 3**]"
    (filled_note,) = type_masks(
        [text], has_blanks=True, ask=lambda prompts: [reply for _ in prompts]
    )
    assert filled_note.text == (
        "1 {{Patient Name}} 2 {{Physician Name 3}} 3 7.4 ((x 4 {{Physician Name}} 5 ___ 6 ___ "
        "7 ___ 8 ___ [**Foo 3**]"
    )
    assert (filled_note.n_masks, filled_note.n_restored, filled_note.unknown) == (
        9,
        1,
        {"___": 4, "Foo": 1},
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("patient_name", "Patient Name"),
        ("Ｐａｔｉｅｎｔ  NAME", "Patient Name"),
        ("患者氏名", "Patient Name"),
        ("医師名", "Physician Name"),
        ("phone number", "Telephone"),
        ("カルテ番号", "Record Number"),
        ("Typed Name", "Patient Name"),
        ("shoe size", ""),
    ],
)
def test_many_names_of_one_kind_are_understood(name: str, kind: str) -> None:
    assert find_kind(name) == KINDS.get(kind)
    kinds = sorted((kind.name, kind.value, kind.role, kind.label) for kind in KINDS.values())
    assert hashlib.sha256(repr(kinds).encode()).hexdigest()[:8] == "f811173b"


def test_a_placeholder_is_read_as_it_was_written() -> None:
    text = "a " + mark_text(KINDS["Date"], number="12", sex="F", content="=3/4") + " {{Foo 3}}"
    assert find_marks(text) == (
        Mark(2, 20, KINDS["Date"], "12", "F", "=3/4"),
        Mark(21, 30, None, "3", "", None),
    )
    assert has_marks(text)
    assert not has_marks("{{Foo 3}} { {")


# A language model reads and translates.


def test_the_model_is_asked_about_blanks_alone_and_rules_fill_the_gaps() -> None:
    prompts_asked: list[str] = []

    def ask(prompts: Sequence[str]) -> list[str]:
        prompts_asked.extend(prompts)
        return ["1: TEXT 9.1\n9: Patient Name" if "names:" in prompt else "" for prompt in prompts]

    far = "x" * 481
    notes = [f"Hgb ___ then Ms. ___.{far}Na ___", "Mr. [**Known lastname 3**] came", "K ___. " * 41]
    filled_note = type_masks(notes, has_blanks=True, ask=ask)
    assert filled_note[0].text == f"Hgb 9.1 then Ms. {{{{Patient Surname F}}}}.{far}Na 9.1"
    assert filled_note[1].text == "Mr. {{Patient Surname 3 M}} came"
    assert filled_note[
        2
    ].text == "K 9.1. " + "K ___. " * 7 + "K {{Patient Name}}. " + "K ___. " * 31 + ("K 9.1. ")
    excerpts = [prompt.split("Note:\n")[1].split("\n\nMasks")[0] for prompt in prompts_asked]
    assert excerpts[:2] == [f"Hgb [[1]] then Ms. [[2]].{'x' * 239}", f"{'x' * 237}Na [[1]]"]
    assert [part.count("[[") for part in excerpts] == [2, 1, 40, 1]
    assert f"names: {', '.join(KINDS)}." in prompts_asked[0]


def test_a_translation_keeps_placeholders_or_is_not_taken() -> None:
    def ask(prompts: Sequence[str]) -> list[str]:
        texts = [prompt.split("Passage:\n", 1)[1] for prompt in prompts]
        return ["退院。{{Patient Name}}" if "KEEP" not in text else "落ちた" for text in texts]

    texts = ["{{Patient Name}} left.\n", "KEEP {{Patient Name}}\n", "  \n"]
    translations = translate_texts(texts, ask=ask)
    assert [(passage.text, passage.n_passages, passage.n_kept) for passage in translations] == [
        ("退院。{{Patient Name}}\n", 1, 0),
        (texts[1], 1, 1),
        (texts[2], 0, 0),
    ]


@given(st.lists(st.integers(0, 1700), max_size=12), st.booleans())
def test_passages_are_the_text(lengths: list[int], ends: bool) -> None:
    prompts_asked: list[str] = []

    def ask(prompts: Sequence[str]) -> list[str]:
        prompts_asked.extend(prompt.split("Passage:\n", 1)[1] for prompt in prompts)
        return prompts_asked

    text = "\n".join("x" * n for n in lengths) + "\n" * ends
    assert translate_texts([text], ask=ask)[0].text == text
    assert "".join(prompts_asked).replace("\n", "") == "x" * sum(lengths)
    assert all(len(piece) <= 1500 or "\n" not in piece for piece in prompts_asked)
    for piece, after in itertools.pairwise(prompts_asked):
        assert len(piece) + len(after.split("\n", 1)[0]) > 1490


@pytest.mark.long
def test_a_tiny_model_answers_for_real(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.deid.generation.tiny_model import write_model

    directory = write_model(tmp_path / "m")
    model = LocalModel(directory, max_new_tokens=6)
    prompts = ["Ms. ___ is a much longer prompt", "a", "Hgb ___"]
    answers = model(prompts)
    assert len(answers) == 3 and any(answers)
    # Greedy: the same in any order.
    assert model(prompts[::-1]) == answers[::-1]
    digests = [LocalModel(directory, max_new_tokens=n).digest for n in (3, 4, 3)]
    assert digests[0] == digests[2] != digests[1]
    (typed_note,) = type_masks(["Ms. ___ left"], has_blanks=True, ask=model)
    assert typed_note.text == "Ms. {{Patient Surname F}} left"


# Filling.

NEAR = date(2151, 8, 4)
WEEKS = Interval(-7 * 7305, -140)
DAY = WEEKS.move(NEAR)


def context(locale: str, *, note: str = "n1", stay: str = "s1") -> NoteContext:
    identity = identity_of(1, "patient:7", Profile("F", 70, DAY), locale=locale)
    return NoteContext(1, identity, stay, note, NEAR, WEEKS, locale)


def values_of(filled_note: FilledNote) -> tuple[str, ...]:
    return tuple(filled_note.text[span.start : span.end] for span in filled_note.spans)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="{}"), max_size=12)
MARKS = st.builds(
    lambda kind, number, sex, content: mark_text(kind, number=number, sex=sex, content=content),
    st.sampled_from(list(KINDS.values())),
    st.sampled_from(["", "1", "23"]),
    st.sampled_from(["", "M", "F"]),
    st.sampled_from([None, "2151-8-4", "8-4", "Month/Day (2)", "=７０歳", "over 89"]),
)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(TEXTS, MARKS), max_size=8), TEXTS, st.sampled_from(LOCALES))
def test_every_value_lies_where_its_span_says(
    parts: list[tuple[str, str]], tail: str, locale: str
) -> None:
    text = "".join(a + b for a, b in parts) + tail
    filled_note = fill_placeholders(text, context=context(locale))
    # What is left when the values are cut out is the text around the placeholders, and titles.
    rest, position = "", 0
    for span in filled_note.spans:
        assert span.start >= position
        rest, position = rest + filled_note.text[position : span.start], span.end
    rest += filled_note.text[position:]
    if not any("{{Title" in mark for _, mark in parts):
        assert rest == "".join(a for a, _ in parts) + tail
    assert fill_placeholders(text, context=context(locale)) == filled_note
    assert all(span.start < span.end and span.label in TYPES for span in filled_note.spans)


@pytest.mark.parametrize(("locale", "digest"), [(ENGLISH, "5e61b72d"), (JAPANESE, "5160e23c")])
def test_values_of_every_kind_stay_the_same_in_every_version(locale: str, digest: str) -> None:
    text = "\n".join(
        mark_text(kind, number=number, sex=sex, content=content)
        for kind in KINDS.values()
        for number, sex in (("", ""), ("2", ""), ("3", "M"))
        for content in ((None, "2151-8-4", "Month/Day (2)") if "date" in kind.value else (None,))
    )
    filled_note = fill_placeholders(text + "{{Age|over 89}}", context=context(locale))
    assert (filled_note.n_left, filled_note.text.count("{{")) == (0, 0)
    description = repr(
        [
            (s.label, s.kind, s.person, v)
            for s, v in zip(filled_note.spans, values_of(filled_note), strict=True)
        ]
    )
    assert hashlib.sha256((filled_note.text + description).encode()).hexdigest()[:8] == digest


@pytest.mark.parametrize("locale", LOCALES)
def test_a_patient_is_the_same_in_all_notes_and_staff_within_a_stay(locale: str) -> None:
    text = (
        "{{Patient Name}}; {{Patient Surname}}; {{Patient Initials}}; {{Record Number}}; "
        "{{Physician Surname 3}}; {{Physician Surname 4}}"
    )
    first = fill_placeholders(text, context=context(locale, note="n1", stay="s1"))
    two = fill_placeholders(
        text + "{{Patient Name 99}}", context=context(locale, note="n2", stay="s1")
    )
    third = fill_placeholders(text, context=context(locale, note="n3", stay="s2"))
    name = context(locale).identity.name
    forms = {write_name(name, form) for form in ("joined", "spaced", "wide", "middle")}
    firsts = {values_of(first)[0], values_of(two)[0], values_of(two)[-1], values_of(third)[0]}
    assert firsts <= forms
    assert (
        values_of(first)[1:4]
        == values_of(two)[1:4]
        == values_of(third)[1:4]
        == (
            name.surname.native,
            write_name(name, "initials"),
            context(locale).identity.values["record_number"],
        )
    )
    assert values_of(first)[4:6] == values_of(two)[4:6]
    assert [span.label for span in first.spans[:3]] == [
        IDENTIFIER,
        QUASI_IDENTIFIER,
        QUASI_IDENTIFIER,
    ]
    people = [[span.person for span in filled_note.spans] for filled_note in (first, two, third)]
    assert people[0][:4] == ["patient:7"] * 4 and people[0] == people[1][:6]
    assert len({*people[0][4:], *people[2][4:]}) == 4


def test_what_is_known_moves_or_stays_and_families_share_surnames() -> None:
    filled_note = fill_placeholders(
        "{{Admission Date|2151-8-4}} {{Birth Date}} {{Age}} {{Sex}}", context=context(ENGLISH)
    )
    values = values_of(filled_note)
    assert values[0] == f"{DAY.year}-{DAY.month}-{DAY.day}" and values[2:] == ("70", "female")
    assert age_on(context(ENGLISH).identity.birth, DAY) == 70
    filled_note = fill_placeholders(
        "{{Age|=７０歳}}の{{Title}}{{Shoe Size}}", context=context(JAPANESE)
    )
    assert (values_of(filled_note), filled_note.n_left) == (("７０歳",), 1)
    assert filled_note.text.startswith("７０歳の") and filled_note.text.endswith("{{Shoe Size}}")
    filled_note = fill_placeholders("（{{Age}}才）{{Age|=７０歳}}", context=context(JAPANESE))
    assert (filled_note.text, values_of(filled_note)) == ("（70才）７０歳", ("70才", "７０歳"))
    text = "".join(f"{{{{Family Member Surname {n}}}}}" for n in range(80))
    surname = context(JAPANESE).identity.name.surname.native
    assert 45 <= values_of(fill_placeholders(text, context=context(JAPANESE))).count(surname) <= 75


# What notes say of their patients.


def note(text: str, *, patient: str = "p", day: str = "2151-08-04", row: int = 2) -> Note:
    return Note(str(row), patient, "a", "", day, text, row)


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("a 70-year-old man", 70),
        ("70 y/o", 70),
        ("症例は７０歳，男性", 70),
        ("12.5歳 then 8歳", 8),
        ("for 3 years", None),
        ("999 years old, 41 yo", 41),
        ("0歳", 0),
        ("110 yo", 110),
    ],
)
def test_the_first_age_is_read(text: str, age: int | None) -> None:
    assert find_age(text) == age
    assert mark_ages("70 yo, ８歳") == "{{Age|=70}} yo, {{Age|=８}}歳"


def test_a_patients_profile_comes_from_all_notes() -> None:
    table = ProfileTable()
    for first in (
        note("came again, she is well"),
        note("a 70 year old woman", day="2152-01-02", row=3),
        note("71 yo", day="2153-01-02", row=5),
        note("nothing", patient="", row=4),
        note("６歳女児．", patient="q", row=6),
    ):
        table.add(first)
    profile = table.context(note("", day=""), seed=1, locale=ENGLISH)
    assert profile.identity.sex == "F" and profile.near == date(2151, 8, 4)
    day = profile.interval.move(date(2152, 1, 2))
    assert age_on(profile.identity.birth, day) == 70 and 2000 <= day.year <= 2019
    assert table.context(note("", patient="q"), seed=1, locale=ENGLISH).identity.sex == "F"
    with pytest.raises(KeyError):
        table.context(note("", patient="r"), seed=1, locale=ENGLISH)


def test_a_note_of_nobody_tells_its_own_sex_and_age() -> None:
    for text, sexes, age in (
        ("４０歳男性．娘は女性", {"M"}, 40),
        ("性別：女", {"F"}, None),
        ("不明", {"M", "F"}, None),
    ):
        contexts = [
            ProfileTable().context(note(text, patient="", day="", row=n), seed=1, locale=ENGLISH)
            for n in range(20)
        ]
        assert {patient.identity.sex for patient in contexts} == sexes
        assert {patient.near for patient in contexts} == {date(2150, 1, 1)}
        ages = {
            age_on(patient.identity.birth, patient.interval.move(patient.near))
            for patient in contexts
        }
        assert ages == {age} if age else len(ages) > 5
