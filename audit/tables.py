"""Tables: CSV and JSONL from and for people, read strictly; CSV written without formulas.

Comes in: bytes of a file somebody uploaded. Goes out: cells as text, nothing guessed: "NA", "None"
and "007" stay what they are. Knows no names, no passages, no model.
"""

from __future__ import annotations

import csv
import io
import math
import numbers
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from audit.errors import AuditError, Message
from audit.foreign import decode_text, json_value
from audit.stats import Estimate, Rate
from audit.text import heading_key

UNDEFINED = "—"
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float) -> str:
    """Return a fraction as percent with one decimal."""
    return UNDEFINED if math.isnan(share) else f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def percent_interval(estimate: Estimate) -> str:
    """Return a fraction's interval as percent."""
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return UNDEFINED
    return f"{100 * estimate.low:.1f} – {100 * estimate.high:.1f}\N{NO-BREAK SPACE}%"


def decimal(value: float, *, digits: int = 3) -> str:
    """Return a number with fixed decimals."""
    return UNDEFINED if math.isnan(value) else _signed(f"{value:.{digits}f}")


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
        return _signed(f"{value:.3g}")
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{_signed(mantissa)} × 10{raised(int(exponent))}"


def raised(exponent: int) -> str:
    """Return a whole number in raised digits."""
    return ("⁻" if exponent < 0 else "") + str(abs(exponent)).translate(_RAISED)


def moment(at: str) -> str:
    """Return the date and minute of an ISO time stamp, as UTC."""
    return f"{at[:16].replace('T', ' ')} UTC" if at else UNDEFINED


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


Cells = Sequence[object]


def markdown_table(head: Cells, rows: Iterable[Cells]) -> str:
    """Return a table of Markdown."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


def estimated(of: Estimate, *, digits: int, between: str = "–") -> str:
    """Return an estimate with its interval in brackets, as a cell; "—" where undefined."""
    if math.isnan(of.value):
        return UNDEFINED
    value, low, high = (decimal(x, digits=digits) for x in (of.value, of.low, of.high))
    return f"{value} ({low}{between}{high})"


def counted(rate: Rate) -> str:
    """Return a rate as a cell: its counts."""
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
    """Something a reader should know about one row; never holds the row's text."""

    row: int  # as a spreadsheet shows it (the header is row 1), or the line of a JSONL file
    what: str  # what was found and what was done about it, as one sentence


@dataclass(frozen=True)
class Table:
    """A CSV file as text: R rows of C cells."""

    header: tuple[str, ...]  # C distinct column names, white space stripped
    rows: tuple[tuple[str, ...], ...]  # R tuples of C cells, as written
    # As a spreadsheet shows them: the header is row 1, a record that spans several lines is one
    # row, an empty line is a row that is left out here.
    row_numbers: tuple[int, ...]
    encoding: str  # "UTF-8", "UTF-8 with BOM" or "CP932": shown beside the first rows


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its number (the header is row 1) and its cells by the name of their column."""

    row: int
    cells: Mapping[str, str]


def read_table(data: bytes, *, what: str) -> Table:
    """Read an uploaded CSV file: comma, semicolon or tab, every cell as text.

    `what` is what messages call the file.
    """
    text, encoding = decode_text(data, what=what)
    delimiter = delimiter_of(text, what=what)
    # Counted in the text: a cell of two characters is an object of fifty bytes.
    if text.count(delimiter) > MAX_CELLS or text.count("\n") > _MAX_LINES:
        raise AuditError(
            ("The file has more than {max_cells:,} cells, or line breaks without end."),
            where=what,
            do="Leave out the columns that are not needed.",
            max_cells=MAX_CELLS,
        )
    records = csv_records(io.StringIO(text, newline=""), delimiter, what=what)
    header = _header(next(records, (1, []))[1], what=what)
    rows: dict[int, tuple[str, ...]] = {}
    for number, record in records:
        if not record:
            continue
        if len(record) != len(header):
            raise AuditError(
                "The row has {n_record} cells where the header has {n_header}.",
                where="{subject}, row {number}",
                do="Put a cell that holds the delimiter into quotes.",
                n_record=len(record),
                n_header=len(header),
                subject=what,
                number=number,
            )
        if len(rows) == MAX_ROWS:
            raise AuditError(
                "The file has more than {max_rows:,} rows.", where=what, max_rows=MAX_ROWS
            )
        rows[number] = tuple(record)
    return Table(header, tuple(rows.values()), tuple(rows), encoding)


def delimiter_of(text: str, *, what: str) -> str:
    """Return what divides the columns, by the first line: comma, semicolon or tab."""
    # Bounded before anything is parsed: a header of a million columns never becomes a list.
    head = text[: MAX_HEADER_BYTES + 1]
    first_line = re.split("[\r\n]", head, maxsplit=1)[0]
    if len(first_line.encode(errors="surrogatepass")) > MAX_HEADER_BYTES:
        raise AuditError("The header is longer than 64 KB.", where="{subject}, row 1", subject=what)
    unquoted = re.sub('"[^"]*"', "", first_line)
    return max(",;\t", key=unquoted.count)


def csv_records(
    lines: Iterable[str], delimiter: str, *, what: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield number (the header is 1) and cells of each row; a broken quote ends in AuditError."""
    # The limit is the whole process's, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_FIELD_CHARS))
    number = 0
    try:
        for number, record in enumerate(csv.reader(lines, delimiter=delimiter, strict=True), 1):
            yield number, record
    except csv.Error as error:
        # The parser's own text may quote the row.
        too_long = "field limit" in str(error)
        raise AuditError(
            "A cell is longer than 1 MB." if too_long else "A quote is opened and not closed well.",
            where="{subject}, row {number}",
            do="Check the double quotes in this row and the ones before it.",
            subject=what,
            number=number + 1,
        ) from None


