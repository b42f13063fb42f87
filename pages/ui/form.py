"""Forms: the boxes of any record or task, drawn from its fields, and lists to choose from.

A field's bounds, kind and usual value are the engine's own. Its words are `WORDS_set_FIELD`,
`WORDS_help_FIELD` and, where it is one of a few codes, `WORDS_FIELD_CODE`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import streamlit as st
from pydantic.fields import FieldInfo

from audit.task import Record
from audit.words import Words
from pages.ui.section import remark

_LARGEST = (1 << 53) - 1
"""What a browser holds exactly."""


@dataclass(frozen=True)
class _Kind:
    """What a field takes: a type or, in `codes`, one of a few words; bounds; whether None too."""

    base: Any
    codes: tuple[str, ...]
    low: float | None
    high: float | None
    is_optional: bool


def ask(
    say: Words, usual: Record, *, words: str, fields: Sequence[str], key: str, n_columns: int = 2
) -> dict[str, Any]:
    """Draw a box for each of a record's fields, its value in it, and return what they hold.

    Boxes begin anew where `usual` is another. An empty box of an optional field is None. What the
    record refuses is refused by the record: `usual.with_(**found)`.
    """
    mark = f"{key}_{zlib.crc32(usual.written()):08x}"
    found, columns = {}, st.columns(n_columns)
    for place, field in enumerate(fields):
        kind = _kind(type(usual).model_fields[field])
        with columns[place % n_columns]:
            found[field] = _box(
                say, kind, getattr(usual, field), words=words, field=field, key=f"{mark}_{field}"
            )
    return found


def pick(
    say: Words,
    what: str,
    options: Mapping[str, str],
    *,
    label: str,
    usual: str = "",
    help: str | None = None,
) -> str:
    """Draw a list of codes to choose from by their words; `?what=` carries the chosen one.

    Returns "" where none is chosen, and says so where the link's is not there. Words are shown as
    plain text, never as Markdown.
    """
    state, key, memory = st.session_state, f"pick_{what}", f"picked_{what}"
    code = st.query_params.get(what, "") or state.get(memory, usual)
    if code and code not in options:
        remark(say, "pick_not_here")
        code = ""
    state[key] = code or None

    def changed() -> None:
        choose(what, state[key] or "")

    st.selectbox(
        label,
        list(options),
        index=None,
        format_func=lambda one: options[one],
        key=key,
        placeholder=say.text("pick_none"),
        help=help,
        on_change=changed,
    )
    if code:
        choose(what, code)
    return code


def choose(what: str, code: str) -> None:
    """Choose in a list, as if the reader had; "" chooses none."""
    st.session_state[f"picked_{what}"] = code
    if code:
        st.query_params[what] = code
    else:
        st.query_params.pop(what, None)


def _kind(field: FieldInfo) -> _Kind:
    annotation, bounds = field.annotation, list(field.metadata)
    is_optional = False
    if get_origin(annotation) in (Union, UnionType):
        parts = get_args(annotation)
        is_optional = NoneType in parts
        annotation = next(part for part in parts if part is not NoneType)
    if hasattr(annotation, "__metadata__"):  # Annotated, within an optional field
        for one in annotation.__metadata__:
            bounds += one.metadata if isinstance(one, FieldInfo) else [one]
        annotation = get_args(annotation)[0]
    codes = get_args(annotation) if get_origin(annotation) is Literal else ()
    limits = [
        next((getattr(one, of) for one in bounds for of in names if hasattr(one, of)), None)
        for names in (("ge", "gt"), ("le", "lt"))
    ]
    return _Kind(annotation, codes, *limits, is_optional)


def _box(say: Words, kind: _Kind, value: Any, *, words: str, field: str, key: str) -> Any:
    label, help = say.text(f"{words}_set_{field}"), say.sentences.get(f"{words}_help_{field}")
    if kind.codes:
        return st.selectbox(
            label, kind.codes, index=kind.codes.index(value), help=help, key=key,
            format_func=lambda code: say.text(f"{words}_{field}_{code}"), persist_state="session",
        )  # fmt: skip
    if kind.base is bool:
        return st.toggle(label, value=value, help=help, key=key, persist_state="session")
    if kind.base is str:
        return st.text_input(
            label, value=value, help=help, key=key, max_chars=500, persist_state="session"
        )
    low, high = (None if one is None else kind.base(one) for one in (kind.low, kind.high))
    if kind.base is int and high is not None:
        high = min(high, _LARGEST)
    is_tiny = kind.base is float and value is not None and 0 < abs(value) < 1e-3
    if kind.is_optional and value is not None:
        st.session_state.setdefault(
            key, kind.base(value)
        )  # a box with a usual value is never empty
        value = None
    return st.number_input(
        label, min_value=low, max_value=high, help=help, key=key, persist_state="session",
        value=value if value is None else kind.base(value),
        step=None if kind.base is int else 1e-5 if is_tiny else 0.01,
        format=None if kind.base is int else "%.2e" if is_tiny else "%.4g",
    )  # fmt: skip
