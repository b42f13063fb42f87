"""Describe the supported architectures: their settings, each within its bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import ClassVar, Literal, Self

from pydantic import Field, JsonValue, ValidationError, model_validator

from audit.errors import AuditError
from audit.foreign import name_place
from audit.models.causal_architectures import CAUSAL_KINDS
from audit.models.model_config import (
    FAST_TOKENIZER,
    SAME_CONFIG,
    Activation,
    AttentionReach,
    ChunkWindow,
    DropoutRate,
    Epsilon,
    Heads,
    Id,
    InnerWidth,
    Kind,
    Layers,
    ModelConfig,
    PositionRows,
    RelativePart,
    RopeParameters,
    RopeTheta,
    VocabularySize,
    Width,
    Window,
    make_contradiction,
)
from audit.models.model_folder import make_printable

MAX_CONFIG_BYTES = 1_000_000
_ATTENTION_KEYS = ("attn_implementation", "experts_implementation")
_PLAIN_ATTENTION = (None, False, True, "eager", "sdpa", "flash_attention_2", "flash_attention_3")
_CODE_KEYS = {"auto_map", "trust_remote_code", "custom_pipelines", "quantization_config"}


class _Bert(ModelConfig):
    architecture = "bert"
    attention = "sdpa"
    n_layers: Layers = Field(default=12, alias="num_hidden_layers")
    n_heads: Heads = Field(default=12, alias="num_attention_heads")
    hidden_dropout: DropoutRate = Field(default=0.1, alias="hidden_dropout_prob")
    attention_dropout: DropoutRate = Field(default=0.1, alias="attention_probs_dropout_prob")
    hidden_act: Activation = "gelu"
    type_vocab_size: int = Field(default=2, ge=1, le=64)
    layer_norm_eps: Epsilon = 1e-12

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that `layouts.py` names by letters."""
        return super().sizes | {"t": self.type_vocab_size}


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
    attention = "sdpa"
    second_names: ClassVar[Mapping[str, tuple[str, int]]] = {
        "num_hidden_layers": ("n_layers", 1),
        "hidden_size": ("dim", 1),
        "num_attention_heads": ("n_heads", 1),
    }
    n_layers: Layers = 6
    hidden_size: Width = Field(default=768, alias="dim")
    n_heads: Heads = 12
    intermediate_size: InnerWidth = Field(default=3072, alias="hidden_dim")
    hidden_dropout: DropoutRate = Field(default=0.1, alias="dropout")
    attention_dropout: DropoutRate = 0.1
    activation: Activation = "gelu"
    sinusoidal_pos_embds: bool = False


class _Longformer(_Roberta):
    architecture = "longformer"
    attention = "eager"
    slowdown = 8.0
    vocab_size: VocabularySize = 30522
    attention_window: ChunkWindow | list[ChunkWindow] = 512

    @model_validator(mode="after")
    def _check_windows(self) -> Self:
        windows = self.attention_window
        if isinstance(windows, list) and (
            # A row is filled up to a multiple of the longest window.
            len(windows) != self.n_layers or any(max(windows) % window for window in windows)
        ):
            raise make_contradiction()
        return self


class _BigBird(_Bert):
    architecture = "big_bird"
    attention = "eager"
    slowdown = 1.5
    vocab_size: VocabularySize = 50358
    n_position_rows: PositionRows = Field(default=4096, alias="max_position_embeddings")
    hidden_act: Activation = "gelu_new"
    rescale_embeddings: bool = False

    @property
    def library_settings(self) -> dict[str, JsonValue]:
        """The settings for transformers. Attention is full: the sparse one draws at random."""
        return self.settings | {"attention_type": "original_full"}


class _MegatronBert(_Bert):
    architecture = "megatron-bert"
    attention = "eager"
    slowdown = 1.4
    n_layers: Layers = Field(default=24, alias="num_hidden_layers")
    hidden_size: Width = 1024
    n_heads: Heads = Field(default=16, alias="num_attention_heads")
    intermediate_size: InnerWidth = 4096
    vocab_size: VocabularySize = 29056


