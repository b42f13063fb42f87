"""The headings of a file of notes, read before it is known which column is which.

Comes in: a path. Goes out: headings, and which of them the reader of notes would take for what.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from audit.corpora.note_records import CsvRecords, Record, json_records
from audit.corpora.note_streams import encoding_of, head_of, lines_of, regular_size
from audit.corpora.notes import FIELDS, open_notes
from audit.errors import AuditError

_PARQUET = b"PAR1"


def headings_of(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return (kind, headings) of a file; of JSONL the keys in its first megabyte.

    Raises
    ------
    AuditError
        If the file cannot be read.
    """
    regular_size(path, what="notes")
    head = head_of(path, what="notes")
    if head.startswith(_PARQUET):
        return "parquet", _parquet_headings(path)
    lines = lines_of(iter([head]), codec=encoding_of(head, what="notes"))
    if not head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return "csv", CsvRecords(lines, what="notes").header
    names: dict[str, None] = {}
    for record in json_records(lines):
        if isinstance(record, Record):
            names.update(dict.fromkeys(record.cells))
    return "jsonl", tuple(names)


def columns_taken(path: Path, *, headings: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return field of a note -> headings that are taken for it, as `open_notes` takes them."""
    try:
        return open_notes(path).columns
    except AuditError:
        # No column of texts: any column in its place shows what the others would be.
        taken = dict(open_notes(path, columns={"text": headings[0]}).columns)
        return {field: taken[field] if field != "text" else () for field in FIELDS}


def _parquet_headings(path: Path) -> tuple[str, ...]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
        return tuple(str(name) for name in parquet.read_schema(path).names)
    except ImportError:
        raise AuditError(
            "Parquet needs the package pyarrow, which is not installed.",
            where="notes",
            do="Install it, or save the notes as CSV or JSONL.",
        ) from None
    except (OSError, ValueError):
        raise AuditError("The Parquet file is damaged.", where="notes") from None
