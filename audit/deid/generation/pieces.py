"""Windows of a note that fit a model's context together with their copy. Torch-free."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from audit.deid.windows import Window, windows_of
from audit.errors import AuditError

SPARE = 64
"""Tokens for tags that every answer has, however short the note is."""
GROWTH = 2.0
"""Tokens of an answer for one of its note, where no training has measured it."""
_LEAST_TOKENS = 16
_SHRINK = 0.8


@dataclass(frozen=True)
class Room:
    """How long a note and its answer may be.

    Attributes
    ----------
    n_note
        Tokens of a window at most.
    growth
        Tokens of an answer for one of its note, `SPARE` not counted.
    """

    n_note: int
    growth: float = GROWTH

    def __post_init__(self) -> None:
        """Check the numbers, once."""
        if self.n_note < 1 or not self.growth >= 1:
            raise ValueError(f"no room: {self}")

    def n_answer(self, n_note: int) -> int:
        """Return how many tokens an answer may have for so many of its note."""
        return math.ceil(self.growth * n_note) + SPARE


def room_in(n_context: int, *, n_frame: int, growth: float = GROWTH) -> Room:
    """Return the room in a context of so many tokens.

    Raises
    ------
    AuditError
        If note and copy do not fit.
    """
    n_note = math.floor((n_context - n_frame - SPARE - 1) / (1 + growth))
    if n_note < _LEAST_TOKENS:
        raise AuditError(
            f"A context of {n_context} tokens has no room for a note and its copy.",
            where="language model",
            do="Take a model with a longer context, or set `max_tokens` higher.",
        )
    return Room(n_note, growth)


def pieces_of(
    text: str, *, n_tokens: Callable[[str], int], room: Room, overlap: int
) -> tuple[Window, ...]:
    """Cut a note into windows that fit; one window where it fits whole.

    Parameters
    ----------
    n_tokens
        Counts the tokens of a text.
    overlap
        Characters, as in `windows_of`; less where windows are short.

    Raises
    ------
    AuditError
        If not even a single character fits.
    """
    if not text:
        return ()
    n_whole = n_tokens(text)
    if n_whole <= room.n_note:
        return (Window(0, len(text)),)
    size = max(1, len(text) * room.n_note // n_whole)
    while True:
        windows = windows_of(text, size=size, overlap=min(overlap, size // 4))
        if all(n_tokens(text[one.start : one.end]) <= room.n_note for one in windows):
            return windows
        if size == 1:
            raise AuditError("A character of a note has more tokens than a window.")
        size = max(1, int(size * _SHRINK))
