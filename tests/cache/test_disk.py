"""diskcache without pickle: what goes in, what is refused on the way out."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import diskcache
import pytest

from cache.disk import BytesDisk, RefusedRowError, check_index, open_index, value_files


class Canary:
    """Makes a directory when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.path),))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def index(directory: Path) -> Iterator[Any]:
    opened = open_index(directory)
    yield opened
    opened.close()


def tamper(directory: Path, statement: str, *values: Any) -> None:
    with contextlib.closing(sqlite3.connect(directory / "cache.db")) as connection:
        connection.execute(statement, values)
        connection.commit()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_text_keys_and_bytes_come_back(index: Any) -> None:
    index.set("a/1", b"\0value")
    assert index.get("a/1") == b"\0value"
    assert list(index.iterkeys()) == ["a/1"]
    assert index.get("a/2") is None


@pytest.mark.parametrize("key", [b"a", 1, 1.0, None, ("a",), Path("a")])
def test_keys_that_are_not_text_are_refused(index: Any, key: Any) -> None:
    with pytest.raises(TypeError):
        index.set(key, b"")


@pytest.mark.parametrize("value", ["text", 1, 1.0, None, bytearray(b"a"), {"a": 1}])
def test_values_that_are_not_bytes_are_refused(index: Any, value: Any) -> None:
    with pytest.raises(TypeError):
        index.set("a/1", value)