HALVES = re.compile("[\ud800-\udfff]")


def is_whole(text: str) -> bool:
    """Whether a text holds no NUL and no half character: a byte that did not fit, half a pair."""
    return "\0" not in text and (text.isascii() or not HALVES.search(text))


def json_records(lines: Iterator[str]) -> Iterator[Row | RowNote]:
    """Go through the objects of a JSONL file; numbers become text, other values are left out."""
    return (_json_record(line, row=row) for row, line in enumerate(lines, start=1) if line.strip())


def _number_text(written: str) -> str | None:
    if written.lstrip("-").isdecimal():
        return written
    value = float(written)
    if not math.isfinite(value):
        return written if "e" in written.lower() else None
    return f"{value:.0f}" if value.is_integer() else str(value)


def _json_record(line: str, *, row: int) -> Row | RowNote:
    try:
        found = json_value(line, refusal=AuditError("The line is not JSON."), number=_number_text)
    except AuditError:
        return RowNote(row, "The line is not JSON.")
    if not isinstance(found, dict):
        return RowNote(row, "The line is not a JSON object.")
    cells = {key: value or "" for key, value in found.items() if isinstance(value, str | None)}
    if any(len(cell) > MAX_FIELD_CHARS for cell in cells.values()):
        return RowNote(row, "A text is longer than 1 MB.")
    if not all(map(is_whole, cells.values())):
        return RowNote(row, "The line holds a NUL or half a character.")
    return Row(row, cells)


def _header(record: Sequence[str], *, what: str) -> tuple[str, ...]:
    where = Message("{subject}, row 1", subject=what)
    if len(record) > MAX_COLUMNS:
        raise AuditError(
            "The header has more than {max_columns} columns.", where=where, max_columns=MAX_COLUMNS
        )
    if sum(map(len, record)) > MAX_HEADER_BYTES:
        raise AuditError("The header is longer than 64 KB.", where=where)
    header = tuple(name.strip() for name in record)
    if not any(header):
        raise AuditError("The first row is empty; it must name the columns.", where=where)
    seen: dict[str, int] = {}
    for column, name in enumerate(header, start=1):
        if not name:
            raise AuditError(
                "Column {column} has no name.", where=where, do="Name or delete it.", column=column
            )
        # Named by number: in a file without a header the first row is somebody's name.
        twin = seen.setdefault(heading_key(name) or name, column)
        if twin != column:
            raise AuditError(
                "Columns {twin} and {column} have the same name.",
                where=where,
                twin=twin,
                column=column,
            )
    return header


def write_table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, bom: bool = False
) -> str:
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
