"""A store whose files were damaged serves no wrong value, and makes its index again."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import random
import shutil
import sqlite3
import stat
import time
from pathlib import Path
from typing import Any

import diskcache
import pytest

from audit.errors import AuditError
from cache.payload import seal
from cache.store import Store, StoreError
from tests.cache.make_store import contents, quick_disk, store, the_file, value_files
from tests.cache.make_values import is_right, key_of, put_value
from tests.models.editing import Canary
from tests.repository import many

__all__ = ["quick_disk", "store"]


def test_what_is_damaged_or_of_another_key_is_moved_aside_and_made_again(store):
    put_value(store, 1)
    first = the_file(store)
    put_value(store, 2)
    (second,) = set(value_files(store.directory)) - {first}
    content, other_content = first.read_bytes(), second.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    aside = set()
    for n, data in enumerate(
        (bytes(flipped), other_content, seal(key_of(1), b"no archive")), start=1
    ):
        first.write_bytes(data)
        assert is_right(store, 1) is None
        assert store.n_corrupt == n and store.keys() == (key_of(2),)
        aside.add(data)
        assert {p.read_bytes() for p in (store.directory / "quarantine").iterdir()} == aside
        put_value(store, 1)
        assert is_right(store, 1) and first.read_bytes() == content


def database(store: Store) -> Path:
    return store.directory / "index" / "cache.db"


def tamper(store: Store, statement: str, *values: Any) -> None:
    with contextlib.closing(sqlite3.connect(database(store))) as connection:
        connection.execute(statement, values)
        connection.commit()


def test_a_pickle_in_a_row_is_never_run(store, tmp_path):
    canary = tmp_path / "canary"
    put_value(store, 1)
    for assignment in ("raw = 0, key", "key", "mode = 4, value"):
        tamper(store, f"UPDATE Cache SET {assignment} = ?", pickle.dumps(Canary(canary)))
        assert store.keys() == (key_of(1),)
        assert not canary.exists()
    # The library as it comes does run it: the canary is alive.
    with diskcache.Cache(str(database(store).parent), disk=diskcache.Disk) as plain:
        plain.get(key_of(1))
    assert canary.exists()


def test_a_row_that_is_no_key_makes_the_index_anew(store):
    put_value(store, 1)
    for key in ("../../x", "shard", "a/%2e", 5, None, b"shard/1"):
        tamper(store, "UPDATE Cache SET key = ?", key)
        assert store.keys() == (key_of(1),)


@pytest.mark.parametrize("form", ["../../{}", "{}"])
def test_a_row_removes_no_file_elsewhere(store, tmp_path, form):
    outside = tmp_path / "outside.val"
    outside.write_bytes(b"secret")
    put_value(store, 1)
    name = form.format(outside if form == "{}" else "outside.val")
    tamper(store, "UPDATE Cache SET filename = ?", name)
    the_file(store).unlink()
    put_value(store, 1)  # over the old row
    assert is_right(store, 1) and store.keys() == (key_of(1),)
    assert outside.read_bytes() == b"secret"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("disk__directory", "elsewhere"),
        ("sqlite_writable_schema", 1),
        ("set", 5),
        ("close", 5),
        ("_directory", "elsewhere"),
        ("eviction_policy", "least-recently-stored"),
        ("cull_limit", 9),
        ("size_limit", 1),
        ("count", "many"),
    ],
)
def test_foreign_settings_change_nothing(store, name, value, monkeypatch):
    put_value(store, 1)
    tamper(store, "INSERT OR REPLACE INTO Settings VALUES (?, ?)", name, value)
    start = time.time()
    monkeypatch.setattr(time, "time", lambda: start + 1e9)  # and no key ever expires
    put_value(store, 2)
    assert store.keys() == tuple(sorted((key_of(1), key_of(2))))


def test_the_index_is_synchronous_not_mapped_and_closed_to_others(store):
    put_value(store, 1)
    database(store).chmod(0o644)
    for pragma, value in (("synchronous", 2), ("mmap_size", 0)):
        settings = store._use_index(lambda index, of=pragma: index._sql(f"PRAGMA {of}").fetchall())
        assert settings == [(value,)]
    assert stat.S_IMODE(database(store).stat().st_mode) == 0o600


def test_a_full_disk_is_told_and_leaves_nothing_behind(store, monkeypatch):
    def fails(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store.put_record("audit/1", "old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(StoreError, match=r"The disk is full\. Free some space"):
            store.put_record("audit/1", "new")
    assert store.get_record("audit/1") == "old"
    assert not [*store.directory.rglob("*.part")]


def test_a_store_of_another_version_is_refused(store):
    (store.directory / "cache.db").write_bytes(b"an index in another place")
    with pytest.raises(AuditError, match="written by another version"):
        Store(store.directory)


def mutate(directory: Path, rng: random.Random) -> None:
    """Flip, cut, blank or lengthen a few places in one to three of the files."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)
    databases = [path for path in files if path.name.startswith("cache.db")]
    targets = databases if rng.random() < 0.5 else files
    for path in rng.sample(targets, k=min(len(targets), rng.randint(1, 3))):
        data = bytearray(path.read_bytes())
        kind = rng.choice(("flip", "flip", "flip", "cut", "blank", "longer"))
        if kind == "flip":
            for _ in range(rng.choice((1, 10, 200))):
                data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        elif kind == "cut":
            del data[rng.randrange(len(data)) :]
        elif kind == "blank":
            start = rng.randrange(len(data))
            data[start : start + 4096] = bytes(len(data[start : start + 4096]))
        else:
            data += rng.randbytes(100)
        path.write_bytes(data)


