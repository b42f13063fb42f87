"""Reading by characters: a small vocabulary, and for every character its kind.

A character outside the vocabulary is unknown, but its kind (kanji, kana, capital, digit ...) still
reaches the model, as the row of its token-type table: names nobody has seen look like names.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from audit.deid.token.reading import Ids, Tokens
from audit.errors import AuditError

KINDS = (
    "none", "blank", "line end", "digit", "capital", "small letter", "hiragana", "katakana",
    "kanji", "sign", "letter", "other",
)  # fmt: skip
PAD, BEGIN, END, UNKNOWN = range(4)
_N_SPECIAL = 4
_N_TABLE = 0x10000
_N_CODES = 0x110000
_VERSION = 1
_ALONE, _WORD, _NUMBER = range(3)
_UNIT = np.array([
    {"capital": _WORD, "small letter": _WORD, "digit": _NUMBER}.get(kind, _ALONE) for kind in KINDS
])  # fmt: skip
_HAN_PLANES = (0x20000, 0x3FFFF)


@dataclass(frozen=True)
class Characters:
    """A vocabulary of characters, as a reader.

    Parameters
    ----------
    known
        Characters in the form of `plain`, each once; the first has number 4.

    Raises
    ------
    ValueError
        If one is there twice, or is not in that form.
    """

    known: str

    def __post_init__(self) -> None:
        """Check the vocabulary, once."""
        if len(set(self.known)) != len(self.known):
            raise ValueError("a character is there twice")
        if any(plain(char) != char for char in self.known):
            raise ValueError("a character is not in its plain form")

    @property
    def prefix(self) -> tuple[int, ...]:
        """One sign that the text begins."""
        return (BEGIN,)

    @property
    def suffix(self) -> tuple[int, ...]:
        """One sign that it ends."""
        return (END,)

    @property
    def pad_id(self) -> int:
        """Number 0."""
        return PAD

    @property
    def unknown_id(self) -> int:
        """Of every character outside the vocabulary."""
        return UNKNOWN

    @property
    def n_ids(self) -> int:
        """Size of the vocabulary, special signs included."""
        return _N_SPECIAL + len(self.known)

    @cached_property
    def _id_of(self) -> NDArray[np.int32]:
        numbers = {char: _N_SPECIAL + i for i, char in enumerate(self.known)}
        table = np.full(_N_CODES, UNKNOWN, dtype=np.int32)
        plain_codes, _ = _tables()
        own = np.full(_N_CODES, UNKNOWN, dtype=np.int32)
        for char, number in numbers.items():
            own[ord(char)] = number
        table[:_N_TABLE] = own[plain_codes]
        table[_N_TABLE:] = own[_N_TABLE:]
        return table

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text, one a character.

        White space has no place. A word of Latin letters and a number have theirs at their first
        character: no span begins or ends inside one.
        """
        return [self._read(text) for text in texts]

    def _read(self, text: str) -> Tokens:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        _, kind_of = _tables()
        kinds = kind_of[np.minimum(codes, _N_TABLE - 1)].astype(np.int64)
        high = codes >= _N_TABLE
        is_han = high & (codes >= _HAN_PLANES[0]) & (codes <= _HAN_PLANES[1])
        kinds[high] = KINDS.index("other")
        kinds[is_han] = KINDS.index("kanji")
        ids: Ids = self._id_of[codes].astype(np.int64)
        starts = np.arange(len(codes), dtype=np.int64)
        return Tokens(ids, kinds, starts, _ends(kinds))

    def to_json(self) -> str:
        """Return the vocabulary as the text of a file."""
        content = {"version": _VERSION, "kinds": list(KINDS), "characters": self.known}
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def characters_from_json(text: str, *, where: str) -> Characters:
    """Read a vocabulary.

    Raises
    ------
    AuditError
        If it is none.
    """
    try:
        content = json.loads(text)
        if content["version"] != _VERSION or content["kinds"] != list(KINDS):
            raise ValueError
        return Characters(str(content["characters"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise AuditError("This is no vocabulary of characters.", where=where) from None


def characters_of(texts: Iterable[str], *, n_most: int, n_times: int) -> Characters:
    """Return the vocabulary of texts: the `n_most` commonest that occur `n_times` or more."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    plain_counts: Counter[str] = Counter()
    for char, n in counts.items():
        plain_counts[plain(char)] += n
    enough = [
        (char, n)
        for char, n in plain_counts.items()
        if n >= n_times and unicodedata.category(char) != "Cs"  # no file can hold half a pair
    ]
    chosen = sorted(enough, key=lambda one: (-one[1], one[0]))[:n_most]
    return Characters("".join(sorted(char for char, _ in chosen)))


def plain(char: str) -> str:
    """Return the form in which a character is looked up: NFKC and small, where that is one too."""
    for form in (unicodedata.normalize("NFKC", char), char):
        if len(form) == 1 and len(form.lower()) == 1:
            small = form.lower()
            # Some signs change once more; the form must be its own form.
            again = unicodedata.normalize("NFKC", small)
            return small if again == small else form if form == char else char
    return char


def kind_of_character(char: str) -> int:
    """Return the number of a character's kind, out of `KINDS`."""
    if char in "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        return KINDS.index("line end")
    if char.isspace():
        return KINDS.index("blank")
    known = unicodedata.normalize("NFKC", char)[:1]
    category = unicodedata.category(known)
    name = unicodedata.name(known, "")
    if category == "Nd":
        return KINDS.index("digit")
    for start, kind in (("HIRAGANA", "hiragana"), ("KATAKANA", "katakana"), ("CJK", "kanji")):
        if name.startswith(start) and (category[0] == "L" or kind != "kanji"):
            return KINDS.index(kind)
    if known in "々〆ヶ〇":
        return KINDS.index("kanji")
    letters = {"Lu": "capital", "Lt": "capital", "Ll": "small letter"}
    if category[0] == "L":
        return KINDS.index(letters.get(category, "letter"))
    return KINDS.index("sign" if category[0] in "PSN" else "other")


def _ends(kinds: Ids) -> Ids:
    """Return where the place of each character ends: a word's and a number's is at its first."""
    n = len(kinds)
    unit = _UNIT[kinds]
    is_first = np.ones(n, dtype=bool)
    is_first[1:] = (unit[1:] != unit[:-1]) | (unit[1:] == _ALONE)
    firsts = np.flatnonzero(is_first)
    ends = np.arange(n, dtype=np.int64)
    ends[firsts] = np.append(firsts[1:], n)
    is_blank = (kinds == KINDS.index("blank")) | (kinds == KINDS.index("line end"))
    return np.where(is_blank, np.arange(n), ends)


@cache
def _tables() -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return plain code and kind of every character of the basic plane."""
    chars = [chr(code) for code in range(_N_TABLE)]
    codes = np.array([ord(plain(char)) for char in chars], dtype=np.int32)
    kinds = np.array([kind_of_character(char) for char in chars], dtype=np.uint8)
    return codes, kinds
