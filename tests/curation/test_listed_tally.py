"""Where listed names stand: against a plain reckoning, and in a corpus whose text is searched."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus import candidate_lists
from audit.corpus.candidate_lists import read_candidates
from audit.corpus.examine import Owners, PatternTally
from audit.corpus.kept import KeptCorpus
from audit.corpus.other_names import write_other_names
from audit.corpus.truth import ListedNotes, read_listed
from audit.home import HOME_VARIABLE
from tests.curation.make_corpora import dummy_notes, lines, made, register_files

NAMES = [("Ann", "Lee"), ("Bo", "Lee"), ("Ann", "Ray"), ("Annl", "ee")]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


@given(
    notes=st.lists(st.tuples(st.sampled_from(["", "1", "2", "3"]),
                             st.lists(st.integers(0, 3), max_size=3)), max_size=12),
    wanted=st.sets(st.integers(0, 3)),
    planted=st.sets(st.integers(0, 11)),
)  # fmt: skip
def test_it_says_what_a_plain_reckoning_says(
    notes: list[tuple[str, list[int]]], wanted: set[int], planted: set[int]
) -> None:
    planted = {note for note in planted if note < len(notes)}
    owners, tally = Owners(), PatternTally()
    for number, (patient, found) in enumerate(notes):
        owners.add(patient)
        for name in found:
            tally.add(NAMES[name], "A.", note=number)
    here = wanted & {name for _, found in notes for name in found}
    result = owners.listed(tally.notes([NAMES[name] for name in here]) | planted)
    whose = [patient or f"note {number}" for number, (patient, _) in enumerate(notes)]
    expected = [k for k, (_, found) in enumerate(notes) if wanted & {*found} or k in planted]
    assert list(result.notes) == expected
    assert (result.n_notes, result.n_patients) == (len(notes), len(set(whose)))
    assert result.n_listed_patients == len({whose[note] for note in expected})


def listed_of(corpus: KeptCorpus) -> ListedNotes:
    return read_listed(corpus.path / "listed.json")


def test_positions_are_those_of_the_listed_patients_passages(tmp_path: Path) -> None:
    corpus = made(tmp_path / "c", dummy_notes(tmp_path), seed=1)
    listed = listed_of(corpus)
    # 21 notes begin with a patient's name beside an age; the last two name nobody in that way.
    assert list(listed.notes) == list(range(21))
    assert (listed.n_notes, listed.n_patients, listed.n_listed_patients) == (23, 6, 6)
    assert (corpus.path / "listed.json").stat().st_mode & 0o777 == 0o600


def test_names_that_were_not_drawn_count_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidate_lists, "MAX_POSITIVES", 2)
    corpus = made(tmp_path / "c", dummy_notes(tmp_path), seed=1)
    names = read_candidates((corpus.path / "candidates.csv").read_bytes(), lists=("patient",))
    members = [names.full_name(row) for row in range(len(names))]
    assert len(members) == 2
    texts = [line["text"] for line in lines(corpus.path / "private.jsonl")]
    expected = [
        k for k, text in enumerate(texts) if any(text.startswith(f"{name} is") for name in members)
    ]
    listed = listed_of(corpus)
    assert list(listed.notes) == expected and 2 <= len(expected) < 21
    assert listed.n_listed_patients == 2


def test_planted_notes_are_listed_in_every_file_of_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidate_lists, "MAX_POSITIVES", 1)
    notes = dummy_notes(tmp_path)
    corpus = made(tmp_path / "c", notes, seed=1, canary_counts=(1, 2), n_canaries=3, n_workers=2)
    write_other_names(corpus, seed=0)
    with (corpus.path / "canaries.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    planted = [f"{row['first_name']} {row['last_name']}" for row in table]
    names = read_candidates((corpus.path / "candidates.csv").read_bytes(), lists=("patient",))
    texts = [line["text"] for line in lines(corpus.path / "private.jsonl")]
    with_canary = {k for k, text in enumerate(texts) if any(name in text for name in planted)}
    with_member = {k for k, text in enumerate(texts) if f"{names.full_name(0)} is a 42" in text}
    assert (len(names), len(with_canary)) == (1, 9)
    assert with_canary - with_member
    assert {*listed_of(corpus).notes} == with_canary | with_member
    rows = [[line["row"] for line in lines(corpus.path / f"{name}.jsonl")]
            for name in ("private", "public", "other_names")]  # fmt: skip
    assert rows[0] == rows[1] == rows[2]


def test_a_register_too(tmp_path: Path) -> None:
    notes, register = register_files(tmp_path)
    corpus = made(tmp_path / "c", notes, register_file=register, seed=1)
    listed = listed_of(corpus)
    assert list(listed.notes) == [0, 1, 2]
    assert (listed.n_notes, listed.n_patients, listed.n_listed_patients) == (5, 3, 2)
