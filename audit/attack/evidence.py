"""Evidence of one model, shard by shard: read from the store, or made if it is not there.

A shard's key holds everything that determines its bytes: the version of the code that makes it, the
model, the task, the shard's place and size, the number type, the device's kind and the libraries.
Evidence is stored per model, so M_general's is made once for all hospital models that are compared
with it. Evidence that depends on no list of names ("open") is stored apart from the rest
("listed"). Torch is imported only where evidence is made, so a plan does not need it.

`make_shard_arrays` makes a shard from its order alone: in this process, one shard after the other,
or in a worker of an executor (`make_shard_remotely`).
"""

from __future__ import annotations

import hashlib
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from audit.attack.prompts import PosteriorTask
from audit.attack.question import VERSIONS
from audit.errors import AuditError
from audit.home import stay_offline
from audit.models.inspect import is_adapter
from audit.progress import Meter
from audit.shelf import digest_json
from cache.store import Store

if TYPE_CHECKING:
    from audit.attack.contexts import ContinuationTask
    from audit.attack.generation import GenerationTask
    from audit.attack.sampling import SamplingTask
    from audit.models.causal_pass import CausalForward
    from audit.models.forward import Forward
    from audit.models.load import LoadedModel

INPUTS_PER_SHARD = 1000
CHAIN_INPUTS_PER_SHARD = 100
PASSAGES_PER_SHARD = 20
"""Passages that a causal model reads for a shard: with a large one a passage takes minutes."""
DOCUMENTS_PER_SHARD = {"cpu": 100, "cuda": 2000}
"""Documents that are generated side by side; on a GPU thousands of chains fill the device."""
_N_AHEAD = 1000
"""Shards that are submitted to an executor before the first of them is finished."""
_LOOK_SECONDS = 0.2  # between two checks whether to stop, while workers make shards

AnyTask: TypeAlias = "PosteriorTask | GenerationTask | SamplingTask | ContinuationTask"
AnyForward: TypeAlias = "Forward | CausalForward"
Arrays: TypeAlias = Mapping[str, np.ndarray]


_OPEN = ("n_documents", "documents", "mass", "vocabulary_n_inputs", "vocabulary")
"""Arrays that depend on no list of names: one run serves every later list of single-piece names."""


class ShardKeys(NamedTuple):
    """The keys of a shard: one for the arrays that depend on no list of names, one for the others.

    `listed` is "" without a list. `needs_open` says whether the shard's evidence includes the open
    arrays.
    """

    open: str
    listed: str
    needs_open: bool

    @property
    def name(self) -> str:
        """The key that identifies the whole shard."""
        return self.listed or self.open

    @property
    def needed_keys(self) -> tuple[str, ...]:
        """The keys that hold the shard's evidence."""
        return tuple(key for key in (self.open * self.needs_open, self.listed) if key)

    def select_needed(self, arrays: Arrays) -> Arrays:
        """Return those arrays of a whole shard that belong to the needed keys."""
        is_asked = {True: self.needs_open, False: bool(self.listed)}
        return {name: x for name, x in arrays.items() if is_asked[name in _OPEN]}


class ShardStore(Protocol):
    """A place that stores shards: `ResultsShardStore`, or a folder of files."""

    def get(self, keys: ShardKeys) -> Arrays | None:
        """Return the arrays under the shard's needed keys; None if they are missing or damaged."""

    def save(self, keys: ShardKeys, arrays: Arrays) -> None:
        """Store a shard, each part whole or not at all."""


@dataclass(frozen=True)
class ResultsShardStore:
    """Shards in the store of results."""

    store: Store

    def get(self, keys: ShardKeys) -> Arrays | None:
        """Return the arrays under the shard's needed keys; None if they are missing or damaged."""
        stored_shards = [self.store.get(key) for key in keys.needed_keys]
        parts = [stored.arrays for stored in stored_shards if stored is not None]
        return (
            {name: x for part in parts for name, x in part.items()} if all(stored_shards) else None
        )

    def save(self, keys: ShardKeys, arrays: Arrays) -> None:
        """Store a shard; the open arrays are left out if one of them is empty."""
        parts = {
            keys.open: {n: x for n, x in arrays.items() if n in _OPEN},
            keys.listed: {n: x for n, x in arrays.items() if n not in _OPEN},
        }
        for key, part in parts.items():
            if key and (key == keys.listed or all(x.size for x in part.values())):
                self.store.put(key, arrays=part, meta={"kind": "shard"})


