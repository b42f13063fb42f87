"""One step of a training: masks, forward passes, gradient, weights; all keyed on seed and step.

Comes in: rows [B, L]. Goes out: changed weights and the step's loss. Nothing is carried from step
to step but the weights and the optimizer's state, so a step can be done again and is the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from audit.models.encoder import body_of, logits_at
from audit.models.row_masking import Ids, SpecialIds, masked_rows
from audit.randomness import generator, torch_seed
from audit.training.hardware import Hardware
from audit.training.settings import TrainSettings

_BETAS = (0.9, 0.999)
_EPSILON = 1e-6  # BERT's; PyTorch's own is 1e-8


class Learner:
    """A model and its optimizer.

    Parameters
    ----------
    model
        Trained in place; on `hardware.device`.
    n_steps
        Steps of the whole training: the learning rate follows from it.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        settings: TrainSettings,
        special: SpecialIds,
        hardware: Hardware,
        n_steps: int,
    ) -> None:
        self.model = model
        self.settings = settings
        self.special = special
        self.hardware = hardware
        self.n_steps = n_steps
        self.optimizer = torch.optim.AdamW(
            _groups(model, settings), betas=_BETAS, eps=_EPSILON, fused=True
        )

    def step(self, step: int, rows: Ids) -> tuple[Tensor, Tensor]:
        """Learn from the rows [B, L] of a step, 1 and on.

        Returns
        -------
        loss, norm
            Mean loss in nats a token and norm of the gradient, on the device: not waited for.
        """
        settings = self.settings
        rng = generator(settings.seed, "row masks", step)
        masked = masked_rows(rows, special=self.special, share=settings.mask_share, rng=rng)
        ids, positions, targets = (
            self._sent(part) for part in (masked.ids, masked.positions, masked.targets)
        )
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=ids.device)
        for number in range(settings.n_passes):
            part = slice(number * settings.micro_batch, (number + 1) * settings.micro_batch)
            torch.manual_seed(torch_seed(settings.seed, "dropout", step, number))
            loss = self._loss(ids[part], positions[part], targets[part]) / settings.n_passes
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = group["highest_lr"] * settings.rate_factor(step, n_steps=self.n_steps)
        self.optimizer.step()
        return total, norm

    def learning_rate(self, step: int) -> float:
        """Return the encoder's learning rate in a step; 0 before the first."""
        factor = self.settings.rate_factor(step, n_steps=self.n_steps) if step else 0.0
        return self.settings.learning_rate * factor

    def loss_of(self, ids: Ids, positions: Ids, targets: Ids) -> float:
        """Return the mean loss of masked rows [N, L] in evaluation mode, in nats a token."""
        self.model.eval()
        total = 0.0
        n_rows = self.settings.micro_batch
        with torch.inference_mode():
            for start in range(0, len(ids), n_rows):
                parts = (part[start : start + n_rows] for part in (ids, positions, targets))
                sent = [self._sent(part) for part in parts]
                total += float(self._loss(*sent)) * len(sent[0])
        return total / len(ids)

    def _loss(self, ids: Tensor, positions: Tensor, targets: Tensor) -> Tensor:
        with self.hardware.numbers():
            logits = logits_at(self.model, ids, positions=positions)  # [B, M, V]
        return functional.cross_entropy(logits.flatten(end_dim=1).float(), targets.flatten())

    def _sent(self, part: Ids) -> Tensor:
        tensor = torch.from_numpy(part)
        if self.hardware.device == "cpu":
            return tensor
        return tensor.pin_memory().to(self.hardware.device, non_blocking=True)


def _groups(model: nn.Module, settings: TrainSettings) -> list[dict[str, object]]:
    """Return the parameters by learning rate and weight decay; vectors have no decay."""
    in_body = {id(parameter) for parameter in body_of(model).parameters()}
    rates = (settings.learning_rate, settings.head_learning_rate or settings.learning_rate)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        rate = rates[id(parameter) not in in_body]
        decay = settings.weight_decay if parameter.dim() > 1 else 0.0
        groups.setdefault((rate, decay), []).append(parameter)
    return [
        {"params": found, "lr": rate, "highest_lr": rate, "weight_decay": decay}
        for (rate, decay), found in groups.items()
    ]
