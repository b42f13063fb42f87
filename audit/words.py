"""The engine's sentences in another language: templates, matched word by word, never guessed.

The engine speaks English. Screens and reports in Japanese show its errors, remarks on rows and
notes through these functions. What has no template stays English. In a template of ours `{0}` is
put back as it is, `{0:word}` is a word of the engine's own and is looked up too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from audit.errors import AuditError

_FOLDER = Path(__file__).resolve().parent
_PLACE = re.compile(r"\{\d+\}")
_FILLED = re.compile(r"\{(\d+)(:word)?\}")
_CODES = ("ja",)
_COLON = "："
_MAX_CHARS = 4000
_MAX_WHERE_ENDS = 4
_MAX_SENTENCES = 12


@dataclass(frozen=True)
class Template:
    """An English sentence with places, and its translation.

    Attributes
    ----------
    parts
        The fixed text around the places, in order; one more than there are places.
    translation
        The other language's sentence, a format string with the same numbers.
    """

    parts: tuple[str, ...]
    translation: str

    @property
    def n_fixed(self) -> int:
        """Length of the fixed text, in characters."""
        return sum(map(len, self.parts))

    def values(self, text: str) -> tuple[str, ...] | None:
        """Return what stands in the places, at least one character each; None if it does not fit.

        Takes time linear in the text: a fixed part is sought once, from where the last one ended.
        """
        first, last = self.parts[0], self.parts[-1]
        if not (text.startswith(first) and text.endswith(last)) or len(text) < self.n_fixed:
            return None
        if len(self.parts) == 1:
            return () if text == first else None
        values, start, end = [], len(first), len(text) - len(last)
        for part in self.parts[1:-1]:
            found = text.find(part, start + 1, end)
            if found < 0:
                return None
            values.append(text[start:found])
            start = found + len(part)
        return (*values, text[start:end]) if start < end else None


@dataclass(frozen=True)
class Catalogue:
    """One language's templates, those with the longest fixed text first.

    Attributes
    ----------
    sentences
        Of errors, remarks and notes.
    places
        Of where something is wrong: a row, a file, a setting.
    words
        Of what may stand in a place that is looked up.
    """

    sentences: tuple[Template, ...]
    places: tuple[Template, ...]
    words: tuple[Template, ...]


def in_language(text: str, *, language: str) -> str:
    """Return a text of the engine in a language (code); English where there is no translation.

    The text is a sentence, or an error as `AuditError` joins it: place, sentence, advice.
    """
    catalogue = _catalogue(language)
    return text if catalogue is None else _translated(text, catalogue=catalogue)


def place_in_language(where: str, *, language: str) -> str:
    """Return an error's place in a language; as it is where it is a name of the reader's own."""
    catalogue = _catalogue(language)
    return where if catalogue is None else _place(where, catalogue=catalogue)


def phrase_in_language(text: str, *, language: str) -> str:
    """Return a word or a part of a sentence of the engine's in a language."""
    catalogue = _catalogue(language)
    return text if catalogue is None else _word(text, catalogue=catalogue)


def error_text(error: Exception, *, language: str) -> str:
    """Return an error as it is shown to a person, in a language; as `str` does in English."""
    if isinstance(error, AuditError):
        return told(error.what, where=error.where, do=error.do, language=language)
    return in_language(str(error), language=language)


def told(what: str, *, where: str = "", do: str = "", language: str) -> str:
    """Return place, sentence and advice of an error as one text, joined as `AuditError` does."""
    catalogue = _catalogue(language)
    if catalogue is None:
        return str(AuditError(what, where=where, do=do))
    return _joined(where, what, do, catalogue=catalogue)


@cache
def _catalogue(language: str) -> Catalogue | None:
    if language not in _CODES:
        return None
    text = (_FOLDER / f"sentences_{language}.json").read_text(encoding="utf-8")
    read = json.loads(text)
    return Catalogue(*(_templates(read[kind]) for kind in ("sentences", "places", "words")))


def _templates(read: Mapping[str, str]) -> tuple[Template, ...]:
    made = [Template(tuple(_PLACE.split(key)), value) for key, value in read.items()]
    return tuple(sorted(made, key=lambda template: -template.n_fixed))


def _match(text: str, templates: tuple[Template, ...]) -> tuple[Template, tuple[str, ...]] | None:
    for template in templates:
        values = template.values(text)
        if values is not None:
            return template, values
    return None


def _found(text: str, templates: tuple[Template, ...], *, catalogue: Catalogue) -> str | None:
    match = _match(text, templates)
    if match is None:
        return None
    template, values = match

    def filled(place: re.Match[str]) -> str:
        value = values[int(place[1])]
        return _word(value, catalogue=catalogue) if place[2] else value

    return _FILLED.sub(filled, template.translation)


def _word(text: str, *, catalogue: Catalogue) -> str:
    found = _found(text, catalogue.words, catalogue=catalogue)
    if found is not None:
        return found
    pieces = text.split("; ")
    if len(pieces) == 1:
        return text
    return "、".join(_word(piece, catalogue=catalogue) for piece in pieces)


def _place(where: str, *, catalogue: Catalogue) -> str:
    found = _found(where, catalogue.places, catalogue=catalogue)
    return where if found is None else found


def _sentence(text: str, *, catalogue: Catalogue) -> str:
    found = _found(text, catalogue.sentences, catalogue=catalogue)
    return text if found is None else found


def _translated(text: str, *, catalogue: Catalogue) -> str:
    if not text or len(text) > _MAX_CHARS:
        return text
    found = _found(text, catalogue.sentences, catalogue=catalogue)
    if found is not None:
        return found
    parts = _apart(text, catalogue=catalogue)
    return _joined(*parts, catalogue=catalogue) if parts else text


def _joined(where: str, what: str, do: str, *, catalogue: Catalogue) -> str:
    # The cache's errors are one text: the place may stand in the sentence.
    what = _translated(what, catalogue=catalogue)
    if where:
        what = f"{_place(where, catalogue=catalogue)}{_COLON}{what}"
    do = _sentence(do, catalogue=catalogue)
    return f"{what}{do}" if what.endswith("。") or not do else f"{what} {do}"


def _apart(text: str, *, catalogue: Catalogue) -> tuple[str, str, str] | None:
    """Return place, sentence and advice of a joined error; None where no sentence is known.

    Of several ways to divide it the one with the longest fixed text counts.
    """
    best, parts = 0, None
    for where, rest in _wheres(text):
        for what, do in _sentences(rest):
            known, advice = _match(what, catalogue.sentences), _match(do, catalogue.sentences)
            if known is None or (do and advice is None):
                continue
            n_fixed = known[0].n_fixed + (advice[0].n_fixed if advice else 0)
            if n_fixed > best:
                best, parts = n_fixed, (where, what, do)
    return parts


def _wheres(text: str) -> Iterator[tuple[str, str]]:
    yield "", text
    pieces = text.split(": ", _MAX_WHERE_ENDS)
    for n in range(1, len(pieces)):
        yield ": ".join(pieces[:n]), ": ".join(pieces[n:])


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    yield text, ""
    pieces = text.split(". ", _MAX_SENTENCES)
    for n in range(1, len(pieces)):
        yield ". ".join(pieces[:n]) + ".", ". ".join(pieces[n:])
