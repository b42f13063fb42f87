"""Masking of training rows: which positions are asked for, and what stands there instead.

Comes in: rows of token ids. Goes out: masked rows, positions, true ids. As BERT (Devlin et al.
2019): of the positions asked for 80 % are masked, 10 % replaced at random and 10 % kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class SpecialIds:
    """Ids that training needs: the special tokens, those that end a sentence, vocabulary size."""

    cls: int
    sep: int
    mask: int
    sentence_ends: tuple[int, ...]
    n_vocabulary: int


@dataclass(frozen=True, eq=False)
class MaskedRows:
    """Rows to learn from.

    Attributes
    ----------
    ids
        What the model sees, [B, L].
    positions, targets
        Positions asked for and the true ids there, [B, M].
    """

    ids: Ids
    positions: Ids
    targets: Ids


def masked_rows(
    rows: Ids, *, special: SpecialIds, share: float, rng: np.random.Generator
) -> MaskedRows:
    """Mask rows [B, L]; [CLS] and [SEP] are never asked for while there are other tokens."""
    n_asked = max(1, round(share * rows.shape[1]))
    allowed = (rows != special.cls) & (rows != special.sep)
    order = np.argsort(np.where(allowed, rng.random(rows.shape), 2.0), axis=1)
    positions = order[:, :n_asked]
    targets = np.take_along_axis(rows, positions, axis=1)
    kind = rng.random(positions.shape)
    random_ids = rng.integers(special.n_vocabulary, size=positions.shape)
    shown = np.where(kind < 0.8, special.mask, np.where(kind < 0.9, random_ids, targets))
    masked = rows.copy()
    np.put_along_axis(masked, positions, shown, axis=1)
    return MaskedRows(masked, positions, targets)
