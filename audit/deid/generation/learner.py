"""One step of a tuning: windows, forward passes, gradient of the answer's loss, weights.

Comes in: examples. Goes out: changed weights and the step's loss. Nothing is carried from step to
step but the weights and the optimizer's state, so a step can be done again and is the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from audit.deid.generation.examples import Example
from audit.deid.generation.tuning_settings import TuningSettings
from audit.randomness import generator, torch_seed

IGNORED = -100
"""Target of a position that the loss leaves out."""
_BETAS = (0.9, 0.999)


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples of one pass, padded on the right.

    Attributes
    ----------
    ids, attended
        [B, L]; padding is not attended to.
    targets
        [B, K]: what follows each of the last K of all but the last position; `IGNORED` where
        that belongs to a prompt or is padding.
    """

    ids: Tensor
    attended: Tensor
    targets: Tensor


def batch_of(examples: Sequence[Example], *, pad_id: int) -> Batch:
    """Put examples side by side."""
    n_longest = max(example.n_tokens for example in examples)
    ids = np.full((len(examples), n_longest), pad_id, dtype=np.int64)
    attended = np.zeros_like(ids)
    targets = np.full((len(examples), n_longest - 1), IGNORED, dtype=np.int64)
    for row, example in enumerate(examples):
        n_prompt, n = len(example.prompt), example.n_tokens
        ids[row, :n_prompt], ids[row, n_prompt:n] = example.prompt, example.answer
        attended[row, :n] = 1
        targets[row, n_prompt - 1 : n - 1] = example.answer
    first = min(len(example.prompt) for example in examples) - 1
    parts = (ids, attended, targets[:, first:])
    return Batch(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))


class Learner:
    """A model and its optimizer.

    Parameters
    ----------
    model
        Tuned in place, those of its parameters that want a gradient.
    device, precision
        Where it lies, and the number type of products.
    n_steps
        Of the whole tuning: the learning rate follows from it.
    """

    def __init__(
        self,
        model: Any,
        *,
        settings: TuningSettings,
        pad_id: int,
        device: str,
        precision: str,
        n_steps: int,
    ) -> None:
        self.model = model
        self.settings = settings
        self.n_steps = n_steps
        self._pad_id, self._device, self._precision = pad_id, device, precision
        plain = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._keeps_logits = "logits_to_keep" in inspect.signature(plain.forward).parameters
        self.tuned = Tuned(model)
        self.optimizer = torch.optim.AdamW(
            _groups(self.tuned, settings.weight_decay), lr=settings.rate, betas=_BETAS
        )

    def step(self, step: int, examples: Sequence[Example]) -> float:
        """Learn from the examples of a step, 1 and on; return the mean loss in nats a token."""
        settings = self.settings
        order = sorted(examples, key=lambda example: -example.n_tokens)
        n_targets = sum(len(example.answer) for example in order)
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self._device)
        for number, start in enumerate(range(0, len(order), settings.micro_batch)):
            torch.manual_seed(torch_seed(settings.seed, "tuning dropout", step, number))
            part = order[start : start + settings.micro_batch]
            loss = self._summed(batch_of(part, pad_id=self._pad_id)) / n_targets
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        nn.utils.clip_grad_norm_(list(self.tuned.parameters()), settings.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = settings.rate * settings.rate_factor(step, n_steps=self.n_steps)
        self.optimizer.step()
        return float(total)

    def loss_of(self, examples: Sequence[Example]) -> float:
        """Return the mean loss of answers in evaluation mode, in nats a token."""
        self.model.eval()
        total, n = 0.0, self.settings.micro_batch
        order = sorted(examples, key=lambda example: -example.n_tokens)
        with torch.inference_mode():
            for start in range(0, len(order), n):
                batch = batch_of(order[start : start + n], pad_id=self._pad_id)
                total += float(self._summed(batch))
        return total / sum(len(example.answer) for example in order)

    def _summed(self, batch: Batch) -> Tensor:
        """Return the summed cross-entropy of a pass, of answer tokens alone."""
        n_kept = batch.targets.shape[1]
        more = {"logits_to_keep": n_kept + 1} if self._keeps_logits else {}
        with self._numbers():
            logits = self.model(
                input_ids=batch.ids.to(self._device),
                attention_mask=batch.attended.to(self._device),
                use_cache=False,
                **more,
            ).logits  # [B, K + 1 or L, V]
        said = logits[:, -(n_kept + 1) : -1].flatten(end_dim=1)
        targets = batch.targets.to(self._device).flatten()
        is_asked = targets != IGNORED
        return functional.cross_entropy(said[is_asked].float(), targets[is_asked], reduction="sum")

    def _numbers(self) -> AbstractContextManager[object]:
        if self._precision == "float32":
            return nullcontext()
        return torch.autocast(self._device, dtype=torch.bfloat16)


class Tuned(nn.Module):
    """The parameters of a model that want a gradient, as a module of their own for checkpoints."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self.register_parameter(name.replace(".", "/"), parameter)


def step_rows(step: int, *, n_rows: int, batch: int, seed: int) -> list[int]:
    """Return the rows of a step, 1 and on: epochs follow each other, each in an order of its own.

    The last step of all may have more rows than its share of the last epoch.
    """
    rows: list[int] = []
    at = (step - 1) * batch
    while len(rows) < batch:
        epoch, first = divmod(at + len(rows), n_rows)
        order = generator(seed, "tuning order", epoch).permutation(n_rows)
        rows += order[first : first + batch - len(rows)].tolist()
    return rows


def _groups(tuned: Tuned, weight_decay: float) -> list[dict[str, object]]:
    """Return the parameters by weight decay; vectors have none."""
    groups: dict[float, list[nn.Parameter]] = {}
    for parameter in tuned.parameters():
        groups.setdefault(weight_decay if parameter.dim() > 1 else 0.0, []).append(parameter)
    return [{"params": found, "weight_decay": decay} for decay, found in groups.items()]
