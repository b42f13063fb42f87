"""A Japanese name in one of the many forms in which a synthetic note may write it, and its type."""

from __future__ import annotations

from audit.deid.labels import IDENTIFIER
from audit.deid.labels import QUASI_IDENTIFIER as QUASI
from audit.deid.name_variants import PersonName, full_form, half_width, hiragana, label_of, written
from audit.deid.synthetic.dice import Dice
from audit.deid.synthetic.grammar import word_list
from audit.deid.synthetic.writer import Piece

_USUAL_SHARE = 0.85
_READINGS = ("kana", "half_kana", "hiragana")


def named(name: PersonName, form: str, *, usual: str, dice: Dice) -> Piece:
    """Return a name in a form; "" is the whole name in kanji, most often in the `usual` form."""
    if form == "foreign":
        return Piece(_foreign(dice), IDENTIFIER)
    if form == "romaji":
        return Piece(_romaji(name, dice), IDENTIFIER)
    if form in _READINGS:
        gaps = (" ", " ", "") if form == "half_kana" else (" ", " ", "　", "")
        return Piece(written(name, form).replace(" ", dice.pick(gaps)), IDENTIFIER)
    if form == "initial":
        return Piece(name.surname.romaji[0], QUASI)
    if form == "dotted":
        return Piece(_dotted(name, dice), QUASI)
    if form == "initials":
        return Piece(_initials(name, dice), QUASI)
    if form.startswith("surname_"):
        return Piece(_surname(name, form.partition("_")[2]), QUASI)
    if not form:
        form = usual if dice.chance(_USUAL_SHARE) else full_form(name.locale, dice.number())
    return Piece(written(name, form), label_of(form))


def _foreign(dice: Dice) -> str:
    surname = dice.pick(word_list("ja", "foreign_surnames"))
    return surname + dice.pick(("・", " ", "　")) + dice.pick(word_list("ja", "foreign_given"))


def _surname(name: PersonName, form: str) -> str:
    kana = name.surname.kana
    return {
        "kana": kana,
        "hiragana": hiragana(kana),
        "half_kana": half_width(kana),
        "romaji": name.surname.romaji,
    }[form]


def _initials(name: PersonName, dice: Dice) -> str:
    surname, given = name.surname.romaji[0], name.given.romaji[0]
    wide = f"{surname}．{given}．"
    return dice.pick((f"{surname}.{given}.", f"{surname}.{given}", f"{surname}{given}", wide))


def _dotted(name: PersonName, dice: Dice) -> str:
    surname, given = name.surname.romaji[0], name.given.romaji[0]
    wide = "".join(chr(ord(letter) + 0xFEE0) for letter in surname + given)
    forms = (
        f"{surname}・{given}",
        f"{surname}.{given}.",
        f"{surname}. {given}.",
        f"{surname}.{given}",
    )
    return dice.pick(
        (
            *forms,
            f"{wide[0]}・{wide[1]}",
            forms[0],
            forms[0],
            f"{wide[0]}.{wide[1]}.",
            wide,
            f"{given}.{surname}.",
        )
    )


def _romaji(name: PersonName, dice: Dice) -> str:
    surname, given = name.surname.romaji, name.given.romaji
    return dice.pick(
        (
            f"{given} {surname}",
            f"{surname} {given}",
            f"{surname.upper()} {given}",
            f"{surname.upper()} {given.upper()}",
            f"{given} {surname.upper()}",
            f"{surname}, {given}",
        )
    )