@dataclass(frozen=True)
class Source:
    """Where evidence comes from: a model ready on its device, a store and a meter."""

    loaded: LoadedModel
    forward: AnyForward
    device: str
    store: ShardStore
    meter: Meter
    phase: str
    row_work: float = 1.0  # work of a row of a forward pass, in units of the meter
    # Called with how many documents or inputs are stored, without a gap from the first on.
    on_kept: Callable[[int], None] = lambda _: None
    # Of the model, at the same place for every worker; of the adapter for both models of its pair.
    folder: Path = Path()
    base: Path = Path()  # of the general model
    executor: Executor | None = None  # None: shards are made here, one after the other


@dataclass(frozen=True)
class ShardOrder:
    """Everything that one shard is made from: a value that is sent to another process.

    It holds token ids, which anybody with the tokenizer can read, but no text. Its `repr`, which
    workers write to their logs, shows the shard's place and none of these.
    """

    keys: ShardKeys = field(repr=False)
    kind: str  # of `VERSIONS`
    shard: int
    first: int  # its first document or input
    n: int
    task: AnyTask = field(repr=False)
    folder: Path = field(repr=False)  # of the model, or of the adapter that makes it one of two
    base: Path = field(repr=False)  # of the general model, on which an adapter stands
    model: str = field(repr=False)  # digest that the model must have
    device: str
    dtype: str
    kernels: str
    backend: Mapping[str, str] = field(repr=False)  # in the key, from `describe_backend`

    @property
    def n_rows(self) -> int:
        """Number of rows of forward passes."""
        return self.task.n_rows(self.kind, self.n)


def list_shard_orders(
    source: Source, task: AnyTask, *, kind: str, n_total: int
) -> tuple[ShardOrder, ...]:
    """Return the orders of all shards of one model's evidence; parameters as in `collect`."""
    n_documents = DOCUMENTS_PER_SHARD[source.device.partition(":")[0]]
    n_shard = {
        "generation": n_documents,
        "posterior": INPUTS_PER_SHARD,
        "chain": CHAIN_INPUTS_PER_SHARD,
        "sampling": n_documents,
        "recall": 1,
        "continuation": PASSAGES_PER_SHARD,
    }[kind]
    source_backend = describe_backend(source.device)
    prefix = {
        "version": VERSIONS[kind],
        "kind": kind,
        "model": source.loaded.digest,
        "n_shard": n_shard,
        "dtype": source.forward.dtype,
        "backend": source_backend | {"kernels": source.forward.kernels},
    }

    fields = asdict(task)
    questions = {
        "open": _digest({name: x for name, x in fields.items() if name not in task.name_fields}),
        "listed": _digest(fields),
    }

    def make_order(shard: int, first: int) -> ShardOrder:
        n_here = min(n_shard, n_total - first)
        place = {"shard": shard, "first": first, "n": n_here}
        part_keys = {
            part: f"shard/{_digest({**prefix, **place, 'part': part, 'task': question})}"
            for part, question in questions.items()
        }
        listed = part_keys["listed"] if task.has_names else ""
        is_open = not listed or kind in ("generation", "sampling")
        keys = ShardKeys(part_keys["open"], listed, is_open)
        return ShardOrder(
            keys,
            kind,
            shard,
            first,
            n_here,
            task,
            source.folder,
            source.base,
            source.loaded.digest,
            source.device,
            source.forward.dtype,
            source.forward.kernels,
            source_backend,
        )

    return tuple(make_order(*place) for place in enumerate(range(0, n_total, n_shard)))


def collect(source: Source, task: AnyTask, *, kind: str, n_total: int, n_before: int = 0) -> Any:
    """Return one model's evidence, all shards together, as the class of its kind.

    Every shard is read or made, and a new shard is stored at once. `kind` is one of `VERSIONS`. Of
    the `n_total` documents or inputs the first `n_before` (whole shards) are left out.
    """
    from audit.attack import continuation, generation, posterior, sampling

    shard_classes: dict[str, Callable[..., Any]] = {
        "generation": generation.GeneratedShard,
        "posterior": posterior.PosteriorShard,
        "chain": posterior.PosteriorShard,
        "sampling": generation.GeneratedShard,
        "recall": sampling.RecallShard,
        "continuation": continuation.ContinuationShard,
    }

    orders = list_shard_orders(source, task, kind=kind, n_total=n_total)
    needed_orders = [order for order in orders if order.first >= n_before]
    arrays_of_shard = {order.shard: arrays for order, arrays in yield_shards(source, needed_orders)}
    return join_shards(
        shard_classes[kind], [arrays_of_shard[order.shard] for order in needed_orders]
    )


