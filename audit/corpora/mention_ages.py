"""Ages in English text: "70-year-old", "70 y/o", "seventy year old", "70M", and the sex after them.

Comes in: a text. Goes out: offsets, years, sex. A length of time ("a 3 day course", "10 year
history", "20 pack-year") is no age: the word "old", "y/o" or a word for the sex must follow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from audit.corpora.mention_words import FEMALE, MALE, SHORT_SEX, word_set

MAX_YEARS = 120
_REACH_CHARS = 110

_UNITS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TEENS = [
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_NUMBERS = {word: n for n, word in enumerate([*_UNITS, *_TEENS], start=1)}
_NUMBERS |= {word: 10 * n for n, word in enumerate(_TENS, start=2)} | {"hundred": 100}
_IN_WORDS = (
    rf"(?:{'|'.join(_TENS)})(?:[-\s]{{1,2}}(?:{'|'.join(_UNITS)}))?|(?:one[-\s])?hundred"
    rf"|{'|'.join([*_TEENS, *_UNITS])}"
)
_SEX = "|".join(sorted((word for word in MALE | FEMALE if len(word) > 2), key=len, reverse=True))
_GAP = r"[-\s\u2010-\u2015]{0,4}"
_UNIT = r"(?P<unit>y(?:ea)?rs?\.?|months?|mos?\.?|weeks?|wks?\.?|days?)"
_MORE = rf"(?:,?{_GAP}(?:and\s)?\d{{1,2}}{_GAP}(?:months?|mos?\.?|weeks?|days?))?"
_OLD = (
    rf"{_GAP}{_UNIT}{_MORE}{_GAP}(?:old\b|of\sage\b|(?=(?:{_SEX})\b))"
    r"|[-\s]{0,3}(?:y\.?\s?/?\s?o\b\.?|yr?s?\.?\s?/\s?o\b)"
)
# The first character decides quickly, which is why "nothing before it" is asked after it.
_IN_DIGITS = re.compile(
    r"(?P<number>(?:[0-9](?<![\w./,\[-][0-9])[0-9]{0,2}(?:\s?[-\s]\s?\d/\d|\.\d)?)"
    r"|(?:_(?<!\w_)_{2,11})|(?:\[(?:\*\*[^\[\]]{0,60}\*\*|AGE|Age|age)\]))"
    rf"(?:(?i:{_OLD})|\s?(?=(?:[WBH]?[MF]|AA[MF])(?![\w/'%-]))|(?P<nothing>(?=[^\w])))"
)
_WORDS = re.compile(
    rf"(?<![\w-])(?P<number>{_IN_WORDS})(?:{_OLD}|(?P<nothing>(?=\W)))", re.IGNORECASE
)
_MAYBE_OLD = re.compile(r"[oO](?:[lL][dD]\b|(?<=[yY/.][oO])\b)")
_AGED = re.compile(r"(?:(?<!\w)aged|,\sage:?)\s{1,3}\Z", re.IGNORECASE)
_RANGE = re.compile(r"\s?(?:to|and|[-\u2013])\s?\d")
_LONGEST_IN_WORDS = 45
_YEARS_OF = {"y": 1.0, "m": 1 / 12, "w": 7 / 365.25, "d": 1 / 365.25}
_TOKEN = re.compile(r"[^\W\d_][\w'’./]{0,40}|\d+|[^\s\w]|\n\s*\n")
# What follows these is not a description of the person any more.
_ENDS = word_set(
    """
    with who whose whom that which presenting presents presented status s/p noted referred for
    in of from is was has had having here at on to by seen admitted transferred complaining
    found evaluated being being followed living suffering undergoing brought when
    """
)
_PEOPLE = word_set("patient pt infant child baby adult adolescent")


@dataclass(frozen=True)
class Age:
    """An age and the sex that goes with it.

    Offsets of the age itself (`start`, `end`) and of the end of the description ("man", "male
    patient"); `end` again where no sex follows. `is_short` for "70M", `is_aged` for "aged 70".
    """

    start: int
    end: int
    description_end: int
    years: float
    sex: str
    is_short: bool
    is_aged: bool


def find_ages(text: str) -> Iterator[Age]:
    """Yield the ages of people in a text, in order; those above 120 years are none."""
    found = {match.start(): match for match in _IN_DIGITS.finditer(text)}
    for hit in _MAYBE_OLD.finditer(text):
        first = max(0, hit.start() - _LONGEST_IN_WORDS)
        for match in _WORDS.finditer(text, first, hit.end()):
            if match.end() == hit.end():
                found.setdefault(match.start(), match)
    for start in sorted(found):
        age = _age(text, found[start])
        if age is not None:
            yield age


def _age(text: str, match: re.Match[str]) -> Age | None:
    is_bare = match["nothing"] is not None
    if is_bare:
        is_aged = _AGED.search(text, max(0, match.start() - 8), match.start())
        if not is_aged or _RANGE.match(text, match.end()):
            return None
    unit = match["unit"] or "y"
    years = _years(match["number"], unit)
    if years > MAX_YEARS:
        return None
    end = match.end()
    end += match[0][-1:] in "oO" and text[end : end + 1] == "."  # y.o.
    sex, description_end = sex_after(text, at=end)
    return Age(
        start=match.start(),
        end=end,
        description_end=description_end,
        years=years,
        sex=sex,
        is_short=not is_bare and match.end() == match.end("number"),
        is_aged=is_bare,
    )


def sex_of(word: str) -> str:
    """Return "male" or "female" for a word or an abbreviation in capitals, else ""."""
    if word in SHORT_SEX:
        return SHORT_SEX[word]
    folded = word.lower()
    if len(folded) > 3 or folded in ("man", "boy"):
        return "male" if folded in MALE else "female" if folded in FEMALE else ""
    if folded == "men":
        return "male"
    return ""


def sex_after(text: str, *, at: int) -> tuple[str, int]:
    """Return the sex that is said after an age, and where the description ends (`at`: not said)."""
    sex, end = "", at
    for count, match in enumerate(_TOKEN.finditer(text, at, at + _REACH_CHARS)):
        word = match[0].rstrip(".").lower()
        if sex:
            is_more = word in _PEOPLE and not text[end : match.start()].strip()
            return sex, match.end() if is_more else end
        if match[0] in '.;:()"[' or match[0].startswith("\n") or word in _ENDS:
            break
        sex = sex_of(match[0].rstrip("."))
        if not sex and count == 0 and word in ("m", "f"):
            sex = "male" if word == "m" else "female"
        if sex:
            end = match.start() + len(match[0].rstrip("."))
    return sex, end


def _years(number: str, unit: str) -> float:
    number = number.lower()
    if number[0] in "[_":
        return math.nan
    if number[0].isdigit():
        whole = re.match(r"\d+", number)
        part = re.search(r"(\d)/(\d)$", number)
        years = float(number) if "." in number else float(whole[0]) if whole else math.nan
        if part and int(part[2]):
            years += int(part[1]) / int(part[2])
    else:
        years = float(sum(_NUMBERS[word] for word in re.split(r"[-\s]+", number)))
        years = 100.0 if "hundred" in number else years
    return years * _YEARS_OF[unit[0].lower()]
