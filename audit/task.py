"""Records that cross a file or a process, and tasks: what long work is asked to do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from audit.errors import AuditError

_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "literal_error": "must be {expected}",
    "finite_number": "must be a finite number",
}


class Record(BaseModel):
    """A frozen value with a written form; what is refused is refused in words, without the value.

    Subclasses give every field its bounds. A validator may raise `AuditError` itself.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, allow_inf_nan=False
    )

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise refusal(error, of=type(self)) from None

        __init__.__pydantic_base_init__ = True

    @classmethod
    def read(cls, data: bytes | str, *, where: str) -> Self:
        """Return the record that `written` wrote.

        Raises
        ------
        AuditError
            If it is no such record; `where` is the place that the sentence names.
        """
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise refusal(error, where=where, of=cls) from None

    def plain(self) -> dict[str, Any]:
        """Return the record as values of JSON."""
        return self.model_dump(mode="json")

    def written(self) -> bytes:
        """Return the record as canonical JSON: keys in order, ASCII, no spaces."""
        return canonical(self.plain())

    def digest(self) -> str:
        """SHA-256 of `written`."""
        return hashlib.sha256(self.written()).hexdigest()

    def with_(self, **changes: Any) -> Self:
        """Return the record with some fields changed, checked again."""
        return type(self)(
            **{name: getattr(self, name) for name in type(self).model_fields} | changes
        )


def canonical(value: Any) -> bytes:
    """Return a value of JSON as bytes that are the same wherever it is written."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def refusal(
    error: ValidationError, *, where: str = "", of: type[BaseModel] | None = None
) -> AuditError:
    """Return what is wrong with the first field that is refused, in words and without its value.

    A field's title is what it is called; one of whole numbers with two bounds is told both.
    """
    first = error.errors(include_input=False, include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    known = of.model_fields.get(field) if of else None
    field = known.title or field if known else field
    words = _WORDS.get(first["type"], "cannot be taken: " + first["msg"].lower())
    place = f"{where} ({field})" if where and field else where or field
    bounds = {type(one).__name__: one for one in known.metadata} if known else {}
    if known and known.annotation is int and bounds.keys() >= {"Ge", "Le"}:
        low, high = bounds["Ge"].ge, bounds["Le"].le
        return AuditError(f"must be a whole number from {low} to {high}.", where=place)
    return AuditError(words.format(**first.get("ctx", {})) + ".", where=place)


def check_whole(name: str, value: object, *, low: int, high: int, where: str) -> None:
    """Refuse what is no whole number from `low` to `high`, with an AuditError."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise AuditError(f"`{name}` must be a whole number from {low} to {high}.", where=where)


def check_number(name: str, value: object, *, low: float, high: float, where: str) -> None:
    """Refuse what is no number from `low` to `high`, with an AuditError."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        raise AuditError(f"`{name}` must be a number from {low:g} to {high:g}.", where=where)


def check_one_of(name: str, value: object, known: Collection[str], *, where: str) -> None:
    """Refuse what is none of the known words, with an AuditError."""
    if value not in known:
        raise AuditError(f"`{name}` must be one of: {', '.join(known)}.", where=where)
