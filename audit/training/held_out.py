"""Held-out rows: what a training is measured on, and what guessing by frequency reaches there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.models.row_masking import MaskedRows, SpecialIds, masked_rows
from audit.randomness import generator
from audit.training.rows import Split, Stream, held_out_rows
from audit.training.settings import TrainSettings
from audit.training.token_file import TokenFile, token_counts


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that nothing is learned from; rows and masks are always the same.

    Attributes
    ----------
    rows
        With at least one row.
    unigram_loss
        Loss of guessing each token by its frequency in the notes that are trained on, in nats a
        token: a model that has learned only which words are frequent stays there.
    """

    rows: MaskedRows
    unigram_loss: float


def held_out(
    tokens: TokenFile, split: Split, *, special: SpecialIds, settings: TrainSettings
) -> HeldOut | None:
    """Return the held-out rows; None where no notes are held out."""
    stream = Stream(tokens, split.held_out)
    if not len(stream):
        return None
    rows = held_out_rows(stream, special=special, n_inner=settings.n_inner)
    rng = generator(settings.seed, "held-out masks")
    masked = masked_rows(rows, special=special, share=settings.mask_share, rng=rng)
    counts = _train_counts(tokens, split, n_vocabulary=special.n_vocabulary)
    counts[special.sep] = 0  # never asked for
    return HeldOut(masked, unigram_loss(counts, masked.targets))


def unigram_loss(counts: NDArray[Any], targets: NDArray[Any]) -> float:
    """Return the mean loss of targets guessed by counts, each raised by one, in nats a token."""
    share = (counts + 1.0) / (counts.sum() + len(counts))
    return -math.fsum(np.log(share[targets]).ravel()) / targets.size


def _train_counts(tokens: TokenFile, split: Split, *, n_vocabulary: int) -> NDArray[np.int64]:
    counts = token_counts(tokens.ids, n_vocabulary=n_vocabulary)
    ends = tokens.ends[split.held_out]
    for start, end in zip(ends - tokens.lengths[split.held_out], ends, strict=True):
        counts -= np.bincount(tokens.ids[start:end], minlength=n_vocabulary)
    return counts
