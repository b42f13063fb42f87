"""Annotated notes of a path: every form is read under the names of its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.cli import called, parsed
from audit.deid.given import annotated_notes, as_jsonl, notes_to_tag
from audit.errors import AuditError
from audit.notes.formats import FORMATS, write_files
from audit.notes.read import Note
from audit.notes.spans import Span, TaggedDocument, tagged

TEXTS = {
    "高橋 太郎": "氏名：高橋健一　2024年5月3日 受診。電話 03-1234-5678。",
    "note.v2": "Patient: John Smith, seen on 04/11/2026 by Dr. Alice Warren.",
    "ward b%2": "Nothing personal stands here, <5 mg/dL.",
}


def notes() -> list[TaggedDocument]:
    marks = {
        "高橋健一": "identifier",
        "2024年5月3日": "quasi_identifier",
        "03-1234-5678": "contact",
        "John Smith": "identifier",
        "04/11/2026": "quasi_identifier",
        "Alice Warren": "identifier",
    }
    found = []
    for name, text in TEXTS.items():
        starts = {mark: text.index(mark) for mark in marks if mark in text}
        spans = [Span(at, at + len(mark), marks[mark]) for mark, at in starts.items()]
        found.append(tagged(name, text=text, spans=spans))
    return found


def deid(*words: object) -> dict[str, Any]:
    return called(parsed(["deid", *words]))


def written(folder: Path, form: str) -> Path:
    folder.mkdir()
    for name, content in write_files(notes(), form=form).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("form", FORMATS)
def test_a_folder_is_tagged_and_scored(tmp_path: Path, form: str) -> None:
    gold = written(tmp_path / "gold", form)
    census = deid("tag", "--tagger", "rules", "--notes", gold, "--out", tmp_path / "out")
    assert (census["n_notes"], census["n_refused"]) == (3, 0)
    for pred in (tmp_path / "out", tmp_path / "out" / "spans.jsonl"):
        found = deid("score", "--gold", gold, "--pred", pred, "--replicates", 5)
        assert found["notes"] == [] and found["n_documents"] == 3
        assert found["criteria"]["strict"]["together"]["recall"] == 1.0
    lines = (tmp_path / "out" / "spans.jsonl").read_text("utf-8").splitlines()
    names = {json.loads(line)["doc_id"] for line in lines}
    assert names == set(TEXTS)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("other", FORMATS)
def test_any_form_becomes_any_other(tmp_path: Path, form: str, other: str) -> None:
    source = written(tmp_path / "a", form)
    done = deid("convert", "--notes", source, "--to", other, "--out", tmp_path / "b")
    assert done["n_notes"] == 3 and done["n_flattened"] == 0
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o700
    back = {one.doc_id: one for one in annotated_notes(tmp_path / "b").documents()}  # type: ignore[union-attr]
    assert back == {one.doc_id: one for one in notes()}
    with pytest.raises(AuditError, match="something already"):
        deid("convert", "--notes", source, "--to", other, "--out", tmp_path / "b")


def test_folders_are_patients_and_one_file_is_a_note(tmp_path: Path) -> None:
    for ward in ("p1", "p2"):
        (tmp_path / ward).mkdir()
        (tmp_path / ward / "a.txt").write_text("Seen by Dr. Gray.", "utf-8")
    found = list(notes_to_tag(tmp_path).read())
    assert [(one.note_id, one.patient_id) for one in found] == [("p1/a", "p1"), ("p2/a", "p2")]  # type: ignore[union-attr]
    (one,) = notes_to_tag(tmp_path / "p1" / "a.txt").read()
    assert one.note_id == "a" and one.text == "Seen by Dr. Gray."  # type: ignore[union-attr]
    (tmp_path / "p1" / "cp932.txt").write_bytes("高橋です".encode("cp932"))
    (tmp_path / "p1" / "empty.txt").write_bytes(b"")
    (tmp_path / "p1" / "zip.txt").write_bytes(b"PK\x03\x04")
    rows = list(notes_to_tag(tmp_path).read())
    texts = {one.note_id: one.text for one in rows if isinstance(one, Note)}
    assert texts["p1/cp932"] == "高橋です" and len(texts) == 3 == len(rows) - 2


def test_overlaps_are_flattened_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "n.jsonl"
    spans = [{"start": 0, "end": end, "label": "x"} for end in (7, 3)]
    path.write_text(json.dumps({"doc_id": "a", "text": "Ann Lee", "spans": spans}))
    done = deid("convert", "--notes", path, "--to", "conll", "--out", tmp_path / "b")
    assert done["n_flattened"] == 1 and "1 notes had spans that overlap" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "why", "where"),
    [
        ({}, "format of these files", "gold notes"),
        ({"a.pdf": b"x"}, "format of these files", "gold notes"),
        ({"Smith.ann": b""}, "beside an .ann file", "gold notes"),
        (
            {"Smith.txt": b"Ann", "Smith.ann": b"T1\tNAME 0 9\tAnn\n"},
            "offsets",
            "gold notes, file 1, line 1",
        ),
        ({"Smith.xml": b"<a/>"}, "XML", "gold notes, file 1"),
        ({"Smith.txt": b"\xff\xfe"}, "UTF-16", "gold notes, file 1"),
    ],
)
def test_what_is_not_understood_is_told_without_its_name(
    tmp_path: Path, files: dict[str, bytes], why: str, where: str
) -> None:
    gold = tmp_path / "gold"
    gold.mkdir()
    for name, content in files.items():
        (gold / name).write_bytes(content)
    with pytest.raises(AuditError, match=why) as refused:
        as_jsonl(gold, tmp_path, what="gold notes")
    assert refused.value.where == where and "Smith" not in str(refused.value)


def test_a_tag_folder_that_is_there_is_called_so(tmp_path: Path) -> None:
    gold = written(tmp_path / "gold", "brat")
    with pytest.raises(AuditError, match="something already") as refused:
        deid("tag", "--tagger", "rules", "--notes", gold, "--out", gold)
    assert refused.value.where == "folder of tagged notes"
