"""A list of names as a CSV file for the command line: read again it is exactly the same list."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from audit.errors import AuditError
from audit.names.candidates import CANARY, CONTROL_KINDS, Candidates, make_candidates, with_kinds
from audit.tables import RowNote, Table, read_table, write_table
from audit.text import (
    MAX_NAME_CHARS,
    NameColumns,
    find_name_columns,
    fold_name,
    heading_key,
    split_name,
    written_name,
)


def _canary_cells(
    is_member: bool | None, *, role: str, control_kind: str, n_mentions: int | None, where: str
) -> tuple[str, str]:
    """Return role and kind of control of one row; of names that are no canaries as they are.

    A canary is known by its role or by its kind of control; either may be left out of the file.
    """
    if CANARY not in (fold_name(role), control_kind):
        return role, control_kind
    if is_member is None:
        raise AuditError(
            "The canary does not say whether it was planted.", where=where,
            do="Set is_member to 1 (planted) or 0 (held out).",
        )  # fmt: skip
    if is_member and not n_mentions:
        raise AuditError(
            "The planted canary does not say how often it was planted.", where=where,
            do="Write the number into the column n_mentions.",
        )  # fmt: skip
    if control_kind not in ("", CANARY):
        raise AuditError(
            "The held-out canary has another control_kind.", where=where,
            do="Write canary, or nothing.",
        )  # fmt: skip
    return CANARY, "" if is_member else CANARY


_COLUMNS = {
    "is_member": {"ismember", "member", "label"},
    "control_kind": {"controlkind"},
    "role": {"role", "役割"},
    "n_mentions": {"nmentions", "mentions", "occurrences"},
    "sex": {"sex", "gender", "性別"},
    # Of a list that was handed out: its own rows are not those of the auditor's file.
    "file_row": {"filerow"},
    "kind_guessed": {"kindguessed"},
}
_TRUTH = {
    **dict.fromkeys(("1", "1.0", "true", "yes", "はい"), True),
    **dict.fromkeys(("0", "0.0", "false", "no", "いいえ"), False),
    "": None,
}
_HIDDEN_CATEGORIES = ("Cc", "Cf", "Co")


@dataclass(frozen=True)
class NamesFile:
    """A list of names as read from a file, duplicates left out, with what looks odd by row number.

    `row` of the candidates is their row in the file, or what a column file_row says. `encoding` is
    to be shown to the person beside the first rows.
    """

    candidates: Candidates
    encoding: str
    notes: tuple[RowNote, ...]


@dataclass(frozen=True)
class _Row:
    number: int
    first: str
    last: str
    is_member: bool | None
    control_kind: str
    role: str
    sex: str
    n_mentions: int | None
    file_row: int | None
    is_kind_guessed: bool


def read_names(data: bytes, *, what: str = "names") -> NamesFile:
    """Read a list of names: first and last name, or one column; optionally truth and more.

    Controls without a kind get one against the list's members (section 3.4), or "given" where the
    list has no members, and `is_kind_guessed` says so; those of the role "canary" are held-out
    twins of planted names.

    `what` is what messages call the file.
    """
    table = read_table(data, what=what)
    names = _name_columns(table, what=what)
    columns = _other_columns(table, what=what)
    notes = [RowNote(row, "The row is empty and was left out.") for row in table.blank_rows]
    used = names.used.union(columns.values())
    unread = [str(column + 1) for column in range(len(table.header)) if column not in used]
    if unread:
        notes.append(RowNote(1, f"These columns are not read: {', '.join(unread)}."))
    rows: list[_Row] = []
    for number, cells in zip(table.row_numbers, table.rows, strict=True):
        row = _read_row(cells, number, names=names, columns=columns, what=what)
        if row is None:
            notes.append(RowNote(number, "The row has no name and was left out."))
        else:
            rows.append(row)
            notes += _oddities(row)
    rows = _without_duplicates(rows, notes, what=what)
    if not rows:
        raise AuditError("The file holds no names.", where=what)
    return NamesFile(
        candidates=_with_control_kinds(rows, what=what),
        encoding=table.encoding,
        notes=tuple(sorted(notes, key=lambda note: note.row)),
    )


def names_template() -> str:
    """Return a CSV file to fill in: the header and three invented rows."""
    return (
        "first_name,last_name,is_member,role,n_mentions,sex\n"
        "Jane,Exampleton,1,patient,2,F\n"
        "John,Sampleford,0,,,M\n"
        "太郎,見本,,,,\n"
    )


def _name_columns(table: Table, *, what: str) -> NameColumns:
    do = (
        "The first row must name the columns: first_name and last_name (姓 and 名), or name (氏名)."
    )
    try:
        names = find_name_columns(table.header)
    except ValueError as error:
        raise AuditError(f"{error}.", where=f"{what}, row 1", do=do) from None
    if names.is_empty:
        raise AuditError("No column holds names.", where=f"{what}, row 1", do=do)
    return names


def _other_columns(table: Table, *, what: str) -> dict[str, int]:
    columns: dict[str, int] = {}
    for column, name in enumerate(table.header):
        for field, headings in _COLUMNS.items():
            if heading_key(name) not in headings:
                continue
            if field in columns:
                raise AuditError(
                    f"Columns {columns[field] + 1} and {column + 1} both mean {field}.",
                    where=f"{what}, row 1",
                    do="Keep one of them.",
                )
            columns[field] = column
    return columns


def _read_row(
    cells: Sequence[str], number: int, *, names: NameColumns, columns: Mapping[str, int], what: str
) -> _Row | None:
    where = f"{what}, row {number}"
    if any(len(cells[column].strip()) > MAX_NAME_CHARS for column in names.used):
        raise AuditError(f"The name is longer than {MAX_NAME_CHARS} characters.", where=where)
    first, last = names.read(cells)
    if not first and not last:
        return None
    given = {field: cells[column].strip() for field, column in columns.items()}
    if any(len(value) > MAX_NAME_CHARS for value in given.values()):
        raise AuditError(f"A cell is longer than {MAX_NAME_CHARS} characters.", where=where)
    is_member = _truth(given.get("is_member", ""), where=where)
    n_mentions = _count(given.get("n_mentions", ""), where=where)
    role, control_kind = _canary_cells(
        is_member,
        role=given.get("role", ""),
        control_kind=_kind(given.get("control_kind", ""), is_member, where=where),
        n_mentions=n_mentions,
        where=where,
    )
    sex = given.get("sex", "")
    row = _file_row(given["file_row"], where=where) if "file_row" in given else number
    says_guessed = _TRUTH.get(fold_name(given.get("kind_guessed", ""))) is True
    is_guessed = is_member is False and (not control_kind or says_guessed)
    return _Row(
        number, first, last, is_member, control_kind, role, sex, n_mentions, row, is_guessed
    )


def _truth(cell: str, *, where: str) -> bool | None:
    key = fold_name(cell)
    if key not in _TRUTH:
        raise AuditError(
            "is_member cannot be understood.",
            where=where,
            do="Write 1 (in the notes), 0 (not in the notes), or nothing (unknown).",
        )
    return _TRUTH[key]


def _kind(cell: str, is_member: bool | None, *, where: str) -> str:
    kind = fold_name(cell)
    if kind and kind not in CONTROL_KINDS:
        raise AuditError(
            "control_kind cannot be understood.",
            where=where,
            do=f"Write one of {', '.join(CONTROL_KINDS)}, or nothing.",
        )
    if kind and is_member is not False:
        raise AuditError(
            "The name has a control_kind but is no control.", where=where, do="Set is_member to 0."
        )
    return kind


def _count(cell: str, *, where: str) -> int | None:
    text = fold_name(cell)
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,9}(\.0)?", text):
        raise AuditError(
            "The number of mentions is not a whole number.", where=where, do="Write 0, 1, 2 ..."
        )
    return int(text.removesuffix(".0"))


def _file_row(cell: str, *, where: str) -> int | None:
    text = fold_name(cell)
    if text and not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise AuditError(
            "file_row is not the number of a row.", where=where, do="Write 2, 3, 4 ... or nothing."
        )
    return int(text) if text else None


def _oddities(row: _Row) -> list[RowNote]:
    notes = []
    name = row.first + row.last
    if any(unicodedata.category(ch) in _HIDDEN_CATEGORIES for ch in name):
        notes.append(
            RowNote(row.number, "The name holds control, invisible or private characters.")
        )
    if "\ufffd" in name:
        notes.append(RowNote(row.number, "The name holds a sign for a letter that was lost."))
    if not row.first or not row.last:
        notes.append(RowNote(row.number, "The name has one part only or could not be split."))
    return notes


def _without_duplicates(rows: Sequence[_Row], notes: list[RowNote], *, what: str) -> list[_Row]:
    # Two splits of one written name are one name: to a model they are the same text.
    kept: dict[str, _Row] = {}
    for row in rows:
        twin = kept.setdefault(fold_name(written_name(row.first, row.last)), row)
        if twin is row:
            continue
        if twin.is_member is not row.is_member:
            raise AuditError(
                f"Rows {twin.number} and {row.number} hold the same name with different is_member.",
                where=what,
                do="Correct or delete one of them.",
            )
        notes.append(RowNote(row.number, f"The name is that of row {twin.number}; left out."))
    return list(kept.values())


def _with_control_kinds(rows: Sequence[_Row], *, what: str) -> Candidates:
    seen: dict[int, int] = {}
    for row in rows:
        if row.file_row is not None and seen.setdefault(row.file_row, row.number) != row.number:
            raise AuditError(
                f"Rows {seen[row.file_row]} and {row.number} have the same file_row.",
                where=what,
                do="Correct one of them, or take the column out.",
            )
    kinds = tuple(row.control_kind or ("given" if row.is_member is False else "") for row in rows)
    same = ("first", "last", "is_member", "role", "sex", "n_mentions", "is_kind_guessed")
    columns: dict[str, Any] = {name: tuple(getattr(row, name) for row in rows) for name in same}
    popularity = (math.nan,) * len(rows)
    file_rows = tuple(row.file_row for row in rows)
    return with_kinds(
        Candidates(**columns, control_kind=kinds, popularity=popularity, row=file_rows)
    )


MAX_TYPED_CHARS = 200_000


def with_typed(
    given: Candidates | None, *, text: str, is_member: bool | None
) -> tuple[Candidates | None, tuple[RowNote, ...]]:
    """Return a list with typed names after it, and what a reader should know of the lines.

    `text` has one name a line, "First Last", "Last, First" or "姓 名"; `is_member` is the truth of
    all of them, None: unknown.
    """
    if len(text) > MAX_TYPED_CHARS:
        raise AuditError(
            f"is longer than {MAX_TYPED_CHARS:,} characters.", where="typed names",
            do="Upload a file instead.",
        )  # fmt: skip
    truth_of: dict[str, bool | None] = {}
    if given is not None:
        truth_of = {fold_name(given.full_name(i)): given.is_member[i] for i in range(len(given))}
    names: list[tuple[str, str]] = []
    notes: list[RowNote] = []
    for number, line in enumerate(text.splitlines(), start=1):
        first, last = split_name(line)
        if not first and not last:
            continue
        key = fold_name(written_name(first, last))
        _check(first, last, truth_of.get(key, is_member) is is_member, number=number)
        if key in truth_of:
            notes.append(RowNote(number, "The name is on the list already; left out."))
            continue
        truth_of[key] = is_member
        if not first or not last:
            notes.append(RowNote(number, "The name has one part only or could not be split."))
        names.append((first, last))
    if not names:
        return given, tuple(notes)
    is_control = is_member is False
    typed = make_candidates(names, is_member=is_member, control_kind="given" if is_control else "")
    typed = replace(typed, is_kind_guessed=(is_control,) * len(names))
    joined = typed if given is None else given.without_popularity() + typed
    return with_kinds(joined, has_new_members=is_member is True), tuple(notes)


def _check(first: str, last: str, has_same_truth: bool, *, number: int) -> None:
    where = f"typed names, line {number}"
    if max(len(first), len(last)) > MAX_NAME_CHARS:
        raise AuditError(f"The name is longer than {MAX_NAME_CHARS} characters.", where=where)
    if not has_same_truth:
        raise AuditError(
            "The name is on the list with another truth.", where=where,
            do="Take it out here, or correct the file.",
        )  # fmt: skip


# White space that no spreadsheet drops and that reading names strips: the cell is no formula, and
# the name comes back as it was.
_GUARD = "\N{NO-BREAK SPACE}"
_FORMULA_STARTS = tuple("=+-@\0＝＋－＠")


def names_file(candidates: Candidates) -> bytes:
    """Return a list as a CSV file (UTF-8 with a byte order mark).

    A cell that begins like a formula gets a no-break space before it: no spreadsheet computes it,
    and `read_names` strips it. Rows of the auditor's own file and guessed kinds go along where
    they are not those that reading this file would give.
    """
    columns: dict[str, Iterable[object]] = {
        "first_name": map(_guarded, candidates.first),
        "last_name": map(_guarded, candidates.last),
        "is_member": candidates.is_member,
        "control_kind": candidates.control_kind,
        "role": map(_guarded, candidates.role),
        "sex": map(_guarded, candidates.sex),
        "n_mentions": candidates.n_mentions,
    }
    if candidates.has_own_rows:
        columns["file_row"] = candidates.row
    if any(candidates.is_kind_guessed):
        columns["kind_guessed"] = candidates.is_kind_guessed
    return write_table(tuple(columns), zip(*columns.values(), strict=True), bom=True).encode(
        "utf-8", "surrogatepass"
    )


def _guarded(cell: str) -> str:
    return _GUARD + cell if cell.startswith(_FORMULA_STARTS) else cell
