"""Letter case: rewrites a list in capitals, or in small letters only, as names are usually written.

A model that tells capitals apart does not know JANE DOE from notes that say Jane Doe. For a model
that does not, rewriting changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from audit.errors import Message
from audit.names.candidates import Candidates
from audit.text import fold_letters, name_words

MAX_SHARE = 0.9
"""A list is rewritten if more than this share of it is in one case."""
CAPITALS, SMALL, MIXED, NO_CASE = "capitals", "small", "mixed", ""

RECASED = (
    "{n} of {n_names} names were in capitals or in small letters only. They are read as names are "
    "written (Jane Doe, O'Brien, McDonald, van Gogh): a model that tells capitals apart does not "
    "know them otherwise. Write the list as the notes do where that is not right."
)
UNEVEN = (
    "{n} of {n_names} names are in capitals or in small letters only, and the others are not: they "
    "were left as they are. A model that tells capitals apart reads them as other names. Write all "
    "names as the notes do."
)
_PREFIX = re.compile("[A-Z][a-z]{1,2}(?=[A-Z]{3})")
_BETWEEN = re.compile(r"([\s-]+)")
_CONSONANTS = re.compile("[b-df-hj-np-tv-xz]{2}")
# O'Brien, D'Angelo; not Sa'id, and not the s of an apostrophe.
_JOINED = re.compile(
    r"(?:[^\W\d_]|mc|dell|dall|nell|sant)['’](?=[^\W\d_]{2})|mc(?=[^\W\d_]{2})", re.I
)


def letter_case(part: str) -> str:
    """Return the case of a part of a name with at least two letters; "McDONALD" is in capitals."""
    letters = [char for char in _PREFIX.sub("", part) if char.lower() != _capitalise_letter(char)]
    if len(letters) < 2:
        return NO_CASE
    if all(char == _capitalise_letter(char) for char in letters):
        return CAPITALS
    return SMALL if all(char == char.lower() for char in letters) else MIXED


def _capitalise_letter(char: str) -> str:
    """Return the capital of a letter; ß and its like, which begin no name, stay."""
    title = char.title()
    return title if len(title) == 1 else char


def with_usual_case(candidates: Candidates) -> Candidates:
    """Return a list with usual letter case if its first names, or last names, are in one case.

    The decision is made for first and for last names separately: over the whole list, and over its
    members, its controls and its names of unknown truth, which may come from different files.
    """
    columns = [list(candidates.first), list(candidates.last)]
    is_recased = list(candidates.is_recased)
    for parts, is_last in zip(columns, (False, True), strict=True):
        for row in _rows_in_one_case(parts, candidates.is_member):
            recased_part = recase_part(parts[row], is_last=is_last)
            is_recased[row] |= recased_part != parts[row]
            parts[row] = recased_part
    first, last = map(tuple, columns)
    return replace(candidates, first=first, last=last, is_recased=tuple(is_recased))


def _rows_in_one_case(parts: Sequence[str], truths: Sequence[bool | None]) -> list[int]:
    """Return the rows to rewrite: parts in one case if most of their list, or truth, are."""
    cases = {row: case for row, part in enumerate(parts) if (case := letter_case(part))}
    rows = set[int]()
    for truth in ({True, False, None}, {True}, {False}, {None}):
        group = [row for row in cases if truths[row] in truth]
        in_one_case = [row for row in group if cases[row] in (CAPITALS, SMALL)]
        if len(in_one_case) > MAX_SHARE * len(group):
            rows.update(in_one_case)
    return sorted(rows)


def recase_part(part: str, *, is_last: bool) -> str:
    """Return a part of a name that is in one case in usual letter case, by rule.

    Words begin with a capital, also after a hyphen, after O' and D', and after Mc (McDonald; but
    Macdonald, because of Machado). Particles of a last name before another word are small: van
    Gogh, although some families write Van. Two consonants are the initials of a first name: TJ.
    """
    pieces = _BETWEEN.split(part)  # words at even places
    for place in range(0, len(pieces), 2):
        word = pieces[place].lower()
        key = fold_letters(word).replace(".", "")
        is_before_name = place < len(pieces) - 1 and (is_last or place > 0)
        if is_before_name and _is_small(key, is_first=place == 0):
            pieces[place] = word
        elif not is_last and _CONSONANTS.fullmatch(key):
            pieces[place] = word.upper()
        else:
            pieces[place] = _capitalise(word)
    return "".join(pieces)


def _is_small(key: str, *, is_first: bool) -> bool:
    """Whether a particle is written small before another word of a name."""
    small = name_words("particles") | name_words("small_particles")
    capital = name_words("capital_particles")
    return key in small - capital - (name_words("capital_at_begin") if is_first else set())


def _capitalise(word: str) -> str:
    """Return a word in small letters with the capitals of names."""
    letters, is_begin = list(word), True
    joined = _JOINED.match(word)
    for place, char in enumerate(word):
        if is_begin or (joined and place == joined.end()):
            letters[place] = _capitalise_letter(char)
        is_begin = char == "." or (is_begin and not char.isalpha())
    return "".join(letters)


def report_letter_case(candidates: Candidates) -> list[Message]:
    """Report how many names were rewritten, and how many are in one case unlike the rest."""
    n_names, n_recased = len(candidates), sum(candidates.is_recased)
    n_uneven = sum(
        not is_recased and any(map(_is_shouted, parts))
        for *parts, is_recased in zip(
            candidates.first, candidates.last, candidates.is_recased, strict=True
        )
    )
    notes = []
    if n_recased:
        notes.append(Message(RECASED, n=n_recased, n_names=n_names))
    if n_uneven:
        notes.append(Message(UNEVEN, n=n_uneven, n_names=n_names))
    return notes


def _is_shouted(part: str) -> bool:
    """Whether a part is in capitals or small letters only, and is neither initials nor particles"""
    return len(part) > 2 and letter_case(part) in (CAPITALS, SMALL)
