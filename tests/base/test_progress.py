from __future__ import annotations

from types import SimpleNamespace

import pytest

from audit.errors import AuditCancelled
from audit.progress import Meter, Progress, Stages


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("audit.progress.time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def meter_of(totals: dict[str, float], should_stop=lambda: False) -> tuple[Meter, list[Progress]]:
    seen: list[Progress] = []
    return Meter(totals, listener=seen.append, should_stop=should_stop), seen


def told(clock, totals: dict[str, float], *steps: tuple[float, str, float]) -> list[Progress]:
    """Let seconds pass and add units of a phase, step by step; return what was told."""
    meter, seen = meter_of(totals)
    for seconds, phase, n in steps:
        clock.now += seconds
        meter.add(phase, n)
    return seen


def test_shares_rise_to_one_over_all_phases(clock):
    steps = [(0.5, phase, 1) for phase in 30 * "a" + 10 * "b"]
    seen = told(clock, {"a": 30.0, "b": 10.0}, *steps)
    assert [progress.share for progress in seen] == [(i + 1) / 40 for i in range(40)]
    assert [progress.phase for progress in seen] == ["a"] * 30 + ["b"] * 10


def test_the_listener_is_called_ten_times_a_second_where_a_phase_begins_and_at_the_end(clock):
    steps = [(0.0005, phase, 1) for phase in 5000 * "ab"]
    seen = told(clock, dict.fromkeys("ab", 5000.0), *steps)
    assert 40 <= len(seen) <= 52 and seen[-1].share == 1
    steps = [(0.001, phase, 1) for phase in "aaabccc"]
    seen = told(clock, {"a": 3.0, "b": 1.0, "c": 3.0}, *steps)
    assert [progress.phase for progress in seen] == ["a", "b", "c", "c"]


def test_more_units_than_announced_do_not_pass_the_whole_and_nothing_to_do_is_done(clock):
    assert told(clock, {"a": 10.0, "b": 10.0}, (1, "a", 25))[-1].share == 0.5
    assert Progress("a", 0.0, 0.0, None).share == 1


@pytest.mark.parametrize(
    ("n_units", "steps", "left"),
    [  # too early to judge at first, and before three percent; the last half minute counts
        (100, 20 * [1.0], [None] * 4 + [100 - n for n in range(5, 21)]),
        (1000, 30 * [10.0], [None] * 29 + [9700]),
        (1000, 100 * [1.0], [900]),
        (1000, 100 * [1.0] + 100 * [0.5], [400]),
    ],
)
def test_time_left_is_that_of_the_work_left(clock, n_units, steps, left):
    seen = told(clock, {"a": float(n_units)}, *((seconds, "a", 1) for seconds in steps))
    found = [progress.seconds_left for progress in seen][-len(left) :]
    assert found == [None if one is None else pytest.approx(one) for one in left]


def test_units_out_of_the_store_do_not_shorten_the_time_left_and_alone_give_none(clock):
    meter, seen = meter_of({"a": 1000.0})
    clock.now += 5
    meter.add("a", 900, is_cached=True)
    assert seen[-1].seconds_left is None
    clock.now += 5
    meter.add("a", 10)
    # 10 units took 10 seconds, so the 90 left take 90.
    assert (seen[-1].done, seen[-1].seconds_left) == (910, pytest.approx(90))


def test_asked_to_stop_the_run_is_cancelled_at_the_next_unit(clock):
    stop = [False]
    meter, seen = meter_of({"a": 100.0}, should_stop=lambda: stop[0])
    clock.now += 1
    meter.add("a", 1)
    stop[0] = True
    with pytest.raises(AuditCancelled):
        meter.add("a", 1)  # within a tenth of a second nothing is told
    assert seen[-1].done == 1


def test_stages_are_told_as_one_piece_of_work(clock):
    told: list[Progress] = []
    stages = Stages("abcd", listener=told.append)
    for stage, seconds in (("a", 0), ("b", 10), ("c", 20)):  # the first was kept
        clock.now += seconds
        stages.of(stage)(Progress("reading", 1, 2, float(seconds)))
        stages.of(stage)(Progress("reading", 1, 4, None))  # a second part of it begins
        clock.now += seconds
        stages.finish(stage)
    stages.finish("d")
    assert [p.phase for p in told[:4]] == ["a: reading", "a: reading", "a", "b: reading"]
    assert [8 * p.share for p in told] == pytest.approx([1, 1, 2, 3, 3, 4, 5, 5, 6, 8])
    # What is left of the stage, and what one takes for each behind it: 20 s, then 20 s and 40 s.
    assert [p.seconds_left for p in told] == [
        None, None, None, 10 + 2 * 20, None, 2 * 20, 20 + 30, None, 30, 0,
    ]  # fmt: skip
