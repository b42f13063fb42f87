"""The command `deid build`: what it makes, says and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.cli import main


def _notes(path: Path) -> Path:
    rows = [{"id": str(i), "text": f"症例は{40 + i}歳，男性．軽快した．{i}"} for i in range(20)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _run(*options: object) -> int:
    return int(main(["deid", "build", *map(str, options)]) or 0)


def test_a_corpus_is_built_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = _notes(tmp_path / "n.jsonl")
    sizes = ("--validation", 3, "--test", 2, "--train", 10)
    assert _run("--notes", notes, "--out", tmp_path / "o", *sizes, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["splits"] == {"train": 10, "validation": 3, "test": 2, "rest": 5}
    assert told["n_templates"] == 20
    assert told["leaks"]["is_clean"]
    kept = json.loads((tmp_path / "o/summary.json").read_text("utf-8"))
    assert kept["n_spans"] == told["n_spans"]


def test_what_cannot_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = _notes(tmp_path / "n.jsonl")
    out = tmp_path / "o"
    assert _run("--notes", notes, "--out", out, "--test", 3) != 0
    assert "all three sizes" in capsys.readouterr().err
    assert _run("--notes", notes, "--out", out, "--typer", tmp_path) != 0
    assert "no model directory" in capsys.readouterr().err
    assert not out.exists()
