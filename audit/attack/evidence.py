"""Evidence of one model, shard by shard: taken from the store where it is there, made where not.

A shard's key holds everything that determines its bytes: the version of the code that makes it, the
model, the task, the shard's place and size, the number type, the device's kind and the libraries.
Evidence is kept per model, so that M_general's is made once for every hospital model it is compared
with. Torch is imported where evidence is made, so that a plan needs none.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from audit.attack.prompts import PosteriorTask
from audit.attack.question import VERSIONS
from audit.errors import AuditError
from audit.progress import Meter
from cache.store import Store

if TYPE_CHECKING:
    from audit.attack.generation import GenerationTask
    from audit.models.forward import Forward
    from audit.models.load import LoadedModel

INPUTS_PER_SHARD = 1000
CHAIN_INPUTS_PER_SHARD = 100
DOCUMENTS_PER_SHARD = {"cpu": 100, "cuda": 2000}
"""Documents that are generated side by side; on a GPU thousands of chains fill the device."""

AnyTask: TypeAlias = "PosteriorTask | GenerationTask"


@dataclass(frozen=True)
class Source:
    """Where evidence comes from: a model, ready to be asked on a device; a store, a meter."""

    loaded: LoadedModel
    forward: Forward
    device: str
    store: Store
    meter: Meter
    phase: str
    row_work: float = 1.0  # units of the meter that a row of a forward pass is
    # Told how many documents or inputs are kept, shard by shard.
    on_kept: Callable[[int], None] = lambda _: None


def collect(source: Source, task: AnyTask, *, kind: str, n_total: int) -> Any:
    """Return one model's evidence, all shards together: a `GeneratedShard` or `PosteriorShard`.

    Every shard is fetched or made, and what was made is kept at once. `kind` is "generation",
    "posterior" or "chain", `n_total` documents or inputs.
    """
    from audit.attack import generation, posterior

    n_shard = {
        "generation": DOCUMENTS_PER_SHARD[source.device.partition(":")[0]],
        "posterior": INPUTS_PER_SHARD,
        "chain": CHAIN_INPUTS_PER_SHARD,
    }[kind]
    prefix = {
        "version": VERSIONS[kind], "kind": kind, "model": source.loaded.digest,
        "task": _digest(asdict(task)), "n_shard": n_shard, "dtype": source.forward.dtype,
        "backend": backend(source.device) | {"kernels": source.forward.kernels},
    }  # fmt: skip
    found: list[Mapping[str, np.ndarray]] = []
    for shard, first in enumerate(range(0, n_total, n_shard)):
        n_here = min(n_shard, n_total - first)
        key = f"shard/{_digest({**prefix, 'shard': shard, 'n_here': n_here})}"
        if (stored := source.store.get(key)) is not None:
            found.append(stored.arrays)
            work = task.n_rows(kind, n_here) * source.row_work
            source.meter.add(source.phase, work, is_cached=True)
        else:
            place = {"shard": shard, "first": first, "n": n_here}
            found.append(_made(source, task, kind, place, key=key))
        source.on_kept(first + n_here)
    source.meter.finish(source.phase)
    joined = {
        name: (np.sum if name.startswith("passage_") else np.concatenate)(
            [arrays[name] for arrays in found], axis=0
        )
        for name in found[0]
    }
    is_generated = kind == "generation"
    return (generation.GeneratedShard if is_generated else posterior.PosteriorShard)(**joined)


def _made(
    source: Source, task: AnyTask, kind: str, place: dict[str, int], *, key: str
) -> dict[str, np.ndarray]:
    """Make and keep one shard; running out of memory is told with the setting to try."""
    import torch

    from audit.attack import generation, posterior

    makers: dict[str, Callable[..., Any]] = {
        "generation": generation.generated_shard,
        "posterior": posterior.posterior_shard,
        "chain": posterior.chain_shard,
    }
    n_left = task.n_rows(kind, place["n"])

    def tick(n_done: int) -> None:  # no more, and at the end no less, than was announced
        nonlocal n_left
        n_counted = min(n_done, n_left)
        n_left -= n_counted
        source.meter.add(source.phase, n_counted * source.row_work)

    try:
        found = makers[kind](source.forward, task, **place, device=source.device, tick=tick)
    except (torch.cuda.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        raise AuditError(
            "Memory ran out in the middle of a shard; everything finished before it is kept.",
            where="micro-batch",
            do="Try a smaller micro-batch (scenario 2), or run on the CPU.",
        ) from None
    arrays = dict(vars(found))
    source.store.put(key, arrays=arrays, meta={"kind": kind})
    if n_left:
        tick(n_left)
    return arrays


def backend(device: str) -> dict[str, str]:
    """Return what beside the question determines bytes: device kind and library versions."""
    import torch
    import transformers

    kind = torch.device(device).type
    name = torch.cuda.get_device_name(device) if kind == "cuda" else platform.machine()
    return {
        "device": kind,
        "device_name": name,
        "n_threads": str(torch.get_num_threads()) if kind == "cpu" else "",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
    }


def _digest(value: object) -> str:
    def plain(item: object) -> object:
        if isinstance(item, np.ndarray):
            return [str(item.dtype), list(item.shape), hashlib.sha256(item.tobytes()).hexdigest()]
        raise TypeError(type(item).__name__)

    text = json.dumps(value, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()
