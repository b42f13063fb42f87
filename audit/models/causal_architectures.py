"""Describe the supported causal architectures: their settings, each within its bounds.

transformers reads the settings of rotary positions under several names, of which the later ones
replaced the earlier ones. Here they are brought into the latest form, `rope_parameters`, and only
kinds of positions that follow from numbers of config.json alone are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    model_validator,
)

from audit.models.model_config import (
    Activation,
    AttentionReach,
    DropoutRate,
    Epsilon,
    Heads,
    Id,
    InnerWidth,
    Kind,
    Layers,
    ModelConfig,
    PositionRows,
    VocabularySize,
    Width,
    make_contradiction,
)

MAX_POSITIONS = 4_194_304
Positions = Annotated[int, Field(ge=2, le=MAX_POSITIONS)]
HeadSize = Annotated[int, Field(ge=2, le=1_024, multiple_of=2)]
CausalWindow = Annotated[int, Field(ge=1, le=MAX_POSITIONS)]
Theta = Annotated[float, Field(gt=1, le=1e12)]
RotaryShare = Annotated[float, Field(gt=0, le=1)]
WholeHead = Annotated[float, Field(ge=1, le=1)]
Factor = Annotated[float, Field(ge=1, le=10_000)]
Softness = Annotated[float, Field(gt=0, le=10_000)]
Softcap = Annotated[float, Field(ge=0.1, le=10_000)]
NoDropout = Annotated[float, Field(ge=0, le=0)]
RotaryKind = Literal["default", "linear", "llama3", "yarn"]
_ROTARY_SETTINGS: Mapping[str, tuple[set[str], set[str]]] = {
    "default": (set(), set()),
    "linear": ({"factor"}, set()),
    "llama3": (
        {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
        set(),
    ),
    "yarn": (
        {"factor"},
        {
            "original_max_position_embeddings",
            "attention_factor",
            "beta_fast",
            "beta_slow",
            "mscale",
            "mscale_all_dim",
            "truncate",
        },
    ),
}
"""Kind of rotary positions -> the settings that it needs, and those that it may have."""


class Rotary(BaseModel):
    """Settings of rotary positions, in the old form (`type`) or that of today (`rope_type`)."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True
    )

    rope_type: RotaryKind | None = None
    type: RotaryKind | None = None
    rope_theta: Theta | None = None
    partial_rotary_factor: RotaryShare | None = None
    factor: Factor | None = None
    original_max_position_embeddings: Positions | None = None
    low_freq_factor: Softness | None = None
    high_freq_factor: Softness | None = None
    attention_factor: Softness | None = None
    beta_fast: Softness | None = None
    beta_slow: Softness | None = None
    mscale: Softness | None = None
    mscale_all_dim: Softness | None = None
    truncate: bool | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        needed, possible = _ROTARY_SETTINGS[self.kind]
        own = self.numbers.keys() - {"rope_theta", "partial_rotary_factor"}
        low, high = self.low_freq_factor or 0.0, self.high_freq_factor or 1.0
        is_ordered = low < high and (self.beta_slow or 1.0) < (self.beta_fast or 32.0)
        names = {self.rope_type or self.kind, self.type or self.kind}
        if not needed <= own <= needed | possible or not is_ordered or len(names) > 1:
            raise ValueError("settings of another kind of rotary positions")
        return self

    @property
    def kind(self) -> RotaryKind:
        """The kind of rotary positions; transformers takes the plain one if none is named."""
        return self.rope_type or self.type or "default"

    @property
    def numbers(self) -> dict[str, JsonValue]:
        """The settings that have a value, without the kind."""
        return self.model_dump(exclude={"rope_type", "type"}, exclude_none=True)

    def plain(self, *, theta: float, share: float) -> dict[str, JsonValue]:
        """Return the settings for transformers, with values for missing ones."""
        common: dict[str, JsonValue] = {"rope_theta": theta}
        if share != 1:
            common["partial_rotary_factor"] = share
        return {"rope_type": self.kind} | common | self.numbers


def _ignore(value: object) -> None:
    return None


Ignored = Annotated[None, PlainValidator(_ignore)]
"""A setting that changes nothing here, whatever its value."""


