"""A tuning that several processes share, as torchrun starts them: the same one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as processes
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor

from audit.deid.find.causal_model import load_causal, load_generative
from audit.deid.find.tagger_facts import GenerativeFacts
from audit.deid.learn.tagger_task import TaggerTask, TuningSettings
from audit.errors import AuditError
from audit.training.causal_lm import add_adapter, split_base
from audit.training.config import Lora, LossPoint, read_losses
from audit.training.loop import Hardware, select_trained_parameters
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
CHECKPOINTING = "gradient_checkpointing"
LORA = Lora(rank=4, alpha=8.0, dropout=0.2)


def tune_in_processes(
    folder: Path, *switches: str, n_processes: int = 2, settings: dict[str, Any] = SETTINGS
) -> dict[str, Any]:
    """Tune `folder`/m by the command line with dropout."""
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
        for name, setting in settings.items()
        if name != CHECKPOINTING
    }
    if settings.get(CHECKPOINTING):
        switches = (*switches, "--gradient-checkpointing")
    parts = [part for option in words.items() for part in option]
    command = ("deid", "train", "--kind", "generative", "--lora", *parts, *switches)
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


@pytest.mark.long
def test_a_base_split_between_two_processes_has_the_losses_of_a_whole_one(tmp_path: Path) -> None:
    # Three rows a step: one process has nothing left for the last.
    settings = SETTINGS | {"packed_tokens": 150, "gradient_checkpointing": True}
    task = order(tmp_path, write_model(tmp_path / "m"), out="alone", lora=LORA, **settings)
    tuned(task)
    report = tune_in_processes(tmp_path, "--gen-split", n_processes=2, settings=settings)
    points, lone_points = (read_losses(tmp_path / name) for name in ("both", "alone"))
    assert_same_curve(points, lone_points, within=1e-4)
    assert report["training"]["settings"]["is_split"] and report["training"]["n_processes"] == 2
    weights = [load_file(tmp_path / name / "model/model.safetensors") for name in ("both", "alone")]
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[1].items():
        torch.testing.assert_close(weights[0][name], tensor, atol=1e-3, rtol=1e-2)
    tagger = load_generative(tmp_path / "both", device="cpu")
    assert tagger.facts.digest() == report["digest"]


def split_in_process(process: int, folder: Path) -> None:
    """Split a model between two processes; write what this one holds and computes."""
    processes.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=process, world_size=2
    )
    base = load_causal(folder / "m", device="cpu").model
    n_base = sum(parameter.numel() for parameter in base.parameters())
    model = add_adapter(base, LORA, seed=0).eval()
    ids = torch.arange(3, 23)[None]

    def compute_loss() -> torch.Tensor:
        loss: torch.Tensor = model(input_ids=ids, labels=ids, use_cache=False).loss
        return loss

    compute_loss().backward()  # type: ignore[no-untyped-call]
    gradients = {name: p.grad for name, p in select_trained_parameters(model).items()}
    loss_before = float(compute_loss().detach())
    model.zero_grad(set_to_none=True)
    split_base(model, Hardware("cpu", "float32", process=process, n_processes=2))
    loss = compute_loss()
    loss.backward()  # type: ignore[no-untyped-call]
    for name, parameter in select_trained_parameters(model).items():
        torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-5, rtol=1e-4)
    local_parts = [p.to_local() for p in model.parameters() if isinstance(p, DTensor)]
    content = {
        "losses": [loss_before, float(loss.detach())],
        "share": sum(part.numel() for part in local_parts) / n_base,
        "n_trained": len(gradients),
    }
    (folder / f"{process}.json").write_text(json.dumps(content))
    processes.destroy_process_group()


@pytest.mark.long
def test_each_process_holds_half_of_the_base_and_all_of_the_adapter(tmp_path: Path) -> None:
    write_model(tmp_path / "m")
    torch.multiprocessing.spawn(split_in_process, args=(tmp_path,), nprocs=2)
    for process in range(2):
        content = json.loads((tmp_path / f"{process}.json").read_bytes())
        loss_before, loss = content["losses"]
        assert loss == pytest.approx(loss_before, abs=1e-4)
        assert content["share"] == pytest.approx(0.5, abs=0.01)
        assert content["n_trained"] == 2 * 2 * 7  # two matrices of seven modules in two layers


def test_weights_that_learn_are_not_split() -> None:
    with pytest.raises(AuditError, match="Only weights that do not learn can be split"):
        TuningSettings(is_split=True)
    settings = TuningSettings(lora=LORA)
    assert settings.decisive() == settings.with_(is_split=True).decisive()
