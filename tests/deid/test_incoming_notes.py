"""Notes that come in: annotated files of a path, uploads to be scored or tagged, hostile ones."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from audit.cli.command_line import call_command
from audit.deid.sets import incoming_notes
from audit.deid.sets.incoming_notes import annotated_notes, keep_path, notes_as_jsonl, notes_to_tag
from audit.errors import AuditError
from audit.notes.formats import FORMATS, write_files
from audit.notes.read import Note
from audit.tables import RowNote
from tests.deid.unseen_notes import marked

TEXTS = {
    "高橋 太郎": "氏名：⟦I:高橋健一⟧　⟦Q:2024年5月3日⟧ 受診。電話 ⟦C:03-1234-5678⟧。",
    "note.v2": "Patient: ⟦I:John Smith⟧, seen on ⟦Q:04/11/2026⟧ by Dr. ⟦I:Alice Warren⟧.",
    "ward b%2": "Nothing personal stands here, <5 mg/dL.",
}
NOTES = {name: marked(text, patient=None, doc_id=name) for name, text in TEXTS.items()}


def deid(*words: object) -> dict[str, Any]:
    return call_command(["deid", *words])


def write_files_in(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def write_form(folder: Path, form: str) -> Path:
    return write_files_in(folder, write_files([*NOTES.values()], form=form))


def zipped(files: Mapping[str, bytes], *, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as folder:
        for name, data in files.items():
            folder.writestr(name, data)
    return buffer.getvalue()


def read(*files: tuple[str, bytes]) -> list[tuple[str, str]]:
    records = map(json.loads, notes_as_jsonl(files).decode().splitlines())
    return [(record["note_id"], record["text"]) for record in records]


@pytest.mark.long
@pytest.mark.parametrize("form", FORMATS)
def test_a_folder_is_tagged_scored_and_written_in_every_other_form(
    tmp_path: Path, form: str
) -> None:
    gold = write_form(tmp_path / "gold", form)
    census = deid("tag", "--tagger", "rules", "--notes", gold, "--out", tmp_path / "out")
    assert (census["n_notes"], census["n_refused"]) == (3, 0)
    for pred in (tmp_path / "out", tmp_path / "out" / "spans.jsonl"):
        score = deid("score", "--gold", gold, "--pred", pred, "--replicates", 5)
        assert all("The gold has none of these" in note for note in score["notes"])
        assert score["n_documents"] == 3
        assert score["criteria"]["strict"]["together"]["recall"] == 1.0
    for other_form in FORMATS:
        out = tmp_path / other_form
        summary = deid("convert", "--notes", gold, "--to", other_form, "--out", out)
        assert (summary["n_notes"], summary["n_flattened"]) == (3, 0)
        assert out.stat().st_mode & 0o777 == 0o700
        assert {note.doc_id: note for note in annotated_notes(out).read_all()} == NOTES
    for words in (("convert", "--to", "brat"), ("tag", "--tagger", "rules")):
        with pytest.raises(AuditError, match="something already"):
            deid(*words, "--notes", gold, "--out", gold)


def test_folders_are_patients_and_one_file_is_a_note(tmp_path: Path) -> None:
    note = b"Seen by Dr. Gray."
    write_files_in(
        tmp_path / "a",
        {
            "p1/a.txt": note,
            "p2/a.txt": note,
            "p1/cp932.txt": "高橋".encode("cp932"),
            "p1/empty.txt": b"",
            "p1/zip.txt": b"PK\x03\x04",
            ".x/a.txt": note,
            "p1/.y.txt": note,
            "p2/a.csv": b"x",
        },
    )
    (tmp_path / "a" / "p1" / "link.txt").symlink_to(tmp_path / "a" / "p1" / "a.txt")
    source = notes_to_tag(tmp_path / "a")
    assert (source.kind, source.n_bytes) == ("inline", 2 * len(note) + 4 + 4)
    rows = [
        (r.row, *(("", "") if isinstance(r, RowNote) else (r.note_id, r.patient_id)))
        for r in source.read()
    ]
    assert rows == [
        (1, "p1/a", "p1"),
        (2, "p1/cp932", "p1"),
        (3, "", ""),
        (4, "", ""),
        (5, "p2/a", "p2"),
    ]
    (one,) = notes_to_tag(tmp_path / "a" / "p1" / "a.txt").read()
    assert isinstance(one, Note) and (one.note_id, one.text) == ("a", note.decode())
    path = tmp_path / "n.jsonl"
    path.write_text('{"note_id": "b", "text": "x"}\n')
    assert [one.note_id for one in notes_to_tag(path).read()] == ["b"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("codec", "name"), [("euc_jp", "EUC-JP"), ("iso2022_jp", "ISO-2022-JP"), ("cp932", "")]
)
def test_the_encoding_of_a_lone_text_is_named(tmp_path: Path, codec: str, name: str) -> None:
    """A text, a folder of one text and a table are refused alike, and CP932 is read."""
    note = "氏名：高橋健一は風邪をひいて受診した。"
    write_files_in(
        tmp_path, {"a/n.txt": note.encode(codec), "b/n.csv": f"text\n{note}\n".encode(codec)}
    )
    for number, path in enumerate((tmp_path / "a" / "n.txt", tmp_path / "a", tmp_path / "b/n.csv")):
        words = ("tag", "--tagger", "rules", "--notes", path, "--out", tmp_path / f"o{number}")
        if not name:
            assert deid(*words)["n_notes"] == 1
            continue
        with pytest.raises(AuditError, match=f"looks like {name}"):
            deid(*words)


def test_labels_of_i2b2_come_back_from_every_form_or_are_named(tmp_path: Path) -> None:
    xml = (
        '<?xml version="1.0"?><deIdi2b2><TEXT>Seen by Bell in Reno.</TEXT><TAGS>'
        '<NAME id="P0" start="8" end="12" text="Bell" TYPE="DOCTOR" comment="" />'
        '<LOCATION id="P1" start="16" end="20" text="Reno" TYPE="CITY" comment="" />'
        "</TAGS></deIdi2b2>"
    )
    gold = write_files_in(tmp_path / "gold", {"n.xml": xml.encode()})
    for form in FORMATS:
        out = tmp_path / form
        deid("convert", "--notes", gold, "--to", form, "--out", out)
        (note,) = annotated_notes(out).read_all()
        assert [span.label for span in note.spans] == ["DOCTOR", "CITY"], form
    write_files_in(gold, {"n.xml": xml.replace("CITY", "Fluss").encode()})
    with pytest.raises(AuditError, match="The label Fluss cannot be written"):
        deid("convert", "--notes", gold, "--to", "inline", "--out", tmp_path / "other")


def test_overlaps_are_flattened_and_said(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    spans = [{"start": 0, "end": end, "label": "x"} for end in (7, 3)]
    path.write_text(json.dumps({"doc_id": "a", "text": "Ann Lee", "spans": spans}))
    summary = deid("convert", "--notes", path, "--to", "conll", "--out", tmp_path / "b")
    assert summary["n_flattened"] == 1


def test_a_folder_that_is_not_understood_is_told_with_the_place_and_without_its_name(
    tmp_path: Path,
) -> None:
    folder = write_files_in(tmp_path, {"Smith.txt": b"Ann", "Smith.ann": b"T1\tNAME 0 9\tAnn\n"})
    with pytest.raises(AuditError, match="offsets") as refused:
        keep_path(folder, subject="gold notes")
    assert refused.value.where == "gold notes, file 1, line 1" and "Smith" not in str(refused.value)
    with pytest.raises(AuditError, match="not there"):
        annotated_notes(tmp_path / "none")


def test_what_is_given_is_kept_under_its_digest_and_cleared_after_days(tmp_path: Path) -> None:
    for form in FORMATS:
        files = write_files([*NOTES.values()], form=form)
        name, data = next(iter(files.items()))
        name, data = (name, data) if len(files) == 1 else ("n.zip", zipped(files))
        upload = incoming_notes.keep_upload(data, name=name, subject="gold notes")
        assert (upload.n_notes, upload.n_spans, upload.n_patients) == (3, 6, 0)
        assert upload.labels == (("identifier", 3), ("quasi_identifier", 2), ("contact", 1))
        back = annotated_notes(incoming_notes.upload_path(upload.digest)).read_all()
        assert {note.doc_id: note for note in back} == NOTES
        if form != "jsonl":
            texts = sorted((note.doc_id, note.text) for note in NOTES.values())
            assert sorted(read(("n.zip", zipped(files)))) == sorted(read(*files.items())) == texts
    notes = write_files([*NOTES.values()], form="jsonl")["notes.jsonl"]
    hostile = zipped({"../../../evil.jsonl": notes, "__MACOSX/a": b"x"})
    again = incoming_notes.keep_upload(hostile, name="x.zip", subject="gold notes")
    assert again == incoming_notes.keep_notes([*NOTES.values()])
    assert incoming_notes.upload_path(again.digest).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    outputs = b'{"doc_id": "a", "output": "x"}\n\n{"doc_id": 2, "output": ""}\n'
    copies = incoming_notes.keep_outputs(outputs, subject="outputs")
    assert (copies.n_notes, copies.n_spans, copies.labels) == (2, 0, ())
    assert incoming_notes.upload_path(copies.digest).read_bytes() == outputs
    for path in incoming_notes.upload_path(copies.digest).parent.iterdir():
        os.utime(path, (0, 0))
    incoming_notes.clear_uploads(keep=[copies.digest])
    assert incoming_notes.upload_path(copies.digest).is_file()
    for digest in (upload.digest, "../x"):
        with pytest.raises(AuditError, match="no longer kept"):
            incoming_notes.upload_path(digest)
    for data, why in (
        (b"\n", "no note"),
        (b"{}", "doc_id"),
        (b'{"doc_id": 1}', "output"),
        (b'["output"]', "line 1"),
    ):
        with pytest.raises(AuditError, match=why):
            incoming_notes.keep_outputs(data, subject="outputs")


LINE = '{"doc_id": "a", "text": "%s", "spans": []}\n' % ("fever and cough " * 200)


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_with_wrong_bytes_is_read_or_refused_and_never_a_crash(packing: int) -> None:
    good, rng = zipped({"notes.jsonl": LINE.encode()}, compression=packing), random.Random(packing)
    n_refused = 0
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        try:
            incoming_notes.keep_upload(bytes(bad), name="notes.zip", subject="gold notes")
        except AuditError:
            n_refused += 1
    assert n_refused > 150


def test_texts_to_tag_come_from_any_files_and_names_are_no_paths() -> None:
    files = [("b.txt", b"two"), ("A/c.TXT", "三".encode("cp932")), ("z.txt", b"")]
    assert read(*files) == [("A/c", "三"), ("b", "two"), ("z", "")]
    assert notes_as_jsonl(files) == notes_as_jsonl(files[::-1])
    assert json.loads(notes_as_jsonl(files).splitlines()[0])["patient_id"] == "A"
    assert read(("n.zip", zipped(dict(files)))) == read(*files)
    hidden = {"../../etc/passwd.txt": b"one", "__MACOSX/._a.txt": b"\0", ".x": b""}
    assert read(("n.zip", zipped(hidden))) == [("../../etc/passwd", "one")]


def test_bombs_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zipped({"a.txt": b"\n" * 150_000_000})
    assert len(bomb) < 1_000_000
    two = [("a.txt", b"12345"), ("b.txt", b"67890")]
    small = [("n.zip", zipped(dict(two)))]
    for files, why, limits in (
        ([("n.zip", bomb)], "too large when unpacked", {}),
        (small, "too large when unpacked", {"MAX_UNPACKED_BYTES": 9}),
        (small * 2, "more than 3 files", {"MAX_FILES": 3, "MAX_UNPACKED_BYTES": 99}),
        (two, "larger than 0 MB", {"MAX_UPLOAD_MB": 0}),
    ):
        for name, value in limits.items():
            monkeypatch.setattr(incoming_notes, name, value)
        with pytest.raises(AuditError, match=why):
            notes_as_jsonl(files)
    monkeypatch.setattr(incoming_notes, "MAX_NOTES", 1)
    monkeypatch.setattr(incoming_notes, "MAX_LINES", 1)
    for name in ("n.jsonl", "n.conll"):
        with pytest.raises(AuditError, match="more than 1 lines"):
            incoming_notes.keep_upload(b"a\nb\n", name=name, subject="gold notes")


OUTSIDE = b'{"doc_id": "a", "text": "ab", "spans": [{"start": 0, "end": 9, "label": "x"}]}\n'


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("n.zip", b"PK\3\4 no archive", "damaged or locked"),
        ("n.zip", zipped({}), "not known"),
        ("n.zip", zipped({"Smith.pdf": b"%PDF", "a.txt": b"1"}), "not of one form"),
        ("n.zip", zipped({"a.xml": b"<r><TEXT>1</TEXT></r>", "a.txt": b"1"}), "not of one form"),
        ("n.zip", zipped({"inner.zip": zipped({"a.txt": b"1"})}), "not known"),
        ("n.zip", zipped({"Smith.txt": b"\x89PNG\0"}), "not text"),
        ("Smith.xml", b"<!DOCTYPE x><r><TEXT>1</TEXT></r>", "entities"),
        ("Smith.xml", b"<r><TAGS/></r>", "no element TEXT"),
        ("n.zip", zipped({"a.xml": b"<r/>", "a.XML": b"<r/>"}), "twice"),
        ("Smith.ann", b"T1\tName 0 2\tab", "missing"),
        ("Smith.pdf", b"x", "not known"),
        ("Smith.jsonl", b"", "no note"),
        ("Smith.jsonl", b"\0\1", "not text"),
        ("Smith.jsonl", OUTSIDE, "no `spans`"),
        ("Smith.jsonl", LINE.encode() * 2, "twice"),
    ],
)
def test_what_is_no_note_is_refused_without_its_name(name: str, data: bytes, why: str) -> None:
    readers: list[Callable[[], object]] = [lambda: notes_as_jsonl([(name, data)])]
    if why != "not of one form":
        readers.append(lambda: incoming_notes.keep_upload(data, name=name, subject="notes"))
    for read_it in readers:
        with pytest.raises(AuditError, match=why) as refused:
            read_it()
        assert "Smith" not in str(refused.value) and refused.value.where.startswith("notes")
