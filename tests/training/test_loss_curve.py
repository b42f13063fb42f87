"""The loss curve: averages by hand and against pandas, states, points logged twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.training.config import (
    MAX_POINTS,
    LossCurve,
    LossPoint,
    loss_curve,
    moving_average,
)


def point(step: int, loss: float | None, held_out: float | None = None) -> LossPoint:
    return LossPoint(step=step, loss=loss, held_out=held_out, seconds=0.0)


def held_out_curve(*values: float, unigram: float | None = 6.0) -> LossCurve:
    points = [point(10 * i, None, value) for i, value in enumerate(values)]
    return loss_curve(points, n_steps=100, unigram=unigram)


def test_the_average_by_hand() -> None:
    # A window of 3 keeps 1/2: (1), (1/2 + 4) / (3/2), (1/4 + 2 + 2) / (7/4).
    assert moving_average([1, 4, 2], n_window=3) == pytest.approx([1, 3, 17 / 7])


@given(st.lists(st.floats(0, 20), min_size=1, max_size=60), st.floats(1, 30))
def test_the_average_stays_between_the_values(values: list[float], window: float) -> None:
    found = moving_average(values, n_window=window)
    assert len(found) == len(values)
    assert min(values) - 1e-9 <= min(found) <= max(found) <= max(values) + 1e-9


def test_few_points_are_drawn_as_they_are() -> None:
    curve = loss_curve(
        [point(0, None, 7.0), point(5, 6.5), point(10, 6.0, 6.4)],
        n_steps=40, steps_per_epoch=4, unigram=6.6,
    )  # fmt: skip
    assert curve.steps == (5, 10)
    assert curve.losses == (6.5, 6.0)
    assert curve.held_out == ((0, 7.0), (10, 6.4))
    assert (curve.n_steps, curve.lowest, curve.epochs(10)) == (40, (10, 6.4), 2.5)


@pytest.mark.parametrize("n", [1, MAX_POINTS, MAX_POINTS + 1, 3 * MAX_POINTS - 1, 5000])
def test_many_points_are_drawn_as_few_that_keep_mean_and_end(n: int) -> None:
    points = [point(i + 1, float(i % 7)) for i in range(n)]
    curve = loss_curve(points, n_steps=n)
    assert len(curve.steps) <= MAX_POINTS
    assert curve.steps[-1] == n
    sizes = [b - a for a, b in zip((0, *curve.steps), curve.steps, strict=False)]
    whole = sum(size * loss for size, loss in zip(sizes, curve.losses, strict=True))
    assert whole / n == pytest.approx(sum(i % 7 for i in range(n)) / n)
    assert curve.smoothed[-1] == pytest.approx(
        moving_average([float(i % 7) for i in range(n)], n_window=max(1, 0.05 * n))[-1]
    )


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ((), "nothing"),
        ((5.0,), "early"),
        ((9.0, 5.95), "plateau"),
        ((5.0, 3.0, 3.5), "rising"),
        ((5.0, 3.0, 3.01), "falling"),
        ((5.0, 4.99), "level"),
    ],
)
def test_the_state_of_a_training(values: tuple[float, ...], state: str) -> None:
    assert held_out_curve(*values).state == state


def test_without_a_baseline_there_is_no_plateau() -> None:
    assert held_out_curve(9.0, 8.0, unigram=None).state == "falling"


def test_an_empty_log_is_an_empty_chart() -> None:
    curve = loss_curve([], n_steps=10)
    assert (curve.steps, curve.smoothed, curve.state) == ((), (), "nothing")
