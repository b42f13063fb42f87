"""Texts as tokens with places, and spans as their tags: all of a tagger but its network.

A network of words knows no vocabulary, but of every word its ends, its shape and the lists in which
it stands: names that nobody has seen look like names.
"""

from __future__ import annotations

import json
import re
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError
from audit.notes.spans import Span

OUTSIDE = 0

Run = tuple[int, int, str]
"""Tokens from one number to another (exclusive), and their label."""
Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
WORD, BEGIN, END, SHAPE, GAP, FLAG = range(6)
N_FEATURES = 6
"""Of a token: which word it is, its beginning and end, its shape, what stands before it, and flags;
the token of a tokenizer has the first alone."""
TOKEN = np.dtype([("id", np.int32, (N_FEATURES,)), ("start", np.int32), ("end", np.int32)])
Tokens = NDArray[np.void]
"""The tokens of a text, each a `TOKEN`, without special ones: its features, and its characters
`start` to `end` (exclusive) of the text; they are equal where it has no place."""


@dataclass(frozen=True)
class TagScheme:
    """The tags of some labels, each once: O, then B and I of each label in turn."""

    labels: tuple[str, ...]

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """The names of all tags, by number."""
        return ("O", *(f"{part}-{label}" for label in self.labels for part in "BI"))

    def encode(self, runs: Iterable[Run], *, n_tokens: int) -> NDArray[np.int64]:
        """Return the tags [n_tokens] of runs that share no token."""
        found = np.zeros(n_tokens, dtype=np.int64)
        for first, end, label in runs:
            begin = 1 + 2 * self.labels.index(label)
            found[first:end] = begin + 1
            found[first] = begin
        return found

    def decode(self, tags: NDArray[np.integer]) -> list[Run]:
        """Return the runs of tags that follow the scheme, in order."""
        found: list[Run] = []
        for at in np.flatnonzero(tags).tolist():
            label, is_inside = divmod(int(tags[at]) - 1, 2)
            first = found.pop()[0] if is_inside else at
            found.append((first, at + 1, self.labels[label]))
        return found


_NEVER = -1e30
_MAX_CELLS = 400_000


def side_by_side(lengths: Sequence[int], *, most: float) -> list[list[int]]:
    """Put rows into groups, the longest first; of `most` cells where each is as long as its first.

    A row that is longer has a group of its own.
    """
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if groups and lengths[groups[-1][0]] * (len(groups[-1]) + 1) <= most:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def best_tags(
    scores: Sequence[Scores], *, scheme: TagScheme, bias: float = 0.0
) -> list[NDArray[np.uint8]]:
    """Return the best tags [tokens] of each text, which begins as after O (Viterbi 1967).

    `scores` of each text are [tokens, tags], any numbers that are added up, as logits are; `bias`
    is added to those of every tag but O: above 0 more is found, right or wrong. Of two that are
    equally good the one with the lower tag, judged from the end, so that the answer never depends
    on the texts beside it.
    """
    found: list[NDArray[np.uint8]] = [np.zeros(0, dtype=np.uint8)] * len(scores)
    n_tags = len(scheme.tags)
    begins = np.arange(1, n_tags, 2)
    for group in side_by_side([len(one) for one in scores], most=_MAX_CELLS):
        rows, n_steps = np.arange(len(group))[:, None], len(scores[group[0]])
        # All end together: what stands before a shorter one is O.
        worth = np.full((n_steps, len(group), n_tags), _NEVER)
        worth[:, :, OUTSIDE] = 0.0
        for place, i in enumerate(group):
            worth[n_steps - len(scores[i]) :, place] = scores[i]
        worth[:, :, OUTSIDE + 1 :] += bias
        came_from = np.empty(worth.shape, dtype=np.uint8)
        total = np.full(worth.shape[1:], _NEVER)
        total[:, OUTSIDE] = 0.0
        for way, own in zip(came_from, worth, strict=True):
            way[:] = total.argmax(axis=1)[:, None]
            way[:, 2::2] = begins + (total[:, 2::2] > total[:, 1::2])  # I only after its B or I
            total = total[rows, way] + own
        tags = np.empty(worth.shape[:2], dtype=np.uint8)
        now = total.argmax(axis=1)
        for step in range(n_steps - 1, -1, -1):
            tags[step] = now
            now = came_from[step, rows[:, 0], now]
        for place, i in enumerate(group):
            found[i] = tags[n_steps - len(scores[i]) :, place]
    return found


