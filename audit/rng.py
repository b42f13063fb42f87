"""Counted randomness: every draw has its own key, and no generator is carried along.

A draw depends on the seed, on its purpose and on its place (shard, block, micro-batch), and on
nothing that was drawn before it. So work that was interrupted goes on with the same draws, in any
order.
"""

from __future__ import annotations

import hashlib

import numpy as np


def generator(seed: int, purpose: str, *place: int) -> np.random.Generator:
    """Return the generator of one place: Philox, keyed on seed, purpose and place."""
    key = int.from_bytes(_digest(seed, purpose, place)[:16], "little")
    return np.random.Generator(np.random.Philox(key=key))


def torch_seed(seed: int, purpose: str, *place: int) -> int:
    """Return a seed of 63 bits for `torch.manual_seed`, keyed in the same way."""
    return int.from_bytes(_digest(seed, purpose, place)[:8], "little") >> 1


def _digest(seed: int, purpose: str, place: tuple[int, ...]) -> bytes:
    return hashlib.sha256(repr((int(seed), purpose, tuple(map(int, place)))).encode()).digest()
