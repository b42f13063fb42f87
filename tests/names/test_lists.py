"""Lists of names: as people have them in files, as a value, put together, kept."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit import demo
from audit.errors import AuditError
from audit.home import HOME_VARIABLE, results_dir
from audit.names.candidates import (
    CONTROL_SOURCES,
    Candidates,
    control_kind_against,
    guessed_kinds,
    make_candidates,
    member_parts,
)
from audit.names.facts import name_facts, spelling
from audit.names.files import encode_names_csv, make_names_template, read_names
from audit.names.lists import (
    MATCH,
    READ,
    all_names,
    keep_names,
    keep_passages,
    list_passages,
    load_names,
    load_passages,
    make_draft,
)
from audit.notes.passages import read_passages
from audit.progress import Progress
from cache.store import Store
from tests.models.make_models import make_bert

MEMBERS = make_candidates(
    [("Thomas", "Young"), ("Mary", "James"), ("太郎", "山田")], is_member=True
)
HOSTILE = [
    ("=cmd()", "+1"),
    ("<img src=x>", "![x](http://evil.example)"),
    ("NA", "None"),
    ("太郎", "見本"),
    ("", "Single"),
    ('Jo"e', "O'Neil, 2"),
    ("-", "@x"),
    ("\u2019Abd", "＝x"),
]


def pairs(names: Candidates) -> list[tuple[str, str]]:
    return list(zip(names.first, names.last, strict=True))


# As a value


def test_names_are_written_in_the_order_of_their_script() -> None:
    names = MEMBERS + make_candidates([("", "Cher")])
    assert names.parts(0) == (("first", "Thomas"), ("last", "Young"))
    assert names.parts(2) == (("last", "山田"), ("first", "太郎"))
    assert list(map(names.full_name, (0, 2, 3))) == ["Thomas Young", "山田太郎", "Cher"]
    for row in range(4):
        joined = names.separator(row).join(text for _, text in names.parts(row))
        assert joined == names.full_name(row)
    control = make_candidates(
        [("Ann", "Lee")], is_member=False, control_kind="easy", n_mentions=[0]
    )
    both = MEMBERS + control
    assert (len(both), both.has_truth, MEMBERS.has_truth) == (4, True, False)
    assert both.rows([3]) == control
    assert pairs(both.rows([2, 0])) == [("太郎", "山田"), ("Thomas", "Young")]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("is_member", (True, True, np.True_)),
        ("is_member", (True, True, False)),
        ("control_kind", ("", "", "easy")),
        ("control_kind", ("", "", "unheard")),
        ("n_mentions", (1, 2, -1)),
        ("last", ("Young", "James", "")),
        ("first", ("Ann", "Bo")),
    ],
)
def test_columns_that_do_not_fit_are_refused(column: str, value: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=r"row 2|argument"):
        replace(MEMBERS, **{"first": ("Ann", "Bo", "")} | {column: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "last", "kind"),
    [
        ("Ann", "Lee", "easy"),
        ("MARY", "Lee", "hard"),
        ("Ann", "Ｙoung", "hard"),
        ("Young", "Lee", "hard"),
        ("James", "Thomas", "recombined"),
        ("", "山田", "hard"),
        ("Mary", "Young", "recombined"),
        ("", "Lee", "easy"),
        ("Quux", "Lee", "easy"),
    ],
)
def test_kinds_compare_with_patients_across_roles_and_case(
    first: str, last: str, kind: str
) -> None:
    strangers = make_candidates([("Ann", "Lee")], is_member=False, control_kind="easy")
    planted = replace(make_candidates([("Quux", "Lee")], is_member=True), role=("canary",))
    parts = member_parts(MEMBERS + strangers + make_candidates([("Bo", "Hill")]) + planted)
    assert parts == {"thomas", "young", "mary", "james", "太郎", "山田"}
    assert control_kind_against(parts, first=first, last=last) == kind


# From files


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("first_name,last_name\nMary Ann,Smith\n", ("Mary Ann", "Smith")),
        ("Last Name;First Name\nSmith; Mary Ann \n", ("Mary Ann", "Smith")),
        ("surname\tgiven_name\nSmith\tMary Ann\n", ("Mary Ann", "Smith")),
        ('full_name\n"Smith, Mary Ann"\n', ("Mary", "Smith")),
        ("姓,名\n山田,太郎\n", ("太郎", "山田")),
        ("患者名\n山田　太郎\n", ("太郎", "山田")),
        ("first_name,last_name\n=Cmd(),<Img src=x>\n", ("=Cmd()", "<Img src=x>")),
    ],
)
def test_names_are_read_under_any_heading_and_as_they_are(text: str, name: tuple[str, str]) -> None:
    codecs = {"utf-8": "UTF-8", "utf-8-sig": "UTF-8 with BOM", "cp932": "CP932"}
    for codec in codecs if not text.isascii() else ("utf-8", "utf-8-sig"):
        names_file = read_names(text.encode(codec))
        assert (pairs(names_file.candidates), names_file.encoding) == ([name], codecs[codec])


def test_all_columns_are_read_and_what_is_odd_is_noted_by_row() -> None:
    data = (
        "名,姓,is_member,role,n_mentions,sex,control_kind,memo\n"
        "A,B,はい,staff,3,F,,x\n\nC,D,NO,patient,0,,reference,\n, ,,,,,,\nE,F,,,,,,\n"
        "Ａ,b,1,,,,,\nA\u200b,G,１,,1.0,,,\nX\ufffd,H,FALSE,,,,,\n,山田太郎,0.0,,,,,\nA,D,0,,,,,\n"
    )
    names_file = read_names(data.encode())
    listed = names_file.candidates
    assert vars(listed) == {
        "first": ("A", "C", "E", "A\u200b", "X\ufffd", "", "A"),
        "last": ("B", "D", "F", "G", "H", "山田太郎", "D"),
        "is_member": (True, False, None, True, False, False, False),
        "control_kind": ("", "reference", "", "", "easy", "easy", "hard"),
        "role": ("staff", "patient", "", "", "", "", ""),
        "sex": ("F", "", "", "", "", "", ""),
        "n_mentions": (3, 0, None, 1, None, None, None),
        "row": (2, 4, 6, 8, 9, 10, 11),
        "is_kind_guessed": (False, False, False, False, True, True, True),
        "is_recased": (False,) * 7,
        "control_source": ("",) * 7,
        "n_others_first": (None,) * 7,
        "n_others_last": (None,) * 7,
    }
    template = read_names(make_names_template().encode())
    assert template.notes == () and pairs(template.candidates)[2] == ("太郎", "見本")
    assert guessed_kinds(listed) == {"n": 3, "easy": 2, "hard": 1, "recombined": 0}
    assert [(note.row, str(note.what)) for note in names_file.notes] == [
        (1, "These columns are not read: 8."),
        (5, "The row has no name and was left out."),
        (7, "The name is that of row 2; left out."),
        (8, "The name holds control, invisible or private characters."),
        (9, "The name holds a sign for a letter that was lost."),
        (10, "The name has one part only or could not be split."),
    ]


@pytest.mark.parametrize(
    ("header", "cells", "why"),
    [
        *(("member", cell, "is_member cannot be understood") for cell in ("2", "NA")),
        *(("n_mentions", cell, "n_mentions cannot") for cell in ("-1", "1.5", "9" * 99)),
        ("file_row", "0", "file_row cannot be understood. Write 2, 3, 4"),
        ("control_kind", "easy", "has a control_kind but is no control"),
        ("is_member,control_kind", "1,easy", "has a control_kind but is no control"),
        ("is_member,control_kind", "0,soft", "control_kind cannot be understood. Write given"),
        ("role", "canary", "The row does not fit a canary"),
        ("role,is_member", "canary,1", "The row does not fit a canary. A planted"),
        ("role,is_member,control_kind", "canary,0,easy", "The row does not fit a canary"),
        ("role,is_member,n_mentions", "canary,1,0", "The row does not fit a canary"),
        ("role", "r" * 201, "A cell or a name is longer than 200"),
    ],
)
def test_values_that_cannot_be_understood_are_refused_by_row(
    header: str, cells: str, why: str
) -> None:
    empty = "," * header.count(",")
    data = f"name,{header}\nAnn Lee,{empty}\nZaphodina Quux,{cells}\n".encode()
    with pytest.raises(AuditError, match=why) as caught:
        read_names(data, subject="list.csv")
    assert str(caught.value).startswith("list.csv, row 3: ")
    assert "Zaphodina" not in str(caught.value) and len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("first_name,role\nAnn,x\n", "No column holds names.*The first row must name the columns"),
        ("first_name,last_name\n,\n", "The file holds no names"),
        ("name,名前\nAnn,Lee\n", "Columns 1 and 2 hold the same part of the name"),
        ("name,sex,gender\nAnn Lee,F,F\n", "Columns 2 and 3 both mean sex"),
        ("name\n" + "x" * 201 + "\n", "A cell or a name is longer than 200"),
        ("name,m,member\nAnn Lee,,1\nB H,,1\nANN LEE,,0\n", "Rows 2 and 4 hold the same name"),
    ],
)
def test_files_without_usable_names_are_refused(text: str, why: str) -> None:
    with pytest.raises(AuditError, match=why) as caught:
        read_names(text.encode())
    assert "Lee" not in str(caught.value) and "LEE" not in str(caught.value)


part = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12).map(str.strip)


@settings(max_examples=60)
@given(st.lists(st.tuples(part, part), max_size=6))
def test_every_row_is_read_or_noted_and_survives_the_file(names: list[tuple[str, str]]) -> None:
    named = [name for name in names if any(name)]
    if not named:
        return
    once = read_names(encode_names_csv(make_candidates(named, is_member=True)))
    left_out = {note.row for note in once.notes if "left out" in note.what}
    assert sorted({*left_out, *map(int, once.candidates.row)}) == [*range(2, len(named) + 2)]  # type: ignore[arg-type]
    again = read_names(encode_names_csv(once.candidates)).candidates
    assert pairs(again) == pairs(once.candidates)


def test_a_list_that_is_handed_out_and_read_again_is_the_same_question() -> None:
    names = (
        make_candidates(HOSTILE, is_member=True, n_mentions=[0, 1, 2, 3, None, 5, 6, 7])
        + make_candidates([("Hans", "Easy")], is_member=False, control_kind="easy")
        + make_candidates([("Una", "Known")])
    )
    data = encode_names_csv(names)
    assert read_names(data).candidates.digest() == names.digest()
    for line in data.decode("utf-8-sig").splitlines()[1:]:
        assert not any(cell.strip('"').startswith(tuple("=+-@＝")) for cell in line.split(","))
    own_list = replace(
        names, row=(*range(30, 38), None, 2), is_kind_guessed=(False,) * 8 + (True, False)
    )
    again = read_names(encode_names_csv(own_list)).candidates
    assert again.digest() == own_list.digest() != names.digest()
    assert (again.row, again.is_kind_guessed) == (own_list.row, own_list.is_kind_guessed)


# Put together

CSV = b"first_name,last_name,is_member\nAnna,Smith,1\nBert,Jones,0\nAnna,Smith,1\n"


def test_a_file_and_controls_come_in_this_order() -> None:
    assert make_draft(None, base=None, n_by_kind={}, model=None) is None
    draft = make_draft(CSV, base=None, n_by_kind={"easy": 3, "hard": 2}, model=None)
    assert draft is not None
    assert (draft.n_given, draft.line.n, draft.encoding) == (2, 7, "UTF-8")
    assert draft.candidates.first[:2] == ("Anna", "Bert")
    assert draft.candidates.control_kind[1:] == ("easy",) * 4 + ("hard",) * 2
    assert draft.candidates.row == (2, 3, *(None,) * 5)
    assert [note.row for note in draft.notes] == [4]
    again = read_names(encode_names_csv(draft.candidates)).candidates
    assert again.digest() == draft.candidates.digest()
    based = make_draft(None, base=draft.candidates, n_by_kind={}, model=None)
    assert based is not None and based.candidates.digest() == draft.candidates.digest()
    assert (based.n_given, based.line.n, based.encoding) == (7, 7, "")


OWN = b"first_name,last_name\nCarl,Own\nDora,Own\nanna,SMITH\nDora,Own\n"


def test_own_controls_stand_behind_the_list_and_say_where_they_come_from(tmp_path: Path) -> None:
    draft = make_draft(CSV, base=None, n_by_kind={"easy": 1}, model=None, own_controls=OWN)
    assert draft is not None
    assert (draft.n_given, draft.n_own, draft.line.n) == (2, 2, 5)  # Anna Smith is listed already
    names = draft.candidates
    assert names.control_kind == ("", "easy", "own", "own", "easy")
    assert names.is_person == (False, True, True, True, False)  # one's kind was worked out
    assert [note.row for note in draft.own_notes] == [5]
    with Store(tmp_path) as store:
        code = keep_names(names, label="", store=store)
        assert load_names(code[:12], store=store).line.source == "own"
        assert [line.source for line in all_names(store)] == ["own", "invented", "invented"]


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (b"name\nAnna Smith\n", "Everybody in the file is on the list already"),
        (b"name,is_member\nCarl Own,1\n", "1 rows say that the person is in the notes"),
    ],
)
def test_people_who_cannot_be_own_controls_are_refused(own: bytes, why: str) -> None:
    with pytest.raises(AuditError, match=f"own controls: {why}"):
        make_draft(CSV, base=None, n_by_kind={}, model=None, own_controls=own)


def test_people_of_the_hospital_are_a_source_only_where_some_are_listed() -> None:
    names = make_candidates([("Ann", "Lee")], is_member=False, control_kind="easy")
    assert MEMBERS.possible_sources == names.possible_sources == ("invented", "drawn")
    guessed = replace(names, is_kind_guessed=(True,))
    assert guessed.possible_sources == CONTROL_SOURCES


def test_kinds_that_the_list_says_are_kept_and_canaries_known_by_role_or_kind() -> None:
    file_text = (
        "first_name,last_name,is_member,control_kind,role,n_mentions\n"
        "Anna,Smith,1,,,\nBert,Zorn,0,hard,,\nUdo,Roth,0,given,,\nIda,Berg,0,easy,,\n"
        "Eva,Smith,0,,,\nNevah,Was,1,,Canary,2\nNeither,Is,0,,canary,\nLee,Was,0,canary,,\n"
        "Jo,Was,0,,,\n"
    )
    candidates = read_names(file_text.encode()).candidates
    kinds = ("", "hard", "given", "easy", "hard", "", "canary", "canary", "easy")
    assert candidates.control_kind == kinds
    assert [candidates.is_canary(row) for row in range(9)] == [False] * 5 + [True] * 3 + [False]
    assert (candidates.role[5:8], candidates.n_mentions[5]) == (("canary",) * 3, 2)
    assert candidates.without_canaries().first == ("Anna", "Bert", "Udo", "Ida", "Eva", "Jo")
    assert member_parts(candidates) == {"anna", "smith"}


def test_facts_and_spelling_by_hand(tmp_path: Path) -> None:
    planted = replace(make_candidates([("Q", "R")], is_member=True), role=("canary",))
    counted = name_facts(
        MEMBERS + planted + make_candidates([("A", "B")], is_member=False, control_kind="easy")
    )
    assert (counted.n_members, counted.n_unknown) == (3, 0)
    assert counted.by_kind == {"easy": 1, "planted": 1}
    facts = name_facts(
        make_candidates([("Mary", "Smith"), ("太郎", "見本"), ("Анна", "И"), ("", "Solo")])
    )
    assert facts.n_unknown == 4
    assert facts.scripts == {"latin": 2, "han_kana": 1, "other": 1}
    assert (facts.n_one_part, facts.n_with_mentions) == (1, 0)
    expected = [log for log in facts.log_popularity if not math.isnan(log)]
    assert len(expected) == sum(facts.popularity.n_tested) == 4 - facts.popularity.n_missing
    model = make_bert(tmp_path / "model", words=("mary", "smith", "jo", "##hn"))
    names = make_candidates([("Mary", "Smith"), ("John", "Smith"), ("Xqx", "Smith")])
    spelt = spelling(names, model=model)
    assert spelt.n_pieces == (2, 3, 0)
    assert (spelt.by_pieces.starts, spelt.by_pieces.n_tested) == ((2.0, 3.0), (1, 1))
    assert spelt.by_pieces.n_missing == 1
    draft = make_draft(CSV, base=None, n_by_kind={"easy": 2}, model=model)
    assert draft is not None and {*draft.candidates.first[2:]} <= {"Mary", "John"}


# Kept


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "data"))
    return Store(results_dir())


def test_a_kept_list_comes_back_and_is_named_by_a_salted_digest(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = make_candidates(HOSTILE, is_member=True, n_mentions=[1] * 7 + [None])
    names = members + make_candidates([("Bert", "Yard")], is_member=False, control_kind="easy")
    names += replace(make_candidates([("Q", "R")], is_member=True), role=("canary",))
    digest = keep_names(names, label="  Ward 3 ", store=store)
    loaded = load_names(digest[:12], store=store)
    assert loaded.candidates.digest() == names.digest() != digest
    assert (loaded.line.code, loaded.line.label, loaded.line.n) == (digest[:12], "Ward 3", 10)
    record = str(store.get_record(f"list-line/{digest}"))
    assert not any(part in record for part in ("Bert", "Yard", "Single"))
    # Kept again without a title it keeps the one it has; the newest comes first.
    other_code = keep_names(MEMBERS, label="Other", store=store)
    old = store.get_record(f"list-line/{other_code}")
    store.put_record(f"list-line/{other_code}", old | {"at": "2001-01-01T00:00:00"})
    assert keep_names(names, label=" ", store=store) == digest
    lines = [(line.code, line.label) for line in all_names(store)]
    demos = [("demo-en", ""), ("demo-ja", "")]
    assert lines == [(digest[:12], "Ward 3"), (other_code[:12], "Other"), *demos]
    store.put_record(f"list-line/{digest}", {"of": "another version"})
    assert [line.code for line in all_names(store)] == [other_code[:12], "demo-en", "demo-ja"]
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "other"))
    with Store(results_dir()) as elsewhere:
        again = keep_names(names, label="", store=elsewhere)
    assert again != digest


def test_a_link_that_fits_nothing_an_empty_list_and_one_that_is_too_long_are_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code in ("", "0" * 12, "../etc", "demo-fr"):
        with pytest.raises(AuditError, match="This list of names is not kept here"):
            load_names(code, store=store)
        with pytest.raises(AuditError, match="These passages are not kept here"):
            load_passages(code, store=store)
    monkeypatch.setattr("audit.names.lists.MAX_NAMES", 1)
    for names in ([], [("A", "B"), ("C", "D")]):
        with pytest.raises(AuditError, match="A list has 1 to 1 names"):
            keep_names(make_candidates(names), label="", store=store)


PASSAGES = (
    b'{"text": "[NAME] was seen.", "passage_id": "a", "name_id": 0}\n'
    b'{"text": "no place for it", "passage_id": "b"}\n'
    b'{"text": "Seen: [LAST], [FIRST] today", "passage_id": "c"}\n'
)


def test_kept_passages_are_the_file_itself(store: Store) -> None:
    digest = keep_passages(PASSAGES, file_name="Jane Doe.jsonl", label="", store=store)
    loaded = load_passages(digest[:12], store=store)
    original = read_passages(PASSAGES, file_name="passages.jsonl")
    assert (loaded.data, loaded.file_name) == (PASSAGES, "passages.jsonl")
    assert loaded.passages.digest() == original.digest()
    line, *demos = list_passages(store)
    assert line.n == 2
    assert [one.code for one in demos] == ["demo-en", "demo-ja"]
    for data, name, kept_as in (
        (b"text\n[NAME] came\n", "x", "csv"),
        (b'\xef\xbb\xbf {"text": "[NAME] came"}\n', "x.csv", "jsonl"),
    ):
        kept = load_passages(
            keep_passages(data, file_name=name, label="", store=store), store=store
        )
        assert kept.file_name == f"passages.{kept_as}"
        assert kept.passages.digest() == read_passages(data, file_name=kept.file_name).digest()


def test_the_demo_lists_ask_the_demo_question(store: Store) -> None:
    request = demo.DemoTask().request(2, language="ja")  # English: the page Run's tests
    assert load_names("demo-ja", store=store).candidates.digest() == request.candidates.digest()
    assert load_passages("demo-ja", store=store).passages == request.passages


def test_a_long_list_is_told_while_it_is_read_and_matched() -> None:
    rows = [f"First{n},Last{n},1" for n in range(5_000)]
    data = "\n".join(["first_name,last_name,is_member", *rows]).encode()
    reports: list[Progress] = []
    draft = make_draft(
        data, base=None, n_by_kind={"easy": 300}, model=None, progress=reports.append
    )
    assert draft is not None and (draft.n_given, draft.line.n) == (5_000, 5_300)
    assert list(dict.fromkeys(report.phase for report in reports)) == [READ, MATCH]
    shares = [report.share for report in reports]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1
