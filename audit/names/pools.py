"""Pools: first and last names with the share of people who carry each, from Faker's tables.

The tables are read directly; a name's popularity is exact, not counted from draws.

Source: Nakamura et al., section 3.4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.names.candidates import Candidates
from audit.shelf import digest_json
from audit.text import fold_name, is_unspaced


@dataclass(frozen=True)
class NamePool:
    """First and last names and the share of people who carry each.

    Attributes
    ----------
    locale
        Locale of the generator: "en_US" or "ja_JP".
    first, last
        F and L distinct names.
    first_share, last_share
        F and L shares, 0-1, each summing to 1.
    """

    locale: str
    first: tuple[str, ...]
    last: tuple[str, ...]
    first_share: tuple[float, ...]
    last_share: tuple[float, ...]

    @functools.cached_property
    def first_shares(self) -> dict[str, float]:
        """Share of each first name, by its folded form."""
        return dict(zip(map(fold_name, self.first), self.first_share, strict=True))

    @functools.cached_property
    def last_shares(self) -> dict[str, float]:
        """Share of each last name, by its folded form."""
        return dict(zip(map(fold_name, self.last), self.last_share, strict=True))

    def digest(self) -> str:
        """Return the SHA-256 of names and shares, on which a draw depends besides its seed."""
        content = [self.locale, self.first, self.last, self.first_share, self.last_share]
        return digest_json(content, sort_keys=False, ensure_ascii=False)


@functools.cache
def us_pool() -> NamePool:
    """Return Faker's approximation of US names: 690 first and 1,000 last names (section 3.4)."""
    from faker.providers.person.en_US import Provider

    return _make_pool(
        "en_US",
        first=(Provider.first_names_male, Provider.first_names_female),
        last=Provider.last_names,
    )


@functools.cache
def japanese_pool() -> NamePool:
    """Return Faker's Japanese names: 51 first names, equally likely within a sex, 50 last names."""
    from faker.providers.person.ja_JP import Provider

    sexes = (Provider.first_name_male_pairs, Provider.first_name_female_pairs)
    return _make_pool(
        "ja_JP",
        first=[dict.fromkeys((pair[0] for pair in pairs), 1.0) for pairs in sexes],
        last={pair[0]: share for pair, share in Provider.last_name_pairs.items()},
    )


def pool_for(candidates: Candidates) -> NamePool:
    """Return the Japanese pool if most names are in Han or kana, else the US pool."""
    pairs = zip(candidates.first, candidates.last, strict=True)
    n_unspaced = sum(is_unspaced(first + last) for first, last in pairs)
    return japanese_pool() if 2 * n_unspaced > len(candidates) else us_pool()


def pools_by_script() -> dict[str, NamePool]:
    """Return the pools by the script of their names (`audit.text.script_of`)."""
    return {"latin": us_pool(), "han_kana": japanese_pool()}


def popularity(pool: NamePool, *, first: str, last: str) -> float:
    """Return the share of people with this full name, 0-1: the product of its parts' shares.

    NaN if the pool does not know one of the parts. Case and width do not matter.
    """
    first_share = pool.first_shares.get(fold_name(first), math.nan)
    return first_share * pool.last_shares.get(fold_name(last), math.nan)


def _make_pool(
    locale: str, *, first: Sequence[Mapping[str, float]], last: Mapping[str, float]
) -> NamePool:
    # Faker draws the sex first; 13 of the US names are in both lists, and their shares are added.
    shares: dict[str, float] = {}
    for weights in first:
        for name, share in zip(weights, _normalise_weights(weights), strict=True):
            shares[name] = shares.get(name, 0.0) + share / 2
    return NamePool(
        locale, tuple(shares), tuple(last), _normalise_weights(shares), _normalise_weights(last)
    )


def _normalise_weights(weights: Mapping[str, float]) -> tuple[float, ...]:
    total = math.fsum(weights.values())
    return tuple(weight / total for weight in weights.values())


@functools.cache
def english_names() -> frozenset[str]:
    """Return first and last names of English speakers, as far as Faker knows them."""
    from faker.providers.person.en_US import Provider

    return frozenset((*Provider.first_names, *Provider.last_names))
