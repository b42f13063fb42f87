"""Progress of work, its expected time, and the progress line of commands on stderr.

Work is planned in phases, and each phase is a number of units of one kind. The time that a unit of
a kind takes on this machine is stored, so that phases of unequal pace are weighed correctly from
the start. Times measured in this run correct the stored ones.
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
    """One report of progress: how much of all work is done, including work from the store.

    `phase` is a short English phrase. `seconds_left` is None until it can be estimated. `n_kept` is
    the part of `units_done` that was taken from the store.
    """

    phase: str
    units_done: float
    total: float
    seconds_left: float | None
    n_kept: float = 0.0

    @property
    def share(self) -> float:
        """Share done, 0-1."""
        return min(1.0, self.units_done / self.total) if self.total else 1.0


ProgressListener = Callable[[Progress], None]
StopQuestion = Callable[[], bool]


@dataclass(frozen=True)
class Phase:
    """A part of planned work."""

    name: str  # a short English phrase; no other phase of the plan has it
    # Amount of work: bytes, steps, rows of forward passes x their tokens x parameters. A phase of
    # one unit is a fixed cost, whose time tells nothing about other phases.
    n_units: float
    unit_seconds: float = 1.0  # if its kind was never timed; only ratios between phases matter
    kind: str = ""  # work of the same pace, stored for the next run; "" is not stored
    size: float = 1.0  # of the model, in parameters; the pace of the nearest size applies
    has_own_meter: bool = False  # if so, a unit is one second of its expected time


def combine_phases(name: str, phases: Iterable[Phase], *, kind: str) -> Phase:
    """Return work with a meter of its own as one phase; work of the same kind has the same pace."""
    return Phase(name, estimate_seconds(phases), kind=kind, has_own_meter=True)


LOADING, FINISHING = "loading", "finishing"
_PACES = "paces.json"
_REPORT_SECONDS = 0.1
_MIN_SECONDS = 0.05  # shorter work cannot measure a pace
_MEMORY_SECONDS = 60.0  # older measurements count less and less
_DOUBT = 0.03  # share of the work after which the measured pace weighs as much as the expected


def estimate_seconds(phases: Iterable[Phase]) -> float:
    """Return how many seconds work takes, according to the paces stored on this machine."""
    paces = _read_paces()
    return sum(phase.n_units * _unit_seconds(phase, paces)[0] for phase in phases)


def is_timed(phase: Phase) -> bool:
    """Return whether work of a phase's kind was ever timed on this machine."""
    return _unit_seconds(phase, _read_paces())[1]


def _read_paces() -> dict[str, dict[str, float]]:
    """Return the seconds per unit, by kind and by the model's size as a power of two."""
    try:
        paces = json.loads((home_folder("jobs") / _PACES).read_bytes())
        return {
            kind: {size: pace for size, pace in sizes.items() if float(size) >= 0 and pace > 0}
            for kind, sizes in paces.items()
        }
    except (AuditError, OSError, ValueError, TypeError, AttributeError):
        return {}  # a damaged file counts as no measurement


def _keep_pace(phase: Phase, seconds: float) -> None:
    paces = _read_paces()
    paces.setdefault(phase.kind, {})[str(round(math.log2(phase.size)))] = seconds
    with suppress(AuditError):  # a full disk must not end the work
        write_whole(home_folder("jobs") / _PACES, json.dumps(paces).encode())


def _unit_seconds(phase: Phase, paces: Mapping[str, Mapping[str, float]]) -> tuple[float, bool]:
    """Return the seconds per unit, and whether they were ever measured here."""
    sizes = paces.get(phase.kind)
    if not sizes:
        return phase.unit_seconds, False
    return sizes[min(sizes, key=lambda size: abs(float(size) - math.log2(phase.size)))], True


