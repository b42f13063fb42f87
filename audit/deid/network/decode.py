"""Reading by characters: a small vocabulary, and for every character its kind.

A character outside the vocabulary is unknown, but its kind (kanji, kana, capital, digit ...) still
reaches the model, as the row of its token-type table: names nobody has seen look like names.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError
from audit.notes.spans import Span

BIO: Literal["BIO"] = "BIO"
BILOU: Literal["BILOU"] = "BILOU"
Scheme = Literal["BIO", "BILOU"]
SCHEMES = get_args(Scheme)
OUTSIDE = 0

Run = tuple[int, int, str]
"""Tokens from one number to another (exclusive), and their label."""


@dataclass(frozen=True)
class TagScheme:
    """The tags of some labels: number 0 is O, then those of each label in turn.

    Parameters
    ----------
    labels
        Each once.
    kind
        One of `SCHEMES`.
    """

    labels: tuple[str, ...]
    kind: Scheme = BIO

    def __post_init__(self) -> None:
        """Check labels and kind, once."""
        if self.kind not in SCHEMES:
            raise ValueError(f"{self.kind}: no such scheme of tags")
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise ValueError("the labels are empty, or one is there twice")

    @property
    def _parts(self) -> str:
        return "BI" if self.kind == BIO else "BILU"

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """The names of all tags, by number."""
        return ("O", *(f"{part}-{label}" for label in self.labels for part in self._parts))

    def __len__(self) -> int:
        """How many tags there are."""
        return len(self.tags)

    @cached_property
    def may_follow(self) -> NDArray[np.bool_]:
        """Whether a tag [row] may stand before another [column], [T, T]."""
        n = len(self)
        allowed = np.zeros((n, n), dtype=bool)
        for one in range(n):
            for other in range(n):
                allowed[one, other] = self._may_follow(self.tags[one], self.tags[other])
        return allowed

    def _may_follow(self, one: str, other: str) -> bool:
        (part, label), (next_part, next_label) = _split(one), _split(other)
        if next_part in "IL":
            return part in "BI" and label == next_label
        return self.kind == BIO or part in "OLU"

    @cached_property
    def may_begin(self) -> NDArray[np.bool_]:
        """Whether a text may begin with a tag, [T]."""
        return np.array([_split(tag)[0] not in "IL" for tag in self.tags])

    @cached_property
    def may_end(self) -> NDArray[np.bool_]:
        """Whether a text may end with a tag, [T]."""
        return np.array([self.kind == BIO or _split(tag)[0] in "OLU" for tag in self.tags])

    def encode(self, runs: Iterable[Run], *, n_tokens: int) -> NDArray[np.int64]:
        """Return the tags [n_tokens] of runs that share no token."""
        found = np.zeros(n_tokens, dtype=np.int64)
        n_parts = len(self._parts)
        for first, end, label in runs:
            begin = 1 + n_parts * self.labels.index(label)
            found[first] = begin
            found[first + 1 : end] = begin + 1
            if self.kind == BILOU:
                found[end - 1] = begin + (3 if end - first == 1 else 2)
        return found

    def decode(self, tags: Sequence[int] | NDArray[np.integer]) -> list[Run]:
        """Return the runs of tags that follow the scheme, in order."""
        found: list[Run] = []
        n_parts = len(self._parts)
        given = np.asarray(tags, dtype=np.int64)
        for at in np.flatnonzero(given):
            label, part = divmod(int(given[at]) - 1, n_parts)
            if part in (0, 3):
                found.append((int(at), int(at) + 1, self.labels[label]))
            elif found:
                first, _, name = found[-1]
                found[-1] = (first, int(at) + 1, name)
        return found


def _split(tag: str) -> tuple[str, str]:
    part, _, label = tag.partition("-")
    return part, label


Scores = NDArray[np.float32]
_NEVER = -1e30
_MAX_CELLS = 400_000
_MAX_TEXTS = 256


def best_tags(
    scores: Sequence[Scores], *, scheme: TagScheme, bias: float = 0.0
) -> list[NDArray[np.uint8]]:
    """Return the best tags of each text.

    Parameters
    ----------
    scores
        Of each text, [tokens, tags]: any numbers that are added up, as logits are.
    bias
        Added to the score of every tag but O: above 0 more is found, right or wrong.

    Returns
    -------
    list
        Tags [tokens] of each text. Of two that are equally good the one with the lower tag, judged
        from the end, so that the answer never depends on the texts beside it.
    """
    found: list[NDArray[np.uint8]] = [np.zeros(0, dtype=np.uint8)] * len(scores)
    for group in _groups([len(one) for one in scores]):
        batch = [scores[i] for i in group]
        for i, tags in zip(group, _best(batch, scheme=scheme, bias=bias), strict=True):
            found[i] = tags
    return found


def _groups(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Put texts of about one length together, the longest first."""
    group: list[int] = []
    for i in sorted((i for i, n in enumerate(lengths) if n), key=lambda i: (-lengths[i], i)):
        is_full = len(group) == _MAX_TEXTS
        if group and (is_full or lengths[group[0]] * (len(group) + 1) > _MAX_CELLS):
            yield group
            group = []
        group.append(i)
    if group:
        yield group


