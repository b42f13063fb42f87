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
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from audit.notes.folding import FoldedText, fold_text
from audit.notes.mention_words import (
    GENERIC,
    SHORT_SEX,
    WORDS,
    FoundName,
    Mention,
    Token,
    Unnamed,
    tokenize_before,
)
from audit.notes.mentions_ja import find_japanese_mentions
from audit.notes.patterns import read_pattern_table

_REACH_CHARS = 110
_LONGEST_IN_WORDS = 48
_OLD = ("yo", "/o", ".o")  # in small letters
_SEX = sorted(
    (word for word in WORDS["male"] | WORDS["female"] if len(word) > 2), key=len, reverse=True
)
_PARTS, _ = read_pattern_table(__file__, SEX="|".join(_SEX))
_RE = {name: re.compile(pattern) for name, pattern in _PARTS.items()}
_NUMBERS = {word: n for n, word in enumerate(f"{_PARTS['UNITS']}|{_PARTS['TEENS']}".split("|"), 1)}
_NUMBERS |= {word: 10 * n for n, word in enumerate(_PARTS["TENS"].split("|"), 2)}
_YEARS_OF = {"y": 1.0, "m": 1 / 12, "w": 7 / 365.25, "d": 1 / 365.25}


class Age(NamedTuple):
    """An age and the sex that goes with it; `is_aged` for "aged 70".

    The description ("man", "male patient") ends at `description_end`: `end` where no sex follows.
    """

    start: int
    end: int
    description_end: int
    years: float
    sex: str
    is_aged: bool


def find_ages(text: str) -> Iterator[Age]:
    """Yield the ages of people in a text, in order."""
    folded = text.lower()
    found = {m.start(): m for m in _RE["DIGITS"].finditer(text) if m["nothing"] is None}
    for hit in _RE["AGED"].finditer(text) if "age" in folded else ():
        if match := _RE["BARE"].match(text, hit.end()):
            found.setdefault(match.start(), match)
    n_known = sum(match[0][-3:].lower() == "old" for match in found.values())
    is_old = folded.count("old") > n_known or any(map(folded.__contains__, _OLD))
    for hit in _RE["MAYBE_OLD"].finditer(text) if is_old else ():
        first = max(0, hit.end() - _LONGEST_IN_WORDS)
        for match in _RE["WORDS"].finditer(text, first, hit.end()):
            if match.end() == hit.end():
                found.setdefault(match.start(), match)
    for start, match in sorted(found.items()):
        is_bare, end = match["nothing"] is not None, match.end()
        years = _years(match["number"], match["unit"] or "y")
        sex, description_end = _sex_after(text, at=end)
        yield Age(start, end, description_end, years, sex, is_aged=is_bare)


def _years(number: str, unit: str) -> float:
    number = number.lower()
    if number[0] in "[_":
        return math.nan
    written = _RE["IN_DIGITS"].match(number)
    if written:
        whole, above, below = written.groups(default="0")
        years = float(whole) + (int(above) / int(below) if int(below) else 0.0)
    else:
        years = float(sum(_NUMBERS[word] for word in re.split(r"[-\s]+", number)))
    return years * _YEARS_OF[unit[0].lower()]


def _sex_of(word: str) -> str:
    """Return "male" or "female" for a word or an abbreviation in capitals, else ""."""
    folded = word.lower()
    if len(folded) > 3 or folded in ("man", "men", "boy"):
        return "male" if folded in WORDS["male"] else "female" if folded in WORDS["female"] else ""
    return SHORT_SEX.get(word, "")


def _sex_after(text: str, *, at: int) -> tuple[str, int]:
    """Return the sex that is said after an age, and where the description ends (`at`: not said)."""
    sex, end = "", at
    for match in _RE["DESCRIPTION"].finditer(text, at, at + _REACH_CHARS):
        said = match[0].rstrip(".")
        word = said.lower()
        if sex:
            is_more = word in WORDS["people"] and not text[end : match.start()].strip()
            return sex, match.end() if is_more else end
        if match[0] in '.;:()"[' or word in WORDS["ends"]:
            break
        sex = _sex_of(said)
        end = match.start() + len(said) if sex else at
    return sex, end


_MAX_ITEMS = 7
_WRAPPED_CHARS = 40  # a line this long was broken by its length, not by its meaning
_OPENERS = ".:;(-–—*•\"'["
_MODIFIERS = 12  # tokens at most between "a" and the age
_ASIDE = 16  # tokens at most in brackets or between commas
_LINKS = WORDS["copulas"] | {"as", "be"}
_SENTENCES = ("is_a", "is_old")
_DASHES = frozenset("-–—―")


