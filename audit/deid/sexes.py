"""Which sex a given name has, and which one notes say that their patient, or a person, has.

Notes tell it by titles, pronouns, what stands beside an age, and words of kinship; a name by the
lists of names. The words stand in `sexes.txt`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Literal

from audit.corpus.build import sex_votes
from audit.notes.patterns import IN_KATAKANA, fold_characters, read_pattern_table

_JAPANESE = re.compile(
    r"男性|女性|男児|女児|男子|女子|性別\s*[:：]\s*[男女]|彼女|(?<=[歳才])[の、，, ]?[男女]"
)
_PARTS, _ = read_pattern_table(__file__)
_RE = {name: re.compile(pattern) for name, pattern in _PARTS.items()}
_STRONG, _IN_NOTE = 5, 10
"""Votes of a title, a sex or a relative beside a name, and of a heading in a note; a pronoun has
one. A heading outvotes one title and any pronouns."""
_N_BEFORE, _N_AFTER, _N_AFTER_OTHERS = 40, 80, 14

Whose = Literal["patient", "other", ""]
"""Whose name it is: the patient's, that of a relative or of staff, or not told."""


def votes_of(text: str) -> int:
    """Return how much a text says that it is about a man; below 0 about a woman."""
    votes = sex_votes(text)
    folded = fold_characters(text)
    votes += _IN_NOTE * (bool(_RE["NOTE_MALE"].search(folded)))
    votes -= _IN_NOTE * (bool(_RE["NOTE_FEMALE"].search(folded)))
    if not text.isascii():
        found = _JAPANESE.findall(text)
        votes += sum(1 if "男" in one else -1 for one in found)
    return votes


def sex_of_votes(votes: int) -> str:
    """Return "M" for votes above 0, "F" for votes below it, else ""."""
    return "M" if votes > 0 else "F" if votes < 0 else ""


def sex_told(text: str) -> str:
    """Return "M" or "F" as a text says; "" where it says nothing, or both as much."""
    return sex_of_votes(votes_of(text))


def whose_name(folded: str, start: int, end: int) -> Whose:
    """Return whose name stands at a place of a folded text, by the words beside it."""
    before, after = folded[max(0, start - _N_BEFORE) : start], folded[end : end + _N_BEFORE]
    if _RE["STAFF_AFTER"].match(after):
        return "other"
    if _RE["STAFF_BEFORE"].search(before) or _RE["KIN_BEFORE"].search(before):
        return "other"
    return "patient" if _RE["PATIENT_BEFORE"].search(before) else ""


def votes_beside(folded: str, start: int, end: int, *, stop: int, whose: Whose) -> int:
    """Return how much the words beside a name say that it is a man's; below 0 a woman's.

    Parameters
    ----------
    folded
        The note, as `fold_characters` has it.
    start, end
        Where the name stands.
    stop
        Where the next name begins: what follows is not about this one.
    whose
        As `whose_name` says. A pronoun behind a relative or a doctor is usually the patient's.
    """
    before = folded[max(0, start - _N_BEFORE) : start]
    votes = _STRONG * (
        bool(_RE["MALE_BEFORE"].search(before)) - bool(_RE["FEMALE_BEFORE"].search(before))
    )
    most = _N_AFTER_OTHERS if whose == "other" else _N_AFTER
    stop = min(stop, end + most)
    if cut := _RE["ELSE"].search(folded, end, stop):
        stop = cut.start()
    votes += _STRONG * _first_of("MALE", "FEMALE", folded, end, stop)
    if whose != "other":
        votes += _first_of("MALE_WORD", "FEMALE_WORD", folded, end, stop)
    return votes


def _first_of(male: str, female: str, folded: str, start: int, stop: int) -> int:
    """Return 1 where the first of two patterns is found before the other one, -1 for the second."""
    places = []
    for vote, name in ((1, male), (-1, female)):
        # A word goes on behind the end: "M" in "Ms".
        if (match := _RE[name].search(folded, start, stop + 2)) and match.end() <= stop:
            places.append((match.start(), vote))
    return min(places)[1] if places else 0


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
