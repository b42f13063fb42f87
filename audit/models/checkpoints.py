"""Checkpoints: weights and optimizer of a step, whole or not at all, without pickle.

A folder `checkpoint/step-<n>` with `model.safetensors`, `optimizer.safetensors` and `state.json`.
The last two are kept.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from audit.errors import AuditError
from audit.private_files import private_folder, whole_folder, write_whole

CHECKPOINTS = "checkpoint"
_WEIGHTS, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_STEP = re.compile(r"step-(\d+)")
_N_KEPT = 2


@dataclass(frozen=True)
class CheckpointState:
    """What a checkpoint says of itself.

    Attributes
    ----------
    step
        Finished steps.
    seconds
        Of training until then.
    key
        Of the training.
    """

    step: int
    seconds: float
    key: str


def save_checkpoint(
    run_dir: Path, state: CheckpointState, *, model: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Keep what a training needs to go on.

    Raises
    ------
    AuditError
        If it cannot be written; the last checkpoint is still there.
    """
    folder = private_folder(run_dir / CHECKPOINTS)
    with whole_folder(folder / f"step-{state.step}") as partial:
        save_file(own_tensors(dict(model.named_parameters())), partial / _WEIGHTS)
        save_file(own_tensors(_optimizer_tensors(model, optimizer)), partial / _OPTIMIZER)
        write_whole(partial / _STATE, json.dumps(asdict(state)).encode("ascii"))
    for _, old in _checkpoints(run_dir)[_N_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(
    run_dir: Path, *, key: str, model: nn.Module, optimizer: torch.optim.Optimizer
) -> CheckpointState | None:
    """Put the newest readable checkpoint into model and optimizer; None where there is none.

    Raises
    ------
    AuditError
        If there are checkpoints and none can be read.
    """
    found = _checkpoints(run_dir)
    for _, folder in found:
        try:
            state = CheckpointState(**json.loads((folder / _STATE).read_text(encoding="ascii")))
            weights = load_file(folder / _WEIGHTS)
            moments = load_file(folder / _OPTIMIZER)
        except (OSError, ValueError, TypeError, SafetensorError):
            continue
        if state.key != key or not _fits(weights, model):
            continue
        _put_weights(model, weights)
        _put_moments(model, optimizer, moments)
        return state
    if found:
        raise AuditError(
            "The checkpoints of this training cannot be read.",
            where="checkpoint",
            do="Begin in another folder.",
        )
    return None


def forget_checkpoints(run_dir: Path) -> None:
    """Remove all checkpoints of a training that is whole."""
    shutil.rmtree(run_dir / CHECKPOINTS, ignore_errors=True)


def own_tensors(tensors: dict[str, Any]) -> dict[str, Tensor]:
    """Return tensors in main memory, each with its own storage."""
    return {
        name: tensor.detach().to("cpu", copy=False).contiguous() for name, tensor in tensors.items()
    }


def _checkpoints(run_dir: Path) -> list[tuple[int, Path]]:
    folder = run_dir / CHECKPOINTS
    paths = folder.iterdir() if folder.is_dir() else ()
    found = [(int(m[1]), path) for path in paths if (m := _STEP.fullmatch(path.name))]
    return sorted(found, reverse=True)


def _fits(weights: dict[str, Tensor], model: nn.Module) -> bool:
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    return shapes == {name: tensor.shape for name, tensor in weights.items()}


def _put_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    # A parameter that the loss does not reach has no state.
    return {
        f"{name}|{kind}": value
        for name, parameter in model.named_parameters()
        for kind, value in optimizer.state.get(parameter, {}).items()
    }


def _put_moments(
    model: nn.Module, optimizer: torch.optim.Optimizer, moments: dict[str, Tensor]
) -> None:
    parameters = dict(model.named_parameters())
    optimizer.state.clear()
    for name, value in moments.items():
        parameter_name, _, kind = name.partition("|")
        parameter = parameters[parameter_name]
        optimizer.state[parameter][kind] = value.to(parameter.device, copy=True)
