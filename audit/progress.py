"""How far work is and how long it will take; what the command line says of it, on stderr.

Work is planned in phases, each so many units of a kind. What a unit of a kind takes on this machine
is kept, so that phases that go at unequal pace are weighed from the start; what this run shows
corrects it.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from audit.errors import AuditCancelled, AuditError
from audit.home import home_folder
from audit.shelf import write_whole


@dataclass(frozen=True)
class Progress:
    """One report of progress: how much is done of the whole, what was kept before included.

    `phase` is a short English phrase, `seconds_left` None until there is something to judge by.
    `n_kept` is the part of `done` that was taken from the store.
    """

    phase: str
    done: float
    total: float
    seconds_left: float | None
    n_kept: float = 0.0

    @property
    def share(self) -> float:
        """Share done, 0-1."""
        return min(1.0, self.done / self.total) if self.total else 1.0


ProgressListener = Callable[[Progress], None]
StopQuestion = Callable[[], bool]


@dataclass(frozen=True)
class Phase:
    """A part of planned work."""

    name: str  # a short English phrase; no other phase of the plan has it
    # How much work there is: bytes, steps, rows of forward passes x their tokens x parameters. One
    # unit is a fixed cost, whose time says nothing about that of other phases.
    n_units: float
    unit_seconds: float = 1.0  # where none of its kind was ever timed: of two the ratio counts
    kind: str = ""  # what goes at the same pace, which is kept for the next run; "" is not kept
    size: float = 1.0  # of the model, in parameters: the pace of the nearest size is taken
    is_whole: bool = False  # work with a meter of its own: a unit is a second expected of it


def whole(name: str, phases: Iterable[Phase], *, kind: str) -> Phase:
    """Return work with a meter of its own as a phase; what is like it goes at a like pace."""
    return Phase(name, expected_seconds(phases), kind=kind, is_whole=True)


LOADING, FINISHING = "loading", "finishing"
_PACES = "paces.json"
_REPORT_SECONDS = 0.1
_MIN_SECONDS = 0.05  # work that took less is no measure of a pace
_MEMORY_SECONDS = 60.0  # what was seen longer ago counts ever less
_DOUBT = 0.03  # with this share of it done, a pace that is seen counts as much as the one expected


def expected_seconds(phases: Iterable[Phase]) -> float:
    """Return how long work takes, by what was timed on this machine."""
    paces = _kept_paces()
    return sum(phase.n_units * _unit_seconds(phase, paces)[0] for phase in phases)


def _kept_paces() -> dict[str, dict[str, float]]:
    """Return the seconds that a unit took, by its kind and the model's size as a power of two."""
    try:
        kept = json.loads((home_folder("jobs") / _PACES).read_bytes())
        return {
            kind: {size: pace for size, pace in sizes.items() if float(size) >= 0 and pace > 0}
            for kind, sizes in kept.items()
        }
    except (AuditError, OSError, ValueError, TypeError, AttributeError):
        return {}  # damaged: as if nothing had been timed


def _keep_pace(phase: Phase, seconds: float) -> None:
    paces = _kept_paces()
    paces.setdefault(phase.kind, {})[str(round(math.log2(phase.size)))] = seconds
    with suppress(AuditError):  # a full disk ends no work
        write_whole(home_folder("jobs") / _PACES, json.dumps(paces).encode())


def _unit_seconds(phase: Phase, paces: Mapping[str, Mapping[str, float]]) -> tuple[float, bool]:
    """Return what a unit takes, and whether that was ever timed here."""
    sizes = paces.get(phase.kind)
    if not sizes:
        return phase.unit_seconds, False
    return sizes[min(sizes, key=lambda size: abs(float(size) - math.log2(phase.size)))], True


@dataclass
class _Kind:
    """What this run saw of phases of one kind; work out of the store is left out."""

    expected: float  # seconds a unit
    is_known: bool  # whether that was ever timed
    n_units: float = 0.0
    n_worked: float = 0.0
    seconds: float = 0.0
    late_worked: float = 0.0  # the same two, old work fading
    late_seconds: float = 0.0

    def note(self, n_worked: float, seconds: float) -> None:
        """Count units and the time that they took."""
        fading = math.exp(-seconds / _MEMORY_SECONDS)
        self.n_worked, self.seconds = self.n_worked + n_worked, self.seconds + seconds
        self.late_worked = self.late_worked * fading + n_worked
        self.late_seconds = self.late_seconds * fading + seconds

    @property
    def slowness(self) -> float | None:
        """How many times longer a unit took than expected; None where none was seen."""
        if not self.late_worked or not self.late_seconds:
            return None
        return self.late_seconds / self.late_worked / self.expected

    def unit_seconds(self, slowness: float) -> float:
        """Return what a unit takes: what was expected, more and more what was seen."""
        trust = _trust(self.n_worked / self.n_units)
        return self.expected * float((self.slowness or slowness) ** trust * slowness ** (1 - trust))


def _trust(share: float) -> float:
    return share / (share + _DOUBT)


