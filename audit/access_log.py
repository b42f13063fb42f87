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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.errors import AuditError
from audit.home import data_home
from audit.shelf import now, taken, whole_file

START = "0" * 64
"""What the first line says of the line before it."""
BROKEN = "f" * 64
"""What a line says of the line before it if that one cannot be trusted: it fits no line."""
_SEAL = re.compile("([0-9]{1,15})-([0-9a-f]{64})")
_FIELDS = frozenset(("number", "at", "who", "action", "audit", "counts", "previous", "mac"))


@dataclass(frozen=True)
class LogEntry:
    """One line: `at` is UTC in ISO 8601, `audit` the first 12 digits of a digest or ""."""

    number: int
    at: str
    who: str
    action: str
    audit: str
    counts: tuple[tuple[str, int | str], ...]


@dataclass(frozen=True)
class Verification:
    """Whether the log is as it was written.

    Attributes
    ----------
    first_bad_line
        Number, in the file, of the first line that does not fit; None if every line that is there
        does.
    reason
        A code: "" (intact), "changed", "order", "missing", "head", "seal", "unfinished".
    """

    n_lines: int
    is_intact: bool
    first_bad_line: int | None
    reason: str


@dataclass(frozen=True)
class Head:
    """How far the log is: its lines, their bytes, the MAC of the last."""

    n_lines: int
    n_bytes: int
    last: str


EMPTY = Head(0, 0, START)


@dataclass(frozen=True)
class Seal:
    """What a log held once, to be kept elsewhere: the number of its last line, and that one's MAC.

    The MAC covers every line before it; without the key nobody makes one, and with it nobody makes
    other lines that have the same.
    """

    n_lines: int
    last: str

    def __str__(self) -> str:
        """Return it as it is printed and given back."""
        return f"{self.n_lines}-{self.last}"


def read_seal(text: str) -> Seal | None:
    """Return a seal as `str` wrote it; None where it is none."""
    read = _SEAL.fullmatch(text.strip())
    return Seal(int(read[1]), read[2]) if read else None


@dataclass(frozen=True)
class Place:
    """Where the next line goes; `n_bytes` None: something before is wrong and stays as it is."""

    number: int
    previous: str
    n_bytes: int | None


def sealed_line(entry: LogEntry, *, place: Place, key: bytes) -> tuple[bytes, str]:
    """Return an entry as the line of a place, without its line break, and its MAC."""
    fields: dict[str, Any] = {
        **vars(entry),
        "number": place.number,
        "counts": dict(entry.counts),
        "previous": place.previous,
    }
    fields["mac"] = _mac(fields, what="line", key=key)
    return _canonical(fields), fields["mac"]


def sealed_head(head: Head, *, key: bytes) -> bytes:
    """Return the head as the bytes of its file."""
    return _canonical({**vars(head), "mac": _mac(vars(head), what="head", key=key)}) + b"\n"


