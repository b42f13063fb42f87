"""Tables: CSV and JSONL from and for people, read strictly; CSV written without formulas.

Comes in: bytes of an uploaded file. Goes out: cells as text without any guesses: "NA", "None" and
"007" stay as they are. Knows no names, no passages, no model.
"""

from __future__ import annotations

import csv
import io
import math
import numbers
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from audit.errors import AuditError, Message
from audit.foreign import decode_text, parse_json_value, refuse_other_formats
from audit.stats import Estimate, Rate
from audit.text import heading_key

UNDEFINED = "—"
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float) -> str:
    """Write a fraction as percent with one decimal."""
    return UNDEFINED if math.isnan(share) else f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def percent_interval(estimate: Estimate) -> str:
    """Return a fraction's interval as percent."""
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return UNDEFINED
    low, high = (f"{100 * bound:.1f}" for bound in (estimate.low, estimate.high))
    return f"{_with_minus_sign(f'{low} – {high}')}\N{NO-BREAK SPACE}%"


def decimal(value: float, *, digits: int = 3) -> str:
    """Return a number with fixed decimals."""
    return UNDEFINED if math.isnan(value) else _with_minus_sign(f"{value:.{digits}f}")


def decimal_interval(estimate: Estimate, *, digits: int = 3) -> str:
    """Return an interval with fixed decimals."""
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return UNDEFINED
    return f"{decimal(estimate.low, digits=digits)} – {decimal(estimate.high, digits=digits)}"


def small(value: float) -> str:
    """Return a number that may be tiny, with two or three significant digits."""
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "\N{MINUS SIGN}∞"
    if value == 0 or 0.001 <= abs(value) < 1000:
        return _with_minus_sign(f"{value:.3g}")
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{_with_minus_sign(mantissa)} × 10{raise_digits(int(exponent))}"


def large(value: float) -> str:
    """Return a whole number that may be very large, with two or three digits from a million on."""
    return f"{value:,.0f}" if abs(value) < 1_000_000 else small(value)


def raise_digits(exponent: int) -> str:
    """Write a whole number in raised digits."""
    return ("⁻" if exponent < 0 else "") + str(abs(exponent)).translate(_RAISED)


def format_moment(time_stamp: str, *, zone: str, has_zone: bool = True) -> str:
    """Return date, hour and minute of an ISO time stamp in a time zone, with the zone's name.

    A stamp without a zone is UTC. A zone that is not known counts as UTC. "" stays "".
    """
    if not time_stamp:
        return ""
    utc = datetime.fromisoformat(time_stamp)
    local = (utc if utc.tzinfo else utc.replace(tzinfo=UTC)).astimezone(_find_zone(zone))
    name = local.tzname() or ""
    ending = f" {name if name.isalpha() else f'UTC{name}'}" if has_zone else ""
    return f"{local:%Y-%m-%d %H:%M}{ending}"


def _find_zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return UTC


def machine_zone() -> str:
    """Return the name of this machine's time zone, or "UTC" if the system does not name it."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        with suppress(OSError):
            name = str(Path("/etc/localtime").readlink()).partition("zoneinfo/")[2]
    return name or "UTC"


def _with_minus_sign(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


Cells = Sequence[str | float | None]


def markdown_table(head: Cells, rows: Iterable[Cells]) -> str:
    """Return a table of Markdown."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


def format_estimate(estimate: Estimate, *, digits: int, between: str = "–") -> str:
    """Return the cell of an estimate with its interval in brackets; "—" if undefined."""
    if math.isnan(estimate.value):
        return UNDEFINED
    value, low, high = (
        decimal(x, digits=digits) for x in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} ({low}{between}{high})"


def format_counts(rate: Rate) -> str:
    """Return the cell of a rate's counts."""
    return f"{rate.n_hits} of {rate.n_total}"


MAX_HEADER_BYTES = 64 * 1024
MAX_FIELD_CHARS = 1_000_000
MAX_COLUMNS = 256
MAX_ROWS = 1_000_000
MAX_CELLS = 4_000_000
_MAX_LINES = 5 * MAX_ROWS

_FORMULA_STARTS = frozenset("=+-@\t\r\n\0＝＋－＠")


@dataclass(frozen=True)
class RowNote:
    """A remark on one row for the reader; it never holds the row's text."""

    row: int  # as a spreadsheet shows it (the header is row 1), or the line of a JSONL file
    what: str  # one sentence: what was found and what was done about it


