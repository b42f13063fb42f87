"""What is kept: files that are private and whole or not there, locks, and shelves of things.

A kind of kept thing is a `Shelf`: a folder of the data directory with a folder for each thing,
named by 12 hexadecimal digits, that holds the thing's record and whatever files belong to it::

    CORPORA = Shelf("corpora", where="corpus", read=corpus_at)

    CORPORA.all()                       # newest first; what is damaged is left out
    CORPORA.get(identifier)             # AuditError where there is none, or it is damaged
    CORPORA.put(identifier, {"corpus.json": record.to_bytes()})  # files alone, the record last
    with CORPORA.making(identifier) as folder: ...  # or made in a locked folder beside its place
    CORPORA.forget(identifier)

`read` makes the kind's value of a folder, a dataclass or a `Record` with an identifier, a title and
`created`. Whatever it stumbles over (a file or a key that is missing) means that the thing is
damaged: it need not catch it.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

from audit.errors import AuditError
from audit.foreign import open_regular
from audit.home import changing, home_folder

T = TypeVar("T")
MAX_TITLE_CHARS = 80
MAKING, FORGOTTEN = ".making", ".forgotten"
"""How the names of folders end that are being made, and whose removal was interrupted."""
_CODE = re.compile("[0-9a-f]{12}")
_CHUNK_BYTES = 1 << 20


@dataclass
class Lock:
    """A lock that this process holds, until it is released or every holder of the file is gone."""

    descriptor: int

    def release(self) -> None:
        """Let go of it here; a child that it was handed to goes on holding it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def taken(path: Path, *, is_folder: bool = False, waits: bool = False) -> Lock | None:
    """Take the lock of a file or a folder, made if it is not there; None where somebody has it.

    A lock is a `flock`: it belongs to the open file, so that no other descriptor of it, opened and
    closed in this process, lets it fall. Raises `OSError`.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_RDWR | os.O_CREAT
    while True:
        if is_folder:
            path.mkdir(mode=0o700, exist_ok=True)
        lock = Lock(os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        try:
            fcntl.flock(lock.descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            # Between the two calls its last holder may have moved or removed it.
            if path.stat().st_ino == os.fstat(lock.descriptor).st_ino:
                return lock
        except BlockingIOError:
            lock.release()
            return None
        except FileNotFoundError:
            pass
        except OSError:
            lock.release()
            raise
        lock.release()


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold a training's folder, made if it is not there, against any other process."""
    private_folder(out)
    try:
        lock = taken(out.resolve(), is_folder=True)
    except OSError as error:
        raise unwritable(error) from None
    if lock is None:
        raise AuditError("This training runs already.", where="out")
    with lock:
        yield


def fingerprint(path: Path, *, on_bytes: Callable[[int], None] = lambda n: None) -> str:
    """Return the SHA-256 of a file in hexadecimal; raises as `open_regular`."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            on_bytes(len(chunk))
    return digest.hexdigest()


def new_file(path: Path) -> BinaryIO:
    """Open a new file for its owner alone, in the place of one that may be there."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=_CHUNK_BYTES)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Give a private file to write to; it is at `path`, on the disk for good, when all went well.

    Raises `OSError` as it comes.
    """
    partial = path.with_name(f".{path.name}.part")
    try:
        with new_file(partial) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        to_disk(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_whole(path: Path, data: bytes) -> None:
    """Write a private file, whole or not at all."""
    try:
        with whole_file(path) as file:
            file.write(data)
    except OSError as error:
        raise unwritable(error) from None


def write_private(files: Mapping[str, bytes], out: Path) -> tuple[Path, ...]:
    """Write private files into a folder, each whole or not at all; raises as `write_whole`."""
    private_folder(out)
    for name, data in files.items():
        write_whole(out / name, data)
    return tuple(out / name for name in files)


def private_folder(path: Path) -> Path:
    """Make a folder with mode 700 if it is not there; one that exists stays as it is."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(error) from None
    return path