_FOUND = tuple(field.name for field in fields(FoundName))


@dataclass(frozen=True, kw_only=True)
class _Name(FoundName):
    """A name among tokens; `first_token` is the index of its first one."""

    is_capitals: bool
    first_token: int

    @property
    def is_strong(self) -> bool:
        return self.is_full or bool(self.title)


def _words(items: Sequence[Token]) -> list[Token]:
    return [item for item in items if item.kind != "initial"]


def _name(
    items: Sequence[Token], given: Sequence[Token] = (), *, title: str = "", first_token: int
) -> _Name:
    """Return the name that tokens make; `given` are those behind the comma of "Last, First"."""
    everything = [*items, *given]
    is_placeholder = any(item.kind == "placeholder" for item in everything)
    if given:
        first, last = _words(given)[0].text, " ".join(item.text for item in items)
        roles: tuple[str, ...] = ("last", "first")
    else:
        first, last = _first_and_last(items, title=title)
        roles = ("first", "last") if first else ("last",)
        roles = _placeholder_roles(items, title=title) if is_placeholder else roles
    return _Name(
        first="" if is_placeholder else first,
        last="" if is_placeholder else last,
        roles=roles,
        title=title,
        name_start=everything[0].start,
        name_end=everything[-1].end,
        is_placeholder=is_placeholder,
        is_capitals=all(item.is_capitals for item in everything if item.kind == "word"),
        first_token=first_token,
    )


def _first_and_last(items: Sequence[Token], *, title: str) -> tuple[str, str]:
    texts = [item.text for item in items]
    particles = [n for n, item in enumerate(items) if n and item.is_particle]
    if particles:
        return texts[0], " ".join(texts[particles[0] :])
    is_joined = items[0].is_particle and (bool(title) or texts[0].islower())
    if is_joined and len(items) > 1:  # "Mr. De Luca", but "Al Roe"
        return "", " ".join(texts)
    return texts[0] if len(items) > 1 else "", texts[-1]


def _placeholder_roles(items: Sequence[Token], *, title: str) -> tuple[str, ...]:
    roles = [item.role if item.kind == "placeholder" else "blank" for item in _words(items)]
    if roles == ["blank"]:
        return ("last",) if title else ("full",)
    named = tuple(dict.fromkeys(role for role in roles if role in ("first", "last", "full")))
    return ("full",) if "full" in named else named or ("first", "last")


