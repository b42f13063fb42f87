"""The tuning of a generative tagger beside the plain way, on the same windows.

Both tune an adapter of one Llama with random weights, from the same beginning and without dropout.
Plain: transformers' eager attention, windows padded to the longest, logits at all positions, a
float32 base. Ours: windows packed into rows, logits of answers alone, the base in the product's
number type. Legend: B windows, L tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from audit.bench.causal import make_random_causal
from audit.bench.machine import measure_race, use_threads
from audit.bench.race import BenchSettings
from audit.deid.learn.tagger_task import TuningSettings
from audit.deid.learn.tuning import CopyLearner, Example, measure_pass, pad_examples
from audit.models.forward import use_exact_float32
from audit.models.load import pick_device
from audit.shelf import JSON
from audit.training.causal_lm import add_adapter
from audit.training.config import Lora
from audit.training.loop import Hardware, adamw, keep_memory, select_trained_parameters
from audit.training.training_memory import estimate_memory, measure_shape

_N_ROW, _BATCH = 1024, 8
_SHORTEST, _LONGEST = 0.15, 0.5
"""Tokens of a window, as shares of a row."""
_COPY_SHARE = 0.55  # of a window: a copy has the note's tokens and tags
_N_STEPS = 1_000_000  # of a tuning that is never finished: the learning rate is constant


def draw_windows(settings: BenchSettings) -> list[Example]:
    """Return windows of a note and its copy with random tokens, of various lengths."""
    rng = np.random.default_rng(17)
    n_row = settings.n_tokens or _N_ROW
    windows = []
    for share in rng.uniform(_SHORTEST, _LONGEST, settings.batch or _BATCH):
        n = max(4, round(share * n_row))
        ids = rng.integers(settings.n_vocabulary, size=n, dtype=np.int32)
        n_prompt = n - round(_COPY_SHARE * n)
        windows.append(Example(ids[:n_prompt], ids[n_prompt:]))
    return windows


def measure_tuning(settings: BenchSettings) -> dict[str, JSON]:
    """Measure tuning in windows; `peak_gb` is that of the product's first step, 0 on a CPU.

    `estimated_gb` is what a training tells before it begins. `largest_difference_of_losses` is in
    nats a token.
    """
    device, windows = pick_device(settings.device), draw_windows(settings)
    tuning = TuningSettings(
        batch=len(windows),
        micro_batch=1,
        packed_tokens=settings.n_tokens or _N_ROW,
        learning_rate=1e-4,
        schedule="constant",
        warmup_share=0,
        precision=settings.dtype,
        gradient_checkpointing=settings.is_checkpointed,
        lora=Lora(dropout=0.0),
    )
    losses: dict[str, list[float]] = {"baseline": [], "product": []}
    with use_threads(settings.n_threads), torch.random.fork_rng():
        learner = _make_learner(settings, tuning, windows, device=device)
        memory = estimate_memory(
            measure_shape(make_random_causal(settings, device="meta")),
            measure_pass(windows, tuning),
            precision=settings.dtype,
            lora=tuning.lora,
            is_checkpointed=settings.is_checkpointed,
        )

        def product() -> float:
            with keep_memory(), use_exact_float32(device):
                step = len(losses["product"]) + 1
                losses["product"].append(float(learner.step(step)[0]))
            return float(len(windows))

        product()
        peak = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else 0.0
        plain = _PlainLoop(settings, tuning, windows)

        def baseline() -> float:
            losses["baseline"].append(plain.step())
            return float(len(windows))

        baseline()
        n_tokens = sum(window.n_tokens for window in windows)
        measures = measure_race(
            settings, {"baseline": baseline, "product": product}, n_rows=n_tokens
        )
    differences = np.abs(np.subtract(losses["baseline"], losses["product"]))
    return measures | {
        "unit": "window",
        "n_tokens": n_tokens,
        "peak_gb": peak,
        "estimated_gb": memory.in_gigabytes()["total"],
        "losses": losses,
        "largest_difference_of_losses": float(differences.max()),
    }


def _make_learner(
    settings: BenchSettings, tuning: TuningSettings, windows: Sequence[Example], *, device: str
) -> CopyLearner:
    base: Any = make_random_causal(settings).to(getattr(torch, settings.dtype))
    model: Any = add_adapter(base, tuning.lora or Lora(), seed=0)
    if settings.is_checkpointed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return CopyLearner(
        model,
        settings=tuning,
        pad_id=0,
        hardware=Hardware(device, settings.dtype),
        n_steps=_N_STEPS,
        rows=windows,
    )


class _PlainLoop:
    """The plain loop, as one writes it first."""

    def __init__(
        self, settings: BenchSettings, tuning: TuningSettings, windows: Sequence[Example]
    ) -> None:
        base: Any = make_random_causal(settings)
        base.set_attn_implementation("eager")
        self._model = add_adapter(base, tuning.lora or Lora(), seed=0)
        self._clip, self._optimizer = tuning.clip, adamw(self._model, tuning)
        batch = pad_examples(windows, pad_id=0)
        labels = torch.full_like(batch.ids, -100)
        labels[:, batch.predicting + 1] = batch.targets
        parts = {"input_ids": batch.ids, "attention_mask": batch.attended, "labels": labels}
        self._inputs = {
            name: tensor.to(settings.device) for name, tensor in parts.items() if tensor is not None
        }

    def step(self) -> float:
        """Tune on all windows once; return the loss."""
        self._model.train()
        self._optimizer.zero_grad()
        loss = self._model(**self._inputs, use_cache=False).loss
        loss.backward()
        nn.utils.clip_grad_norm_(select_trained_parameters(self._model).values(), self._clip)
        self._optimizer.step()
        return float(loss.detach())
