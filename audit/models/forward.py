"""Where and how a run computes: device, number type, kernels, and the checks that these need.

Comes in: a request, a pair. Goes out: a device's name, kernels in force, or a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from audit.errors import AuditError
from audit.models.load import load_model
from audit.models.pair import ModelPair

_BODIES = ("bert", "roberta", "distilbert")


def body_of(model: nn.Module) -> nn.Module:
    """Return the encoder below the masked-LM head."""
    for name in _BODIES:
        body = getattr(model, name, None)
        if isinstance(body, nn.Module):
            return body
    raise ValueError(f"no encoder of BERT, RoBERTa or DistilBERT in {type(model).__name__}")


def hidden_states(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the last layer's hidden states [B, L, H] for rows without padding, ids [B, L]."""
    hidden: Tensor = body_of(model)(input_ids=ids).last_hidden_state
    return hidden


def head_logits(model: nn.Module, hidden: Tensor) -> Tensor:
    """Apply the masked-LM head to hidden states [..., H]; returns logits [..., V]."""
    head: Any = model
    if hasattr(model, "cls"):  # BERT
        logits: Tensor = head.cls(hidden)
    elif hasattr(model, "lm_head"):  # RoBERTa
        logits = head.lm_head(hidden)
    else:  # DistilBERT
        transformed = head.vocab_layer_norm(head.activation(head.vocab_transform(hidden)))
        logits = head.vocab_projector(transformed)
    return logits


def logits_at(model: nn.Module, ids: Tensor, *, positions: Tensor) -> Tensor:
    """Return logits [B, M, V] at `positions` [B, M] of `ids` [B, L]."""
    hidden = hidden_states(model, ids)  # [B, L, H]
    rows = torch.arange(ids.shape[0], device=ids.device).unsqueeze(dim=1)  # [B, 1]
    return head_logits(model, hidden[rows, positions])


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
    """Compare a rounded model with its float32 self on rows `ids` [B, L] with masks in them."""
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


def check_rounding(pair: ModelPair, *, general: Path, hospital: Path, device: str) -> None:
    """Refuse a number type that changes what the user's own models, in these folders, say."""
    tokenizer = pair.hospital.tokenizer
    ids = trial_rows(tokenizer, device=device)
    for path, rounded in ((general, pair.general), (hospital, pair.hospital)):
        exact = load_model(path, device=device)
        refuse_changed_distributions(
            exact.model, rounded.model, ids=ids, mask_id=tokenizer.mask_token_id, name=rounded.name
        )


def chosen_kernels(pair: ModelPair, *, dtype: str, device: str) -> AbstractContextManager[str]:
    """Return a context in which the run's kernels are in force; it gives their name."""
    if dtype != "float32":
        return nullcontext("default")
    tokenizer = pair.hospital.tokenizer
    return exact_kernels(
        [pair.general.model, pair.hospital.model],
        ids=trial_rows(tokenizer, device=device),
        mask_id=tokenizer.mask_token_id,
    )


def trial_rows(tokenizer: Any, *, device: str) -> Tensor:
    """Return rows [4, 16] of masks among the first tokens of the vocabulary, to compare kernels."""
    special, mask = set(tokenizer.all_special_ids), tokenizer.mask_token_id
    plain = [i for i in range(len(tokenizer)) if i not in special][:32] or [0]
    rows = [
        [mask if k % 2 else plain[(row + k) % len(plain)] for k in range(16)] for row in range(4)
    ]
    return torch.tensor(rows, device=device)
