"""The pass of a training against transformers' own: logits, gradients, dropout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from audit.models.forward import compute_logits
from audit.models.learning import LearningPass
from audit.models.load import load_model
from tests.models.make_models import MAKERS

KINDS = ("bert", "roberta", "distilbert")


def draw_inputs(model: Any, *, n_rows: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids [B, 12], none of them special, positions [B, 4] and targets [B, 4]."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, model.config.vocab_size, (n_rows, 12), generator=generator)
    positions = torch.rand(n_rows, 12, generator=generator).argsort(dim=1)[:, :4]
    return ids, positions, torch.randint(model.config.vocab_size, (n_rows, 4), generator=generator)


def learned(logits: Tensor, targets: Tensor, model: nn.Module) -> tuple[float, dict[str, Tensor]]:
    """Return the loss and its gradient by parameter, which is forgotten then."""
    loss = functional.cross_entropy(logits.flatten(end_dim=1).float(), targets.flatten())
    loss.backward()
    gradients = {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    model.zero_grad(set_to_none=True)
    return float(loss.detach()), gradients


@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradients_are_those_of_transformers(tmp_path: Path, kind: str) -> None:
    model: Any = load_model(MAKERS[kind](tmp_path / "model")).model
    ids, positions, targets = draw_inputs(model)
    ids[0, 5] = model.config.pad_token_id  # a masked row may show it, as a random token
    labels = torch.full_like(ids, -100).scatter(1, positions, targets)
    plain_loss = model(input_ids=ids, labels=labels).loss  # head at all positions
    plain_loss.backward()
    plain = {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    model.zero_grad(set_to_none=True)
    assert LearningPass.supports(model)
    logits = LearningPass(model).logits(ids, positions=positions)
    loss, ours = learned(logits, targets, model)
    assert loss == pytest.approx(float(plain_loss.detach()), abs=1e-6)
    assert ours.keys() == plain.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-6, rtol=1e-5)
    rounded = LearningPass(model, dtype=torch.bfloat16).logits(ids, positions=positions)
    loss, ours = learned(rounded, targets, model)
    assert loss == pytest.approx(float(plain_loss.detach()), abs=0.02)
    our_gradient, plain_gradient = (
        torch.cat([grads[name].flatten() for name in plain]) for grads in (ours, plain)
    )
    assert float(functional.cosine_similarity(our_gradient, plain_gradient, dim=0)) > 0.999


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_has_the_distribution_of_transformers(tmp_path: Path, kind: str) -> None:
    model = load_model(MAKERS[kind](tmp_path / "model")).model.train()
    ids, positions, _ = draw_inputs(model, n_rows=1)
    ids, positions = ids.expand(4_000, -1), positions.expand(4_000, -1)
    torch.manual_seed(0)
    with torch.inference_mode():
        plain = compute_logits(model, ids, positions=positions).flatten(start_dim=1).double()
        fast = LearningPass(model)
        ours = fast.logits(ids, positions=positions).flatten(start_dim=1).double()
        torch.manual_seed(5)
        first = fast.logits(ids, positions=positions)
        repeated_logits = fast.logits(ids, positions=positions)
        torch.manual_seed(5)
        assert torch.equal(fast.logits(ids, positions=positions), first)
    assert not torch.equal(repeated_logits, first)
    # Means and standard deviations of each logit, in standard errors of their difference.
    error = ((plain.var(dim=0) + ours.var(dim=0)) / len(ids)).sqrt()
    assert float(((plain.mean(dim=0) - ours.mean(dim=0)).abs() / error).max()) < 5
    ratio = ours.std(dim=0) / plain.std(dim=0)
    assert float((ratio - 1).abs().max()) < 0.1
    assert float(ratio.mean()) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_pass_with_its_dropout(tmp_path: Path, kind: str) -> None:
    model = load_model(MAKERS[kind](tmp_path / "model")).model.double().train()
    ids, positions, targets = draw_inputs(model)
    fast = LearningPass(model, dtype=torch.float64)

    def loss() -> Tensor:
        torch.manual_seed(3)
        logits = fast.logits(ids, positions=positions)
        return functional.cross_entropy(logits.flatten(end_dim=1), targets.flatten())

    loss().backward()
    generator = torch.Generator().manual_seed(2)
    for parameter in [weight for weight in model.parameters() if weight.grad is not None]:
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        ends = []
        for size in (1e-5, -1e-5):
            with torch.no_grad():
                parameter.add_(size * direction)
                ends.append(float(loss()))
                parameter.sub_(size * direction)
        slope = float((parameter.grad * direction).sum())
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-7)


class Adapted(nn.Linear):
    """As an adapter puts it in the place of a layer's own."""


def test_models_with_other_parts_are_not_known(tmp_path: Path) -> None:
    model: Any = load_model(MAKERS["bert"](tmp_path / "model")).model
    assert LearningPass.supports(model) and not LearningPass.supports(nn.Linear(2, 2))
    model.gradient_checkpointing_enable()
    assert not LearningPass.supports(model)
    model.gradient_checkpointing_disable()
    attention = model.bert.encoder.layer[1].attention.self
    attention.value = Adapted(16, 16)
    assert not LearningPass.supports(model)
