"""Shards as files, where machines may not talk to each other: an order, its parts, and the merge.

The order is written on the machine where the audit will run. A separate job makes each part from
it. The merge copies all shards into the results, where the audit then finds them. Parts need
neither a database nor locks, because locks do not work reliably on network disks. An order holds
names and notes, and shard files hold numbers that can reveal both, so they have modes 600 and 700,
like the results.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

from audit.attack import evidence
from audit.attack.plan import list_phases
from audit.attack.question import MODEL_ROLES, AuditRequest
from audit.errors import AuditError
from audit.foreign import locate_errors, read_file_bytes
from audit.progress import LOADING, Meter, ProgressListener
from audit.run import AttackSetup, prepare_attack
from audit.shelf import private_folder, write_whole
from audit.task import Record
from cache.payload import CorruptValueError, decode, encode, seal, unseal
from cache.store import Store


class ShardsOrder(Record):
    """The shards that the parts must make."""

    version: Literal[1] = 1
    request: AuditRequest
    made_by: dict[str, str]  # The machine in the keys, as `evidence.backend` describes it.
    keys: tuple[evidence.ShardKeys, ...]  # Keys of the shards to make.


@dataclass(frozen=True)
class MergeCounts:
    """Counts of an order's shards after a merge."""

    n_taken: int
    n_known: int  # were in the results already
    n_missing: int
    refused: tuple[str, ...]  # damaged files, and files with a shard that their name does not match


class ShardFiles:
    """A folder of shards: one sealed file each, which gets its name once it is complete."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, keys: evidence.ShardKeys) -> Path:
        """Return the path of a shard's file."""
        return self._folder / f"{keys.name.rpartition('/')[2]}.shard"

    def save(self, keys: evidence.ShardKeys, arrays: evidence.Arrays) -> None:
        """Write a shard. Another process that makes the same shard writes the same bytes."""
        path = self.path(keys)
        partial = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        write_whole(partial, seal(keys.name, encode(arrays=arrays, meta={})))
        partial.replace(path)

    def get(self, keys: evidence.ShardKeys) -> evidence.Arrays | None:
        """Return a shard, or None if its file is missing or would be refused."""
        try:
            return keys.select_needed(self.read_shard(keys))
        except (CorruptValueError, FileNotFoundError):
            return None

    def read_shard(self, keys: evidence.ShardKeys) -> evidence.Arrays:
        """Return a shard; raise FileNotFoundError or CorruptValueError if it has no valid file."""
        sealed_key, body = unseal(self.path(keys).read_bytes())
        if sealed_key != keys.name:
            raise CorruptValueError("the value of another key")
        return decode(body).arrays


def write_order(request: AuditRequest, path: Path, *, store: Store) -> ShardsOrder:
    """Write the order of the shards that an audit still needs, with mode 600."""
    meter, stored_shards = (
        Meter(list_phases(request), listener=lambda _: None),
        evidence.ResultsShardStore(store),
    )
    preparation = prepare_attack(request)
    keys = [
        shard_order.keys
        for _, orders in _yield_sources(preparation, store=stored_shards, meter=meter)
        for shard_order in orders
        if stored_shards.get(shard_order.keys) is None
    ]
    order = ShardsOrder(request=request, made_by=_describe_backend(preparation), keys=tuple(keys))
    write_whole(path, order.to_bytes())
    return order


def make_part(
    path: Path, *, part: int, n_parts: int, folder: Path, progress: ProgressListener
) -> int:
    """Make every `n_parts`-th shard of an order, starting at number `part`; return their number.

    Intact files are kept, so a part that was killed continues where it stopped and making a part
    twice costs nothing. Raises AuditError if the machine, the program or the models differ from
    those of the order, because the shards would have other keys.
    """
    if not 1 <= part <= n_parts:
        raise AuditError("must be a number and how many there are, such as 3/8.", where="--part")
    order = _read_order(path)
    evidence.set_threads(order.made_by)
    own_keys, files = set(order.keys[part - 1 :: n_parts]), ShardFiles(private_folder(folder))
    meter = Meter(list_phases(order.request), listener=progress)
    meter.add(LOADING, 0)
    preparation = prepare_attack(order.request)
    evidence.refuse_other_backend(order.made_by, _describe_backend(preparation))
    sources = list(_yield_sources(preparation, store=files, meter=meter))
    if not {shard_order.keys for _, orders in sources for shard_order in orders}.issuperset(
        order.keys
    ):
        raise AuditError(
            "The models, or this program, are not those of the order.",
            where=path.name,
            do="Write the order anew.",
        )
    own_work = [
        (source, [own_order for own_order in orders if own_order.keys in own_keys])
        for source, orders in sources
    ]
    for source, orders in own_work:
        meter.resize(source.phase, sum(own_order.n_rows for own_order in orders) * source.row_work)
    meter.finish(LOADING)
    for source, orders in own_work:
        for _ in evidence.yield_shards(source, orders):
            pass
    return len(own_keys)


def merge_shards(path: Path, *, folder: Path, store: Store) -> MergeCounts:
    """Copy those shards of an order that are in a folder into the results."""
    order, files = _read_order(path), ShardFiles(folder)
    stored_shards = evidence.ResultsShardStore(store)
    n_taken, n_known, n_missing, refused = 0, 0, 0, list[str]()
    for keys in order.keys:
        if stored_shards.get(keys) is not None:
            n_known += 1
            continue
        try:
            arrays = files.read_shard(keys)
        except FileNotFoundError:
            n_missing += 1
        except (CorruptValueError, OSError):
            refused.append(files.path(keys).name)
        else:
            stored_shards.save(keys, arrays)
            n_taken += 1
    return MergeCounts(n_taken, n_known, n_missing, tuple(refused))


def _read_order(path: Path) -> ShardsOrder:
    with locate_errors("order"):
        return ShardsOrder.read(read_file_bytes(path), where="order")


def _yield_sources(
    preparation: AttackSetup, *, store: evidence.ShardStore, meter: Meter
) -> Iterator[tuple[evidence.Source, tuple[evidence.ShardOrder, ...]]]:
    """Yield the source of each model's evidence of each kind, with the orders of its shards."""
    for (kind, n), model_role in product(preparation.request.sizes().items(), MODEL_ROLES):
        if n:
            source = preparation.source(model_role, kind, store=store, meter=meter)
            yield source, evidence.list_shard_orders(source, preparation.task, kind=kind, n_total=n)


def _describe_backend(preparation: AttackSetup) -> dict[str, str]:
    forward = preparation.forwards["hospital"]
    return evidence.describe_backend(preparation.device) | {
        "dtype": forward.dtype,
        "kernels": forward.kernels,
    }
