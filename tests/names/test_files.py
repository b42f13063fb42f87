"""Lists of names in the forms in which people have them, and files that are none of these."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence

import openpyxl
import pytest

from audit.errors import AuditError
from audit.names import files
from audit.names.candidates import Candidates
from audit.names.files import read_names

SECRET = "Zaphodina"
ANN_AND_BO = [("Ann", "Lee"), ("Bo", "Hill")]


def pairs(names: Candidates) -> list[tuple[str, str]]:
    return list(zip(names.first, names.last, strict=True))


def workbook(*sheets: Iterable[Sequence[object]]) -> bytes:
    book, saved = openpyxl.Workbook(), io.BytesIO()
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet() if number else book.active
        for row in rows:
            sheet.append(row)
    book.save(saved)
    return saved.getvalue()


def changed(
    data: bytes, change: Callable[[str], str], *, part: str = "xl/worksheets/sheet1.xml"
) -> bytes:
    """Return a workbook with another text in one of its parts."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change(content.decode()) if name == part else content)
    return packed.getvalue()


def read_remarks(data: bytes) -> list[tuple[int, str]]:
    return [(note.row, str(note.what)) for note in read_names(data).notes]


def refused(data: bytes) -> str:
    with pytest.raises(AuditError) as caught:
        read_names(data, subject="list")
    assert SECRET not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        'PAT_NAME,PAT_ID\n"LEE,ANN",7\n"HILL,BO",8\n',
        "PatientName\nLee^Ann\nHill^Bo\n",
        "LAST_NM,FIRST_NM\nLee,Ann\nHill,Bo\n",
        "Vorname;Nachname\nAnn;Lee\nBo;Hill\n",
        "Name;Vorname\nLee;Ann\nHill;Bo\n",
        "nom,prénom\nLee,Ann\nHill,Bo\n",
        "PRENOM,NOM\nAnn,Lee\nBo,Hill\n",
        "nombre,apellidos\nAnn,Lee\nBo,Hill\n",
        "sep=;\nfirst_name;last_name\nAnn;Lee\nBo;Hill\n",
        '"SEP=|"\r\nfirst_name|last_name\r\nAnn|Lee\r\nBo|Hill\r\n',
        ",first_name,last_name\n0,Ann,Lee\n1,Bo,Hill\n",
        '"","first_name","last_name"\n"1","Ann","Lee"\n"2","Bo","Hill"\n',
        "first_name,last_name,,\nAnn,Lee,,\nBo,Hill,,\n",
        "first_name,last_name\nAnn,Lee,,\nBo,Hill\n",
        "first_name,last_name, ,\nAnn,Lee\nBo,Hill,  \n",
    ],
)
def test_lists_as_systems_export_them(text: str) -> None:
    names_file = read_names(text.encode())
    assert pairs(names_file.candidates) == ANN_AND_BO
    assert names_file.candidates.row == (2, 3), "rows as a spreadsheet shows them"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f",first_name,last_name\nx,{SECRET},Lee\n", "list, row 1: Column 1 has no heading."),
        (f"first_name,,last_name\n{SECRET},1,Lee\n", "list, row 1: Column 2 has no heading."),
        (f"first_name,last_name,,\n{SECRET},Lee,x,\n", "row 2: The row has 4 cells where the h"),
        (f"first_name,last_name,sex,\n{SECRET},Lee\n", "row 2: The row has 2 cells where the h"),
        (f"nom\n{SECRET}\n", "No column holds names."),
        (f"nombre,apellido1,apellido 1\n{SECRET},a,b\n", "Columns 2 and 3 have the same name"),
        (f"nombre,apellido paterno,apellido materno\n{SECRET},a,b\n", "Columns 2 and 3 hold"),
        (f"sep=x\nfirst_namexlast_name\n{SECRET}xLee\n", "The first line names a mark"),
        (f'[{{"name": "{SECRET}"}}]', "This is a JSON array, not JSONL. Write one JSON"),
        (f'{{\n "name": "{SECRET}"\n}}', "This is one JSON object over several lines, not JSONL."),
        (f'{{"resourceType": "Bundle", "entry": ["{SECRET}"]}}', "This is FHIR in JSON"),
        (f'{{\n  "id": "{SECRET}",\n  "resourceType" : "Patient"}}', "This is FHIR in JSON"),
        (f'<?xml version="1.0"?>\n<PatientMatching>\n<TEXT>{SECRET}', "This is XML of i2b2"),
        (f"<deIdi2b2><TEXT>{SECRET}</TEXT></deIdi2b2>", "This is XML of i2b2 or n2c2"),
        (f'<?xml version="1.0"?><ClinicalDocument><text>{SECRET}', "This is a CDA document (XML)."),
        (f"<HTML><table><tr><td>{SECRET}", "This is a web page (HTML), not a table."),
    ],
)
def test_what_is_not_clear_is_refused_with_its_place(text: str, said: str) -> None:
    assert said in refused(text.encode())


