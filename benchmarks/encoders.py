"""Measure the forward pass of every supported kind of encoder beside the packed pass of a BERT.

python -m benchmarks.encoders [--layers 6] [--rows 4]

Prints processor time on one thread as a multiple of the BERT's, all in one process and in turns,
each the least of three tries. `ModelConfig.slowdown` holds the rounded factors.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import torch

from audit.models.architectures import parse_config
from audit.models.forward import Forward
from audit.models.load import make_random_module

_RELATIVE: dict[str, Any] = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
}
ENCODERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "BERT, packed": ("bert", {}),
    "BERT, plain": ("bert", {}),
    "ModernBERT": ("modernbert", {"intermediate_size": 2048, "pad_token_id": 0}),
    "DeBERTa": ("deberta", _RELATIVE),
    "DeBERTa-v3": (
        "deberta-v2",
        {
            **_RELATIVE,
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
        },
    ),
    "ELECTRA": ("electra", {"embedding_size": 768}),
    "Longformer": ("longformer", {}),
    "BigBird": ("big_bird", {}),
    "Megatron-BERT": ("megatron-bert", {}),
    "ALBERT": ("albert", {}),
}
"""Names -> `model_type`, and settings beside the shared shape (width 768, 12 heads)."""


def build_forward(name: str, *, n_layers: int) -> Forward:
    """Return the pass of an encoder with random weights."""
    kind, settings = ENCODERS[name]
    raw = {
        "model_type": kind,
        "vocab_size": 30_000,
        "hidden_size": 768,
        "num_attention_heads": 12,
        "num_hidden_layers": n_layers,
        "intermediate_size": 3072,
        "max_position_embeddings": 514,
        **settings,
    }
    model = make_random_module(parse_config(raw, place=name))
    return Forward(model, is_plain="packed" not in name)


def measure_seconds(forward: Forward, *, n_rows: int, n_tokens: int, dropout: int | None) -> float:
    """Return the processor time of one pass, in seconds."""
    ids = torch.randint(5, 29_000, (n_rows, n_tokens))
    positions = torch.arange(3, n_tokens, n_tokens // 4)[:4].expand(n_rows, -1)
    start = time.process_time()
    forward.logits(ids, positions=positions, dropout=dropout)
    return time.process_time() - start


def main() -> None:
    """Measure every encoder and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rows", type=int, default=4)
    options = parser.parse_args()
    torch.set_num_threads(1)
    forwards = {name: build_forward(name, n_layers=options.layers) for name in ENCODERS}
    settings = [(n_tokens, dropout) for n_tokens in (128, 256) for dropout in (None, 1)]
    seconds: dict[tuple[str, int, int | None], list[float]] = {}
    for n_tokens, dropout in settings:
        for _ in range(3):
            for name, forward in forwards.items():
                tries = seconds.setdefault((name, n_tokens, dropout), [])
                tries.append(
                    measure_seconds(
                        forward, n_rows=options.rows, n_tokens=n_tokens, dropout=dropout
                    )
                )
    print("| | 128 tokens | with dropout | 256 tokens | with dropout |\n|---|---|---|---|---|")
    first = next(iter(ENCODERS))
    for name in ENCODERS:
        factors = (min(seconds[name, *s]) / min(seconds[first, *s]) for s in settings)
        print(f"| {name} | " + " | ".join(f"{factor:.2f}" for factor in factors) + " |")


if __name__ == "__main__":
    main()
