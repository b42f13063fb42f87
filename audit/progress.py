"""How far work is and how long it will take; what the command line says of it, on stderr."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from audit.errors import AuditCancelled


@dataclass(frozen=True)
class Progress:
    """One report of progress: units done of the whole run, those taken from the store included.

    `phase` is a short English phrase, `seconds_left` None until there is something to judge by.
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

_REPORT_SECONDS = 0.1
_MIN_SECONDS = 5.0
_MIN_SHARE = 0.03
_WINDOW_SECONDS = 30.0


class Pace:
    """How long work will still take, judged by the last half minute of it.

    Nothing is said before 5 seconds and 3 % of the work: one early sample says anything.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()
        self._start: tuple[float, float] | None = None

    def seconds_left(self, done: float, *, total: float, now: float) -> float | None:
        """Note that `done` units of `total` were done at `now`, and say how long the rest takes.

        Units are those of work that takes time, not what came out of the store; `now` is in
        seconds of a clock that only goes forward.
        """
        if self._start is None:
            self._start = (now, done)
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _WINDOW_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        is_early = now - self._start[0] < _MIN_SECONDS
        if is_early or done - self._start[1] < _MIN_SHARE * (total - self._start[1]):
            return None
        return (total - done) / (done - before) * (now - then) if done > before else None


class Meter:
    """Counts units of work of several phases, tells a listener, and stops when asked to.

    `totals` are the units of each phase (rows of a forward pass). The listener is called at most
    some ten times a second, and where a phase begins and all of it ends; `should_stop` after every
    unit: who asks a disk or a table spaces its questions (`jobs.contact`).
    """

    def __init__(
        self, totals: dict[str, float], *, listener: ProgressListener, should_stop: StopQuestion
    ) -> None:
        self._totals = dict(totals)
        self._done = dict.fromkeys(totals, 0.0)
        self._cached = 0.0
        self._listener = listener
        self._should_stop = should_stop
        self._pace = Pace()
        self._pace.seconds_left(0.0, total=sum(totals.values()), now=time.monotonic())
        self._last = 0.0
        self._begun: set[str] = set()

    def add(self, phase: str, units: float, *, is_cached: bool = False) -> None:
        """Count finished units."""
        was_finished = self._is_finished
        self._done[phase] = min(self._totals[phase], self._done[phase] + units)
        if is_cached:
            self._cached += units
        now = time.monotonic()
        is_end = self._is_finished and not was_finished
        if is_end or phase not in self._begun or now - self._last >= _REPORT_SECONDS:
            self._last = now
            self._begun.add(phase)
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
        left = self._pace.seconds_left(done - self._cached, total=total - self._cached, now=now)
        return Progress(phase, done, total, left)


class Portion:
    """Counts the units of a batch up to a share of them, 0-1; what was told before counts once."""

    def __init__(self, meter: Meter, phase: str, n_units: float) -> None:
        self._meter, self._phase, self._n_units, self._done = meter, phase, n_units, 0.0

    def __call__(self, share: float, *, is_cached: bool = False) -> None:
        """Count what came since the last call."""
        units = min(1.0, share) * self._n_units - self._done
        if units > 0:
            self._done += units
            self._meter.add(self._phase, units, is_cached=is_cached)


class Stages:
    """Tells the progress of stages, one after the other, as that of the whole: each counts as one.

    `listener` gets phases such as "hospital model: training". The time left is that of the stage,
    and for each stage behind it what one took so far; stages that were kept are not counted.
    """

    def __init__(self, names: Iterable[str], *, listener: ProgressListener) -> None:
        self._names, self._listener = list(names), listener
        self._done, self._begun, self._took = 0.0, time.monotonic(), list[float]()

    def of(self, stage: str) -> ProgressListener:
        """Return the listener of one stage."""

        def listen(progress: Progress) -> None:
            left = progress.seconds_left
            self._tell(f"{stage}: {progress.phase}", stage, share=progress.share, left=left)

        return listen

    def finish(self, stage: str) -> None:
        """Count a stage as done."""
        took, self._begun = time.monotonic() - self._begun, time.monotonic()
        if took >= _MIN_SECONDS:
            self._took.append(took)
        self._tell(stage, stage, share=1.0, left=0.0)

    def _tell(self, phase: str, stage: str, *, share: float, left: float | None) -> None:
        at = self._names.index(stage)
        self._done = max(self._done, at + share)
        n_behind = len(self._names) - at - 1
        if left is not None and n_behind:
            whole = time.monotonic() - self._begun + left
            took = self._took + ([whole] if share < 1 and whole >= _MIN_SECONDS else [])
            left = left + n_behind * sum(took) / len(took) if took else None
        self._listener(Progress(phase, self._done, len(self._names), left))


def duration(seconds: float) -> str:
    """Return a duration as a person says it."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def say(text: str) -> None:
    """Write one sentence; stdout is for results."""
    sys.stderr.write(f"{text}\n")


def progress_line() -> Callable[[Progress], None]:
    """Return a listener that keeps one line of stderr up to date, where stderr is a terminal."""
    is_terminal = sys.stderr.isatty()
    last = [0.0]

    def listen(progress: Progress) -> None:
        now = time.monotonic()
        if now - last[0] < (0.5 if is_terminal else 10):
            return
        last[0] = now
        left = "" if progress.seconds_left is None else f", {duration(progress.seconds_left)} left"
        text = f"{progress.phase}: {100 * progress.share:.0f} %{left}"
        sys.stderr.write(f"\r\x1b[K{text}" if is_terminal else f"{text}\n")
        if is_terminal and progress.share >= 1:
            sys.stderr.write("\n")
        sys.stderr.flush()

    return listen
