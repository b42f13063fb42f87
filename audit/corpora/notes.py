"""Clinical notes as a stream: MIMIC-III, MIMIC-IV, CSV, JSONL, Parquet, or a folder of texts.

Comes in: a path. Goes out: notes one by one in bounded memory, and for every row that was refused
its number and the reason. A source can be read again and gives the same.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.corpora.note_records import CsvRecords, Record, json_records
from audit.corpora.note_streams import (
    ByteListener,
    blocks_of,
    encoding_of,
    head_of,
    is_whole,
    lines_of,
    regular_size,
)
from audit.errors import AuditError
from audit.foreign import refusing
from audit.tables import MAX_FIELD_CHARS, RowNote, heading_key

FIELDS = ("note_id", "patient_id", "admission_id", "category", "chart_time", "text")

# In the order in which they are taken where a table has several.
_HEADINGS: Mapping[str, Sequence[str]] = {
    "note_id": ("noteid", "rowid", "documentid", "docid", "id"),
    "patient_id": ("patientid", "subjectid", "患者id", "患者番号"),
    "admission_id": ("admissionid", "hadmid", "encounterid", "visitid"),
    "category": ("category", "notetype", "type"),
    "chart_time": ("charttime", "chartdate", "notedate", "date", "日付"),
    "text": ("text", "notetext", "note", "本文"),
}
_MAX_ID_CHARS = 200
_PARQUET = b"PAR1"
_PARQUET_ROWS = 64
_FORMAT = "Name the column of the notes `text`, or say which column it is."


@dataclass(frozen=True, slots=True)
class Note:
    """One note.

    Attributes
    ----------
    note_id
        As given, or the row's number.
    patient_id, admission_id, category, chart_time
        As given; "" where there is none.
    text
        As written, line ends included.
    row
        Number of the row (the header is row 1), of the line (JSONL), or of the file (folder, in
        the order of the paths). No two notes of a source have the same.
    """

    note_id: str
    patient_id: str
    admission_id: str
    category: str
    chart_time: str
    text: str
    row: int


@dataclass(frozen=True)
class NoteSource:
    """Where notes are read from, with what was found out about it before reading.

    Attributes
    ----------
    kind
        "csv", "jsonl", "parquet" or "folder".
    codec
        "utf-8-sig" or "cp932"; "" where it does not apply.
    columns
        Field of a note -> its columns in the order in which they are taken; empty for a folder.
    n_bytes
        Of the file or files, packed if they are packed.
    """

    path: Path
    kind: str
    codec: str
    columns: Mapping[str, tuple[str, ...]]
    n_bytes: int

    @property
    def name(self) -> str:
        """What to call the source in messages."""
        return "notes"

    def read(self, *, on_bytes: ByteListener = lambda n: None) -> Iterator[Note | RowNote]:
        """Go through the notes and the refusals in the source's order.

        Parameters
        ----------
        on_bytes
            Called with the bytes read since the last call.

        Raises
        ------
        AuditError
            If the source cannot be read to its end.
        """
        if self.kind == "folder":
            yield from _folder_notes(self.path, on_bytes=on_bytes)
            return
        if self.kind == "parquet":
            records = _parquet_records(self, on_bytes=on_bytes)
        else:
            blocks = blocks_of(self.path, what=self.name, on_bytes=on_bytes)
            lines = lines_of(blocks, codec=self.codec)
            records = json_records(lines) if self.kind == "jsonl" else _csv_records(self, lines)
        for record in records:
            yield record if isinstance(record, RowNote) else self._note(record)

    def _note(self, record: Record) -> Note | RowNote:
        cells = record.cells
        assert isinstance(cells, Mapping)
        found = {
            field: next((value for name in names if (value := cells.get(name, ""))), "")
            for field, names in self.columns.items()
        }
        return _checked_note(found, row=record.row)


def open_notes(path: Path, *, columns: Mapping[str, str] | None = None) -> NoteSource:
    """Find out what a path holds and which columns are which, without reading the notes.

    Parameters
    ----------
    path
        `NOTEEVENTS.csv`, `discharge.csv`, any CSV, JSONL or Parquet file with a column of texts
        (CSV and JSONL also as .gz), or a folder of .txt files: there a folder inside it is a
        patient, if there are any.
    columns
        Field of a note -> name of its column, for names that are not known.

    Raises
    ------
    AuditError
        If there is nothing readable, no column of texts, or a column named here that is not there.
    """
    columns = columns or {}
    if unknown := sorted(set(columns) - set(FIELDS)):
        raise AuditError(f"`{unknown[0]}` is no field of a note.", where="columns")
    if path.is_dir():
        n_bytes = sum(size for _, size in _text_files(path))
        if not n_bytes:
            raise AuditError("The folder holds no .txt files.", where="notes")
        return NoteSource(path, "folder", "", {}, n_bytes)
    n_bytes = regular_size(path, what="notes")
    head = head_of(path, what="notes")
    if head.startswith(_PARQUET):
        kind, codec, header = "parquet", "", _parquet_header(path)
    else:
        codec = encoding_of(head, what="notes")
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        kind = "jsonl" if start.startswith(b"{") else "csv"
        if kind == "csv" and path.suffix.lower() == ".txt":
            raise AuditError(
                "This is one text, not a table of notes.",
                where="notes",
                do="Give the folder that it lies in: each .txt there is a note.",
            )
        lines = lines_of(iter([head]), codec=codec)
        header = _json_header(lines) if kind == "jsonl" else CsvRecords(lines, what="notes").header
    return NoteSource(path, kind, codec, _columns(header, wanted=columns), n_bytes)


def _json_header(lines: Iterator[str]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for record in json_records(lines):
        if isinstance(record, Record):
            names.update(dict.fromkeys(record.cells))
    return tuple(names)


def _columns(header: Sequence[str], *, wanted: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    by_key: dict[str, list[str]] = {}
    for name in header:
        by_key.setdefault(heading_key(name), []).append(name)
    for field, headings in _HEADINGS.items():
        if field in wanted:
            if wanted[field] not in header:
                raise AuditError(f"There is no column for {field} of this name.", where="notes")
            found[field] = (wanted[field],)
        else:
            found[field] = tuple(name for key in headings for name in by_key.get(key, ()))
    if not found["text"]:
        raise AuditError("There is no column of texts.", where="notes", do=_FORMAT)
    return found


def _checked_note(found: Mapping[str, str], *, row: int) -> Note | RowNote:
    values = {field: found.get(field, "").strip() for field in FIELDS if field != "text"}
    if any(len(value) > _MAX_ID_CHARS for value in values.values()):
        return RowNote(row, f"An id, category or time is longer than {_MAX_ID_CHARS} characters.")
    text = found["text"]
    if not text.strip():
        return RowNote(row, "The note is empty.")
    if len(text) > MAX_FIELD_CHARS:
        return RowNote(row, "The note is longer than 1 MB.")
    if not is_whole(text):
        return RowNote(row, "The note holds a NUL character or bytes outside its encoding.")
    values["note_id"] = values["note_id"] or str(row)
    return Note(text=text, row=row, **values)


def _csv_records(source: NoteSource, lines: Iterator[str]) -> Iterator[Record | RowNote]:
    table = CsvRecords(lines, what=source.name)
    used = {name for names in source.columns.values() for name in names}
    places = [(name, place) for place, name in enumerate(table.header) if name in used]
    for record in table:
        if isinstance(record, RowNote):
            yield record
        else:
            cells = tuple(record.cells)
            yield Record(record.row, {name: cells[place] for name, place in places})


def _parquet(path: Path) -> Any:
    try:
        importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise AuditError(
            "Parquet needs the package pyarrow, which is not installed.",
            where="notes",
            do="Install it, or save the notes as CSV or JSONL.",
        ) from None
    with _refusing_damage():
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)


def _refusing_damage() -> AbstractContextManager[None]:
    return refusing(AuditError("The Parquet file is damaged.", where="notes"))


def _parquet_header(path: Path) -> tuple[str, ...]:
    with _parquet(path) as file, _refusing_damage():
        return tuple(file.schema_arrow.names)


def _parquet_records(source: NoteSource, *, on_bytes: ByteListener) -> Iterator[Record | RowNote]:
    names = list(dict.fromkeys(name for found in source.columns.values() for name in found))
    row = 1
    with _parquet(source.path) as file, _refusing_damage():
        n_rows = max(1, file.metadata.num_rows)
        for batch in file.iter_batches(_PARQUET_ROWS, columns=names, use_threads=False):
            for cells in batch.to_pylist():
                row += 1
                texts = {n: str(v) for n, v in cells.items() if v is not None}
                yield Record(row, texts)
            on_bytes(source.n_bytes * len(batch) // n_rows)


def _text_files(folder: Path) -> list[tuple[Path, int]]:
    # Links are not followed: a link out of the folder is not what was chosen.
    found: list[tuple[Path, int]] = []
    for top, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in names:
            path = Path(top, name)
            if name.lower().endswith(".txt") and path.is_file() and not path.is_symlink():
                found.append((path, path.stat().st_size))
    return sorted(found)


def _folder_notes(folder: Path, *, on_bytes: ByteListener) -> Iterator[Note | RowNote]:
    for row, (path, size) in enumerate(_text_files(folder), start=1):
        if size > 4 * MAX_FIELD_CHARS:
            yield RowNote(row, "The note is longer than 1 MB.")
        else:
            try:
                data = path.read_bytes()
                text = data.decode(encoding_of(data, what=f"notes, file {row}"), "surrogateescape")
            except OSError:
                yield RowNote(row, "The file cannot be read.")
            except AuditError as error:
                yield RowNote(row, error.what)
            else:
                inside = path.relative_to(folder).parts
                patient = inside[0] if len(inside) > 1 else ""
                yield _checked_note({"text": text, "patient_id": patient}, row=row)
        on_bytes(size)
