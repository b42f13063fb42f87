"""Corrections that are kept in a tagged set: `corrections.jsonl`, each with who made it and when.

Nothing is ever taken out of the file: to undo a correction is a line of its own. Comes in: spans
that a person took away or added. Goes out: the corrections that hold, by note.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from audit.deid.corrections import Correction
from audit.deid.documents import Span
from audit.deid.kept_tagged import TaggedSet
from audit.errors import AuditError
from audit.private_files import write_whole

CORRECTIONS = "corrections.jsonl"
MAX_LINES = 50_000
_UNDONE = "undone"
_WHERE = "corrections"
ByNote = Mapping[int, tuple[Correction, ...]]
"""Number of a note -> its corrections, in the order in which they were made; none is empty."""


def now() -> str:
    """Return the moment as an ISO time stamp in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def corrections_of(tagged: TaggedSet) -> ByNote:
    """Return the corrections of a set that hold.

    Raises
    ------
    AuditError
        If they cannot be read: without them, what a person marked would be handed out.
    """
    try:
        return _holding(_data(tagged))
    except (ValueError, KeyError, TypeError, IndexError):
        raise AuditError("The corrections are damaged.", where=_WHERE) from None


def corrections_stamp(tagged: TaggedSet) -> tuple[int, int]:
    """Return what changes with every correction of a set: the file's size and time."""
    try:
        found = (tagged.path / CORRECTIONS).stat()
    except OSError:
        return (0, 0)
    return (found.st_size, found.st_mtime_ns)


def keep_correction(tagged: TaggedSet, correction: Correction) -> None:
    """Add a correction; it is on the disk when this returns.

    Raises
    ------
    AuditError
        If it cannot be written, or there are too many.
    """
    if correction.number >= tagged.n_notes:
        raise ValueError("no such note")
    line = {
        "number": correction.number,
        "kind": correction.kind,
        "spans": [[span.start, span.end, span.label] for span in correction.spans],
        "who": correction.who,
        "at": correction.at,
    }
    _append(tagged, line)


def undo_correction(tagged: TaggedSet, number: int, *, who: str) -> None:
    """Take back the last correction of a note that holds; nothing happens where there is none.

    Raises
    ------
    AuditError
        If it cannot be written.
    """
    _append(tagged, {"number": number, "kind": _UNDONE, "who": who, "at": now()})


def _append(tagged: TaggedSet, line: Mapping[str, Any]) -> None:
    with _alone(tagged):
        data = _data(tagged)
        if data.count(b"\n") >= MAX_LINES:
            raise AuditError(
                f"These notes have {MAX_LINES:,} corrections; there is room for no more.",
                where=_WHERE,
            )
        text = json.dumps(line, ensure_ascii=False) + "\n"
        write_whole(tagged.path / CORRECTIONS, data + text.encode())


def _holding(data: bytes) -> dict[int, tuple[Correction, ...]]:
    found: dict[int, list[Correction]] = {}
    for line in data.splitlines():
        record = json.loads(line)
        number = int(record["number"])
        if record["kind"] == _UNDONE:
            if found.get(number):
                found[number].pop()
            continue
        spans = tuple(Span(int(s), int(e), str(label)) for s, e, label in record["spans"])
        one = Correction(number, str(record["kind"]), spans, str(record["who"]), str(record["at"]))
        found.setdefault(number, []).append(one)
    return {number: tuple(ones) for number, ones in sorted(found.items()) if ones}


def _data(tagged: TaggedSet) -> bytes:
    try:
        return (tagged.path / CORRECTIONS).read_bytes()
    except FileNotFoundError:
        return b""
    except OSError:
        raise AuditError("The corrections are damaged.", where=_WHERE) from None


@contextmanager
def _alone(tagged: TaggedSet) -> Iterator[None]:
    """Hold the set's folder while a line is added: two windows may correct the same notes."""
    try:
        descriptor = os.open(tagged.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        raise AuditError("There are no such tagged notes here.", where="tagged notes") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
