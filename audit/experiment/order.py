"""The order of an experiment: notes, models, exposures, attacks and seed, as plain JSON."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from audit.curation.order import CorpusOrder
from audit.errors import AuditError
from audit.request import GenerationSettings, PosteriorSettings
from audit.training.settings import TrainSettings, settings_from_json

MAX_EPOCHS = 10_000
PAPER_EPOCHS = (1.0, 2.0, 5.0, 10.0, 20.0)
_PATHS = ("notes", "general", "general_notes")
_DEVICES = ("auto", "cpu", "cuda")

TRAINING = TrainSettings(
    n_epochs=PAPER_EPOCHS[-1],
    schedule="constant",
    warmup_share=0.01,
    held_out_share=0.0,
    evaluate_every=1_000_000,
    checkpoint_every=50,
)
"""Of M_hospital: a constant rate, so that snapshots along one run are models of their own; no
note is held out, since each may hold a member's only mention."""
GENERAL_TRAINING = TrainSettings(
    n_steps=1000,
    schedule="constant",
    warmup_share=0.05,
    held_out_share=0.02,
    evaluate_every=100,
    checkpoint_every=50,
)
"""Of M_general on notes without these names, where there are such."""


@dataclass(frozen=True)
class ExperimentOrder:
    """What an experiment is to be made of.

    Attributes
    ----------
    notes
        Notes with placeholders, which become dummy identities (section 3.2).
    general
        Directory of M_general, or of what it is trained from.
    general_notes
        Notes without these names on which M_general is trained first; None: it is taken as it is.
    columns
        (field of a note, name of its column), for headings that are not known.
    sample
        How many notes to draw at random (the paper's 1,000,000); None takes all.
    epochs
        How often M_hospital has read D_private when it is audited, ascending.
    training, general_training
        How M_hospital and M_general are trained; `training.n_epochs` follows `epochs`.
    generation, posterior
        What the attacker may try in scenarios 1 and 2.
    canary_counts, n_canaries
        As in `CorpusOrder`; none by default.
    single_tokens
        Whether only names count whose parts are single tokens of M_general (section 3.4).
    seed
        Of identities, controls, trainings and attacks.
    device
        "auto", "cpu" or "cuda"; no part of the question.
    """

    notes: Path
    general: Path
    general_notes: Path | None = None
    columns: tuple[tuple[str, str], ...] = ()
    sample: int | None = None
    epochs: tuple[float, ...] = PAPER_EPOCHS
    training: TrainSettings = TRAINING
    general_training: TrainSettings = GENERAL_TRAINING
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    posterior: PosteriorSettings = field(default_factory=PosteriorSettings)
    canary_counts: tuple[int, ...] = ()
    n_canaries: int = 10
    single_tokens: bool = True
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        """Check every choice, once; settings of other rooms check themselves."""
        numbers = all(
            isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n)
            for n in self.epochs
        )
        rising = numbers and list(self.epochs) == sorted(set(self.epochs))
        if not self.epochs or not rising or not 0 < self.epochs[0] <= self.epochs[-1] <= MAX_EPOCHS:
            raise AuditError(
                "Epochs are rising numbers above 0.", where="epochs", do="For example 1,2,5,10,20."
            )
        if self.device not in _DEVICES:
            raise AuditError("is unknown.", where="device", do=f"One of {', '.join(_DEVICES)}.")
        if self.general_training.from_scratch:
            raise AuditError("M_general is never trained from scratch.", where="from scratch")
        object.__setattr__(self, "epochs", tuple(float(n) for n in self.epochs))
        hospital = replace(self.training, seed=self.seed, n_epochs=self.epochs[-1])
        general = replace(self.general_training, seed=self.seed)
        object.__setattr__(self, "training", hospital)
        object.__setattr__(self, "general_training", general)
        self.corpus_order()

    def corpus_order(self) -> CorpusOrder:
        """Return the order of D_private, D_public and the candidate list."""
        return CorpusOrder(
            notes=self.notes,
            columns=self.columns,
            seed=self.seed,
            title="Experiment",
            sample=self.sample,
            canary_counts=self.canary_counts,
            n_canaries=self.n_canaries,
            tokenizer=self.general if self.single_tokens else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the order as plain values; `order_from_json` reads it."""
        plain = asdict(self)
        for name in _PATHS:
            plain[name] = None if plain[name] is None else str(plain[name])
        lists = {name: list(plain[name]) for name in ("epochs", "canary_counts")}
        return plain | lists | {"columns": [list(pair) for pair in self.columns]}

    def digest(self) -> str:
        """Return the digest of everything but the device."""
        return self._digest(without=("device",))

    def trained_digest(self) -> str:
        """Return the digest of what decides the corpus and the models; audits have their own."""
        return self._digest(without=("device", "generation", "posterior"))

    def _digest(self, *, without: tuple[str, ...]) -> str:
        plain = self.to_json() | dict.fromkeys(without, "")
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def order_from_json(content: Mapping[str, Any]) -> ExperimentOrder:
    """Return the order that `ExperimentOrder.to_json` wrote.

    Raises
    ------
    AuditError
        If it is none.
    """
    try:
        values = dict(content)
        if set(values) != {each.name for each in fields(ExperimentOrder)}:
            raise ValueError
        for name in _PATHS:
            values[name] = None if values[name] is None else Path(values[name])
        for name in ("training", "general_training"):
            values[name] = settings_from_json(values[name])
        values["generation"] = GenerationSettings(**values["generation"])
        values["posterior"] = PosteriorSettings(**values["posterior"])
        values["columns"] = tuple((str(one), str(other)) for one, other in values["columns"])
        values["epochs"] = tuple(values["epochs"])
        values["canary_counts"] = tuple(values["canary_counts"])
        return ExperimentOrder(**values)
    except (ValueError, TypeError, AttributeError):
        raise AuditError("The order of the experiment cannot be read.", where="order") from None
