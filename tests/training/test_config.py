"""Settings: defaults, ranges, the learning rate by hand, steps and epochs; the loss curve."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.training.config import (
    Lora,
    LossPoint,
    TrainSettings,
    append_point,
    count_point_steps,
    cut_log,
    find_largest_pass,
    make_loss_curve,
    read_losses,
)


def test_the_defaults_are_the_papers_and_what_decides_the_weights() -> None:
    decisive = {
        "batch": 64,
        "micro_batch": 32,
        "warmup_share": 0.1,
        "weight_decay": 0.01,
        "clip": 1.0,
        "precision": "auto",
        "seed": 0,
        "schedule": "linear",
        "n_tokens": 128,
        "n_steps": 100_000,
        "n_epochs": None,
        "learning_rate": 2e-5,
        "head_learning_rate": None,
        "mask_share": 0.15,
        "held_out_share": 0.01,
        "from_scratch": False,
    }
    settings = TrainSettings()
    assert settings.decisive() == decisive
    causal = {
        "is_causal": False,
        "lora_rank": 0,
        "lora_alpha": 32.0,
        "lora_dropout": 0.05,
        "frame": "plain",
        "header": "",
        "loss_on": "all",
    }
    intervals = {"evaluate_every": 1000, "checkpoint_every": 1000}
    assert settings.plain() == decisive | causal | intervals
    adapter = TrainSettings(is_causal=True, lora_rank=8, lora_alpha=16.0)
    chosen = {"is_causal": True, "lora_rank": 8, "lora_alpha": 16.0}
    assert adapter.decisive() == decisive | chosen
    assert (settings.lora, adapter.lora) == (None, Lora(rank=8, alpha=16.0, dropout=0.05))
    assert (settings.n_inner, adapter.n_inner) == (126, 128)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_tokens": 7},
        {"batch": True},
        {"batch": 0},
        {"n_steps": 0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"mask_share": 0.41},
        {"schedule": "cosine"},
        {"batch": 64, "micro_batch": 24},
        {"n_epochs": 0.0},
        {"head_learning_rate": 2.0},
        {"held_out_share": 0.51},
        {"seed": 2**63},
        {"checkpoint_every": 0},
        {"lora_rank": 8},
        {"header": "Note:"},
        {"loss_on": "note"},
        {"is_causal": True, "mask_share": 0.3},
        {"is_causal": True, "head_learning_rate": 1e-3},
        {"is_causal": True, "lora_rank": 8, "from_scratch": True},
        {"is_causal": True, "lora_rank": -1},
        {"is_causal": True, "frame": "chat"},
    ],
)
def test_what_is_out_of_range_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(AuditError) as error:
        TrainSettings(**wrong)  # type: ignore[arg-type]
    assert error.value.where in {*wrong, "training settings"}


def test_the_learning_rate_by_hand() -> None:
    linear = TrainSettings(warmup_share=0.2)
    factors = [linear.rate_factor(step, n_steps=10) for step in range(1, 11)]
    expected = [0.5, 1.0, 1.0, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]
    assert factors == pytest.approx(expected)
    constant = TrainSettings(warmup_share=0.2, schedule="constant")
    assert [constant.rate_factor(s, n_steps=10) for s in (1, 2, 3, 10)] == [0.5, 1, 1, 1]
    assert TrainSettings(warmup_share=0.0).rate_factor(1, n_steps=5) == 1.0


@given(st.floats(0, 1), st.integers(1, 500), st.sampled_from(["linear", "constant"]))
def test_every_step_learns_and_none_faster_than_asked(
    share: float, n_steps: int, schedule: str
) -> None:
    s = TrainSettings(warmup_share=share, schedule=schedule)  # type: ignore[arg-type]
    assert all(0 < s.rate_factor(k, n_steps=n_steps) <= 1 for k in range(1, n_steps + 1))


def test_steps_epochs_points_and_passes() -> None:
    s = TrainSettings(n_tokens=12, batch=4, micro_batch=4, n_epochs=1.5)
    assert (s.n_rows(105), s.steps(105)) == (10, 4)  # 15 rows of 4
    assert s.epochs(4, n_train_tokens=105) == pytest.approx(1.6)
    assert s.steps_of_epochs(2, n_train_tokens=105) == 5
    assert s.steps_of_epochs(0.01, n_train_tokens=105) == 1
    assert TrainSettings(n_steps=7).steps(10**9) == 7
    assert [count_point_steps(n) for n in (1, 999, 1000, 1500, 10**6)] == [1, 1, 2, 3, 2000]
    assert [find_largest_pass(n) for n in (1, 32, 37, 48, 64, 66)] == [1, 32, 1, 24, 32, 22]


def test_the_log_of_losses(tmp_path: Path) -> None:
    points = (
        LossPoint(step=0, held_out=5.0, learning_rate=0.0, seconds=0.1),
        LossPoint(step=10, loss=4.5, learning_rate=1e-5, seconds=2.0),
        LossPoint(step=20, loss=4.0, held_out=4.25, learning_rate=2e-5, seconds=4.0, f=0.5),
    )
    assert read_losses(tmp_path) == ()
    for point in points:
        append_point(tmp_path, point)
    log = tmp_path / "losses.jsonl"
    assert log.stat().st_mode & 0o777 == 0o600
    with log.open("a") as file:
        file.write('damaged\n{"step": 5, "loss": NaN}\n{"step": 30, "seconds": 1}')  # half a line
    assert read_losses(tmp_path) == points
    with log.open("a") as file:
        file.write("\n")
    later = LossPoint(step=10, loss=9.0, seconds=7.0)
    append_point(tmp_path, later)
    half = LossPoint(step=30, seconds=1.0)
    assert read_losses(tmp_path) == (points[0], later, points[2], half)
    cut_log(tmp_path, step=10)
    assert read_losses(tmp_path) == (points[0], later)


def point(step: int, loss: float | None, held_out: float | None = None) -> LossPoint:
    return LossPoint(step=step, loss=loss, held_out=held_out, seconds=0.0)


def test_few_points_are_drawn_as_they_are() -> None:
    curve = make_loss_curve(
        [point(0, None, 7.0), point(5, 6.5), point(10, 6.0, 6.4)],
        n_steps=40,
        steps_per_epoch=4,
        unigram=6.6,
    )
    assert curve.steps == (5, 10)
    assert curve.losses == (6.5, 6.0)
    assert (curve.held_out_steps, curve.held_out) == ((0, 10), (7.0, 6.4))
    # Nothing was averaged before the first step.
    assert curve.smoothed_then == pytest.approx((math.nan, curve.smoothed[-1]), nan_ok=True)
    assert (curve.n_steps, curve.lowest, curve.epochs(10)) == (40, (10, 6.4), 2.5)


@given(st.lists(st.floats(0, 20), min_size=1, max_size=60))
def test_the_average_is_that_of_pandas(values: list[float]) -> None:
    curve = make_loss_curve([point(i, value) for i, value in enumerate(values)], n_steps=60)
    span = max(1.0, 0.05 * len(values))
    assert curve.smoothed == pytest.approx(pd.Series(values).ewm(span=span).mean(), abs=1e-9)
    assert curve.losses == tuple(values)


@pytest.mark.parametrize(
    ("values", "unigram", "state"),
    [
        ((), 6.0, "nothing"),
        ((5.0,), 6.0, "early"),
        ((9.0, 5.95), 6.0, "plateau"),
        ((5.0, 3.0, 3.5), 6.0, "rising"),
        ((5.0, 3.0, 3.01), 6.0, "falling"),
        ((5.0, 4.99), 6.0, "level"),
        ((9.0, 8.0), None, "falling"),
    ],
)
def test_the_state_of_a_training(
    values: tuple[float, ...], unigram: float | None, state: str
) -> None:
    points = [point(10 * i, None, value) for i, value in enumerate(values)]
    curve = make_loss_curve(points, n_steps=100, unigram=unigram)
    assert (curve.state, curve.steps, curve.smoothed) == (state, (), ())
