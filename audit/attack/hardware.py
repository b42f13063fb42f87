"""Where and how a run computes: device, number type, kernels, and the checks that these need.

Comes in: a request, a pair. Goes out: a device's name, kernels in force, or a refusal.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from audit.models.device import pick_device
from audit.models.load import LoadedModel, load_model
from audit.models.pair import ModelPair
from audit.models.precision import exact_kernels, refuse_changed_distributions
from audit.request import AuditRequest

__all__ = ["check_rounding", "chosen_kernels", "pick_device"]


def check_rounding(request: AuditRequest, pair: ModelPair, *, device: str) -> None:
    """Refuse a number type that changes what the user's own models say."""
    tokenizer = pair.hospital.tokenizer
    ids = _trial_rows(pair, device=device)
    for who in ("general", "hospital"):
        exact = load_model(getattr(request, who), device=device)
        rounded: LoadedModel = getattr(pair, who)
        refuse_changed_distributions(
            exact.model, rounded.model, ids=ids, mask_id=tokenizer.mask_token_id, name=rounded.name
        )


def chosen_kernels(
    request: AuditRequest, pair: ModelPair, *, device: str
) -> AbstractContextManager[str]:
    """Return a context in which the run's kernels are in force; it gives their name."""
    if request.dtype != "float32":
        return nullcontext("default")
    return exact_kernels(
        [pair.general.model, pair.hospital.model],
        ids=_trial_rows(pair, device=device),
        mask_id=pair.hospital.tokenizer.mask_token_id,
    )


def _trial_rows(pair: ModelPair, *, device: str) -> torch.Tensor:
    """Return rows [4, 16] of masks among the first tokens of the vocabulary, to compare kernels."""
    tokenizer = pair.hospital.tokenizer
    special = set(tokenizer.all_special_ids)
    plain_ids = [i for i in range(len(tokenizer)) if i not in special][:32] or [0]
    rows = [
        [
            tokenizer.mask_token_id if k % 2 else plain_ids[(row + k) % len(plain_ids)]
            for k in range(16)
        ]
        for row in range(4)
    ]
    return torch.tensor(rows, device=device)
