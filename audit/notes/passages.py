"""Read passages: de-identified text in which the place of a patient's name is known.

Input: CSV or JSONL with a column `text`, also as .gz. Output: for each row the text before the
name, the roles of the name's parts in order, and the text after it. Models and candidates play no
part here.

Source: Nakamura et al., section 4.2: S' = the passages with the leading two name placeholders
masked and every other placeholder deleted.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass

from audit.errors import AuditError, Message
from audit.foreign import GZIP, decode_text, unpack_gzip
from audit.notes.placeholders import find_loose_slot, find_name_slot, holds_blanks
from audit.shelf import digest_json
from audit.tables import Row, RowNote, read_json_rows, read_table
from audit.text import (
    HEADINGS,
    MAX_NAME_CHARS,
    NameColumns,
    find_name_columns,
    fold_name,
    heading_key,
)

MAX_TEXT_CHARS = 100_000
MAX_PLACEHOLDER_CHARS = 60

_COLUMNS = {"text": "text"} | {
    heading: field for field in ("passage_id", "name_id") for heading in HEADINGS[field]
}
_NO_PLACE = "The text has no place for a full name; left out."
_NO_TOLD_PLACE = (
    "The text has blanks, and nothing beside one says that it is the patient's name; left out."
)
_EMPTY = "The text is empty; left out."
_FORMAT = (
    "Write CSV with a column `text`, or one JSON object a line with a key `text`; `passage_id`, "
    "`name_id` and columns of names may stand beside it."
)


@dataclass(frozen=True)
class Passage:
    """One passage and the place of the name in it; the first four fields are those of `NameSlot`.

    `passage_id` is that of the file, or else the row number. `owner` is the person whose passage it
    is, as (first, last) or as the candidate's row; None if the file does not state it.
    """

    left: str
    slots: tuple[str, ...]
    separator: str
    right: str
    passage_id: str
    owner: tuple[str, str] | int | None


@dataclass(frozen=True)
class Passages:
    """The passages of a file in order; `notes` lists the rows that were left out, with reasons."""

    passages: tuple[Passage, ...]
    notes: tuple[RowNote, ...]
    encoding: str

    def __len__(self) -> int:
        return len(self.passages)

    @property
    def has_owners(self) -> bool:
        """Whether any passage has an owner."""
        return any(passage.owner is not None for passage in self.passages)

    def digest(self) -> str:
        """Return the SHA-256 of the passages' content; file format and encoding play no part."""
        content = [astuple(passage) for passage in self.passages]
        return digest_json(content, sort_keys=False, ensure_ascii=False)


PASSAGES_ENDINGS = ("csv", "tsv", "txt", "jsonl", "ndjson", "json", "gz")
"""Endings of uploaded files of passages."""


def is_jsonl(data: bytes, *, file_name: str) -> bool:
    """Whether a file is read as JSONL: its name has such an ending, or it begins with "{"."""
    is_named_so = file_name.lower().endswith((".jsonl", ".ndjson", ".json"))
    return is_named_so or data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def normalize_passages(
    data: bytes, *, subject: str = "passages", file_name: str = "", placeholder: str = ""
) -> tuple[bytes, str]:
    """Return a file of passages in the form in which it is stored, and a name that tells the form.

    A gzip file is unpacked. A custom `placeholder` is replaced by [NAME]; the result is then JSONL,
    and each line has the number of its row.
    """
    if data.startswith(GZIP):
        data, file_name = unpack_gzip(data, subject=subject), file_name.lower().removesuffix(".gz")
    is_json = is_jsonl(data, file_name=file_name)
    if not placeholder:
        return data, "passages.jsonl" if is_json else "passages.csv"
    finder = _compile_placeholder(placeholder)
    lines: list[str] = []
    n_places = 0
    with _refuse_row(subject, 1):
        _, rows = (_read_jsonl_rows if is_json else _read_csv_rows)(data, subject=subject)
    for record in rows:
        with _refuse_row(subject, record.row):
            cells = _read_cells(record)
            heading = list(cells)[_find_columns(tuple(cells))[0]["text"]]
        cells[heading], n = finder.subn("[NAME]", cells[heading])
        n_places += n
        lines += [""] * (record.row - 1 - len(lines))
        lines.append(json.dumps(cells))
    if not n_places:
        raise AuditError(
            "No text has this placeholder.", where="placeholder", do="Write it as the texts do."
        )
    return "\n".join(lines).encode(), "passages.jsonl"


def _compile_placeholder(placeholder: str) -> re.Pattern[str]:
    """Return a pattern that finds a placeholder, except as part of a longer word."""
    if not 1 < len(placeholder.strip()) <= MAX_PLACEHOLDER_CHARS or "\n" in placeholder:
        raise AuditError(
            "A placeholder has 2 to {n} characters, and is no blank line.",
            where="placeholder",
            n=MAX_PLACEHOLDER_CHARS,
        )
    word = "[A-Za-z0-9_]"
    left_border = f"(?<!{word})" if re.match(word, placeholder) else ""
    right_border = f"(?!{word})" if re.match(word, placeholder[-1]) else ""
    return re.compile(left_border + re.escape(placeholder) + right_border)


