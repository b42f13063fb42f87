"""Names of people of other countries as Japanese notes write them: katakana and dots, or kanji.

Comes in: dice. Goes out: the parts of a name, in the order of its own language.
"""

from __future__ import annotations

import functools
from pathlib import Path

from audit.deid.synthetic.dice import Dice

_DOTS, _GAPS = ("・", "・", "・", "・", " ", "　", "＝", "･"), (" ", "", "　")


@functools.cache
def _countries() -> tuple[tuple[tuple[str, ...], ...], ...]:
    # A line for a country; the words for each part of a name stand between bars.
    path = Path(__file__).resolve().parent / "ja" / "foreign_people.txt"
    lines = (line for line in path.read_text("utf-8").splitlines() if not line.startswith("#"))
    return tuple(tuple(tuple(part.split()) for part in line.split("|")) for line in lines)


def foreign_parts(dice: Dice) -> tuple[str, ...]:
    """Return the parts of a name."""
    return tuple(dice.pick(words) for words in dice.pick(_countries()))


def foreign_name(parts: tuple[str, ...], dice: Dice) -> str:
    """Return the whole name of some parts: with dots most often, in kanji with a blank or none."""
    is_katakana = "ァ" <= parts[0][0] <= "ヿ"
    return dice.pick(_DOTS if is_katakana else _GAPS).join(parts)
