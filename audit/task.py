"""Records that are written to files or passed to processes, and tasks: orders for long work."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic.fields import FieldInfo

from audit.errors import AuditError, Message
from audit.progress import ProgressListener, StopQuestion
from audit.shelf import JSON, digest_json

Device = Literal["auto", "cpu", "cuda"]
FileState = list[str | int]
"""Path, size and change time of a file."""
Columns = tuple[tuple[str, str], ...]
"""(field of a note, name of its column), for headings that are not known."""
MAX_SEED = 2**63 - 1

_WORDS = {
    "missing": "is missing.",
    "json_invalid": "is not JSON.",
    "extra_forbidden": "is unknown.",
    "greater_than_equal": "must be at least {ge}.",
    "greater_than": "must be more than {gt}.",
    "less_than_equal": "must be at most {le}.",
    "less_than": "must be less than {lt}.",
    "literal_error": "must be {expected}.",
    "finite_number": "must be a finite number.",
    "int_parsing": "must be a whole number.",
    "float_parsing": "must be a number.",
}


class Record(BaseModel):
    """A frozen value with a canonical JSON form.

    A refused value raises an AuditError that names the field in words and does not repeat the
    value. Subclasses give every field its bounds. A validator may raise `AuditError` itself.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
        defer_build=True,
    )

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise refusal(error, record_type=type(self)) from None

        __init__.__pydantic_base_init__ = True

    flags: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def read(cls, data: bytes | str, *, where: str) -> Self:
        """Return the record that `to_bytes` wrote."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise refusal(error, where=where, record_type=cls) from None

    def plain(self) -> dict[str, Any]:
        """Return the record as values of JSON."""
        return self.model_dump(mode="json")

    def to_bytes(self) -> bytes:
        """Return the record as canonical JSON: keys in order, ASCII, no spaces."""
        return canonical_json(self.plain())

    def digest(self) -> str:
        """SHA-256 of `to_bytes`."""
        return digest_json(self.plain(), is_compact=True)

    def with_(self, **changes: Any) -> Self:
        """Return the record with some fields changed, checked again."""
        return type(self)(
            **{name: getattr(self, name) for name in type(self).model_fields} | changes
        )


@dataclass(frozen=True)
class Contact:
    """Functions that running work calls; `say` shows a sentence to the user of a command."""

    listen: ProgressListener
    should_stop: StopQuestion
    say: Callable[[str], None]


@dataclass(frozen=True)
class Question:
    """The subject of a job: its values in the table of jobs, and its order, which holds names."""

    kind: str  # as the next three in `Job`
    label: str
    scenario: int
    device: str
    digest: str  # identifies the question; equal questions are answered once
    audits: tuple[str, ...]  # digests of the audits that will answer it; empty if none
    order: Mapping[str, JsonValue]  # the task as JSON values


class Task(Record):
    """An order for one kind of long work.

    A field with a description is an option of the command line. The option has the name of the
    field without `n_`, `is_` or `has_`, or the name in `flags`. The field's examples show how a
    list is written.
    """

    job: ClassVar[str]
    is_awaited: ClassVar[bool] = False
    """Whether people wait for it at the page; if so, it has the usual priority."""

    def question(self) -> Question:
        """Return the task as a question of the table. Reads everything the answer depends on."""
        raise NotImplementedError

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Do the work, or the rest of it, and return the identifiers of its results."""
        raise NotImplementedError

    def make_question(
        self,
        *,
        label: str,
        about: JSON,
        device: str = "cpu",
        audits: tuple[str, ...] = (),
    ) -> Question:
        """Return a question whose answer depends only on `about`, a JSON value."""
        digest = digest_json({self.job: about}, is_compact=True)
        return Question(self.job, label, 0, device, digest, audits, self.plain())

    @classmethod
    def read_answer(cls, question: Question) -> tuple[str, ...]:
        """Return the stored answer to a question of this kind, or () if it must be computed."""
        return ()

    @classmethod
    def import_engine(cls) -> None:
        """Import what `run` needs, so that a process can do so before its order comes."""

    @classmethod
    def clear_abandoned(cls) -> None:
        """Remove private files that killed processes of this kind left behind."""

    @classmethod
    def from_order(cls, order: Mapping[str, JsonValue]) -> Self:
        """Return the task that an order of the table describes."""
        try:
            return cls.model_validate_json(canonical_json(order))
        except (ValidationError, ValueError):
            raise AuditError(
                "This request cannot be read: it is damaged, or of another version of the program.",
                do="Start it again.",
            ) from None


DEVICES = ("cpu", "cuda")
SHORT = "short"
"""The queue of work that takes minutes at most. It runs on the CPU beside jobs of hours."""
_FIRST_GPU = Path("/dev/nvidia0")


def queue_of(device: str) -> str:
    """Return the queue of a device; "auto" means the GPU if there is one."""
    return device if device in DEVICES else "cuda" if _FIRST_GPU.exists() else "cpu"


def read_file_states(*paths: Path | None, where: str) -> list[FileState]:
    """Return path, size and change time of files, or of the files in folders, to notice changes."""
    states: list[FileState] = []
    try:
        for path in filter(None, paths):
            files = sorted(path.iterdir()) if path.is_dir() else [path]
            states += [[str(f.resolve()), f.stat().st_size, f.stat().st_mtime_ns] for f in files]
    except OSError:
        raise AuditError("The file is not there or cannot be read.", where=where) from None
    return states


def canonical_json(value: JSON) -> bytes:
    """Return a JSON value as bytes that are the same on every machine."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def refusal(
    error: ValidationError,
    *,
    where: str = "",
    record_type: type[BaseModel] | None = None,
    field_info: FieldInfo | None = None,
) -> AuditError:
    """Return an error that says what is wrong with the first refused field, without its value.

    The field is called by its title, if it has one. For a whole number with two bounds the error
    states both. `field_info` describes a value that is no field of a record.
    """
    first = error.errors(include_input=False, include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    if record_type and (field_info := record_type.model_fields.get(field)):
        field = field_info.title or field
    message = first["msg"].lower()
    words = _WORDS.get(first["type"], "cannot be taken: {message}.")
    place: str = where or field
    if where and field:
        place = Message("{place} ({field})", place=Message(where), field=Message(field))
    bounds = {type(bound).__name__: bound for bound in field_info.metadata} if field_info else {}
    if field_info and field_info.annotation is int and bounds.keys() >= {"Ge", "Le"}:
        low, high = bounds["Ge"].ge, bounds["Le"].le
        return AuditError(
            "must be a whole number from {low} to {high}.", where=place, low=low, high=high
        )
    return AuditError(words, where=place, message=message, **first.get("ctx", {}))