def find_owner_rows(
    passages: Iterable[Passage], *, first: Sequence[str], last: Sequence[str]
) -> list[int | None]:
    """Return for each passage the row of its owner's name; None if unknown or not listed."""
    names = zip(map(fold_name, first), map(fold_name, last), strict=True)
    rows, owners = {name: row for row, name in enumerate(names)}, []
    for passage in passages:
        owner = passage.owner
        if isinstance(owner, tuple):
            owner = rows.get((fold_name(owner[0]), fold_name(owner[1])))
        owners.append(owner if owner is not None and owner < len(first) else None)
    return owners


def count_owners(
    passages: Iterable[Passage], *, first: Sequence[str], last: Sequence[str]
) -> tuple[int, int]:
    """Return how many passages say whose they are: of a listed name, and of nobody on the list."""
    owned = [passage for passage in passages if passage.owner is not None]
    n_listed = sum(row is not None for row in find_owner_rows(owned, first=first, last=last))
    return n_listed, len(owned) - n_listed


def read_passages(
    data: bytes, *, subject: str = "passages", file_name: str = "", placeholder: str = ""
) -> Passages:
    """Read passages from CSV or JSONL, plain or as gzip.

    The name is written `[NAME]`, `[FIRST] [LAST]`, `[LAST], [FIRST]`, `[氏名]`, `[姓][名]`, as
    MIMIC-III placeholders, or as `placeholder`. The first of these in a text is the place of the
    name; all other placeholders are deleted. In a text without any of them, `find_loose_slot` finds
    the place.
    """
    data, file_name = normalize_passages(
        data, subject=subject, file_name=file_name, placeholder=placeholder
    )
    read_rows = _read_jsonl_rows if is_jsonl(data, file_name=file_name) else _read_csv_rows
    passages: list[Passage] = []
    notes: list[RowNote] = []
    row_of_id: dict[str, int] = {}
    with _refuse_row(subject, 1):
        encoding, rows = read_rows(data, subject=subject)
    for record in rows:
        row = record.row
        with _refuse_row(subject, row):
            passage_id, text, owner = _read_parts(record)
            if (twin := row_of_id.setdefault(passage_id, row)) != row:
                raise ValueError(Message("Row {twin} has the same passage_id.", twin=twin))
        slot = find_name_slot(text) or find_loose_slot(text)
        if slot is None:
            notes.append(RowNote(row, _explain_omission(text)))
            continue
        passages.append(
            Passage(slot.left, slot.roles, slot.separator, slot.right, passage_id, owner)
        )
    if not passages:
        raise AuditError(
            "No text has a place for a full name.",
            where=subject,
            do="Write [NAME], or [FIRST] [LAST], where the name stood, or say what stands there.",
        )
    return Passages(passages=tuple(passages), notes=tuple(notes), encoding=encoding)


@contextmanager
def _refuse_row(subject: str, row: int) -> Iterator[None]:
    """Turn a ValueError whose argument is a message into an AuditError for a row."""
    try:
        yield
    except ValueError as error:
        place = Message("{subject}, row {number}", subject=subject, number=row)
        raise AuditError(error.args[0], where=place, do=_FORMAT) from None


def _explain_omission(text: str) -> str:
    if not text.strip():
        return _EMPTY
    return _NO_TOLD_PLACE if holds_blanks(text) else _NO_PLACE


def _read_csv_rows(data: bytes, *, subject: str) -> tuple[str, Iterable[Row | RowNote]]:
    table = read_table(data, subject=subject)
    _find_columns(table.header)
    rows = zip(table.row_numbers, table.rows, strict=True)
    return table.encoding, (
        Row(row, dict(zip(table.header, cells, strict=True))) for row, cells in rows
    )


def _read_jsonl_rows(data: bytes, *, subject: str) -> tuple[str, Iterable[Row | RowNote]]:
    text, encoding = decode_text(data, subject=subject)
    return encoding, read_json_rows(text, subject=subject)


def _read_cells(record: Row | RowNote) -> dict[str, str]:
    if isinstance(record, RowNote):
        raise ValueError(record.what)
    return dict(record.cells)


def _read_parts(record: Row | RowNote) -> tuple[str, str, tuple[str, str] | int | None]:
    """Return the identifier, text and owner of a passage; raise ValueError if one is invalid."""
    by_heading = _read_cells(record)
    cells = tuple(by_heading.values())
    columns, names = _find_columns(tuple(by_heading))
    text = cells[columns["text"]]
    values = {field: cells[column].strip() for field, column in columns.items()}
    passage_id, name_id = values.get("passage_id", str(record.row)), values.get("name_id", "")
    name_cells = (
        () if name_id or names.is_empty else tuple(cells[column] for column in names.read_columns)
    )
    if not passage_id or max(map(len, (passage_id, *name_cells))) > MAX_NAME_CHARS:
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
    parts = names.read_parts(cells) if name_cells else None
    owner = (parts.first, parts.last) if parts else ("", "")
    return passage_id, text, owner if any(owner) else None


@functools.lru_cache(maxsize=64)
def _find_columns(header: tuple[str, ...]) -> tuple[dict[str, int], NameColumns]:
    fields = [(_COLUMNS.get(heading_key(heading)), i) for i, heading in enumerate(header)]
    columns = {field: i for field, i in fields if field}
    if "text" not in columns or len(columns) < sum(field is not None for field, _ in fields):
        raise ValueError(
            Message("There is no `text`, or two columns mean the same of passage and name.")
        )
    return columns, find_name_columns(header)
