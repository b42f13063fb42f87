"""Describe the supported architectures: their settings with bounds, and their tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from audit.errors import AuditError
from audit.models.model_folder import make_printable, name_place

MAX_VOCABULARY = 1_000_000
MAX_CONFIG_BYTES = 1_000_000
_ATTENTION_KEYS = ("attn_implementation", "experts_implementation")
_PLAIN_ATTENTION = (None, "eager", "sdpa")
_SAME_CONFIG = "Check that this is the config.json that was saved with the model."
_CODE_KEYS = {"auto_map", "trust_remote_code", "custom_pipelines", "quantization_config"}

Activation = Literal[
    "gelu", "gelu_new", "gelu_python", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu", "swish"
]
Id = Annotated[int, Field(ge=0, le=MAX_VOCABULARY)]
VocabularySize = Annotated[int, Field(ge=1, le=MAX_VOCABULARY)]
Layers = Annotated[int, Field(ge=1, le=200)]
Width = Annotated[int, Field(ge=1, le=16_384)]
InnerWidth = Annotated[int, Field(ge=1, le=8 * 16_384)]
Heads = Annotated[int, Field(ge=1, le=512)]
DropoutRate = Annotated[float, Field(ge=0, lt=1)]


class ModelConfig(BaseModel):
    """The settings that determine a masked language model, each within its bounds.

    A field's alias is its name in `config.json`; its default is that of transformers for a missing
    setting. `n_position_rows` is the size of the position table, `is_tied` says whether the head's
    matrix is the word embedding.
    """

    model_config = ConfigDict(
        strict=True, frozen=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True
    )

    architecture: ClassVar[str]
    n_layers: Layers
    hidden_size: Width = 768
    n_heads: Heads
    intermediate_size: InnerWidth = 3072
    hidden_dropout: DropoutRate
    attention_dropout: DropoutRate
    vocab_size: VocabularySize = 30522
    n_position_rows: int = Field(default=512, ge=2, le=131_072, alias="max_position_embeddings")
    pad_token_id: Id | None = 0
    is_tied: bool = Field(default=True, alias="tie_word_embeddings")
    settings: dict[str, Any]
    """All settings with their values in the file, under the names that transformers uses."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        is_inside = self.pad_token_id is None or self.pad_token_id < self.vocab_size
        if self.hidden_size % self.n_heads or not is_inside or self.n_positions < 2:
            raise AuditError(
                "Its settings contradict one another: width and heads, padding token and "
                "vocabulary, or the number of positions.",
                do=_SAME_CONFIG,
            )
        return self

    @property
    def n_positions(self) -> int:
        """Longest input in tokens, special tokens included."""
        return self.n_position_rows


class _Bert(ModelConfig):
    architecture = "bert"
    n_layers: Layers = Field(default=12, alias="num_hidden_layers")
    n_heads: Heads = Field(default=12, alias="num_attention_heads")
    hidden_dropout: DropoutRate = Field(default=0.1, alias="hidden_dropout_prob")
    attention_dropout: DropoutRate = Field(default=0.1, alias="attention_probs_dropout_prob")
    hidden_act: Activation = "gelu"
    type_vocab_size: int = Field(default=2, ge=1, le=64)
    # With 0 a row of equal numbers would become NaN.
    layer_norm_eps: float = Field(default=1e-12, ge=1e-20, le=0.1)


class _Roberta(_Bert):
    architecture = "roberta"
    vocab_size: VocabularySize = 50265
    pad_token_id: Id = 1

    @property
    def n_positions(self) -> int:
        """Longest input in tokens; positions are numbered from the padding token's id on."""
        return self.n_position_rows - self.pad_token_id - 1


class _DistilBert(ModelConfig):
    architecture = "distilbert"
    n_layers: Layers = 6
    hidden_size: Width = Field(default=768, alias="dim")
    n_heads: Heads = 12
    intermediate_size: InnerWidth = Field(default=3072, alias="hidden_dim")
    hidden_dropout: DropoutRate = Field(default=0.1, alias="dropout")
    attention_dropout: DropoutRate = 0.1
    activation: Activation = "gelu"
    sinusoidal_pos_embds: bool = False


_CONFIGS: dict[str, type[ModelConfig]] = {
    kind.architecture: kind for kind in (_Bert, _Roberta, _DistilBert)
}


def list_kinds() -> tuple[str, ...]:
    """Return the kinds of models that can be audited, as config.json names them."""
    return tuple(_CONFIGS)


# Settings that change the arithmetic and have only one accepted value; others are refused.
_ONLY: dict[str, object] = {
    "is_decoder": False,
    "position_embedding_type": "absolute",
}


def walk_entries(value: object) -> Iterator[tuple[str, Any]]:
    """Yield every key and value of the objects in a value of JSON, however deep."""
    waiting = [value]
    while waiting:
        element = waiting.pop()
        if isinstance(element, dict):
            yield from element.items()
            element = list(element.values())
        waiting += element if isinstance(element, list) else ()


