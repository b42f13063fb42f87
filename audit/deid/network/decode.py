"""Texts as tokens with places, and spans as their tags: all of a tagger but its network.

A network of characters knows a small vocabulary, and of every character its kind: what is unknown
still reaches it as kanji, kana, capital, digit ..., so that names nobody has seen look like names.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError
from audit.notes.spans import Span

OUTSIDE = 0

Run = tuple[int, int, str]
"""Tokens from one number to another (exclusive), and their label."""
Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
TOKEN = np.dtype([("id", np.int32), ("kind", np.uint8), ("start", np.int32), ("end", np.int32)])
Tokens = NDArray[np.void]
"""The tokens of a text, each a `TOKEN`, without special ones: what kind of character it is (0 where
the model knows no kinds), and its characters `start` to `end` (exclusive) of the text; they are
equal where it has no place."""


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


def _tokens(ids: Any, starts: Any, ends: Any, kinds: Any = 0) -> Tokens:
    found = np.empty(len(ids), dtype=TOKEN)
    found["id"], found["kind"], found["start"], found["end"] = ids, kinds, starts, ends
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
_N_SPECIAL = 4
_N_TABLE, _N_CODES = 0x10000, 0x110000
_HAN_PLANES = slice(0x20000, 0x40000)
_VERSION = 1
# What kinds make units that no span cuts: 1 words of Latin letters, 2 numbers.
_UNIT_OF = {"capital": 1, "small letter": 1, "digit": 2}
_UNIT = np.array([_UNIT_OF.get(kind, 0) for kind in KINDS])


@dataclass(frozen=True)
class Characters:
    """A vocabulary of characters, as a reader: see `TokenizerReader`.

    `known` are those in the form of `plain`, each once; the first has number 4.
    """

    known: str
    pad_id: ClassVar[int] = 0
    prefix: ClassVar[tuple[int, ...]] = (1,)
    suffix: ClassVar[tuple[int, ...]] = (2,)
    unknown_id: ClassVar[int] = 3

    @property
    def n_ids(self) -> int:
        """Size of the vocabulary, special signs included."""
        return _N_SPECIAL + len(self.known)

    @cached_property
    def _id_of(self) -> NDArray[np.int32]:
        found = np.full(_N_CODES, self.unknown_id, dtype=np.int32)
        found[[ord(char) for char in self.known]] = range(_N_SPECIAL, self.n_ids)
        found[:_N_TABLE] = found[_tables()[0]]
        return found

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text, one a character.

        White space has no place. A word of Latin letters and a number have theirs at their first
        character: no span begins or ends inside one.
        """
        found = []
        for text in texts:
            codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
            kinds, starts = _tables()[1][codes], np.arange(len(codes))
            unit, ends = _UNIT[kinds], starts.copy()
            is_first = np.ones(len(codes), dtype=bool)
            is_first[1:] = (unit[1:] != unit[:-1]) | (unit[1:] == 0)
            firsts = np.flatnonzero(is_first)
            ends[firsts] = np.append(firsts[1:], len(codes))
            is_blank = np.isin(kinds, [KINDS.index("blank"), KINDS.index("line end")])
            ends[is_blank] = starts[is_blank]
            found.append(_tokens(self._id_of[codes], starts, ends, kinds))
        return found

    def to_json(self) -> str:
        """Return the vocabulary as the text of a file."""
        content = {"version": _VERSION, "kinds": list(KINDS), "characters": self.known}
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


Reader = Characters | TokenizerReader


def characters_from_json(text: str, *, where: str) -> Characters:
    """Read a vocabulary."""
    try:
        content = json.loads(text)
        if content["version"] != _VERSION or content["kinds"] != list(KINDS):
            raise ValueError
        return Characters(str(content["characters"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise AuditError("This is no vocabulary of characters.", where=where) from None


def characters_of(texts: Iterable[str], *, n_most: int, n_times: int) -> Characters:
    """Return the vocabulary of texts: the `n_most` commonest that occur `n_times` or more."""
    counts, found = Counter[str](), Counter[str]()
    for text in texts:
        counts.update(text)
    for char, n in counts.items():
        found[plain(char)] += n
    # No file can hold half a surrogate pair.
    enough = [(-n, char) for char, n in found.items()
              if n >= n_times and unicodedata.category(char) != "Cs"]  # fmt: skip
    return Characters("".join(sorted(char for _, char in sorted(enough)[:n_most])))


def plain(char: str) -> str:
    """Return the form in which a character is looked up: NFKC and small, where that is one too."""
    for form in (unicodedata.normalize("NFKC", char), char):
        if len(form) == 1 and len(form.lower()) == 1:
            small = form.lower()
            # Some signs change once more; the form must be its own form.
            again = unicodedata.normalize("NFKC", small)
            return small if again == small else form if form == char else char
    return char


def _kind(char: str) -> str:
    if char in "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        return "line end"
    if char.isspace():
        return "blank"
    known = unicodedata.normalize("NFKC", char)[:1]
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
