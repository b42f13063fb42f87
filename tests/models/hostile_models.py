"""Ways to spoil a good BERT directory; what its refusal must say stands in refusals.txt."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.models.editing import (
    WEIGHTS,
    config,
    edit_json,
    remove,
    tokenizer_config,
    weights,
    write,
    write_pickle,
)
from tests.models.hostile_tokenizers import HOSTILE_TOKENIZERS

INDEX = "model.safetensors.index.json"
EMBEDDING = "bert.embeddings.word_embeddings.weight"


Spoil = Callable[[Path], object]


def _replace_link(name: str, target: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return spoil


def _no_head(tensors: dict[str, Any]) -> None:
    for name in [name for name in tensors if name.startswith("cls.")]:
        del tensors[name]


def _both_names(tensors: dict[str, Any]) -> None:
    tensors["bert.embeddings.LayerNorm.gamma"] = tensors["bert.embeddings.LayerNorm.weight"]


def _japanese(**changes: object) -> Spoil:
    return tokenizer_config(tokenizer_class="BertJapaneseTokenizer", **changes)


def fast(**changes: object) -> Spoil:
    def spoil(folder: Path) -> None:
        words = (folder / "vocab.txt").read_text("utf-8").split()
        state: dict[str, Any] = {
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "model": {
                "type": "WordPiece",
                "unk_token": "[UNK]",
                "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100,
                "vocab": {word: i for i, word in enumerate(words)},
            },
        }
        (folder / "tokenizer.json").write_text(json.dumps(state | changes), encoding="utf-8")

    return spoil


_DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000


def _vocabulary(change: Callable[[list[str]], list[str]]) -> Spoil:
    def spoil(folder: Path) -> None:
        words = (folder / "vocab.txt").read_text("utf-8").split("\n")[:-1]
        (folder / "vocab.txt").write_text("\n".join(change(words)) + "\n", encoding="utf-8")

    return spoil


def _overflowing(tensors: dict[str, Any]) -> None:
    tensors["bert.encoder.layer.0.output.LayerNorm.weight"] *= 1e25
    tensors["bert.encoder.layer.1.output.dense.weight"] *= 1e25


def _infinite(tensors: dict[str, Any]) -> None:
    tensors["bert.encoder.layer.1.output.dense.weight"][3, 4] = torch.inf


BEFORE_LOADING: dict[str, Spoil] = {
    "pickle_only": lambda f: (remove(WEIGHTS)(f), write_pickle(f, "pytorch_model.bin")),
    "no_weights": remove(WEIGHTS),
    "pickle_named_safetensors": lambda f: write_pickle(f, WEIGHTS),
    "index_and_single_file": write(INDEX, "{}"),
    "adapter": write("adapter_config.json", "{}"),
    "auto_map": config(auto_map={"AutoModel": "x.Y"}),
    "attention_kernel": config(_attn_implementation="attacker/k"),
    "kernel_key": config(use_kernels=True),
    "quantised": config(quantization_config={"bits": 4}),
    "vocabulary_is_passwd": _replace_link("vocab.txt", "/etc/passwd"),
    "weights_link_out": lambda f: (f / WEIGHTS).symlink_to((f / WEIGHTS).rename(f.parent / "w")),
    "fifo": lambda f: os.mkfifo(f / "pipe"),
    "promised_layers": config(num_hidden_layers=200),
    "size_as_text": config(hidden_size="16"),
    "heads_do_not_fit": config(num_attention_heads=3),
    "unknown_activation": config(hidden_act="os.system"),
    "no_config": remove("config.json"),
    "config_is_deep": write("config.json", _DEEP),
    "config_huge": write("config.json", b" " * 1_000_001),
    "other_kind": config(model_type="opt"),
    "decoder": config(is_decoder=True),
    "relative_positions": config(position_embedding_type="relative_key"),
    "missing_tensor": weights(lambda t: t.pop(EMBEDDING)),
    "integers": weights(lambda t: t.update({EMBEDDING: torch.zeros((37, 16), dtype=torch.int8)})),
    "unknown_tensor": weights(lambda t: t.update(lora_A=torch.zeros(3))),
    "no_head": weights(_no_head),
    "old_and_new_name": weights(_both_names),
    "truncated": lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:-100]),
    "endless_header": write(WEIGHTS, (2**60).to_bytes(8, "little") + b"{}"),
    "no_tokenizer": remove("vocab.txt"),
    "empty_vocabulary": write("vocab.txt", b""),
    "binary_vocabulary": write("vocab.txt", b"\xff\xfe\n"),
    "foreign_tokenizer": tokenizer_config(tokenizer_class="WhisperTokenizer"),
    "broken_fast_tokenizer": write("tokenizer.json", "{"),
    "fast_without_model": write("tokenizer.json", "{}"),
    "pattern": fast(normalizer={"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}),
    "wrong_model": fast(model={"type": "BPE", "vocab": {}, "merges": []}),
    "random_splits": fast(model={"type": "WordPiece", "vocab": {"a": 0}, "dropout": 0.1}),
    "twice_numbered": fast(model={"type": "WordPiece", "vocab": {"a": 0, "b": 0}}),
    "sudachi": _japanese(word_tokenizer_type="sudachi"),
    "mecab_option": _japanese(mecab_kwargs={"mecab_option": "-r /x"}),
    "key_of_5000_digits": tokenizer_config(added_tokens_decoder={"1" * 5000: {"content": "a"}}),
    "class_is_a_list": tokenizer_config(tokenizer_class=["a"] * 500),
    "many_added": tokenizer_config(additional_special_tokens=["a"] * 10_001),
    "many_added_in_fast": fast(added_tokens=[{}] * 10_001),
    "many_words": write("vocab.txt", b"\n" * 1_000_001),
    "map_loads_code": write("special_tokens_map.json", '{"auto_map": 1}'),
    "truncation_of_wrong_kind": fast(truncation=1),
    "growing_replacements": fast(
        normalizer={
            "type": "Sequence",
            "normalizers": [
                {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"} for _ in range(18)
            ],
        }
    ),
    "flag_as_text": tokenizer_config(do_lower_case="false"),
    "cased_vocabulary_folded": _vocabulary(lambda words: [*words[:-1], "Jane"]),
    **HOSTILE_TOKENIZERS,
    "added_twice": write("added_tokens.json", '{"a": 1, "b": 1}'),
}
"""Refused without a look at the weights."""


WHILE_LOADING: dict[str, Spoil] = {
    "infinite": weights(_infinite),
    "overflowing": weights(_overflowing),
    "two_heads": weights(lambda t: t.update({"cls.predictions.decoder.weight": t[EMBEDDING] + 1})),
    "tokenizer_too_long": _vocabulary(lambda w: [*w, "more"]),
    "no_mask_token": _vocabulary(lambda w: [x for x in w if x != "[MASK]"]),
    "invented_entry": lambda f: (
        _vocabulary(lambda w: w[:-1])(f),
        edit_json(f, "tokenizer_config.json", bos_token="[BOS]"),
    ),
    "settings_of_wrong_kind": tokenizer_config(mask_token=[1]),
}
"""Refused when weights and tokenizer are read."""
