"""What a training is asked for, and what comes of it. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from audit.errors import AuditError
from audit.training.kept_models import SOURCES
from audit.training.settings import WHERE, TrainSettings

_MAX_TITLE_CHARS = 200


@dataclass(frozen=True)
class TrainOrder:
    """What to train, on what, where to.

    Attributes
    ----------
    general
        Directory of the model to start from; of a training from scratch, its shape.
    notes
        Files or folders that `audit.corpora.notes.open_notes` reads, in this order.
    out
        Folder of the training: made, or gone on with.
    settings
        How.
    title
        For the list of trained models.
    source, corpus_id
        Where the notes come from, as in `TrainingFacts`.
    columns
        Field of a note -> name of its column, for names that are not known.
    token_store
        Folder where tokens are kept for other trainings on the same notes; None: in `out`.
    listed
        The corpus's `listed.json`: patients with a note in it are never held out. None: anybody
        may be.
    snapshot_steps, snapshot_epochs
        After which a copy is kept, as `model-<step>`; best with the schedule "constant".
    device
        "auto", "cpu" or "cuda".
    """

    general: Path
    notes: tuple[Path, ...]
    out: Path
    settings: TrainSettings = field(default_factory=TrainSettings)
    title: str = ""
    source: str = "file"
    corpus_id: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    token_store: Path | None = None
    listed: Path | None = None
    snapshot_steps: tuple[int, ...] = ()
    snapshot_epochs: tuple[float, ...] = ()
    device: str = "auto"

    def __post_init__(self) -> None:
        if not self.notes:
            raise AuditError("There are no notes to train on.", where="notes")
        if self.source not in SOURCES:
            raise AuditError(f"`source` must be one of: {', '.join(SOURCES)}.", where=WHERE)
        if len(self.title) > _MAX_TITLE_CHARS:
            raise AuditError(
                f"The title is longer than {_MAX_TITLE_CHARS} characters.", where=WHERE
            )
        if any(not step > 0 for step in (*self.snapshot_steps, *self.snapshot_epochs)):
            raise AuditError("A snapshot comes after the first step.", where=WHERE)

    def snapshots(self, n_train_tokens: int) -> tuple[int, ...]:
        """Return the steps after which a copy is kept, in order.

        Raises
        ------
        AuditError
            If one comes after the last step.
        """
        steps = {
            self.settings.steps_of_epochs(n, n_train_tokens=n_train_tokens)
            for n in self.snapshot_epochs
        }
        found = tuple(sorted(steps | set(self.snapshot_steps)))
        n_steps = self.settings.steps(n_train_tokens)
        if found and found[-1] > n_steps:
            raise AuditError(
                f"A snapshot after step {found[-1]} was asked for, but the training has {n_steps} "
                "steps.",
                where=WHERE,
                do="Train longer, or ask for earlier snapshots.",
            )
        return found


@dataclass(frozen=True)
class Snapshot:
    """A copy of the model along the way.

    Attributes
    ----------
    step, n_epochs
        After how many steps, and how often every token had been seen.
    path
        Its model directory.
    """

    step: int
    n_epochs: float
    path: Path


@dataclass(frozen=True)
class TrainResult:
    """What came of a training.

    Attributes
    ----------
    run_dir, model_dir
        Its folder, and the model in it.
    n_steps, n_epochs
        Steps, and how often every token was seen.
    loss
        Training loss of the last point, in nats a token.
    first_held_out, held_out, unigram_loss
        Held-out loss before the first step and after the last, and of guessing by frequency; None
        where nothing was held out.
    snapshots
        In order.
    """

    run_dir: Path
    model_dir: Path
    n_steps: int
    n_epochs: float
    loss: float
    first_held_out: float | None
    held_out: float | None
    unigram_loss: float | None
    snapshots: tuple[Snapshot, ...]
