"""Settings of a training and its loss curve; torch-free.

Losses are in nats per predicted token. Held-out losses use the same rows and masks during the whole
training, so they can be compared with each other and with the unigram baseline, which is the loss
of always predicting the words' frequencies, whatever the context.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from audit.errors import AuditError
from audit.shelf import write_whole
from audit.task import Record

WHERE = "training settings"
Schedule = Literal["linear", "constant"]
Precision = Literal["auto", "float32", "bfloat16"]
Rows = Annotated[int, Field(ge=1, le=65_536)]
Steps = Annotated[int, Field(ge=1, le=10**9)]
Rate = Annotated[float, Field(ge=1e-9, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]
_MOST_POINTS = 500


class LoopSettings(Record):
    """Settings of every training: passes, optimizer, schedule, precision, checkpoints."""

    batch: Rows = Field(default=32, description="rows a step")
    micro_batch: Rows = Field(
        default=32, description="rows of one forward pass; names the training too"
    )
    """Dropout depends on it, so it is part of the training's identity."""
    warmup_share: Share = Field(
        default=0.1, description="share of the steps in which the learning rate rises from zero"
    )
    weight_decay: Share = Field(default=0.01, description="of matrices; vectors have none")
    clip: float = Field(default=1.0, ge=1e-3, le=1e6, description="largest norm of a gradient")
    precision: Precision = Field(
        default="auto", description="of products; auto: bfloat16 where it is faster"
    )
    seed: int = Field(default=0, ge=0, le=2**63 - 1, description="of all random draws")
    checkpoint_every: Steps = Field(default=200, description="steps between two checkpoints")

    not_of_the_weights: ClassVar[tuple[str, ...]] = ("checkpoint_every",)

    @property
    def highest_rate(self) -> float:
        """The highest learning rate."""
        raise NotImplementedError

    def rate_factor(self, step: int, *, n_steps: int) -> float:
        """Return the share of the highest learning rate in a step, 1 to `n_steps`."""
        raise NotImplementedError

    def decisive(self) -> dict[str, JsonValue]:
        """Return the settings that decide the weights, without the measuring intervals."""
        return {k: v for k, v in self.plain().items() if k not in self.not_of_the_weights}


class ScheduledSettings(LoopSettings):
    """Settings with a choice of schedule after the warm-up, and passes of equal size in each step.

    "linear" falls to zero at the last step. "constant" keeps the rate, so that each snapshot of one
    run is a model in its own right.
    """

    schedule: Schedule = Field(default="linear", description="what follows the warm-up")

    @model_validator(mode="after")
    def _check_passes(self) -> Self:
        if self.batch % self.micro_batch:
            raise AuditError(
                "{batch} rows a step are no multiple of {micro_batch} rows a pass.",
                where=WHERE,
                do="Choose a micro-batch that divides the batch.",
                batch=self.batch,
                micro_batch=self.micro_batch,
            )
        return self

    def rate_factor(self, step: int, *, n_steps: int) -> float:
        """Return the share of the highest learning rate in a step, 1 to `n_steps`."""
        n_warmup = round(self.warmup_share * n_steps)
        if step <= n_warmup:
            return step / n_warmup
        if self.schedule == "constant":
            return 1.0
        return max(0.0, (n_steps - step + 1) / (n_steps - n_warmup))

    def refuse_idle(self, n_processes: int) -> None:
        """Refuse a number of processes that does not divide the passes of a step."""
        n_passes = self.batch // self.micro_batch
        if n_passes % n_processes:
            raise AuditError(
                "{n_passes} forward passes a step cannot be shared by {n_processes} processes.",
                where=WHERE,
                do="Choose a micro-batch that gives each process as many.",
                n_passes=n_passes,
                n_processes=n_processes,
            )


class Lora(Record):
    """A low-rank adapter of all linear modules but the output layer; the weights are frozen.

    Source: Hu et al. 2021, LoRA (arXiv 2106.09685).
    """

    rank: int = Field(default=16, ge=1, le=1024, description="of the adapter's matrices")
    alpha: float = Field(
        default=32.0, ge=1e-3, le=1e4, description="the adapter counts alpha / rank times"
    )
    dropout: float = Field(default=0.05, ge=0, le=0.9, description="of the adapter's input")


