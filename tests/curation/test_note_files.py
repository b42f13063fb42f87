"""Registered files of notes: what is listed, what is not, and never a path from an identifier."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from audit.errors import AuditError
from audit.home import HOME_VARIABLE
from audit.notes.read import EXAMPLE, VARIABLE, columns_of, list_note_files, resolve_note_file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    top = tmp_path / "notes"
    (top / "deep" / "er").mkdir(parents=True)
    (top / "a.csv").write_text("body,subject_id\nx,1\n")
    (top / "deep" / "b.jsonl").write_text('{"text": "x", "mrn": 3}\n')
    (top / "deep" / "er" / "c.csv.gz").write_bytes(gzip.compress(b"text\nx\n"))
    (top / "deep" / "letter.pdf").write_text("no")
    (top / "texts").mkdir()
    (top / "texts" / "1.txt").write_text("one note")
    for patient in ("p1", "p2"):
        (top / "patients" / patient).mkdir(parents=True)
        (top / "patients" / patient / "n.txt").write_text("note")
    monkeypatch.setenv(VARIABLE, str(top))
    return top


def ids() -> list[tuple[str, str]]:
    return [(file.file_id, file.kind) for file in list_note_files()]


def test_files_and_folders_of_texts_are_listed(folder: Path) -> None:
    assert ids() == [
        ("notes/a.csv", "csv"),
        ("notes/deep/b.jsonl", "jsonl"),
        ("notes/deep/er/c.csv.gz", "csv"),
        ("notes/patients", "folder"),
        ("notes/texts", "folder"),
        (EXAMPLE, "csv"),
    ]
    assert resolve_note_file("notes/deep/b.jsonl") == folder / "deep" / "b.jsonl"


def test_links_and_hidden_files_are_not_followed(folder: Path, tmp_path: Path) -> None:
    before = ids()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text("text\nx\n")
    (folder / "link.csv").symlink_to(outside / "secret.csv")
    (folder / "linked").symlink_to(outside)
    (folder / ".hidden.csv").write_text("text\nx\n")
    assert ids() == before
    for wrong in ("notes/link.csv", "notes/../outside/secret.csv", "", str(folder / "a.csv")):
        with pytest.raises(AuditError, match="No registered file"):
            resolve_note_file(wrong)


def test_folders_have_labels_of_their_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("other/notes", "other/example"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "z.csv").write_text("text\nx\n")
    folders = [folder, tmp_path / "other" / "notes", tmp_path / "other" / "example", folder]
    monkeypatch.setenv(VARIABLE, os.pathsep.join(["", *map(str, folders), "missing"]))
    found = [file_id for file_id, _ in ids()]
    assert "notes-2/z.csv" in found and "example-2/z.csv" in found
    assert len(found) == len(set(found)) == 8


def test_the_walk_is_bounded_in_depth(folder: Path) -> None:
    deep = folder / "1" / "2" / "3" / "4" / "5"
    deep.mkdir(parents=True)
    (deep / "x.csv").write_text("text\nx\n")
    (deep.parents[1] / "y.csv").write_text("text\nx\n")
    found = [file_id for file_id, _ in ids()]
    assert "notes/1/2/3/y.csv" in found and "notes/1/2/3/4/5/x.csv" not in found


def test_columns_are_told_with_what_they_would_be_taken_for(folder: Path) -> None:
    found = columns_of(folder / "a.csv")
    assert (found.kind, found.headings, found.has_text) == ("csv", ("body", "subject_id"), False)
    assert found.taken["patient_id"] == ("subject_id",) and found.taken["text"] == ()
    found = columns_of(folder / "deep" / "b.jsonl")
    assert found.has_text and found.headings == ("text", "mrn")
    assert columns_of(folder / "deep" / "er" / "c.csv.gz").taken["text"] == ("text",)
    assert columns_of(folder / "texts").has_text
    (folder / "pictures.csv").write_bytes(b"PK\x03\x04")
    with pytest.raises(AuditError, match="zip archive"):
        columns_of(folder / "pictures.csv")


def test_the_columns_of_a_parquet_file(folder: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = folder / "n.parquet"
    parquet.write_table(arrow.table({"body": ["x"], "mrn": ["1"]}), path)
    assert columns_of(path).headings == ("body", "mrn") and not columns_of(path).has_text


def test_the_example_is_there_without_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.delenv(VARIABLE, raising=False)
    assert ids() == [(EXAMPLE, "csv")]
    path = resolve_note_file(EXAMPLE)
    assert columns_of(path).has_text
