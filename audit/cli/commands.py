"""What a command of the command line is: a function whose parameters are its options.

The parameters before the star have no flag. The docstring of the function is its help. A parameter
annotated with `FieldsOf` receives the given fields of a task or of settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import cyclopts
from cyclopts import Token
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from audit.errors import AuditError
from audit.notes.read import FIELDS
from audit.task import Record, refusal

Options: TypeAlias = dict[str, Any]
"""Option -> value, only for given options; the other options keep their defaults."""
Result: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class FieldsOf:
    """The fields of a record that are options: `only`, else those with a description.

    An option has the name of its field without `n_`, `is_` or `has_`, or the name in the record's
    `flags`. If several records of a command have a field of the same name, they share one option.
    `defaults` says what counts without an option, where that is not the record's own default.
    """

    record: type[Record]
    only: Collection[str] = ()
    prefix: str = ""
    defaults: Mapping[str, Any] | None = None

    def options(self, parameter: str) -> Iterator[Option]:
        """Yield the options that a parameter of a command receives."""
        for name, field in self.record.model_fields.items():
            if name in self.only if self.only else field.description:
                flag = "--" + self.prefix + re.sub("^(n|is|has)_", "", name).replace("_", "-")
                flag = self.record.flags.get(name, flag)
                default = Parameter.empty if field.is_required() else field.default
                default = (self.defaults or {}).get(name, default)
                dest = self.prefix.replace("-", "_") + name
                yield Option(parameter, name, dest, flag, field, default)


@dataclass(frozen=True)
class Option:
    """One option of a command: a parameter, or a field that a parameter receives."""

    parameter: str
    field_name: str
    dest: str
    flag: str
    field: FieldInfo
    default: Any

    @property
    def is_switch(self) -> bool:
        """Whether the option takes no value and changes the default to its opposite."""
        return self.field.annotation is bool

    @property
    def is_required(self) -> bool:
        """Whether a command line without the option is refused."""
        return self.default is Parameter.empty

    @property
    def is_tuple(self) -> bool:
        """Whether the option has several values: written with commas, or each with its flag."""
        return get_origin(self.field.annotation) is tuple

    @property
    def kind(self) -> Any:
        """The type of one value."""
        if self.is_tuple:
            return get_args(self.field.annotation)[0]
        return Annotated[self.field.annotation, self.flag, *self.field.metadata]

    @property
    def choices(self) -> dict[str, Any]:
        """Word -> value, if there are only some values."""
        parts = (self.field.annotation, *get_args(self.field.annotation))
        literals = [part for part in parts if get_origin(part) is Literal]
        values = [value for part in literals for value in get_args(part)]
        return {str(value).replace("_", "-"): value for value in values}

    @property
    def metavar(self) -> str:
        """What stands for the value in a help text."""
        if self.choices:
            return "|".join(self.choices)
        if self.field.examples:
            return str(self.field.examples[0])
        if get_origin(self.kind) is tuple:
            return "FIELD=NAME"
        return self.flag.removeprefix("--").replace("-", "_").upper()

    @property
    def shown_default(self) -> str:
        """The default as a user would write it; "none" if there is no value."""
        if self.is_switch:
            return "off"
        values = self.default if self.is_tuple else (self.default,)
        words = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        text = ",".join(word.replace("_", "-") if self.choices else word for word in words)
        return "none" if text in ("", "None") else text

    def read(self, tokens: tuple[Token, ...]) -> Any:
        """Return the value of the words that were given for the option."""
        words = [token.value for token in tokens]
        if not self.is_tuple:
            return self._read_word(words[-1])
        if self.field.examples:
            words = [part.strip() for part in words[-1].split(",") if part.strip()]
        return tuple(map(self._read_word, words))

    def _read_word(self, word: str) -> Any:
        if self.choices:
            if word.replace("_", "-") not in self.choices:
                raise AuditError(
                    "must be {expected}.", where=self.flag, expected=" / ".join(self.choices)
                )
            return self.choices[word.replace("_", "-")]
        if get_origin(self.kind) is tuple:
            field, sign, name = word.partition("=")
            if not (sign and name) or field not in FIELDS:
                raise AuditError(
                    "must be FIELD=NAME, with one of the fields {fields}.",
                    where=self.flag,
                    fields=", ".join(FIELDS),
                )
            return field, name
        try:
            value = TypeAdapter(self.kind).validate_strings(word)
        except ValidationError as error:
            raise refusal(error, where=self.flag, field_info=self.field) from None
        return make_absolute(value) if isinstance(value, Path) else value

    def as_parameter(self) -> Parameter:
        """Return the option as a parameter of the command line's parser."""
        is_flag = self.flag.startswith("--")
        description = cyclopts.Parameter(
            name=self.flag if is_flag else None,
            help=self.field.description,
            converter=None if self.is_switch else self.read,
            n_tokens=None if self.is_switch else 1,
            show_default=not self.is_required and self.shown_default,
            show_choices=False,
            metavar=self.metavar,
            negative=(),
            json_list=False,
        )
        kind = bool if self.is_switch else tuple[Any, ...] if self.is_repeatable else Any
        default = False if self.is_switch else self.default
        return Parameter(
            self.dest,
            Parameter.KEYWORD_ONLY if is_flag else Parameter.POSITIONAL_ONLY,
            default=default,
            annotation=Annotated[kind, description],
        )

    @property
    def is_repeatable(self) -> bool:
        """Whether each value is given with the flag of its own."""
        return self.is_tuple and not self.field.examples