def test_a_pickle_in_a_value_is_never_run(index: Any, directory: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    index.set("a/1", b"value")
    statement = "UPDATE Cache SET mode = 4, filename = NULL, value = ?"
    tamper(directory, statement, pickle.dumps(Canary(canary)))
    with pytest.raises(RefusedRowError):
        index.get("a/1")
    assert not canary.exists()
    # The library as it comes does run it: the canary is alive.
    with diskcache.Cache(str(directory), disk=diskcache.Disk) as plain:
        plain.get("a/1")
    assert canary.exists()


def test_a_pickle_in_a_key_is_never_run(index: Any, directory: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    index.set("a/1", b"value")
    tamper(directory, "UPDATE Cache SET raw = 0, key = ?", pickle.dumps(Canary(canary)))
    with pytest.raises(RefusedRowError):
        list(index.iterkeys())
    assert not canary.exists()


@pytest.mark.parametrize(
    ("column", "value"),
    [("mode", 0), ("mode", 1), ("mode", 3), ("mode", "x"), ("value", b"x"), ("filename", None)],
)
def test_rows_of_another_form_are_refused(
    index: Any, directory: Path, column: str, value: Any
) -> None:
    index.set("a/1", b"value")
    tamper(directory, f"UPDATE Cache SET {column} = ?", value)
    with pytest.raises(RefusedRowError):
        index.get("a/1")


@pytest.mark.parametrize("form", ["../{}", "{}", "aa/../../{}", "ab/\0{}", "ab//{}"])
def test_a_row_reads_and_removes_no_file_elsewhere(
    index: Any, directory: Path, tmp_path: Path, form: str
) -> None:
    outside = tmp_path / "outside.val"
    outside.write_bytes(b"secret")
    index.set("a/1", b"value")
    name = form.format(outside if form == "{}" else "outside.val")
    tamper(directory, "UPDATE Cache SET filename = ?", name)
    with pytest.raises(RefusedRowError):
        index.get("a/1")
    index.set("a/1", b"new")  # removes the file of the old row
    assert index.get("a/1") == b"new"
    tamper(directory, "UPDATE Cache SET filename = ?", name)
    index.delete("a/1")
    assert outside.read_bytes() == b"secret"


def test_a_link_or_a_pipe_in_place_of_a_value_is_not_read(
    index: Any, directory: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    index.set("a/1", b"value")
    (path,) = value_files(directory)
    path.unlink()
    path.symlink_to(outside)
    assert index.get("a/1") is None
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RefusedRowError):
        index.get("a/1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("disk__directory", "elsewhere"),
        ("sqlite_writable_schema", 1),
        ("eviction_policy", "least-recently-stored"),
        ("size_limit", 1),
        ("get", 5),
        ("count", "many"),
    ],
)
def test_foreign_settings_are_refused(directory: Path, name: str, value: Any) -> None:
    open_index(directory).close()
    tamper(directory, "INSERT OR REPLACE INTO Settings VALUES (?, ?)", name, value)
    with pytest.raises(sqlite3.DatabaseError, match="settings"):
        open_index(directory)


def test_nothing_is_evicted_and_nothing_expires(
    index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.set("a/0", b"kept", expire=1)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 1e9)
    for n in range(1, 30):
        index.set(f"a/{n}", bytes(1000))
    assert len(index) == 30
    assert index.eviction_policy == "none"
    assert index.size_limit >= 2**50


def test_every_commit_is_on_the_disk_before_it_returns(index: Any) -> None:
    # 2 is FULL; asked of the connection itself.
    assert index._sql("PRAGMA synchronous").fetchall() == [(2,)]
    assert index._sql("PRAGMA mmap_size").fetchall() == [(0,)]
    index.close()  # the next connection, as every thread makes its own
    assert index._sql("PRAGMA synchronous").fetchall() == [(2,)]


def test_an_index_opens_again_where_opening_was_cut_off(index: Any, directory: Path) -> None:
    index.set("a/1", b"value")
    index.close()
    tamper(directory, "UPDATE Settings SET value = 1 WHERE key = 'sqlite_synchronous'")
    again = open_index(directory)
    assert again.get("a/1") == b"value"
    assert again._sql("PRAGMA synchronous").fetchall() == [(2,)]
    again.close()


def test_only_the_owner_can_open_the_files(directory: Path) -> None:
    before = os.umask(0)
    try:
        index = open_index(directory)
        index.set("a/1", b"value")
        modes = {path: mode(path) for path in directory.rglob("*")}
        index.close()
    finally:
        os.umask(before)
    names = {path.name for path in modes}
    assert {"cache.db", "cache.db-wal", "cache.db-shm"} <= names
    for path, found in modes.items():
        assert found == (0o700 if path.is_dir() else 0o600), path.name


def test_an_index_open_to_others_is_closed(directory: Path) -> None:
    open_index(directory).close()
    (directory / "cache.db").chmod(0o644)
    open_index(directory).close()
    assert mode(directory / "cache.db") == 0o600


@pytest.mark.parametrize("n_before", range(3))
def test_a_write_that_fails_leaves_nothing_behind(
    index: Any, directory: Path, monkeypatch: pytest.MonkeyPatch, n_before: int
) -> None:
    index.set("a/1", b"old")
    calls = []
    real = os.fsync

    def fails_later(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > n_before:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails_later)
        with pytest.raises(OSError, match="No space"):
            index.set("a/1", b"new")
    assert len(value_files(directory)) == 1
    assert index.get("a/1") == b"old"


def test_a_directory_with_a_variable_in_its_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELSEWHERE", "other")
    path = tmp_path / "$ELSEWHERE"
    path.mkdir()
    with pytest.raises(OSError, match="variable"):
        open_index(path)


def test_a_damaged_index_is_found(index: Any, directory: Path) -> None:
    for n in range(20):
        index.set(f"a/{n}", b"")
    check_index(directory)
    index.close()
    data = bytearray((directory / "cache.db").read_bytes())
    data[8192:] = bytes(len(data) - 8192)
    (directory / "cache.db").write_bytes(data)
    with pytest.raises(sqlite3.DatabaseError):
        check_index(directory)


def test_the_disk_itself_holds_no_pickle(directory: Path) -> None:
    disk = BytesDisk(str(directory))
    with pytest.raises(TypeError):
        disk.store(Canary(directory / "canary"), False)
    with pytest.raises(TypeError):
        disk.put(Canary(directory / "canary"))
