"""Masks: typed by rules, written as typed placeholders, understood under many names."""

from __future__ import annotations

import pytest

from audit.deid.masks import (
    KINDS,
    MaskAnswer,
    RuleTyper,
    find_marks,
    has_marks,
    known_kind,
    mark_text,
    masked_note,
    with_types,
)
from audit.notes.spans import IDENTIFIER, LINKAGE_CODE, QUASI_IDENTIFIER


def typed(text: str, *, has_blanks: bool = False) -> str:
    note = masked_note(text, has_blanks=has_blanks)
    return with_types(note, RuleTyper().types([note])[0]).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[**Known firstname 7**] [**Known lastname 8**] is", "{{Patient Name 7}} is"),
        ("Name: [**Known lastname 8**],[**Known firstname 7**]",
         "Name: {{Patient Name Reversed 8}}"),
        ("Mrs. [**Known lastname 8**] rests", "Mrs. {{Patient Surname 8 F}} rests"),
        ("Dr. [**Last Name (STitle) 13**] agreed", "Dr. {{Physician Surname 13}} agreed"),
        ("Wife [**Name (NI) 44**] called", "Wife {{Family Member Given Name 44 F}} called"),
        ("Date of Birth: [**2082-3-1**]", "Date of Birth: {{Birth Date|2082-3-1}}"),
        ("Admission Date: [**2151-8-4**]", "Admission Date: {{Admission Date|2151-8-4}}"),
        ("MRN [**Medical Record Number 33**]", "MRN {{Record Number 33}}"),
        ("on [**Month/Day (2) 5**]", "on {{Date 5|Month/Day (2)}}"),
        ("[**Age over 90 **] year", "{{Age|over 89}} year"),
        ("[**Foo bar 3**]", "[**Foo bar 3**]"),
    ],
)  # fmt: skip
def test_rules_type_mimic_iii(text: str, expected: str) -> None:
    assert typed(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ms. ___ came", "Ms. {{Patient Surname F}} came"),
        ("Husband ___ called", "Husband {{Family Member Name M}} called"),
        ("Unit No:   ___", "Unit No:   {{Record Number}}"),
        ("Date of Birth:  ___", "Date of Birth:  {{Birth Date}}"),
        ("Discharge Date:   ___", "Discharge Date:   {{Discharge Date}}"),
        ("a ___ year old", "a {{Age}} year old"),
        ("Hgb ___ today", "Hgb ___ today"),
    ],
)
def test_rules_type_blanks(text: str, expected: str) -> None:
    assert typed(text, has_blanks=True) == expected


def test_what_was_not_understood_is_counted_and_text_is_restored() -> None:
    note = masked_note("Hgb ___, Na ___, by ___", has_blanks=True)
    answers = [MaskAnswer(None, text="7.4 {{x}}"), MaskAnswer(None),
               MaskAnswer(KINDS["Physician Name"], number="2")]  # fmt: skip
    done = with_types(note, answers)
    assert done.text == "Hgb 7.4 ((x)), Na ___, by {{Physician Name 2}}"
    assert (done.n_restored, dict(done.unknown)) == (1, {"___": 1})
    assert dict(done.typed) == {"Physician Name": 1}
    with pytest.raises(ValueError, match="zip"):
        with_types(note, answers[:2])


@pytest.mark.parametrize(
    ("name", "kind"),
    [("patient_name", "Patient Name"), ("Ｐａｔｉｅｎｔ  NAME", "Patient Name"),
     ("患者氏名", "Patient Name"), ("医師名", "Physician Name"), ("phone number", "Telephone"),
     ("カルテ番号", "Record Number"), ("Typed Name", "Patient Name")],
)  # fmt: skip
def test_many_names_of_one_kind_are_understood(name: str, kind: str) -> None:
    assert known_kind(name) == KINDS[kind]


def test_kinds_have_types() -> None:
    assert KINDS["Patient Name"].label == IDENTIFIER
    assert KINDS["Patient Initials"].label == QUASI_IDENTIFIER
    assert KINDS["Record Number"].label == LINKAGE_CODE
    assert known_kind("shoe size") is None


def test_a_placeholder_is_read_as_it_was_written() -> None:
    text = "a " + mark_text(KINDS["Date"], number="12", sex="F", content="=3/4") + " {{Foo 3}}"
    known, unknown = find_marks(text)
    assert (known.kind, known.number, known.sex, known.content) == (
        KINDS["Date"], "12", "F", "=3/4",
    )  # fmt: skip
    assert (unknown.kind, unknown.number) == (None, "3")
    assert has_marks(text)
    assert not has_marks("{{Foo 3}} { {")
    with pytest.raises(ValueError, match="cannot be written"):
        mark_text(KINDS["Date"], content="}")
