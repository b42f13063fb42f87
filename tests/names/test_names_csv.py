"""Lists of names from files people have."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.names.files import read_names


def rows_of(text: str, *, codec: str = "utf-8") -> list[tuple[str, str]]:
    candidates = read_names(text.encode(codec)).candidates
    return list(zip(candidates.first, candidates.last, strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "first_name,last_name\nMary Ann,Smith\n",
        "Last Name;First Name\nSmith; Mary Ann \n",
        "surname\tgiven_name\nSmith\tMary Ann\n",
        "姓,名\nSmith,Mary Ann\n",
        "姓,名前\nSmith,Mary Ann\n",
        "name\nMary Ann Smith\n",
        'full_name\n"Smith, Mary Ann"\n',
        "名前\nMary Ann Smith\n",
    ],
)
def test_western_names_are_read_under_any_heading(text: str) -> None:
    assert rows_of(text) == [("Mary Ann", "Smith")]


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "cp932"])
@pytest.mark.parametrize(
    "text", ["姓,名\n山田,太郎\n", "氏名\n山田 太郎\n", "患者名\n山田　太郎\n"]
)
def test_japanese_names_are_read(text: str, codec: str) -> None:
    assert rows_of(text, codec=codec) == [("太郎", "山田")]
    assert read_names(text.encode(codec)).candidates.full_name(0) == "山田太郎"


def test_all_columns_are_read() -> None:
    names = read_names(
        "名,姓,is_member,role,n_mentions,sex,control_kind,memo\n"
        "A,B,はい,staff,3,F,,x\nC,D,NO,patient,0,,reference,\nE,F,,,,,,\n".encode()
    )
    listed = names.candidates
    assert listed.is_member == (True, False, None)
    assert listed.role == ("staff", "patient", "")
    assert listed.n_mentions == (3, 0, None)
    assert listed.sex == ("F", "", "")
    assert listed.control_kind == ("", "reference", "")
    assert names.candidates.row == (2, 3, 4)
    assert [(note.row, note.what) for note in names.notes] == [
        (1, "These columns are not read: 8.")
    ]


@pytest.mark.parametrize(
    ("cell", "truth"),
    [
        *((word, True) for word in ("1", "1.0", "TRUE", "yes", "はい", "１")),
        *((word, False) for word in ("0", "0.0", "False", "NO", "いいえ")),
        *((word, None) for word in ("", " ")),
    ],
)
def test_truth_is_read(cell: str, truth: bool | None) -> None:
    names = read_names(f"name,label\nAnn Lee,{cell}\n".encode())
    assert names.candidates.is_member == (truth,)
    assert names.candidates.control_kind == ("given" if truth is False else "",)


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("member", "2"),
        ("member", "maybe"),
        ("member", "NA"),
        ("n_mentions", "-1"),
        ("n_mentions", "1.5"),
        ("n_mentions", "9" * 5000),
        ("control_kind", "easy"),
        ("is_member,control_kind", "1,easy"),
        ("is_member,control_kind", "0,soft"),
        ("role", "r" * 201),
        ("is_member", '"1\n"x'),
    ],
)
def test_values_that_cannot_be_understood_are_refused_by_row(header: str, cells: str) -> None:
    empty = "," * header.count(",")
    data = f"name,{header}\nAnn Lee,{empty}\nZaphodina Quux,{cells}\n".encode()
    with pytest.raises(AuditError) as caught:
        read_names(data, what="list.csv")
    assert str(caught.value).startswith("list.csv, row 3: ")
    assert "Zaphodina" not in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "text",
    [
        "first_name,role\nAnn,x\n",
        "Ann,Lee\nBo,Hill\n",
        "name\n",
        "first_name,last_name\n,\n",
        "name,名前\nAnn,Lee\n",
        "name,sex,gender\nAnn Lee,F,F\n",
        "name\n" + "x" * 201 + "\n",
    ],
)
def test_files_without_usable_names_are_refused(text: str) -> None:
    with pytest.raises(AuditError) as caught:
        read_names(text.encode())
    assert "Lee" not in str(caught.value)


def test_duplicates_are_left_out_and_noted() -> None:
    names = read_names("name,m\n山田太郎,\nAnn Lee,\nANN　Ｌee,\n山田 太郎,\n".encode())
    assert names.candidates.row == (2, 3)
    whats = {note.row: note.what for note in names.notes if "left out" in note.what}
    assert whats == {
        4: "The name is that of row 3; left out.",
        5: "The name is that of row 2; left out.",
    }


@pytest.mark.parametrize("truths", [("1", "0"), ("1", ""), ("", "0")])
def test_the_same_name_with_different_truth_is_refused(truths: tuple[str, str]) -> None:
    data = f"name,is_member\nAnn Lee,{truths[0]}\nBo Hill,1\nANN LEE,{truths[1]}\n"
    with pytest.raises(AuditError, match="Rows 2 and 4 hold the same name"):
        read_names(data.encode())


NAMES = st.lists(
    st.tuples(st.text(alphabet="abç山 ", max_size=4), st.text(alphabet="ABÇ山 ", max_size=4)),
    max_size=8,
)


@given(NAMES)
@settings(max_examples=80, deadline=None)
def test_every_row_is_read_or_noted(pairs: list[tuple[str, str]]) -> None:
    text = "first,last\n" + "".join(f"{first},{last}\n" for first, last in pairs)
    try:
        names = read_names(text.encode())
    except AuditError:
        assert all(not (first + last).strip() for first, last in pairs)
        return
    left_out = {note.row for note in names.notes if "left out" in note.what}
    assert left_out.isdisjoint(names.candidates.row)
    assert left_out | set(names.candidates.row) == set(range(2, len(pairs) + 2))
    for number, first in zip(names.candidates.row, names.candidates.first, strict=True):
        assert first == pairs[number - 2][0].strip()
