"""Causal models: their numbers are transformers' own, their text is split as it was in training."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoTokenizer

from audit.errors import AuditError
from audit.models.components import _SPLITS
from audit.models.inspect import compute_model_digest, inspect_model
from audit.models.layouts import compute_expected_shapes
from audit.models.load import load_model, load_pair
from tests.models.editing import (
    WEIGHTS,
    canary,
    config,
    edit_json,
    edit_weights,
    remove,
    weights,
    write_pickle,
)
from tests.models.make_causal import CAUSAL, TOKENIZERS, make_causal
from tests.models.make_models import make_bert

SENTENCES = ("Mr John O'Neil was seen, in pain.", " Anna", "Zoë 山田 12:30\n\n x", "")


def read_library_model(folder: Path) -> Any:
    with torch.random.fork_rng(devices=[]):
        return transformers.AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.mark.parametrize("name", CAUSAL)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    folder = make_causal(tmp_path / "model", name)
    loaded, library_model = load_model(folder), read_library_model(folder)
    assert loaded.config.is_causal and loaded.digest == compute_model_digest(folder)
    assert inspect_model(folder).n_parameters == library_model.num_parameters()
    assert loaded.n_parameters == library_model.num_parameters()
    shapes = {
        name: tuple(parameter.shape)
        for name, parameter in library_model.named_parameters(remove_duplicate=False)
    }
    assert compute_expected_shapes(loaded.config) == shapes
    generator = torch.Generator().manual_seed(3)
    for n_tokens in (3, 20, loaded.n_positions):
        ids = torch.randint(1, loaded.config.vocab_size, (2, n_tokens), generator=generator)
        with torch.inference_mode():
            expected = library_model(ids).logits
            logits = loaded.model(ids).logits
        assert expected.std() > 0.1
        torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", TOKENIZERS)
def test_text_is_split_as_in_training(form: str, tmp_path: Path) -> None:
    name = next(name for name, (_, tokenizer, _) in CAUSAL.items() if tokenizer == form)
    folder = make_causal(tmp_path / "model", name)
    tokenizer = load_model(folder).tokenizer
    # transformers 5 would build this one anew, without the normalizer in its file.
    library = transformers.PreTrainedTokenizerFast if form == "llama 2" else AutoTokenizer
    library_tokenizer = library.from_pretrained(folder)
    for sentence in SENTENCES:
        ids = tokenizer(sentence)["input_ids"]
        assert ids == library_tokenizer(sentence)["input_ids"]
    assert tokenizer.eos_token_id == library_tokenizer.eos_token_id
    assert tokenizer.bos_token_id == library_tokenizer.bos_token_id


def test_a_body_saved_alone_gets_its_prefix(tmp_path: Path) -> None:
    folder = make_causal(tmp_path / "model", "gpt2")
    logits = load_model(folder).model(torch.tensor([[3, 4, 5]])).logits
    edit_weights(
        folder,
        lambda tensors: (
            [
                tensors.update({name.removeprefix("transformer."): tensors.pop(name)})
                for name in [*tensors]
            ]
            + [tensors.update({"h.0.attn.bias": torch.ones(1, 1, 64, 64, dtype=torch.uint8)})]
        ),
    )
    again = load_model(folder).model(torch.tensor([[3, 4, 5]])).logits
    assert torch.equal(logits, again)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_scaling"),
        ("llama", {"rope_parameters": {"rope_type": "longrope"}}, "rope_parameters"),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "contradict"),
        ("llama", {"num_key_value_heads": 3}, "contradict"),
        ("llama", {"head_dim": 3}, "head_dim"),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": float("nan")}}, "JSON"),
        ("gemma2", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("gemma3_text", {"attn_logit_softcapping": 5.0}, "attn_logit_softcapping"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
        ("phi3", {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, "contradict"),
        ("gpt_neox", {"rotary_pct": 2.0}, "rotary_pct|partial_rotary_factor"),
        ("qwen2", {"layer_types": ["full_attention"]}, "contradict"),
        ("mistral", {"attention_bias": True}, "attention_bias"),
    ],
)
def test_settings_that_would_change_the_arithmetic_are_bounded(
    name: str, settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    folder = make_causal(tmp_path / "model", name)
    edit_json(folder, "config.json", **settings)
    with pytest.raises(AuditError, match=words) as refusal:
        inspect_model(folder)
    assert refusal.value.do


def _tokenizer(**changes: Any) -> Callable[[Path], object]:
    """Return a change of parts of tokenizer.json, or of settings in its model."""

    def spoil(folder: Path) -> None:
        state = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        for key, value in changes.items():
            place = state["model"] if key in state["model"] else state
            place[key] = value
        (folder / "tokenizer.json").write_text(json.dumps(state), "utf-8")

    return spoil


def _split(pattern: str) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "code": (config(auto_map={"AutoModelForCausalLM": "x.Y"}), '"auto_map" can load code'),
    "kernel": (config(_attn_implementation="attacker/k"), "can load code"),
    "quantised": (config(quantization_config={"quant_method": "awq"}), "quantised"),
    "pickle": (
        lambda folder: (remove(WEIGHTS)(folder), write_pickle(folder, "pytorch_model.bin")),
        "a format that can run code",
    ),
    "pickle under another name": (lambda folder: write_pickle(folder, WEIGHTS), "can run code"),
    "no head": (weights(lambda tensors: tensors.pop("lm_head.weight")), "without the head"),
    "classifier": (
        weights(lambda t: t.update({"score.weight": t.pop("lm_head.weight")})),
        "This is a classifier",
    ),
    "endless pattern": (_tokenizer(pre_tokenizer=_split("(a+)+$")), "part that is not supported"),
    "nearly a known pattern": (
        _tokenizer(pre_tokenizer=_split(_SPLITS[1] + "|a")),
        "part that is not supported",
    ),
    "random splits": (_tokenizer(dropout=0.5), "splits words at random"),
    "many added tokens": (_tokenizer(added_tokens=[{}] * 10_001), "at most 10,000"),
    "numbers twice": (_tokenizer(vocab={"a": 0, "b": 0}), "its own number"),
    "more tokens than rows": (config(vocab_size=300), "rows|shape"),
    "other width": (config(hidden_size=32), "shape"),
    "more layers": (config(num_hidden_layers=199), "promises are missing"),
    "adapter inside": (
        weights(
            lambda t: t.update(
                {"model.layers.0.self_attn.q_proj.lora_A.weight": t["lm_head.weight"]}
            )
        ),
        "was not merged",
    ),
    "no numbers": (
        weights(lambda t: t.update({"lm_head.weight": t["lm_head.weight"] * torch.nan})),
        "not finite",
    ),
    "overflow": (
        weights(lambda t: t.update({"model.norm.weight": t["model.norm.weight"] * 1e38})),
        "not finite",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_folder_is_refused_in_words(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_causal(tmp_path / "model", "llama 3")
    spoil, words = HOSTILE[case]
    spoil(folder)
    for library, function in ((torch, "load"), (pickle, "load"), (pickle, "loads")):
        monkeypatch.setattr(library, function, None)
    with pytest.raises(AuditError, match=words) as refusal:
        load_model(folder)
    assert refusal.value.do and not canary(folder).exists()


def test_settings_of_older_files_are_those_of_today(tmp_path: Path) -> None:
    folder = make_causal(tmp_path / "model", "llama 3")
    logits = load_model(folder).model(torch.tensor([[3, 4, 5, 6, 7]])).logits
    scaling = {
        "type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }
    edit_json(folder, "config.json", rope_parameters=None, rope_scaling=scaling, rope_theta=500.0)
    assert torch.equal(load_model(folder).model(torch.tensor([[3, 4, 5, 6, 7]])).logits, logits)


def test_a_masked_and_a_causal_model_make_no_pair(tmp_path: Path) -> None:
    causal, masked = make_causal(tmp_path / "causal"), make_bert(tmp_path / "masked")
    with pytest.raises(AuditError, match="continues a text"):
        load_pair(causal, masked)
    pair = load_pair(causal, make_causal(tmp_path / "hospital", seed=1))
    assert not pair.is_one_model and not pair.notes
    assert load_pair(causal, causal).is_one_model
    with pair.hospital.running():
        assert pair.hospital.switch is None
