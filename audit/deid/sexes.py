"""Which sex a given name has, and which one notes say that their patient has.

Notes tell it by titles, pronouns and what stands beside an age; a name by the lists of names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache

from audit.corpus.build import sex_votes
from audit.notes.patterns import IN_KATAKANA

_JAPANESE = re.compile(
    r"男性|女性|男児|女児|男子|女子|性別\s*[:：]\s*[男女]|彼女|(?<=[歳才])[の、，, ]?[男女]"
)


def votes_of(text: str) -> int:
    """Return how much a text says that it is about a man; below 0 about a woman."""
    votes = sex_votes(text)
    if not text.isascii():
        found = _JAPANESE.findall(text)
        votes += sum(1 if "男" in one else -1 for one in found)
    return votes


def _sex(votes: int) -> str:
    return "M" if votes > 0 else "F" if votes < 0 else ""


def sex_told(text: str) -> str:
    """Return "M" or "F" as a text says; "" where it says nothing, or both as much."""
    return _sex(votes_of(text))


def sex_of_given_name(name: str) -> str:
    """Return the sex that a list has for a given name; "" where none has it, or both do."""
    return _given_names().get(name.translate(IN_KATAKANA).casefold(), "")


@cache
def _given_names() -> Mapping[str, str]:
    from faker.providers.person.en_US import Provider

    from audit.names.people import given_names

    found: dict[str, set[str]] = defaultdict(set)
    for sex, names in (("M", Provider.first_names_male), ("F", Provider.first_names_female)):
        for name in names:
            found[name.casefold()].add(sex)
        for time in ("old", "middle", "young"):
            for part in given_names(sex, time).names:
                # Names in hiragana are looked up as their kana.
                for written in (part.written, part.kana, part.romaji):
                    found[written.translate(IN_KATAKANA).casefold()].add(sex)
    return {name: sexes.pop() for name, sexes in found.items() if len(sexes) == 1}


class Sexes:
    """The sex of patients, told by all of their notes."""

    def __init__(self) -> None:
        self._votes: Counter[str] = Counter()

    def add(self, patient_id: str | None, text: str) -> None:
        """Take in a note; one without a patient is passed over."""
        if patient_id:
            self._votes[patient_id] += votes_of(text)

    def of(self, patient_id: str | None) -> str | None:
        """Return the sex of a patient; None for a note without one, which tells it alone."""
        return _sex(self._votes[patient_id]) if patient_id else None
