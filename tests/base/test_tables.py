"""Tables: strict in, formula-guarded out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit import tables
from audit.errors import AuditError
from audit.tables import read_table, write_table

SECRET = "Zaphodina"


def test_everything_stays_text():
    data = b"a,b,c\nNA,None,007\n null ,1.50,\n"
    rows = (("NA", "None", "007"), (" null ", "1.50", ""))
    assert read_table(data, subject="names") == tables.Table(("a", "b", "c"), rows, (2, 3), "UTF-8")


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_the_header_tells_the_delimiter(mark):
    text = f'"name{mark} or ,;"{mark}member\n"x{mark}y"{mark}1,2;3\n'.replace(",2;3", "")
    table = read_table(text.encode(), subject="names")
    assert table.header == (f"name{mark} or ,;", "member")
    assert table.rows == ((f"x{mark}y", "1"),)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_row_numbers_are_records_as_a_spreadsheet_counts_them(end):
    text = end.join(["a,b", '"two', 'lines",1', "", "c,2", "d"])
    with pytest.raises(
        AuditError, match="names, row 5: The row has 1 cells where the header has 2"
    ):
        read_table(text.encode(), subject="names")
    table = read_table((text + ",3").encode(), subject="names")
    assert table.row_numbers == (2, 4, 5)
    assert table.rows[0] == (f"two{end}lines", "1")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (f'a,b\n1,2\n"{SECRET},3\n4,5\n', "row 3"),
        (f'a,b\n1,2\n"{SECRET}"x,3\n', "row 3"),
        (f"a,b\n1,{SECRET},3\n", "row 2"),
        (f"a,b,{SECRET}, {SECRET.upper()}\n", "row 1"),
        (f"{SECRET},,b\n", "row 1"),
        (f"\n{SECRET}\n", "row 1"),
        ("first_name,First Name\n", "row 1"),
    ],
)
def test_bad_tables_are_refused_by_row_without_their_text(text, where):
    with pytest.raises(AuditError) as caught:
        read_table(text.encode(), subject="names")
    assert f"names, {where}: " in str(caught.value)
    assert SECRET.lower() not in str(caught.value).lower()


def test_large_headers_are_refused():
    with pytest.raises(AuditError, match="64 KB"):
        read_table(b"c," * 40_000, subject="names")
    with pytest.raises(AuditError, match="64 KB"):
        read_table(b'"' + b"line\n" * 14_000 + b'"\n', subject="names")
    wide = ",".join(f"c{i}" for i in range(257))
    with pytest.raises(AuditError, match="256 columns"):
        read_table(wide.encode(), subject="names")
    assert len(read_table(wide.rsplit(",", 1)[0].encode(), subject="names").header) == 256


def test_a_cell_of_one_megabyte_is_read_a_longer_one_and_too_many_rows_are_refused(monkeypatch):
    cell = b"x" * tables.MAX_FIELD_CHARS
    assert len(read_table(b"a\n" + cell + b"\n", subject="notes").rows[0][0]) == 1_000_000
    with pytest.raises(AuditError, match="row 3: A cell is longer"):
        read_table(b"a\nb\n" + cell + b"x\n", subject="notes")
    monkeypatch.setattr(tables, "MAX_ROWS", 3)
    assert len(read_table(b"a\n1\n2\n3\n", subject="names").rows) == 3
    with pytest.raises(AuditError, match="more than 3 rows"):
        read_table(b"a\n1\n2\n3\n4\n", subject="names")


def test_cells_are_written_by_kind():
    row = ["x", 1, -2.5, math.nan, None, True, np.float64(-0.5), np.int64(-3), np.float32(2)]
    assert write_table(["h"], [row]) == '"h"\n"x",1,-2.5,,,1,-0.5,-3,2.0\n'
    assert write_table(["h"], [], bom=True) == '\ufeff"h"\n'


def test_no_text_cell_begins_like_a_formula():
    for start in "=+-@\t\r\n\0＝＋－＠":
        text = f'{start}HYPERLINK("x")'
        assert write_table([text], [[text]]) == 2 * f'"\'{start}HYPERLINK(""x"")"\n'


CELLS = st.text(alphabet="ab=+-@＝\t\r\n,;\"' 山é", max_size=6)


@given(st.lists(st.tuples(CELLS, CELLS, st.floats() | st.integers()), max_size=6))
@settings(max_examples=150, deadline=None)
def test_written_tables_are_read_back_with_their_guard(rows):
    text = write_table(["one", "two", "three"], rows)
    back = read_table(text.encode(), subject="names")
    assert len(back.rows) == len(rows)
    for row, cells in zip(rows, back.rows, strict=True):
        for value, cell in zip(row[:2], cells[:2], strict=True):
            assert not cell.startswith(tuple("=+-@\t\r\n＝"))
            assert cell == value or (cell == "'" + value and value[0] in "=+-@\t\r\n＝")
        if isinstance(row[2], float) and math.isnan(row[2]):
            assert cells[2] == ""
        else:
            assert type(row[2])(cells[2]) == row[2]
