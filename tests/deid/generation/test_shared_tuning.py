"""A tuning that several processes share, as torchrun starts them: the same one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.deid.find.tagger_facts import GenerativeFacts
from audit.deid.learn.tagger_task import TaggerTask
from audit.errors import AuditError
from audit.training.config import Lora, LossPoint, read_losses
from tests.deid.generation.tiny_model import order, tuned, write_gold, write_model
from tests.deid.token.make_notes import quick
from tests.training.make_training import run_in_processes

SETTINGS: dict[str, Any] = {
    "n_epochs": 8.0,
    "batch": 4,
    "micro_batch": 1,
    "learning_rate": 1e-2,
    "precision": "float32",
    "checkpoint_every": 3,
}
LORA = Lora(rank=4, alpha=8.0, dropout=0.2)


def tune_in_processes(folder: Path, *options: object, n_processes: int = 2) -> dict[str, Any]:
    """Tune `folder`/m by the command line, with the settings above and dropout."""
    words = {
        "--gold": folder / "gold.jsonl",
        "--validation": folder / "gold.jsonl",
        "--model": folder / "m",
        "--out": folder / "both",
        "--device": "cpu",
        "--lora-rank": LORA.rank,
        "--lora-alpha": LORA.alpha,
        "--lora-dropout": LORA.dropout,
    }
    words |= {
        f"--gen-{name.removeprefix('n_').replace('_', '-')}": setting
        for name, setting in SETTINGS.items()
    }
    parts = [part for option in words.items() for part in option]
    command = ("deid", "train", "--kind", "generative", "--lora", *parts, *options)
    process = run_in_processes(*command, n_processes=n_processes, home=folder / "home")
    assert process.returncode == 0, process.stderr
    return dict(json.loads(process.stdout))  # one object: the second process tells nothing


def assert_same_curve(
    points: tuple[LossPoint, ...], expected: tuple[LossPoint, ...], *, within: float
) -> None:
    assert [point.step for point in points] == [point.step for point in expected]
    for point, expected_point in zip(points, expected, strict=True):
        assert point.loss == pytest.approx(expected_point.loss, abs=within)
        assert point.held_out == pytest.approx(expected_point.held_out, abs=within)


def test_only_a_generative_tagger_is_shared(tmp_path: Path) -> None:
    task = TaggerTask(settings=quick(), gold=(write_gold(tmp_path / "gold.jsonl"),))
    with pytest.raises(AuditError, match="of a generative tagger only"):
        task.help()


@pytest.mark.long
def test_two_processes_tune_as_one(tmp_path: Path) -> None:
    task = order(tmp_path, write_model(tmp_path / "m"), out="alone", lora=LORA, **SETTINGS)
    alone = tuned(task)
    report = tune_in_processes(tmp_path)
    points, lone_points = (read_losses(tmp_path / name) for name in ("both", "alone"))
    assert_same_curve(points, lone_points, within=1e-5)
    assert len(points) == 9 and points[-1].held_out is not None
    assert points[-1].loss is not None and points[-1].loss < 0.9 * (points[1].loss or 0)
    assert report["training"]["n_processes"] == 2 and alone.training["n_processes"] == 1
    assert GenerativeFacts.of_folder(tmp_path / "both").digest() == report["digest"]
    names = {path.name for path in (tmp_path / "both").iterdir()}
    assert names == {"model", "tagger.json", "training.json", "losses.jsonl"}
