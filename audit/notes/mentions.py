"""Find mentions: places where a text names a person beside an age ("X is a 70-year-old man").

Input: a text with names, with placeholders (MIMIC-III, MIMIC-IV, `[NAME]`), or in Japanese. Output:
mentions with offsets, and ages without a mention together with the reason. The time is linear in
the length of the text, because only a fixed number of characters beside each age is searched.

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
from audit.notes.patterns import CompiledParts, read_pattern_table

_REACH_CHARS = 110
_LONGEST_IN_WORDS = 48
_OLD = ("yo", "/o", ".o")  # in small letters
_SEX = sorted(
    (word for word in WORDS["male"] | WORDS["female"] if len(word) > 2), key=len, reverse=True
)
_PARTS, _ = read_pattern_table(__file__, SEX="|".join(_SEX))
_RE = CompiledParts(_PARTS)
_NUMBERS = {word: n for n, word in enumerate(f"{_PARTS['ONES']}|{_PARTS['TEENS']}".split("|"), 1)}
_NUMBERS |= {word: 10 * n for n, word in enumerate(_PARTS["TENS"].split("|"), 2)}
_YEARS_OF = {"y": 1.0, "m": 1 / 12, "w": 7 / 365.25, "d": 1 / 365.25}


class Age(NamedTuple):
    """An age and the sex that goes with it; `is_aged` is true for "aged 70".

    The description ("man", "male patient") ends at `description_end`, which is `end` if no sex
    follows the age.
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
    matches = {m.start(): m for m in _RE["DIGITS"].finditer(text) if m["nothing"] is None}
    for hit in _RE["AGED"].finditer(text) if "age" in folded else ():
        if match := _RE["BARE"].match(text, hit.end()):
            matches.setdefault(match.start(), match)
    n_known = sum(match[0][-3:].lower() == "old" for match in matches.values())
    is_old = folded.count("old") > n_known or any(map(folded.__contains__, _OLD))
    for hit in _RE["MAYBE_OLD"].finditer(text) if is_old else ():
        first = max(0, hit.end() - _LONGEST_IN_WORDS)
        for match in _RE["WORDS"].finditer(text, first, hit.end()):
            if match.end() == hit.end():
                matches.setdefault(match.start(), match)
    for start, match in sorted(matches.items()):
        is_bare, end = match["nothing"] is not None, match.end()
        years = _parse_years(match["number"], match["unit"] or "y")
        sex, description_end = _read_sex_after(text, offset=end)
        yield Age(start, end, description_end, years, sex, is_aged=is_bare)


def _parse_years(number: str, unit: str) -> float:
    number = number.lower()
    if number[0] in "[_":
        return math.nan
    digits = _RE["IN_DIGITS"].match(number)
    if digits:
        units, numerator, denominator = digits.groups(default="0")
        years = float(units) + (int(numerator) / int(denominator) if int(denominator) else 0.0)
    else:
        years = float(sum(_NUMBERS[word] for word in re.split(r"[-\s]+", number)))
    return years * _YEARS_OF[unit[0].lower()]


def _read_sex(word: str) -> str:
    """Return "male" or "female" for a word or an abbreviation in capitals, else ""."""
    folded = word.lower()
    if len(folded) > 3 or folded in ("man", "men", "boy"):
        return "male" if folded in WORDS["male"] else "female" if folded in WORDS["female"] else ""
    return SHORT_SEX.get(word, "")


def _read_sex_after(text: str, *, offset: int) -> tuple[str, int]:
    """Return the sex stated after an age and the end of the description.

    If no sex is stated, the result is ("", `offset`).
    """
    sex, end = "", offset
    for match in _RE["DESCRIPTION"].finditer(text, offset, offset + _REACH_CHARS):
        term = match[0].rstrip(".")
        word = term.lower()
        if sex:
            is_more = word in WORDS["people"] and not text[end : match.start()].strip()
            return sex, match.end() if is_more else end
        if match[0] in '.;:()"[' or word in WORDS["ends"]:
            break
        sex = _read_sex(term)
        end = match.start() + len(term) if sex else offset
    return sex, end


