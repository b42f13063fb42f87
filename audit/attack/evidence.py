"""Evidence of one model, shard by shard: taken from the store where it is there, made where not.

A shard's key holds everything that determines its bytes: the version of the code that makes it, the
model, the task, the shard's place and size, the number type, the device's kind and the libraries.
Evidence is kept per model, so that M_general's is made once for every hospital model it is compared
with; what depends on no list of names ("open") is kept apart from what does ("listed"). Torch is
imported where evidence is made, so that a plan needs none.
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
    from audit.models.load import LoadedModel

INPUTS_PER_SHARD = 1000
CHAIN_INPUTS_PER_SHARD = 100
DOCUMENTS_PER_SHARD = {"cpu": 100, "cuda": 2000}
"""Documents that are generated side by side; on a GPU thousands of chains fill the device."""

AnyTask: TypeAlias = "PosteriorTask | GenerationTask"
_OPEN: Mapping[str, tuple[str, ...]] = {
    "generation": ("n_documents", "documents", "mass"),
    "posterior": ("vocabulary_n_inputs", "vocabulary"),
    "chain": ("vocabulary_n_inputs", "vocabulary"),
}
"""What of a kind of evidence depends on no list of names: it has a key of its own, so that one run
serves every later list of names of single pieces."""


@dataclass(frozen=True)
class Source:
    """Where evidence comes from: a model on a device, a store, a meter."""

    loaded: LoadedModel
    device: str
    dtype: str
    store: Store
    meter: Meter
    phase: str
    kernels: str = "default"
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
        "n_shard": n_shard, "dtype": source.dtype,
        "backend": backend(source.device) | {"kernels": source.kernels},
    }  # fmt: skip
    of_part, needed = _questions(task), _needed(task, kind)
    found: list[Mapping[str, np.ndarray]] = []
    for shard, first in enumerate(range(0, n_total, n_shard)):
        n_here = min(n_shard, n_total - first)
        place = {"shard": shard, "first": first, "n": n_here}
        keys = {part: f"shard/{_digest({**prefix, **place, 'part': part, 'task': question})}"
                for part, question in of_part.items()}  # fmt: skip
        stored = [source.store.get(keys[part]) for part in needed]
        if all(stored):
            found.append({name: x for one in stored if one for name, x in one.arrays.items()})
            work = task.n_rows(kind, n_here) * source.row_work
            source.meter.add(source.phase, work, is_cached=True)
        else:
            made = _made(source, task, kind, place, keys=keys)
            found.append({name: x for part in needed for name, x in made[part].items()})
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


def _questions(task: AnyTask) -> dict[str, str]:
    """Digests of what both parts of a task's evidence depend on."""
    fields = asdict(task)
    without_names = {name: x for name, x in fields.items() if name not in task.of_names}
    return {"open": _digest(without_names), "listed": _digest(fields)}


def _needed(task: AnyTask, kind: str) -> tuple[str, ...]:
    """Which parts answer a task: in scenario 2 a list's own evidence is whole in itself."""
    if kind == "generation":
        return ("open", "listed") if task.has_names else ("open",)
    return ("listed",) if task.has_names else ("open",)


def _made(
    source: Source, task: AnyTask, kind: str, place: dict[str, int], *, keys: Mapping[str, str]
) -> dict[str, dict[str, np.ndarray]]:
    """Make one shard and keep its parts; running out of memory is told with the setting to try."""
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
        found = makers[kind](source.loaded.model, task, **place, device=source.device, tick=tick)
    except (torch.cuda.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        raise AuditError(
            "Memory ran out in the middle of a shard; everything finished before it is kept.",
            where="micro-batch",
            do="Try a smaller micro-batch (scenario 2), or run on the CPU.",
        ) from None
    parts: dict[str, dict[str, np.ndarray]] = {"open": {}, "listed": {}}
    for name, x in vars(found).items():
        parts["open" if name in _OPEN[kind] else "listed"][name] = x
    is_open = all(x.size for x in parts["open"].values())
    for part, is_there in (("open", is_open), ("listed", task.has_names)):
        if is_there:
            source.store.put(keys[part], arrays=parts[part], meta={"kind": kind})
    if n_left:
        tick(n_left)
    return parts


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
