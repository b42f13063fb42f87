"""The course of a tagger's training: steps, points, measurements, checkpoints, the best weights."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from safetensors.torch import load_file, save_file

from audit.deid.token.learner import Learner
from audit.deid.token.measure import Figures
from audit.deid.token.task import Task
from audit.deid.token.train_points import TrainPoint, add_point
from audit.errors import AuditCancelled
from audit.models.checkpoints import (
    CheckpointState,
    forget_checkpoints,
    load_checkpoint,
    own_tensors,
    save_checkpoint,
)
from audit.private_files import whole_folder, write_whole
from audit.progress import Meter

TRAIN, MEASURE = "training the tagger", "measuring the tagger"
BEST = "best"
_WEIGHTS, _STATE = "model.safetensors", "state.json"
_MOST_SECONDS = 300.0
_POINTS = 100
PointListener = Callable[[TrainPoint], None]


class Course:
    """A training from its last checkpoint to its end.

    Parameters
    ----------
    folder
        Of the training.
    meter
        With the phases `TRAIN` (steps) and `MEASURE` (measurements).
    """

    def __init__(self, task: Task, folder: Path, *, meter: Meter, on_point: PointListener) -> None:
        self._task, self._folder = task, folder
        self._meter, self._on_point = meter, on_point
        self._n_steps = task.lessons.n_steps
        self._learner = Learner(
            task.model, settings=task.settings, n_steps=self._n_steps, precision=task.precision
        )
        self._begin = self._kept_at = 0.0

    def run(self) -> None:
        """Train to the last step; the model then has the best weights.

        Raises
        ------
        AuditError
            If the loss is no longer a number, memory runs out, or nothing can be written; the last
            checkpoint is kept.
        AuditCancelled
            If the person asked to stop; a checkpoint is written first.
        """
        first = self._resumed()
        losses: list[float] = []
        for step in range(first + 1, self._n_steps + 1):
            losses.append(self._learner.step(step, self._task.lessons.of_step(step)))
            if self._is_measured(step):
                self._measure(step, sum(losses) / len(losses))
                losses = []
            elif step % max(1, self._n_steps // _POINTS) == 0:
                self._point(TrainPoint(step, sum(losses) / len(losses), self._seconds))
                losses = []
            is_late = self._seconds - self._kept_at > _MOST_SECONDS
            if self._is_measured(step) or is_late or step % self._every == 0:
                self._keep(step)
            try:
                self._meter.add(TRAIN, 1.0)
                if self._is_measured(step):
                    self._meter.add(MEASURE, 1.0)
            except AuditCancelled:
                self._keep(step)
                raise
        self._take_best()

    @property
    def _every(self) -> int:
        return self._task.settings.checkpoint_every

    @property
    def _seconds(self) -> float:
        return round(time.monotonic() - self._begin, 3)

    def _is_measured(self, step: int) -> bool:
        n = min(self._task.settings.n_evaluations, self._n_steps)
        return any(step == -(-self._n_steps * (k + 1) // n) for k in range(n))

    def _resumed(self) -> int:
        learner = self._learner
        state = load_checkpoint(
            self._folder, key=self._task.key, model=learner.model.module,
            optimizer=learner.optimizer,
        )  # fmt: skip
        step, seconds = (0, 0.0) if state is None else (state.step, state.seconds)
        if not step:
            shutil.rmtree(self._folder / BEST, ignore_errors=True)
        self._begin, self._kept_at = time.monotonic() - seconds, seconds
        self._meter.add(TRAIN, float(step), is_cached=True)
        n_measured = sum(self._is_measured(k) for k in range(1, step + 1))
        self._meter.add(MEASURE, float(n_measured), is_cached=True)
        return step

    def _measure(self, step: int, loss: float) -> None:
        task = self._task
        scores = task.examiner.scores(task.model)
        beta = task.settings.recall_weight
        found = task.examiner.figures(scores, bias=0.0, beta=beta)
        point = TrainPoint(step, loss, self._seconds, found.precision, found.recall, found.f)
        self._point(point)
        best = read_best(self._folder)
        # A best of this step or later was written just before a kill: it is made again.
        if best is None or best[0] >= step or found.f > best[1]:
            self._keep_best(step, found)

    def _point(self, point: TrainPoint) -> None:
        add_point(self._folder, point)
        self._on_point(point)

    def _keep_best(self, step: int, found: Figures) -> None:
        with whole_folder(self._folder / BEST) as partial:
            save_file(own_tensors(self._task.model.module.state_dict()), partial / _WEIGHTS)
            state = {"step": step, "f": found.f, "key": self._task.key}
            write_whole(partial / _STATE, json.dumps(state).encode("ascii"))

    def _keep(self, step: int) -> None:
        state = CheckpointState(step, self._seconds, self._task.key)
        learner = self._learner
        save_checkpoint(
            self._folder, state, model=learner.model.module, optimizer=learner.optimizer
        )
        self._kept_at = self._seconds

    def _take_best(self) -> None:
        module = self._task.model.module
        weights = load_file(self._folder / BEST / _WEIGHTS)
        device = self._task.model.device
        module.load_state_dict({name: one.to(device) for name, one in weights.items()})
        module.eval()


def read_best(folder: Path) -> tuple[int, float] | None:
    """Return step and F of the best weights so far; None where none were kept."""
    try:
        state = json.loads((folder / BEST / _STATE).read_text(encoding="ascii"))
        return int(state["step"]), float(state["f"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget_course(folder: Path) -> None:
    """Remove what only a training that still runs needs."""
    forget_checkpoints(folder)
    shutil.rmtree(folder / BEST, ignore_errors=True)
