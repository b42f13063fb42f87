"""Results on disk: served right or not at all, whatever happened to the files."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import pickle
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cache.disk
from cache.disk import value_files
from cache.payload import seal
from cache.store import Store, StoreError
from cache.values import Health
from tests.cache.make_values import do_not_wait_for_the_disk, is_right, key_of, put

REPOSITORY = Path(__file__).resolve().parents[2]


def contents(store: Store) -> dict[str, bytes]:
    """Return the bytes of every value by its key, past the store's own reading."""
    with contextlib.closing(sqlite3.connect(store.directory / "cache.db")) as connection:
        rows = connection.execute("SELECT key, filename FROM Cache").fetchall()
    return {key: (store.directory / name).read_bytes() for key, name in rows}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "results") as opened:
        yield opened


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", os.fsync)  # all are put back when the test ends
    monkeypatch.setattr(cache.disk, "_SYNCHRONOUS_FULL", cache.disk._SYNCHRONOUS_FULL)
    monkeypatch.setattr(cache.disk, "_SETTINGS", dict(cache.disk._SETTINGS))
    do_not_wait_for_the_disk()


def the_file(store: Store) -> Path:
    (path,) = value_files(store.directory)
    return path


def test_what_was_put_is_got(store: Store) -> None:
    put(store, 3)
    assert is_right(store, 3)
    stored = store.get(key_of(3))
    assert stored is not None
    assert stored.arrays["ids"].dtype == np.int64
    assert math.isnan(stored.meta["error"])
    assert store.n_corrupt == 0


def test_what_was_not_put_is_none(store: Store) -> None:
    assert store.get("shard/0") is None
    assert store.get_record("audit/0") is None
    assert store.keys() == ()


def test_records_are_json_with_nan(store: Store) -> None:
    store.put_record("audit/1", {"auc": math.nan, "names": ["山田", 1, None]})
    record = store.get_record("audit/1")
    assert math.isnan(record["auc"])
    assert record["names"] == ["山田", 1, None]


def test_the_last_writer_wins(store: Store) -> None:
    store.put_record("audit/1", 1)
    store.put_record("audit/1", 2)
    assert store.get_record("audit/1") == 2
    assert len(value_files(store.directory)) == 1


def test_equal_content_is_not_written_again(store: Store) -> None:
    put(store, 1)
    before = the_file(store)
    put(store, 1)
    assert the_file(store) == before


def test_equal_content_gives_equal_bytes_in_two_stores(tmp_path: Path) -> None:
    with Store(tmp_path / "a") as one, Store(tmp_path / "b") as two:
        for n in range(5):
            put(one, n)
        for n in reversed(range(5)):
            put(two, n)
        assert contents(one) == contents(two)


def test_keys_are_listed_by_prefix_and_sorted(store: Store) -> None:
    for key in ("shard/b", "audit/a", "shard/a", "shard/c/d"):
        store.put_record(key, 0)
    assert store.keys() == ("audit/a", "shard/a", "shard/b", "shard/c/d")
    assert store.keys("shard/") == ("shard/a", "shard/b", "shard/c/d")
    assert store.keys("job/") == ()


