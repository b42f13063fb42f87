"""Notes that are handed in: several texts, brat and i2b2 files, archives, and what is refused."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping

import pytest

from audit.deid import given
from audit.deid.given import is_table, notes_lines
from audit.errors import AuditError
from audit.notes.formats import write_files
from audit.notes.spans import Span, tagged

NOTE = "氏名：高橋健一\n<5 mg/dL & more"
DOCUMENT = tagged("高橋 1", text=NOTE, spans=[Span(3, 7, "identifier")])


def zipped(files: Mapping[str, bytes], *, how: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", how) as folder:
        for name, data in files.items():
            folder.writestr(name, data)
    return buffer.getvalue()


def read(*files: tuple[str, bytes]) -> list[tuple[str, str]]:
    records = map(json.loads, notes_lines(files).decode().splitlines())
    return [(record["note_id"], record["text"]) for record in records]


@pytest.mark.parametrize("form", ["brat", "i2b2"])
def test_annotated_files_give_their_texts_alone(form: str) -> None:
    files = write_files([DOCUMENT], form=form)
    assert read(("n.zip", zipped(files))) == [("高橋 1", NOTE)]
    assert read(*files.items()) == [("高橋 1", NOTE)]


def test_annotations_are_not_looked_at_even_where_they_are_wrong() -> None:
    wrong = b"T1\tX 900 901\tnothing\n"
    assert read(("a.txt", b"one"), ("a.ann", wrong)) == [("a", "one")]
    xml = b'<r><TEXT>one</TEXT><TAGS><NAME start="9" end="x"/></TAGS></r>'
    assert read(("a.xml", xml)) == [("a", "one")]


def test_texts_come_in_the_order_of_their_names_whatever_the_order_of_the_upload() -> None:
    files = [("b.txt", b"two"), ("A/c.TXT", "三".encode("cp932")), ("z.txt", b"")]
    assert read(*files) == [("c", "三"), ("b", "two"), ("z", "")]
    assert notes_lines(files) == notes_lines(files[::-1])
    assert read(("n.zip", zipped(dict(files)))) == read(*files)
    assert read(("x" * 300 + ".txt", b"long"))[0][0] == "1"


def test_names_in_an_archive_are_no_paths_and_hidden_files_are_left() -> None:
    archive = zipped(
        {"../../etc/passwd.txt": b"one", "/root.txt": b"two", "__MACOSX/._a.txt": b"\0", ".x": b""}
    )
    assert read(("n.zip", archive)) == [("passwd", "one"), ("root", "two")]


def test_bombs_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zipped({"a.txt": b"\n" * 150_000_000})
    assert len(bomb) < 1_000_000
    with pytest.raises(AuditError, match="too large when unpacked"):
        notes_lines([("n.zip", bomb)])
    monkeypatch.setattr(given, "MAX_UNPACKED_BYTES", 9)
    with pytest.raises(AuditError, match="too large when unpacked"):
        notes_lines([("n.zip", zipped({"a.txt": b"12345", "b.txt": b"67890"}))])
    monkeypatch.setattr(given, "MAX_FILES", 2)
    many = zipped({f"{n}.txt": b"1" for n in range(3)})
    with pytest.raises(AuditError, match="more than 2 files"):
        notes_lines([("n.zip", many)])
    monkeypatch.setattr(given, "MAX_UPLOAD_MB", 0)
    with pytest.raises(AuditError, match="MB together"):
        notes_lines([("a.txt", b"12"), ("b.txt", b"34")])


def damaged() -> bytes:
    data = bytearray(zipped({"a.txt": b"some text " * 99}))
    data[45:55] = b"\xff" * 10
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("n.zip", b"PK\3\4 no archive", "damaged or locked"),
        ("n.zip", damaged(), "damaged or locked"),
        ("n.zip", zipped({}), "no note in it"),
        ("n.zip", zipped({"a.ann": b"T1"}), "no note in it"),
        ("n.zip", zipped({"Smith.pdf": b"%PDF"}), "neither .txt, .xml nor .ann"),
        ("n.zip", zipped({"inner.zip": zipped({"a.txt": b"1"})}), "neither"),
        ("n.zip", zipped({"a.txt": b"\x89PNG\0"}), "not text"),
        ("a.xml", b"<!DOCTYPE x><r><TEXT>1</TEXT></r>", "entities"),
        ("a.xml", b"<r><TAGS/></r>", "no element TEXT"),
    ],
)
def test_what_is_no_note_is_refused_without_its_name(name: str, data: bytes, why: str) -> None:
    with pytest.raises(AuditError, match=why) as refused:
        notes_lines([(name, data), ("Smith.txt", b"one")][: 1 if why != "not text" else 2])
    assert "Smith" not in str(refused.value)


def test_a_table_is_handed_in_alone() -> None:
    assert is_table([("n.CSV", b"")]) and is_table([("n.jsonl", b"")])
    assert not is_table([("a.txt", b""), ("b.txt", b"")])
    with pytest.raises(AuditError, match="with other files"):
        is_table([("n.csv", b""), ("a.txt", b"")])
