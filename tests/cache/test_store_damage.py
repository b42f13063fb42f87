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

from cache.payload import seal
from cache.store import Store, StoreError
from tests.cache.make_store import contents, quick_disk, store, the_file, value_files
from tests.cache.make_values import is_right, key_of, put
from tests.models.editing import Canary
from tests.repository import many

__all__ = ["quick_disk", "store"]


def test_what_is_damaged_or_of_another_key_is_moved_aside_and_made_again(store):
    put(store, 1)
    first = the_file(store)
    put(store, 2)
    (second,) = set(value_files(store.directory)) - {first}
    whole, other = first.read_bytes(), second.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    aside = set()
    for n, data in enumerate((bytes(flipped), other, seal(key_of(1), b"no archive")), start=1):
        first.write_bytes(data)
        assert is_right(store, 1) is None
        assert store.n_corrupt == n and store.keys() == (key_of(2),)
        aside.add(data)
        assert {p.read_bytes() for p in (store.directory / "quarantine").iterdir()} == aside
        put(store, 1)
        assert is_right(store, 1) and first.read_bytes() == whole


def database(store: Store) -> Path:
    return store.directory / "index" / "cache.db"


def tamper(store: Store, statement: str, *values: Any) -> None:
    with contextlib.closing(sqlite3.connect(database(store))) as connection:
        connection.execute(statement, values)
        connection.commit()


@pytest.mark.parametrize("what", ["raw = 0, key", "mode = 4, value", "key"])
def test_a_pickle_in_a_row_is_never_run(store, tmp_path, what):
    canary = tmp_path / "canary"
    put(store, 1)
    put(store, 2)
    tamper(store, f"UPDATE Cache SET {what} = ? WHERE rowid = 2", pickle.dumps(Canary(canary)))
    assert store.keys() == tuple(sorted((key_of(1), key_of(2))))
    put(store, 3)
    assert all(is_right(store, n) for n in (1, 2, 3))
    assert store.n_corrupt == (what != "mode = 4, value")
    assert not canary.exists()
    if what == "mode = 4, value":  # the library as it comes does run it: the canary is alive
        tamper(store, "UPDATE Cache SET mode = 4, value = ?", pickle.dumps(Canary(canary)))
        with diskcache.Cache(str(database(store).parent), disk=diskcache.Disk) as plain:
            plain.get(key_of(1))
        assert canary.exists()


@pytest.mark.parametrize("key", ["../../x", "shard", "", "a/%2e", 5, None, b"shard/1"])
def test_a_row_that_is_no_key_makes_the_index_anew(store, key):
    put(store, 1)
    tamper(store, "UPDATE Cache SET key = ?", key)
    assert store.keys() == (key_of(1),)
    assert store.n_corrupt == 1


@pytest.mark.parametrize("form", ["../../{}", "{}", "aa/../../../{}", "ab/\0{}"])
def test_a_row_removes_no_file_elsewhere(store, tmp_path, form):
    outside = tmp_path / "outside.val"
    outside.write_bytes(b"secret")
    name = form.format(outside if form == "{}" else "outside.val")
    put(store, 1)
    tamper(store, "UPDATE Cache SET filename = ?", name)
    the_file(store).unlink()
    put(store, 1)  # over the old row
    assert is_right(store, 1) and store.keys() == (key_of(1),)
    assert outside.read_bytes() == b"secret"


def test_a_link_or_a_pipe_in_place_of_a_value_is_not_read(store, tmp_path):
    put(store, 1)
    path = the_file(store)
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    assert is_right(store, 1) is None
    path.unlink()
    os.mkfifo(path)
    assert is_right(store, 1) is None
    put(store, 1)
    assert is_right(store, 1) and path.is_file() and not path.is_symlink()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("disk__directory", "elsewhere"), ("sqlite_writable_schema", 1), ("get", 5),
        ("_directory", "elsewhere"), ("eviction_policy", "least-recently-stored"),
        ("size_limit", 1), ("count", "many"),
    ],
)  # fmt: skip
def test_foreign_settings_change_nothing(store, name, value):
    put(store, 1)
    tamper(store, "INSERT OR REPLACE INTO Settings VALUES (?, ?)", name, value)
    put(store, 2)
    assert store.keys() == tuple(sorted((key_of(1), key_of(2))))
    assert store.n_corrupt == (name not in ("eviction_policy", "size_limit", "count"))
    limits = store._indexed(lambda index: (index.eviction_policy, index.size_limit))
    assert limits == ("none", 2**60)


def test_no_key_is_evicted_and_none_expires(store, monkeypatch):
    put(store, 0)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 1e9)
    for n in range(1, 30):
        put(store, n)
    assert len(store.keys()) == 30


def test_the_index_is_synchronous_not_mapped_and_closed_to_others(store):
    for mode in (0o600, 0o644):
        put(store, 1)
        database(store).chmod(mode)
        assert store._indexed(lambda index: index._sql("PRAGMA synchronous").fetchall()) == [(2,)]
        assert store._indexed(lambda index: index._sql("PRAGMA mmap_size").fetchall()) == [(0,)]
        assert stat.S_IMODE(database(store).stat().st_mode) == 0o600


