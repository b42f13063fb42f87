"""Number types and kernels: what may be taken in float32's place, and when.

On AMD CPUs the default library runs float32 at about half of the machine's speed; oneDNN does not.
Measured on two Zen 5 cores: one training step of the demo's general model 104 ms -> 73 ms (median
of 60, two threads).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from audit.errors import AuditError
from audit.models.encoder import logits_at

MAX_TOTAL_VARIATION = 0.03
"""Most that bfloat16 may move a model's distributions, as mean total variation. A
BERT-base moved by 0.011 to 0.012 with random weights."""
MAX_KERNEL_VARIATION = 1e-5
"""Most that other float32 kernels may move them; rounding alone moves some 1e-7."""


@contextmanager
def onednn_float32() -> Iterator[None]:
    """Multiply float32 matrices with oneDNN while the block runs.

    PyTorch names the switch "bf16": on CPUs with matrix units (AMX) products may be rounded to
    that, so evidence takes it only through `exact_kernels`.
    """
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


@contextmanager
def plain_float32(device: str) -> Iterator[None]:
    """Multiply float32 matrices as fast as this machine can without rounding them further.

    oneDNN on the CPUs of AMD, which have no matrix units that would round; else PyTorch's default.
    """
    if device != "cpu" or not _is_amd():
        yield
        return
    with onednn_float32():
        yield


@contextmanager
def exact_kernels(models: Sequence[nn.Module], *, ids: Tensor, mask_id: int) -> Iterator[str]:
    """Choose the kernels of float32 evidence on a CPU; yields "onednn" or "default".

    oneDNN on AMD processors, if it moves no distribution of these very models, asked at the masks
    of `ids` [B, L], by more than `MAX_KERNEL_VARIATION`; PyTorch's default otherwise. The choice
    depends on processor and models alone, never on a clock, so a resumed run makes it again.
    """
    if not _is_amd() or ids.device.type != "cpu":
        yield "default"
        return
    positions = mask_positions(ids, mask_id=mask_id)
    before = [_distributions(model, ids, positions) for model in models]
    with onednn_float32():
        after = [_distributions(model, ids, positions) for model in models]
        moved = max(_variation(p, q) for p, q in zip(before, after, strict=True))
        if moved <= MAX_KERNEL_VARIATION:
            yield "onednn"
            return
    yield "default"


def mask_positions(ids: Tensor, *, mask_id: int) -> Tensor:
    """Return the positions [B, M] of the masks in rows [B, L] that have equally many."""
    return (ids == mask_id).nonzero()[:, 1].view(len(ids), -1)


def total_variation(one: nn.Module, other: nn.Module, *, ids: Tensor, positions: Tensor) -> float:
    """Return the mean total variation of two models' distributions at `positions` [B, M]."""
    return _variation(_distributions(one, ids, positions), _distributions(other, ids, positions))


def refuse_changed_distributions(
    exact: nn.Module, rounded: nn.Module, *, ids: Tensor, mask_id: int, name: str
) -> float:
    """Compare a rounded model with its float32 self on rows `ids` [B, L] with masks in them.

    Raises
    ------
    AuditError
        If its distributions moved by more than `MAX_TOTAL_VARIATION`.
    """
    positions = mask_positions(ids, mask_id=mask_id)
    moved = total_variation(exact, rounded, ids=ids, positions=positions)
    if not moved <= MAX_TOTAL_VARIATION:
        raise AuditError(
            f"bfloat16 moves this model's distributions by {moved:.3f} (total variation); at most "
            f"{MAX_TOTAL_VARIATION} is accepted.",
            where=name,
            do="Run in float32.",
        )
    return moved


def _distributions(model: nn.Module, ids: Tensor, positions: Tensor) -> Tensor:
    with torch.inference_mode():
        return torch.softmax(logits_at(model, ids, positions=positions).float(), dim=-1)


def _variation(p: Tensor, q: Tensor) -> float:
    return float((p - q).abs().sum(dim=-1).mean() / 2)


def _is_amd() -> bool:
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
