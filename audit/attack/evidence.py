"""Evidence of one model, shard by shard: taken from the store where it is there, made where not.

A shard's key holds everything that determines its bytes: the version of the code that makes it, the
model, the task, the shard's place and size, the number type, the device's kind and the libraries.
Evidence is kept per model, so that M_general's is made once for every hospital model it is compared
with. Beside the shards lie notes of how much is there and how fast it was made, for plans. Torch is
imported where evidence is made, so that a plan needs none.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from audit.attack.question import VERSIONS
from audit.errors import AuditError
from audit.progress import Meter
from cache.store import Store

if TYPE_CHECKING:
    from audit.attack.generation import GeneratedShard, GenerationTask
    from audit.attack.posterior import PosteriorShard, PosteriorTask
    from audit.models.load import LoadedModel

SIZES = ("n_documents", "n_inputs", "n_chain_inputs")
"""Settings that say how much is made and not what."""
INPUTS_PER_SHARD = 1000
CHAIN_INPUTS_PER_SHARD = 100
DOCUMENTS_PER_SHARD = {"cpu": 100, "cuda": 2000}
"""Documents that are generated side by side; on a GPU thousands of chains fill the device."""
_MIN_SECONDS = 0.05

Tick = Callable[[int], None]


@dataclass(frozen=True)
class Source:
    """Where evidence comes from: a model on a device, a store, a meter.

    Plans find what is kept under `light_key`; "": not noted.
    """

    loaded: LoadedModel
    device: str
    dtype: str
    store: Store
    meter: Meter
    phase: str
    kernels: str = "default"
    light_key: str = ""

    @property
    def device_kind(self) -> str:
        """The device without its number: "cpu" or "cuda"."""
        return self.device.partition(":")[0]


@dataclass(frozen=True)
class _Work:
    """Evidence of one kind: how a shard is made, its size, and the rows that n units take."""

    kind: str
    task: PosteriorTask | GenerationTask
    n_shard: int
    rows: Callable[[int], int]
    n_tokens: float
    make: Callable[..., Any]


def posterior_evidence(
    source: Source,
    task: PosteriorTask,
    *,
    n_inputs: int,
    kind: Literal["posterior", "chain"] = "posterior",
) -> PosteriorShard:
    """Return the scenario-2 evidence of one model on `n_inputs` inputs, all shards together."""
    from audit.attack import posterior

    n_tokens = float(np.mean([len(t.left) + len(t.right) for t in task.templates]))
    if kind == "chain":
        work = _Work(
            kind, task, CHAIN_INPUTS_PER_SHARD, lambda n: posterior.n_chain_rows(task, n_inputs=n),
            n_tokens, posterior.chain_shard,
        )  # fmt: skip
    else:
        work = _Work(
            kind, task, INPUTS_PER_SHARD, lambda n: posterior.n_rows(task, n_inputs=n), n_tokens,
            posterior.posterior_shard,
        )  # fmt: skip
    return posterior.PosteriorShard(**_arrays(source, work, n_total=n_inputs))


def generation_evidence(
    source: Source, task: GenerationTask, *, n_documents: int
) -> GeneratedShard:
    """Return the scenario-1 evidence of one model: documents and masses by block."""
    from audit.attack import generation

    n_shard = DOCUMENTS_PER_SHARD[source.device_kind]
    work = _Work(
        "generation", task, n_shard, lambda n: n * task.n_steps, float(len(task.prompt)),
        generation.generated_shard,
    )  # fmt: skip
    return generation.GeneratedShard(**_arrays(source, work, n_total=n_documents))


def _arrays(source: Source, work: _Work, *, n_total: int) -> dict[str, np.ndarray]:
    """Fetch or make every shard of a run, each kept at once; return what they hold together."""
    prefix = {
        "version": VERSIONS[work.kind], "kind": work.kind, "model": source.loaded.digest,
        "task": _digest(asdict(work.task)), "n_shard": work.n_shard, "dtype": source.dtype,
        "backend": backend(source.device) | {"kernels": source.kernels},
    }  # fmt: skip

    def note(n_made: int) -> None:
        note_made(source.store, source.light_key, kind=work.kind, n_made=n_made,
                  n_shard=work.n_shard)  # fmt: skip

    found: list[Mapping[str, np.ndarray]] = []
    for shard in range(-(-n_total // work.n_shard)):
        n_here = min(work.n_shard, n_total - shard * work.n_shard)
        key = f"shard/{_digest({**prefix, 'shard': shard, 'n_here': n_here})}"
        if (stored := source.store.get(key)) is not None:
            found.append(stored.arrays)
            source.meter.add(source.phase, work.rows(n_here), is_cached=True)
        else:
            found.append(_made(source, work, shard, n_here, key=key))
            note(shard * work.n_shard + n_here)
    source.meter.finish(source.phase)
    note(n_total)
    return {
        name: (np.sum if name.startswith("passage_") else np.concatenate)(
            [arrays[name] for arrays in found], axis=0
        )
        for name in found[0]
    }


def _made(
    source: Source, work: _Work, shard: int, n_here: int, *, key: str
) -> dict[str, np.ndarray]:
    """Make and keep one shard; running out of memory is told with the setting to try."""
    import torch

    n_left = work.rows(n_here)

    def tick(n_rows: int) -> None:  # no more, and at the end no less, than was announced
        nonlocal n_left
        n_counted = min(n_rows, n_left)
        n_left -= n_counted
        source.meter.add(source.phase, n_counted)

    started = time.monotonic()
    try:
        found = work.make(
            source.loaded.model, work.task, shard=shard, first=shard * work.n_shard, n=n_here,
            device=source.device, tick=tick,
        )  # fmt: skip
    except (torch.cuda.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        raise AuditError(
            "Memory ran out in the middle of a shard; everything finished before it is kept.",
            where="micro-batch",
            do="Try a smaller micro-batch (scenario 2), or run on the CPU.",
        ) from None
    arrays = dict(vars(found))
    source.store.put(key, arrays=arrays, meta={"kind": work.kind})
    if source.light_key:
        n_parameters = sum(p.numel() for p in source.loaded.model.parameters())
        note_pace(
            source.store, kind=work.kind, device=source.device_kind, dtype=source.dtype,
            seconds=time.monotonic() - started,
            work=work.rows(n_here) * work.n_tokens * n_parameters,
        )  # fmt: skip
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
    names = ("evidence_version", "scenario", "candidates", "passages", "seed", "dtype", "name_pool")
    return _digest({name: question.get(name) for name in names} | {
        "model": question[who],
        "settings": {k: v for k, v in dict(question["settings"]).items() if k not in SIZES},
        "device": device,
        "libraries": [version(name) for name in ("torch", "transformers", "numpy")],
    })  # fmt: skip


def note_made(store: Store, key: str, *, kind: str, n_made: int, n_shard: int) -> None:
    """Note that `n_made` units are kept, in shards of `n_shard`; fewer than before change nothing.

    `key` is a `light_key`; "" where the question is not known, and then nothing is noted.
    """
    if not key:
        return
    known = store.get_record(f"made/{key}/{kind}") or {}
    if n_made > int(known.get("n_made", 0)):
        store.put_record(f"made/{key}/{kind}", {"n_made": n_made, "n_shard": n_shard})


def n_made(store: Store, key: str, *, kind: str, n_wanted: int) -> int:
    """Return how many of the wanted units need not be made again: whole shards, or all of them."""
    known = store.get_record(f"made/{key}/{kind}") or {}
    n, n_shard = int(known.get("n_made", 0)), max(1, int(known.get("n_shard", 1)))
    return n if n == n_wanted else min(n, n_wanted) // n_shard * n_shard


def note_pace(
    store: Store, *, kind: str, device: str, dtype: str, seconds: float, work: float
) -> None:
    """Note how long the latest work took; what was too short to be timed is left out.

    `work`: rows of forward passes x tokens of a row x parameters of the model.
    """
    if seconds >= _MIN_SECONDS and work > 0:
        store.put_record(f"pace/{kind}/{device}/{dtype}", {"seconds_per_work": seconds / work})


def seconds_per_work(store: Store, *, kind: str, device: str, dtype: str) -> float | None:
    """Return the seconds that a unit of work took last; None where nothing was ever timed."""
    known = store.get_record(f"pace/{kind}/{device}/{dtype}") or {}
    value = known.get("seconds_per_work")
    is_usable = isinstance(value, float) and math.isfinite(value) and value > 0
    return value if is_usable else None


def _digest(value: object) -> str:
    def plain(item: object) -> object:
        if isinstance(item, np.ndarray):
            return [str(item.dtype), list(item.shape), hashlib.sha256(item.tobytes()).hexdigest()]
        raise TypeError(type(item).__name__)

    text = json.dumps(value, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()