@pytest.mark.parametrize("key", ["../x", "shard/../../x", "/etc/passwd", "shard", "", "a/%2e"])
def test_a_key_that_could_be_a_path_is_refused(store: Store, key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        store.get(key)
    with pytest.raises(ValueError, match="key"):
        store.put_record(key, 1)


def test_the_size_is_that_of_the_files(store: Store) -> None:
    empty = store.size_bytes()
    store.put("shard/1", arrays={"a": np.random.default_rng(0).random(50_000)}, meta={})
    assert 300_000 < store.size_bytes() - empty < 500_000


def test_only_the_owner_can_open_anything(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir(mode=0o755)
    before = os.umask(0)
    try:
        with Store(tmp_path / "results") as store:
            put(store, 1)
            the_file(store).write_bytes(b"damaged")
            assert is_right(store, 1) is None
            put(store, 1)
            paths = [store.directory, *store.directory.rglob("*")]
            modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    finally:
        os.umask(before)
    assert any(path.parent.name == "quarantine" for path in modes)
    for path, mode in modes.items():
        assert mode == (0o700 if path.is_dir() else 0o600), path.name


def test_a_hundred_megabytes_come_back(store: Store) -> None:
    large = np.arange(12_500_000)
    store.put("shard/large", arrays={"a": large}, meta={})
    stored = store.get("shard/large")
    assert stored is not None
    assert stored.arrays["a"].nbytes == 100_000_000
    assert np.array_equal(stored.arrays["a"], large)


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


def test_sixty_mutated_stores_serve_no_wrong_value(tmp_path: Path, quick_disk: None) -> None:
    n_values = 8
    with Store(tmp_path / "template") as template:
        for n in range(n_values):
            put(template, n)
        shutil.copytree(template.directory, tmp_path / "with_log")
    served = []
    n_corrupt = 0
    for trial in range(60):
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
    assert served.count(True) > 250  # most are whole and still served
    assert served.count(None) > 10  # the damage was real
    assert n_corrupt > 30


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


WRITER = """
import sys
from pathlib import Path
from tests.cache.make_values import do_not_wait_for_the_disk, put
from cache.store import Store
do_not_wait_for_the_disk()
with Store(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    for n in range(int(sys.argv[2])):
        put(store, n)
"""


def start_writer(directory: Path, *, n_values: int) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), str(n_values)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_writer_costs_nothing_but_the_value_in_flight(
    tmp_path: Path, quick_disk: None
) -> None:
    n_values = 30
    with Store(tmp_path / "clean") as clean:
        for n in range(n_values):
            put(clean, n)
        expected = contents(clean)
    rng = random.Random(20)
    n_found = []
    for trial in range(20):
        directory = tmp_path / f"trial{trial}"
        with start_writer(directory, n_values=n_values) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            with contextlib.suppress(subprocess.TimeoutExpired):
                writer.wait(timeout=rng.uniform(0.0, 0.08))
            writer.send_signal(signal.SIGKILL)
        with Store(directory) as store:
            found = [is_right(store, n) for n in range(n_values)]
            assert False not in found
            n_found.append(found.count(True))
            assert found == sorted(found, key=lambda right: right is None)  # no holes
            store.check()
            for n in range(n_values):
                put(store, n)
            assert contents(store) == expected
            assert len(value_files(directory)) == n_values
            assert store.n_corrupt == 0
        shutil.rmtree(directory)
    assert len(set(n_found)) > 3  # the kills came at different moments


def test_writers_of_the_same_keys_do_not_harm_each_other(tmp_path: Path, quick_disk: None) -> None:
    n_values = 30
    writers = [start_writer(tmp_path / "results", n_values=n_values) for _ in range(3)]
    wrong = []
    with Store(tmp_path / "results") as store:
        while any(writer.poll() is None for writer in writers):
            wrong += [n for n in range(n_values) if is_right(store, n) is False]
        for writer in writers:
            writer.communicate()
            assert writer.returncode == 0
        assert wrong == []
        assert all(is_right(store, n) for n in range(n_values))
        assert store.check() == Health(n_values, n_quarantined=0, n_adopted=0, n_removed=0)
        assert store.n_corrupt == 0


def test_threads_share_one_store(store: Store) -> None:
    results: list[bool | None] = []

    def work(start: int) -> None:
        for n in range(start, start + 6):
            put(store, n)
            results.append(is_right(store, n))

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 3, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 18
    assert len(store.keys()) == 12


def test_a_full_disk_is_said_in_plain_words(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, 1)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match=r"The disk is full\. Free some space"):
            put(store, 2)
    assert is_right(store, 1)
    assert is_right(store, 2) is None
    put(store, 2)
    assert is_right(store, 2)
    assert store.n_corrupt == 0


# The file-size limit makes real writes fail, in SQLite too, at a place that nobody chose.
LIMITED = """
import resource, sys
from pathlib import Path
from tests.cache.make_values import do_not_wait_for_the_disk, is_right, put
from cache.store import Store, StoreError
with Store(Path(sys.argv[1])) as store:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    n_put = 0
    try:
        for n in range(200):
            put(store, n if n % 10 != 3 else n + 1)
            n_put += 1
    except StoreError as error:
        print(type(error.__cause__).__name__)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert n_put < 200
    assert all(is_right(store, n) for n in range(n_put) if n % 10 != 3)
    put(store, 199)
    assert is_right(store, 199)
    assert store.n_corrupt == 0
"""


def test_an_index_that_cannot_grow_is_not_taken_for_damaged(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "results")],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("OperationalError", "Timeout")


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="cannot be read or written"):
        Store(tmp_path / "file" / "results")


def test_a_closed_store_opens_again(store: Store) -> None:
    put(store, 1)
    store.close()
    store.close()
    assert is_right(store, 1)


def test_naming_a_key_needs_no_database() -> None:
    program = "import sys; sys.modules['diskcache'] = None; from cache.store import content_key"
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
