"""Masked-LM pre-training of small models, from nothing or continued, for demo and experiment.

Comes in: a model, documents as token ids. Goes out: the same model, trained, as BERT is (Devlin et
al. 2019). Rows, masks and dropout are drawn one after the other, so there are no checkpoints to go
on from, as in `loop`: the shipped models were made in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from audit.models.forward import logits_at
from audit.training.tokens import Ids, MaskedRows, SpecialIds, masked_rows

__all__ = ["PretrainSettings", "SpecialIds", "pretrain"]
_MASK_SHARE, _DECAY, _CLIP = 0.15, 0.01, 1.0
_BEGINNINGS = np.cumsum([0.25, 0.25])
"""Of the rows a quarter begin at a document and a quarter at a sentence; the others begin anywhere,
so that a name is seen at every position."""


@dataclass(frozen=True)
class PretrainSettings:
    """How to train: the rate is constant after the warm-up, so that snapshots are models too.

    Of the lengths of rows, [CLS] and [SEP] included, one is drawn per step.
    """

    learning_rate: float = 5e-4
    n_rows: int = 64
    n_tokens_per_row: tuple[int, ...] = (32, 64, 96)
    n_warmup: int = 50

    def steps_per_epoch(self, n_tokens: int) -> float:
        """Return how many steps see as many tokens as the corpus has."""
        return n_tokens / (self.n_rows * float(np.mean(self.n_tokens_per_row)))


def pretrain(
    model: nn.Module,
    documents: Sequence[Ids],
    *,
    special: SpecialIds,
    n_steps: int,
    seed: int,
    settings: PretrainSettings | None = None,
    after_step: Callable[[int, float], None] = lambda step, loss: None,
) -> float:
    """Train `model` in place and return the mean loss of the last 50 steps, in nats a token.

    Parameters
    ----------
    documents
        Token ids without special tokens, one array per document; rows never hide the border
        between two documents: a [SEP] stands there.
    after_step
        Called with the number of finished steps and the loss; may save a snapshot or raise.
    """
    settings = settings or PretrainSettings()
    torch.manual_seed(seed)
    rate = settings.learning_rate
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=_DECAY, fused=True)
    drawn = _drawn(documents, special=special, settings=settings, seed=seed)
    losses: list[float] = []
    model.train()
    for step, rows in enumerate(islice(drawn, n_steps), start=1):
        ids, positions, targets = map(torch.from_numpy, (rows.ids, rows.positions, rows.targets))
        logits = logits_at(model, ids, positions=positions)
        loss = functional.cross_entropy(logits.flatten(end_dim=1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
        optimizer.param_groups[0]["lr"] = rate * min(1.0, step / max(1, settings.n_warmup))
        optimizer.step()
        losses.append(float(loss.detach()))
        after_step(step, losses[-1])
        model.train()
    model.eval()
    return float(np.mean(losses[-50:]))


def _drawn(
    documents: Sequence[Ids], *, special: SpecialIds, settings: PretrainSettings, seed: int
) -> Iterator[MaskedRows]:
    """Yield the rows of each step; the documents are shuffled after each epoch."""
    rng = np.random.default_rng([seed, 3])
    ids = _stream(documents, special=special, rng=rng)
    n_until_shuffle = settings.steps_per_epoch(len(ids))
    for step in count(1):
        if step > n_until_shuffle:
            ids = _stream(documents, special=special, rng=rng)
            n_until_shuffle += settings.steps_per_epoch(len(ids))
        rows = _rows(ids, special=special, settings=settings, rng=rng)
        yield masked_rows(rows, special=special, share=_MASK_SHARE, rng=rng)


def _stream(documents: Sequence[Ids], *, special: SpecialIds, rng: np.random.Generator) -> Ids:
    """Shuffle the documents into one stream with [SEP] between."""
    order = rng.permutation(len(documents))
    return np.concatenate([np.append(documents[index], special.sep) for index in order])


def _rows(
    ids: Ids, *, special: SpecialIds, settings: PretrainSettings, rng: np.random.Generator
) -> Ids:
    """Cut rows [B, L] out of the documents' stream, framed by [CLS] and [SEP]."""
    n_rows, n_inner = settings.n_rows, int(rng.choice(settings.n_tokens_per_row)) - 2
    n_starts = len(ids) - n_inner
    is_end, is_sentence_end = ids[:-1] == special.sep, np.isin(ids[:-1], special.sentence_ends)
    starts = np.stack(
        [
            rng.choice(np.append(0, np.flatnonzero(is_end) + 1), size=n_rows),
            rng.choice(np.append(0, np.flatnonzero(is_end | is_sentence_end) + 1), size=n_rows),
            rng.integers(n_starts, size=n_rows),
        ]
    )
    kind = np.searchsorted(_BEGINNINGS, rng.random(n_rows), side="right")
    begin = np.minimum(starts[kind, np.arange(n_rows)], n_starts - 1)
    return special.framed(ids[begin[:, None] + np.arange(n_inner)])
