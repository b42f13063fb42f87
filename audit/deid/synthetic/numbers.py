"""Contact data and numbers of synthetic notes, in the many ways in which hospitals write them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from audit.deid import identity_numbers as numbers
from audit.deid.labels import CONTACT, LINKAGE_CODE, PERSONAL_ID_CODE
from audit.deid.synthetic.dice import Dice

_AREA_CODES = (
    *("03", "06", "011", "022", "025", "043", "045", "052", "075", "078", "082", "092", "0466"),
    *("0238", "0263", "0776", "0877", "0942", "0980", "0155", "0268", "0594", "0749", "0835"),
)
_DOMAINS = ("com", "org", "net")
_HOSTS = ("mail", "renkei", "hosp", "clinic", "info", "home")


def telephone(dice: Dice) -> str:
    """Return a Japanese telephone number of a fixed line."""
    code = dice.pick(_AREA_CODES)
    local = str(dice.between(2 * 10 ** (5 - len(code)), 10 ** (6 - len(code)) - 1))
    last = _digits(dice, 4)
    forms = (f"{code}-{local}-{last}",) * 6 + (
        f"{code}({local}){last}",
        f"({code}){local}-{last}",
        f"{code} {local} {last}",
        f"{code}{local}{last}",
        f"{code}（{local}）{last}",
        f"{code}ー{local}ー{last}",
        f"+81-{code[1:]}-{local}-{last}",
    )
    return dice.pick(forms)


def mobile(dice: Dice) -> str:
    """Return the number of a mobile telephone."""
    first = dice.pick(("070", "080", "090"))
    middle, last = str(dice.between(1000, 9999)), _digits(dice, 4)
    if dice.chance(0.15):
        return first + middle + last
    sign = dice.pick(("-",) * 8 + (" ", "ー", "－"))
    return f"{first}{sign}{middle}{sign}{last}"


def extension(dice: Dice) -> str:
    """Return the number of a telephone inside a hospital."""
    return str(dice.between(1000, 89999)) if dice.chance(0.3) else str(dice.between(2000, 8999))


def email(dice: Dice) -> str:
    """Return an address at a domain that can never exist (RFC 2606)."""
    name = "".join(dice.pick("abcdefghijklmnoprstuwy") for _ in range(dice.between(3, 9)))
    name += dice.pick(("", "", f".{dice.pick('abcdehikmnst')}", f"_{dice.between(1, 99)}", "0401"))
    host = dice.pick(("", "", f"{dice.pick(_HOSTS)}."))
    return f"{name}@{host}example.{dice.pick(_DOMAINS)}"


def web_address(dice: Dice) -> str:
    """Return the address of a page at a domain that can never exist."""
    page = dice.pick(("", "/", "/renkei/", "/gairai/index.html", "/contact"))
    return f"{dice.pick(('https://', 'http://', ''))}www.{dice.pick(_HOSTS)}.example.jp{page}"


def record(dice: Dice) -> str:
    """Return the number of a record, as one of many hospitals writes it."""
    n = dice.between(5, 10)
    forms = (_digits(dice, n, is_first_zero=n > 7),) * 6 + (
        f"{_digits(dice, 3)}-{_digits(dice, 4)}",
        f"{_digits(dice, 2)}-{_digits(dice, 5)}-{_digits(dice, 1)}",
        f"{dice.pick('ABCHKNPSX')}{_digits(dice, 6)}",
        f"{_digits(dice, 4)} {_digits(dice, 4)}",
        f"{dice.pick(('PT', 'ID', 'KH', 'NB'))}-{_digits(dice, 6)}",
    )
    return dice.pick(forms)


def specimen(dice: Dice) -> str:
    """Return the number of a specimen, an examination or a document."""
    year, letter = dice.between(5, 25), dice.pick("SPHBCTGKRX")
    forms = (
        f"{letter}{year:02d}-{_digits(dice, 5)}",
        f"{year:02d}-{_digits(dice, 5)}",
        f"20{year:02d}{_digits(dice, 6)}",
        f"{letter}-{_digits(dice, 6)}",
        f"{dice.pick(('CT', 'MR', 'US', 'XR', 'EN'))}{_digits(dice, 8)}",
        _digits(dice, dice.between(6, 12)),
        f"20{year:02d}-{_digits(dice, 4)}",
    )
    return dice.pick(forms)


def _digits(dice: Dice, n: int, *, is_first_zero: bool = True) -> str:
    low = 0 if is_first_zero or n == 1 else 10 ** (n - 1)
    return f"{dice.between(low, 10**n - 1):0{n}d}"


def _my_number(dice: Dice) -> str:
    text = numbers.my_number(dice.number())
    sign = dice.pick(("", "", " ", "-"))
    return sign.join((text[:4], text[4:8], text[8:]))


def _licence(dice: Dice) -> str:
    return numbers.licence_number(dice.number(), year=date(1960, 1, 1).year + dice.between(0, 55))


def _insured(dice: Dice) -> str:
    symbol = dice.pick(("", "", "国", "い", "公立", "健"))
    sign = dice.pick(("-", "・", "‐"))
    return f"{symbol}{_digits(dice, dice.between(2, 8))}{sign}{_digits(dice, dice.between(1, 7))}"


def _card(dice: Dice) -> str:
    def letters() -> str:
        return dice.pick("ABCDEFGHJKLMNPRSTU") + dice.pick("ABCDEFGHJKLMNPRSTU")

    return f"{letters()}{_digits(dice, 8)}{letters()}"


def _pension(dice: Dice) -> str:
    text = numbers.pension_number(dice.number())
    return text if dice.chance(0.8) else text.replace("-", "")


NUMBERS: dict[str, tuple[str, Callable[[Dice], str]]] = {
    "phone": (CONTACT, telephone),
    "fax": (CONTACT, telephone),
    "mobile": (CONTACT, mobile),
    "extension": (CONTACT, extension),
    "email": (CONTACT, email),
    "url": (CONTACT, web_address),
    "record": (LINKAGE_CODE, record),
    "specimen": (LINKAGE_CODE, specimen),
    "my_number": (PERSONAL_ID_CODE, _my_number),
    "pension": (PERSONAL_ID_CODE, _pension),
    "insurer": (PERSONAL_ID_CODE, lambda dice: numbers.insurer_number(dice.number())),
    "insured": (PERSONAL_ID_CODE, _insured),
    "insured.symbol": (PERSONAL_ID_CODE, lambda dice: _digits(dice, dice.between(2, 8))),
    "insured.number": (PERSONAL_ID_CODE, lambda dice: _digits(dice, dice.between(1, 7))),
    "resident": (PERSONAL_ID_CODE, lambda dice: numbers.resident_code(dice.number())),
    "licence": (PERSONAL_ID_CODE, _licence),
    "passport": (PERSONAL_ID_CODE, lambda dice: numbers.passport_number(dice.number())),
    "care_insured": (PERSONAL_ID_CODE, lambda dice: _digits(dice, 10)),
    "welfare": (PERSONAL_ID_CODE, lambda dice: _digits(dice, dice.pick((7, 8)))),
    "residence_card": (PERSONAL_ID_CODE, _card),
    "late_elderly": (PERSONAL_ID_CODE, lambda dice: _digits(dice, 8)),
}
"""Type and maker of each kind of number."""
