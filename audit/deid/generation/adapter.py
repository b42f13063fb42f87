"""A low-rank adapter put beside a model's frozen weights, and merged into them; needs peft."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import torch

from audit.deid.generation.tuning_settings import ALL_LINEAR, WHERE, Lora
from audit.errors import AuditError
from audit.randomness import torch_seed


def with_adapter(model: Any, lora: Lora, *, seed: int) -> Any:
    """Return the model with a fresh adapter, everything else frozen; it changes no answer yet.

    Raises
    ------
    AuditError
        If peft is not installed, or the model has no such modules.
    """
    try:
        peft: Any = importlib.import_module("peft")
    except ImportError:
        raise AuditError(
            "Adapters need the package peft, which is not installed.",
            where=WHERE,
            do="Install peft, or tune all weights.",
        ) from None
    targets = ALL_LINEAR if lora.targets == (ALL_LINEAR,) else list(lora.targets)
    config = peft.LoraConfig(
        task_type="CAUSAL_LM", r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout,
        target_modules=targets, bias="none",
    )  # fmt: skip
    device = next(model.parameters()).device
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of models whose layers are stored transposed
        torch.manual_seed(torch_seed(seed, "adapter"))
        try:
            return peft.get_peft_model(model, config)
        except ValueError:
            raise AuditError(
                "The model has no module of these names to put an adapter beside.",
                where=WHERE,
                do=f"Name others, or choose {ALL_LINEAR}.",
            ) from None


def merged(model: Any) -> Any:
    """Return the plain model with the adapter added to its weights."""
    return model.merge_and_unload(safe_merge=True)
