"""The access log's chain: lines as sealed bytes, what follows a line, and whether all of it fits.

Comes in: bytes and a key. Goes out: bytes and frozen values; no file is touched here. A line is
canonical JSON with the HMAC-SHA-256 (RFC 2104) of the line before it and its own. The head is
sealed too and says how many lines there are, so that a cut tail is seen. Its seal, kept elsewhere,
shows what neither can: that both were put back to an older state. Torch-free.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
