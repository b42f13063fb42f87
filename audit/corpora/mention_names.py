"""A name among tokens: the one that ends at a token, or the one that begins there.

Comes in: tokens. Goes out: the name's parts and where they stand. Knows titles, initials,
particles, suffixes, nicknames in quotes, "Last, First", headings in capitals, placeholders.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from audit.corpora.mention_parts import FoundName, is_particle, named
from audit.corpora.mention_tokens import (
    Token,
    is_adverb,
    is_plain_word,
    is_seldom_name,
    may_be_name,
)
from audit.corpora.mention_words import (
    ADVERBS,
    OWNERS,
    PLACE_WORDS,
    RELATIVES,
    SELDOM_FIRST_NAMES,
    SUFFIXES,
    TITLES,
)

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
