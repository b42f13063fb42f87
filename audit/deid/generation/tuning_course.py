"""The course of a tuning: step after step, with losses, checkpoints and an end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from audit.deid.generation.examples import Example
from audit.deid.generation.learner import Learner, step_rows
from audit.deid.token.train_points import TrainPoint, add_point, read_points
from audit.errors import AuditCancelled, AuditError
from audit.models.checkpoints import CheckpointState, load_checkpoint, save_checkpoint
from audit.progress import Meter

TUNE = "tuning the model"
_MOST_SECONDS = 600.0
_MOST_POINTS = 500


@dataclass(frozen=True, eq=False)
class Course:
    """Everything that a tuning needs while it runs.

    Attributes
    ----------
    rows, held_out
        Examples to learn from, and those whose loss is measured at both ends.
    key
        Of the tuning: a checkpoint of another is not taken.
    out
        Folder of the tuning. Its curve begins at step 0 with the loss before the first step, of
        the validation notes, else of some others.
    """

    learner: Learner
    rows: tuple[Example, ...]
    held_out: tuple[Example, ...]
    key: str
    out: Path
    meter: Meter
    on_point: Callable[[TrainPoint], None]

    def run(self) -> dict[str, float | None]:
        """Tune to the last step; return loss, and the held-out loss at both ends.

        Raises
        ------
        AuditError
            If the loss is no longer a number, memory runs out, or nothing can be written.
        AuditCancelled
            If the person asked to stop; a checkpoint is written first.
        """
        learner, n_steps = self.learner, self.learner.n_steps
        first, seconds = self._resumed()
        began = time.monotonic() - seconds
        kept_at = seconds
        every = max(1, n_steps // _MOST_POINTS)
        losses: list[float] = []
        if not first:
            self._point(0, self._held_out_loss(), seconds=0.0)
        for step in range(first + 1, n_steps + 1):
            with _memory_watched(learner.settings.micro_batch):
                losses.append(learner.step(step, self._rows_of(step)))
            _refuse_no_number(losses[-1])
            seconds = time.monotonic() - began
            if step % every == 0 or step == n_steps:
                self._point(step, sum(losses) / len(losses), seconds=seconds)
                losses = []
            is_due = step % learner.settings.checkpoint_every == 0
            if step < n_steps and (is_due or seconds - kept_at > _MOST_SECONDS):
                self._keep(step, seconds)
                kept_at = seconds
            try:
                self.meter.add(TUNE, 1.0)
            except AuditCancelled:
                if step < n_steps:
                    self._keep(step, seconds)
                    raise
        points = read_points(self.out)
        return {
            "loss": points[-1].loss,
            "first_validation": points[0].loss if self.held_out else None,
            "validation": self._held_out_loss() if self.held_out else None,
        }

    def _rows_of(self, step: int) -> list[Example]:
        settings = self.learner.settings
        rows = step_rows(step, n_rows=len(self.rows), batch=settings.batch, seed=settings.seed)
        return [self.rows[i] for i in rows]

    def _held_out_loss(self) -> float:
        rows = self.held_out or self.rows[: self.learner.settings.batch]
        with _memory_watched(self.learner.settings.micro_batch):
            loss = self.learner.loss_of(rows)
        _refuse_no_number(loss)
        return loss

    def _resumed(self) -> tuple[int, float]:
        learner = self.learner
        state = load_checkpoint(
            self.out, key=self.key, model=learner.tuned, optimizer=learner.optimizer
        )
        if state is None:
            return 0, 0.0
        self.meter.add(TUNE, float(state.step), is_cached=True)
        return state.step, state.seconds

    def _keep(self, step: int, seconds: float) -> None:
        state = CheckpointState(step, seconds, self.key)
        learner = self.learner
        save_checkpoint(self.out, state, model=learner.tuned, optimizer=learner.optimizer)

    def _point(self, step: int, loss: float, *, seconds: float) -> None:
        point = TrainPoint(step, loss, round(seconds, 3))
        add_point(self.out, point)
        self.on_point(point)


def _refuse_no_number(loss: float) -> None:
    if not math.isfinite(loss):
        raise AuditError(
            "The loss is no longer a number: the training has diverged.",
            where="training",
            do="Begin again with a lower learning rate or a longer warm-up, or in float32.",
        )


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
        f"Memory ran out with {n} windows a pass.",
        where="training",
        do="Try `micro_batch` 1, gradient checkpointing, an adapter, or shorter windows.",
    )