FULL_RATE, ADAPTER_RATE = 2e-5, 2e-4
"""The usual highest learning rates of a large causal model, all of it or an adapter."""
_ONLY_MASKED = ("head_learning_rate", "mask_share")
_ONLY_CAUSAL = ("lora_rank", "lora_alpha", "lora_dropout", "frame", "header", "loss_on")


class TrainSettings(ScheduledSettings):
    """How to train a masked or a causal language model.

    Source: Nakamura et al., section 3.3 (128 tokens, 2e-5, 64 rows, 100,000 steps); the rest as
    BERT (Devlin et al. 2019) and ClinicalBERT (Alsentzer et al. 2019).
    """

    flags: ClassVar = {"held_out_share": "--held-out"}

    n_tokens: int = Field(
        default=128, ge=8, le=4096, description="tokens a row, special ones included"
    )
    batch: Rows = Field(default=64, description="rows a step")
    n_steps: int = Field(default=100_000, ge=1, le=100_000_000, description="steps")
    n_epochs: float | None = Field(
        default=None,
        ge=1e-6,
        le=1e6,
        description="times that every token is seen, in place of steps",
    )
    learning_rate: Rate = Field(default=2e-5, description="the highest, of all but the head")
    head_learning_rate: Rate | None = Field(
        default=None, description="of the masked-LM head, if it is another"
    )
    mask_share: float = Field(
        default=0.15, ge=0.01, le=0.4, description="share of the positions asked for"
    )
    """80 % of these are masked, 10 % replaced, 10 % unchanged."""
    held_out_share: float = Field(
        default=0.01, ge=0, le=0.5, description="share of the patients never trained on"
    )
    """A share of the notes, if the notes do not name patients."""
    evaluate_every: Steps = Field(default=1_000, description="steps between two held-out losses")
    checkpoint_every: Steps = Field(default=1_000, description="steps between two checkpoints")
    from_scratch: bool = Field(default=False, description="fresh weights in the model's shape")
    is_causal: bool = False
    """Whether the model is a causal one, which learns the next tokens in place of masked ones."""
    lora_rank: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="of an adapter of all linear modules of a causal model; 0: the model itself "
        "learns",
    )
    lora_alpha: float = Field(
        default=32.0, ge=1e-3, le=1e4, description="the adapter counts alpha / rank times"
    )
    lora_dropout: float = Field(default=0.05, ge=0, le=0.9, description="of the adapter's input")
    frame: Literal["plain", "template"] = Field(
        default="plain", description="of a causal model's notes: none, or its chat template"
    )
    header: str = Field(
        default="",
        max_length=2_000,
        description="text before every note of a causal model; in its template, the question",
    )
    loss_on: Literal["all", "note"] = Field(
        default="all", description="tokens that a causal model learns: all, or without the frame"
    )

    not_of_the_weights: ClassVar[tuple[str, ...]] = ("evaluate_every", "checkpoint_every")

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        foreign_fields = _ONLY_MASKED if self.is_causal else _ONLY_CAUSAL
        idle_fields = [name for name in foreign_fields if self._is_changed(name)]
        if idle_fields:
            raise AuditError(
                "The setting {name} has no effect on a causal model."
                if self.is_causal
                else "The setting {name} has an effect on causal models only.",
                where=WHERE,
                do="Leave it out.",
                name=idle_fields[0],
            )
        if self.from_scratch and self.lora_rank:
            raise AuditError(
                "An adapter of fresh weights would be of no use.",
                where=WHERE,
                do="Set `lora_rank` to 0, or start from the model as it is.",
            )
        return self

    def _is_changed(self, name: str) -> bool:
        return bool(getattr(self, name) != type(self).model_fields[name].default)

    @classmethod
    def list_idle_fields(cls, *, is_causal: bool) -> tuple[str, ...]:
        """Return the settings that have no effect on a model of this kind."""
        return _ONLY_MASKED if is_causal else _ONLY_CAUSAL

    @property
    def lora(self) -> Lora | None:
        """The adapter that learns in place of the model; None if the model learns."""
        if not self.lora_rank:
            return None
        return Lora(rank=self.lora_rank, alpha=self.lora_alpha, dropout=self.lora_dropout)

    def decisive(self) -> dict[str, JsonValue]:
        """Return the settings that decide the weights.

        Settings of causal models count only if they are changed, so that trainings of masked models
        keep their names.
        """
        is_later = ("is_causal", *_ONLY_CAUSAL)
        return {
            name: value
            for name, value in super().decisive().items()
            if name not in is_later or self._is_changed(name)
        }

    @property
    def highest_rate(self) -> float:
        """The learning rate of the model but its head."""
        return self.learning_rate

    @property
    def n_inner(self) -> int:
        """Tokens of notes that a row adds: in a masked model all but [CLS] and [SEP]."""
        return self.n_tokens if self.is_causal else self.n_tokens - 2

    def refuse_other_kind(self, *, is_causal: bool) -> None:
        """Refuse a model of the other kind than these settings are for."""
        if is_causal != self.is_causal:
            raise AuditError(
                "This is a causal model, which learns next tokens, not masked ones."
                if is_causal
                else "This is a masked language model, not a causal one.",
                where="general",
                do="Choose another model, or settings for this kind.",
            )

    def refuse_longer(self, n_positions: int) -> None:
        """Refuse rows that are longer than a model allows."""
        if self.n_tokens > n_positions:
            raise AuditError(
                "Rows of {n_tokens} tokens are longer than the {n_positions} that this model "
                "holds.",
                where=WHERE,
                do="Set `n_tokens` lower.",
                n_tokens=self.n_tokens,
                n_positions=n_positions,
            )

    def n_rows(self, n_train_tokens: int) -> int:
        """Return how many rows an epoch has."""
        return n_train_tokens // self.n_inner

    def steps(self, n_train_tokens: int) -> int:
        """Return the number of steps of a training on `n_train_tokens` tokens."""
        if self.n_epochs is None:
            return self.n_steps
        return self.steps_of_epochs(self.n_epochs, n_train_tokens=n_train_tokens)

    def steps_of_epochs(self, n_epochs: float, *, n_train_tokens: int) -> int:
        """Return the first step after which `n_epochs` epochs have been seen."""
        return max(1, math.ceil(n_epochs * self.n_rows(n_train_tokens) / self.batch - 1e-9))

    def epochs(self, n_steps: float, *, n_train_tokens: int) -> float:
        """Return how often every token has been seen after `n_steps` steps."""
        n_rows = self.n_rows(n_train_tokens)
        return n_steps * self.batch / n_rows if n_rows else math.nan


