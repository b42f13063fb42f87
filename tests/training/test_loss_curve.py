"""The loss curve: averages by hand, states."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.training.config import MOST_DRAWN, LossCurve, LossPoint, loss_curve


def point(step: int, loss: float | None, held_out: float | None = None) -> LossPoint:
    return LossPoint(step=step, loss=loss, held_out=held_out, seconds=0.0)


def held_out_curve(*values: float, unigram: float | None = 6.0) -> LossCurve:
    points = [point(10 * i, None, value) for i, value in enumerate(values)]
    return loss_curve(points, n_steps=100, unigram=unigram)


def test_few_points_are_drawn_as_they_are() -> None:
    curve = loss_curve(
        [point(0, None, 7.0), point(5, 6.5), point(10, 6.0, 6.4)],
        n_steps=40, steps_per_epoch=4, unigram=6.6,
    )  # fmt: skip
    assert curve.steps == (5, 10)
    assert curve.losses == (6.5, 6.0)
    assert curve.held_out == ((0, 7.0), (10, 6.4))
    assert (curve.n_steps, curve.lowest, curve.epochs(10)) == (40, (10, 6.4), 2.5)


@given(st.lists(st.floats(0, 20), min_size=1, max_size=60))
def test_the_average_by_hand(values: list[float]) -> None:
    curve = loss_curve([point(i, value) for i, value in enumerate(values)], n_steps=60)
    b = 1 - 2 / (max(1.0, 0.05 * len(values)) + 1)
    for i, smoothed in enumerate(curve.smoothed):
        weights = [b ** (i - j) for j in range(i + 1)]
        by_hand = sum(w * x for w, x in zip(weights, values, strict=False)) / sum(weights)
        assert smoothed == pytest.approx(by_hand, abs=1e-9)
    assert curve.losses == tuple(values)


def test_a_long_training_is_drawn_thinned_and_to_its_end() -> None:
    curve = loss_curve([point(i, float(i)) for i in range(1, 20_001)], n_steps=20_000)
    assert curve.steps == tuple(range(40, 20_001, 40)) == tuple(map(int, curve.losses))
    assert len(curve.smoothed) == MOST_DRAWN


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
