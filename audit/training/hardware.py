"""What a training computes on and with: device, number type, kernels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from audit.models.load import LoadedModel
from audit.models.precision import exact_kernels

_FAST_BFLOAT16 = ("avx512_bf16", "amx_bf16")
_CPU_FACTS = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Hardware:
    """What a training runs on.

    Attributes
    ----------
    device
        "cpu" or "cuda".
    precision
        "float32", or "bfloat16" for what is multiplied; weights are float32 in both.
    kernels
        "onednn" or "default".
    """

    device: str
    precision: str
    kernels: str

    def numbers(self) -> AbstractContextManager[object]:
        """Return a context in which the forward pass has its number type."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device, dtype=torch.bfloat16)


def pick_precision(wanted: str, *, device: str) -> str:
    """Return the number type: "auto" is bfloat16 only where the hardware multiplies it faster."""
    if wanted != "auto":
        return wanted
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    return "bfloat16" if multiplies_bfloat16() else "float32"


def multiplies_bfloat16(facts: Path = _CPU_FACTS) -> bool:
    """Whether this processor has instructions for bfloat16."""
    try:
        text = facts.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return not set(_FAST_BFLOAT16).isdisjoint(flags.split())


@contextmanager
def in_force(general: LoadedModel, *, device: str, precision: str) -> Iterator[Hardware]:
    """Choose kernels for a training that starts from `general`, and keep to them.

    They are asked of the general model, also where the training goes on from a checkpoint: so the
    same are chosen again.
    """
    if precision != "float32":
        yield Hardware(device, precision, "default")
        return
    mask_id = general.tokenizer.mask_token_id
    with exact_kernels([general.model], ids=_trial_rows(general), mask_id=mask_id) as kernels:
        yield Hardware(device, precision, kernels)


@contextmanager
def same_sums(device: str) -> Iterator[None]:
    """Let a GPU add in one order, where it can: a training goes on to the same weights."""
    if device == "cpu":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    memory: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        memory.fill_uninitialized_memory = before[1]


def _trial_rows(general: LoadedModel) -> Tensor:
    """Return rows [4, 8] in which every other token is a mask."""
    device = next(general.model.parameters()).device
    n, mask = len(general.tokenizer), general.tokenizer.mask_token_id
    rows = [[mask if k % 2 else (37 * row + k) % n for k in range(8)] for row in range(4)]
    plain = [[i if i != mask or k % 2 else 0 for k, i in enumerate(row)] for row in rows]
    return torch.tensor(plain, device=device)
