"""Sentences with short keys in English and Japanese: of reports, verdicts, canaries, pages.

One file for each language and topic; sentences of errors and remarks are `audit.errors.Message`.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

CATALOGUE = Path(__file__).resolve().parent / "catalogue"
"""All words of the engine: sentences by their English, and texts by a short key."""
LANGUAGES: Mapping[str, str] = MappingProxyType({"en": "English", "ja": "日本語"})
"""Code -> the language's own name."""


@cache
def catalogue(language: str, topic: str) -> Mapping[str, str]:
    """Return the engine's sentences on a topic by their keys, with {named} places."""
    return _read(CATALOGUE / language / f"{topic}.json")


@dataclass(frozen=True)
class Words:
    """One language's sentences of a folder: key -> sentence with {named} places."""

    language: str
    sentences: Mapping[str, str]

    def text(self, key: str, **values: object) -> str:
        """Return a sentence as plain text; KeyError if there is none or a place stays empty."""
        return self.sentences[key].format(**values)

    def html(self, key: str, **values: object) -> str:
        """Return a sentence as HTML, the values in it escaped."""
        escaped = {name: html.escape(str(value)) for name, value in values.items()}
        return html.escape(self.sentences[key]).format(**escaped)


@cache
def words_of(language: str, *, folder: Path) -> Words:
    """Return a language's sentences, those of all its files in a folder; ValueError if none."""
    if language not in LANGUAGES:
        raise ValueError("no catalogue for this language")
    sentences: dict[str, str] = {}
    for path in sorted((folder / language).glob("*.json")):
        part = _read(path)
        if twice := sentences.keys() & part.keys():
            raise ValueError(f"{path.name}: {sorted(twice)} have a sentence already")
        sentences |= part
    return Words(language, MappingProxyType(sentences))


def _read(path: Path) -> Mapping[str, str]:
    sentences: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return MappingProxyType(sentences)