class _Electra(_Bert):
    architecture = "electra"
    slowdown = 1.3
    hidden_size: Width = 256
    embedding_size: Width = 128
    n_heads: Heads = Field(default=4, alias="num_attention_heads")
    intermediate_size: InnerWidth = 1024

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that `layouts.py` names by letters."""
        is_projected = self.embedding_size != self.hidden_size
        return super().sizes | {"e": self.embedding_size, "x": int(is_projected)}


class _Albert(_Bert):
    architecture = "albert"
    slowdown = 1.3
    vocab_size: VocabularySize = 30000
    hidden_size: Width = 4096
    embedding_size: Width = 128
    n_heads: Heads = Field(default=64, alias="num_attention_heads")
    intermediate_size: InnerWidth = 16384
    hidden_dropout: DropoutRate = Field(default=0.0, alias="hidden_dropout_prob")
    attention_dropout: DropoutRate = Field(default=0.0, alias="attention_probs_dropout_prob")
    hidden_act: Activation = "gelu_new"
    num_hidden_groups: Layers = 1
    inner_group_num: Layers = 1

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        if self.n_layers % self.num_hidden_groups:
            raise make_contradiction()
        return self

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that `layouts.py` names by letters."""
        return super().sizes | {"e": self.embedding_size}

    @property
    def layer_places(self) -> tuple[tuple[int, ...], ...]:
        """The groups, and the layers inside one; every group is run several times."""
        return tuple(product(range(self.num_hidden_groups), range(self.inner_group_num)))

    @property
    def n_layer_runs(self) -> int:
        """How often each stored layer is run in one pass."""
        return self.n_layers // self.num_hidden_groups


class _Deberta(_Bert):
    architecture = "deberta"
    attention = "eager"
    slowdown = 1.9
    vocab_size: VocabularySize = 50265
    type_vocab_size: int = Field(default=0, ge=0, le=64)
    layer_norm_eps: Epsilon = 1e-7
    embedding_size: Width | None = None
    relative_attention: bool = False
    max_relative_positions: int = Field(default=-1, ge=-1, le=131_072)
    position_biased_input: bool = True
    pos_att_type: list[RelativePart] | Literal["c2p|p2c", "p2c|c2p", "c2p", "p2c"] | None = None

    @model_validator(mode="after")
    def _check_embedding(self) -> Self:
        if self.embedding_size not in (None, self.hidden_size):
            raise make_contradiction()
        return self

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that `layouts.py` names by letters; c and o: the parts of the attention."""
        parts = self.pos_att_type or ()
        n_relative = self.n_relative if self.relative_attention else 0
        return super().sizes | {
            "p": self.n_position_rows if self.position_biased_input else 0,
            "r": 2 * n_relative,
            "c": int("c2p" in parts and self.relative_attention),
            "o": int("p2c" in parts and self.relative_attention),
        }

    @property
    def n_relative(self) -> int:
        """Half the number of relative positions."""
        is_given = self.max_relative_positions > 0
        return self.max_relative_positions if is_given else self.n_position_rows

    @property
    def library_settings(self) -> dict[str, JsonValue]:
        """The settings for transformers, which would take an optional size of None as a size."""
        settings = {
            key: value
            for key, value in self.settings.items()
            if value is not None or key not in ("embedding_size", "attention_head_size")
        }
        if isinstance(self.pos_att_type, str):
            settings["pos_att_type"] = [*self.pos_att_type.split("|")]
        return settings


class _DebertaV2(_Deberta):
    architecture = "deberta-v2"
    n_layers: Layers = Field(default=24, alias="num_hidden_layers")
    hidden_size: Width = 1536
    n_heads: Heads = Field(default=24, alias="num_attention_heads")
    intermediate_size: InnerWidth = 6144
    vocab_size: VocabularySize = 128100
    attention_head_size: Width | None = None
    position_buckets: int = Field(default=-1, ge=-1, le=131_072)
    share_att_key: bool = False
    norm_rel_ebd: Literal["none", "layer_norm"] = "none"
    conv_kernel_size: Literal[0, 1, 3, 5, 7, 9] = 0
    conv_act: Activation | Literal["tanh"] = "tanh"

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if self.attention_head_size not in (None, self.hidden_size // self.n_heads):
            raise make_contradiction()
        return self

    @property
    def n_relative(self) -> int:
        """Half the number of relative positions, or of the buckets that hold them."""
        return self.position_buckets if self.position_buckets > 0 else super().n_relative

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that `layouts.py` names by letters."""
        sizes = super().sizes
        has_own_key = not self.share_att_key
        return sizes | {
            "n": int(self.norm_rel_ebd == "layer_norm"),
            "k": self.conv_kernel_size,
            "c": sizes["c"] * has_own_key,
            "o": sizes["o"] * has_own_key,
        }


