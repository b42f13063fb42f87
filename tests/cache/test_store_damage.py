"""A store whose files were damaged serves no wrong value, and makes its index again."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from cache.disk import BytesDisk, value_files
from cache.payload import seal
from cache.store import Health, Store, StoreError
from tests.cache.make_store import contents, quick_disk, store, the_file
from tests.cache.make_values import is_right, key_of, put
from tests.repository import many

__all__ = ["quick_disk", "store"]


def test_a_damaged_value_is_moved_aside_counted_and_made_again(store: Store) -> None:
    put(store, 1)
    path = the_file(store)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert is_right(store, 1) is None
    assert store.n_corrupt == 1
    assert store.keys() == ()
    assert [p.read_bytes() for p in (store.directory / "quarantine").iterdir()] == [bytes(data)]
    put(store, 1)
    assert is_right(store, 1)
    assert store.n_corrupt == 1


def test_values_that_changed_places_are_not_served(store: Store) -> None:
    put(store, 1)
    first = the_file(store)
    put(store, 2)
    (second,) = set(value_files(store.directory)) - {first}
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)
    assert [is_right(store, n) for n in (1, 2)] == [None, None]
    assert store.n_corrupt == 2


def test_a_value_with_a_right_seal_and_no_sense_is_moved_aside(store: Store) -> None:
    put(store, 1)
    the_file(store).write_bytes(seal(key_of(1), b"no archive"))
    assert store.get(key_of(1)) is None
    assert store.n_corrupt == 0  # the seal is whole; what it holds is not ours
    assert store.keys() == ()


def test_a_pickle_in_a_row_is_never_run(store: Store, tmp_path: Path) -> None:
    canary = tmp_path / "canary"

    class Canary:
        def __reduce__(self) -> Any:
            return (os.mkdir, (str(canary),))

    put(store, 1)
    put(store, 2)
    with contextlib.closing(sqlite3.connect(store.directory / "cache.db")) as connection:
        planted = pickle.dumps(Canary())
        connection.execute("UPDATE Cache SET mode = 4, filename = NULL, value = ?", (planted,))
        connection.execute("UPDATE Cache SET raw = 0, key = ? WHERE rowid = 2", (planted,))
        connection.commit()
    assert is_right(store, 1) is None
    store.keys()
    store.check()
    assert all(is_right(store, n) is not False for n in (1, 2))
    assert store.n_corrupt > 0
    assert not canary.exists()


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


def test_mutated_stores_serve_no_wrong_value(tmp_path: Path, quick_disk: None) -> None:
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
            store.check()
            for n in range(n_values):
                put(store, n)
            assert all(is_right(store, n) for n in range(n_values))
            n_corrupt += store.n_corrupt
        shutil.rmtree(directory)
    assert served.count(False) == 0
    assert served.count(True) > 4 * n_stores  # most are whole and still served
    assert served.count(None) > n_stores / 6  # the damage was real
    assert n_corrupt > n_stores / 2


def test_a_lost_index_is_made_again_from_the_values(store: Store) -> None:
    for n in range(5):
        put(store, n)
    before = contents(store)
    store.close()
    (store.directory / "cache.db").write_bytes(b"not a database" * 500)
    assert all(is_right(store, n) for n in range(5))
    assert store.n_corrupt == 1
    assert contents(store) == before
    assert len(value_files(store.directory)) == 5


def test_an_index_made_again_is_noticed_by_others(tmp_path: Path) -> None:
    with Store(tmp_path / "results") as one, Store(tmp_path / "results") as two:
        put(one, 1)
        two.close()
        for path in one.directory.glob("cache.db*"):
            path.write_bytes(b"not a database" * 500)
        assert is_right(two, 1)
        put(two, 2)
        assert is_right(one, 2)
        put(one, 3)
        assert all(is_right(two, n) for n in (1, 2, 3))


def test_a_check_lists_what_a_killed_writer_left(store: Store) -> None:
    put(store, 1)
    put(store, 2)
    put(store, 3)
    with contextlib.closing(sqlite3.connect(store.directory / "cache.db")) as connection:
        connection.execute("DELETE FROM Cache WHERE key = ?", (key_of(1),))
        connection.execute("DELETE FROM Cache WHERE key = ?", (key_of(2),))
        connection.commit()
    folder = value_files(store.directory)[0].parent
    (folder / ("0" * 30 + ".part")).write_bytes(b"cut off")
    put(store, 2)  # computed again: its first file is now a left-over
    assert is_right(store, 1) is None
    assert store.check() == Health(n_values=3, n_quarantined=0, n_adopted=1, n_removed=2)
    assert all(is_right(store, n) for n in (1, 2, 3))
    assert store.check() == Health(n_values=3, n_quarantined=0, n_adopted=0, n_removed=0)


def test_a_check_finds_damage_that_nobody_asked_for(store: Store) -> None:
    put(store, 1)
    put(store, 2)
    value_files(store.directory)[0].write_bytes(b"damaged")
    assert store.check() == Health(n_values=1, n_quarantined=1, n_adopted=0, n_removed=0)


def test_a_removed_index_is_made_again_from_the_values(store: Store) -> None:
    for n in range(5):
        put(store, n)
    before = contents(store)
    store.close()
    (store.directory / "cache.db").unlink()
    assert all(is_right(store, n) for n in range(5))
    assert contents(store) == before


def test_making_the_index_again_goes_on_where_it_was_cut_off(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        put(store, n)
    before = contents(store)
    store.close()
    (store.directory / "cache.db").write_bytes(b"not a database" * 500)
    real, n_left = BytesDisk.store, [2]

    def fails_later(self: BytesDisk, *arguments: Any, **how: Any) -> Any:
        n_left[0] -= 1
        if n_left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, *arguments, **how)

    with monkeypatch.context() as patch:
        patch.setattr(BytesDisk, "store", fails_later)
        with pytest.raises(StoreError, match="full"):
            store.keys()
    with Store(store.directory) as again:
        assert contents(again) == before
        assert again.n_corrupt == 0


def test_a_file_in_the_place_of_the_directory_is_said_in_words(store: Store) -> None:
    put(store, 1)
    store.close()
    shutil.rmtree(store.directory)
    store.directory.write_bytes(b"")
    with pytest.raises(StoreError, match="cannot be read or written"):
        store.get(key_of(1))
    store.directory.unlink()
