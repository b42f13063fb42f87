"""The contents of `tagger.json` for taggers that were trained; torch-free."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from audit.deid.find.network.decode import TagScheme
from audit.deid.find.tagger import TaggerFile, unreadable
from audit.shelf import digest_json, fingerprint
from audit.words import Language

MAX_LABELS = 127
"""Tags are numbered in a byte."""


class TaggerFacts(TaggerFile):
    """The facts about a token classifier in `tagger.json`."""

    kind = "token"
    decisive = ("labels", "scheme", "n_tokens", "overlap", "bias", "files")

    scheme: Literal["BIO"] = "BIO"
    n_tokens: int = Field(ge=8, le=32_768)
    """Tokens of a row, special ones included."""
    overlap: int = Field(ge=0)
    """Tokens that a row shares with the row before it."""
    bias: float
    """Added to the scores of all tags but O."""
    files: dict[str, str]
    """Name of each file in `model/` -> its SHA-256."""
    has_rules: bool = False
    """Whether it is combined with the rules, as the default tagger is."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        n_labels = len(set(self.labels))
        if (
            2 * self.overlap > self.n_tokens
            or n_labels != len(self.labels)
            or n_labels > MAX_LABELS
        ):
            raise ValueError("rows overlap by more than half, a label is there twice, or too many")
        return self

    @property
    def tag_scheme(self) -> TagScheme:
        """The tags of its labels."""
        return TagScheme(self.labels)


def file_digests(path: Path) -> dict[str, str]:
    """Return the SHA-256 of every regular file in a folder, by name."""
    try:
        return {
            file_path.name: fingerprint(file_path)
            for file_path in sorted(path.iterdir())
            if file_path.is_file()
        }
    except OSError as error:
        raise unreadable(path, error) from None


GROWTH = 2.0
"""The most tokens of an answer for each token of its note."""
LANGUAGES: tuple[Language, ...] = ("ja", "en")


class GenerativeFacts(TaggerFile):
    """The facts about a generative tagger in `tagger.json`."""

    kind = "generative"
    decisive = ("labels", "n_note_tokens", "growth", "max_tokens", "overlap", "language", "model")

    model: str
    """Digest of the model's files."""
    n_note_tokens: int = Field(default=1_000_000, ge=1)
    """Tokens of the longest window that was trained on."""
    growth: float = Field(default=GROWTH, ge=1)
    """The most tokens of an answer for each token of its note."""
    max_tokens: int = Field(default=32_768, ge=1)
    """The most tokens of prompt, note and copy together."""
    overlap: int = Field(default=200, ge=0)
    """Characters that a window shares with the window before it."""
    language: Language = "ja"
    """The language of tags and instruction."""


_HELD_VERSION = 1  # of the rule that holds a copy to its note


def held_digest(digest: str) -> str:
    """Return the digest of a generative tagger whose copies are held to their notes."""
    return digest_json(["held to the note", _HELD_VERSION, digest])
