"""Learning to predict the next tokens of notes: all weights of a causal model, or an adapter.

Legend: B rows, n predicted tokens of a row, V vocabulary.

Source: Hu et al. 2021, LoRA (arXiv 2106.09685); the adapter's files are those that peft writes.
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional

from audit.models.adapters import SETTINGS_FILE, WEIGHTS_FILE
from audit.rng import torch_seed
from audit.shelf import whole_folder, write_whole
from audit.training.config import Lora, TrainSettings
from audit.training.framing import NextRows, PackedRows
from audit.training.loop import (
    Hardware,
    adamw,
    copy_to_main_memory,
    select_trained_parameters,
)
from audit.training.notes_learner import ModelWriter, NotesLearner
from audit.training.tokens import HeldOut
from audit.training.training_memory import list_layers


class CausalLearner(NotesLearner[NextRows]):
    """A causal language model, its training rows, and its held-out rows.

    The parameters of `model` that require a gradient learn.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        settings: TrainSettings,
        hardware: Hardware,
        n_steps: int,
        rows: PackedRows,
        held_out: HeldOut[NextRows] | None = None,
        copies: Sequence[int] = (),
        write: ModelWriter = lambda model, path: None,
    ) -> None:
        super().__init__(
            model,
            settings=settings,
            hardware=hardware,
            n_steps=n_steps,
            optimizer=adamw(model, settings, fused=True),
            held_out=held_out,
            copies=copies,
            write=write,
        )
        self._rows = rows

    def passes(self, step: int) -> Iterator[NextRows]:
        """Return a step's rows, one micro-batch at a time."""
        return self._rows.of_step(step).parts(self.settings.micro_batch)

    def loss(self, rows: NextRows) -> Tensor:
        """Return the summed loss of the rows over the asked tokens of the step."""
        return self._sum_losses(rows) / max(1, rows.n_step)

    def compute_mean_loss(self, part: NextRows) -> Tensor:
        """Return the mean loss of the asked tokens, in nats per token."""
        return self._sum_losses(part) / max(1, part.n_asked)

    def _sum_losses(self, part: NextRows) -> Tensor:
        ids = self.move_to_device(part.ids)
        with self.hardware.numbers():
            logits = self.model(input_ids=ids[:, :-1], use_cache=False).logits  # [B, n, V]
        targets = ids[:, 1:].flatten()
        if not part.is_asked.all():
            is_asked = torch.from_numpy(part.is_asked).to(ids.device)
            logits, targets = logits[is_asked], targets[is_asked.flatten()]
        return functional.cross_entropy(
            logits.reshape(len(targets), logits.shape[-1]).float(), targets, reduction="sum"
        )


def add_adapter(model: nn.Module, lora: Lora, *, seed: int) -> nn.Module:
    """Return the model with a new adapter, which changes no answer yet; all else is frozen."""
    peft = importlib.import_module("peft")
    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules="all-linear",
        bias="none",
    )
    device = next(model.parameters()).device
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of models whose layers are stored transposed
        torch.manual_seed(torch_seed(seed, "adapter"))
        adapted_model: nn.Module = peft.get_peft_model(model, config)
        return adapted_model


def split_base(model: nn.Module, hardware: Hardware) -> None:
    """Split the frozen weights of a model between all processes, in place.

    A process holds its part of each weight on its device, and gathers a layer while it computes.
    What learns, such as an adapter, stays whole in every process.
    """
    fsdp: Any = importlib.import_module("torch.distributed.fsdp")  # takes half a second
    mesh = init_device_mesh(hardware.device, (hardware.n_processes,))
    trained = set(select_trained_parameters(model).values())
    for parameter in trained:
        parameter.data = parameter.data.to(hardware.device)
    for module in (*list_layers(model), model):
        fsdp.fully_shard(module, mesh=mesh, ignored_params=trained)


def write_adapter(model: nn.Module, path: Path, *, base: str) -> None:
    """Write the adapter of a model, completely or not at all; `base` is the name of its base."""
    peft = importlib.import_module("peft")
    adapted_model: Any = model
    config = adapted_model.peft_config["default"].to_dict()
    config |= {
        "base_model_name_or_path": base,
        "inference_mode": True,
        "target_modules": sorted(config["target_modules"]),
    }
    text = json.dumps(config, indent=2, sort_keys=True, default=str)
    tensors = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
    with whole_folder(path, replaces=True) as partial:
        write_whole(partial / SETTINGS_FILE, text.encode())
        save_file(copy_to_main_memory(tensors), partial / WEIGHTS_FILE, metadata={"format": "pt"})
