"""Notes as a stream: every format, and every way in which a row or a file is bad."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.notes import read as note_streams
from audit.notes.read import Note, open_notes
from audit.tables import RowNote
from tests.corpus.make_notes import csv_text, note_row, write_notes

TEXTS = ("one", 'two\r\nlines, "quoted"\n\n[**Name**]', "三\u2028四\x0b five")
SECRET = "Zaphodina"


def read(path: Path, **columns: str) -> tuple[list[Note], list[RowNote]]:
    found = list(open_notes(path, columns=columns).read())
    notes = [item for item in found if isinstance(item, Note)]
    return notes, [item for item in found if isinstance(item, RowNote)]


def test_noteevents_is_read_with_every_line_end(tmp_path: Path) -> None:
    rows = [note_row(i, patient=i * 2, text=text) for i, text in enumerate(TEXTS)]
    notes, refused = read(write_notes(tmp_path / "NOTEEVENTS.csv", rows))
    assert refused == []
    assert tuple(note.text for note in notes) == TEXTS
    assert notes[1] == Note("1", "2", "7", "Nursing", "2177-12-02", TEXTS[1], 3)


def test_charttime_comes_before_chartdate(tmp_path: Path) -> None:
    row = list(note_row(1, patient=1, text="x"))
    row[4] = "2177-12-03 10:11:12"
    notes, _ = read(write_notes(tmp_path / "n.csv", [row]))
    assert notes[0].chart_time == "2177-12-03 10:11:12"


def test_mimic_iv_and_gzip(tmp_path: Path) -> None:
    header = "note_id,subject_id,hadm_id,note_type,note_seq,charttime,storetime,text\n"
    path = tmp_path / "discharge.csv.gz"
    path.write_bytes(gzip.compress((header + '1-DS-2,10,20,DS,2,2150-01-02,,"a\nb"\n').encode()))
    notes, refused = read(path)
    assert notes == [Note("1-DS-2", "10", "20", "DS", "2150-01-02", "a\nb", 2)]
    assert refused == []


def test_jsonl_with_named_columns_and_bad_lines(tmp_path: Path) -> None:
    good = {"BODY": "hello", "subject_id": 12.0, "nested": {"a": 1}}
    lines = [json.dumps(good), "{", "[1]", '{"BODY": "\\ud800"}', "", '{"BODY": " "}']
    (tmp_path / "n.jsonl").write_text("\n".join(lines))
    notes, refused = read(tmp_path / "n.jsonl", text="BODY")
    assert notes == [Note("1", "12", "", "", "", "hello", 1)]
    assert [note.row for note in refused] == [2, 3, 4, 6]
    assert refused[2].what == "The line holds a NUL or half a character."


def test_parquet_is_read_in_batches(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    n = 200
    table = pa.table({"subject_id": list(range(n)), "text": [f"note {i}" for i in range(n)]})
    pq.write_table(table, tmp_path / "n.parquet")
    notes, refused = read(tmp_path / "n.parquet")
    assert [note.text for note in notes] == [f"note {i}" for i in range(n)]
    assert (notes[7].patient_id, notes[7].row, refused) == ("7", 9, [])


def test_parquet_without_pyarrow_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "n.parquet").write_bytes(b"PAR1 and more")
    with pytest.raises(AuditError, match="pyarrow"):
        open_notes(tmp_path / "n.parquet")


def test_a_folder_of_texts(tmp_path: Path) -> None:
    (tmp_path / "p2").mkdir()
    (tmp_path / "p1").mkdir()
    (tmp_path / "p2" / "a.txt").write_bytes(b"\xef\xbb\xbfb\r\nc")
    (tmp_path / "p1" / "a.TXT").write_text("a")
    (tmp_path / "p1" / "b.txt").write_bytes(b"\xff\xfea\0b\0")
    (tmp_path / "p1" / "c.csv").write_text("no")
    (tmp_path / "p1" / "link.txt").symlink_to("/etc/hostname")
    notes, refused = read(tmp_path)
    assert [(note.patient_id, note.text, note.row) for note in notes] == [
        ("p1", "a", 1),
        ("p2", "b\r\nc", 3),
    ]
    assert refused == [RowNote(2, "The file is UTF-16 or not text.")]


def test_bad_rows_are_refused_by_number_and_the_others_are_read(tmp_path: Path) -> None:
    good = '{0},{0},7,2177-01-01,,,"N","R",,,"{1}"\n'
    text = csv_text([]) + good.format(1, "a\nb")
    text += "2,2,7,2177-01-01,too few\n"
    text += good.format(3, f"nul \0 {SECRET}") + good.format(4, "") + good.format(5, "e")
    (tmp_path / "n.csv").write_bytes(
        text.encode() + good.format(6, "@").encode().replace(b"@", b"caf\xe9") + b"\n7"
    )
    notes, refused = read(tmp_path / "n.csv")
    assert [note.note_id for note in notes] == ["1", "5"]
    assert [note.row for note in refused] == [3, 4, 5, 7, 9]
    assert not any(SECRET in note.what for note in refused)


def test_an_open_quote_costs_its_own_row_only(tmp_path: Path) -> None:
    good = '{0},{0},7,2177-01-01,,,"N","R",,,"first {0}\nsecond {0}\n"\n'
    broken = '2,2,7,2177-01-01,,,"N","R",,,"never closed\nsecond line\nthird, line\n'
    path = tmp_path / "n.csv"
    path.write_text(csv_text([]) + good.format(1) + broken + good.format(3) + good.format(4))
    notes, refused = read(path)
    assert [note.note_id for note in notes] == ["1", "3", "4"]
    assert [note.text for note in notes][1] == "first 3\nsecond 3\n"
    assert [note.row for note in refused] == [3]
    assert "lines 5 to 7" in refused[0].what
    assert [note.row for note in notes] == [2, 4, 5]


def test_an_open_quote_in_the_last_row(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text('id,text\n1,good\n2,"open\nmore\n3,good\n')
    notes, refused = read(path)
    assert [note.text for note in notes] == ["good", "good"]
    assert [note.row for note in refused] == [3]


def test_a_huge_cell_is_refused_and_the_next_row_is_read(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text(
        "id,text\n1," + "x" * 1_000_001 + '\n2,good\n3,"' + "y\n" * 600_000 + '"\n4,end\n'
    )
    notes, refused = read(path)
    assert [note.text for note in notes] == ["good", "end"]
    assert [note.row for note in refused] == [2, 4]


def test_a_line_without_end_is_cut_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_streams, "MAX_LINE_CHARS", 1000)
    blocks = [b"a\n1", *[b"x" * 600] * 50, b"\n2,good\nlast"]
    lines = list(note_streams.lines_of(iter(blocks), codec="utf-8-sig"))
    assert [lines[0], *lines[2:]] == ["a\n", "2,good\n", "last"]
    assert len(lines[1]) < 2000
    assert lines[1].endswith("\0\n")


def test_cp932_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_bytes("id,本文\n1,山田太郎は70歳の男性です。\n".encode("cp932"))
    notes, refused = read(path)
    assert [note.text for note in notes] == ["山田太郎は70歳の男性です。"]
    assert refused == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"id,note_number\n1,2\n", "no column of texts"),
        ("id,text\n1,x\n".encode("utf-16"), "UTF-16"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"\n\n", "does not name the columns"),
        (gzip.compress(b"id,text\n1,x\n", mtime=0)[:-9], "ends in the middle"),
        (b"\x1f\x8b\x08broken archive, no more than that", "damaged|ends"),
        ("id,text\n1,Sébastien à Genève\n".encode("latin-1") * 9, "CP932|Western"),
        (b"a" * 70_000 + b",text\n", "header is longer"),
    ],
)
def test_a_bad_file_is_refused_whole(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "n.csv"
    path.write_bytes(data)
    with pytest.raises(AuditError, match=message):
        list(open_notes(path).read())


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path, Path("/dev/null")):
        with pytest.raises(AuditError):
            open_notes(path)
    (tmp_path / "n.csv").write_text("text\nx\n")
    with pytest.raises(AuditError, match="no column for patient_id"):
        open_notes(tmp_path / "n.csv", columns={"patient_id": "who"})
    with pytest.raises(AuditError, match="no field"):
        open_notes(tmp_path / "n.csv", columns={"who": "text"})


def test_a_gzip_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_streams, "_RATIO_SLACK_BYTES", 1 << 20)
    path = tmp_path / "n.csv.gz"
    path.write_bytes(gzip.compress(b"id,text\n" + b"1,xxxxxxx\n" * 300_000))
    with pytest.raises(AuditError, match="100 times"):
        list(open_notes(path).read())


def test_bytes_are_reported_to_the_last(tmp_path: Path) -> None:
    rows = [note_row(i, patient=1, text="word " * 5000) for i in range(100)]
    plain = write_notes(tmp_path / "n.csv", rows)
    packed = tmp_path / "n.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        told: list[int] = []
        list(open_notes(path).read(on_bytes=told.append))
        assert sum(told) == path.stat().st_size
        assert min(told) >= 0


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
        ).filter(str.strip),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_every_text_comes_back_as_it_was(
    tmp_path: Path, texts: list[str], is_first_file: bool
) -> None:
    rows = [(i, text) for i, text in enumerate(texts)]
    path = tmp_path / f"n{is_first_file}.csv"
    # The second source: the standard library's writer, and its reader of the whole file.
    path.write_bytes(csv_text(rows, header=("id", "text")).encode())
    notes, refused = read(path)
    whole = list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))
    assert refused == []
    assert [note.text for note in notes] == texts == [row[1] for row in whole[1:]]
