"""`python -m audit experiment`: one small experiment from the command line, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from audit.cli import main
from audit.models.inspect import model_digest
from audit.training.config import largest_pass
from cache.store import Store
from tests.experiment.small_experiment import GENERAL, write_notes

SMALL = (
    "--batch", 8, "--tokens", 32, "--learning-rate", "1e-3", "--documents", 2, "--steps", 2,
    "--inputs", 20, "--epochs", "0.5", "--all-names", "--device", "cpu", "--json",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def given(tmp_path: Path) -> tuple[object, ...]:
    write_notes(tmp_path)
    return ("experiment", "--notes", tmp_path / "notes.csv", "--general", GENERAL,
            "--out", tmp_path / "out")  # fmt: skip


def test_one_command_goes_from_notes_to_tables(given, tmp_path, capsys):
    code, out, err = call(capsys, *given, *SMALL, "--canaries", "1,3", "--canary-names", 3)
    assert code == 0, err
    tables = json.loads(out)
    assert [row["epochs"] for row in tables["table1"]] == [0.5] * 4
    assert tables["table4"] == [[2, 8], [1, 8]]
    assert [row["n_mentions"] for row in tables["canaries"]] == [1, 3, 1, 3]
    assert "**Table 1." in err
    assert "**Table 1." in (tmp_path / "out" / "tables.md").read_text()
    _, listed, _ = call(capsys, "jobs", "--json")
    (job,) = json.loads(listed)["jobs"]
    assert (job["kind"], job["state"]) == ("experiment", "done")
    with Store(tmp_path / "home" / "results") as store:
        reports = [store.get_record(f"audit/{digest}") for digest in job["result"]]
    assert [report["scenario"]["number"] for report in reports] == [2, 1]
    assert {r["models"]["general"]["digest"] for r in reports} == {model_digest(GENERAL)}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--epochs", "2,1"), "epochs"),
        (("--general", "/nowhere"), "--general"),
        (("--batch", "0"), "batch"),
        (("--documents", "0"), "documents"),
        (("--canaries", "0"), "canar"),
        (("--notes", "/nowhere.csv"), "notes"),
    ],
)
def test_what_cannot_be_is_said_plainly(given, capsys, wrong, said):
    code, out, err = call(capsys, *given, *SMALL, *wrong)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("wrong", [("--epochs", "one"), ("--column", "text"), ("--canaries", "a")])
def test_what_is_no_number_is_said_plainly(given, capsys, wrong):
    code, _, err = call(capsys, *given, *wrong)
    assert code == 2
    assert wrong[0] in err


@pytest.mark.parametrize(("batch", "rows"), [(64, 32), (48, 24), (7, 7), (37, 1), (1, 1), (0, 1)])
def test_a_forward_pass_takes_rows_that_divide_the_step(batch, rows):
    assert largest_pass(batch) == rows