def places_of(tokens: Tokens) -> Ids:
    """Return the numbers of the tokens that have a place."""
    return np.flatnonzero(tokens["start"] < tokens["end"])


def runs_of(spans: Iterable[Span], *, tokens: Tokens) -> list[Run]:
    """Return spans that share no character as runs of the tokens with a place.

    A token belongs to the span that it shares a character with; of two, to the first.
    """
    placed = tokens[places_of(tokens)]
    found: list[Run] = []
    free = 0
    for span in sorted(spans):
        first = max(free, int(np.searchsorted(placed["end"], span.start, side="right")))
        end = int(np.searchsorted(placed["start"], span.end, side="left"))
        if first < end:
            found.append((first, end, span.label))
            free = end
    return found


def spans_of(runs: Iterable[Run], *, tokens: Tokens) -> tuple[Span, ...]:
    """Return runs of the tokens with a place as spans of the text, sorted, sharing no character.

    Two tokens may stand for parts of one character; it goes to the first of two spans.
    """
    placed = tokens[places_of(tokens)]
    found: list[Span] = []
    reached = 0
    for first, end, label in runs:
        start, stop = max(int(placed["start"][first]), reached), int(placed["end"][first:end].max())
        if start < stop:
            found.append(Span(start, stop, label))
            reached = stop
    return tuple(found)


def _tokens(ids: Any, starts: Any, ends: Any) -> Tokens:
    found = np.zeros(len(ids), dtype=TOKEN)
    found["id"][:, WORD], found["start"], found["end"] = ids, starts, ends
    return found