class _Beside:
    """The tokens beside an age, and the names in them."""

    def __init__(self, text: str, tokens: Sequence[Token], known: Collection[str]) -> None:
        self.text, self.tokens, self.known = text, tokens, known

    def name_before(self, last: int) -> _Name | None:
        """Return the name whose last token is `tokens[last]`; None where there is none."""
        tokens = self.tokens
        if last > 1 and tokens[last].folded in WORDS["suffixes"]:
            last -= 2 if tokens[last - 1].text == "," else 1
        items, title = self._collected(last)
        if not items or not (title or _words(items)):  # an initial alone, but not "Mr. A"
            return None
        first_token = tokens.index(items[0])
        if not title and first_token > 0 and tokens[first_token - 1].text == ",":
            family = self._family_before(first_token - 2)
            if family:
                return _name(family, items, first_token=tokens.index(family[0]))
        return _name(items, title=title, first_token=first_token)

    def subject_at(self, index: int, *, form: str) -> tuple[_Name | None, int]:
        """Return the name that ends at a token, or before an aside in brackets or commas."""
        tokens, index = self.tokens, self.skipped(index)
        if index < 0:
            return None, index
        if tokens[index].text in (")", "]"):
            opened = self._back_to(index - 1, "([")
            if opened > 0:
                return self.name_before(opened - 1), opened - 1
        if tokens[index].text != ",":
            return self.name_before(index), index
        index = self.skipped(index - 1)
        found = self.name_before(index) if index >= 0 else None
        comma = self._back_to(index, ",") if form in _SENTENCES else -1
        if comma > 0 and (found is None or tokens[comma + 1].text.islower()):
            outer = self.name_before(comma - 1)  # "X, a patient of Dr. Y, is", "X, MRN 12, is"
            if outer is not None and not self.is_owner(outer):
                return outer, comma - 1
        return found, index

    def skipped(self, index: int) -> int:
        """Return the index of the last token up to `index` that is no adverb and no line break."""
        while index >= 0 and (
            self.tokens[index].kind == "line" or self.tokens[index].folded in WORDS["adverbs"]
        ):
            index -= 1
        return index

    def _untitled(self, name: _Name) -> int:
        """Return the index of the token before a name and its title."""
        index = name.first_token - 1
        return index - 1 if index >= 0 and self.tokens[index].is_title else index

    def has_relative_before(self, name: _Name) -> bool:
        """Whether "mother", "his wife," or the like stands right before a name."""
        index = self._untitled(name)
        while index >= 0 and self.tokens[index].text in (",", "(", "\n", ":"):
            index -= 1
        return index >= 0 and self.tokens[index].folded in WORDS["relatives"]

    def is_owner(self, name: _Name) -> bool:
        """Whether a name says whose somebody is: "the son of X", "a patient of Dr. X"."""
        index = self._untitled(name)
        return index >= 0 and self.tokens[index].folded in WORDS["owners"]

    def _collected(self, index: int) -> tuple[list[Token], str]:
        """Walk back over the parts of a name; return them in order, and the title."""
        items: list[Token] = []
        while index >= 0 and len(items) < _MAX_ITEMS:
            token = self.tokens[index]
            if items and token.is_title:
                return items[::-1], token.folded
            if token.kind == "line" and items and self._goes_on(index, items):
                index -= 1
                continue
            if not (
                token.may_be_part(self.known)
                or (items and token.is_particle)
                or self._is_seldom_name_here(index, items)
            ):
                break
            items.append(token)
            index -= 1
        return items[::-1], ""

    def _goes_on(self, index: int, items: Sequence[Token]) -> bool:
        """Whether a name may go on before a line break: the line is full."""
        at = self.tokens[index].start
        line_start = self.text.rfind("\n", max(0, at - 200), at)
        return len(_words(items)) < 2 and at - max(line_start, 0) >= _WRAPPED_CHARS

    def _is_seldom_name_here(self, index: int, items: Sequence[Token]) -> bool:
        """Whether White or Christian is a name here: behind another part, or first before one."""
        token, before = self.tokens[index], self.tokens[index - 1] if index else None
        if not items and before is not None and before.is_title:
            return token.is_capitalized
        if not (token.is_capitalized and token.folded in WORDS["seldom_names"]):
            return False
        if not items:
            return before is not None and before.may_be_part(self.known)
        return len(_words(items)) == 1

    def _family_before(self, index: int) -> list[Token]:
        """Return the family name before "," of "Last, First"; empty where it is no such pair."""
        family: list[Token] = []
        while index >= 0 and len(family) < 4:
            token = self.tokens[index]
            is_part = token.may_be_part(self.known) or token.is_particle
            if not is_part or token.kind == "initial":
                break
            family.insert(0, token)
            index -= 1
        has_name = any(not item.is_particle for item in family)
        return family if has_name and self._may_begin(self.tokens.index(family[0])) else []

    def _may_begin(self, first_token: int) -> bool:
        """Whether "Last, First" may begin here: after a word, a line, a mark other than a comma."""
        if first_token <= 0:
            return True
        before = self.tokens[first_token - 1]
        if before.kind in ("line", "empty") or before.text in _OPENERS:
            return True
        if before.text == "," and first_token > 1:
            before = self.tokens[first_token - 2]
            return before.kind == "word" and before.text[0].islower()
        return before.kind == "word"

    def _back_to(self, index: int, marks: str) -> int:
        for back in range(index, max(-1, index - _ASIDE), -1):
            token = self.tokens[back]
            if token.kind == "empty" or token.text in (".", ";"):
                break
            if token.kind == "mark" and token.text in marks:
                return back
        return -1


def find_mentions(text: str, *, name_parts: Collection[str] = ()) -> tuple[Mention, ...]:
    """Find the people who are named beside their age, in the order of the text.

    `known` holds parts of names, as `audit.text.fold_name` gives them, that count whatever their
    case, as from a register of patients; for notes without capitals.
    """
    return tuple(
        found for found in examine_ages(text, name_parts=name_parts) if isinstance(found, Mention)
    )


def examine_ages(text: str, *, name_parts: Collection[str] = ()) -> Iterator[Mention | Unnamed]:
    """Yield, for every age of a person, the mention it belongs to or why there is none.

    Offsets are those of the text; names are in its folded form.
    """
    folded = fold_text(text)
    for each in _examined(folded.text, name_parts):
        yield each if folded.is_source else _moved(each, folded)


def _moved(each: Mention | Unnamed, folded: FoldedText) -> Mention | Unnamed:
    """Return what was found in a folded text with the offsets of the text itself."""
    pairs = [("start", "end"), ("name_start", "name_end")]
    if isinstance(each, Unnamed):
        pairs[1] = ("subject_start", "subject_end")
    places: dict[str, int] = {}
    for pair in pairs:
        ends = folded.source_place(*(getattr(each, field) for field in pair))
        places |= dict(zip(pair, ends, strict=True))
    return replace(each, **places)  # type: ignore[arg-type]


