"""The notes of a corpus as a stream of lines: what stands in D_private, in D_public, and the truth.

Comes in: the folder of a corpus. Goes out: the three lines of each note, still as bytes, so that
other processes can read them; and what they say as a `NotePair`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit.corpora.build_summary import PRIVATE, PUBLIC, TRUTH
from audit.corpora.mention_truth import NotePair, pair_from_register, pair_from_truth
from audit.errors import AuditError

CANARY = "canary"
"""Role of a planted name; the person is "canary:ROW", the row of the list of canaries."""

_ROW = re.compile(rb'\{"row": (\d+)')
_BATCH_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class NoteLines:
    """One note of a corpus: `index` counts from 0; `truth` is empty where nothing was replaced."""

    index: int
    private: bytes
    public: bytes
    truth: bytes

    @property
    def n_bytes(self) -> int:
        """Of all three lines."""
        return len(self.private) + len(self.public) + len(self.truth)


def note_lines(folder: Path, *, on_bytes: Callable[[int], None]) -> Iterator[NoteLines]:
    """Go through the notes of a corpus; `on_bytes` is told the bytes of each.

    Raises
    ------
    AuditError
        If the files do not belong together.
    """
    with (
        (folder / PRIVATE).open("rb") as private,
        (folder / PUBLIC).open("rb") as public,
        (folder / TRUTH).open("rb") as truth,
    ):
        known = truth.readline()
        for index, line in enumerate(private):
            other, row = public.readline(), row_of(line)
            if row_of(other) != row:
                raise _mixed()
            is_known = bool(known) and row_of(known) == row
            found = NoteLines(index, line, other, known if is_known else b"")
            yield found
            on_bytes(found.n_bytes)
            if is_known:
                known = truth.readline()
        if known or public.readline():
            raise _mixed()


def batches(lines: Iterable[NoteLines]) -> Iterator[tuple[NoteLines, ...]]:
    """Put notes together to about a megabyte."""
    found: list[NoteLines] = []
    n_bytes = 0
    for line in lines:
        found.append(line)
        n_bytes += line.n_bytes
        if n_bytes >= _BATCH_BYTES:
            yield tuple(found)
            found, n_bytes = [], 0
    if found:
        yield tuple(found)


def text_lines(path: Path, *, on_bytes: Callable[[int], None]) -> Iterator[tuple[bytes, ...]]:
    """Go through the lines of one file in batches of about a megabyte."""
    found: list[bytes] = []
    n_bytes = 0
    with path.open("rb") as file:
        for line in file:
            found.append(line)
            n_bytes += len(line)
            if n_bytes >= _BATCH_BYTES:
                yield tuple(found)
                on_bytes(n_bytes)
                found, n_bytes = [], 0
    if found:
        yield tuple(found)
        on_bytes(n_bytes)


def corpus_bytes(folder: Path) -> int:
    """Return the bytes of the three files of lines."""
    return sum((folder / name).stat().st_size for name in (PRIVATE, PUBLIC, TRUTH))


def row_of(line: bytes) -> int:
    """Return the number of the row that a line is about; -1 where it names none."""
    match = _ROW.match(line)
    return int(match[1]) if match else -1


def note_pair(
    private: dict[str, Any], public: dict[str, Any], truth: dict[str, Any] | None, *, kind: str
) -> NotePair:
    """Return a note of a corpus of one of `KINDS` with what is known about it."""
    texts = {"private": str(private["text"]), "public": str(public["text"])}
    note_id = str(private["row"])
    if kind == "dummy":
        return pair_from_truth(truth or {}, note_id=note_id, **texts)
    pair = pair_from_register(truth, note_id=note_id, **texts)
    if not any(name.person.startswith(f"{CANARY}:") for name in pair.names or ()):
        return pair
    names = tuple(
        replace(name, role=CANARY) if name.person.startswith(f"{CANARY}:") else name
        for name in pair.names or ()
    )
    return replace(pair, names=names)


def read_line(line: bytes) -> dict[str, Any]:
    """Return what a line says."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise _mixed()
    return found


def _mixed() -> AuditError:
    return AuditError(
        "The files of the corpus do not belong together.",
        where="corpus",
        do="Build the corpus again.",
    )
