"""The training of a tagger as a task, with its settings; torch-free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from audit.deid.find.causal_model import check_directory, model_files
from audit.deid.find.tagger_facts import TaggerFacts, file_digests
from audit.deid.find.taggers import TRAINED, network_folder, tagger_dir
from audit.errors import AuditError
from audit.home import make_salted_code
from audit.shelf import JSON
from audit.task import Contact, Device, Question, Task, queue_of, read_file_states
from audit.training.config import (
    ADAPTER_RATE,
    FULL_RATE,
    LoopSettings,
    Lora,
    LossPoint,
    Rate,
    Rows,
    ScheduledSettings,
    Share,
)
from audit.words import Language

WHERE = "tagger settings"
HiddenShare = Annotated[float, Field(ge=0, lt=1)]


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


Defaults = Mapping[str, float | tuple[float, ...]]
FROM_SCRATCH: Defaults = {"learning_rate": 2e-3, "n_tokens": 192}
FROM_ENCODER: Defaults = {"learning_rate": 5e-5, "n_tokens": 512, "overlap": 128}
FROM_TAGGER: Defaults = {
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


def make_token_settings(changes: Mapping[str, Any], *, defaults: Defaults) -> TaggerSettings:
    """Return the defaults with changes; `micro_batch` and `overlap` follow the changes."""
    settings: dict[str, Any] = dict(defaults)
    general_defaults = TaggerSettings()
    if "batch" in changes:
        settings["micro_batch"] = min(changes["batch"], general_defaults.micro_batch)
    if "n_tokens" in changes:
        settings["overlap"] = min(
            settings.get("overlap", general_defaults.overlap), changes["n_tokens"] // 4
        )
    return TaggerSettings(**settings | dict(changes))


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
    packed_tokens: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="of a row in which windows stand one behind the other, a row a pass, none "
        "seeing another; 0: rows of one window",
    )
    """A longer window has a row of its own. Positions begin again in each window, so a row may be
    longer than the model's own limit."""
    overlap: int = Field(
        default=200, ge=0, le=10_000, description="characters that windows of a long note share"
    )
    language: Language = Field(default="ja", description="of tags and instruction")
    gradient_checkpointing: bool = Field(
        default=False, description="less memory, a third more time"
    )
    is_split: bool = Field(
        default=False,
        description="the processes of torchrun hold a part of the base's weights each; for an "
        "adapter",
    )
    lora: Lora | None = None
    """None: all weights are tuned."""

    not_of_the_weights: ClassVar[tuple[str, ...]] = ("checkpoint_every", "is_split")

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        if self.is_split and self.lora is None:
            raise AuditError(
                "Only weights that do not learn can be split between processes.",
                where=WHERE,
                do="Tune an adapter (--lora), or leave `is_split` out.",
            )
        if self.packed_tokens and self.micro_batch != 1:
            raise AuditError(
                "A pass is one row of packed windows; `micro_batch` has no effect on it.",
                where=WHERE,
                do="Set `packed_tokens` to the tokens of a pass, and leave `micro_batch` out.",
            )
        return self

    def refuse_idle(self, n_processes: int) -> None:
        """Refuse a number of processes that does not divide the passes of a step.

        Packed rows differ in number from step to step, so some processes wait in some steps.
        """
        if not self.packed_tokens:
            super().refuse_idle(n_processes)

    @property
    def highest_rate(self) -> float:
        """The learning rate of the settings, or the default for what is tuned."""
        if self.learning_rate is not None:
            return self.learning_rate
        return FULL_RATE if self.lora is None else ADAPTER_RATE

    def n_steps(self, n_windows: int) -> int:
        """Return the number of steps of a tuning on `n_windows` windows."""
        return max(1, math.ceil(self.n_epochs * n_windows / self.batch - 1e-9))


