"""Evidence of one model, shard by shard: taken from the store where it is there, made where not.

A shard's key holds everything that determines its bytes: the model, the task, the shard's place and
size, the number type, the device's kind and the libraries. Evidence is kept per model, so that
M_general's is made once for every hospital model it is compared with.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from audit.attack import posterior
from audit.attack import posterior as chain
from audit.attack.generation import GeneratedShard, GenerationTask, generated_shard
from audit.attack.plan import note_made, note_pace
from audit.attack.posterior import PosteriorShard, PosteriorTask
from audit.attack.question import EVIDENCE_VERSION
from audit.errors import AuditError
from audit.models.load import LoadedModel
from audit.progress import Meter
from cache.store import Store

INPUTS_PER_SHARD = 1000
CHAIN_INPUTS_PER_SHARD = 100
DOCUMENTS_PER_SHARD = {"cpu": 100, "cuda": 2000}
"""Documents that are generated side by side; on a GPU thousands of chains fill the device."""


@dataclass(frozen=True)
class Source:
    """Where evidence comes from: a model on a device, a store, a meter.

    `light_key` is that of `audit.attack.plan`, under which plans find what is kept; "": not noted.
    """

    loaded: LoadedModel
    device: str
    dtype: str
    store: Store
    meter: Meter
    phase: str
    kernels: str = "default"
    light_key: str = ""


Shard = TypeVar("Shard", PosteriorShard, GeneratedShard)


def posterior_evidence(source: Source, task: PosteriorTask, *, n_inputs: int) -> PosteriorShard:
    """Return the scenario-2 evidence of one model on `n_inputs` inputs, all shards together."""

    def make(shard: int, n_here: int, tick: posterior.Tick) -> PosteriorShard:
        return posterior.posterior_shard(
            source.loaded.model, task, shard=shard, n_shard_inputs=INPUTS_PER_SHARD,
            n_inputs=n_here, device=source.device, tick=tick,
        )  # fmt: skip

    shards = _shards(
        source, PosteriorShard, kind="posterior", task=task, n_total=n_inputs,
        n_shard=INPUTS_PER_SHARD, make=make, rows=lambda n: posterior.n_rows(task, n_inputs=n),
    )  # fmt: skip
    return _joined_posteriors(shards)


def chain_evidence(source: Source, task: PosteriorTask, *, n_inputs: int) -> PosteriorShard:
    """Return the `chain` evidence of one model for the listed names."""

    def make(shard: int, n_here: int, tick: posterior.Tick) -> PosteriorShard:
        return chain.chain_shard(
            source.loaded.model, task, shard=shard, n_shard_inputs=CHAIN_INPUTS_PER_SHARD,
            n_inputs=n_here, device=source.device, tick=tick,
        )  # fmt: skip

    shards = _shards(
        source, PosteriorShard, kind="chain", task=task, n_total=n_inputs,
        n_shard=CHAIN_INPUTS_PER_SHARD, make=make,
        rows=lambda n: chain.n_chain_rows(task, n_inputs=n),
    )  # fmt: skip
    return _joined_posteriors(shards)


def generation_evidence(
    source: Source, task: GenerationTask, *, n_documents: int
) -> GeneratedShard:
    """Return the scenario-1 evidence of one model: documents and masses by block."""
    n_vocabulary = int(source.loaded.model.config.vocab_size)  # type: ignore[union-attr,arg-type]
    n_shard = DOCUMENTS_PER_SHARD[torch.device(source.device).type]

    def make(shard: int, n_here: int, tick: posterior.Tick) -> GeneratedShard:
        return generated_shard(
            source.loaded.model, task, shard=shard, n_shard_documents=n_shard, n_documents=n_here,
            n_vocabulary=n_vocabulary, device=source.device, tick=tick,
        )  # fmt: skip

    shards = _shards(
        source, GeneratedShard, kind="generation", task=task, n_total=n_documents, n_shard=n_shard,
        make=make, rows=lambda n: n * task.n_steps,
    )  # fmt: skip
    return _joined(GeneratedShard, shards)


def backend(device: str) -> dict[str, str]:
    """Return what beside the question determines bytes: device kind and library versions."""
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


def _shards(
    source: Source,
    kind_of: type[Shard],
    *,
    kind: str,
    task: PosteriorTask | GenerationTask,
    n_total: int,
    n_shard: int,
    make: Callable[[int, int, posterior.Tick], Shard],
    rows: Callable[[int], int],
) -> list[Shard]:
    """Fetch or make every shard of a run; each finished one is kept at once."""
    prefix = {
        "version": EVIDENCE_VERSION, "kind": kind, "model": source.loaded.digest,
        "task": _task_digest(task), "n_shard": n_shard, "dtype": source.dtype,
        "backend": backend(source.device) | {"kernels": source.kernels},
    }  # fmt: skip
    found: list[Shard] = []
    for shard in range(-(-n_total // n_shard)):
        n_here = min(n_shard, n_total - shard * n_shard)
        key = f"shard/{_digest({**prefix, 'shard': shard, 'n_here': n_here})}"
        stored = source.store.get(key)
        if stored is not None:
            found.append(kind_of(**stored.arrays))
            source.meter.add(source.phase, rows(n_here), is_cached=True)
            continue
        units = _ShardUnits(source, n_left=rows(n_here))
        started = time.monotonic()
        with _plain_out_of_memory():
            value = make(shard, n_here, units.tick)
        source.store.put(key, arrays=_arrays(value), meta={"kind": kind})
        seconds = time.monotonic() - started
        _note(source, kind, task, n_rows=rows(n_here), seconds=seconds)
        n_made = shard * n_shard + n_here
        note_made(source.store, source.light_key, kind=kind, n_made=n_made, n_shard=n_shard)
        found.append(value)
        if units.n_left:
            units.tick(units.n_left)
    source.meter.finish(source.phase)
    note_made(source.store, source.light_key, kind=kind, n_made=n_total, n_shard=n_shard)
    return found


def _note(
    source: Source,
    kind: str,
    task: PosteriorTask | GenerationTask,
    *,
    n_rows: int,
    seconds: float,
) -> None:
    """Note how fast a shard was made, for the plan of the next run."""
    if not source.light_key:
        return
    if isinstance(task, GenerationTask):
        n_tokens = float(len(task.prompt))
    else:
        n_tokens = float(np.mean([len(t.left) + len(t.right) for t in task.templates]))
    n_parameters = sum(p.numel() for p in source.loaded.model.parameters())
    note_pace(
        source.store, kind=kind, device=torch.device(source.device).type, dtype=source.dtype,
        seconds=seconds, work=n_rows * n_tokens * n_parameters,
    )  # fmt: skip


@dataclass
class _ShardUnits:
    """Counts a shard's rows as no more, and at its end no less, than was announced for it."""

    source: Source
    n_left: int

    def tick(self, n_rows: int) -> None:
        n_counted = min(n_rows, self.n_left)
        self.n_left -= n_counted
        self.source.meter.add(self.source.phase, n_counted)


