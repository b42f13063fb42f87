"""The file `tagger.json` of a generative tagger: what it is, beside its model; torch-free.

A tagger is a folder with `tagger.json` and `model/`, an ordinary causal language model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from audit.deid.generation.pieces import GROWTH, Room
from audit.deid.generation.tuning_settings import LANGUAGES
from audit.deid.labels import TYPES
from audit.deid.tagger_envelope import MAX_TITLE, TAGGER, deciding_digest, read_facts, written_facts
from audit.errors import AuditError

KIND = "generative"
_DECISIVE = ("labels", "n_note_tokens", "growth", "max_tokens", "overlap", "language", "model")


@dataclass(frozen=True)
class GenerativeFacts:
    """What is known of a generative tagger without its weights.

    Attributes
    ----------
    title
        What its maker called it: untrusted text.
    labels
        That it was taught.
    n_note_tokens, growth
        Longest window of a note, and tokens of an answer for one of its note, as in `Room`.
    max_tokens
        Prompt, note and copy together.
    overlap
        Characters that a window shares with the one before it.
    language
        Of tags and instruction.
    model
        Digest of the model's files.
    created
        When it was finished, ISO 8601.
    training
        How and on what it was tuned: settings, counts, versions.
    measured
        Losses.
    """

    title: str
    model: str
    labels: tuple[str, ...] = TYPES
    n_note_tokens: int = 1_000_000
    growth: float = GROWTH
    max_tokens: int = 32_768
    overlap: int = 200
    language: str = "ja"
    created: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the numbers, once."""
        Room(self.n_note_tokens, self.growth)
        if self.language not in LANGUAGES or self.overlap < 0 or self.max_tokens < 1:
            raise ValueError("windows or language are not possible")
        if len(self.title) > MAX_TITLE:
            raise ValueError("the title is too long")

    @property
    def digest(self) -> str:
        """SHA-256 of everything that decides the answers."""
        return deciding_digest(asdict(self), names=_DECISIVE)

    def to_json(self) -> str:
        """Return the text of the file."""
        return written_facts(asdict(self), kind=KIND, digest=self.digest)


def read_generative_file(folder: Path) -> GenerativeFacts:
    """Return what a folder says of its generative tagger; reads no weights.

    Raises
    ------
    AuditError
        If there is none, or the file is not understood.
    """
    where = f"{folder.name}/{TAGGER}"
    refused = AuditError("This file does not describe a generative tagger.", where=where)
    return read_facts(folder, kind=KIND, read=_facts, refused=refused)


def _facts(content: dict[str, Any], digest: str) -> GenerativeFacts:
    checked = {
        "title": str(content["title"]),
        "labels": tuple(map(str, content["labels"])),
        "n_note_tokens": int(content["n_note_tokens"]),
        "growth": float(content["growth"]),
        "max_tokens": int(content["max_tokens"]),
        "overlap": int(content["overlap"]),
        "model": str(content["model"]),
    }
    facts = GenerativeFacts(**content | checked)
    if facts.digest != digest:
        raise ValueError("another digest")
    return facts
