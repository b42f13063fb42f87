"""The pre-training loop beside the plain float32 loop, on the same rows and masks.

Plain: transformers' eager attention, logits and labels at all positions, an attention mask as for
padded rows, AdamW over lists of tensors. Ours: `audit.training.loop`. Both start from the same
weights and see the same masked rows in the same steps. The gain depends on the processor: bfloat16
is faster only where it has instructions for it, so one machine's gain says nothing about another's.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import torch
from torch import nn

from audit.bench.attacks import CLS, FIRST_WORD, MASK, SEP, make_random_model
from audit.bench.machine import measure_race, use_threads
from audit.bench.race import BenchSettings
from audit.models.forward import use_exact_float32
from audit.models.load import pick_device
from audit.rng import generator
from audit.shelf import JSON
from audit.training.config import TrainSettings
from audit.training.loop import Hardware, keep_memory
from audit.training.masked_lm import MaskedLearner
from audit.training.tokens import Ids, SpecialIds, mask_rows

_LENGTH, _BATCH = 128, 8
_N_STEPS = 1_000_000  # of a training that is never finished: the learning rate is constant


def measure_pretraining(settings: BenchSettings) -> dict[str, JSON]:
    """Measure pre-training in rows; `largest_difference_of_losses` is in nats a token."""
    device, batch = pick_device(settings.device), settings.batch or _BATCH
    length = settings.n_tokens or _LENGTH
    train_settings = TrainSettings(
        batch=batch,
        micro_batch=batch,
        n_tokens=length,
        learning_rate=1e-4,
        schedule="constant",
        warmup_share=0,
        precision=settings.dtype,
    )
    rows: Any = _Rows(settings, batch=batch, length=length)
    losses: dict[str, list[float]] = {"baseline": [], "product": []}
    with use_threads(settings.n_threads), torch.random.fork_rng():
        plain = _PlainLoop(make_random_model(settings), settings=train_settings, rows=rows)
        model: Any = make_random_model(settings)
        model.set_attn_implementation("sdpa")
        learner = MaskedLearner(
            model,
            settings=train_settings,
            hardware=Hardware(device, settings.dtype),
            n_steps=_N_STEPS,
            rows=rows,
        )
        steps = {name: count(1) for name in losses}

        def baseline() -> float:
            losses["baseline"].append(plain.step(next(steps["baseline"])))
            return float(batch)

        def product() -> float:
            with keep_memory(), use_exact_float32(device):
                losses["product"].append(float(learner.step(next(steps["product"]))[0]))
            return float(batch)

        measures = measure_race(
            settings, {"baseline": baseline, "product": product}, n_rows=batch * length
        )
    differences = np.abs(np.subtract(losses["baseline"], losses["product"]))
    return measures | {
        "unit": "row",
        "losses": losses,
        "largest_difference_of_losses": float(differences.max()),
    }


class _PlainLoop:
    """The plain loop, as one writes it first."""

    def __init__(self, model: nn.Module, *, settings: TrainSettings, rows: _Rows) -> None:
        self._model = model
        self._settings, self._rows = settings, rows
        self._optimizer = torch.optim.AdamW(
            model.parameters(), lr=settings.learning_rate, eps=1e-6, foreach=True
        )

    def step(self, step: int) -> float:
        """Train on one step; return its loss."""
        rng = generator(self._settings.seed, "row masks", step)
        rows, share = self._rows.of_step(step), self._settings.mask_share
        masked = mask_rows(rows, special=self._rows.special, share=share, rng=rng)
        labels = np.full_like(rows, -100)
        np.put_along_axis(labels, masked.positions, masked.targets, axis=1)
        device = next(self._model.parameters()).device
        ids, device_labels = (torch.from_numpy(array).to(device) for array in (masked.ids, labels))
        self._model.train()
        loss = self._model(
            input_ids=ids, attention_mask=torch.ones_like(ids), labels=device_labels
        ).loss
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._model.parameters(), self._settings.clip)
        self._optimizer.step()
        return float(loss.detach())


class _Rows:
    """Invented rows [B, L]: by Zipf's law; every second word follows from the one before."""

    def __init__(self, settings: BenchSettings, *, batch: int, length: int) -> None:
        self.special = SpecialIds(CLS, SEP, MASK, settings.n_vocabulary)
        self._n_words = settings.n_vocabulary - FIRST_WORD
        self._shape = batch, (length - 2) // 2 * 2

    def of_step(self, step: int) -> Ids:
        """Return the rows of a step."""
        rng = np.random.default_rng([7, step])
        words = FIRST_WORD + np.minimum(rng.zipf(1.3, self._shape) - 1, self._n_words - 1)
        words[:, 1::2] = FIRST_WORD + (words[:, ::2] * 7 + 11) % self._n_words
        return self.special.add_frame(words)
