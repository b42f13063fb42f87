"""Numbers that public bodies and hospitals give a person: of the right form, with check digits.

Comes in: a number drawn for a person, of 64 bits. Goes out: a text. Nothing is looked up: a number
here may by chance be a real person's.

My Number: Order of the Ministry of Internal Affairs 85 of 2014, article 5. Insurer's number: the
verification number of the health insurance law's forms. Licence, passport, resident record and
basic pension number: the form only (see `pension_number`).
"""

from __future__ import annotations

_LETTERS = "ACDEFGHJKMNPQRTUVWXY"
_MY_NUMBER_WEIGHTS = (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)
_N_PREFECTURES = 47
# Kinds of insurance: association, company, day labourers, public servants, teachers, late elderly.
_INSURANCE_LAWS = ("01", "06", "03", "31", "32", "34", "39")
# Of the commissions that issue licences: Hokkaido, the prefectures, by tens of the region.
_COMMISSIONS = ("10", "20", "30", "40", "44", "45", "50", "54", "60", "62", "73", "90")
_PASSPORT_LETTERS = "TM"


def my_number(number: int) -> str:
    """Return a My Number: 11 digits and their check digit."""
    body = _digits(number, n=11)
    return body + my_number_check_digit(body)


def my_number_check_digit(body: str) -> str:
    """Return the check digit of the first 11 digits: modulus 11; a rest of 0 or 1 gives 0.

    Raises
    ------
    ValueError
        If these are not 11 digits.
    """
    rest = _weighted(body, _MY_NUMBER_WEIGHTS) % 11
    return "0" if rest <= 1 else str(11 - rest)


def insurer_number(number: int, *, is_national: bool = False) -> str:
    """Return an insurer's number: 8 digits, of the national insurance 6; the last one checks.

    The prefecture is one of 47, the kind one of those in use; the insurer is invented.
    """
    number, law = divmod(number, len(_INSURANCE_LAWS))
    number, prefecture = divmod(number, _N_PREFECTURES)
    body = f"{prefecture + 1:02d}{number % 1000:03d}"
    if not is_national:
        body = _INSURANCE_LAWS[law] + body
    return body + insurer_check_digit(body)


def insurer_check_digit(body: str) -> str:
    """Return the check digit: weights 2, 1, 2 ... from the right, digits of products added up.

    Raises
    ------
    ValueError
        If these are not digits.
    """
    _weighted(body, (1,) * len(body))
    total = 0
    for place, digit in enumerate(reversed(body)):
        tens, ones = divmod(int(digit) * (2 - place % 2), 10)
        total += tens + ones
    return str(-total % 10)


def insured_symbol(number: int) -> str:
    """Return symbol and number of an insured person, as on a card: "12345-678"."""
    digits = _digits(number, n=8)
    return f"{digits[:5]}-{digits[5:]}"


def pension_number(number: int) -> str:
    """Return a basic pension number: 4 digits, a dash, 6 digits.

    No published rule for a check digit of these was found, so there is none.
    """
    digits = _digits(number, n=10)
    return f"{digits[:4]}-{digits[4:]}"


def resident_code(number: int) -> str:
    """Return a resident record code: 11 digits, the form only."""
    return _digits(number, n=11)


def licence_number(number: int, *, year: int) -> str:
    """Return a Japanese driving licence's number: commission, year, 6 digits, 2 that end it.

    Parameters
    ----------
    year
        In which it was first given.
    """
    number, commission = divmod(number, len(_COMMISSIONS))
    return f"{_COMMISSIONS[commission]}{year % 100:02d}{_digits(number, n=7)}0"


def passport_number(number: int) -> str:
    """Return a Japanese passport's number: two letters and 7 digits."""
    number, first = divmod(number, len(_PASSPORT_LETTERS))
    number, second = divmod(number, len(_LETTERS))
    return _PASSPORT_LETTERS[first] + _LETTERS[second] + _digits(number, n=7)


def record_number(number: int, *, n_digits: int) -> str:
    """Return a hospital's record number, which does not begin with 0."""
    number, first = divmod(number, 9)
    return str(first + 1) + _digits(number, n=n_digits - 1)


def social_security_number(number: int) -> str:
    """Return a US social security number from the range 900-999, which is never given out."""
    digits = _digits(number, n=8)
    return f"9{digits[:2]}-{digits[2:4]}-{digits[4:]}"


def us_passport_number(number: int) -> str:
    """Return a US passport's number: 9 digits."""
    return _digits(number, n=9)


def us_licence_number(number: int) -> str:
    """Return a number as many US states write a driving licence's: a letter and 8 digits."""
    number, letter = divmod(number, len(_LETTERS))
    return "S" + _digits(number, n=8) if letter == 0 else _LETTERS[letter] + _digits(number, n=8)


def health_plan_number(number: int) -> str:
    """Return a number of the form of a Medicare card: 1EG4-TE5-MK73."""
    text = ""
    for mark in "CAND-AND-AADD":
        if mark == "-":
            text += mark
            continue
        choices = {"C": "123456789", "A": _LETTERS, "D": "0123456789"}.get(
            mark, "0123456789" + _LETTERS
        )
        number, choice = divmod(number, len(choices))
        text += choices[choice]
    return text


def _digits(number: int, *, n: int) -> str:
    return f"{number % 10**n:0{n}d}"


def _weighted(body: str, weights: tuple[int, ...]) -> int:
    if len(body) != len(weights) or not (body.isascii() and body.isdigit()):
        raise ValueError(f"{len(weights)} digits were expected")
    return sum(int(digit) * weight for digit, weight in zip(body, weights, strict=True))
