"""A training that several processes share, as torchrun starts them: the same one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from audit.errors import AuditCancelled, AuditError
from audit.training.config import LossPoint, read_losses
from audit.training.pretraining import train
from tests.training.make_training import make_order, run_in_processes

OPTIONS = {
    "--tokens": 16,
    "--batch": 8,
    "--micro-batch": 2,
    "--learning-rate": 1e-3,
    "--held-out": 0.1,
    "--evaluate-every": 4,
    "--checkpoint-every": 4,
    "--precision": "float32",
    "--device": "cpu",
}


def train_in_processes(
    folder: Path, *, n_processes: int, **options: object
) -> subprocess.CompletedProcess[str]:
    """Train by the command line, with dropout, in so many processes."""
    arguments = OPTIONS | {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    arguments |= {"--general": folder / "general", "--notes": folder / "notes.jsonl"}
    parts = [part for option in arguments.items() for part in option]
    return run_in_processes("pretrain", *parts, n_processes=n_processes, home=folder / "home")


def curve(points: tuple[LossPoint, ...]) -> list[tuple[int, float | None, float | None]]:
    return [(point.step, point.loss, point.held_out) for point in points]


@pytest.mark.slow
@pytest.mark.parametrize("begun", ["anew", pytest.param("by one", marks=pytest.mark.slow)])
def test_two_processes_train_as_one(tmp_path: Path, begun: str) -> None:
    alone = train(make_order(tmp_path, out="alone", n_steps=8, micro_batch=2))
    steps: list[int] = []
    if begun == "by one":  # and stopped at a checkpoint
        with pytest.raises(AuditCancelled):
            train(
                make_order(tmp_path, out="both", n_steps=8, micro_batch=2),
                should_stop=lambda: len(steps) > 4,
                on_point=lambda point: steps.append(point.step),
            )
    process = train_in_processes(tmp_path, n_processes=2, out=tmp_path / "both", steps=8)
    assert process.returncode == 0, process.stderr
    report = json.loads(process.stdout)  # one object: the second process tells nothing
    assert report["n_steps"] == 8 and report["loss"] is not None
    shared_curve, lone_curve = curve(read_losses(tmp_path / "both")), curve(alone.points)
    assert [step for step, _, _ in shared_curve] == list(range(9))
    for (_, loss, held_out), (_, loss_alone, held_out_alone) in zip(
        shared_curve, lone_curve, strict=True
    ):
        assert loss == pytest.approx(loss_alone, abs=1e-5)
        assert held_out == pytest.approx(held_out_alone, abs=1e-5)
    ours, theirs = (
        load_file(tmp_path / name / "model" / "model.safetensors") for name in ("both", "alone")
    )
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, atol=1e-4, rtol=1e-3)
    names = {path.name for path in (tmp_path / "both").iterdir()}
    assert names == {"model", "training.json", "losses.jsonl", "tokens"}
    facts = json.loads((tmp_path / "both" / "training.json").read_bytes())
    assert facts["n_processes"] == (1 if steps else 2)


def test_processes_without_a_pass_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TORCHELASTIC_RUN_ID", "x"), ("RANK", "0"), ("WORLD_SIZE", "3")):
        monkeypatch.setenv(name, value)
    with pytest.raises(AuditError, match="4 forward passes a step cannot be shared by 3 proc"):
        train(make_order(tmp_path, micro_batch=2))
