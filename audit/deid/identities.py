"""Pseudo identities: one invented person for each patient, matched on sex and age.

Comes in: a seed, who it is for, what the notes say of that patient. Goes out: names in all
writings, birth, address, telephone, and the numbers of hospitals and public bodies. An identity
depends on these alone, so that a list of any length need not be kept.

Source: paper 002, section 2.1 and appendix A. Differs: the paper makes a list first and looks for
a person who fits; here the person is drawn to fit, which gives the same people at any list length.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from audit.corpora.identities import draw
from audit.corpora.identities import person_of as english_person
from audit.corpora.identity_values import value_of
from audit.deid import identity_numbers as numbers
from audit.deid.identity_places import (
    japanese_address,
    japanese_hospital,
    japanese_postcode,
    telephone,
)
from audit.deid.japanese_names import given_names, surnames, time_of
from audit.deid.name_variants import JAPANESE, LOCALES, NamePart, PersonName

_YOUNGEST, _OLDEST = 18, 94
_N_KEPT = 20_000
_MAX_AGE = 120
_NAMESAKES_OF = 100_000


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known about somebody before an identity is drawn.

    Attributes
    ----------
    sex
        "M", "F", or "" where it is not known: then it is drawn.
    age
        In years on the day `on`; None where it is not known: then it is drawn.
    on
        The day on which ages are counted, in the time into which dates are moved.
    """

    sex: str
    age: int | None
    on: date

    def __post_init__(self) -> None:
        """Check sex and age, once."""
        if self.sex not in ("", "M", "F"):
            raise ValueError("a sex is M, F or empty")
        if self.age is not None and not 0 <= self.age <= _MAX_AGE:
            raise ValueError("an age is no age")


@dataclass(frozen=True, slots=True)
class Identity:
    """An invented person.

    Attributes
    ----------
    key
        Who it stands for.
    sex
        "M" or "F".
    birth
        Such that the profile's age is right on the profile's day.
    record_number
        Of the hospital; all of `my_number` to `passport` are numbers of public bodies. In English
        `my_number` is the social security number, `insurer` the health plan's, and there is
        neither `pension` nor `resident`: they are "".
    """

    key: str
    name: PersonName
    sex: str
    birth: date
    postcode: str
    address: str
    telephone: str
    email: str
    hospital: str
    record_number: str
    my_number: str
    pension: str
    insurer: str
    insured: str
    resident: str
    licence: str
    passport: str


def age_on(birth: date, day: date) -> int:
    """Return the age in whole years, at least 0."""
    return max(0, day.year - birth.year - ((day.month, day.day) < (birth.month, birth.day)))


@functools.lru_cache(maxsize=_N_KEPT)
def identity_of(seed: int, key: str, profile: Profile, *, locale: str) -> Identity:
    """Return the identity of a key: the same for the same seed, key, profile and locale.

    Raises
    ------
    ValueError
        If there are no names of this locale.
    """
    if locale not in LOCALES:
        raise ValueError(f"{locale}: no names of this locale")
    sex = profile.sex or "MF"[draw(seed, "sex", key) & 1]
    birth = _birth(seed, key, profile)
    name = name_of(seed, key, sex=sex, birth_year=birth.year, locale=locale)
    common = {
        "key": key,
        "name": name,
        "sex": sex,
        "birth": birth,
        "telephone": telephone(draw(seed, "telephone", key), locale=locale),
        "email": email_of(name, number=draw(seed, "email", key)),
        "hospital": hospital_of(draw(seed, "hospital", key), locale=locale),
    }
    own = _japanese_values if locale == JAPANESE else _english_values
    return Identity(**common, **own(seed, key, birth))  # type: ignore[arg-type]


def name_of(seed: int, key: str, *, sex: str, birth_year: int, locale: str) -> PersonName:
    """Return the name of a key: surnames as common as Faker has them, given names of the time."""
    if locale == JAPANESE:
        given = given_names(sex, time_of(birth_year)).picked(draw(seed, "given", key))
        return PersonName(surnames().picked(draw(seed, "surname", key)), given, "", locale)
    person = english_person(seed, key, sex=sex)
    return PersonName(_english(person.last), _english(person.first), person.initial, locale)


def hospital_of(number: int, *, locale: str) -> str:
    """Return the name of a hospital."""
    if locale != JAPANESE:
        return value_of("hospital", number)
    return japanese_hospital(number)


