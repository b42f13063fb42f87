"""Results on disk: what was put is got, under its key, by its owner alone."""

from __future__ import annotations

import math
import os
import shutil
import stat

import pytest

from cache.store import Store, StoreError
from tests.cache.make_store import store, the_file, value_files
from tests.cache.make_values import is_right, key_of, put_value

__all__ = ["store"]


def test_records_are_json_with_nan_and_the_last_writer_wins(store):
    assert store.get("shard/0") is None and store.get_record("audit/1") is None
    assert store.keys() == ()
    store.put_record("audit/1", 1)
    store.put_record("audit/1", {"auc": math.nan, "names": ["山田", 1, None]})
    record = store.get_record("audit/1")
    assert math.isnan(record["auc"]) and record["names"] == ["山田", 1, None]
    assert len(value_files(store.directory)) == 1


def test_keys_are_listed_by_prefix_and_sorted(store):
    for key in ("shard/b", "audit/a", "shard/a", "shard/c/d"):
        store.put_record(key, 0)
    assert store.keys() == ("audit/a", "shard/a", "shard/b", "shard/c/d")
    assert store.keys("shard/") == ("shard/a", "shard/b", "shard/c/d")


def test_a_key_that_could_be_a_path_is_refused(store):
    for key in (
        "../x",
        "shard/../x",
        "/etc/passwd",
        "shard",
        "",
        "a/%2e",
        "shard/",
        "shard/a\n",
        "Shard/a",
        "a/" + "b" * 129,
    ):
        for wrong in (store.get, lambda key: store.put_record(key, 1)):
            with pytest.raises(ValueError, match="key"):
                wrong(key)


def test_only_the_owner_can_open_anything(tmp_path):
    (tmp_path / "results").mkdir(mode=0o755)
    old_umask = os.umask(0)
    try:
        with Store(tmp_path / "results") as store:
            put_value(store, 1)
            the_file(store).write_bytes(b"damaged")
            assert is_right(store, 1) is None
            put_value(store, 1)
            paths = [store.directory, *store.directory.rglob("*")]
            modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    finally:
        os.umask(old_umask)
    assert any(path.parent.name == "quarantine" for path in modes)
    for path, mode in modes.items():
        assert mode == (0o700 if path.is_dir() else 0o600), path.name


def test_a_file_in_the_place_of_the_directory_is_said_in_words(store):
    put_value(store, 1)
    shutil.rmtree(store.directory)
    store.directory.write_bytes(b"")
    for wrong in (lambda: store.get(key_of(1)), lambda: Store(store.directory / "results")):
        with pytest.raises(StoreError, match="cannot be read or written"):
            wrong()
