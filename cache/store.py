"""Results by content key: what was computed once is kept, checked and never computed again.

Every value is a file named by its key, sealed, and written whole or not at all: the files are the
truth, and a reader needs no lock. Beside them diskcache holds an index of the keys, which lists
every file and is made anew from the files where it is lost or damaged; writers and whoever asks it
take turns by one lock file. Whatever is damaged is moved aside and counted, never served.

As it comes, diskcache unpickles what it finds in its database (CVE-2025-69872; `JSONDisk` does not
cure it) and removes any file that a row names. Here a row is a text key and a number.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import diskcache
from diskcache.core import DEFAULT_SETTINGS, METADATA
from numpy.typing import NDArray

from audit.errors import AuditError
from audit.shelf import to_disk, whole_file
from cache.payload import (
    JSON,
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
_OLD_FOLDERS = "[0-9a-f][0-9a-f]"
"""Until version 1.0 values had random names, in folders beside the index."""
# What diskcache raises over a damaged database is of many kinds, since it trusts what it reads.
_DAMAGE = (sqlite3.Error, ValueError, TypeError, LookupError, AttributeError, AssertionError)
# These are troubles of the machine: the database may well be whole.
_MACHINE = ("FULL", "IOERR", "BUSY", "LOCKED", "READONLY", "CANTOPEN", "PERM", "NOMEM", "AUTH")
_FULL = "The disk is full."
_FREE = "Free some space and start again: everything finished so far is kept."
_RECORD = "record"
_SYNCHRONOUS_FULL = 2
# Given anew each time, so that none that matters comes from the library's version or the file.
_SETTINGS: dict[str, int | str] = {
    "statistics": 0,
    "tag_index": 0,
    "eviction_policy": "none",
    "size_limit": 2**60,
    "cull_limit": 0,  # nothing is ever dropped, whatever the clock says
    "sqlite_mmap_size": 0,  # a file cut short under a map would kill the process
    "sqlite_synchronous": 1,  # while the settings themselves are written, one by one
}


class StoreError(AuditError):
    """The directory of results cannot be read or written; the text says why, in plain words."""


class Store:
    """Arrays and JSON by key in one directory, for any number of processes and threads.

    The directory is made with mode 700, or set to it; `n_corrupt` counts the damaged values and
    indexes that this object has moved into `quarantine/`. Every method raises `StoreError` where
    the directory cannot be read or written, and `ValueError` for what is no key.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory).resolve()
        self.n_corrupt = 0
        with self._told():
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.directory.stat().st_mode & 0o077:
                self.directory.chmod(0o700)
            if (self.directory / DATABASE).exists():
                with self._locked():
                    self._move_old()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open between two calls."""

    def put(
        self, key: str, *, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, JSON]
    ) -> None:
        """Keep arrays and JSON under a key; the last writer wins, equal content is not rewritten.

        Raises `TypeError` or `ValueError` where the content cannot be stored: `cache.payload`.
        """
        payload = seal(key, encode(arrays=arrays, meta=meta))
        path = self._path(key)
        with self._told(), self._locked():
            if _read(path) != payload:
                if not path.exists():  # listed first: a file that is not listed is never seen
                    self._indexed(lambda index: index.set(key, 1))
                _make_folder(path.parent)
                with whole_file(path) as file:
                    file.write(payload)

    def get(self, key: str) -> Stored | None:
        """Return what was put under a key, or None if it has to be computed (again)."""
        path = self._path(key)
        with self._told():
            payload = _read(path)
            try:
                return None if payload is None else _opened(payload, key)
            except CorruptValueError:
                with self._locked():
                    if _read(path) == payload:  # no other writer has been here
                        self._move_aside(path)
                return None

    def put_record(self, key: str, record: JSON) -> None:
        """Keep one JSON value under a key; NaN is allowed."""
        self.put(key, arrays={}, meta={_RECORD: record})

    def get_record(self, key: str) -> Any:
        """Return the JSON value under a key, or None; tuples come back as lists."""
        stored = self.get(key)
        return None if stored is None else stored.meta.get(_RECORD)

    def keys(self, prefix: str = "") -> tuple[str, ...]:
        """Return the keys that begin with `prefix`, sorted; their values are not checked."""
        with self._told(), self._locked():
            listed = self._indexed(lambda index: _keys(index, prefix))
        return tuple(sorted(key for key in listed if self._path(key).exists()))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.directory / "lock", flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in plain words what the machine could not do."""
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

    def _indexed(self, operation: Callable[[Any], T]) -> T:
        """Ask the index, made anew where it is missing or damaged; the caller holds the lock."""
        folder = self.directory / _INDEX
        for is_last in (False, True):
            try:
                if not (folder / DATABASE).exists():
                    self._make_index()
                with closing(_open_index(folder)) as index:
                    return operation(index)
            except _DAMAGE as error:
                name = getattr(error, "sqlite_errorname", None) or ""
                if is_last or name.removeprefix("SQLITE_").startswith(_MACHINE):
                    raise
                self._move_aside(folder)
        raise AssertionError("unreachable")

    def _make_index(self) -> None:
        folder, values = self.directory / _INDEX, self.directory / _VALUES
        making = folder.with_suffix(".making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(mode=0o700)
        with closing(_open_index(making)) as index, index.transact():
            for path in sorted(values.rglob(f"*{_ENDING}")):
                index.set(path.relative_to(values).with_suffix("").as_posix(), 1)
        shutil.rmtree(folder, ignore_errors=True)
        making.rename(folder)

    def _move_old(self) -> None:
        """Give values of the old layout their new names; the newest of a key is the last."""
        paths = self.directory.glob(f"{_OLD_FOLDERS}/*{_ENDING}")
        for path in sorted(paths, key=lambda path: path.stat().st_mtime_ns):
            try:
                new = self._path(unseal(path.read_bytes())[0])
            except ValueError:
                self._move_aside(path)
                continue
            _make_folder(new.parent)
            path.rename(new)
        for folder in (*self.directory.glob(_OLD_FOLDERS), self.directory / _INDEX):
            shutil.rmtree(folder, ignore_errors=True)
        for file in sorted(self.directory.glob(f"{DATABASE}*"), reverse=True):
            file.unlink()  # what says that this is an old store is the last

    def _path(self, key: str) -> Path:
        check_key(key)
        return self.directory / _VALUES / f"{key}{_ENDING}"

    def _move_aside(self, path: Path) -> None:
        self.n_corrupt += 1
        aside = self.directory / "quarantine"
        aside.mkdir(mode=0o700, exist_ok=True)
        path.rename(aside / f"{secrets.token_hex(8)}-{path.name}")


class _Keys(diskcache.Disk):  # type: ignore[misc]
    """Text keys alone; nothing is ever unpickled, and no file is removed."""

    def get(self, key: Any, raw: Any) -> str:
        if raw != 1 or type(key) is not str:
            raise ValueError("a key in the index is not text")
        return key

    def remove(self, file_path: Any) -> None:
        pass


def _keys(index: Any, prefix: str) -> list[str]:
    keys = [key for key in index.iterkeys() if key.startswith(prefix)]
    for key in keys:
        check_key(key)
    return keys


def _open_index(folder: Path) -> Any:
    """Open an index of mode 600, or make it; raises one of `_DAMAGE` if it is damaged."""
    if os.path.expandvars(folder) != str(folder):  # diskcache would replace it
        raise OSError(f"{folder}: a directory's name with a variable in it cannot be used")
    private_database(folder / DATABASE)
    # diskcache sets every setting it finds as a PRAGMA or as an attribute of its own objects.
    with closing(sqlite3.connect(folder / DATABASE, timeout=60)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if ("Settings",) in tables.fetchall():
            found = {name for (name,) in connection.execute("SELECT key FROM Settings")}
            if not found <= DEFAULT_SETTINGS.keys() | METADATA.keys():
                raise sqlite3.DatabaseError("the index holds settings that are not ours")
    index = diskcache.Cache(str(folder), timeout=60, disk=_Keys, **_SETTINGS)
    # From here on, what was said to be listed survives a power cut.
    index.reset("sqlite_synchronous", _SYNCHRONOUS_FULL)
    return index


def private_database(path: Path) -> None:
    """Make an empty database with mode 600 if none is there; one that is there is not opened.

    SQLite's locks belong to the process, not to the descriptor: whoever closes *any* descriptor
    of the file takes them from every connection of the process, and another process then believes
    itself alone and deletes the log that they write. So nobody but SQLite opens a database.
    """
    # SQLite gives its side files the mode of the database, so the mode is set before it is used.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "the database is not a plain file") from None
        if stat.S_IMODE(mode) != 0o600:
            path.chmod(0o600)


def _read(path: Path) -> bytes | None:
    """Return a value's bytes; None where there is no plain file."""
    try:
        # Not through a link, and not waiting for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise
    file: BinaryIO
    with os.fdopen(descriptor, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _opened(payload: bytes, key: str) -> Stored:
    sealed_key, body = unseal(payload)
    if sealed_key != key:
        raise CorruptValueError("the value of another key")
    return decode(body)


def _make_folder(path: Path) -> None:
    """Make a folder, with those above it, whose names are on the disk for good."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700)
        to_disk(folder.parent)
