"""How a causal language model is tuned to write tags, checked once. Torch-free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from audit.errors import AuditError
from audit.setting_checks import check_number, check_one_of, check_whole

WHERE = "tuning settings"
SCHEDULES = ("linear", "constant")
PRECISIONS = ("auto", "float32", "bfloat16")
LANGUAGES = ("ja", "en")
ALL_LINEAR = "all-linear"
_FULL_RATE, _LORA_RATE = 2e-5, 2e-4
_NOT_OF_THE_WEIGHTS = ("checkpoint_every",)


@dataclass(frozen=True)
class Lora:
    """A low-rank adapter beside frozen weights.

    Source: Hu et al. 2021, LoRA (arXiv 2106.09685).

    Attributes
    ----------
    rank
        Of the adapter's matrices.
    alpha
        The adapter's product is multiplied by alpha / rank.
    dropout
        Of the adapter's input, 0-1.
    targets
        Names of the modules that get one; "all-linear" stands for all but the output layer.
    """

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.05
    targets: tuple[str, ...] = (ALL_LINEAR,)

    def __post_init__(self) -> None:
        """Check the ranges, once."""
        object.__setattr__(self, "targets", tuple(self.targets))
        check_whole("rank", self.rank, low=1, high=1024, where=WHERE)
        check_number("alpha", self.alpha, low=1e-3, high=1e4, where=WHERE)
        check_number("dropout", self.dropout, low=0.0, high=0.9, where=WHERE)
        is_named = all(isinstance(one, str) and one for one in self.targets)
        if not self.targets or not is_named:
            raise AuditError("The adapter has no module to stand beside.", where=WHERE)


@dataclass(frozen=True)
class TuningSettings:
    """How to tune.

    The paper gives the model, its 32,768 tokens and bfloat16, and neither learning rate nor epochs.
    Differs: those defaults are ours.

    Attributes
    ----------
    n_epochs
        Times that every window is seen.
    batch, micro_batch
        Windows a step and of one pass; the second divides the first. Dropout depends on both.
    learning_rate
        The highest; None: 2e-5, and 2e-4 for an adapter.
    schedule, warmup_share
        What follows the rise from zero, and the share of the steps that it takes.
    weight_decay
        Of matrices.
    clip
        Largest norm of a step's gradient.
    precision
        "auto" is bfloat16 on a GPU that has it, else float32.
    max_tokens
        Prompt, note and copy together; the model's own limit holds too.
    overlap
        Characters that a window of a long note shares with the one before it.
    language
        Of the tags and of the instruction.
    gradient_checkpointing
        Compute activations twice and keep fewer: less memory, a third more time.
    checkpoint_every
        Steps.
    lora
        None: all weights are tuned.
    """

    n_epochs: float = 2.0
    batch: int = 16
    micro_batch: int = 1
    learning_rate: float | None = None
    schedule: str = "linear"
    warmup_share: float = 0.05
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 0
    precision: str = "auto"
    max_tokens: int = 32_768
    overlap: int = 200
    language: str = "ja"
    gradient_checkpointing: bool = False
    checkpoint_every: int = 200
    lora: Lora | None = None

    def __post_init__(self) -> None:
        """Check the ranges, once."""
        for name, low, high in (
            ("batch", 1, 65_536), ("micro_batch", 1, 65_536), ("seed", 0, 2**63 - 1),
            ("max_tokens", 64, 1_000_000), ("overlap", 0, 10_000), ("checkpoint_every", 1, 10**9),
        ):  # fmt: skip
            check_whole(name, getattr(self, name), low=low, high=high, where=WHERE)
        for name, least, most in (
            ("n_epochs", 1e-6, 1e5), ("warmup_share", 0.0, 1.0), ("weight_decay", 0.0, 1.0),
            ("clip", 1e-3, 1e6), ("rate", 1e-9, 1.0),
        ):  # fmt: skip
            check_number(name, getattr(self, name), low=least, high=most, where=WHERE)
        for name, known in (
            ("schedule", SCHEDULES), ("precision", PRECISIONS), ("language", LANGUAGES),
        ):  # fmt: skip
            check_one_of(name, getattr(self, name), known, where=WHERE)
        if self.batch % self.micro_batch:
            raise AuditError(
                f"{self.batch} windows a step are no multiple of {self.micro_batch} a pass.",
                where=WHERE,
                do="Choose a micro-batch that divides the batch.",
            )

    @property
    def rate(self) -> float:
        """The highest learning rate."""
        if self.learning_rate is not None:
            return self.learning_rate
        return _FULL_RATE if self.lora is None else _LORA_RATE

    def n_steps(self, n_windows: int) -> int:
        """Return how many steps a tuning on so many windows takes."""
        return max(1, math.ceil(self.n_epochs * n_windows / self.batch - 1e-9))

    def rate_factor(self, step: int, *, n_steps: int) -> float:
        """Return the share of the highest learning rate in a step, 1 to `n_steps`."""
        n_warmup = round(self.warmup_share * n_steps)
        if step <= n_warmup:
            return step / n_warmup
        if self.schedule == "constant":
            return 1.0
        return max(0.0, (n_steps - step + 1) / (n_steps - n_warmup))

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        plain = asdict(self)
        if self.lora is not None:
            plain["lora"]["targets"] = list(self.lora.targets)
        return plain

    def decisive(self) -> dict[str, Any]:
        """Return what decides the weights."""
        return {k: v for k, v in self.to_json().items() if k not in _NOT_OF_THE_WEIGHTS}


def tuning_from_json(value: Mapping[str, Any]) -> TuningSettings:
    """Return settings from plain values; what is not named has its default.

    Raises
    ------
    AuditError
        If a setting is unknown or out of its range.
    """
    given = dict(value)
    if isinstance(given.get("lora"), Mapping):
        given["lora"] = Lora(**_known(given["lora"], kind=Lora))
    return TuningSettings(**_known(given, kind=TuningSettings))


def _known(value: Mapping[str, Any], *, kind: type[Lora] | type[TuningSettings]) -> dict[str, Any]:
    known = {field.name for field in fields(kind)}
    for name in value:
        if name not in known:
            raise AuditError(f"`{name!s:.40}` is no setting of a tuning.", where=WHERE)
    return dict(value)
