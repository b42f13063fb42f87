"""What a masked language model says at given positions, and the kernels that compute it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from audit.errors import AuditError


def logits_at(model: nn.Module, ids: Tensor, *, positions: Tensor) -> Tensor:
    """Return logits [B, M, V] at `positions` [B, M] of `ids` [B, L], rows without padding."""
    body: Any = model.base_model
    hidden = body(input_ids=ids).last_hidden_state  # [B, L, H]
    rows = torch.arange(ids.shape[0], device=ids.device).unsqueeze(dim=1)  # [B, 1]
    return head_logits(model, hidden[rows, positions])  # [B, M, H]


def head_logits(model: nn.Module, hidden: Tensor) -> Tensor:
    """Return what the masked-LM head says of hidden states [..., H]: logits [..., V]."""
    head: Any = model
    if hasattr(model, "cls"):  # BERT
        logits: Tensor = head.cls(hidden)
    elif hasattr(model, "lm_head"):  # RoBERTa
        logits = head.lm_head(hidden)
    else:  # DistilBERT
        transformed = head.vocab_layer_norm(head.activation(head.vocab_transform(hidden)))
        logits = head.vocab_projector(transformed)
    return logits


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
def exact_kernels(
    models: Sequence[nn.Module], *, tokenizer: Any, device: str, dtype: str
) -> Iterator[str]:
    """Choose the kernels of evidence and keep to them; yields "onednn" or "default".

    oneDNN for float32 on AMD processors, if it moves no distribution of these very models by more
    than `MAX_KERNEL_VARIATION`; PyTorch's default otherwise. The choice depends on processor and
    models alone, never on a clock, so a resumed run makes it again.
    """
    if dtype == "float32" and device == "cpu" and _is_amd():
        before = [_distributions(model, tokenizer) for model in models]
        with onednn_float32():
            after = [_distributions(model, tokenizer) for model in models]
            if max(map(_variation, before, after)) <= MAX_KERNEL_VARIATION:
                yield "onednn"
                return
    yield "default"


def refuse_changed_distributions(
    exact: nn.Module, rounded: nn.Module, *, tokenizer: Any, name: str
) -> None:
    """Compare a rounded model with its float32 self on the same device."""
    moved = _variation(*(_distributions(model, tokenizer) for model in (exact, rounded)))
    if not moved <= MAX_TOTAL_VARIATION:
        raise AuditError(
            (
                "bfloat16 moves this model's distributions by {moved:.3f} (total "
                "variation); at most {max_total_variation} is accepted."
            ),
            where=name,
            do="Run in float32.",
            moved=moved,
            max_total_variation=MAX_TOTAL_VARIATION,
        )


def _distributions(model: nn.Module, tokenizer: Any) -> Tensor:
    """Return distributions [4, 8, V] at masks among the first tokens of the vocabulary."""
    special, mask = set(tokenizer.all_special_ids), tokenizer.mask_token_id
    plain = [i for i in range(len(tokenizer)) if i not in special][:32] or [0]
    rows = [
        [mask if k % 2 else plain[(row + k) % len(plain)] for k in range(16)] for row in range(4)
    ]
    ids = torch.tensor(rows, device=next(model.parameters()).device)
    positions = torch.arange(1, 16, 2, device=ids.device).expand(4, -1)
    with torch.inference_mode():
        return torch.softmax(logits_at(model, ids, positions=positions).float(), dim=-1)


def _variation(p: Tensor, q: Tensor) -> float:
    return float((p - q).abs().sum(dim=-1).mean() / 2)


def _is_amd() -> bool:
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
