"""Names of one person in all the forms in which notes write them: full, surname, initials, kana.

Comes in: a person's name. Goes out: a text, and of which of the five types that text is: what
holds both parts is an identifier, a part or initials a quasi-identifier (paper, section 2.2).
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from audit.deid.labels import IDENTIFIER, QUASI_IDENTIFIER

JAPANESE, ENGLISH = "ja_JP", "en_US"
LOCALES = (JAPANESE, ENGLISH)


@dataclass(frozen=True, slots=True)
class NamePart:
    """A surname or a given name.

    Attributes
    ----------
    written
        As the person writes it: kanji or kana in Japanese, letters in English.
    kana
        Its reading in katakana; "" for English names.
    romaji
        In Latin letters.
    """

    written: str
    kana: str
    romaji: str

    def __post_init__(self) -> None:
        """Check that there is a name, once."""
        if not self.written or not self.romaji:
            raise ValueError("a name is empty")


@dataclass(frozen=True, slots=True)
class PersonName:
    """A name: surname, given name, and the initial of a middle name ("" where there is none)."""

    surname: NamePart
    given: NamePart
    middle: str
    locale: str

    @property
    def full(self) -> str:
        """Both parts, as lists of people write them: what namesakes share."""
        if self.locale == JAPANESE:
            return f"{self.surname.written} {self.given.written}"
        return f"{self.given.written} {self.surname.written}"


_WIDE = "\u3000"
# Forms that stand for the whole name in text, and how many of 20 names have each (our choice: no
# count of real notes is published).
_FULL_FORMS = {
    JAPANESE: (("joined", 12), ("spaced", 5), ("wide", 3)),
    ENGLISH: (("spaced", 17), ("middle", 3)),
}
FORMS = (
    *("joined", "spaced", "wide", "middle", "reversed", "surname", "given", "initials"),
    *("kana", "half_kana", "hiragana", "romaji"),
)
_PARTS = frozenset({"surname", "given", "initials"})


def written(name: PersonName, form: str) -> str:
    """Return a name in one of `FORMS`; English names have no kana, they stay as they are.

    Raises
    ------
    ValueError
        If there is no such form.
    """
    if form not in FORMS:
        raise ValueError(f"{form}: no such form of a name")
    surname, given = name.surname, name.given
    if form == "surname":
        return surname.written
    if form == "given":
        return given.written
    if form == "initials":
        return _initials(name)
    if form == "romaji":
        return f"{given.romaji} {surname.romaji}"
    if form == "reversed":
        return f"{surname.romaji}, {given.romaji}"
    if name.locale != JAPANESE:
        middle = f" {name.middle}." if form == "middle" and name.middle else ""
        return f"{given.written}{middle} {surname.written}"
    return _japanese(name, form)


def _japanese(name: PersonName, form: str) -> str:
    surname, given = name.surname, name.given
    if form == "kana":
        return f"{surname.kana} {given.kana}"
    if form == "half_kana":
        return half_width(f"{surname.kana} {given.kana}")
    if form == "hiragana":
        return hiragana(f"{surname.kana} {given.kana}")
    gap = {"spaced": " ", "wide": _WIDE, "middle": " "}.get(form, "")
    return surname.written + gap + given.written


def _initials(name: PersonName) -> str:
    surname, given = name.surname.romaji[0], name.given.romaji[0]
    if name.locale == JAPANESE:
        return f"{surname}.{given}."
    middle = f"{name.middle}." if name.middle else ""
    return f"{given}.{middle}{surname}."


def label_of(form: str) -> str:
    """Return the type of a name in a form."""
    return QUASI_IDENTIFIER if form in _PARTS else IDENTIFIER


def full_form(locale: str, number: int) -> str:
    """Return a form that holds the whole name, drawn as often as notes may have it."""
    forms = _FULL_FORMS[locale]
    number %= sum(share for _, share in forms)
    for form, share in forms:
        if number < share:
            return form
        number -= share
    raise AssertionError("the shares were added up")


def hiragana(kana: str) -> str:
    """Return katakana as hiragana; other characters stay."""
    return "".join(chr(ord(c) - 0x60) if "ァ" <= c <= "ヶ" else c for c in kana)


def half_width(kana: str) -> str:
    """Return katakana as half-width katakana, voiced marks as characters of their own."""
    return "".join(_HALF_WIDTH.get(c, c) for c in kana)


def _half_width_table() -> dict[str, str]:
    plain = [chr(code) for code in range(0xFF66, 0xFF9E)]
    voiced = [c + mark for c in plain for mark in "ﾞﾟ"]
    table = {unicodedata.normalize("NFKC", c): c for c in (*plain, *voiced)}
    return {whole: half for whole, half in table.items() if len(whole) == 1}


_HALF_WIDTH = _half_width_table()

# Hepburn without marks for long vowels, as in passports.
_ROMAJI_ROWS = (
    ("アイウエオ", "a i u e o"),
    ("カキクケコ", "ka ki ku ke ko"),
    ("サシスセソ", "sa shi su se so"),
    ("タチツテト", "ta chi tsu te to"),
    ("ナニヌネノ", "na ni nu ne no"),
    ("ハヒフヘホ", "ha hi fu he ho"),
    ("マミムメモ", "ma mi mu me mo"),
    ("ヤユヨ", "ya yu yo"),
    ("ラリルレロ", "ra ri ru re ro"),
    ("ワヲン", "wa o n"),
    ("ガギグゲゴ", "ga gi gu ge go"),
    ("ザジズゼゾ", "za ji zu ze zo"),
    ("ダヂヅデド", "da ji zu de do"),
    ("バビブベボ", "ba bi bu be bo"),
    ("パピプペポ", "pa pi pu pe po"),
)
_ROMAJI = {
    kana: sound
    for row, sounds in _ROMAJI_ROWS
    for kana, sound in zip(row, sounds.split(), strict=True)
}
_SMALL = {"ャ": "a", "ュ": "u", "ョ": "o"}


def romaji_of(kana: str) -> str:
    """Return a katakana reading in Latin letters: Hepburn as in passports ("オオタ" is "Ota").

    Raises
    ------
    ValueError
        If a character is no katakana of a Japanese name.
    """
    sounds: list[str] = []
    is_doubled = False
    for c in kana:
        if c == "ッ":
            is_doubled = True
        elif c in _SMALL and sounds and sounds[-1].endswith("i"):
            stem = sounds.pop()[:-1]
            sounds.append(stem + ("" if stem.endswith(("sh", "ch", "j")) else "y") + _SMALL[c])
        elif c in _ROMAJI:
            sound = _ROMAJI[c]
            sounds.append(_doubled(sound) if is_doubled else sound)
            is_doubled = False
        else:
            raise ValueError("a reading holds a character that is no katakana of a name")
    return _folded_vowels(sounds).capitalize()


def _doubled(sound: str) -> str:
    return "t" + sound if sound.startswith("ch") else sound[0] + sound


def _folded_vowels(sounds: list[str]) -> str:
    # A long o or u is written once, but a final "o" of its own stays: セノオ is "Senoo".
    text = ""
    for place, sound in enumerate(sounds):
        is_last = place == len(sounds) - 1
        if sound == "u" and text.endswith(("o", "u")) and sounds[place + 1 : place + 2] != ["e"]:
            continue  # イノウエ is "Inoue"
        if sound == "o" and text.endswith("o") and not is_last:
            continue
        if sound[0] in "bmp" and text.endswith("n"):
            text = text[:-1] + "m"
        text += sound
    return text
