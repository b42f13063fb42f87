"""One note in both corpora: placeholders, a register, canaries; every value lies where it is said.

Also a look into a file before it is built.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from faker.providers.person.en_US import Provider
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.build import PatientTable, facts_of_note, with_surrogates
from audit.corpus.canaries import Planting, draw_absent_names, plan_canaries
from audit.corpus.identified import RegisterFinder, registered_people
from audit.corpus.preview import preview, survey_head
from audit.corpus.truth import NoteTruth
from audit.errors import AuditError
from audit.names.matching import pair_of
from audit.names.people import Facts
from audit.names.pools import us_pool
from audit.notes.mentions import find_mentions
from audit.notes.read import Note
from audit.patients.register import read_register
from audit.text import written_name
from tests.corpus.make_notes import (
    CATEGORIES,
    DATES,
    REGISTER,
    check_places,
    lines,
    made,
    note_row,
    register_files,
    write_notes,
)

FACTS = Facts("F", date(2177, 1, 1), date(2178, 1, 1))


def dummy(
    text: str,
    *,
    patient: str = "1",
    stay: str = "7",
    seed: int = 1,
    row: int = 2,
    has_blanks: bool = False,
) -> NoteTruth:
    note = Note("n", patient, stay, "", "2177-12-05", text, row)
    return with_surrogates(note, facts=FACTS, seed=seed, has_blanks=has_blanks)


pieces = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(["Dr. ", "Mr. ", ", ", "\r\n", "[**", "**]", "___", " is a 42 year old "]),
    st.builds(
        "[**{} {}**]".format,
        st.sampled_from([*CATEGORIES, "Spaceship"]),
        st.sampled_from(["", "1", "23"]),
    ),
    st.sampled_from([f"[**{form}**]" for form in DATES]),
)


@given(st.lists(pieces, max_size=14).map("".join), st.integers(0, 3))
def test_every_value_lies_where_it_is_said_to(source: str, seed: int) -> None:
    new = dummy(source, seed=seed)
    assert new.public == source
    check_places(new)
    assert dummy(source, seed=seed) == new


PATIENT = "[**Known firstname 1**] [**Initial (NamePattern1) **]. [**Known lastname 2**]"


def test_a_patient_is_the_same_person_in_all_notes() -> None:
    truth = dummy(PATIENT + " is a 42 year old")
    other_truth = dummy("Mrs. [**Known lastname 99**] [**Hospital 3**]", stay="8", row=9)
    assert truth.inserted[2].value == other_truth.inserted[0].value
    assert {(place.identity, place.role) for place in truth.inserted} == {("patient:1", "patient")}
    texts = {dummy(PATIENT, patient=str(n), seed=s).private for n, s in ((1, 1), (2, 1), (1, 2))}
    assert len(texts) == 3
    # An initial before a full stop has none of its own.
    assert ".." not in dummy(PATIENT).private
    assert dummy("[**Name Initial (MD) 1**] x").private[1] == "."
    firsts = {dummy("[**Known firstname 1**]", patient=str(n)).private for n in range(40)}
    assert firsts <= set(Provider.first_names_female)


ROWS = (
    "patient_id,first_name,middle_name,last_name,sex,birth_date,telephone,mrn\n"
    "1,Anna,Q,van der Berg,F,1950-03-04,617-555-0142,4471902\n2,Bo,,Young,M,,,\n"
    "3,太郎,,山田,男,1960-01-02,,\n4,Sam,,O'Brien,m,31.12.1960,,\n5,,,Nameless,,,,\n7,--,,B,,,,\n"
)


def finder_of(rows: str) -> RegisterFinder:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "register.csv"
        path.write_text(rows, "utf-8")
        return RegisterFinder.from_register(read_register(path))


FINDER = finder_of(ROWS)


def truth_of(text: str, *, patient: str, finder: RegisterFinder = FINDER) -> NoteTruth:
    return finder.make_truth(Note("1", patient, "", "", "", text, 2))


def find_values(text: str, patient: str) -> tuple[str, list[str]]:
    """Return the public text and the forms of the names."""
    truth = truth_of(text, patient=patient)
    forms = [
        p.category
        for p, previous in zip(truth.inserted, (None, *truth.inserted), strict=False)
        if p.group < 0 or not previous or p.group != previous.group
    ]
    return truth.public, forms


def test_the_people_of_a_register_are_those_with_a_full_name() -> None:
    people = list(registered_people(FINDER.register))
    assert people == [
        {"patient_id": "1", "names": [["Anna", "Q", "van der Berg"]], "sex": "F"},
        {"patient_id": "2", "names": [["Bo", "", "Young"]], "sex": "M"},
        {"patient_id": "3", "names": [["太郎", "", "山田"]], "sex": "M"},
        {"patient_id": "4", "names": [["Sam", "", "O'Brien"]], "sex": "M"},
    ]
    with pytest.raises(AuditError, match="No row has an id and a name"):
        finder_of("id,last_name,mrn\n1,Berg,9\n")


@pytest.mark.parametrize(
    ("text", "patient", "expected", "forms"),
    [
        ("Anna van der Berg is well", "1", "[FIRST] [LAST] is well", ["first+last"]),
        ("VAN DER BERG, ANNA", "1", "[LAST], [FIRST]", ["last+first"]),
        ("Ms. van der Berg's arm", "1", "Ms. [LAST]'s arm", ["last"]),
        ("Anna Q. van der Berg", "1", "[FIRST] [MIDDLE]. [LAST]", ["first+middle+last"]),
        ("born 3/4/1950 or 1950-03-04", "1", "born [DATE] or [DATE]", ["birth"] * 2),
        ("born 13/4/1950 or 1950-03-045", "1", "born 13/4/1950 or 1950-03-045", []),
        ("a Bo. Young", "2", "a [FIRST]. [LAST]", ["first", "last"]),
        ("sam o’brien came", "4", "[FIRST] [LAST] came", ["first+last"]),
        ("Sam O'Brien in bed 2", "1", "[NAME] in bed 2", ["full"]),
        ("O'Brien, Sam in bed 2", "", "[NAME] in bed 2", ["full"]),
        ("Annabel Younger", "1", "Annabel Younger", []),
        ("A young man, Dr. Smith, Mr. Berg", "2", "A young man, Dr. Smith, Mr. Berg", []),
        ("Berg was seen", "1", "[LAST] was seen", ["last"]),
        ("White Young. A young man", "2", "White [LAST]. A young man", ["last"]),
        ("MRN 447-1902, 617.555.0142", "1", "MRN [ID], [CONTACT]", ["identifier", "contact"]),
        (
            "A. van der Berg and A.B.",
            "1",
            "[NAME]. [LAST] and [NAME]",
            ["initials+last", "initials"],
        ),
        ("Ánna VAN DER BERG", "1", "[FIRST] [LAST]", ["first+last"]),
        ("山田太郎(70歳)、山田さん", "3", "[氏名](70歳)、[姓]さん", ["full", "last"]),
        ("1960年1月2日生の山田 太郎", "1", "1960年1月2日生の[氏名]", ["full"]),
        ("1960年01月02日生", "3", "[生年月日]生", ["birth"]),
        ("太郎は元気、鈴木先生", "3", "[名]は元気、鈴木先生", ["first"]),
    ],
)
def test_names_are_found_in_all_forms_and_what_is_doubtful_stays(
    text: str, patient: str, expected: str, forms: list[str]
) -> None:
    assert find_values(text, patient) == (expected, forms)


def test_patients_who_share_a_name_are_all_told() -> None:
    finder = finder_of("id,first_name,last_name\n1,Ann,Lee\n2,Ann,Lee\n3,B,C\n")
    (place,) = truth_of("Ann Lee", patient="3", finder=finder).inserted
    assert (place.identity, place.namesakes) == ("patient:1", ("patient:2",))
    own_places = truth_of("Ann Lee", patient="2", finder=finder).inserted
    assert {(place.identity, place.namesakes) for place in own_places} == {("patient:2", ())}


words = st.sampled_from(
    (
        *("Anna", "van der Berg", "Sam O'Brien", "Bo", "Young", "山田太郎", "山田さん", "the"),
        *(", ", ". ", "Q.", "3/4/1950", "ß", "ﬁ", "İ", "'s", "\n", "Dr. Lee"),
    )
)


@given(st.lists(words, max_size=15).map(" ".join), st.sampled_from(["", "1", "2", "3", "4"]))
def test_registered_names_lie_where_they_are_said_to(text: str, patient: str) -> None:
    truth = truth_of(text, patient=patient)
    assert truth.private == text
    check_places(truth)


NAMES = [
    (f"First{chr(65 + i // 26)}{chr(97 + i % 26)}", f"Last{chr(97 + i % 26)}") for i in range(80)
]
COUNTS = (1, 2, 4, 8)


@given(st.integers(0, 10**6))
def test_names_are_planned_evenly_and_twins_are_left_out(seed: int) -> None:
    plan = plan_canaries(NAMES, n_notes=200, seed=seed, counts=COUNTS)
    assert {(c.first, c.last) for c in plan.canaries} == set(NAMES)
    assert Counter(c.n_mentions for c in plan.canaries) == dict.fromkeys(COUNTS, 10) | {0: 40}
    assert not any(twin.n_mentions for twin in plan.canaries[1::2])
    in_notes = Counter(plan.rows.values())
    assert all(in_notes[row] == canary.n_mentions for row, canary in enumerate(plan.canaries))
    assert set(plan.rows) <= set(range(200)) and len(plan.rows) == 150
    assert plan == plan_canaries(NAMES, n_notes=200, seed=seed, counts=COUNTS)
    assert plan != plan_canaries(NAMES, n_notes=200, seed=seed + 1, counts=COUNTS)


@pytest.mark.parametrize("is_register", [False, True])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "HPI: The patient is a 45-year-old man. He fell.",
            "HPI: X is a 45-year-old man. He fell.",
        ),
        ("This is a 70 y/o F with COPD.", "X is a 70 y/o F with COPD."),
        (
            "John Roe is a 30-year-old.",
            "X is a [0-9]+-year-old (wo)?man.\nJohn Roe is a 30-year-old.",
        ),
        ("【症例】症例は７０歳，男性．", "【症例】Xは７０歳，男性．"),
        ("なし", "Xは..歳の[男女]性。\nなし"),
    ],
)
def test_a_note_is_changed_only_where_the_planted_name_stands(
    text: str, expected: str, is_register: bool
) -> None:
    is_japanese = text[0] in "【な"
    names = [("太郎", "山田"), ("花子", "佐藤")] if is_japanese else NAMES[:2]
    plan = plan_canaries(names, n_notes=1, seed=3, counts=(1,))
    planting = Planting(plan, is_register, is_blank=False, seed=3)
    note = NoteTruth(text, text)
    assert planting.plant_canary(note, index=1) is note
    new = planting.plant_canary(note, index=0)
    check_places(new)
    (place,) = new.inserted
    first, last, _ = plan.canaries[0]
    assert (place.value, place.role) == (written_name(first, last), "canary")
    assert re.fullmatch(expected, new.private.replace(place.value, "X"))
    marks = (
        ("[氏名]" if is_japanese else "[NAME]")
        if is_register
        else ("[**Known firstname 90000**] [**Known lastname 90000**]")
    )
    assert new.public[place.source_start : place.source_stop] == marks
    mention = find_mentions(new.private)[0]
    assert {mention.first, mention.last} == {first, last}


def test_canaries_are_names_that_are_not_in_the_notes() -> None:
    pool = us_pool()
    absent = draw_absent_names(pool, n=50, seed=1, used_pairs=set())
    first, last = absent[0]
    used_pairs = {(last.lower(), first.lower()), pair_of(*absent[1])}
    again = draw_absent_names(pool, n=50, seed=1, used_pairs=used_pairs)
    assert len(set(absent)) == 50 and again[:48] == absent[2:]
    with pytest.raises(AuditError, match="Only 0 names are left that nobody carries; 5 are"):
        draw_absent_names(pool, n=5, seed=1, used_pairs=set(), accepts=lambda first, last: False)
    with pytest.raises(AuditError, match="150 notes are needed, one for each mention"):
        plan_canaries(NAMES, n_notes=149, seed=1, counts=COUNTS)


def test_the_first_notes_are_counted_and_one_is_shown_as_it_will_be(tmp_path: Path) -> None:
    text = "[**Known firstname 1**] is [**Spaceship 2**] [**Spaceship 3**] [**broken"
    rows = [note_row(i, patient=i % 2, text=text) for i in range(5)]
    rows += [note_row(6, patient="", text="no patient"), note_row(7, patient=1, text="  ")]
    notes = write_notes(tmp_path / "n.csv", rows)
    head = survey_head(notes)
    assert (len(head.notes), head.has_blanks) == (6, False)
    assert [note.row for note in head.refused] == [8]
    assert [(c.category, c.kind, c.n, c.first_row) for c in head.categories] == [
        ("Spaceship", "unknown", 10, 2),
        ("Known firstname", "first", 5, 2),
    ]
    built = lines(made(tmp_path / "c", notes, seed=5).path / "private.jsonl")
    assert preview(head.notes[0], seed=5).private == built[0]["text"]
    notes, _ = register_files(tmp_path)
    head = survey_head(notes)
    assert (head.categories, head.has_blanks, preview(head.notes[0]).inserted) == ((), True, ())
    finder = finder_of(REGISTER)
    truth = preview(head.notes[0], finder=finder)
    assert truth.public.startswith("[FIRST] [LAST] is a 72 year old woman")
    assert [place.value for place in truth.inserted] == ["Anna", "Sandoval"]


def make_note(text: str, *, patient: str = "p", day: str = "2177-12-05") -> Note:
    return Note("1", patient, "", "", day, text, 2)


@pytest.mark.parametrize(
    ("text", "sex"),
    [
        ("Sex:  M\nshe she she", "M"),
        ("a 42 year old pleasant woman. he said", "F"),
        ("42 yo M with pain", "M"),
        ("Mrs. [**Known lastname 1**]", "F"),
        ("and she was with her husband", "F"),
        ("nothing", ""),
    ],
)
def test_the_notes_tell_the_sex(text: str, sex: str) -> None:
    assert facts_of_note(make_note(text)).sex == sex


def test_facts_are_of_all_notes_in_any_order() -> None:
    notes = [
        make_note("Sex: F", day="2177-12-05"),
        make_note("he is the son", day="2170-01-01 10:00:00"),
        make_note("x", patient="q", day=""),
        make_note("[**2160-2-30**] [**2161-3-4**] [**2165**]", patient="q", day=""),
        make_note("no patient", patient=""),
    ]
    for order in (notes, notes[::-1]):
        table = PatientTable()
        for item in order:
            table.add(item)
        assert table.facts("p") == Facts("F", date(2170, 1, 1), date(2177, 12, 5))
        assert table.facts("q") == Facts("", date(2161, 3, 4), date(2165, 7, 1))
        assert sorted(table) == ["p", "q"]