class TaggerTask(Task):
    """The training of a token classifier, or the tuning of a causal language model."""

    job = "tagger"
    flags: ClassVar = {"base": "--from"}

    settings: TaggerSettings | TuningSettings
    """The type of the settings decides what is trained."""
    gold: tuple[Path, ...] = Field(
        default=(), description="annotated notes: a file or a folder of any format of `deid`"
    )
    validation: tuple[Path, ...] = Field(
        default=(), description="annotated notes to measure on; without it a tenth of the patients"
    )
    start: Path | None = None
    """Directory of the encoder or of the language model; None trains a small character network."""
    base: str = Field(
        default="",
        description="tagger whose network of words is trained on: default, trained/ID, or a folder",
    )
    label_map: dict[str, str] = Field(default_factory=dict)
    """Maps an unknown label to one of the five types, or to "" to leave its spans out."""
    title: str = Field(default="", max_length=200, description="for the list of taggers")
    out: Path | None = Field(
        default=None,
        description="folder of the tagger; without it, it is kept among the trained ones",
    )
    device: Device = Field(default="auto", description="where it is trained")
    tagger_id: str = ""
    """The identifier of the kept tagger; known once the question is asked."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.gold:
            raise AuditError("There are no gold notes to train on.", where="gold notes")
        if self.base and (self.start or isinstance(self.settings, TuningSettings)):
            raise AuditError(
                "A training goes on from a network of words alone; this tagger is of another kind.",
                where="--from",
                do="Leave the encoder or the language model out.",
            )
        return self

    @property
    def folder(self) -> Path:
        """The folder in which the tagger is made."""
        return self.out or tagger_dir(self.tagger_id)

    def question(self) -> Question:
        """Return the question; equal questions train one tagger, and resume its training."""
        model: JSON = None
        if isinstance(self.settings, TuningSettings):
            check_directory(self.start or Path())
            model = read_file_states(*model_files(self.start or Path()), where="language model")
        elif self.start is not None:
            if not (self.start / "config.json").is_file():
                raise AuditError("There is no model directory with a config.json.", where="encoder")
            model = file_digests(self.start)
        elif self.base:
            model = TaggerFacts.of_folder(network_folder(self.base)).digest()
        notes = [
            read_file_states(*files, where="annotated notes")
            for files in (self.gold, self.validation)
        ]
        about: list[JSON] = [self.settings.plain(), notes, model]
        if self.label_map:
            about.append(self.label_map)
        tagger_id = TRAINED + make_salted_code("tagger", about)
        return self.with_(tagger_id=tagger_id).make_question(
            label=self.start.name if self.start else Path(self.base).name or "characters",
            device=queue_of(self.device),
            about=[tagger_id, None if self.out is None else str(self.out)],
        )

    def help(self) -> None:
        """Tune beside the first process that torchrun started; only the first one answers."""
        settings = self.settings
        if not isinstance(settings, TuningSettings):
            raise AuditError(
                "Several processes share the training of a generative tagger only.",
                where=WHERE,
                do="Start this training without torchrun.",
            )
        from audit.deid.learn.tuning import tune

        tune(self.with_(tagger_id=self.question().order["tagger_id"]), settings)

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Train, or resume a training; return the identifier of the tagger."""

        def tell(point: LossPoint) -> None:
            if text := point.describe():
                contact.say(text)

        contact.say("Reading the annotated notes.")
        if isinstance(self.settings, TuningSettings):
            from audit.deid.learn.tuning import train_generative

            training = train_generative(
                self,
                self.settings,
                say=contact.say,
                progress=contact.listen,
                should_stop=contact.should_stop,
                on_point=tell,
            ).training
            contact.say(
                f"{training['n_steps']} steps on {training['n_windows']} windows of "
                f"{training['n_notes']} notes, measured on {training['n_held_out']}."
            )
        else:
            from audit.deid.learn.training import train_tagger

            train_tagger(
                self,
                self.settings,
                say=contact.say,
                progress=contact.listen,
                should_stop=contact.should_stop,
                on_point=tell,
            )
        return (self.tagger_id,)