_MAX_ITEMS = 7
_WRAPPED_CHARS = 40  # a line this long was wrapped because of its length, not its meaning
_OPENERS = ".:;(-–—*•\"'["
_MODIFIERS = 12  # tokens at most between "a" and the age
_ASIDE = 16  # tokens at most in brackets or between commas
_LINKS = WORDS["copulas"] | {"as", "be"}
_SENTENCES = ("is_a", "is_old")
_DASHES = frozenset("-–—―")


_NAME_FIELDS = tuple(field.name for field in fields(FoundName))


@dataclass(frozen=True, kw_only=True)
class _Name(FoundName):
    """A name among tokens; `first_token` is the index of its first one."""

    is_capitals: bool
    first_token: int

    @property
    def is_strong(self) -> bool:
        return self.is_full or bool(self.title)


def _drop_initials(items: Sequence[Token]) -> list[Token]:
    return [item for item in items if item.kind != "initial"]


def _make_name(
    items: Sequence[Token], first_names: Sequence[Token] = (), *, title: str = "", first_token: int
) -> _Name:
    """Build a name from tokens; `first_names` are those after the comma of "Last, First"."""
    everything = [*items, *first_names]
    is_placeholder = any(item.kind == "placeholder" for item in everything)
    if first_names:
        first, last = _drop_initials(first_names)[0].text, " ".join(item.text for item in items)
        roles: tuple[str, ...] = ("last", "first")
    else:
        first, last = _split_name(items, title=title)
        roles = ("first", "last") if first else ("last",)
        roles = _find_placeholder_roles(items, title=title) if is_placeholder else roles
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


def _split_name(items: Sequence[Token], *, title: str) -> tuple[str, str]:
    texts = [item.text for item in items]
    particles = [n for n, item in enumerate(items) if n and item.is_particle]
    if particles:
        return texts[0], " ".join(texts[particles[0] :])
    is_joined = items[0].is_particle and (bool(title) or texts[0].islower())
    if is_joined and len(items) > 1:  # "Mr. De Luca", but "Al Roe"
        return "", " ".join(texts)
    return texts[0] if len(items) > 1 else "", texts[-1]


def _find_placeholder_roles(items: Sequence[Token], *, title: str) -> tuple[str, ...]:
    roles = [item.role if item.kind == "placeholder" else "blank" for item in _drop_initials(items)]
    if roles == ["blank"]:
        return ("last",) if title else ("full",)
    named = tuple(dict.fromkeys(role for role in roles if role in ("first", "last", "full")))
    return ("full",) if "full" in named else named or ("first", "last")