@pytest.mark.long
def test_mutated_stores_serve_no_wrong_value(tmp_path, quick_disk):
    n_values, n_stores = 8, many(60)
    template = Store(tmp_path / "template")
    for n in range(n_values):
        put_value(template, n)
    served = []
    for trial in range(n_stores):
        directory = tmp_path / f"trial{trial}"
        shutil.copytree(template.directory, directory)
        mutate(directory, random.Random(trial))
        store = Store(directory)
        served += [is_right(store, n) for n in range(n_values)]
        store.keys()
        for n in range(n_values):
            put_value(store, n)
        assert all(is_right(store, n) for n in range(n_values))
        shutil.rmtree(directory)
    assert served.count(False) == 0
    assert served.count(True) > 4 * n_stores  # most are whole and still served
    assert served.count(None) > n_stores / 6  # the damage was real


@pytest.mark.parametrize("is_lost", [True, False])
def test_an_index_is_made_again_from_the_values(store, is_lost):
    for n in range(5):
        put_value(store, n)
    old_contents = contents(store)
    for path in (store.directory / "index").glob("cache.db*"):
        path.unlink() if is_lost else path.write_bytes(b"not a database" * 500)
    assert all(is_right(store, n) for n in range(5))
    new_store = Store(store.directory)
    assert (
        new_store.keys() == store.keys() == tuple(sorted(old_contents))
        and contents(new_store) == old_contents
    )
    assert (new_store.n_rebuilt, store.n_rebuilt) == (1, 0)
    put_value(new_store, 5)
    put_value(store, 6)
    assert is_right(new_store, 6) and len(store.keys()) == 7


def test_an_index_that_is_busy_or_a_fault_of_ours_is_no_damage(store, monkeypatch):
    put_value(store, 1)
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorname = "SQLITE_BUSY"
    for fault in (busy, ValueError("ours")):

        def fails(index: Any, fault: Exception = fault) -> Any:
            raise fault

        with monkeypatch.context() as patch:
            patch.setattr(diskcache.Cache, "iterkeys", fails)
            with pytest.raises(StoreError if fault is busy else ValueError):
                store.keys()
    assert store.keys() == (key_of(1),) and store.n_rebuilt == 0
