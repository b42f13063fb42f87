"""Notes as a stream: every format, every way in which a row or a file is bad, and the list."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from pathlib import Path

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from audit.errors import AuditError
from audit.notes.read import (
    EXAMPLE,
    VARIABLE,
    Note,
    inspect_notes,
    list_note_files,
    open_notes,
    resolve_note_file,
)
from audit.tables import RowNote
from tests.corpus.make_notes import csv_text, note_row, write_notes


def read(path: Path, **columns: str) -> tuple[list[Note], list[tuple[int, str]]]:
    records = list(open_notes(path, columns=columns).read())
    notes = [item for item in records if isinstance(item, Note)]
    return notes, [(item.row, str(item.what)) for item in records if isinstance(item, RowNote)]


def test_mimic_iii_iv_gzip_and_cp932(tmp_path: Path) -> None:
    rows = [list(note_row(i, patient=i * 2, text="one")) for i in (1, 2)]
    rows[1][4] = "2177-12-03 10:11:12"  # the time comes before the day
    assert read(write_notes(tmp_path / "NOTEEVENTS.csv", rows)) == (
        [
            Note("1", "2", "7", "Nursing", "2177-12-02", "one", 2),
            Note("2", "4", "7", "Nursing", "2177-12-03 10:11:12", "one", 3),
        ],
        [],
    )
    header = "note_id,subject_id,hadm_id,note_type,note_seq,charttime,storetime,text\n"
    path = tmp_path / "discharge.csv.gz"
    path.write_bytes(gzip.compress((header + '1-DS-2,10,20,DS,2,2150-01-02,,"a\nb"\n').encode()))
    assert read(path) == ([Note("1-DS-2", "10", "20", "DS", "2150-01-02", "a\nb", 2)], [])
    path = tmp_path / "n.csv"
    path.write_bytes("id;本文\n1;山田太郎は70歳の男性です。\n".encode("cp932"))
    assert read(path) == ([Note("1", "", "", "", "", "山田太郎は70歳の男性です。", 2)], [])


def test_jsonl_with_named_columns_and_bad_lines(tmp_path: Path) -> None:
    good = {"BODY": "hello", "subject_id": 12.0, "hadm_id": 2.5, "date": 7, "nested": {"a": 1}}
    lines = [
        json.dumps(good),
        "{",
        "[1]",
        '{"BODY": "\\ud800"}',
        "",
        '{"BODY": " "}',
        json.dumps({"BODY": "x" * 1_000_001}),
        '{"BODY": "a", "id": "' + "7" * 201 + '"}',
        '{"BODY": "b", "id": 1e999, "date": NaN, "category": -3}',
    ]
    (tmp_path / "n.jsonl").write_text("\n".join(lines))
    notes, refused = read(tmp_path / "n.jsonl", text="BODY")
    assert notes == [
        Note("1", "12", "2.5", "", "7", "hello", 1),
        Note("1e999", "", "", "-3", "", "b", 9),
    ]
    assert refused == [
        (2, "The line is not JSON."),
        (3, "The line is not a JSON object."),
        (4, "The line holds a NUL or half a character."),
        (6, "The note is empty."),
        (7, "A text is longer than 1 MB."),
        (8, "An id, category or time is longer than 200 characters."),
    ]


def test_parquet_is_read_in_batches(tmp_path: Path) -> None:
    texts = [*(f"note {i}" for i in range(199)), None, "x" * 1_000_001, "\0"]
    table = pyarrow.table({"subject_id": list(range(202)), "text": texts, "mrn": ["1"] * 202})
    path = tmp_path / "n.parquet"
    parquet.write_table(table, path)
    assert inspect_notes(path).headings == ("subject_id", "text", "mrn")
    byte_counts: list[int] = []
    list(open_notes(path).read(on_bytes=byte_counts.append))
    assert len(byte_counts) == 4 and 0.99 < sum(byte_counts) / path.stat().st_size <= 1
    notes, refused = read(path)
    assert notes == [Note(str(i + 2), str(i), "", "", "", f"note {i}", i + 2) for i in range(199)]
    assert refused == [
        (201, "The note is empty."),
        (202, "The note is longer than 1 MB."),
        (203, "The note holds a NUL character or bytes outside its encoding."),
    ]


def test_a_folder_of_texts(tmp_path: Path) -> None:
    for name, data in (
        ("p2/a.txt", b"\xef\xbb\xbfb\r\nc"),
        ("p1/a.TXT", b"a"),
        ("p1/b.txt", b"\xff\xfea\0b\0"),
        ("p1/c.csv", b"no"),
        ("p1/d.txt", b"x" * 4_000_001),
        ("p3/in/e.txt", b""),
        ("f.txt", b"f"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "p1" / "link.txt").symlink_to("/etc/hostname")
    notes, refused = read(tmp_path)
    assert notes == [
        Note("1", "", "", "", "", "f", 1),
        Note("2", "p1", "", "", "", "a", 2),
        Note("5", "p2", "", "", "", "b\r\nc", 5),
    ]
    assert refused == [
        (3, "The file is UTF-16 or not text."),
        (4, "The note is longer than 1 MB."),
        (6, "The note is empty."),
    ]


def test_bad_rows_are_refused_by_number_and_the_others_are_read(tmp_path: Path) -> None:
    good = '{0},{0},7,2177-01-01,,,"N","R",,,"{1}"\n'
    text = csv_text([]) + good.format(1, "a\nb")
    text += "2,2,7,2177-01-01,too few\n"
    text += good.format(3, "nul \0 Zaphodina") + good.format(4, "") + good.format(5, "e")
    (tmp_path / "n.csv").write_bytes(
        text.encode() + good.format(6, "@").encode().replace(b"@", b"caf\xe9") + b"\n7"
    )
    notes, refused = read(tmp_path / "n.csv")
    assert [(note.note_id, note.row) for note in notes] == [("1", 2), ("5", 6)]
    outside = "The row holds a NUL character or bytes outside its encoding."
    assert refused == [
        (3, "The row has 5 cells where the header has 11."),
        (4, outside),
        (5, "The note is empty."),
        (7, outside),
        (9, "The row has 1 cells where the header has 11."),
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "The file is empty."),
        (b"PAR1 and more", "The Parquet file is damaged."),
        (b"id,note_number\n1,2\n", "There is no column of texts. Name the column of the notes"),
        ("id,text\n1,x\n".encode("utf-16"), 'UTF-16 or not text. Save the file as "CSV UTF-8"'),
        (b"PK\x03\x04rest", "This is a zip archive or an Excel workbook. Unpack it first"),
        (b"\n\n", "There is no column of texts."),
        (gzip.compress(b"id,text\n1,x\n", mtime=0)[:-9], "The gzip file is damaged, or ends too e"),
        (b"\x1f\x8b\x08broken archive, no more than that", "The gzip file is damaged, or ends"),
        ("id,text\n1,Sébastien à Genève\n".encode("latin-1") * 9, "The file is neither UTF-8 nor"),
        (b"a" * 70_000 + b",text\n", "The header is longer than 64 KB."),
        (b'id,text\n1,a\n2,"open\n3,b\n', ", row 3: A quote is opened and not closed well."),
        (b'id,text\n1,"a"b\n', ", row 2: A quote is opened and not closed well. Check the double"),
        (b"id,text\n1," + b"x" * 1_000_001, ", row 2: A cell is longer than 1 MB."),
        (b'{"text": "a"}\n{"text": "' + b"x" * 8_000_001, ", line 2: The line is too long."),
    ],
)
def test_a_bad_file_is_refused_whole(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "n.csv"
    path.write_bytes(data)
    with pytest.raises(AuditError) as refused:
        list(open_notes(path).read())
    assert str(refused.value).startswith("notes") and message in str(refused.value)


def test_what_is_no_table_of_notes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "one.txt").write_text("One note.")
    (tmp_path / "n.csv").write_text("text,b\nx,y\n")
    for path, columns, message in (
        ("none.csv", {}, "notes: The file is not there or cannot be read."),
        ("a", {}, "notes: The folder holds no .txt files."),
        (
            "one.txt",
            {},
            "notes: This is one text, not a table of notes. Give the folder that it "
            "lies in: each .txt there is a note.",
        ),
        ("n.csv", {"patient_id": "who"}, "notes: There is no column for patient_id of this name."),
        ("n.csv", {"who": "text"}, "columns: `who` is no field of a note."),
    ):
        with pytest.raises(AuditError) as refused:
            open_notes(tmp_path / path, columns=columns)  # type: ignore[arg-type]
        assert str(refused.value) == message


@pytest.mark.long
def test_a_gzip_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.notes.read._RATIO_SLACK_CHARS", 1 << 20)
    path = tmp_path / "n.csv.gz"
    path.write_bytes(gzip.compress(b"id,text\n" + b"1,xxxxxxx\n" * 500_000, 9))
    with pytest.raises(AuditError, match="unpacks to more than 100 times its size"):
        list(open_notes(path).read())


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(TEXT.filter(str.strip), min_size=1, max_size=6))
def test_every_text_comes_back_as_it_was(tmp_path: Path, texts: list[str]) -> None:
    path = tmp_path / "n.csv"
    # The second source: the standard library's writer, and its reader of the whole file.
    path.write_bytes(csv_text(enumerate(texts), header=("id", "text")).encode())
    notes, refused = read(path)
    byte_counts: list[int] = []
    list(open_notes(path).read(on_bytes=byte_counts.append))
    assert sum(byte_counts) == path.stat().st_size and min(byte_counts) >= 0
    all_rows = list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))
    assert refused == []
    assert [note.text for note in notes] == texts == [row[1] for row in all_rows[1:]]


def test_files_and_folders_of_texts_are_listed_and_links_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "notes"
    for name in (
        "a.csv",
        "deep/b.jsonl",
        "deep/er/c.tsv",
        "deep/letter.pdf",
        "texts/1.txt",
        ".hidden.csv",
        "patients/p1/n.txt",
        "patients/p2/n.txt",
        "1/2/3/4/y.csv",
        "1/2/3/4/5/x.csv",
        "../outside/s.csv",
        "../elsewhere/n.txt",
        "links/n.pdf",
        "../other/example/z.csv",
    ):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("text\nx\n")
    (top / "link.csv").symlink_to(tmp_path / "outside" / "s.csv")
    (top / "linked").symlink_to(tmp_path / "outside")
    (top / "links" / "p1").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv(VARIABLE, str(top))
    listed_files = [
        (file.file_id, file.kind, file.n_bytes, file.path) for file in list_note_files()
    ]
    example = listed_files.pop()
    assert example[:2] == (EXAMPLE, "csv") and inspect_notes(example[3]).has_text
    assert listed_files == [
        ("notes/a.csv", "csv", 7, top / "a.csv"),
        ("notes/1/2/3/4/y.csv", "csv", 7, top / "1/2/3/4/y.csv"),
        ("notes/deep/b.jsonl", "jsonl", 7, top / "deep/b.jsonl"),
        ("notes/deep/er/c.tsv", "csv", 7, top / "deep/er/c.tsv"),
        ("notes/patients", "folder", 0, top / "patients"),
        ("notes/texts", "folder", 7, top / "texts"),
    ]
    for file_id, _, _, path in [*listed_files, example]:
        assert resolve_note_file(file_id) == path
    for wrong in ("notes/link.csv", "notes/../outside/s.csv", "", str(top / "a.csv")):
        with pytest.raises(AuditError, match="No registered file has this identifier"):
            resolve_note_file(wrong)
    other_folder = str(tmp_path / "other" / "example")
    monkeypatch.setenv(VARIABLE, os.pathsep.join(["", other_folder, other_folder, "missing"]))
    assert [file.file_id for file in list_note_files()] == ["example-2/z.csv", EXAMPLE]


def test_columns_are_told_with_what_they_would_be_taken_for(tmp_path: Path) -> None:
    for name, text, headings, column in (
        (
            "a.csv",
            "body,subject_id\nx,1\n",
            ("body", "subject_id"),
            {"patient_id": ("subject_id",)},
        ),
        ("b.jsonl", '{"text": "x", "ward": 3}\n', ("text", "ward"), {"text": ("text",)}),
        (
            "c.csv",
            "note,chartdate,text,charttime\n",
            ("note", "chartdate", "text", "charttime"),
            {"chart_time": ("charttime", "chartdate"), "text": ("text", "note")},
        ),
    ):
        (tmp_path / name).write_text(text)
        source = inspect_notes(tmp_path / name)
        assert (source.kind, source.headings) == (name[2:], headings)
        assert {field: names for field, names in source.columns.items() if names} == column
        assert source.has_text == ("text" in column)


@pytest.mark.parametrize(
    ("header", "column"),
    [
        ("note_id,person_id,note_date,note_text", "person_id"),  # OMOP
        ("PAT_ID,PAT_ENC_CSN_ID,NOTE_ID,NOTE_TEXT", "PAT_ID"),  # Epic
        ("PAT_MRN_ID,NOTE_TEXT", "PAT_MRN_ID"),
        ("mrn,subject_id,text", "subject_id"),
        ("MRN,text", "MRN"),
        ("patient_num,text", "patient_num"),  # i2b2
        ("患者番号,本文", "患者番号"),
        ("カルテ番号,本文", "カルテ番号"),
        ("ward,text", None),
    ],
)
def test_the_patient_column_is_known_by_its_heading(
    tmp_path: Path, header: str, column: str | None
) -> None:
    (tmp_path / "n.csv").write_text(f"{header}\n{','.join('7' for _ in header.split(','))}\n")
    source = open_notes(tmp_path / "n.csv")
    assert source.columns["patient_id"] == ((column,) if column else ())
    assert source.has_patients == bool(column)
    (note,) = read(tmp_path / "n.csv")[0]
    assert note.patient_id == ("7" if column else "")


def test_numbers_of_two_columns_are_never_mixed(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("subject_id,mrn,text\n,17,a\n17,3,b\n")
    assert [note.patient_id for note in read(tmp_path / "n.csv")[0]] == ["", "17"]


def test_a_first_line_may_name_what_divides_the_columns(tmp_path: Path) -> None:
    for begin, end in (("sep=;", "\n"), ('"sep=;"', "\r\n")):
        text = end.join([begin, "text,;patient_id", "a, b;7", "c;8;9", ""])
        (tmp_path / "n.csv").write_bytes(text.encode("utf-8-sig"))
        notes, refused = read(tmp_path / "n.csv", text="text,")
        assert [(note.text, note.patient_id, note.row) for note in notes] == [("a, b", "7", 2)]
        assert refused == [(3, "The row has 3 cells where the header has 2.")]
    (tmp_path / "n.csv").write_bytes(b"sep=;\n" + b"a" * 70_000 + b";text\n")
    with pytest.raises(AuditError, match="The header is longer than 64 KB"):
        open_notes(tmp_path / "n.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"text": "x"}]', "This is a JSON array, not JSONL. Write one JSON object a line"),
        ('[\n  {"text": "x"}\n]', "This is a JSON array, not JSONL."),
        ("MSH|^~\\&|x", "This is an HL7 v2 message. Export the notes in it as text"),
        ("%PDF-1.4", "This is a PDF document. Export its text as .txt"),
        ('{\n "text": "x"\n}', "This is one JSON object over several lines, not JSONL."),
        ('<?xml version="1.0"?>\n<deIdi2b2>\n<TEXT>x', "`deid tag`, `deid score` and `deid con"),
    ],
)
def test_other_formats_are_called_by_their_names(tmp_path: Path, text: str, message: str) -> None:
    for name in ("n.csv", "n.json", "n.xml"):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        with pytest.raises(AuditError) as refused:
            open_notes(tmp_path / name)
        assert message in str(refused.value)


def test_a_note_that_quotes_another_format_is_a_note(tmp_path: Path) -> None:
    texts = ['{"id": "Bundle"}', "<?xml?>", "[1]", "MSH is no | sign", "Dr. <B>Bell</B>"]
    (tmp_path / "n.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    assert [note.text for note in read(tmp_path / "n.jsonl")[0]] == texts


def test_a_folder_says_whose_notes_are_where_folders_lie_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    assert not open_notes(tmp_path).has_patients
    (tmp_path / "p1").mkdir()
    (tmp_path / "p1" / "b.txt").write_text("y")
    assert open_notes(tmp_path).has_patients
