"""Passages: de-identified text in which the place of a patient's name is known.

Comes in: CSV or JSONL with a column `text`. Goes out: for each row the text before the name, the
roles of the name's places in their order, and the text after it. Knows no model and no candidate.

Source: Nakamura et al., section 4.2: S' = the passages with the leading two name placeholders
masked and every other placeholder deleted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

from audit.errors import AuditError, Message
from audit.foreign import decode_text
from audit.notes.placeholders import find_name_slot
from audit.tables import MAX_FIELD_CHARS, MAX_ROWS, RowNote, read_table
from audit.text import MAX_NAME_CHARS, NameColumns, find_name_columns, heading_key

MAX_TEXT_CHARS = 100_000

_COLUMNS = {"text": "text", "passageid": "passage_id", "nameid": "name_id"}
_NO_PLACE = "The text has no place for a full name; left out."
_EMPTY = "The text is empty; left out."
_FORMAT = "Write CSV with a column `text`, or one JSON object a line with a key `text`."


@dataclass(frozen=True)
class Passage:
    """One passage and the place of the name in it: fields as in `NameSlot`.

    `passage_id` as given, or the row number; `owner` is whose passage it is, (first, last) or the
    candidate's row; None where not given.
    """

    left: str
    slots: tuple[str, ...]
    separator: str
    right: str
    passage_id: str
    owner: tuple[str, str] | int | None


@dataclass(frozen=True)
class Passages:
    """The passages of a file in its order; `notes` say which rows were left out, and why."""

    passages: tuple[Passage, ...]
    notes: tuple[RowNote, ...]
    encoding: str

    def __len__(self) -> int:
        return len(self.passages)

    @property
    def has_owners(self) -> bool:
        """Whether any passage says whose it is."""
        return any(passage.owner is not None for passage in self.passages)

    def digest(self) -> str:
        """Return the SHA-256 of the passages' content; file format and encoding play no part."""
        content = json.dumps([astuple(passage) for passage in self.passages], ensure_ascii=False)
        return hashlib.sha256(content.encode()).hexdigest()


_Row = tuple[int, list[str], dict[str, int], NameColumns]
"""Number of the row, its cells, and which of them are what."""


def read_passages(data: bytes, *, what: str = "passages", file_name: str = "") -> Passages:
    """Read passages from CSV or JSONL.

    The name is written `[NAME]`, `[FIRST] [LAST]`, `[LAST], [FIRST]`, `[氏名]`, `[姓][名]` or as
    MIMIC-III placeholders. The first of these in a text is the name's place; every other
    placeholder is deleted.

    A file whose `file_name` ends with .jsonl, .ndjson or .json is read as JSONL, as is one whose
    first character is "{".
    """
    is_jsonl = file_name.lower().endswith((".jsonl", ".ndjson", ".json"))
    is_jsonl = is_jsonl or data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    encoding, rows = (_jsonl_rows if is_jsonl else _csv_rows)(data, what=what)
    passages: list[Passage] = []
    notes: list[RowNote] = []
    number_of_id: dict[str, int] = {}
    for number, cells, columns, names in rows:
        where = Message("{subject}, row {number}", subject=what, number=number)
        values = {field: cells[column].strip() for field, column in columns.items()}
        passage_id, text = values.get("passage_id", str(number)), cells[columns["text"]]
        if not passage_id or len(passage_id) > MAX_NAME_CHARS:
            raise AuditError(
                "The passage_id is empty or longer than {max_name_chars} characters.",
                where=where,
                max_name_chars=MAX_NAME_CHARS,
            )
        owner = _owner(values.get("name_id", ""), cells, names, where=where)
        if len(text) > MAX_TEXT_CHARS:
            raise AuditError(
                "The text is longer than {max_text_chars:,} characters.",
                where=where,
                do="Cut it to the sentences around the name.",
                max_text_chars=MAX_TEXT_CHARS,
            )
        twin = number_of_id.setdefault(passage_id, number)
        if twin != number:
            raise AuditError(
                "Rows {twin} and {number} have the same passage_id.",
                where=what,
                twin=twin,
                number=number,
            )
        slot = find_name_slot(text)
        if slot is None:
            notes.append(RowNote(number, _NO_PLACE if text.strip() else _EMPTY))
        else:
            passages.append(
                Passage(slot.left, slot.roles, slot.separator, slot.right, passage_id, owner)
            )
    if not passages:
        raise AuditError(
            "No text has a place for a full name.",
            where=what,
            do="Write [NAME], or [FIRST] [LAST], where the name stood.",
        )
    return Passages(passages=tuple(passages), notes=tuple(notes), encoding=encoding)