class CausalConfig(ModelConfig):
    """The settings that determine a causal language model.

    The padding token's number is left out: rows are never padded inside a text. `n_kv_heads` and
    `head_size` are those of keys and values.
    """

    is_causal = True
    attention = "sdpa"
    own_settings: ClassVar[frozenset[str]] = frozenset({"pad_token_id", "eos_token_id"})
    """Settings that are not handed on to transformers."""
    pad_token_id: Ignored = None
    eos_token_id: Id | Annotated[list[Id], Field(max_length=100)] | None = None
    n_layers: Layers = Field(default=32, alias="num_hidden_layers")
    n_heads: Heads = Field(default=32, alias="num_attention_heads")
    hidden_size: Width = 4096
    hidden_dropout: NoDropout = 0.0
    attention_dropout: DropoutRate = 0.0
    n_position_rows: Positions = Field(default=2048, alias="max_position_embeddings")
    is_tied: bool = Field(default=False, alias="tie_word_embeddings")

    @property
    def n_kv_heads(self) -> int:
        """The number of heads that keys and values have."""
        return self.n_heads

    @property
    def head_size(self) -> int:
        """The width of a head."""
        return self.hidden_size // self.n_heads

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that `layouts.py` names by letters.

        q, k and c are the widths of queries, of keys, and of both with the values; h is that of one
        head, s three times the model's.
        """
        queries, keys = self.n_heads * self.head_size, self.n_kv_heads * self.head_size
        return super().sizes | {
            "q": queries,
            "k": keys,
            "c": queries + 2 * keys,
            "h": self.head_size,
            "s": 3 * self.hidden_size,
        }

    @property
    def library_settings(self) -> dict[str, JsonValue]:
        """The settings with which transformers builds the module."""
        settings = {key: v for key, v in self.settings.items() if key not in self.own_settings}
        return settings | {"pad_token_id": None}


class _RotaryConfig(CausalConfig):
    """Settings of a model with rotary positions."""

    own_settings = CausalConfig.own_settings | {
        "rope_theta",
        "rope_scaling",
        "partial_rotary_factor",
        "original_max_position_embeddings",
    }
    kinds: ClassVar[tuple[RotaryKind, ...]] = ("default", "linear", "llama3", "yarn")
    default_share: ClassVar[float] = 1.0
    is_share_used: ClassVar[bool] = False
    rope_theta: Theta | None = None
    rope_scaling: Rotary | None = None
    rope_parameters: Rotary | None = None
    partial_rotary_factor: RotaryShare | None = None
    original_max_position_embeddings: Positions | None = None

    @model_validator(mode="after")
    def _check_rotary(self) -> Self:
        rotary = self.rotary
        share = float(str(self.plain_rotary.get("partial_rotary_factor", 1.0)))
        n_turned = int(self.head_size * share)
        # transformers lets the outer number win in some kinds.
        inner = rotary.original_max_position_embeddings
        is_other = self.original_max_position_embeddings not in (None, inner)
        if (
            (self.rope_scaling and self.rope_parameters)
            or rotary.kind not in self.kinds
            or (share != 1 and not self.is_share_used)
            or n_turned < 2
            or n_turned % 2
            or (is_other and rotary.kind != "default")
        ):
            raise make_contradiction()
        return self

    @property
    def rotary(self) -> Rotary:
        """The settings of rotary positions, from whichever place names them."""
        return self.rope_scaling or self.rope_parameters or Rotary()

    @property
    def plain_rotary(self) -> dict[str, JsonValue]:
        """The settings of rotary positions in transformers' latest form."""
        theta = 10_000.0 if self.rope_theta is None else self.rope_theta
        share = self.partial_rotary_factor
        return self.rotary.plain(theta=theta, share=self.default_share if share is None else share)

    @property
    def library_settings(self) -> dict[str, JsonValue]:
        """The settings for transformers, rotary positions in the latest form."""
        return super().library_settings | {"rope_parameters": self.plain_rotary}


