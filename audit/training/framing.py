"""What a causal model reads of a note: its whole text, in a frame, and which tokens it learns.

A frame is a beginning and an end, as a header before every note or as the model's chat template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from audit.errors import AuditError
from audit.models.chat_template import read_chat_frame
from audit.models.library import Tokenizer
from audit.shelf import JSON
from audit.stats import BoolArray
from audit.training.config import WHERE, TrainSettings
from audit.training.tokens import (
    HeldOut,
    Ids,
    RowPlaces,
    Split,
    Stream,
    TokenFile,
    compute_unigram_loss,
    spread_rows,
)

_VERSION = 1
"""Part of a token file's key, since another preparation of the text gives other tokens."""
_PLACEHOLDERS = r"[ \t]?(?:\[\*\*[^\[\]]{0,200}\*\*\]|_{2,})"
_HALVES = re.compile("[\ud800-\udfff]")


class FramedNote(NamedTuple):
    """The tokens of a note in its frame: `ids`, of which the first `n_head` are the frame's.

    `spans` [n_tokens, 2] are the start and the end of each token in the note's text; they are equal
    for a token of the frame.
    """

    ids: list[int]
    n_head: int
    spans: Ids


@dataclass(frozen=True, eq=False)
class Framing:
    """A frame around notes: the text `head`, and the ids `begin` before it and `end` at the end."""

    tokenizer: Tokenizer
    head: str
    begin: tuple[int, ...]
    end: tuple[int, ...]

    @property
    def form(self) -> JSON:
        """A JSON value that tells this way of making tokens from others."""
        return ["causal", _VERSION, self.head, list(self.begin), list(self.end)]

    def encode(self, text: str) -> tuple[list[int], int]:
        """Return a note's ids in its frame, and how many stand before its own."""
        note = self.frame(text)
        return note.ids, note.n_head

    def frame(self, text: str) -> FramedNote:
        """Return the tokens of a note; there are none if it holds no text.

        Placeholders are left out, and so is text that spells out a special token. Head and note are
        split as one text, as the tokenizer would split what the model is given.
        """
        pieces, cut_starts, n_cut = [], [0], [0]  # where the kept text begins, and what was cut
        end = n_kept = 0
        for match in self._left_out.finditer(text):
            pieces.append(text[end : match.start()])
            n_kept += match.start() - end
            end = match.end()
            cut_starts.append(n_kept)
            n_cut.append(end - n_kept)
        pieces.append(text[end:])
        clean = _HALVES.sub("\ufffd", "".join(pieces))
        if not clean.strip():
            return FramedNote([], 0, np.zeros((0, 2), dtype=np.int64))
        encoding: Any = self.tokenizer(
            [self.head + clean],
            add_special_tokens=False,
            return_attention_mask=False,
            return_offsets_mapping=True,
            verbose=False,
        )
        ids = encoding["input_ids"][0]
        spans = np.array(encoding["offset_mapping"][0], dtype=np.int64).reshape(-1, 2)
        n_head = int((spans[:, 1] <= len(self.head)).sum()) if self.head else 0
        spans = np.maximum(spans - len(self.head), 0)
        # Back to places in the text: a token that begins where text was cut begins behind the cut.
        firsts, lasts = np.array(cut_starts), np.array(n_cut)
        starts = spans[:, 0] + lasts[np.searchsorted(firsts, spans[:, 0], side="right") - 1]
        ends = spans[:, 1] + lasts[np.maximum(np.searchsorted(firsts, spans[:, 1]) - 1, 0)]
        places = np.stack([starts, np.maximum(ends, starts)], axis=1)
        places[:n_head] = 0
        frame_spans = [np.zeros((len(part), 2), dtype=np.int64) for part in (self.begin, self.end)]
        return FramedNote(
            [*self.begin, *ids, *self.end],
            len(self.begin) + n_head,
            np.concatenate([frame_spans[0], places, frame_spans[1]]),
        )

    @cached_property
    def _left_out(self) -> re.Pattern[str]:
        numbers = set(self.tokenizer.all_special_ids)
        special = [
            token for token, number in self.tokenizer.get_vocab().items() if number in numbers
        ]
        return re.compile("|".join([_PLACEHOLDERS, *map(re.escape, sorted(special, reverse=True))]))


