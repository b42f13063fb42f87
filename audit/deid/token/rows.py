"""Rows: notes of any length cut into windows of tokens that a model can read, padded in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from audit.deid.token.reading import Ids, Reader, Tokens

_MAX_CELLS = {"cpu": 4096, "cuda": 65_536}
"""Tokens of a batch, padding included: larger ones were slower on a CPU, and took more memory."""


@dataclass(frozen=True, order=True)
class Row:
    """Tokens `start` to `end` (exclusive) of a note, of which `first` to `last` count.

    The others are there to be read: every token counts in the row where it has most beside it.
    """

    note: int
    start: int
    end: int
    first: int
    last: int


def rows_of(note: int, *, n_tokens: int, size: int, overlap: int) -> list[Row]:
    """Cut a note of `n_tokens` into rows of at most `size` that share `overlap` tokens.

    Raises
    ------
    ValueError
        If the overlap is negative or above half of the size.
    """
    if not 0 <= 2 * overlap <= size or size < 1:
        raise ValueError(f"rows of {size} tokens cannot overlap by {overlap}")
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


def batches_of(rows: Sequence[Row], *, device: str = "cpu") -> Iterator[list[Row]]:
    """Put rows of about one length together; the longest first, so that memory runs out at once."""
    batch: list[Row] = []
    most = _MAX_CELLS.get(device, _MAX_CELLS["cpu"])
    for row in sorted(rows, key=lambda row: (row.start - row.end, row)):
        longest = batch[0].end - batch[0].start if batch else 0
        if batch and longest * (len(batch) + 1) > most:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


@dataclass(frozen=True, eq=False)
class Padded:
    """Rows as tensors.

    Attributes
    ----------
    ids, mask, kinds
        [B, L]; `mask` is 0 at the padding; `kinds` is None where the model knows none.
    n_before
        Special tokens before the note's own.
    """

    ids: Tensor
    mask: Tensor
    kinds: Tensor | None
    n_before: int


def padded(pieces: Sequence[tuple[Ids, Ids | None]], *, reader: Reader) -> Padded:
    """Return pieces (ids, kinds) of notes with their special tokens, filled up to the longest."""
    before, after = reader.prefix, reader.suffix
    n_longest = max(len(ids) for ids, _ in pieces) + len(before) + len(after)
    ids = np.full((len(pieces), n_longest), reader.pad_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    kinds = np.zeros_like(ids)
    for i, (own, own_kinds) in enumerate(pieces):
        end = len(before) + len(own)
        ids[i, : end + len(after)] = [*before, *own, *after]
        mask[i, : end + len(after)] = 1
        if own_kinds is not None:
            kinds[i, len(before) : end] = own_kinds
    has_kinds = pieces[0][1] is not None
    return Padded(
        torch.from_numpy(ids),
        torch.from_numpy(mask),
        torch.from_numpy(kinds) if has_kinds else None,
        len(before),
    )


def piece(tokens: Tokens, *, start: int, end: int) -> tuple[Ids, Ids | None]:
    """Return ids and kinds of some tokens of a note."""
    kinds = None if tokens.kinds is None else tokens.kinds[start:end]
    return tokens.ids[start:end], kinds
