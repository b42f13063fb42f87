"""Progress: phases weighed by measured pace, what is kept of it, and what is told when."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import AuditCancelled
from audit.home import home_folder
from audit.progress import Meter, Phase, Progress, combine_phases, estimate_seconds


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def clock():
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr("audit.progress.time", SimpleNamespace(monotonic=clock.monotonic))
        yield clock


def meter_of(phases, should_stop=lambda: False) -> tuple[Meter, list[Progress]]:
    reports: list[Progress] = []
    return Meter(phases, listener=reports.append, should_stop=should_stop), reports


def run(clock, phases, paces, *, n_lumps=50) -> list[tuple[float, Progress]]:
    """Do phases at these paces, each in so many lumps; return what was told and when."""
    began, reports = clock.now, []
    meter = Meter(phases, listener=lambda progress: reports.append((clock.now - began, progress)))
    for phase, pace in zip(phases, paces, strict=True):
        for _ in range(n_lumps):
            clock.now += pace * phase.n_units / n_lumps
            meter.add(phase.name, phase.n_units / n_lumps)
        meter.finish(phase.name)
    return reports


def errors(clock, timed_reports, *, begun: float) -> list[float]:
    """Return each time left by the true one, after this share of the true duration."""
    end = timed_reports[-1][0]
    return [
        progress.seconds_left / (end - seconds)
        for seconds, progress in timed_reports
        if begun * end <= seconds <= 0.99 * end
    ]


unequal = st.lists(st.tuples(st.floats(1e3, 1e6), st.floats(1e-5, 1e-1)), min_size=1, max_size=5)


@given(unequal, st.floats(1 / 3, 3))
def test_after_a_tenth_the_time_left_is_within_a_half_and_twice_the_truth(clock, work, load):
    # What was timed before holds, but the machine is as many times slower or faster today.
    phases = [Phase(f"{i}", n, pace) for i, (n, pace) in enumerate(work)]
    timed_reports = run(clock, phases, [load * pace for _, pace in work])
    assert all(0.5 <= error <= 2 for error in errors(clock, timed_reports, begun=0.1))
    shares = [progress.share for _, progress in timed_reports]
    assert shares == sorted(shares)


@given(unequal, st.sampled_from([0.1, 10]))
def test_where_all_expectations_are_tenfold_wrong_it_is_right_after_a_fifth(clock, work, wrong):
    phases = [Phase(f"{i}", n, pace) for i, (n, pace) in enumerate(work)]
    timed_reports = run(clock, phases, [wrong * pace for _, pace in work])
    assert all(0.5 <= error <= 2 for error in errors(clock, timed_reports, begun=0.2))


def test_a_second_run_knows_the_paces_of_the_first_from_its_start(clock, home):
    phases = [Phase("reading", 1e3, 1.0, "reading"), Phase("training", 1e3, 1.0, "training", 1e6)]
    paces = [0.001, 0.4]
    assert estimate_seconds(phases) == 2000
    run(clock, phases, paces)
    assert estimate_seconds(phases) == pytest.approx(401)
    first = run(clock, phases, paces)[0]
    assert first[1].seconds_left == pytest.approx(401, rel=0.01)
    # Of a model of another size the nearest is taken; other kinds are as they were.
    unknown_phases = [Phase("a", 10, 1.0, "training", 1e9), Phase("b", 10, 1.0, "unheard of")]
    assert estimate_seconds(unknown_phases) == pytest.approx(14)


@pytest.mark.parametrize("damage", [b"{", b"[1]", b'{"training": {"20": "x"}}', b'{"training": 1}'])
def test_a_record_of_paces_that_is_damaged_is_as_none(clock, home, damage):
    phases = [Phase("training", 100, 2.0, "training", 2.0**20)]
    (home_folder("jobs") / "paces.json").write_bytes(damage)
    assert estimate_seconds(phases) == 200
    run(clock, phases, [0.5])
    assert estimate_seconds(phases) == 50


def test_a_first_run_says_nothing_before_it_saw_work(clock):
    meter, reports = meter_of([Phase("loading", 1, 5.0), Phase("training", 100, 1.0)])
    meter.add("loading", 0)
    clock.now += 5
    meter.finish("loading")
    assert [progress.seconds_left for progress in reports] == [None] * len(reports)
    clock.now += 2
    meter.add("training", 1)
    assert 99 <= reports[-1].seconds_left <= 198


def test_a_fixed_cost_says_nothing_of_the_rest_and_what_begins_late_is_followed(clock, home):
    phases = [Phase("loading", 1, 1.0, "l"), Phase("training", 100, 1.0, "t")]
    run(clock, phases, [1.0, 1.0], n_lumps=100)
    meter, reports = meter_of(phases)
    clock.now += 60  # cold files
    meter.finish("loading")
    assert reports[-1].seconds_left == pytest.approx(100)
    for seconds in (1.0, 10.0):  # another job begins: what was seen long ago fades
        for _ in range(40):
            clock.now += seconds
            meter.add("training", 1)
    assert reports[-1].seconds_left == pytest.approx(20 * 10, rel=0.1)


def test_units_out_of_the_store_do_not_shorten_the_time_left_and_alone_give_none(clock):
    meter, reports = meter_of([Phase("a", 1000)])
    clock.now += 5
    meter.add("a", 900, is_cached=True)
    assert reports[-1].seconds_left is None
    clock.now += 5
    meter.add("a", 10)
    # 10 units took half a second each; the 90 left are between that and what was expected.
    assert (reports[-1].share, reports[-1].n_kept) == (pytest.approx(0.91), pytest.approx(0.9))
    assert 45 <= reports[-1].seconds_left <= 90


def test_the_listener_is_called_ten_times_a_second_where_a_phase_begins_and_at_the_end(clock):
    meter, reports = meter_of([Phase("a", 10_000), Phase("b", 1)])
    for _ in range(10_000):
        clock.now += 0.001
        meter.add("a", 1)
    assert 95 <= len(reports) <= 105
    meter.add("b", 0)
    meter.finish("b")
    assert [(report.phase, report.share) for report in reports[-2:]] == [
        ("b", pytest.approx(1, abs=1e-3)),
        ("b", 1),
    ]
    assert Progress("a", 0.0, 0.0, None).share == 1


def test_more_units_than_announced_do_not_pass_the_whole_and_a_correction_counts(clock):
    meter, reports = meter_of([Phase("a", 10), Phase("b", 10)])
    clock.now += 1
    meter.add("a", 25)
    assert reports[-1].share < 1
    meter.resize("b", 0)
    clock.now += 1
    meter.add("a", 0)
    assert reports[-1].share == 1


def test_asked_to_stop_the_run_is_cancelled_at_the_next_unit(clock):
    stop = [False]
    meter, reports = meter_of([Phase("a", 100)], should_stop=lambda: stop[0])
    clock.now += 1
    meter.add("a", 1)
    stop[0] = True
    with pytest.raises(AuditCancelled):
        meter.add("a", 1)  # within a tenth of a second nothing is told
    assert reports[-1].share == pytest.approx(0.01)


def test_work_with_meters_of_its_own_is_told_as_one(clock, home):
    def stage(n):
        return [Phase("reading", n, 1.0), Phase("writing", n, 3.0)]

    names = ("kept", "first", "second", "third")
    meter, reports = meter_of([combine_phases(name, stage(10), kind="stage") for name in names])
    meter.finish("kept")
    for name in ("first", "second"):
        inner = Meter(stage(10), listener=meter.make_listener(name, f"{name}: "))
        for phase, pace in (("reading", 2.0), ("writing", 6.0)):  # twice as slow as expected
            for _ in range(10):
                clock.now += pace
                inner.add(phase, 1)
        if name == "first":
            assert reports[-1].seconds_left == pytest.approx(160, rel=0.1)
        meter.finish(name)
    assert [report.phase for report in reports[:2]] == ["kept", "first: reading"]
    assert reports[-1].seconds_left == pytest.approx(80, rel=0.1)
    shares = [progress.share for progress in reports]
    assert shares == sorted(shares) and shares[-1] == pytest.approx(0.75)
    meter.finish("third")
    assert reports[-1].share == 1