@contextmanager
def whole_folder(
    out: Path,
    *,
    where: str = "out",
    stays: Collection[str] = (),
    replaces: bool = False,
    aside: Path | None = None,
) -> Iterator[Path]:
    """Give a locked folder to write into; it becomes `out` when the block ends well.

    Parameters
    ----------
    out
        Must not be there, or be an empty folder, unless `replaces`, which removes what is there,
        or there is a place `aside`, with which it changes places at once.
    where
        What an error calls the place.
    stays
        Names of files that outlast a block that fails, and are found again by the next one.
    """
    building = building_folder(out)
    try:
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (replaces or aside):
            _refuse_full(out, where=where)
        lock = taken(building, is_folder=True)
        if lock is None:
            raise AuditError("This folder is being written already.", where=where)
        with lock:
            clear_folder(building, but=stays)
            try:
                yield building
            except BaseException:
                files = [building / name for name in stays]
                is_worth = any(path.is_file() and path.stat().st_size for path in files)
                clear_folder(building, but=stays if is_worth else ())
                if not any(building.iterdir()):
                    building.rmdir()
                raise
            seal_folder(building)
            if aside:
                building.rename(aside)
                _exchange(aside, out)
            else:
                if not replaces:
                    _refuse_full(out, where=where)
                elif out.exists():
                    shutil.rmtree(out)
                building.rename(out)
            to_disk(out.parent)
    except OSError as error:
        raise unwritable(error, where=where) from None


def _exchange(one: Path, other: Path) -> None:
    """Let two folders change places at once; in three steps where the system cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    here, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if rename and rename(here, os.fsencode(one), here, os.fsencode(other), both) == 0:
        return
    third = one.with_name(f"{one.name}.old")
    other.rename(third)
    one.rename(other)
    third.rename(one)


def building_folder(out: Path) -> Path:
    """Return where the files of a folder are while it is being made."""
    return out.with_name(f".{out.name}{MAKING}")


def _refuse_full(out: Path, *, where: str) -> None:
    """Refuse a place where something is already; AuditError if it is no empty folder."""
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise AuditError(
            "There is something already.", where=where, do="Choose a new or an empty folder."
        )


def clear_folder(folder: Path, *, but: Collection[str] = ()) -> None:
    """Remove all that is in a folder, but for some names."""
    for path in folder.iterdir():
        if path.name in but:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def unwritable(error: OSError, *, where: str = "out") -> AuditError:
    """Return the error for a place that cannot be written, without its path."""
    return AuditError(
        "The folder cannot be written ({strerror}).",
        where=where,
        do="Make room on the disk, and let this account write there.",
        strerror=os.strerror(error.errno or 0),
    )


def seal_folder(folder: Path) -> None:
    """Close a folder and all in it to others, and wait until it is on the disk."""
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        to_disk(path)
    to_disk(folder)


def to_disk(path: Path) -> None:
    """Wait until a file, or the list of a folder, is on the disk; raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_SCRATCH = "kart-audit-scratch-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Give a private folder among the system's temporary ones, locked while it is in use."""
    folder = Path(tempfile.mkdtemp(prefix=_SCRATCH))
    try:
        lock = taken(folder, is_folder=True, waits=True)
        assert lock is not None
        with lock:
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear_scratch() -> None:
    """Remove the scratch folders of this account that killed processes left behind."""
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
            with suppress(OSError):
                state = folder.lstat()
                if stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid():
                    _remove_unheld(folder)


def _remove_unheld(folder: Path) -> None:
    """Remove a folder unless somebody holds its lock; raises `OSError`."""
    lock = taken(folder, is_folder=True)
    if lock is not None:
        with lock:
            shutil.rmtree(folder, ignore_errors=True)


def new_identifier() -> str:
    """Return 12 random hexadecimal digits."""
    return secrets.token_hex(6)


