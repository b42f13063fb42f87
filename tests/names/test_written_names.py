"""Written names through `read_names`: titles, suffixes, particles, middle names, letter case."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.errors import AuditError
from audit.models.registry import load_tokenizer
from audit.names.candidates import Candidates, make_candidates, member_parts
from audit.names.controls import matched_controls, recombined_controls, reference_controls
from audit.names.files import NamesFile, encode_names_csv, read_names
from audit.names.letter_case import report_letter_case
from audit.names.pools import NamePool, japanese_pool, us_pool
from audit.names.spelling import RUNNING_TEXT, part_pieces, refuse_opposite_twins
from tests.models.make_models import make_bert

WRITTEN = [
    ("Dr. Jane M. Doe Jr.", "Jane", "Doe"),
    ("Martin Luther King, Jr.", "Martin", "King"),
    ("King, Martin Luther, Jr.", "Martin", "King"),
    ("John Smith, M.D.", "John", "Smith"),
    ("Prof. Dr. med. Hans Meier", "Hans", "Meier"),
    ("佐藤 真綾 様", "真綾", "佐藤"),
    ("佐藤 真綾様", "真綾", "佐藤"),
    ("佐藤真綾様", "", "佐藤真綾"),
    ("DOE^JANE^M", "JANE", "DOE"),
    ("DOE^JANE^M^JR^DR^MD", "JANE", "DOE"),
    ("SMITH JR,JOHN", "JOHN", "SMITH"),
    ("Gabriel García Márquez", "Gabriel", "García Márquez"),
    ("Vincent van Gogh", "Vincent", "van Gogh"),
    ("Ludwig van Beethoven", "Ludwig", "van Beethoven"),
    ("Charles de Gaulle", "Charles", "de Gaulle"),
    ("Mary Anne Smith", "Mary", "Smith"),
    ("Doe, Jane M.", "Jane", "Doe"),
    ("Yo-Yo Ma", "Yo-Yo", "Ma"),
    ("Anh Do", "Anh", "Do"),
    ("Prince Rogers Nelson", "Prince", "Nelson"),
    ("Dean Martin", "Dean", "Martin"),
    ("Will Smith", "Will", "Smith"),
    ("Ma, Yo-Yo", "Yo-Yo", "Ma"),
    ("Do, Anh", "Anh", "Do"),
    ("John Smith, DO", "John", "Smith"),
    ("John Smith DO", "John", "Smith"),
    ("John Smith, MD, PhD", "John", "Smith"),
    ("John Smith, Ph. D.", "John", "Smith"),
    ("John Smith Ph. D.", "John", "Smith"),
    ("John Smith III", "John", "Smith"),
    ("Smith, John, III", "John", "Smith"),
    ("Mr. John Smith", "John", "Smith"),
    ("MR JOHN SMITH", "JOHN", "SMITH"),
    ("mr john smith", "john", "smith"),
    ("Mrs. Smith", "", "Smith"),
    ("Mme Dupont", "", "Dupont"),
    ("M. Dupont", "", "Dupont"),
    ("M. Jean Dupont", "Jean", "Dupont"),
    ("Mme Marie-Claire Le Pen", "Marie-Claire", "Le Pen"),
    ("Frau Dr. Angela Merkel", "Angela", "Merkel"),
    ("Herr Müller", "", "Müller"),
    ("Herrn Dipl.-Ing. Karl Schmidt", "Karl", "Schmidt"),
    ("Dr.med. Hans Meier", "Hans", "Meier"),
    ("Dr. med. dent. Anna Schmidt", "Anna", "Schmidt"),
    ("Karl Freiherr vom und zum Stein", "Karl", "vom und zum Stein"),
    ("Sr. Juan Pérez López", "Juan", "Pérez López"),
    ("Sra. María José García Ruiz", "María", "García Ruiz"),
    ("José Ortega y Gasset", "José", "Ortega y Gasset"),
    ("Santiago Ramón y Cajal", "Santiago", "Ramón y Cajal"),
    ("Mario Vargas Llosa", "Mario", "Vargas Llosa"),
    ("Federico García Lorca", "Federico", "García Lorca"),
    ("María del Carmen López García", "María", "López García"),
    ("Juan Carlos García", "Juan", "García"),
    ("John Fitzgerald Kennedy", "John", "Kennedy"),
    ("Linda Torres Johnson", "Linda", "Johnson"),
    ("Smith, Mr. John", "John", "Smith"),
    ("Smith, Dr. John A., MD", "John", "Smith"),
    ("Gogh, Vincent van", "Vincent", "van Gogh"),
    ("Beethoven, Ludwig van", "Ludwig", "van Beethoven"),
    ("van Gogh, Vincent", "Vincent", "van Gogh"),
    ("García Márquez, Gabriel", "Gabriel", "García Márquez"),
    ("J. Robert Oppenheimer", "Robert", "Oppenheimer"),
    ("J. K. Rowling", "J.", "Rowling"),
    ("Van Morrison", "Van", "Morrison"),
    ("Robert (Bob) Smith", "Robert", "Smith"),
    ('William "Bill" Clinton', "William", "Clinton"),
    ("Sir John Smith", "John", "Smith"),
    ("Rev. John Smith", "John", "Smith"),
    ("Judge Reinhold", "Judge", "Reinhold"),
    ("Judge Mary Smith", "Mary", "Smith"),
    ("Major Smith", "Major", "Smith"),
    ("Ms. Mary Smith RN", "Mary", "Smith"),
    ("John Smith MD/PhD", "John", "Smith"),
    ("Dr.", "", ""),
    ("様", "", ""),
    ("Jr.", "", ""),
    ("佐藤様", "", "佐藤"),
    ("佐藤 先生", "", "佐藤"),
    ("佐藤真綾さん", "", "佐藤真綾"),
    ("鈴木 花子ちゃん", "花子", "鈴木"),
    ("高橋 健君", "健", "高橋"),
    ("足利 尊氏", "尊氏", "足利"),
    ("John Smith様", "John", "Smith"),
    ("佐藤、真綾 様", "真綾", "佐藤"),
    ("Dr. 佐藤 真綾", "真綾", "佐藤"),
    ("佐藤 真綾 MD", "真綾", "佐藤"),
    ("故 佐藤 真綾 殿", "真綾", "佐藤"),
    ("St. John, Jill", "Jill", "St. John"),
    ("Jill St. John", "Jill", "St. John"),
    ("Oscar de la Hoya", "Oscar", "de la Hoya"),
    ("Ursula von der Leyen", "Ursula", "von der Leyen"),
    ("Leonardo da Vinci", "Leonardo", "da Vinci"),
    ("Smith, John Jr.", "John", "Smith"),
    ("Smith Jr., John", "John", "Smith"),
    ("Smith, Jr., John", "John", "Smith"),
    ("Alexandre Dumas fils", "Alexandre", "Dumas"),
    ("Dr. Phil McGraw", "Phil", "McGraw"),
    ("JOHN SMITH MD", "JOHN", "SMITH"),
    ("Thi Anh Do", "Thi", "Do"),
    ("Madonna", "", "Madonna"),
    ("Cher,", "", "Cher"),
    ("山田太郎", "", "山田太郎"),
    ("Nguyen, Ba", "Ba", "Nguyen"),
    ("Naosuke Ii", "Naosuke", "Ii"),
    ("Amartya Kumar Sen", "Amartya", "Sen"),
    ("John Smith V", "John", "Smith"),
    ("Malcolm X", "Malcolm", "X"),
    ("Dr Mr John Smith", "John", "Smith"),
    ("Don Juan Pérez López", "Don", "Pérez López"),
    ("Doña María López Ruiz", "María", "López Ruiz"),
    ("Jane Doe M.", "Jane", "Doe"),
    ("John O'Brien, Esq.", "John", "O'Brien"),
    ("Rosa María Cruz Hernández", "Rosa", "Cruz Hernández"),
    ("Smith, Do", "Do", "Smith"),
    ("Pablo Ruiz Picasso", "Pablo", "Ruiz Picasso"),
    ("D'Angelo Russell", "D'Angelo", "Russell"),
]
"""A name in one column, and the first and last name that are read; both "" for no name."""
IN_TWO_CELLS = [
    ("Dr. Jane M.", "Doe Jr.", "Jane", "Doe"),
    ("JANE M", "O'NEIL JR", "Jane", "O'Neil"),
    ("真綾", "様", "真綾", ""),
    ("真綾様", "佐藤", "真綾", "佐藤"),
    ("一郎", "鵜殿", "一郎", "鵜殿"),
    ("Mr. Xavier", "Young", "Xavier", "Young"),
    ("Mr.", "Smith", "", "Smith"),
    ("Michael", "Herr", "Michael", "Herr"),
    ("Prince", "Rogers", "Prince", "Rogers"),
    ("Rev", "Major", "Rev", "Major"),
    ("Yo-Yo", "Ma", "Yo-Yo", "Ma"),
    ("Anh", "Do", "Anh", "Do"),
    ("Jane", "Smith, MD", "Jane", "Smith"),
    ("Jane", "Smith MD", "Jane", "Smith"),
    ("Jane", "Smith DO", "Jane", "Smith"),
    ("Mary Ann", "Smith", "Mary Ann", "Smith"),
    ("Dr. Jane M. Doe", "Jr.", "Jane", "Doe"),
    ("Dr.", "Jane Doe", "Jane", "Doe"),
    ("Jean", "de Gaulle", "Jean", "de Gaulle"),
    ("Dean", "Judge", "Dean", "Judge"),
    ("Gabriel", "García Márquez", "Gabriel", "García Márquez"),
]


def listed(*rows: tuple[object, ...], header: str = "name") -> NamesFile:
    text = io.StringIO()
    csv.writer(text).writerows([header.split(","), *rows])
    return read_names(text.getvalue().encode())


def pairs(candidates: Candidates) -> list[tuple[str, str]]:
    return list(zip(candidates.first, candidates.last, strict=True))


# Others beside the name, so that no list is in one case.
BESIDE = [("Zoë Quuxley",), ("Yan Blyth",)]


@pytest.mark.parametrize(("text", "first", "last"), WRITTEN)
def test_a_name_in_one_column(text: str, first: str, last: str) -> None:
    names = listed(*BESIDE, (text,), ("Ida Quist",))
    if first or last:
        assert pairs(names.candidates)[2] == (first, last)
    else:
        assert 4 not in names.candidates.row
        assert [str(n.what) for n in names.notes if n.row == 4] == [
            "The row holds a title, degree or honorific and no name; left out."
        ]


def test_the_table_is_as_long_as_it_should_be_and_what_is_dropped_is_noted() -> None:
    assert len(WRITTEN) >= 60 and len({text for text, *_ in WRITTEN}) == len(WRITTEN)
    names = listed(*((text,) for text, *_ in WRITTEN))
    noted = {note.row for note in names.notes}
    for row, (text, first, last) in enumerate(WRITTEN, start=2):
        words = text.replace(",", " ").replace("、", " ").split()
        assert row in noted or sorted(words) == sorted(f"{first} {last}".split()), text


@pytest.mark.parametrize(("first", "last", "read_first", "read_last"), IN_TWO_CELLS)
def test_a_name_in_two_columns(first: str, last: str, read_first: str, read_last: str) -> None:
    names = listed((first, last), header="first_name,last_name").candidates
    assert [part.lower() for part in pairs(names)[0]] == [read_first.lower(), read_last.lower()]


FORMS = (
    *("Mr. {f} {la}", "MRS {f} {la}", "Dr. {la}, {f} Q.", "{f} Q. {la}", "{f} {la}, MD"),
    *("{f} {la} Jr.", "{la}^{f}^Q^JR^DR", "{la}, {f}"),
)


@pytest.mark.parametrize("form", FORMS)
def test_every_name_of_the_generator_is_read_with_anything_beside_it(form: str) -> None:
    pool, rng = us_pool(), random.Random(0)
    names = [(first, rng.choice(pool.last)) for first in pool.first]
    names += [(rng.choice(pool.first), last) for last in pool.last]
    names = list(dict.fromkeys(names))
    plain = listed(*names, header="first_name,last_name").candidates
    assert pairs(plain) == names
    names_file = listed(*((form.format(f=first, la=last),) for first, last in names))
    assert names_file.candidates.digest() == plain.digest()


@pytest.mark.parametrize(
    "honorific", ["様", " 様", "さん", "　殿", " 先生", "君", "ちゃん", "氏", ""]
)
def test_every_japanese_name_of_the_generator_is_read_with_an_honorific(honorific: str) -> None:
    pool = japanese_pool()
    names = [(first, last) for first in pool.first for last in pool.last]
    assert pairs(listed(*names, header="first_name,last_name").candidates) == names
    names_file = listed(*((f"{last} {first}{honorific}",) for first, last in names))
    assert pairs(names_file.candidates) == names


def test_titles_in_every_row_and_in_two_cells_give_the_same_list() -> None:
    rows = [("Jane", "Doe", 1), ("John", "Smith", 0), ("Anna", "King", 1)]
    header = "first_name,last_name,is_member"
    plain = listed(*rows, header=header).candidates
    titled = listed(
        *((f"Mr. {first}", f"{last} Jr.", truth) for first, last, truth in rows), header=header
    )
    assert titled.candidates.digest() == plain.digest()
    assert [note.row for note in titled.notes] == [2, 3, 4]
    with pytest.raises(AuditError, match="Rows 2 and 3 hold the same name"):
        listed(("Mr. Jane Doe", 1), ("Doe, Jane Q., MD", 0), header="name,is_member")


# Letter case

NAMES = [
    ("Jane", "Doe"),
    ("Mary", "O'Brien"),
    ("Ian", "McDonald"),
    ("Vincent", "van Gogh"),
    ("Ann", "Smith-Jones"),
    ("José", "García"),
    ("Oscar", "de la Cruz"),
    ("Marine", "Le Pen"),
    ("Jill", "St. John"),
    ("Jean-Luc", "D'Angelo"),
    ("TJ", "Ng"),
    ("Ute", "Großmann"),
]


@pytest.mark.parametrize("turn", [str.upper, str.lower])
def test_a_list_in_one_case_is_read_as_names_are_written(turn: Callable[[str], str]) -> None:
    turned = [(turn(first), turn(last.replace("ß", "ss"))) for first, last in NAMES]
    names = listed(*turned, header="first_name,last_name")
    assert pairs(names.candidates) == [(f, la.replace("ß", "ss")) for f, la in NAMES]
    (note,) = report_letter_case(names.candidates)
    assert str(note).startswith("12 of 12 names were in capitals or in small letters only.")
    again = read_names(encode_names_csv(names.candidates)).candidates
    assert again.digest() == names.candidates.digest() and report_letter_case(again) == [note]


def test_members_in_capitals_beside_controls_as_they_are_written_are_rewritten() -> None:
    rows = [(first.upper(), last.upper(), 1) for first, last in NAMES[:4]]
    rows += [(f"{first}a", last, 0) for first, last in NAMES]
    names = listed(*rows, header="first_name,last_name,is_member").candidates
    assert pairs(names)[:4] == NAMES[:4] and sum(names.is_recased) == 4
    family = listed(*((f, la.upper()) for f, la in NAMES), header="first_name,last_name")
    assert pairs(family.candidates)[:3] == NAMES[:3]


def test_a_list_of_both_kinds_is_left_as_it_is_and_said() -> None:
    rows = [(f.upper(), la.upper()) if i % 5 < 3 else (f, la) for i, (f, la) in enumerate(NAMES)]
    names = listed(*rows, header="first_name,last_name").candidates
    assert not any(names.is_recased) and pairs(names)[:5] == rows[:5]
    (note,) = report_letter_case(names)
    assert "names are in capitals or in small letters only, and the others are not" in str(note)
    assert report_letter_case(listed(*NAMES, header="first_name,last_name").candidates) == []
    han = listed(("佐藤 真綾",), ("鈴木 花子",)).candidates
    assert report_letter_case(han) == [] and not any(han.is_recased)


# One name to the model

WORDS = ("danielle", "dan", "##ielle", "fox", "mary", "smith", "jose", "garcia")


def test_names_that_a_tokenizer_spells_alike_are_twins(tmp_path: Path) -> None:
    spell = load_tokenizer(make_bert(tmp_path / "model", words=WORDS))
    rows = [
        ("Danielle", "Fox", 1),
        ("José", "García", 1),
        ("Mary", "Smith", 0),
        ("Jose", "Garcia", 1),
        ("Unspellable", "Fox", 1),
        ("Unspelt", "Fox", 1),
    ]
    names = listed(*rows, header="first_name,last_name,is_member").candidates
    pieces = part_pieces(names, kind=RUNNING_TEXT, tokenizer=spell)
    assert pieces.twin_of.tolist() == [-1, -1, -1, 1, -1, -1]
    assert pieces.is_known.tolist() == [True, True, True, False, False, False]
    refuse_opposite_twins(names, tokenizer=spell)
    drawn = make_candidates([("Dáníéllé", "Fox")], is_member=False, control_kind="hard")
    refuse_opposite_twins(drawn + names, tokenizer=spell)  # no row of a file says the contrary
    pieces = part_pieces(drawn + names, kind=RUNNING_TEXT, tokenizer=spell)
    assert pieces.twin_of.tolist()[:2] == [1, -1]
    opposite = listed(*rows, ("Dáníéllé", "Fox", 0), header="first_name,last_name,is_member")
    with pytest.raises(AuditError, match="Rows 2 and 8 are the same name to this model") as caught:
        refuse_opposite_twins(opposite.candidates, tokenizer=spell)
    assert "fox" not in str(caught.value).lower()
    cased = load_tokenizer(make_bert(tmp_path / "cased", words=WORDS, lower_case=False))
    refuse_opposite_twins(opposite.candidates, tokenizer=cased)


def test_no_control_is_drawn_that_is_a_member_without_accents() -> None:
    pool = NamePool("en_US", ("Jose", "Mary"), ("Garcia", "Smith"), (0.5, 0.5), (0.5, 0.5))
    members = make_candidates([("José", "García")], is_member=True)
    assert member_parts(members) == {"jose", "garcia"}
    easy, hard = (
        pairs(matched_controls(members, kind=kind, n=9, seed=0, pool=pool))
        for kind in ("easy", "hard")
    )
    assert easy == [("Mary", "Smith")] and hard and ("Jose", "Garcia") not in hard
    references = reference_controls(
        pool, n_by_pieces={2: 9}, count_pieces=lambda *_: 1, exclude=[("José", "García")], seed=0
    )
    assert sorted(pairs(references)) == [("Jose", "Smith"), ("Mary", "Garcia"), ("Mary", "Smith")]
    full_list = members + make_candidates([("Mary", "Smith")], is_member=True)
    assert ("Jose", "Garcia") not in pairs(recombined_controls(full_list, n=9, seed=0))
