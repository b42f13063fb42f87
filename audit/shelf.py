"""Kept things: private files that are complete or absent, locks, and shelves of things.

A kind of kept thing is a `Shelf`: a folder of the data directory that has a folder for each thing.
Its name is 12 hexadecimal digits, and it holds the thing's record and all files of the thing::

    CORPORA = Shelf("corpora", label="corpus", read=corpus_at)

    CORPORA.all()                       # newest first; damaged things are left out
    CORPORA.get(identifier)             # AuditError if it is absent or damaged
    CORPORA.keep_files(identifier, {"corpus.json": record.to_bytes()})  # files, the record last
    with CORPORA.making(identifier) as folder: ...  # or make it in a locked folder beside its place
    CORPORA.forget(identifier)

`read` makes a dataclass or a `Record` with an identifier, a title and `created` from a folder. It
need not catch errors: a missing file or key means that the thing is damaged, or of another
version.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Generic, TypeAlias, TypeVar

from audit.errors import AuditError, make_version_error
from audit.foreign import open_regular
from audit.home import check_change_allowed, home_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
MAX_TITLE_CHARS = 80
MAKING, FORGOTTEN = ".making", ".forgotten"
"""Endings of the names of folders: of those being made, and of those whose removal was cut off."""
_CODE = re.compile("[0-9a-f]{12}")
_CHUNK_BYTES = 1 << 20


@dataclass
class Lock:
    """A lock that this process holds, until it is released or every holder of the file is gone."""

    descriptor: int

    def release(self) -> None:
        """Release it in this process; a child that got the descriptor still holds it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def take_lock(path: Path, *, is_folder: bool = False, waits: bool = False) -> Lock | None:
    """Take the lock of a file or a folder, which is made if absent; None if somebody holds it.

    A lock is a `flock`. It belongs to the open file, so it is not lost when this process closes
    another descriptor of the same file. Raises `OSError`.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_RDWR | os.O_CREAT
    while True:
        if is_folder:
            path.mkdir(mode=0o700, exist_ok=True)
        try:
            lock = Lock(os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        except FileNotFoundError:
            if is_folder:  # somebody removed it since it was made
                continue
            raise
        try:
            fcntl.flock(lock.descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            # Between the two calls the last holder may have moved or removed the file.
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
def hold_training_folder(out: Path) -> Iterator[None]:
    """Lock a training's folder, which is made if absent, against other processes."""
    private_folder(out)
    try:
        lock = take_lock(out.resolve(), is_folder=True)
    except OSError as error:
        raise make_write_error(error) from None
    if lock is None:
        raise AuditError("This training runs already.", where="out")
    with lock:
        yield


def fingerprint(path: Path, *, on_bytes: Callable[[int], None] = lambda n: None) -> str:
    """Return the SHA-256 of a file in hexadecimal; raises the errors of `open_regular`."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            on_bytes(len(chunk))
    return digest.hexdigest()


JSON: TypeAlias = "Mapping[str, JSON] | Sequence[JSON] | str | float | int | bool | None"
"""A value to be written as JSON. What is read is a `pydantic.JsonValue`."""
_encode = json.JSONEncoder(ensure_ascii=False).encode


def json_line(content: JSON) -> bytes:
    """Return a line of JSON in UTF-8; lone surrogates are written as they are."""
    return (_encode(content) + "\n").encode("utf-8", "surrogatepass")


def json_page(content: JSON) -> bytes:
    """Return a file of JSON that a person can read."""
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def digest_json(
    content: object,
    *,
    sort_keys: bool = True,
    ensure_ascii: bool = True,
    is_compact: bool = False,
    default: Callable[[NDArray[np.generic]], object] | type[str] | None = None,
) -> str:
    """Return the SHA-256 of a JSON value in hexadecimal; NaN is allowed.

    `is_compact` leaves out the spaces, as `audit.task.canonical_json` does, and `default` encodes
    what is no JSON. Kept things bear digests of several spellings, which therefore stay.
    """
    text = json.dumps(
        content,
        sort_keys=sort_keys,
        ensure_ascii=ensure_ascii,
        separators=(",", ":") if is_compact else None,
        default=default,
    )
    return hashlib.sha256(text.encode()).hexdigest()


def create_file(path: Path) -> BinaryIO:
    """Open a new file that only its owner can read; it replaces an existing one."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=_CHUNK_BYTES)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Give a private file to write to; it appears at `path`, synced to disk, if the block succeeds.

    Raises `OSError` unchanged.
    """
    partial = path.with_name(f".{path.name}.part")
    try:
        with create_file(partial) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_to_disk(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_whole(path: Path, data: bytes) -> None:
    """Write a private file, completely or not at all."""
    try:
        with whole_file(path) as file:
            file.write(data)
    except OSError as error:
        raise make_write_error(error) from None


def write_private(files: Mapping[str, bytes], out: Path) -> tuple[Path, ...]:
    """Write private files into a folder, each completely or not at all, as `write_whole` does."""
    private_folder(out)
    for name, data in files.items():
        write_whole(out / name, data)
    return tuple(out / name for name in files)


def private_folder(path: Path) -> Path:
    """Make a folder with mode 700; an existing one stays as it is."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise make_write_error(error) from None
    return path


