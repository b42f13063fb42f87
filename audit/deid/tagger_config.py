"""Settings of the trainings of taggers, and the contents of `tagger.json`; torch-free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from audit.deid.network.decode import TagScheme
from audit.deid.tagger import TaggerFile, unreadable
from audit.errors import AuditError
from audit.shelf import fingerprint
from audit.task import Record
from audit.training.config import LoopSettings, Rate, Rows, ScheduledSettings, Share

WHERE = "tagger settings"
MAX_LABELS = 127
"""Tags are numbered in a byte."""
HiddenShare = Annotated[float, Field(ge=0, lt=1)]


class Shape(Record):
    """The shape of the small network of words, which is trained from scratch."""

    width: int = Field(default=128, ge=1, le=4096)
    """Numbers per token between two layers."""
    dilations: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(1, 2, 4, 8, 16), min_length=1, max_length=64
    )
    """The distance of the neighbours in each layer; a token sees as far as their sum."""


class TaggerSettings(LoopSettings):
    """How a token classifier is trained."""

    n_tokens: int = Field(
        default=192, ge=8, le=32_768, description="tokens of a row, special ones included"
    )
    overlap: int = Field(default=48, ge=0, description="tokens that rows of a long note share")
    """Only used when an encoder tags notes; in training a row may begin anywhere."""
    n_epochs: float = Field(
        default=3.0, gt=0, le=10_000, description="times that every note is seen"
    )
    learning_rate: Rate = Field(default=5e-5, description="the highest")
    unknown_share: HiddenShare = Field(
        default=0.02, description="share of the tokens shown as unknown"
    )
    hidden_share: HiddenShare = Field(
        default=0.1, description="share of the spans shown as unknown: names nobody has seen"
    )
    n_evaluations: int = Field(
        default=4,
        ge=1,
        le=1000,
        description="measurements on the validation notes; the best weights are kept",
    )
    recall_weight: float = Field(
        default=2.0, ge=0.1, le=10, description="how much more recall counts than precision"
    )
    """The beta of the F measure by which weights and bias are chosen."""
    biases: tuple[float, ...] = Field(default=(0.0, 0.5, 1.0, 1.5, 2.0, 3.0), min_length=1)
    """Candidates for the bias, which is added to the scores of all tags but O; the best is chosen.
    If a training goes on from a tagger, they are added to that tagger's bias."""

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        if self.overlap > self.n_tokens // 2:
            raise AuditError("The rows overlap by more than half.", where=WHERE)
        return self

    @property
    def highest_rate(self) -> float:
        """The learning rate of the settings."""
        return self.learning_rate

    def rate_factor(self, step: int, *, n_steps: int) -> float:
        """Return the learning rate of a step, 1 to `n_steps`, as a share of the highest one."""
        n_warmup = max(1, round(self.warmup_share * n_steps))
        left = (n_steps - step + 1) / max(1, n_steps - n_warmup + 1)
        return min(step / n_warmup, left, 1.0)


FROM_SCRATCH: Mapping[str, Any] = {"learning_rate": 2e-3, "n_tokens": 192}
FROM_ENCODER: Mapping[str, Any] = {"learning_rate": 5e-5, "n_tokens": 512, "overlap": 128}
FROM_TAGGER: Mapping[str, Any] = {
    "learning_rate": 4e-4,
    "n_tokens": 192,
    "n_epochs": 4.0,
    "batch": 8,
    "micro_batch": 8,
    "n_evaluations": 1,
    "biases": (0.5, 0.6),
}
"""The default settings by what a training begins with. A tagger that learns from a few notes marks
less than before; these biases make up for that."""


def make_token_settings(
    changes: Mapping[str, Any], *, defaults: Mapping[str, Any]
) -> TaggerSettings:
    """Return the defaults with changes; `micro_batch` and `overlap` follow the changes."""
    settings, general_defaults = dict(defaults), TaggerSettings()
    if "batch" in changes:
        settings["micro_batch"] = min(changes["batch"], general_defaults.micro_batch)
    if "n_tokens" in changes:
        settings["overlap"] = min(
            defaults.get("overlap", general_defaults.overlap), changes["n_tokens"] // 4
        )
    return TaggerSettings(**settings | dict(changes))