@dataclass
class _Kind:
    """Measurements of this run for phases of one kind, without work taken from the store."""

    expected: float  # seconds per unit
    is_known: bool  # whether they were ever measured
    n_units: float = 0.0
    n_worked: float = 0.0
    seconds: float = 0.0
    late_worked: float = 0.0  # the same two, with old work fading
    late_seconds: float = 0.0

    def note(self, n_worked: float, seconds: float) -> None:
        """Count units and the time that they took."""
        fading = math.exp(-seconds / _MEMORY_SECONDS)
        self.n_worked, self.seconds = self.n_worked + n_worked, self.seconds + seconds
        self.late_worked = self.late_worked * fading + n_worked
        self.late_seconds = self.late_seconds * fading + seconds

    @property
    def slowness(self) -> float | None:
        """Measured time of a unit divided by the expected one; None without a measurement."""
        if not self.late_worked or not self.late_seconds:
            return None
        return self.late_seconds / self.late_worked / self.expected

    def unit_seconds(self, slowness: float) -> float:
        """Return the seconds per unit: first the expected, more and more the measured ones."""
        trust = _weigh_measured(self.n_worked / self.n_units)
        return self.expected * float((self.slowness or slowness) ** trust * slowness ** (1 - trust))


def _weigh_measured(share: float) -> float:
    return share / (share + _DOUBT)


@dataclass
class _PhaseState:
    """How far one phase has come."""

    phase: Phase
    kind: _Kind
    n_units: float
    n_done: float = 0.0
    n_kept: float = 0.0
    seconds_left: float | None = None  # as the phase's own meter reports

    @property
    def n_left(self) -> float:
        """Units that are still to be done."""
        return max(0.0, self.n_units - self.n_done)


class Meter:
    """Counts units of work of several phases, reports to a listener, and stops on request.

    The listener is called about ten times a second at most, and whenever a phase begins and when
    all work ends. `should_stop` is called after every unit, so a function that reads a disk or a
    table must limit how often it does so (`jobs.table.table_contact`).
    """

    def __init__(
        self,
        phases: Iterable[Phase],
        *,
        listener: ProgressListener,
        should_stop: StopQuestion = lambda: False,
    ) -> None:
        self._listener, self._should_stop = listener, should_stop
        kinds, paces = dict[str, _Kind](), _read_paces()
        self._states: dict[str, _PhaseState] = {}
        for phase in phases:
            new_kind = _Kind(*_unit_seconds(phase, paces))
            kind = kinds.setdefault(phase.kind or phase.name, new_kind)
            kind.n_units += phase.n_units
            self._states[phase.name] = _PhaseState(phase, kind, phase.n_units)
        self._kinds, self._last_phase, self._share = list(kinds.values()), "", 0.0
        self._counted_at, self._reported_at = time.monotonic(), -math.inf

    def resize(self, phase: str, n_units: float) -> None:
        """Correct the units of a phase that were announced as an estimate."""
        state = self._states[phase]
        state.kind.n_units += n_units - state.n_units
        state.n_units = n_units

    def add(self, phase: str, units: float, *, is_cached: bool = False) -> None:
        """Count finished units; 0 units report that a phase has begun."""
        state, moment = self._states[phase], time.monotonic()
        n_left, units = state.n_left, min(units, state.n_left)
        state.n_done += units
        if is_cached:
            state.n_kept, self._counted_at = state.n_kept + units, moment
        elif units:
            state.kind.note(units, moment - self._counted_at)
            self._counted_at = moment
        kind, is_timed = state.kind, state.phase.kind and not state.phase.has_own_meter
        is_long = kind.seconds > _MIN_SECONDS or kind.n_units == 1
        if is_timed and is_long and kind.n_worked and state.n_left <= 0 < n_left:
            _keep_pace(state.phase, kind.seconds / kind.n_worked)
        is_end = n_left > 0 and not any(other_state.n_left for other_state in self._states.values())
        self._report_if_due(phase, moment, is_due=is_end or phase != self._last_phase)

    def finish(self, phase: str) -> None:
        """Count the rest of a phase as done: it came from the store, or was overestimated."""
        state = self._states[phase]
        state.seconds_left = None
        if state.n_left:
            self.add(
                phase,
                state.n_left,
                is_cached=state.phase.has_own_meter and state.n_done == state.n_kept,
            )

    def make_listener(self, phase: str, prefix: str = "") -> ProgressListener:
        """Return a listener for a phase with its own meter; `prefix` precedes its phase names."""
        state = self._states[phase]

        def listen(progress: Progress) -> None:
            moment, n_worked = time.monotonic(), state.n_done - state.n_kept
            state.n_done = progress.share * state.n_units
            state.n_kept = progress.n_kept * state.n_units
            state.seconds_left = progress.seconds_left
            state.kind.note(
                max(0.0, state.n_done - state.n_kept - n_worked), moment - self._counted_at
            )
            self._counted_at = moment
            self._report_if_due(prefix + progress.phase, moment, is_due=True)

        return listen

    def _report_if_due(self, phase: str, moment: float, *, is_due: bool) -> None:
        if is_due or moment - self._reported_at >= _REPORT_SECONDS:
            self._reported_at, self._last_phase = moment, phase
            self._listener(self._make_report(phase))
        if self._should_stop():
            raise AuditCancelled

    def _make_report(self, phase: str) -> Progress:
        slowness = self._measure_slowness()
        total_seconds = undone_seconds = kept_seconds = seconds_left = 0.0
        for state in self._states.values():
            unit_seconds = state.kind.unit_seconds(slowness or 1.0) if state.n_units else 0.0
            total_seconds += unit_seconds * state.n_units
            undone_seconds += unit_seconds * state.n_left
            kept_seconds += unit_seconds * state.n_kept
            seconds_left += (
                unit_seconds * state.n_left if state.seconds_left is None else state.seconds_left
            )
        self._share = max(self._share, 1 - undone_seconds / total_seconds if total_seconds else 1.0)
        has_own_estimate = any(
            phase_state.seconds_left is not None for phase_state in self._states.values()
        )
        is_known = slowness or has_own_estimate or all(kind.is_known for kind in self._kinds)
        return Progress(
            phase,
            self._share,
            1.0,
            seconds_left if is_known else None,
            kept_seconds / total_seconds if total_seconds else 0.0,
        )

    def _measure_slowness(self) -> float | None:
        """Return how many times longer this run takes than expected, judged by all kinds so far."""
        weighted_logs = [
            (kind.expected * kind.n_worked, math.log(kind.slowness))
            for kind in self._kinds
            if kind.slowness and kind.n_units > 1  # fixed costs tell nothing about the rest
        ]
        if not weighted_logs:
            return None
        work_done = sum(work for work, _ in weighted_logs)
        work_planned = sum(kind.expected * kind.n_units for kind in self._kinds)
        mean = sum(work * log_slowness for work, log_slowness in weighted_logs) / work_done
        return math.exp(mean * _weigh_measured(work_done / work_planned))