def _csv_rows(data: bytes, *, what: str) -> tuple[str, Iterator[_Row]]:
    table = read_table(data, what=what)
    found = _columns(table.header, where=Message("{subject}, row 1", subject=what))
    rows = zip(table.row_numbers, table.rows, strict=True)
    return table.encoding, ((number, list(cells), *found) for number, cells in rows)


def _jsonl_rows(data: bytes, *, what: str) -> tuple[str, Iterator[_Row]]:
    text, encoding = decode_text(data, what=what)
    text = text.removesuffix("\n")
    if text.count("\n") >= MAX_ROWS:  # before each line becomes an object
        raise AuditError(
            "The file has more than {max_rows:,} lines.", where=what, max_rows=MAX_ROWS
        )

    def row(number: int, line: str) -> _Row:
        where = Message("{subject}, row {number}", subject=what, number=number)
        record = _json_record(line, where=where)
        return number, list(record.values()), *_columns(tuple(record), where=where)

    lines = enumerate(text.split("\n"), start=1)
    return encoding, (row(number, line) for number, line in lines if line.strip())


def _json_record(line: str, *, where: str) -> dict[str, str]:
    if len(line) > MAX_FIELD_CHARS:
        raise AuditError("The line is longer than 1 MB.", where=where)
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):  # the parser's own text may quote the line
        raise AuditError("The line is not JSON.", where=where, do=_FORMAT) from None
    if not isinstance(record, dict):
        raise AuditError("The line is not a JSON object.", where=where, do=_FORMAT)
    cells: dict[str, str] = {}
    for key, value in record.items():
        if value is None or isinstance(value, str):
            cells[key] = value or ""
        elif isinstance(value, int) and not isinstance(value, bool):
            cells[key] = str(value)
    if re.search("[\ud800-\udfff]", "".join(cells.values())):
        raise AuditError("The line holds half a character.", where=where, do=_FORMAT)
    return cells


def _columns(header: Sequence[str], *, where: str) -> tuple[dict[str, int], NameColumns]:
    columns: dict[str, int] = {}
    for column, heading in enumerate(header):
        field = _COLUMNS.get(heading_key(heading))
        if field in columns:
            raise AuditError(
                "Two columns mean {field}.", where=where, do="Keep one of them.", field=field
            )
        if field:
            columns[field] = column
    if "text" not in columns:
        raise AuditError("There is no `text`.", where=where, do=_FORMAT)
    try:
        return columns, find_name_columns(header)
    except ValueError as error:
        raise AuditError(error.args[0], where=where, do="Keep one of them.") from None


def _owner(
    name_id: str, cells: Sequence[str], names: NameColumns, *, where: str
) -> tuple[str, str] | int | None:
    if name_id:
        if not re.fullmatch("[0-9]{1,9}", name_id):
            raise AuditError(
                "The name_id is not a whole number.",
                where=where,
                do="It counts the rows of the list of names, from 0.",
            )
        return int(name_id)
    if names.is_empty:
        return None
    if any(len(cells[column]) > MAX_NAME_CHARS for column in names.used):
        raise AuditError(
            "The name is longer than {max_name_chars} characters.",
            where=where,
            max_name_chars=MAX_NAME_CHARS,
        )
    owner = names.read(cells)
    return owner if any(owner) else None
