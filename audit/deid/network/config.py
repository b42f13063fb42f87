"""What a tagger is trained on: files of annotated notes, or synthetic ones; torch-free."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from audit.deid.network.decode import BIO, Scheme, TagScheme
from audit.deid.tagger import (
    MAX_TITLE,
    TAGGER,
    deciding_digest,
    read_facts,
    unreadable,
    written_facts,
)
from audit.errors import AuditCancelled, AuditError
from audit.notes.formats import guess_format, jsonl_line, read_unnamed
from audit.notes.spans import Span, TaggedDocument, tagged
from audit.progress import StopQuestion
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
    n_characters: int = Field(default=2000, ge=1)
    """Most characters of the vocabulary; the rest is unknown, with its kind."""
    n_times: int = Field(default=5, ge=1)
    """How often a character must occur in the notes to be in it."""


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
    scheme: Scheme = Field(default="BIO", description="of tags")

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


KIND = "token"
_DECISIVE = ("labels", "scheme", "n_tokens", "overlap", "bias", "files")


@dataclass(frozen=True)
class TaggerFacts:
    """What is known of a token classifier without its weights.

    Attributes
    ----------
    title
        What its maker called it: untrusted text.
    labels, scheme
        Its tags.
    n_tokens, overlap
        Tokens of a row, special ones included, and how many it shares with the one before.
    bias
        Added to the scores of all tags but O.
    files
        File of `model/` -> SHA-256 of it.
    created
        When it was finished, ISO 8601.
    training
        How and on what it was trained: settings, counts, versions.
    measured
        Its figures on the validation notes.
    """

    title: str
    labels: tuple[str, ...]
    scheme: str
    n_tokens: int
    overlap: int
    bias: float
    files: Mapping[str, str]
    created: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the numbers, once."""
        TagScheme(self.labels, self.scheme)
        if not (8 <= self.n_tokens <= 32_768 and 0 <= 2 * self.overlap <= self.n_tokens):
            raise ValueError("rows of this length are not possible")
        if len(self.title) > MAX_TITLE:
            raise ValueError("the title is too long")

    @property
    def digest(self) -> str:
        """SHA-256 of everything that decides the answers."""
        return deciding_digest(asdict(self), names=_DECISIVE)

    def to_json(self) -> str:
        """Return the text of the file."""
        return written_facts(asdict(self), kind=KIND, digest=self.digest)


def read_tagger_file(path: Path) -> TaggerFacts:
    """Return what a folder says of its token classifier; reads no weights."""
    where = f"{path.name}/{TAGGER}"
    refused = AuditError("This file does not describe a token classifier.", where=where)
    return read_facts(path, kind=KIND, read=_facts, refused=refused)


def _facts(content: dict[str, Any], digest: str) -> TaggerFacts:
    checked = {
        "labels": tuple(map(str, content["labels"])),
        "scheme": str(content.get("scheme", BIO)),
        "n_tokens": int(content["n_tokens"]),
        "overlap": int(content["overlap"]),
        "bias": float(content["bias"]),
        "files": {str(name): str(one) for name, one in content["files"].items()},
    }
    facts = TaggerFacts(**content | checked)
    if facts.digest != digest:
        raise ValueError("another digest")
    return facts


def file_digests(path: Path) -> dict[str, str]:
    """Return the SHA-256 of every plain file of a folder, by name."""
    try:
        return {one.name: fingerprint(one) for one in sorted(path.iterdir()) if one.is_file()}
    except OSError as error:
        raise unreadable(path, error) from None


MAX_SYNTHETIC = 1_000_000
_VALIDATION_SHARE = 0.1
_MOST_VALIDATION = 1000
_ASK_EVERY = 50
_WHERE = "annotated notes"


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
                where=_WHERE,
                do="Give notes of two patients or more, or validation notes of their own.",
            )
        if not any(document.spans for document in self.train):
            raise AuditError("No note holds a span: there is nothing to learn.", where=_WHERE)

    @property
    def digest(self) -> str:
        """SHA-256 of all notes and spans, in their order."""
        return notes_digest((*self.train, *self.validation), mark=len(self.train))