class Llama(_RotaryConfig):
    """Llama, and the settings that its successors share."""

    architecture = "llama"
    vocab_size: VocabularySize = 32000
    intermediate_size: InnerWidth = 11008
    num_key_value_heads: Heads | None = None
    head_dim: HeadSize | None = None
    hidden_act: Activation = "silu"
    rms_norm_eps: Epsilon = 1e-6
    attention_bias: bool = False
    mlp_bias: bool = False

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if self.n_heads % self.n_kv_heads:
            raise make_contradiction()
        return self

    @property
    def n_kv_heads(self) -> int:
        """The number of heads that keys and values have."""
        return self.num_key_value_heads or self.n_heads

    @property
    def head_size(self) -> int:
        """The width of a head."""
        return self.head_dim or self.hidden_size // self.n_heads

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that `layouts.py` names by letters, and which parts have a bias."""
        return super().sizes | {"a": int(self.attention_bias), "m": int(self.mlp_bias)}

    @property
    def library_settings(self) -> dict[str, JsonValue]:
        """The settings for transformers, which takes no size of None in some architectures."""
        sizes: dict[str, JsonValue] = {
            "head_dim": self.head_size,
            "num_key_value_heads": self.n_kv_heads,
        }
        return super().library_settings | sizes


class Mistral(Llama):
    """Mistral."""

    architecture = "mistral"
    intermediate_size: InnerWidth = 14336
    num_key_value_heads: Heads | None = 8
    n_position_rows: Positions = Field(default=131_072, alias="max_position_embeddings")
    attention_bias: Literal[False] = False
    mlp_bias: Literal[False] = False
    sliding_window: CausalWindow | None = 4096


class _Windowed(Llama):
    """Settings of a model in which some layers see a window of the text."""

    layer_types: list[AttentionReach] | None = None
    mlp_bias: Literal[False] = False

    @model_validator(mode="after")
    def _check_layers(self) -> Self:
        if self.layer_types is not None and len(self.layer_types) != self.n_layers:
            raise make_contradiction()
        return self


class Qwen2(_Windowed):
    """Qwen 2 and 2.5."""

    architecture = "qwen2"
    vocab_size: VocabularySize = 151936
    intermediate_size: InnerWidth = 22016
    num_key_value_heads: Heads | None = 32
    n_position_rows: Positions = Field(default=32768, alias="max_position_embeddings")
    attention_bias: Literal[False] = False
    use_sliding_window: bool = False
    sliding_window: CausalWindow | None = 4096
    max_window_layers: Annotated[int, Field(ge=0, le=1_000)] = 28

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        has_window = self.use_sliding_window and self.sliding_window is not None
        if "sliding_attention" in (self.layer_types or ()) and not has_window:
            raise make_contradiction()
        return self


class Qwen3(Qwen2):
    """Qwen 3."""

    architecture = "qwen3"
    head_dim: HeadSize | None = 128
    attention_bias: bool = False  # type: ignore[assignment]


class Gemma2(_Windowed):
    """Gemma 2."""

    architecture = "gemma2"
    attention = "eager"
    vocab_size: VocabularySize = 256_000
    hidden_size: Width = 2304
    intermediate_size: InnerWidth = 9216
    n_layers: Layers = Field(default=26, alias="num_hidden_layers")
    n_heads: Heads = Field(default=8, alias="num_attention_heads")
    num_key_value_heads: Heads | None = 4
    head_dim: HeadSize | None = 256
    n_position_rows: Positions = Field(default=8192, alias="max_position_embeddings")
    is_tied: bool = Field(default=True, alias="tie_word_embeddings")
    hidden_activation: Activation = "gelu_pytorch_tanh"
    query_pre_attn_scalar: Annotated[int, Field(ge=1, le=65_536)] = 256
    sliding_window: CausalWindow = 4096
    attn_logit_softcapping: Softcap | None = 50.0
    final_logit_softcapping: Softcap | None = 30.0
    use_bidirectional_attention: Literal[False] | None = None


class Gemma3(Gemma2):
    """Gemma 3, the models for text alone."""

    architecture = "gemma3_text"
    attention = "sdpa"
    own_settings = Gemma2.own_settings | {"rope_local_base_freq", "sliding_window_pattern"}
    vocab_size: VocabularySize = 262_208
    n_position_rows: Positions = Field(default=131_072, alias="max_position_embeddings")
    attn_logit_softcapping: None = None
    final_logit_softcapping: Softcap | None = None
    rope_local_base_freq: Theta | None = None
    sliding_window_pattern: Layers = 6
    rope_parameters: dict[AttentionReach, Rotary] | None = None  # type: ignore[assignment]

    @model_validator(mode="after")
    def _check_near(self) -> Self:
        nested: Mapping[str, Rotary] = self.rope_parameters or {}  # type: ignore[assignment]
        if any(rotary.partial_rotary_factor not in (None, 1) for rotary in nested.values()):
            raise make_contradiction()
        return self

    @property
    def rotary(self) -> Rotary:
        """The settings of rotary positions in the layers that see the whole text."""
        nested: Mapping[str, Rotary] = self.rope_parameters or {}  # type: ignore[assignment]
        return self.rope_scaling or nested.get("full_attention", Rotary())

    @property
    def library_settings(self) -> dict[str, JsonValue]:
        """The settings for transformers, with the reach and the positions of each layer."""
        nested: Mapping[str, Rotary] = self.rope_parameters or {}  # type: ignore[assignment]
        full_theta = 1_000_000.0 if self.rope_theta is None else self.rope_theta
        near_theta = 10_000.0 if self.rope_local_base_freq is None else self.rope_local_base_freq
        near = nested.get("sliding_attention", Rotary())
        layer_types = self.layer_types or [
            "sliding_attention" if (i + 1) % self.sliding_window_pattern else "full_attention"
            for i in range(self.n_layers)
        ]
        return super().library_settings | {
            "layer_types": [*layer_types],
            "rope_parameters": {
                "full_attention": self.rotary.plain(theta=full_theta, share=1.0),
                "sliding_attention": near.plain(theta=near_theta, share=1.0),
            },
        }


class Phi3(Llama):
    """Phi 3 and 4."""

    architecture = "phi3"
    own_settings = Llama.own_settings - {"original_max_position_embeddings"}
    kinds = ("default",)
    is_share_used = True
    vocab_size: VocabularySize = 32064
    hidden_size: Width = 3072
    intermediate_size: InnerWidth = 8192
    n_position_rows: Positions = Field(default=4096, alias="max_position_embeddings")
    original_max_position_embeddings: Positions = 4096
    rms_norm_eps: Epsilon = 1e-5
    attention_bias: Literal[False] = False
    mlp_bias: Literal[False] = False
    hidden_dropout: DropoutRate = Field(default=0.0, alias="resid_pdrop")
    embd_pdrop: DropoutRate = 0.0
    sliding_window: CausalWindow | None = None


class GptNeoX(_RotaryConfig):
    """GPT-NeoX."""

    architecture = "gpt_neox"
    own_settings = _RotaryConfig.own_settings | {"rotary_pct", "rotary_emb_base"}
    default_share = 0.25
    is_share_used = True
    second_names: ClassVar[Mapping[str, tuple[str, int]]] = {
        "rotary_pct": ("partial_rotary_factor", 1),
        "rotary_emb_base": ("rope_theta", 1),
    }
    vocab_size: VocabularySize = 50432
    hidden_size: Width = 6144
    n_layers: Layers = Field(default=44, alias="num_hidden_layers")
    n_heads: Heads = Field(default=64, alias="num_attention_heads")
    intermediate_size: InnerWidth = 24576
    hidden_act: Activation = "gelu"
    hidden_dropout: DropoutRate = Field(default=0.0, alias="hidden_dropout")
    layer_norm_eps: Epsilon = 1e-5
    use_parallel_residual: bool = True
    attention_bias: bool = True

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that `layouts.py` names by letters, and whether attention has biases."""
        return super().sizes | {"a": int(self.attention_bias)}


