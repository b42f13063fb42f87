"""The first sheet of an Excel workbook (.xlsx) as rows of text.

A workbook is a zip archive of XML, which openpyxl reads without bounds. So these functions are
called in a process with limits (`audit/models/limited.py`), never in one that serves pages. Every
cell is the value that was shown when the workbook was saved; formulas are not computed.
"""

from __future__ import annotations

import datetime
import importlib
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Protocol

from audit.errors import AuditError, Message
from audit.foreign import SAVE_AS_UTF8, is_zip, read_zip_members
from audit.tables import MAX_CELLS, MAX_COLUMNS, MAX_ROWS

SECONDS, MEMORY_BYTES = 60, 1_500_000_000
"""Limits of reading one workbook: processor time and memory."""
MAX_UNPACKED_BYTES = 100_000_000
_MAX_PARTS = 2_000
_SHEET_PART = re.compile(r"xl/worksheets/[^/]+\.xml", re.IGNORECASE)
# A text (t="str") may be empty.
_FORMULA_WITHOUT_VALUE = re.compile(
    rb'<(?:\w+:)?c(?![^<>]*\st="str")(?:\s[^<>]*)?>\s*'
    rb"<(?:\w+:)?f(?:\s[^<>]*)?(?:/>|>[^<>]*</(?:\w+:)?f>)\s*"
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)
_ERRORS = frozenset(("#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#DIV/0!"))

SheetRows = tuple[int, list[tuple[int, list[str]]]]
"""The number of visible sheets, and the rows of the first: number (as a spreadsheet shows it) and
cells. Empty rows are left out, except the first."""


def is_workbook(data: bytes) -> bool:
    """Whether bytes are read as a workbook; any zip archive is, and may be refused later."""
    return is_zip(data)


def read_sheet_rows(data: bytes, subject: str) -> SheetRows:
    """Read the first sheet of a workbook; messages call the file `subject`."""
    try:
        _check_parts(data, subject=subject)
        return _read_first_sheet(data, subject=subject)
    except MemoryError:
        raise make_size_refusal(subject) from None


def make_size_refusal(subject: str) -> AuditError:
    """Return the refusal of a workbook that reaches a limit."""
    return AuditError(
        "Reading the workbook takes too much time or memory.", where=subject, do=SAVE_AS_UTF8
    )


def _read_first_sheet(data: bytes, *, subject: str) -> SheetRows:
    try:
        workbook = importlib.import_module("openpyxl").load_workbook(
            BytesIO(data), read_only=True, data_only=True, keep_links=False
        )
        sheets = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
        rows = [row for row in _read_rows(sheets[0], subject=subject) if row[1] or row[0] == 1]
    except (AuditError, MemoryError):
        raise
    except Exception:  # noqa: BLE001  # no list of a parser's exceptions is complete
        raise AuditError(
            "This is no Excel workbook, or a damaged one.", where=subject, do=SAVE_AS_UTF8
        ) from None
    return len(sheets), rows


def _check_parts(data: bytes, *, subject: str) -> None:
    """Unpack every part within bounds; refuse formulas without a saved value."""
    try:
        for name, content in read_zip_members(
            data, place=subject, max_bytes=MAX_UNPACKED_BYTES, max_files=_MAX_PARTS
        ):
            if _SHEET_PART.fullmatch(name) and _FORMULA_WITHOUT_VALUE.search(content):
                raise AuditError(
                    "The workbook has formulas without their values.",
                    do="Open it in Excel and save it, or write values in place of formulas.",
                )
    except AuditError as error:
        raise AuditError(error.what, where=subject, do=error.do or SAVE_AS_UTF8) from None


CellValue = str | float | datetime.date | datetime.time | None


class _Sheet(Protocol):
    def reset_dimensions(self) -> None: ...

    def iter_rows(self, *, values_only: bool) -> Iterator[tuple[CellValue, ...]]: ...


def _read_rows(sheet: _Sheet, *, subject: str) -> Iterator[tuple[int, list[str]]]:
    """Yield number and cells of each row, without empty cells at its end."""
    n_cells = 0
    sheet.reset_dimensions()  # the size that a file states is not trusted
    for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
        cells = list(map(_cell_text, values))
        while cells and not cells[-1]:
            cells.pop()
        n_cells += len(cells)
        if number > MAX_ROWS or len(cells) > MAX_COLUMNS or n_cells > MAX_CELLS:
            raise AuditError(
                "The sheet has too many rows, columns or cells.", where=subject, do=SAVE_AS_UTF8
            )
        if not _ERRORS.isdisjoint(cells):
            raise AuditError(
                "A cell holds an error of the spreadsheet.",
                where=Message("{subject}, row {number}", subject=subject, number=number),
                do="Correct the formula, or write the value in its place.",
            )
        yield number, cells


def _cell_text(value: CellValue) -> str:
    """Return a cell as a CSV file would contain it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)
