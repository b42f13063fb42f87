"""The memory that training a causal language model takes, by arithmetic, before it is loaded.

Legend: P parameters, T trained ones, L layers, n tokens of a pass, d width of the layers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.pytorch_utils import Conv1D

from audit.errors import AuditError
from audit.foreign import find_free_memory
from audit.training.config import Lora

_FLOAT, _HALF, _BYTE = 4, 2, 1
_N_MOMENTS = 2  # of AdamW
_N_NORM_COPIES = 6  # float32 vectors of width d of a layer that its norms and sums keep
_GB = 1e9


@dataclass(frozen=True)
class CausalShape:
    """What of a model decides the memory of its training.

    `n_layer_parameters` are those of the largest layer. `n_inputs` and `n_outputs` are the inputs
    and outputs of all linear modules but the output layer, added up.
    """

    n_parameters: int
    n_layers: int
    n_layer_parameters: int
    n_inputs: int
    n_outputs: int
    width: int
    n_vocabulary: int

    def count_adapter(self, rank: int) -> int:
        """Return the number of parameters of an adapter of all linear modules."""
        return rank * (self.n_inputs + self.n_outputs)


def list_layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers of a model, from which activations can be computed again."""
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def measure_shape(model: Any) -> CausalShape:
    """Return the shape of a transformers model, whose tensors may have no content."""
    output = model.get_output_embeddings()
    n_inputs = n_outputs = 0
    for module in model.modules():
        if isinstance(module, (nn.Linear, Conv1D)) and module is not output:
            sizes = tuple(module.weight.shape)
            n_in, n_out = sizes if isinstance(module, Conv1D) else sizes[::-1]
            n_inputs, n_outputs = n_inputs + n_in, n_outputs + n_out
    layers = list_layers(model)
    return CausalShape(
        n_parameters=_count_parameters(model),
        n_layers=len(layers),
        n_layer_parameters=max(map(_count_parameters, layers), default=0),
        n_inputs=n_inputs,
        n_outputs=n_outputs,
        width=model.get_input_embeddings().weight.shape[1],
        n_vocabulary=model.get_input_embeddings().weight.shape[0],
    )


def _count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@dataclass(frozen=True)
class PassSize:
    """The largest pass of a training: its tokens, how many are predicted, whether it is packed."""

    n_tokens: int
    n_predicted: int
    is_packed: bool = False


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes that a training takes on one device; `activations` are an estimate, the rest exact."""

    weights: int
    gradients: int
    moments: int
    activations: int

    @property
    def n_exact(self) -> int:
        """Bytes without the activations."""
        return self.weights + self.gradients + self.moments

    @property
    def n_bytes(self) -> int:
        """All bytes."""
        return self.n_exact + self.activations

    def in_gigabytes(self) -> dict[str, float]:
        """Return the parts and `total` in GB."""
        parts = {
            "weights": self.weights,
            "gradients": self.gradients,
            "moments": self.moments,
            "activations": self.activations,
            "total": self.n_bytes,
        }
        return {name: n_bytes / _GB for name, n_bytes in parts.items()}


def estimate_memory(
    shape: CausalShape,
    size: PassSize,
    *,
    precision: str,
    lora: Lora | None,
    is_checkpointed: bool = False,
    n_parts: int = 1,
) -> TrainingMemory:
    """Return the memory of a training on one device.

    Weights that learn, gradients and moments are float32. The base of an adapter has the number
    type of the products, and each of `n_parts` devices holds a part of it, beside the layers that
    it gathers. If all weights learn and products are in bfloat16, a copy in it is kept for a pass.

    Activations of a layer: inputs and outputs of its linear modules, and what norms and sums keep
    in float32; an adapter keeps its inputs a second time, with a mask of dropout. Attention is
    counted as without a matrix of all pairs, except for the mask of a packed row. With
    checkpointing each layer keeps its input, and one layer all. The output layer keeps logits, and
    in float32 their logarithms and gradients.
    """
    n_wide = _HALF if precision == "bfloat16" else _FLOAT
    if lora is None:
        n_trained = shape.n_parameters
        weights = n_trained * (_FLOAT + (n_wide if n_wide < _FLOAT else 0))
    else:
        n_trained = shape.count_adapter(lora.rank)
        n_gathered = 0
        if n_parts > 1:
            n_in_layers = shape.n_layers * shape.n_layer_parameters
            n_gathered = shape.n_parameters - n_in_layers + 2 * shape.n_layer_parameters
        weights = n_wide * (-(-shape.n_parameters // n_parts) + n_gathered) + _FLOAT * n_trained
    n_layers = max(1, shape.n_layers)
    n_token_bytes = n_wide * (shape.n_inputs + shape.n_outputs) / n_layers
    n_token_bytes += _FLOAT * _N_NORM_COPIES * shape.width
    if lora is not None:
        n_token_bytes += (n_wide + _BYTE) * shape.n_inputs / n_layers
    layer = size.n_tokens * n_token_bytes
    if size.is_packed:
        layer += n_wide * size.n_tokens**2
    layers = n_layers * layer
    if is_checkpointed:
        n_input = n_wide if lora is not None else _FLOAT
        layers = n_layers * n_input * shape.width * size.n_tokens + layer
    layers += 2 * _FLOAT * shape.width * size.n_tokens  # the norm behind the last layer
    logits = size.n_predicted * shape.n_vocabulary * (2 * n_wide + 3 * _FLOAT)
    return TrainingMemory(
        weights=weights,
        gradients=_FLOAT * n_trained,
        moments=_N_MOMENTS * _FLOAT * n_trained,
        activations=round(layers) + logits,
    )


def find_free_bytes(device: str) -> float:
    """Return the bytes of a device that each of this machine's processes may take."""
    if device.startswith("cuda"):
        return float(torch.cuda.mem_get_info()[0])
    return find_free_memory() / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def refuse_without_room(memory: TrainingMemory, *, lora: Lora | None, free: float) -> None:
    """Refuse a training that takes more than the free bytes of its device.

    Of an adapter's training only what is known exactly counts, since activations are an estimate.
    """
    if (memory.n_bytes if lora is None else memory.n_exact) <= free:
        return
    raise AuditError(
        (
            "Training all weights of this model takes about {total:.1f} GB: weights "
            "{weights:.1f}, gradients {gradients:.1f}, moments of the optimizer {moments:.1f}, "
            "activations {activations:.1f}. The device has {free:.1f} GB."
        )
        if lora is None
        else (
            "Training an adapter of this model takes about {total:.1f} GB: weights "
            "{weights:.1f}, gradients {gradients:.1f}, moments of the optimizer {moments:.1f}, "
            "activations {activations:.1f}. The device has {free:.1f} GB."
        ),
        where="memory",
        do="Train an adapter (--lora) in bfloat16, or a smaller model; gradient checkpointing and "
        "fewer tokens a pass take less for activations."
        if lora is None
        else "Train in bfloat16, split the base between the processes of torchrun, or take a "
        "smaller model.",
        free=free / _GB,
        **memory.in_gigabytes(),
    )
