"""Progress of an experiment: its stages as one piece of work, each with its share of the cost.

Comes in: the progress of each stage. Goes out: that of the whole. Torch-free.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from audit.errors import AuditError
from audit.experiment.order import ExperimentOrder
from audit.progress import Pace, Progress, ProgressListener

CORPUS, GENERAL, HOSPITAL = "corpus", "general model", "hospital model"
SCENARIOS = (2, 1)
"""In the order in which they are run: the cheaper one first, at all exposures."""
_BACKWARD = 3.0  # a training step costs three forward passes over its tokens
_CORPUS_COST = 1e-4  # of a corpus's byte, in tokens of a forward pass
_CHARS_PER_TOKEN, _TOKENS_PER_INPUT = 4.3, 130.0
_CHAIN_PASSES = 400.0


def audit_stage(epochs: float, *, scenario: int) -> str:
    """Return the name of the stage that audits one exposure in one scenario."""
    return f"audit after {epochs:g} epochs, scenario {scenario}"


def stage_costs(order: ExperimentOrder) -> dict[str, float]:
    """Return the stages in their order with what each will cost, in tokens of forward passes.

    An estimate from the size of the notes: it only weighs the stages against each other.

    Raises
    ------
    AuditError
        If the notes are not there.
    """
    n_bytes = _n_bytes(order.notes)
    costs = {CORPUS: 1.0 + _CORPUS_COST * n_bytes}
    if order.general_notes is not None:
        training = order.general_training
        costs[GENERAL] = _BACKWARD * training.n_steps * training.batch * training.n_tokens
    costs[HOSPITAL] = _BACKWARD * order.epochs[-1] * n_bytes / _CHARS_PER_TOKEN
    generation, posterior = order.generation, order.posterior
    of_scenario = {
        2: _TOKENS_PER_INPUT * (posterior.n_inputs + _CHAIN_PASSES * posterior.n_chain_inputs),
        1: float(generation.n_documents * generation.n_steps * generation.n_tokens),
    }
    for scenario in SCENARIOS:
        for number, epochs in enumerate(order.epochs):
            # The first audit runs M_general too; the others take its evidence from the store.
            n_models = 2 if number == 0 else 1
            costs[audit_stage(epochs, scenario=scenario)] = n_models * of_scenario[scenario]
    return costs


def _n_bytes(notes: Path) -> int:
    try:
        if notes.is_dir():
            return sum(file.stat().st_size for file in notes.rglob("*.txt"))
        return notes.stat().st_size
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where="notes") from None


class StageProgress:
    """Tells the progress of stages, one after the other, as that of the whole.

    Parameters
    ----------
    costs
        Stage -> its cost, in the order of the stages.
    listener
        Gets phases such as "hospital model: training".
    """

    def __init__(self, costs: Mapping[str, float], *, listener: ProgressListener) -> None:
        self._costs = dict(costs)
        self._total = sum(costs.values())
        self._listener = listener
        self._pace = Pace()
        self._skipped = 0.0

    def of(self, stage: str) -> ProgressListener:
        """Return the listener of one stage."""
        before = self._before(stage)

        def listen(progress: Progress) -> None:
            self._tell(f"{stage}: {progress.phase}", before + progress.share * self._costs[stage])

        return listen

    def finish(self, stage: str, *, was_kept: bool = False) -> None:
        """Count a stage as done; one that was there already says nothing about the pace."""
        if was_kept:
            self._skipped += self._costs[stage]
        self._tell(stage, self._before(stage) + self._costs[stage])

    def _before(self, stage: str) -> float:
        names = list(self._costs)
        return sum(self._costs[name] for name in names[: names.index(stage)])

    def _tell(self, phase: str, done: float) -> None:
        left = self._pace.seconds_left(
            done - self._skipped, total=self._total - self._skipped, now=time.monotonic()
        )
        self._listener(Progress(phase, done, self._total, left))
