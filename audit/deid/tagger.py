"""What a tagger is: its promise, its file `tagger.json`, the windows in which it reads a long note.

A span no longer than the overlap of windows lies whole in at least one of them; a span that lies
whole in a window comes out as it was found there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from pydantic import Field

from audit.errors import AuditError
from audit.foreign import open_regular
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


def is_light(tagger: Tagger) -> bool:
    """Whether a tagger can be sent to several processes: it is small and needs no torch."""
    return bool(getattr(tagger, "is_light", False))


def tag_checked(tagger: Tagger, texts: Sequence[str]) -> tuple[Tags, ...]:
    """Ask a tagger and hold it to its promise."""
    return checked_tags(tagger.tag(texts), texts=texts, name=tagger.name)


def checked_tags(
    answers: Iterable[Iterable[Span]], *, texts: Sequence[str], name: str
) -> tuple[Tags, ...]:
    """Return answers that keep a tagger's promise."""
    found = tuple(map(tuple, answers))
    if len(found) != len(texts):
        raise ValueError(f"{name}: {len(found)} answers for {len(texts)} texts")
    for text, spans in zip(texts, found, strict=True):
        starts = [*(span.start for span in spans), len(text)]
        if any(span.end > start for span, start in zip(spans, starts[1:], strict=True)):
            raise ValueError(f"{name}: spans share a character, are out of order or behind a text")
    return found


def without_overlap(spans: Iterable[Span], *, kept: Iterable[Span] = ()) -> Tags:
    """Return spans, the first first, as far as they share no character with one before; sorted."""
    chosen = list(kept)
    taken = {place for span in chosen for place in range(span.start, span.end)}
    for span in spans:
        places = range(span.start, span.end)
        if taken.isdisjoint(places):
            taken.update(places)
            chosen.append(span)
    return tuple(sorted(chosen))


class Window(NamedTuple):
    """Characters `start` to `end` (exclusive) of a note."""

    start: int
    end: int


_BREAKS = ("\n", "。", "．", ". ", "、", " ")
_SEARCH_SHARE = 8


def windows_of(text: str, *, size: int, overlap: int) -> tuple[Window, ...]:
    """Cut a text; the windows, of `size` characters at most, together hold every one of it.

    In the last eighth of a window the best place to end is looked for: behind a line end, a
    sentence, a word. `overlap` characters, at most half of `size`, are shared with the one before.
    """
    windows: list[Window] = []
    start = 0
    while start + size < len(text):
        last = start + size
        found = ((mark, text.rfind(mark, last - size // _SEARCH_SHARE, last)) for mark in _BREAKS)
        end = next((at + len(mark) for mark, at in found if at >= 0), last)
        windows.append(Window(start, end))
        start = end - overlap
    return (*windows, Window(start, len(text))) if text else ()


def from_windows(
    windows: Sequence[Window], spans_of: Sequence[Iterable[Span]], *, n_chars: int
) -> Tags:
    """Put the spans of windows together: from offsets inside each to those in the whole text.

    A span that is cut off by the edge of its window gives way to one that is not; two of one label
    that are both cut off are joined. Of two that disagree, the one with more text of its window
    around it stays.
    """
    best: dict[Span, int] = {}
    for window, spans in zip(windows, spans_of, strict=True):
        for span in spans:
            # Beyond an end of the note nothing is cut off.
            left = span.start if window.start else n_chars
            right = window.end - window.start - span.end if window.end < n_chars else n_chars
            moved = Span(span.start + window.start, span.end + window.start, span.label)
            best[moved] = max(best.get(moved, 0), left if left < right else right)
    order = sorted(best, key=lambda span: (-best[span], -span.n_chars, span))
    joined: list[Span] = []
    for span in sorted(best, key=lambda span: (span.label, span)):
        last = joined[-1] if joined else None
        if best[span] > 0:
            continue
        if last and last.label == span.label and span.start < last.end:
            joined[-1] = Span(last.start, max(last.end, span.end), span.label)
        else:
            joined.append(span)
    joined.sort(key=lambda span: (-span.n_chars, span))
    return without_overlap(joined, kept=without_overlap(span for span in order if best[span] > 0))


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
            with open_regular(folder / TAGGER) as file:
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
                where="{name}/{tagger}",
                name=folder.name,
                tagger=TAGGER,
            ) from None
        return found


def unreadable(path: Path, error: OSError) -> AuditError:
    """Return the error for a tagger whose files cannot be read."""
    return AuditError(
        "The tagger cannot be read ({strerror}).",
        where=path.name,
        do="Choose a folder with tagger.json and model.",
        strerror=error.strerror,
    )
