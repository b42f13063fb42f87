"""Controls out of a register: people of the hospital who are in none of the training notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.cli import main
from audit.corpus.candidate_lists import MAX_POSITIVES, read_list
from audit.corpus.own_controls import add_own_controls
from audit.names.files import encode_names_csv, read_names
from tests.corpus.make_notes import dummy_notes, lines, made, register_files

REGISTER = """patient_id,first_name,last_name,sex,telephone,household
1,Anna,Sandoval,F,,
2,Boris,Youngblood,M,617-555-0100,
3,Carla,Overton,F,,H 7
4,Dan,Quill,M,,
5,Dan,Quill,M,,
6,Eve,Rusk,F,,
7,Fay,Stone,F,617-555-0100,
8,Gil,Tully,M,,H 7
9,Hal,Unger,M,,
10,Ida,Voss,F,,
11,Boris,Sandoval,M,,
"""
NOTES = (
    ("1", "Anna Sandoval is a 42 year old woman. Better."),
    ("2", "Boris Youngblood is a 50 year old man. Seen beside HAL UNGER. Carla Overton came."),
    ("3", "Carla Overton is a 50 year old woman. Better."),
    ("2", "Voss, Ida called. Boris is well."),
)


def write_files(folder: Path, register: str = REGISTER) -> dict[str, Path]:
    notes, path = folder / "notes.jsonl", folder / "register.csv"
    notes.write_text(
        "".join(f"{json.dumps({'patient_id': n, 'text': text})}\n" for n, text in NOTES)
    )
    path.write_text(register)
    return {"notes": notes, "register_file": path}


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any, str]:
    code = main(["corpus", "candidates", "--json", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else None, err


def test_who_is_registered_and_in_no_training_note_is_a_control(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write_files(tmp_path)
    corpus = made(tmp_path / "c", **files)
    options = (
        "--corpus",
        corpus.path,
        "--out",
        tmp_path / "lists",
        "--own-controls-from",
        files["register_file"],
    )
    code, result, err = call(capsys, *options)
    assert code == 0 and (result["by_kind"], result["control_source"]) == ({"own": 3}, "own")
    # Carla Overton stands in Boris Youngblood's note, Hal Unger and Ida Voss in others'; Fay Stone
    # lives with him, and Gil Tully with Carla Overton.
    assert result["left_out"] == {"members": 1, "controls": 2, "households": 2}
    assert "1 members and 2 controls" in err and "training notes: 2 people" in err
    assert not [name for name in ("Overton", "Unger", "Tully") if name in err]
    data = (tmp_path / "lists" / "names.csv").read_bytes()
    names = read_names(data).candidates
    named = {names.full_name(row): (names.is_member[row], names.sex[row]) for row in range(5)}
    assert named == {
        "Anna Sandoval": (True, "F"),
        "Boris Youngblood": (True, "M"),
        "Dan Quill": (False, "M"),
        "Eve Rusk": (False, "F"),
        "Boris Sandoval": (False, "M"),
    }
    assert names.source == "own" and encode_names_csv(names) == data
    # Of the notes that name Carla Overton, none has a part of a listed name.
    assert {names.n_others(row) for row in range(len(names))} == {(0, 0)}
    assert (
        main(
            [
                "corpus",
                "check",
                "--corpus",
                str(corpus.path),
                "--names",
                str(tmp_path / "lists" / "names.csv"),
            ]
        )
        == 0
    )
    assert "0 of 3 controls stand in D_private" in capsys.readouterr().err
    _, output, _ = call(capsys, *options, "--controls", "easy")
    assert output["control_source"] == "own" and output["by_kind"] == {"easy": 3, "own": 3}
    # Without a register the members are as they were.
    _, plain, _ = call(capsys, *options[:4])
    assert (plain["control_source"], plain["n_members"], plain["left_out"]) == ("drawn", 3, {})


def test_who_carries_a_listed_part_is_counted_anew_for_the_list(tmp_path: Path) -> None:
    register = REGISTER.replace("6,Eve,Rusk", "6,Eve,Overton")
    files = write_files(tmp_path, register)
    corpus = made(tmp_path / "c", **files)
    names = add_own_controls(corpus, read_list(corpus, controls=()), files["register_file"])
    counts = {names.candidates.full_name(row): names.candidates.n_others(row) for row in range(5)}
    # Carla Overton is left out of the members, so that she is somebody else in two notes.
    assert counts["Eve Overton"] == (0, 2) and counts["Anna Sandoval"] == (0, 0)


def test_held_out_people_whom_no_training_note_has_are_own_controls_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write_files(tmp_path)
    corpus = made(tmp_path / "c", hold_out="0.34", **files)
    (held_out,) = [
        one["names"][0] for one in lines(corpus.path / "people.jsonl") if "is_held_out" in one
    ]
    own_controls = add_own_controls(corpus, read_list(corpus, controls=()), files["register_file"])
    full_names = {
        own_controls.candidates.full_name(row) for row in range(len(own_controls.candidates))
    }
    text = (corpus.path / "private.jsonl").read_text()
    name = f"{held_out[0]} {held_out[2]}"
    assert (name in full_names) == (name not in text)
    code, _, err = call(
        capsys,
        "--corpus",
        corpus.path,
        "--out",
        tmp_path / "l",
        "--controls",
        "held_out",
        "--own-controls-from",
        files["register_file"],
    )
    assert code == 2 and "A list has held-out controls or own ones" in err


def test_of_many_people_as_many_are_drawn_as_a_list_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_POSITIVES == 20_000
    monkeypatch.setattr("audit.corpus.candidate_lists.MAX_POSITIVES", 40)
    more_rows = "".join(
        f"{100 + n},Q{'abcdefghij'[n // 10]}x,Z{'abcdefghij'[n % 10]}y,,,\n" for n in range(100)
    )
    files = write_files(tmp_path, REGISTER + more_rows)
    corpus = made(tmp_path / "c", **files)

    def draw_names() -> tuple[str, ...]:
        own_controls = add_own_controls(
            corpus, read_list(corpus, controls=()), files["register_file"]
        )
        return own_controls.candidates.last

    assert draw_names() == draw_names() and len(draw_names()) == 2 + 40


def test_japanese_names_are_found_without_spaces(tmp_path: Path) -> None:
    notes, register = register_files(tmp_path, is_japanese=True)
    with register.open("a", encoding="utf-8") as file:
        file.write("3,佐藤,一郎,男,\n4,高橋,健太,男,\n")
    with notes.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"patient_id": "1", "text": "付き添いは佐藤一郎。"}) + "\n")
    corpus = made(tmp_path / "c", notes, register_file=register)
    own_controls = add_own_controls(corpus, read_list(corpus, controls=()), register)
    names = own_controls.candidates
    controls = [row for row, is_member in enumerate(names.is_member) if is_member is False]
    assert [*map(names.full_name, controls)] == ["高橋健太"]
    assert own_controls.n_dropped_controls == 1


def test_registers_that_give_no_controls_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write_files(tmp_path)
    corpus = made(tmp_path / "c", **files)
    invented = made(tmp_path / "d", dummy_notes(tmp_path))
    known_rows = "".join(REGISTER.splitlines(keepends=True)[:4])
    for place, register, words in (
        (corpus, known_rows, "Everybody in the register has training notes"),
        (invented, REGISTER, "The names in these notes were invented"),
        (corpus, "a,b\n1,2\n", "These columns are not understood"),
    ):
        (tmp_path / "r.csv").write_text(register)
        code, _, err = call(
            capsys,
            "--corpus",
            place.path,
            "--out",
            tmp_path / "l",
            "--own-controls-from",
            tmp_path / "r.csv",
        )
        assert code == 2 and words in err and "register: " in err
    assert not (tmp_path / "l").exists()
