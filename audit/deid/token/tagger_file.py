"""The file `tagger.json`: what a token classifier is, beside its model; torch-free.

A tagger is a folder with `tagger.json` and `model/`. The digest in the file is that of everything
that decides its answers, the weights included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from audit.deid.token.scheme import BIO, TagScheme
from audit.errors import AuditError

TAGGER, MODEL = "tagger.json", "model"
KIND = "token"
_VERSION = 1
_MAX_BYTES = 4_000_000
_CHUNK_BYTES = 1 << 20
_MAX_TITLE = 200
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
        if len(self.title) > _MAX_TITLE:
            raise ValueError("the title is too long")

    @property
    def digest(self) -> str:
        """SHA-256 of everything that decides the answers."""
        content = {name: value for name, value in asdict(self).items() if name in _DECISIVE}
        text = json.dumps({"version": _VERSION, **content}, sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def to_json(self) -> str:
        """Return the text of the file."""
        content = {"kind": KIND, "version": _VERSION, "digest": self.digest, **asdict(self)}
        return json.dumps(content, ensure_ascii=True, indent=1, allow_nan=False) + "\n"


def read_tagger_file(path: Path) -> TaggerFacts:
    """Return what a folder says of its token classifier; reads no weights.

    Raises
    ------
    AuditError
        If there is none, or the file is not understood.
    """
    where = f"{path.name}/{TAGGER}"
    try:
        with (path / TAGGER).open("rb") as file:
            content = json.loads(file.read(_MAX_BYTES))
        if content.pop("kind") != KIND or content.pop("version") != _VERSION:
            raise ValueError("another kind")
        digest = content.pop("digest")
        facts = TaggerFacts(
            **content
            | {
                "labels": tuple(map(str, content["labels"])),
                "scheme": str(content.get("scheme", BIO)),
                "n_tokens": int(content["n_tokens"]),
                "overlap": int(content["overlap"]),
                "bias": float(content["bias"]),
                "files": {str(name): str(one) for name, one in content["files"].items()},
            }
        )
        if facts.digest != digest:
            raise ValueError("another digest")
    except OSError as error:
        raise AuditError(
            f"The tagger cannot be read ({error.strerror}).",
            where=path.name,
            do="Choose a folder with tagger.json and model.",
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AuditError("This file does not describe a token classifier.", where=where) from None
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
        raise AuditError(
            f"The tagger cannot be read ({error.strerror}).",
            where=path.name,
            do="Choose a folder with tagger.json and model.",
        ) from None


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()
