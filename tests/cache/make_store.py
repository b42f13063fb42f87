"""A store for one test, what its files hold, and a disk that nobody waits for."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import cache.disk
from cache.disk import value_files
from cache.store import Store
from tests.cache.make_values import do_not_wait_for_the_disk


def contents(store: Store) -> dict[str, bytes]:
    """Return the bytes of every value by its key, past the store's own reading."""
    with contextlib.closing(sqlite3.connect(store.directory / "cache.db")) as connection:
        rows = connection.execute("SELECT key, filename FROM Cache").fetchall()
    return {key: (store.directory / name).read_bytes() for key, name in rows}


def own_locks(path: Path) -> list[list[str]]:
    """Return this process's POSIX locks on a file, as the system lists them."""
    found = path.stat()
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sorted(
        line[1:] for line in lines if line[1] == "POSIX" and line[4:6] == [str(os.getpid()), file]
    )


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
