"""Trainings: stored ones, the order for one (the job "pretrain"), and the plan of one.

Torch is imported where a model is trained, transformers where a tokenizer is built.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from audit.corpus.corpora import CORPORA
from audit.corpus.other_names import OTHER_NAMES_SEED, write_other_names
from audit.corpus.truth import PRIVATE, listed_file, make_unreadable_error, read_listed
from audit.errors import AuditError
from audit.home import make_salted_code
from audit.models.inspect import ModelSummary, compute_model_digest, inspect_model
from audit.models.limited import call_limited
from audit.models.model_folder import TRAINED_LABEL, find_display_name
from audit.models.registry import RegisteredModel, find_model_by_digest, load_tokenizer
from audit.shelf import JSON, Shelf
from audit.task import (
    Columns,
    Contact,
    Device,
    Question,
    Record,
    Task,
    queue_of,
    read_file_states,
)
from audit.training.config import (
    ADAPTER_RATE,
    FULL_RATE,
    WHERE,
    LossCurve,
    LossPoint,
    TrainSettings,
    make_loss_curve,
    read_losses,
)
from audit.training.framing import make_framing
from audit.training.tokens import NoteEncoder, SentenceEncoder

TRAINING = "training.json"
MODEL = "model"
TextSource = Literal["private", "public", "other_names"]
"""Which notes of a corpus a training reads."""


class TrainingFacts(Record):
    """The facts of a training that are known before its first step."""

    title: str
    parent: str
    parent_digest: str
    """Name and digest of the general model that it started from."""
    corpus_id: str
    source: str
    """Which notes of which corpus; "" and "file" if the notes were a file."""
    settings: TrainSettings
    n_steps: int
    n_documents: int
    n_train_tokens: int
    n_held_out_documents: int
    unigram_loss: float | None
    """Loss of predicting held-out tokens by frequency, in nats; None without held-out notes."""
    key: str
    """Digest of everything that decides the weights, except hardware and libraries."""
    precision: str
    device: str
    kernels: str
    versions: dict[str, str]
    created: str
    """When it began, ISO 8601."""
    snapshots: tuple[int, ...] = ()
    """Steps after which a copy is stored."""
    n_listed_patients: int = 0
    """Number of patients who could not be held out, as their notes hold a listed name."""
    header: str = ""
    """Text before every note that a causal model read; an audit needs the same."""
    n_canaries: int = 0
    """Number of planted names; a causal model learns every token of each."""
    n_processes: int = 1
    """Number of processes that shared the passes of each step at the start."""


@dataclass(frozen=True)
class TrainedModel:
    """A training in its folder, finished or not.

    `snapshots` are the steps of which there is a copy. Losses are in nats per token, None if none
    was measured.
    """

    folder: Path
    facts: TrainingFacts
    points: tuple[LossPoint, ...]
    is_whole: bool
    snapshots: tuple[int, ...]

    @property
    def run_id(self) -> str:
        """The identifier of a stored training."""
        return self.folder.name

    @property
    def created(self) -> str:
        """When the training began."""
        return self.facts.created

    @property
    def n_steps_done(self) -> int:
        """Steps until the last point of the curve."""
        return self.points[-1].step if self.points else 0

    @property
    def n_epochs_done(self) -> float:
        """How often every token has been seen."""
        n_tokens = self.facts.n_train_tokens
        return self.facts.settings.epochs(self.n_steps_done, n_train_tokens=n_tokens)

    @property
    def curve(self) -> LossCurve:
        """The loss curve."""
        facts = self.facts
        per_epoch = facts.settings.n_rows(facts.n_train_tokens) / facts.settings.batch
        return make_loss_curve(
            self.points,
            n_steps=facts.n_steps,
            unigram=facts.unigram_loss,
            steps_per_epoch=per_epoch,
        )

    @property
    def loss(self) -> float | None:
        """The last mean training loss."""
        return self._list_figures("loss")[-1]

    @property
    def held_out(self) -> float | None:
        """The last held-out loss."""
        return self._list_figures("held_out")[-1]

    @property
    def first_held_out(self) -> float | None:
        """The held-out loss of the model it started from."""
        return self._list_figures("held_out")[0]

    def _list_figures(self, field: str) -> list[float | None]:
        values = (getattr(point, field) for point in self.points)
        return [value for value in values if value is not None] or [None]


def _read_training(folder: Path) -> TrainedModel:
    facts = TrainingFacts.model_validate_json((folder / TRAINING).read_bytes())
    copies = tuple(step for step in facts.snapshots if (folder / snapshot_name(step)).is_dir())
    return TrainedModel(folder, facts, read_losses(folder), (folder / MODEL).is_dir(), copies)


MODELS = Shelf("models", label="trained model", read=_read_training)


def snapshot_name(step: int) -> str:
    """Return the name of the folder with the copy of a step."""
    return f"{MODEL}-{step}"


class PretrainTask(Task):
    """A training on the notes of a kept corpus, or on a file of notes."""

    job = "pretrain"
    flags: ClassVar = {
        "corpus_id": "--corpus",
        "columns": "--column",
        "snapshot_epochs": "--snapshots",
    }

    general: Path
    """Directory of the model to start from; a training from scratch uses only its shape."""
    settings: TrainSettings = TrainSettings()
    corpus_id: str = Field(default="", description="identifier of a kept corpus")
    source: TextSource = Field(default="private", description="which notes of the corpus")
    notes: Path | None = Field(
        default=None, description="file or folder of notes, in place of a corpus"
    )
    columns: Columns = Field(
        default=(), description="with notes: which column holds a field, as text=body"
    )
    title: str = Field(default="", max_length=200, description="for the list of trained models")
    out: Path | None = Field(
        default=None,
        description="folder of the training; without it, it is kept among the trained models",
    )
    snapshot_epochs: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        default=(), examples=["1,2,5"], description="epochs after which a copy is kept"
    )
    device: Device = Field(default="auto", description="where it is trained")
    run_id: str = ""
    """Identifier of the stored model, known once the question is made."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.corpus_id) == (self.notes is not None):
            raise AuditError("Name a corpus or a file of notes, one of the two.", where="notes")
        return self

    @property
    def folder(self) -> Path:
        """The folder of the training."""
        return self.out or MODELS.place(self.run_id)

    @property
    def notes_path(self) -> Path:
        """The file or folder of notes; notes with other names exist once they are written."""
        return self.notes or CORPORA.get(self.corpus_id).path / f"{self.source}.jsonl"

    @property
    def listed(self) -> Path | None:
        """The `listed.json` of the corpus; patients with a note in it are never held out."""
        notes = self.notes_path
        return None if notes.is_dir() else listed_file(notes)

    def snapshots(self, n_train_tokens: int) -> tuple[int, ...]:
        """Return the steps after which a copy is stored, in order.

        Raises AuditError if one of them is after the last step.
        """
        count = self.settings.steps_of_epochs
        steps = sorted({count(n, n_train_tokens=n_train_tokens) for n in self.snapshot_epochs})
        n_steps = self.settings.steps(n_train_tokens)
        if steps and steps[-1] > n_steps:
            raise AuditError(
                "A snapshot after step {found} was asked for, but the training has {n_steps} "
                "steps.",
                where=WHERE,
                do="Train longer, or ask for earlier snapshots.",
                found=steps[-1],
                n_steps=n_steps,
            )
        return tuple(steps)

    def question(self) -> Question:
        """Return the question; equal questions share one training, which can be resumed.

        This reads every byte of the general model's weights.
        """
        about = {
            "general": compute_model_digest(self.general),
            "settings": self.settings.decisive(),
            "notes": self._identity(),
            "columns": dict(self.columns),
            "snapshot_epochs": self.snapshot_epochs,
        }
        run_id = make_salted_code("pretrain", about)
        return self.with_(run_id=run_id).make_question(
            label=inspect_model(self.general).name,
            device=queue_of(self.device),
            about=[run_id, None if self.out is None else str(self.out)],
        )

    @classmethod
    def read_answer(cls, question: Question) -> tuple[str, ...]:
        """Return the stored model's identifier if the training of this question is finished."""
        run_id, is_own = str(question.order.get("run_id", "")), not question.order.get("out")
        return (run_id,) if is_own and (MODELS.home() / run_id / MODEL).is_dir() else ()

    def help(self) -> None:
        """Learn beside the first process that torchrun started; only the first one answers."""
        from audit.training.pretraining import train

        question = self.question()
        if not self.read_answer(question):
            train(self.with_(run_id=question.order["run_id"]))

    def _identity(self) -> JSON:
        """Return values that identify the notes: a stored corpus never changes, a file may."""
        if self.notes is not None:
            return read_file_states(self.notes, where="notes")
        listed = listed_file(CORPORA.get(self.corpus_id).path / PRIVATE)
        seed = OTHER_NAMES_SEED if self.source == "other_names" else None
        names = read_listed(listed).digest if listed else None
        return [self.corpus_id, self.source, seed, names]

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Train, or resume a training, and return its identifier."""
        from audit.training.pretraining import train

        def tell(point: LossPoint) -> None:
            if text := point.describe():
                contact.say(text)

        if self.corpus_id and self.source == "other_names":
            contact.say("Writing the same notes with other names.")
            corpus = CORPORA.get(self.corpus_id)
            write_other_names(corpus, seed=OTHER_NAMES_SEED, should_stop=contact.should_stop)
        model = train(self, progress=contact.listen, should_stop=contact.should_stop, on_point=tell)
        if self.settings.held_out_share and model.held_out is None:
            contact.say("No patient could be held out, so no loss was measured.")
        return (self.run_id,)


def make_sibling_task(
    trained: TrainedModel, *, general: Path, n_epochs: float | None = None
) -> PretrainTask:
    """Return the training of a sibling: a model's own recipe on its notes with other names.

    With fewer passes, `n_epochs`, names are harder to find in the sibling, so results of the
    sibling hold for the model too. Raises AuditError unless the model was trained here on the named
    notes of a stored corpus, from that general model, in at least as many passes.
    """
    facts = trained.facts
    if not facts.corpus_id or facts.source != "private":
        raise AuditError(
            "This model was not trained on the named notes of a corpus that is kept here.",
            where="sibling of",
            do="Train a model on a corpus with --source other_names and the hospital's settings.",
        )
    CORPORA.get(facts.corpus_id)  # refused if the corpus no longer exists
    if compute_model_digest(general) != facts.parent_digest:
        raise AuditError(
            "The model was trained from another general model: {name}.",
            where="general",
            do="Choose the general model that it was trained from.",
            name=facts.parent,
        )
    max_passes = facts.settings.epochs(facts.n_steps, n_train_tokens=facts.n_train_tokens)
    if n_epochs is not None and n_epochs > max_passes:
        raise AuditError(
            "The model was trained in {most:.1f} passes; a sibling may not have more.",
            where=WHERE,
            do="Give no more passes than that.",
            most=max_passes,
        )
    settings = facts.settings if n_epochs is None else facts.settings.with_(n_epochs=n_epochs)
    return PretrainTask(
        general=general,
        corpus_id=facts.corpus_id,
        source="other_names",
        settings=settings,
        title=f"{facts.title or trained.run_id}: sibling",
    )


_PRESETS, _CAUSAL_PRESETS = ("small", "clinicalbert", "scratch"), ("adapter", "small", "fresh")
_SMALL_EPOCHS, _SMALL_STEPS = 10, 2_000
SAMPLE_BYTES = 1_000_000
"""Bytes of a file that are read to estimate the tokens of the whole file."""

_SMALL_WIDTH = 256


@dataclass(frozen=True)
class NotesLoad:
    """Amount of text for training: notes with text, and their tokens, including one [SEP] each.

    `is_exact` says whether all text was read; otherwise the numbers are estimated from the first
    million bytes. `free_share` is the share of patients without a listed name, who may be held out.
    """

    n_notes: int
    n_tokens: int
    is_exact: bool
    free_share: float = 1.0


@dataclass(frozen=True)
class TrainingPlan:
    """The length of a training; every token is seen once in `steps_per_epoch` steps."""

    n_steps: int
    n_epochs: float
    steps_per_epoch: float


def list_presets(*, is_causal: bool) -> tuple[str, ...]:
    """Return the codes of the ready-made settings for a kind of model, the usual one first."""
    return _CAUSAL_PRESETS if is_causal else _PRESETS


def choose_preset(code: str, *, parent: ModelSummary, n_tokens: int) -> TrainSettings:
    """Return ready-made settings for a general model and `n_tokens` tokens of notes.

    "clinicalbert" are the paper's settings. "scratch" are the same from fresh weights, with BERT's
    own learning rate (Devlin et al. 2019), and "fresh" those for a causal model. "small" makes a
    few passes over the notes, which a CPU can do, and "adapter" does so with an adapter.
    """
    is_small, is_causal = parent.config.hidden_size <= _SMALL_WIDTH, parent.config.is_causal
    row = TrainSettings(n_tokens=min(128, parent.config.n_positions), is_causal=is_causal)
    if code == "clinicalbert":
        return row
    if code in ("scratch", "fresh"):
        return row.with_(from_scratch=True, learning_rate=3e-4 if is_causal else 1e-4)
    rate = 5e-4 if is_small else FULL_RATE if is_causal else 1e-4
    if code == "adapter":
        row = row.with_(lora_rank=16)
        rate = 2e-3 if is_small else ADAPTER_RATE
    small = row.with_(
        batch=32,
        micro_batch=32,
        n_epochs=_SMALL_EPOCHS,
        held_out_share=0.05,
        learning_rate=rate,
    )
    n_steps = small.steps(n_tokens)
    if n_steps > _SMALL_STEPS:
        n_steps, small = _SMALL_STEPS, small.with_(n_epochs=None, n_steps=_SMALL_STEPS)
    interval = max(1, n_steps // 20)
    return small.with_(evaluate_every=interval, checkpoint_every=max(50, interval))


def measure_notes(path: Path, *, n_notes: int, model: Path) -> NotesLoad:
    """Count a corpus's tokens with a model's tokenizer.

    `path` is a file of `n_notes` JSON lines with a field "text"; the listed patients are read from
    the file beside it.
    """
    listed = listed_file(path)
    free = 1.0 if listed is None else read_listed(listed).free_share
    try:
        with path.open("rb") as file:
            lines, is_exact = file.readlines(SAMPLE_BYTES), not file.read(1)
        texts = [str(json.loads(line)["text"]) for line in lines]
    except (OSError, ValueError, KeyError, TypeError):
        raise make_unreadable_error() from None
    counts = call_limited(_count_tokens, texts, model, place=find_display_name(model))
    share = sum(map(len, lines)) / path.stat().st_size if lines else 1.0
    n_read = sum(count > 0 for count in counts)
    n_tokens = round(sum(counts) / share)
    return NotesLoad(n_read if is_exact else n_notes, n_tokens, is_exact, free)


def _count_tokens(texts: Sequence[str], model: Path) -> list[int]:
    """Return the tokens of each text as a training of the model reads it, without a frame."""
    is_causal, tokenizer = inspect_model(model).config.is_causal, load_tokenizer(model)
    encoder: NoteEncoder = (
        make_framing(tokenizer, TrainSettings(is_causal=True))
        if is_causal
        else SentenceEncoder(tokenizer)
    )
    return [len(encoder.encode(text)[0]) for text in texts]


def make_training_plan(
    settings: TrainSettings, *, parent: ModelSummary, load: NotesLoad
) -> TrainingPlan:
    """Return the length of a training."""
    settings.refuse_longer(parent.config.n_positions)
    n_train = round(load.n_tokens * (1 - min(settings.held_out_share, load.free_share)))
    n_rows, n_steps = settings.n_rows(n_train), settings.steps(n_train)
    if not n_rows:
        raise AuditError(
            "The notes are too short: they do not fill a single row.",
            where="corpus",
            do="Choose shorter rows or more notes.",
        )
    n_epochs = settings.epochs(n_steps, n_train_tokens=n_train)
    return TrainingPlan(n_steps, n_epochs, n_rows / settings.batch)


def find_pair(model: TrainedModel, *, models: Iterable[RegisteredModel]) -> dict[str, str]:
    """Return the identifiers of an audit's pair, in which the trained model is the "hospital".

    "general" is the model from which the training started, "" if it is no longer in the list.
    """
    parent = find_model_by_digest(model.facts.parent_digest, name=model.facts.parent, models=models)
    return {
        "general": parent.model_id if parent else "",
        "hospital": f"{TRAINED_LABEL}/{model.run_id}",
    }


def find_header(model: RegisteredModel) -> str:
    """Return the text before every note that a listed model learned from; "" if none is known."""
    if not model.model_id.startswith(f"{TRAINED_LABEL}/"):
        return ""
    with suppress(AuditError):
        return MODELS.read_folder(model.path.parent).facts.header
    return ""


def find_trained_model(corpus_id: str) -> TrainedModel | None:
    """Return the newest finished model that was trained on a corpus's notes with names."""
    models = (model for model in MODELS.all() if model.facts.corpus_id == corpus_id)
    return next(
        (model for model in models if model.is_whole and model.facts.source == "private"), None
    )
