"""The words of the screen, in English and Japanese: whole sentences, never glued parts."""

from __future__ import annotations

from pathlib import Path

from audit import words
from audit.words import LANGUAGES, Words

__all__ = ["LANGUAGES", "Words", "words_of"]

_FOLDER = Path(__file__).resolve().parent / "words"
"""One folder a language, in it one file a page, and `shared.json`."""


def words_of(language: str) -> Words:
    """Return the sentences of all pages in a language."""
    return words.words_of(language, folder=_FOLDER)