def _best(batch: Sequence[Scores], *, scheme: TagScheme, bias: float) -> list[NDArray[np.uint8]]:
    """Return the best tags of texts that are sorted by length, the longest first."""
    n_texts, n_tags = len(batch), len(scheme)
    lengths = np.array([len(one) for one in batch])
    n_steps = int(lengths[0])
    added = np.full(n_tags, bias)
    added[OUTSIDE] = 0.0
    padded = np.zeros((n_steps, n_texts, n_tags))
    for i, one in enumerate(batch):
        padded[: len(one), i] = one + added
    step_cost = np.where(scheme.may_follow, 0.0, _NEVER).T  # [to, from]
    total = padded[0] + np.where(scheme.may_begin, 0.0, _NEVER)
    came_from = np.zeros((n_steps, n_texts, n_tags), dtype=np.uint8)
    for step in range(1, n_steps):
        n_alive = int(np.searchsorted(-lengths, -step, side="left"))
        ways = total[:n_alive, None, :] + step_cost  # [texts, to, from]
        best = ways.argmax(axis=2)
        came_from[step, :n_alive] = best
        reached = np.take_along_axis(ways, best[:, :, None], axis=2)[:, :, 0]
        total[:n_alive] = reached + padded[step, :n_alive]
    last = (total + np.where(scheme.may_end, 0.0, _NEVER)).argmax(axis=1)
    return [_followed(came_from[:, i], int(last[i]), n=int(lengths[i])) for i in range(n_texts)]


def _followed(came_from: NDArray[np.uint8], last: int, *, n: int) -> NDArray[np.uint8]:
    tags = np.empty(n, dtype=np.uint8)
    tags[-1] = last
    for step in range(n - 1, 0, -1):
        tags[step - 1] = came_from[step, tags[step]]
    return tags


Ids = NDArray[np.int64]
_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of a text, without special ones.

    Attributes
    ----------
    ids
        [N].
    kinds
        What kind of character each is, [N]; None where the model knows no kinds.
    starts, ends
        Characters `starts` to `ends` (exclusive) of the text, [N]; equal where it has no place.
    """

    ids: Ids
    kinds: Ids | None
    starts: Ids
    ends: Ids

    def __len__(self) -> int:
        """How many tokens there are."""
        return len(self.ids)

    @property
    def places(self) -> Ids:
        """Numbers of the tokens that have a place."""
        return np.flatnonzero(self.starts < self.ends)


class Reader(Protocol):
    """What makes tokens of texts for a model."""

    @property
    def prefix(self) -> tuple[int, ...]:
        """Special tokens before a text."""

    @property
    def suffix(self) -> tuple[int, ...]:
        """Special tokens behind a text."""

    @property
    def pad_id(self) -> int:
        """What fills a row up."""

    @property
    def unknown_id(self) -> int:
        """The token of what is not in the vocabulary."""

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text."""


@dataclass(frozen=True, eq=False)
class TokenizerReader:
    """Reads with a fast tokenizer of transformers."""

    tokenizer: Any
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

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
        return cls(tokenizer, tuple(ids[: inner[0]]), tuple(ids[inner[-1] + 1 :]))

    @property
    def pad_id(self) -> int:
        """The tokenizer's; 0 where it has none, since padding is masked."""
        return int(self.tokenizer.pad_token_id or 0)

    @property
    def unknown_id(self) -> int:
        """The tokenizer's; its mask, or its padding, where it knows every character."""
        for name in ("unk_token_id", "mask_token_id"):
            if (found := getattr(self.tokenizer, name, None)) is not None:
                return int(found)
        return self.pad_id

    def read(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text; half of a surrogate pair reads as an unknown sign."""
        if not texts:
            return []
        whole = [_LONE.sub("\ufffd", text) for text in texts]
        read = self.tokenizer(
            whole, add_special_tokens=False, return_offsets_mapping=True, verbose=False,
            return_attention_mask=False, return_token_type_ids=False,
        )  # fmt: skip
        rows = zip(whole, read["input_ids"], read["offset_mapping"], strict=True)
        return [_tokens(text, ids, offsets) for text, ids, offsets in rows]


def _tokens(text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]]) -> Tokens:
    places = np.array(offsets, dtype=np.int64).reshape(-1, 2)
    starts, ends = places[:, 0].copy(), places[:, 1].copy()
    is_blank = np.array([char.isspace() for char in text] + [False])
    for i in np.flatnonzero((starts < ends) & (is_blank[starts] | is_blank[ends - 1])):
        while starts[i] < ends[i] and is_blank[starts[i]]:
            starts[i] += 1
        while starts[i] < ends[i] and is_blank[ends[i] - 1]:
            ends[i] -= 1
    return Tokens(np.array(ids, dtype=np.int64), None, starts, ends)


def runs_of(spans: Iterable[Span], *, tokens: Tokens) -> list[Run]:
    """Return spans that share no character as runs of the tokens with a place.

    A token belongs to the span that it shares a character with; of two, to the first.
    """
    at = tokens.places
    starts, ends = tokens.starts[at], tokens.ends[at]
    found: list[Run] = []
    free = 0
    for span in sorted(spans):
        first = max(free, int(np.searchsorted(ends, span.start, side="right")))
        end = int(np.searchsorted(starts, span.end, side="left"))
        if first < end:
            found.append((first, end, span.label))
            free = end
    return found


def spans_of(runs: Iterable[Run], *, tokens: Tokens) -> tuple[Span, ...]:
    """Return runs of the tokens with a place as spans of the text, sorted, sharing no character.

    Two tokens may stand for parts of one character; it goes to the first of two spans.
    """
    at = tokens.places
    starts, ends = tokens.starts[at], tokens.ends[at]
    found: list[Span] = []
    reached = 0
    for first, end, label in runs:
        start, stop = max(int(starts[first]), reached), int(ends[first:end].max())
        if start < stop:
            found.append(Span(start, stop, label))
            reached = stop
    return tuple(found)


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
