"""Invented people: the same for a key for ever, as common as in life, with numbers that check."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from datetime import date, timedelta

import pytest
from faker.providers.person.en_US import Provider as English
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from audit.names.people import (
    ENGLISH,
    JAPANESE,
    LOCALES,
    VALUE_KINDS,
    Facts,
    Identity,
    NamePart,
    PersonName,
    Profile,
    age_on,
    birth_period,
    choose_full_form,
    draw,
    given_names,
    identity_of,
    insurer_check_digit,
    label_of,
    my_number_check_digit,
    name_of,
    patient_of,
    person_of,
    prefix_of,
    surnames,
    value_of,
    write_name,
)
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER

OWN = (
    *("postcode", "address", "telephone", "email", "hospital", "record_number", "my_number"),
    *("pension", "insurer", "insured", "resident", "licence", "passport"),
)
FORMS = (
    *("joined", "spaced", "wide", "middle", "reversed", "surname", "given", "initials"),
    *("kana", "half_kana", "hiragana", "romaji"),
)
PLACES = ("hospital", "ward", "school", "company", "job", "telephone")
JAPANESE_PLACES = ("address", "postcode", "city", "state", "country")


def person(i: int, locale: str) -> Identity:
    """Return one of many people: of either sex or any, some of known age."""
    age = None if i % 3 == 0 else i % 107
    on = date(2015, 7, 1) + timedelta(days=31 * (i % 50))
    profile = Profile(("", "M", "F")[i % 3], age, on)
    return identity_of(1, f"p:{i}", profile, locale=locale)


def digest(record: object) -> str:
    return hashlib.sha256(json.dumps(record, default=str).encode()).hexdigest()[:16]


# The demo, the examples and the default tagger were made of these.
DIGESTS = {
    "identities ja_JP": "abf5d55e95059113",
    "places ja_JP": "0e22ac68567953fc",
    "names ja_JP": "00a5b45e9e4e0917",
    "identities en_US": "2e21ad3015bbd391",
    "places en_US": "aa44b6f75509fe4f",
    "names en_US": "4f736d047eb81f79",
    "places": "4e8b593c790b00e3",
    "values": "427bd94d1781a930",
    "patients": "8e159dc1cd4d7811",
    "prefixes": "67d67f8b27c9ab6f",
}


def test_people_are_the_same_in_every_version() -> None:
    records: dict[str, object] = {}
    for locale in LOCALES:
        many = [person(i, locale) for i in range(300)]
        records[f"identities {locale}"] = [
            [
                patient.key,
                patient.sex,
                patient.birth,
                *(write_name(patient.name, form) for form in FORMS),
                *(patient.values[value] for value in OWN),
            ]
            for patient in many
        ]
        numbers = [draw(2, "place", str(i)) for i in range(200)]
        records[f"places {locale}"] = [
            [value_of(place, n, locale=locale) for n in numbers] for place in PLACES
        ]
        names = [
            write_name(name_of(3, str(n), sex="F", birth_year=1900 + n, locale=locale), "spaced")
            for n in range(120)
        ]
        records[f"names {locale}"] = [names, [choose_full_form(locale, n) for n in numbers]]
    records["places"] = [
        [value_of(p, n, locale=JAPANESE) for n in numbers] for p in JAPANESE_PLACES
    ]
    records["values"] = [[value_of(kind, n) for n in numbers] for kind in sorted(VALUE_KINDS)]
    facts = [Facts("F", date(2150, 1, 1), date(2150 + i, 2, 1)) for i in range(40)]
    facts += [
        Facts("", None, None),
        Facts("M", date(1990, 5, 5), None),
        Facts("", date(2, 1, 1), date(3, 1, 1)),
    ]
    patients = [patient_of(4, str(i), patient) for i, patient in enumerate(facts * 3)]
    records["patients"] = [
        [
            p.key,
            p.person.full,
            p.person.initial,
            p.person.sex,
            p.first_day,
            p.birth,
            p.interval.move(date(2151, 3, 4)),
        ]
        for p in patients
    ]
    prefixes = [
        prefix_of(sex, n, is_before_last_name=b)
        for sex in "MF"
        for n in range(12)
        for b in (True, False)
    ]
    records["prefixes"] = prefixes
    assert {name: digest(record) for name, record in records.items()} == DIGESTS


def test_a_draw_depends_on_all_of_its_key_and_on_nothing_else() -> None:
    keys = [("a", "b", "c"), ("b", "b", "c"), ("a", "bc", ""), ("a", "bc"), ("a", "", "bc")]
    assert len({draw(1, *key) for key in keys} | {draw(2, *keys[0])}) == 6
    numbers = [person(i, JAPANESE) for i in range(20)]
    identity_of.cache_clear()
    assert [person(i, JAPANESE) for i in reversed(range(30))][:9:-1] == numbers


def test_english_names_are_as_frequent_as_fakers() -> None:
    n = 4000
    patients = [person_of(7, f"patient:{i}", sex="F") for i in range(n)]
    weights = English.first_names_female
    common = sorted(weights, key=lambda name: -weights[name])[:12]
    counts = Counter(patient.first for patient in patients)
    shares = [counts[name] for name in common]
    expected = [n * weights[name] / sum(weights.values()) for name in common]
    assert chisquare([*shares, n - sum(shares)], [*expected, n - sum(expected)]).pvalue > 0.001
    assert {person_of(1, str(i)).sex for i in range(50)} == {"M", "F"}


def test_japanese_names_are_as_common_as_faker_has_them_and_have_a_reading() -> None:
    counts = Counter(surnames().pick(k * 2**64 // 20_000).native for k in range(20_000))
    assert counts["佐藤"] / counts["鈴木"] == pytest.approx(366803 / 321135, rel=0.01)
    assert surnames().pick(0).native == "佐藤"
    assert surnames().pick(2**64 - 1) == surnames().names[-1]
    assert [birth_period(year) for year in (1949, 1950, 1979, 1980)] == [
        "old",
        "middle",
        "middle",
        "young",
    ]
    for table in (
        surnames(),
        *(given_names(s, t) for s in "MF" for t in ("old", "middle", "young")),
    ):
        assert len({part.native for part in table.names}) == len(table.names)
        for part in table.names:
            name = PersonName(part, part, "", JAPANESE)
            half = unicodedata.normalize("NFKC", write_name(name, "half_kana"))
            assert half == write_name(name, "kana") == f"{part.kana} {part.kana}"
            assert part.romaji.isascii()


DAYS = st.dates(date(2000, 1, 1), date(2019, 12, 31))


@given(
    st.integers(0, 9), st.sampled_from("MF"), st.integers(0, 110), DAYS, st.sampled_from(LOCALES)
)
def test_an_identity_fits_sex_and_age(seed: int, sex: str, age: int, on: date, locale: str) -> None:
    identity = identity_of(seed, "patient:7", Profile(sex, age, on), locale=locale)
    assert (identity.sex, age_on(identity.birth, on)) == (sex, age)
    if locale == JAPANESE:
        assert identity.name.given_name in given_names(sex, birth_period(identity.birth.year)).names


OTA = PersonName(
    NamePart("太田", "オオタ", "Ota"), NamePart("順子", "ジュンコ", "Junko"), "", JAPANESE
)
SMITH = PersonName(NamePart("Smith", "", "Smith"), NamePart("Mary", "", "Mary"), "J", ENGLISH)


def test_the_forms_of_a_name() -> None:
    assert [write_name(OTA, form) for form in FORMS] == [
        *("太田順子", "太田 順子", "太田　順子", "太田 順子", "Ota, Junko", "太田", "順子", "O.J."),
        *("オオタ ジュンコ", "ｵｵﾀ ｼﾞｭﾝｺ", "おおた じゅんこ", "Junko Ota"),
    ]
    assert [write_name(SMITH, form) for form in FORMS] == [
        *("Mary Smith", "Mary Smith", "Mary Smith", "Mary J. Smith", "Smith, Mary", "Smith"),
        *("Mary", "M.J.S.", "Mary Smith", "Mary Smith", "Mary Smith", "Mary Smith"),
    ]
    parts = {"surname", "given", "initials"}
    assert {form: label_of(form) for form in FORMS} == {
        form: QUASI_IDENTIFIER if form in parts else IDENTIFIER for form in FORMS
    }
    counts = Counter(choose_full_form(JAPANESE, number) for number in range(20))
    assert counts == {"joined": 12, "spaced": 5, "wide": 3}


def test_check_digits_agree_with_published_examples() -> None:
    for number in ("123456789018", "983205673214"):
        assert my_number_check_digit(number[:11]) == number[11]
    assert insurer_check_digit("3312001") == "5"


def test_numbers_check_by_a_second_formula_and_addresses_belong_to_nobody() -> None:
    doubled = {d: sum(map(int, str(2 * d))) for d in range(10)}
    for i in range(300):
        identity = person(i, JAPANESE)
        assert identity.values["licence"][2:4] == f"{(identity.birth.year + 20) % 100:02d}"
        # P_n from the lowest digit, Q_n = n + 1 up to 6, then n - 5.
        whole = identity.values["my_number"]
        rest = sum(int(whole[11 - n]) * (n + 1 if n <= 6 else n - 5) for n in range(1, 12)) % 11
        assert int(whole[11]) == (0 if rest <= 1 else 11 - rest)
        digits = [int(c) for c in reversed(identity.values["insurer"])]  # Luhn
        assert (sum(digits[::2]) + sum(doubled[d] for d in digits[1::2])) % 10 == 0
        assert 1 <= int(identity.values["insurer"][-6:-4]) <= 47
        for values in (identity.values, person(i, ENGLISH).values):
            assert re.fullmatch(r"[a-z.]+\d+@example\.(?:com|org|net)", values["email"])