@dataclass(frozen=True)
class Table:
    """A CSV file as text: R rows of C cells."""

    header: tuple[str, ...]  # C distinct column names, white space stripped
    rows: tuple[tuple[str, ...], ...]  # R tuples of C cells, as written
    # Numbers as in a spreadsheet: the header is row 1, a record that spans several lines is one
    # row, and an empty line is a row that is left out here.
    row_numbers: tuple[int, ...]
    # "UTF-8", "UTF-8 with BOM", "UTF-16", "CP932" or "xlsx": shown beside the first rows
    encoding: str
    notes: tuple[RowNote, ...] = ()  # remarks on the whole table


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its number (the header is row 1) and its cells by column name."""

    row: int
    cells: Mapping[str, str]


def read_table(data: bytes, *, subject: str) -> Table:
    """Read an uploaded CSV file with comma, semicolon or tab; every cell is text.

    Messages call the file `subject`.
    """
    text, encoding = decode_text(data, subject=subject)
    return read_csv_table(text, encoding=encoding, subject=subject)


def read_csv_table(text: str, *, encoding: str, subject: str) -> Table:
    """Read the text of a CSV file; a first line such as "sep=;" names the delimiter."""
    refuse_other_formats(text, subject=subject)
    delimiter, begin = find_delimiter(text, subject=subject)
    # Counted before parsing, because a cell of two characters becomes one of fifty bytes.
    if text.count(delimiter) > MAX_CELLS or text.count("\n") > _MAX_LINES:
        raise _too_many_cells(subject)
    lines = io.StringIO(text[begin:], newline="")
    records = read_csv_records(lines, delimiter, subject=subject)
    _, header = next(records, (1, []))
    return make_table(header, records, encoding=encoding, subject=subject)


def read_json_table(text: str, *, encoding: str, subject: str) -> Table:
    """Read the text of a JSONL file; the keys of all its objects are the columns."""
    columns: dict[str, int] = {}
    rows: dict[int, list[str]] = {}
    for record in read_json_rows(text, subject=subject):
        if isinstance(record, RowNote):
            place = Message("{subject}, row {number}", subject=subject, number=record.row)
            raise AuditError(record.what, where=place)
        for key in record.cells:
            columns.setdefault(key, len(columns))
        if len(columns) > MAX_COLUMNS or len(columns) * len(rows) > MAX_CELLS:
            raise _too_many_cells(subject)
        rows[record.row] = [record.cells.get(key, "") for key in columns]
    padded = ((row, cells + [""] * (len(columns) - len(cells))) for row, cells in rows.items())
    return make_table(list(columns), padded, encoding=encoding, subject=subject)


def make_table(
    header: Sequence[str],
    records: Iterable[tuple[int, Sequence[str]]],
    *,
    encoding: str,
    subject: str,
    notes: tuple[RowNote, ...] = (),
) -> Table:
    """Make a table of a header and the numbered rows below it; empty rows are left out.

    Unnamed columns at the end, and empty cells after the last column, are left out. A first column
    without a name is an index if it holds only whole numbers, and stays.
    """
    header = _check_header(header, subject=subject)
    rows: dict[int, tuple[str, ...]] = {}
    for number, record in records:
        if not record:
            continue
        if len(record) < len(header) or any(map(str.strip, record[len(header) :])):
            raise AuditError(
                "The row has {n_record} cells where the header has {n_header}.",
                where="{subject}, row {number}",
                do="Put a cell that holds the delimiter into quotes.",
                n_record=len(record),
                n_header=len(header),
                subject=subject,
                number=number,
            )
        if len(rows) == MAX_ROWS:
            raise AuditError(
                "The file has more than {max_rows:,} rows.", where=subject, max_rows=MAX_ROWS
            )
        rows[number] = tuple(record[: len(header)])
    if not header[0] and not all(cells[0].strip().isdecimal() for cells in rows.values()):
        raise _unnamed_column(1, subject=subject)
    return Table(header, tuple(rows.values()), tuple(rows), encoding, notes)


def _too_many_cells(subject: str) -> AuditError:
    return AuditError(
        "The file has more than {max_cells:,} cells, or line breaks without end.",
        where=subject,
        do="Leave out the columns that are not needed.",
        max_cells=MAX_CELLS,
    )


_NAMED_DELIMITER = re.compile(r'"?sep=(.)"?(?:\r\n|\r|\n|\Z)', re.IGNORECASE)


def find_delimiter(text: str, *, subject: str) -> tuple[str, int]:
    """Return the delimiter, and where the header begins.

    A first line such as "sep=;", which Excel writes and does not show, names it. Otherwise it is
    the commonest of comma, semicolon and tab in the first line.
    """
    naming = _NAMED_DELIMITER.match(text)
    begin = naming.end() if naming else 0
    # Bounded before anything is parsed: a header of a million columns never becomes a list.
    head = text[begin : begin + MAX_HEADER_BYTES + 1]
    first_line = re.split("[\r\n]", head, maxsplit=1)[0]
    if len(first_line.encode(errors="surrogatepass")) > MAX_HEADER_BYTES:
        raise AuditError(
            "The header is longer than 64 KB.", where="{subject}, row 1", subject=subject
        )
    if naming:
        if naming[1] not in ",;\t|":
            raise AuditError(
                "The first line names a mark between columns that is not read.",
                where=subject,
                do="Use a comma, a semicolon or a tab.",
            )
        return naming[1], begin
    unquoted = re.sub('"[^"]*"', "", first_line)
    return max(",;\t", key=unquoted.count), begin


def read_csv_records(
    lines: Iterable[str], delimiter: str, *, subject: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield number (the header is 1) and cells of each row; AuditError for a broken quote."""
    # The limit applies to the whole process, so it is only ever increased.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_FIELD_CHARS))
    number = 0
    try:
        for number, record in enumerate(csv.reader(lines, delimiter=delimiter, strict=True), 1):
            yield number, record
    except csv.Error as error:
        # The parser's message may quote the row, so it is not shown.
        too_long = "field limit" in str(error)
        raise AuditError(
            "A cell is longer than 1 MB." if too_long else "A quote is opened and not closed well.",
            where="{subject}, row {number}",
            do="Check the double quotes in this row and the ones before it.",
            subject=subject,
            number=number + 1,
        ) from None


