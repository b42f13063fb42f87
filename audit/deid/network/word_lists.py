"""The lists of names, places and common words that a network of words asks: Faker's and our own.

A tagger keeps its lists beside its weights; these are those of one that is trained today.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from unicodedata import normalize

from audit.deid.network.word_features import JAPANESE_LISTS, LATIN_LISTS, Words
from audit.names.people import given_names, surnames
from audit.notes.mention_words import (
    GENERIC,
    JAPANESE_NO_NAMES,
    JAPANESE_SURNAMES,
    NO_NAMES,
    WORDS,
)
from audit.text import word_lists

_SEXES, _TIMES = "MF", ("old", "middle", "young")


@cache
def usual_words() -> Words:
    """Return a reader with the lists of this installation."""
    own = _own_lists()
    first, last = (set(_people(kind)) for kind in ("first_name", "last_name"))
    names = japanese_names()
    places = set(_places())
    latin = (
        first,
        last,
        places | own["places"],
        {*_common(), *own["common_words"], *NO_NAMES, *GENERIC},
        WORDS["jobs"],
    )
    japanese = (
        first | names.given | own["katakana_names"],
        last | names.family,
        places | own["japanese_places"],
        own["japanese_common_words"] | {*JAPANESE_NO_NAMES},
        WORDS["japanese_jobs"],
    )
    lists = {name: frozenset(_latin(words)) for name, words in zip(LATIN_LISTS, latin, strict=True)}
    lists |= {
        name: frozenset(_japanese(words))
        for name, words in zip(JAPANESE_LISTS, japanese, strict=True)
    }
    return Words(lists)


class JapaneseNames(NamedTuple):
    """Names in Japanese writing."""

    given: frozenset[str]
    family: frozenset[str]


@cache
def japanese_names() -> JapaneseNames:
    """Return the listed given names and surnames of people in Japan."""
    own = _own_lists()
    tables = (given_names(sex, time) for sex in _SEXES for time in _TIMES)
    given = {part.written for table in tables for part in table.names}
    family = {part.written for part in surnames().names}
    return JapaneseNames(
        own["japanese_given_names"] | given,
        own["japanese_surnames"] | family | JAPANESE_SURNAMES,
    )


@cache
def _own_lists() -> Mapping[str, frozenset[str]]:
    return word_lists(Path(__file__).with_suffix(".txt"))


def _people(kind: str) -> Iterator[str]:
    """Yield the names of all of Faker's countries, of all sexes."""
    for provider in _providers("person"):
        for name, listed in vars(provider).items():
            if name.startswith(kind) and isinstance(listed, tuple | list | dict):
                yield from map(str, listed)


def _places() -> Iterator[str]:
    """Yield towns, countries and their parts in English and Japanese, as Faker lists them."""
    for name in ("en", "en_US", "en_GB", "en_AU", "en_CA", "ja_JP"):
        provider = importlib.import_module(f"faker.providers.address.{name}").Provider
        for kind in ("cities", "prefectures", "countries", "counties", "states", "provinces"):
            yield from map(str, getattr(provider, kind, ()))
    for country in importlib.import_module("faker.providers.date_time").Provider.countries:
        yield from (country.name, country.capital)
        yield from (zone.rpartition("/")[2].replace("_", " ") for zone in country.timezones)


def _common() -> Iterator[str]:
    """Yield words of English that Faker makes sentences of."""
    provider = importlib.import_module("faker.providers.lorem.en_US").Provider
    yield from provider.word_list


def _providers(kind: str) -> Iterator[type]:
    package: ModuleType = importlib.import_module(f"faker.providers.{kind}")
    for one in pkgutil.iter_modules(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{one.name}").Provider


def _latin(names: Iterable[str]) -> Iterator[str]:
    """Yield the words of names in Latin letters, small, of two letters and more."""
    words = chain.from_iterable(name.split() for name in names)
    for word in chain.from_iterable(word.split("-") for word in words):
        small = normalize("NFKC", word).lower().strip(".,'")
        if len(small) > 1 and small.isalpha() and small < "\u0250":
            yield small


def _japanese(names: Iterable[str]) -> Iterator[str]:
    """Yield names in Japanese writing, of two characters and more; a town also without its kind."""
    for name in names:
        if len(name) > 1 and min(name) > "\u3004":
            yield name
            if len(name) > 2 and name[-1] in "市町村区県府都":
                yield name[:-1]