@dataclass
class _Doing:
    """How far a phase is."""

    phase: Phase
    kind: _Kind
    n_units: float
    done: float = 0.0
    n_kept: float = 0.0
    seconds_left: float | None = None  # as a meter of its own says

    @property
    def n_left(self) -> float:
        """Units that are still to be done."""
        return max(0.0, self.n_units - self.done)


class Meter:
    """Counts units of work of several phases, tells a listener, and stops when asked to.

    The listener is called at most some ten times a second, and where a phase begins and all of it
    ends; `should_stop` after every unit: who asks a disk or a table spaces its questions
    (`jobs.contact`).
    """

    def __init__(
        self,
        phases: Iterable[Phase],
        *,
        listener: ProgressListener,
        should_stop: StopQuestion = lambda: False,
    ) -> None:
        self._listener, self._should_stop = listener, should_stop
        kinds, paces = dict[str, _Kind](), _kept_paces()
        self._doing: dict[str, _Doing] = {}
        for phase in phases:
            of_kind = _Kind(*_unit_seconds(phase, paces))
            kind = kinds.setdefault(phase.kind or phase.name, of_kind)
            kind.n_units += phase.n_units
            self._doing[phase.name] = _Doing(phase, kind, phase.n_units)
        self._kinds, self._said, self._share = list(kinds.values()), "", 0.0
        self._then, self._told = time.monotonic(), -math.inf

    def resize(self, phase: str, n_units: float) -> None:
        """Correct the units of a phase that were announced as an estimate."""
        one = self._doing[phase]
        one.kind.n_units += n_units - one.n_units
        one.n_units = n_units

    def add(self, phase: str, units: float, *, is_cached: bool = False) -> None:
        """Count finished units; none tell that a phase has begun."""
        one, now = self._doing[phase], time.monotonic()
        n_left, units = one.n_left, min(units, one.n_left)
        one.done += units
        if is_cached:
            one.n_kept, self._then = one.n_kept + units, now
        elif units:
            one.kind.note(units, now - self._then)
            self._then = now
        kind, is_timed = one.kind, one.phase.kind and not one.phase.is_whole
        is_long = kind.seconds > _MIN_SECONDS or kind.n_units == 1
        if is_timed and is_long and kind.n_worked and one.n_left <= 0 < n_left:
            _keep_pace(one.phase, kind.seconds / kind.n_worked)
        is_end = n_left > 0 and not any(each.n_left for each in self._doing.values())
        self._tell(phase, now, is_due=is_end or phase != self._said)

    def finish(self, phase: str) -> None:
        """Count what is left of a phase: what was kept as a whole, or more than there was."""
        one = self._doing[phase]
        one.seconds_left = None
        if one.n_left:
            self.add(phase, one.n_left, is_cached=one.phase.is_whole and one.done == one.n_kept)

    def part(self, phase: str, before: str = "") -> ProgressListener:
        """Return the listener of a phase that has a meter of its own; words `before` its phases."""
        one = self._doing[phase]

        def listen(progress: Progress) -> None:
            now, n_worked = time.monotonic(), one.done - one.n_kept
            one.done = progress.share * one.n_units
            one.n_kept = progress.n_kept * one.n_units
            one.seconds_left = progress.seconds_left
            one.kind.note(max(0.0, one.done - one.n_kept - n_worked), now - self._then)
            self._then = now
            self._tell(before + progress.phase, now, is_due=True)

        return listen

    def _tell(self, said: str, now: float, *, is_due: bool) -> None:
        if is_due or now - self._told >= _REPORT_SECONDS:
            self._told, self._said = now, said
            self._listener(self._report(said))
        if self._should_stop():
            raise AuditCancelled

    def _report(self, said: str) -> Progress:
        slowness = self._slowness()
        whole = undone = n_kept = left = 0.0
        for one in self._doing.values():
            each = one.kind.unit_seconds(slowness or 1.0) if one.n_units else 0.0
            whole += each * one.n_units
            undone += each * one.n_left
            n_kept += each * one.n_kept
            left += each * one.n_left if one.seconds_left is None else one.seconds_left
        self._share = max(self._share, 1 - undone / whole if whole else 1.0)
        is_told = any(one.seconds_left is not None for one in self._doing.values())
        is_known = slowness or is_told or all(kind.is_known for kind in self._kinds)
        return Progress(
            said, self._share, 1.0, left if is_known else None, n_kept / whole if whole else 0.0
        )

    def _slowness(self) -> float | None:
        """How many times longer this run takes than expected, by what was seen of other kinds."""
        seen = [
            (kind.expected * kind.n_worked, math.log(kind.slowness))
            for kind in self._kinds
            if kind.slowness and kind.n_units > 1  # fixed costs say nothing of the rest
        ]
        if not seen:
            return None
        done = sum(work for work, _ in seen)
        of_all = sum(kind.expected * kind.n_units for kind in self._kinds)
        mean = sum(work * slow for work, slow in seen) / done
        return math.exp(mean * _trust(done / of_all))


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
