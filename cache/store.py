"""Results by content key: what was computed once is kept, checked and never computed again.

The files of values are the truth, the database is an index of them. One lock file orders all who
come: readers share it, a writer has it alone. Whatever is damaged is moved aside and counted,
never served; a damaged index is made anew from the files.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from diskcache import Timeout
from numpy.typing import NDArray

from cache.disk import (
    DATABASE,
    DATABASE_FILES,
    PARTIAL_SUFFIX,
    RefusedRowError,
    check_index,
    open_index,
    value_files,
)
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

__all__ = ["JSON", "Health", "Store", "StoreError", "Stored", "content_key"]

T = TypeVar("T")
# What diskcache raises over a damaged database is of many kinds, since it trusts what it reads.
_DAMAGE = (sqlite3.Error, ValueError, TypeError, LookupError, AttributeError, AssertionError)
# These are troubles of the machine: the database may well be whole.
_MACHINE = ("FULL", "IOERR", "BUSY", "LOCKED", "READONLY", "CANTOPEN", "PERM", "NOMEM", "AUTH")
_UNLISTED = "unlisted"  # a file that is there as long as values may be missing in the index
_FULL = "The disk is full. Free some space and start again: everything finished so far is kept."
_RECORD = "record"


class StoreError(Exception):
    """The directory of results cannot be read or written; the text says why, in plain words."""


@dataclass(frozen=True)
class Health:
    """What a check found, in numbers of values.

    Whole and listed after it; damaged and moved aside, the index included; whole but listed only
    now (a writer was killed, or the index lost); left-overs of killed writers, removed.
    """

    n_values: int
    n_quarantined: int
    n_adopted: int
    n_removed: int


class Store:
    """Arrays and JSON by key in one directory, for any number of processes and threads.

    The directory is made with mode 700, or set to it; `n_corrupt` counts the damaged values and
    indexes that this object has moved into `quarantine/`. Every method raises `StoreError` where
    the directory cannot be read or written, and `ValueError` for what is no key.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory).resolve()
        self.n_corrupt = 0
        # One value, since any thread may close or open again while another uses it.
        self._opened: tuple[Any, int] = (None, -1)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.directory.stat().st_mode & 0o077:
                self.directory.chmod(0o700)
        except OSError as error:
            raise self._trouble(error) from error
        self._run(lambda index: None, shared=False)

    def put(
        self, key: str, *, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, JSON]
    ) -> None:
        """Keep arrays and JSON under a key; the last writer wins, equal content is not rewritten.

        Raises `TypeError` or `ValueError` where the content cannot be stored: `cache.payload`.
        """
        payload = seal(key, encode(arrays=arrays, meta=meta))

        def write(index: Any) -> None:
            try:
                found = _read(index, key)
            except CorruptValueError:
                found = None
            if found is None or found[1] != payload:
                index.set(key, payload)

        self._run(write, shared=False)

    def get(self, key: str) -> Stored | None:
        """Return what was put under a key, or None if it has to be computed (again)."""
        check_key(key)

        def read(index: Any) -> memoryview | None:
            found = _read(index, key)
            return None if found is None else _body(found[1], key)

        try:
            body = self._run(read, shared=True)
        except CorruptValueError:
            self._run(lambda index: self._keep_if_whole(index, key), shared=False)
            return None
        try:
            return None if body is None else decode(body)
        except CorruptValueError:  # the seal is right, and the content makes no sense
            self._run(lambda index: self._quarantine(index, key), shared=False)
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
        listed = self._run(lambda index: list(index.iterkeys()), shared=True)
        return tuple(sorted(key for key in listed if key.startswith(prefix)))

    def size_bytes(self) -> int:
        """Return the bytes that the directory's files hold, quarantine and index included."""
        total = 0
        for path in self.directory.rglob("*"):
            try:
                entry = path.lstat()
            except FileNotFoundError:
                continue  # a writer was quicker
            total += entry.st_size if stat.S_ISREG(entry.st_mode) else 0
        return total

    def check(self) -> Health:
        """Read every value, move the damaged ones aside, tidy up after killed writers."""
        n_before = self.n_corrupt

        def look_through(index: Any) -> tuple[int, int, int]:
            check_index(self.directory)
            return self._adopt(index)

        n_values, n_adopted, n_removed = self._run(look_through, shared=False)
        return Health(n_values, self.n_corrupt - n_before, n_adopted, n_removed)

    def close(self) -> None:
        """Close this thread's connection; the next call opens it again."""
        (index, _), self._opened = self._opened, (None, -1)
        if index is not None:
            index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, operation: Callable[[Any], T], *, shared: bool) -> T:
        # The second try is with an index made anew from the files.
        for is_last in (False, True):
            inode = -1
            try:
                inode = self._inode()
                with self._index(shared=shared) as index:
                    return operation(index)
            except CorruptValueError:
                raise
            except (OSError, Timeout) as error:
                raise self._trouble(error) from error
            except _DAMAGE as error:
                if is_last or _is_machine(error):
                    raise self._trouble(error) from error
            self._rebuild(damaged=inode)
        raise AssertionError("unreachable")

    @contextmanager
    def _index(self, *, shared: bool) -> Iterator[Any]:
        if shared:
            with self._locked(shared=True):
                if (index := self._current()) is not None:
                    yield index
                    return
        with self._locked(shared=False):
            yield self._current() or self._open()

    @contextmanager
    def _locked(self, *, shared: bool) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.directory / "lock", flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _current(self) -> Any:
        # None where it is closed, or another process has moved a damaged index aside.
        index, inode = self._opened
        return index if inode == self._inode() else None

    def _inode(self) -> int:
        try:
            return (self.directory / DATABASE).stat().st_ino
        except FileNotFoundError:
            return -1

    def _open(self) -> Any:
        # Whoever makes an index lists what is there first, or the next one does: he may be killed.
        self.close()
        unlisted = self.directory / _UNLISTED
        if self._inode() < 0:
            unlisted.touch(mode=0o600)
            self._set_aside(DATABASE_FILES)  # a log without its database
        index = open_index(self.directory)
        if unlisted.exists():
            self._adopt(index)
            unlisted.unlink()
        self._opened = index, self._inode()
        return index

    def _rebuild(self, *, damaged: int) -> None:
        try:
            with self._locked(shared=False):
                if self._inode() != damaged:
                    return  # another process or thread has done it
                self.n_corrupt += 1
                (self.directory / _UNLISTED).touch(mode=0o600)
                self._set_aside(DATABASE_FILES)
                self._open()
        except (OSError, Timeout, *_DAMAGE) as error:
            raise self._trouble(error) from error

    def _adopt(self, index: Any) -> tuple[int, int, int]:
        # Returns the numbers of values listed, listed anew, and removed.
        listed = {self._keep_if_whole(index, key) for key in list(index.iterkeys())}
        n_adopted = n_removed = 0
        for path in value_files(self.directory):
            if path in listed:
                continue
            if path.suffix == PARTIAL_SUFFIX:
                path.unlink()
                n_removed += 1
                continue
            try:
                payload = b"" if path.is_symlink() or not path.is_file() else path.read_bytes()
                key, _ = unseal(payload)
            except CorruptValueError:
                self.n_corrupt += 1
                self._move_aside(path)
                continue
            if key in index:
                n_removed += 1
            else:
                index.set(key, payload)
                n_adopted += 1
            path.unlink()
        return len(list(index.iterkeys())), n_adopted, n_removed

    def _quarantine(self, index: Any, key: str) -> None:
        path = self._keep_if_whole(index, key)
        if path is not None:
            self._move_aside(path)
            index.delete(key)

    def _keep_if_whole(self, index: Any, key: str) -> Path | None:
        # Returns the file of a whole value. Read again, since another writer may have been here.
        path = None
        try:
            found = _read(index, key)
            if found is not None:
                path, payload = found
                _body(payload, key)
                return path
        except CorruptValueError:
            self.n_corrupt += 1
            if path is not None:
                self._move_aside(path)
        index.delete(key)
        return None

    def _set_aside(self, names: Iterable[str]) -> None:
        for name in names:
            if os.path.lexists(self.directory / name):
                self._move_aside(self.directory / name)

    def _move_aside(self, path: Path) -> None:
        aside = self.directory / "quarantine"
        aside.mkdir(mode=0o700, exist_ok=True)
        path.rename(aside / f"{secrets.token_hex(8)}-{path.name}")

    def _trouble(self, error: BaseException) -> StoreError:
        is_full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        if is_full or getattr(error, "sqlite_errorname", None) == "SQLITE_FULL":
            return StoreError(f"{self.directory}: {_FULL}")
        reason = getattr(error, "strerror", None) or str(error) or "the index is locked"
        return StoreError(f"{self.directory}: the results cannot be read or written: {reason}.")


def _is_machine(error: BaseException) -> bool:
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.removeprefix("SQLITE_").startswith(_MACHINE)


def _read(index: Any, key: str) -> tuple[Path, bytes] | None:
    try:
        handle = index.get(key, read=True)
    except RefusedRowError as error:
        raise CorruptValueError("not a row of ours") from error
    if handle is None:
        return None
    with handle:
        return Path(handle.name), handle.read()


def _body(payload: bytes, key: str) -> memoryview:
    sealed_key, body = unseal(payload)
    if sealed_key != key:
        raise CorruptValueError("the value of another key")
    return body
