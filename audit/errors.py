"""The one error that is shown to a person, and the message: a key and values, written out last.

A message's key is its English sentence with {named} places. `catalogue/ja/messages.json` gives
the Japanese one; what is not there stays English. A place `{name:word}` of a Japanese sentence
says that its value is a word of the engine and looked up too.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from audit.words import catalogue

_PLACE = re.compile(r"\{(\w+)(?::(word|,|(?:\.\d)?[fge%]))?\}")
_WORD = "word"


class Message(str):
    """A sentence of the engine: the English text, with the key and the values it was made of.

    Only places whose names are among the values are filled, so text of a reader's own may be a key
    (a file's name) and hold braces. A value may be a message, or several ("; " between them).
    """

    key: str
    values: Mapping[str, object]

    def __new__(cls, key: str, /, **values: object) -> Self:
        """Fill the key's places; a message stays as it is, and values without a place fall away."""
        if isinstance(key, cls):
            return key
        used = {name: values[name] for name, _ in _PLACE.findall(key) if name in values}
        self = super().__new__(cls, _filled(key, used, language="en"))
        self.key, self.values = key, MappingProxyType(used)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """Cross a process as key and values."""
        return _again, (self.key, dict(self.values))

    def written(self, language: str) -> str:
        """Return the sentence in a language, in English where it has no translation."""
        if language == "en":
            return str(self)
        key = catalogue(language, "messages").get(self.key)
        return str(self) if key is None else _filled(key, self.values, language=language)

    def plain(self) -> str | dict[str, Any]:
        """Return what JSON can hold and `read` understands: the text, or text, key and values."""
        return self._parts() if self.values else str(self)

    def _parts(self) -> dict[str, Any]:
        values = {name: _plain(value) for name, value in self.values.items()}
        return {"text": str(self), "key": self.key, "values": values}

    @classmethod
    def read(cls, plain: object) -> Self:
        """Return the message of `plain`; an older record's text is a message without values.

        Raises ValueError for anything else.
        """
        if isinstance(plain, str):
            return cls(plain)
        match plain:
            case {"key": str(key), "values": dict(values)} if all(map(_is_plain, values.values())):
                return cls(key, **{str(name): _value(value) for name, value in values.items()})
        raise ValueError("not a message")

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Let records hold messages."""
        return core_schema.no_info_plain_validator_function(
            cls.read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda text: Message(text).plain()
            ),
        )


def written(text: str, language: str) -> str:
    """Return a message in a language; any other text is looked up as a message without values."""
    return Message(text).written(language)


_JOINED = {
    (True, True): "{where}: {what} {do}",
    (True, False): "{where}: {what}",
    (False, True): "{what} {do}",
    (False, False): "{what}",
}
"""By whether place and advice are there."""


class AuditError(Exception):
    """Wrong input from a person: what is wrong, where (file, row, setting; may be ""), what to do.

    Each is one sentence with {named} places for the values. The English text is what the command
    line shows; `written` gives another language's. It never holds a patient's name or the text of
    a note: rows are given by number, models by folder.
    """

    def __init__(self, what: str, *, where: str = "", do: str = "", **values: object) -> None:
        self.what = Message(what, **values)
        self.where = Message(where, **values)
        self.do = Message(do, **values)
        joined = _JOINED[bool(self.where), bool(self.do)]
        self.message = Message(joined, where=self.where, what=self.what, do=self.do)
        super().__init__(str(self.message))

    def written(self, language: str) -> str:
        """Return place, sentence and advice as one text in a language."""
        return self.message.written(language)


class AuditCancelled(Exception):
    """The person asked to stop; everything finished so far is kept."""


def _filled(key: str, values: Mapping[str, object], *, language: str) -> str:
    def value(place: re.Match[str]) -> str:
        name, form = place[1], place[2] or ""
        return _shown(values[name], form, language) if name in values else place[0]

    return _PLACE.sub(value, key)


def _shown(value: object, form: str, language: str) -> str:
    if isinstance(value, list | tuple):
        between = "; " if language == "en" else "、"
        return between.join(_shown(one, form, language) for one in value)
    if isinstance(value, Message) or form == _WORD:
        return written(str(value) if not isinstance(value, Message) else value, language)
    return format(value, form) if form else str(value)


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Message):
        return value._parts()
    return value if isinstance(value, int | float | str) else str(value)


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, int | float | str | dict)


def _value(plain: object) -> object:
    if isinstance(plain, list):
        return [_value(one) for one in plain]
    return Message.read(plain) if isinstance(plain, dict) else plain


def _again(key: str, values: dict[str, object]) -> Message:
    return Message(key, **values)


def places_of(error: BaseException) -> str:
    """Return what may be written down of a mistake of the program: its kind, and where it was.

    Its own text may hold a name.
    """
    frames = traceback.extract_tb(error.__traceback__)
    places = (f"  {one.filename}:{one.lineno} {one.name}" for one in frames)
    return "\n".join((type(error).__name__, *places))