def notes_digest(documents: Iterable[TaggedDocument], *, mark: int = 0) -> str:
    """Return the SHA-256 of notes and spans, in their order; `mark` tells sets apart."""
    found = hashlib.sha256(f"{mark}\n".encode())
    for document in documents:
        found.update(jsonl_line(document).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def read_gold(path: Path) -> tuple[TaggedDocument, ...]:
    """Return the annotated notes of a file or a folder, in any format of `audit.notes.formats`."""
    try:
        paths = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
        files = {one.name: one.read_bytes() for one in paths if not one.name.startswith(".")}
    except OSError as error:
        raise AuditError(f"They cannot be read ({error.strerror}).", where=_WHERE) from None
    documents = read_unnamed(files, form=guess_format(files), what=_WHERE)
    if not documents:
        raise AuditError("There is no note.", where=_WHERE)
    return documents


def synthetic(
    n: int,
    *,
    seed: int,
    languages: Sequence[str],
    is_held_out: bool = False,
    should_stop: StopQuestion = lambda: False,
) -> Iterator[TaggedDocument]:
    """Yield synthetic notes, as many of each language, in turn; of held-out styles if asked."""
    from audit.deid.synthetic import HELD_OUT_STYLES, TRAIN_STYLES, synthetic_notes

    styles = HELD_OUT_STYLES if is_held_out else TRAIN_STYLES
    known = [language for language in languages if language in styles]
    for number, language in enumerate(known):
        share = n // len(known) + (number < n % len(known))
        notes = synthetic_notes(share, seed=seed, language=language, styles=styles[language])
        for i, note in enumerate(notes):
            if i % _ASK_EVERY == 0 and should_stop():
                raise AuditCancelled
            yield note.named(f"{language}/{note.doc_id}")


def split_off(
    documents: Sequence[TaggedDocument],
    *,
    seed: int,
    share: float = _VALIDATION_SHARE,
    most: int = _MOST_VALIDATION,
) -> Material:
    """Keep the notes of a share of the patients apart, to measure on.

    Parameters
    ----------
    most
        No more notes than this, unless one patient has them.
    """
    patients = sorted({document.patient for document in documents})
    order = generator(seed, "tagger validation").permutation(len(patients))
    n_notes = dict.fromkeys(patients, 0)
    for document in documents:
        n_notes[document.patient] += 1
    wanted = min(most, max(1, round(share * len(documents))))
    kept: set[tuple[int, str]] = set()
    n = 0
    for place in order[: len(patients) - 1]:
        if n >= wanted:
            break
        kept.add(patients[place])
        n += n_notes[patients[place]]
    return Material(
        tuple(d for d in documents if d.patient not in kept),
        tuple(d for d in documents if d.patient in kept),
    )


def with_mixed_lines(
    documents: Sequence[TaggedDocument], *, seed: int
) -> tuple[TaggedDocument, ...]:
    """Return notes made of the lines of two others each, in any order: many layouts out of few.

    A line break inside a span is none here. There are as many as were given.
    """
    made = []
    for number, document in enumerate(documents):
        rng = generator(seed, "mixed lines", number)
        other = documents[int(rng.integers(len(documents)))]
        lines = [*_lines(document), *_lines(other)]
        order = rng.permutation(len(lines))[: max(1, len(lines) // 2)]
        text, spans = "", list[Span]()
        for place in order:
            line = lines[place]
            spans += [Span(s.start + len(text), s.end + len(text), s.label) for s in line.spans]
            text += line.text
        made.append(tagged(f"mixed/{document.doc_id}", text=text, spans=spans))
    return tuple(made)


def _lines(document: TaggedDocument) -> list[TaggedDocument]:
    found = []
    start = 0
    for line in document.text.splitlines(keepends=True):
        end = start + len(line)
        found.append((start, end))
        start = end
    joined: list[tuple[int, int]] = []
    for start, end in found:
        is_inside = any(s.start < start < s.end for s in document.spans)
        if is_inside and joined:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return [
        tagged(
            "",
            text=document.text[start:end],
            spans=[
                Span(s.start - start, s.end - start, s.label)
                for s in document.spans
                if start <= s.start < end
            ],
        )
        for start, end in joined
    ]