def is_code(text: str) -> bool:
    """Whether a text is 12 hexadecimal digits, as the name of a kept folder is."""
    return _CODE.fullmatch(text) is not None


def one_line(title: str) -> str:
    """Return a person's title as it is kept: white space single, of at most 80 characters."""
    return " ".join(title.split())[:MAX_TITLE_CHARS]


def now() -> str:
    """Return the moment as an ISO time stamp in UTC, so fine that later sorts later."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class Shelf(Generic[T]):
    """One kind of kept things, each a folder of its own under the data directory."""

    name: str  # of the kind's folder in the data directory
    where: str  # what an error calls a thing of this kind
    read: Callable[[Path], T]  # makes the thing of its folder
    # what the list is sorted by, the largest first
    newest: Callable[[T], Any] = attrgetter("created")

    def home(self) -> Path:
        """Return the kind's folder, made with mode 700; raises as `audit.home.data_home`."""
        return home_folder(self.name)

    def place(self, identifier: str) -> Path:
        """Return the folder of a thing, be it there or not; AuditError if it is no identifier."""
        if not is_code(identifier):
            raise self._unknown()
        return self.home() / identifier

    def all(self) -> tuple[T, ...]:
        """Return the things, the newest first; what is damaged is left out."""
        found = []
        for folder in self.home().iterdir():
            if is_code(folder.name) and folder.is_dir() and not folder.is_symlink():
                with suppress(AuditError):
                    found.append((self.at(folder), folder.name))
        found.sort(key=lambda pair: (self.newest(pair[0]), pair[1]), reverse=True)
        return tuple(one for one, _ in found)

    def get(self, identifier: str) -> T:
        """Return a thing; AuditError where there is none, or it is damaged."""
        folder = self.place(identifier)
        if not folder.is_dir():
            raise self._unknown()
        return self.at(folder)

    def at(self, folder: Path) -> T:
        """Return the thing in a folder, on the shelf or anywhere else; AuditError if damaged."""
        with self.reading():
            return self.read(folder)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn whatever a damaged thing makes the block stumble over into an AuditError."""
        try:
            yield
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise AuditError(
                "It is damaged, or of another version.", where=self.where, do="Make it again."
            ) from None

    def put(self, identifier: str, files: Mapping[str, bytes]) -> T:
        """Keep files under an identifier and return the thing; the record is the last of them.

        A folder that is there keeps its other files; a new one appears whole.
        """
        changing()
        place = self.place(identifier)
        if place.is_dir():
            write_private(files, place)
        else:
            with self.making(identifier) as folder:
                write_private(files, folder)
        return self.get(identifier)

    def making(self, identifier: str) -> AbstractContextManager[Path]:
        """Give a locked folder that becomes a thing's when the block ends well: `whole_folder`."""
        changing()
        return whole_folder(self.place(identifier), where=self.where)

    def forget(self, identifier: str) -> None:
        """Remove a thing with all of its files; nobody sees half of it."""
        changing()
        folder = self.place(identifier)
        if not folder.is_dir():
            raise self._unknown()
        doomed = folder.with_name(f".{folder.name}{FORGOTTEN}")
        try:
            shutil.rmtree(doomed, ignore_errors=True)
            folder.rename(doomed)
            shutil.rmtree(doomed)
        except OSError:
            raise AuditError("It cannot be removed.", where=self.where) from None

    def clear_abandoned(self, *, seconds: float = 0.0) -> None:
        """Remove what killed processes left this long ago; what is being made stays."""
        for path in self.home().iterdir():
            if not (path.name.startswith(".") and path.name.endswith((MAKING, FORGOTTEN))):
                continue
            try:
                if time.time() - path.stat().st_mtime >= seconds:
                    _remove_unheld(path)
            except OSError:
                continue

    def _unknown(self) -> AuditError:
        return AuditError(
            "This is not kept here.", where=self.where, do="Choose one of those that are listed."
        )
