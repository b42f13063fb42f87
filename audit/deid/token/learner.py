"""One step of a tagger's training: rows in, changed weights out; dropout keyed on seed and step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from audit.deid.token.lessons import NO_TAG, Lesson, passes_of
from audit.deid.token.rows import padded
from audit.deid.token.settings import WHERE, TaggerSettings
from audit.deid.token.token_model import TokenModel
from audit.errors import AuditError
from audit.randomness import torch_seed


class Learner:
    """A model and its optimizer.

    Parameters
    ----------
    model
        Trained in place.
    n_steps
        Steps of the whole training: the learning rate follows from it.
    precision
        "float32", or "bfloat16" for what is multiplied; weights are float32 in both.
    """

    def __init__(
        self, model: TokenModel, *, settings: TaggerSettings, n_steps: int, precision: str
    ) -> None:
        self.model, self.settings, self.n_steps = model, settings, n_steps
        self.precision = precision
        groups: dict[float, list[nn.Parameter]] = {}
        for parameter in model.module.parameters():
            decay = settings.weight_decay if parameter.dim() > 1 else 0.0
            groups.setdefault(decay, []).append(parameter)
        self.optimizer = torch.optim.AdamW(
            [{"params": found, "weight_decay": decay} for decay, found in groups.items()],
            lr=settings.learning_rate,
            fused=True,
        )

    def step(self, step: int, rows: Sequence[Lesson]) -> float:
        """Learn from the rows of a step, 1 and on; returns the mean loss in nats a token.

        Raises
        ------
        AuditError
            If the loss is no longer a number, or memory runs out.
        """
        n_told = max(1, sum(int((row.tags != NO_TAG).sum()) for row in rows))
        self.model.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for number, some in enumerate(passes_of(rows, n=self.settings.micro_batch)):
            torch.manual_seed(torch_seed(self.settings.seed, "tagger dropout", step, number))
            with _memory_watched(self.settings.micro_batch):
                loss = self._loss(some) / n_told
                loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        if not np.isfinite(total):
            raise AuditError(
                "The loss is no longer a number: the training has diverged.",
                where="training",
                do="Begin again with a lower learning rate or a longer warm-up, or in float32.",
            )
        nn.utils.clip_grad_norm_(self.model.module.parameters(), self.settings.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate(step, n_steps=self.n_steps)
        self.optimizer.step()
        return total

    def _loss(self, rows: Sequence[Lesson]) -> Tensor:
        """Return the sum of the tokens' losses."""
        given = padded([row.piece() for row in rows], reader=self.model.reader)
        tags = np.full(given.ids.shape, NO_TAG, dtype=np.int64)
        for i, row in enumerate(rows):
            tags[i, given.n_before : given.n_before + len(row.tags)] = row.tags
        device = self.model.device
        kinds = None if given.kinds is None else given.kinds.to(device)
        with self._numbers(device):
            logits = self.model.logits(
                given.ids.to(device), mask=given.mask.to(device), kinds=kinds
            )
        return functional.cross_entropy(
            logits.float().flatten(end_dim=1),
            torch.from_numpy(tags).to(device).flatten(),
            ignore_index=NO_TAG,
            reduction="sum",
        )

    def _numbers(self, device: torch.device) -> AbstractContextManager[object]:
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(device.type, dtype=torch.bfloat16)


def pick_precision(wanted: str, *, device: str) -> str:
    """Return the number type: "auto" is bfloat16 only on a GPU that has it."""
    if wanted != "auto":
        return wanted
    has_it = device == "cuda" and torch.cuda.is_bf16_supported()
    return "bfloat16" if has_it else "float32"


@contextmanager
def _memory_watched(n: int) -> Iterator[None]:
    """Turn running out of memory into a sentence that says what to try."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):
        pass
    except RuntimeError as error:
        if "alloc" not in str(error).lower() or "memory" not in str(error).lower():
            raise
    else:
        return
    raise AuditError(
        f"Memory ran out with {n} rows a pass.",
        where=WHERE,
        do=f"Try `micro_batch` {n // 2}." if n > 1 else "Take shorter rows or a smaller model.",
    )
