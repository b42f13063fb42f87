"""What every `tagger.json` holds: kind, version, digest of what decides the answers; torch-free."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from audit.errors import AuditError
from audit.notes.spans import Span

Tags = tuple[Span, ...]
"""Spans of one text: inside it, sorted, none sharing a character with another."""


class Tagger(Protocol):
    """What finds personal information in texts.

    The answer for a text must not depend on chance: a run that is taken up again after a kill gives
    the same bytes as one that was never stopped. It may depend on the texts beside it, as it does
    by rounding where a model reads several at once.
    """

    @property
    def name(self) -> str:
        """What to call it, as one word without a path."""

    @property
    def digest(self) -> str:
        """SHA-256 of all that decides its answers: rules, or weights and settings."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it can give."""

    def tag(self, texts: Sequence[str]) -> Sequence[Tags]:
        """Return the spans of each text, in the order of the texts."""


def tag_checked(tagger: Tagger, texts: Sequence[str]) -> tuple[Tags, ...]:
    """Ask a tagger and hold it to its promise."""
    return checked_tags(tagger.tag(texts), texts=texts, name=tagger.name)


def checked_tags(
    answers: Iterable[Iterable[Span]], *, texts: Sequence[str], name: str
) -> tuple[Tags, ...]:
    """Return answers that keep a tagger's promise."""
    found = tuple(tuple(spans) for spans in answers)
    if len(found) != len(texts):
        raise ValueError(f"{name}: {len(found)} answers for {len(texts)} texts")
    for text, spans in zip(texts, found, strict=True):
        reached = 0
        for span in spans:
            if span.start < reached:
                raise ValueError(f"{name}: spans are out of order or share a character")
            reached = span.end
        if reached > len(text):
            raise ValueError(f"{name}: a span ends behind its text")
    return found


TAGGER, MODEL = "tagger.json", "model"
MAX_TITLE = 200
MAX_BYTES = 4_000_000
_VERSION = 1

Facts = TypeVar("Facts")


def deciding_digest(content: Mapping[str, Any], *, names: Collection[str]) -> str:
    """Return the SHA-256 of the named fields: those that decide a tagger's answers."""
    decisive = {name: value for name, value in content.items() if name in names}
    text = json.dumps({"version": _VERSION, **decisive}, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def written_facts(content: Mapping[str, Any], *, kind: str, digest: str) -> str:
    """Return the text of the file."""
    whole = {"kind": kind, "version": _VERSION, "digest": digest, **content}
    return json.dumps(whole, ensure_ascii=True, indent=1, allow_nan=False) + "\n"


def read_facts(
    folder: Path, *, kind: str, read: Callable[[dict[str, Any], str], Facts], refused: AuditError
) -> Facts:
    """Return what a folder says of its tagger; reads no weights.

    Parameters
    ----------
    read
        From the fields of the file, and the digest that they must have, to what is known; raises
        ValueError, KeyError, TypeError or AttributeError where they are not understood.
    refused
        To be raised then.
    """
    try:
        with (folder / TAGGER).open("rb") as file:
            content = json.loads(file.read(MAX_BYTES))
        if content.pop("kind") != kind or content.pop("version") != _VERSION:
            raise ValueError("another kind")
        return read(content, content.pop("digest"))
    except OSError as error:
        raise unreadable(folder, error) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise refused from None


def unreadable(path: Path, error: OSError) -> AuditError:
    """Return the error for a tagger whose files cannot be read."""
    return AuditError(
        f"The tagger cannot be read ({error.strerror}).",
        where=path.name,
        do="Choose a folder with tagger.json and model.",
    )
