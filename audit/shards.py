"""Shards as files, where machines may not talk to each other: an order, its parts, and the merge.

An order is written where the audit will be run; each part is made from it by a job of its own; a
merge takes all of them into the results, where the audit then finds them. Parts need no database
and no lock, which network disks do not keep. An order holds names and notes, and files of shards
hold numbers from which both can be told: modes 600 and 700, like the results.
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
from audit.attack.question import AuditRequest
from audit.errors import AuditError
from audit.foreign import file_bytes, reading
from audit.progress import LOADING, Meter, ProgressListener
from audit.run import MODEL_ROLES, AttackSetup, prepare_attack
from audit.shelf import private_folder, write_whole
from audit.task import Record
from cache.payload import CorruptValueError, decode, encode, seal, unseal
from cache.store import Store


class ShardsOrder(Record):
    """What parts are asked to make."""

    version: Literal[1] = 1
    request: AuditRequest
    made_by: dict[str, str]  # What the keys say of the machine, as `evidence.backend` has it.
    keys: tuple[evidence.ShardKeys, ...]  # Of the shards that are to be made.


@dataclass(frozen=True)
class Merged:
    """What became of the shards of an order."""

    n_taken: int
    n_known: int  # were in the results already
    n_missing: int
    refused: tuple[str, ...]  # files that are damaged, or hold another shard than their name says


class ShardFiles:
    """A folder of shards, one sealed file each, that comes under its name when it is whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, keys: evidence.ShardKeys) -> Path:
        """Return the file of a shard, which holds all of it."""
        return self._folder / f"{keys.name.rpartition('/')[2]}.shard"

    def save(self, keys: evidence.ShardKeys, arrays: evidence.Arrays) -> None:
        """Write a shard; whoever makes the same one beside it writes the same bytes."""
        path = self.path(keys)
        partial = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        write_whole(partial, seal(keys.name, encode(arrays=arrays, meta={})))
        partial.replace(path)

    def get(self, keys: evidence.ShardKeys) -> evidence.Arrays | None:
        """Return a shard; None where its file is not there, or would be refused."""
        try:
            return keys.select_needed(self.checked(keys))
        except (CorruptValueError, FileNotFoundError):
            return None

    def checked(self, keys: evidence.ShardKeys) -> evidence.Arrays:
        """Return a shard; FileNotFoundError or CorruptValueError where it cannot be taken."""
        sealed_key, body = unseal(self.path(keys).read_bytes())
        if sealed_key != keys.name:
            raise CorruptValueError("the value of another key")
        return decode(body).arrays


def write_order(request: AuditRequest, path: Path, *, store: Store) -> ShardsOrder:
    """Write the order of the shards that an audit still needs, with mode 600."""
    meter, kept = (
        Meter(list_phases(request), listener=lambda _: None),
        evidence.ResultsShardStore(store),
    )
    asked = prepare_attack(request)
    keys = [
        one.keys
        for _, orders in _sources(asked, store=kept, meter=meter)
        for one in orders
        if kept.get(one.keys) is None
    ]
    order = ShardsOrder(request=request, made_by=_made_by(asked), keys=tuple(keys))
    write_whole(path, order.written())
    return order


def make_part(
    path: Path, *, part: int, n_parts: int, folder: Path, progress: ProgressListener
) -> int:
    """Make every `n_parts`-th shard of an order, from number `part` on; return how many these are.

    Files that are there are kept, unless damaged: a part that was killed goes on where it stopped,
    and one that is made twice costs nothing. Raises AuditError where the machine, the program or
    the models are not those of the order: the shards would have other keys.
    """
    if not 1 <= part <= n_parts:
        raise AuditError("must be a number and how many there are, such as 3/8.", where="--part")
    order = _read(path)
    evidence.set_threads(order.made_by)
    mine, files = set(order.keys[part - 1 :: n_parts]), ShardFiles(private_folder(folder))
    meter = Meter(list_phases(order.request), listener=progress)
    meter.add(LOADING, 0)
    asked = prepare_attack(order.request)
    evidence.refuse_other_backend(order.made_by, _made_by(asked))
    sources = list(_sources(asked, store=files, meter=meter))
    if not {one.keys for _, orders in sources for one in orders}.issuperset(order.keys):
        raise AuditError(
            "The models, or this program, are not those of the order.",
            where=path.name,
            do="Write the order anew.",
        )
    todo = [(source, [one for one in orders if one.keys in mine]) for source, orders in sources]
    for source, orders in todo:
        meter.resize(source.phase, sum(one.n_rows for one in orders) * source.row_work)
    meter.finish(LOADING)
    for source, orders in todo:
        for _ in evidence.yield_shards(source, orders):
            pass
    return len(mine)


def merge(path: Path, *, folder: Path, store: Store) -> Merged:
    """Take the shards of an order, as far as they are in a folder, into the results."""
    order, files, kept = _read(path), ShardFiles(folder), evidence.ResultsShardStore(store)
    n_taken, n_known, n_missing, refused = 0, 0, 0, list[str]()
    for keys in order.keys:
        if kept.get(keys) is not None:
            n_known += 1
            continue
        try:
            arrays = files.checked(keys)
        except FileNotFoundError:
            n_missing += 1
        except (CorruptValueError, OSError):
            refused.append(files.path(keys).name)
        else:
            kept.save(keys, arrays)
            n_taken += 1
    return Merged(n_taken, n_known, n_missing, tuple(refused))


def _read(path: Path) -> ShardsOrder:
    with reading(path.name):
        return ShardsOrder.read(file_bytes(path), where=path.name)


def _sources(
    asked: AttackSetup, *, store: evidence.ShardStore, meter: Meter
) -> Iterator[tuple[evidence.Source, tuple[evidence.ShardOrder, ...]]]:
    """Yield the source of each model's evidence of each kind, and the orders of its shards."""
    for (kind, n), who in product(asked.request.sizes().items(), MODEL_ROLES):
        if n:
            source = asked.source(who, kind, store=store, meter=meter)
            yield source, evidence.list_shard_orders(source, asked.task, kind=kind, n_total=n)


def _made_by(asked: AttackSetup) -> dict[str, str]:
    how = asked.forwards["hospital"]
    return evidence.describe_backend(asked.device) | {"dtype": how.dtype, "kernels": how.kernels}
