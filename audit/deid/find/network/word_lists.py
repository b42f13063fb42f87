"""The lists of names, places and common words for a network of words: Faker's and our own.

A tagger keeps its lists beside its weights; a tagger that is trained now gets these lists.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from unicodedata import normalize

from audit.deid.find.network.word_features import JAPANESE_LISTS, LATIN_LISTS, Words
from audit.names.japanese_names import list_japanese_names
from audit.notes.mention_words import (
    GENERIC,
    JAPANESE_NO_NAMES,
    NO_NAMES,
    WORDS,
)
from audit.text import word_lists


@cache
def make_words_reader() -> Words:
    """Return a reader with the lists of this installation."""
    our_lists = _read_our_lists()
    first_names, last_names = (set(_list_names(kind)) for kind in ("first_name", "last_name"))
    names = list_japanese_names()
    places = set(_list_places())
    latin = (
        first_names,
        last_names,
        places | our_lists["places"],
        {*_list_common_words(), *our_lists["common_words"], *NO_NAMES, *GENERIC},
        WORDS["jobs"],
    )
    japanese = (
        first_names | names.given_names | our_lists["katakana_names"],
        last_names | names.surnames,
        places | our_lists["japanese_places"],
        our_lists["japanese_common_words"] | {*JAPANESE_NO_NAMES},
        WORDS["japanese_jobs"],
    )
    lists = {
        name: frozenset(_split_latin(words)) for name, words in zip(LATIN_LISTS, latin, strict=True)
    }
    lists |= {
        name: frozenset(_pick_japanese(words))
        for name, words in zip(JAPANESE_LISTS, japanese, strict=True)
    }
    return Words(lists)


@cache
def _read_our_lists() -> Mapping[str, frozenset[str]]:
    return word_lists(Path(__file__).with_suffix(".txt"))


def _list_names(kind: str) -> Iterator[str]:
    """Yield the names of a kind from all countries in Faker, for all sexes."""
    for provider in _import_providers("person"):
        for name, listed in vars(provider).items():
            if name.startswith(kind) and isinstance(listed, tuple | list | dict):
                yield from map(str, listed)


def _list_places() -> Iterator[str]:
    """Yield towns, countries and their parts in English and Japanese from Faker's lists."""
    for name in ("en", "en_US", "en_GB", "en_AU", "en_CA", "ja_JP"):
        provider = importlib.import_module(f"faker.providers.address.{name}").Provider
        for kind in ("cities", "prefectures", "countries", "counties", "states", "provinces"):
            yield from map(str, getattr(provider, kind, ()))
    for country in importlib.import_module("faker.providers.date_time").Provider.countries:
        yield from (country.name, country.capital)
        yield from (zone.rpartition("/")[2].replace("_", " ") for zone in country.timezones)


def _list_common_words() -> Iterator[str]:
    """Yield the English words from which Faker makes sentences."""
    provider = importlib.import_module("faker.providers.lorem.en_US").Provider
    yield from provider.word_list


def _import_providers(kind: str) -> Iterator[type]:
    package: ModuleType = importlib.import_module(f"faker.providers.{kind}")
    for module in pkgutil.iter_modules(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{module.name}").Provider


def _split_latin(names: Iterable[str]) -> Iterator[str]:
    """Yield the words of names in Latin letters, in lower case, that have two or more letters."""
    words = chain.from_iterable(name.split() for name in names)
    for word in chain.from_iterable(word.split("-") for word in words):
        small = normalize("NFKC", word).lower().strip(".,'")
        if len(small) > 1 and small.isalpha() and small < "\u0250":
            yield small


def _pick_japanese(names: Iterable[str]) -> Iterator[str]:
    """Yield Japanese names of two or more characters, those of towns also without 市 and so on."""
    for name in names:
        if len(name) > 1 and min(name) > "\u3004":
            yield name
            if len(name) > 2 and name[-1] in "市町村区県府都":
                yield name[:-1]
