"""The two sides of a score as files of one shape: labels mapped, notes tagged.

Comes in: files of notes, or a tagger. Goes out: JSONL files in the folder in which a score is made,
and what was noticed on the way. Tagging that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from audit.deid.documents import TaggedDocument
from audit.deid.format_jsonl import jsonl_line, read_line
from audit.deid.generation.copies import CopyingTagger
from audit.deid.labels import LabelMap, relabelled
from audit.deid.pair_files import GOLD, MAX_LINE_BYTES
from audit.deid.tag_files import COPIES
from audit.deid.tagger import Tagger, tag_checked
from audit.errors import AuditError
from audit.progress import StopQuestion

GOLD_FILE, PREDICTED_FILE, VERBATIM_FILE = "gold.jsonl", "predicted.jsonl", "verbatim.jsonl"
_BATCH_NOTES, _BATCH_CHARS = 32, 100_000
OnBytes = Callable[[int], None]


@dataclass
class Noticed:
    """What was seen while the sides were read.

    Attributes
    ----------
    unknown
        Labels that the map does not know; they were kept.
    n_left_out
        Spans whose label the map leaves out.
    n_duplicates
        Spans that were given twice in one note.
    """

    unknown: set[str] = field(default_factory=set)
    n_left_out: int = 0
    n_duplicates: int = 0


def notes_of(path: Path, *, what: str, on_bytes: OnBytes) -> Iterator[TaggedDocument]:
    """Yield the notes of a JSONL file, one in memory at a time.

    Raises
    ------
    AuditError
        If the file or a line cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
                where = f"{what}, line {number}"
                if len(line) > MAX_LINE_BYTES:
                    raise AuditError("This line is longer than 50 MB.", where=where)
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError:
                    raise AuditError(
                        "This line is not UTF-8.", where=where, do="Save the file as UTF-8."
                    ) from None
                if text.strip():
                    yield read_line(text, what=what, number=number)
                on_bytes(len(line))
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where=what) from None


def write_notes(
    notes: Iterable[TaggedDocument], path: Path, *, by: LabelMap | None, noticed: Noticed
) -> str:
    """Write notes with their labels mapped; return the digest of them all, in any order."""
    digests = []
    with private_file(path) as file:
        for given in notes:
            note = given
            noticed.n_duplicates += note.n_duplicates
            if by is not None:
                mapped = relabelled(note, by=by)
                noticed.unknown |= set(mapped.unknown)
                noticed.n_left_out += mapped.n_left_out
                noticed.n_duplicates += mapped.document.n_duplicates
                note = mapped.document
            line = jsonl_line(note).encode("utf-8", "surrogatepass")
            digests.append(hashlib.sha256(line).digest())
            file.write(line)
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def write_tagged(
    gold: Path, folder: Path, *, tagger: Tagger, on_bytes: OnBytes, should_stop: StopQuestion
) -> None:
    """Write what a tagger says of the gold's texts; what a run before has written stays.

    Batches depend on the notes alone, so that a run which goes on asks the same. Of a tagger that
    writes copies of the notes, how faithful each one is goes into `copies.jsonl`.
    """
    path, copies = folder / PREDICTED_FILE, folder / COPIES
    is_copying = isinstance(tagger, CopyingTagger)
    n_done = _whole_lines(path)
    if is_copying:
        n_done = min(n_done, _whole_lines(copies))
        for grown in (path, copies):
            _whole_lines(grown, at_most=n_done)
    n_seen = 0
    for batch, n_bytes in _batches(gold, n_notes=_n_at_once(tagger)):
        n_seen += len(batch)
        skip = max(0, n_done - (n_seen - len(batch)))
        if skip < len(batch):
            found, lines = _asked(tagger, batch, should_stop=should_stop)
            if is_copying:
                _append(copies, lines[skip:])
            _append(path, [jsonl_line(note) for note in found[skip:]])
        on_bytes(n_bytes)


def _asked(
    tagger: Tagger, notes: Sequence[TaggedDocument], *, should_stop: StopQuestion
) -> tuple[list[TaggedDocument], list[str]]:
    """Return the notes with a tagger's spans, and a line of each copy where it writes copies."""
    if isinstance(tagger, CopyingTagger):
        found = tagger.read(notes, should_stop=should_stop)
        lines = [json.dumps(one.line(), ensure_ascii=False) + "\n" for one in found]
        return [one.document for one in found], lines
    tags = tag_checked(tagger, [note.text for note in notes])
    return [note.with_spans(spans) for note, spans in zip(notes, tags, strict=True)], []


def _n_at_once(tagger: Tagger) -> int:
    return tagger.n_notes_at_once if isinstance(tagger, CopyingTagger) else _BATCH_NOTES


def _append(path: Path, lines: Sequence[str]) -> None:
    with path.open("ab") as file:
        path.chmod(0o600)
        file.write("".join(lines).encode("utf-8", "surrogatepass"))


def _batches(gold: Path, *, n_notes: int) -> Iterator[tuple[list[TaggedDocument], int]]:
    batch: list[TaggedDocument] = []
    n_chars = n_bytes = 0

    def count(n: int) -> None:
        nonlocal n_bytes
        n_bytes += n

    for note in notes_of(gold, what=GOLD, on_bytes=count):
        batch.append(note)
        n_chars += len(note.text)
        if len(batch) >= n_notes or n_chars >= _BATCH_CHARS:
            yield batch, n_bytes
            batch, n_chars, n_bytes = [], 0, 0
    if batch:
        yield batch, n_bytes


def _whole_lines(path: Path, *, at_most: int | None = None) -> int:
    """Return how many lines an earlier run has written; what is behind them is cut off."""
    if not path.is_file():
        return 0
    n_lines = at = 0
    with path.open("rb+") as file:
        for line in file:
            if n_lines == at_most or not line.endswith(b"\n") or not _is_json(line):
                break
            n_lines += 1
            at += len(line)
        file.truncate(at)
    return n_lines


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def private_file(path: Path) -> BinaryIO:
    """Return a new file for its owner alone, in the place of one that may be there."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(descriptor, "wb", buffering=1 << 20)
