"""The access log: who saw, revealed, ran and exported which data when, every line sealed.

Comes in: an action, who did it, the digits of an audit, counts and codes; never a name or the text
of a note. Goes out: lines of `access/log.jsonl` in the data directory. Torch-free.

Limits: whoever can write the directory can, without the key, put back an older `head.json` and cut
the log to match, or delete everything; whoever can read the key can rewrite the log. The seal of
`log_seal` reveals this: it goes with every report, and `verify` checks it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import pwd
import re
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from audit.errors import AuditError
from audit.home import data_home, salted_digest
from audit.shelf import make_time_stamp, take_lock, whole_file
from audit.task import Record, canonical_json

START, BROKEN = "0" * 64, "f" * 64
"""Values of `previous` in a line: there is no line before it, or it cannot be trusted."""
ACTIONS = (
    "opened",
    "revealed",
    "ran",
    "cancelled",
    "resumed",
    "uploaded",
    "checked",
    "exported",
    "removed",
    "decided",
    "signed",
    "withdrawn",
    "backed_up",
    "restored",
    "login_dropped",
)
CODES = frozenset(
    (
        "page",
        "what",
        "kind",
        "reason",
        "language",
        "names",
        "format",
        "state",
        "device",
        "job",
        "corpus",
        "run",
        "role",
    )
)
"""Keys whose values are short codes."""
NUMBERS = frozenset(("scenario", "name_id", "document_id", "passage_id", "row", "seed"))
"""Keys whose values are whole numbers, as are those of all keys that begin with `n_`."""
_CODE = re.compile(r"[a-z0-9][a-z0-9_.:\-]{0,63}")
_SEAL = re.compile("([0-9]{1,15})-([0-9a-f]{64})-([0-9a-f]{12})")
_MAX_NUMBER = 2**63
_MAX_WHO_CHARS = 120
_N_KEY_BYTES = 32
_LOG, _HEAD, _KEY, _LOCK = *_FILES, _ = "log.jsonl", "head.json", "key", "lock"


class LogEntry(Record):
    """One line: `at` is UTC in ISO 8601, `audit` the first 12 digits of a digest or "".

    `mac` seals the line and, through `previous`, every earlier line.
    """

    number: int
    at: str
    who: str
    action: str
    audit: str
    counts: Mapping[str, int | str]
    previous: str
    mac: str


class Head(NamedTuple):
    """The end of the log: the number of lines, their bytes, and the MAC of the last line."""

    n_lines: int
    n_bytes: int
    last: str


@dataclass(frozen=True)
class Verification:
    """Whether the log is unchanged since it was written."""

    n_lines: int
    is_intact: bool
    first_bad_line: int | None  # number in the file of the first line that does not fit
    # "" (intact), "changed", "order", "missing", "head", "seal", "unfinished", "elsewhere" (the
    # seal belongs to another installation)
    reason: str


def account() -> str:
    """Return the name of the operating system's account."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def record(action: str, *, who: str = "", audit: str = "", **counts: int | str) -> None:
    """Append one line; it is on the disk when this returns.

    A damaged log is continued, and `verify` still finds the damage.

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
    """
    if action not in ACTIONS:
        raise ValueError("an action that the log does not know")
    if audit and not re.fullmatch("[0-9a-f]{12,64}", audit):
        raise ValueError("an audit is named by its digest")
    if not all(_is_loggable(key, value) for key, value in counts.items()):
        raise ValueError("only whole numbers and codes under known keys are logged")
    person = "".join(c if c.isprintable() else " " for c in who).strip()[:_MAX_WHO_CHARS]
    entry: dict[str, JsonValue] = {
        "at": make_time_stamp(),
        "who": person or account(),
        "action": action,
        "audit": audit[:12],
        "counts": {**counts},
    }
    with _lock_log() as (folder, key):
        _append_entry(entry, folder=folder, key=key)


