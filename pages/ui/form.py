"""What a page asks with: choices that a link carries, buttons, and the boxes of any record or task.

A key stands for its sentences: `KEY` is the label, `KEY_help` the help where there is one, and
`KEY_CODE` what a code is called. A field's bounds, kind and usual value are the engine's own; its
words are `WORDS_set_FIELD`, `WORDS_help_FIELD` and, where it is one of a few codes,
`WORDS_FIELD_CODE`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import streamlit as st
from pydantic import TypeAdapter

from audit.shelf import MAX_TITLE_CHARS
from audit.task import Record
from audit.words import Words
from pages.ui.access import note_upload
from pages.ui.blocks import heading
from pages.ui.state import write

_LARGEST = (1 << 53) - 1
"""What a browser holds exactly."""


def ask(
    say: Words, usual: Record, *, words: str, fields: Sequence[str], key: str, n_columns: int = 2
) -> dict[str, Any]:
    """Draw a box for each of a record's fields, its value in it, and return what they hold.

    Boxes begin anew where `usual` is another. An empty box of an optional field is None. What the
    record refuses is refused by the record: `usual.with_(**found)`.
    """
    mark = f"{key}_{zlib.crc32(usual.to_bytes()):08x}"
    found, columns = {}, st.columns(n_columns)
    for place, field in enumerate(fields):
        about = type(usual).model_fields[field]
        schema = TypeAdapter(Annotated[about.annotation, about]).json_schema()
        with columns[place % n_columns]:
            value, box = getattr(usual, field), f"{mark}_{field}"
            found[field] = _box(say, schema, value, words=words, field=field, key=box)
    return found


def choose(
    say: Words,
    key: str,
    options: Sequence[str] | Mapping[str, str],
    *,
    what: str = "",
    is_long: bool = False,
) -> str:
    """Draw a choice among codes and return the chosen one; `?what=` opens it, and follows it.

    The first option is the usual one, and is not written into the address. Options are shown as
    `KEY_CODE`, or as a mapping of them says: trusted text, unless they stand in a list (`is_long`).
    They stand beside each other, or under each other with `KEY_why_CODE` where
    the words have that. Without `what` the key's last word is the parameter.
    """
    what, codes = what or _last(key), list(options)
    box = _by_link(
        what,
        is_fit=lambda code: code in codes,
        read=lambda wanted: wanted if wanted in codes else codes[0],
    )
    reasons = [say.sentences.get(f"{key}_why_{code}", "") for code in codes]
    label, looks = say.text(key), {"key": box, "format_func": _shown(say, key, options)}
    looks["help"] = say.sentences.get(f"{key}_help")
    found: str | None
    if is_long:
        found = st.selectbox(label, codes, **looks)
    elif any(reasons):
        found = st.radio(label, codes, captions=reasons, **looks)
    else:
        found = st.segmented_control(label, codes, required=True, wrap=True, **looks)
    chosen = str(found or codes[0])
    _to_link(what, chosen if chosen != codes[0] or what in st.query_params else "")
    return chosen


def choose_some(
    say: Words,
    key: str,
    options: Sequence[str] | Mapping[str, str],
    *,
    what: str = "",
    is_long: bool = False,
    is_all: bool = True,
) -> tuple[str, ...]:
    """Draw a choice of any number of codes and return the chosen ones; where none is, all.

    Words, parameter and `is_long` are those of `choose`; a list says `KEY_all` where none is.
    Without `is_all` no choice is none.
    """
    what, shown = what or _last(key), _shown(say, key, options)
    box = _by_link(
        what,
        is_fit=lambda kept: isinstance(kept, list) and set(kept) <= set(options),
        read=lambda wanted: [one for one in wanted.replace(",", ".").split(".") if one in options],
    )
    label, looks = say.text(key), {"key": box, "format_func": shown}
    if is_long:
        found = st.multiselect(
            label, list(options), placeholder=say.text(f"{key}_all"), select_all=False, **looks
        )
    else:
        found = st.pills(label, list(options), selection_mode="multi", wrap=True, **looks)
    _to_link(what, ".".join(found))
    return tuple(found) or (tuple(options) if is_all else ())


def switch(say: Words, key: str, *, what: str = "", **values: object) -> bool:
    """Draw a switch and return whether it is on; `?what=1` turns it on, and follows it.

    Without `what` the key's last word is the parameter.
    """
    what = what or _last(key)
    box = _by_link(what, is_fit=lambda kept: kept is not None, read=lambda wanted: wanted == "1")
    is_on = st.toggle(say.text(key, **values), key=box, help=say.sentences.get(f"{key}_help"))
    _to_link(what, "1" if is_on else "")
    return is_on


@contextmanager
def paged(what: str, n_rows: int, *, of: object, per_page: int = 10) -> Iterator[slice]:
    """Yield which rows stand on the page of `?page=`, and draw the pager under them.

    What is listed anew (another `of`) begins on its first page; a page that is not there is the
    nearest.
    """
    state, key, n = st.session_state, f"{what}_pager", max(1, -(-n_rows // per_page))
    is_new, state[f"{what}_of"] = state.get(f"{what}_of", of) != of, of
    wanted = "" if is_new else st.query_params.get("page", "")
    is_number = wanted.isascii() and wanted.isdigit() and len(wanted) < 10
    at = min(max(1, int(wanted)), n) if is_number else 1
    write("page", "" if at == 1 else str(at))
    yield slice((at - 1) * per_page, min(at * per_page, n_rows))

    def turned() -> None:
        number = state[f"{key}_{at}"]
        write("page", "" if number == 1 else str(number))

    if n > 1:
        with st.container(key=key):
            st.pagination(n, default=at, key=f"{key}_{at}", on_change=turned)


def _last(key: str) -> str:
    return key.rpartition("_")[2]


def _by_link(what: str, *, is_fit: Callable[[Any], bool], read: Callable[[str], object]) -> str:
    """Set a widget by the link, unless the page itself has written that last; return its key."""
    box, wanted, state = f"choice_{what}", st.query_params.get(what, ""), st.session_state
    if not is_fit(state.get(box)) or wanted != state.get(f"{box}_written", ""):
        state[box] = read(wanted)
    return box


def _to_link(what: str, code: str) -> None:
    st.session_state[f"choice_{what}_written"] = code
    write(what, code)


def _shown(
    say: Words, key: str, options: Sequence[str] | Mapping[str, str]
) -> Callable[[str], str]:
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
    return bool(
        draw(
            say.text(key, **values),
            value=is_on,
            key=name or key,
            help=say.sentences.get(f"{key}_help"),
            persist_state="session" if is_kept else None,
        )
    )


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


def ask_line(say: Words, key: str, *, most: int = MAX_TITLE_CHARS, is_kept: bool = False) -> str:
    """Draw a box for a line of text, as long as a title unless it is said; return what it says.

    `is_kept` as in `tick`.
    """
    return (
        st.text_input(
            say.text(key),
            key=key,
            max_chars=most,
            help=say.sentences.get(f"{key}_help"),
            persist_state="session" if is_kept else None,
        )
        or ""
    )


def upload(
    say: Words,
    key: str,
    endings: Sequence[str],
    *,
    most_mb: int,
    what: str,
    name: str = "",
    is_many: bool = False,
) -> list[Any]:
    """Draw a box for a file, or many, and return what was given; the log has it as `what`."""
    found: Any = st.file_uploader(
        say.text(key),
        type=list(endings),
        key=name or key,
        accept_multiple_files=is_many,
        max_upload_size=most_mb,
    )
    files = list(found) if is_many else [found] if found else []
    for file in files:
        note_upload(file, what=what)
    return files


def pick(
    say: Words,
    key: str,
    options: Mapping[str, str],
    *,
    what: str = "",
    usual: str = "",
) -> str:
    """Draw a list of codes to choose from by their words; `?what=` carries the chosen one.

    Returns "" where none is chosen, and says so where the link's is not there. Words are shown as
    plain text, never as Markdown. Without `what` the key's last word is the parameter.
    """
    what, state = what or _last(key), st.session_state
    box = f"pick_{what}"
    code = st.query_params.get(what, "") or state.get(f"picked_{what}", usual)
    if code and code not in options:
        st.html(heading("", below=say.text("pick_not_here")))
        code = ""
    state[box] = code or None
    st.selectbox(
        say.text(key),
        list(options),
        index=None,
        format_func=options.__getitem__,
        key=box,
        placeholder=say.text("pick_none"),
        help=say.sentences.get(f"{key}_help"),
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
    what = what or _last(key)
    asked = st.query_params.get(what, "")
    if asked not in names:
        if asked:
            gone = say.text(f"{key}_gone")
            st.html(heading(gone, below=say.text(f"{key}_gone_do")))
        st.query_params[what] = next(iter(names))
    return choose(say, key, names, what=what, is_long=True)


def _box(
    say: Words, schema: dict[str, Any], value: Any, *, words: str, field: str, key: str
) -> Any:
    """Draw the box of a field, as its JSON schema has it."""
    looks: dict[str, Any] = {
        "label": say.text(f"{words}_set_{field}"),
        "help": say.sentences.get(f"{words}_help_{field}"),
        "key": key,
        "persist_state": "session",
    }
    is_optional = "anyOf" in schema
    if is_optional:
        schema = next(one for one in schema["anyOf"] if one["type"] != "null")
    if codes := schema.get("enum"):
        return st.selectbox(
            options=codes,
            index=codes.index(value),
            **looks,
            format_func=lambda code: say.text(f"{words}_{field}_{code}"),
        )
    if schema["type"] == "boolean":
        return st.toggle(value=value, **looks)
    if schema["type"] == "string":
        return st.text_input(value=value, max_chars=500, **looks)
    kind = int if schema["type"] == "integer" else float
    low, high = (
        next((kind(schema[name]) for name in names if name in schema), None)
        for names in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
    )
    if kind is int and high is not None:
        high = min(high, _LARGEST)
    is_tiny = kind is float and value is not None and 0 < abs(value) < 1e-3
    if is_optional and value is not None:  # a box with a usual value is never empty
        st.session_state.setdefault(key, kind(value))
        value = None
    return st.number_input(
        min_value=low,
        max_value=high,
        value=value if value is None else kind(value),
        **looks,
        step=None if kind is int else 1e-5 if is_tiny else 0.01,
        format=None if kind is int else "%.2e" if is_tiny else "%.4g",
    )
