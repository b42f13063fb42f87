"""Values that tests and their child processes can make again from a number."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

import cache.store
from cache.store import Store, content_key


def key_of(n: int) -> str:
    return content_key("shard", {"n": n})


def content_of(n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Value number n: some small, some of a hundred kilobytes and more, every one different."""
    rng = np.random.default_rng(n)
    size = 20_000 if n % 10 == 3 else 50
    arrays = {"mass": rng.random(size), "ids": rng.integers(0, 99, (n % 5, 3))}
    return arrays, {"n": n, "note": "x" * n, "error": math.nan}


def put_value(store: Store, n: int) -> None:
    arrays, meta = content_of(n)
    store.put(key_of(n), arrays=arrays, meta=meta)


def is_right(store: Store, n: int) -> bool | None:
    """Whether value n is served as it was put; None if it is not served at all."""
    stored = store.get(key_of(n))
    if stored is None:
        return None
    arrays, meta = content_of(n)
    same = stored.arrays.keys() == arrays.keys() and all(
        np.array_equal(stored.arrays[name], arrays[name]) for name in arrays
    )
    return same and stored.meta["n"] == n and stored.meta["note"] == meta["note"]


def do_not_wait_for_the_disk() -> None:
    """Leave writing to the system: SIGKILL takes nothing out of its buffers, a power cut would."""
    os.fsync = lambda descriptor: None
    cache.store._SYNCHRONOUS_FULL = 0
    cache.store._SETTINGS["sqlite_synchronous"] = 0
