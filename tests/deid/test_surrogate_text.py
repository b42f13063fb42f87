"""Surrogates: same form, same person, never the same text."""

from __future__ import annotations

import re

import pytest

from audit.deid.redact import Request
from audit.deid.surrogate_text import Surrogates

ANNA, EVE = (1, "p1"), (1, "p2")


def new(text: str, label: str = "quasi_identifier", patient: tuple[int, str] = ANNA) -> str:
    return Surrogates(1)(Request(text, label, patient))


def test_the_parts_of_a_name_are_the_same_wherever_they_stand() -> None:
    full = new("高橋健一", "identifier")
    surname = new("高橋")
    assert full.startswith(surname) and full != "高橋健一" and len(full) > len(surname)
    assert new("高橋　健一", "identifier").startswith(surname)
    first, last = new("John Smith", "identifier").split()
    assert new("Smith") == last and first != "John"
    assert new("Smith, John", "identifier") == f"{last}, {first}"
    assert new("高橋健一", "identifier") == full
    assert new("高橋健一", "identifier", EVE) != full


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("2024年5月3日", r"20[0-9]{2}年[0-9]{1,2}月[0-9]{1,2}日"),
        ("２０２４年５月", r"２０[０-９]{2}年[０-９]{1,2}月"),
        ("R6.5.10", r"R[0-9]\.[0-9]{1,2}\.[0-9]{1,2}"),
        ("2024/05/03", r"20[0-9]{2}/(0[1-9]|1[0-2])/(0[1-9]|[12][0-9])"),
        ("03/04/1952", r"(0[1-9]|1[0-2])/(0[1-9]|[12][0-9])/19[0-9]{2}"),
        ("January 5, 2020", r"[A-Z][a-z]+ [0-9]{1,2}, 20[0-9]{2}"),
        ("5/12", r"([1-9]|1[0-2])/([1-9]|1[0-9]|2[0-8])"),
        ("70歳", r"[67][0-9]歳"),
        ("72-year-old", r"[67][0-9]-year-old"),
        ("113-8655", r"[0-9]{3}-[0-9]{4}"),
    ],
)
def test_numbers_keep_their_form(text: str, form: str) -> None:
    assert re.fullmatch(form, new(text)), new(text)
    assert new(text) != text


@pytest.mark.parametrize(
    ("text", "label", "form"),
    [
        ("03-1234-5678", "contact", r"0[0-9]-[0-9]{4}-[0-9]{4}"),
        ("Ａ−１２", "linkage_code", r"[Ａ-Ｚ]−[０-９]{2}"),
        ("a@b.jp", "contact", r"mail[0-9]+@example\.org"),
    ],
)
def test_codes_keep_the_kind_of_every_character(text: str, label: str, form: str) -> None:
    assert re.fullmatch(form, new(text, label)) and new(text, label) != text


def test_what_has_no_surrogate_becomes_a_placeholder() -> None:
    assert new("東京都港区1-2") == new("男性") == "【準識別子】"
    assert new("Boston, MA 02114") == "[QUASI_IDENTIFIER]"
    assert "病院" not in new("男性") and new("みなと病院") != "みなと病院"


def test_days_keep_their_patients_shift() -> None:
    assert new("2024年5月3日") == new("2024年5月3日")
    assert len({new("5月3日", patient=(1, str(i))) for i in range(40)}) > 20
