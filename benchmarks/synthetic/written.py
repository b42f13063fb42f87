"""Training notes written by hand, each in many variants: other marks of the same kinds.

The texts are in the form that `tests.deid.unseen_notes.read_marked_notes` reads; no text of the
test sets is among them. A person, a place or a number is another one in each variant, the same
wherever it stood.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from audit.deid.find.network.word_lists import make_words_reader
from audit.notes.dates import MONTHS
from audit.notes.spans import TYPES, Span, TaggedDocument, build_document
from benchmarks.synthetic.grammar import Dice
from benchmarks.synthetic.people import english_name, foreign_name, foreign_parts, japanese_name
from tests.deid.unseen_notes import LABELS, SETS, unseen, written_notes

_FOLDER = Path(__file__).resolve().parent / "written"
_MONTH = re.compile(rf"\b(?:{'|'.join(MONTHS)}|{'|'.join(m[:3] for m in MONTHS)})\b", re.IGNORECASE)
_HELD_OUT = 8
_AS_IT_IS, _SMALL, _CAPITALS = 0.15, 0.12, 0.04
_OTHER_FORM = 0.3
_DRAWN = {"G": 0.75, "O": 0.75, "J": 0.75, "Q": 0.5}
"""How often a mark is changed for another one of its kind in all texts of its language."""


def written_variants(n: int, *, seed: int, is_held_out: bool = False) -> Iterator[TaggedDocument]:
    """Yield so many notes: every text in turn, each time with other marks.

    Of all texts every eighth is held out, to choose weights with.
    """
    texts = [text for i, text in enumerate(_texts()) if (i % _HELD_OUT == 0) == is_held_out]
    for place in range(n):
        text = texts[place % len(texts)]
        yield _variant(text, Dice(seed, "variant of a written note", str(place)), place)


@cache
def _texts() -> tuple[TaggedDocument, ...]:
    """Return the texts, marks by kind; of the test sets that taggers have been mended with, too."""
    notes = [
        note for path in sorted(_FOLDER.glob("*.txt")) for note in written_notes(path, by_kind=True)
    ]
    return (
        *notes,
        *(note for name in SETS for language in ("ja", "en") for note in unseen(name, language)),
    )


@cache
def _pools() -> dict[tuple[str, bool], tuple[str, ...]]:
    """Return all marks of a kind, by whether they are in Japanese."""
    words_by_kind = defaultdict(list)
    for note in _texts():
        for span in note.spans:
            words = note.text[span.start : span.end]
            if span.label in _DRAWN:
                words_by_kind[span.label, _is_japanese(words)].append(words)
    return {key: tuple(dict.fromkeys(words)) for key, words in words_by_kind.items()}


def _is_japanese(text: str) -> bool:
    return any(char > "\u3004" for char in text)


def _variant(note: TaggedDocument, dice: Dice, place: int) -> TaggedDocument:
    is_kept = dice.chance(_AS_IT_IS)
    new: dict[tuple[str, str], str] = {}
    text, spans, end = "", list[Span](), 0
    for span in note.spans:
        words = note.text[span.start : span.end]
        key = span.label, words
        if key not in new:
            new[key] = words if is_kept else _fill_other(span.label, words, dice)
        text += note.text[end : span.start]
        label = span.label if span.label in TYPES else LABELS[span.label]
        spans.append(Span(len(text), len(text) + len(new[key]), label))
        text += new[key]
        end = span.end
    text += note.text[end:]
    if not _is_japanese(text):
        share = dice.number() / 2**53
        changed = text.lower() if share < _SMALL else text.upper()
        if share < _SMALL + _CAPITALS and len(changed) == len(text):
            text = changed
    return build_document(f"written/{place:06d}", text=text, spans=spans)


def _fill_other(kind: str, words: str, dice: Dice) -> str:
    """Return what stands for a mark in a variant."""
    if kind in "NS":
        return _cased(_name(kind, words, dice), words)
    if kind in "DAT":
        return _day(words, dice, is_age=kind == "A", is_time=kind == "T")
    if kind in "PLC":
        return _code(words, dice, is_contact=kind == "C")
    if dice.chance(_DRAWN.get(kind, 0.0)):
        return _cased(dice.pick(_pools()[kind, _is_japanese(words)]), words)
    return words


def _cased(new: str, words: str) -> str:
    if len(words) > 3 and words.isupper() and words.isascii():
        return new.upper()
    return new.lower() if words.islower() and words.isascii() else new


_PARTICLES = ("van ", "de ", "van der ", "de la ", "al-", "von ", "O'", "Mc", "Le ", "bin ", "di ")


def _name(kind: str, words: str, dice: Dice) -> str:
    sex = dice.pick("MF")
    if _is_japanese(words):
        return _japanese(kind, words, dice, sex)
    if re.fullmatch(r"(?:[A-Z]\.? ?){1,3}", words):
        return re.sub("[A-Z]", lambda _: dice.pick("ABCDEFGHIJKLMNOPRSTUVWY"), words)
    name = english_name(dice, sex=sex, is_wide=True)
    first, last = name.given_name.native, name.surname.native
    if dice.chance(0.5):
        first, last = _listed("first names", dice), _listed("surnames", dice)
    if dice.chance(0.06):
        last = dice.pick(_PARTICLES) + last
    if kind == "S":
        return dice.pick((first, last, last))
    if dice.chance(_OTHER_FORM):
        middle = dice.pick("ABCDEGHJKLMR")
        return dice.pick(
            (
                f"{first[0]}. {last}",
                f"{last}, {first}",
                f"{first} {middle}. {last}",
                f"{last.upper()}, {first}",
                f"{first} {last}-{dice.pick(_surnames())}",
            )
        )
    return f"{last}, {first}" if "," in words else f"{first} {last}"


@cache
def _surnames() -> tuple[str, ...]:
    return tuple(sorted(word.title() for word in make_words_reader().lists["surnames"]))


@cache
def _first_names() -> tuple[str, ...]:
    return tuple(sorted(word.title() for word in make_words_reader().lists["first names"]))


def _listed(name: str, dice: Dice) -> str:
    return dice.pick(_surnames() if name == "surnames" else _first_names())


def _japanese(kind: str, words: str, dice: Dice, sex: str) -> str:
    if re.fullmatch("[ァ-ヶー・＝ 　･ｦ-ﾟ]+", words):
        if "・" in words or "＝" in words or (kind == "S" and dice.chance(0.5)):
            parts = foreign_parts(dice)
            return "・".join(parts) if kind == "N" else dice.pick(parts)
        name = japanese_name(dice, sex=sex, birth_year=1970, is_wide=True)
        gap = " " if " " in words else "　" if "　" in words else ""
        kana = name.surname.kana, name.given_name.kana
        return gap.join(kana) if kind == "N" else dice.pick(kana)
    name = japanese_name(dice, sex=sex, birth_year=dice.between(1925, 2020), is_wide=True)
    if kind == "S":
        return dice.pick((name.surname.native, name.surname.native, name.given_name.native))
    gap = "　" if "　" in words else " " if " " in words else ""
    gap = dice.pick(("", "", " ", "　")) if dice.chance(_OTHER_FORM) else gap
    if dice.chance(0.03):
        return foreign_name(foreign_parts(dice), dice)
    return name.surname.native + gap + name.given_name.native


def _day(words: str, dice: Dice, *, is_age: bool, is_time: bool) -> str:
    """Return a date, an age or a time of day with other numbers, in the same form."""

    def number(match: re.Match[str]) -> str:
        old = match[0]
        if len(old) == 4 and not is_time:
            return str(dice.between(1935, 2026)) if old[:2] in ("19", "20") else old
        if len(old) == 4:
            return f"{dice.between(0, 23):02}{dice.between(0, 59):02}"
        if len(old) > 2:
            return old if not is_age else str(dice.between(100, 104))
        limit = 99 if is_age else 59 if is_time and match.start() else 12
        return str(dice.between(1, limit)).zfill(len(old) if old[0] == "0" else 1)

    def month(match: re.Match[str]) -> str:
        name = dice.pick(MONTHS)
        return _cased(name[:3] if len(match[0]) == 3 else name, match[0])

    return re.sub("[0-9]+", number, _MONTH.sub(month, words))


def _code(words: str, dice: Dice, *, is_contact: bool) -> str:
    new = re.sub(
        "[0-9]",
        lambda match: match[0] if is_contact and match.start() == 0 else str(dice.between(0, 9)),
        words,
    )
    if is_contact:
        return new
    return re.sub(r"(?<![A-Za-z])[A-Z](?=[-0-9])", lambda _: dice.pick("ABCDEFGHKLMNPRSTWXYZ"), new)
