"""LoRA adapters against peft, which writes the files, and against hostile files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from audit.errors import AuditError
from audit.models.adapters import (
    SETTINGS_FILE,
    WEIGHTS_FILE,
    attach_adapter,
    is_adapter_folder,
    read_adapter,
)
from audit.models.model_folder import open_folder

IDS = torch.tensor([[3, 7, 1, 30, 12], [2, 2, 9, 11, 5]])


def make_llama(*, is_tied: bool = False) -> LlamaForCausalLM:
    torch.manual_seed(1)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=40,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            tie_word_embeddings=is_tied,
        )
    ).eval()


def make_gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(1)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=32)
    ).eval()


def logits_of(model: nn.Module) -> Tensor:
    with torch.inference_mode():
        logits: Tensor = model(IDS).logits
    return logits


def save_adapter(
    folder: Path, base: nn.Module, *, is_whole: bool = False, **settings: Any
) -> Tensor:
    """Save an adapter with random numbers in every part; return its logits by peft."""
    torch.manual_seed(2)
    model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = 0.3 * torch.randn_like(parameter)
    model.save_pretrained(folder, save_embedding_layers=is_whole or "auto")
    return logits_of(model)


ADAPTERS = {
    "plain": (make_llama, {"target_modules": ["q_proj", "v_proj"]}),
    "all linear": (make_llama, {"target_modules": "all-linear", "r": 4, "lora_alpha": 16}),
    "rank-stabilised": (make_llama, {"target_modules": ["down_proj"], "r": 6, "use_rslora": True}),
    "patterns": (
        make_llama,
        {
            "target_modules": ["q_proj", "k_proj"],
            "rank_pattern": {"q_proj": 3, "model.layers.1.self_attn.k_proj": 5},
            "alpha_pattern": {"k_proj": 2},
        },
    ),
    "embedding": (make_llama, {"target_modules": ["embed_tokens", "lm_head"]}),
    "tied embedding": (
        lambda: make_llama(is_tied=True),
        {"target_modules": ["embed_tokens", "o_proj"]},
    ),
    "whole": (
        make_llama,
        {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]},
    ),
    "GPT-2": (make_gpt2, {"target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": True}),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_it_computes_what_peft_computes_and_switched_off_what_its_base_computes(
    tmp_path: Path, name: str
) -> None:
    make_base, settings = ADAPTERS[name]
    expected_logits = save_adapter(tmp_path, make_base(), **settings)
    base = make_base()
    base_logits = logits_of(base)
    assert is_adapter_folder(open_folder(tmp_path))
    switch = attach_adapter(base, read_adapter(tmp_path))
    torch.testing.assert_close(logits_of(base), expected_logits, atol=1e-5, rtol=0)
    assert (expected_logits - base_logits).abs().max() > 0.01
    with switch.turned(on=False):
        assert torch.equal(logits_of(base), base_logits)
    assert switch.is_on


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("is_tied", [False, True])
def test_an_embedding_that_got_new_rows_is_used_with_the_adapter_alone(
    tmp_path: Path, is_tied: bool
) -> None:
    base = make_llama(is_tied=is_tied)
    base.resize_token_embeddings(43, mean_resizing=False)
    torch.manual_seed(3)
    base.get_input_embeddings().weight.data.normal_()
    expected_logits = save_adapter(tmp_path, base, is_whole=True, target_modules=["q_proj"])
    model = make_llama(is_tied=is_tied)
    base_logits = logits_of(model)
    switch = attach_adapter(model, read_adapter(tmp_path))
    torch.testing.assert_close(logits_of(model), expected_logits, atol=1e-5, rtol=0)
    with switch.turned(on=False):
        assert torch.equal(logits_of(model), base_logits)


def test_an_adapter_that_was_never_trained_changes_nothing_at_all(tmp_path: Path) -> None:
    model = peft.get_peft_model(
        make_llama(), peft.LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear")
    )
    model.save_pretrained(tmp_path)
    base = make_llama()
    base_logits = logits_of(base)
    attach_adapter(base, read_adapter(tmp_path))
    assert torch.equal(logits_of(base), base_logits)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_adapter(tmp_path, make_llama(), target_modules=["q_proj", "v_proj"])
    return tmp_path


def change_settings(folder: Path, **changes: Any) -> None:
    path = folder / SETTINGS_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("use_dora", True),
        ("init_lora_weights", "pissa"),
        ("init_lora_weights", "eva"),
        ("loftq_config", {"loftq_bits": 4}),
        ("bias", "all"),
        ("task_type", "SEQ_CLS"),
        ("layers_to_transform", [0]),
        ("lora_bias", True),
        ("trainable_token_indices", [1]),
        ("a_setting_of_next_year", "x"),
        ("modules_to_save", ["score"]),
        ("target_modules", "(a+)+$"),
        ("r", 0),
        ("lora_alpha", float("inf")),
    ],
)
def test_what_would_change_the_answer_is_refused_by_name(
    folder: Path, key: str, value: object
) -> None:
    change_settings(folder, **{key: value})
    with pytest.raises(AuditError) as refusal:
        read_adapter(folder)
    if value != float("inf"):
        assert key in str(refusal.value)


def test_settings_without_effect_are_not_followed_and_not_in_the_digest(folder: Path) -> None:
    digest = read_adapter(folder).digest()
    change_settings(folder, base_model_name_or_path="/etc", lora_dropout=0.3, peft_version="9")
    adapter = read_adapter(folder)
    assert (adapter.base, adapter.digest()) == ("/etc", digest)
    change_settings(folder, lora_alpha=16)
    assert read_adapter(folder).digest() != digest


def test_the_adapter_of_another_base_is_refused(folder: Path) -> None:
    adapter = read_adapter(folder)
    with pytest.raises(AuditError, match="which this general model does not have in that shape"):
        attach_adapter(make_gpt2(), adapter)


def test_numbers_that_are_not_finite_and_tensors_that_do_not_belong_are_refused(
    folder: Path,
) -> None:
    path = folder / WEIGHTS_FILE
    tensors = load_file(path)
    name = min(tensors)
    save_file({**tensors, name: torch.full_like(tensors[name], float("nan"))}, path)
    with pytest.raises(AuditError, match="not finite"):
        attach_adapter(make_llama(), read_adapter(folder))
    for wrong in (
        {**tensors, "base_model.model.model.norm.weight": torch.zeros(40, 16)},
        {key: tensor for key, tensor in tensors.items() if key != name},
        {**tensors, name: tensors[name][:-1].clone()},
    ):
        save_file(wrong, path)
        with pytest.raises(AuditError, match="does not fit the settings"):
            read_adapter(folder)


def test_pickled_weights_are_not_opened(folder: Path) -> None:
    (folder / WEIGHTS_FILE).rename(folder / "adapter_model.bin")
    with pytest.raises(AuditError, match="a format that can run code"):
        read_adapter(folder)


HOSTILE: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e308,
    "",
    "../../etc",
    "a" * 5_000,
    [],
    [[]],
    ["q_proj", 1],
    {},
    {"q_proj": -1},
    {"(a+)+$": 2},
    [None],
)


def test_hostile_settings_are_read_or_refused_in_words(folder: Path) -> None:
    original = json.loads((folder / SETTINGS_FILE).read_text())
    dice, n_refused = random.Random(3), 0
    for _ in range(300):
        changes = {dice.choice(sorted(original)): dice.choice(HOSTILE) for _ in range(2)}
        (folder / SETTINGS_FILE).write_text(json.dumps(original | changes))
        try:
            adapter = read_adapter(folder)
            attach_adapter(make_llama(), adapter)
        except AuditError as refusal:
            n_refused += 1
            assert "etc" not in str(refusal) or len(str(refusal)) < 400
    assert n_refused > 100