@contextmanager
def whole_folder(
    out: Path,
    *,
    place: str = "out",
    stays: Collection[str] = (),
    replaces: bool = False,
    aside: Path | None = None,
) -> Iterator[Path]:
    """Give a locked folder to write into; it becomes `out` if the block succeeds.

    Parameters
    ----------
    out
        Must be absent or an empty folder, unless `replaces` or `aside` is given. `replaces` removes
        what is there; with `aside`, what is there moves to that place in one exchange.
    where
        The name of the folder in errors.
    stays
        Names of files that stay if the block fails, and that the next block finds again.
    """
    building = building_folder(out)
    try:
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (replaces or aside):
            _refuse_full(out, place=place)
        lock = take_lock(building, is_folder=True)
        if lock is None:
            raise AuditError("This folder is being written already.", where=place)
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
                    _refuse_full(out, place=place)
                elif out.exists():
                    shutil.rmtree(out)
                building.rename(out)
            sync_to_disk(out.parent)
    except OSError as error:
        raise make_write_error(error, place=place) from None


def _exchange(folder: Path, other_folder: Path) -> None:
    """Exchange two folders at once, or in three steps if the system cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    working_folder, exchange_flag = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if (
        rename
        and rename(
            working_folder,
            os.fsencode(folder),
            working_folder,
            os.fsencode(other_folder),
            exchange_flag,
        )
        == 0
    ):
        return
    third = folder.with_name(f"{folder.name}.old")
    other_folder.rename(third)
    folder.rename(other_folder)
    third.rename(folder)


def building_folder(out: Path) -> Path:
    """Return the hidden folder in which a folder is being made."""
    return out.with_name(f".{out.name}{MAKING}")


def _refuse_full(out: Path, *, place: str) -> None:
    """Raise AuditError if something is there that is not an empty folder."""
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise AuditError(
            "There is something already.", where=place, do="Choose a new or an empty folder."
        )


def clear_folder(folder: Path, *, but: Collection[str] = ()) -> None:
    """Remove everything in a folder except some names."""
    for path in folder.iterdir():
        if path.name in but:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def make_write_error(error: OSError, *, place: str = "out") -> AuditError:
    """Make the error for a folder that cannot be written, without its path."""
    return AuditError(
        "The folder cannot be written ({strerror}).",
        where=place,
        do="Make room on the disk, and let this account write there.",
        strerror=os.strerror(error.errno or 0),
    )


def seal_folder(folder: Path) -> None:
    """Make a folder and its content private, and wait until they are on the disk."""
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        sync_to_disk(path)
    sync_to_disk(folder)


def sync_to_disk(path: Path) -> None:
    """Wait until a file, or a folder's directory entry list, is on the disk; raises `OSError`."""
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
        lock = take_lock(folder, is_folder=True, waits=True)
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
    lock = take_lock(folder, is_folder=True)
    if lock is not None:
        with lock:
            shutil.rmtree(folder, ignore_errors=True)


def new_identifier() -> str:
    """Return 12 random hexadecimal digits."""
    return secrets.token_hex(6)


