"""Names as text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.text import (
    HEADINGS,
    NameColumns,
    find_name_columns,
    fold_letters,
    fold_name,
    heading_key,
    is_unspaced,
    split_name,
    written_name,
)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("Mary Ann Smith", "Mary Ann", "Smith"),
        ("Smith, Mary Ann", "Mary Ann", "Smith"),
        ("山田 太郎", "太郎", "山田"),
        ("山田、太郎", "太郎", "山田"),
        ("山田太郎", "", "山田太郎"),
        (" Cher ", "", "Cher"),
        ("Cher,", "", "Cher"),
        ("Dr. Mary Ann van Gogh Jr.", "Mary Ann", "van Gogh"),
    ],
)
def test_names_are_split(text, first, last):
    assert split_name(text) == (first, last)


@given(st.text(alphabet="ab山タ, 　", max_size=12))
@settings(max_examples=100, deadline=None)
def test_a_split_loses_no_letter(text):
    first, last = split_name(text)
    assert sorted((first + last).replace(",", "").replace("　", "").replace(" ", "")) == sorted(
        text.replace(",", "").replace("　", "").replace(" ", "")
    )
    assert last or not text.replace(",", "").strip()


def test_names_are_compared_without_case_width_and_spacing():
    assert fold_name(" ＳＭＩＴＨ  Jones ") == fold_name("smith　jones") == "smith jones"
    assert fold_name("Jose\u0301") == fold_name("JOSÉ")
    assert fold_name("ﾔﾏﾀﾞ") == fold_name("ヤマダ")
    assert fold_name("Smith") != fold_name("Smyth")
    assert fold_name("José") != fold_name("Jose") and fold_letters("José") == "jose"


@pytest.mark.parametrize(
    "forms",
    [
        (
            "O'Brien",
            "O’Brien",
            "O‘Brien",
            "OʼBrien",
            "O`Brien",
            "O´Brien",
            "O′Brien",
            "Ｏ＇ＢＲＩＥＮ",
        ),
        (
            "Smith-Jones",
            "Smith‐Jones",
            "Smith\u2011Jones",
            "Smith–Jones",
            "Smith−Jones",
            "Ｓmith－Jones",
        ),
        ("Smith", "Smi\u00adth", "Smith\u200b", "\ufeffSmith", "S\u2060mith"),
        ("José", "Jose\u0301", "JOSÉ"),
        ("斎藤", "齋藤", "齊藤", "斎\U000e0100藤"),
        ("高橋", "髙橋"),
        ("渡辺", "渡邊", "渡邉"),
        ("山崎", "山﨑"),
        ("浜田", "濱田"),
        ("吉田", "𠮷田"),
        ("ガブリエル", "カ\u3099フ\u3099リエル", "ｶﾞﾌﾞﾘｴﾙ"),
    ],
)
def test_one_name_has_one_form_however_it_is_written(forms):
    assert len({fold_name(form) for form in forms}) == 1


def test_surnames_that_are_two_are_not_one():
    names = ("斎藤", "斉藤", "渡部", "渡辺", "島田", "嶋川", "O'Brien", "OBrien", "Smith Jones")
    assert len({fold_name(name) for name in names}) == len(names)


def test_names_are_written_in_the_order_of_their_script():
    assert all(map(is_unspaced, "あ𠮷ﾀ")) and not any(map(is_unspaced, "Ｙé😀김"))
    assert written_name("Mary", "Smith") == "Mary Smith"
    assert written_name("太郎", "山田") == "山田太郎"
    assert written_name("", "Cher") == "Cher"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("First Name,LAST_NAME", NameColumns(0, 1, None)),
        ("last,given name,name", NameColumns(1, 0, None)),
        ("姓,名", NameColumns(1, 0, None)),
        ("氏,名前", NameColumns(1, 0, None)),
        ("名前,is_member", NameColumns(None, None, 0)),
        ("id,患者名", NameColumns(None, None, 1)),
        ("ｎａｍｅ", NameColumns(None, None, 0)),
        ("first_name,role", NameColumns(None, None, None)),
        ("PAT_NAME,PAT_ID", NameColumns(None, None, 0)),
        ("PatientName", NameColumns(None, None, 0)),
        ("LAST_NM,FIRST_NM", NameColumns(1, 0, None)),
        ("First.Name,Last.Name", NameColumns(0, 1, None)),
        ("Vorname,Nachname", NameColumns(0, 1, None)),
        ("Name,Vorname", NameColumns(1, 0, None)),
        ("nom,pre\u0301nom", NameColumns(1, 0, None)),
        ("PRENOM,NOM", NameColumns(0, 1, None)),
        ("nombre,apellidos", NameColumns(0, 1, None)),
        ("nombre", NameColumns(None, None, 0)),
        ("nom", NameColumns(None, None, None)),
        ("患者姓名", NameColumns(None, None, 0)),
    ],
)
def test_name_columns_are_found(header, expected):
    found = find_name_columns(header.split(","))
    assert found == expected
    assert found.is_empty == (expected == NameColumns(None, None, None))


def test_headings_are_written_as_they_are_looked_up_and_each_part_has_its_own():
    assert all(heading_key(word) == word for words in HEADINGS.values() for word in words)
    parts = [word for part in ("first", "last", "full", "full_or_first") for word in HEADINGS[part]]
    assert len(set(parts)) == len(parts)


def test_two_columns_for_one_part_are_refused():
    with pytest.raises(ValueError, match="Columns 2 and 3"):
        find_name_columns(["nombre", "apellido paterno", "apellido materno"])
    with pytest.raises(ValueError, match="Columns 1 and 3"):
        find_name_columns(["surname", "first", "姓"])