class _ModernBert(ModelConfig):
    architecture = "modernbert"
    attention = "sdpa"
    slowdown = 1.3
    second_names: ClassVar[Mapping[str, tuple[str, int]]] = {
        "sliding_window": ("local_attention", 2)
    }
    n_layers: Layers = Field(default=22, alias="num_hidden_layers")
    n_heads: Heads = Field(default=12, alias="num_attention_heads")
    intermediate_size: InnerWidth = 1152
    hidden_dropout: DropoutRate = Field(default=0.0, alias="mlp_dropout")
    attention_dropout: DropoutRate = 0.0
    embedding_dropout: DropoutRate = 0.0
    vocab_size: VocabularySize = 50368
    n_position_rows: PositionRows = Field(default=8192, alias="max_position_embeddings")
    pad_token_id: Id | None = 50283
    hidden_activation: Activation = "gelu"
    classifier_activation: Activation = "gelu"
    norm_eps: Epsilon = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    decoder_bias: bool = True
    classifier_bias: bool = False
    local_attention: Window = 128
    global_attn_every_n_layers: Layers = 3
    layer_types: list[AttentionReach] | None = None
    global_rope_theta: RopeTheta = 160_000.0
    local_rope_theta: RopeTheta = 10_000.0
    rope_parameters: dict[AttentionReach, RopeParameters] | None = None

    @model_validator(mode="after")
    def _check_layers(self) -> Self:
        if self.layer_types is not None and len(self.layer_types) != self.n_layers:
            raise make_contradiction()
        return self

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that `layouts.py` names by letters, and which parts have a bias."""
        return super().sizes | {
            "n": int(self.norm_bias),
            "a": int(self.attention_bias),
            "m": int(self.mlp_bias),
            "h": int(self.classifier_bias),
            "b": int(self.decoder_bias),
        }

    @property
    def library_settings(self) -> dict[str, JsonValue]:
        """The settings for transformers, those of older files in the form of today."""
        settings = dict(self.settings)
        for name in ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta"):
            del settings[name]
        interval = self.global_attn_every_n_layers
        thetas = {
            "full_attention": self.global_rope_theta,
            "sliding_attention": self.local_rope_theta,
        }
        given_parameters = self.rope_parameters or {}
        thetas |= {reach: given.rope_theta for reach, given in given_parameters.items()}
        settings["rope_parameters"] = {
            reach: {"rope_type": "default", "rope_theta": theta} for reach, theta in thetas.items()
        }
        layer_types = self.layer_types or [
            "sliding_attention" if i % interval else "full_attention" for i in range(self.n_layers)
        ]
        settings["layer_types"] = [*layer_types]
        return settings


SUPPORTED_KINDS: Mapping[str, Kind] = {
    "bert": Kind("BERT", _Bert, "Bert", "BertTokenizer"),
    "roberta": Kind("RoBERTa", _Roberta, "Roberta", "RobertaTokenizer"),
    "camembert": Kind("CamemBERT", _Roberta, "Camembert", "CamembertTokenizer"),
    "xlm-roberta": Kind("XLM-RoBERTa", _Roberta, "XLMRoberta", "XLMRobertaTokenizer"),
    "distilbert": Kind("DistilBERT", _DistilBert, "DistilBert", "DistilBertTokenizer"),
    "modernbert": Kind("ModernBERT", _ModernBert, "ModernBert", FAST_TOKENIZER),
    "deberta": Kind("DeBERTa", _Deberta, "Deberta", "DebertaTokenizer"),
    "deberta-v2": Kind("DeBERTa-v2 and -v3", _DebertaV2, "DebertaV2", "DebertaV2Tokenizer"),
    "electra": Kind("ELECTRA (generator)", _Electra, "Electra", "ElectraTokenizer"),
    "longformer": Kind("Longformer", _Longformer, "Longformer", "LongformerTokenizer"),
    "big_bird": Kind("BigBird", _BigBird, "BigBird", "BigBirdTokenizer"),
    "megatron-bert": Kind(
        "Megatron-BERT (GatorTron)", _MegatronBert, "MegatronBert", "BertTokenizer"
    ),
    "albert": Kind("ALBERT", _Albert, "Albert", "AlbertTokenizer"),
    **CAUSAL_KINDS,
}
"""The supported kinds of models by their `model_type` in config.json."""
# Settings that change the arithmetic and have only one accepted value; others are refused.
_ONLY: dict[str, JsonValue] = {
    "is_decoder": False,
    "position_embedding_type": "absolute",
    "use_bias": True,
    "talking_head": False,
    "legacy": True,
    "conv_groups": 1,
    "rope_scaling": None,
}


def walk_entries(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield every key and value of the objects in a value of JSON, however deep."""
    waiting = [value]
    while waiting:
        element = waiting.pop()
        if isinstance(element, dict):
            yield from element.items()
            element = list(element.values())
        waiting += element if isinstance(element, list) else ()


