"""Hostile input by the hundred and by the thousand: no traceback, nothing wrong or lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.home import HOME_VARIABLE
from audit.models.registry import VARIABLE
from benchmarks.hostile_inputs import run
from tests.repository import many

FEW = {"tables": 600, "notes": 600, "models": 30, "log": 150, "tokenizers": 60, "causal": 300}
MOST = 1_000
"""Maximum for causal models, of which each is loaded and used in a process of its own."""
FAILURES = ("tracebacks", "wrong", "lost", "hung")


def failures(kind: str, n_inputs: int, *, seed: int, folder: Path) -> dict[str, int]:
    told = run(kind, n_inputs, seed=seed, folder=folder)
    assert told["read"] + told["refused"] == n_inputs
    assert told["read"] and told["refused"]
    return {key: told[key] for key in FAILURES if told[key]}


@pytest.fixture(autouse=True)
def _environment(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))  # put back when the test ends
    monkeypatch.setenv(VARIABLE, "")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:fan_in_fan_out")  # peft corrects its own setting for GPT-2
@pytest.mark.parametrize("kind", FEW)
def test_hostile_inputs_are_read_or_refused(kind, tmp_path):
    n_inputs = many(FEW[kind]) if kind != "causal" else min(many(FEW[kind]), MOST)
    assert failures(kind, n_inputs, seed=1, folder=tmp_path) == {}


def test_a_tokenizer_that_takes_too_long_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.hostile_inputs.HUNG_SECONDS", -1)
    assert failures("tokenizers", 11, seed=1, folder=tmp_path) == {"hung": 11}


@pytest.mark.parametrize("kind", ["tables", "notes", "log"])
def test_a_reader_that_errs_is_noticed(kind, tmp_path, monkeypatch):
    from audit import access_log
    from audit.notes import read
    from audit.tables import read_table

    verify, checked = access_log.verify, read.make_note
    monkeypatch.setattr(access_log, "verify", lambda _: verify())
    monkeypatch.setattr(
        "benchmarks.hostile_inputs.read_table",
        lambda data, subject: read_table(data.replace(b"NA", b""), subject=subject),
    )
    monkeypatch.setattr(
        read, "make_note", lambda found, row: checked({**found, "text": "x"}, row=row)
    )
    assert failures(kind, 200, seed=1, folder=tmp_path)
