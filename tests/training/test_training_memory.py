"""The memory of a training by arithmetic, beside what real small models hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from audit.errors import AuditError
from audit.training.causal_lm import add_adapter
from audit.training.config import Lora
from audit.training.loop import select_trained_parameters
from audit.training.training_memory import (
    CausalShape,
    PassSize,
    TrainingMemory,
    estimate_memory,
    measure_shape,
    refuse_without_room,
)
from tests.models.make_causal import make_causal

PAPER = CausalShape(
    n_parameters=13_707_924_480,
    n_layers=40,
    n_layer_parameters=317_204_480,
    n_inputs=40 * (6 * 5120 + 13_824),
    n_outputs=40 * (5 * 5120 + 2 * 13_824),
    width=5120,
    n_vocabulary=99_584,
)
"""The paper's model: a Llama with 40 layers, 5,120 wide, 13,824 inside, its head of its own."""


def outline(folder: Path) -> Any:
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(config)


@pytest.mark.parametrize("kind", ["llama", "llama tied", "phi3", "gemma2", "gpt2", "gpt_neox"])
def test_parameters_gradients_and_moments_are_those_of_the_model(tmp_path: Path, kind: str) -> None:
    folder = make_causal(tmp_path / "m", kind)
    shape = measure_shape(outline(folder))
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert shape.n_parameters == sum(p.numel() for p in model.parameters())
    assert shape.n_layers == 2 and shape.width == 16
    size = PassSize(n_tokens=10, n_predicted=5)
    for lora in (None, Lora(rank=3)):
        tuned_model = model if lora is None else add_adapter(model, lora, seed=0)
        memory = estimate_memory(shape, size, precision="float32", lora=lora)
        held = sum(p.numel() * p.itemsize for p in tuned_model.parameters())
        assert memory.weights == held
        trained = select_trained_parameters(tuned_model).values()
        optimizer = torch.optim.AdamW(trained, lr=1e-3)
        tuned_model(input_ids=torch.tensor([[3, 4, 5]])).logits.sum().backward()
        optimizer.step()
        gradients = [p.grad for p in trained if p.grad is not None]
        moments = [state[name] for state in optimizer.state.values() for name in state]
        assert memory.gradients == sum(g.numel() * g.itemsize for g in gradients)
        n_moment_bytes = sum(m.numel() * m.itemsize for m in moments if m.dim())
        assert memory.moments == n_moment_bytes


def measure_activations(model: nn.Module, ids: torch.Tensor, *, precision: str) -> int:
    """Return the bytes that a pass saves for its way back, without weights."""
    sizes: dict[int, int] = {}
    tensors = []  # kept, so that no place is used twice

    def save(tensor: torch.Tensor) -> torch.Tensor:
        tensors.append(tensor)
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    context = torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16")
    with context, torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        logits = model(input_ids=ids, use_cache=False).logits
    loss = nn.functional.cross_entropy(logits[0, :-1].float(), ids[0, 1:])
    assert loss.requires_grad
    return sum(n for place, n in sizes.items() if place not in weights)


@pytest.mark.long
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("is_checkpointed", [False, True])
@pytest.mark.parametrize("lora", [None, Lora(rank=4)])
def test_activations_are_about_those_of_a_llama(
    precision: str, is_checkpointed: bool, lora: Lora | None
) -> None:
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model: Any = transformers.LlamaForCausalLM(config)
    shape = measure_shape(model)
    if lora is not None:
        model = add_adapter(model.to(getattr(torch, precision)), lora, seed=0)
    model.train()
    if is_checkpointed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    n = 512
    ids = torch.randint(64, (1, n), generator=torch.Generator().manual_seed(0))
    n_bytes = measure_activations(model, ids, precision=precision)
    estimates = [
        estimate_memory(
            shape,
            PassSize(n_tokens=n, n_predicted=0),
            precision=precision,
            lora=lora,
            is_checkpointed=is_checkpointed,
        ).activations
        for n in (n, 2 * n)
    ]
    if is_checkpointed:  # the layer that is computed again is not there yet
        plain = estimate_memory(
            shape, PassSize(n_tokens=n, n_predicted=0), precision=precision, lora=lora
        ).activations
        estimates[0] -= plain // 8
    assert n_bytes == pytest.approx(estimates[0], rel=0.2)
    assert estimates[1] > 1.9 * estimates[0]


def test_the_paper_s_model_by_hand() -> None:
    size = PassSize(n_tokens=32_768, n_predicted=17_000, is_packed=True)
    full = estimate_memory(PAPER, size, precision="bfloat16", lora=None, is_checkpointed=True)
    n = PAPER.n_parameters
    assert (full.weights, full.gradients, full.moments) == (6 * n, 4 * n, 8 * n)
    lora = Lora(rank=64)
    n_adapter = 64 * 40 * (4 * 2 * 5120 + 3 * (5120 + 13_824))
    assert PAPER.count_adapter(64) == n_adapter
    adapter, eighth = (
        estimate_memory(
            PAPER, size, precision="bfloat16", lora=lora, is_checkpointed=True, n_parts=n_parts
        )
        for n_parts in (1, 8)
    )
    assert adapter.weights == 2 * n + 4 * n_adapter
    n_outside = n - 40 * PAPER.n_layer_parameters
    assert eighth.weights == 2 * (n // 8 + n_outside + 2 * PAPER.n_layer_parameters) + 4 * n_adapter
    assert adapter.gradients == 4 * n_adapter and adapter.activations == eighth.activations
    plain = estimate_memory(PAPER, size, precision="bfloat16", lora=lora)
    assert plain.activations > 9 * adapter.activations
    with pytest.raises(AuditError, match=r"weights 82\.2, .* The device has 80\.0 GB"):
        refuse_without_room(full, lora=None, free=80e9)


@pytest.mark.parametrize("lora", [None, Lora()])
def test_only_an_adapter_s_estimate_may_be_above_what_is_free(lora: Lora | None) -> None:
    memory = TrainingMemory(weights=4, gradients=1, moments=2, activations=3)
    refuse_without_room(memory, lora=lora, free=10)
    with pytest.raises(AuditError, match="Training an" if lora else "Training all weights"):
        refuse_without_room(memory, lora=lora, free=6)
    if lora:
        refuse_without_room(memory, lora=lora, free=7)
        return
    with pytest.raises(AuditError, match="Training all weights"):
        refuse_without_room(memory, lora=lora, free=9)