HALVES = re.compile("[\ud800-\udfff]")


def is_whole(text: str) -> bool:
    """Whether a text holds no NUL and no lone surrogate (an undecoded byte, or half a pair)."""
    return "\0" not in text and (text.isascii() or not HALVES.search(text))


def read_json_records(lines: Iterator[str]) -> Iterator[Row | RowNote]:
    """Read the objects of a JSONL file one by one; numbers, true and false become text.

    Values of other kinds are left out.
    """
    return (
        _read_json_record(line, row=row) for row, line in enumerate(lines, start=1) if line.strip()
    )


def _number_text(literal: str) -> str | None:
    if literal.lstrip("-").isdecimal():
        return literal
    value = float(literal)
    if not math.isfinite(value):
        return literal if "e" in literal.lower() else None
    return f"{value:.0f}" if value.is_integer() else str(value)


def _read_json_record(line: str, *, row: int) -> Row | RowNote:
    try:
        record = parse_json_value(
            line, refusal=AuditError("The line is not JSON."), number=_number_text
        )
    except AuditError:
        return RowNote(row, "The line is not JSON.")
    if not isinstance(record, dict):
        return RowNote(row, "The line is not a JSON object.")
    cells = {
        key: str(value).lower() if isinstance(value, bool) else value or ""
        for key, value in record.items()
        if isinstance(value, str | bool | None)
    }
    if any(len(cell) > MAX_FIELD_CHARS for cell in cells.values()):
        return RowNote(row, "A text is longer than 1 MB.")
    if not all(map(is_whole, cells.values())):
        return RowNote(row, "The line holds a NUL or half a character.")
    return Row(row, cells)


def read_json_rows(text: str, *, subject: str) -> Iterator[Row | RowNote]:
    """Read the objects of an uploaded JSONL file, as `read_json_records` does."""
    refuse_other_formats(text, subject=subject)
    text = text.removesuffix("\n")
    if text.count("\n") >= MAX_ROWS:  # before each line is parsed
        raise AuditError(
            "The file has more than {max_rows:,} lines.", where=subject, max_rows=MAX_ROWS
        )
    return read_json_records(iter(text.split("\n")))


def _check_header(record: Sequence[str], *, subject: str) -> tuple[str, ...]:
    place = Message("{subject}, row 1", subject=subject)
    names = [name.strip() for name in record]
    while names and not names[-1]:
        names.pop()
    if len(names) > MAX_COLUMNS:
        raise AuditError(
            "The header has more than {max_columns} columns.", where=place, max_columns=MAX_COLUMNS
        )
    if sum(map(len, record)) > MAX_HEADER_BYTES:
        raise AuditError("The header is longer than 64 KB.", where=place)
    if not names:
        raise AuditError("The first row is empty; it must name the columns.", where=place)
    column_of_key: dict[str, int] = {}
    for column, name in enumerate(names, start=1):
        if not name:
            if column == 1:
                continue
            raise _unnamed_column(column, subject=subject)
        # Columns are named by number: in a file without a header the first row is somebody's name.
        twin = column_of_key.setdefault(heading_key(name) or name, column)
        if twin != column:
            raise AuditError(
                "Columns {twin} and {column} have the same name.",
                where=place,
                twin=twin,
                column=column,
            )
    return tuple(names)


def _unnamed_column(column: int, *, subject: str) -> AuditError:
    return AuditError(
        "Column {column} has no heading.",
        where=Message("{subject}, row 1", subject=subject),
        do="Row 1 must hold a heading for each column. If it is data, put a row of headings above "
        "it.",
        column=column,
    )


def write_table(header: Sequence[str], rows: Iterable[Cells], *, bom: bool = False) -> str:
    """Return a CSV text in which no cell is a formula and numbers stay numbers.

    Text is quoted; where it begins like a formula (= + - @, tab, line break, NUL, their full-width
    forms) an apostrophe is put before it. Integers and floats are written as they are, True and
    False as 1 and 0, NaN and None as nothing. `bom` puts a byte order mark first, for Excel.
    """
    lines = [",".join(map(_cell, row)) for row in (header, *rows)]
    return ("\ufeff" if bom else "") + "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if not isinstance(value, str):
        if value is None:
            return ""
        if isinstance(value, numbers.Integral):  # so are True and False
            return str(int(value))
        if isinstance(value, numbers.Real):
            return "" if math.isnan(value) else repr(float(value))
    text = str(value)
    guard = "'" if text[:1] in _FORMULA_STARTS and text else ""
    return '"' + guard + text.replace('"', '""') + '"'