def make_absolute(path: Path | str) -> Path:
    """Return a path from the root on, with ~ resolved."""
    return Path(path).expanduser().absolute()


@dataclass(frozen=True)
class Dependence:
    """Options of a command that have an effect only with `needs`, or only without `clashes`.

    `parts` are parameters or fields; `has_effect` says whether the given options let them work.
    """

    parts: Collection[str]
    has_effect: Callable[[Options], bool]
    needs: str = ""
    clashes: str = ""


def is_given(name: str) -> Callable[[Options], bool]:
    """Return a condition: the option is given."""
    return lambda options: name in options


def is_absent(name: str) -> Callable[[Options], bool]:
    """Return a condition: the option is not given."""
    return lambda options: name not in options


def has(name: str, value: object) -> Callable[[Options], bool]:
    """Return a condition: the option is given with this value."""
    return lambda options: options.get(name) == value


class Command:
    """A function as a command: its options, and which of them have no effect without another."""

    def __init__(
        self, function: Callable[..., Result], dependences: tuple[Dependence, ...] = ()
    ) -> None:
        self.function, self.dependences = function, dependences
        self.options = tuple(_list_options(function))
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        parameters: dict[str, Parameter] = {}
        for option in self.options:
            parameters.setdefault(option.dest, option.as_parameter())
        parameters["json"] = _JSON
        self.__signature__ = Signature(sorted(parameters.values(), key=attrgetter("kind")))
        self.__annotations__ = {}  # those of the signature are complete

    def __call__(self, **options: Any) -> Result:
        """Refuse options without effect, call the function, and return its values."""
        self.refuse_idle(options)
        return self.function(**self.collect_arguments(options))

    def refuse_idle(self, options: Options) -> None:
        """Refuse an option that has no effect together with the other given options."""
        for dependence in self.dependences:
            if dependence.has_effect(options):
                continue
            for option in self.options:
                names = {option.parameter, option.field_name, option.dest}
                if option.dest in options and not names.isdisjoint(dependence.parts):
                    do = (
                        "Leave {flag} or {other} out."
                        if dependence.clashes
                        else ("Add {other}, or leave {flag} out.")
                    )
                    raise AuditError(
                        "has no effect here.",
                        where=option.flag,
                        do=do,
                        flag=option.flag,
                        other=dependence.clashes or dependence.needs,
                    )

    def collect_arguments(self, options: Options) -> Options:
        """Return the arguments with which to call the function."""
        arguments: Options = {option.parameter: {} for option in self.options if option.field_name}
        for option in self.options:
            if option.dest in options:
                value = options[option.dest]
                target = arguments[option.parameter] if option.field_name else arguments
                target[option.field_name or option.parameter] = (
                    value != option.default if option.is_switch else value
                )
        return arguments


_JSON = Parameter(
    "json",
    Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, cyclopts.Parameter(help="print one JSON object on stdout", show_default="off")
    ],
)


def command(*dependences: Dependence) -> Callable[[Callable[..., Result]], Command]:
    """Make a function a command; `dependences` refuse options that would have no effect."""
    return lambda function: Command(function, dependences)


def _list_options(function: Callable[..., Result]) -> Iterator[Option]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in signature(function).parameters.items():
        marks = getattr(hints[name], "__metadata__", ())
        if marks and isinstance(marks[0], FieldsOf):
            yield from marks[0].options(name)
        else:
            is_flag = parameter.kind is Parameter.KEYWORD_ONLY
            flag = f"--{name.replace('_', '-')}" if is_flag else name
            field = FieldInfo.from_annotation(hints[name])
            field.description = next((m for m in marks if isinstance(m, str)), field.description)
            yield Option(name, "", name, flag, field, parameter.default)
