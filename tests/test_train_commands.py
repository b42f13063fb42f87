"""`python -m audit pretrain`: the same training as a job, with its result as JSON."""

from __future__ import annotations

import json

import pytest

from audit.cli import main
from audit.models.load import load_model
from tests.models.make_models import make_bert
from tests.training.make_training import write_notes

QUICK = (
    "--tokens", "16", "--batch", "8", "--steps", "6", "--learning-rate", "1e-3", "--held-out",
    "0.1", "--evaluate-every", "3", "--precision", "float32", "--device", "cpu", "--json",
)  # fmt: skip


@pytest.fixture
def given(tmp_path, monkeypatch):
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    make_bert(tmp_path / "general", n_positions=32, scale=0.02)
    write_notes(tmp_path / "notes.jsonl")
    return ("pretrain", "--general", str(tmp_path / "general"), "--notes",
            str(tmp_path / "notes.jsonl"))  # fmt: skip


def test_a_training_into_a_folder(given, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([*given, "--out", str(out), "--snapshots", "0.1", *QUICK]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["n_steps"] == 6 and told["source"] == "file"
    assert told["settings"]["micro_batch"] == 8  # the largest that divides the batch
    assert load_model(out / "model").digest != told["parent_digest"]
    (snapshot,) = told["snapshots"].values()
    load_model(type(out)(snapshot))
    assert main([*given, "--out", str(out), "--snapshots", "0.1", *QUICK]) == 0
    assert json.loads(capsys.readouterr().out) == told


def test_a_training_that_is_kept_is_a_job_of_the_list(given, tmp_path, capsys):
    assert main([*given, "--title", "Ours", *QUICK]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (tmp_path / "home" / "models" / told["run_id"] / "model").is_dir()
    assert main(["jobs", "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["kind"], job["state"], job["result"]) == ("pretrain", "done", [told["run_id"]])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--tokens", "64"), "longer than the 32"),
        (("--batch", "0"), "batch: must be a whole number"),
        (("--micro-batch", "3"), "no multiple"),
        (("--column", "text"), "no FIELD=NAME"),
        (("--snapshots", "one"), "no numbers"),
        (("--snapshots", "100"), "A snapshot after step"),
    ],
)
def test_bad_input_is_said_in_one_paragraph(given, tmp_path, capsys, wrong, said):
    assert main([*given, "--out", str(tmp_path / "out"), *QUICK, *wrong]) == 2
    text = capsys.readouterr().err
    assert said in text and "Traceback" not in text


def test_another_training_in_the_same_folder_is_refused(given, tmp_path, capsys):
    out = ("--out", str(tmp_path / "out"))
    assert main([*given, *out, *QUICK]) == 0
    assert main([*given, *out, *QUICK, "--seed", "1"]) == 2
    assert "holds another training" in capsys.readouterr().err
