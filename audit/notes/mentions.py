"""Mentions: where a text names a person beside an age, as in "X is a 70-year-old man".

Comes in: a text with names, with placeholders (MIMIC-III, MIMIC-IV, `[NAME]`), or in Japanese.
Goes out: mentions with offsets, and the ages that have none with the reason. Time linear in the
length of the text: only a fixed number of characters beside each age is looked at.

Source: Nakamura et al., section 3.4 ("X is a(n) Y year(s) old (fe)male"). Differs: the published
expression misses placeholders it does not list, middle initials, "Mr. LAST", "LAST, FIRST",
", a 42 year old" and line breaks, and takes "is a 3 day course of" for an age.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from audit.notes.mention_words import (
    ADVERBS,
    ARTICLES,
    AS,
    COPULAS,
    FEMALE,
    GENERIC,
    MALE,
    NAMED,
    OWNERS,
    PARTICLES,
    PLACE_WORDS,
    RELATIVES,
    SELDOM_FIRST_NAMES,
    SHORT_SEX,
    STAFF_TITLES,
    SUFFIXES,
    THINGS,
    TITLES,
    Mention,
    Token,
    Unnamed,
    is_adverb,
    is_plain_word,
    is_seldom_name,
    may_be_name,
    tokens_after,
    tokens_before,
    word_set,
)
from audit.notes.mentions_ja import find_japanese

MAX_YEARS = 120
_REACH_CHARS = 110

_UNITS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TEENS = ["ten", "eleven", "twelve", "thirteen", "fourteen"]
_TEENS += ["fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
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
    if len(folded) > 3 or folded in ("man", "men", "boy"):
        return "male" if folded in MALE else "female" if folded in FEMALE else ""
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


_STUB = re.compile(r"(?:\w|(\w)\1+|abc\w*|xyz\w*)\Z", re.IGNORECASE)


@dataclass(frozen=True)
class FoundName:
    """A name and its place: parts as in `Mention`, `first_token` its first token's index."""

    first: str
    last: str
    roles: tuple[str, ...]
    title: str
    start: int
    end: int
    is_placeholder: bool
    is_capitals: bool
    first_token: int

    @property
    def n_parts(self) -> int:
        """1 for a lone first or last name, 2 for a full name."""
        return 2 if self.roles == ("full",) else len(self.roles)

    @property
    def is_stub(self) -> bool:
        """Whether letters stand in the name's place: "A", "XX", "ABC"."""
        return not self.is_placeholder and bool(_STUB.match(self.last or self.first))


def is_particle(token: Token) -> bool:
    """Whether a token is "van", "de" ...: a part of a last name in small letters."""
    return token.kind == "word" and token.folded in PARTICLES


def named(
    items: Sequence[Token],
    given: Sequence[Token],
    *,
    title: str,
    first_token: int,
    is_reversed: bool,
) -> FoundName:
    """Return the name that tokens make; `given` are those behind the comma of "Last, First"."""
    everything = [*items, *given]
    is_placeholder = any(item.kind == "placeholder" for item in everything)
    if is_reversed:
        words = [item.text for item in given if item.kind != "initial"] or [given[0].text]
        first, last = words[0], " ".join(item.text for item in items)
        roles: tuple[str, ...] = ("last", "first")
    elif is_placeholder:
        first, last = "", ""
        roles = _placeholder_roles(items, title=title)
    else:
        first, last = _split(items, title=title)
        roles = ("first", "last") if first else ("last",)
    if is_placeholder:
        first, last = "", ""
    return FoundName(
        first=first,
        last=last,
        roles=roles,
        title=title,
        start=everything[0].start,
        end=everything[-1].end,
        is_placeholder=is_placeholder,
        is_capitals=all(i.is_capitals for i in everything if i.kind == "word"),
        first_token=first_token,
    )


def _split(items: Sequence[Token], *, title: str) -> tuple[str, str]:
    particle = next((n for n, i in enumerate(items) if n and is_particle(i)), None)
    if particle is not None and particle < len(items) - 1:
        return items[0].text, " ".join(item.text for item in items[particle:])
    is_joined = is_particle(items[0]) and (bool(title) or items[0].text.islower())
    if is_joined and len(items) > 1:  # "Mr. De Luca", but "Al Roe"
        return "", " ".join(item.text for item in items)
    return (items[0].text if len(items) > 1 else "", items[-1].text)


