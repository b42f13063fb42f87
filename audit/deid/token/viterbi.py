"""The best tags of a text: the sequence with the highest sum of scores that a scheme allows.

Source: Viterbi 1967; many texts go forward together, so that long ones cost no loop of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from audit.deid.token.scheme import OUTSIDE, TagScheme

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