class _TokensBefore:
    """The tokens before an age; finds the names among them."""

    def __init__(self, text: str, tokens: Sequence[Token], name_parts: Collection[str]) -> None:
        self.text, self.tokens, self.name_parts = text, tokens, name_parts

    def find_name(self, last: int) -> _Name | None:
        """Return the name whose last token is `tokens[last]`; None where there is none."""
        tokens = self.tokens
        if last > 1 and tokens[last].folded in WORDS["suffixes"]:
            last -= 2 if tokens[last - 1].text == "," else 1
        items, title = self._collect_parts(last)
        if not items or not (title or _drop_initials(items)):  # an initial alone, but not "Mr. A"
            return None
        first_token = tokens.index(items[0])
        if not title and first_token > 0 and tokens[first_token - 1].text == ",":
            family = self._find_family_name(first_token - 2)
            if family:
                return _make_name(family, items, first_token=tokens.index(family[0]))
        return _make_name(items, title=title, first_token=first_token)

    def find_subject(self, index: int, *, form: str) -> tuple[_Name | None, int]:
        """Return the name that ends at a token, or before an aside in brackets or commas.

        Also return the index of the token where the search for a name ended.
        """
        tokens, index = self.tokens, self.skip_adverbs(index)
        if index < 0:
            return None, index
        if tokens[index].text in (")", "]"):
            opened = self._find_mark(index - 1, "([")
            if opened > 0:
                return self.find_name(opened - 1), opened - 1
        if tokens[index].text != ",":
            return self.find_name(index), index
        index = self.skip_adverbs(index - 1)
        name = self.find_name(index) if index >= 0 else None
        comma = self._find_mark(index, ",") if form in _SENTENCES else -1
        if comma > 0 and (name is None or tokens[comma + 1].text.islower()):
            outer = self.find_name(comma - 1)  # "X, a patient of Dr. Y, is", "X, MRN 12, is"
            if outer is not None and not self.is_owner(outer):
                return outer, comma - 1
        return name, index

    def skip_adverbs(self, index: int) -> int:
        """Return the last index up to `index` whose token is neither an adverb nor a line break."""
        while index >= 0 and (
            self.tokens[index].kind == "line" or self.tokens[index].folded in WORDS["adverbs"]
        ):
            index -= 1
        return index

    def _index_before_title(self, name: _Name) -> int:
        """Return the index of the token before a name and its title, if it has one."""
        index = name.first_token - 1
        return index - 1 if index >= 0 and self.tokens[index].is_title else index

    def has_relative_before(self, name: _Name) -> bool:
        """Whether a relative ("mother", "his wife,") stands right before a name."""
        index = self._index_before_title(name)
        while index >= 0 and self.tokens[index].text in (",", "(", "\n", ":"):
            index -= 1
        return index >= 0 and self.tokens[index].folded in WORDS["relatives"]

    def is_owner(self, name: _Name) -> bool:
        """Whether the subject belongs to the named person: "the son of X", "a patient of Dr. X"."""
        index = self._index_before_title(name)
        return index >= 0 and self.tokens[index].folded in WORDS["owners"]

    def _collect_parts(self, index: int) -> tuple[list[Token], str]:
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
                token.may_be_part(self.name_parts)
                or (items and token.is_particle)
                or self._is_seldom_name_here(index, items)
            ):
                break
            items.append(token)
            index -= 1
        return items[::-1], ""

    def _goes_on(self, index: int, items: Sequence[Token]) -> bool:
        """Whether a name may continue across a line break, because the line is full."""
        line_break = self.tokens[index].start
        line_start = self.text.rfind("\n", max(0, line_break - 200), line_break)
        return len(_drop_initials(items)) < 2 and line_break - max(line_start, 0) >= _WRAPPED_CHARS

    def _is_seldom_name_here(self, index: int, items: Sequence[Token]) -> bool:
        """Whether a word such as White or Christian is a name here, because of its neighbours."""
        token, previous = self.tokens[index], self.tokens[index - 1] if index else None
        if not items and previous is not None and previous.is_title:
            return token.is_capitalized
        if not (token.is_capitalized and token.folded in WORDS["seldom_names"]):
            return False
        if not items:
            return previous is not None and previous.may_be_part(self.name_parts)
        return len(_drop_initials(items)) == 1

    def _find_family_name(self, index: int) -> list[Token]:
        """Return the family name before the comma of "Last, First"; empty if there is none."""
        family: list[Token] = []
        while index >= 0 and len(family) < 4:
            token = self.tokens[index]
            is_part = token.may_be_part(self.name_parts) or token.is_particle
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
        previous = self.tokens[first_token - 1]
        if previous.kind in ("line", "empty") or previous.text in _OPENERS:
            return True
        if previous.text == "," and first_token > 1:
            previous = self.tokens[first_token - 2]
            return previous.kind == "word" and previous.text[0].islower()
        return previous.kind == "word"

    def _find_mark(self, index: int, marks: str) -> int:
        for back in range(index, max(-1, index - _ASIDE), -1):
            token = self.tokens[back]
            if token.kind == "empty" or token.text in (".", ";"):
                break
            if token.kind == "mark" and token.text in marks:
                return back
        return -1


def find_mentions(text: str, *, name_parts: Collection[str] = ()) -> tuple[Mention, ...]:
    """Find the people who are named beside their age, in the order of the text.

    `name_parts` holds parts of names, folded by `audit.text.fold_name`, that count in any case.
    They may come from a register of patients; they help with notes that lack capitals.
    """
    return tuple(
        mention
        for mention in examine_ages(text, name_parts=name_parts)
        if isinstance(mention, Mention)
    )


def examine_ages(text: str, *, name_parts: Collection[str] = ()) -> Iterator[Mention | Unnamed]:
    """Yield, for every age of a person, its mention or the reason why there is none.

    Offsets refer to the text itself; names have their folded form.
    """
    folded = fold_text(text)
    for mention in _examine_folded(folded.text, name_parts):
        yield mention if folded.is_source else _move_to_source(mention, folded)


