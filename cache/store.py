"""Results by content key: each is computed once, stored, and checked when it is read.

Every value is a sealed file named by its key, and is written completely or not at all. The files
are authoritative, and reading one needs no lock. Beside them, diskcache holds an index of the keys,
which lists every file and is rebuilt from the files if it is lost or damaged. Writers and users of
the index take turns through one lock file. A damaged value is moved aside and counted, never
returned.

By default diskcache unpickles the contents of its database (CVE-2025-69872; `JSONDisk` does not
prevent it) and removes any file that a row names. Here a row is only a text key and a number.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import diskcache
import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError, make_version_error
from audit.home import check_change_allowed
from audit.shelf import JSON, Lock, sync_to_disk, take_lock, whole_file
from cache.payload import (
    CorruptValueError,
    Stored,
    check_key,
    content_key,
    decode,
    encode,
    seal,
    unseal,
)

__all__ = ["JSON", "Store", "StoreError", "Stored", "content_key", "private_database"]

T = TypeVar("T")
DATABASE = "cache.db"
_VALUES, _INDEX, _ENDING = "values", "index", ".val"
# diskcache raises many kinds of errors on a damaged database, since it trusts what it reads.
_DAMAGE = (sqlite3.Error, TypeError, LookupError, AttributeError)
# These are problems of the machine; the database may be intact.
_MACHINE = ("FULL", "IOERR", "BUSY", "LOCKED", "READONLY", "NOMEM")
_FULL = "The disk is full."
_FREE = "Free some space and start again: everything finished so far is kept."
_RECORD = "record"
_SYNCHRONOUS_FULL = 2
# Set at each opening, so that no important setting comes from the library's version or the file.
_SETTINGS: dict[str, int | str] = {
    "eviction_policy": "none",
    "cull_limit": 0,  # nothing is ever dropped, whatever the clock says
    "sqlite_mmap_size": 0,  # a mapped file that is truncated would kill the process
    "sqlite_synchronous": 1,  # while the settings themselves are written, one by one
}


class StoreError(AuditError):
    """The directory of results cannot be read or written; the text says why."""


class Store:
    """Arrays and JSON by key in one directory, for any number of processes and threads.

    The directory gets mode 700. `n_corrupt` counts the damaged values that this object has moved
    into `quarantine/`; `n_rebuilt` counts how often it rebuilt the index. Every method raises
    `StoreError` if the directory cannot be read or written, and `ValueError` for an invalid key. A
    directory of another version is refused.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory).resolve()
        self.n_corrupt = self.n_rebuilt = 0
        with self._explain_errors():
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.directory.stat().st_mode & 0o077:
                self.directory.chmod(0o700)
        if (self.directory / DATABASE).exists():
            raise make_version_error(where=str(self.directory))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: no file stays open between two calls."""

    def put(
        self, key: str, *, arrays: Mapping[str, NDArray[np.generic]], meta: Mapping[str, JSON]
    ) -> None:
        """Store arrays and JSON under a key. The last writer wins; equal content is not rewritten.

        Raises `TypeError` or `ValueError` if the content cannot be stored (see `cache.payload`).
        """
        check_change_allowed()
        path = self._path(key)
        payload = seal(key, encode(arrays=arrays, meta=meta))
        with self._explain_errors(), self._lock():
            if _read(path) != payload:
                if not path.exists():  # listed first: unlisted files are not found
                    self._use_index(lambda index: index.set(key, 1))
                _make_folder(path.parent)
                with whole_file(path) as file:
                    file.write(payload)

    def get(self, key: str) -> Stored | None:
        """Return the value under a key, or None if it must be computed (again)."""
        path = self._path(key)
        with self._explain_errors():
            payload = _read(path)
            if payload is None:
                return None
            try:
                sealed_key, body = unseal(payload)
                if sealed_key == key:
                    return decode(body)
                raise CorruptValueError("the value of another key")
            except CorruptValueError:
                with self._lock():
                    if _read(path) == payload:  # no other writer has been here
                        self._move_aside(path)
                return None

    def remove(self, *keys: str) -> None:
        """Remove values; keys without a value are ignored."""
        check_change_allowed()
        with self._explain_errors(), self._lock():
            for key in keys:
                self._path(key).unlink(missing_ok=True)
            self._use_index(partial(_delist, keys))

    def put_record(self, key: str, record: JSON) -> None:
        """Store one JSON value under a key; NaN is allowed."""
        self.put(key, arrays={}, meta={_RECORD: record})

    def get_record(self, key: str) -> Any:
        """Return the JSON value under a key, or None; tuples come back as lists."""
        stored = self.get(key)
        return None if stored is None else stored.meta.get(_RECORD)

    def keys(self, prefix: str = "") -> tuple[str, ...]:
        """Return the keys that begin with `prefix`, sorted, without checking their values."""
        with self._explain_errors(), self._lock():
            listed = self._use_index(lambda index: list(index.iterkeys()))
        return tuple(
            sorted(key for key in listed if key.startswith(prefix) and self._path(key).exists())
        )

    def _lock(self) -> Lock:
        lock = take_lock(self.directory / "lock", waits=True)
        assert lock is not None
        return lock

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Turn errors of the disk and the index into a StoreError in plain words."""
        try:
            yield
        except (OSError, diskcache.Timeout, *_DAMAGE) as error:
            is_full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
            if is_full or getattr(error, "sqlite_errorname", None) == "SQLITE_FULL":
                raise StoreError(_FULL, where=str(self.directory), do=_FREE) from error
            reason = getattr(error, "strerror", None) or str(error) or "the index is locked"
            raise StoreError(
                "the results cannot be read or written: {reason}.",
                where=str(self.directory),
                reason=reason,
            ) from error

    def _use_index(self, operation: Callable[[_Index], T]) -> T:
        """Use the index, rebuilt if it is missing or damaged; the caller holds the lock."""
        folder, values = self.directory / _INDEX, self.directory / _VALUES
        try:
            if (folder / DATABASE).exists():
                with closing(_Index(folder)) as index:
                    return operation(index)
        except _DAMAGE as error:
            name = getattr(error, "sqlite_errorname", None) or ""
            if name.removeprefix("SQLITE_").startswith(_MACHINE):
                raise
        self.n_rebuilt += values.exists()
        for leftover in self.directory.glob(f"{_INDEX}.making-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        # The new index gets a name of its own: a connection that an error left open deletes the log
        # that lies under its path at the time it is closed.
        new_folder = folder.with_suffix(f".making-{secrets.token_hex(4)}")
        new_folder.mkdir(mode=0o700)
        with closing(_Index(new_folder)) as index, index.transact():
            for path in sorted(values.rglob(f"*{_ENDING}")):
                index.set(path.relative_to(values).with_suffix("").as_posix(), 1)
        shutil.rmtree(folder, ignore_errors=True)
        new_folder.rename(folder)
        with closing(_Index(folder)) as index:
            return operation(index)

    def _path(self, key: str) -> Path:
        check_key(key)
        return self.directory / _VALUES / f"{key}{_ENDING}"

    def _move_aside(self, path: Path) -> None:
        self.n_corrupt += 1
        aside = self.directory / "quarantine"
        aside.mkdir(mode=0o700, exist_ok=True)
        path.rename(aside / f"{secrets.token_hex(8)}-{path.name}")


def _delist(keys: Iterable[str], index: _Index) -> None:
    with index.transact():  # one wait for the disk
        for key in keys:
            index.delete(key)


class _Keys(diskcache.Disk):  # type: ignore[misc]
    """Stores only keys; nothing is unpickled, and no file is removed."""

    def get(self, key: str, raw: bool) -> str:
        try:
            check_key(key)
        except (ValueError, TypeError):
            raise sqlite3.DatabaseError("a row of the index is no key") from None
        return str(key)

    def remove(self, file_path: str) -> None:
        pass


class _Index(diskcache.Cache):  # type: ignore[misc]
    """An index of mode 600, created if missing. Raises one of `_DAMAGE` if it is damaged."""

    def __init__(self, folder: Path) -> None:
        private_database(folder / DATABASE)
        try:
            super().__init__(str(folder), timeout=60, disk=_Keys, **_SETTINGS)
            # From here on, a listed key survives a power cut.
            self.reset("sqlite_synchronous", _SYNCHRONOUS_FULL)
        except BaseException as error:
            # A connection that stays open deletes the log under its path when it is closed later;
            # by then that log may belong to a new index.
            with suppress(AttributeError, sqlite3.Error):
                self.close()
            if isinstance(error, ValueError | AssertionError):  # it unpacks what it reads
                raise sqlite3.DatabaseError("the settings of the index cannot be read") from error
            raise


def private_database(path: Path) -> None:
    """Create an empty database if there is none, and set its mode to 600, without opening it.

    SQLite's locks belong to the process, not to the descriptor. Closing *any* descriptor of the
    file releases the locks of every connection of the process. Another process then sees no other
    user and deletes the log that these connections write. So only SQLite opens a database.
    """
    # SQLite gives its side files the mode of the database, so the mode is set before it is used.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)


def _read(path: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def _make_folder(path: Path) -> None:
    """Make a folder and its missing parents, and flush their names to the disk."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700)
        sync_to_disk(folder.parent)
