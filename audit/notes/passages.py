"""Passages: de-identified text in which the place of a patient's name is known.

Comes in: CSV or JSONL with a column `text`. Goes out: for each row the text before the name, the
roles of the name's places in their order, and the text after it. Knows no model and no candidate.

Source: Nakamura et al., section 4.2: S' = the passages with the leading two name placeholders
masked and every other placeholder deleted.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

from audit.errors import AuditError, Message
from audit.foreign import decode_text
from audit.notes.placeholders import find_name_slot
from audit.tables import Row, RowNote, json_rows, read_table
from audit.text import (
    HEADINGS,
    MAX_NAME_CHARS,
    NameColumns,
    find_name_columns,
    fold_name,
    heading_key,
)

MAX_TEXT_CHARS = 100_000

_COLUMNS = {"text": "text"} | {
    heading: field for field in ("passage_id", "name_id") for heading in HEADINGS[field]
}
_NO_PLACE = "The text has no place for a full name; left out."
_EMPTY = "The text is empty; left out."
_FORMAT = (
    "Write CSV with a column `text`, or one JSON object a line with a key `text`; `passage_id`, "
    "`name_id` and columns of names may stand beside it."
)


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


def is_jsonl(data: bytes, *, file_name: str) -> bool:
    """Whether a file is read as JSONL: by the end of its name, or because it begins with "{"."""
    is_named_so = file_name.lower().endswith((".jsonl", ".ndjson", ".json"))
    return is_named_so or data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def owner_rows(
    passages: Iterable[Passage], *, first: Sequence[str], last: Sequence[str]
) -> list[int | None]:
    """Return for each passage the row of the name that owns it; None: unknown or not listed."""
    names = zip(map(fold_name, first), map(fold_name, last), strict=True)
    rows, found = {name: row for row, name in enumerate(names)}, []
    for passage in passages:
        owner = passage.owner
        if isinstance(owner, tuple):
            owner = rows.get((fold_name(owner[0]), fold_name(owner[1])))
        found.append(owner if owner is not None and owner < len(first) else None)
    return found


def read_passages(data: bytes, *, what: str = "passages", file_name: str = "") -> Passages:
    """Read passages from CSV or JSONL.

    The name is written `[NAME]`, `[FIRST] [LAST]`, `[LAST], [FIRST]`, `[氏名]`, `[姓][名]` or as
    MIMIC-III placeholders. The first of these in a text is the name's place; every other
    placeholder is deleted.

    """
    read_rows = _jsonl_rows if is_jsonl(data, file_name=file_name) else _csv_rows
    passages: list[Passage] = []
    notes: list[RowNote] = []
    row_of_id: dict[str, int] = {}
    row = 1
    try:
        encoding, rows = read_rows(data, what=what)
        for record in rows:
            row = record.row
            passage_id, text, owner = _parts(record)
            if (twin := row_of_id.setdefault(passage_id, row)) != row:
                raise ValueError(Message("Row {twin} has the same passage_id.", twin=twin))
            slot = find_name_slot(text)
            if slot is None:
                notes.append(RowNote(row, _NO_PLACE if text.strip() else _EMPTY))
                continue
            passages.append(
                Passage(slot.left, slot.roles, slot.separator, slot.right, passage_id, owner)
            )
    except ValueError as error:
        where = Message("{subject}, row {number}", subject=what, number=row)
        raise AuditError(error.args[0], where=where, do=_FORMAT) from None
    if not passages:
        raise AuditError(
            "No text has a place for a full name.",
            where=what,
            do="Write [NAME], or [FIRST] [LAST], where the name stood.",
        )
    return Passages(passages=tuple(passages), notes=tuple(notes), encoding=encoding)


def _csv_rows(data: bytes, *, what: str) -> tuple[str, Iterable[Row | RowNote]]:
    table = read_table(data, what=what)
    _columns(table.header)
    rows = zip(table.row_numbers, table.rows, strict=True)
    return table.encoding, (
        Row(row, dict(zip(table.header, cells, strict=True))) for row, cells in rows
    )


def _jsonl_rows(data: bytes, *, what: str) -> tuple[str, Iterable[Row | RowNote]]:
    text, encoding = decode_text(data, what=what)
    return encoding, json_rows(text, what=what)


def _parts(record: Row | RowNote) -> tuple[str, str, tuple[str, str] | int | None]:
    """Return a passage's identifier, its text and its owner; ValueError where one is no such."""
    if isinstance(record, RowNote):
        raise ValueError(record.what)
    cells = tuple(record.cells.values())
    columns, names = _columns(tuple(record.cells))
    text = cells[columns["text"]]
    values = {field: cells[column].strip() for field, column in columns.items()}
    passage_id, name_id = values.get("passage_id", str(record.row)), values.get("name_id", "")
    written = () if name_id or names.is_empty else tuple(cells[column] for column in names.used)
    if not passage_id or max(map(len, (passage_id, *written))) > MAX_NAME_CHARS:
        raise ValueError(
            Message(
                "The passage_id is empty, or it or the name is longer than {max_name_chars} "
                "characters.",
                max_name_chars=MAX_NAME_CHARS,
            )
        )
    if len(text) > MAX_TEXT_CHARS:
        raise ValueError(
            Message(
                "The text is longer than {max_text_chars:,} characters.",
                max_text_chars=MAX_TEXT_CHARS,
            )
        )
    if name_id:
        if not re.fullmatch("[0-9]{1,9}", name_id):
            raise ValueError(Message("The name_id is no row of the list of names, from 0."))
        return passage_id, text, int(name_id)
    parts = names.read_parts(cells) if written else None
    owner = (parts.first, parts.last) if parts else ("", "")
    return passage_id, text, owner if any(owner) else None


@functools.lru_cache(maxsize=64)
def _columns(header: tuple[str, ...]) -> tuple[dict[str, int], NameColumns]:
    found = [(_COLUMNS.get(heading_key(heading)), i) for i, heading in enumerate(header)]
    columns = {field: i for field, i in found if field}
    if "text" not in columns or len(columns) < sum(field is not None for field, _ in found):
        raise ValueError(
            Message("There is no `text`, or two columns mean the same of passage and name.")
        )
    return columns, find_name_columns(header)
