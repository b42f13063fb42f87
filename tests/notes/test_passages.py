"""Passages from CSV and JSONL, plain and packed, with the placeholders that people have."""

from __future__ import annotations

import gzip
import json

import pytest

from audit import tables
from audit.errors import AuditError
from audit.notes.passages import Passage, count_owners, read_passages

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
    passages = read_passages(CSV)
    assert (passages.passages, passages.encoding, len(passages), passages.has_owners) == (
        EXPECTED,
        "UTF-8",
        2,
        True,
    )
    assert [(note.row, note.what) for note in passages.notes] == [
        (3, "The text has no place for a full name; left out."),
        (4, "The text is empty; left out."),
    ]
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
    for again in (read_passages(data + b"\r\n\n"), read_passages(data, file_name="X.JSONL")):
        assert again.passages == EXPECTED
        assert [note.row for note in again.notes] == [2]
        assert again.digest() == passages.digest() == DIGEST
    other_files = [b"text\n[NAME] b\n", b"text\n[FIRST] [LAST] a\n", b"text,name_id\n[NAME] a,0\n"]
    assert len({read_passages(data).digest() for data in other_files}) == 3


def test_owners_are_names_or_rows_of_the_list() -> None:
    passages = read_passages(
        "text,name_id,氏名\n[NAME] a,7,山田 太郎\nx,,\n[NAME] b,,山田 太郎\n".encode("cp932")
    )
    assert [(passage.passage_id, passage.owner) for passage in passages.passages] == [
        ("2", 7),
        ("4", ("太郎", "山田")),
    ]
    assert passages.encoding == "CP932"
    (numbers,) = read_passages(jsonl({"text": "[NAME]", "name_id": 3, "passage_id": 12})).passages
    assert (numbers.owner, numbers.passage_id) == (3, "12")
    assert not read_passages(b"text\n[NAME] a\n").has_owners


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"note\n[NAME] a\n",
            ", row 1: There is no `text`, or two columns mean the same of "
            "passage and name. Write CSV with a column `text`, or one JSON object a line with a",
        ),
        (b"text,Passage ID,passage_id\n[NAME] a,b,c\n", ", row 1: Columns 2 and 3 have the same"),
        (f"text,surname,姓\n[NAME] {SECRET},a,b\n".encode(), ", row 1: Columns 2 and 3 hold the"),
        (
            f"text,passage_id\n[NAME] a,1\n[NAME] {SECRET},\n".encode(),
            ", row 3: The passage_id is empty, or it or the name is longer than 200 characters.",
        ),
        (
            f"text,name_id\n[NAME] {SECRET},-1\n".encode(),
            ", row 2: The name_id is no row of the list of names, from 0.",
        ),
        (
            b"text\nok [NAME]\n" + b"[NAME] " * 20_000 + b"\n",
            ", row 3: The text is longer than 100,000 characters.",
        ),
        (b'{"text": "[NAME]"}\n{"text": "' + SECRET.encode() + b"\n", ", row 2: The line is not J"),
        (b'{"text": "[NAME]"}\n["' + SECRET.encode() + b'"]\n', ", row 2: The line is not a JSON"),
        (b'{"text": "[NAME]", "name_id": ' + b"9" * 5_000 + b"}\n", ", row 1: The name_id is no "),
        (
            b"text,passage_id\n[NAME] a,x\n[NAME] b,y\n[NAME] c,x\n",
            ", row 4: Row 2 has the same passage_id.",
        ),
        (
            b"text\nno name here\n",
            ": No text has a place for a full name. Write [NAME], or [FIRST] "
            "[LAST], where the name stood, or say what stands there.",
        ),
    ],
)
def test_bad_files_are_refused_by_row_without_their_text(data: bytes, message: str) -> None:
    with pytest.raises(AuditError) as caught:
        read_passages(data)
    assert str(caught.value).startswith(f"passages{message}")
    assert SECRET not in str(caught.value)


def test_too_many_lines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_ROWS", 2)
    two = jsonl({"text": "[NAME]"}, {"text": "[NAME]"}) + b"\n"
    assert len(read_passages(two)) == 2
    with pytest.raises(AuditError, match="more than 2 lines"):
        read_passages(two + jsonl({"text": "[NAME]"}))


FULL = ("full",)


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        ("<PERSON> is well. Seen <DATE_TIME>.", "", " is well. Seen ."),
        ("<DATE>: <PERSON_2> saw <PERSON_3>.", ": ", " saw ."),
        ("<PATIENT> came", "", " came"),
        (
            "【氏名】は70歳の男性。【日付】受診【現病歴】なし",
            "",
            "は70歳の男性。受診【現病歴】なし",
        ),
        ("Mr. [**Known lastname 5**] is a 70 year old man", "Mr. ", " is a 70 year old man"),
        ("Dr. [**Last Name (STitle) 1**] saw Ms. [LAST].", "Dr. saw Ms. ", "."),
        ("[姓]様は来院した", "", "様は来院した"),
        ("___ is a ___ year old man seen on ___.", "", " is a year old man seen on ."),
        ("Admission Date: ___\nMr. ___ fell.", "Admission Date: Mr. ", " fell."),
        ("Name:  ___   Unit No:  ___", "Name:  ", "   Unit No:"),
        ("XXXX is a XX-year-old with XXXX.", "", " is a -year-old with ."),
        ("In XXXX, Mrs. XXXX was seen.", "In , Mrs. ", " was seen."),
    ],
)
def test_the_place_of_a_name_by_the_marks_of_others(text: str, left: str, right: str) -> None:
    (passage,) = read_passages(jsonl({"text": text})).passages
    assert (passage.left, passage.slots, passage.separator, passage.right) == (
        left,
        FULL,
        "",
        right,
    )


