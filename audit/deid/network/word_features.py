"""The tokens of a network of words: words of Latin letters, numbers, and every other sign.

It knows no vocabulary, but of every word its ends, its shape and the lists in which it stands:
names that nobody has seen look like names.
"""

from __future__ import annotations

import json
import unicodedata
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import Any, ClassVar
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from audit.deid.network.decode import (
    BEGIN,
    END,
    FLAG,
    GAP,
    N_FEATURES,
    SHAPE,
    TOKEN,
    WORD,
    Ids,
    Tokens,
)
from audit.errors import AuditError

KINDS = (
    "none",
    "blank",
    "line end",
    "digit",
    "capital",
    "small letter",
    "hiragana",
    "katakana",
    "kanji",
    "sign",
    "letter",
    "other",
)
_N_TABLE, _N_CODES = 0x10000, 0x110000
_HAN_PLANES = slice(0x20000, 0x40000)
_VERSION = 2
# What kinds make units that no span cuts: 1 words of Latin letters, 2 numbers.
_UNIT_OF = {"capital": 1, "small letter": 1, "digit": 2}
_UNIT = np.array([_UNIT_OF.get(kind, 0) for kind in KINDS])
_BLANK, _LINE_END, _CAPITAL, _SMALL = (
    KINDS.index(kind) for kind in ("blank", "line end", "capital", "small letter")
)
_JAPANESE = np.isin(range(len(KINDS)), [KINDS.index(k) for k in ("hiragana", "katakana", "kanji")])

N_WORDS, N_EDGES, N_SHAPES, N_GAPS = 16_384, 8_192, 128, 5
"""How many numbers words, beginnings and ends, shapes and gaps have; 0 is padding."""
FLAGS = (
    "first name",
    "surname",
    "place",
    "common word",
    "job",
    "elsewhere small",
    "line without small letters",
    "text without capitals",
    "text in Japanese",
    "given name begins",
    "given name goes on",
    "surname begins",
    "surname goes on",
    "place begins",
    "place goes on",
    "common word begins",
    "common word goes on",
    "job begins",
    "job goes on",
)
"""What lists of names and the text around say of a token, by the number of its bit."""
LATIN_LISTS = ("first names", "surnames", "places", "common words", "jobs")
JAPANESE_LISTS = tuple(f"Japanese {name}" for name in LATIN_LISTS)
_ELSEWHERE, _NO_SMALL, _NO_CAPITALS, _IN_JAPANESE, _FIRST_JAPANESE = (1 << b for b in range(5, 10))
LISTED = (1 << len(FLAGS)) - _FIRST_JAPANESE | _ELSEWHERE - 1
"""The flags that come from lists."""
_MAX_NAME = 8
_FEW_CAPITALS, _MANY_LETTERS = 0.01, 40
_LISTS, _CASE, _SMALL_FORM = GAP, GAP + 1, GAP + 2
_IS_SMALL, _HAS_CAPITALS = 1, 2


def _hashed(text: str, n: int, *, salt: str = "") -> int:
    """Return the number of a text out of 2 to n - 1: the same everywhere."""
    return 2 + zlib.crc32(f"{salt}{text}".encode("utf-8", "surrogatepass")) % (n - 2)


def _mixed(codes: NDArray[np.uint64], n: int) -> NDArray[np.int32]:
    """Return the numbers of codes out of 2 to n - 1 (the mixer of SplitMix64)."""
    mixed = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (2 + (mixed >> np.uint64(33)) % np.uint64(n - 2)).astype(np.int32)


_STEP = np.uint64(0x9E3779B97F4A7C15)


def _joined(*codes: NDArray[np.uint64], behind: Any = 0) -> NDArray[np.uint64]:
    """Return one hash of the codes in turn, those that `behind` is the hash of before them."""
    found = np.zeros(len(codes[0]), dtype=np.uint64)
    found += behind
    for one in codes:
        found = (found + one + np.uint64(1)) * _STEP
        found ^= found >> np.uint64(29)
    return found