def test_utf_16_needs_its_byte_order_mark() -> None:
    text = "姓\t名\n山田\t太郎\n"
    for data in (text.encode("utf-16"), b"\xfe\xff" + text.encode("utf-16-be")):
        names_file = read_names(data)
        assert (pairs(names_file.candidates), names_file.encoding) == ([("太郎", "山田")], "UTF-16")
    for codec in ("utf-16-le", "utf-16-be"):
        assert "UTF-16 without a byte order mark" in refused(text.encode(codec))
    for broken in (text.encode("utf-16")[:-1], b"\xff\xfe\x00\xd8a\x00", "a\0b".encode("utf-16")):
        assert "The file is UTF-16 with broken characters." in refused(broken)
    records = '{"first_name": "Ann", "last_name": "Lee"}\n'
    assert pairs(read_names(records.encode("utf-16")).candidates) == [("Ann", "Lee")]


def test_jsonl_has_the_same_headings_as_keys() -> None:
    lines = [
        {"FIRST_NM": "Ann", "LAST_NM": "Lee", "is_member": True, "n_mentions": 2, "tags": ["x"]},
        {"LAST_NM": "Hill", "FIRST_NM": "Bo", "is_member": False, "sex": None, "ward": "7"},
        {"LAST_NM": "", "FIRST_NM": None},
    ]
    data = "\n".join(map(json.dumps, lines)).encode()
    for names_file in (read_names(data), read_names(b"\xef\xbb\xbf" + data + b"\n\n")):
        listed = names_file.candidates
        assert pairs(listed) == ANN_AND_BO
        assert (listed.is_member, listed.n_mentions, listed.row) == (
            (True, False),
            (2, None),
            (1, 2),
        )
        assert [(note.row, str(note.what)) for note in names_file.notes] == [
            (1, "These columns are not read: 6."),
            (3, "The row has no name and was left out."),
        ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'{{"name": "{SECRET}"}}\n{{"name": ', "list, row 2: The line is not JSON."),
        (f'{{"name": "{SECRET}"}}\n["x"]\n', "list, row 2: The line is not a JSON object."),
        (f'{{"name": "{SECRET}", "Name": "x"}}', "row 1: Columns 1 and 2 have the same name."),
        (f'{{"first": "{SECRET}", "": "x", "last": "y"}}', "row 1: Column 2 has no heading."),
        (
            f'{{"name": {{"given": "{SECRET}"}}}}',
            "The first row is empty; it must name the columns.",
        ),
        ("\n".join(f'{{"k{i}": "{SECRET}"}}' for i in range(300)), "more than 4,000,000 cells"),
    ],
)
def test_bad_jsonl_is_refused_by_line(text: str, said: str) -> None:
    assert said in refused(text.encode())


