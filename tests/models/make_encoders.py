"""Small encoders of every architecture that has no fast pass, with a WordPiece tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.models.make_models import SPECIAL, WORDS, save_random_model, write_wordpiece

_RELATIVE: dict[str, Any] = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
_SHAPE: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "modernbert": ("ModernBert", {"local_attention": 8, "global_attn_every_n_layers": 2}),
    "modernbert_with_biases": (
        "ModernBert",
        {
            "norm_bias": True,
            "attention_bias": True,
            "mlp_bias": True,
            "classifier_bias": True,
            "tie_word_embeddings": False,
        },
    ),
    "deberta": ("Deberta", {**_RELATIVE, "position_biased_input": False}),
    "deberta_v2": (
        "DebertaV2",
        {**_RELATIVE, "conv_kernel_size": 3, "max_relative_positions": 12, "type_vocab_size": 2},
    ),
    "deberta_v3": (
        "DebertaV2",
        {
            **_RELATIVE,
            "position_buckets": 8,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "position_biased_input": False,
        },
    ),
    "electra": ("Electra", {"embedding_size": 8}),
    "longformer": ("Longformer", {"attention_window": [8, 8, 8]}),
    "big_bird": ("BigBird", {}),
    "megatron": ("MegatronBert", {}),
    "albert": ("Albert", {"embedding_size": 8, "num_hidden_layers": 4, "num_hidden_groups": 2}),
    "camembert": ("Camembert", {}),
    "xlm_roberta": ("XLMRoberta", {}),
}
"""Name of a small encoder -> its class in transformers, without "ForMaskedLM", and settings."""
_DROPOUT = {"ModernBert": ("embedding_dropout", "attention_dropout", "mlp_dropout")}


def make_encoder(
    folder: Path,
    kind: str,
    *,
    seed: int = 0,
    words: Sequence[str] = WORDS,
    dropout: float = 0.1,
    **config: Any,
) -> Path:
    """Write an encoder of `ENCODERS`; return the folder."""
    class_name, settings = ENCODERS[kind]
    rates = _DROPOUT.get(class_name, ("hidden_dropout_prob", "attention_probs_dropout_prob"))
    save_random_model(
        class_name,
        folder,
        seed=seed,
        **{
            **_SHAPE,
            "vocab_size": len(SPECIAL) + len(words),
            **dict.fromkeys(rates, dropout),
            **settings,
            **config,
        },
    )
    return write_wordpiece(folder, words, "BertTokenizer", do_lower_case=True)
