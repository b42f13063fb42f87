"""The access log: who saw, revealed, ran and exported which data when, every line sealed.

Comes in: an action, who did it, the digits of an audit, counts and codes; never a name or the text
of a note. Goes out: lines of `access/log.jsonl` in the data directory. Torch-free.

What it cannot do alone: whoever can write the directory can put back an older `head.json` and cut
the log to match, without the key, or delete it all; whoever can read the key can write the log
anew. `log_seal` is what shows it: it goes with every report, and `verify` takes it back.
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
from typing import Any, NamedTuple

from audit.errors import AuditError
from audit.home import data_home, salted_digest
from audit.shelf import now, taken, whole_file
from audit.task import Record, canonical_json

START, BROKEN = "0" * 64, "f" * 64
"""What a line says of the line before it: that there is none, or that it cannot be trusted."""
ACTIONS = (
    "opened",
    "revealed",
    "ran",
    "cancelled",
    "resumed",
    "uploaded",
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
_SEAL = re.compile("([0-9]{1,15})-([0-9a-f]{64})(?:-([0-9a-f]{12}))?")
_MAX_NUMBER = 2**63
_MAX_WHO_CHARS = 120
_N_KEY_BYTES = 32
_LOG, _HEAD, _KEY, _LOCK = *_FILES, _ = "log.jsonl", "head.json", "key", "lock"


class LogEntry(Record):
    """One line: `at` is UTC in ISO 8601, `audit` the first 12 digits of a digest or "".

    `mac` seals the line and, by `previous`, every line before it.
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
    """How far the log is: its lines, their bytes, the MAC of the last."""

    n_lines: int
    n_bytes: int
    last: str


@dataclass(frozen=True)
class Verification:
    """Whether the log is as it was written."""

    n_lines: int
    is_intact: bool
    first_bad_line: int | None  # in the file, of the first line that does not fit
    # "" (intact), "changed", "order", "missing", "head", "seal", "unfinished", "elsewhere" (the
    # seal is of another installation)
    reason: str


def account() -> str:
    """Return the name of the operating system's account."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def record(action: str, *, who: str = "", audit: str = "", **counts: int | str) -> None:
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
    """
    if action not in ACTIONS:
        raise ValueError("an action that the log does not know")
    if audit and not re.fullmatch("[0-9a-f]{12,64}", audit):
        raise ValueError("an audit is named by its digest")
    if not all(_is_loggable(key, value) for key, value in counts.items()):
        raise ValueError("only whole numbers and codes under known keys are logged")
    person = "".join(c if c.isprintable() else " " for c in who).strip()[:_MAX_WHO_CHARS]
    entry = {
        "at": now(),
        "who": person or account(),
        "action": action,
        "audit": audit[:12],
        "counts": counts,
    }
    with _locked() as (folder, key):
        _append(entry, folder=folder, key=key)


def _is_loggable(key: str, value: int | str) -> bool:
    if key.startswith("n_") or key in NUMBERS:
        return type(value) is int and abs(value) < _MAX_NUMBER
    return key in CODES and isinstance(value, str) and _CODE.fullmatch(value) is not None


def _append(entry: dict[str, Any], *, folder: Path, key: bytes) -> None:
    head, is_whole = _read_head(folder, key=key), False
    place = head or Head(0, 0, START)
    flags = os.O_APPEND | os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    with os.fdopen(os.open(folder / _LOG, flags, 0o600), "r+b") as file:
        if head is not None:
            # Behind the lines that the head counts may stand one whose head was never written.
            file.seek(max(0, head.n_bytes - 1))
            ends_line = not head.n_bytes or file.read(1) == b"\n"
            *_, (place, why) = _walked(file.read(), head, key=key)
            is_whole = ends_line and not why
        end = file.seek(0, os.SEEK_END)
        if is_whole:  # what is left is half a line, of a write that never returned
            end = file.truncate(place.n_bytes)
        elif end:
            file.seek(end - 1)
            end += file.write(b"" if file.read(1) == b"\n" else b"\n")
        entry |= {"number": place.n_lines + 1, "previous": place.last if is_whole else BROKEN}
        line = _sealed(entry, what="line", key=key)
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())
    head = Head(place.n_lines + 1, end + len(line) + 1, json.loads(line)["mac"])
    _write_head(folder, head, key=key)


