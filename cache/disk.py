"""diskcache without pickle: an index of text keys, and values that are plain files of bytes.

As it comes, diskcache unpickles what it finds in its database (CVE-2025-69872; `JSONDisk` does
not cure it), follows any file name a row holds, drops values silently when it is full and leaves
directories open to others. Here every value is a file, written whole or not at all; the database
only says which file belongs to which key, and so can be lost and made again from the files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import sqlite3
import stat
from pathlib import Path
from typing import Any, BinaryIO

import diskcache
from diskcache.core import METADATA, MODE_BINARY, UNKNOWN

DATABASE = "cache.db"
DATABASE_FILES = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")
PARTIAL_SUFFIX = ".part"
_SYNCHRONOUS_FULL = 2
_VALUE_NAME = re.compile(r"[0-9a-f]{2}/[0-9a-f]{30}\.val")

# Every setting is given, so that none comes from the library's version or from the file.
_SETTINGS: dict[str, int | str] = {
    "statistics": 0,
    "tag_index": 0,
    "eviction_policy": "none",
    "size_limit": 2**60,
    "cull_limit": 0,  # nothing is ever dropped, whatever the clock says
    "sqlite_auto_vacuum": 1,
    "sqlite_cache_size": 2**13,
    "sqlite_journal_mode": "wal",
    "sqlite_mmap_size": 0,  # a file cut short under a map would kill the process
    "sqlite_synchronous": 1,  # while the settings themselves are written, one by one
    "disk_min_file_size": 0,
    "disk_pickle_protocol": 0,
}


class RefusedRowError(ValueError):
    """A row of the index that this program did not write."""


class BytesDisk(diskcache.Disk):  # type: ignore[misc]
    """Text keys, bytes values, one file per value; everything else is refused, both ways."""

    def put(self, key: Any) -> tuple[str, bool]:
        """Return the key as the database holds it; raises `TypeError` if it is not text."""
        if type(key) is not str:
            raise TypeError("keys are text")
        return key, True

    def get(self, key: Any, raw: Any) -> str:
        """Return a key out of the database; RefusedRowError if it would need pickle."""
        if raw != 1 or type(key) is not str:
            raise RefusedRowError("a key in the index is not text")
        return key

    def store(self, value: Any, read: bool, key: Any = UNKNOWN) -> tuple[int, int, str, None]:
        """Write the value's file; it has its name only when it is whole and on the disk."""
        if type(value) is not bytes or read:
            raise TypeError("values are bytes")
        digits = secrets.token_hex(16)
        name = f"{digits[:2]}/{digits[2:]}.val"
        _write_whole(Path(self._directory), name, value)
        return len(value), MODE_BINARY, name, None

    def fetch(self, mode: Any, filename: Any, value: Any, read: bool) -> bytes | BinaryIO:
        """Return the value's bytes, or with `read` its open file.

        RefusedRowError if the row would need pickle, or points to anything but a value's file.
        """
        if mode != MODE_BINARY or value is not None or not _is_value_name(filename):
            raise RefusedRowError("a row in the index does not point to a value's file")
        handle = _open_regular(Path(self._directory) / filename)
        if read:
            return handle
        with handle:
            return handle.read()

    def remove(self, file_path: Any) -> None:
        """Remove a value's file; a row that points elsewhere removes nothing."""
        if _is_value_name(file_path):
            super().remove(file_path)


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


def open_index(directory: Path) -> Any:
    """Open the index in a directory of mode 700, or make it, with mode 600.

    Raises `sqlite3.DatabaseError` if it is damaged or holds settings that this program did not
    write, `OSError` if it cannot be read or written, or its directory's name holds a variable,
    which diskcache would replace.
    """
    if os.path.expandvars(directory) != str(directory):
        raise OSError(f"{directory}: a directory's name with a variable in it cannot be used")
    private_database(directory / DATABASE)
    _refuse_foreign_settings(directory / DATABASE)
    index = diskcache.Cache(str(directory), timeout=60, disk=BytesDisk, **_SETTINGS)
    # From here on, what was said to be stored survives a power cut.
    index.reset("sqlite_synchronous", _SYNCHRONOUS_FULL)
    return index


def check_index(directory: Path) -> None:
    """Let SQLite look through the whole index; raises `sqlite3.DatabaseError` for damage."""
    with contextlib.closing(sqlite3.connect(directory / DATABASE, timeout=60)) as connection:
        found = connection.execute("PRAGMA integrity_check").fetchall()
    if found != [("ok",)]:
        raise sqlite3.DatabaseError("the index is damaged")


def value_files(directory: Path) -> list[Path]:
    """Return the files of all values, finished or cut off, sorted by name."""
    paths = directory.glob("[0-9a-f][0-9a-f]/*")
    return sorted(path for path in paths if path.is_symlink() or not path.is_dir())


def _is_value_name(name: Any) -> bool:
    return isinstance(name, str) and _VALUE_NAME.fullmatch(name) is not None


def _refuse_foreign_settings(database: Path) -> None:
    # diskcache sets every setting it finds as a PRAGMA or as an attribute of its own objects.
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if ("Settings",) not in tables.fetchall():
            return
        rows = connection.execute("SELECT key, value FROM Settings").fetchall()
    for key, value in rows:
        is_count = key in METADATA and isinstance(value, int)
        is_ours = key in _SETTINGS and _SETTINGS[key] == value
        if not (is_count or is_ours or (key, value) == ("sqlite_synchronous", _SYNCHRONOUS_FULL)):
            raise sqlite3.DatabaseError("the index holds settings that are not ours")


def _open_regular(path: Path) -> BinaryIO:
    handle = open(path, "rb", opener=_open_here)  # noqa: SIM115 (handed to the caller)
    if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
        handle.close()
        raise RefusedRowError("a value is not a plain file")
    return handle


def _open_here(path: str, flags: int) -> int:
    # Not through a link, and not waiting for the other end of a pipe.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _write_whole(directory: Path, name: str, value: bytes) -> None:
    path = directory / name
    path.parent.mkdir(mode=0o700, exist_ok=True)
    partial = path.with_suffix(PARTIAL_SUFFIX)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(partial, flags, 0o600), "wb") as handle:
            handle.write(value)
            handle.flush()
            os.fsync(handle.fileno())
        partial.rename(path)
        _sync_folder(path.parent)
        _sync_folder(directory)
    except BaseException:
        partial.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    # A file's name is on the disk only when its folder is.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
