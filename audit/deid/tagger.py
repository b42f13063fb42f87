"""The one interface of every tagger: texts in, spans out; rules and models answer alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from audit.deid.documents import Span

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
    """Ask a tagger and hold it to its promise.

    Raises
    ------
    ValueError
        If it gives another number of answers than there are texts, or spans that are out of order,
        share a character, or end behind their text.
    """
    return checked_tags(tagger.tag(texts), texts=texts, name=tagger.name)


def checked_tags(
    answers: Iterable[Iterable[Span]], *, texts: Sequence[str], name: str
) -> tuple[Tags, ...]:
    """Return answers that keep a tagger's promise.

    Raises
    ------
    ValueError
        As `tag_checked`.
    """
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
