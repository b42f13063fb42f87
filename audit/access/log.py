"""The access log: who saw, revealed, ran and exported which data when, every line sealed.

Comes in: an action, who did it, the digits of an audit, counts and codes; never a name or the text
of a note. Goes out: lines of `access/log.jsonl` in the data directory. Torch-free.

What it cannot do alone: whoever can write the directory can put back an older `head.json` and cut
the log to match, without the key, or delete it all; whoever can read the key can write the log
anew. `log_seal` is what shows it: it goes with every report, and `verify` takes it back.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from audit.access.chain import (
    EMPTY,
    Head,
    LogEntry,
    Seal,
    Verification,
    newest_entries,
    next_place,
    read_head,
    read_seal,
    sealed_head,
    sealed_line,
    verified,
)
from audit.errors import AuditError
from audit.home import data_home

__all__ = [
    "ACTIONS", "CODES", "NUMBERS", "LogEntry", "Verification", "account", "entries", "log_mark",
    "log_seal", "record", "verify",
]  # fmt: skip

ACTIONS = (
    "opened", "revealed", "ran", "cancelled", "resumed", "uploaded", "exported", "removed",
)  # fmt: skip
CODES = frozenset(
    ("page", "what", "kind", "reason", "language", "names", "format", "state", "device", "job",
     "corpus", "run")
)  # fmt: skip
"""Keys whose values are short codes."""
NUMBERS = frozenset(("scenario", "name_id", "document_id", "passage_id", "row", "seed"))
"""Keys whose values are whole numbers, as are those of all keys that begin with `n_`."""
_CODE = re.compile(r"[a-z0-9][a-z0-9_.:\-]{0,63}")
_MAX_NUMBER = 2**63
_MAX_WHO_CHARS = 120
_N_KEY_BYTES = 32
_LOG, _HEAD, _KEY, _LOCK = "log.jsonl", "head.json", "key", "lock"


def account() -> str:
    """Return the name of the operating system's account."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def record(action: str, *, who: str = "", audit: str = "", **counts: int | str) -> LogEntry:
    """Append one line; it is on the disk when this returns.

    A log that is damaged already is written on, and the damage stays in sight of `verify`.

    Parameters
    ----------
    action
        One of `ACTIONS`.
    who
        The person; "" is the operating system's account.
    audit
        Digest of the audit, at least 12 digits, or "" for none; 12 digits are written.
    counts
        Whole numbers under `n_...` or one of `NUMBERS`, short codes under one of `CODES`.

    Raises
    ------
    AuditError
        If the log cannot be written.
    ValueError
        If something that is neither a number nor a code would be written.
    """
    checked = _checked(action, audit, counts)
    person = "".join(c if c.isprintable() else " " for c in who).strip()[:_MAX_WHO_CHARS]
    at = datetime.now(UTC).isoformat(timespec="seconds")
    entry = LogEntry(0, at, person or account(), action, audit[:12], checked)
    try:
        with _locked_folder() as folder:
            return _append(entry, folder=folder)
    except OSError as error:
        raise AuditError(
            f"The access log cannot be written ({error.strerror}).",
            do="Make room in the data directory, and let this account write there.",
        ) from None


def log_seal() -> str:
    """Return what the log holds now, as a text to be kept where this account cannot write.

    Raises
    ------
    AuditError
        If the log cannot be read, or its head is missing or was changed.
    """
    try:
        with _locked_folder() as folder:
            head = read_head(_bytes(folder / _HEAD), key=_key(folder))
    except OSError as error:
        raise _unreadable(error) from None
    if head is None:
        raise AuditError(
            "The access log has no head, or it was changed, so that nothing can be sealed.",
            do="`python -m audit log verify` says more.",
        )
    return str(Seal(head.n_lines, head.last))


def verify(seal: str = "") -> Verification:
    """Read the whole log and say whether it is as it was written.

    Parameters
    ----------
    seal
        What `log_seal` once returned: the log must hold that line still. "" asks for none.

    Raises
    ------
    AuditError
        If it cannot be read, or the seal is none.
    """
    wanted = read_seal(seal) if seal else None
    if seal and wanted is None:
        raise AuditError(
            "This is no seal of an access log.",
            where="seal",
            do="Give it as it stands in the report: a number, a hyphen, 64 digits.",
        )
    try:
        with _locked_folder() as folder:
            key = _key(folder)
            data, head = _bytes(folder / _LOG), read_head(_bytes(folder / _HEAD), key=key)
    except OSError as error:
        raise _unreadable(error) from None
    return verified(data, head=head, key=key, seal=wanted)


