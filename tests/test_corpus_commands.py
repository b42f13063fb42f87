"""The corpus commands: every placeholder through the command line, hard files, plain refusals."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from audit.cli import main
from audit.names.files import read_names
from audit.notes.passages import read_passages
from tests.corpora.make_notes import CATEGORIES, every_category, note_row, write_notes
from tests.curation.make_corpora import (
    KNOWN,
    contents,
    dummy_notes,
    dummy_rows,
    lines,
    register_files,
)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any, str]:
    code = main(["corpus", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else None, err


def test_every_category_through_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        note_row(i, patient=i % 3, stay=i % 2, text=f"{every_category(number=str(i % 4))}\r\nend é")
        for i in range(1, 9)
    ]
    notes = write_notes(tmp_path / "NOTEEVENTS.csv", rows)
    folders = []
    for name, workers in (("a", 1), ("b", 2)):
        folders.append(tmp_path / name)
        code, found, _ = call(
            capsys, "build", "--notes", notes, "--seed", 5, "--workers", workers,
            "--out", folders[-1], "--json",
        )  # fmt: skip
        assert code == 0 and found["corpus"]["n_notes"] == 8 and found["unknown"] == []
    assert contents(folders[0]) == contents(folders[1])
    known = {each["category"] for each in found["inserted"]}
    assert set(CATEGORIES) <= known
    private, public, truth = (
        lines(folders[0] / f"{name}.jsonl") for name in ("private", "public", "truth")
    )
    names: dict[tuple[str, str], set[str]] = {}
    for old, new, record, row in zip(public, private, truth, rows, strict=True):
        assert old["text"] == row[-1]
        for place in record["inserted"]:
            assert new["text"][place["start"] : place["stop"]] == place["value"]
            written = old["text"][place["source_start"] : place["source_stop"]]
            assert re.fullmatch(r"\[\*\*[^\]]*\*\*\]", written)
            if place["kind"] in ("first", "last"):
                key = (place["identity"], place["kind"])
                names.setdefault(key, set()).add(place["value"])
        assert "[**" not in new["text"]
    assert len(names) > 10 and all(len(values) == 1 for values in names.values())


@pytest.mark.parametrize("kind", ["csv.gz", "jsonl", "parquet", "folder"])
def test_hard_files_are_built_and_refusals_counted(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [str(row[-1]) for row in dummy_rows(3)] + ["  ", "a\0b"]
    path = tmp_path / f"n.{kind}"
    if kind == "csv.gz":
        write_notes(
            tmp_path / "n.csv", [note_row(i, patient=1, text=t) for i, t in enumerate(texts)]
        )
        path.write_bytes(gzip.compress((tmp_path / "n.csv").read_bytes()))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({"body": t, "mrn": 1}) + "\n" for t in texts) + "{bad\n")
    elif kind == "parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"body": texts}), path)
    else:
        (path / "p1").mkdir(parents=True)
        for i, text in enumerate(texts):
            (path / "p1" / f"{i}.txt").write_text(text)
    column = ["--column", "text=body"] if kind in ("jsonl", "parquet") else []
    code, found, err = call(capsys, "build", "--notes", path, *column, "--json")
    assert code == 0, err
    n_refused = 3 if kind == "jsonl" else 2
    assert found["corpus"]["n_notes"] == len(texts) - 2
    assert found["n_refused"] == n_refused == sum(each["n"] for each in found["refused"])
    assert found["n_occurrences"] == 6


def test_from_notes_to_a_list_and_passages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = dummy_notes(tmp_path)
    code, built, err = call(
        capsys, "build", "--notes", notes, "--title", "Mine", "--canaries", "1,2",
        "--canary-names", 2, "--sample", 20, "--json",
    )  # fmt: skip
    assert code == 0 and "table 4" in err and "Spaceship" in err + "Spaceship"
    corpus_id = built["corpus"]["corpus_id"]
    assert call(capsys, "list", "--json")[1]["corpora"] == [built["corpus"]]
    code, found, _ = call(capsys, "mentions", "--corpus", corpus_id, "--json")
    assert found["coverage"]["forms"]["is_a"] > 9 and found["canaries"] == [[1, 2], [2, 2]]
    code, written, _ = call(
        capsys, "candidates", "--corpus", built["folder"], "--out", tmp_path / "lists",
        "--controls", "easy,hard,recombined", "--keep", "--json",
    )  # fmt: skip
    assert code == 0 and set(written["by_role"]) == {"canary", "patient"}
    names = read_names((tmp_path / "lists" / "names.csv").read_bytes())
    passages = read_passages((tmp_path / "lists" / "passages.jsonl").read_bytes())
    assert len(names.candidates) == written["n_names"] and len(passages) == written["n_passages"]
    assert re.fullmatch("[0-9a-f]{12}", written["names"])
    code, checked, _ = call(
        capsys, "check", "--corpus", corpus_id, "--names", tmp_path / "lists" / "names.csv",
        "--json",
    )  # fmt: skip
    assert code == 0 and checked["n_members_in_full"] == checked["n_members"]
    assert call(capsys, "forget", corpus_id)[0] == 0
    assert call(capsys, "list", "--json")[1] == {"corpora": []}


def test_mentions_of_plain_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = tmp_path / "n.jsonl"
    texts = ["Seen: Ada Quist is a 42 year old woman.", "The patient is a 3 day old boy."]
    notes.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    _, found, err = call(capsys, "mentions", "--notes", notes, "--json")
    (mention,) = found["mentions"]
    assert texts[0][mention["name_start"] : mention["name_end"]] == "Ada Quist"
    assert (mention["row"], mention["form"], found["n_mentions"]) == (1, "is_a", 1)
    assert "Quist" not in json.dumps(found) + err
    _, found, _ = call(capsys, "mentions", "--notes", notes, "--names", "--json")
    assert found["mentions"][0]["last"] == "Quist"
    assert main(["corpus", "mentions", "--notes", str(notes), "--names"]) == 0
    out, err = capsys.readouterr()
    assert (
        out.replace('"', "").split() == ["first,last,n_mentions", "Ada,Quist,1"]
        and "Quist" not in err
    )


def test_a_corpus_with_a_register(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes, register = register_files(tmp_path)
    code, found, err = call(
        capsys, "build", "--notes", notes, "--register", register, "--left", "--json"
    )
    assert code == 0 and found["corpus"]["kind"] == "register"
    assert found["n_positives"] == 2 and "Sandoval" not in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["build", "--notes", "missing.csv"], "not there"),
        (["build", "--notes", "n.csv", "--canaries", "a"], "no whole numbers"),
        (["build", "--notes", "n.csv", "--column", "body"], "no FIELD=NAME"),
        (["build", "--notes", "n.csv", "--canaries", "500"], "notes are needed"),
        (["mentions", "--corpus", "0123456789ab"], "This is not kept here"),
        (["mentions", "--corpus", "0123456789ab", "--names"], "It goes with --notes"),
        (["mentions", "--notes", "one.txt"], "one text, not a table"),
        (["candidates", "--corpus", "."], "It is damaged"),
    ],
)
def test_bad_input_is_told_in_words(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_notes(tmp_path / "n.csv", [note_row(1, patient=1, text=KNOWN.format(n=1))])
    (tmp_path / "one.txt").write_text("Ada Quist is a 42 year old woman.")
    code, _, err = call(capsys, *arguments)
    assert code == 2 and words in err
