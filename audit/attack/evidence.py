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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from audit.errors import AuditError
from audit.progress import Meter
from cache.store import Store

if TYPE_CHECKING:
    from audit.attack.generation import GeneratedShard, GenerationTask
    from audit.attack.posterior import PosteriorShard, PosteriorTask
    from audit.models.load import LoadedModel

VERSIONS = {"generation": 2, "posterior": 2, "chain": 2}
"""Of the code that makes each kind of evidence, raised whenever a change of it moves a number:
evidence of other versions is made anew, and an audit that rests on it has another name."""
KINDS = {1: ("generation",), 2: ("posterior", "chain")}
"""Kinds of evidence by scenario."""
SIZES = ("n_documents", "n_inputs", "n_chain_inputs")
"""Settings that say how much is made and not what."""
INPUTS_PER_SHARD = 1000
CHAIN_INPUTS_PER_SHARD = 100
DOCUMENTS_PER_SHARD = {"cpu": 100, "cuda": 2000}
"""Documents that are generated side by side; on a GPU thousands of chains fill the device."""
_MIN_SECONDS = 0.05

Tick = Callable[[int], None]


def evidence_version(scenario: int) -> int:
    """Return the version that an audit of this scenario rests on."""
    return max(VERSIONS[kind] for kind in KINDS[scenario])


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


Shard = TypeVar("Shard", "PosteriorShard", "GeneratedShard")


def posterior_evidence(source: Source, task: PosteriorTask, *, n_inputs: int) -> PosteriorShard:
    """Return the scenario-2 evidence of one model on `n_inputs` inputs, all shards together."""
    from audit.attack.posterior import PosteriorShard, n_rows, posterior_shard

    def make(shard: int, n_here: int, tick: Tick) -> PosteriorShard:
        return posterior_shard(
            source.loaded.model, task, shard=shard, n_shard_inputs=INPUTS_PER_SHARD,
            n_inputs=n_here, device=source.device, tick=tick,
        )  # fmt: skip

    return _joined_posteriors(_shards(
        source, PosteriorShard, kind="posterior", task=task, n_total=n_inputs,
        n_shard=INPUTS_PER_SHARD, make=make, rows=lambda n: n_rows(task, n_inputs=n),
    ))  # fmt: skip


def chain_evidence(source: Source, task: PosteriorTask, *, n_inputs: int) -> PosteriorShard:
    """Return the `chain` evidence of one model for the listed names."""
    from audit.attack.posterior import PosteriorShard, chain_shard, n_chain_rows

    def make(shard: int, n_here: int, tick: Tick) -> PosteriorShard:
        return chain_shard(
            source.loaded.model, task, shard=shard, n_shard_inputs=CHAIN_INPUTS_PER_SHARD,
            n_inputs=n_here, device=source.device, tick=tick,
        )  # fmt: skip

    return _joined_posteriors(_shards(
        source, PosteriorShard, kind="chain", task=task, n_total=n_inputs,
        n_shard=CHAIN_INPUTS_PER_SHARD, make=make, rows=lambda n: n_chain_rows(task, n_inputs=n),
    ))  # fmt: skip


def generation_evidence(
    source: Source, task: GenerationTask, *, n_documents: int
) -> GeneratedShard:
    """Return the scenario-1 evidence of one model: documents and masses by block."""
    from audit.attack.generation import GeneratedShard, generated_shard

    n_vocabulary = int(source.loaded.model.config.vocab_size)  # type: ignore[union-attr,arg-type]
    n_shard = DOCUMENTS_PER_SHARD[source.device_kind]

    def make(shard: int, n_here: int, tick: Tick) -> GeneratedShard:
        return generated_shard(
            source.loaded.model, task, shard=shard, n_shard_documents=n_shard, n_documents=n_here,
            n_vocabulary=n_vocabulary, device=source.device, tick=tick,
        )  # fmt: skip

    shards = _shards(
        source, GeneratedShard, kind="generation", task=task, n_total=n_documents, n_shard=n_shard,
        make=make, rows=lambda n: n * task.n_steps,
    )  # fmt: skip
    names = [f.name for f in fields(GeneratedShard)]
    return GeneratedShard(**{n: np.concatenate([getattr(s, n) for s in shards]) for n in names})


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
    settings = {key: v for key, v in dict(question["settings"]).items() if key not in SIZES}
    names = ("evidence_version", "scenario", "candidates", "passages", "seed", "dtype", "name_pool")
    content = {name: question.get(name) for name in names} | {
        "model": question[who],
        "settings": settings,
        "device": device,
        "libraries": [_version(name) for name in ("torch", "transformers", "numpy")],
    }
    return _digest(content)


def note_made(store: Store, key: str, *, kind: str, n_made: int, n_shard: int) -> None:
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


def n_made(store: Store, key: str, *, kind: str, n_wanted: int) -> int:
    """Return how many of the wanted units need not be made again: whole shards, or all of them."""
    known = store.get_record(_made(key, kind)) or {}
    n, n_shard = int(known.get("n_made", 0)), max(1, int(known.get("n_shard", 1)))
    if n == n_wanted:
        return n
    return min(n, n_wanted) // n_shard * n_shard


def note_pace(
    store: Store, *, kind: str, device: str, dtype: str, seconds: float, work: float
) -> None:
    """Note how long the latest work took; what was too short to be timed is left out.

    Parameters
    ----------
    work
        Rows of forward passes x tokens of a row x parameters of the model.
    """
    if seconds >= _MIN_SECONDS and work > 0:
        store.put_record(_pace(kind, device, dtype), {"seconds_per_work": seconds / work})


def seconds_per_work(store: Store, *, kind: str, device: str, dtype: str) -> float | None:
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


def _shards(
    source: Source,
    kind_of: type[Shard],
    *,
    kind: str,
    task: PosteriorTask | GenerationTask,
    n_total: int,
    n_shard: int,
    make: Callable[[int, int, Tick], Shard],
    rows: Callable[[int], int],
) -> list[Shard]:
    """Fetch or make every shard of a run; each finished one is kept at once."""
    prefix = {
        "version": VERSIONS[kind], "kind": kind, "model": source.loaded.digest,
        "task": _digest(asdict(task)), "n_shard": n_shard, "dtype": source.dtype,
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
        source.store.put(key, arrays=dict(vars(value)), meta={"kind": kind})
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
    if kind == "generation":
        n_tokens = float(len(task.prompt))  # type: ignore[union-attr]
    else:
        templates = task.templates  # type: ignore[union-attr]
        n_tokens = float(np.mean([len(t.left) + len(t.right) for t in templates]))
    n_parameters = sum(p.numel() for p in source.loaded.model.parameters())
    note_pace(
        source.store, kind=kind, device=source.device_kind, dtype=source.dtype,
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
    from audit.attack.posterior import PosteriorShard

    return PosteriorShard(
        n_inputs=np.concatenate([s.n_inputs for s in shards]),
        sum_p=np.concatenate([s.sum_p for s in shards]),
        sum_log_p=np.concatenate([s.sum_log_p for s in shards]),
        passage_n_inputs=np.sum([s.passage_n_inputs for s in shards], axis=0),
        passage_sum_log_p=np.sum([s.passage_sum_log_p for s in shards], axis=0),
    )


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
    import torch

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