def entries(limit: int | None = None, *, audit: str = "") -> tuple[LogEntry, ...]:
    """Return the newest lines first, of one audit (digest) or of all; not verified.

    Lines that are no entries are left out; `verify` finds them.

    Raises
    ------
    AuditError
        If the log cannot be read.
    """
    try:
        with _locked_folder() as folder:
            data = _bytes(folder / _LOG)
    except OSError as error:
        raise _unreadable(error) from None
    return newest_entries(data, limit=limit, audit=audit[:12])


def log_mark() -> str:
    """Return a text that changes whenever the log's files do, for caches; raises as `entries`."""
    marks = []
    for name in (_LOG, _HEAD, _KEY):
        try:
            state = (data_home() / "access" / name).stat()
            marks.append(f"{state.st_size}-{state.st_mtime_ns}-{state.st_ctime_ns}")
        except FileNotFoundError:
            marks.append("")
        except OSError as error:
            raise _unreadable(error) from None
    return "/".join(marks)


def _checked(
    action: str, audit: str, counts: Mapping[str, int | str]
) -> tuple[tuple[str, int | str], ...]:
    if action not in ACTIONS:
        raise ValueError("an action that the log does not know")
    if audit and not re.fullmatch("[0-9a-f]{12,64}", audit):
        raise ValueError("an audit is named by its digest")
    found: list[tuple[str, int | str]] = []
    for key, value in sorted(counts.items()):
        if key.startswith("n_") or key in NUMBERS:
            if not isinstance(value, int) or abs(value) >= _MAX_NUMBER:
                raise ValueError("this key takes a whole number")
            found.append((key, int(value)))
        elif key in CODES and isinstance(value, str) and _CODE.fullmatch(value):
            found.append((key, value))
        else:
            raise ValueError("only numbers and codes under known keys are logged")
    return tuple(found)


def _append(entry: LogEntry, *, folder: Path) -> LogEntry:
    key, path = _key(folder), folder / _LOG
    head = read_head(_bytes(folder / _HEAD), key=key)
    place = next_place(_tail(path, head), head=head, key=key)
    line, mac = sealed_line(entry, place=place, key=key)
    with _private(path, os.O_APPEND) as handle:
        end = handle.seek(0, os.SEEK_END)
        if place.n_bytes is None:
            line = line if _ends_line(path) else b"\n" + line
        elif place.n_bytes < end:  # half a line, of a write that never returned
            handle.truncate(place.n_bytes)
            end = place.n_bytes
        handle.write(line + b"\n")
        handle.flush()
        os.fsync(handle.fileno())
    _replace(folder / _HEAD, sealed_head(Head(place.number, end + len(line) + 1, mac), key=key))
    return LogEntry(**{**vars(entry), "number": place.number})


@contextmanager
def _locked_folder() -> Iterator[Path]:
    """Yield the log's directory, locked against other processes and threads, its key in place."""
    folder = data_home() / "access"
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not (folder / _KEY).exists():
            is_new = not (folder / _LOG).exists()
            _replace(folder / _KEY, secrets.token_bytes(_N_KEY_BYTES))
            if is_new:
                _replace(folder / _HEAD, sealed_head(EMPTY, key=_key(folder)))
        yield folder
    finally:
        os.close(descriptor)


def _key(folder: Path) -> bytes:
    key = (folder / _KEY).read_bytes()
    if len(key) != _N_KEY_BYTES:
        raise AuditError(
            "The access log's key is damaged.",
            where="access/key in the data directory",
            do="Put the directory `access` aside; a new log begins by itself.",
        )
    return key


def _tail(path: Path, head: Head | None) -> bytes | None:
    """Return what stands behind the lines that the head counts; None if these are not whole."""
    n_bytes = head.n_bytes if head else 0
    if not path.exists():
        return None if n_bytes else b""
    with path.open("rb") as handle:
        handle.seek(max(0, n_bytes - 1))
        before = handle.read(1) if n_bytes else b"\n"
        return handle.read() if before == b"\n" else None


def _ends_line(path: Path) -> bool:
    with path.open("rb") as handle:
        if not handle.seek(0, os.SEEK_END):
            return True
        handle.seek(-1, os.SEEK_END)
        return handle.read(1) == b"\n"


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; only under the lock."""
    partial = path.with_name(f"{path.name}.part")
    partial.unlink(missing_ok=True)
    with _private(partial, os.O_EXCL) as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    partial.replace(path)


def _private(path: Path, flags: int) -> BinaryIO:
    flags |= os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def _unreadable(error: OSError) -> AuditError:
    return AuditError(
        f"The access log cannot be read ({error.strerror}).",
        do="Give the data directory back to this account.",
    )
