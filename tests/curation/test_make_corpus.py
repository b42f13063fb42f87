"""Making a corpus: same bytes for any workers, counts by hand, canaries where the truth says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from audit.corpus.build import CategoryCount
from audit.corpus.candidate_lists import read_candidates
from audit.corpus.examine import read_examination
from audit.corpus.kept import KeptCorpus
from audit.corpus.make import CorpusTask, make_corpus
from audit.errors import AuditCancelled, AuditError
from audit.home import HOME_VARIABLE
from audit.names.candidates import Candidates
from audit.notes.passages import read_passages
from audit.progress import Progress
from audit.shelf import building_folder
from tests.curation.make_corpora import (
    contents,
    dummy_notes,
    dummy_rows,
    lines,
    made,
    register_files,
)

CANARIES: dict[str, Any] = {"canary_counts": (1, 2), "n_canaries": 3}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return dummy_notes(tmp_path)


def names_of(corpus: KeptCorpus, *lists: str) -> Candidates:
    return read_candidates((corpus.path / "candidates.csv").read_bytes(), lists=lists)


def full_names(names: Candidates) -> list[str]:
    return [names.full_name(row) for row in range(len(names))]


def test_what_a_corpus_is(notes: Path, tmp_path: Path) -> None:
    corpus = made(tmp_path / "made", notes, seed=3)
    assert {path.stat().st_mode & 0o777 for path in corpus.path.iterdir()} == {0o600}
    assert corpus.path.stat().st_mode & 0o777 == 0o700
    assert (corpus.kind, corpus.source, corpus.seed) == ("dummy", "NOTEEVENTS.csv", 3)
    assert (corpus.n_notes, corpus.n_patients, corpus.is_examined) == (23, 6, True)


@pytest.mark.parametrize("canaries", [{}, CANARIES])
def test_workers_change_no_byte_and_seeds_do(
    notes: Path, tmp_path: Path, canaries: dict[str, Any]
) -> None:
    one = made(tmp_path / "1", notes, seed=1, **canaries)
    two = made(tmp_path / "2", notes, seed=1, n_workers=2, **canaries)
    other = made(tmp_path / "3", notes, seed=2, **canaries)
    assert contents(one.path) == contents(two.path)
    assert contents(one.path)["private.jsonl"] != contents(other.path)["private.jsonl"]


def test_the_examination_counts_what_is_there(notes: Path, tmp_path: Path) -> None:
    corpus = made(tmp_path / "c", notes, seed=1)
    found = read_examination(corpus.path)
    # Patient p is named p + 1 times beside an age, patient 0 once more without one.
    assert found.coverage.by_form == (("is_a", 21),)
    assert dict(found.coverage.by_reason)["generic"] == 1
    assert (found.coverage.n_true_names, found.coverage.n_elsewhere) == (22, 1)
    assert found.mention_table == ((6, 1), (5, 1), (4, 1), (3, 1), (2, 1), (1, 1))
    assert found.pattern_table == ((2, 5), (1, 1))
    assert (found.n_positives, found.n_patterns, found.n_occurrences) == (6, 11, 21)
    assert found.n_passages == 11
    assert found.unknown == (
        CategoryCount(category="Spaceship", kind="unknown", n=1, first_row=24),
    )
    counts = {(each.control_kind, each.role): each.n for each in found.candidates}
    assert counts["", "patient"] == counts["easy", ""] == counts["matched", ""] == 6
    assert dict(found.carriers)["patient"] == ((1, 6),)
    people = {
        line["first"] + " " + line["last"]: line for line in lines(corpus.path / "people.jsonl")
    }
    members = names_of(corpus, "patient")
    assert {people[name]["n_full_names"] for name in full_names(members)} == {2, 3, 4, 5, 6}
    assert members.n_mentions == (1, 2, 3, 4, 5, 6)
    assert members.sex == ("M",) * 6


def test_controls_stand_nowhere_in_the_private_notes(notes: Path, tmp_path: Path) -> None:
    corpus = made(tmp_path / "c", notes, seed=1, **CANARIES)
    text = " ".join(line["text"] for line in lines(corpus.path / "private.jsonl")).lower()
    controls = names_of(corpus, "easy", "hard", "recombined", "matched")
    assert len(controls) > 12
    assert not [name for name in full_names(controls) if name.lower() in text]
    staff = names_of(corpus, "staff")
    assert len(staff) > 2 and all(name.lower() in text for name in full_names(staff))
    assert all(m and n for m, n in zip(staff.is_member, staff.n_mentions, strict=True))


def test_passages_are_read_back_with_their_owners(notes: Path, tmp_path: Path) -> None:
    corpus = made(tmp_path / "c", notes, seed=1)
    found = read_passages((corpus.path / "passages.jsonl").read_bytes(), file_name="p.jsonl")
    assert (len(found), len(found.notes)) == (11, 0)
    first = found.passages[0]
    assert (first.left, first.slots, first.separator) == ("", ("first", "last"), " ")
    assert first.right.startswith(" is a 42 year old man with gout. He slept well.")
    assert first.right.endswith("He went home.")  # five sentences
    members = names_of(corpus, "patient")
    owners = set(zip(members.first, members.last, strict=True))
    assert {passage.owner for passage in found.passages} == owners


def check_truth(corpus: KeptCorpus) -> None:
    """Check that every value and placeholder stands where the truth says."""
    public = {line["row"]: line["text"] for line in lines(corpus.path / "public.jsonl")}
    private = {line["row"]: line["text"] for line in lines(corpus.path / "private.jsonl")}
    n_places = 0
    for truth in lines(corpus.path / "truth.jsonl"):
        old, new = public[truth["row"]], private[truth["row"]]
        at = [0, 0]
        rebuilt = ""
        for place in sorted(truth["inserted"], key=lambda each: each["start"]):
            value = new[place["start"] : place["stop"]]
            assert value == place["value"]
            assert re.fullmatch(r"\[.*?\]|___", old[place["source_start"] : place["source_stop"]])
            rebuilt += old[at[1] : place["source_start"]] + value
            at = [place["stop"], place["source_stop"]]
            n_places += 1
        for left in truth["left"]:
            assert new[left["start"] : left["stop"]].startswith("[**")
            assert old[left["source_start"] : left["source_stop"]].startswith("[**")
        assert rebuilt + old[at[1] :] == new
    assert n_places > 2


def test_canaries_are_planted_as_often_as_planned(notes: Path, tmp_path: Path) -> None:
    plain = made(tmp_path / "plain", notes, seed=1)
    corpus = made(tmp_path / "c", notes, seed=1, **CANARIES)
    check_truth(corpus)
    found = read_examination(corpus.path)
    assert found.canaries == ((1, 3), (2, 3))
    assert dict(found.coverage.n_by_role)["canary"] == 9
    assert found.mention_table == read_examination(plain.path).mention_table
    text = " ".join(line["text"] for line in lines(corpus.path / "private.jsonl"))
    canaries = names_of(corpus, "canary")
    counts = [text.count(name) for name in full_names(canaries)]
    # The i-th planted name and the i-th twin are a pair.
    assert counts == list(canaries.n_mentions) == [1, 2, 1, 2, 1, 2] + [0] * 6
    assert canaries.is_member == (True,) * 6 + (False,) * 6
    assert set(canaries.control_kind[6:]) == set(canaries.role) == {"canary"}
    public = " ".join(line["text"] for line in lines(corpus.path / "public.jsonl"))
    assert not [name for name in full_names(canaries) if name in public]
    before, after = (lines(each.path / "public.jsonl") for each in (plain, corpus))
    n_changed = sum(old != new for old, new in zip(before, after, strict=True))
    assert n_changed == 9
    owners = [line for line in lines(corpus.path / "passages.jsonl") if line["role"] == "canary"]
    assert len(owners) == 9 and found.n_passages == 20


@pytest.mark.parametrize("is_japanese", [False, True])
def test_identified_notes_with_a_register(tmp_path: Path, is_japanese: bool) -> None:
    notes, register = register_files(tmp_path, is_japanese=is_japanese)
    choices: dict[str, Any] = {"register_file": register, "seed": 2}
    corpus = made(tmp_path / "c", notes, **choices)
    check_truth(corpus)
    found = read_examination(corpus.path)
    members = names_of(corpus, "patient")
    if is_japanese:
        assert full_names(members) == ["見本太郎", "鈴木花子"]
        assert found.mention_table == ((1, 2),)
    else:
        # The second note is in capitals; patient 3 is named, but nowhere beside an age.
        assert full_names(members) == ["Anna Sandoval", "Boris Youngblood"]
        assert found.mention_table == ((2, 1), (1, 1))
        assert members.sex == ("F", "M")
        assert found.n_patients == 4 and found.n_named_patients == 2
    planted = made(
        tmp_path / "p", notes, canary_counts=(1,), n_canaries=1, **choices
    )  # fmt: skip
    check_truth(planted)
    name = full_names(names_of(planted, "canary"))[0]
    text = "\n".join(line["text"] for line in lines(planted.path / "private.jsonl"))
    assert text.count(name) == 1
    assert not is_japanese or re.search("[一-鿿]", name)
    assert read_examination(planted.path).mention_table == found.mention_table


def test_a_sample_is_drawn_without_replacement_in_order(notes: Path, tmp_path: Path) -> None:
    whole = {
        line["row"]: line["text"]
        for line in lines(made(tmp_path / "0", notes).path / "public.jsonl")
    }
    drawn = [
        lines(made(tmp_path / f"{s}", notes, sample=9, seed=s).path / "public.jsonl")
        for s in (1, 2)
    ]
    rows = [[line["row"] for line in each] for each in drawn]
    assert [len(each) for each in rows] == [9, 9] and rows[0] != rows[1]
    assert all(each == sorted(set(each)) for each in rows)
    assert all(whole[line["row"]] == line["text"] for each in drawn for line in each)
    assert made(tmp_path / "all", notes, sample=1000).n_notes == 23


@pytest.mark.slow
def test_the_single_token_rule_leaves_names_out(tmp_path: Path, notes: Path) -> None:
    pytest.importorskip("transformers")
    from tests.models.make_models import make_bert

    people = {
        (line["first"].lower(), line["last"].lower())
        for line in lines(made(tmp_path / "a", notes, seed=1).path / "people.jsonl")
    }
    words = sorted({part for name in sorted(people)[:3] for part in name})
    model = make_bert(tmp_path / "model", seed=1, words=words)
    corpus = made(tmp_path / "b", notes, seed=1, tokenizer=model)
    members = names_of(corpus, "patient")
    kept = {(f.lower(), last.lower()) for f, last in zip(members.first, members.last, strict=True)}
    assert kept == {name for name in people if set(name) <= set(words)}
    found = read_examination(corpus.path)
    assert found.n_not_one_token == 6 - len(kept) > 0
    for name in full_names(names_of(corpus, "easy", "hard", "recombined", "matched")):
        assert set(name.lower().split()) <= set(words)


def test_nothing_is_left_of_a_corpus_that_was_stopped_or_refused(
    notes: Path, tmp_path: Path
) -> None:
    seen: list[Progress] = []
    out = tmp_path / "out" / "c"
    order = CorpusTask(notes=notes, **CANARIES)
    make_corpus(order, out=tmp_path / "whole", progress=seen.append)
    phases = list(dict.fromkeys(report.phase for report in seen))
    assert phases[-1] == "drawing candidates" and seen[-1].share == 1
    assert [r.done for r in seen] == sorted(r.done for r in seen)
    for phase in phases:
        reached: list[str] = []
        with pytest.raises(AuditCancelled):
            make_corpus(
                order, out=out, progress=lambda r, to=reached: to.append(r.phase),
                should_stop=lambda to=reached, p=phase: p in to,
            )  # fmt: skip
        assert list(out.parent.iterdir()) == []
    with pytest.raises(AuditError, match="notes are needed"):
        make_corpus(CorpusTask(notes=notes, canary_counts=(999,)), out=out)
    assert list(out.parent.iterdir()) == []
    make_corpus(order, out=out)
    assert contents(out) == contents(tmp_path / "whole")
    with pytest.raises(AuditError, match="something already"):
        make_corpus(order, out=out)


def test_what_a_killed_process_left_is_cleared(notes: Path, tmp_path: Path) -> None:
    left = building_folder(tmp_path / "c") / "corpus"
    left.mkdir(parents=True)
    (left / "private.jsonl").write_text("half")
    corpus = made(tmp_path / "c", notes)
    assert len(lines(corpus.path / "private.jsonl")) == len(dummy_rows())
    assert not left.parent.exists()
