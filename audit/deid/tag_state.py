"""The place of a tagging run: files that grow, and how far they are whole.

After every batch the lengths of the files are written down. A run that is taken up again cuts the
files to these lengths, so that what a kill left half written is gone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

from audit.corpora.build_files import clear_folder, locked_folder, refuse_full
from audit.deid.documents import TaggedDocument
from audit.deid.redact import Redacted
from audit.errors import AuditError

_STATE = "state.json"
_WHERE = "folder of tagged notes"


@dataclass
class TagCounts:
    """What was counted so far; all of it is plain JSON.

    Attributes
    ----------
    n_rows
        Rows of the source that are done, refused ones included.
    n_spans, n_span_chars
        By label.
    n_unchanged
        Replacements that are equal to what they replace.
    n_no_language
        Notes neither in Japanese nor in English.
    copies
        Of a tagger that writes copies: what `audit.deid.generation.copies` adds up.
    """

    n_rows: int = 0
    n_notes: int = 0
    n_refused: int = 0
    n_chars: int = 0
    n_notes_without: int = 0
    n_replaced: int = 0
    n_unchanged: int = 0
    n_no_language: int = 0
    n_spans: dict[str, int] = field(default_factory=dict)
    n_span_chars: dict[str, int] = field(default_factory=dict)
    copies: dict[str, float] = field(default_factory=dict)

    def add(self, document: TaggedDocument, redacted: Redacted) -> None:
        """Count a note and what was replaced in it; its row is counted with its batch."""
        self.n_notes += 1
        self.n_chars += len(document.text)
        self.n_notes_without += not document.spans
        self.n_replaced += len(redacted.replacements)
        self.n_unchanged += redacted.n_unchanged
        self.n_no_language += not redacted.language
        for span in document.spans:
            self.n_spans[span.label] = self.n_spans.get(span.label, 0) + 1
            self.n_span_chars[span.label] = self.n_span_chars.get(span.label, 0) + span.n_chars


@dataclass(frozen=True)
class Place:
    """How far a run is: what it is a run of, its counts, the rows' digest, the files' lengths."""

    settings: Mapping[str, str]
    counts: TagCounts
    rows_digest: str
    lengths: Mapping[str, int]


class GrowingFiles:
    """The files of a run, open for writing at the place where it stands."""

    def __init__(self, folder: Path, names: Sequence[str], place: Place | None) -> None:
        self.folder = folder
        self.place = place
        self._files: dict[str, BinaryIO] = {}
        for name in names:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            file = os.fdopen(os.open(folder / name, flags, 0o600), "r+b", buffering=1 << 20)
            length = place.lengths[name] if place else 0
            file.truncate(length)
            file.seek(length)
            self._files[name] = file

    def write(self, name: str, data: bytes) -> None:
        """Append bytes."""
        self._files[name].write(data)

    def keep(self, settings: Mapping[str, str], counts: TagCounts, *, rows_digest: str) -> None:
        """Write down that everything so far is whole."""
        lengths = {}
        for name, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            lengths[name] = file.tell()
        place = Place(settings, counts, rows_digest, lengths)
        partial = self.folder / f".{_STATE}"
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as state:
            state.write(json.dumps(asdict(place)).encode())
            state.flush()
            os.fsync(state.fileno())
        partial.replace(self.folder / _STATE)

    def close(self) -> None:
        """Close the files, what was written on the disk for good."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()


@contextmanager
def growing_folder(
    out: Path, *, names: Sequence[str], settings: Mapping[str, str]
) -> Iterator[GrowingFiles]:
    """Write the files of a new folder; it appears when the block ends well.

    What an interrupted block has written stays beside the place and is taken up by the next one,
    if that has the same settings; otherwise it is cleared.

    Raises
    ------
    AuditError
        If the folder holds something, is being written by somebody else, or cannot be written.
    """
    building = out.parent / f".{out.name}.tagging"
    lock = -1
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        refuse_full(out, where=_WHERE)
        lock = locked_folder(building, where=_WHERE)
        place = _place(building, names=names, settings=settings)
        if place is None:
            clear_folder(building)
        files = GrowingFiles(building, names, place)
        try:
            yield files
        finally:
            files.close()
        (building / _STATE).unlink()
        os.fsync(lock)
        refuse_full(out, where=_WHERE)
        building.rename(out)
    except OSError as error:
        raise AuditError(
            f"The folder cannot be written ({os.strerror(error.errno or 0)}).", where=_WHERE
        ) from None
    finally:
        if lock >= 0:
            os.close(lock)


def _place(folder: Path, *, names: Sequence[str], settings: Mapping[str, str]) -> Place | None:
    """Return where an interrupted run stands; None where there is none of this kind."""
    try:
        given = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        lengths = {name: int(given["lengths"][name]) for name in names}
        place = Place(
            given["settings"], TagCounts(**given["counts"]), given["rows_digest"], lengths
        )
        is_there = all((folder / name).stat().st_size >= lengths[name] for name in names)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return place if is_there and dict(place.settings) == dict(settings) else None