def _is_loggable(key: str, value: int | str) -> bool:
    if key.startswith("n_") or key in NUMBERS:
        return type(value) is int and abs(value) < _MAX_NUMBER
    return key in CODES and isinstance(value, str) and _CODE.fullmatch(value) is not None


def _append_entry(entry: dict[str, JsonValue], *, folder: Path, key: bytes) -> None:
    head, is_whole = _read_head(folder, key=key), False
    place = head or Head(0, 0, START)
    flags = os.O_APPEND | os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    with os.fdopen(os.open(folder / _LOG, flags, 0o600), "r+b") as file:
        if head is not None:
            # After the lines that the head counts there may be one whose head was never written.
            file.seek(max(0, head.n_bytes - 1))
            ends_line = not head.n_bytes or file.read(1) == b"\n"
            *_, (place, fault) = _walk_log(file.read(), head, key=key)
            is_whole = ends_line and not fault
        end = file.seek(0, os.SEEK_END)
        if is_whole:  # the rest is half a line of a write that never returned
            end = file.truncate(place.n_bytes)
        elif end:
            file.seek(end - 1)
            end += file.write(b"" if file.read(1) == b"\n" else b"\n")
        entry |= {"number": place.n_lines + 1, "previous": place.last if is_whole else BROKEN}
        line = _seal_fields(entry, kind="line", key=key)
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())
    head = Head(place.n_lines + 1, end + len(line) + 1, json.loads(line)["mac"])
    _write_head(folder, head, key=key)


def log_seal() -> str:
    """Return the seal of the log's present content, to be kept where this account cannot write.

    It consists of the number of the last line, its MAC and a digest of the installation. The MAC
    covers every earlier line: without the key nobody can make one, and with the key nobody can make
    other lines that have the same MAC.
    """
    with _lock_log() as (folder, key):
        head = _read_head(folder, key=key)
    if head is None:
        raise AuditError(
            "The access log has no head, or it was changed, so that nothing can be sealed.",
            do="`python -m audit log verify` says more.",
        )
    return f"{head.n_lines}-{head.last}-{_installation()}"


def _installation() -> str:
    return salted_digest("access log")[:12]


def verify(seal: str = "") -> Verification:
    """Read the whole log and check whether it is unchanged.

    `seal` is an earlier result of `log_seal`, whose line the log must still hold; "" checks none.
    """
    seal_match = _SEAL.fullmatch(seal.strip())
    if seal and seal_match is None:
        raise AuditError(
            "This is no seal of an access log.",
            where="seal",
            do="Give it as it stands in the report: a number, a hyphen, 64 digits, a hyphen, 12.",
        )
    with _lock_log() as (folder, key):
        data, head = _read_bytes(folder / _LOG), _read_head(folder, key=key)
    n_lines, steps = data.count(b"\n"), list(_walk_log(data, Head(0, 0, START), key=key))
    last, fault = steps[-1]
    places = {place.n_lines: place for place, _ in steps}

    def broken(reason: str, line: int | None = None) -> Verification:
        return Verification(n_lines, False, line, reason)

    if fault:
        return broken(fault, last.n_lines + 1)
    if head is None:
        return broken("head")
    if head.n_lines > n_lines:
        return broken("missing")
    if places[head.n_lines] != head:
        return broken("head")
    if seal_match and seal_match[3] != _installation():
        return broken("elsewhere")
    if seal_match and (
        int(seal_match[1]) > n_lines or places[int(seal_match[1])].last != seal_match[2]
    ):
        return broken("seal")
    if len(data) > last.n_bytes:
        return broken("unfinished", n_lines + 1)
    return Verification(n_lines, True, None, "")


def _walk_log(data: bytes, start: Head, *, key: bytes) -> Iterator[tuple[Head, str]]:
    """Yield the head after each line from `start` on, and with the last why the next does not fit.

    The reason is a code of `Verification`; "" if every complete line fits.
    """
    place = start
    yield place, ""
    for line in data.split(b"\n")[:-1]:
        entry = _read_line(line)
        if entry is None or line != _seal_fields(entry.plain(), kind="line", key=key):
            yield place, "changed"
            return
        if (entry.number, entry.previous) != (place.n_lines + 1, place.last):
            yield place, "order"
            return
        place = Head(entry.number, place.n_bytes + len(line) + 1, entry.mac)
        yield place, ""


