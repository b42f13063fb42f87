"""Settings of a training, checked once; the defaults are ClinicalBERT's, as in the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from audit.errors import AuditError
from audit.setting_checks import check_number, check_one_of, check_whole

SCHEDULES = ("linear", "constant")
PRECISIONS = ("auto", "float32", "bfloat16")
WHERE = "training settings"
_NOT_OF_THE_WEIGHTS = ("evaluate_every", "checkpoint_every")
_MOST_POINTS = 500
_LONGEST_WAIT = 50


@dataclass(frozen=True)
class TrainSettings:
    """How to train.

    Source: Nakamura et al., section 3.3 (128 tokens, 2e-5, 64 rows, 100,000 steps); the rest as
    BERT (Devlin et al. 2019) and ClinicalBERT (Alsentzer et al. 2019).

    Attributes
    ----------
    n_tokens
        Tokens a row, [CLS] and [SEP] included.
    batch
        Rows a step.
    micro_batch
        Rows of one forward pass; divides `batch`. Dropout depends on it, so it names the training
        too.
    n_steps
        Steps; not used where `n_epochs` is given.
    n_epochs
        Times that every token is seen, in place of `n_steps`.
    learning_rate
        The highest, of the encoder.
    head_learning_rate
        The highest, of the masked-LM head; None: the same.
    schedule
        What follows the warm-up: "linear" falls to zero at the last step, "constant" stays, so
        that snapshots along one run are models of their own.
    warmup_share
        Share of the steps in which the rate rises from zero.
    weight_decay
        Of matrices; biases and layer norms have none.
    mask_share
        Share of the positions that are asked for: 80 % masked, 10 % replaced, 10 % kept.
    clip
        Largest norm of a step's gradient.
    precision
        "auto" is bfloat16 where the hardware multiplies it faster, float32 elsewhere; weights
        stay float32.
    held_out_share
        Share of the patients (of the notes, where no patient is told) that are never trained on.
    evaluate_every, checkpoint_every
        Steps between two held-out losses, and between two checkpoints.
    from_scratch
        Fresh weights in the shape of the general model.
    """

    n_tokens: int = 128
    batch: int = 64
    micro_batch: int = 32
    n_steps: int = 100_000
    n_epochs: float | None = None
    learning_rate: float = 2e-5
    head_learning_rate: float | None = None
    schedule: str = "linear"
    warmup_share: float = 0.1
    weight_decay: float = 0.01
    mask_share: float = 0.15
    clip: float = 1.0
    precision: str = "auto"
    seed: int = 0
    held_out_share: float = 0.01
    evaluate_every: int = 1_000
    checkpoint_every: int = 1_000
    from_scratch: bool = False

    def __post_init__(self) -> None:
        for name, low, high in (
            ("n_tokens", 8, 4096), ("batch", 1, 65_536), ("micro_batch", 1, 65_536),
            ("n_steps", 1, 100_000_000), ("seed", 0, 2**63 - 1), ("evaluate_every", 1, 10**9),
            ("checkpoint_every", 1, 10**9),
        ):  # fmt: skip
            check_whole(name, getattr(self, name), low=low, high=high, where=WHERE)
        for name, least, most in (
            ("learning_rate", 1e-9, 1.0), ("warmup_share", 0.0, 1.0), ("weight_decay", 0.0, 1.0),
            ("mask_share", 0.01, 0.4), ("clip", 1e-3, 1e6), ("held_out_share", 0.0, 0.5),
        ):  # fmt: skip
            check_number(name, getattr(self, name), low=least, high=most, where=WHERE)
        if self.n_epochs is not None:
            check_number("n_epochs", self.n_epochs, low=1e-6, high=1e6, where=WHERE)
        if self.head_learning_rate is not None:
            check_number(
                "head_learning_rate", self.head_learning_rate, low=1e-9, high=1.0, where=WHERE
            )
        check_one_of("schedule", self.schedule, SCHEDULES, where=WHERE)
        check_one_of("precision", self.precision, PRECISIONS, where=WHERE)
        if not isinstance(self.from_scratch, bool):
            raise AuditError("`from_scratch` is yes or no.", where=WHERE)
        if self.batch % self.micro_batch:
            raise AuditError(
                f"{self.batch} rows a step are no multiple of {self.micro_batch} rows a pass.",
                where=WHERE,
                do="Choose a micro-batch that divides the batch.",
            )

    @property
    def n_inner(self) -> int:
        """Tokens of notes in a row: all but [CLS] and [SEP]."""
        return self.n_tokens - 2

    @property
    def n_passes(self) -> int:
        """Forward passes of a step."""
        return self.batch // self.micro_batch

    def n_rows(self, n_train_tokens: int) -> int:
        """Return how many rows an epoch has."""
        return n_train_tokens // self.n_inner

    def steps(self, n_train_tokens: int) -> int:
        """Return how many steps a training on so many tokens takes."""
        if self.n_epochs is None:
            return self.n_steps
        return self.steps_of_epochs(self.n_epochs, n_train_tokens=n_train_tokens)

    def steps_of_epochs(self, n_epochs: float, *, n_train_tokens: int) -> int:
        """Return the first step after which so many epochs have been seen."""
        return max(1, math.ceil(n_epochs * self.n_rows(n_train_tokens) / self.batch - 1e-9))

    def epochs(self, n_steps: float, *, n_train_tokens: int) -> float:
        """Return how often every token has been seen after so many steps."""
        n_rows = self.n_rows(n_train_tokens)
        return n_steps * self.batch / n_rows if n_rows else math.nan

    def rate_factor(self, step: int, *, n_steps: int) -> float:
        """Return the share of the highest learning rate in a step, 1 to `n_steps`."""
        n_warmup = round(self.warmup_share * n_steps)
        if step <= n_warmup:
            return step / n_warmup
        if self.schedule == "constant":
            return 1.0
        return max(0.0, (n_steps - step + 1) / (n_steps - n_warmup))

    def point_every(self, n_steps: int) -> int:
        """Return the steps between two points of the loss curve."""
        return max(1, min(_LONGEST_WAIT, n_steps // _MOST_POINTS))

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)

    def decisive(self) -> dict[str, Any]:
        """Return what decides the weights: all but when it is looked at and kept."""
        return {k: v for k, v in asdict(self).items() if k not in _NOT_OF_THE_WEIGHTS}


def settings_from_json(value: Mapping[str, Any]) -> TrainSettings:
    """Return settings from plain values; what is not named has its default.

    Raises
    ------
    AuditError
        If a setting is unknown or out of its range.
    """
    known = {field.name for field in fields(TrainSettings)}
    for name in value:
        if name not in known:
            raise AuditError(f"`{name!s:.40}` is no setting of a training.", where=WHERE)
    return TrainSettings(**value)
