"""The course of a training: step after step, with losses, checkpoints, snapshots and an end.

Comes in: a learner, its rows, a folder. Goes out: a trained model in the folder. Killed at any
moment and begun again it goes on from the last checkpoint to the same weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from audit.errors import AuditCancelled, AuditError
from audit.models.checkpoints import CheckpointState, load_checkpoint, save_checkpoint
from audit.progress import Meter
from audit.training.held_out import HeldOut
from audit.training.kept_models import TrainingFacts, snapshot_name
from audit.training.learner import Learner
from audit.training.model_folder import write_model
from audit.training.rows import Rows
from audit.training.train_log import LossPoint, append_point, cut_log

TRAIN = "training"
MOST_SECONDS = 600.0
"""Longest time between two checkpoints: slow machines lose no hours."""
PointListener = Callable[[LossPoint], None]


@dataclass(frozen=True, eq=False)
class Course:
    """Everything that a training needs while it runs.

    Attributes
    ----------
    parent
        Directory of the model that it was started from.
    on_point
        Told every point of the loss curve.
    """

    learner: Learner
    rows: Rows
    held_out: HeldOut | None
    facts: TrainingFacts
    run_dir: Path
    parent: Path
    meter: Meter
    on_point: PointListener

    def run(self) -> None:
        """Train to the last step.

        Raises
        ------
        AuditError
            If the loss is no longer a number, memory runs out, or nothing can be written; the last
            checkpoint is kept.
        AuditCancelled
            If the person asked to stop; a checkpoint is written first.
        """
        first, seconds = self._resumed()
        clock = _Clock(seconds)
        losses: list[tuple[Tensor, Tensor]] = []
        if not first:
            self._point(0, losses, clock=clock)
        for step in range(first + 1, self.facts.n_steps + 1):
            with _memory_watched(self.learner):
                losses.append(self.learner.step(step, self.rows.of_step(step)))
            if self._is_point(step):
                self._point(step, losses, clock=clock)
                losses = []
            if step in self.facts.snapshots:
                name = snapshot_name(step)
                write_model(self.learner.model, self.run_dir / name, parent=self.parent)
            if step < self.facts.n_steps and self._is_checkpoint(step, clock):
                self._keep(step, losses, clock)
            try:
                self.meter.add(TRAIN, 1.0)
            except AuditCancelled:
                if step < self.facts.n_steps:
                    self._keep(step, losses, clock)
                    raise

    def _resumed(self) -> tuple[int, float]:
        learner = self.learner
        state = load_checkpoint(
            self.run_dir, key=self.facts.key, model=learner.model, optimizer=learner.optimizer
        )
        if state is None:
            cut_log(self.run_dir, step=-1)
            return 0, 0.0
        cut_log(self.run_dir, step=state.step)
        self.meter.add(TRAIN, float(state.step), is_cached=True)
        return state.step, state.seconds

    def _is_point(self, step: int) -> bool:
        settings, n_steps = self.learner.settings, self.facts.n_steps
        every = (
            settings.point_every(n_steps), settings.checkpoint_every, settings.evaluate_every,
            n_steps,
        )  # fmt: skip
        return any(step % n == 0 for n in every) or step in self.facts.snapshots

    def _point(self, step: int, losses: list[tuple[Tensor, Tensor]], *, clock: _Clock) -> None:
        loss = self._mean(losses) if losses else None
        settings = self.learner.settings
        is_due = step % settings.evaluate_every == 0 or step == self.facts.n_steps
        held_out = None
        if self.held_out is not None and is_due:
            rows = self.held_out.rows
            with _memory_watched(self.learner):
                held_out = self.learner.loss_of(rows.ids, rows.positions, rows.targets)
            _refuse_no_number(math.isfinite(held_out), has_begun=step > 0)
        rate = self.learner.learning_rate(step)
        point = LossPoint(step, loss, held_out, rate, round(clock.seconds, 3))
        append_point(self.run_dir, point)
        self.on_point(point)

    def _mean(self, losses: list[tuple[Tensor, Tensor]]) -> float:
        # One transfer for all steps since the last point: a GPU is not waited for at each.
        told = torch.stack([torch.stack(pair) for pair in losses]).double().cpu()
        _refuse_no_number(bool(torch.isfinite(told).all()), has_begun=True)
        return float(told[:, 0].mean())

    def _is_checkpoint(self, step: int, clock: _Clock) -> bool:
        is_late = clock.seconds - clock.kept_at > MOST_SECONDS
        return is_late or step % self.learner.settings.checkpoint_every == 0

    def _keep(self, step: int, losses: list[tuple[Tensor, Tensor]], clock: _Clock) -> None:
        if losses:
            self._mean(losses)  # weights that are no numbers are not kept
        state = CheckpointState(step, clock.seconds, self.facts.key)
        learner = self.learner
        save_checkpoint(self.run_dir, state, model=learner.model, optimizer=learner.optimizer)
        clock.kept_at = clock.seconds


class _Clock:
    """Seconds of training, those before a pause included."""

    def __init__(self, before: float) -> None:
        self._begin = time.monotonic() - before
        self.kept_at = before

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin


def _refuse_no_number(is_number: bool, *, has_begun: bool) -> None:
    if not is_number:
        raise AuditError(
            "The loss is no longer a number: the training has diverged."
            if has_begun
            else "The loss of the general model on these notes is not a number.",
            where="training",
            do="Begin again with a lower learning rate or a longer warm-up, or in float32.",
        )


@contextmanager
def _memory_watched(learner: Learner) -> Iterator[None]:
    """Turn running out of memory into a sentence that says what to try."""
    n = learner.settings.micro_batch
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):
        pass
    except RuntimeError as error:
        if "alloc" not in str(error).lower() or "memory" not in str(error).lower():
            raise
    else:
        return
    smaller = max(k for k in range(1, max(2, n // 2 + 1)) if n % k == 0)
    raise AuditError(
        f"Memory ran out with {n} rows a pass.",
        where="training",
        do=f"Try `micro_batch` {smaller}." if n > 1 else "Take shorter rows or a smaller model.",
    )
