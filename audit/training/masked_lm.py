"""Learning to predict masked tokens of notes.

Source: Nakamura et al., section 3.3; ClinicalBERT (Alsentzer et al. 2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from audit.models.forward import compute_logits, find_body
from audit.models.learning import LearningPass
from audit.rng import generator
from audit.training.config import TrainSettings
from audit.training.loop import Hardware, adamw
from audit.training.notes_learner import ModelWriter, NotesLearner
from audit.training.tokens import HeldOut, MaskedRows, Rows, mask_rows

_EPSILON = 1e-6  # BERT's; PyTorch's own is 1e-8


class MaskedLearner(NotesLearner[MaskedRows]):
    """A masked language model, its training rows, and its held-out rows."""

    def __init__(
        self,
        model: nn.Module,
        *,
        settings: TrainSettings,
        hardware: Hardware,
        n_steps: int,
        rows: Rows,
        held_out: HeldOut[MaskedRows] | None = None,
        copies: Sequence[int] = (),
        write: ModelWriter = lambda model, path: None,
    ) -> None:
        in_body = {id(parameter) for parameter in find_body(model).parameters()}
        rates = (settings.learning_rate, settings.head_learning_rate or settings.learning_rate)
        optimizer = adamw(
            model,
            settings,
            rate_of=lambda parameter: rates[id(parameter) not in in_body],
            eps=_EPSILON,
            fused=True,
        )
        super().__init__(
            model,
            settings=settings,
            hardware=hardware,
            n_steps=n_steps,
            optimizer=optimizer,
            held_out=held_out,
            copies=copies,
            write=write,
        )
        self.rows, self._fast = rows, None
        if LearningPass.supports(model):
            self._fast = LearningPass(model, dtype=getattr(torch, hardware.precision))

    def passes(self, step: int) -> Iterator[MaskedRows]:
        """Return a step's masked rows, one micro-batch at a time."""
        rng, special = generator(self.settings.seed, "row masks", step), self.rows.special
        share = self.settings.mask_share
        masked = mask_rows(self.rows.of_step(step), special=special, share=share, rng=rng)
        return masked.parts(self.settings.micro_batch)

    def loss(self, rows: MaskedRows) -> Tensor:
        """Return the mean loss of the rows, as a share of the step's mean loss."""
        return self.compute_mean_loss(rows) / (self.settings.batch // self.settings.micro_batch)

    def compute_mean_loss(self, part: MaskedRows) -> Tensor:
        """Return the mean loss of the masked tokens, in nats per token."""
        ids, positions, targets = map(self.move_to_device, (part.ids, part.positions, part.targets))
        if self._fast is not None:
            logits = self._fast.logits(ids, positions=positions)  # [B, M, V]
        else:
            with self.hardware.numbers():
                logits = compute_logits(self.model, ids, positions=positions)
        return functional.cross_entropy(logits.flatten(end_dim=1).float(), targets.flatten())