def _placeholder_roles(items: Sequence[Token], *, title: str) -> tuple[str, ...]:
    roles = [i.role if i.kind == "placeholder" else "blank" for i in items if i.kind != "initial"]
    roles = [role for role in roles if role != "initial"]
    if "full" in roles or roles == ["blank"]:
        return ("last",) if title and "full" not in roles else ("full",)
    named = [role for role in roles if role in ("first", "last")]
    if len(set(named)) == 2:
        return tuple(dict.fromkeys(named))
    if named and len(roles) == 1:
        return (named[0],)
    return ("last", "first") if named == ["last"] and roles[0] == "last" else ("first", "last")


_MAX_ITEMS = 7
_WRAPPED_CHARS = 40  # a line this long was broken by its length, not by its meaning
_OPENERS = ".:;(-–—*•\"'["


def name_before(
    tokens: Sequence[Token], *, last: int, text: str, known: Collection[str] = ()
) -> FoundName | None:
    """Return the name whose last token is `tokens[last]`; None where there is none."""
    index = _without_suffix(tokens, last)
    items, index, title = _collected(tokens, index, text=text, known=known)
    items = _without_heading(items) if not title else items
    is_lone = not [item for item in items if item.kind != "initial"]
    if is_lone and not (title and items):  # "Mr. A": an initial alone, but behind a title
        return None
    first_token = tokens.index(items[0])
    if not title and first_token > 0 and tokens[first_token - 1].text == ",":
        family = _family_before(tokens, first_token - 2, given=items, known=known)
        if family:
            first_token = tokens.index(family[0])
            return named(family, items, title="", first_token=first_token, is_reversed=True)
    return named(items, [], title=title, first_token=first_token, is_reversed=False)


def name_from(
    tokens: Sequence[Token], *, at: int, known: Collection[str] = ()
) -> tuple[FoundName | None, int]:
    """Return the name whose first token is `tokens[at]`, and the index of the token behind it."""
    title, index = "", at
    items: list[Token] = []
    if index < len(tokens) and _is_title(tokens[index]):
        title, index = tokens[index].folded, index + 1
    while index < len(tokens) and len(items) < _MAX_ITEMS:
        token = tokens[index]
        is_inner = bool(items) and token.kind == "line" and len(items) < 2
        if not (_is_item(token, known) or is_inner or (items and is_particle(token))):
            break
        if not is_inner:
            items.append(token)
        index += 1
    while items and is_particle(items[-1]):
        items, index = items[:-1], index - 1
    if len(items) > 1 and items[-1].folded in SUFFIXES:
        items = items[:-1]
    if not [item for item in items if item.kind != "initial"]:
        return None, index
    return named(items, [], title=title, first_token=at, is_reversed=False), index


def has_relative_before(tokens: Sequence[Token], *, first_token: int) -> bool:
    """Whether "mother", "his wife," or the like stands right before a name."""
    index = first_token - 1
    if index >= 0 and _is_title(tokens[index]):
        index -= 1
    while index >= 0 and tokens[index].text in (",", "(", "\n", ":"):
        index -= 1
    return index >= 0 and tokens[index].folded in RELATIVES


def is_owner(tokens: Sequence[Token], *, first_token: int) -> bool:
    """Whether a name says whose somebody is: "the son of X", "a patient of Dr. X"."""
    index = first_token - 1
    if index >= 0 and _is_title(tokens[index]):
        index -= 1
    return index >= 0 and tokens[index].folded in OWNERS


def begins_clause(tokens: Sequence[Token], *, first_token: int) -> bool:
    """Whether nothing, a line break or a mark other than a comma stands before a token."""
    if first_token <= 0:
        return True
    before = tokens[first_token - 1]
    return before.kind in ("line", "empty") or before.text in _OPENERS


def _is_title(token: Token) -> bool:
    return token.kind == "word" and token.folded in TITLES


