"""What is counted and drawn: patterns, passages, controls that are nowhere, lists for an audit."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.build import facts_of_note, with_surrogates
from audit.corpus.canaries import CanaryPlan, canary_candidates
from audit.corpus.candidate_lists import (
    draw_lists,
    keep_lists,
    read_list,
    select_passages,
)
from audit.corpus.corpora import CORPORA, KeptCorpus, find_corpus
from audit.corpus.examine import (
    NamePattern,
    PatternTally,
    People,
    Tally,
    find_named_people,
    find_patterns,
    read_examination,
)
from audit.corpus.truth import (
    NoteTruth,
    Place,
    count_listed_notes,
    listed_bytes,
    listed_file,
    read_listed,
)
from audit.errors import AuditError
from audit.home import results_dir
from audit.names.candidates import SHARED, Candidates, member_parts
from audit.names.files import read_names
from audit.names.lists import all_names, load_names, load_passages
from audit.names.matching import NameIndex
from audit.names.pools import us_pool
from audit.notes.mentions import examine_ages, find_mentions
from audit.notes.passages import read_passages
from audit.notes.read import Note
from audit.shelf import json_page, new_identifier
from cache.store import Store
from tests.corpus.make_notes import dummy_notes, made

POOL = us_pool()
MEMBERS = ("patient", "staff", "canary")


FOUND = st.lists(
    st.tuples(
        st.sampled_from(["Ann", "ANN", "Bo", "Cy", ""]),
        st.sampled_from(["Ray", "Poe"]),
        st.sampled_from("abc"),
    ),
    max_size=40,
)


@given(FOUND)
def test_patterns_are_counted_as_by_a_plain_reckoning(found: list[tuple[str, str, str]]) -> None:
    tally = PatternTally(accepts=lambda first, last: first != "Bo")
    new = [tally.add((first, last), text, note=0) for first, last, text in found]
    good = [(f.lower(), last.lower(), text) for f, last, text in found if f not in ("Bo", "")]
    assert sum(new) == len(set(good))
    n_mentions = Counter(pattern[:2] for pattern in good)
    n_patterns = Counter(pattern[:2] for pattern in set(good))
    for table, counts in ((tally.mention_table, n_mentions), (tally.pattern_table, n_patterns)):
        assert table == tuple(sorted(Counter(counts.values()).items(), reverse=True))
    assert list(tally.members(tally.names).n_mentions) == list(n_mentions.values())
    assert len(tally.refused) == len({pattern[:2] for pattern in found if pattern[0] in ("Bo", "")})


@given(owners=st.lists(st.integers(0, 3), max_size=12), noted=st.sets(st.integers(0, 11)))
def test_listed_notes_are_those_of_a_plain_reckoning_and_are_read_back(
    owners: list[int], noted: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    noted = {note for note in noted if note < len(owners)}
    result = count_listed_notes(owners, noted)
    n_patients, n_listed = len({*owners}), len({owners[note] for note in noted})
    assert list(result.notes) == sorted(noted)
    counts = (result.n_notes, result.n_patients, result.n_listed_patients)
    assert counts == (len(owners), n_patients, n_listed)
    assert result.free_share == (1 - n_listed / n_patients if owners else 0)
    path = tmp_path_factory.mktemp("listed") / "listed.json"
    assert listed_file(path) is None
    path.write_bytes(listed_bytes(result))
    assert listed_file(path.with_name("private.jsonl")) == path
    again = read_listed(path)
    assert (vars(again), again.digest) == (vars(result), result.digest)


@pytest.mark.parametrize("notes", ["[9]", "[2, 1]", "[1, 1]", "[-1]", '["1"]', "7", "[1", None])
def test_listed_notes_that_cannot_be_true_are_refused(tmp_path: Path, notes: str | None) -> None:
    path = tmp_path / "listed.json"
    listed = f'{{"n_notes": 9, "n_patients": 3, "n_listed_patients": 1, "notes": {notes}}}'
    path.write_text(listed if notes else "[]")
    with pytest.raises(AuditError, match="A file of the corpus cannot be read"):
        read_listed(path)


PUBLIC = (
    "Seen by Dr. [**First Name1 (NameIs)**] [**Last Name (STitle)**]. HPI: [**Known firstname 9**] "
    "[**Initial (NamePattern1)**]. [**Known lastname 9**] is a 45-year-old man with gout. "
    "He fell on [**2177-3-4**]. He lives in Boston. He takes aspirin 81 mg q.d. with food. "
    "Dr. [**Last Name (STitle)**] agrees. He is well."
)


def paired() -> NoteTruth:
    note = Note("n", "9", "", "", "2177-12-05", PUBLIC, 2)
    return with_surrogates(note, facts=facts_of_note(note), seed=1)


def patterns(note: NoteTruth) -> list[NamePattern]:
    return list(find_patterns(note, find_mentions(note.private)))


def test_a_passage_is_that_of_the_public_note_and_the_truth_says_whose() -> None:
    note = paired()
    (pattern,) = patterns(note)
    first, initial, last = (place.value for place in note.inserted[2:5])
    pattern_facts = (pattern.first, pattern.last, pattern.role, pattern.person)
    assert pattern_facts == (first, last, "patient", "patient:9")
    assert pattern.text.startswith(f"{first} {initial}. {last} is a 45-year-old man with gout. He")
    assert pattern.passage == (
        "[FIRST] [LAST] is a 45-year-old man with gout. He fell on . He lives in Boston. "
        "He takes aspirin 81 mg q.d. with food. Dr. agrees."
    )
    assert patterns(NoteTruth(note.private, note.private)) == []


def test_coverage_adds_up_over_notes() -> None:
    text = "The patient is a 4 yo boy. Jane Roe, 45 yo F. John Smith left."
    place = Place(47, 57, 47, 57, "", "full", "patient", "p", "John Smith", 0)
    other_truth = NoteTruth(text, text, (place,))
    tally = Tally()
    for note in (paired(), other_truth):
        tally.add_mentions(note, tuple(examine_ages(note.private)))
    total = tally.coverage()
    assert (total.n_notes, total.n_notes_with_mention) == (total.n_mentions, total.n_full) == (2, 2)
    assert dict(total.by_form) == {"is_a": 1, "comma": 1} and dict(total.by_reason)["generic"] == 1
    assert total.n_by_role == (("patient", 1),) and total.n_of_nobody == 1
    assert (total.n_true_names, total.n_true_names_mentioned, total.n_elsewhere) == (2, 1, 1)


PATTERNS = (
    ("John", "Smith", "A b."),
    ("John", "Smith", "A b."),
    ("JOHN", "SMITH", "C."),
    ("Mary", "Jones", "D."),
    ("Linda", "Brown", "E."),
    ("", "Only", "G."),
)
PEOPLE = [
    {"patient_id": "1", "first": "John", "last": "Smith", "sex": "M"},
    {"patient_id": "2", "first": "John", "last": "Smith", "sex": "M"},
    {"patient_id": "4", "first": "Mary", "last": "Jones", "sex": "F"},
]
STAFF = [
    Place(0, 9, 0, 9, "", "full", "staff", key, name, group)
    for group, (key, name) in enumerate(
        [("3", "John Smith"), ("5", "Robert Davis"), ("6", "Susan Miller"), ("3", "John Smith")]
    )
]
TEXTS = ["Dr. Robert Davis saw John Smith. John Jones called.", "Brown, Mary"]


def draw_test_lists(
    texts: list[str], patterns: Iterable[tuple[str, str, str]] = PATTERNS
) -> dict[str, Candidates]:
    """Draw the lists of a corpus with these texts and patterns of patients."""
    tally, people = PatternTally(), People(PEOPLE)
    for first, last, text in patterns:
        tally.add((first, last), text, note=0)
    people.add(find_named_people(STAFF))
    index = NameIndex(firsts=POOL.first, lasts=POOL.last)
    counts = Counter(pair for text in texts for pair in index.find_pairs(text))
    none = canary_candidates(CanaryPlan())
    return draw_lists(
        tally,
        people=people,
        name_counts=counts,
        canaries=none,
        held_out=none,
        pool=POOL,
        accepts=None,
        seed=4,
    )


def test_no_control_is_anywhere_in_the_corpus() -> None:
    many = [(POOL.first[i], POOL.last[2 * i], "A.") for i in range(60)]
    first = draw_test_lists(TEXTS, many)
    # A corpus that names half of the controls: they give way, the others stay.
    texts = [
        *TEXTS,
        *(f"{first[k].last[i]}, {first[k].first[i]}." for k in SHARED for i in range(0, 60, 2)),
    ]
    again = draw_test_lists(texts, many)
    for kind in SHARED:
        for row in range(len(again[kind])):
            a, b = (re.escape(part[row].lower()) for part in (again[kind].first, again[kind].last))
            name = re.compile(rf"\b{a}\b\W+(?:\w+\W+)?{b}\b|\b{b}\b\W+{a}\b")
            assert not [text for text in texts if name.search(text.lower())]
    assert len(again["easy"]) == len(again["hard"]) == 60
    assert set(first["easy"].rows(range(1, 60, 2)).last) <= set(again["easy"].last)


def test_kinds_are_those_of_section_3_4_and_people_and_roles_are_counted() -> None:
    lists = draw_test_lists(TEXTS)
    patient, staff = lists["patient"], lists["staff"]
    parts = member_parts(patient)
    for kind, shared in (("easy", 0), ("hard", 1), ("recombined", 2)):
        names = zip(lists[kind].first, lists[kind].last, strict=True)
        assert {sum(part.lower() in parts for part in name) for name in names} == {shared}
    # John Jones stands in the notes.
    assert ("John", "Jones") not in zip(
        lists["recombined"].first, lists["recombined"].last, strict=True
    )
    assert (patient.first, patient.n_mentions) == (("John", "Mary", "Linda"), (3, 1, 1))
    assert (patient.sex, patient.role) == (("M", "F", ""), ("patient",) * 3)
    # Susan Miller is staff but not in the corpus; John Smith is a patient already.
    assert list(zip(staff.first, staff.last, strict=True)) == [("Robert", "Davis")]
    assert (staff.role, staff.n_mentions) == (("staff",), (1,))
    # Two patients and one of the staff are called John Smith, nobody known Linda Brown.
    people = People([*PEOPLE, {"patient_id": "5", "names": [["Mary", "", "Jones"]] * 2, "sex": ""}])
    people.add(find_named_people(STAFF))
    assert people.carriers(patient) == (
        ("patient", ((0, 1), (2, 2))),
        ("staff", ((0, 2), (1, 1))),
    )


@pytest.fixture
def corpus(tmp_path: Path) -> KeptCorpus:
    out = CORPORA.place(new_identifier())
    notes = dummy_notes(tmp_path)
    return made(out, notes, seed=1, canary_counts=(1, 2), n_canaries=2, title="A title")


def test_a_list_has_the_members_and_controls_that_were_asked_for(
    corpus: KeptCorpus, tmp_path: Path
) -> None:
    plain = read_list(corpus, controls=("easy",), roles=("patient",))
    assert plain.is_member == (True,) * 6 + (False,) * 6
    assert plain.role[:6] == ("patient",) * 6 and plain.control_kind[6:] == ("easy",) * 6
    usual = read_list(corpus)
    assert Counter(zip(usual.is_member, usual.control_kind, strict=True)) == {
        (True, ""): 6 + 4,
        (False, "easy"): 6,
        (False, "hard"): 6,
        (False, "canary"): 4,
    }
    assert {*usual.row} == {None}  # no rows of a file of the auditor's
    staff = read_list(corpus, controls=(), roles=("patient", "staff"))
    assert staff.role.count("staff") > 2 and all(staff.is_member)
    everything = read_list(corpus, controls=SHARED, roles=MEMBERS)
    names = [everything.full_name(row).lower() for row in range(len(everything))]
    assert len(set(names)) == len(names)  # a control in two lists comes once
    read = read_names((corpus.path / "candidates.csv").read_bytes()).candidates
    assert len(read) == len(everything)
    for wrong in ({"controls": ("harder",)}, {"roles": ("nurse",)}):
        with pytest.raises(AuditError, match="no such list"):
            read_list(corpus, **wrong)
    path = corpus.path / "candidates.csv"
    path.write_text(
        f"{path.read_text()}easy,Ann,Ray Poe,0,easy,,,,,\neasy,一,林田,0,easy,,,,,\n".replace(
            "\n", "\npatient,Ann Ray,Poe,1,,patient,,1,,\npatient,田一,林,1,,patient,,1,,\n", 1
        )
    )
    twice = read_list(corpus, controls=("easy",), roles=("patient",))  # the members
    assert (len(twice), {*twice.last} & {"Poe", "Ray Poe", "林", "林田"}) == (14, {"Poe", "林"})
    chosen = select_passages(corpus, read_list(corpus, roles=("patient",)))
    assert len(read_passages(chosen, file_name="p.jsonl")) == 11
    assert {json.loads(line)["role"] for line in chosen.splitlines()} == {"patient"}
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("Nobody is named here.")
    with pytest.raises(AuditError, match="No patient is named"):
        read_list(made(tmp_path / "empty", tmp_path / "texts"))
    path = corpus.path / "candidates.csv"
    fewer_columns = [line.rsplit(",", 2)[0] for line in path.read_text().splitlines()]
    for text in ("a,b\n1,2\n", "\n".join(fewer_columns)):
        path.write_text(text)
        with pytest.raises(AuditError, match="candidates: This was written by another version"):
            read_list(corpus)
    path.unlink()
    with pytest.raises(AuditError, match="it is damaged"):
        read_list(corpus)


def test_of_many_passages_some_are_drawn(
    corpus: KeptCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_lines = select_passages(corpus, read_list(corpus)).splitlines()
    monkeypatch.setattr("audit.corpus.candidate_lists.MAX_PASSAGES", 5)
    seeds = (replace(corpus, seed=seed) for seed in (0, 0, 1))
    some_lines = [select_passages(one, read_list(one)).splitlines() for one in seeds]
    assert some_lines[0] == some_lines[1] != some_lines[2]
    assert (
        len(some_lines[0]) == 5
        and [line for line in all_lines if line in some_lines[0]] == some_lines[0]
    )


def test_a_list_and_its_passages_are_kept_for_an_audit(
    corpus: KeptCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(results_dir()) as store:
        names, passages = keep_lists(corpus, controls=("hard",), store=store)
        loaded_names, texts = load_names(names, store=store), load_passages(passages, store=store)
        assert next(line.code for line in all_names(store)) == names
    assert loaded_names.candidates == read_list(corpus, controls=("hard",))
    assert loaded_names.line.label == texts.line.label == "A title (hard)"
    assert len(texts.passages) == 11 + 6 == texts.line.n
    members = [i for i, m in enumerate(loaded_names.candidates.is_member) if m]
    assert {passage.owner for passage in texts.passages.passages} == {
        (loaded_names.candidates.first[i], loaded_names.candidates.last[i]) for i in members
    }


def small(tmp_path: Path, **choices: str) -> KeptCorpus:
    notes = dummy_notes(tmp_path, n_patients=2)
    return made(CORPORA.place(new_identifier()), notes, **choices)


def test_corpora_are_listed_and_found_by_id_or_folder(tmp_path: Path) -> None:
    new = small(tmp_path, title="Here")
    (small(tmp_path).path / "examination.json").unlink()
    path = small(tmp_path).path / "corpus.json"
    path.write_text(path.read_text().replace('"dummy"', '"other"'))
    assert CORPORA.all() == (new,)
    assert (new.title, new.kind, new.source, new.seed) == ("Here", "dummy", "NOTEEVENTS.csv", 0)
    assert (new.n_notes, new.n_patients) == (5, 2)
    assert str(tmp_path) not in (new.path / "corpus.json").read_text()
    assert find_corpus(new.corpus_id) == find_corpus(str(new.path)) == new
    new.path.rename(tmp_path / "elsewhere")
    assert find_corpus(str(tmp_path / "elsewhere")).corpus_id == ""
    with pytest.raises(AuditError, match="corpus: This is not kept"):
        find_corpus(new.corpus_id)


def test_an_examination_is_read_as_it_was_written(tmp_path: Path) -> None:
    corpus = small(tmp_path)
    content = (corpus.path / "examination.json").read_bytes()
    assert json_page(read_examination(corpus.path).plain()) == content
    for text in ("{}", "[]", "no"):
        (corpus.path / "examination.json").write_text(text)
        with pytest.raises(AuditError, match="corpus: This was written by another version"):
            read_examination(corpus.path)


@pytest.mark.parametrize(
    "changes", [{"format": 2}, {"n_named_patients": 2}, {"carriers": None}, {"coverage": {}}]
)
def test_a_corpus_of_another_version_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    corpus = small(tmp_path)
    path = corpus.path / "examination.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))
    with pytest.raises(AuditError, match="corpus: This was written by another version"):
        read_examination(corpus.path)
    path = corpus.path / "corpus.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"format": 0}))
    with pytest.raises(AuditError, match="corpus: This was written by another version"):
        CORPORA.read_folder(corpus.path)
