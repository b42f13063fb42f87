"""How a generative tagger is tuned, and what its `tagger.json` says of it; torch-free.

A tagger is a folder with `tagger.json` and `model/`, an ordinary causal language model.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, get_args

from pydantic import Field

from audit.deid.tagger import TaggerFile
from audit.task import Record
from audit.training.config import Rate, Rows, ScheduledSettings, Share

GROWTH = 2.0
"""Tokens of an answer for one of its note, at most."""
Language = Literal["ja", "en"]
LANGUAGES = get_args(Language)
_FULL_RATE, _LORA_RATE = 2e-5, 2e-4


class Lora(Record):
    """A low-rank adapter beside frozen weights, of all linear modules but the output layer.

    Source: Hu et al. 2021, LoRA (arXiv 2106.09685).
    """

    rank: int = Field(default=16, ge=1, le=1024, description="of the adapter's matrices")
    alpha: float = Field(
        default=32.0, ge=1e-3, le=1e4, description="the adapter counts alpha / rank times"
    )
    dropout: float = Field(default=0.05, ge=0, le=0.9, description="of the adapter's input")


class TuningSettings(ScheduledSettings):
    """How to tune a language model to copy notes with tags.

    The paper gives the model, its 32,768 tokens and bfloat16, and neither learning rate nor epochs.
    Differs: those defaults are ours.
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
    """The model's own limit holds too."""
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
        """As it is set, else by what is tuned."""
        if self.learning_rate is not None:
            return self.learning_rate
        return _FULL_RATE if self.lora is None else _LORA_RATE

    def n_steps(self, n_windows: int) -> int:
        """Return how many steps a tuning on so many windows takes."""
        return max(1, math.ceil(self.n_epochs * n_windows / self.batch - 1e-9))


class GenerativeFacts(TaggerFile):
    """What is known of a generative tagger without its weights."""

    kind = "generative"
    decisive = ("labels", "n_note_tokens", "growth", "max_tokens", "overlap", "language", "model")

    model: str
    """Digest of the model's files."""
    n_note_tokens: int = Field(default=1_000_000, ge=1)
    growth: float = Field(default=GROWTH, ge=1)
    """Tokens of the longest window that was learned from; of an answer for one of its note."""
    max_tokens: int = Field(default=32_768, ge=1)
    """Prompt, note and copy together."""
    overlap: int = Field(default=200, ge=0)
    """Characters that a window shares with the one before it."""
    language: Language = "ja"
    """Of tags and instruction."""