def join_shards(shard_class: Callable[..., Any], shards: Sequence[Arrays]) -> Any:
    """Join the arrays of shards, or of evidence joined before, into one `shard_class`."""
    return shard_class(
        **{
            name: (np.sum if name.startswith("passage_") else np.concatenate)(
                [arrays[name] for arrays in shards], axis=0
            )
            for name in shards[0]
        }
    )


def look_sizes(n_total: int) -> tuple[int, ...]:
    """Return the numbers of inputs after which a sequential audit looks: 1, 2, 4 ... all shards."""
    n_shards = -(-n_total // INPUTS_PER_SHARD)
    doubled = [INPUTS_PER_SHARD * 2**k for k in range((n_shards - 1).bit_length())]
    return (*doubled, n_total)


def yield_shards(
    source: Source, orders: Sequence[ShardOrder]
) -> Iterator[tuple[ShardOrder, Arrays]]:
    """Yield every shard: first the stored ones, then the others, each made and stored at once."""
    missing, stored_numbers = list[ShardOrder](), set[int]()

    def report_progress() -> None:  # workers finish shards in any order
        leading_orders = list(takewhile(lambda order: order.shard in stored_numbers, orders))
        if leading_orders:
            source.on_kept(leading_orders[-1].first + leading_orders[-1].n)

    for order in orders:
        if (stored := source.store.get(order.keys)) is not None:
            stored_numbers.add(order.shard)
            yield order, stored
            source.meter.add(source.phase, order.n_rows * source.row_work, is_cached=True)
        else:
            missing.append(order)
    report_progress()
    for order, arrays, n_rows in _make_shards(source, missing):
        source.store.save(order.keys, arrays)
        stored_numbers.add(order.shard)
        report_progress()
        yield order, order.keys.select_needed(arrays)
        source.meter.add(source.phase, n_rows * source.row_work)


def _make_shards(
    source: Source, orders: Sequence[ShardOrder]
) -> Iterator[tuple[ShardOrder, Arrays, int]]:
    """Yield shards as they are made, each with the rows that the meter has not counted yet."""
    if source.executor is not None:
        yield from _make_by_workers(source, source.executor, orders)
        return
    for order in orders:
        n_left = order.n_rows

        def tick(n_done: int) -> None:  # counts no more rows than were announced
            nonlocal n_left
            n_counted = min(n_done, n_left)
            n_left -= n_counted
            source.meter.add(source.phase, n_counted * source.row_work)

        yield order, make_shard_arrays(order, source.forward, tick=tick), n_left


def _make_by_workers(
    source: Source, executor: Executor, orders: Sequence[ShardOrder]
) -> Iterator[tuple[ShardOrder, Arrays, int]]:
    """Yield shards as workers finish them; at a stop, shards not begun are cancelled."""
    remaining, pending = iter(orders), dict[Future[Arrays], ShardOrder]()
    try:
        while True:
            for order in islice(remaining, _N_AHEAD - len(pending)):
                pending[executor.submit(make_shard_remotely, order)] = order
            if not pending:
                return
            source.meter.add(source.phase, 0)  # raises if the run is to stop
            for future in wait(pending, _LOOK_SECONDS, return_when=FIRST_COMPLETED).done:
                order = pending.pop(future)
                yield order, future.result(), order.n_rows
    finally:
        for future, order in pending.items():
            is_made = not future.cancel() and future.done() and future.exception() is None
            if is_made:  # it was finished at the moment of the stop
                source.store.save(order.keys, future.result())


_ONE_AT_A_TIME = threading.Lock()
"""Dropout of a plain model uses the random numbers of the process, so shards take turns."""


def make_shard_remotely(order: ShardOrder) -> Arrays:
    """Make a shard in a process that knows nothing but its order.

    Models stay loaded. Raises AuditError if the model or the backend is not that of the shard's
    key: the shard would be stored as evidence of another kind.
    """
    stay_offline()
    with _ONE_AT_A_TIME:
        set_threads(order.backend)
        refuse_other_backend(order.backend, describe_backend(order.device))
        return make_shard_arrays(order, _load_forward(order))


def _load_forward(order: ShardOrder) -> AnyForward:
    """Return the model of an order, ready to run; a pair stays loaded."""
    forwards = _load_models(order.folder, order.base, order.device, order.dtype, order.kernels)
    if order.model not in forwards:
        raise AuditError(
            "A worker has another model in this folder.",
            where=order.folder.name,
            do="Let all workers see the same folders.",
        )
    return forwards[order.model]


@lru_cache(maxsize=2)
def _load_models(
    folder: Path, base: Path, device: str, dtype: str, kernels: str
) -> Mapping[str, AnyForward]:
    """Return the models of a folder by their digests: one, or an adapter's and its base's."""
    from audit.models.causal_pass import CausalForward, round_models
    from audit.models.forward import Forward
    from audit.models.load import load_model, load_pair

    if is_adapter(folder):
        pair = load_pair(base, folder, device=device)
        models = [pair.general, pair.hospital]
    else:
        models = [load_model(folder, device=device)]
    if models[0].config.is_causal:
        if dtype != "float32":
            round_models(models, dtype=dtype)
        return {loaded.digest: CausalForward(loaded, kernels=kernels) for loaded in models}
    is_plain = kernels == "plain"
    return {
        loaded.digest: Forward(loaded.model, dtype=dtype, is_plain=is_plain) for loaded in models
    }


def set_threads(backend: Mapping[str, str]) -> None:
    """Set the number of threads that the key states; sums depend on it in the last bits."""
    import torch

    if backend["n_threads"]:
        torch.set_num_threads(int(backend["n_threads"]))


def refuse_other_backend(expected: Mapping[str, str], actual: Mapping[str, str]) -> None:
    """Refuse to make shards whose keys state another backend."""
    for name in expected:
        if actual.get(name) != expected[name]:
            raise AuditError(
                "This machine would make other evidence than the order states: {name} is {here} "
                "instead of {asked}.",
                where="worker",
                name=name,
                here=actual.get(name, ""),
                asked=expected[name],
                do="Start the audit, or write the order, on a machine like those that compute.",
            )


def make_shard_arrays(
    order: ShardOrder, forward: AnyForward, *, tick: Callable[[int], None] = lambda _: None
) -> Arrays:
    """Make one shard; if memory runs out, raise AuditError with the setting to try.

    `tick` is called with the rows done after each forward pass; it may raise to stop.
    """
    import torch

    from audit.attack import continuation, generation, posterior, sampling

    makers: dict[str, Callable[..., Any]] = {
        "generation": generation.generate_shard,
        "posterior": posterior.make_posterior_shard,
        "chain": posterior.make_chain_shard,
        "sampling": sampling.write_shard,
        "recall": sampling.make_recall_shard,
        "continuation": continuation.make_continuation_shard,
    }
    place = {"shard": order.shard, "first": order.first, "n": order.n}
    try:
        shard = makers[order.kind](forward, order.task, **place, device=order.device, tick=tick)
    except (torch.cuda.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        raise AuditError(
            "Memory ran out in the middle of a shard; everything finished before it is kept.",
            where="micro-batch",
            do="Try a smaller micro-batch (scenario 2), or run on the CPU.",
        ) from None
    return dict(vars(shard))


def describe_backend(device: str) -> dict[str, str]:
    """Return what determines bytes besides the question: device, threads, library versions."""
    import torch
    import transformers

    kind = torch.device(device).type
    name = torch.cuda.get_device_name(device) if kind == "cuda" else platform.machine()
    return {
        "device": kind,
        "device_name": name,
        "instructions": torch.backends.cpu.get_cpu_capability() if kind == "cpu" else "",
        "n_threads": str(torch.get_num_threads()) if kind == "cpu" else "",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
    }


def _digest(value: object) -> str:
    def encode_array(item: object) -> object:
        if isinstance(item, np.ndarray):
            return [str(item.dtype), list(item.shape), hashlib.sha256(item.tobytes()).hexdigest()]
        raise TypeError(type(item).__name__)

    return digest_json(value, default=encode_array)
