"""Files and folders of one's own: for their owner alone, whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from audit.errors import AuditError


def private_folder(path: Path) -> Path:
    """Make a folder with mode 700 if it is not there; one that exists stays as it is.

    Raises
    ------
    AuditError
        If it cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(error) from None
    return path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file with mode 600, whole or not at all, on the disk for good.

    Raises
    ------
    AuditError
        If it cannot be written.
    """
    partial = path.with_name(f".{path.name}.part")
    try:
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise unwritable(error) from None


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Give a folder to write into; it takes the place of `path` when the block ends well.

    Raises
    ------
    AuditError
        If it cannot be written.
    """
    partial = path.with_name(f".{path.name}.part")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700, parents=True)
        yield partial
        for file in partial.iterdir():
            file.chmod(0o600)
            _to_disk(file)
        _to_disk(partial)
        if path.exists():
            shutil.rmtree(path)
        partial.rename(path)
        _to_disk(path.parent)
    except OSError as error:
        raise unwritable(error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold a training's folder, made if it is not there, against any other process.

    Raises
    ------
    AuditError
        If it cannot be made, or another process holds it.
    """
    private_folder(out)
    try:
        descriptor = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise unwritable(error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise AuditError("This training runs already.", where="out") from None
    try:
        yield
    finally:
        os.close(descriptor)


def unwritable(error: OSError) -> AuditError:
    """Return the error for a place that cannot be written, without its path."""
    return AuditError(
        f"The folder cannot be written ({error.strerror}).",
        where="out",
        do="Make room on the disk, and let this account write there.",
    )


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
