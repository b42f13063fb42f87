"""Places, numbers, ages and days of English notes in British and in short ways of writing.

The kinds of slots are the keys of `MORE_PLACES` and `MORE_NUMBERS`; `short_age` and `british_day`
answer the forms that `cast_en` hands on.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from audit.deid.labels import CONTACT, LINKAGE_CODE, PERSONAL_ID_CODE
from audit.deid.synthetic.dice import Dice
from audit.deid.synthetic.grammar import word_list

_KINDS = (
    *("Royal Infirmary", "General", "Infirmary", "District General Hospital", "Hospital", "RI"),
    *("Health Centre", "Surgery", "Community Hospital", "Medical Practice", "Hospice", "DGH"),
    *("VA Medical Center", "Eye Institute", "Urgent Care", "Medical Group", "Walk-in Centre"),
)
_SAINTS = ("Thomas", "George", "Mary", "James", "Barnabas", "Columba", "Hilda", "Cuthbert", "Bride")
_ROADS = (
    "Road",
    "Rd",
    "Street",
    "Close",
    "Crescent",
    "Terrace",
    "Grove",
    "Gardens",
    "Hill",
    "Mews",
)
_WARDS = (
    "Ward {n}",
    "Ward {n}{letter}",
    "{letter}{n}",
    "ward {n}",
    "{word} Ward",
    "Level {n} East",
)
_WARD_NAMES = ("Nightingale", "Elm", "Lister", "Churchill", "Cedar", "Fleming", "Heron", "Willow")
_BRITISH = (
    *(
        "{0:%d}/{0:%m}/{0:%Y}",
        "{0:%d}/{0:%m}/{0:%y}",
        "{0:%d}.{0:%m}.{0:%y}",
        "{0.day} {0:%B} {0.year}",
    ),
    *("{0.day}{nth} {0:%B} {0.year}", "{0.day} {0:%b} {0:%y}", "{0:%d}-{0:%b}-{0:%Y}"),
    *("{0.day}.{0.month}.{0.year}", "{0:%d}{0:%b}{0:%Y}"),
)
_BRIEF = (
    *(
        "{0.day}/{0.month}",
        "{0.month}/{0.day}",
        "{0.day} {0:%B}",
        "{0.day}{nth} {0:%B}",
        "{0:%b} {0.day}",
    ),
    *("{0.day} {0:%b}", "{0:%d}-{0:%b}", "{0:%B} {0.day}", "{0:%d}/{0:%m}", "{0.day}{nth} {0:%b}"),
)


def british_day(day: date, dice: Dice, *, has_year: bool) -> str:
    """Return a day in one of many ways, with its year or without."""
    last = day.day % 10 if day.day not in (11, 12, 13) else 0
    nth = {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
    return dice.pick(_BRITISH if has_year else _BRIEF).format(day, nth=nth)


def short_age(years: int, sex: str, dice: Dice) -> str:
    """Return an age in short: 34y, or with the sex M or F where `sex` is one, in one piece: 34F."""
    if sex:
        return dice.pick((f"{years}{sex}",) * 5 + (f"{years}y{sex}", f"{years}yo{sex}"))
    unit = dice.pick(
        ("y", "y", "yo", "yrs", " yrs", " yo", " years", "y/o", " yr old", " years old")
    )
    return f"{years}{unit}"


def _blanked(name: str) -> Callable[[Dice], str]:
    return lambda dice: dice.pick(word_list("en", name)).replace("_", " ")


_place, _craft = _blanked("places"), _blanked("crafts")


def _infirmary(dice: Dice) -> str:
    kind = dice.between(0, 9)
    if kind == 0:
        return f"St {dice.pick(_SAINTS)}'{dice.pick(('s', 's', ''))} Hospital"
    if kind == 1:
        return f"St. {dice.pick(_SAINTS)}'s"
    where = _place(dice) if kind < 7 else dice.pick(word_list("en", "surnames_more"))
    return f"{where} {dice.pick(_KINDS)}"


def _street(dice: Dice) -> str:
    name = dice.pick(word_list("en", dice.pick(("surnames_more", "towns", "surnames"))))
    flat = dice.pick(("", "", "", f"Flat {dice.between(1, 30)}, "))
    return f"{flat}{dice.between(1, 240)} {name} {dice.pick(_ROADS)}"


def _postcode(dice: Dice) -> str:
    letters = "ABDEFGHJLNPQRSTUWXYZ"
    end = f"{dice.between(1, 9)}{dice.pick(letters)}{dice.pick(letters)}"
    area = dice.pick(("LS", "M", "SW", "E", "NE", "EX", "CF", "BT", "G", "PO", "B", "YO", "TN"))
    return f"{area}{dice.between(1, 28)} {end}"


def _full_address(dice: Dice) -> str:
    return f"{_street(dice)}, {_place(dice)}{dice.pick((' ', ', '))}{_postcode(dice)}"


def _telephone(dice: Dice) -> str:
    # Numbers that Ofcom and the NANP keep for stories.
    last = f"{dice.between(0, 999):03d}"
    return dice.pick(
        (
            f"020 7946 0{last}",
            f"07700 900{last}",
            f"07700900{last}",
            f"0113 496 0{last}",
            f"01632 960{last}",
            f"01632 960 {last}",
            f"+44 7700 900{last}",
            f"(0161) 496 0{last}",
            f"555-0{last}",
            f"1-800-555-0{last}",
        )
    )


def _ward(dice: Dice) -> str:
    form, word = dice.pick(_WARDS), dice.pick(_WARD_NAMES)
    return form.format(n=dice.between(1, 34), letter=dice.pick("ABCDE"), word=word)


def _digits(dice: Dice, n: int) -> str:
    return f"{dice.between(0, 10**n - 1):0{n}d}"


def _health_number(dice: Dice) -> str:
    sign = dice.pick((" ", " ", "-", ""))
    return sign.join((f"9{_digits(dice, 2)}", _digits(dice, 3), _digits(dice, 4)))


def _passport(dice: Dice) -> str:
    letters = "".join(dice.pick("ABCEGHJKLMNPRTXZ") for _ in range(2))
    return dice.pick((_digits(dice, 9), letters[0] + _digits(dice, 8), letters + _digits(dice, 7)))


def _device(dice: Dice) -> str:
    letters = "".join(dice.pick("ABCDEFGHKLMNPRSTX") for _ in range(3))
    return dice.pick(
        (
            f"{letters}{_digits(dice, 6)}",
            f"{letters}-{_digits(dice, 4)}-{_digits(dice, 3)}",
            f"{letters[:2]}{_digits(dice, 2)}-{_digits(dice, 5)}",
            f"SN{_digits(dice, 8)}",
            _digits(dice, 10),
            f"{_digits(dice, 4)}{letters[0]}{_digits(dice, 4)}",
        )
    )


def _insurance_number(dice: Dice) -> str:
    pairs = (dice.pick("ABCEHJKLMNPRSTWXYZ") + dice.pick("ABCEHJKLMNPRSTWXYZ"), dice.pick("ABCD"))
    sign = dice.pick((" ", ""))
    return sign.join((pairs[0], *(_digits(dice, 2) for _ in range(3)), pairs[1]))


MORE_PLACES: dict[str, Callable[[Dice], str]] = {
    "place": _place,
    "place2": _place,
    "craft": _craft,
    "infirmary": _infirmary,
    "street": _street,
    "full_address": _full_address,
    "uk_ward": _ward,
}
"""Makers of quasi-identifiers by the kind of a slot."""

MORE_NUMBERS: dict[str, tuple[str, Callable[[Dice], str]]] = {
    "telephone": (CONTACT, _telephone),
    "extension": (CONTACT, lambda dice: str(dice.between(1000, 9999))),
    "health_number": (PERSONAL_ID_CODE, _health_number),
    "insurance_number": (PERSONAL_ID_CODE, _insurance_number),
    "any_passport": (PERSONAL_ID_CODE, _passport),
    "device": (LINKAGE_CODE, _device),
}
"""Type and maker of each kind of number."""
