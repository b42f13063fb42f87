"""The walk from notes to the paper's tables, with a tiny model and two seeds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import deid_walk
from benchmarks.demo_causal import CausalRecipe

TINY = deid_walk.WalkRecipe(
    n_base_notes=24,
    n_training_notes=48,
    n_validation_notes=4,
    n_test_notes=12,
    n_chars=100,
    model=CausalRecipe(n_vocabulary=300, width=16, inner_width=32, n_layers=1, n_positions=512),
    n_rows=8,
)


@pytest.mark.long
def test_two_seeds_are_walked_through_and_joined_in_the_papers_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    words = ["walk", "--out", str(tmp_path), "--seeds", "1", "2", "--json", str(figures)]
    monkeypatch.setattr(sys, "argv", words)
    deid_walk.main(TINY)
    printed = capsys.readouterr().out
    answers = json.loads(figures.read_text())
    assert answers.keys() == {"1", "2"}
    golds = [
        answer["criteria"]["label_relaxed"]["together"]["n_gold"] for answer in answers.values()
    ]
    tables = printed.split("**Table ")[1:]
    assert [table[:1] for table in tables] == ["3", "4"]
    measures_of_tables = ("precision | recall | f1", "complete | clean | exact")
    for table, measures in zip(tables, measures_of_tables, strict=True):
        assert measures in table and "; paper 98" in table
        rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")][2:]
        assert sum(int(row[2].replace(",", "")) for row in rows) == sum(golds)
    for seed in ("1", "2"):
        assert "**Table 3" in (tmp_path / f"seed-{seed}" / "tables.md").read_text()
    weights = tmp_path / "seed-1" / "tagger" / "model" / "model.safetensors"
    changed = weights.stat().st_mtime_ns
    deid_walk.main(TINY)
    assert weights.stat().st_mtime_ns == changed
    assert capsys.readouterr().out.split("**Table ")[1:] == tables
