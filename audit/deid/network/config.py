"""What a tagger is trained on: files of annotated notes; torch-free."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from audit.deid.network.decode import TagScheme
from audit.deid.tagger import TaggerFile, unreadable
from audit.errors import AuditError
from audit.notes.formats import jsonl_line
from audit.notes.spans import TaggedDocument
from audit.rng import generator
from audit.shelf import fingerprint
from audit.task import Record
from audit.training.config import LoopSettings, Rate

WHERE = "tagger settings"
HiddenShare = Annotated[float, Field(ge=0, lt=1)]


class Shape(Record):
    """The shape of the small network of characters that is trained from scratch."""

    width: int = Field(default=128, ge=1, le=4096)
    """Numbers that stand for a character between two layers."""
    dilations: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(1, 2, 4, 8, 16, 32, 1, 1), min_length=1, max_length=64
    )
    """Of each layer: how far its neighbours stand; their sum is how far a character sees."""


class TaggerSettings(LoopSettings):
    """How a token classifier is trained."""

    n_tokens: int = Field(
        default=192, ge=8, le=32_768, description="tokens of a row, special ones included"
    )
    overlap: int = Field(default=48, ge=0, description="tokens that rows of a long note share")
    """When notes are tagged by an encoder; a row of training begins anywhere."""
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
        default=4, ge=1, le=1000,
        description="measurements on the validation notes; the best weights are kept",
    )  # fmt: skip
    recall_weight: float = Field(
        default=2.0, ge=0.1, le=10, description="how much more recall counts than precision"
    )
    """The beta of the F measure by which weights and bias are chosen."""
    biases: tuple[float, ...] = Field(default=(0.0, 0.5, 1.0, 1.5, 2.0, 3.0), min_length=1)
    """What may be added to the scores of all tags but O; the best is chosen."""

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        if self.overlap > self.n_tokens // 2:
            raise AuditError("The rows overlap by more than half.", where=WHERE)
        return self

    @property
    def highest_rate(self) -> float:
        """As it is set."""
        return self.learning_rate

    def rate_factor(self, step: int, *, n_steps: int) -> float:
        """Return the share of the highest learning rate in a step, 1 to `n_steps`."""
        n_warmup = max(1, round(self.warmup_share * n_steps))
        left = (n_steps - step + 1) / max(1, n_steps - n_warmup + 1)
        return min(step / n_warmup, left, 1.0)


class TaggerFacts(TaggerFile):
    """What is known of a token classifier without its weights."""

    kind = "token"
    decisive = ("labels", "scheme", "n_tokens", "overlap", "bias", "files")

    scheme: Literal["BIO"] = "BIO"
    n_tokens: int = Field(ge=8, le=32_768)
    """Of a row, special ones included."""
    overlap: int = Field(ge=0)
    """Tokens that a row shares with the one before."""
    bias: float
    """Added to the scores of all tags but O."""
    files: dict[str, str]
    """File of `model/` -> SHA-256 of it."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if 2 * self.overlap > self.n_tokens or len(set(self.labels)) != len(self.labels):
            raise ValueError("the rows overlap by more than half, or a label is there twice")
        return self

    @property
    def tag_scheme(self) -> TagScheme:
        """Its tags."""
        return TagScheme(self.labels)


def file_digests(path: Path) -> dict[str, str]:
    """Return the SHA-256 of every plain file of a folder, by name."""
    try:
        return {one.name: fingerprint(one) for one in sorted(path.iterdir()) if one.is_file()}
    except OSError as error:
        raise unreadable(path, error) from None


_MOST_VALIDATION = 1000
NOTES = "annotated notes"


@dataclass(frozen=True)
class Material:
    """Annotated notes to learn from and to measure on."""

    train: tuple[TaggedDocument, ...]
    validation: tuple[TaggedDocument, ...]

    def __post_init__(self) -> None:
        """Check that there is something of both, once."""
        if not self.train or not self.validation:
            raise AuditError(
                "There are too few notes to train on some and measure on others.",
                where=NOTES,
                do="Give notes of two patients or more, or validation notes of their own.",
            )
        if not any(document.spans for document in self.train):
            raise AuditError("No note holds a span: there is nothing to learn.", where=NOTES)

    @property
    def digest(self) -> str:
        """SHA-256 of all notes and spans, in their order."""
        found = hashlib.sha256(f"{len(self.train)}\n".encode())
        for document in (*self.train, *self.validation):
            found.update(jsonl_line(document).encode("utf-8", "surrogatepass"))
        return found.hexdigest()


def split_off(documents: Sequence[TaggedDocument], *, seed: int, share: float = 0.1) -> Material:
    """Keep the notes of a share of the patients apart, to measure on; some thousand at most."""
    sizes = Counter(document.patient for document in documents)
    patients = sorted(sizes)
    order = generator(seed, "tagger validation").permutation(len(patients))
    wanted = min(_MOST_VALIDATION, max(1, round(share * len(documents))))
    kept: set[tuple[int, str]] = set()
    for place in order[:-1]:
        if sum(sizes[patient] for patient in kept) >= wanted:
            break
        kept.add(patients[place])
    return Material(
        tuple(d for d in documents if d.patient not in kept),
        tuple(d for d in documents if d.patient in kept),
    )
