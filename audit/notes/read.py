"""Read notes from CSV, JSONL, Parquet, FHIR or a folder of texts as a stream; list such files.

A broken row is refused with its number, and the other rows are read. Pages choose a file under the
registered folders by its identifier, which is compared and never made into a path.
"""

from __future__ import annotations

import codecs
import gzip
import importlib
import io
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from audit.errors import AuditError, Message
from audit.foreign import (
    ARCHIVES,
    GZIP,
    MAX_FILE_BYTES,
    SAVE_AS_UTF8,
    decode_text,
    find_text_form,
    is_fhir,
    open_regular,
    refuse_errors,
    refuse_escapes,
    refuse_office_documents,
    refuse_other_formats,
)
from audit.home import DEMO_HOSPITAL, list_registered_folders
from audit.notes.fhir import Groups, KnownPeople, Resource, read_resources, read_text_and_people
from audit.notes.markup import MAX_HTML_CHARS, extract_html_text
from audit.tables import (
    HALVES,
    MAX_FIELD_CHARS,
    Row,
    RowNote,
    find_delimiter,
    is_whole,
    read_csv_records,
    read_json_records,
)
from audit.text import HEADINGS, heading_key

MAX_LINE_CHARS = 8_000_000

_HEAD_BYTES = 1 << 20
_BLOCK_CHARS = 1 << 16
_PARQUET = b"PAR1"
# Notes pack five to one; a file that unpacks to a hundred times its size is meant to fill a disk.
_MAX_RATIO = 100
_RATIO_SLACK_CHARS = 64 << 20
_MAX_NUL_SHARE = 0.02
_FEW_BROKEN = 1000

ByteListener = Callable[[int], None]


@contextmanager
def _open_unpacked(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO | gzip.GzipFile]]:
    """Open a plain or gzip file; yield the file as stored, and the unpacked stream."""
    try:
        with open_regular(path) as file:
            is_packed = file.read(2) == GZIP
            file.seek(0)
            yield file, gzip.GzipFile(fileobj=file) if is_packed else file
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise AuditError("The gzip file is damaged, or ends too early.", where="notes") from None
    except OSError:
        raise AuditError("The file cannot be read.", where="notes") from None


def read_lines(
    path: Path,
    *,
    codec: str,
    on_bytes: ByteListener = lambda n: None,
    max_chars: int = MAX_LINE_CHARS,
) -> Iterator[str]:
    """Yield the lines of a plain or gzip file, each with its line feed.

    Only line feeds end a line. `on_bytes` receives the number of bytes of the stored file that were
    read since its last call.
    """
    with _open_unpacked(path) as (file, unpacked):
        text = io.TextIOWrapper(unpacked, codec, "surrogateescape", newline="\n")
        n_chars = n_reported = n_lines = 0
        rest = ""
        while block := text.read(_BLOCK_CHARS):
            *lines, rest = io.StringIO(rest + block, newline="\n")
            if rest.endswith("\n"):
                lines, rest = [*lines, rest], ""
            # No later line of a block is longer than the block.
            if len(lines[0] if lines else rest) > max_chars:
                place = Message("{subject}, line {number}", subject="notes", number=n_lines + 1)
                raise AuditError("The line is too long.", where=place)
            n_chars, n_packed = n_chars + len(block), file.tell()
            if n_chars > _MAX_RATIO * n_packed + _RATIO_SLACK_CHARS:
                raise AuditError(
                    "The gzip file unpacks to more than {max_ratio} times its size.",
                    where="notes",
                    do="Unpack it yourself if it is what you expect.",
                    max_ratio=_MAX_RATIO,
                )
            yield from lines
            n_lines += len(lines)
            if n_packed > n_reported:
                on_bytes(n_packed - n_reported)
                n_reported = n_packed
        if rest:
            yield rest