class Portion:
    """Counts the units of a batch by their finished share, 0-1; no unit counts twice."""

    def __init__(self, meter: Meter, phase: str, n_units: float) -> None:
        self._meter, self._phase, self._n_units, self._n_counted = meter, phase, n_units, 0.0

    def __call__(self, share: float, *, is_cached: bool = False) -> None:
        """Count the units that were finished since the last call."""
        units = min(1.0, share) * self._n_units - self._n_counted
        if units > 0:
            self._n_counted += units
            self._meter.add(self._phase, units, is_cached=is_cached)


def format_duration(seconds: float) -> str:
    """Return a duration as text, such as "2 h 5 min"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def say(text: str) -> None:
    """Write one sentence to stderr; stdout is for results."""
    sys.stderr.write(f"{text}\n")


def progress_line() -> Callable[[Progress], None]:
    """Return a listener that keeps one line of stderr up to date, where stderr is a terminal."""
    is_terminal = sys.stderr.isatty()
    last = [0.0]

    def listen(progress: Progress) -> None:
        moment = time.monotonic()
        if moment - last[0] < (0.5 if is_terminal else 10):
            return
        last[0] = moment
        left = (
            ""
            if progress.seconds_left is None
            else f", {format_duration(progress.seconds_left)} left"
        )
        text = f"{progress.phase}: {100 * progress.share:.0f} %{left}"
        sys.stderr.write(f"\r\x1b[K{text}" if is_terminal else f"{text}\n")
        if is_terminal and progress.share >= 1:
            sys.stderr.write("\n")
        sys.stderr.flush()

    return listen
