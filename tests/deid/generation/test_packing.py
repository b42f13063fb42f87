"""What a tuning saves: windows packed in rows, recomputed activations, a base in bfloat16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from audit.deid.find.causal_model import load_causal
from audit.deid.learn.tagger_task import TuningSettings
from audit.deid.learn.tuning import (
    CopyLearner,
    Example,
    join_examples,
    pack_examples,
    refuse_mixing,
)
from audit.errors import AuditError
from audit.training.causal_lm import add_adapter
from audit.training.config import Lora, read_losses
from audit.training.loop import Hardware
from tests.deid.generation.tiny_model import order, tuned, write_model
from tests.models.make_causal import make_causal

ROWS = tuple(
    Example(np.array(prompt), np.array(answer))
    for prompt, answer in (
        ([1, 5, 6, 3, 8, 9, 4], [7, 8, 2, 3, 3]),
        ([1, 9, 10, 11, 12], [13, 2]),
        ([4], [14, 15, 16, 2]),
        ([6, 6], [2]),
    )
)


def make_learner(model: nn.Module, **settings: object) -> CopyLearner:
    all_settings: dict[str, Any] = {"batch": 4, "micro_batch": 1, "weight_decay": 0.0} | settings
    return CopyLearner(
        model,
        settings=TuningSettings(**all_settings),
        pad_id=0,
        hardware=Hardware("cpu", "float32"),
        n_steps=10,
        rows=ROWS,
    )


@pytest.mark.parametrize(
    "kind",
    [
        "llama",
        "mistral",
        "qwen2 with windows",
        "qwen3",
        "gemma2",
        "gemma3_text",
        "phi3",
        "gpt2",
        "gpt_neox",
    ],
)
def test_packed_windows_have_the_loss_of_each_alone(tmp_path: Path, kind: str) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(make_causal(tmp_path / "m", kind))
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    refuse_mixing(model)
    alone, packed = make_learner(model), make_learner(model, packed_tokens=20)
    assert [batch.ids.shape for batch, _ in packed.passes(1)] == [(1, 19), (1, 8)]
    expected = alone.compute_mean_loss(ROWS)
    assert packed.compute_mean_loss(ROWS) == pytest.approx(expected, abs=1e-5)
    gradients = []
    for learner in (alone, packed):
        learner.optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        learner.optimizer.param_groups[0]["highest_lr"] = 0.0
        assert float(learner.step(1)[0]) == pytest.approx(expected, abs=1e-5)
        gradients.append([parameter.grad for parameter in model.parameters()])
    for gradient_alone, packed_gradient in zip(*gradients, strict=True):
        torch.testing.assert_close(packed_gradient, gradient_alone, atol=1e-5, rtol=1e-4)


class Forgetful(nn.Module):
    """A model that takes positions and does not use them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, position_ids: Any = None, **inputs: Any) -> Any:
        return self.model(**inputs)


class Unplaced(Forgetful):
    """A model that takes no positions."""

    def forward(self, **inputs: Any) -> Any:
        return self.model(**inputs)


@pytest.mark.parametrize("kind", [Forgetful, Unplaced])
def test_a_model_that_would_mix_notes_is_refused(tmp_path: Path, kind: type[Forgetful]) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(make_causal(tmp_path / "m"))
    with pytest.raises(AuditError, match="does not keep the notes of a packed row apart"):
        refuse_mixing(kind(model))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=20))
def test_rows_hold_every_window_once_and_no_more_tokens_than_stated(
    sizes: list[tuple[int, int]],
) -> None:
    examples = [Example(np.full(n, i), np.full(m, i)) for i, (n, m) in enumerate(sizes)]
    rows = pack_examples(examples, n_tokens=12)
    assert sorted(int(e.prompt[0]) for row in rows for e in row) == list(range(len(sizes)))
    fills = [sum(example.n_tokens for example in row) for row in rows]
    assert all(fill <= 12 or len(row) == 1 for fill, row in zip(fills, rows, strict=True))
    # Two rows together never fit one.
    assert all(a + b > 12 for i, a in enumerate(fills) for b in fills[:i])
    for row in rows:
        batch = join_examples(row)
        answers = np.concatenate([example.answer for example in row])
        assert batch.targets.tolist() == [answers.tolist()]
        assert batch.ids[0, batch.predicting + 1].tolist() == answers.tolist()
        assert batch.positions is not None
        assert int((batch.positions == 0).sum()) == len(row)


