"""Hostile causal models by the hundred: settings, tokenizers, indices of shards, adapters.

A draw spoils a good folder, which holds a base and an adapter beside it.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

from audit.errors import AuditError
from audit.models.adapters import SETTINGS_FILE, WEIGHTS_FILE
from audit.models.inspect import compute_hospital_digest, compute_model_digest
from audit.models.load import LoadedModel, load_model, load_pair
from audit.models.model_folder import INDEX_FILE, SINGLE_FILE
from benchmarks.hostile_tokenizers import TEXTS
from tests.models.editing import edit_json, write_pickle

BASE, ADAPTER = "base", "adapter"
# transformers imports a class on its first use: here once, and not in every process that forks.
MODULES = [
    getattr(transformers, name)
    for name in (
        "GPT2LMHeadModel",
        "GPTNeoXForCausalLM",
        "Gemma2ForCausalLM",
        "Gemma3ForCausalLM",
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "Phi3ForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
    )
]
Spoil = Callable[[Path, random.Random], None]
"""Spoils a folder that holds `BASE` and `ADAPTER`."""
_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    3,
    7,
    65,
    2**31,
    10**30,
    0.0,
    -0.5,
    1e-300,
    1e308,
    "",
    "sdpa",
    "silu",
    "os.system",
    "../../etc/passwd",
    "attacker/kernel",
    "x" * 5_000,
    [],
    [0],
    ["full_attention"],
    ["sliding_attention", "full_attention"],
    ["x"] * 5_000,
    {},
    {"a": {"a": {"a": 1}}},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 1e308},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0},
    {"rope_type": "default", "rope_theta": 1.0},
    {"type": "linear", "factor": 1.0},
    {"full_attention": {"rope_type": "linear"}},
    {"AutoModelForCausalLM": "evil.Model"},
)
_MORE_SETTINGS = (
    "_attn_implementation",
    "attn_implementation",
    "auto_map",
    "experts_implementation",
    "full_attention",
    "head_dim",
    "is_decoder",
    "layer_types",
    "max_window_layers",
    "num_key_value_heads",
    "partial_rotary_factor",
    "quantization_config",
    "query_pre_attn_scalar",
    "rope_local_base_freq",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rotary_emb_base",
    "rotary_pct",
    "sliding_window",
    "sliding_window_pattern",
    "tie_word_embeddings",
    "trust_remote_code",
    "use_sliding_window",
)
_ROTARY = (
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "factor",
    "high_freq_factor",
    "low_freq_factor",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_theta",
    "short_factor",
    "truncate",
)


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _draw_settings(folder: Path, rng: random.Random) -> None:
    """Settings of config.json with values of every kind."""
    raw = _read_json(folder / BASE / "config.json")
    keys = (*sorted(raw), *_MORE_SETTINGS)
    changes = {rng.choice(keys): rng.choice(_VALUES) for _ in range(rng.randint(1, 3))}
    edit_json(folder / BASE, "config.json", **changes)


def _draw_positions(folder: Path, rng: random.Random) -> None:
    """Rotary positions of every kind with numbers at and beyond their bounds."""
    kind = rng.choice(("default", "linear", "llama3", "yarn", "longrope", "dynamic", "axial", None))
    numbers = (0.0, 1.0, 1.5, 8.0, 1e-9, 1e9, 1e12, 1e300, -1.0, 2, 4_194_304, 10**18, None, True)
    names = rng.sample(_ROTARY, rng.randint(0, 6))
    rotary: dict[str, Any] = {name: rng.choice(numbers) for name in names}
    rotary[rng.choice(("rope_type", "type"))] = kind
    if kind == "llama3" and rng.random() < 0.5:
        rotary |= {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        rotary |= {"original_max_position_embeddings": rng.choice((2, 16, 4_194_304))}
    if kind == "yarn" and rng.random() < 0.5:
        rotary = {"rope_type": "yarn", "factor": rng.choice((1, 1.0, 4.0, 10_000.0))}
        rotary |= {name: rng.choice((0.001, 1.0, 9_999.0)) for name in names if "beta" in name}
    key = rng.choice(("rope_scaling", "rope_parameters"))
    more_settings = {"rope_parameters": None} if key == "rope_scaling" else {}
    nested = {"full_attention": rotary, "sliding_attention": rotary}
    value = nested if rng.random() < 0.2 else rotary
    theta = {"rope_theta": rng.choice((1.0, 1.0000001, 1e12, 1e300, 0, "x"))}
    edit_json(
        folder / BASE,
        "config.json",
        **more_settings,
        **(theta if rng.random() < 0.3 else {}),
        **{key: value},
    )


def _draw_tokenizer(folder: Path, rng: random.Random) -> None:
    """A good tokenizer.json with evil patterns, merges, tokens, or parts of other kinds."""
    path = folder / BASE / "tokenizer.json"
    if path.exists():
        state = _read_json(path)
        rng.choice(_TOKENIZER_SPOILS)(state, rng)
        path.write_text(json.dumps(state), "utf-8")
    else:
        lines = ("#version: 0.2", *(f"{'a' * 2**k} {'a' * 2**k}" for k in range(12)))
        (folder / BASE / "merges.txt").write_text("\n".join(lines) + "\n")


def _spoil_pattern(state: dict[str, Any], rng: random.Random) -> None:
    pattern = rng.choice(("(a+)+$", r"(\p{L}+)*x", "", r"\p{N}{1,99999}", r"(?i:'s|'t)", "["))
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    splits = [{**split, "invert": rng.random() < 0.5}] * rng.choice((1, 3, 30))
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": splits}


def _spoil_merges(state: dict[str, Any], rng: random.Random) -> None:
    doubled = ["a" * 2**k for k in range(rng.randint(2, 12))]
    vocabulary = state["model"]["vocab"]
    if isinstance(vocabulary, dict):
        vocabulary |= {piece: len(vocabulary) + i for i, piece in enumerate(doubled)}
        merges = [[piece, piece] for piece in doubled[:-1]]
        state["model"]["merges"] = merges * rng.choice((1, 2_000))


def _spoil_model(state: dict[str, Any], rng: random.Random) -> None:
    key = rng.choice(("dropout", "unk_token", "byte_fallback", "ignore_merges", "unk_id"))
    state["model"][key] = rng.choice(_VALUES)


def _spoil_added(state: dict[str, Any], rng: random.Random) -> None:
    n, length = rng.choice(((9_000, 900), (20_000, 3), (3, 10**6), (200, 9)))
    state["added_tokens"] += [
        {"id": 400 + i, "content": f"{i:05}" * max(1, length // 5), "special": True}
        for i in range(n)
    ]


def _spoil_part(state: dict[str, Any], rng: random.Random) -> None:
    part = rng.choice(("normalizer", "pre_tokenizer", "post_processor", "decoder"))
    state[part] = rng.choice((*_VALUES, {"type": "Lua"}, {"type": "ByteLevel"}))


def _spoil_numbers(state: dict[str, Any], rng: random.Random) -> None:
    vocabulary = state["model"]["vocab"]
    for token in rng.sample(sorted(vocabulary), 3) if isinstance(vocabulary, dict) else ():
        vocabulary[token] = rng.choice((-1, 0, 2**40, 1.5, "1", None))


def _spoil_normalizer(state: dict[str, Any], rng: random.Random) -> None:
    content = rng.choice(("a" * 50_000, "", "▁▁"))
    replace = {"type": "Replace", "pattern": {"String": "a"}, "content": content}
    state["normalizer"] = {"type": "Sequence", "normalizers": [replace] * rng.randint(1, 40)}


_TOKENIZER_SPOILS = (
    _spoil_pattern,
    _spoil_merges,
    _spoil_model,
    _spoil_added,
    _spoil_part,
    _spoil_numbers,
    _spoil_normalizer,
)


def _split_weights(folder: Path) -> dict[str, str]:
    tensors = load_file(folder / SINGLE_FILE)
    (folder / SINGLE_FILE).unlink()
    files: dict[str, str] = {}
    for i in range(2):
        file, part = f"model-{i + 1:05}-of-00002.safetensors", sorted(tensors)[i::2]
        save_file({name: tensors[name].clone() for name in part}, folder / file)
        files |= dict.fromkeys(part, file)
    return files


def _draw_index(folder: Path, rng: random.Random) -> None:
    """Indices of shards that lie, lead out, or name a pickle."""
    base = folder / BASE
    files: dict[str, Any] = dict(_split_weights(base))
    first = "model-00001-of-00002.safetensors"
    write_pickle(base, "model-00003-of-00003.safetensors")
    names: tuple[Any, ...] = (
        *(f"model-{i:05}-of-{n:05}.safetensors" for i in (0, 1, 2, 3) for n in (1, 2, 3)),
        "../secret.safetensors",
        "/etc/passwd",
        "model-00001-of-00002.safetensors\n",
        "model-٠٠٠٠١-of-00002.safetensors",
        "pytorch_model.bin",
        "",
        1,
        None,
        [first],
        {},
    )
    content: Any = {"metadata": {}, "weight_map": files}
    match rng.randrange(6):
        case 0:
            files[rng.choice(sorted(files))] = rng.choice(names)
        case 1:
            files[rng.choice(("x", "", "lm_head.weight", "a" * 10_000))] = rng.choice(names)
        case 2:
            content = rng.choice(({}, [], {"weight_map": []}, {"weight_map": {}}, None, 1))
        case 3:
            (base / first).write_bytes((base / first).read_bytes()[: rng.choice((0, 7, 200))])
        case 4:
            tensors = load_file(base / first)
            name = rng.choice(sorted(tensors))
            tensors[name] = rng.choice((torch.zeros(0), torch.full_like(tensors[name], torch.nan)))
            save_file(tensors, base / first)
        case 5:
            content = {
                "metadata": "x" * 100_000,
                "weight_map": {**files, **{str(i): first for i in range(9)}},
            }
    (base / INDEX_FILE).write_text(json.dumps(content))


def _draw_adapter_settings(folder: Path, rng: random.Random) -> None:
    """Settings of an adapter with values of every kind."""
    raw = _read_json(folder / ADAPTER / SETTINGS_FILE)
    keys = (*sorted(raw), "use_mora", "layer_replication", "auto_map", "__class__")
    values = (*_VALUES, "all-linear", "(a+)+$", {"(a+)+$": 2}, {"q_proj": 4_096}, ["score"])
    changes = {rng.choice(keys): rng.choice(values) for _ in range(rng.randint(1, 3))}
    edit_json(folder / ADAPTER, SETTINGS_FILE, **changes)


def _draw_adapter_weights(folder: Path, rng: random.Random) -> None:
    """Tensors of an adapter that do not fit, and files that are none."""
    path = folder / ADAPTER / WEIGHTS_FILE
    tensors = load_file(path)
    name = rng.choice(sorted(tensors))
    match rng.randrange(7):
        case 0:
            tensors[name] = rng.choice(
                (torch.zeros(1), torch.zeros(2, 0), torch.zeros(2, 3, 4), torch.zeros(3, 3))
            )
        case 1:
            tensors[name] = torch.full_like(tensors[name], rng.choice((torch.nan, torch.inf, 1e38)))
        case 2:
            tensors[name] = tensors[name].to(rng.choice((torch.int8, torch.float64, torch.bool)))
        case 3:
            new_name = rng.choice(
                ("x", "base_model.model.model.embed_tokens.weight", "../x", name[:-9])
            )
            tensors[new_name] = tensors.pop(name)
        case 4:
            data = bytearray(path.read_bytes())
            for _ in range(rng.randint(1, 9)):
                data[rng.randrange(min(len(data), 3_000))] = rng.randrange(256)
            path.write_bytes(bytes(data))
            return
        case 5:
            path.unlink()
            write_pickle(folder / ADAPTER, rng.choice((WEIGHTS_FILE, "adapter_model.bin")))
            return
        case 6:
            file_name = rng.choice(("tokenizer.json", "vocab.json", "tokenizer.model"))
            (folder / ADAPTER / file_name).write_bytes(rng.choice((b"{}", b"", b"\x80\x04." * 9)))
    save_file(tensors, path)


DRAWS: tuple[Spoil, ...] = (
    _draw_settings,
    _draw_positions,
    _draw_tokenizer,
    _draw_index,
    _draw_adapter_settings,
    _draw_adapter_weights,
)


def write_hostile(folder: Path, *, n: int, rng: random.Random) -> None:
    """Spoil a good folder in the n-th way."""
    DRAWS[n % len(DRAWS)](folder, rng)


def use_models(folder: Path) -> list[Any]:
    """Load and use what a folder holds, as far as it is not refused.

    Returns which of the base and the pair were read, whether anything about them is wrong, and the
    seconds of a processor that it took. Meant for a process with limits.
    """
    torch.set_num_threads(1)  # the models are tiny
    start = time.process_time()
    base, adapter = folder / BASE, folder / ADAPTER
    n_read, is_wrong = 0, False
    try:
        loaded = load_model(base)
        n_read += 1
        is_wrong |= loaded.digest != compute_model_digest(base) or not _is_sound(loaded)
    except AuditError:
        pass
    try:
        pair = load_pair(base, adapter)
        n_read += 1
        is_wrong |= pair.hospital.digest != compute_hospital_digest(base, adapter)
        is_wrong |= not (_is_sound(pair.general) and _is_sound(pair.hospital))
    except AuditError:
        pass
    is_wrong |= os.path.lexists(folder / "canary")  # what an opened pickle would have left
    return [n_read, is_wrong, time.process_time() - start]


def _is_sound(loaded: LoadedModel) -> bool:
    """Return whether a model computes finite numbers for hostile texts."""
    tokenizer = loaded.tokenizer
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        tokenizer.decode(ids[:2_000], skip_special_tokens=False, clean_up_tokenization_spaces=False)
    rows = torch.arange(30).remainder(loaded.config.vocab_size).view(3, 10)
    with torch.inference_mode(), loaded.running():
        logits = loaded.model(rows, use_cache=False).logits
    return bool(torch.isfinite(logits).all())
