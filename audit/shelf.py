"""What the engine needs of a place where results are kept (`cache.store.Store` is one)."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from audit.errors import AuditError
from audit.home import results_dir


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


def write_private_files(files: Mapping[str, bytes], out: Path) -> tuple[Path, ...]:
    """Write files into a directory, each whole or not at all, for their owner alone.

    Raises
    ------
    AuditError
        If the directory cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, content in files.items():
            partial = out / f".{name}.part"
            partial.unlink(missing_ok=True)
            partial.touch(mode=0o600)  # private before there is anything in it
            partial.write_bytes(content)
            partial.replace(out / name)
    except OSError as error:
        raise AuditError(
            f"The results cannot be written ({error.strerror}).",
            where="out",
            do="Choose a directory that you may write to.",
        ) from None
    return tuple(out / name for name in files)


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


_CODE = re.compile("[0-9a-f]{12}")
FORGOTTEN = ".forgotten"
"""How the name of a folder ends whose removal was interrupted."""


def is_code(text: str) -> bool:
    """Whether a text is 12 hexadecimal digits, as the name of a kept folder is."""
    return _CODE.fullmatch(text) is not None


def coded_folders(parent: Path) -> Iterator[Path]:
    """Yield the folders whose name is a code; links are left out."""
    for folder in parent.iterdir():
        if is_code(folder.name) and folder.is_dir() and not folder.is_symlink():
            yield folder


def forget_folder(folder: Path, *, unknown: AuditError, refused: AuditError) -> None:
    """Remove a folder with all of its files; nobody sees half of it.

    Raises
    ------
    AuditError
        `unknown` where there is no such folder, `refused` where the disk does not let it go.
    """
    if not folder.is_dir():
        raise unknown
    doomed = folder.with_name(f".{folder.name}{FORGOTTEN}")
    try:
        shutil.rmtree(doomed, ignore_errors=True)
        folder.rename(doomed)
        shutil.rmtree(doomed)
    except OSError:
        raise refused from None


DEVICES = ("cpu", "cuda")
SHORT = "short"
"""The queue of work that takes minutes at most: it runs on the CPU beside what takes hours."""
QUEUES = (*DEVICES, SHORT)
_FIRST_GPU = Path("/dev/nvidia0")


@dataclass
class Lock:
    """A lock that this process holds, until it is released or every holder of the file is gone."""

    descriptor: int

    def release(self) -> None:
        """Let go of it here; a child that it was handed to goes on holding it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def jobs_dir(folder: str = "") -> Path:
    """Return the directory of the jobs or a folder in it, made with mode 700.

    Raises
    ------
    AuditError
        If the data directory cannot be used.
    """
    path = results_dir().parent / "jobs" / folder
    try:
        for directory in (path.parent, path) if folder else (path,):
            directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise unusable(error) from None
    return path


def queue_of(device: str) -> str:
    """Return the queue of a device: "auto" is the GPU where there is one."""
    return device if device in DEVICES else "cuda" if _FIRST_GPU.exists() else "cpu"


def device_lock(device: str) -> Lock | None:
    """Take the right to compute for a queue; None where another process has it."""
    return _taken(f"device-{device}.lock")


def worker_lock(device: str) -> Lock | None:
    """Take the right to be a queue's worker; None where another process has it."""
    return _taken(f"worker-{device}.lock")


def job_lock(job_id: str) -> Lock | None:
    """Take the lock of a job that a command runs itself; None where that command lives."""
    return _taken(f"job-{job_id}.lock")


def forget_job_lock(job_id: str) -> None:
    """Remove the lock file of a job that has ended; one that cannot be removed does no harm."""
    with suppress(OSError):
        (jobs_dir() / f"job-{job_id}.lock").unlink(missing_ok=True)


def unusable(error: Exception) -> AuditError:
    """Return what a person is told where the jobs' directory cannot be used."""
    return AuditError(
        f"The list of jobs cannot be read or written ({getattr(error, 'strerror', '') or error}).",
        do="See that the disk has room and that the data directory is writable, then try again.",
    )


def table_lock() -> Lock:
    """Wait for the right to make the table of jobs, and take it."""
    lock = _taken("table-jobs.lock", is_patient=True)
    assert lock is not None
    return lock


def _taken(name: str, *, is_patient: bool = False) -> Lock | None:
    if not re.fullmatch(r"[a-z]+-[a-z0-9]+\.lock", name):
        raise ValueError("no name of a lock")
    path = jobs_dir() / name
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unusable(error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        return None
    return Lock(descriptor)


class ResultStore(Protocol):
    """What the engine needs of `cache.store.Store`."""

    def get(self, key: str) -> Any:
        """Return what was put, or None."""

    def put(self, key: str, *, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Keep arrays and plain values."""

    def get_record(self, key: str) -> Any:
        """Return a plain value, or None."""

    def put_record(self, key: str, record: Any) -> None:
        """Keep a plain value."""
