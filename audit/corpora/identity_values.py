"""Dummy values that are no names of people: hospitals, addresses, telephones, identifiers.

Comes in: the kind of a placeholder and a number drawn for it. Goes out: a text. Lists of Faker's
values are made once with a fixed seed; which one is taken depends on the number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_N_LISTED = 2000
_LIST_SEED = 2006

_HOSPITALS = (
    "General Hospital",
    "Memorial Hospital",
    "Medical Center",
    "Community Hospital",
    "Regional Hospital",
    "Clinic",
)
_SAINTS = ("St. Anne's Hospital", "St. Luke's Medical Center", "Mercy Hospital")
_WARDS = ("North", "South", "East", "West", "Main", "Tower")
_HOLIDAYS = ("Christmas", "Thanksgiving", "Easter", "New Year's Day", "Labor Day", "Memorial Day")
_ETHNICITIES = ("Irish", "Italian", "Haitian", "Portuguese", "Russian", "Vietnamese", "Hispanic")
_PARTICLES = ("van", "de", "von", "la", "del", "di")
_TITLES = {"M": ("Mr.",), "F": ("Mrs.", "Ms.")}


def value_of(kind: str, number: int) -> str:
    """Return the value of a kind for a drawn number of 64 bits.

    Raises
    ------
    KeyError
        If the kind is none of `VALUE_KINDS`.
    """
    return _VALUES[kind](number)


def prefix_of(sex: str, number: int, *, is_before_last_name: bool) -> str:
    """Return a particle before a last name ("van"), else a title that fits the sex."""
    choices = _PARTICLES if is_before_last_name else _TITLES[sex]
    return choices[number % len(choices)]


def _digits(form: str) -> Callable[[int], str]:
    def written(number: int) -> str:
        text = ""
        for mark in form:
            if mark == "#":
                number, digit = divmod(number, 10)
                text += str(digit)
            elif mark == "N":
                number, digit = divmod(number, 8)
                text += str(digit + 2)
            else:
                text += mark
        return text

    return written


def _listed(name: str) -> Callable[[int], str]:
    return lambda number: (values := _list(name))[number % len(values)]


def _one_of(values: tuple[str, ...]) -> Callable[[int], str]:
    return lambda number: values[number % len(values)]


def _hospital(number: int) -> str:
    choice, number = number % 8, number // 8
    if choice >= len(_HOSPITALS):
        return _SAINTS[number % len(_SAINTS)]
    return f"{_listed('city')(number)} {_HOSPITALS[choice]}"


@functools.cache
def _list(name: str) -> tuple[str, ...]:
    faker = _faker()
    faker.seed_instance(_LIST_SEED)
    make = getattr(faker, name)
    # As a dictionary: each value once, in the order of the draws.
    return tuple(dict.fromkeys(str(make()).replace("\n", ", ") for _ in range(_N_LISTED)))


@functools.cache
def _faker() -> Any:
    from faker import Faker

    return Faker("en_US")


_VALUES: dict[str, Callable[[int], str]] = {
    "hospital": _hospital,
    "ward": lambda number: f"{_one_of(_WARDS)(number)} {number // 8 % 12 + 1}",
    "city": _listed("city"),
    "address": lambda n: f"{n // 2**32 % 9899 + 100} {_listed('street_name')(n)}",
    "po_box": lambda number: f"PO Box {number % 9000 + 100}",
    "state": _listed("state"),
    "zipcode": lambda number: f"{_listed('state_abbr')(number)} {number // 64 % 99500 + 501:05d}",
    "country": _listed("country"),
    "company": _listed("company"),
    "university": lambda number: f"{_listed('city')(number)} University",
    "email": _listed("ascii_safe_email"),
    "url": lambda number: f"www.{_listed('domain_name')(number)}",
    "phone": _digits("(N##) N##-####"),
    "ssn": _digits("9##-##-####"),
    "medical_record_number": _digits("N######"),
    "clip_number": _digits("N#######"),
    "job_number": _digits("N#####"),
    "serial_number": _digits("N########"),
    "identifier": _digits("N####"),
    "holiday": _one_of(_HOLIDAYS),
    "ethnicity": _one_of(_ETHNICITIES),
}
VALUE_KINDS = frozenset(_VALUES)
