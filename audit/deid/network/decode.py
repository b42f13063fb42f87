"""Texts as tokens with places, and spans as their tags: all of a token tagger but its network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

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


_NEVER = -np.inf
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
        if len(group) == 1:
            found[group[0]] = _best_alone(scores[group[0]], bias)
            continue
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


def _best_alone(scores: Scores, bias: float) -> NDArray[np.uint8]:
    """Return the best tags of one text as `best_tags`: quicker than in arrays with one row."""
    worth = scores.astype(np.float64)
    worth[:, OUTSIDE + 1 :] += bias
    n_tags = worth.shape[1]
    total, ways = [0.0] + [_NEVER] * (n_tags - 1), []
    for own in worth.tolist():
        best = max(total)
        way = [total.index(best)] * n_tags
        added = [best + one for one in own]
        for inside in range(2, n_tags, 2):
            way[inside] = inside if total[inside] > total[inside - 1] else inside - 1
            added[inside] = total[way[inside]] + own[inside]
        ways.append(way)
        total = added
    tags = np.empty(len(ways), dtype=np.uint8)
    now = total.index(max(total))
    for step in range(len(ways) - 1, -1, -1):
        tags[step] = now
        now = ways[step][now]
    return tags


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
            whole,
            add_special_tokens=False,
            return_offsets_mapping=True,
            verbose=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
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


class Row(NamedTuple):
    """Tokens `start` to `end` (exclusive) of a note, of which `first` to `last` count.

    The others are there to be read: every token counts in the row where it has most beside it.
    """

    note: int
    start: int
    end: int
    first: int
    last: int


def rows_of(note: int, *, n_tokens: int, size: int, overlap: int) -> list[Row]:
    """Cut a note of `n_tokens` into rows of at most `size` that share `overlap` tokens."""
    rows: list[Row] = []
    start = first = 0
    while first < n_tokens:
        end = min(start + size, n_tokens)
        # The last row is moved back, to be full: the more is beside a token the better.
        start = max(0, end - size)
        last = n_tokens if end == n_tokens else end - overlap // 2
        rows.append(Row(note, start, end, first, last))
        start, first = end - overlap, last
    return rows


class Scorer(Protocol):
    """What gives every token a score for every tag."""

    @property
    def reader(self) -> Any:
        """Makes tokens of texts: `read`."""

    @property
    def n_special(self) -> int:
        """How many tokens of a row are special."""

    @property
    def most_tokens(self) -> int:
        """How many tokens are scored at once, as long as every row is as long as the longest."""

    def scored(self, rows: Sequence[Tokens]) -> Sequence[Scores]:
        """Return the scores [tokens, tags] of rows without special tokens."""


def scores_of(notes: Sequence[Tokens], *, model: Scorer, size: int, overlap: int) -> list[Scores]:
    """Return the scores [tokens with a place, tags] of each note.

    `size` and `overlap` of rows are in tokens; special tokens are counted in `size`.
    """
    inner = size - model.n_special
    rows = [
        row
        for i, note in enumerate(notes)
        for row in rows_of(i, n_tokens=len(note), size=inner, overlap=overlap)
    ]
    lengths = [row.end - row.start for row in rows]
    parts: list[dict[int, Scores]] = [{} for _ in notes]
    for batch in side_by_side(lengths, most=model.most_tokens):
        some = [rows[i] for i in batch]
        told = model.scored([notes[row.note][row.start : row.end] for row in some])
        for row, scores in zip(some, told, strict=True):
            parts[row.note][row.first] = scores[row.first - row.start : row.last - row.start]
    nothing = np.zeros((0, 1), dtype=np.float32)
    return [
        np.concatenate([own[first] for first in sorted(own)])[places_of(note)] if own else nothing
        for own, note in zip(parts, notes, strict=True)
    ]


def spans_from(
    scores: Sequence[Scores], *, notes: Sequence[Tokens], scheme: TagScheme, bias: float
) -> tuple[tuple[Span, ...], ...]:
    """Return the spans of notes from the scores of their tokens with a place."""
    tags = best_tags(scores, scheme=scheme, bias=bias)
    return tuple(
        spans_of(scheme.decode(one), tokens=note) for one, note in zip(tags, notes, strict=True)
    )
