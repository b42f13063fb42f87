"""The example of each user runs as its first lines say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from audit.home import HOME_VARIABLE
from tests.repository import REPOSITORY

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def home_of_examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of all examples: two of them ask the same question."""
    return tmp_path_factory.mktemp("examples") / "home"


def output_of(name: str, *, out: Path, home: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{name}", str(out)],
        cwd=REPOSITORY,
        env=os.environ | {HOME_VARIABLE: str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_privacy_officer_gets_a_verdict_and_the_files(home_of_examples, tmp_path):
    out = tmp_path / "report"
    lines = output_of("privacy_officer", out=out, home=home_of_examples)
    assert lines[1].startswith("Names stand out, membership not shown:")
    assert set(lines[2:]) == {str(path) for path in out.iterdir()}


def test_a_researcher_gets_a_table_and_a_figure(home_of_examples, tmp_path):
    figure = tmp_path / "figure.html"
    lines = output_of("researcher", out=figure, home=home_of_examples)
    aucs = {words[0]: float(words[1]) for words in map(str.split, lines[1:-1])}
    assert set(aucs) == {"difference", "log_ratio", "mean_log_ratio", "residual"}
    assert all(0.85 < auc < 1 for auc in aucs.values())
    assert "score: residual" in figure.read_text(encoding="utf-8")


def test_a_data_officer_gets_the_notes_and_what_was_missed(home_of_examples, tmp_path):
    out = tmp_path / "notes"
    lines = output_of("data_officer", out=out, home=home_of_examples)
    assert lines[0] == f"200 notes: {out}"
    assert len(list(out.iterdir())) == 200
    identifiers = next(line.split() for line in lines if line.startswith("identifier"))
    assert float(identifiers[3]) > 0.97
