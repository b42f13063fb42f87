"""The settings of any kind of model, and the bounds of their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from audit.errors import AuditError, Message

MAX_VOCABULARY = 1_000_000
SAME_CONFIG = (
    "Check that this is the config.json that was saved with the model. If it is, the model cannot "
    "be audited here."
)

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
# With 0 a row of equal numbers would become NaN.
Epsilon = Annotated[float, Field(ge=1e-20, le=0.1)]
PositionRows = Annotated[int, Field(ge=2, le=131_072)]
Window = Annotated[int, Field(ge=2, le=131_072, multiple_of=2)]
ChunkWindow = Annotated[int, Field(ge=4, le=131_072, multiple_of=2)]
RelativePart = Literal["c2p", "p2c"]
AttentionReach = Literal["full_attention", "sliding_attention"]
RopeTheta = Annotated[float, Field(gt=0, le=1e9)]


class RopeParameters(BaseModel):
    """Settings of rotary positions; other kinds than the plain one are refused."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True
    )

    rope_type: Literal["default"] = "default"
    rope_theta: RopeTheta


class ModelConfig(BaseModel):
    """The settings that determine a language model, each within its bounds.

    A field's alias is its name in `config.json`; its default is that of transformers for a missing
    setting. `n_position_rows` is the size of the position table, `is_tied` says whether the head's
    matrix is the word embedding. `architecture` is the name in transformers, `attention` the
    implementation there. `slowdown` is the time of a forward pass compared with that of a BERT of
    the same shape: 1 if the fast pass of `forward.py` knows the architecture, else the measured
    factor of transformers' own modules (see `docs/performance.md`).
    """

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,
        hide_input_in_errors=True,
        defer_build=True,
    )

    architecture: ClassVar[str]
    attention: ClassVar[str] = "eager"
    slowdown: ClassVar[float] = 1.0
    is_causal: ClassVar[bool] = False
    """Whether the model continues a text, and does not fill a gap in one."""
    second_names: ClassVar[Mapping[str, tuple[str, int]]] = {}
    """Second name of a setting in `config.json` -> its first name, and the factor to its number."""
    n_layers: Layers
    hidden_size: Width = 768
    n_heads: Heads
    intermediate_size: InnerWidth = 3072
    hidden_dropout: DropoutRate
    attention_dropout: DropoutRate
    vocab_size: VocabularySize = 30522
    n_position_rows: PositionRows = Field(default=512, alias="max_position_embeddings")
    pad_token_id: Id | None = 0
    is_tied: bool = Field(default=True, alias="tie_word_embeddings")
    settings: dict[str, JsonValue]
    """All settings with their values in the file, under the names that transformers uses."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        is_inside = self.pad_token_id is None or self.pad_token_id < self.vocab_size
        if self.hidden_size % self.n_heads or not is_inside or self.n_positions < 2:
            raise make_contradiction()
        return self

    @property
    def n_positions(self) -> int:
        """Longest input in tokens, special tokens included."""
        return self.n_position_rows

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that `layouts.py` names by letters, and 0 or 1 for optional tensors."""
        return {
            "v": self.vocab_size,
            "d": self.hidden_size,
            "q": 3 * self.hidden_size,
            "i": self.intermediate_size,
            "g": 2 * self.intermediate_size,
            "p": self.n_position_rows,
        }

    @property
    def layer_places(self) -> tuple[tuple[int, ...], ...]:
        """The numbers by which the stored layers are told apart in names of tensors."""
        return tuple((i,) for i in range(self.n_layers))

    @property
    def n_layer_runs(self) -> int:
        """How often each stored layer is run in one pass."""
        return 1

    @property
    def library_settings(self) -> dict[str, JsonValue]:
        """The settings with which transformers builds the module; equal for equal modules."""
        return self.settings


def make_contradiction() -> AuditError:
    """Return the error for settings that cannot hold at once."""
    return AuditError(
        "Its settings contradict one another: width and heads, padding token and "
        "vocabulary, or the number of positions.",
        do=SAME_CONFIG,
    )


FAST_TOKENIZER = "PreTrainedTokenizerFast"
"""The class in transformers that takes every tokenizer from tokenizer.json."""


class Kind(NamedTuple):
    """A supported kind of model.

    `name` is for messages. transformers' classes of the kind begin with `class_start`, as in
    BertForMaskedLM. `tokenizer` is the class of its tokenizer if no file of the model names one.
    """

    name: str
    config: type[ModelConfig]
    class_start: str
    tokenizer: str


def refuse_two_kinds(
    general: ModelConfig, hospital: ModelConfig, *, names: tuple[str, str]
) -> None:
    """Refuse a pair of a masked and a causal language model."""
    if general.is_causal != hospital.is_causal:
        raise AuditError(
            "One of the two models is a causal language model, which continues a text, and the "
            "other a masked one, which fills gaps.",
            where=Message("{one} and {other}", one=names[0], other=names[1]),
            do="Choose as general model the one that the hospital's training started from.",
        )
