"""Step 3 of the chain: notes in another language, with their placeholders kept.

Comes in: notes with typed placeholders. Goes out: the same notes, translated by whoever is given;
nobody by default. A passage that comes back with other placeholders than it had stays as it was
and is counted: nothing that stands for a value may be lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from audit.deid.mask_kinds import find_marks

Answerer = Callable[[Sequence[str]], list[str]]
"""Answers prompts, one for one: a local causal language model, or a test's function."""

PROMPT = (
    "Translate this passage of a clinical note into Japanese. Copy everything between {{ and }} "
    "unchanged. Write only the translation.\n\nPassage:\n"
)
_PASSAGE_CHARS = 1500
_BREAK = re.compile(r"\n[ \t]*\n+|\n")


@dataclass(frozen=True)
class Translated:
    """A text after the step: `n_kept` of its `n_passages` passages stayed as they were."""

    text: str
    n_passages: int
    n_kept: int


class Translator(Protocol):
    """Translates notes; placeholders stay."""

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """Return each text translated."""
        ...


class NoTranslation:
    """Leaves notes in their language."""

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """Return each text as it is."""
        return [Translated(text, 0, 0) for text in texts]


class ModelTranslation:
    """Translates passage by passage with a language model.

    Parameters
    ----------
    answers
        Of the model.
    """

    def __init__(self, answers: Answerer) -> None:
        self._answers = answers

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """Return each text with those passages translated that keep their placeholders."""
        pieces = [passages(text) for text in texts]
        places = [(i, j) for i, one in enumerate(pieces) for j, p in enumerate(one) if p.strip()]
        prompts = [PROMPT + pieces[i][j].strip() for i, j in places]
        n_kept = [0] * len(texts)
        for (i, j), answer in zip(places, self._answers(prompts), strict=True):
            passage = pieces[i][j]
            if _marks(answer) == _marks(passage) and answer.strip():
                head = passage[: len(passage) - len(passage.lstrip())]
                tail = passage[len(passage.rstrip()) :]
                pieces[i][j] = head + answer.strip() + tail
            else:
                n_kept[i] += 1
        n_asked = [sum(place[0] == i for place in places) for i in range(len(texts))]
        return [
            Translated("".join(one), n, kept)
            for one, n, kept in zip(pieces, n_asked, n_kept, strict=True)
        ]


def passages(text: str) -> list[str]:
    """Return a text in pieces of some 1,500 characters that end at line ends; joined they are it.

    A longer line is one piece.
    """
    pieces: list[str] = []
    start = end = 0
    for match in _BREAK.finditer(text):
        if match.end() - start > _PASSAGE_CHARS and end > start:
            pieces.append(text[start:end])
            start = end
        end = match.end()
    if len(text) - start > _PASSAGE_CHARS and end > start:
        pieces.append(text[start:end])
        start = end
    if start < len(text):
        pieces.append(text[start:])
    return pieces


def _marks(text: str) -> list[str]:
    return sorted(text[mark.start : mark.stop] for mark in find_marks(text))
