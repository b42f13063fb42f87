"""The tokens of a network of words: words of Latin letters, numbers, and every other sign.

There is no vocabulary. A word is described by its ends, its shape and the lists that contain it,
so that names which never occurred in training look like names too.
"""

from __future__ import annotations

import json
import unicodedata
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import ClassVar
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from audit.deid.find.network.decode import (
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
from audit.errors import make_version_error

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
# The units that no span cuts: 1 is a word of Latin letters, 2 is a number.
_UNIT_OF = {"capital": 1, "small letter": 1, "digit": 2}
_UNIT = np.array([_UNIT_OF.get(kind, 0) for kind in KINDS])
_BLANK, _LINE_END, _CAPITAL, _SMALL = (
    KINDS.index(kind) for kind in ("blank", "line end", "capital", "small letter")
)
_JAPANESE = np.isin(range(len(KINDS)), [KINDS.index(k) for k in ("hiragana", "katakana", "kanji")])

N_WORDS, N_EDGES, N_SHAPES, N_GAPS = 16_384, 8_192, 128, 5
"""The table sizes of words, of beginnings and ends, of shapes and of gaps; number 0 is padding."""
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
"""The flags of a token, in the order of their bits: from lists and from the text around it."""
LATIN_LISTS = ("first names", "surnames", "places", "common words", "jobs")
JAPANESE_LISTS = tuple(f"Japanese {name}" for name in LATIN_LISTS)
_ELSEWHERE, _NO_SMALL, _NO_CAPITALS, _IN_JAPANESE, _FIRST_JAPANESE = (1 << b for b in range(5, 10))
LISTED = (1 << len(FLAGS)) - _FIRST_JAPANESE | _ELSEWHERE - 1
"""The flags that come from lists."""
_MAX_NAME = 8
_FEW_CAPITALS, _MANY_LETTERS = 0.01, 40
_LISTS, _CASE, _SMALL_FORM = GAP, GAP + 1, GAP + 2
_IS_SMALL, _HAS_CAPITALS = 1, 2


def _hash_text(text: str, n: int, *, salt: str = "") -> int:
    """Return a hash of a text from 2 to n - 1; it is the same on every machine."""
    return 2 + zlib.crc32(f"{salt}{text}".encode("utf-8", "surrogatepass")) % (n - 2)


def _mix_codes(codes: NDArray[np.uint64], n: int) -> NDArray[np.int32]:
    """Return hashes of codes from 2 to n - 1 (the mixer of SplitMix64)."""
    mixed = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (2 + (mixed >> np.uint64(33)) % np.uint64(n - 2)).astype(np.int32)


_STEP = np.uint64(0x9E3779B97F4A7C15)


def _join_hashes(
    *codes: NDArray[np.uint64], prefix_hashes: NDArray[np.uint64] | int = 0
) -> NDArray[np.uint64]:
    """Return the hashes of sequences of codes that continue those with `prefix_hashes`."""
    hashes = np.zeros(len(codes[0]), dtype=np.uint64)
    hashes += prefix_hashes
    for word_codes in codes:
        hashes = (hashes + word_codes + np.uint64(1)) * _STEP
        hashes ^= hashes >> np.uint64(29)
    return hashes


class _WordTable:
    """The words of some texts: each has a number and a row of features."""

    def __init__(self, describe_word: Callable[[str], tuple[int, ...]]) -> None:
        self._describe_word = describe_word
        self.numbers: dict[str, int] = {}
        self.rows: list[tuple[int, ...]] = []

    def get_number(self, word: str) -> int:
        """Return the number of a word; a new word gets one."""
        number = self.numbers.get(word)
        if number is None:
            small = word.lower()
            small_number = self.get_number(small) if small != word else len(self.rows)
            number = self.numbers[word] = len(self.rows)
            self.rows.append((*self._describe_word(word), small_number))
        return number


def _sorted_hashes(words: Mapping[str, int]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return the sorted hashes of words of one length, and the bits of each word."""
    codes = np.array([list(map(ord, word)) for word in words], dtype=np.uint64).T
    hashes = _join_hashes(*codes)
    order = np.argsort(hashes)
    return hashes[order], np.array(list(words.values()), dtype=np.int32)[order]


@dataclass(frozen=True, eq=False)
class Words:
    """Makes tokens of words of Latin letters, numbers, and every other sign, as a reader.

    `lists` are those of `LATIN_LISTS` and `JAPANESE_LISTS`, in small letters; see `TokenizerReader`
    for the other attributes. There is no vocabulary: a word is described by a hash that it shares
    with many words, by its beginning and end, and by flags from lists and from the text around it.
    """

    lists: Mapping[str, frozenset[str]]
    pad_id: ClassVar[int] = 0
    prefix: ClassVar[tuple[int, ...]] = ()
    suffix: ClassVar[tuple[int, ...]] = ()
    unknown_id: ClassVar[int] = 1

    @cached_property
    def _japanese_hashes(self) -> dict[int, tuple[NDArray[np.uint64], NDArray[np.int32]]]:
        """Length of names -> the hashes of names of that length, and the bits of their lists."""
        bits_by_length: dict[int, dict[str, int]] = {}
        for list_number, name in enumerate(JAPANESE_LISTS):
            for word in self.lists.get(name, frozenset()):
                if 2 <= len(word) <= _MAX_NAME:
                    bits_by_length.setdefault(len(word), {}).setdefault(word, 0)
                    bits_by_length[len(word)][word] |= _FIRST_JAPANESE << 2 * list_number
        return {n: _sorted_hashes(words) for n, words in sorted(bits_by_length.items())}

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text; white space is no token, no word or number is cut."""
        joined_text = "\n".join(texts)  # read as one text, with line ends in between
        codes = np.frombuffer(joined_text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        text_ends = np.array([*accumulate(len(text) + 1 for text in texts)], dtype=np.int64)
        kinds = _make_tables()[1][codes]
        units, is_first = _UNIT[kinds], np.ones(len(codes), dtype=bool)
        is_first[1:] = (units[1:] != units[:-1]) | (units[1:] == 0)
        firsts = np.flatnonzero(is_first)
        ends = np.append(firsts[1:], len(codes))
        is_sign = (kinds[firsts] != _BLANK) & (kinds[firsts] != _LINE_END)
        starts, ends = firsts[is_sign], ends[is_sign]
        tokens = np.zeros(len(starts), dtype=TOKEN)
        text_numbers = np.searchsorted(text_ends, starts, side="right")
        text_starts = np.append(0, text_ends)[text_numbers]
        tokens["start"], tokens["end"] = starts - text_starts, ends - text_starts
        if len(starts):
            folded_codes = codes.astype(np.uint64)
            is_basic = codes < _N_TABLE
            folded_codes[is_basic] = _make_tables()[0][codes[is_basic]]
            folded_codes[text_ends[:-1] - 1] = 0
            ids = self._describe_signs(folded_codes, starts, kinds)
            self._describe_words(ids, joined_text, starts, ends, text_numbers, units[starts])
            ids[:, GAP] = _measure_gaps(kinds, starts, ends)
            ids[:, FLAG] |= self._flag_text(kinds, starts, text_ends, text_numbers)
            ids[:, FLAG] |= self._flag_names(folded_codes)[starts]
            tokens["id"] = ids
        return np.split(tokens, np.searchsorted(starts, text_ends)[:-1]) if texts else []

    def _describe_signs(
        self, codes: NDArray[np.uint64], starts: NDArray[np.intp], kinds: NDArray[np.uint8]
    ) -> NDArray[np.int32]:
        """Return the features of tokens by their first character and its two neighbours."""
        around = np.concatenate(([0], codes, [0])).astype(np.uint64)
        previous_codes, own_codes = around[starts], around[starts + 1]
        next_codes = around[starts + 2]
        ids = np.zeros((len(starts), N_FEATURES), dtype=np.int32)
        ids[:, WORD] = _mix_codes(own_codes, N_WORDS)
        ids[:, BEGIN] = _mix_codes(_join_hashes(previous_codes, own_codes), N_EDGES)
        ids[:, END] = _mix_codes(_join_hashes(own_codes, next_codes), N_EDGES)
        ids[:, SHAPE] = 100 + kinds[starts]
        return ids

    def _describe_words(
        self,
        ids: NDArray[np.int32],
        text: str,
        starts: Ids,
        ends: Ids,
        text_numbers: Ids,
        units: NDArray[np.bool_],
    ) -> None:
        """Write the features of words and numbers into `ids`."""
        places, word_table = np.flatnonzero(units), _WordTable(self._describe_word)
        numbers = [
            word_table.get_number(text[start:end])
            for start, end in zip(starts[places].tolist(), ends[places].tolist(), strict=True)
        ]
        rows = np.array(word_table.rows, dtype=np.int32).reshape(-1, _SMALL_FORM + 1)[numbers]
        ids[places, :GAP] = rows[:, :GAP]
        case, small = (
            rows[:, _CASE],
            rows[:, _SMALL_FORM] + len(word_table.rows) * text_numbers[places],
        )
        is_elsewhere = (case == _HAS_CAPITALS) & np.isin(small, small[case == _IS_SMALL])
        ids[places, FLAG] = rows[:, _LISTS] | np.where(is_elsewhere, _ELSEWHERE, 0)

    def _describe_word(self, word: str) -> tuple[int, ...]:
        """Return a word's features without the gap, the flags of its lists, and its case."""
        normal_word = normalize("NFKC", word)
        small = normal_word.lower()
        if small[0].isdigit():
            n, digits = len(small), small if len(small) < 3 else small[:2]
            shape = 80 + min(n, 12)
            number_key = f"{n}#{digits}" if n < 5 else f"{min(n, 12)}#"
            return (
                _hash_text(number_key, N_WORDS, salt="#"),
                _hash_text(digits, N_EDGES, salt="#"),
                _hash_text(str(n), N_EDGES, salt="#"),
                shape,
                0,
                0,
            )
        case = (
            0
            if normal_word.islower()
            else 1
            if normal_word[1:].islower()
            else 2
            if normal_word.isupper()
            else 3
        )
        flags = sum(
            1 << bit for bit, name in enumerate(LATIN_LISTS) if small in self.lists.get(name, ())
        )
        shape = 1 + 10 * case + min(len(small), 9)
        return (
            _hash_text(small, N_WORDS),
            _hash_text(small[:3], N_EDGES, salt="^"),
            _hash_text(small[-3:], N_EDGES, salt="$"),
            shape,
            flags,
            _HAS_CAPITALS if case else _IS_SMALL if word.islower() else 0,
        )

    def _flag_text(
        self, kinds: NDArray[np.uint8], starts: Ids, text_ends: Ids, text_numbers: Ids
    ) -> NDArray[np.int32]:
        """Return the flags of the tokens' lines and of their whole texts."""
        is_small, is_capital = kinds == _SMALL, kinds == _CAPITAL
        line_numbers = np.cumsum(kinds == _LINE_END)
        n_small = np.bincount(line_numbers, weights=is_small)[line_numbers[starts]]
        n_capital = np.bincount(line_numbers, weights=is_capital)[line_numbers[starts]]
        line_flags = np.where((n_small == 0) & (n_capital > 0), _NO_SMALL, 0)

        def count(is_counted: NDArray[np.bool_]) -> Ids:
            """Return the number of counted characters in each text."""
            return np.diff(
                np.append(0, np.cumsum(is_counted)[np.minimum(text_ends, len(kinds)) - 1])
            )

        n_capitals = count(is_capital)
        n_letters = n_capitals + count(is_small)
        has_few = (n_letters >= _MANY_LETTERS) & (n_capitals <= _FEW_CAPITALS * n_letters)
        text_flags = np.where(has_few, _NO_CAPITALS, 0)
        text_flags |= np.where(count(_JAPANESE[kinds]) > 0, _IN_JAPANESE, 0)
        return (line_flags | text_flags[text_numbers]).astype(np.int32)

    def _flag_names(self, codes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the flags of characters at which a listed Japanese name begins or goes on."""
        flags = np.zeros(len(codes), dtype=np.int32)
        hashes = _join_hashes(codes)
        for n in range(2, min(_MAX_NAME, len(codes)) + 1):
            hashes = _join_hashes(codes[n - 1 :], prefix_hashes=hashes[:-1])
            if n not in self._japanese_hashes:
                continue
            listed, bits = self._japanese_hashes[n]
            indices = np.minimum(np.searchsorted(listed, hashes), len(listed) - 1)
            begins = np.flatnonzero(listed[indices] == hashes)
            list_bits = bits[indices[begins]]
            flags[begins] |= list_bits
            for k in range(1, n):
                flags[begins + k] |= list_bits << 1
        return flags

    def to_json(self) -> str:
        """Return the lists as the JSON text of a file."""
        lists = {name: " ".join(sorted(words)) for name, words in self.lists.items()}
        content = {"version": _VERSION, "kinds": list(KINDS), "flags": list(FLAGS), "lists": lists}
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _measure_gaps(kinds: NDArray[np.uint8], starts: Ids, ends: Ids) -> NDArray[np.int32]:
    """Return the gap before each token: 1 nothing, 2 a blank, 3 several blanks, 4 a line end."""
    previous_ends = np.append(0, ends[:-1])
    n_ends = np.append(0, np.cumsum(kinds == _LINE_END))
    has_end = (n_ends[starts] > n_ends[previous_ends]) | (np.arange(len(starts)) == 0)
    return np.where(has_end, 4, 1 + np.minimum(starts - previous_ends, 2)).astype(np.int32)


def words_from_json(text: str, *, where: str) -> Words:
    """Return a reader with the lists in the JSON text of a file."""
    try:
        content = json.loads(text)
        formats = [content["version"], content["kinds"], content["flags"]]
        if formats != [_VERSION, list(KINDS), list(FLAGS)]:
            raise ValueError
        return Words(
            {str(name): frozenset(str(words).split()) for name, words in content["lists"].items()}
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise make_version_error(where=where) from None


def fold_char(char: str) -> str:
    """Return the form in which a character is looked up: NFKC and small, if one character."""
    for form in (normalize("NFKC", char), char):
        if len(form) == 1 and len(form.lower()) == 1:
            small = form.lower()
            # Some signs change once more; the form of a form must be itself.
            again = normalize("NFKC", small)
            return small if again == small else form if form == char else char
    return char


def _classify_char(char: str) -> str:
    if char in "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        return "line end"
    if char.isspace():
        return "blank"
    folded_char = normalize("NFKC", char)[:1]
    category, name = unicodedata.category(folded_char), unicodedata.name(folded_char, "")
    if category == "Nd":
        return "digit"
    for start, kind in (("HIRAGANA", "hiragana"), ("KATAKANA", "katakana"), ("CJK", "kanji")):
        if name.startswith(start) and (category[0] == "L" or kind != "kanji"):
            return kind
    if folded_char in "々〆ヶ〇":
        return "kanji"
    if category[0] == "L":
        letters = {"Lu": "capital", "Lt": "capital", "Ll": "small letter"}
        return letters.get(category, "letter")
    return "sign" if category[0] in "PSN" else "other"


@cache
def _make_tables() -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the folded codes of the basic plane, and the kind of every character."""
    chars = [chr(code) for code in range(_N_TABLE)]
    kinds = np.full(_N_CODES, KINDS.index("other"), dtype=np.uint8)
    kinds[:_N_TABLE] = [KINDS.index(_classify_char(char)) for char in chars]
    kinds[_HAN_PLANES] = KINDS.index("kanji")
    return np.array([ord(fold_char(char)) for char in chars], dtype=np.int32), kinds
