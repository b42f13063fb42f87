"""The protocol of taggers, and their file `tagger.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, Self

from pydantic import Field, JsonValue

from audit.errors import AuditError
from audit.foreign import open_regular
from audit.notes.spans import TYPES, Span, Tags
from audit.shelf import digest_json
from audit.task import Record, canonical_json


class Tagger(Protocol):
    """Finds personal information in texts.

    The answer for a text must not depend on chance: a run that is continued after a kill gives the
    same bytes as one that was never stopped. The answer may depend on the texts beside it, since a
    model that reads several at once rounds differently.
    """

    @property
    def name(self) -> str:
        """The name of the tagger: one word without a path."""

    @property
    def digest(self) -> str:
        """SHA-256 of everything that decides the answers: rules, or weights and settings."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the tagger can give."""

    def tag(self, texts: Sequence[str]) -> Sequence[Tags]:
        """Return the spans of each text, in the order of the texts."""


def is_light(tagger: Tagger) -> bool:
    """Whether a tagger can be sent to several processes: it is small and needs no torch."""
    return bool(getattr(tagger, "is_light", False))


def tag_and_check(tagger: Tagger, texts: Sequence[str]) -> tuple[Tags, ...]:
    """Return a tagger's spans of each text; ValueError if they break the protocol."""
    return check_tags(tagger.tag(texts), texts=texts, name=tagger.name)


def check_tags(
    answers: Iterable[Iterable[Span]], *, texts: Sequence[str], name: str
) -> tuple[Tags, ...]:
    """Return answers as tags; ValueError if they are not what `Tagger.tag` must return."""
    tags_of_texts = tuple(map(tuple, answers))
    if len(tags_of_texts) != len(texts):
        raise ValueError(f"{name}: {len(tags_of_texts)} answers for {len(texts)} texts")
    for text, spans in zip(texts, tags_of_texts, strict=True):
        starts = [*(span.start for span in spans), len(text)]
        if any(span.end > start for span, start in zip(spans, starts[1:], strict=True)):
            raise ValueError(f"{name}: spans share a character, are out of order or behind a text")
    return tags_of_texts


TAGGER, MODEL = "tagger.json", "model"
MAX_TITLE = 200
MAX_BYTES = 4_000_000
TAGGER_VERSION = 1
"""The version of `tagger.json`."""


class TaggerFile(Record):
    """The file `tagger.json`: everything about a trained tagger except its weights."""

    kind: ClassVar[str]
    decisive: ClassVar[tuple[str, ...]]
    """Fields that decide the answers."""

    title: str = Field(default="", max_length=MAX_TITLE)
    """The title that its maker chose: untrusted text."""
    labels: tuple[str, ...] = Field(default=TYPES, min_length=1)
    created: str = ""
    """When the training was finished, ISO 8601."""
    training: dict[str, JsonValue] = Field(default={})
    """How and on what the tagger was trained: settings, counts, versions."""
    measured: dict[str, JsonValue] = Field(default={})
    """Figures or losses on the validation notes."""

    def digest(self) -> str:
        """SHA-256 of everything that decides the answers."""
        content = {name: value for name, value in self.plain().items() if name in self.decisive}
        return digest_json({"version": TAGGER_VERSION, **content})

    def file(self) -> bytes:
        """Return the bytes of the file."""
        head = {"kind": self.kind, "version": TAGGER_VERSION, "digest": self.digest()}
        text = json.dumps(head | self.plain(), ensure_ascii=True, indent=1, allow_nan=False)
        return f"{text}\n".encode("ascii")

    @classmethod
    def of_folder(cls, folder: Path) -> Self:
        """Return the facts in a folder's `tagger.json`; reads no weights.

        Raises
        ------
        AuditError
            If there is no such file, or it describes no tagger of this kind.
        """
        try:
            with open_regular(folder / TAGGER) as file:
                content = json.loads(file.read(MAX_BYTES))
            head = [content.pop(name) for name in ("kind", "version", "digest")]
            facts = cls.read(canonical_json(content), where=TAGGER)
            if head != [cls.kind, TAGGER_VERSION, facts.digest()]:
                raise ValueError("another kind, or another digest")
        except OSError as error:
            raise unreadable(folder, error) from None
        except (AuditError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise AuditError(
                "This file does not describe a tagger of this kind.",
                where="{name}/{tagger}",
                name=folder.name,
                tagger=TAGGER,
            ) from None
        return facts


def unreadable(path: Path, error: OSError) -> AuditError:
    """Return the error for a tagger whose files cannot be read."""
    return AuditError(
        "The tagger cannot be read ({strerror}).",
        where=path.name,
        do="Choose a folder with tagger.json and model.",
        strerror=error.strerror,
    )
