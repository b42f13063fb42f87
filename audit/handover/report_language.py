"""The words of a report, in English and Japanese, whatever the language of the screen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from audit.errors import AuditError

LANGUAGES = ("en", "ja")
_FOLDER = Path(__file__).resolve().parent / "report_words"


@dataclass(frozen=True)
class ReportWords:
    """One language's catalogue: key -> sentence with {named} places."""

    language: str
    sentences: Mapping[str, str]

    def text(self, key: str, **values: object) -> str:
        """Return a sentence, its places filled; not escaped.

        Raises
        ------
        KeyError
            If there is no such sentence, or a place stays empty.
        """
        return self.sentences[key].format(**values)

    def text_or(self, key: str, otherwise: str) -> str:
        """Return a sentence without places, or something else where there is none."""
        return self.sentences.get(key, otherwise)


@cache
def report_words(language: str) -> ReportWords:
    """Return the catalogue of a language.

    Raises
    ------
    AuditError
        If there is none.
    """
    if language not in LANGUAGES:
        raise AuditError("is not a language of reports.", where="language", do="Choose en or ja.")
    text = (_FOLDER / f"{language}.json").read_text(encoding="utf-8")
    return ReportWords(language, MappingProxyType(json.loads(text)))
