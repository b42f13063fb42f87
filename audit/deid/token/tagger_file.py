"""The file `tagger.json`: what a token classifier is, beside its model; torch-free.

A tagger is a folder with `tagger.json` and `model/`. The digest in the file is that of everything
that decides its answers, the weights included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from audit.deid.tagger_envelope import (
    MAX_TITLE,
    TAGGER,
    deciding_digest,
    read_facts,
    unreadable,
    written_facts,
)
from audit.deid.token.scheme import BIO, TagScheme
from audit.errors import AuditError

KIND = "token"
_CHUNK_BYTES = 1 << 20
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
    """Return what a folder says of its token classifier; reads no weights.

    Raises
    ------
    AuditError
        If there is none, or the file is not understood.
    """
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
    """Return the SHA-256 of every plain file of a folder, by name.

    Raises
    ------
    AuditError
        If one cannot be read.
    """
    try:
        return {one.name: _digest(one) for one in sorted(path.iterdir()) if one.is_file()}
    except OSError as error:
        raise unreadable(path, error) from None


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()
