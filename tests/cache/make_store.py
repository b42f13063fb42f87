"""A store for one test, what its files hold, and a disk that nobody waits for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import cache.store
from cache.payload import unseal
from cache.store import Store
from tests.cache.make_values import do_not_wait_for_the_disk


def value_files(directory: Path) -> list[Path]:
    """Return the files of a store's values, sorted by name."""
    return sorted((directory.resolve() / "values").rglob("*.val"))


def contents(store: Store) -> dict[str, bytes]:
    """Return the bytes of every value by its key, past the store's own reading."""
    payloads = [path.read_bytes() for path in value_files(store.directory)]
    return {unseal(payload)[0]: payload for payload in payloads}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "results") as opened:
        yield opened


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", os.fsync)  # all are put back when the test ends
    monkeypatch.setattr(cache.store, "_SYNCHRONOUS_FULL", cache.store._SYNCHRONOUS_FULL)
    monkeypatch.setattr(cache.store, "_SETTINGS", dict(cache.store._SETTINGS))
    do_not_wait_for_the_disk()


def the_file(store: Store) -> Path:
    (path,) = value_files(store.directory)
    return path
