"""Progress of long work: what is being done, how far it is, how long it will still take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from audit.errors import AuditCancelled


@dataclass(frozen=True)
class Progress:
    """One report of progress.

    Attributes
    ----------
    phase
        What is being done, as a short English phrase.
    done, total
        Units of the whole run, those taken from the store included.
    seconds_left
        None until there is something to judge by.
    """

    phase: str
    done: float
    total: float
    seconds_left: float | None

    @property
    def share(self) -> float:
        """Share done, 0-1."""
        return min(1.0, self.done / self.total) if self.total else 1.0


ProgressListener = Callable[[Progress], None]
StopQuestion = Callable[[], bool]

_MIN_SECONDS = 2.0


class Meter:
    """Counts units of work of several phases, tells a listener, and stops when asked to.

    Parameters
    ----------
    totals
        Phase -> units of work (rows of a forward pass).
    listener, should_stop
        Called at most some ten times a second, and at the end.
    """

    def __init__(
        self, totals: dict[str, float], *, listener: ProgressListener, should_stop: StopQuestion
    ) -> None:
        self._totals = dict(totals)
        self._done = dict.fromkeys(totals, 0.0)
        self._cached = 0.0
        self._listener = listener
        self._should_stop = should_stop
        self._start = time.monotonic()
        self._last = 0.0

    def add(self, phase: str, units: float, *, is_cached: bool = False) -> None:
        """Count finished units.

        Raises
        ------
        AuditCancelled
            If the person asked to stop.
        """
        was_finished = self._is_finished
        self._done[phase] = min(self._totals[phase], self._done[phase] + units)
        if is_cached:
            self._cached += units
        now = time.monotonic()
        is_end = self._is_finished and not was_finished
        if now - self._last < 0.1 and not is_end:
            return
        self._last = now
        self._listener(self._report(phase, now))
        if self._should_stop():
            raise AuditCancelled

    def finish(self, phase: str) -> None:
        """Count what is left of a phase: units may have been announced as an estimate."""
        left = self._totals[phase] - self._done[phase]
        if left > 0:
            self.add(phase, left)

    @property
    def _is_finished(self) -> bool:
        return sum(self._done.values()) >= sum(self._totals.values())

    def _report(self, phase: str, now: float) -> Progress:
        done, total = sum(self._done.values()), sum(self._totals.values())
        worked, elapsed = done - self._cached, now - self._start
        left = (total - done) / worked * elapsed if worked > 0 and elapsed > _MIN_SECONDS else None
        return Progress(phase, done, total, left)
