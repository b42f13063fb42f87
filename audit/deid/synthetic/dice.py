"""Dice of one place: draws that depend on a seed and on the place's keys alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from audit.corpora.identities import draw

T = TypeVar("T")


class Dice:
    """A stream of draws for one place, the same in every process.

    Only `random.Random.random` is asked, whose numbers for a seed Python keeps from version to
    version.
    """

    def __init__(self, seed: int, purpose: str, *keys: str) -> None:
        self._next = random.Random(draw(seed, purpose, *keys)).random

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of some choices."""
        return choices[int(self._next() * len(choices))]

    def between(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return low + int(self._next() * (high - low + 1))

    def chance(self, share: float) -> bool:
        """Whether something happens that happens in this share (0-1) of places."""
        return self._next() < share

    def number(self) -> int:
        """Return a number of 53 bits, for functions that take a drawn number."""
        return int(self._next() * 2**53)
