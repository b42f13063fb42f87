"""Dummy identities: people drawn from Faker's name tables, one for each patient.

Comes in: a seed and who it is for. Goes out: a person. A draw depends on the seed and on its key
alone, so that the same patient is the same person in any order and on any worker.

Source: Nakamura et al., section 3.2. Differs: one identity for each patient, of the patient's sex.
"""

from __future__ import annotations

import functools
import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate

from audit.corpora.placeholder_dates import FIRST_DAY, Interval, interval_for

_YOUNGEST, _OLDEST = 18, 89
_N_KEPT = 50_000


def draw(seed: int, purpose: str, *keys: str) -> int:
    """Return a number of 64 bits for one place: hashed from seed, purpose and keys."""
    # No key holds a NUL (such rows are refused), so no two places have the same text.
    text = "\0".join((str(seed), purpose, *keys))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True, slots=True)
class Person:
    """A name that stands for somebody: sex is "M" or "F", `initial` one letter."""

    first: str
    initial: str
    last: str
    sex: str

    @property
    def full(self) -> str:
        """First and last name."""
        return f"{self.first} {self.last}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the notes say about a patient before an identity is chosen.

    Attributes
    ----------
    sex
        "M", "F" or "" where the notes do not tell.
    first_day, last_day
        Of the notes, as the source has them; None where it has no dates.
    """

    sex: str
    first_day: date | None
    last_day: date | None


@dataclass(frozen=True, slots=True)
class Patient:
    """A patient's dummy identity.

    Attributes
    ----------
    key
        Who it is in the truth file: "patient:ID", or "note:ROW" where a note has no patient.
    interval
        By which all dates move.
    first_day
        Of the notes, as the source has it.
    birth
        After the move.
    """

    key: str
    person: Person
    interval: Interval
    first_day: date
    birth: date


@functools.lru_cache(maxsize=20_000)
def patient_of(seed: int, key: str, facts: Facts) -> Patient:
    """Return a patient's identity: the same for the same seed, key and facts."""
    first_day = facts.first_day or date(2150, 1, 1)
    interval = interval_for(
        first_day, facts.last_day or first_day, draw=draw(seed, "interval", key)
    )
    age = _YOUNGEST + draw(seed, "age", key) % (_OLDEST - _YOUNGEST)
    days = age * 1461 // 4 + draw(seed, "birthday", key) % 365
    start = max(interval.move(first_day), FIRST_DAY)
    person = person_of(seed, key, sex=facts.sex)
    return Patient(key, person, interval, first_day, start - timedelta(days=days))


@functools.lru_cache(maxsize=_N_KEPT)
def person_of(seed: int, key: str, *, sex: str = "") -> Person:
    """Return a person for a key; the sex is drawn where it is not given."""
    sex = sex or "MF"[draw(seed, "sex", key) & 1]
    names, totals = _first_names(sex)
    first = _picked(names, totals, draw(seed, "first", key))
    last = _picked(*_last_names(), draw(seed, "last", key))
    middle = _picked(names, totals, draw(seed, "middle", key))
    return Person(first, middle[0], last, sex)


def _picked(names: tuple[str, ...], totals: tuple[float, ...], number: int) -> str:
    return names[bisect_right(totals, number / 2**64 * totals[-1], hi=len(names) - 1)]


@functools.cache
def _first_names(sex: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    from faker.providers.person.en_US import Provider

    return _table(Provider.first_names_male if sex == "M" else Provider.first_names_female)


@functools.cache
def _last_names() -> tuple[tuple[str, ...], tuple[float, ...]]:
    from faker.providers.person.en_US import Provider

    return _table(Provider.last_names)


def _table(weights: Mapping[str, float]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    return tuple(weights), tuple(accumulate(weights.values()))
