"""Japanese names that are listed: those of invented people, and names that no package lists."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from audit.names.people import NamePart, given_names, surnames
from audit.notes.mention_words import JAPANESE_SURNAMES
from audit.text import word_lists


class JapaneseNames(NamedTuple):
    """Names in Japanese writing."""

    given_names: frozenset[str]
    surnames: frozenset[str]


@cache
def list_japanese_names() -> JapaneseNames:
    """Return the listed given names and surnames of people in Japan."""
    others = word_lists(Path(__file__).with_suffix(".txt"))
    return JapaneseNames(
        others["given_names"] | {part.native for _, part in iterate_given_names()},
        others["surnames"] | {part.native for part in surnames().names} | JAPANESE_SURNAMES,
    )


def iterate_given_names() -> Iterator[tuple[str, NamePart]]:
    """Yield each given name of invented people with its sex, once for each period of birth."""
    for sex in "MF":
        for period in ("old", "middle", "young"):
            yield from ((sex, part) for part in given_names(sex, period).names)