_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, eq=False)
class TokenizerReader:
    """Makes tokens with a fast tokenizer of transformers.

    `prefix` and `suffix` are the special tokens before and behind a text, `pad_id` fills a row up,
    `unknown_id` is the token of what is not in the vocabulary.
    """

    tokenizer: Any
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    pad_id: int
    unknown_id: int

    @classmethod
    def of(cls, tokenizer: Any) -> TokenizerReader:
        """Return a reader; which special tokens stand where is asked of the tokenizer."""
        if not getattr(tokenizer, "is_fast", False):
            raise AuditError(
                "This tokenizer does not say where its tokens stand in a text.",
                where="tokenizer",
                do="Choose a model with a fast tokenizer (tokenizer.json).",
            )
        asked = tokenizer("a", return_special_tokens_mask=True)
        ids, special = asked["input_ids"], asked["special_tokens_mask"]
        inner = [i for i, is_special in enumerate(special) if not is_special] or [len(ids)]
        pad = int(tokenizer.pad_token_id or 0)  # padding is masked
        known = (getattr(tokenizer, name, None) for name in ("unk_token_id", "mask_token_id"))
        unknown = next((int(one) for one in known if one is not None), pad)
        return cls(tokenizer, tuple(ids[: inner[0]]), tuple(ids[inner[-1] + 1 :]), pad, unknown)

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text; half of a surrogate pair reads as an unknown sign."""
        if not texts:
            return []
        whole = [_LONE.sub("\ufffd", text) for text in texts]
        read = self.tokenizer(
            whole, add_special_tokens=False, return_offsets_mapping=True, verbose=False,
            return_attention_mask=False, return_token_type_ids=False,
        )  # fmt: skip
        found = []
        for text, ids, offsets in zip(
            whole, read["input_ids"], read["offset_mapping"], strict=True
        ):
            signs = np.flatnonzero([not char.isspace() for char in text] + [True])
            first, behind = np.searchsorted(
                signs, np.array(offsets, dtype=np.int64).reshape(-1, 2).T
            )
            is_placed = first < behind  # a sign stands in it
            starts, ends = signs[first], signs[behind - 1] + 1
            found.append(_tokens(ids, starts * is_placed, ends * is_placed))
        return found


KINDS = (
    "none", "blank", "line end", "digit", "capital", "small letter", "hiragana", "katakana",
    "kanji", "sign", "letter", "other",
)  # fmt: skip
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
    "first name", "surname", "place", "common word", "job",
    "elsewhere small", "line without small letters", "text without capitals", "text in Japanese",
    "given name begins", "given name goes on", "surname begins", "surname goes on",
    "place begins", "place goes on", "common word begins", "common word goes on",
    "job begins", "job goes on",
)  # fmt: skip
"""What lists of names and the text around say of a token, by the number of its bit."""
LATIN_LISTS = ("first names", "surnames", "places", "common words", "jobs")
JAPANESE_LISTS = tuple(f"Japanese {name}" for name in LATIN_LISTS)
_ELSEWHERE, _NO_SMALL, _NO_CAPITALS, _IN_JAPANESE, _FIRST_JAPANESE = (1 << b for b in range(5, 10))
LISTED = (1 << len(FLAGS)) - _FIRST_JAPANESE | _ELSEWHERE - 1
"""The flags that come from lists."""
_MAX_NAME = 8
_FEW_CAPITALS, _MANY_LETTERS = 0.01, 40
_MOST_WORDS = 200_000


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
    def _known(self) -> dict[str, tuple[int, ...]]:
        return {}

    @cached_property
    def _japanese(self) -> list[tuple[int, NDArray[np.uint64], int]]:
        """Numbers of characters, hashes of the names that have so many, bit of their beginning."""
        found = []
        for place, name in enumerate(JAPANESE_LISTS):
            words = self.lists.get(name, frozenset())
            for n in range(2, _MAX_NAME + 1):
                some = [list(map(ord, word)) for word in words if len(word) == n]
                if some:
                    codes = np.array(some, dtype=np.uint64).T
                    found.append((n, np.sort(_joined(*codes)), _FIRST_JAPANESE << 2 * place))
        return found

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text; white space is none, no word or number is cut."""
        return [self._read(text) for text in texts]

    def _read(self, text: str) -> Tokens:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        kinds = _tables()[1][codes]
        unit, is_first = _UNIT[kinds], np.ones(len(codes), dtype=bool)
        is_first[1:] = (unit[1:] != unit[:-1]) | (unit[1:] == 0)
        firsts = np.flatnonzero(is_first)
        ends = np.append(firsts[1:], len(codes))
        is_sign = (kinds[firsts] != _BLANK) & (kinds[firsts] != _LINE_END)
        starts, ends = firsts[is_sign], ends[is_sign]
        found = np.zeros(len(starts), dtype=TOKEN)
        found["start"], found["end"] = starts, ends
        if not len(starts):
            return found
        plain_codes = codes.astype(np.uint64)
        is_basic = codes < _N_TABLE
        plain_codes[is_basic] = _tables()[0][codes[is_basic]]
        ids = self._signs(plain_codes, starts, kinds)
        self._words(ids, text, starts, ends, unit[starts])
        ids[:, GAP] = _gaps(kinds, starts, ends)
        ids[:, FLAG] |= self._of_text(kinds, starts) | self._names(plain_codes, kinds)[starts]
        found["id"] = ids
        return found

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
        self, ids: NDArray[np.int32], text: str, starts: Any, ends: Any, unit: NDArray[Any]
    ) -> None:
        """Write the features of words and numbers."""
        places = np.flatnonzero(unit)
        if not len(places):
            return
        known, rows, written = self._known, [], []
        for start, end in zip(starts[places].tolist(), ends[places].tolist(), strict=True):
            word = text[start:end]
            row = known.get(word)
            if row is None:
                if len(known) > _MOST_WORDS:
                    known.clear()
                row = known[word] = self._features(word)
            rows.append(row)
            written.append(word)
        small = {word for word in written if word.islower()}
        ids[places, :GAP] = [row[:GAP] for row in rows]
        ids[places, FLAG] = [
            row[GAP] | _ELSEWHERE if row[GAP + 1] and word.lower() in small else row[GAP]
            for row, word in zip(rows, written, strict=True)
        ]

    def _features(self, word: str) -> tuple[int, ...]:
        """Return a word's features without the gap, and whether it has capitals."""
        plain_word = normalize("NFKC", word)
        small = plain_word.lower()
        if small[0].isdigit():
            n, value = len(small), small if len(small) < 3 else small[:2]
            shape = 80 + min(n, 12)
            about = f"{n}#{value}" if n < 5 else f"{min(n, 12)}#"
            return (_hashed(about, N_WORDS, salt="#"), _hashed(value, N_EDGES, salt="#"),
                    _hashed(str(n), N_EDGES, salt="#"), shape, 0, 0)  # fmt: skip
        case = (0 if plain_word.islower() else 1 if plain_word[1:].islower()
                else 2 if plain_word.isupper() else 3)  # fmt: skip
        flags = sum(1 << bit for bit, name in enumerate(LATIN_LISTS)
                    if small in self.lists.get(name, ()))  # fmt: skip
        shape = 1 + 10 * case + min(len(small), 9)
        return (_hashed(small, N_WORDS), _hashed(small[:3], N_EDGES, salt="^"),
                _hashed(small[-3:], N_EDGES, salt="$"), shape, flags, int(case > 0))  # fmt: skip

    def _of_text(self, kinds: NDArray[np.uint8], starts: NDArray[np.intp]) -> NDArray[np.int32]:
        """Return the flags that tell of the line and of the whole text."""
        is_small, is_capital = kinds == _SMALL, kinds == _CAPITAL
        line = np.cumsum(kinds == _LINE_END)
        n_small = np.bincount(line, weights=is_small)[line[starts]]
        n_capital = np.bincount(line, weights=is_capital)[line[starts]]
        flags = np.where((n_small == 0) & (n_capital > 0), _NO_SMALL, 0)
        n_letters = int(is_small.sum() + is_capital.sum())
        if n_letters >= _MANY_LETTERS and is_capital.sum() <= _FEW_CAPITALS * n_letters:
            flags |= _NO_CAPITALS
        if _JAPANESE[kinds].any():
            flags |= _IN_JAPANESE
        return flags.astype(np.int32)

    def _names(self, codes: NDArray[np.uint64], kinds: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the flags of characters at which a Japanese name of a list begins or goes on."""
        found = np.zeros(len(codes), dtype=np.int32)
        if not _JAPANESE[kinds].any():
            return found
        hashes = {1: _joined(codes)}
        for n in range(2, min(_MAX_NAME, len(codes)) + 1):
            hashes[n] = _joined(codes[n - 1 :], behind=hashes[n - 1][:-1])
        for n, listed, bit in self._japanese:
            if n not in hashes:
                continue
            at = np.minimum(np.searchsorted(listed, hashes[n]), len(listed) - 1)
            begins = np.flatnonzero(listed[at] == hashes[n])
            found[begins] |= bit
            for k in range(1, n):
                found[begins + k] |= bit << 1
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


Reader = Words | TokenizerReader


def words_from_json(text: str, *, where: str) -> Words:
    """Read the lists of a reader."""
    try:
        content = json.loads(text)
        told = [content["version"], content["kinds"], content["flags"]]
        if told != [_VERSION, list(KINDS), list(FLAGS)]:
            raise ValueError
        return Words({str(name): frozenset(str(words).split())
                      for name, words in content["lists"].items()})  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AuditError(
            "These are no lists of a tagger of today.", where=where,
            do="A tagger of an older version is trained again.",
        ) from None  # fmt: skip


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