def read_process_number() -> tuple[int, int]:
    """Return the number of this process among those that torchrun started, and how many."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def count_point_steps(n_steps: int) -> int:
    """Return the steps between two points of the loss curve."""
    return max(1, n_steps // _MOST_POINTS)


def find_largest_pass(batch: int) -> int:
    """Return the largest size of a forward pass, up to the default, that divides a step's rows."""
    pass_sizes = range(min(batch, TrainSettings().micro_batch), 0, -1)
    return next((n for n in pass_sizes if batch % n == 0), 1)


LOSSES = "losses.jsonl"


class LossPoint(Record):
    """One point of a loss curve; None where it was not measured."""

    step: int
    """Finished steps."""
    loss: float | None = None
    """Mean training loss since the point before, in nats a token."""
    held_out: float | None = None
    """Loss on held-out rows, in nats per token."""
    learning_rate: float | None = None
    """The highest of all parameter groups in this step."""
    seconds: float
    """Seconds of training so far, without pauses."""
    precision: float | None = None
    recall: float | None = None
    f: float | None = None
    """Precision, recall and F of a tagger on its validation notes, 0-1."""

    def describe(self) -> str:
        """Return a sentence with the measured figures; "" if only the loss is known."""
        measured = {
            "held-out loss": self.held_out,
            "recall": self.recall,
            "precision": self.precision,
        }
        figures = {name: value for name, value in measured.items() if value is not None}
        if figures and self.loss is not None:
            figures = {"loss": self.loss, **figures}
        values = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
        unit = " nats a token" if self.held_out is not None else ""
        return f"Step {self.step}: {values}{unit}." if figures else ""


