"""Invented people of synthetic notes, with far more names than lists of names have.

Comes in: dice. Goes out: a name in kanji, kana and Latin letters. Half of the names come from lists
(surnames as common as in life, roughly: 1 / rank), the others are put together from the characters
of which Japanese names are made, so that a tagger cannot learn them by heart.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from itertools import accumulate

from audit.deid.name_variants import ENGLISH, JAPANESE, NamePart, PersonName, romaji_of
from audit.deid.synthetic.dice import Dice
from audit.deid.synthetic.grammar import word_list

_LISTED_SHARE = 0.55
_RARE_SHARE = 0.12
_OLD_BEFORE, _MIDDLE_BEFORE = 1950, 1980


def japanese_name(dice: Dice, *, sex: str, birth_year: int, is_wide: bool = False) -> PersonName:
    """Return a name: sex is "M" or "F"; given names in kana are of the old and the young.

    A wide one has a rare surname more often.
    """
    surname = (
        _ranked("surnames", dice) if dice.chance(_LISTED_SHARE) else _composed("surname", dice)
    )
    if is_wide and dice.chance(_RARE_SHARE):
        surname = dice.pick(_parts("surnames_rare"))
    return PersonName(surname, given_name(dice, sex=sex, birth_year=birth_year), "", JAPANESE)


def given_name(dice: Dice, *, sex: str, birth_year: int) -> NamePart:
    """Return a Japanese given name of a sex and a year of birth."""
    time = "old" if birth_year < _OLD_BEFORE else "middle"
    if birth_year >= _MIDDLE_BEFORE:
        time = "young"
    kind = f"{'male' if sex == 'M' else 'female'}_{time}"
    if dice.chance(_LISTED_SHARE):
        return dice.pick(_parts(kind))
    return _composed("male" if sex == "M" else "female", dice)


def english_name(dice: Dice, *, sex: str, is_wide: bool = False) -> PersonName:
    """Return an English name, with the initial of a middle name; a wide one is of more names."""
    first = dice.pick(word_list("en", "male" if sex == "M" else "female"))
    last = dice.pick(word_list("en", "surnames"))
    if is_wide:
        first, last = _wide_given(first, dice, sex=sex), _wide_surname(last, dice)
    if dice.chance(0.04):
        last = f"{last}-{dice.pick(word_list('en', 'surnames'))}"
    middle = dice.pick("ABCDEFGHJKLMNPRSTW")
    return PersonName(NamePart(last, "", last), NamePart(first, "", first), middle, ENGLISH)


def _wide_given(listed: str, dice: Dice, *, sex: str) -> str:
    if dice.chance(0.4):
        return listed
    return dice.pick(word_list("en", "male_more" if sex == "M" else "female_more"))


def _wide_surname(listed: str, dice: Dice) -> str:
    kind = dice.between(0, 9)
    if kind < 3:
        return listed
    if kind < 6:
        return dice.pick(word_list("en", "surnames_more"))
    halves = ("surname_first", "surname_last") if kind < 9 else ("surname_roots", "surname_ends")
    return "".join(dice.pick(word_list("en", half)) for half in halves)


@functools.cache
def _parts(name: str) -> tuple[NamePart, ...]:
    words = word_list("ja", name)
    return tuple(
        NamePart(written, kana, romaji_of(kana))
        for written, kana in zip(words[::2], words[1::2], strict=True)
    )


def _ranked(name: str, dice: Dice) -> NamePart:
    parts = _parts(name)
    totals = _totals(len(parts))
    return parts[bisect_right(totals, dice.number() / 2**53 * totals[-1], hi=len(parts) - 1)]


@functools.cache
def _totals(n: int) -> tuple[float, ...]:
    return tuple(accumulate(1 / (rank + 8) for rank in range(n)))


def _composed(kind: str, dice: Dice) -> NamePart:
    first, last = (dice.pick(_halves(f"{kind}_{half}")) for half in ("first", "last"))
    if first[0] == last[0]:
        return _composed(kind, dice)
    kana = first[1] + last[1]
    return NamePart(first[0] + last[0], kana, romaji_of(kana))


@functools.cache
def _halves(name: str) -> tuple[tuple[str, str], ...]:
    words = word_list("ja", name)
    return tuple(zip(words[::2], words[1::2], strict=True))