def log_seal() -> str:
    """Return what the log holds now, as a text to be kept where this account cannot write.

    It is the number of the last line and its MAC, which covers every line before it: without the
    key nobody makes one, and with it nobody makes other lines that have the same. Behind them
    stands which installation it is of.
    """
    with _locked() as (folder, key):
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
    """Read the whole log and say whether it is as it was written.

    `seal` is what `log_seal` once returned: the log must hold that line still. "" asks for none.
    """
    wanted = _SEAL.fullmatch(seal.strip())
    if seal and wanted is None:
        raise AuditError(
            "This is no seal of an access log.",
            where="seal",
            do="Give it as it stands in the report: a number, a hyphen, 64 digits, a hyphen, 12.",
        )
    with _locked() as (folder, key):
        data, head = _bytes(folder / _LOG), _read_head(folder, key=key)
    n_lines, walked = data.count(b"\n"), list(_walked(data, Head(0, 0, START), key=key))
    last, why = walked[-1]
    places = {place.n_lines: place for place, _ in walked}

    def broken(reason: str, line: int | None = None) -> Verification:
        return Verification(n_lines, False, line, reason)

    if why:
        return broken(why, last.n_lines + 1)
    if head is None:
        return broken("head")
    if head.n_lines > n_lines:
        return broken("missing")
    if places[head.n_lines] != head:
        return broken("head")
    if wanted and wanted[3] and wanted[3] != _installation():
        return broken("elsewhere")
    if wanted and (int(wanted[1]) > n_lines or places[int(wanted[1])].last != wanted[2]):
        return broken("seal")
    if len(data) > last.n_bytes:
        return broken("unfinished", n_lines + 1)
    return Verification(n_lines, True, None, "")


def _walked(data: bytes, start: Head, *, key: bytes) -> Iterator[tuple[Head, str]]:
    """Yield every place in a log behind `start`, and at the last why the next line does not fit.

    That is a code of `Verification`; "" where every whole line fits.
    """
    place = start
    yield place, ""
    for line in data.split(b"\n")[:-1]:
        entry = _read_line(line)
        if entry is None or line != _sealed(entry.plain(), what="line", key=key):
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
    """Return the newest lines first, of one audit (digest) or of all; not verified.

    Actions `without` are left out. Lines that are no entries are left out; `verify` finds them.
    """
    with _locked() as (folder, _):
        data = _bytes(folder / _LOG)
    found: list[LogEntry] = []
    for line in reversed(data.split(b"\n")):
        if limit is not None and len(found) >= limit:
            break
        entry = _read_line(line) if audit[:12].encode() in line else None
        if entry and audit[:12] in ("", entry.audit) and entry.action not in without:
            found.append(entry)
    return tuple(found)


def log_files() -> dict[str, bytes]:
    """Return the log's files as they are at one moment, its key too: for a backup."""
    with _locked() as (folder, _):
        return {name: _bytes(folder / name) for name in _FILES}


def log_mark() -> str:
    """Return a text that changes whenever the log's files do, for caches; raises as `entries`."""
    with _locked() as (folder, _):
        states = [(folder / name).stat() for name in _FILES if (folder / name).exists()]
    return repr([(one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in states])


@contextmanager
def _locked() -> Iterator[tuple[Path, bytes]]:
    """Give the log's directory, locked against other processes and threads, and its key."""
    folder = data_home() / "access"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        lock = taken(folder / _LOCK, waits=True)
        assert lock is not None
        with lock:
            if not (folder / _KEY).exists():
                is_new = not (folder / _LOG).exists()
                key = secrets.token_bytes(_N_KEY_BYTES)
                _write(folder / _KEY, key)
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


def _sealed(fields: Mapping[str, Any], *, what: str, key: bytes) -> bytes:
    """Return fields as a line without its line break, with the MAC of all the others."""
    others = {name: value for name, value in fields.items() if name != "mac"}
    mac = hmac.new(key, what.encode() + b":" + canonical_json(others), hashlib.sha256)
    return canonical_json(others | {"mac": mac.hexdigest()})


def _read_line(line: bytes) -> LogEntry | None:
    try:
        return LogEntry.read(line, where=_LOG)
    except AuditError:
        return None


def _read_head(folder: Path, *, key: bytes) -> Head | None:
    """Return the head; None where there is none that is sealed with this key."""
    data = _bytes(folder / _HEAD)
    try:
        fields = json.loads(data)
        is_sealed = data == _sealed(fields, what="head", key=key) + b"\n"
        return Head(fields["n_lines"], fields["n_bytes"], fields["last"]) if is_sealed else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _write_head(folder: Path, head: Head, *, key: bytes) -> None:
    _write(folder / _HEAD, _sealed(head._asdict(), what="head", key=key) + b"\n")


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _write(path: Path, data: bytes) -> None:
    with whole_file(path) as file:
        file.write(data)
