"""The folder of a corpus: written beside its place and put there whole, or not at all.

Comes in: bytes for each file. Goes out: a folder with mode 700. What a killed build leaves has
another name and is cleared by the next one; two builds of one folder cannot run at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from audit.errors import AuditError

_WHERE = "corpus folder"


class CorpusFile:
    """A file that is being written, and the SHA-256 of what is in it."""

    def __init__(self, path: Path) -> None:
        # "x": the folder was cleared, so nothing can be there, no link either.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file: BinaryIO = os.fdopen(descriptor, "wb", buffering=1 << 20)
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._file.write(data)
        self._digest.update(data)

    @property
    def digest(self) -> str:
        """SHA-256 of what was written so far."""
        return self._digest.hexdigest()

    def close(self, *, is_whole: bool) -> None:
        """Close, on the disk for good if the file is whole."""
        if is_whole:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()


@contextmanager
def corpus_folder(
    out: Path, *, names: Sequence[str], kept: str = ""
) -> Iterator[dict[str, CorpusFile]]:
    """Write the files of a new folder; it appears when the block ends well.

    Parameters
    ----------
    out
        Must not be there yet, or be empty.
    names
        Of the files.
    kept
        Of a file that the block itself writes in `building_folder`: it stays there when the block
        fails, is there again in the next one, and is removed when the folder is whole.

    Raises
    ------
    AuditError
        If the folder holds something, is being built by somebody else, or cannot be written.
    """
    building = building_folder(out)
    lock = -1
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        refuse_full(out)
        lock = locked_folder(building)
        clear_folder(building, but=kept)
        files = {name: CorpusFile(building / name) for name in names}
        try:
            yield files
        except BaseException:
            for file in files.values():
                file.close(is_whole=False)
            _give_up(building, kept=kept)
            raise
        for file in files.values():
            file.close(is_whole=True)
        os.fsync(lock)
        refuse_full(out)
        building.rename(out)
        if kept:
            (out / kept).unlink(missing_ok=True)
    except OSError as error:
        raise AuditError(
            f"The folder cannot be written ({os.strerror(error.errno or 0)}).",
            where=_WHERE,
        ) from None
    finally:
        if lock >= 0:
            os.close(lock)


def building_folder(out: Path) -> Path:
    """Return where the files of a folder are while it is being built."""
    return out.parent / f".{out.name}.building"


def _give_up(building: Path, *, kept: str) -> None:
    """Remove what a block has made, but for a file that holds what is worth keeping."""
    path = building / kept
    if kept and path.is_file() and path.stat().st_size:
        clear_folder(building, but=kept)
    else:
        shutil.rmtree(building, ignore_errors=True)


def refuse_full(out: Path, *, where: str = _WHERE) -> None:
    """Refuse a place where something is already.

    Raises
    ------
    AuditError
        If it is neither missing nor an empty folder.
    """
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise AuditError(
            "There is something already.", where=where, do="Choose a new or an empty folder."
        )


def locked_folder(building: Path, *, where: str = _WHERE) -> int:
    """Make a folder if it is not there, and return its lock; it is freed by closing it.

    Raises
    ------
    AuditError
        If somebody else holds it.
    """
    while True:
        building.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(building, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise AuditError("This folder is being written already.", where=where) from None
        # Between the two calls the other build may have ended and moved the folder away.
        if building.exists() and building.stat().st_ino == os.fstat(lock).st_ino:
            building.chmod(0o700)
            return lock
        os.close(lock)


def clear_folder(folder: Path, *, but: str = "") -> None:
    """Remove all that is in a folder, but for one name."""
    for path in folder.iterdir():
        if path.name == but:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