def refuse_code_keys(value: JsonValue, *, place: str) -> None:
    """Refuse settings by which a file could load code.

    These are `auto_map`, `trust_remote_code`, quantisation, any "kernel" key, and an attention or
    experts implementation that transformers does not ship.
    """
    for key, item in walk_entries(value):
        name = key.lower()
        is_attention = any(part in name for part in _ATTENTION_KEYS)
        is_foreign = is_attention and item not in _PLAIN_ATTENTION
        is_kernel = "kernel" in name and name != "conv_kernel_size"  # a size, of DeBERTa
        if name in _CODE_KEYS or is_kernel or is_foreign:
            raise AuditError(
                "The setting {key} can load code or change the arithmetic; such a model is not "
                "loaded.",
                where=place,
                do="Remove the setting, if the model is of a supported kind without it.",
                key=f'"{make_printable(key)}"',
            )


def parse_config(raw: dict[str, JsonValue], *, place: str) -> ModelConfig:
    """Check a parsed `config.json` against the allow-list and its bounds."""
    refuse_code_keys(raw, place=place)
    kind = SUPPORTED_KINDS.get(str(raw.get("model_type")))
    with name_place(place):
        if kind is None:
            raise AuditError(
                "Models of the kind {kind} cannot be audited.",
                do="These kinds can be audited: {kinds}.",
                kinds=", ".join(kind.name for kind in SUPPORTED_KINDS.values()),
                kind=f'"{make_printable(str(raw.get("model_type")))}"',
            )
        raw, wrong = _resolve_second_names(raw, names=kind.config.second_names)
        raw_settings = {
            key: raw.get(key, field.default)
            for name, field in kind.config.model_fields.items()
            if (key := field.alias or name) != "settings"
        }
        wrong += [
            key
            for key, only in _ONLY.items()
            if key not in raw_settings and raw.get(key) not in (only, None)
        ]
        try:
            config = kind.config.model_validate(raw_settings | {"settings": raw_settings})
        except ValidationError as error:
            wrong += [str(error.errors(include_input=False)[0]["loc"][0])]
        if wrong:
            raise AuditError(
                "The setting {key} = {raw} is not supported or out of bounds.",
                do=SAME_CONFIG,
                key=wrong[0],
                raw=f'"{make_printable(str(raw[wrong[0]]))}"',
            )
    return config


def _resolve_second_names(
    raw: Mapping[str, JsonValue], *, names: Mapping[str, tuple[str, int]]
) -> tuple[dict[str, JsonValue], list[str]]:
    """Return settings by their first names, and the second names that contradict them."""
    settings, wrong = dict(raw), []
    for second_name, (name, factor) in names.items():
        if second_name in raw:
            number = raw[second_name]
            settings[name] = number * factor if type(number) is int else number
            wrong += [second_name] if raw.get(name, settings[name]) != settings[name] else []
    return settings, wrong


_KINDS_BY_CLASS = {kind.class_start: model_type for model_type, kind in SUPPORTED_KINDS.items()}
# Kind, start of the names of its tensors, and a setting that others with this start do not have.
_SIGNS_OF_KINDS = (
    ("distilbert", "distilbert.", "sinusoidal_pos_embds"),
    ("longformer", "longformer.", "attention_window"),
    ("electra", "electra.", "summary_use_proj"),
    ("albert", "albert.", "num_hidden_groups"),
    ("modernbert", "model.", "global_attn_every_n_layers"),
    ("deberta-v2", "deberta.", "position_buckets"),
    ("deberta", "deberta.", "pos_att_type"),
    ("big_bird", "bert.", "block_size"),
    ("roberta", "roberta.", ""),
    ("bert", "bert.", "type_vocab_size"),
)


def list_model_classes(raw: Mapping[str, JsonValue]) -> list[str]:
    """Return the classes that config.json names as those of the saved model."""
    classes = raw.get("architectures")
    return [name for name in classes if isinstance(name, str)] if isinstance(classes, list) else []


def guess_kind(raw: Mapping[str, JsonValue], *, tensor_names: Iterable[str]) -> str:
    """Return the kind of a model whose config.json names none; "" if nothing tells it.

    `tensor_names` may be empty, if the weights cannot be opened; then only settings count.
    """
    for class_name in list_model_classes(raw):
        name = class_name.partition("For")[0].removesuffix("Model")
        if name in _KINDS_BY_CLASS:
            return _KINDS_BY_CLASS[name]
    starts = {f"{name.partition('.')[0]}." for name in tensor_names}
    if not starts and raw.get("type_vocab_size") == 1:
        return "roberta"
    for kind, start, setting in _SIGNS_OF_KINDS:
        if start in starts and (setting in raw or kind in ("bert", "roberta", start[:-1])):
            return kind
        if not starts and setting in raw:
            return kind
    return ""
