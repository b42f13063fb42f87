"""Records, word lists and tokens that the finders of mentions share.

The finders look only at a fixed number of characters beside a place, so their time is linear in the
length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from audit.notes.placeholders import find_placeholder_role
from audit.text import fold_name, word_lists

ENGLISH_FORMS = (
    *("is_a", "is_old", "appositive", "comma", "bracket", "dash", "direct"),
    *("after_comma", "after_named", "after_direct", "after_bracket"),
)
"""Forms of a mention, by the text between name and age: "X is a 70-year-old", "X is 70 years old",
"X, a 70-year-old", "X, 70 yo M", "X (70 yo M)", "X - 70 yo M", "X 70 yo M". The last four names,
with the age first, are no longer searched for; stored corpora have counts of them."""
JAPANESE_FORMS = ("ja_is", "ja_bracket", "ja_comma", "ja_after", "ja_fields")
"""Forms in Japanese: Xは70歳男性, X(70歳,男性), X、70歳、男性, 70歳男性のX, 氏名:X 年齢:70歳."""
FORMS = ENGLISH_FORMS + JAPANESE_FORMS

REASONS = ("generic", "relative", "stub", "none", "unclear")
"""Reasons why an age has no mention: the subject is generic ("the patient", "he"), or a relative; a
letter or "ABC" stands in place of the name; no subject stands beside the age; the subject was not
understood."""


@dataclass(frozen=True, kw_only=True)
class FoundName:
    """One person's name in a text, or the placeholder in its place.

    The offsets include everything from the first to the last part, without the title. `first` and
    `last` have the spelling of the text, without middle names and suffixes; a name of one part is a
    last name; both are empty for placeholders. `roles` lists the parts in order: ("first", "last"),
    ("last", "first"), ("last",), ("first",), or ("full",) for one placeholder of the whole name.
    """

    name_start: int
    name_end: int
    first: str
    last: str
    roles: tuple[str, ...]
    title: str = ""
    is_placeholder: bool

    @property
    def is_full(self) -> bool:
        """Whether the text has first and last name, or a placeholder for the whole name."""
        return self.roles == ("full",) or len(self.roles) == 2


@dataclass(frozen=True, kw_only=True)
class Mention(FoundName):
    """A name beside an age.

    The mention begins with the name or the age, whichever is first, and ends with the other or with
    the word for the sex. `age_years` is NaN if the age is a placeholder. `sex` is "male", "female",
    or "" if it is not stated.
    """

    start: int
    end: int
    age_years: float
    sex: str
    form: str


@dataclass(frozen=True)
class Unnamed:
    """An age with no name beside it.

    `start` and `end` are the offsets of the age; `subject_start` and `subject_end` are those of a
    generic subject before it ("The patient"), and equal if there is none. `reason` is one of
    `REASONS`.
    """

    start: int
    end: int
    subject_start: int
    subject_end: int
    reason: str


WORDS = word_lists(Path(__file__).with_suffix(".txt"))
"""All lists of words, by their names."""
GENERIC, NO_NAMES = WORDS["generic"], WORDS["no_names"]
JAPANESE_SURNAMES = WORDS["japanese_surnames"]
"""Family names that help to find where a family name ends; other names are found as well."""
JAPANESE_NO_NAMES = tuple(sorted(word for word in WORDS["japanese_no_names"] if len(word) > 1))
JAPANESE_NO_NAME = re.compile("|".join(JAPANESE_NO_NAMES))
"""Words of Japanese notes that never occur inside a name."""
SHORT_SEX = {
    **dict.fromkeys(("M", "WM", "BM", "HM", "AM", "AAM"), "male"),
    **dict.fromkeys(("F", "WF", "BF", "HF", "AF", "AAF"), "female"),
}
"""Abbreviations, in capitals: M, F, and those with a letter for the ethnic group before it."""

WINDOW_CHARS = 280
_NO_PART = NO_NAMES | GENERIC | WORDS["relatives"] | WORDS["copulas"] | WORDS["seldom_names"]
PLACEHOLDER = re.compile(
    r"\[\*\*[^\[\]]{0,200}\*\*\]|[\[［][^\W\d_][^\[\]［］\n]{0,60}[\]］]|_{3,12}"
)
# Combining accents that Unicode composes with no letter.
_ACCENTED = r"(?:[\u0300-\u036f]{1,4}[^\W_]{0,60}){0,20}"
_TOKEN = re.compile(
    rf"(?P<placeholder>{PLACEHOLDER.pattern})"
    rf"|(?P<word>[^\W\d_][^\W_]{{0,60}}{_ACCENTED}(?:['’`‐‑-](?=[^\W\d_])[^\W_]{{1,60}}{_ACCENTED}){{0,60}})"
    r"|(?P<number>\d(?:[\w/-]|[.,](?=\d)){0,30})"
    r"|(?P<empty>\n[ \t\r]{0,40}\n)|(?P<line>\n)|(?P<mark>[^\w\s])"
)


class Token(NamedTuple):
    """One token: `kind` is "word", "initial", "placeholder", "number", "mark", "line" or "empty".

    `role` is that of a placeholder: "first", "last", "full", "initial" or "other"; "___" has the
    role "blank".
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
        """Whether it consists of at least two capitals."""
        return len(self.text) > 1 and self.text.isupper()

    @property
    def is_capitalized(self) -> bool:
        """Whether it is a word that begins with a capital."""
        return self.kind == "word" and self.text[0].isupper()

    @property
    def is_title(self) -> bool:
        """Whether it is "Mr.", "Dr." ..."""
        return self.kind == "word" and self.folded in WORDS["titles"]

    @property
    def is_particle(self) -> bool:
        """Whether it is "van", "de" ...: a part of a last name in small letters."""
        return self.kind == "word" and self.folded in WORDS["particles"]

    def may_be_name(self, name_parts: Collection[str]) -> bool:
        """Whether it can be a part of a name: a capitalized word that no list excludes.

        `name_parts` holds folded parts of names that count in any case.
        """
        if self.kind == "word" and name_parts and fold_name(self.text) in name_parts:
            return True
        is_abbreviation = self.is_capitals and self.folded in WORDS["shouted_no_names"]
        return self.is_capitalized and not is_abbreviation and self.folded not in _NO_PART

    def may_be_part(self, name_parts: Collection[str]) -> bool:
        """Whether it can be a part of a name, an initial, or a placeholder for one."""
        if self.kind == "placeholder":
            return self.role != "other"
        return self.kind == "initial" or self.may_be_name(name_parts)


def tokenize_before(text: str, *, offset: int) -> list[Token]:
    """Return the tokens in the characters before `offset`, in order."""
    first = max(0, offset - WINDOW_CHARS)
    if first:
        space = text.find(" ", first, offset)  # begin between two words
        first = space if space >= 0 else offset
    tokens: list[Token] = []
    new = tuple.__new__
    for match in _TOKEN.finditer(text, first, offset):
        kind, word, role = match.lastgroup or "mark", match[0], ""
        start, end = match.span()
        if kind == "word":
            if end - start == 1 and word.isupper():
                kind = "initial"
        elif kind == "placeholder":
            role = find_placeholder_role(word)
        elif word == "." and tokens and tokens[-1].end == start:
            last = tokens[-1]
            if "initial" in (last.kind, last.role) or last.folded in WORDS["no_end"]:
                continue
        tokens.append(new(Token, (kind, word, start, end, role)))  # in half of a Token()'s time
    return tokens