class Gpt2(CausalConfig):
    """GPT-2."""

    architecture = "gpt2"
    own_settings = CausalConfig.own_settings | {"intermediate_size"}
    second_names: ClassVar[Mapping[str, tuple[str, int]]] = {
        "hidden_size": ("n_embd", 1),
        "max_position_embeddings": ("n_positions", 1),
        "num_attention_heads": ("n_head", 1),
        "num_hidden_layers": ("n_layer", 1),
    }
    vocab_size: VocabularySize = 50257
    n_position_rows: PositionRows = Field(default=1024, alias="n_positions")
    hidden_size: Width = Field(default=768, alias="n_embd")
    n_layers: Layers = Field(default=12, alias="n_layer")
    n_heads: Heads = Field(default=12, alias="n_head")
    n_inner: InnerWidth | None = None
    activation_function: Activation = "gelu_new"
    hidden_dropout: DropoutRate = Field(default=0.1, alias="resid_pdrop")
    embd_pdrop: DropoutRate = 0.1
    attention_dropout: DropoutRate = Field(default=0.1, alias="attn_pdrop")
    layer_norm_epsilon: Epsilon = 1e-5
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    reorder_and_upcast_attn: bool = False
    add_cross_attention: Literal[False] = False
    is_tied: bool = Field(default=True, alias="tie_word_embeddings")

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that `layouts.py` names by letters."""
        return super().sizes | {"i": self.n_inner or 4 * self.hidden_size}


CAUSAL_KINDS: Mapping[str, Kind] = {
    "llama": Kind("Llama", Llama, "Llama", "LlamaTokenizer"),
    "mistral": Kind("Mistral", Mistral, "Mistral", "LlamaTokenizer"),
    "qwen2": Kind("Qwen 2", Qwen2, "Qwen2", "Qwen2Tokenizer"),
    "qwen3": Kind("Qwen 3", Qwen3, "Qwen3", "Qwen2Tokenizer"),
    "gemma2": Kind("Gemma 2", Gemma2, "Gemma2", "GemmaTokenizer"),
    "gemma3_text": Kind("Gemma 3 (text)", Gemma3, "Gemma3Text", "GemmaTokenizer"),
    "phi3": Kind("Phi 3", Phi3, "Phi3", "LlamaTokenizer"),
    "gpt2": Kind("GPT-2", Gpt2, "GPT2", "GPT2Tokenizer"),
    "gpt_neox": Kind("GPT-NeoX", GptNeoX, "GPTNeoX", "GPTNeoXTokenizer"),
}
"""The supported kinds of causal models by their `model_type` in config.json."""