def make_framing(
    tokenizer: Tokenizer, settings: TrainSettings, *, model: Path | None = None
) -> Framing:
    """Return the frame that a training's settings ask for; `model` has the chat template."""
    begin = tuple(
        number for number in tokenizer("a")["input_ids"][:1] if number == tokenizer.bos_token_id
    )
    head, end = settings.header, tuple[int, ...]()
    if settings.frame == "template" and model is not None:
        head, tail = read_chat_frame(model, settings.header, tokenizer=tokenizer)
        end = _cut_tail(tokenizer, tail)
    if not end and tokenizer.eos_token_id is not None:
        end = (tokenizer.eos_token_id,)
    if not end:
        raise AuditError("The tokenizer has no token that ends a text.", where=WHERE)
    return Framing(tokenizer, head, begin, end)


def _cut_tail(tokenizer: Tokenizer, tail: str) -> tuple[int, ...]:
    """Return the tokens behind an answer up to the first special one, where the model stops."""
    ids = list(tokenizer(tail, add_special_tokens=False)["input_ids"])
    special = set(tokenizer.all_special_ids)
    n_kept = next((n for n, number in enumerate(ids, start=1) if number in special), 0)
    return tuple(ids[:n_kept])


@dataclass(frozen=True, eq=False)
class NextRows:
    """Rows whose next tokens are predicted: `ids` [B, n + 1], `is_asked` [B, n].

    `is_asked` says at each of the first n positions whether the loss counts the token behind it.
    `n_step` is the number of asked tokens of the whole step.
    """

    ids: Ids
    is_asked: BoolArray
    n_step: int

    @property
    def n_asked(self) -> int:
        """Number of predicted tokens."""
        return int(self.is_asked.sum())

    def parts(self, n: int) -> Iterator[NextRows]:
        """Yield `n` rows at a time."""
        for start in range(0, len(self.ids), n):
            part = slice(start, start + n)
            yield NextRows(self.ids[part], self.is_asked[part], self.n_step)


class PackedRows(RowPlaces):
    """Rows of a causal model's training: notes one behind the other, cut into rows.

    A row reads one token more than it predicts, so that each token of the stream is predicted once
    an epoch.
    """

    def __init__(self, stream: Stream, settings: TrainSettings) -> None:
        super().__init__(stream, settings.n_inner, settings.batch, settings.seed)
        self._settings = settings

    def of_step(self, step: int) -> NextRows:
        """Return the rows of a step (from 1)."""
        begins = self.begins_of_step(step)
        return _read_rows(self.stream, begins, self.n_inner, settings=self._settings)

    def is_learned(self, places: Ids, *, n_steps: int) -> BoolArray:
        """Return whether the tokens at places receive loss in the first `n_steps` steps."""
        is_covered = self.covers((places - 1) % len(self.stream), n_steps=n_steps)
        return is_covered & _find_asked(self.stream, places, settings=self._settings)

    def is_learned_whole(self, places: Ids, *, n_steps: int) -> bool:
        """Return whether the tokens at consecutive places all receive loss in the same row."""
        is_asked = _find_asked(self.stream, places, settings=self._settings).all()
        before = (places[:1] - 1) % len(self.stream)
        is_covered = self.covers(before, n_steps=n_steps, n_more=len(places) - 1).all()
        return bool(is_asked and is_covered)


def _find_asked(stream: Stream, places: Ids, *, settings: TrainSettings) -> BoolArray:
    """Return whether the loss counts the tokens at places, if a row predicts them."""
    if settings.loss_on == "note":
        return stream.is_own(places)
    return np.ones(places.shape, dtype=np.bool_)


def _read_rows(stream: Stream, begins: Ids, n: int, *, settings: TrainSettings) -> NextRows:
    """Return the rows of `n` predicted tokens that begin at places of a stream."""
    places = (begins[:, None] + np.arange(n + 1)) % len(stream)
    is_asked = _find_asked(stream, places[:, 1:], settings=settings)
    return NextRows(stream.read_ids(places), is_asked, int(is_asked.sum()))


def draw_packed_held_out(
    tokens: TokenFile, split: Split, *, n_vocabulary: int, settings: TrainSettings
) -> HeldOut[NextRows] | None:
    """Return evenly spread rows of the held-out notes; None if they hold nothing to predict."""
    stream = Stream(tokens, split.held_out)
    n = min(settings.n_inner, len(stream) - 1)
    if n < 1:
        return None
    rows = _read_rows(stream, spread_rows(stream, n + 1), n, settings=settings)
    if not rows.n_asked:
        return None
    counts = Stream(tokens, split.train).counts(n_vocabulary)
    return HeldOut(rows, compute_unigram_loss(counts, rows.ids[:, 1:][rows.is_asked]))
