"""Ways to spoil a good BERT directory, each with the words that its refusal must say."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file

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

INDEX = "model.safetensors.index.json"
EMBEDDING = "bert.embeddings.word_embeddings.weight"


class Spoiled(NamedTuple):
    name: str
    spoil: Callable[[Path], object]
    says: str


def _only_pickle(name: str) -> Callable[[Path], object]:
    return lambda folder: (remove(WEIGHTS)(folder), write_pickle(folder, name))


def _index(file: str, *, keep: bool = False) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        names = load_file(folder / WEIGHTS)
        (folder.parent / "outside.safetensors").write_bytes((folder / WEIGHTS).read_bytes())
        if not keep:
            (folder / WEIGHTS).rename(folder / "model-1.safetensors")
        write_pickle(folder, "x.bin")
        index = {"metadata": {}, "weight_map": dict.fromkeys(names, file)}
        (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")

    return spoil


def _disagreeing_index(folder: Path) -> None:
    _index("model-1.safetensors")(folder)
    index = json.loads((folder / INDEX).read_text("utf-8"))
    index["weight_map"].pop(EMBEDDING)
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")


def _link_outside(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).rename(folder.parent / f"outside-{name}")
        (folder / name).symlink_to(folder.parent / f"outside-{name}")

    return spoil


def _replace_link(name: str, target: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return spoil


def _truncated(folder: Path) -> None:
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[:-100])


def _overlapping(folder: Path) -> None:
    header = {
        name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for name in ("one", "two")
    }
    text = json.dumps(header).encode()
    (folder / WEIGHTS).write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))


def _no_head(tensors: dict[str, Any]) -> None:
    for name in [name for name in tensors if name.startswith("cls.")]:
        del tensors[name]


def _classifier(tensors: dict[str, Any]) -> None:
    _no_head(tensors)
    tensors["classifier.weight"] = np.zeros((2, 16), np.float32)


def _both_names(tensors: dict[str, Any]) -> None:
    tensors["bert.embeddings.LayerNorm.gamma"] = tensors["bert.embeddings.LayerNorm.weight"]


def _japanese(**changes: object) -> Callable[[Path], object]:
    return tokenizer_config(tokenizer_class="BertJapaneseTokenizer", **changes)


def _fast(**changes: object) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        words = (folder / "vocab.txt").read_text("utf-8").split()
        state = {
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

BEFORE_LOADING = (
    Spoiled("pickle_only", _only_pickle("pytorch_model.bin"), "can run code"),
    Spoiled("pt_only", _only_pickle("model.pt"), "can run code"),
    Spoiled("no_weights", remove(WEIGHTS), "There are no weights"),
    Spoiled("pickle_named_safetensors", lambda f: write_pickle(f, WEIGHTS), "not a whole safe"),
    Spoiled("index_names_pickle", _index("x.bin"), "1 are missing"),
    Spoiled("index_leads_out", _index("../outside.safetensors"), "1 are missing"),
    Spoiled("index_is_absolute", _index("/outside.safetensors"), "1 are missing"),
    Spoiled("index_names_nothing", _index("model-2.safetensors"), "1 are missing"),
    Spoiled(
        "index_lists_nothing",
        lambda f: (remove(WEIGHTS)(f), write(INDEX, "{}")(f)),
        "names 0 files",
    ),
    Spoiled("index_disagrees", _disagreeing_index, "do not hold the same tensors"),
    Spoiled("index_and_single_file", _index(WEIGHTS, keep=True), "two sets of weights"),
    Spoiled("adapter", write("adapter_config.json", "{}"), "adapter"),
    Spoiled("python_file", write("modeling_x.py", "raise SystemExit"), "program code"),
    Spoiled("shared_library", write("kernel.so", b"\x7fELF"), "program code"),
    Spoiled("auto_map", config(auto_map={"AutoModel": "x.Y"}), '"auto_map"'),
    Spoiled("tokenizer_auto_map", tokenizer_config(auto_map=["x.Y", None]), '"auto_map"'),
    Spoiled("attention_kernel", config(_attn_implementation="attacker/k"), "_attn_implementation"),
    Spoiled("attention_paged", config(attn_implementation="flash_attention_2"), "attn_impl"),
    Spoiled("attention_table", config(attn_implementation={"": "a/b"}), "attn_impl"),
    Spoiled("nested_attention", config(text_config={"_attn_implementation": "a/b"}), "_attn_impl"),
    Spoiled("kernel_key", config(use_kernels=True), "use_kernels"),
    Spoiled("quantised", config(quantization_config={"bits": 4}), "quantization_config"),
    Spoiled("trust", tokenizer_config(trust_remote_code=True), "trust_remote_code"),
    Spoiled("vocabulary_is_passwd", _replace_link("vocab.txt", "/etc/passwd"), "leads out"),
    Spoiled("weights_link_out", _link_outside(WEIGHTS), "leads out"),
    Spoiled("config_links_out", _link_outside("config.json"), "leads out"),
    Spoiled("dangling_link", _replace_link("README.md", "gone.md"), "leads nowhere"),
    Spoiled("link_circle", _replace_link("README.md", "README.md"), "leads nowhere"),
    Spoiled("fifo", lambda f: os.mkfifo(f / "pipe"), "neither a file nor a directory"),
    Spoiled("five_million_layers", config(num_hidden_layers=5_000_000), "out of bounds"),
    Spoiled("promised_layers", config(num_hidden_layers=200), "tensors are missing"),
    Spoiled("promised_vocabulary", config(vocab_size=1_000_000), "config.json promises"),
    Spoiled("negative_size", config(hidden_size=-16), "out of bounds"),
    Spoiled("size_as_text", config(hidden_size="16"), "out of bounds"),
    Spoiled("size_as_truth", config(num_hidden_layers=True), "out of bounds"),
    Spoiled("rate_of_one", config(hidden_dropout_prob=1.0), "out of bounds"),
    Spoiled("heads_do_not_fit", config(num_attention_heads=3), "cannot be shared"),
    Spoiled("pad_outside", config(pad_token_id=99), "padding token lies outside"),
    Spoiled("unknown_activation", config(hidden_act="os.system"), "out of bounds"),
    Spoiled("no_config", remove("config.json"), "config.json is missing"),
    Spoiled("config_is_list", write("config.json", "[]"), "not a valid JSON object"),
    Spoiled("config_is_deep", write("config.json", _DEEP), "not a valid JSON object"),
    Spoiled("config_twice", write("config.json", '{"a": 1, "a": 2}'), "not a valid JSON object"),
    Spoiled("config_nan", write("config.json", '{"layer_norm_eps": NaN}'), "not a valid JSON"),
    Spoiled("config_binary", write("config.json", b"\xff\xfe\x00"), "not a valid JSON object"),
    Spoiled("config_huge", write("config.json", b" " * 1_000_001), "larger than 1 MB"),
    Spoiled("other_kind", config(model_type="gpt2"), 'kind "gpt2" cannot be audited'),
    Spoiled("no_kind", config(model_type=None, architectures=None), "cannot be audited"),
    Spoiled("decoder", config(is_decoder=True), "is_decoder"),
    Spoiled("relative_positions", config(position_embedding_type="relative_key"), "position_emb"),
    Spoiled("pruned", config(pruned_heads={"0": [1]}), "pruned_heads"),
    Spoiled("missing_tensor", weights(lambda t: t.pop(EMBEDDING)), "tensors are missing"),
    Spoiled(
        "wrong_shape",
        weights(lambda t: t.update({EMBEDDING: np.zeros((37, 8), np.float32)})),
        "has the shape [37, 8]",
    ),
    Spoiled(
        "integers", weights(lambda t: t.update({EMBEDDING: np.zeros((37, 16), np.int8)})), "kind I8"
    ),
    Spoiled(
        "unknown_tensor", weights(lambda t: t.update(lora_A=np.zeros(3, np.float32))), '"lora_A"'
    ),
    Spoiled("no_head", weights(_no_head), "no masked-language-model head"),
    Spoiled("classifier", weights(_classifier), "no masked-language-model head"),
    Spoiled("old_and_new_name", weights(_both_names), "its old and its new name"),
    Spoiled("truncated", _truncated, "not a whole safe"),
    Spoiled("overlapping", _overlapping, "not a whole safe"),
    Spoiled(
        "endless_header", write(WEIGHTS, (2**60).to_bytes(8, "little") + b"{}"), "not a whole safe"
    ),
    Spoiled("empty_weights", write(WEIGHTS, b""), "not a whole safe"),
    Spoiled("no_tokenizer", remove("vocab.txt"), "tokenizer's files are missing"),
    Spoiled("empty_vocabulary", write("vocab.txt", b""), "vocabulary is empty"),
    Spoiled("binary_vocabulary", write("vocab.txt", b"\xff\xfe\n"), "not UTF-8"),
    Spoiled("foreign_tokenizer", tokenizer_config(tokenizer_class="LlamaTokenizer"), "LlamaTok"),
    Spoiled("broken_fast_tokenizer", write("tokenizer.json", "{"), "not a valid JSON object"),
    Spoiled("fast_without_model", write("tokenizer.json", "{}"), "holds no model"),
    Spoiled(
        "pattern",
        _fast(normalizer={"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}),
        "a pattern or an unknown component",
    ),
    Spoiled("unknown_part", _fast(pre_tokenizer={"type": "Evil"}), "unknown component"),
    Spoiled("wrong_model", _fast(model={"type": "BPE", "vocab": {}, "merges": []}), "not the one"),
    Spoiled(
        "random_splits",
        _fast(model={"type": "WordPiece", "vocab": {"a": 0}, "dropout": 0.1}),
        "at random",
    ),
    Spoiled(
        "twice_numbered",
        _fast(model={"type": "WordPiece", "vocab": {"a": 0, "b": 0}}),
        "own number",
    ),
    Spoiled("sudachi", _japanese(word_tokenizer_type="sudachi"), "word_tokenizer_type"),
    Spoiled("sentencepiece", _japanese(subword_tokenizer_type="sentencepiece"), "subword_token"),
    Spoiled("mecab_option", _japanese(mecab_kwargs={"mecab_option": "-r /x"}), "mecab_kwargs"),
    Spoiled("number_no_float_holds", config(layer_norm_eps=10**400), "not a valid JSON object"),
    Spoiled("number_endless", config(layer_norm_eps=1e308 * 10), "not a valid JSON object"),
    Spoiled(
        "key_of_5000_digits",
        tokenizer_config(added_tokens_decoder={"1" * 5000: {"content": "a"}}),
        "added_tokens_decoder is not a table",
    ),
    Spoiled(
        "key_of_other_digits",
        tokenizer_config(added_tokens_decoder={"²": {"content": "a"}}),
        "added_tokens_decoder is not a table",
    ),
    Spoiled("class_is_a_list", tokenizer_config(tokenizer_class=["a"] * 500), "not supported"),
    Spoiled(
        "settings_are_deep",
        tokenizer_config(extra_special_tokens=[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]),
        "nested too",
    ),
    Spoiled("added_not_table", tokenizer_config(added_tokens_decoder=[1]), "added_tokens_decoder"),
)
"""Refused without a look at the weights."""


def _vocabulary(change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        words = (folder / "vocab.txt").read_text("utf-8").split("\n")[:-1]
        (folder / "vocab.txt").write_text("\n".join(change(words)) + "\n", encoding="utf-8")

    return spoil


def _poison(value: float) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        tensors["bert.encoder.layer.1.output.dense.weight"][3, 4] = value

    return change


def _second_head(tensors: dict[str, Any]) -> None:
    tensors["cls.predictions.decoder.weight"] = tensors[EMBEDDING] + 1


WHILE_LOADING = (
    Spoiled("nan", weights(_poison(float("nan"))), "are not finite"),
    Spoiled("infinite", weights(_poison(float("inf"))), "are not finite"),
    Spoiled("two_heads", weights(_second_head), "should be one and the same"),
    Spoiled("tokenizer_too_long", _vocabulary(lambda w: [*w, "more"]), "only 37 embeddings"),
    Spoiled("added_too_far", write("added_tokens.json", '{"more": 37}'), "only 37 embeddings"),
    Spoiled("no_mask_token", _vocabulary(lambda w: [x for x in w if x != "[MASK]"]), "no mask"),
    Spoiled("no_pad_token", _vocabulary(lambda w: [x for x in w if x != "[PAD]"]), "no pad token"),
    Spoiled(
        "invented_entry",
        lambda f: (
            _vocabulary(lambda w: w[:-1])(f),
            edit_json(f, "tokenizer_config.json", bos_token="[BOS]"),
        ),
        "entries that its files do not hold",
    ),
    Spoiled("settings_of_wrong_kind", tokenizer_config(mask_token=[1]), "cannot be built"),
)
"""Refused when weights and tokenizer are read."""