def _joined_posteriors(shards: list[PosteriorShard]) -> PosteriorShard:
    return PosteriorShard(
        n_inputs=np.concatenate([s.n_inputs for s in shards]),
        sum_p=np.concatenate([s.sum_p for s in shards]),
        sum_log_p=np.concatenate([s.sum_log_p for s in shards]),
        passage_n_inputs=np.sum([s.passage_n_inputs for s in shards], axis=0),
        passage_sum_log_p=np.sum([s.passage_sum_log_p for s in shards], axis=0),
    )


def _joined(kind: type[Shard], shards: list[Shard]) -> Shard:
    return kind(
        **{f.name: np.concatenate([getattr(s, f.name) for s in shards]) for f in fields(kind)}
    )


def _arrays(shard: PosteriorShard | GeneratedShard) -> dict[str, NDArray[Any]]:
    return {f.name: getattr(shard, f.name) for f in fields(shard)}


def _task_digest(task: PosteriorTask | GenerationTask) -> str:
    return _digest(asdict(task))


def _digest(value: object) -> str:
    def plain(item: object) -> object:
        if isinstance(item, np.ndarray):
            return [str(item.dtype), list(item.shape), hashlib.sha256(item.tobytes()).hexdigest()]
        raise TypeError(type(item).__name__)

    text = json.dumps(value, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _plain_out_of_memory() -> Iterator[None]:
    """Turn running out of memory into a reason and the setting to try; nothing finished is lost."""
    try:
        yield
    except (torch.cuda.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        raise AuditError(
            "Memory ran out in the middle of a shard; everything finished before it is kept.",
            where="micro-batch",
            do="Try a smaller micro-batch (scenario 2), or run on the CPU.",
        ) from None