def _is_item(token: Token, known: Collection[str]) -> bool:
    if token.kind == "placeholder":
        return token.role != "other"
    return token.kind == "initial" or may_be_name(token, known=known)


def _without_suffix(tokens: Sequence[Token], last: int) -> int:
    if last > 1 and tokens[last].folded in SUFFIXES and tokens[last].text[0].isupper():
        return last - 2 if tokens[last - 1].text == "," else last - 1
    return last


def _collected(
    tokens: Sequence[Token], index: int, *, text: str, known: Collection[str]
) -> tuple[list[Token], int, str]:
    """Walk back over the parts of a name; return them in order, where they end, and the title."""
    items: list[Token] = []
    while index >= 0 and len(items) < _MAX_ITEMS:
        token = tokens[index]
        if items and _is_title(token):
            return items[::-1], index, token.folded
        if items and token.text in "\"”')":
            index = _before_nickname(tokens, index)
            if index < 0:
                break
            continue
        if token.kind == "line":
            if not items or not _goes_on(tokens, index, items, text):
                break
        elif (
            _is_item(token, known)
            or (items and is_particle(token))
            or _is_lower_behind_title(tokens, index)
            or _is_seldom_name_here(tokens, index, items, known)
        ):
            items.append(token)
        else:
            break
        index -= 1
    return items[::-1], index, ""


def _before_nickname(tokens: Sequence[Token], index: int) -> int:
    openers = {'"': '"', "”": "“", "'": "'", ")": "("}
    for back in (2, 3):
        if index - back >= 0 and tokens[index - back].text == openers[tokens[index].text]:
            return index - back - 1
    return -1


def _goes_on(tokens: Sequence[Token], index: int, items: Sequence[Token], text: str) -> bool:
    """Whether a name may go on before a line break: the line is full, or ends with a title."""
    if index and _is_title(tokens[index - 1]):
        return True
    n_words = sum(item.kind != "initial" for item in items)
    at = tokens[index].start
    line_start = text.rfind("\n", max(0, at - 200), at)
    return n_words < 2 and at - max(line_start, 0) >= _WRAPPED_CHARS


def _is_seldom_name_here(
    tokens: Sequence[Token], index: int, items: Sequence[Token], known: Collection[str]
) -> bool:
    """Whether White or Christian is a name here: behind another part, or the first before one."""
    before = tokens[index - 1] if index else None
    if not items and before is not None and _is_title(before):
        return tokens[index].kind == "word" and tokens[index].text[0].isupper()
    if not is_seldom_name(tokens[index]):
        return False
    if not items:
        is_known = before is not None and _is_item(before, known)
        return is_known or (before is not None and before.folded in SELDOM_FIRST_NAMES)
    n_words = sum(item.kind != "initial" for item in items)
    is_led = before is not None and (
        before.folded in ("patient", "pt")
        or (
            tokens[index].folded in SELDOM_FIRST_NAMES and (before.text == "," or _is_title(before))
        )
    )
    return n_words == 1 and (begins_clause(tokens, first_token=index) or is_led)


def _is_lower_behind_title(tokens: Sequence[Token], index: int) -> bool:
    token = tokens[index]
    if not index or token.kind != "word" or not is_plain_word(token):
        return False
    before = tokens[index - 1]
    is_second = index > 1 and before.text.islower() and is_plain_word(before)
    return _is_title(before) or (is_second and _is_title(tokens[index - 2]))


def _without_heading(items: list[Token]) -> list[Token]:
    """Drop what stands before the name on its line: "HPI John Smith", "Sadly John Smith"."""
    words = [item for item in items if item.kind == "word" and not is_particle(item)]
    if words and not words[-1].is_capitals:
        headings = [w for w in words if w.is_capitals and len(w.text) > 2]
        if headings and (len(words) > 2 or len(headings[-1].text) > 3):
            items = items[items.index(headings[-1]) + 1 :]
            words = [item for item in items if item.kind == "word" and not is_particle(item)]
    if len(words) > 2 and (is_adverb(words[0]) or words[0].folded in ADVERBS):
        items = items[items.index(words[0]) + 1 :]
    return items