def read_head(data: bytes, *, key: bytes) -> Head | None:
    """Return the head; None where it is not sealed with this key."""
    try:
        fields = json.loads(data)
        head = Head(int(fields["n_lines"]), int(fields["n_bytes"]), str(fields["last"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return head if data == sealed_head(head, key=key) else None


def next_place(tail: bytes | None, *, head: Head | None, key: bytes) -> Place:
    """Return where the next line goes.

    `tail` is what stands behind the lines that the head counts: nothing, or lines whose head was
    not written any more, or half a line whose writing never returned; None if these lines are not
    all there.
    """
    if head is None:
        return Place(1, BROKEN, None)
    if tail is None:
        return Place(head.n_lines + 1, BROKEN, None)
    number, previous, n_bytes = head.n_lines, head.last, head.n_bytes
    for line in tail.split(b"\n")[:-1]:
        fields = _fields(line)
        if fields is None or _misfit(fields, line, number=number + 1, previous=previous, key=key):
            return Place(number + 1, BROKEN, None)
        number, previous, n_bytes = number + 1, fields["mac"], n_bytes + len(line) + 1
    return Place(number + 1, previous, n_bytes)


def verified(
    data: bytes, *, head: Head | None, key: bytes, seal: Seal | None = None
) -> Verification:
    """Return whether a whole log is as it was written, and still holds what a seal says it held."""
    *lines, rest = data.split(b"\n")
    previous, n_bytes, places = START, 0, {0: (0, START)}
    for number, line in enumerate(lines, start=1):
        fields = _fields(line)
        if fields is None:
            return Verification(len(lines), False, number, "changed")
        if why := _misfit(fields, line, number=number, previous=previous, key=key):
            return Verification(len(lines), False, number, why)
        previous, n_bytes = fields["mac"], n_bytes + len(line) + 1
        places[number] = (n_bytes, previous)
    n = len(lines)
    if head is None:
        return Verification(n, False, None, "head")
    if head.n_lines > n:
        return Verification(n, False, None, "missing")
    if places[head.n_lines] != (head.n_bytes, head.last):
        return Verification(n, False, None, "head")
    if seal is not None and places.get(seal.n_lines, (0, ""))[1] != seal.last:
        return Verification(n, False, None, "seal")
    if rest:
        return Verification(n, False, n + 1, "unfinished")
    return Verification(n, True, None, "")


def newest_entries(data: bytes, *, limit: int | None, audit: str = "") -> tuple[LogEntry, ...]:
    """Return the newest lines first, of one audit (12 digits) or of all; not verified."""
    wanted = f'"audit":"{audit}"'.encode() if audit else b""
    found: list[LogEntry] = []
    for line in reversed(data.split(b"\n")):
        if limit is not None and len(found) >= limit:
            break
        fields = _fields(line) if line and wanted in line else None
        if fields is not None and (not audit or fields["audit"] == audit):
            found.append(_entry(fields))
    return tuple(found)


def _misfit(
    fields: Mapping[str, Any], line: bytes, *, number: int, previous: str, key: bytes
) -> str:
    """Return why a line does not fit here, or ""."""
    mac = _mac(fields, what="line", key=key)
    if line != _canonical(fields) or not hmac.compare_digest(
        str(fields["mac"]).encode(), mac.encode()
    ):
        return "changed"
    return "" if (fields["number"], fields["previous"]) == (number, previous) else "order"


def _fields(line: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_entry = isinstance(fields, dict) and fields.keys() == _FIELDS
    return fields if is_entry and isinstance(fields["counts"], dict) else None


def _entry(fields: Mapping[str, Any]) -> LogEntry:
    counts = tuple(
        (str(k), v if isinstance(v, int) else str(v)) for k, v in fields["counts"].items()
    )
    return LogEntry(
        number=fields["number"] if isinstance(fields["number"], int) else 0,
        at=str(fields["at"]),
        who=str(fields["who"]),
        action=str(fields["action"]),
        audit=str(fields["audit"]),
        counts=counts,
    )


def _mac(fields: Mapping[str, Any], *, what: str, key: bytes) -> str:
    sealed = {name: value for name, value in fields.items() if name != "mac"}
    return hmac.new(key, what.encode() + b":" + _canonical(sealed), hashlib.sha256).hexdigest()


def _canonical(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


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
    """
    checked = _checked(action, audit, counts)
    person = "".join(c if c.isprintable() else " " for c in who).strip()[:_MAX_WHO_CHARS]
    entry = LogEntry(0, now(), person or account(), action, audit[:12], checked)
    try:
        with _locked_folder() as folder:
            return _append(entry, folder=folder)
    except OSError as error:
        raise AuditError(
            f"The access log cannot be written ({error.strerror}).",
            do="Make room in the data directory, and let this account write there.",
        ) from None


def log_seal() -> str:
    """Return what the log holds now, as a text to be kept where this account cannot write."""
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
    flags = os.O_APPEND | os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as handle:
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
    lock = taken(folder / _LOCK, waits=True)
    assert lock is not None
    with lock:
        if not (folder / _KEY).exists():
            is_new = not (folder / _LOG).exists()
            _replace(folder / _KEY, secrets.token_bytes(_N_KEY_BYTES))
            if is_new:
                _replace(folder / _HEAD, sealed_head(EMPTY, key=_key(folder)))
        yield folder


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
    with whole_file(path) as file:
        file.write(data)


def _unreadable(error: OSError) -> AuditError:
    return AuditError(
        f"The access log cannot be read ({error.strerror}).",
        do="Give the data directory back to this account.",
    )
