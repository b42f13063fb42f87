"""Reads a list of names from a file, and writes it as CSV that gives the same list when read again.

Input: CSV, an Excel workbook or JSONL, with headings of `audit/headings.txt`. Output: candidates,
and remarks on odd rows.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from audit.errors import AuditError, Message
from audit.foreign import decode_text, refuse_too_large
from audit.models.limited import call_limited
from audit.names.candidates import (
    CANARY,
    CONTROL_KINDS,
    CONTROL_SOURCES,
    Candidates,
    with_kinds,
)
from audit.names.letter_case import with_usual_case
from audit.tables import (
    Cells,
    RowNote,
    Table,
    make_table,
    read_csv_table,
    read_json_table,
    write_table,
)
from audit.text import (
    BRACKETS,
    DOUBTFUL,
    HEADINGS,
    MAX_NAME_CHARS,
    MIDDLE,
    SEVERAL,
    TITLES,
    NameColumns,
    NameParts,
    find_name_columns,
    fold_name,
    heading_key,
    written_name,
)
from audit.workbooks import MEMORY_BYTES, SECONDS, is_workbook, make_size_refusal, read_sheet_rows

_COLUMNS = (
    "is_member",
    "control_kind",
    "role",
    "n_mentions",
    "sex",
    # Of a list that this program wrote: its own rows are not those of the auditor's file.
    "file_row",
    "kind_guessed",
    "recased",
    "control_source",
    "n_others_first",
    "n_others_last",
)
_TRUTH = {
    **dict.fromkeys(("1", "1.0", "true", "yes", "はい"), True),
    **dict.fromkeys(("0", "0.0", "false", "no", "いいえ"), False),
    "": None,
}
_TRUTHS = "|".join(_TRUTH).replace(".", "[.]")
_FORMS = {
    "is_member": (_TRUTHS, "Write 1 (in the notes), 0 (not in the notes), or nothing (unknown)."),
    "n_mentions": (r"([0-9]{1,9}(\.0)?)?", "Write 0, 1, 2 ..."),
    "file_row": ("([1-9][0-9]{0,8})?", "Write 2, 3, 4 ... or nothing."),
    "control_kind": (
        "|".join(("", *CONTROL_KINDS)),
        "Write given, held_out, own, easy, hard, recombined, reference, canary, or nothing.",
    ),
    "control_source": (
        "|".join(("", *CONTROL_SOURCES)),
        "Write held_out, own, invented, drawn, or nothing.",
    ),
    "n_others_first": ("([0-9]{1,9})?", "Write 0, 1, 2 ..., or nothing."),
    "n_others_last": ("([0-9]{1,9})?", "Write 0, 1, 2 ..., or nothing."),
}
"""By column: the form of its cells, and the advice if a cell has another form."""
NAMES_ENDINGS = ("csv", "tsv", "txt", "xlsx", "jsonl", "ndjson", "json")
"""File endings of uploaded lists of names."""
_ROWS_PER_REPORT = 1_000
_HIDDEN_CATEGORIES = ("Cc", "Cf", "Co")


@dataclass(frozen=True)
class NamesFile:
    """A list of names as read from a file, without duplicates, with remarks on odd rows by number.

    `row` of the candidates is their row in the file, or the number in a column file_row. `encoding`
    is shown to the person beside the first rows.
    """

    candidates: Candidates
    encoding: str
    notes: tuple[RowNote, ...]


Row = dict[str, Any]
"""A row of the file, with the fields of `Candidates`."""


def read_names(
    data: bytes, *, subject: str = "names", on_rows: Callable[[int], None] = lambda n: None
) -> NamesFile:
    """Read a list of names: first and last name, or one column; optionally truth and more.

    The file is CSV, an Excel workbook (its first sheet) or JSONL. The kind of controls
    without one is derived from the list's members (section 3.4), or is "given" if the list has no
    members, and `is_kind_guessed` is True; controls with the role "canary" are held-out twins of
    planted names.

    `subject` is the name of the file in messages; `on_rows` is called for each thousand rows read.
    """
    table = _read_file(data, subject=subject)
    names, columns = _find_columns(table, subject=subject)
    notes: list[RowNote] = [*table.notes]
    used = names.read_columns.union(columns.values())
    unread = [str(column + 1) for column in range(len(table.header)) if column not in used]
    if unread:
        unread_message = Message("These columns are not read: {unread}.", unread=", ".join(unread))
        notes.append(RowNote(1, unread_message))
    rows: dict[str, tuple[int, Row]] = {}  # to a model two splits of one full name are one name
    for number, cells in zip(table.row_numbers, table.rows, strict=True):
        if not number % _ROWS_PER_REPORT:
            on_rows(_ROWS_PER_REPORT)
        parts = names.read_parts(cells)
        first, last = parts.first, parts.last
        if not first and not last:
            is_titles = TITLES in parts.oddities
            notes.append(RowNote(number, _ONLY_TITLES if is_titles else _NO_NAME))
            continue
        texts = {field: cells[column].strip() for field, column in columns.items()}
        row = _parse_row(first, last, texts, number, subject=subject)
        notes += _describe_oddities(parts, number)
        twin_number, twin = rows.setdefault(fold_name(written_name(first, last)), (number, row))
        if twin["is_member"] is not row["is_member"]:
            raise AuditError(
                "Rows {first} and {second} hold the same name with different is_member.",
                where=subject,
                do="Correct or delete one of them.",
                first=twin_number,
                second=number,
            )
        if twin is not row:
            twin_message = Message(
                "The name is that of row {number}; left out.", number=twin_number
            )
            notes.append(RowNote(number, twin_message))
    if not rows:
        raise AuditError("The file holds no names.", where=subject)
    fields = next(iter(rows.values()))[1]
    listed = Candidates(
        **{field: tuple(row[field] for _, row in rows.values()) for field in fields}
    )
    notes.sort(key=lambda note: note.row)
    listed = with_kinds(with_usual_case(_with_one_source(listed, location=subject)))
    return NamesFile(listed, table.encoding, tuple(notes))


def _read_file(data: bytes, *, subject: str) -> Table:
    """Read a table in the format that its bytes show, whatever the file is called."""
    if is_workbook(data):
        return _read_workbook(data, subject=subject)
    text, encoding = decode_text(data, subject=subject)
    read_text = read_json_table if text.lstrip().startswith("{") else read_csv_table
    return read_text(text, encoding=encoding, subject=subject)


def _read_workbook(data: bytes, *, subject: str) -> Table:
    """Read the first sheet of a workbook."""
    refuse_too_large(data, subject=subject)
    n_sheets, rows = call_limited(
        read_sheet_rows,
        data,
        subject,
        place=subject,
        seconds=SECONDS,
        n_bytes=MEMORY_BYTES,
        refusal=make_size_refusal(subject),
    )
    header = rows[0][1] if rows else []
    padded = ((number, cells + [""] * (len(header) - len(cells))) for number, cells in rows[1:])
    notes: tuple[RowNote, ...] = ()
    if n_sheets > 1:
        sheet_message = Message("The workbook has {n} sheets; the first one is read.", n=n_sheets)
        notes = (RowNote(1, sheet_message),)
    return make_table(header, padded, encoding="xlsx", subject=subject, notes=notes)


def _with_one_source(listed: Candidates, *, location: str) -> Candidates:
    """Return a list in which every row has the control source that some rows state."""
    sources = sorted({source for source in listed.control_source if source})
    if len(sources) > 1:
        raise AuditError(
            "The controls of the list have several sources: {sources}.",
            where=location,
            do="Make one list for each control_source.",
            sources=", ".join(sources),
        )
    return replace(listed, control_source=tuple(sources) * len(listed)) if sources else listed


def make_names_template() -> str:
    """Return a CSV file to fill in: the header and three invented rows."""
    return (
        "first_name,last_name,is_member,role,n_mentions,sex\n"
        "Jane,Exampleton,1,patient,2,F\n"
        "John,Sampleford,0,,,M\n"
        "太郎,見本,,,,\n"
    )


def _find_columns(table: Table, *, subject: str) -> tuple[NameColumns, dict[str, int]]:
    """Return the columns of the names, and the columns of other fields."""
    location = Message("{subject}, row 1", subject=subject)
    advice = (
        "The first row must name the columns: first_name and last_name (姓 and 名), or name (氏名)."
    )
    try:
        names = find_name_columns(table.header)
    except ValueError as error:
        raise AuditError(error.args[0], where=location, do=advice) from None
    if names.is_empty:
        raise AuditError("No column holds names.", where=location, do=advice)
    columns: dict[str, int] = {}
    for column, name in enumerate(table.header):
        for field in _COLUMNS:
            if heading_key(name) in HEADINGS[field] and columns.setdefault(field, column) != column:
                raise AuditError(
                    "Columns {columns} and {column} both mean {field}.",
                    where=location,
                    do="Keep one of them.",
                    columns=columns[field] + 1,
                    column=column + 1,
                    field=field,
                )
    return names, columns


def _parse_row(
    first: str, last: str, texts: Mapping[str, str], number: int, *, subject: str
) -> Row:
    location = Message("{subject}, row {number}", subject=subject, number=number)
    if max(map(len, (first, last, *texts.values()))) > MAX_NAME_CHARS:
        raise AuditError(
            "A cell or a name is longer than {max_name_chars} characters.",
            where=location,
            max_name_chars=MAX_NAME_CHARS,
        )
    cell = {field: fold_name(texts.get(field, "")) for field in _COLUMNS}
    for field, (form, advice) in _FORMS.items():
        if not re.fullmatch(form, cell[field]):
            raise AuditError(
                "{field} cannot be understood.", where=location, do=advice, field=field
            )
    is_member = _TRUTH[cell["is_member"]]
    n_mentions = int(cell["n_mentions"].removesuffix(".0")) if cell["n_mentions"] else None
    role, kind = texts.get("role", ""), cell["control_kind"]
    if kind and is_member is not False:
        raise AuditError(
            "The name has a control_kind but is no control.",
            where=location,
            do="Set is_member to 0.",
        )
    if CANARY in (cell["role"], kind):
        # A canary is known by its role or by its kind; either may be left out of the file.
        if is_member is None or (is_member and not n_mentions) or kind not in ("", CANARY):
            raise AuditError(
                "The row does not fit a canary.",
                where=location,
                do="A planted one has is_member 1 and its n_mentions, a held-out one is_member 0; "
                "the control_kind is canary or empty.",
            )
        role, kind = CANARY, "" if is_member else CANARY
    is_guessed = is_member is False and (not kind or _TRUTH.get(cell["kind_guessed"]) is True)
    return {
        "first": first,
        "last": last,
        "is_member": is_member,
        "control_kind": kind or ("given" if is_member is False else ""),
        "role": role,
        "sex": texts.get("sex", ""),
        "n_mentions": n_mentions,
        "row": int(cell["file_row"] or 0) or None if "file_row" in texts else number,
        "is_kind_guessed": is_guessed,
        "is_recased": _TRUTH.get(cell["recased"]) is True,
        "control_source": cell["control_source"],
        "n_others_first": _parse_count(cell["n_others_first"]),
        "n_others_last": _parse_count(cell["n_others_last"]),
    }


def _parse_count(cell: str) -> int | None:
    return int(cell) if cell else None


_NO_NAME = Message("The row has no name and was left out.")
_ONLY_TITLES = Message("The row holds a title, degree or honorific and no name; left out.")
_ODDITIES = {
    TITLES: Message("Titles, degrees or honorifics are no part of a name and were dropped."),
    BRACKETS: Message("Text in brackets or quotation marks was dropped."),
    MIDDLE: Message("Middle names or initials were dropped: one first name is read."),
    SEVERAL: Message("The first name has several words; all of them are read."),
    DOUBTFUL: Message("A word that can be a title or a degree is read as a name."),
}


def _describe_oddities(parts: NameParts, number: int) -> Iterator[RowNote]:
    full_name = parts.first + parts.last
    if any(unicodedata.category(c) in _HIDDEN_CATEGORIES for c in full_name):
        yield RowNote(number, "The name holds control, invisible or private characters.")
    if "\ufffd" in full_name:
        yield RowNote(number, "The name holds a sign for a letter that was lost.")
    if not parts.first or not parts.last:
        yield RowNote(number, "The name has one part only or could not be split.")
    for oddity, note in _ODDITIES.items():
        if oddity in parts.oddities:
            yield RowNote(number, note)


# Spreadsheets keep this white space, so the cell is no formula. Reading names strips it, so the
# name is unchanged.
_GUARD = "\N{NO-BREAK SPACE}"
_FORMULA_STARTS = tuple("=+-@\0＝＋－＠")


def encode_names_csv(candidates: Candidates) -> bytes:
    """Return a list as a CSV file (UTF-8 with a byte order mark).

    A cell that begins like a formula gets a no-break space before it, so that no spreadsheet
    computes it; `read_names` strips it. Rows of the auditor's own file and guessed kinds are
    written only if reading this file would give others.
    """
    columns: dict[str, Cells] = {
        "first_name": _guard_formulas(candidates.first),
        "last_name": _guard_formulas(candidates.last),
        "is_member": candidates.is_member,
        "control_kind": candidates.control_kind,
        "role": _guard_formulas(candidates.role),
        "sex": _guard_formulas(candidates.sex),
        "n_mentions": candidates.n_mentions,
    }
    if candidates.has_own_rows:
        columns["file_row"] = candidates.row
    if any(candidates.is_kind_guessed):
        columns["kind_guessed"] = candidates.is_kind_guessed
    if any(candidates.is_recased):
        columns["recased"] = candidates.is_recased
    for name in ("control_source", "n_others_first", "n_others_last"):
        column = getattr(candidates, name)
        if any(cell not in ("", None) for cell in column):
            columns[name] = column
    rows = zip(*columns.values(), strict=True)
    return write_table(tuple(columns), rows, bom=True).encode("utf-8", "surrogatepass")


def _guard_formulas(cells: Sequence[str]) -> list[str]:
    return [_GUARD + cell if cell.startswith(_FORMULA_STARTS) else cell for cell in cells]