@pytest.mark.long
def test_packing_checkpoints_and_a_base_in_bfloat16_in_the_command_s_tuning(
    tmp_path: Path,
) -> None:
    model = write_model(tmp_path / "m")
    settings: dict[str, Any] = {"n_epochs": 3.0, "micro_batch": 1, "precision": "float32"}
    settings["lora"] = Lora(rank=4, dropout=0.0)
    for name, changes in (
        ("plain", {}),
        ("packed", {"packed_tokens": 400}),
        ("both", {"packed_tokens": 400, "gradient_checkpointing": True}),
        ("half", {"packed_tokens": 400, "precision": "bfloat16"}),
    ):
        tuned(order(tmp_path, model, out=name, **settings | changes))
    plain, packed, both, half = (
        read_losses(tmp_path / name) for name in ("plain", "packed", "both", "half")
    )
    for points, within in ((packed, 1e-5), (both, 1e-5), (half, 0.05)):
        for point, plain_point in zip(points, plain, strict=True):
            assert point.loss == pytest.approx(plain_point.loss, abs=within)
            assert point.held_out == pytest.approx(plain_point.held_out, abs=within)
    assert [point.loss for point in half] != [point.loss for point in packed]
    with pytest.raises(AuditError, match="`micro_batch` has no effect"):
        TuningSettings(packed_tokens=400, micro_batch=2)


@pytest.mark.long
def test_a_base_in_bfloat16_has_an_adapter_in_float32(tmp_path: Path) -> None:
    loaded = load_causal(write_model(tmp_path / "m"), device="cpu", precision="bfloat16")
    model = add_adapter(loaded.model, Lora(rank=4), seed=0)
    learner = CopyLearner(
        model,
        settings=TuningSettings(batch=4, micro_batch=4, lora=Lora(rank=4)),
        pad_id=0,
        hardware=Hardware("cpu", "bfloat16"),
        n_steps=10,
        rows=ROWS,
    )
    learner.step(1)
    dtypes = {
        is_trained: {p.dtype for p in model.parameters() if p.requires_grad == is_trained}
        for is_trained in (False, True)
    }
    assert dtypes == {False: {torch.bfloat16}, True: {torch.float32}}
    moments = [value for state in learner.optimizer.state.values() for value in state.values()]
    assert {moment.dtype for moment in moments} == {torch.float32}


@pytest.mark.long
def test_recomputing_layers_keeps_losses_and_saves_their_activations(tmp_path: Path) -> None:
    folder = make_causal(tmp_path / "m", num_hidden_layers=12)
    losses, n_saved = {}, {}
    for is_checkpointed in (False, True):
        base = transformers.AutoModelForCausalLM.from_pretrained(folder)
        model: Any = add_adapter(base, Lora(rank=2, dropout=0.3), seed=0)
        if is_checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        learner = make_learner(model, packed_tokens=20, learning_rate=1e-2)
        losses[is_checkpointed] = [float(learner.step(step)[0]) for step in (1, 2, 3)]
        sizes: dict[int, int] = {}

        def save(tensor: torch.Tensor, sizes: dict[int, int] = sizes) -> torch.Tensor:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        batch, n_targets = next(iter(learner.passes(4)))
        with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
            loss = learner.loss((batch, n_targets))
        weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
        n_saved[is_checkpointed] = sum(n for place, n in sizes.items() if place not in weights)
        assert loss.requires_grad
    assert losses[True] == pytest.approx(losses[False], abs=1e-6)
    assert losses[True][-1] < losses[True][0]
    assert n_saved[True] < n_saved[False] / 5


@pytest.mark.parametrize("lora", [None, Lora(rank=2)])
def test_a_model_that_does_not_fit_is_refused_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lora: Lora | None
) -> None:
    task = order(tmp_path, write_model(tmp_path / "m"), n_epochs=1.0, lora=lora)
    sentences: list[str] = []
    tuned(task, say=sentences.append)
    (sentence,) = sentences
    assert sentence.startswith("Tuning takes about 0.0") and "activations 0.0" in sentence

    def load(*_: object, **__: object) -> None:
        raise AssertionError("loaded")

    free = 1e6  # between what an adapter takes and what all weights take
    monkeypatch.setattr("audit.deid.learn.tuning.load_causal", load)
    for n_bytes in (free, 1e5):
        monkeypatch.setattr("audit.deid.learn.tuning.find_free_bytes", lambda _, n=n_bytes: n)
        is_tried = lora is not None and n_bytes == free
        kind = "an adapter" if lora else "all weights"
        error, text = (AssertionError, "loaded") if is_tried else (AuditError, f"Training {kind}")
        with pytest.raises(error, match=text):
            tuned(task.with_(out=tmp_path / "other"), say=sentences.append)
    assert len(sentences) == (2 if lora else 1)
