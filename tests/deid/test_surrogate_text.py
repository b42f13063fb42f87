"""Surrogates: same form, same person, never the same text; and nothing that nobody told."""

from __future__ import annotations

import re

import pytest

from audit.deid.release import Release, is_placeholder
from audit.notes.spans import TYPES, Span, TaggedDocument
from tests.deid.clinical_values import clinical_sentences

ANNA, EVE = "p1", "p2"


def new(marked: str, label: str = "quasi_identifier", patient: str = ANNA) -> str:
    """Return what takes the place of the stretch between ⟦ and ⟧, or of the whole text."""
    before, _, rest = marked.rpartition("⟦") if "⟦" in marked else ("", "", marked)
    text, _, after = rest.partition("⟧")
    span = Span(len(before), len(before) + len(text), label)
    document = TaggedDocument("1", before + text + after, (span,), patient)
    done = Release(mode="surrogate", seed=1).of(document)
    assert done.text == before + done.replacements[0].text + after
    return done.replacements[0].text


def test_the_parts_of_a_name_are_the_same_wherever_they_stand() -> None:
    full = new("氏名：⟦高橋健一⟧", "identifier")
    surname = new("⟦高橋⟧さん")
    assert full.startswith(surname) and full != "高橋健一" and len(full) > len(surname)
    assert new("⟦高橋　健一⟧様", "identifier").startswith(surname)
    first, last = new("Patient: ⟦John Smith⟧", "identifier").split()
    assert new("Mr. ⟦Smith⟧ left") == last and first != "John"
    assert new("Patient: ⟦Smith, John⟧", "identifier") == f"{last}, {first}"
    assert new("氏名：⟦高橋健一⟧", "identifier") == full
    assert new("氏名：⟦高橋健一⟧", "identifier", EVE) != full


@pytest.mark.parametrize(
    ("text", "label", "form"),
    [
        ("⟦70歳⟧", "quasi_identifier", r"(6[789]|7[123])歳"),
        ("A ⟦72-year-old⟧ man", "quasi_identifier", r"(69|7[01345])-year-old"),
        ("〒⟦113-8655⟧", "quasi_identifier", r"[0-9]{3}-[0-9]{4}"),
        ("電話 ⟦03-1234-5678⟧", "contact", r"0[0-9]-[0-9]{4}-[0-9]{4}"),
        ("カルテ番号 ⟦Ａ−１２４５⟧", "linkage_code", r"[Ａ-Ｚ]−[０-９]{4}"),
        ("MRN: ⟦0048-291A⟧", "linkage_code", r"0[0-9]{3}-[0-9]{3}[A-Z]"),
        ("mail ⟦a@b.jp⟧", "contact", r"mail[0-9]+@example\.org"),
        ("⟦みなと病院⟧へ紹介", "quasi_identifier", r".+(病院|医院|クリニック|センター|診療所)"),
        ("pager ⟦no. 4471⟧", "contact", r"no\. [0-9]{4}"),
    ],
)
def test_what_is_told_keeps_its_form(text: str, label: str, form: str) -> None:
    assert re.fullmatch(form, new(text, label)), new(text, label)
    assert new(text, label) not in text


@pytest.mark.parametrize(
    ("text", "label", "expected"),
    [
        ("⟦東京都港区1-2⟧", "quasi_identifier", "【場所】"),
        ("高血圧の⟦男性⟧", "quasi_identifier", "【性別】"),
        ("lives in ⟦Boston, MA 02114⟧", "quasi_identifier", "[PLACE]"),
        ("a ⟦beekeeper⟧ of old", "quasi_identifier", "[OTHER]"),
        ("the ⟦left jaw⟧ is sore", "linkage_code", "[ID]"),
        ("TSH ⟦0.004⟧ today", "linkage_code", "[ID]"),
        ("closed with ⟦Vicryl⟧", "identifier", "[NAME]"),
        ("the ⟦jaw pain⟧ of today", "identifier", "[NAME]"),
        ("a dose of ⟦12⟧ for", "contact", "[CONTACT]"),
        ("A ⟦3-year-old⟧ boy", "quasi_identifier", "[AGE]"),
        ("生後⟦3日⟧の児", "quasi_identifier", "【日付】"),
        ("⟦日齢3⟧の児", "quasi_identifier", "【年齢】"),
        ("⟦40代⟧の男性", "quasi_identifier", "【年齢】"),
        ("値は⟦34⟧であった", "quasi_identifier", "【その他】"),
        ("on ⟦Tuesday⟧ again", "quasi_identifier", "[DATE]"),
        ("see ⟦x⟧ there", "OWN", "[OWN]"),
    ],
)
def test_what_nothing_tells_or_has_no_surrogate_becomes_a_placeholder(
    text: str, label: str, expected: str
) -> None:
    assert new(text, label) == expected


def test_no_clinical_value_is_invented_whatever_a_tagger_calls_it() -> None:
    for sentence in clinical_sentences():
        for start, end in sentence.values:
            for label in TYPES:
                note = TaggedDocument("1", sentence.text, (Span(start, end, label),))
                done = Release(mode="surrogate", seed=1).of(note)
                assert is_placeholder(done.replacements[0].text), sentence.text[start:end]
