"""Numbers with check digits, against published examples and a second way of counting."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.names import people

DRAWS = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize("whole", ["123456789018", "983205673214"])
def test_my_number_agrees_with_published_examples(whole: str) -> None:
    assert people.my_number_check_digit(whole[:11]) == whole[11]


def test_an_insurers_number_agrees_with_a_published_example() -> None:
    assert people.insurer_check_digit("3312001") == "5"


@given(DRAWS)
def test_my_number_checks_by_the_formula_of_the_order(number: int) -> None:
    whole = people.my_number(number)
    # P_n from the lowest digit, Q_n = n + 1 up to 6, then n - 5.
    total = sum(int(whole[11 - n]) * (n + 1 if n <= 6 else n - 5) for n in range(1, 12))
    rest = total % 11
    assert re.fullmatch(r"\d{12}", whole)
    assert int(whole[11]) == (0 if rest <= 1 else 11 - rest)


@given(DRAWS)
def test_an_insurers_number_passes_the_luhn_test(number: int) -> None:
    whole = people.insurer_number(number)
    doubled = {d: sum(map(int, str(2 * d))) for d in range(10)}
    digits = [int(c) for c in reversed(whole)]
    assert len(whole) == 8
    assert (sum(digits[::2]) + sum(doubled[d] for d in digits[1::2])) % 10 == 0
    assert 1 <= int(whole[-6:-4]) <= 47


@given(DRAWS)
def test_every_number_has_its_form(number: int) -> None:
    assert re.fullmatch(r"\d{4}-\d{6}", people.pension_number(number))
    assert re.fullmatch(r"\d{5}-\d{3}", people.insured_symbol(number))
    assert re.fullmatch(r"\d{11}", people.resident_code(number))
    assert re.fullmatch(r"\d{2}07\d{8}", people.licence_number(number, year=2007))
    assert re.fullmatch(r"[TM][A-Z]\d{7}", people.passport_number(number))
    assert re.fullmatch(r"[1-9]\d{7}", people.record_number(number, n_digits=8))
    assert re.fullmatch(r"9\d\d-\d\d-\d{4}", people.social_security_number(number))
    assert re.fullmatch(r"[A-Z]\d{8}", people.us_licence_number(number))
    assert re.fullmatch(r"\d{9}", people.us_passport_number(number))
    medicare = r"[1-9][A-Z][0-9A-Z]\d-[A-Z][0-9A-Z]\d-[A-Z]{2}\d\d"
    assert re.fullmatch(medicare, people.health_plan_number(number))


@pytest.mark.parametrize("body", ["1234567890", "1234567890x", "１２３４５６７８９０１"])
def test_what_is_no_body_is_refused(body: str) -> None:
    with pytest.raises(ValueError, match="digits"):
        people.my_number_check_digit(body)
