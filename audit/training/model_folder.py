"""A trained model as a directory: exactly what `audit.models` loads, for the parent's tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from audit.models.checkpoints import own_tensors
from audit.models.files import read_model_files
from audit.models.headers import SINGLE_FILE
from audit.models.shapes import expected_shapes
from audit.models.tokenizer_files import CONFIG_FILE
from audit.private_files import whole_folder, write_whole
from audit.randomness import torch_seed

if TYPE_CHECKING:
    from audit.models.files import ModelFiles

_CONFIG = "config.json"
_MAX_BYTES = 64_000_000


def write_model(model: nn.Module, path: Path, *, parent: Path) -> None:
    """Write a model's directory, whole or not at all.

    Parameters
    ----------
    parent
        Directory of the model that it was trained from: its config.json and the files of its
        tokenizer are copied as they are.

    Raises
    ------
    AuditError
        If the parent can no longer be read, or the directory cannot be written.
    """
    files = read_model_files(parent)
    copied = dict(files.tokenizer.present)
    for name in (_CONFIG, CONFIG_FILE):
        if name in files.folder.files:
            copied[name] = files.folder.read(name, max_bytes=_MAX_BYTES)
    with whole_folder(path) as partial:
        for name, data in copied.items():
            write_whole(partial / name, data)
        save_file(_named(model, files=files), partial / SINGLE_FILE, metadata={"format": "pt"})


def fresh_weights(model: nn.Module, *, seed: int) -> nn.Module:
    """Return a model of the same shape with new weights, on the CPU, in training precision."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "fresh weights"))
        fresh: nn.Module = type(model)(model.config)
    return fresh


def _named(model: nn.Module, *, files: ModelFiles) -> dict[str, Tensor]:
    """Return the model's tensors by name, one that has two names under its first."""
    state = own_tensors(model.state_dict())
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name in expected_shapes(files.config):
        if state[name].data_ptr() not in seen:
            seen.add(state[name].data_ptr())
            found[name] = state[name]
    return found