def read_losses(run_dir: Path) -> tuple[LossPoint, ...]:
    """Return the points in order of their steps; () if there is no log yet.

    If two points have the same step, the later one counts. An unfinished last line is ignored.
    """
    try:
        lines = (run_dir / LOSSES).read_bytes().split(b"\n")
    except OSError:
        return ()
    points: dict[int, LossPoint] = {}
    for line in lines[:-1]:
        with suppress(AuditError):
            point = LossPoint.read(line, where=LOSSES)
            points[point.step] = point
    return tuple(points[step] for step in sorted(points))


def append_point(run_dir: Path, point: LossPoint) -> None:
    """Add a point at the end of the log."""
    path = run_dir / LOSSES
    path.touch(mode=0o600)
    with path.open("ab") as file:
        file.write(point.to_bytes() + b"\n")


def cut_log(run_dir: Path, *, step: int) -> None:
    """Remove the points after a step, because they will be made again."""
    lines = [point.to_bytes() + b"\n" for point in read_losses(run_dir) if point.step <= step]
    write_whole(run_dir / LOSSES, b"".join(lines))


PLATEAU_NATS = 0.1
"""If the held-out loss is this close to the unigram baseline, context is hardly used."""
RISE_NATS = 0.02
"""A held-out loss this far above its minimum counts as rising; less is noise of few rows."""
_SMOOTHED_SHARE = 0.05


@dataclass(frozen=True)
class LossCurve:
    """The chart of one training; unknown numbers are NaN.

    `losses` and `smoothed` are the training loss at `steps` and its moving average. `held_out` are
    the held-out losses at `held_out_steps`, where step 0 is the model before training, and
    `smoothed_then` is the moving average at these steps. `unigram` is the baseline on the held-out
    rows. Every token is seen once in `steps_per_epoch` of the `n_steps` steps.
    """

    steps: tuple[int, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    held_out_steps: tuple[int, ...]
    held_out: tuple[float, ...]
    smoothed_then: tuple[float, ...]
    unigram: float
    n_steps: int
    steps_per_epoch: float

    @property
    def lowest(self) -> tuple[int, float]:
        """Step and value of the lowest held-out loss; (0, NaN) without one."""
        points = zip(self.held_out_steps, self.held_out, strict=True)
        return min(points, key=lambda point: point[1], default=(0, math.nan))

    @property
    def state(self) -> str:
        """The state of the held-out loss.

        "nothing": it was never measured; "early": it was measured once; "plateau": it is not below
        the unigram baseline; "rising": it is above its minimum; "falling": it is below its first
        value; "level": none of these.
        """
        if len(self.held_out) < 2:
            return "early" if self.held_out else "nothing"
        first, last = self.held_out[0], self.held_out[-1]
        if last > self.unigram - PLATEAU_NATS:
            return "plateau"
        if last > self.lowest[1] + RISE_NATS:
            return "rising"
        return "falling" if last < first - RISE_NATS else "level"

    def epochs(self, step: float) -> float:
        """Return how often every token has been seen after `step` steps."""
        return step / self.steps_per_epoch


def make_loss_curve(
    points: Sequence[LossPoint],
    *,
    n_steps: int,
    steps_per_epoch: float = math.nan,
    unigram: float | None = None,
) -> LossCurve:
    """Return the chart of the points that `read_losses` returns.

    The average over a window of n points is s_i = sum_j b^(i-j) x_j / sum_j b^(i-j) over j <= i,
    with b = 1 - 2 / (n + 1): free of the bias of its beginning (Kingma and Ba 2015, section 3).
    """
    import pandas as pd

    trained = pd.Series({p.step: p.loss for p in points if p.loss is not None}, dtype=float)
    held_out = pd.Series(
        {p.step: p.held_out for p in points if p.held_out is not None}, dtype=float
    )
    smoothed = trained.ewm(span=max(1.0, _SMOOTHED_SHARE * len(trained))).mean()
    return LossCurve(
        steps=tuple(trained.index),
        losses=tuple(trained),
        smoothed=tuple(smoothed),
        held_out_steps=tuple(held_out.index),
        held_out=tuple(held_out),
        smoothed_then=tuple(smoothed.reindex(held_out.index, method="ffill")),
        unigram=math.nan if unigram is None else unigram,
        n_steps=n_steps,
        steps_per_epoch=steps_per_epoch if steps_per_epoch > 0 else math.nan,
    )
