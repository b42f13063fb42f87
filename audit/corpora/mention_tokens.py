"""Words, placeholders and marks of the few characters beside an age, with what each may be.

Comes in: a text and a place. Goes out: tokens with offsets; nothing is looked at beyond a fixed
number of characters, so that the work is linear in the length of the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from typing import NamedTuple

from audit.corpora.mention_words import (
    COPULAS,
    GENERIC,
    NO_END,
    NO_NAMES,
    RELATIVES,
    SELDOM_NAMES,
    SHOUTED_NO_NAMES,
)
from audit.corpora.name_slots import find_name_slot
from audit.names import fold_name

WINDOW_CHARS = 280
_NO_PART = NO_NAMES | GENERIC | RELATIVES | COPULAS | SELDOM_NAMES
PLACEHOLDER = re.compile(
    r"\[\*\*[^\[\]]{0,200}\*\*\]|[\[［][^\W\d_][^\[\]［］\n]{0,60}[\]］]|_{3,12}"
)
_TOKEN = re.compile(
    rf"(?P<placeholder>{PLACEHOLDER.pattern})"
    r"|(?P<word>[^\W\d_](?:[^\W_]|['’`‐‑-](?=[^\W\d_])){0,60})"
    r"|(?P<number>\d(?:[\w/-]|[.,](?=\d)){0,30})"
    r"|(?P<empty>\n[ \t\r]{0,40}\n)|(?P<line>\n)|(?P<mark>[^\w\s])"
)


class Token(NamedTuple):
    """One token: `kind` is "word", "initial", "placeholder", "number", "mark", "line" or "empty".

    `role` is a placeholder's: "first", "last", "full", "initial" or "other"; "___" is "blank".
    """

    kind: str
    text: str
    start: int
    end: int
    role: str = ""

    @property
    def folded(self) -> str:
        """The word in lower case, with plain apostrophes."""
        return self.text.lower().replace("’", "'").replace("`", "'")

    @property
    def is_capitals(self) -> bool:
        """Whether it is written in capitals, two at least."""
        return len(self.text) > 1 and self.text.isupper()


def tokens_before(text: str, *, at: int) -> list[Token]:
    """Return the tokens of the characters before `at`, in order."""
    first = max(0, at - WINDOW_CHARS)
    if first:
        # Begin between two words, and not within a placeholder.
        cut = text.find(" ", first, at)
        first = cut if cut >= 0 else at
        close = text.find("**]", first, at)
        if close >= 0 and text.find("[**", first, close) < 0:
            first = close + 3
    return _tokens(text, first, at)


def tokens_after(text: str, *, at: int) -> list[Token]:
    """Return the tokens of the characters from `at` on, in order."""
    end = min(len(text), at + WINDOW_CHARS // 2)
    while end < len(text) and text[end - 1].isalnum() and end - at < WINDOW_CHARS:
        end += 1
    return _tokens(text, at, end)


def may_be_name(token: Token, *, known: Collection[str] = ()) -> bool:
    """Whether a token can be a part of a name: a word with a capital that is not listed as none.

    `known` holds parts of names, folded, that count whatever their case.
    """
    if token.kind != "word":
        return False
    if known and fold_name(token.text) in known:
        return True
    if token.is_capitals and token.folded in SHOUTED_NO_NAMES:
        return False
    return token.text[0].isupper() and token.folded not in _NO_PART


def is_plain_word(token: Token) -> bool:
    """Whether a word of three letters at least is on no list: "smith" in "mr. smith"."""
    return token.kind == "word" and len(token.text) > 2 and token.folded not in _NO_PART


def is_seldom_name(token: Token) -> bool:
    """Whether a token is a name only beside another: White, Christian."""
    return token.kind == "word" and token.text[0].isupper() and token.folded in SELDOM_NAMES


def is_adverb(token: Token) -> bool:
    """Whether a word looks like "Surprisingly"; Kelly and Connolly do not."""
    word = token.folded
    return word.endswith("ly") and len(word) > 4 and not word.endswith(("elly", "olly", "illy"))


@functools.lru_cache(maxsize=4096)
def placeholder_role(placeholder: str) -> str:
    """Return "first", "last", "full", "initial", "other", or "blank" for "___"."""
    if placeholder.startswith("_"):
        return "blank"
    if find_name_slot(placeholder):
        return "full"
    # A first name is what makes a pair with a last name, and the other way round.
    if find_name_slot(f"{placeholder} [LAST]"):
        return "first"
    if find_name_slot(f"{placeholder} [FIRST]"):
        return "last"
    if find_name_slot(f"[FIRST] {placeholder} [LAST]"):
        return "initial"
    return "other"


def _tokens(text: str, start: int, end: int) -> list[Token]:
    found: list[Token] = []
    for match in _TOKEN.finditer(text, start, end):
        kind = match.lastgroup or "mark"
        role = placeholder_role(match[0]) if kind == "placeholder" else ""
        if kind == "word" and len(match[0]) == 1 and match[0].isupper():
            kind = "initial"
        if match[0] == "." and found and found[-1].end == match.start() and _keeps_stop(found[-1]):
            continue
        found.append(Token(kind, match[0], match.start(), match.end(), role))
    return found


def _keeps_stop(token: Token) -> bool:
    if token.kind == "word" and token.text[-2:-1] == "-" and token.text[-1].isupper():
        return True  # "Hans-P."
    return token.kind == "initial" or token.folded in NO_END or token.role == "initial"
