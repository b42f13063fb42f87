"""The rows of a source in batches, and how far a tagging run is with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from audit.corpora.note_streams import ByteListener
from audit.corpora.notes import Note
from audit.errors import AuditCancelled
from audit.progress import Meter, Progress, ProgressListener, StopQuestion
from audit.tables import RowNote

TAGGING = "tagging the notes"
Rows = Sequence[Note | RowNote]


class RowSource(Protocol):
    """Where notes come from: `NoteSource`, or `AnnotatedNotes`."""

    @property
    def kind(self) -> str:
        """What sort of file or folder it is."""

    @property
    def n_bytes(self) -> int:
        """Of the file or files."""

    def read(self, *, on_bytes: ByteListener = ...) -> Iterator[Note | RowNote]:
        """Go through the notes and the refusals, each time in the same order."""


@dataclass(frozen=True)
class BatchLimit:
    """When a batch is full: so many rows, or so many characters."""

    n_rows: int
    n_chars: int


class RowMeter:
    """Counts rows that are done by their characters, and within a batch as far as a tagger tells.

    Parameters
    ----------
    n_units
        Of all rows, as `source_size` gives them.
    """

    def __init__(self, n_units: int, progress: ProgressListener, should_stop: StopQuestion) -> None:
        self._meter = Meter({TAGGING: float(n_units)}, listener=progress, should_stop=should_stop)
        self._units = self._done = 0.0

    def sign(self, n_bytes: int) -> None:
        """Give a sign that the source is read; a person may stop there."""
        self._meter.add(TAGGING, 0.0)

    def begin(self, rows: Rows) -> None:
        """Begin a batch."""
        self._units, self._done = float(sum(map(_units, rows))), 0.0

    def share(self, share: float) -> None:
        """Count a batch up to a share of it, 0-1; less than was told before counts nothing."""
        units = min(1.0, share) * self._units - self._done
        if units > 0:
            self._done += units
            self._meter.add(TAGGING, units)

    def end(self, *, is_cached: bool = False) -> None:
        """Count the rest of a batch."""
        self._meter.add(TAGGING, self._units - self._done, is_cached=is_cached)
        self._units = self._done = 0.0

    def finish(self) -> None:
        """Count what is left of all."""
        self._meter.finish(TAGGING)


def source_size(source: RowSource, progress: ProgressListener, should_stop: StopQuestion) -> int:
    """Return the units of a source by reading it once: a file tells its bytes by the megabyte only.

    Raises
    ------
    AuditError
        If the source cannot be read to its end.
    AuditCancelled
        If the person asked to stop.
    """
    progress(Progress(TAGGING, 0.0, 1.0, None))
    n_units = 0

    def on_bytes(n: int) -> None:
        if should_stop():
            raise AuditCancelled

    for row in source.read(on_bytes=on_bytes):
        n_units += _units(row)
    return n_units


def batches_of(source: RowSource, meter: RowMeter, *, limit: BatchLimit) -> Iterator[Rows]:
    """Yield rows in batches whose borders depend on the rows alone."""
    rows: list[Note | RowNote] = []
    n_chars = 0
    for row in source.read(on_bytes=meter.sign):
        rows.append(row)
        n_chars += len(row.text) if isinstance(row, Note) else 0
        if n_chars >= limit.n_chars or len(rows) >= limit.n_rows:
            yield rows
            rows, n_chars = [], 0
    if rows:
        yield rows


def _units(row: Note | RowNote) -> int:
    return 1 + (len(row.text) if isinstance(row, Note) else 0)
