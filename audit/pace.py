"""Pace: what was made before on this machine and how fast it went, for the plan of the next run.

Comes in: an audit's question as plain values, counts and seconds. Goes out: the same, later. The
run writes it, the plan reads it; nothing here moves a result. Torch-free.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from audit.result_store import ResultStore

SIZES = ("n_documents", "n_inputs", "n_chain_inputs")
"""Settings that say how much is made and not what."""

_MIN_SECONDS = 0.05


def light_key(question: Mapping[str, Any], *, who: str, device: str) -> str:
    """Return a digest of what determines one model's evidence, its amount left out.

    Lighter than a shard's own key, which needs the tokenizer and the number of threads: what it
    says is kept can, after a change of those, have to be made again.

    Parameters
    ----------
    question
        As `AuditRequest.question`, with the digest of the name pool.
    who
        "general" or "hospital".
    device
        "cpu" or "cuda".
    """
    settings = {key: v for key, v in dict(question["settings"]).items() if key not in SIZES}
    names = ("evidence_version", "scenario", "candidates", "passages", "seed", "dtype", "name_pool")
    content = {name: question.get(name) for name in names} | {
        "model": question[who],
        "settings": settings,
        "device": device,
        "libraries": [_version(name) for name in ("torch", "transformers", "numpy")],
    }
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def note_made(store: ResultStore, key: str, *, kind: str, n_made: int, n_shard: int) -> None:
    """Note that `n_made` units are kept, in shards of `n_shard`; fewer than before change nothing.

    Parameters
    ----------
    key
        A `light_key`; "" where the question is not known, and then nothing is noted.
    kind
        "generation", "posterior" or "chain".
    """
    if not key:
        return
    known = store.get_record(_made(key, kind)) or {}
    if n_made > int(known.get("n_made", 0)):
        store.put_record(_made(key, kind), {"n_made": n_made, "n_shard": n_shard})


def n_made(store: ResultStore, key: str, *, kind: str, n_wanted: int) -> int:
    """Return how many of the wanted units need not be made again: whole shards, or all of them."""
    known = store.get_record(_made(key, kind)) or {}
    n, n_shard = int(known.get("n_made", 0)), max(1, int(known.get("n_shard", 1)))
    if n == n_wanted:
        return n
    return min(n, n_wanted) // n_shard * n_shard


def note_pace(
    store: ResultStore, *, kind: str, device: str, dtype: str, seconds: float, work: float
) -> None:
    """Note how long the latest work took; what was too short to be timed is left out.

    Parameters
    ----------
    work
        Rows of forward passes x tokens of a row x parameters of the model.
    """
    if seconds >= _MIN_SECONDS and work > 0:
        store.put_record(_pace(kind, device, dtype), {"seconds_per_work": seconds / work})


def seconds_per_work(store: ResultStore, *, kind: str, device: str, dtype: str) -> float | None:
    """Return the seconds that a unit of work took last; None where nothing was ever timed."""
    known = store.get_record(_pace(kind, device, dtype)) or {}
    value = known.get("seconds_per_work")
    is_usable = isinstance(value, float) and math.isfinite(value) and value > 0
    return value if is_usable else None


def _made(key: str, kind: str) -> str:
    return f"made/{key}/{kind}"


def _pace(kind: str, device: str, dtype: str) -> str:
    return f"pace/{kind}/{device}/{dtype}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
