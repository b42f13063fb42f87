"""The job "pretrain": a general model is trained further on a kept corpus, or on a file of notes.

Torch is imported where a model is trained only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from audit.corpus.kept import CORPORA
from audit.corpus.other_names import write_other_names
from audit.corpus.truth import PRIVATE, listed_file, read_listed
from audit.errors import AuditError
from audit.home import salted_digest
from audit.models.inspect import inspect_model, model_digest
from audit.task import Columns, Contact, Device, Question, Task, queue_of, states_of
from audit.training.config import LossPoint, TrainSettings
from audit.training.kept import MODEL, MODELS, TrainingOrder

_OTHER_NAMES_SEED = 0


class PretrainTask(Task):
    """A training on the notes of a kept corpus, or on a file of notes."""

    job = "pretrain"
    flags: ClassVar = {
        "corpus_id": "--corpus", "columns": "--column", "snapshot_epochs": "--snapshots",
    }  # fmt: skip

    general: Path
    """Directory of the model to start from; of a training from scratch, its shape."""
    settings: TrainSettings = TrainSettings()
    corpus_id: str = Field(default="", description="identifier of a kept corpus")
    source: Literal["private", "public", "other_names"] = Field(
        default="private", description="which notes of the corpus"
    )
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
    """Of the model that is kept; known once the question is asked."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.corpus_id) == (self.notes is not None):
            raise AuditError("Name a corpus or a file of notes, one of the two.", where="notes")
        return self

    @property
    def folder(self) -> Path:
        """Where the training will lie."""
        return self.out or MODELS.place(self.run_id)

    def order(self) -> TrainingOrder:
        """Return what is trained; notes with other names are there once they were written."""
        notes = self.notes or CORPORA.get(self.corpus_id).path / f"{self.source}.jsonl"
        same = ("general", "settings", "title", "columns", "snapshot_epochs", "device")
        return TrainingOrder(
            notes=notes,
            folder=self.folder,
            corpus_id=self.corpus_id,
            source=self.source if self.corpus_id else "file",
            **{name: getattr(self, name) for name in same},
        )

    def question(self) -> Question:
        """Return the question: the same is trained once, and gone on with.

        Reads every byte of the general model's weights.
        """
        about = {
            "general": model_digest(self.general),
            "settings": self.settings.decisive(),
            "notes": self._identity(),
            "columns": dict(self.columns),
            "snapshot_epochs": self.snapshot_epochs,
        }
        run_id = salted_digest(f"pretrain {json.dumps(about, sort_keys=True)}")[:12]
        return self.with_(run_id=run_id).asked(
            label=inspect_model(self.general).name,
            device=queue_of(self.device),
            about=[run_id, None if self.out is None else str(self.out)],
        )

    @classmethod
    def kept(cls, question: Question) -> tuple[str, ...]:
        """Return the identifier of a kept model whose training was asked the same and is over."""
        run_id, is_own = question.order.get("run_id", ""), not question.order.get("out")
        return (run_id,) if is_own and (MODELS.home() / run_id / MODEL).is_dir() else ()

    def _identity(self) -> object:
        """Return what tells the notes apart: a kept corpus never changes, a file may."""
        if self.notes is not None:
            return states_of(self.notes, where="notes")
        listed = listed_file(CORPORA.get(self.corpus_id).path / PRIVATE)
        seed = _OTHER_NAMES_SEED if self.source == "other_names" else None
        names = read_listed(listed).digest if listed else None
        return [self.corpus_id, self.source, seed, names]

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Train, or go on with a training; returns its identifier."""
        from audit.training.masked_lm import train

        def tell(point: LossPoint) -> None:
            if text := point.told():
                contact.say(text)

        if self.corpus_id and self.source == "other_names":
            contact.say("Writing the same notes with other names.")
            corpus = CORPORA.get(self.corpus_id)
            write_other_names(corpus, seed=_OTHER_NAMES_SEED, should_stop=contact.should_stop)
        found = train(
            self.order(), progress=contact.listen, should_stop=contact.should_stop, on_point=tell
        )
        if self.settings.held_out_share and found.held_out is None:
            contact.say("No patient could be held out, so no loss was measured.")
        return (self.run_id,)
