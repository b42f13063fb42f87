"""The words of the screen, in English and Japanese: whole sentences, never glued parts."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

LANGUAGES = MappingProxyType({"en": "English", "ja": "日本語"})
"""Code -> the language's own name."""
_FOLDER = Path(__file__).resolve().parent / "words"
"""One folder a language, in it one file a page, and `shared.json`."""


@dataclass(frozen=True)
class Words:
    """One language's catalogue: key -> sentence with {named} places."""

    language: str
    sentences: MappingProxyType[str, str]

    def text(self, key: str, **values: object) -> str:
        """Return a sentence as plain text, its places filled.

        Raises
        ------
        KeyError
            If there is no such sentence, or a place stays empty.
        """
        return self.sentences[key].format(**values)

    def html(self, key: str, **values: object) -> str:
        """Return a sentence as HTML, the values in it escaped."""
        escaped = {name: html.escape(str(value)) for name, value in values.items()}
        return html.escape(self.sentences[key]).format(**escaped)


@cache
def words_of(language: str) -> Words:
    """Return the catalogue of a language.

    Raises
    ------
    ValueError
        If there is none.
    """
    if language not in LANGUAGES:
        raise ValueError("no catalogue for this language")
    catalogue: dict[str, str] = {}
    for path in sorted((_FOLDER / language).glob("*.json")):
        part = json.loads(path.read_text(encoding="utf-8"))
        if twice := catalogue.keys() & part.keys():
            raise ValueError(f"{path.name}: {sorted(twice)} have a sentence already")
        catalogue |= part
    return Words(language, MappingProxyType(catalogue))
