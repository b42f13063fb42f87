"""The stages of making a corpus as one progress: how far it is, how long all of it will take."""

from __future__ import annotations

import time
from collections.abc import Mapping

from audit.progress import Meter, Pace, Progress, ProgressListener, StopQuestion


class Stages:
    """Tells the progress of stages, one after the other, as that of the whole.

    Parameters
    ----------
    weights
        Stage -> about how long it takes, in any unit.
    listener, should_stop
        Who is told, and who is asked.
    """

    def __init__(
        self, weights: Mapping[str, float], *, listener: ProgressListener, should_stop: StopQuestion
    ) -> None:
        self._weights = dict(weights)
        self._shares = dict.fromkeys(weights, 0.0)
        self._listener = listener
        self.should_stop = should_stop
        self._pace = Pace()

    def listener(self, stage: str) -> ProgressListener:
        """Return the listener of a stage: all before it are finished."""
        for before in self._weights:
            if before == stage:
                break
            self._shares[before] = 1.0

        def listen(progress: Progress) -> None:
            self._shares[stage] = progress.share
            self._listener(self._report(progress.phase))

        return listen

    def meter(self, stage: str, *, total: float) -> Meter:
        """Return a meter of a stage that is one phase of the same name."""
        return Meter(
            {stage: max(total, 1.0)}, listener=self.listener(stage), should_stop=self.should_stop
        )

    def _report(self, phase: str) -> Progress:
        done = sum(self._shares[stage] * weight for stage, weight in self._weights.items())
        total = sum(self._weights.values())
        left = self._pace.seconds_left(done, total=total, now=time.monotonic())
        return Progress(phase, done, total, left, tuple(self._shares.items()))
