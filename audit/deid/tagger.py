"""What every `tagger.json` holds: kind, version, digest of what decides the answers; torch-free."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from pydantic import Field

from audit.errors import AuditError
from audit.notes.spans import TYPES, Span
from audit.task import Record, canonical

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


class TaggerFile(Record):
    """The file `tagger.json`: what is known of a trained tagger without its weights."""

    kind: ClassVar[str]
    decisive: ClassVar[tuple[str, ...]]
    """Fields that decide the answers."""

    title: str = Field(default="", max_length=MAX_TITLE)
    """What its maker called it: untrusted text."""
    labels: tuple[str, ...] = Field(default=TYPES, min_length=1)
    created: str = ""
    """When it was finished, ISO 8601."""
    training: dict[str, Any] = Field(default={})
    """How and on what it was trained: settings, counts, versions."""
    measured: dict[str, Any] = Field(default={})
    """Figures or losses of the validation notes."""

    def digest(self) -> str:
        """SHA-256 of everything that decides the answers."""
        content = {name: value for name, value in self.plain().items() if name in self.decisive}
        text = json.dumps({"version": _VERSION, **content}, sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def file(self) -> bytes:
        """Return the bytes of the file."""
        head = {"kind": self.kind, "version": _VERSION, "digest": self.digest()}
        text = json.dumps(head | self.plain(), ensure_ascii=True, indent=1, allow_nan=False)
        return f"{text}\n".encode("ascii")

    @classmethod
    def of_folder(cls, folder: Path) -> Self:
        """Return what a folder says of its tagger; reads no weights.

        Raises
        ------
        AuditError
            If there is no such file, or it is not understood.
        """
        try:
            with (folder / TAGGER).open("rb") as file:
                content = json.loads(file.read(MAX_BYTES))
            head = [content.pop(name) for name in ("kind", "version", "digest")]
            found = cls.read(canonical(content), where=TAGGER)
            if head != [cls.kind, _VERSION, found.digest()]:
                raise ValueError("another kind, or another digest")
        except OSError as error:
            raise unreadable(folder, error) from None
        except (AuditError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise AuditError(
                "This file does not describe a tagger of this kind.",
                where=f"{folder.name}/{TAGGER}",
            ) from None
        return found


def unreadable(path: Path, error: OSError) -> AuditError:
    """Return the error for a tagger whose files cannot be read."""
    return AuditError(
        f"The tagger cannot be read ({error.strerror}).",
        where=path.name,
        do="Choose a folder with tagger.json and model.",
    )
