"""The patient register: who is named where, and a public text without the registered names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.make import CorpusTask, make_corpus
from audit.corpus.register import MentionFinder, read_register
from audit.errors import AuditError
from audit.notes.passages import read_passages
from tests.corpora.make_notes import note_row, write_notes

REGISTER_CSV = (
    "patient_id,first_name,middle_name,last_name,sex,birth_date\n"
    "1,Anna,Q,van der Berg,F,1950-03-04\n2,Bo,,Young,M,\n3,太郎,,山田,男,1960-01-02\n"
    "4,Sam,,O'Brien,m,31.12.1960\n5,,,Nameless,,\n"
).encode()
REGISTER = read_register(REGISTER_CSV)
FINDER = MentionFinder(REGISTER)


def public(text: str, patient_id: str) -> tuple[str, list[str], list[str]]:
    found = FINDER.truth(text, patient_id=patient_id)
    doubts = [f"{text[d.start : d.stop]}:{d.why}" for d in found.doubts]
    places = found.inserted or ()
    forms = [p.category for p, before in zip(places, (None, *places), strict=False)
             if p.group < 0 or not before or p.group != before.group]  # fmt: skip
    return found.public, forms, doubts


def test_the_register_is_read_with_what_was_left_out() -> None:
    assert [(row.first, row.last, row.sex) for row in REGISTER.rows] == [
        ("Anna", "van der Berg", "F"),
        ("Bo", "Young", "M"),
        ("太郎", "山田", "M"),
        ("Sam", "O'Brien", "M"),
    ]
    assert [note.row for note in REGISTER.notes] == [5, 6]
    with pytest.raises(AuditError, match="no column for the patient's id"):
        read_register(b"first_name,last_name\nA,B\n")


@pytest.mark.parametrize(
    ("text", "patient", "expected", "forms"),
    [
        ("Anna van der Berg is well", "1", "[FIRST] [LAST] is well", ["first+last"]),
        ("VAN DER BERG, ANNA", "1", "[LAST], [FIRST]", ["last+first"]),
        ("Ms. van der Berg's arm", "1", "Ms. [LAST]'s arm", ["last"]),
        ("Anna Q. van der Berg", "1", "[FIRST] [MIDDLE]. [LAST]", ["first+middle+last"]),
        ("born 3/4/1950 or 1950-03-04", "1", "born [DATE] or [DATE]", ["birth"] * 2),
        ("a Bo. Young", "2", "a [FIRST]. [LAST]", ["first", "last"]),
        ("sam o’brien came", "4", "[FIRST] [LAST] came", ["first+last"]),
        ("Sam O'Brien in bed 2", "1", "[NAME] in bed 2", ["full"]),
        ("O'Brien, Sam in bed 2", "", "[NAME] in bed 2", ["full"]),
        ("Annabel Younger", "1", "Annabel Younger", []),
        ("山田太郎(70歳,男性)、山田さん", "3", "[氏名](70歳,男性)、[姓]さん", ["full", "last"]),
        ("1960年1月2日生の山田 太郎", "1", "1960年1月2日生の[氏名]", ["full"]),
    ],
)
def test_names_are_found_in_all_forms(
    text: str, patient: str, expected: str, forms: list[str]
) -> None:
    assert public(text, patient)[:2] == (expected, forms)


def test_what_is_doubtful_stays_and_is_listed() -> None:
    text, forms, doubts = public("A young man, Dr. Smith, Mr. Berg", "2")
    assert (text, forms) == ("A young man, Dr. Smith, Mr. Berg", [])
    assert doubts == ["young:lower_case", "Smith:titled", "Berg:titled"]
    assert public("Berg was seen", "1")[2] == ["Berg:part_of_name"]
    assert public("太郎は元気、鈴木先生", "3")[2] == ["太郎:first_alone", "鈴木:titled"]


def test_patients_who_share_a_name_are_all_told() -> None:
    register = read_register(b"id,first_name,last_name\n1,Ann,Lee\n2,Ann,Lee\n3,Bo,Hill\n")
    (place,) = MentionFinder(register).truth("Ann Lee", patient_id="3").inserted or ()
    assert (place.identity, place.namesakes) == ("patient:1", ("patient:2",))
    own = MentionFinder(register).truth("Ann Lee", patient_id="2").inserted or ()
    assert {(place.identity, place.namesakes) for place in own} == {("patient:2", ())}


words = st.sampled_from(
    (
        *("Anna", "van der Berg", "Sam O'Brien", "Bo", "Young", "山田太郎", "山田さん", "the"),
        *(", ", ". ", "Q.", "3/4/1950", "ß", "ﬁ", "İ", "'s", "\n", "Dr. Lee"),
    )
)


@given(st.lists(words, max_size=15).map(" ".join), st.sampled_from(["", "1", "2", "3", "4"]))
def test_parts_lie_where_they_are_said_to(text: str, patient: str) -> None:
    truth = FINDER.truth(text, patient_id=patient)
    new, rebuilt, done, done_new = truth.public, list[str](), 0, 0
    for place in truth.inserted or ():
        assert text[done : place.start] == new[done_new : place.source_start]
        assert new[place.source_start] == "[" and new[place.source_stop - 1] == "]"
        assert text[place.start : place.stop] == place.value
        rebuilt += [new[done_new : place.source_start], place.value]
        done, done_new = place.stop, place.source_stop
    assert "".join([*rebuilt, new[done_new:]]) == text


def test_a_corpus_from_identified_notes(tmp_path: Path) -> None:
    texts = [
        (1, "Anna van der Berg is a 70 year old woman. Anna has pain."),
        (2, "No name here, but Sam O'Brien is next door."),
        (9, "Unknown patient."),
        (3, "山田太郎は70歳の男性。"),
    ]
    rows = [note_row(i, patient=who, text=text) for i, (who, text) in enumerate(texts)]
    out = tmp_path / "out"
    notes, register = write_notes(tmp_path / "n.csv", rows), tmp_path / "register.csv"
    register.write_bytes(REGISTER_CSV)
    make_corpus(CorpusTask(notes=notes, register_file=register), out=out)
    summary = json.loads((out / "summary.json").read_bytes())
    counts = {"n_notes": 4, "n_unregistered": 1, "n_others": 1, "n_registered": 4, "n_named": 3}
    assert {name: summary[name] for name in counts} == counts
    assert summary["forms"] == {"first": 1, "first+last": 1, "full": 1}
    assert [line["text"] for line in lines(out / "private.jsonl")] == [text for _, text in texts]
    assert "Anna" not in (out / "public.jsonl").read_text()
    assert set(lines(out / "public.jsonl")[0]) == {"row", "category", "text"}
    people = {line["patient_id"]: line for line in lines(out / "people.jsonl")}
    assert (people["1"]["n_mentions"], people["1"]["n_full_names"]) == (2, 1)
    assert people["4"]["n_in_notes_of_others"] == 1
    # What was written can be read as passages with a place for the name.
    passages = read_passages((out / "public.jsonl").read_bytes(), file_name="public.jsonl")
    assert {passage.slots for passage in passages.passages} == {("first", "last"), ("full",)}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
