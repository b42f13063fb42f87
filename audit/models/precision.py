"""Number types and kernels: what may be taken in float32's place, and when.

On AMD CPUs the default library runs float32 at about half of the machine's speed; oneDNN does not.
Measured on two Zen 5 cores: one training step of the demo's general model 104 ms -> 73 ms (median
of 60, two threads).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from audit.errors import AuditError
from audit.models.encoder import logits_at

MAX_TOTAL_VARIATION = 0.03
"""Most that bfloat16 may move a model's distributions, as mean total variation. Published
BERT-base sizes moved by 0.011 to 0.012 with random weights."""


@contextmanager
def onednn_float32() -> Iterator[None]:
    """Multiply float32 matrices with oneDNN while the block runs.

    PyTorch names the switch "bf16": on CPUs with bfloat16 units products may be rounded to that,
    so it is for training, never for evidence.
    """
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


def total_variation(one: nn.Module, other: nn.Module, *, ids: Tensor, positions: Tensor) -> float:
    """Return the mean total variation of two models' distributions at `positions` [B, M]."""
    with torch.inference_mode():
        p, q = (
            torch.softmax(logits_at(model, ids, positions=positions).float(), dim=-1)
            for model in (one, other)
        )
    return float((p - q).abs().sum(dim=-1).mean() / 2)


def refuse_changed_distributions(
    exact: nn.Module, rounded: nn.Module, *, ids: Tensor, mask_id: int, name: str
) -> float:
    """Compare a rounded model with its float32 self on rows `ids` [B, L] with masks in them.

    Raises
    ------
    AuditError
        If its distributions moved by more than `MAX_TOTAL_VARIATION`.
    """
    rows, columns = (ids == mask_id).nonzero(as_tuple=True)
    per_row = int(torch.bincount(rows).min())
    positions = torch.stack([columns[rows == row][:per_row] for row in range(len(ids))])
    moved = total_variation(exact, rounded, ids=ids, positions=positions)
    if not moved <= MAX_TOTAL_VARIATION:
        raise AuditError(
            f"bfloat16 moves this model's distributions by {moved:.3f} (total variation); at most "
            f"{MAX_TOTAL_VARIATION} is accepted.",
            where=name,
            do="Run in float32.",
        )
    return moved
