"""Passages from CSV and JSONL."""

from __future__ import annotations

import json

import pytest

from audit.errors import AuditError
from audit.notes import passages
from audit.notes.passages import Passage, read_passages

SECRET = "Zaphodina"
CSV = (
    "passage_id,text,first_name,last_name\n"
    'p1,"[NAME] is a 40 year\nold male.",Ann,Lee\n'
    "p2,Dear [LAST]. No name.,Bo,Hill\n"
    "p3,,Bo,Hill\n"
    'p4,"Seen [DATE]: [LAST], [FIRST] is well.",,\n'
)
EXPECTED = (
    Passage("", ("full",), "", " is a 40 year old male.", "p1", ("Ann", "Lee")),
    Passage("Seen : ", ("last", "first"), ", ", " is well.", "p4", None),
)


def jsonl(*records: object) -> bytes:
    return "\n".join(json.dumps(record) for record in records).encode()


def test_csv_is_read_with_owners_and_notes() -> None:
    found = read_passages(CSV.encode())
    assert found.passages == EXPECTED
    assert len(found) == 2
    assert found.has_owners
    assert [(note.row, note.what) for note in found.notes] == [
        (3, "The text has no place for a full name; left out."),
        (4, "The text is empty; left out."),
    ]
    assert found.encoding == "UTF-8"


def test_jsonl_gives_the_same_as_csv() -> None:
    data = jsonl(
        {
            "passage_id": "p1",
            "text": "[NAME] is a 40 year\nold male.",
            "name": "Ann Lee",
            "other": [1, 2.5, None, True],
        },
        {"text": None},
        {"text": "Seen [DATE]: [LAST], [FIRST] is well.", "passage_id": "p4"},
    )
    for found in (read_passages(data + b"\r\n\n"), read_passages(data, file_name="X.JSONL")):
        assert found.passages == EXPECTED
        assert [note.row for note in found.notes] == [2]
        assert found.digest() == read_passages(CSV.encode()).digest()


def test_owners_are_names_or_rows_of_the_list() -> None:
    found = read_passages(
        "text,name_id,氏名\n[NAME] a,7,山田 太郎\n[NAME] b,,山田 太郎\n".encode("cp932")
    )
    assert [passage.owner for passage in found.passages] == [7, ("太郎", "山田")]
    assert found.encoding == "CP932"
    numbers = read_passages(jsonl({"text": "[NAME]", "name_id": 3, "passage_id": 12}))
    assert (numbers.passages[0].owner, numbers.passages[0].passage_id) == (3, "12")
    assert not read_passages(b"text\n[NAME] a\n").has_owners


def test_passages_without_an_id_are_known_by_their_row() -> None:
    assert [p.passage_id for p in read_passages(b"text\n[NAME] a\nx\n[NAME] a\n").passages] == [
        "2",
        "4",
    ]


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"note\n[NAME] a\n", "row 1"),
        (b"text,Text \n[NAME] a,b\n", "row 1"),
        (f"text,surname,姓\n[NAME] {SECRET},a,b\n".encode(), "row 1"),
        (f"text,passage_id\n[NAME] a,1\n[NAME] {SECRET},\n".encode(), "row 3"),
        (f"text,name_id\n[NAME] {SECRET},-1\n".encode(), "row 2"),
        (f"text,name\n[NAME],{SECRET * 30}\n".encode(), "row 2"),
        (b"text\nok [NAME]\n" + b"[NAME] " * 20_000 + b"\n", "row 3"),
        (b'{"text": "[NAME]"}\n{"text": "' + SECRET.encode() + b"\n", "row 2"),
        (b'{"text": "[NAME]"}\n["' + SECRET.encode() + b'"]\n', "row 2"),
        (b'{"text": ["' + SECRET.encode() + b'"]}\n', "row 1"),
        (b'{"text": "[NAME] \\ud800"}\n', "row 1"),
        (b'{"text": ' + b"[" * 100_000 + b"}\n", "row 1"),
        (b'{"text": "[NAME]", "name_id": ' + b"9" * 5_000 + b"}\n", "row 1"),
        (b'{"text": "[NAME]", "name_id": true, "x": "' + b"y" * 1_000_000 + b'"}', "row 1"),
    ],
)
def test_bad_files_are_refused_by_row_without_their_text(data: bytes, where: str) -> None:
    with pytest.raises(AuditError) as caught:
        read_passages(data)
    assert str(caught.value).startswith(f"passages, {where}: ")
    assert SECRET not in str(caught.value)


def test_repeated_ids_are_refused() -> None:
    with pytest.raises(AuditError, match="Rows 2 and 4 have the same passage_id"):
        read_passages(b"text,passage_id\n[NAME] a,x\n[NAME] b,y\n[NAME] c,x\n")


@pytest.mark.parametrize("data", [b"text\nno name here\n", b"text\n", b'{"text": "[LAST]"}'])
def test_a_file_without_any_place_for_a_name_is_refused(data: bytes) -> None:
    with pytest.raises(AuditError, match="No text has a place"):
        read_passages(data)


def test_too_many_lines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "MAX_ROWS", 2)
    two = jsonl({"text": "[NAME]"}, {"text": "[NAME]"}) + b"\n"
    assert len(read_passages(two)) == 2
    with pytest.raises(AuditError, match="more than 2 lines"):
        read_passages(two + jsonl({"text": "[NAME]"}))


def test_the_digest_follows_the_content_alone() -> None:
    one = read_passages(b"text\n[NAME] a\n")
    assert one.digest() == read_passages(b"\xef\xbb\xbftext;x\r\n[NAME] a;1\r\n").digest()
    others = [b"text\n[NAME] b\n", b"text\n[FIRST] [LAST] a\n", b"text,name_id\n[NAME] a,0\n"]
    digests = {one.digest(), *(read_passages(data).digest() for data in others)}
    assert len(digests) == 4