def email_of(name: PersonName, *, number: int) -> str:
    """Return an address at a domain that can never exist (RFC 2606)."""
    given, surname = name.given.romaji.lower(), name.surname.romaji.lower()
    letters = "".join(c for c in f"{given}.{surname}" if c.isascii() and (c.isalpha() or c == "."))
    return f"{letters}{number % 100}@example.{('com', 'org', 'net')[number // 100 % 3]}"


def identities(
    n: int, *, seed: int, locale: str, on: date = date(2015, 7, 1)
) -> Iterator[Identity]:
    """Yield a list of so many people of both sexes and all ages."""
    for place in range(n):
        yield identity_of(seed, f"listed:{place}", Profile("", None, on), locale=locale)


def namesakes_expected(*, locale: str) -> float:
    """Return how many of 100,000 people of all ages share a person's full name, on average.

    The chance that two people drawn apart have the same name, times 100,000. Sexes count half
    each, times of birth as drawn ages have them in 2015.
    """
    if locale != JAPANESE:
        return _NAMESAKES_OF * _english_agreement()
    times = [time_of(2015 - age) for age in range(_YOUNGEST, _OLDEST)]
    share_of = {time: times.count(time) / len(times) for time in set(times)}
    given: dict[str, float] = {}
    for sex in "MF":
        for time, share in share_of.items():
            table = given_names(sex, time)
            for part, weight in zip(table.names, table.shares, strict=True):
                given[part.written] = given.get(part.written, 0.0) + weight * share / 2
    same_surname = sum(share**2 for share in surnames().shares)
    return _NAMESAKES_OF * same_surname * sum(share**2 for share in given.values())


def _english_agreement() -> float:
    from faker.providers.person.en_US import Provider

    given: dict[str, float] = {}
    for table in (Provider.first_names_male, Provider.first_names_female):
        for name, weight in table.items():
            given[name] = given.get(name, 0.0) + weight / sum(table.values()) / 2
    total = sum(Provider.last_names.values())
    same_surname = sum((weight / total) ** 2 for weight in Provider.last_names.values())
    return float(same_surname * sum(share**2 for share in given.values()))


def _birth(seed: int, key: str, profile: Profile) -> date:
    age = profile.age
    if age is None:
        age = _YOUNGEST + draw(seed, "age", key) % (_OLDEST - _YOUNGEST)
    on = profile.on
    year = max(1, on.year - age)
    # Who was born on 29 February has a birthday on the 28th where there is no 29th.
    latest = on.replace(year=year, day=28) if (on.month, on.day) == (2, 29) else on.replace(year)
    return latest - timedelta(days=draw(seed, "birthday", key) % 365) if year > 1 else latest


def _japanese_values(seed: int, key: str, birth: date) -> dict[str, str]:
    number = functools.partial(draw, seed)
    return {
        "postcode": japanese_postcode(number("postcode", key)),
        "address": japanese_address(number("address", key)),
        "record_number": numbers.record_number(number("record", key), n_digits=8),
        "my_number": numbers.my_number(number("my number", key)),
        "pension": numbers.pension_number(number("pension", key)),
        "insurer": numbers.insurer_number(number("insurer", key)),
        "insured": numbers.insured_symbol(number("insured", key)),
        "resident": numbers.resident_code(number("resident", key)),
        "licence": numbers.licence_number(number("licence", key), year=birth.year + 20),
        "passport": numbers.passport_number(number("passport", key)),
    }


def _english_values(seed: int, key: str, birth: date) -> dict[str, str]:
    number = functools.partial(draw, seed)
    return {
        "postcode": value_of("zipcode", number("postcode", key)).split()[-1],
        "address": value_of("address", number("address", key)),
        "record_number": numbers.record_number(number("record", key), n_digits=7),
        "my_number": numbers.social_security_number(number("my number", key)),
        "pension": "",
        "insurer": numbers.health_plan_number(number("insurer", key)),
        "insured": numbers.insured_symbol(number("insured", key)),
        "resident": "",
        "licence": numbers.us_licence_number(number("licence", key)),
        "passport": numbers.us_passport_number(number("passport", key)),
    }


def _english(name: str) -> NamePart:
    return NamePart(name, "", name)
