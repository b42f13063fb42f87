"""Conventions and slips of synthetic notes: signs, widths, lost blanks, slips in words.

Comes in: pieces of a note. Goes out: text and spans. A span's borders stay where its value begins
and ends, whatever happens around it.
"""

from __future__ import annotations

from audit.deid.documents import Span
from audit.deid.labels import CONTACT
from audit.deid.synthetic.dates_ja import WIDE
from audit.deid.synthetic.dice import Dice
from audit.deid.synthetic.writer import Piece

_STOPS = (
    *("", "", "", "", "、，", "、，。．", "、，。．", "、,。.", "、 ", "。\n"),
    *("：:", "：:（(）)", "：:（(）)　 ", "　 ", "：＝", "：　"),
)
_WIDE_SHARE, _WIDE_LETTERS_SHARE, _SLIPS_SHARE = 0.16, 0.08, 0.12
_WIDE_DIGITS = {code: wide for code, wide in WIDE.items() if chr(code).isdigit()}
_LOST = 0.15
_SLIPS = 0.006
_SMALL, _CAPITALS = 8, 5
_LIKE = str.maketrans("ーロカ二一間問術述大太氏民者著科料", "一口力ニー問間述術太大民氏著者料科")


def surfaced(
    pieces: list[Piece], *, dice: Dice, is_japanese: bool, is_wide: bool = False
) -> tuple[str, list[Span]]:
    """Return the text of a note in one hospital's ways, and its spans.

    Some wide English notes are all in small letters, or all in capitals.
    """
    table = _table(dice) if is_japanese else {}
    wide: dict[int, int] = {}
    if is_japanese and dice.chance(_WIDE_SHARE):
        wide = WIDE if dice.chance(_WIDE_LETTERS_SHARE / _WIDE_SHARE) else _WIDE_DIGITS
    slips = _SLIPS if dice.chance(_SLIPS_SHARE) else 0.0
    is_dense = dice.chance(_LOST)
    text, length, spans = [], 0, []
    for piece in pieces:
        words = piece.text
        if not piece.label:
            words = words.translate(table)
            if is_dense:
                words = words.replace(" ", "") if is_japanese else words.replace("  ", " ")
            if slips:
                words = _slipped(words, dice=dice, share=slips, is_japanese=is_japanese)
        if wide and not (piece.label == CONTACT and "example" in words):
            words = words.translate(wide)
        if piece.label and words:
            spans.append(Span(length, length + len(words), piece.label))
        text.append(words)
        length += len(words)
    whole = "".join(text)
    if is_wide and not is_japanese:
        whole = _cased(whole, dice=dice)
    return whole, spans


def _cased(text: str, *, dice: Dice) -> str:
    share = dice.between(0, 99)
    changed = text.lower() if share < _SMALL else text.upper()
    # A letter may become two in the other case: spans would no longer stand where they do.
    return changed if share < _SMALL + _CAPITALS and len(changed) == len(text) else text


def _table(dice: Dice) -> dict[int, str]:
    signs = dice.pick(_STOPS)
    if signs == "。\n":
        return {ord("。"): "。\n"}
    return {ord(old): new for old, new in zip(signs[::2], signs[1::2], strict=True)}


def _slipped(words: str, *, dice: Dice, share: float, is_japanese: bool) -> str:
    if not words.strip() or not dice.chance(min(1.0, share * len(words))):
        return words
    place = dice.between(0, len(words) - 1)
    before, here, after = words[:place], words[place], words[place + 1 :]
    if here in "\n{}" or here.isdigit():
        return words
    kind = dice.between(0, 3)
    if kind == 0:
        return before + after
    if kind == 1 and after and after[0] != "\n":
        return before + after[0] + here + after[1:]
    if kind == 2 and is_japanese:
        return before + here.translate(_LIKE) + after
    return before + here + here + after
