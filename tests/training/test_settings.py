"""Settings: ranges, the learning rate by hand, steps and epochs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.training.config import TrainSettings, point_every


def test_the_defaults_are_clinicalberts():
    s = TrainSettings()
    assert (s.n_tokens, s.learning_rate, s.batch, s.n_steps) == (128, 2e-5, 64, 100_000)
    assert (s.mask_share, s.weight_decay, s.warmup_share, s.schedule) == (0.15, 0.01, 0.1, "linear")


def test_they_come_back_from_json():
    s = TrainSettings(n_epochs=2.5, head_learning_rate=1e-3, schedule="constant")
    assert TrainSettings.read(s.written(), where="x") == s
    assert TrainSettings.read('{"batch": 32}', where="x") == TrainSettings(batch=32)
    with pytest.raises(AuditError, match=r"colour.: is unknown"):
        TrainSettings.read('{"colour": 1}', where="x")


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_tokens": 4}, {"n_tokens": 128.0}, {"batch": True}, {"batch": 0}, {"n_steps": -1},
        {"learning_rate": 0.0}, {"learning_rate": float("nan")}, {"learning_rate": "2e-5"},
        {"mask_share": 0.9}, {"schedule": "cosine"}, {"precision": "int8"}, {"from_scratch": 1},
        {"batch": 64, "micro_batch": 24}, {"n_epochs": 0.0}, {"head_learning_rate": 2.0},
        {"held_out_share": 1.0}, {"seed": -1},
    ],
)  # fmt: skip
def test_what_is_out_of_range_is_refused(wrong):
    with pytest.raises(AuditError) as caught:
        TrainSettings(**wrong)
    assert caught.value.where in {*wrong, "training settings"}


def test_the_learning_rate_by_hand():
    linear = TrainSettings(warmup_share=0.2)
    factors = [linear.rate_factor(step, n_steps=10) for step in range(1, 11)]
    expected = [0.5, 1.0, 1.0, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]
    assert factors == pytest.approx(expected)
    constant = TrainSettings(warmup_share=0.2, schedule="constant")
    assert [constant.rate_factor(s, n_steps=10) for s in (1, 2, 3, 10)] == [0.5, 1, 1, 1]
    assert TrainSettings(warmup_share=0.0).rate_factor(1, n_steps=5) == 1.0


@given(share=st.floats(0, 1), n_steps=st.integers(1, 500), schedule=st.sampled_from(
    ["linear", "constant"]))  # fmt: skip
def test_every_step_learns_and_none_faster_than_asked(share, n_steps, schedule):
    s = TrainSettings(warmup_share=share, schedule=schedule)
    assert all(0 < s.rate_factor(k, n_steps=n_steps) <= 1 for k in range(1, n_steps + 1))


def test_steps_and_epochs():
    s = TrainSettings(n_tokens=12, batch=4, micro_batch=4, n_epochs=1.5)
    assert s.n_rows(105) == 10
    assert s.steps(105) == 4  # 15 rows of 4
    assert s.epochs(4, n_train_tokens=105) == pytest.approx(1.6)
    assert s.steps_of_epochs(2, n_train_tokens=105) == 5
    assert TrainSettings(n_steps=7).steps(10**9) == 7


@given(st.integers(1, 10**6))
def test_points_are_some_hundreds(n_steps):
    every = point_every(n_steps)
    assert 1 <= every <= 50
    assert every == 50 or n_steps / every < 1000


def test_looking_at_it_does_not_change_what_is_trained():
    one, other = TrainSettings(), TrainSettings(evaluate_every=7, checkpoint_every=9)
    assert one.decisive() == other.decisive()
    assert one.decisive() != TrainSettings(micro_batch=16).decisive()