class _Met:
    """The words of some texts, each with a number, and of each what it is known by."""

    def __init__(self, features: Callable[[str], tuple[int, ...]]) -> None:
        self._features = features
        self.numbers: dict[str, int] = {}
        self.rows: list[tuple[int, ...]] = []

    def number(self, word: str) -> int:
        """Return the number of a word, which it has from now on."""
        found = self.numbers.get(word)
        if found is None:
            small = word.lower()
            of_small = self.number(small) if small != word else len(self.rows)
            found = self.numbers[word] = len(self.rows)
            self.rows.append((*self._features(word), of_small))
        return found


def _sorted_hashes(words: Mapping[str, int]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return the hashes of words of one length, sorted, and the bits of each."""
    codes = np.array([list(map(ord, word)) for word in words], dtype=np.uint64).T
    hashes = _joined(*codes)
    order = np.argsort(hashes)
    return hashes[order], np.array(list(words.values()), dtype=np.int32)[order]


@dataclass(frozen=True, eq=False)
class Words:
    """Makes tokens of words of Latin letters, numbers, and every other sign, as a reader.

    `lists` are those of `LATIN_LISTS` and `JAPANESE_LISTS`, in small letters; see `TokenizerReader`
    for the rest. No vocabulary is kept: words are known by numbers that many share, by their
    beginnings and ends, and by what lists and the text around say of them.
    """

    lists: Mapping[str, frozenset[str]]
    pad_id: ClassVar[int] = 0
    prefix: ClassVar[tuple[int, ...]] = ()
    suffix: ClassVar[tuple[int, ...]] = ()
    unknown_id: ClassVar[int] = 1

    @cached_property
    def _japanese(self) -> dict[int, tuple[NDArray[np.uint64], NDArray[np.int32]]]:
        """By numbers of characters: hashes of the names that have so many, bits of their lists."""
        found: dict[int, dict[str, int]] = {}
        for place, name in enumerate(JAPANESE_LISTS):
            for word in self.lists.get(name, frozenset()):
                if 2 <= len(word) <= _MAX_NAME:
                    found.setdefault(len(word), {}).setdefault(word, 0)
                    found[len(word)][word] |= _FIRST_JAPANESE << 2 * place
        return {n: _sorted_hashes(words) for n, words in sorted(found.items())}

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text; white space is none, no word or number is cut."""
        joined = "\n".join(texts)  # read as one, with a line end between two
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        behind = np.array([*accumulate(len(text) + 1 for text in texts)], dtype=np.int64)
        kinds = _tables()[1][codes]
        unit, is_first = _UNIT[kinds], np.ones(len(codes), dtype=bool)
        is_first[1:] = (unit[1:] != unit[:-1]) | (unit[1:] == 0)
        firsts = np.flatnonzero(is_first)
        ends = np.append(firsts[1:], len(codes))
        is_sign = (kinds[firsts] != _BLANK) & (kinds[firsts] != _LINE_END)
        starts, ends = firsts[is_sign], ends[is_sign]
        found = np.zeros(len(starts), dtype=TOKEN)
        text_of = np.searchsorted(behind, starts, side="right")
        begins = np.append(0, behind)[text_of]
        found["start"], found["end"] = starts - begins, ends - begins
        if len(starts):
            plain_codes = codes.astype(np.uint64)
            is_basic = codes < _N_TABLE
            plain_codes[is_basic] = _tables()[0][codes[is_basic]]
            plain_codes[behind[:-1] - 1] = 0
            ids = self._signs(plain_codes, starts, kinds)
            self._words(ids, joined, starts, ends, text_of, unit[starts])
            ids[:, GAP] = _gaps(kinds, starts, ends)
            ids[:, FLAG] |= self._of_text(kinds, starts, behind, text_of)
            ids[:, FLAG] |= self._names(plain_codes)[starts]
            found["id"] = ids
        return np.split(found, np.searchsorted(starts, behind)[:-1]) if texts else []

    def _signs(
        self, codes: NDArray[np.uint64], starts: NDArray[np.intp], kinds: NDArray[np.uint8]
    ) -> NDArray[np.int32]:
        """Return the features of tokens as if each were one character, with its neighbours."""
        around = np.concatenate(([0], codes, [0])).astype(np.uint64)
        before, own, after = around[starts], around[starts + 1], around[starts + 2]
        ids = np.zeros((len(starts), N_FEATURES), dtype=np.int32)
        ids[:, WORD] = _mixed(own, N_WORDS)
        ids[:, BEGIN] = _mixed(_joined(before, own), N_EDGES)
        ids[:, END] = _mixed(_joined(own, after), N_EDGES)
        ids[:, SHAPE] = 100 + kinds[starts]
        return ids

    def _words(
        self,
        ids: NDArray[np.int32],
        text: str,
        starts: Any,
        ends: Any,
        text_of: Ids,
        unit: NDArray[Any],
    ) -> None:
        """Write the features of words and numbers."""
        places, met = np.flatnonzero(unit), _Met(self._features)
        at = [
            met.number(text[start:end])
            for start, end in zip(starts[places].tolist(), ends[places].tolist(), strict=True)
        ]
        rows = np.array(met.rows, dtype=np.int32).reshape(-1, _SMALL_FORM + 1)[at]
        ids[places, :GAP] = rows[:, :GAP]
        case, small = rows[:, _CASE], rows[:, _SMALL_FORM] + len(met.rows) * text_of[places]
        is_elsewhere = (case == _HAS_CAPITALS) & np.isin(small, small[case == _IS_SMALL])
        ids[places, FLAG] = rows[:, _LISTS] | np.where(is_elsewhere, _ELSEWHERE, 0)

    def _features(self, word: str) -> tuple[int, ...]:
        """Return a word's features without the gap, the lists that it is in, and its case."""
        plain_word = normalize("NFKC", word)
        small = plain_word.lower()
        if small[0].isdigit():
            n, value = len(small), small if len(small) < 3 else small[:2]
            shape = 80 + min(n, 12)
            about = f"{n}#{value}" if n < 5 else f"{min(n, 12)}#"
            return (
                _hashed(about, N_WORDS, salt="#"),
                _hashed(value, N_EDGES, salt="#"),
                _hashed(str(n), N_EDGES, salt="#"),
                shape,
                0,
                0,
            )
        case = (
            0
            if plain_word.islower()
            else 1
            if plain_word[1:].islower()
            else 2
            if plain_word.isupper()
            else 3
        )
        flags = sum(
            1 << bit for bit, name in enumerate(LATIN_LISTS) if small in self.lists.get(name, ())
        )
        shape = 1 + 10 * case + min(len(small), 9)
        return (
            _hashed(small, N_WORDS),
            _hashed(small[:3], N_EDGES, salt="^"),
            _hashed(small[-3:], N_EDGES, salt="$"),
            shape,
            flags,
            _HAS_CAPITALS if case else _IS_SMALL if word.islower() else 0,
        )

    def _of_text(
        self, kinds: NDArray[np.uint8], starts: Ids, behind: Ids, text_of: Ids
    ) -> NDArray[np.int32]:
        """Return the flags that tell of the line and of the whole text."""
        is_small, is_capital = kinds == _SMALL, kinds == _CAPITAL
        line = np.cumsum(kinds == _LINE_END)
        n_small = np.bincount(line, weights=is_small)[line[starts]]
        n_capital = np.bincount(line, weights=is_capital)[line[starts]]
        flags = np.where((n_small == 0) & (n_capital > 0), _NO_SMALL, 0)

        def count(is_one: NDArray[np.bool_]) -> Ids:
            """Return how many characters of each text are one."""
            return np.diff(np.append(0, np.cumsum(is_one)[np.minimum(behind, len(kinds)) - 1]))

        n_capitals = count(is_capital)
        n_letters = n_capitals + count(is_small)
        has_few = (n_letters >= _MANY_LETTERS) & (n_capitals <= _FEW_CAPITALS * n_letters)
        of_text = np.where(has_few, _NO_CAPITALS, 0)
        of_text |= np.where(count(_JAPANESE[kinds]) > 0, _IN_JAPANESE, 0)
        return (flags | of_text[text_of]).astype(np.int32)

    def _names(self, codes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the flags of characters at which a Japanese name of a list begins or goes on."""
        found = np.zeros(len(codes), dtype=np.int32)
        hashes = _joined(codes)
        for n in range(2, min(_MAX_NAME, len(codes)) + 1):
            hashes = _joined(codes[n - 1 :], behind=hashes[:-1])
            if n not in self._japanese:
                continue
            listed, bits = self._japanese[n]
            at = np.minimum(np.searchsorted(listed, hashes), len(listed) - 1)
            begins = np.flatnonzero(listed[at] == hashes)
            of_lists = bits[at[begins]]
            found[begins] |= of_lists
            for k in range(1, n):
                found[begins + k] |= of_lists << 1
        return found

    def to_json(self) -> str:
        """Return the lists as the text of a file."""
        lists = {name: " ".join(sorted(words)) for name, words in self.lists.items()}
        content = {"version": _VERSION, "kinds": list(KINDS), "flags": list(FLAGS), "lists": lists}
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _gaps(kinds: NDArray[np.uint8], starts: Any, ends: Any) -> NDArray[np.int32]:
    """Return what stands before each token: 1 nothing, 2 a blank, 3 blanks, 4 a line end."""
    before = np.append(0, ends[:-1])
    n_ends = np.append(0, np.cumsum(kinds == _LINE_END))
    has_end = (n_ends[starts] > n_ends[before]) | (np.arange(len(starts)) == 0)
    return np.where(has_end, 4, 1 + np.minimum(starts - before, 2)).astype(np.int32)


def words_from_json(text: str, *, where: str) -> Words:
    """Read the lists of a reader."""
    try:
        content = json.loads(text)
        told = [content["version"], content["kinds"], content["flags"]]
        if told != [_VERSION, list(KINDS), list(FLAGS)]:
            raise ValueError
        return Words(
            {str(name): frozenset(str(words).split()) for name, words in content["lists"].items()}
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AuditError(
            "These are no lists of a tagger of today.",
            where=where,
            do="A tagger of an older version is trained again.",
        ) from None


def plain(char: str) -> str:
    """Return the form in which a character is looked up: NFKC and small, where that is one too."""
    for form in (normalize("NFKC", char), char):
        if len(form) == 1 and len(form.lower()) == 1:
            small = form.lower()
            # Some signs change once more; the form must be its own form.
            again = normalize("NFKC", small)
            return small if again == small else form if form == char else char
    return char


def _kind(char: str) -> str:
    if char in "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        return "line end"
    if char.isspace():
        return "blank"
    known = normalize("NFKC", char)[:1]
    category, name = unicodedata.category(known), unicodedata.name(known, "")
    if category == "Nd":
        return "digit"
    for start, kind in (("HIRAGANA", "hiragana"), ("KATAKANA", "katakana"), ("CJK", "kanji")):
        if name.startswith(start) and (category[0] == "L" or kind != "kanji"):
            return kind
    if known in "々〆ヶ〇":
        return "kanji"
    if category[0] == "L":
        letters = {"Lu": "capital", "Lt": "capital", "Ll": "small letter"}
        return letters.get(category, "letter")
    return "sign" if category[0] in "PSN" else "other"


@cache
def _tables() -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the plain codes of the basic plane, and the kind of every character."""
    chars = [chr(code) for code in range(_N_TABLE)]
    kinds = np.full(_N_CODES, KINDS.index("other"), dtype=np.uint8)
    kinds[:_N_TABLE] = [KINDS.index(_kind(char)) for char in chars]
    kinds[_HAN_PLANES] = KINDS.index("kanji")
    return np.array([ord(plain(char)) for char in chars], dtype=np.int32), kinds