def refuse_code_keys(value: object, *, place: str) -> None:
    """Refuse settings by which a file could load code.

    These are `auto_map`, `trust_remote_code`, quantisation, any "kernel" key, and an attention or
    experts implementation that transformers does not ship.
    """
    for key, item in walk_entries(value):
        name = key.lower()
        is_attention = any(part in name for part in _ATTENTION_KEYS)
        is_foreign = is_attention and item not in _PLAIN_ATTENTION
        if name in _CODE_KEYS or "kernel" in name or is_foreign:
            raise AuditError(
                "The setting {key} can load code or change the arithmetic; such a model is not "
                "loaded.",
                where=place,
                do="Remove the setting if the model is a plain BERT, RoBERTa or DistilBERT.",
                key=f'"{make_printable(key)}"',
            )


def parse_config(raw: Mapping[str, object], *, place: str) -> ModelConfig:
    """Check a parsed `config.json` against the allow-list and its bounds."""
    refuse_code_keys(raw, place=place)
    kind = _CONFIGS.get(str(raw.get("model_type")))
    with name_place(place):
        if kind is None:
            raise AuditError(
                "Models of the kind {kind} cannot be audited.",
                do="The kinds that can: BERT, RoBERTa and DistilBERT.",
                kind=f'"{make_printable(str(raw.get("model_type")))}"',
            )
        wrong = [key for key, only in _ONLY.items() if raw.get(key) not in (only, None)]
        raw_settings = {
            key: raw.get(key, field.default)
            for name, field in kind.model_fields.items()
            if (key := field.alias or name) != "settings"
        }
        try:
            config = kind.model_validate(raw_settings | {"settings": raw_settings})
        except ValidationError as error:
            wrong += [str(error.errors(include_input=False)[0]["loc"][0])]
        if wrong:
            raise AuditError(
                "The setting {key} = {raw} is not supported or out of bounds.",
                do=_SAME_CONFIG,
                key=wrong[0],
                raw=f'"{make_printable(str(raw[wrong[0]]))}"',
            )
    return config


Shape = tuple[int, ...]


class _Layout(NamedTuple):
    """Parts of a model, each with a weight and a bias, and their sizes.

    v: vocabulary, d: width, i: inner width. The head's matrix is the last part of `head`.
    """

    layers: str
    layer: Mapping[str, str]
    head: Mapping[str, str]
    bias: str


_BERT_LAYER = {
    "attention.self.query": "dd",
    "attention.self.key": "dd",
    "attention.self.value": "dd",
    "attention.output.dense": "dd",
    "attention.output.LayerNorm": "d",
    "output.LayerNorm": "d",
    "intermediate.dense": "id",
    "output.dense": "di",
}
_LAYOUTS = {
    "bert": _Layout(
        "encoder.layer",
        _BERT_LAYER,
        {
            "cls.predictions.transform.dense": "dd",
            "cls.predictions.transform.LayerNorm": "d",
            "cls.predictions.decoder": "vd",
        },
        "cls.predictions.bias",
    ),
    "roberta": _Layout(
        "encoder.layer",
        _BERT_LAYER,
        {"lm_head.dense": "dd", "lm_head.layer_norm": "d", "lm_head.decoder": "vd"},
        "lm_head.bias",
    ),
    "distilbert": _Layout(
        "transformer.layer",
        {
            "attention.q_lin": "dd",
            "attention.k_lin": "dd",
            "attention.v_lin": "dd",
            "attention.out_lin": "dd",
            "sa_layer_norm": "d",
            "output_layer_norm": "d",
            "ffn.lin1": "id",
            "ffn.lin2": "di",
        },
        {"vocab_transform": "dd", "vocab_layer_norm": "d", "vocab_projector": "vd"},
        "vocab_projector.bias",
    ),
}
# Tensors of pre-training checkpoints besides the masked-LM head, and buffers of old versions.
_KNOWN_EXTRA = re.compile(
    r"(distil|ro)?bert(a)?\.(pooler\.dense\.(weight|bias)"
    r"|embeddings\.(position_ids|token_type_ids))|cls\.seq_relationship\.(weight|bias)"
)


def update_tensor_name(name: str) -> str:
    """Return the current name of a tensor: gamma and beta became weight and bias."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    return name.replace("LayerNorm.beta", "LayerNorm.bias")


def find_shared_tensors(config: ModelConfig) -> dict[str, str]:
    """Return a map from names of tensors to second names of the same tensors in this model."""
    layout = _LAYOUTS[config.architecture]
    *_, decoder = layout.head
    same = {f"{decoder}.bias": layout.bias} if layout.bias != f"{decoder}.bias" else {}
    if config.is_tied:
        same[f"{decoder}.weight"] = f"{config.architecture}.embeddings.word_embeddings.weight"
    return same


def compute_expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Return name and shape of every parameter of the masked language model."""
    root, layout = config.architecture, _LAYOUTS[config.architecture]
    sizes = {"v": config.vocab_size, "d": config.hidden_size, "i": config.intermediate_size}
    tables = {"word": sizes["v"], "position": config.n_position_rows}
    if isinstance(config, _Bert):
        tables["token_type"] = config.type_vocab_size
    shapes: dict[str, Shape] = {
        f"{root}.embeddings.{name}_embeddings.weight": (n, sizes["d"]) for name, n in tables.items()
    }
    shapes[layout.bias] = (sizes["v"],)
    parts = {f"{root}.embeddings.LayerNorm": "d", **layout.head}
    for i in range(config.n_layers):
        parts |= {f"{root}.{layout.layers}.{i}.{part}": d for part, d in layout.layer.items()}
    for name, letters in parts.items():
        shape = tuple(sizes[letter] for letter in letters)
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return shapes