def detect_encoding(head: bytes, *, subject: str) -> str:
    """Return the codec of a file from its first megabyte: "utf-8-sig" or "cp932".

    A head with a few broken bytes among valid characters is UTF-8; the rows with broken bytes are
    refused one by one. Anything else that is not certainly UTF-8 or CP932 is refused here.
    """
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or head.count(0) > _MAX_NUL_SHARE * len(head):
        raise AuditError("The file is UTF-16 or not text.", where=subject, do=SAVE_AS_UTF8)
    refuse_escapes(head, subject=subject)
    text = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape").decode(head)
    n_broken = len(HALVES.findall(text))
    n_good = len(text) - len(text.encode("ascii", errors="ignore")) - n_broken
    if n_broken > n_good:
        full_lines = head[: head.rfind(b"\n") + 1] or head
        try:
            if decode_text(full_lines.replace(b"\0", b""), subject=subject)[1] == "CP932":
                return "cp932"
        except AuditError:
            if n_broken > max(1, len(text) // _FEW_BROKEN):
                raise
    return "utf-8-sig"


def _read_csv_table(
    lines: Iterator[str],
) -> tuple[tuple[str, ...], Iterator[tuple[int, list[str]]]]:
    """Return the header of a CSV file, and its rows with their numbers."""
    first = next(lines, "")
    delimiter, begin = find_delimiter(first, subject="notes")
    if begin:
        first = first[begin:] or next(lines, "")
        find_delimiter(first, subject="notes")  # refuses a header that is too long
    records = read_csv_records(chain([first], lines), delimiter, subject="notes")
    header = tuple(name.strip() for name in next(records)[1])
    return header, records


def _read_csv_rows(lines: Iterator[str]) -> Iterator[Row | RowNote]:
    header, records = _read_csv_table(lines)
    for row, cells in records:
        if len(cells) not in (0, len(header)):
            yield RowNote(
                row,
                Message(
                    "The row has {n_cells} cells where the header has {n_header}.",
                    n_cells=len(cells),
                    n_header=len(header),
                ),
            )
        elif not is_whole("".join(cells)):
            yield RowNote(row, "The row holds a NUL character or bytes outside its encoding.")
        elif cells:
            yield Row(row, dict(zip(header, cells, strict=True)))


_WITHOUT_TABLE = ("folder", "fhir")
FIELDS = ("note_id", "patient_id", "admission_id", "category", "chart_time", "text")

_MAX_ID_CHARS = 200
_PARQUET_ROWS = 64
_FORMAT = "Name the column of the notes `text`, or say which column it is."


@dataclass(frozen=True, slots=True)
class Note:
    """One note; fields other than the text are "" if the source does not have them.

    A missing `note_id` is the number of the row. `row` counts rows (the header is row 1), lines
    (JSONL), files (folder, in the order of the paths) or resources (FHIR); no two notes of a source
    have the same number. `named_people` are the people that other fields of the file name.
    """

    note_id: str
    patient_id: str
    admission_id: str
    category: str
    chart_time: str
    text: str
    row: int
    named_people: Groups = ()


@dataclass(frozen=True)
class NoteSource:
    """A source of notes, and what is known about it before the notes are read.

    `kind` is "csv", "jsonl", "parquet", "folder" or "fhir" (a file, or a folder of them). `codec`
    is "utf-8-sig", "cp932", or "" if it has none. `headings` holds all headings in order. `columns`
    maps a field of a note to its headings; the first one with a filled cell is used. Both are empty
    if there is no table. `n_bytes` is the size of the stored files.
    """

    path: Path
    kind: str
    codec: str
    headings: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    n_bytes: int

    @property
    def has_text(self) -> bool:
        """Whether the place of the notes' text is known."""
        return self.kind in _WITHOUT_TABLE or bool(self.columns["text"])

    @property
    def has_patients(self) -> bool:
        """Whether the patient of each note is known, from a column or from the folders."""
        if self.kind == "fhir":
            return True
        if self.kind == "folder":
            return any(path.parent != self.path for path, _ in _list_text_files(self.path))
        return bool(self.columns["patient_id"])

    def read(self, *, on_bytes: ByteListener = lambda n: None) -> Iterator[Note | RowNote]:
        """Yield the notes and the refusals in order; `on_bytes` is as in `read_lines`."""
        if self.kind == "folder":
            yield from _read_folder_notes(self.path, on_bytes=on_bytes)
            return
        if self.kind == "fhir":
            yield from _read_fhir_notes(self.path, on_bytes=on_bytes)
            return
        for record in self.rows(on_bytes=on_bytes):
            if isinstance(record, RowNote):
                yield record
                continue
            cells = record.cells
            fields = {
                field: cells.get(names[0], "")
                if len(names) == 1
                else next(filter(None, (cells.get(name) for name in names)), "")
                for field, names in self.columns.items()
            }
            yield make_note(fields, row=record.row)

    def rows(
        self, *, on_bytes: ByteListener = lambda n: None, headings: Sequence[str] = ()
    ) -> Iterator[Row | RowNote]:
        """Return the raw rows of a table; of Parquet only `headings`, or the mapped columns."""
        if self.kind == "parquet":
            column_names = headings or [name for names in self.columns.values() for name in names]
            return _read_parquet_rows(
                self, names=list(dict.fromkeys(column_names)), on_bytes=on_bytes
            )
        lines = read_lines(self.path, codec=self.codec, on_bytes=on_bytes)
        return read_json_records(lines) if self.kind == "jsonl" else _read_csv_rows(lines)


def open_notes(path: Path, *, columns: Mapping[str, str] | None = None) -> NoteSource:
    """Determine the kind of a source of notes and its columns, without reading the notes.

    The source may be `NOTEEVENTS.csv`, `discharge.csv`, any CSV, JSONL or Parquet file with a
    column of texts (.gz too), FHIR in JSON or a folder of it, or a folder of .txt or .html files,
    where each folder inside is a patient. `columns` maps a field of a note to its column, for
    columns with unknown names.
    """
    source = inspect_notes(path, columns=columns)
    if not source.has_text:
        raise AuditError("There is no column of texts.", where="notes", do=_FORMAT)
    return source


def inspect_notes(path: Path, *, columns: Mapping[str, str] | None = None) -> NoteSource:
    """Do the same as `open_notes`, but accept a table without a column of texts."""
    columns = columns or {}
    if unknown := sorted(set(columns) - set(FIELDS)):
        raise AuditError("`{unknown}` is no field of a note.", where="columns", unknown=unknown[0])
    if path.is_dir():
        n_bytes = sum(size for _, size in _list_text_files(path))
        if not n_bytes and (files := list_fhir_files(path)):
            return NoteSource(path, "fhir", "", (), {}, sum(file.stat().st_size for file in files))
        if not n_bytes:
            raise AuditError("The folder holds no .txt files.", where="notes")
        return NoteSource(path, "folder", "", (), {}, n_bytes)
    kind, codec, headings = _probe_file(path)
    if kind == "fhir":
        return NoteSource(path, kind, codec, (), {}, path.stat().st_size)
    field_columns = _choose_columns(headings, columns=columns)
    return NoteSource(path, kind, codec, headings, field_columns, path.stat().st_size)


def _probe_file(path: Path) -> tuple[str, str, tuple[str, ...]]:
    """Return kind, codec and headings of a file; for JSONL, the keys in its first megabyte."""
    if not path.is_file():
        raise AuditError("The file is not there or cannot be read.", where="notes")
    if not path.stat().st_size:
        raise AuditError("The file is empty.", where="notes")
    with _open_unpacked(path) as (_, unpacked):
        head = unpacked.read(_HEAD_BYTES)
    if head.startswith(_PARQUET):
        with _open_parquet(path) as file, _refuse_damage():
            return "parquet", "", tuple(file.schema_arrow.names)
    refuse_office_documents(head, subject="notes")
    for magic, kind in ARCHIVES.items():
        if head.startswith(magic) and magic != GZIP:
            raise AuditError(
                "This is {kind}.", where="notes", do="Unpack it first, or use gzip.", kind=kind
            )
    codec = detect_encoding(head, subject="notes")
    text = head.decode(codec, "surrogateescape")
    if is_fhir(text):
        return "fhir", codec, ()
    refuse_other_formats(text, subject="notes")
    lines = iter(io.StringIO(text, newline="\n"))
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        rows = (record for record in read_json_records(lines) if isinstance(record, Row))
        return "jsonl", codec, tuple(dict.fromkeys(name for row in rows for name in row.cells))
    if path.suffix.lower() == ".txt":
        raise AuditError(
            "This is one text, not a table of notes.",
            where="notes",
            do="Give the folder that it lies in: each .txt there is a note.",
        )
    return "csv", codec, _read_csv_table(lines)[0]


def _choose_columns(
    header: Sequence[str], *, columns: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    for field, column in columns.items():
        if column not in header:
            raise AuditError(
                "There is no column for {field} of this name.", where="notes", field=field
            )
    return {
        field: (columns[field],) if field in columns else _find_columns(header, field)
        for field in FIELDS
    }


def _find_columns(header: Sequence[str], field: str) -> tuple[str, ...]:
    """Return the columns for a field, in order of preference."""
    keys = [heading_key(name) for name in header]
    known_keys = HEADINGS[field] + (HEADINGS["record_number"] if field == "patient_id" else ())
    columns = [
        name
        for known_key in known_keys
        for name, key in zip(header, keys, strict=True)
        if key == known_key
    ]
    # The numbers of two columns may be those of two patients.
    return tuple(columns[:1] if field == "patient_id" else columns)


def make_note(
    fields: Mapping[str, str], *, row: int, is_plain: bool = False, named_people: Groups = ()
) -> Note | RowNote:
    """Make a note from the values of a row by field, or return the reason for refusing the row.

    A text in HTML or FHIR is converted to plain text; other kinds of documents are refused. If
    `is_plain` is true, the text stays as it is, because spans count its characters.
    """
    text = fields["text"]
    if not is_plain and is_whole(text):
        try:
            text, people = _read_document(text)
        except AuditError as error:
            return RowNote(row, AuditError(error.what, do=error.do).message)
        named_people = named_people or people
    short = [fields.get(field, "").strip() for field in FIELDS[:-1]]
    if max(map(len, short)) > _MAX_ID_CHARS:
        return RowNote(
            row,
            Message(
                "An id, category or time is longer than {max_id_chars} characters.",
                max_id_chars=_MAX_ID_CHARS,
            ),
        )
    if not text or text.isspace():
        return RowNote(row, "The note is empty.")
    if len(text) > MAX_FIELD_CHARS:
        return RowNote(row, "The note is longer than 1 MB.")
    if not is_whole(text):
        return RowNote(row, "The note holds a NUL character or bytes outside its encoding.")
    note_id, patient_id, admission_id, category, chart_time = short
    return Note(
        note_id or str(row), patient_id, admission_id, category, chart_time, text, row, named_people
    )


def _read_document(text: str) -> tuple[str, Groups]:
    """Return the plain text of a note, and the people whom other fields of a FHIR note name."""
    if len(text) > MAX_HTML_CHARS:
        return text, ()
    form = find_text_form(text, subject="")
    if form == "fhir":
        return read_text_and_people(text)
    return (extract_html_text(text) if form == "html" else text), ()


def list_fhir_files(path: Path) -> list[Path]:
    """Return the FHIR files of a path: the file itself, or the JSON files of a folder, sorted."""
    if not path.is_dir():
        return [path]
    files = (
        Path(top, name) for top, _, names in os.walk(path) for name in filter(_is_shown, names)
    )
    json_files = (file for file in files if file.suffix.lower() in (".json", ".ndjson"))
    return sorted(file for file in json_files if file.is_file() and not file.is_symlink())


def _read_fhir_notes(path: Path, *, on_bytes: ByteListener) -> Iterator[Note | RowNote]:
    """Yield a note for each resource with a text; the people of all files are read first."""
    people = KnownPeople()
    for resource in _read_fhir_resources(path):
        if isinstance(resource, Resource):
            people.add(resource.people)
    row, is_empty = 0, True
    for row, resource in enumerate(_read_fhir_resources(path, on_bytes=on_bytes), start=1):
        is_empty = (
            is_empty
            and isinstance(resource, Resource)
            and not (resource.texts or resource.left_out)
        )
        if isinstance(resource, RowNote):
            yield RowNote(row, resource.what)
            continue
        if text := resource.text:
            fields = {
                "note_id": resource.name,
                "patient_id": resource.patient,
                "category": resource.kind,
                "chart_time": resource.time,
                "text": text,
            }
            yield make_note(
                fields, row=row, is_plain=True, named_people=people.find_groups(resource.patient)
            )
        yield from (RowNote(row, reason) for reason in resource.left_out)
    if is_empty:
        yield RowNote(max(1, row), "No resource has a text.")


def _read_fhir_resources(
    path: Path, *, on_bytes: ByteListener = lambda n: None
) -> Iterator[Resource | RowNote]:
    for file in list_fhir_files(path):
        with _open_unpacked(file) as (_, unpacked):
            codec = detect_encoding(unpacked.read(_HEAD_BYTES), subject="notes")
        lines = read_lines(file, codec=codec, on_bytes=on_bytes, max_chars=MAX_FILE_BYTES)
        yield from read_resources(lines)


def _open_parquet(path: Path) -> Any:
    parquet = importlib.import_module("pyarrow.parquet")
    with _refuse_damage():
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)


def _refuse_damage() -> AbstractContextManager[None]:
    return refuse_errors(AuditError("The Parquet file is damaged.", where="notes"))


def _read_parquet_rows(
    source: NoteSource, *, names: list[str], on_bytes: ByteListener
) -> Iterator[Row | RowNote]:
    row = 1
    with _open_parquet(source.path) as file, _refuse_damage():
        n_rows = max(1, file.metadata.num_rows)
        for batch in file.iter_batches(_PARQUET_ROWS, columns=names, use_threads=False):
            for cells in batch.to_pylist():
                row += 1
                texts = {n: str(v) for n, v in cells.items() if v is not None}
                yield Row(row, texts)
            on_bytes(source.n_bytes * len(batch) // n_rows)


def _list_text_files(folder: Path) -> list[tuple[Path, int]]:
    # Links are not followed, because the user chose the folder, not the target of a link.
    texts = (
        Path(top, name) for top, _, names in os.walk(folder) for name in names if _is_text(name)
    )
    plain = (path for path in texts if path.is_file() and not path.is_symlink())
    return sorted((path, path.stat().st_size) for path in plain)


def _read_folder_notes(folder: Path, *, on_bytes: ByteListener) -> Iterator[Note | RowNote]:
    for row, (path, size) in enumerate(_list_text_files(folder), start=1):
        if size > 4 * MAX_FIELD_CHARS:
            yield RowNote(row, "The note is longer than 1 MB.")
        else:
            try:
                data = path.read_bytes()
                text = data.decode(
                    detect_encoding(data, subject=f"notes, file {row}"), "surrogateescape"
                )
            except OSError:
                yield RowNote(row, "The file cannot be read.")
            except AuditError as error:
                yield RowNote(row, error.what)
            else:
                *inside, _ = path.relative_to(folder).parts
                fields = {"text": text, "patient_id": inside[0] if inside else ""}
                yield make_note(fields, row=row)
        on_bytes(size)


VARIABLE = "KART_AUDIT_NOTES"
"""Environment variable that names the registered folders, separated as in PATH."""
EXAMPLE = "example/notes.csv"
"""Invented notes that are always available for trying the program."""

_SUFFIXES = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv"), "csv"),
    **dict.fromkeys((".jsonl", ".jsonl.gz", ".ndjson"), "jsonl"),
    ".json": "fhir",
    ".parquet": "parquet",
}
_MAX_DEPTH = 4
_MAX_FOLDERS = 5_000


@dataclass(frozen=True)
class NoteFile:
    """A listed file, or a listed folder of texts; its `kind` follows from the name alone.

    `file_id` is the folder's label and the path under it, joined by "/". `n_bytes` of a folder
    counts the texts directly inside it. `path` has its links resolved.
    """

    file_id: str
    kind: str
    n_bytes: int
    path: Path


def list_note_files() -> tuple[NoteFile, ...]:
    """Return every file of notes under the registered folders, then the example."""
    return (*_walk_folders(), _make_example())


def resolve_note_file(file_id: str) -> Path:
    """Return the path of a listed file; raise AuditError if the list does not have it."""
    if file_id == EXAMPLE:
        return _make_example().path
    path = next((file.path for file in _walk_folders() if file.file_id == file_id), None)
    if path is None:
        raise AuditError(
            "No registered file has this identifier.",
            where="notes",
            do=("Choose one from the list; notes lie under the folders named in {variable}."),
            variable=VARIABLE,
        )
    return path


def _make_example() -> NoteFile:
    path = DEMO_HOSPITAL / "notes.csv"
    return NoteFile(EXAMPLE, "csv", path.stat().st_size, path)


def _walk_folders() -> Iterator[NoteFile]:
    """Yield readable files and folders in order of name; links are not followed."""
    for label, top in list_registered_folders(VARIABLE, reserved=("example",), unnamed="notes"):
        for name, inside, names in islice(os.walk(top), _MAX_FOLDERS):
            folder = Path(name)
            parts = (label, *folder.relative_to(top).parts)
            inside[:] = sorted(
                name for name in filter(_is_shown, inside) if not (folder / name).is_symlink()
            )
            files = {
                name: path.stat().st_size
                for name in sorted(filter(_is_shown, names))
                if (path := folder / name).is_file() and not path.is_symlink()
            }
            tables = [name for name in files if _find_kind(name)]
            texts = [size for name, size in files.items() if _is_text(name)]
            is_of_patients = (
                bool(inside)
                and not tables
                and all(_holds_texts_alone(folder / name) for name in inside[:20])
            )
            if texts or is_of_patients:
                yield NoteFile("/".join(parts), "folder", sum(texts), folder)
            if texts or is_of_patients or len(parts) > _MAX_DEPTH:
                inside.clear()
            for table in tables:
                file_id = "/".join((*parts, table))
                yield NoteFile(file_id, _find_kind(table), files[table], folder / table)


def _holds_texts_alone(folder: Path) -> bool:
    """Whether a folder holds only texts, so that it may belong to one patient."""
    _, inside, names = next(os.walk(folder), ("", [""], []))
    visible_names = list(filter(_is_shown, names))
    return (
        not any(map(_is_shown, inside))
        and bool(visible_names)
        and all(map(_is_text, visible_names))
    )


def _is_shown(name: str) -> bool:
    return not name.startswith(".")


def _is_text(name: str) -> bool:
    return name.lower().endswith((".txt", ".html", ".htm"))


def _find_kind(name: str) -> str:
    return next((kind for end, kind in _SUFFIXES.items() if name.lower().endswith(end)), "")
