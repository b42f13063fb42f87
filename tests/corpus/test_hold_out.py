"""Held-out people: drawn whole and at random, in neither corpus, and the controls of a list."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from audit.cli import main
from audit.corpus.candidate_lists import read_list
from audit.corpus.corpora import CORPORA, KeptCorpus
from audit.corpus.examine import HeldOutCounts, read_examination
from audit.corpus.make import DRAW, CorpusTask, make_corpus, phases
from audit.corpus.other_names import OTHER_NAMES, write_other_names
from audit.corpus.truth import NoteTruth, places_of
from audit.errors import AuditCancelled, AuditError
from audit.names.files import encode_names_csv, read_names
from audit.notes.read import open_notes
from audit.patients.households import MAX_SHARING, read_households
from pages.ui.state import words_of
from tests.corpus.make_notes import (
    check_places,
    dummy_notes,
    lines,
    made,
    note_row,
    register_files,
    write_notes,
)

BOTH = ("private.jsonl", "public.jsonl")


def held_out_people(corpus: KeptCorpus) -> dict[str, str]:
    """Return the full names of the held-out patients, by their numbers."""
    people = [person for person in lines(corpus.path / "people.jsonl") if person.get("is_held_out")]
    names = (
        person["names"][0] if "names" in person else (person["first"], "", person["last"])
        for person in people
    )
    return {
        person["patient_id"]: f"{name[0]} {name[2]}"
        for person, name in zip(people, names, strict=True)
    }


def by_row(path: Path) -> dict[int, dict[str, Any]]:
    return {line["row"]: line for line in lines(path)}


def counts(corpus: KeptCorpus) -> HeldOutCounts:
    held_out = read_examination(corpus.path).held_out
    assert held_out is not None
    return held_out


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return dummy_notes(tmp_path, n_patients=12)


@pytest.mark.parametrize("hold_out", ["0.3", "30 %", "4"])
def test_held_out_notes_are_in_neither_corpus_and_are_what_they_would_be(
    hold_out: str, notes: Path, tmp_path: Path
) -> None:
    plain = made(tmp_path / "plain", notes, seed=1)
    corpus = made(tmp_path / "c", notes, seed=1, hold_out=hold_out)
    people = held_out_people(corpus)
    assert len(people) == corpus.n_held_out == 4 == 12 - corpus.n_patients
    held_out = by_row(corpus.path / "held_out.jsonl")
    assert {note["patient_id"] for note in held_out.values()} == set(people)
    for name in BOTH:
        all_notes, kept_notes = by_row(plain.path / name), by_row(corpus.path / name)
        assert {row for row, note in all_notes.items() if note["patient_id"] in people} == {
            *held_out
        }
        assert kept_notes == {row: note for row, note in all_notes.items() if row not in held_out}
        data = (corpus.path / name).read_bytes()
        # One of the staff has the name of a held-out patient by chance.
        rows = [one for one in people.values() if one.encode() in data]
        assert rows == (["Paul Williams"] if name == "private.jsonl" else [])
    private = by_row(plain.path / "private.jsonl")
    assert held_out == {row: private[row] for row in held_out}
    public = by_row(plain.path / "public.jsonl")
    for row, record in by_row(corpus.path / "held_out_truth.jsonl").items():
        check_places(
            NoteTruth(private[row]["text"], public[row]["text"], places_of(record["inserted"]))
        )
    found = counts(corpus)
    assert (found.n_patients, found.n_notes, found.n_named) == (4, len(held_out), 4)
    assert (found.n_controls, found.n_dropped_controls) == (3, 1)
    listed = read_list(corpus)
    controls = [row for row, is_member in enumerate(listed.is_member) if not is_member]
    assert {*map(listed.full_name, controls)} == {*people.values()} - {"Paul Williams"}
    assert read_examination(corpus.path).n_notes == corpus.n_notes == len(private) - len(held_out)


@pytest.mark.long
def test_who_is_held_out_is_drawn_by_the_seed_alone(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = (*BOTH, "held_out.jsonl", "held_out_truth.jsonl", "candidates.csv")

    def draw_people(name: str, **choices: Any) -> tuple[frozenset[str], list[bytes]]:
        corpus = made(tmp_path / name, notes, **choices)
        people = frozenset(held_out_people(corpus))
        return people, [(corpus.path / file).read_bytes() for file in files]

    first = draw_people("a", seed=1, hold_out="4")
    monkeypatch.setattr("audit.corpus.make._BATCH_CHARS", 700)
    assert draw_people("b", seed=1, hold_out="4", workers=2) == first
    assert draw_people("c", seed=1, hold_out="4", canary_counts=(1, 2), n_canaries=2)[0] == first[0]
    other_people = [draw_people(f"seed {seed}", seed=seed, hold_out="4")[0] for seed in range(2, 6)]
    assert len({first[0], *other_people}) > 3
    # Nobody is always or never held out: each of 12 is in 4 of 12 draws on average.
    assert len(first[0].union(*other_people)) > 8


def test_a_share_is_of_all_patients_and_a_number_is_of_those_who_are_named(tmp_path: Path) -> None:
    known_ids = (
        "[**Known firstname {n}**] [**Known lastname {n}**] is a 42 year old man. He is well."
    )
    texts = [known_ids.format(n=patient) if patient < 5 else "He is well." for patient in range(40)]
    rows = [note_row(n, patient=n, text=text) for n, text in enumerate(texts)]
    notes = write_notes(tmp_path / "n.csv", rows)
    corpus = made(tmp_path / "number", notes, hold_out="3")
    assert set(held_out_people(corpus)) < {"0", "1", "2", "3", "4"}
    assert (counts(corpus).n_patients, counts(corpus).n_named, counts(corpus).n_controls) == (
        3,
    ) * 3
    assert read_list(corpus).is_member.count(True) == 2
    by_share = made(tmp_path / "share", notes, hold_out="0.5")
    assert counts(by_share).n_patients == 20 and counts(by_share).n_named < 5
    for hold_out, words in (
        ("5", "Only 5 people are named in their own notes; 5 of them cannot be held out"),
        ("600", "Only 5 people are named"),
        ("0.99", "There are notes of 40 patients; nobody would be left"),
    ):
        with pytest.raises(AuditError, match=words):
            made(tmp_path / "out" / "c", notes, hold_out=hold_out)
        assert not [*(tmp_path / "out").iterdir()]


@pytest.mark.parametrize("hold_out", ["0", "1.5", "100%", "0 %", "-3", "many", "10 of 20", "1e3"])
def test_what_is_neither_a_share_nor_a_number_is_refused(hold_out: str, tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="share of the patients"):
        CorpusTask(notes=tmp_path / "n.csv", hold_out=hold_out)


HOMES = """patient_id,first_name,last_name,address,telephone,relatives,household
1,Anna,Sandoval,"12 Main Street, Boston",,,
2,Boris,Youngblood,"12 MAIN STREET BOSTON",,,
3,Carla,Overton,Boston,617-555-0199,,
4,Dora,Poe,Boston,,"friend: Carla Overton",
5,Ed,Quill,,+1 (617) 555 0199,,
6,Fay,Rusk,,,,H 1
7,Gil,Stone,,,,h 1
8,Hal,Tully,,,"wife: Ida Unger",
9,Ida,Unger,,,,
10,Ida,Unger,,,,
"""


def test_a_register_tells_who_lives_together(tmp_path: Path) -> None:
    register = tmp_path / "register.csv"
    register.write_text(HOMES)
    # Two are called Ida Unger: nobody knows whose wife which is.
    assert read_households(register) == {
        "1": "1",
        "2": "1",
        "3": "3",
        "4": "3",
        "5": "3",
        "6": "6",
        "7": "6",
    }
    rows = [f"{n},9 Elm Road\n" for n in range(MAX_SHARING + 1)]
    register.write_text("".join(["patient_id,address\n", *rows]))
    assert read_households(register) == {}  # an institution
    register.write_text("".join(["patient_id,address\n", *rows[1:]]))
    assert {*read_households(register).values()} == {"1"}


def identified(folder: Path, notes: dict[str, str] | None = None) -> dict[str, Path]:
    """Write identified notes, a note for each registered person unless others are given."""
    rows = [line.split(",")[:3] for line in HOMES.splitlines()[1:]]
    texts = notes or {
        number: f"{first} {last} is a 42 year old patient. All is well."
        for number, first, last in rows
    }
    path = folder / "notes.jsonl"
    path.write_text(
        "".join(f"{json.dumps({'patient_id': n, 'text': text})}\n" for n, text in texts.items())
    )
    (folder / "register.csv").write_text(HOMES)
    return {"notes": path, "register_file": folder / "register.csv"}


def test_people_of_one_household_are_held_out_together(tmp_path: Path) -> None:
    files, people = identified(tmp_path), set[frozenset[str]]()
    for seed in range(12):
        corpus = made(tmp_path / f"c{seed}", seed=seed, hold_out="1", **files)
        people.add(frozenset(held_out_people(corpus)))
    homes = {frozenset("12"), frozenset("345"), frozenset("67")}
    assert people & homes and people <= homes | {frozenset([home]) for home in ("8", "9", "10")}


def test_identified_notes_without_patients_cannot_be_held_out(tmp_path: Path) -> None:
    files = identified(tmp_path)
    (tmp_path / "notes.jsonl").write_text('{"text": "Anna Sandoval is a 42 year old woman."}\n')
    with pytest.raises(AuditError, match="No note says which patient"):
        made(tmp_path / "c", hold_out="0.5", **files)
    # In invented ones each note is a patient of its own.
    texts = [
        f"[**Known firstname {n}**] [**Known lastname {n}**] is a 42 year old man."
        for n in range(6)
    ]
    notes = tmp_path / "texts.csv"
    notes.write_text("text\n" + "".join(f"{text}\n" for text in texts))
    corpus = made(tmp_path / "d", notes, hold_out="2")
    assert (corpus.n_notes, corpus.n_held_out, counts(corpus).n_controls) == (4, 2, 2)


def test_a_name_that_others_notes_hold_is_left_out_on_both_sides(tmp_path: Path) -> None:
    texts = {
        "1": "Anna Sandoval is a 42 year old woman. Better.",
        "2": "Boris Youngblood is a 50 year old man. Seen beside Hal Tully and Fay Rusk.",
        "6": "Fay Rusk is a 50 year old woman. Better.",
        "8": "Hal Tully is a 50 year old man. Better.",
        "9": "Ida Unger is a 50 year old woman. Better.",
    }
    files = identified(tmp_path, texts)
    for seed in count():
        corpus = made(tmp_path / f"c{seed}", seed=seed, hold_out="2", **files)
        if set(held_out_people(corpus)) == {"8", "9"}:
            break
    listed = read_list(corpus)
    names = {listed.full_name(row): listed.is_member[row] for row in range(len(listed))}
    # Hal Tully was held out and stands in a training note; so does the member Fay Rusk.
    assert names == {"Anna Sandoval": True, "Boris Youngblood": True, "Ida Unger": False}
    assert (listed.source, listed.control_kind[-1]) == ("held_out", "held_out")
    held_out = counts(corpus)
    assert (
        held_out.n_named,
        held_out.n_controls,
        held_out.n_dropped_controls,
        held_out.n_dropped_members,
    ) == (
        2,
        1,
        1,
        1,
    )
    assert b"Ida" not in (corpus.path / "private.jsonl").read_bytes()
    # Other controls beside need no such care, and rest on nothing.
    easy_list = read_list(corpus, controls=("easy",))
    assert easy_list.source == "drawn" and easy_list.is_member.count(True) == 3


def test_a_list_with_held_out_controls_goes_through_the_names_file(
    notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, lists = tmp_path / "c", tmp_path / "lists"
    assert (
        main(
            [
                "corpus",
                "build",
                "--notes",
                str(notes),
                "--hold-out",
                "4",
                "--json",
                "--out",
                str(corpus),
            ]
        )
        == 0
    )
    built = json.loads(capsys.readouterr().out)
    assert built["held_out"]["n_patients"] == built["corpus"]["n_held_out"] == 4
    call = ["corpus", "candidates", "--corpus", str(corpus), "--out", str(lists), "--json"]
    assert main(call) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert (result["by_kind"], result["control_source"]) == ({"held_out": 4}, "held_out")
    assert result["left_out"] == {"members": 0, "controls": 0}
    assert "0 members and 0 controls" in err
    corpus_record = CORPORA.read_folder(corpus)
    read = read_names((lists / "names.csv").read_bytes()).candidates
    assert read.digest() == read_list(corpus_record).digest()
    assert (
        encode_names_csv(read)
        == encode_names_csv(read_list(corpus_record))
        == (lists / "names.csv").read_bytes()
    )
    assert set(map(read.full_name, range(8, 12))) == {*held_out_people(corpus_record).values()}
    assert main([*call, "--controls", "held_out,easy,recombined"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["control_source"] == "held_out"
    assert output["by_kind"] == {"easy": 8, "held_out": 4, "recombined": 8}
    assert main([*call, "--controls", "hard"]) == 0
    assert json.loads(capsys.readouterr().out)["control_source"] == "invented"
    check = ["corpus", "check", "--corpus", str(corpus), "--names", str(lists / "names.csv")]
    assert main(check) == 0
    assert "0 of 8 controls stand in D_private" in capsys.readouterr().err


def test_a_corpus_without_held_out_people_counts_none(notes: Path, tmp_path: Path) -> None:
    corpus = made(tmp_path / "c", notes)
    assert read_examination(corpus.path).held_out is None
    assert (corpus.n_held_out, read_list(corpus).source) == (0, "invented")
    assert not [*corpus.path.glob("held_out*")]
    with pytest.raises(AuditError, match="Nobody was held out of this corpus"):
        read_list(corpus, controls=("held_out",))
    held_out = made(tmp_path / "d", notes, hold_out="2")
    (held_out.path / "held_out.jsonl").unlink()
    with pytest.raises(AuditError, match="damaged"):
        CORPORA.read_folder(held_out.path)


def test_no_other_name_is_a_held_out_one_and_nobody_held_out_is_planted(
    notes: Path, tmp_path: Path
) -> None:
    corpus = made(tmp_path / "c", notes, hold_out="6", canary_counts=(1,), n_canaries=5)
    write_other_names(corpus, seed=3)
    other_notes = (corpus.path / OTHER_NAMES).read_text()
    names = held_out_people(corpus).values()
    assert not [name for name in names if name in other_notes]
    planted = read_list(corpus, roles=("canary",), controls=("held_out",))
    assert not {*names} & {planted.full_name(row) for row in range(10)}


def test_another_hold_out_is_another_corpus_and_one_that_is_stopped_leaves_nothing(
    notes: Path, tmp_path: Path
) -> None:
    orders = [CorpusTask(notes=notes, hold_out=text) for text in ("", "2", "3", "10%")]
    assert len({order.question().digest for order in orders}) == 4
    plan = {
        order.hold_out: [text.name for text in phases(order, open_notes(notes))] for order in orders
    }
    assert DRAW not in plan[""] and DRAW in plan["2"] and DRAW in plan["10%"]
    assert words_of("ja").text(f"jobs_stage_corpus_{DRAW.replace(' ', '_')}")
    out = tmp_path / "out" / "c"
    for phase in plan["2"]:
        reached: list[str] = []
        with pytest.raises(AuditCancelled):
            make_corpus(
                orders[1],
                out=out,
                progress=lambda r, to=reached: to.append(r.phase),
                should_stop=lambda to=reached, p=phase: p in to,
            )
        assert [*out.parent.iterdir()] == []
    assert CORPORA.read_folder(make_corpus(orders[1], out=out)).n_held_out == 2


def test_a_register_of_other_patients_holds_out_who_has_notes(tmp_path: Path) -> None:
    notes, register = register_files(tmp_path)
    corpus = made(tmp_path / "c", notes, register_file=register, hold_out="0.34")
    # Nobody Named is registered and has no note.
    assert corpus.n_held_out == 1 and corpus.n_patients == 3
    assert "4" not in held_out_people(corpus)
