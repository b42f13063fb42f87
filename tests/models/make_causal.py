"""Small causal models of every accepted architecture, with the tokenizers that they come with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import peft
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from audit.models.adapters import SETTINGS_FILE
from audit.models.components import _SPLITS
from tests.models.editing import edit_json
from tests.models.make_models import byte_alphabet

MERGES = ("a t", "J o", "h n", "Jo hn", "s m", "i t", "i n", "a n")


def _mark_space(merges: tuple[str, ...], mark: str) -> list[tuple[str, str]]:
    words = [(mark, "p"), (mark, "Jo"), (f"{mark}Jo", "hn")]
    return [*(tuple(merge.split(" ")) for merge in merges), *words]  # type: ignore[list-item]


def _number(tokens: list[str]) -> dict[str, int]:
    return {token: i for i, token in enumerate(dict.fromkeys(tokens))}


def list_byte_pairs(*special: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return vocabulary and merges of a byte-level tokenizer."""
    merges = _mark_space(MERGES, "Ġ")
    return _number([*special, *sorted(byte_alphabet()), *(a + b for a, b in merges)]), merges


def list_fallback_pairs(*special: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return vocabulary and merges of a tokenizer that writes unknown characters as bytes."""
    merges = _mark_space(MERGES, "▁")
    letters = "▁abcdefghijklmnopqrstuvwxyzJOS.,'"
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    return _number([*special, *bytes_, *letters, *(a + b for a, b in merges)]), merges


def write_gpt2_files(folder: Path) -> int:
    """Write vocab.json and merges.txt, as GPT-2 has them."""
    vocabulary, merges = list_byte_pairs("<|endoftext|>")
    write_json(folder / "vocab.json", vocabulary)
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", "utf-8")
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer"})
    return len(vocabulary)


def _write_class(name: str, *special: str, lists: Callable[..., Any]) -> Callable[[Path], int]:
    def write(folder: Path) -> int:
        vocabulary, merges = lists(*special)
        tokenizer = getattr(transformers, name)(vocab=vocabulary, merges=merges)
        tokenizer.save_pretrained(folder)
        return len(tokenizer)

    return write


def write_llama3(folder: Path) -> int:
    """Write the tokenizer.json of Llama 3: byte pairs after a split by a known expression."""
    vocabulary, merges = list_byte_pairs()
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(_SPLITS[1]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|begin_of_text|>", "<|end_of_text|>"]
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single=f"{special[0]} $A", special_tokens=[(special[0], len(vocabulary))]
            ),
        ]
    )
    return _save_fast(folder, tokenizer, special, "PreTrainedTokenizerFast")


def write_llama2(folder: Path) -> int:
    """Write the tokenizer.json of Llama 2 and Mistral, whose normalizer marks the beginning."""
    special = ["<unk>", "<s>", "</s>"]
    vocabulary, merges = list_fallback_pairs(*special)
    tokenizer = tokenizers.Tokenizer(
        models.BPE(
            vocab=vocabulary, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return _save_fast(folder, tokenizer, special[1:], "LlamaTokenizerFast")


def write_unigram(folder: Path) -> int:
    """Write the tokenizer.json of a Unigram model with byte fallback, as llm-jp has it."""
    special = ["<unk>", "<s>", "</s>"]
    vocabulary, _ = list_fallback_pairs(*special)
    scores = {token: 0.0 if token in special else -5.0 - len(token) for token in vocabulary}
    tokenizer = tokenizers.Tokenizer(
        models.Unigram([*scores.items()], unk_id=0, byte_fallback=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return _save_fast(folder, tokenizer, special[1:], "PreTrainedTokenizerFast")


def _save_fast(folder: Path, tokenizer: tokenizers.Tokenizer, ends: list[str], kind: str) -> int:
    tokenizer.save(str(folder / "tokenizer.json"))
    roles = dict(zip(("bos_token", "eos_token"), ends, strict=True))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": kind, **roles})
    return int(tokenizer.get_vocab_size())


TOKENIZERS: Mapping[str, Callable[[Path], int]] = {
    "gpt2 files": write_gpt2_files,
    "gpt2": _write_class("GPT2Tokenizer", "<|endoftext|>", lists=list_byte_pairs),
    "gpt_neox": _write_class("GPTNeoXTokenizer", "<|endoftext|>", lists=list_byte_pairs),
    "qwen2": _write_class("Qwen2Tokenizer", "<|endoftext|>", lists=list_byte_pairs),
    "llama": _write_class("LlamaTokenizer", "<unk>", "<s>", "</s>", lists=list_fallback_pairs),
    "gemma": _write_class(
        "GemmaTokenizer", "<pad>", "<eos>", "<bos>", "<unk>", "<mask>", lists=list_fallback_pairs
    ),
    "llama 2": write_llama2,
    "llama 3": write_llama3,
    "unigram": write_unigram,
}
"""Form of a tokenizer -> a function that writes it and returns the number of its tokens."""

_SHAPE: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
}
_GEMMA = {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 6}
_LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 500.0,
}
_YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 500.0,
}
CAUSAL: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("llama", "llama", {}),
    "llama tied": ("llama", "llama 2", {"tie_word_embeddings": True}),
    "llama 3": ("llama", "llama 3", {"rope_parameters": _LLAMA3}),
    "llama with biases": ("llama", "unigram", {"attention_bias": True, "mlp_bias": True}),
    "llama linear": ("llama", "llama", {"rope_parameters": _LINEAR, "head_dim": 6}),
    "mistral": ("mistral", "llama 2", {"sliding_window": 6, "head_dim": 8}),
    "qwen2": ("qwen2", "qwen2", {"rope_parameters": _YARN}),
    "qwen2 with windows": (
        "qwen2",
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", "qwen2", {"head_dim": 6}),
    "gemma2": ("gemma2", "gemma", _GEMMA),
    "gemma3_text": ("gemma3_text", "gemma", _GEMMA | {"sliding_window_pattern": 2}),
    "phi3": ("phi3", "llama", {"sliding_window": 6}),
    "phi3 partly turned": ("phi3", "gpt2", {"partial_rotary_factor": 0.5}),
    "gpt2": ("gpt2", "gpt2 files", {}),
    "gpt2 scaled by layer": (
        "gpt2",
        "gpt2",
        {"n_inner": 20, "scale_attn_by_inverse_layer_idx": True},
    ),
    "gpt_neox": ("gpt_neox", "gpt_neox", {"rotary_pct": 0.5}),
}
"""Name of a small causal model -> its kind, the form of its tokenizer, and settings."""
_GPT2_NAMES = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
}


def make_causal(
    folder: Path, name: str = "llama", *, seed: int = 0, n_more_rows: int = 3, **changes: Any
) -> Path:
    """Write a model of `CAUSAL`, with some more rows than tokens; return the folder."""
    kind, tokenizer, settings = CAUSAL[name]
    folder.mkdir(parents=True)
    n_tokens = TOKENIZERS[tokenizer](folder)
    shape = {_GPT2_NAMES.get(key, key) if kind == "gpt2" else key: v for key, v in _SHAPE.items()}
    settings = shape | {"vocab_size": n_tokens + n_more_rows} | settings | changes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = transformers.AutoConfig.for_model(kind, **settings)
        model = transformers.AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape))
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    return folder


IDS = torch.tensor([[3, 7, 1, 30, 12], [2, 2, 9, 11, 5]])
"""Tokens of which `make_adapter` returns the logits."""


def make_adapter(
    folder: Path,
    base: Path,
    *,
    n_more_tokens: int = 0,
    is_trained: bool = True,
    declared: str = "",
    **settings: Any,
) -> Tensor:
    """Save an adapter made by peft, with random numbers if it is trained; return its logits."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = transformers.AutoModelForCausalLM.from_pretrained(base).eval()
        if n_more_tokens:
            n_rows = model.get_input_embeddings().weight.shape[0] + n_more_tokens
            model.resize_token_embeddings(n_rows, mean_resizing=False)
        settings = {"target_modules": "all-linear", "r": 3, "task_type": "CAUSAL_LM"} | settings
        adapted = peft.get_peft_model(model, peft.LoraConfig(**settings)).eval()
        for parameter in adapted.parameters():
            if parameter.requires_grad and is_trained:
                parameter.data = 0.3 * torch.randn_like(parameter)
    adapted.save_pretrained(folder)
    if declared:
        edit_json(folder, SETTINGS_FILE, base_model_name_or_path=declared)
    with torch.inference_mode():
        logits: Tensor = adapted(IDS).logits
    return logits


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
