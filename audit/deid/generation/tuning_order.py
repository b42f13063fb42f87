"""What a tuning is asked for, and what comes of it. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from audit.deid.generation.tuning_settings import WHERE, TuningSettings
from audit.errors import AuditError

_MAX_TITLE_CHARS = 200


@dataclass(frozen=True)
class GenerativeOrder:
    """What to tune, on what, where to.

    Attributes
    ----------
    gold
        Files of notes with spans, in any format of `audit.deid.formats`, or folders of such.
    model
        Directory of the causal language model to start from.
    out
        Folder of the tagger: made, or gone on with.
    validation
        Notes whose loss is measured before and after; none is needed.
    device
        "auto", "cpu" or "cuda".
    """

    gold: tuple[Path, ...]
    model: Path
    out: Path
    settings: TuningSettings = field(default_factory=TuningSettings)
    title: str = ""
    validation: tuple[Path, ...] = ()
    device: str = "auto"

    def __post_init__(self) -> None:
        """Check that there is something to learn from, once."""
        if not self.gold:
            raise AuditError("There are no gold notes to train on.", where="gold notes")
        if len(self.title) > _MAX_TITLE_CHARS:
            raise AuditError(
                f"The title is longer than {_MAX_TITLE_CHARS} characters.", where=WHERE
            )


@dataclass(frozen=True)
class GenerativeResult:
    """What came of a tuning.

    Attributes
    ----------
    directory
        The tagger: `tagger.json` and `model`.
    digest
        As `Tagger.digest`.
    n_steps, n_notes, n_windows
        What was learned from.
    n_left_out, n_changed, n_cut
        As in `Examples`.
    loss
        Of the last point, in nats a token.
    first_validation, validation
        Loss of the validation notes before and after; None where there are none.
    """

    directory: Path
    digest: str
    n_steps: int
    n_notes: int
    n_windows: int
    n_left_out: int
    n_changed: int
    n_cut: int
    loss: float
    first_validation: float | None
    validation: float | None