def entries(
    limit: int | None = None, *, audit: str = "", without: Collection[str] = ()
) -> tuple[LogEntry, ...]:
    """Return the lines of one audit (digest) or of all, the newest first, without verifying them.

    Actions in `without`, and lines that are no entries, are left out; `verify` finds the latter.
    """
    with _lock_log() as (folder, _):
        data = _read_bytes(folder / _LOG)
    newest_entries: list[LogEntry] = []
    for line in reversed(data.split(b"\n")):
        if limit is not None and len(newest_entries) >= limit:
            break
        entry = _read_line(line) if audit[:12].encode() in line else None
        if entry and audit[:12] in ("", entry.audit) and entry.action not in without:
            newest_entries.append(entry)
    return tuple(newest_entries)


def log_files() -> dict[str, bytes]:
    """Return a consistent copy of the log's files, including the key, for a backup."""
    with _lock_log() as (folder, _):
        return {name: _read_bytes(folder / name) for name in _FILES}


def log_mark() -> str:
    """Return a text that changes whenever the log's files do, for caches."""
    with _lock_log() as (folder, _):
        states = [(folder / name).stat() for name in _FILES if (folder / name).exists()]
    return repr([(state.st_size, state.st_mtime_ns, state.st_ctime_ns) for state in states])


@contextmanager
def _lock_log() -> Iterator[tuple[Path, bytes]]:
    """Give the log's directory, locked against other processes and threads, and its key."""
    folder = data_home() / "access"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        lock = take_lock(folder / _LOCK, waits=True)
        assert lock is not None
        with lock:
            if not (folder / _KEY).exists():
                is_new = not (folder / _LOG).exists()
                key = secrets.token_bytes(_N_KEY_BYTES)
                _write_file(folder / _KEY, key)
                if is_new:
                    _write_head(folder, Head(0, 0, START), key=key)
            key = (folder / _KEY).read_bytes()
            if len(key) != _N_KEY_BYTES:
                raise AuditError(
                    "The access log's key is damaged.",
                    where="access/key in the data directory",
                    do="Put the directory `access` aside; a new log begins by itself.",
                )
            yield folder, key
    except OSError as error:
        raise AuditError(
            "The access log cannot be read or written ({strerror}).",
            do="Make room in the data directory, and let this account read and write there.",
            strerror=error.strerror,
        ) from None


def _seal_fields(fields: Mapping[str, JsonValue], *, kind: str, key: bytes) -> bytes:
    """Return the line of some fields, with the MAC of all other fields and no line break."""
    other_fields = {name: value for name, value in fields.items() if name != "mac"}
    mac = hmac.new(key, kind.encode() + b":" + canonical_json(other_fields), hashlib.sha256)
    return canonical_json(other_fields | {"mac": mac.hexdigest()})


def _read_line(line: bytes) -> LogEntry | None:
    try:
        return LogEntry.read(line, where=_LOG)
    except AuditError:
        return None


def _read_head(folder: Path, *, key: bytes) -> Head | None:
    """Return the head; None if it is absent or not sealed with this key."""
    data = _read_bytes(folder / _HEAD)
    try:
        fields = json.loads(data)
        is_sealed = data == _seal_fields(fields, kind="head", key=key) + b"\n"
        return Head(fields["n_lines"], fields["n_bytes"], fields["last"]) if is_sealed else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _write_head(folder: Path, head: Head, *, key: bytes) -> None:
    _write_file(folder / _HEAD, _seal_fields(head._asdict(), kind="head", key=key) + b"\n")


def _read_bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _write_file(path: Path, data: bytes) -> None:
    with whole_file(path) as file:
        file.write(data)
