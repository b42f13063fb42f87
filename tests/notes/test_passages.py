"""Passages from CSV and JSONL."""

from __future__ import annotations

import json

import pytest

from audit.errors import AuditError
from audit import tables
from audit.notes.passages import Passage, read_passages

SECRET = "Zaphodina"
CSV = (
    b"passage_id,text,first_name,last_name\n"
    b'p1,"[NAME] is a 40 year\nold male.",Ann,Lee\n'
    b"p2,Dear [LAST]. No name.,Bo,Hill\n"
    b"p3,,Bo,Hill\n"
    b'p4,"Seen [DATE]: [LAST], [FIRST] is well.",,\n'
)
EXPECTED = (
    Passage("", ("full",), "", " is a 40 year old male.", "p1", ("Ann", "Lee")),
    Passage("Seen : ", ("last", "first"), ", ", " is well.", "p4", None),
)
DIGEST = "439f28d794f56ce1e50e13fb9ba51b1c7ff611c6f6b18d755b984fa52d77508b"


def jsonl(*records: object) -> bytes:
    return "\n".join(json.dumps(record) for record in records).encode()


def test_both_formats_give_the_same_passages() -> None:
    found = read_passages(CSV)
    assert (found.passages, found.encoding, len(found), found.has_owners) == (
        EXPECTED, "UTF-8", 2, True,
    )  # fmt: skip
    assert [(note.row, note.what) for note in found.notes] == [
        (3, "The text has no place for a full name; left out."),
        (4, "The text is empty; left out."),
    ]
    data = jsonl(
        {"passage_id": "p1", "text": "[NAME] is a 40 year\nold male.", "name": "Ann Lee",
         "other": [1, 2.5, None, True]},
        {"text": None},
        {"text": "Seen [DATE]: [LAST], [FIRST] is well.", "passage_id": "p4"},
    )  # fmt: skip
    for again in (read_passages(data + b"\r\n\n"), read_passages(data, file_name="X.JSONL")):
        assert again.passages == EXPECTED
        assert [note.row for note in again.notes] == [2]
        assert again.digest() == found.digest() == DIGEST
    others = [b"text\n[NAME] b\n", b"text\n[FIRST] [LAST] a\n", b"text,name_id\n[NAME] a,0\n"]
    assert len({read_passages(data).digest() for data in others}) == 3


def test_owners_are_names_or_rows_of_the_list() -> None:
    found = read_passages(
        "text,name_id,氏名\n[NAME] a,7,山田 太郎\nx,,\n[NAME] b,,山田 太郎\n".encode("cp932")
    )
    assert [(one.passage_id, one.owner) for one in found.passages] == [
        ("2", 7), ("4", ("太郎", "山田")),
    ]  # fmt: skip
    assert found.encoding == "CP932"
    (numbers,) = read_passages(jsonl({"text": "[NAME]", "name_id": 3, "passage_id": 12})).passages
    assert (numbers.owner, numbers.passage_id) == (3, "12")
    assert not read_passages(b"text\n[NAME] a\n").has_owners


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"note\n[NAME] a\n", ", row 1: There is no `text`, or two columns mean the same of "
         "passage and name. Write CSV with a column `text`, or one JSON object a line with a"),
        (b"text,Passage ID,passage_id\n[NAME] a,b,c\n", ", row 1: Columns 2 and 3 have the same"),
        (f"text,surname,姓\n[NAME] {SECRET},a,b\n".encode(), ", row 1: Columns 2 and 3 hold the"),
        (f"text,passage_id\n[NAME] a,1\n[NAME] {SECRET},\n".encode(),
         ", row 3: The passage_id is empty, or it or the name is longer than 200 characters."),
        (f"text,name_id\n[NAME] {SECRET},-1\n".encode(),
         ", row 2: The name_id is no row of the list of names, from 0."),
        (b"text\nok [NAME]\n" + b"[NAME] " * 20_000 + b"\n",
         ", row 3: The text is longer than 100,000 characters."),
        (b'{"text": "[NAME]"}\n{"text": "' + SECRET.encode() + b"\n", ", row 2: The line is not J"),
        (b'{"text": "[NAME]"}\n["' + SECRET.encode() + b'"]\n', ", row 2: The line is not a JSON"),
        (b'{"text": "[NAME]", "name_id": ' + b"9" * 5_000 + b"}\n", ", row 1: The name_id is no "),
        (b"text,passage_id\n[NAME] a,x\n[NAME] b,y\n[NAME] c,x\n",
         ", row 4: Row 2 has the same passage_id."),
        (b"text\nno name here\n", ": No text has a place for a full name. Write [NAME], or [FIRST] "
         "[LAST], where the name stood."),
    ],
)  # fmt: skip
def test_bad_files_are_refused_by_row_without_their_text(data: bytes, said: str) -> None:
    with pytest.raises(AuditError) as caught:
        read_passages(data)
    assert str(caught.value).startswith(f"passages{said}")
    assert SECRET not in str(caught.value)


def test_too_many_lines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_ROWS", 2)
    two = jsonl({"text": "[NAME]"}, {"text": "[NAME]"}) + b"\n"
    assert len(read_passages(two)) == 2
    with pytest.raises(AuditError, match="more than 2 lines"):
        read_passages(two + jsonl({"text": "[NAME]"}))