def _family_before(
    tokens: Sequence[Token], index: int, *, given: Sequence[Token], known: Collection[str]
) -> list[Token]:
    """Return the family name before "," of "Last, First"; empty where it is no such pair."""
    given_words = [item for item in given if item.kind != "initial"]
    all_capitals = all(item.is_capitals for item in given_words)
    if len(given_words) > (2 if all_capitals else 1):
        return []
    if given_words and given_words[0].kind == "placeholder" and given_words[0].role != "first":
        return []
    family: list[Token] = []
    while index >= 0 and len(family) < 4:
        token = tokens[index]
        is_part = _is_item(token, known) or is_particle(token)
        is_part = is_part or (not family and is_seldom_name(token))
        if not is_part or token.kind == "initial":
            break
        family.insert(0, token)
        index -= 1
    while family and is_particle(family[0]) and family[0].text.islower():
        family.pop(0)
    words = [item for item in family if not is_particle(item)]
    if not words or len(words) > 2 or (len(words) == 1 and is_adverb(words[0])):
        return []
    if words[0].kind == "placeholder" and words[0].role not in ("last", "blank"):
        return []
    first_token = tokens.index(family[0])
    return family if _may_begin(tokens, first_token) else []


def _may_begin(tokens: Sequence[Token], first_token: int) -> bool:
    """Whether "Last, First" may begin here: after a mark or a word, but not "in Boston, John"."""
    if begins_clause(tokens, first_token=first_token):
        return True
    before = tokens[first_token - 1]
    if before.text == "," and first_token > 1:
        before = tokens[first_token - 2]
        return before.kind == "word" and before.text[0].islower()
    return before.kind == "word" and before.folded not in PLACE_WORDS


_MODIFIERS = 12  # tokens at most between "a" and the age
_ASIDE = 16  # tokens at most in brackets or between commas
_LINKS = COPULAS | {"as", "be"}
_SENTENCES = ("is_a", "is_old")
_DASHES = frozenset("-–—―")


def find_mentions(text: str, *, known: Collection[str] = ()) -> tuple[Mention, ...]:
    """Find the people who are named beside their age, in the order of the text.

    `known` holds parts of names, as `audit.text.fold_name` gives them, that count whatever their
    case, as from a register of patients; for notes without capitals.
    """
    return tuple(found for found in examine(text, known=known) if isinstance(found, Mention))


def examine(text: str, *, known: Collection[str] = ()) -> Iterator[Mention | Unnamed]:
    """Yield, for every age of a person, the mention it belongs to or why there is none."""
    found: list[Mention | Unnamed] = [_subject(text, age, known=known) for age in find_ages(text)]
    found += find_japanese(text)
    last_end = -1
    for each in sorted(found, key=lambda mention: (mention.start, -mention.end)):
        is_again = isinstance(each, Mention) and each.name_start < last_end
        if not is_again:  # "John Smith is a 70-year-old, 70 yo, man" is one mention
            yield each
        if isinstance(each, Mention):
            last_end = max(last_end, each.end)


def _subject(text: str, age: Age, *, known: Collection[str]) -> Mention | Unnamed:
    tokens = tokens_before(text, at=age.start)
    link = _link(tokens, age, known=known)
    reason, span = "none", (age.start, age.start)
    if link is not None:
        form, index, sex = link
        name, index = _name_at(tokens, index, form=form, text=text, known=known)
        sex = age.sex or sex
        if name is not None:
            reason = _refusal(text, tokens, name, form=form, age=age, sex=sex)
            if not reason:
                return _mention(name, age, form=form, sex=sex)
        elif index >= 0:
            reason, span = _no_name(tokens, index)
    if reason in ("generic", "none", "unclear"):
        after = _after(text, age, known=known)
        if after is not None:
            return after
    return Unnamed(age.start, age.description_end, *span, reason)


def _refusal(
    text: str, tokens: Sequence[Token], name: FoundName, *, form: str, age: Age, sex: str
) -> str:
    """Return why a name before an age is not its subject; "" where it is."""
    if has_relative_before(tokens, first_token=name.first_token):
        return "relative"
    if name.is_stub:
        return "stub"
    if form in _SENTENCES:
        is_others = is_owner(tokens, first_token=name.first_token)
        is_thing = not sex and _next_word(text, at=age.end) in THINGS
        if is_others or is_thing or name.last.endswith(("'s", "’s")):
            return "unclear"
    return "" if _will_do(name, form=form, age=age, sex=sex) else "unclear"


