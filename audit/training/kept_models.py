"""Trained models that this installation keeps: what each was trained from, on what, and how far.

Torch-free. A training lies in a folder of the data directory: `training.json` (what it is),
`losses.jsonl` (its curve), `checkpoint/` (where it goes on), `model/` (the model, once whole) and
`model-<step>/` (snapshots).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from audit.errors import AuditError
from audit.home import home_folder
from audit.kept_folders import forget_folder
from audit.private_files import write_whole
from audit.training.settings import TrainSettings, settings_from_json
from audit.training.train_log import last_held_out, read_losses

SOURCES = ("private", "public", "other_names", "file")
TRAINING = "training.json"
MODEL = "model"
_RUN_ID = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True)
class TrainingFacts:
    """What is known of a training before its first step.

    Attributes
    ----------
    title
        What a person called it.
    parent, parent_digest
        Name and digest of the general model that it started from.
    corpus_id
        Of the corpus; "" where the notes were a file.
    source
        Which notes: "private", "public", "other_names" (of the corpus) or "file".
    settings
        How.
    n_steps
        Steps that it takes.
    n_documents, n_train_tokens, n_held_out_documents
        What it is trained on: notes, tokens of them, and notes that were kept out.
    unigram_loss
        What guessing by frequency alone reaches on the held-out tokens, in nats; None without.
    key
        Digest of everything that decides the weights but hardware and libraries.
    precision, device, kernels
        With which numbers, on what, with which kernels.
    versions
        Library -> version.
    created
        When it began, ISO 8601.
    snapshots
        Steps after which a copy is kept.
    n_listed_patients
        Patients who could not be held out, since their notes hold a name of the candidate list; 0
        where nothing was to be held out.
    """

    title: str
    parent: str
    parent_digest: str
    corpus_id: str
    source: str
    settings: TrainSettings
    n_steps: int
    n_documents: int
    n_train_tokens: int
    n_held_out_documents: int
    unigram_loss: float | None
    key: str
    precision: str
    device: str
    kernels: str
    versions: Mapping[str, str]
    created: str
    snapshots: tuple[int, ...] = ()
    n_listed_patients: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain values."""
        return asdict(self) | {"snapshots": list(self.snapshots), "versions": dict(self.versions)}


@dataclass(frozen=True)
class TrainedModel:
    """A training in the list, finished or not.

    Attributes
    ----------
    run_id
        12 hexadecimal digits.
    facts
        What it is.
    is_whole
        Whether it has ended and its model can be used.
    n_steps_done
        Steps of which the curve tells.
    loss, held_out, first_held_out
        The last training loss, the last and the first held-out loss, in nats; None without.
    snapshots
        Steps whose copies are there.
    """

    run_id: str
    facts: TrainingFacts
    is_whole: bool
    n_steps_done: int
    loss: float | None
    held_out: float | None
    first_held_out: float | None
    snapshots: tuple[int, ...] = field(default=())

    @property
    def title(self) -> str:
        """What a person called it."""
        return self.facts.title

    @property
    def n_epochs_done(self) -> float:
        """How often every token has been seen."""
        facts = self.facts
        return facts.settings.epochs(self.n_steps_done, n_train_tokens=facts.n_train_tokens)


def models_dir() -> Path:
    """Return the folder of the trained models, made with mode 700 if it is not there."""
    return home_folder("models")


def run_dir(run_id: str) -> Path:
    """Return the folder of a training, which need not be there.

    Raises
    ------
    AuditError
        If that is no identifier of a training.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise _none()
    return models_dir() / run_id


def trained_models() -> tuple[TrainedModel, ...]:
    """Return every training that is kept, the newest first."""
    found = []
    for path in models_dir().iterdir():
        if _RUN_ID.fullmatch(path.name) and (model := read_training(path)) is not None:
            found.append(model)
    return tuple(sorted(found, key=lambda m: (m.facts.created, m.run_id), reverse=True))


def trained_model(run_id: str) -> TrainedModel:
    """Return one training.

    Raises
    ------
    AuditError
        If none has this identifier.
    """
    model = read_training(run_dir(run_id))
    if model is None:
        raise _none()
    return model


def model_dir(run_id: str, *, step: int | None = None) -> Path:
    """Return the directory of a trained model, or of its snapshot after a step.

    Raises
    ------
    AuditError
        If there is none, or it is not finished.
    """
    folder = run_dir(run_id)
    path = folder / (MODEL if step is None else snapshot_name(step))
    if not path.is_dir():
        if read_training(folder) is None:
            raise _none()
        raise AuditError(
            "This training is not finished.", where="trained model", do="Let its job go on."
        )
    return path


def forget_model(run_id: str) -> None:
    """Remove a training with everything that it holds.

    Raises
    ------
    AuditError
        If none has this identifier, or it cannot be removed.
    """
    refused = AuditError("The training cannot be removed.", where="trained model")
    forget_folder(run_dir(run_id), unknown=_none(), refused=refused)


def snapshot_name(step: int) -> str:
    """Return the name of the folder of the copy that is kept after a step."""
    return f"{MODEL}-{step}"


def read_training(folder: Path) -> TrainedModel | None:
    """Return the training in a folder; None where there is none, or it cannot be read."""
    facts = read_facts(folder)
    if facts is None:
        return None
    points = read_losses(folder)
    measured = [point.held_out for point in points if point.held_out is not None]
    losses = [point.loss for point in points if point.loss is not None]
    return TrainedModel(
        run_id=folder.name,
        facts=facts,
        is_whole=(folder / MODEL).is_dir(),
        n_steps_done=points[-1].step if points else 0,
        loss=losses[-1] if losses else None,
        held_out=last_held_out(points),
        first_held_out=measured[0] if measured else None,
        snapshots=tuple(s for s in facts.snapshots if (folder / snapshot_name(s)).is_dir()),
    )


def read_facts(folder: Path) -> TrainingFacts | None:
    """Return what a folder says of its training; None where it says nothing readable."""
    try:
        value = json.loads((folder / TRAINING).read_text(encoding="utf-8"))
        settings = settings_from_json(value["settings"])
        snapshots = tuple(int(step) for step in value["snapshots"])
        return TrainingFacts(**value | {"settings": settings, "snapshots": snapshots})
    except (OSError, ValueError, KeyError, TypeError, AuditError):
        return None


def write_facts(folder: Path, facts: TrainingFacts) -> None:
    """Write what a training is, whole or not at all."""
    text = json.dumps(facts.to_json(), ensure_ascii=True, indent=1, allow_nan=False)
    write_whole(folder / TRAINING, text.encode("ascii"))


def _none() -> AuditError:
    return AuditError("There is no such training.", where="trained model")
