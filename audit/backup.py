"""Backup and restore: the data directory as one file, taken while the app runs.

The file is a tar; its last member is a manifest with the SHA-256 of every other file. Kept files
are replaced as a whole and never written into, so each copy is one consistent state. The order of
files does the rest: jobs before their results, a report before its parts, and the access log last,
so that everything copied has its line. Locks, logs of jobs, the index of the results (which is made
again from them), measured durations of work, and things that are being made are left out.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sqlite3
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from audit import shelf
from audit.access_log import log_files, record
from audit.errors import AuditError, make_version_error
from audit.foreign import refuse_errors
from audit.home import data_home
from audit.jobs.locks import QUEUES, device_lock
from audit.jobs.table import lock_table

MANIFEST = "MANIFEST.json"
_FORMAT = 1
_FIRST = ("demo", "audit", "list-line", "passages-line")
"""Kinds of results that refer to others, which are copied later."""
_PASSING = (shelf.MAKING, shelf.FORGOTTEN, ".part", "lock")
_CHUNK_BYTES = 1 << 20
_DAMAGED = AuditError(
    "This is no backup, or it is damaged: nothing was changed.",
    where="backup",
    do="Take another one.",
)


@contextmanager
def upkeep(*, waits: bool = True) -> Iterator[bool]:
    """Keep backups and purges apart; gives False if another one runs and this one does not wait.

    Raises `OSError`.
    """
    lock = shelf.take_lock(data_home() / "upkeep.lock", waits=waits)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            lock.release()


class _Archive:
    """The tar that is being written, with the digest and the time of each file in it."""

    def __init__(self, file: BinaryIO, home: Path) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._home = home
        self.files: dict[str, tuple[str, int]] = {}

    def add(self, path: Path) -> None:
        """Add a file or a folder; a folder that is removed meanwhile is left out entirely."""
        name = path.relative_to(self._home).as_posix()
        if path.is_symlink() or path.name.endswith(_PASSING) or _is_at_work(path):
            return
        with suppress(FileNotFoundError):
            if path.is_dir():
                for child in sorted(path.iterdir()):
                    self.add(child)
            else:
                with path.open("rb") as file:
                    state = os.fstat(file.fileno())
                    self.add_bytes(name, file, state.st_size, moment=state.st_mtime_ns)
        if not path.exists():
            missing_names = [
                file_name for file_name in self.files if file_name.startswith(f"{name}/")
            ]
            self.files = {
                file_name: self.files[file_name] for file_name in self.files.keys() - missing_names
            }

    def add_bytes(self, name: str, file: IO[bytes], n_bytes: int, *, moment: int = 0) -> None:
        """Add `n_bytes` of an open file."""
        digest = hashlib.sha256()
        self._tar.addfile(_member(name, n_bytes), _Hashed(file, digest))
        self.files[name] = (digest.hexdigest(), moment or time.time_ns())

    def close(self) -> None:
        """Write the manifest after all other files."""
        manifest = json.dumps({"format": _FORMAT, "files": self.files}).encode()
        self._tar.addfile(_member(MANIFEST, len(manifest)), io.BytesIO(manifest))
        self._tar.close()


class _Hashed:
    """A file that updates a digest with the bytes that are read."""

    def __init__(self, file: IO[bytes], digest: hashlib._Hash) -> None:
        self._file, self._digest = file, digest

    def read(self, n_bytes: int = -1, /) -> bytes:
        data: bytes = self._file.read(n_bytes)
        self._digest.update(data)
        return data


def _member(name: str, n_bytes: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = n_bytes, 0o600
    return member


def back_up(out: Path) -> int:
    """Write the data directory into a new file of mode 600; return the number of files in it.

    The file holds the keys of this installation, and all kept names and notes.
    """
    home = data_home()
    if out.exists() or home in out.resolve().parents:
        raise AuditError(
            "There is something already, or it lies in the data directory.",
            where="backup",
            do="Choose a new file elsewhere.",
        )
    try:
        with upkeep():
            record("backed_up")
            with shelf.whole_file(out) as file:
                archive = _Archive(file, home)
                _add_all(archive, home)
                archive.close()
    except OSError as error:
        raise shelf.make_write_error(error, place="backup") from None
    return len(archive.files)


def _add_all(archive: _Archive, home: Path) -> None:
    with lock_table() as path, closing(sqlite3.connect(":memory:")) as copy:
        with closing(sqlite3.connect(path)) as jobs:
            jobs.backup(copy)
        data = copy.serialize()
        archive.add_bytes(f"jobs/{path.name}", io.BytesIO(data), len(data))
        archive.add(path.with_name("orders"))  # each with its job
    kinds = [*(home / "results").glob("values/*")]
    for kind in sorted(kinds, key=lambda kind: (kind.name not in _FIRST, kind)):
        archive.add(kind)
    for entry in sorted(home.iterdir()):
        if entry.name not in ("access", "jobs", "results"):
            archive.add(entry)
    for name, data in log_files().items():
        archive.add_bytes(f"access/{name}", io.BytesIO(data), len(data))


def _is_at_work(path: Path) -> bool:
    """Whether a path is a folder into which a training writes."""
    lock = shelf.take_lock(path, is_folder=True) if path.is_dir() else None
    if lock is not None:
        lock.release()
    return lock is None and path.is_dir()


def restore(file: Path, *, is_forced: bool = False) -> tuple[int, Path | None]:
    """Replace the data directory by a backup; return its number of files and the old one's place.

    Everything is first unpacked and checked beside the data directory; then the two are exchanged
    at once. Raises AuditError, with nothing changed, if the backup is damaged, if a job computes,
    or if the directory is not empty and `is_forced` is False.
    """
    home = data_home()
    is_full = any(home.iterdir())
    if is_full and not is_forced:
        raise AuditError(
            "The data directory has something in it.",
            where="restore",
            do="Give --force: what is there is moved aside, not removed.",
        )
    if os.path.ismount(home):
        raise AuditError(
            "The data directory is a mount point, so that it cannot be replaced.",
            where="restore",
            do="Restore into a new directory, and let KART_AUDIT_HOME name it.",
        )
    for queue in QUEUES if is_full else ():
        if (lock := device_lock(queue)) is None:
            raise AuditError(
                "A job computes in the data directory.",
                where="restore",
                do="Stop it, and the app; then restore.",
            )
        lock.release()
    old = None
    if is_full:
        old = home.with_name(
            f"{home.name}.before-{shelf.make_time_stamp()[:10]}-{shelf.new_identifier()}"
        )
    with shelf.whole_folder(home, place="restore", aside=old) as folder:
        n_files = _unpack(file, folder)
    record("restored", n_files=n_files)
    return n_files, old


def _unpack(file: Path, into: Path) -> int:
    """Unpack a backup and check every file; return the number of files."""
    digests: dict[str, str] = {}
    listed = None
    with refuse_errors(_DAMAGED), tarfile.open(file, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member) if _is_plain(member) else None
            if content is None or listed or member.name in digests:
                raise _DAMAGED
            if member.name == MANIFEST:
                listed = json.loads(content.read())
            else:
                digests[member.name] = _copy_with_digest(content, into / member.name)
        if listed and listed["format"] != _FORMAT:
            raise make_version_error(where="backup")
        files = listed["files"] if listed else {}
        if not files or any(digests.get(name) != digest for name, (digest, _) in files.items()):
            raise _DAMAGED
        for name in digests:
            if name in files:
                os.utime(into / name, ns=(files[name][1],) * 2)
            else:  # the original was removed while the backup was made
                (into / name).unlink()
    return len(files)


def _is_plain(member: tarfile.TarInfo) -> bool:
    """Whether a member is a regular file whose path stays inside the folder."""
    parts = PurePosixPath(member.name).parts
    is_inside = "/".join(parts) == member.name and not {"..", "/"} & set(parts)
    return member.type == tarfile.REGTYPE and not member.issparse() and is_inside


def _copy_with_digest(content: IO[bytes], path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with shelf.create_file(shelf.private_folder(path.parent) / path.name) as file:
            while chunk := content.read(_CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
    except OSError as error:
        raise shelf.make_write_error(error, place="restore") from None
    return digest.hexdigest()
