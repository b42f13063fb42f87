"""The only error that is shown to a person, and messages: a key with values, rendered at the end.

The key of a message is its English sentence with {named} places. `catalogue/ja/messages.json` has
the Japanese sentence; a message without one stays English. A place `{name:word}` of a Japanese
sentence means that its value is a word of the engine, which is looked up too.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypeAlias

from pydantic import GetCoreSchemaHandler, JsonValue
from pydantic_core import CoreSchema, core_schema

CATALOGUE = Path(__file__).resolve().parent / "catalogue"
"""Folder of all texts of the engine: sentences by their English text, others by a short key."""
_PLACE = re.compile(r"\{(\w+)(?::(word|,|(?:\.\d)?[fge%]))?\}")
_WORD = "word"
MessageValue: TypeAlias = "str | float | Path | Sequence[MessageValue] | None"
"""A value for a place of a sentence; those of a sequence are joined."""


def read_sentences(path: Path) -> Mapping[str, str]:
    """Return the sentences of one language and topic by their keys."""
    sentences: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return MappingProxyType(sentences)


@cache
def catalogue(language: str, topic: str) -> Mapping[str, str]:
    """Return the engine's sentences on a topic, with {named} places, by their keys."""
    return read_sentences(CATALOGUE / language / f"{topic}.json")


class Message(str):
    """A sentence of the engine: the English text, with its key and its values.

    Only places whose names are among the values are filled, so that a person's own text (a file
    name) may be a key and hold braces. A value may be a message, or several (joined with "; ").
    """

    key: str
    values: Mapping[str, MessageValue]

    def __new__(cls, key: str, /, **values: MessageValue) -> Self:
        """Fill the key's places; a message stays unchanged, values without a place are dropped."""
        if isinstance(key, cls):
            return key
        used = {name: values[name] for name, _ in _PLACE.findall(key) if name in values}
        self = super().__new__(cls, _fill_places(key, used, language="en"))
        self.key, self.values = key, MappingProxyType(used)
        return self

    def __reduce__(self) -> tuple[Callable[..., Message], tuple[str, dict[str, MessageValue]]]:
        """Pickle the message as key and values."""
        return _rebuild_message, (self.key, dict(self.values))

    def render(self, language: str) -> str:
        """Return the sentence in a language, or in English if it has no translation."""
        if language == "en":
            return str(self)
        key = catalogue(language, "messages").get(self.key)
        return str(self) if key is None else _fill_places(key, self.values, language=language)

    def dump(self) -> JsonValue:
        """Return a JSON value for `read`: the text, or a dictionary of text, key and values."""
        return self._parts() if self.values else str(self)

    def _parts(self) -> dict[str, JsonValue]:
        values = {name: _dump_value(value) for name, value in self.values.items()}
        return {"text": str(self), "key": self.key, "values": values}

    @classmethod
    def read(cls, content: JsonValue) -> Self:
        """Return the message of a `dump`; a text is a message without values.

        Raises ValueError for anything else.
        """
        if isinstance(content, str):
            return cls(content)
        match content:
            case {"key": str(key), "values": dict(values)} if all(
                map(_is_json_value, values.values())
            ):
                return cls(key, **{str(name): _load_value(value) for name, value in values.items()})
        raise ValueError("not a message")

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Message], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Let records hold messages."""
        return core_schema.no_info_plain_validator_function(
            cls.read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda text: Message(text).dump()
            ),
        )


def render_message(text: str, language: str) -> str:
    """Return a message in a language; any other text counts as a message without values."""
    return Message(text).render(language)


_JOINED = {
    (True, True): "{where}: {what} {do}",
    (True, False): "{where}: {what}",
    (False, True): "{what} {do}",
    (False, False): "{what}",
}
"""Sentences by whether there are a place and an advice."""


class AuditError(Exception):
    """Wrong input from a person: what is wrong, where (file, row, setting; may be ""), what to do.

    Each is one sentence with {named} places for the values. The command line shows the English
    text; `render` returns that of another language. It never holds a patient's name or the text of
    a note: rows are identified by number, models by folder.
    """

    def __init__(self, what: str, *, where: str = "", do: str = "", **values: MessageValue) -> None:
        self.what = Message(what, **values)
        self.where = Message(where, **values)
        self.do = Message(do, **values)
        joined = _JOINED[bool(self.where), bool(self.do)]
        self.message = Message(joined, where=self.where, what=self.what, do=self.do)
        super().__init__(str(self.message))

    def render(self, language: str) -> str:
        """Return place, sentence and advice as one text in a language."""
        return self.message.render(language)


def make_version_error(*, where: str = "") -> AuditError:
    """Return the refusal of anything stored that another version of the program wrote.

    Nothing of another version is read. Damage looks the same where a file has no version.
    """
    return AuditError(
        "This was written by another version of the program, or it is damaged.",
        where=where,
        do="Export it with the version that wrote it. Then make it again, or use another data "
        "directory.",
    )


class AuditCancelled(Exception):
    """A person stopped the work; everything finished so far is kept."""


def _fill_places(key: str, values: Mapping[str, MessageValue], *, language: str) -> str:
    def fill_place(place: re.Match[str]) -> str:
        name, form = place[1], place[2] or ""
        return _format_value(values[name], form, language) if name in values else place[0]

    return _PLACE.sub(fill_place, key)


def _format_value(value: MessageValue, form: str, language: str) -> str:
    if isinstance(value, list | tuple):
        between = "; " if language == "en" else "、"
        return between.join(_format_value(element, form, language) for element in value)
    if isinstance(value, Message) or form == _WORD:
        return render_message(str(value) if not isinstance(value, Message) else value, language)
    return format(value, form) if form else str(value)


def _dump_value(value: MessageValue) -> JsonValue:
    if isinstance(value, list | tuple):
        return [_dump_value(element) for element in value]
    if isinstance(value, Message):
        return value._parts()
    return value if isinstance(value, int | float | str) else str(value)


def _is_json_value(value: JsonValue) -> bool:
    if isinstance(value, list):
        return all(map(_is_json_value, value))
    return isinstance(value, int | float | str | dict)


def _load_value(content: JsonValue) -> MessageValue:
    if isinstance(content, list):
        return [_load_value(element) for element in content]
    return Message.read(content) if isinstance(content, dict) else content


def _rebuild_message(key: str, values: dict[str, MessageValue]) -> Message:
    return Message(key, **values)


def places_of(error: BaseException) -> str:
    """Return the type and the source lines of an unexpected error, which may be logged.

    The error's own text is left out because it may hold a name.
    """
    frames = traceback.extract_tb(error.__traceback__)
    places = (f"  {frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
    return "\n".join((type(error).__name__, *places))
