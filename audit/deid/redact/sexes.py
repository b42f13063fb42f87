"""The sex of a given name, and the sex that notes state for their patient or for a person.

In notes, titles, pronouns, words beside an age and words of kinship state it; for a given name
the lists of names do. The words stand in `sexes.txt`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Literal

from audit.corpus.build import sex_votes
from audit.notes.patterns import IN_KATAKANA, CompiledParts, fold_characters, read_pattern_table

_JAPANESE = re.compile(
    r"男性|女性|男児|女児|男子|女子|性別\s*[:：]\s*[男女]|彼女|(?<=[歳才])[の、，, ]?[男女]"
)
_PARTS, _ = read_pattern_table(__file__)
_RE = CompiledParts(_PARTS)
_STRONG, _IN_NOTE = 5, 10
"""Votes of a title, a sex or a relative beside a name, and of a heading in a note; a pronoun has
one. A heading outvotes one title and any pronouns."""
_N_BEFORE, _N_AFTER, _N_AFTER_OTHERS = 40, 80, 14

NameOwner = Literal["patient", "other", ""]
"""Whose name it is: the patient's, that of a relative or of staff, or unknown."""


def count_votes(text: str) -> int:
    """Return the votes of a text for a male patient, less those for a female one."""
    votes = sex_votes(text)
    folded = fold_characters(text)
    votes += _IN_NOTE * (bool(_RE["NOTE_MALE"].search(folded)))
    votes -= _IN_NOTE * (bool(_RE["NOTE_FEMALE"].search(folded)))
    if not text.isascii():
        mentions = _JAPANESE.findall(text)
        votes += sum(1 if "男" in mention else -1 for mention in mentions)
    return votes


def sex_of_votes(votes: int) -> str:
    """Return "M" for votes above 0, "F" for votes below it, else ""."""
    return "M" if votes > 0 else "F" if votes < 0 else ""


def read_sex(text: str) -> str:
    """Return the sex that a text states, "M" or "F"; "" if it states none, or both equally."""
    return sex_of_votes(count_votes(text))


def find_name_owner(folded: str, start: int, end: int) -> NameOwner:
    """Return whose name stands at `start` to `end` of a folded text, by the words beside it."""
    text_before, text_after = (
        folded[max(0, start - _N_BEFORE) : start],
        folded[end : end + _N_BEFORE],
    )
    if _RE["STAFF_AFTER"].match(text_after):
        return "other"
    if _RE["STAFF_BEFORE"].search(text_before) or _RE["KIN_BEFORE"].search(text_before):
        return "other"
    return "patient" if _RE["PATIENT_BEFORE"].search(text_before) else ""


def count_votes_beside(folded: str, start: int, end: int, *, stop: int, owner: NameOwner) -> int:
    """Return the votes of the words beside a name for a man, less those for a woman.

    Parameters
    ----------
    folded
        The note as `fold_characters` returns it.
    start, end
        Where the name stands.
    stop
        The start of the next name: the text from there on is not about this one.
    owner
        As `find_name_owner` returns it. A pronoun behind the name of a relative or a doctor usually
        means the patient.
    """
    text_before = folded[max(0, start - _N_BEFORE) : start]
    votes = _STRONG * (
        bool(_RE["MALE_BEFORE"].search(text_before))
        - bool(_RE["FEMALE_BEFORE"].search(text_before))
    )
    n_after = _N_AFTER_OTHERS if owner == "other" else _N_AFTER
    stop = min(stop, end + n_after)
    if topic_change := _RE["ELSE"].search(folded, end, stop):
        stop = topic_change.start()
    votes += _STRONG * _vote_by_first("MALE", "FEMALE", folded, end, stop)
    if owner != "other":
        votes += _vote_by_first("MALE_WORD", "FEMALE_WORD", folded, end, stop)
    return votes


def _vote_by_first(male: str, female: str, folded: str, start: int, stop: int) -> int:
    """Return 1 if the pattern `male` matches first, -1 if `female` does, 0 if neither matches."""
    places = []
    for vote, name in ((1, male), (-1, female)):
        # The word may go on behind the end, as "M" does in "Ms".
        if (match := _RE[name].search(folded, start, stop + 2)) and match.end() <= stop:
            places.append((match.start(), vote))
    return min(places)[1] if places else 0


def sex_of_given_name(name: str) -> str:
    """Return the sex of a given name by the lists; "" if no list has it, or those of both sexes."""
    return _collect_sexes().get(name.translate(IN_KATAKANA).casefold(), "")


@cache
def _collect_sexes() -> Mapping[str, str]:
    from faker.providers.person.en_US import Provider

    from audit.names.japanese_names import iterate_given_names

    sexes_of_names: dict[str, set[str]] = defaultdict(set)
    for sex, names in (("M", Provider.first_names_male), ("F", Provider.first_names_female)):
        for name in names:
            sexes_of_names[name.casefold()].add(sex)
    for sex, part in iterate_given_names():
        # Names in hiragana are looked up as their kana.
        for spelling in (part.native, part.kana, part.romaji):
            sexes_of_names[spelling.translate(IN_KATAKANA).casefold()].add(sex)
    return {name: sexes.pop() for name, sexes in sexes_of_names.items() if len(sexes) == 1}
