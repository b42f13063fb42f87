"""Sentences with short keys in English and Japanese: for reports, verdicts, canaries, pages.

Each language and topic has one file; sentences of errors and remarks are `audit.errors.Message`.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from audit.errors import read_sentences

Language = Literal["en", "ja"]
LANGUAGES: Mapping[Language, str] = MappingProxyType({"en": "English", "ja": "日本語"})
"""Code -> the language's own name."""


@dataclass(frozen=True)
class Words:
    """The sentences of one language and folder: key -> sentence with {named} places."""

    language: Language
    sentences: Mapping[str, str]

    def text(self, key: str, **values: object) -> str:
        """Return a sentence as plain text; KeyError if the sentence or a value is missing."""
        return self.sentences[key].format(**values)

    def html(self, key: str, **values: object) -> str:
        """Return a sentence as HTML, with escaped values."""
        escaped = {name: html.escape(str(value)) for name, value in values.items()}
        return html.escape(self.sentences[key]).format(**escaped)


@cache
def words_of(language: str, *, folder: Path) -> Words:
    """Return a language's sentences of all files in a folder; ValueError for other languages."""
    known_language = next((code for code in LANGUAGES if code == language), None)
    if known_language is None:
        raise ValueError("no catalogue for this language")
    sentences: dict[str, str] = {}
    for path in sorted((folder / language).glob("*.json")):
        part = read_sentences(path)
        if duplicate_keys := sentences.keys() & part.keys():
            raise ValueError(f"{path.name}: {sorted(duplicate_keys)} have a sentence already")
        sentences |= part
    return Words(known_language, MappingProxyType(sentences))
