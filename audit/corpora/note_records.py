"""Records of a file of notes, one by one: CSV that finds its feet again after a broken row, JSONL.

Comes in: lines. Goes out: cells with the row's number, or the number and the reason why a row was
refused; what a refusal says never quotes the row.
"""

from __future__ import annotations

import csv
import math
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from audit.corpora.note_streams import MAX_LINE_CHARS, is_whole
from audit.errors import AuditError
from audit.foreign import json_value
from audit.tables import MAX_COLUMNS, MAX_FIELD_CHARS, MAX_HEADER_BYTES, RowNote

MAX_RECORD_CHARS = 4 * MAX_FIELD_CHARS
# Lines that a broken row had swallowed are read again; a file made of broken quotes may not turn
# that into work without end.
_REREAD_SHARE = 2
_REREAD_CHARS = 64_000_000

_BROKEN = "A quote is opened and not closed well, or the row is longer than 1 MB"


@dataclass(frozen=True, slots=True)
class Record:
    """One row: its number (the header is row 1) and its cells."""

    row: int
    cells: tuple[str, ...] | Mapping[str, str]


class CsvRecords:
    """The rows of a CSV file.

    A row that cannot be parsed gives up its first line only: the others are read again, so that
    good rows which an open quote had swallowed are found. What lies between is one refusal with the
    numbers of its lines.

    Parameters
    ----------
    lines
        With their line ends.
    what
        What to call the file in messages.

    Raises
    ------
    AuditError
        If the header cannot be read.
    """

    def __init__(self, lines: Iterator[str], *, what: str) -> None:
        csv.field_size_limit(max(csv.field_size_limit(), MAX_FIELD_CHARS))
        self._lines = lines
        self._queue: deque[str] = deque()
        self._taken: list[str] = []
        self._n_lines = self._n_chars = self._n_read = self._n_reread = 0
        first = next(lines, "")
        if len(first.encode("utf-8", "surrogatepass")) > MAX_HEADER_BYTES:
            raise AuditError("The header is longer than 64 KB.", where=f"{what}, row 1")
        self._delimiter = _delimiter(first)
        self._queue.append(first)
        self._reader = self._new_reader()
        self.header = self._header(what=what)

    def __iter__(self) -> Iterator[Record | RowNote]:
        """Go through the rows after the header."""
        row, broken_at = 1, 0
        while True:
            start = self._n_lines + 1
            cells = self._next()
            if isinstance(cells, tuple):
                break
            is_good = cells is not None and len(cells) == len(self.header)
            if broken_at and not is_good:
                continue
            if broken_at:
                yield _broken(row, broken_at, start - 1)
                broken_at = 0
            row += 1
            if cells is None:
                broken_at = start
            elif cells != [""]:
                yield self._checked(row, cells)
        if broken_at:
            yield _broken(row, broken_at, self._n_lines)

    def _next(self) -> list[str] | tuple[()] | None:
        # An empty line is [""]; the end is (); a row that cannot be parsed is None.
        self._taken.clear()
        self._n_chars = 0
        try:
            return next(self._reader) or [""]
        except StopIteration:
            return ()
        except csv.Error:
            self._give_back()
            self._reader = self._new_reader()
            return None

    def _checked(self, row: int, cells: list[str]) -> Record | RowNote:
        if len(cells) != len(self.header):
            return RowNote(
                row, f"The row has {len(cells)} cells where the header has {len(self.header)}."
            )
        if max(map(len, cells)) > MAX_FIELD_CHARS:
            return RowNote(row, "A cell is longer than 1 MB.")
        if not all(map(is_whole, cells)):
            return RowNote(row, "The row holds a NUL character or bytes outside its encoding.")
        return Record(row, tuple(cells))

    def _header(self, *, what: str) -> tuple[str, ...]:
        cells = self._next()
        header = tuple(name.strip() for name in cells or ())
        if not any(header):
            raise AuditError("The first row does not name the columns.", where=f"{what}, row 1")
        if len(header) > MAX_COLUMNS:
            raise AuditError(f"There are more than {MAX_COLUMNS} columns.", where=f"{what}, row 1")
        return header

    def _new_reader(self) -> Iterator[list[str]]:
        return csv.reader(self._feed(), delimiter=self._delimiter, strict=True)

    def _feed(self) -> Iterator[str]:
        while True:
            line = self._queue.popleft() if self._queue else next(self._lines, None)
            if line is None:
                return
            self._n_lines += 1
            self._n_chars += len(line)
            self._n_read += len(line)
            self._taken.append(line)
            if self._n_chars > MAX_RECORD_CHARS:
                raise csv.Error
            yield line

    def _give_back(self) -> None:
        again = self._taken[1:]
        n_chars = sum(map(len, again))
        self._n_reread += n_chars
        if self._n_reread > _REREAD_CHARS + self._n_read // _REREAD_SHARE:
            return
        self._queue.extendleft(reversed(again))
        self._n_lines -= len(again)


def _broken(row: int, first: int, last: int) -> RowNote:
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    return RowNote(row, f"{_BROKEN}; {lines} left out.")


def _delimiter(first_line: str) -> str:
    unquoted = re.sub('"[^"]*"', "", first_line)
    return max(",;\t", key=unquoted.count)


def json_records(lines: Iterator[str]) -> Iterator[Record | RowNote]:
    """Go through the objects of a JSONL file; numbers become text, other values are left out."""
    for row, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        yield _json_record(line, row=row)


def _number_text(written: str) -> str | None:
    if written.lstrip("-").isdecimal():
        return written
    value = float(written)
    if not math.isfinite(value):
        return written if "e" in written.lower() else None
    return f"{value:.0f}" if value.is_integer() else str(value)


def _json_record(line: str, *, row: int) -> Record | RowNote:
    if len(line) > MAX_LINE_CHARS:
        return RowNote(row, "The line is too long.")
    try:
        found = json_value(line, refusal=AuditError("The line is not JSON."), number=_number_text)
    except AuditError:
        return RowNote(row, "The line is not JSON.")
    if not isinstance(found, dict):
        return RowNote(row, "The line is not a JSON object.")
    cells: dict[str, str] = {}
    for key, value in found.items():
        if isinstance(value, str):
            cells[key] = value
    if any(len(cell) > MAX_FIELD_CHARS for cell in cells.values()):
        return RowNote(row, "A text is longer than 1 MB.")
    if not all(map(is_whole, cells.values())):
        return RowNote(row, "The line holds a NUL or half a character.")
    return Record(row, cells)