def _next_word(text: str, *, at: int) -> str:
    return re.split(r"\W", text[at : at + 30].lstrip(" -\n"), maxsplit=1)[0].lower()


def _link(
    tokens: Sequence[Token], age: Age, *, known: Collection[str]
) -> tuple[str, int, str] | None:
    """Return the form, the index of the subject's last token, and a sex said on the way."""
    index = _before_age_word(tokens, age)
    article, sex = _article(tokens, index, known=known)
    has_article = article is not None and tokens[article].folded in ARTICLES
    if article is not None:
        index = article - 1 if has_article else article
    index = _skipped(tokens, index)
    if index < 0:
        return None
    mark = tokens[index].text
    if tokens[index].folded in (_LINKS if has_article else COPULAS):
        while index >= 0 and tokens[index].folded in COPULAS | AS:
            index = _skipped(tokens, index - 1)
        while index >= 0 and (
            tokens[index].folded in ("who", "that") or tokens[index].text in _DASHES
        ):
            index -= 1
        return ("is_a" if has_article else "is_old"), index, sex
    if mark == ",":
        return ("appositive" if has_article else "comma"), index - 1, sex
    if mark == "(":
        return "bracket", index - 1, sex
    if mark in _DASHES:
        while index >= 0 and tokens[index].text in _DASHES:
            index -= 1
        return "dash", index, sex
    return None if has_article or tokens[-1].kind == "line" else ("direct", index, sex)


def _before_age_word(tokens: Sequence[Token], age: Age) -> int:
    index = len(tokens) - 1
    while age.is_aged and index >= 0 and tokens[index].folded in (":", "age", "aged"):
        index -= 1
    return index


def _article(
    tokens: Sequence[Token], index: int, *, known: Collection[str]
) -> tuple[int | None, str]:
    """Return the index of the article before an age, or of the verb where there is none."""
    sex = ""
    for back in range(index, max(-1, index - _MODIFIERS), -1):
        token = tokens[back]
        if token.kind in ("line",) or token.text in (",", "-", "'"):
            continue
        if token.kind == "initial" and token.folded == "a":  # "JOHN SMITH IS A 70 YEAR OLD"
            return back, sex
        if token.kind != "word" or may_be_name(token, known=known):
            break
        if token.folded in ARTICLES or token.folded in COPULAS:
            return back, sex
        sex = sex or sex_of(token.text)
    return None, ""


def _skipped(tokens: Sequence[Token], index: int) -> int:
    while index >= 0 and (tokens[index].kind == "line" or tokens[index].folded in ADVERBS):
        index -= 1
    return index


def _name_at(
    tokens: Sequence[Token], index: int, *, form: str, text: str, known: Collection[str]
) -> tuple[FoundName | None, int]:
    """Return the name that ends at a token, or before an aside in brackets or commas."""
    index = _skipped(tokens, index)
    if index < 0:
        return None, index
    if tokens[index].text in (")", "]"):
        opened = _back_to(tokens, index - 1, "([")
        if opened > 0:
            outer = name_before(tokens, last=opened - 1, text=text, known=known)
            inner = name_before(tokens, last=index - 1, text=text, known=known)
            is_inside = inner is not None and inner.first_token > opened and outer is None
            return (inner if is_inside else outer), opened - 1
    if tokens[index].text == ",":
        index = _skipped(tokens, index - 1)
        found = name_before(tokens, last=index, text=text, known=known) if index >= 0 else None
        comma = _back_to(tokens, index, ",") if form in _SENTENCES else -1
        is_aside = found is None or tokens[comma + 1].text.islower()
        if comma > 0 and is_aside:  # "X, a patient of Dr. Y, is", "X, MRN 12, is"
            outer = name_before(tokens, last=comma - 1, text=text, known=known)
            if outer is not None and not is_owner(tokens, first_token=outer.first_token):
                return outer, comma - 1
        return found, index
    return name_before(tokens, last=index, text=text, known=known), index