def is_code(text: str) -> bool:
    """Whether a text is 12 hexadecimal digits, like the name of a kept folder."""
    return _CODE.fullmatch(text) is not None


def one_line(title: str) -> str:
    """Return a title in the form in which it is kept: single spaces, at most 80 characters."""
    return " ".join(title.split())[:MAX_TITLE_CHARS]


def make_time_stamp() -> str:
    """Return the present time as an ISO time stamp in UTC, with microseconds for sorting."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def seconds_since(stamp: str) -> float:
    """Return the seconds since a time stamp of `make_time_stamp`."""
    return (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds()


@dataclass(frozen=True)
class Shelf(Generic[T]):
    """One kind of kept things; each thing is a folder in the kind's folder."""

    name: str  # of the kind's folder in the data directory
    label: str  # the name of such a thing in errors
    read: Callable[[Path], T]  # makes the thing from its folder
    # the key by which the list is sorted, the largest first
    newest: Callable[[T], str | float] = attrgetter("created")

    def home(self) -> Path:
        """Return the kind's folder, made with mode 700; raises like `audit.home.data_home`."""
        return home_folder(self.name)

    def place(self, identifier: str) -> Path:
        """Return the folder of a thing, which need not exist; AuditError if it is no identifier."""
        if not is_code(identifier):
            raise self._make_unknown_error()
        return self.home() / identifier

    def all(self) -> tuple[T, ...]:
        """Return the things, the newest first; damaged ones are left out."""
        things = []
        for folder in self.home().iterdir():
            if is_code(folder.name) and folder.is_dir() and not folder.is_symlink():
                with suppress(AuditError):
                    things.append((self.read_folder(folder), folder.name))
        things.sort(key=lambda pair: (self.newest(pair[0]), pair[1]), reverse=True)
        return tuple(thing for thing, _ in things)

    def get(self, identifier: str) -> T:
        """Return a thing; AuditError if it is absent or damaged."""
        folder = self.place(identifier)
        if not folder.is_dir():
            raise self._make_unknown_error()
        return self.read_folder(folder)

    def read_folder(self, folder: Path) -> T:
        """Read the thing in a folder, on the shelf or elsewhere; AuditError if it is damaged."""
        with self.reading():
            return self.read(folder)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn the exceptions that a damaged thing causes into an AuditError."""
        try:
            yield
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise make_version_error(where=self.label) from None

    def keep_files(self, identifier: str, files: Mapping[str, bytes]) -> T:
        """Keep files under an identifier and return the thing; the record is the last file.

        An existing folder keeps its other files; a new one appears when it is complete.
        """
        check_change_allowed()
        place = self.place(identifier)
        if place.is_dir():
            write_private(files, place)
        else:
            with self.making(identifier) as folder:
                write_private(files, folder)
        return self.get(identifier)

    def making(self, identifier: str) -> AbstractContextManager[Path]:
        """Give a locked folder that becomes the thing's if the block succeeds (`whole_folder`)."""
        check_change_allowed()
        return whole_folder(self.place(identifier), place=self.label)

    def forget(self, identifier: str) -> None:
        """Remove a thing with all of its files; it vanishes at once."""
        check_change_allowed()
        folder = self.place(identifier)
        if not folder.is_dir():
            raise self._make_unknown_error()
        doomed = folder.with_name(f".{folder.name}{FORGOTTEN}")
        try:
            shutil.rmtree(doomed, ignore_errors=True)
            folder.rename(doomed)
            shutil.rmtree(doomed)
        except OSError:
            raise AuditError("It cannot be removed.", where=self.label) from None

    def clear_abandoned(self, *, seconds: float = 0.0) -> None:
        """Remove what killed processes left at least `seconds` ago, but not what is being made."""
        for path in self.home().iterdir():
            if not (path.name.startswith(".") and path.name.endswith((MAKING, FORGOTTEN))):
                continue
            try:
                if time.time() - path.stat().st_mtime >= seconds:
                    _remove_unheld(path)
            except OSError:
                continue

    def _make_unknown_error(self) -> AuditError:
        return AuditError(
            "This is not kept here.", where=self.label, do="Choose one of those that are listed."
        )