def _examined(text: str, known: Collection[str]) -> Iterator[Mention | Unnamed]:
    found: list[Mention | Unnamed] = [_subject(text, age, known) for age in find_ages(text)]
    found += find_japanese_mentions(text)
    last_end = -1
    for each in sorted(found, key=lambda mention: (mention.start, -mention.end)):
        if isinstance(each, Unnamed) or each.name_start >= last_end:
            yield each
        # "John Smith is a 70-year-old, 70 yo, man" is one mention
        last_end = max(last_end, each.end if isinstance(each, Mention) else -1)


def _subject(text: str, age: Age, known: Collection[str]) -> Mention | Unnamed:
    before = _Beside(text, tokenize_before(text, offset=age.start), known)
    link = _link(before, age)
    reason, span = "none", (age.start, age.start)
    if link is not None:
        form, index = link
        name, index = before.subject_at(index, form=form)
        if name is not None:
            reason = _refusal(before, name, form=form, sex=age.sex)
            if not reason:
                return _mention(name, age, form=form)
        elif index >= 0:
            reason, span = _no_name(before.tokens, index)
    return Unnamed(age.start, age.description_end, *span, reason)


def _refusal(before: _Beside, name: _Name, *, form: str, sex: str) -> str:
    """Return why a name before an age is not its subject; "" where it is."""
    if before.has_relative_before(name):
        return "relative"
    if _RE["STUB"].match(name.last):
        return "stub"
    if form in _SENTENCES:
        is_short = form == "is_a" and name.is_capitals and len(name.last) < 4
        will_do = name.is_strong or (bool(sex) and not is_short)
        will_do = will_do and not before.is_owner(name)
    else:  # "seen by Dr. Jones, 45 yo man with"
        will_do = name.is_strong and name.title not in WORDS["staff_titles"]
    return "" if will_do else "unclear"


def _link(before: _Beside, age: Age) -> tuple[str, int] | None:
    """Return the form, and the index of the subject's last token."""
    tokens, index = before.tokens, len(before.tokens) - 1
    while age.is_aged and index >= 0 and tokens[index].folded in (":", "age", "aged"):
        index -= 1
    article = _article(before, index)
    has_article = article is not None and tokens[article].folded in WORDS["articles"]
    if article is not None:
        index = article - has_article
    index = before.skipped(index)
    if index < 0:
        return None
    mark = tokens[index].text
    if tokens[index].folded in (_LINKS if has_article else WORDS["copulas"]):
        while index >= 0 and tokens[index].folded in WORDS["copulas"] | WORDS["as"]:
            index = before.skipped(index - 1)
        while index >= 0 and tokens[index].folded in {"who", "that"} | _DASHES:
            index -= 1
        return ("is_a" if has_article else "is_old"), index
    if mark in (",", "("):
        after_comma = "appositive" if has_article else "comma"
        return (after_comma if mark == "," else "bracket"), index - 1
    if mark in _DASHES:
        while index >= 0 and tokens[index].text in _DASHES:
            index -= 1
        return "dash", index
    return None if has_article else ("direct", index)


def _article(before: _Beside, index: int) -> int | None:
    """Return the index of the article before an age, or of the verb where there is none."""
    for back in range(index, max(-1, index - _MODIFIERS), -1):
        token = before.tokens[back]
        if token.kind == "line" or token.text in (",", "-", "'"):
            continue
        if token.kind == "initial" and token.folded == "a":  # "JOHN SMITH IS A 70 YEAR OLD"
            return back
        if token.kind != "word" or token.may_be_name(before.known):
            break
        if token.folded in WORDS["articles"] or token.folded in WORDS["copulas"]:
            return back
    return None


def _no_name(tokens: Sequence[Token], index: int) -> tuple[str, tuple[int, int]]:
    token = tokens[index]
    if token.folded in WORDS["relatives"]:
        return "relative", (token.start, token.start)
    if token.folded in GENERIC:
        start = index
        if (
            start
            and tokens[start - 1].folded in WORDS["articles"]
            and token.folded not in ("this", "that")
        ):
            start -= 1
        return "generic", (tokens[start].start, token.end)
    is_unclear = token.kind in ("word", "initial") and token.text[0].isupper()
    return ("unclear" if is_unclear else "none"), (token.start, token.start)


def _mention(name: _Name, age: Age, *, form: str) -> Mention:
    found = {field: getattr(name, field) for field in _FOUND}
    return Mention(
        **found,
        start=min(age.start, name.name_start),
        end=max(age.description_end, name.name_end),
        age_years=age.years,
        sex=age.sex,
        form=form,
    )