def test_parts_of_a_name_in_other_brackets_keep_their_order() -> None:
    (passage,) = read_passages(jsonl({"text": "【姓】【名】は来院"})).passages
    assert (passage.slots, passage.right) == (("last", "first"), "は来院")


def test_a_place_that_is_written_out_comes_before_looser_ones() -> None:
    for text in ("Mr. [LAST] met [NAME].", "<PERSON> met [NAME].", "Mr. ___ met [NAME]."):
        (passage,) = read_passages(jsonl({"text": text})).passages
        assert passage.left.endswith(" met ") and passage.right == "."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("___ was admitted on ___.", "The text has blanks, and nothing beside one says that it is"),
        ("XXXX was admitted.", "The text has blanks, and nothing beside one says that it is the"),
        ("Dr. ___ saw the patient.", "The text has blanks"),
        ("Dr. [LAST] saw [FIRST].", "The text has no place for a full name"),
        ("Type XX collagen, <b>bold</b> 【現病歴】 ____", "The text has no place for a full name"),
        ("<DATE> only", "The text has no place for a full name"),
    ],
)
def test_what_is_not_told_to_be_a_patient_is_left_out(text: str, message: str) -> None:
    passages = read_passages(jsonl({"text": "[NAME] a"}, {"text": text}))
    assert [(note.row, str(note.what)[: len(message)]) for note in passages.notes] == [(2, message)]


def test_a_placeholder_of_ones_own_is_read_as_the_name() -> None:
    csv = (
        'text,first_name,last_name\n"@@ came, seen by @@",Ann,Lee\n\nnobody came,,\n[NAME] left,,\n'
    )
    passages = read_passages(csv.encode(), placeholder="@@")
    plain = read_passages(csv.replace("@@", "[NAME]").encode())
    assert passages.passages == plain.passages and len(passages) == 2
    assert [note.row for note in passages.notes] == [note.row for note in plain.notes] == [4]
    lines = jsonl({"text": "Ward ___: <PT> came"}, {"text": "____ and ___ came", "passage_id": "b"})
    (passage,) = read_passages(lines, placeholder="<PT>").passages
    assert (passage.left, passage.right, passage.passage_id) == ("Ward : ", " came", "1")
    two = read_passages(lines, placeholder="___").passages
    assert [(passage.left, passage.right) for passage in two] == [
        ("Ward ", ": <PT> came"),
        ("and ", " came"),
    ]


@pytest.mark.parametrize("placeholder", ["_", "  ", "a\nb", "x" * 61, "[PT]", "amE]"])
def test_a_placeholder_that_stands_nowhere_or_is_none_is_refused(placeholder: str) -> None:
    with pytest.raises(AuditError, match=r"^placeholder: (No text has|A placeholder has)"):
        read_passages(b"text\n[NAME] came\n", placeholder=placeholder)


@pytest.mark.parametrize("data", [b"note\n@@ came\n", b'{"note": "@@"}', b"{", b'{"text": []}'])
def test_a_bad_file_is_refused_with_a_placeholder_too(data: bytes) -> None:
    with pytest.raises(AuditError, match=r"^passages, row 1: "):
        read_passages(data, placeholder="@@")


def test_packed_passages_are_unpacked_within_bounds() -> None:
    for data, name in ((CSV, "p.csv.gz"), (jsonl({"text": "[NAME] a"}), "P.JSONL.GZ"), (CSV, "")):
        assert read_passages(gzip.compress(data), file_name=name) == read_passages(
            data, file_name=name.lower().removesuffix(".gz")
        )
    packed = gzip.compress(CSV)
    for damaged in (packed[:-9], packed[:20], packed[:15] + b"\xff" * 9 + packed[24:]):
        with pytest.raises(AuditError, match="The gzip file is damaged, or ends too early"):
            read_passages(damaged)
    bomb = gzip.compress(b"text\n" + b"[NAME] came\n" * 20_000_000, 1)
    with pytest.raises(AuditError, match="The file is larger than 50 MB"):
        read_passages(bomb, file_name="p.csv.gz")
    with pytest.raises(AuditError, match="This is a gzip archive, not text"):
        read_passages(gzip.compress(packed))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'[{"text": "[NAME]"}]', "This is a JSON array, not JSONL."),
        (b'{"resourceType": "Bundle", "entry": []}', "This is FHIR in JSON, not a table."),
        (b"<?xml version='1.0'?><deIdi2b2><TEXT>", "This is XML of i2b2 or n2c2, not a table."),
    ],
)
def test_other_formats_are_called_by_their_names(data: bytes, message: str) -> None:
    for name in ("p.csv", "p.json"):
        with pytest.raises(AuditError, match=message):
            read_passages(data, file_name=name)


def test_owners_are_counted_by_whether_they_are_listed() -> None:
    passages = read_passages(
        b"text,name_id\n[NAME] a,0\n[NAME] b,5\n[NAME] c,7\n[NAME] d,\n"
    ).passages
    assert count_owners(passages, first=["Ann", "Bo"], last=["Lee", "Hill"]) == (1, 2)
    assert count_owners(passages[3:], first=["Ann"], last=["Lee"]) == (0, 0)
