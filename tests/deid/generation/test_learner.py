"""One step of a tuning: the loss of answers alone, whatever the padding and the passes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from audit.deid.generative.config import TuningSettings
from audit.deid.generative.model import load_causal
from audit.deid.generative.training import IGNORED, CopyLearner, Example, batch_of, step_rows
from audit.training.loop import Hardware
from tests.deid.generation.tiny_model import write_model


def example(prompt: list[int], answer: list[int]) -> Example:
    return Example(np.array(prompt), np.array(answer))


ROWS = (
    example([1, 5, 6], [7, 8, 2]),
    example([1, 9, 10, 11, 12], [13, 2]),
    example([4], [14, 15, 16, 2]),
)


def test_no_target_stands_on_a_prompt_or_on_padding() -> None:
    batch = batch_of(ROWS[:2], pad_id=0)
    assert batch.ids.tolist() == [[1, 5, 6, 7, 8, 2, 0], [1, 9, 10, 11, 12, 13, 2]]
    assert batch.attended.tolist() == [[1, 1, 1, 1, 1, 1, 0], [1] * 7]
    # What follows positions 2 to 5: the shortest prompt ends at position 2.
    x = IGNORED
    assert batch.targets.tolist() == [[7, 8, 2, x], [x, x, 13, 2]]


def learner(path: Path, *, kind: str = "llama", **settings: object) -> CopyLearner:
    loaded = load_causal(write_model(path, kind=kind), device="cpu", is_frozen=False)
    given = {"batch": 3, "micro_batch": 3, "clip": 1e6, "weight_decay": 0.0} | settings
    return CopyLearner(
        loaded.model, settings=TuningSettings(**given), pad_id=0,
        hardware=Hardware("cpu", "float32"), n_steps=10, rows=ROWS,
    )  # fmt: skip


def by_hand(model: torch.nn.Module) -> float:
    """Mean negative log probability of the answers' tokens, one example at a time."""
    total, n = 0.0, 0
    model.eval()
    for row in ROWS:
        ids = torch.tensor([[*row.prompt, *row.answer]])
        with torch.no_grad():
            said = torch.log_softmax(model(input_ids=ids).logits[0].double(), dim=-1)
        for i, token in enumerate(row.answer, start=len(row.prompt)):
            total -= float(said[i - 1, token])
            n += 1
    return total / n


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_loss_by_hand(tmp_path: Path, kind: str) -> None:
    made = learner(tmp_path / "m", kind=kind, micro_batch=1)
    expected = by_hand(made.model)
    assert made.loss_of(ROWS) == pytest.approx(expected, rel=1e-5)
    other = learner(tmp_path / "n", kind=kind)
    assert other.loss_of(ROWS) == pytest.approx(expected, rel=1e-5)


def test_passes_add_up_to_the_step(tmp_path: Path) -> None:
    whole, parts = learner(tmp_path / "m"), learner(tmp_path / "n", micro_batch=1)
    losses = [one.step(5)[0].item() for one in (whole, parts)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for (name, one), other in zip(
        whole.model.named_parameters(), parts.model.parameters(), strict=True
    ):
        assert torch.allclose(one.grad, other.grad, atol=1e-6), name


def test_a_step_changes_weights_and_lowers_the_loss(tmp_path: Path) -> None:
    made = learner(tmp_path / "m", learning_rate=1e-2)
    before = made.loss_of(ROWS)
    for step in range(1, 6):
        made.step(step)
    assert made.loss_of(ROWS) < before - 0.5


def test_every_epoch_has_every_row_once() -> None:
    rows = [row for step in range(1, 8) for row in step_rows(step, n_rows=7, batch=3, seed=1)]
    assert len(rows) == 21
    epochs = [rows[i : i + 7] for i in (0, 7, 14)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert step_rows(2, n_rows=2, batch=5, seed=1) == step_rows(2, n_rows=2, batch=5, seed=1)