def test_a_workbook_is_read_by_the_values_of_its_first_sheet() -> None:
    rows = [
        ["PAT_NAME", "is_member", "n_mentions", "born", None],
        ["Lee, Ann", True, 2.0, None],
        [],
        ["Hill, Bo", 0, None, None, None],
        [None, None, 3],
    ]
    names_file = read_names(workbook(rows))
    listed = names_file.candidates
    assert (pairs(listed), names_file.encoding) == (ANN_AND_BO, "xlsx")
    assert (listed.is_member, listed.n_mentions, listed.row) == ((True, False), (2, None), (2, 4))
    several = read_remarks(workbook(rows, [["name"], [SECRET]]))
    assert several == [
        (1, "The workbook has 2 sheets; the first one is read."),
        (1, "These columns are not read: 4."),
        (5, "The row has no name and was left out."),
    ]
    csv = b"first_name,last_name\nAnn,Lee\n"
    assert read_names(csv).encoding == "UTF-8"  # whatever it is called


def test_a_hidden_sheet_is_not_the_first() -> None:
    data = workbook([["name"], [SECRET]], [["first", "last"], *ANN_AND_BO])
    hidden = changed(
        data,
        lambda text: text.replace('state="visible"', 'state="hidden"', 1),
        part="xl/workbook.xml",
    )
    assert pairs(read_names(hidden).candidates) == ANN_AND_BO


SMALL = workbook([["first", "last"], [SECRET, "Lee"]])


def declared(text: str) -> str:
    kinds = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "lol"}">' for i in range(12))
    return f"<!DOCTYPE worksheet [{kinds}]>" + re.sub(r"<v>0</v>", "<v>&a11;</v>", text)


def ended(text: str) -> str:
    return text[: len(text) // 2]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (SMALL[:-40], "The archive is damaged"),
        (SMALL[: len(SMALL) // 2], "The archive is damaged"),
        (changed(SMALL, ended), "This is no Excel workbook, or a damaged one."),
        (changed(SMALL, declared), "This is no Excel workbook, or a damaged one."),
        (workbook([["first", "last"], [SECRET, "#N/A"]]), "row 2: A cell holds an error of the"),
        (workbook([["first", "last"], [SECRET, "=A1"]]), "has formulas without their values"),
        (workbook([[], ["first", "last"], [SECRET, "Lee"]]), "The first row is empty"),
        (workbook([["first", "last", *["x"] * 300], [SECRET, "Lee"]]), "too many rows, columns or"),
        (workbook([["first", "last"], [SECRET, "Lee", "x"]]), "row 2: The row has 3 cells where"),
        (workbook([]), "The first row is empty"),
        (b"\xd0\xcf\x11\xe0" + SECRET.encode(), "an Excel workbook of the old form, or"),
    ],
)
def test_a_bad_workbook_is_refused(data: bytes, said: str) -> None:
    assert said in refused(data)


def test_a_row_that_claims_to_be_the_last_is_refused_early() -> None:
    far = changed(
        SMALL, lambda text: text.replace('r="2"', 'r="999999999"').replace('"A2"', '"A999999999"')
    )
    assert "too many rows, columns or cells" in refused(far)


@pytest.mark.long
def test_a_bomb_is_refused_whether_it_says_its_size_or_not() -> None:
    zeros = changed(SMALL, lambda text: text + " " * 300_000_000)
    assert len(zeros) < 1_000_000
    assert "The archive is too large when unpacked." in refused(zeros)
    other_file = io.BytesIO()
    with zipfile.ZipFile(other_file, "w") as archive:
        archive.writestr(f"{SECRET}.txt", "no sheet")
    assert "This is no Excel workbook" in refused(other_file.getvalue())


def test_a_sheet_that_grows_in_memory_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its archive is small enough; as objects it is not."""
    links = "".join(f'<hyperlink ref="{n * 7919 % 999_983}"/>' for n in range(300_000))
    grown = changed(SMALL, lambda text: text.replace("</sheetData>", f"{links}</sheetData>"))
    monkeypatch.setattr(files, "MEMORY_BYTES", 100_000_000)
    assert "Reading the workbook takes too much time or memory." in refused(grown)


def test_a_sheet_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"<row><c><v>{n * 7919 % 999_983}</v></c></row>" for n in range(300_000))
    long = changed(SMALL, lambda text: text.replace("</sheetData>", f"{rows}</sheetData>"))
    monkeypatch.setattr(files, "SECONDS", 1)
    assert "Reading the workbook takes too much time or memory." in refused(long)