class TaggerFacts(TaggerFile):
    """The facts about a token classifier in `tagger.json`."""

    kind = "token"
    decisive = ("labels", "scheme", "n_tokens", "overlap", "bias", "files")

    scheme: Literal["BIO"] = "BIO"
    n_tokens: int = Field(ge=8, le=32_768)
    """Tokens of a row, special ones included."""
    overlap: int = Field(ge=0)
    """Tokens that a row shares with the row before it."""
    bias: float
    """Added to the scores of all tags but O."""
    files: dict[str, str]
    """Name of each file in `model/` -> its SHA-256."""
    has_rules: bool = False
    """Whether it is combined with the rules, as the default tagger is."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        n_labels = len(set(self.labels))
        if (
            2 * self.overlap > self.n_tokens
            or n_labels != len(self.labels)
            or n_labels > MAX_LABELS
        ):
            raise ValueError("rows overlap by more than half, a label is there twice, or too many")
        return self

    @property
    def tag_scheme(self) -> TagScheme:
        """The tags of its labels."""
        return TagScheme(self.labels)


def file_digests(path: Path) -> dict[str, str]:
    """Return the SHA-256 of every regular file in a folder, by name."""
    try:
        return {
            file_path.name: fingerprint(file_path)
            for file_path in sorted(path.iterdir())
            if file_path.is_file()
        }
    except OSError as error:
        raise unreadable(path, error) from None


GROWTH = 2.0
"""The most tokens of an answer for each token of its note."""
Language = Literal["ja", "en"]
LANGUAGES = get_args(Language)
_FULL_RATE, _LORA_RATE = 2e-5, 2e-4


class Lora(Record):
    """A low-rank adapter of all linear modules but the output layer; the weights are frozen.

    Source: Hu et al. 2021, LoRA (arXiv 2106.09685).
    """

    rank: int = Field(default=16, ge=1, le=1024, description="of the adapter's matrices")
    alpha: float = Field(
        default=32.0, ge=1e-3, le=1e4, description="the adapter counts alpha / rank times"
    )
    dropout: float = Field(default=0.05, ge=0, le=0.9, description="of the adapter's input")


class TuningSettings(ScheduledSettings):
    """How a language model is tuned to copy notes with tags.

    The paper states the model, its 32,768 tokens and bfloat16, but neither learning rate nor
    epochs. Differs: those defaults are ours.
    """

    flags: ClassVar = {"gradient_checkpointing": "--gradient-checkpointing"}

    n_epochs: float = Field(
        default=2.0, ge=1e-6, le=1e5, description="times that every window is seen"
    )
    batch: Rows = Field(default=16, description="windows a step")
    micro_batch: Rows = Field(default=1, description="windows of one pass")
    learning_rate: Rate | None = Field(
        default=None, description="the highest; 2e-5, 2e-4 for an adapter"
    )
    warmup_share: Share = Field(default=0.05, description="share of the steps")
    max_tokens: int = Field(
        default=32_768, ge=64, le=1_000_000, description="of instruction, note and copy together"
    )
    """The model's own limit also applies."""
    overlap: int = Field(
        default=200, ge=0, le=10_000, description="characters that windows of a long note share"
    )
    language: Language = Field(default="ja", description="of tags and instruction")
    gradient_checkpointing: bool = Field(
        default=False, description="less memory, a third more time"
    )
    lora: Lora | None = None
    """None: all weights are tuned."""

    @property
    def highest_rate(self) -> float:
        """The learning rate of the settings, or the default for what is tuned."""
        if self.learning_rate is not None:
            return self.learning_rate
        return _FULL_RATE if self.lora is None else _LORA_RATE

    def n_steps(self, n_windows: int) -> int:
        """Return the number of steps of a tuning on `n_windows` windows."""
        return max(1, math.ceil(self.n_epochs * n_windows / self.batch - 1e-9))


class GenerativeFacts(TaggerFile):
    """The facts about a generative tagger in `tagger.json`."""

    kind = "generative"
    decisive = ("labels", "n_note_tokens", "growth", "max_tokens", "overlap", "language", "model")

    model: str
    """Digest of the model's files."""
    n_note_tokens: int = Field(default=1_000_000, ge=1)
    """Tokens of the longest window that was trained on."""
    growth: float = Field(default=GROWTH, ge=1)
    """The most tokens of an answer for each token of its note."""
    max_tokens: int = Field(default=32_768, ge=1)
    """The most tokens of prompt, note and copy together."""
    overlap: int = Field(default=200, ge=0)
    """Characters that a window shares with the window before it."""
    language: Language = "ja"
    """The language of tags and instruction."""
