"""Identities: drawn to fit, the same each time, with namesakes as rare as in life."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.names.people import (
    ENGLISH,
    JAPANESE,
    LOCALES,
    Identity,
    Profile,
    age_on,
    given_names,
    identity_of,
    namesakes_expected,
    surnames,
    time_of,
)


def identities(n: int, *, seed: int, locale: str) -> Iterator[Identity]:
    profile = Profile("", None, date(2015, 7, 1))
    return (identity_of(seed, f"listed:{i}", profile, locale=locale) for i in range(n))


DAYS = st.dates(date(2000, 1, 1), date(2019, 12, 31))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.sampled_from("MF"), st.integers(0, 110), DAYS,
       st.sampled_from(LOCALES))  # fmt: skip
def test_an_identity_fits_sex_and_age(seed: int, sex: str, age: int, on: date, locale: str) -> None:
    person = identity_of(seed, "patient:7", Profile(sex, age, on), locale=locale)
    assert (person.sex, age_on(person.birth, on)) == (sex, age)
    if locale == JAPANESE:
        assert person.name.given in given_names(sex, time_of(person.birth.year)).names


def test_an_identity_depends_on_its_own_key_alone() -> None:
    some = list(identities(30, seed=4, locale=JAPANESE))
    identity_of.cache_clear()
    assert list(islice(identities(50, seed=4, locale=JAPANESE), 30)) == some
    other = list(identities(30, seed=5, locale=JAPANESE))
    assert sum(a.my_number == b.my_number for a, b in zip(some, other, strict=True)) == 0


@pytest.mark.parametrize("locale", LOCALES)
def test_every_value_of_an_identity_is_there(locale: str) -> None:
    person = next(identities(1, seed=1, locale=locale))
    empty = {name for name in person.__slots__ if not getattr(person, name)}
    assert empty == (set() if locale == JAPANESE else {"pension", "resident"})
    assert person.email.endswith(("@example.com", "@example.org", "@example.net"))


@pytest.mark.parametrize("locale", LOCALES)
def test_namesakes_are_a_few_of_a_hundred_thousand(locale: str) -> None:
    assert 1 <= namesakes_expected(locale=locale) <= 9


def test_namesakes_are_as_many_as_expected() -> None:
    n = 6000
    names = Counter(one.name.full for one in identities(n, seed=2, locale=JAPANESE))
    pairs = sum(k * (k - 1) // 2 for k in names.values())
    expected = n * (n - 1) / 2 * namesakes_expected(locale=JAPANESE) / 100_000
    # Pairs are nearly Poisson; some are correlated, hence six standard deviations.
    assert abs(pairs - expected) < 6 * expected**0.5


def test_surnames_are_as_common_as_faker_has_them() -> None:
    table = surnames()
    shares = dict(zip((p.written for p in table.names), table.shares, strict=True))
    assert shares["佐藤"] / shares["鈴木"] == pytest.approx(366803 / 321135)
    assert table.picked(0).written == "佐藤"
    assert table.picked(2**64 - 1) == table.names[-1]
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_a_wrong_locale_is_refused() -> None:
    with pytest.raises(ValueError, match="locale"):
        identity_of(1, "a", Profile("F", 3, date(2010, 1, 1)), locale="de_DE")
    assert ENGLISH in LOCALES
