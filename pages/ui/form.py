"""What a page asks with: choices that a link carries, buttons, and the boxes of any record or task.

A key stands for its sentences: `KEY` is the label, `KEY_help` the help where there is one, and
`KEY_CODE` what a code is called. A field's bounds, kind and usual value are the engine's own; its
words are `WORDS_set_FIELD`, `WORDS_help_FIELD` and, where it is one of a few codes,
`WORDS_FIELD_CODE`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import streamlit as st
from pydantic.fields import FieldInfo

from audit.task import Record
from audit.words import Words
from pages.ui.section import empty, remark
from pages.ui.state import write

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


def choose(
    say: Words,
    key: str,
    options: Sequence[str] | Mapping[str, str],
    *,
    what: str = "",
    shown: Callable[[str], str] | None = None,
    is_long: bool = False,
) -> str:
    """Draw a choice among codes and return the chosen one; `?what=` opens it, and follows it.

    The first option is the usual one, and is not written into the address. Options are shown as
    `KEY_CODE`, as `shown` says, or as a mapping of them does: trusted text, unless they stand in a
    list (`is_long`). They stand beside each other, or under each other with `KEY_why_CODE` where
    the words have that. Without `what` the key's last word is the parameter.
    """
    what, codes, shown = (
        what or key.rpartition("_")[2],
        list(options),
        _shown(say, key, options, shown),
    )
    box, last, state = f"choice_{what}", f"choice_{what}_written", st.session_state
    wanted = st.query_params.get(what, "")
    if state.get(box) not in codes or wanted != state.get(last, ""):
        # The link, or the browser's way back, says otherwise than this page wrote last.
        state[box] = wanted if wanted in codes else codes[0]
    looks: dict[str, Any] = {
        "key": box,
        "format_func": shown,
        "help": say.sentences.get(f"{key}_help"),
    }
    label, reasons = say.text(key), [say.sentences.get(f"{key}_why_{code}") for code in codes]
    found: str | None
    if is_long:
        found = st.selectbox(label, codes, **looks)
    elif any(reasons):
        found = st.radio(label, codes, captions=[one or "" for one in reasons], **looks)
    else:
        found = st.segmented_control(label, codes, required=True, wrap=True, **looks)
    chosen = str(found or codes[0])
    state[last] = chosen if chosen != codes[0] or what in st.query_params else ""
    write(what, state[last])
    return chosen


def choose_some(
    say: Words,
    key: str,
    options: Sequence[str] | Mapping[str, str],
    *,
    what: str = "",
    shown: Callable[[str], str] | None = None,
) -> tuple[str, ...]:
    """Draw a choice of any number of codes and return the chosen ones, all where none is.

    Words and parameter are those of `choose`.
    """
    what, shown = what or key.rpartition("_")[2], _shown(say, key, options, shown)
    box, last, state = f"choice_{what}", f"choice_{what}_written", st.session_state
    kept, wanted = state.get(box), st.query_params.get(what, "")
    if not isinstance(kept, list) or wanted != state.get(last, "") or set(kept) - set(options):
        state[box] = [code for code in wanted.replace(",", ".").split(".") if code in options]
    found = st.pills(
        say.text(key), list(options), selection_mode="multi", format_func=shown, key=box, wrap=True
    )
    state[last] = ".".join(found)
    write(what, state[last])
    return tuple(found) or tuple(options)


def switch(say: Words, key: str, *, what: str = "", **values: object) -> bool:
    """Draw a switch and return whether it is on; `?what=1` turns it on, and follows it.

    Without `what` the key's last word is the parameter.
    """
    what = what or key.rpartition("_")[2]
    box, last, state = f"choice_{what}", f"choice_{what}_written", st.session_state
    wanted = st.query_params.get(what, "")
    if box not in state or wanted != state.get(last, ""):
        state[box] = wanted == "1"
    is_on = st.toggle(say.text(key, **values), key=box, help=say.sentences.get(f"{key}_help"))
    state[last] = "1" if is_on else ""
    write(what, state[last])
    return bool(is_on)


def _shown(
    say: Words,
    key: str,
    options: Sequence[str] | Mapping[str, str],
    shown: Callable[[str], str] | None,
) -> Callable[[str], str]:
    if shown is not None:
        return shown
    if isinstance(options, Mapping):
        return options.__getitem__
    return lambda code: say.text(f"{key}_{code}")


def tick(
    say: Words,
    key: str,
    *,
    name: str = "",
    is_on: bool = False,
    is_box: bool = False,
    is_kept: bool = False,
    **values: object,
) -> bool:
    """Draw a switch that no link carries, or a box to tick, and return whether it is on.

    `name` is the widget's own key where it is not `key`; `is_kept` keeps what it holds while
    another page is shown.
    """
    draw = st.checkbox if is_box else st.toggle
    return bool(draw(
        say.text(key, **values), value=is_on, key=name or key,
        help=say.sentences.get(f"{key}_help"), persist_state="session" if is_kept else None,
    ))  # fmt: skip


def act(
    say: Words,
    key: str,
    *,
    icon: str = "",
    kind: Literal["primary", "secondary", "tertiary"] = "secondary",
    name: str = "",
    is_disabled: bool = False,
    is_wide: bool = False,
    on_click: Callable[[], object] | None = None,
    **values: object,
) -> bool:
    """Draw a button and return whether it was pressed; the values fill its label.

    `name` is the widget's own key where it is not `key`; `icon` is a Material icon's name.
    """
    return st.button(
        say.text(key, **values),
        key=name or key,
        help=say.sentences.get(f"{key}_help"),
        icon=f":material/{icon}:" if icon else None,
        type=kind,
        disabled=is_disabled,
        width="stretch" if is_wide else "content",
        on_click=on_click,
    )


def pick(
    say: Words,
    key: str,
    options: Mapping[str, str],
    *,
    what: str = "",
    label: str = "",
    usual: str = "",
    help: str | None = None,
) -> str:
    """Draw a list of codes to choose from by their words; `?what=` carries the chosen one.

    Returns "" where none is chosen, and says so where the link's is not there. Words are shown as
    plain text, never as Markdown. Without `what` the key's last word is the parameter.
    """
    if label:
        what = key
    else:
        label, what, help = (
            say.text(key),
            what or key.rpartition("_")[2],
            say.sentences.get(f"{key}_help"),
        )
    state, box = st.session_state, f"pick_{what}"
    code = st.query_params.get(what, "") or state.get(f"picked_{what}", usual)
    if code and code not in options:
        remark(say, "pick_not_here")
        code = ""
    state[box] = code or None
    st.selectbox(
        label,
        list(options),
        index=None,
        format_func=options.__getitem__,
        key=box,
        placeholder=say.text("pick_none"),
        help=help,
        on_change=lambda: take(what, state[box] or ""),
    )
    if code:
        take(what, code)
    return code


def take(what: str, code: str) -> None:
    """Choose in a list that `pick` draws, as if the reader had; "" chooses none."""
    st.session_state[f"picked_{what}"] = code
    write(what, code)


def choose_kept(say: Words, key: str, names: Mapping[str, str], *, what: str = "") -> str:
    """Draw the choice of one of several kept things; says `KEY_gone` if the link's is not here.

    The newest stands in the link too: tomorrow another one is the newest.
    """
    what = what or key.rpartition("_")[2]
    asked = st.query_params.get(what, "")
    if asked not in names:
        if asked:
            empty(say, f"{key}_gone")
        st.query_params[what] = next(iter(names))
    return choose(say, key, names, what=what, is_long=True)


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
