"""Reading: from a text to tokens with their places in it, by a tokenizer or by characters.

Places are code points of the source text. White space at the edge of a token is no part of it; a
token without any other character has no place and gets no tag, but the model sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from audit.deid.documents import Span
from audit.deid.token.scheme import Run
from audit.errors import AuditError

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
    """Reads with a fast tokenizer of transformers.

    Raises
    ------
    AuditError
        If the tokenizer does not say where its tokens stand in a text.
    """

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
