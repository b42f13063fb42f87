"""What `config.json` may say: an allow-list with bounds, read without transformers.

Keys that can steer code or arithmetic elsewhere are refused; keys that do not determine a masked
language model are left out of the value, so the digest does not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from audit.errors import AuditError

ARCHITECTURES = ("bert", "roberta", "distilbert")
"""Model types that this audit can load."""

MAX_LAYERS = 200
MAX_HIDDEN = 16_384
MAX_VOCABULARY = 1_000_000

Scalar = bool | int | float | str | None

_ACTIVATIONS = {
    "gelu", "gelu_new", "gelu_python", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu", "swish",
}  # fmt: skip
_ATTENTION_KEYS = ("attn_implementation", "experts_implementation")
_PLAIN_ATTENTION = (None, "eager", "sdpa")
_CODE_KEYS = {"auto_map", "trust_remote_code", "custom_pipelines", "quantization_config"}


@dataclass(frozen=True)
class ModelConfig:
    """The settings that determine a masked language model, each within its bounds.

    Attributes
    ----------
    architecture
        "bert", "roberta" or "distilbert".
    n_layers, hidden_size, n_heads, intermediate_size, vocab_size, n_position_rows
        Shape of the encoder; `n_position_rows` is the size of the position table.
    hidden_dropout, attention_dropout
        Dropout rates, 0-1.
    is_tied
        Whether the head's matrix is the word embedding.
    pad_token_id
        Row of the padding token; RoBERTa counts its positions from it.
    settings
        All of it under the names that transformers uses, for its configuration class.
    """

    architecture: str
    n_layers: int
    hidden_size: int
    n_heads: int
    intermediate_size: int
    vocab_size: int
    n_position_rows: int
    hidden_dropout: float
    attention_dropout: float
    is_tied: bool
    pad_token_id: int | None
    settings: Mapping[str, Scalar]

    @property
    def n_positions(self) -> int:
        """Longest input in tokens, special tokens included."""
        if self.architecture == "roberta":
            # RoBERTa numbers its positions from pad_token_id + 1 on.
            return self.n_position_rows - (self.pad_token_id or 0) - 1
        return self.n_position_rows


Check = Callable[[object], bool]


def _whole(low: int, high: int) -> Check:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high


def _number(low: float, high: float) -> Check:
    return lambda v: (
        isinstance(v, int | float)
        and not isinstance(v, bool)
        and math.isfinite(v)
        and low <= v <= high
    )


def _rate(value: object) -> bool:
    return _number(0, 1)(value) and value != 1


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _activation(value: object) -> bool:
    return isinstance(value, str) and value in _ACTIVATIONS


def _optional_id(value: object) -> bool:
    return value is None or _whole(0, MAX_VOCABULARY)(value)


_SHARED: dict[str, tuple[Scalar, Check]] = {
    "vocab_size": (30522, _whole(1, MAX_VOCABULARY)),
    "max_position_embeddings": (512, _whole(2, 131_072)),
    "pad_token_id": (0, _optional_id),
    "tie_word_embeddings": (True, _flag),
}
_BERT: dict[str, tuple[Scalar, Check]] = {
    **_SHARED,
    "hidden_size": (768, _whole(1, MAX_HIDDEN)),
    "num_hidden_layers": (12, _whole(1, MAX_LAYERS)),
    "num_attention_heads": (12, _whole(1, 512)),
    "intermediate_size": (3072, _whole(1, 8 * MAX_HIDDEN)),
    "hidden_act": ("gelu", _activation),
    "hidden_dropout_prob": (0.1, _rate),
    "attention_probs_dropout_prob": (0.1, _rate),
    "type_vocab_size": (2, _whole(1, 64)),
    "layer_norm_eps": (1e-12, _number(0, 0.1)),
}
_DISTILBERT: dict[str, tuple[Scalar, Check]] = {
    **_SHARED,
    "dim": (768, _whole(1, MAX_HIDDEN)),
    "n_layers": (6, _whole(1, MAX_LAYERS)),
    "n_heads": (12, _whole(1, 512)),
    "hidden_dim": (3072, _whole(1, 8 * MAX_HIDDEN)),
    "activation": ("gelu", _activation),
    "dropout": (0.1, _rate),
    "attention_dropout": (0.1, _rate),
    "sinusoidal_pos_embds": (False, _flag),
}
_ROBERTA = {
    **_BERT,
    "vocab_size": (50265, _whole(1, MAX_VOCABULARY)),
    "pad_token_id": (1, _whole(0, MAX_VOCABULARY)),
}
# key -> (what transformers assumes when it is absent, what is allowed)
_ALLOWED = {"bert": _BERT, "roberta": _ROBERTA, "distilbert": _DISTILBERT}

# Settings that change the arithmetic and have one value here: another one is refused, not ignored.
_ONLY: dict[str, tuple[object, ...]] = {
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False, None),
    "position_embedding_type": ("absolute", None),
    "pruned_heads": ({}, None),
    "torchscript": (False, None),
}


def refuse_code_keys(value: object, *, where: str, _depth: int = 0) -> None:
    """Refuse settings through which a file could have code loaded.

    Raises
    ------
    AuditError
        At `auto_map`, `trust_remote_code`, quantisation, any "kernel" key, or an attention or
        experts implementation that transformers does not ship.
    """
    if _depth > 16:
        raise AuditError("Its settings are nested too deeply.", where=where)
    if isinstance(value, list):
        for item in value:
            refuse_code_keys(item, where=where, _depth=_depth + 1)
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        name = str(key).lower()
        foreign = any(part in name for part in _ATTENTION_KEYS) and (
            item not in _PLAIN_ATTENTION if isinstance(item, str | None) else True
        )
        if name in _CODE_KEYS or "kernel" in name or foreign:
            raise AuditError(
                f"The setting {_shown(key)} can load code or change the arithmetic; such a model "
                "is not loaded.",
                where=where,
                do="Remove the setting if the model is a plain BERT, RoBERTa or DistilBERT.",
            )
        refuse_code_keys(item, where=where, _depth=_depth + 1)


def parse_config(raw: Mapping[str, object], *, where: str) -> ModelConfig:
    """Check a parsed `config.json` against the allow-list and its bounds.

    Raises
    ------
    AuditError
        If the model is of another kind, a value is out of bounds, or a setting is not supported.
    """
    refuse_code_keys(dict(raw), where=where)
    architecture = _architecture(raw, where=where)
    for key, allowed in _ONLY.items():
        if key in raw and raw[key] not in allowed:
            raise AuditError(
                f"The setting {key} = {_shown(raw[key])} is not supported.", where=where
            )
    settings: dict[str, Scalar] = {}
    for key, (default, is_allowed) in _ALLOWED[architecture].items():
        value = raw.get(key, default)
        if not is_allowed(value):
            raise AuditError(
                f"The setting {key} = {_shown(value)} is out of bounds.",
                where=where,
                do="Check that this is the config.json that was saved with the model.",
            )
        settings[key] = value  # type: ignore[assignment]  # the check above says so
    config = _as_config(architecture, settings)
    _check_together(config, where=where)
    return config


def _architecture(raw: Mapping[str, object], *, where: str) -> str:
    kind = raw.get("model_type")
    if kind is None:
        # Configurations from before 2020 have no model_type; the class name says the same.
        names = raw.get("architectures")
        first = names[0] if isinstance(names, list) and names else ""
        prefixes = {"BertFor": "bert", "RobertaFor": "roberta", "DistilBertFor": "distilbert"}
        kind = next((k for p, k in prefixes.items() if str(first).startswith(p)), None)
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise AuditError(
            f"Models of the kind {_shown(kind)} cannot be audited.",
            where=where,
            do="The kinds that can: BERT, RoBERTa and DistilBERT.",
        )
    return kind


def _as_config(architecture: str, settings: dict[str, Scalar]) -> ModelConfig:
    distil = architecture == "distilbert"

    def whole(bert_key: str, distil_key: str) -> int:
        return int(settings[distil_key if distil else bert_key])  # type: ignore[arg-type]

    def rate(bert_key: str, distil_key: str) -> float:
        return float(settings[distil_key if distil else bert_key])  # type: ignore[arg-type]

    pad = settings["pad_token_id"]
    return ModelConfig(
        architecture=architecture,
        n_layers=whole("num_hidden_layers", "n_layers"),
        hidden_size=whole("hidden_size", "dim"),
        n_heads=whole("num_attention_heads", "n_heads"),
        intermediate_size=whole("intermediate_size", "hidden_dim"),
        vocab_size=whole("vocab_size", "vocab_size"),
        n_position_rows=whole("max_position_embeddings", "max_position_embeddings"),
        hidden_dropout=rate("hidden_dropout_prob", "dropout"),
        attention_dropout=rate("attention_probs_dropout_prob", "attention_dropout"),
        is_tied=bool(settings["tie_word_embeddings"]),
        pad_token_id=None if pad is None else int(pad),
        settings=settings,
    )


def _check_together(config: ModelConfig, *, where: str) -> None:
    if config.hidden_size % config.n_heads:
        raise AuditError(
            f"The width {config.hidden_size} cannot be shared by {config.n_heads} heads.",
            where=where,
        )
    if config.pad_token_id is not None and config.pad_token_id >= config.vocab_size:
        raise AuditError("The padding token lies outside the vocabulary.", where=where)
    if config.n_positions < 2:
        raise AuditError("The model has no position for a token.", where=where)


def _shown(value: object) -> str:
    """Show a foreign value: at most 40 characters, no control characters."""
    text = "".join(ch if ch.isprintable() else "?" for ch in str(value)[:41])
    return f'"{text[:40]}…"' if len(text) > 40 else f'"{text}"'