@pytest.mark.parametrize("n_before", range(2))
def test_a_write_that_fails_leaves_nothing_behind(store, monkeypatch, n_before):
    store.put_record("audit/1", "old")
    calls = []
    real = os.fsync

    def fails_later(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > n_before:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails_later)
        with pytest.raises(StoreError, match=r"The disk is full\. Free some space"):
            store.put_record("audit/1", "new")
    assert store.get_record("audit/1") == ("new" if n_before else "old")
    assert not [*store.directory.rglob("*.part")]
    store.put_record("audit/1", "new")
    assert store.get_record("audit/1") == "new" and store.n_corrupt == 0


def test_a_directory_with_a_variable_in_its_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ELSEWHERE", "other")
    with pytest.raises(StoreError, match="variable"):
        Store(tmp_path / "$ELSEWHERE").keys()


def test_values_of_the_old_layout_get_their_new_names(tmp_path):
    folder = tmp_path / "results" / "ab"
    folder.mkdir(parents=True)
    (folder.parent / "cache.db").write_bytes(b"an index that nobody needs")
    (folder.parent / "cache.db-wal").write_bytes(b"")
    with Store(tmp_path / "made") as made:
        for n, record in enumerate(("older", "newer")):
            made.put_record("demo/digests", record)
            path = folder / f"{n:030x}.val"
            the_file(made).rename(path)
            os.utime(path, (n, n))
        put(made, 1)
        the_file(made).rename(folder / f"{2:030x}.val")
    (folder / f"{3:030x}.val").write_bytes(b"damaged")
    (folder / f"{4:030x}.part").write_bytes(b"cut off")
    with Store(tmp_path / "results") as store:
        assert store.n_corrupt == 1
        assert store.keys() == ("demo/digests", key_of(1))
        assert store.get_record("demo/digests") == "newer" and is_right(store, 1)
        names = {path.name for path in store.directory.iterdir()}
    assert names == {"values", "index", "lock", "quarantine"}


def mutate(directory: Path, rng: random.Random) -> None:
    """Flip, cut, blank or lengthen a few places in one to three of the files."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)
    databases = [path for path in files if path.name.startswith("cache.db")]
    some = databases if rng.random() < 0.5 else files
    for path in rng.sample(some, k=min(len(some), rng.randint(1, 3))):
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


def test_mutated_stores_serve_no_wrong_value(tmp_path, quick_disk):
    n_values, n_stores = 8, many(60)
    with Store(tmp_path / "template") as template:
        for n in range(n_values):
            put(template, n)
        shutil.copytree(template.directory, tmp_path / "with_log")
    served = []
    n_corrupt = 0
    for trial in range(n_stores):
        directory = tmp_path / f"trial{trial}"
        shutil.copytree(tmp_path / ("with_log" if trial % 2 else "template"), directory)
        mutate(directory, random.Random(trial))
        with Store(directory) as store:
            served += [is_right(store, n) for n in range(n_values)]
            store.keys()
            for n in range(n_values):
                put(store, n)
            assert all(is_right(store, n) for n in range(n_values))
            n_corrupt += store.n_corrupt
        shutil.rmtree(directory)
    assert served.count(False) == 0
    assert served.count(True) > 4 * n_stores  # most are whole and still served
    assert served.count(None) > n_stores / 6  # the damage was real
    assert n_corrupt > n_stores / 2


@pytest.mark.parametrize("is_lost", [True, False])
def test_an_index_is_made_again_from_the_values(tmp_path, is_lost):
    with Store(tmp_path / "results") as one, Store(tmp_path / "results") as two:
        for n in range(5):
            put(one, n)
        before = contents(one)
        for path in (one.directory / "index").glob("cache.db*"):
            path.unlink() if is_lost else path.write_bytes(b"not a database" * 500)
        assert all(is_right(two, n) for n in range(5))
        assert two.keys() == one.keys() == tuple(sorted(before))
        assert two.n_corrupt == (not is_lost) and contents(two) == before
        put(two, 5)
        put(one, 6)
        assert all(is_right(one, n) and is_right(two, n) for n in range(7))
        assert len(one.keys()) == 7


def test_making_the_index_again_goes_on_where_it_was_cut_off(store, monkeypatch):
    for n in range(5):
        put(store, n)
    before = contents(store)
    database(store).write_bytes(b"not a database" * 500)
    real, n_left = diskcache.Cache.set, [2]

    def fails_later(index: Any, *arguments: Any, **how: Any) -> Any:
        n_left[0] -= 1
        if n_left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(index, *arguments, **how)

    with monkeypatch.context() as patch:
        patch.setattr(diskcache.Cache, "set", fails_later)
        with pytest.raises(StoreError, match="full"):
            store.keys()
    with Store(store.directory) as again:
        assert again.keys() == tuple(sorted(before)) and contents(again) == before
        assert again.n_corrupt == 0