def _move_to_source(mention: Mention | Unnamed, folded: FoldedText) -> Mention | Unnamed:
    """Return a mention of the folded text with the offsets of the source text."""
    pairs = [("start", "end"), ("name_start", "name_end")]
    if isinstance(mention, Unnamed):
        pairs[1] = ("subject_start", "subject_end")
    places: dict[str, int] = {}
    for pair in pairs:
        ends = folded.source_place(*(getattr(mention, field) for field in pair))
        places |= dict(zip(pair, ends, strict=True))
    return replace(mention, **places)  # type: ignore[arg-type]


def _examine_folded(text: str, name_parts: Collection[str]) -> Iterator[Mention | Unnamed]:
    mentions: list[Mention | Unnamed] = [
        _find_subject(text, age, name_parts) for age in find_ages(text)
    ]
    mentions += find_japanese_mentions(text)
    last_end = -1
    for mention in sorted(mentions, key=lambda mention: (mention.start, -mention.end)):
        if isinstance(mention, Unnamed) or mention.name_start >= last_end:
            yield mention
        # "John Smith is a 70-year-old, 70 yo, man" is one mention
        last_end = max(last_end, mention.end if isinstance(mention, Mention) else -1)


def _find_subject(text: str, age: Age, name_parts: Collection[str]) -> Mention | Unnamed:
    context = _TokensBefore(text, tokenize_before(text, offset=age.start), name_parts)
    link = _find_link(context, age)
    reason, span = "none", (age.start, age.start)
    if link is not None:
        form, index = link
        name, index = context.find_subject(index, form=form)
        if name is not None:
            reason = _explain_refusal(context, name, form=form, sex=age.sex)
            if not reason:
                return _make_mention(name, age, form=form)
        elif index >= 0:
            reason, span = _explain_missing_name(context.tokens, index)
    return Unnamed(age.start, age.description_end, *span, reason)


def _explain_refusal(context: _TokensBefore, name: _Name, *, form: str, sex: str) -> str:
    """Return the reason why a name before an age is not its subject; "" if it is."""
    if context.has_relative_before(name):
        return "relative"
    if _RE["STUB"].match(name.last):
        return "stub"
    if form in _SENTENCES:
        is_short = form == "is_a" and name.is_capitals and len(name.last) < 4
        will_do = name.is_strong or (bool(sex) and not is_short)
        will_do = will_do and not context.is_owner(name)
    else:  # "seen by Dr. Jones, 45 yo man with"
        will_do = name.is_strong and name.title not in WORDS["staff_titles"]
    return "" if will_do else "unclear"


def _find_link(context: _TokensBefore, age: Age) -> tuple[str, int] | None:
    """Return the form of a mention and the index of the subject's last token; None without link."""
    tokens, index = context.tokens, len(context.tokens) - 1
    while age.is_aged and index >= 0 and tokens[index].folded in (":", "age", "aged"):
        index -= 1
    article = _find_article(context, index)
    has_article = article is not None and tokens[article].folded in WORDS["articles"]
    if article is not None:
        index = article - has_article
    index = context.skip_adverbs(index)
    if index < 0:
        return None
    mark = tokens[index].text
    if tokens[index].folded in (_LINKS if has_article else WORDS["copulas"]):
        while index >= 0 and tokens[index].folded in WORDS["copulas"] | WORDS["as"]:
            index = context.skip_adverbs(index - 1)
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


def _find_article(context: _TokensBefore, index: int) -> int | None:
    """Return the index of the article before an age, or of the verb if there is no article."""
    for back in range(index, max(-1, index - _MODIFIERS), -1):
        token = context.tokens[back]
        if token.kind == "line" or token.text in (",", "-", "'"):
            continue
        if token.kind == "initial" and token.folded == "a":  # "JOHN SMITH IS A 70 YEAR OLD"
            return back
        if token.kind != "word" or token.may_be_name(context.name_parts):
            break
        if token.folded in WORDS["articles"] or token.folded in WORDS["copulas"]:
            return back
    return None


def _explain_missing_name(tokens: Sequence[Token], index: int) -> tuple[str, tuple[int, int]]:
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


def _make_mention(name: _Name, age: Age, *, form: str) -> Mention:
    name_fields = {field: getattr(name, field) for field in _NAME_FIELDS}
    return Mention(
        **name_fields,
        start=min(age.start, name.name_start),
        end=max(age.description_end, name.name_end),
        age_years=age.years,
        sex=age.sex,
        form=form,
    )