def _back_to(tokens: Sequence[Token], index: int, marks: str) -> int:
    for back in range(index, max(-1, index - _ASIDE), -1):
        if tokens[back].kind == "empty" or tokens[back].text in (".", ";"):
            return -1
        if tokens[back].kind == "mark" and tokens[back].text in marks:
            return back
    return -1


def _will_do(name: FoundName, *, form: str, age: Age, sex: str) -> bool:
    is_strong = name.n_parts == 2 or bool(name.title) or name.is_placeholder
    if form == "is_a" and not age.is_short:
        return is_strong or (bool(sex) and not (name.is_capitals and len(name.last) < 4))
    if form == "is_old" and not age.is_short:
        return is_strong or bool(sex)
    if name.title in STAFF_TITLES and form not in ("is_a", "is_old"):
        return False  # "seen by Dr. Jones, 45 yo man with"
    if form in ("dash", "direct") and name.is_capitals and not (name.title or name.is_placeholder):
        return name.roles == ("last", "first")  # headings are capitals too
    return is_strong


def _no_name(tokens: Sequence[Token], index: int) -> tuple[str, tuple[int, int]]:
    token = tokens[index]
    if token.folded.removesuffix("'s") in RELATIVES:
        return "relative", (token.start, token.start)
    if token.folded in GENERIC:
        start = index
        if start and tokens[start - 1].folded in ARTICLES and token.folded not in ("this", "that"):
            start -= 1
        return "generic", (tokens[start].start, token.end)
    is_unclear = token.kind in ("word", "initial") and token.text[0].isupper()
    return ("unclear" if is_unclear else "none"), (token.start, token.start)


def _after(text: str, age: Age, *, known: Collection[str]) -> Mention | None:
    """Find the name behind an age: "a 70-year-old man, John Smith,", "70-year-old Mr. Smith"."""
    tokens = tokens_after(text, at=age.end)
    name, _ = name_from(tokens, at=0, known=known)
    if name is not None and name.title and name.title not in STAFF_TITLES and not name.is_stub:
        sex = "" if age.description_end > name.start else age.sex
        return _mention(name, age, form="after_direct", sex=sex)
    tokens = tokens_after(text, at=age.description_end)
    form, index = _link_after(tokens)
    name, behind = name_from(tokens, at=index, known=known)
    if name is None or name.is_stub or name.title in STAFF_TITLES:
        return None
    is_strong = name.n_parts == 2 or bool(name.title) or form == "after_named"
    is_shouted = name.is_capitals and text[age.start : age.description_end].isupper()
    if not is_strong or (is_shouted and form != "after_named"):
        return None
    following = tokens[behind] if behind < len(tokens) else None
    if following is not None and not _may_follow(following, name):
        return None
    return _mention(name, age, form=form, sex=age.sex)


def _link_after(tokens: Sequence[Token]) -> tuple[str, int]:
    index, form = 0, "after_direct"
    while index < len(tokens) and tokens[index].kind == "line":
        index += 1
    if index < len(tokens) and tokens[index].text in (",", "(", *_DASHES):
        form = "after_bracket" if tokens[index].text == "(" else "after_comma"
        index += 1
    words = [token.folded for token in tokens[index : index + 4]]
    if words and words[0] in NAMED:
        return "after_named", index + 1
    if words == ["by", "the", "name", "of"]:
        return "after_named", index + 4
    return form, index


def _may_follow(token: Token, name: FoundName) -> bool:
    if token.kind in ("number", "initial", "placeholder") or token.text == "'":
        return False
    if token.kind == "word":
        return not token.text[0].isupper() or name.is_capitals
    return not name.last.endswith(("'s", "’s"))


def _mention(name: FoundName, age: Age, *, form: str, sex: str) -> Mention:
    return Mention(
        start=min(name.start, age.start),
        end=max(name.end, age.description_end),
        name_start=name.start,
        name_end=name.end,
        first=name.first,
        last=name.last,
        roles=name.roles,
        title=name.title,
        age_years=age.years,
        sex=sex,
        form=form,
        is_placeholder=name.is_placeholder,
    )
