"""Inputs of a page: choices that a link carries, buttons, and the boxes of any record or task.

A key stands for its sentences: `KEY` is the label, `KEY_help` the help if there is one, and
`KEY_CODE` the name of a code. The engine defines a field's bounds, kind and default. The words of a
field are `WORDS_set_FIELD`, `WORDS_help_FIELD` and, if it has a few codes, `WORDS_FIELD_CODE`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, TypeVar

import streamlit as st
from pydantic import TypeAdapter

from audit.names.candidates import ControlSource
from audit.shelf import MAX_TITLE_CHARS
from audit.task import Record
from audit.words import Words
from pages.ui.access import log_upload
from pages.ui.blocks import heading
from pages.ui.state import write_parameter

_LARGEST = (1 << 53) - 1
"""The largest integer that a browser represents exactly."""
MAX_LINE_CHARS = 500
"""A field that may hold more characters is asked for in a box of several lines."""
ButtonKind = Literal["primary", "secondary", "tertiary"]
Code = TypeVar("Code", bound=str)


def ask_fields(
    say: Words, defaults: Record, *, words: str, fields: Sequence[str], key: str, n_columns: int = 2
) -> dict[str, Any]:
    """Draw a box for each of a record's fields with its default, and return the entries.

    Other `defaults` reset the boxes. An empty box of an optional field is None. The entries are not
    checked; the record itself refuses invalid ones: `defaults.with_(**entries)`.
    """
    mark = f"{key}_{zlib.crc32(defaults.to_bytes()):08x}"
    entries, columns = {}, st.columns(n_columns)
    for place, field in enumerate(fields):
        field_info = type(defaults).model_fields[field]
        annotation: Any = Annotated[field_info.annotation, field_info]
        schema = TypeAdapter(annotation).json_schema()
        with columns[place % n_columns]:
            default, box_key = getattr(defaults, field), f"{mark}_{field}"
            entries[field] = _draw_box(say, schema, default, words=words, field=field, key=box_key)
    return entries


def choose(
    say: Words,
    key: str,
    options: Sequence[Code] | Mapping[Code, str],
    *,
    parameter: str = "",
    is_long: bool = False,
) -> Code:
    """Draw a choice among codes and return the chosen code; the query `parameter` carries it.

    The first option is the default and is not written into the address. An option is shown as
    `KEY_CODE` or as a mapping names it: trusted text, unless it stands in a list (`is_long`).
    Options are drawn side by side, or below each other if the words have reasons `KEY_why_CODE`.
    By default `parameter` is the last word of the key.
    """
    parameter = parameter or _last_word(key)
    codes: list[Code] = list(options)
    box = _settle_choice(codes, parameter=parameter)
    reasons = [say.sentences.get(f"{key}_why_{code}", "") for code in codes]
    label = say.text(key)
    looks: dict[str, Any] = {
        "key": box,
        "format_func": _code_formatter(say, key, options),
        "help": say.sentences.get(f"{key}_help"),
    }
    selected_code: Code | None
    if is_long:
        selected_code = st.selectbox(label, codes, **looks)
    elif any(reasons):
        selected_code = st.radio(label, codes, captions=reasons, **looks)
    else:
        selected_code = st.segmented_control(label, codes, required=True, wrap=True, **looks)
    chosen = selected_code or codes[0]
    _write_choice(parameter, chosen if chosen != codes[0] or parameter in st.query_params else "")
    return chosen


def read_choice(options: Iterable[Code], *, parameter: str) -> Code:
    """Return what `choose` will return in this run, before it is drawn."""
    codes = list(options)
    selected_code: Code | None = st.session_state[_settle_choice(codes, parameter=parameter)]
    return selected_code or codes[0]


def _settle_choice(codes: Sequence[str], *, parameter: str) -> str:
    return _set_by_link(
        parameter,
        is_fit=lambda code: code in codes,
        read=lambda link_code: link_code if link_code in codes else codes[0],
    )


def choose_some(
    say: Words,
    key: str,
    options: Sequence[str] | Mapping[str, str],
    *,
    parameter: str = "",
    is_long: bool = False,
    is_all: bool = True,
) -> tuple[str, ...]:
    """Draw a choice of any number of codes and return the chosen codes, or all if none is chosen.

    Words, `parameter` and `is_long` are those of `choose`; an empty list shows `KEY_all`. Without
    `is_all`, an empty choice returns no codes.
    """
    parameter, format_code = parameter or _last_word(key), _code_formatter(say, key, options)
    box = _settle_choices(options, parameter=parameter)
    label = say.text(key)
    looks: dict[str, Any] = {
        "key": box,
        "format_func": format_code,
        "help": say.sentences.get(f"{key}_help"),
    }
    if is_long:
        selected_codes = st.multiselect(
            label, list(options), placeholder=say.text(f"{key}_all"), select_all=False, **looks
        )
    else:
        selected_codes = st.pills(label, list(options), selection_mode="multi", wrap=True, **looks)
    _write_choice(parameter, ".".join(selected_codes))
    return tuple(selected_codes) or (tuple(options) if is_all else ())


def read_choices(options: Iterable[str], *, parameter: str) -> tuple[str, ...]:
    """Return the codes that a reader has chosen in `choose_some`, before it is drawn."""
    return tuple(st.session_state[_settle_choices(list(options), parameter=parameter)])


def _settle_choices(codes: Collection[str], *, parameter: str) -> str:
    return _set_by_link(
        parameter,
        is_fit=lambda choice: isinstance(choice, list) and set(choice) <= set(codes),
        read=lambda link_codes: [
            code for code in link_codes.replace(",", ".").split(".") if code in codes
        ],
    )


def draw_switch(say: Words, key: str, *, parameter: str = "", **values: object) -> bool:
    """Draw a switch and return whether it is on; the query `parameter` is then "1".

    By default `parameter` is the last word of the key.
    """
    parameter = parameter or _last_word(key)
    box = _set_by_link(
        parameter, is_fit=lambda choice: choice is not None, read=lambda link_code: link_code == "1"
    )
    is_on = st.toggle(say.text(key, **values), key=box, help=say.sentences.get(f"{key}_help"))
    _write_choice(parameter, "1" if is_on else "")
    return is_on


@contextmanager
def paginate(
    list_name: str, n_rows: int, *, selection: object, per_page: int = 10
) -> Iterator[slice]:
    """Yield the slice of rows on the page `?page=`, and draw the pager under them.

    Another `selection` begins on its first page. A page number out of range leads to the nearest
    page.
    """
    state, key, n = st.session_state, f"{list_name}_pager", max(1, -(-n_rows // per_page))
    is_new, state[f"{list_name}_of"] = (
        state.get(f"{list_name}_of", selection) != selection,
        selection,
    )
    page_text = "" if is_new else st.query_params.get("page", "")
    is_number = page_text.isascii() and page_text.isdigit() and len(page_text) < 10
    page_number = min(max(1, int(page_text)), n) if is_number else 1
    write_parameter("page", "" if page_number == 1 else str(page_number))
    yield slice((page_number - 1) * per_page, min(page_number * per_page, n_rows))

    def turn_page() -> None:
        number = state[f"{key}_{page_number}"]
        write_parameter("page", "" if number == 1 else str(number))

    if n > 1:
        with st.container(key=key):
            st.pagination(n, default=page_number, key=f"{key}_{page_number}", on_change=turn_page)


def _last_word(key: str) -> str:
    return key.rpartition("_")[2]


def _set_by_link(
    parameter: str, *, is_fit: Callable[[Any], bool], read: Callable[[str], object]
) -> str:
    """Set a widget from the link, unless the page itself wrote the link; return its key."""
    box, link_code, state = (
        f"choice_{parameter}",
        st.query_params.get(parameter, ""),
        st.session_state,
    )
    if not is_fit(state.get(box)) or link_code != state.get(f"{box}_written", ""):
        state[box] = read(link_code)
    return box


def _write_choice(parameter: str, code: str) -> None:
    st.session_state[f"choice_{parameter}_written"] = code
    write_parameter(parameter, code)


def _code_formatter(
    say: Words, key: str, options: Sequence[Code] | Mapping[Code, str]
) -> Callable[[Code], str]:
    if isinstance(options, Mapping):
        return options.__getitem__
    return lambda code: say.text(f"{key}_{code}")


def draw_toggle(
    say: Words,
    key: str,
    *,
    name: str = "",
    is_on: bool = False,
    is_box: bool = False,
    is_kept: bool = False,
    **values: object,
) -> bool:
    """Draw a switch or a checkbox that no link carries, and return whether it is on.

    `name` is the widget's key if it is not `key`; `is_kept` keeps the state while another page is
    shown.
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


def draw_button(
    say: Words,
    key: str,
    *,
    icon: str = "",
    kind: ButtonKind = "secondary",
    name: str = "",
    is_disabled: bool = False,
    is_wide: bool = False,
    on_click: Callable[[], None] | None = None,
    **values: object,
) -> bool:
    """Draw a button and return whether it was pressed; the values fill its label.

    `name` is the widget's key if it is not `key`; `icon` is the name of a Material icon.
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


def ask_line(
    say: Words, key: str, *, max_chars: int = MAX_TITLE_CHARS, is_kept: bool = False
) -> str:
    """Draw a box for a line of text, by default as long as a title, and return the text.

    `is_kept` as in `draw_toggle`.
    """
    return (
        st.text_input(
            say.text(key),
            key=key,
            max_chars=max_chars,
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
    max_mb: int,
    file_kind: str,
    name: str = "",
    is_many: bool = False,
    action: str = "uploaded",
    **values: object,
) -> list[Any]:
    """Draw a box for one file or many, and return the uploads, which are logged as `file_kind`.

    `action` is that of the access log. The values fill the help.
    """
    help_key = f"{key}_help"
    _translate_uploader(say, name or key, endings, max_mb=max_mb)
    uploads: Any = st.file_uploader(
        say.text(key),
        type=list(endings),
        key=name or key,
        accept_multiple_files=is_many,
        max_upload_size=max_mb,
        help=say.text(help_key, **values) if help_key in say.sentences else None,
    )
    files = list(uploads) if is_many else [uploads] if uploads else []
    for file in files:
        log_upload(file, file_kind=file_kind, action=action)
    return files


def _translate_uploader(say: Words, key: str, endings: Sequence[str], *, max_mb: int) -> None:
    """Put words of the reader's language in place of Streamlit's, which are English."""
    box = f".st-key-{key} [data-testid=stFileUploaderDropzone]"
    kinds = say.text("upload_between").join(ending.upper() for ending in endings)
    limits = say.text("upload_limits", n=max_mb, kinds=kinds)
    places = (
        ("[data-testid=stBaseButton-secondary] > div", "p", say.text("upload_button")),
        ("[data-testid=stFileUploaderDropzoneInstructions] > div", "span", limits),
    )
    rules = "".join(
        f"{box} {place} {english} {{ display: none }}"
        f'{box} {place}::after {{ font-size: .875rem; content: "{sentence}" }}'
        for place, english, sentence in places
    )
    st.html(f"<style>{rules}</style>")


def pick(
    say: Words,
    key: str,
    options: Mapping[str, str],
    *,
    parameter: str = "",
    default: str = "",
) -> str:
    """Draw a list of codes and return the chosen code; the query `parameter` carries it.

    Returns "" if none is chosen, and draws a notice if the link's code is missing. Words are shown
    as plain text, never as Markdown. By default `parameter` is the last word of the key.
    """
    parameter, state = parameter or _last_word(key), st.session_state
    box = f"pick_{parameter}"
    code = st.query_params.get(parameter, "") or state.get(f"picked_{parameter}", default)
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
        on_change=lambda: set_pick(parameter, state[box] or ""),
    )
    if code:
        set_pick(parameter, code)
    return code


def set_pick(parameter: str, code: str) -> None:
    """Choose a code in a list that `pick` draws, as if the reader had; "" chooses none."""
    st.session_state[f"picked_{parameter}"] = code
    write_parameter(parameter, code)


def choose_kept(say: Words, key: str, names: Mapping[str, str], *, parameter: str = "") -> str:
    """Draw the choice of one of several kept things; draw `KEY_gone` if the link's is missing.

    The link also names the newest thing, because another one may be the newest tomorrow.
    """
    parameter = parameter or _last_word(key)
    link_code = st.query_params.get(parameter, "")
    if link_code not in names:
        if link_code:
            gone = say.text(f"{key}_gone")
            st.html(heading(gone, below=say.text(f"{key}_gone_do")))
        st.query_params[parameter] = next(iter(names))
    return choose(say, key, names, parameter=parameter, is_long=True)


def _draw_box(
    say: Words, schema: dict[str, Any], default: Any, *, words: str, field: str, key: str
) -> Any:
    """Draw the box of a field according to its JSON schema."""
    looks: dict[str, Any] = {
        "label": say.text(f"{words}_set_{field}"),
        "help": say.sentences.get(f"{words}_help_{field}"),
        "key": key,
        "persist_state": "session",
    }
    is_optional = "anyOf" in schema
    if is_optional:
        schema = next(branch for branch in schema["anyOf"] if branch["type"] != "null")
    if codes := schema.get("enum"):
        return st.selectbox(
            options=codes,
            index=codes.index(default),
            **looks,
            format_func=lambda code: say.text(f"{words}_{field}_{code}"),
        )
    if schema["type"] == "boolean":
        return st.toggle(value=default, **looks)
    if schema["type"] == "string" and schema.get("maxLength", 0) > MAX_LINE_CHARS:
        return st.text_area(value=default, max_chars=schema["maxLength"], height=90, **looks)
    if schema["type"] == "string":
        return st.text_input(value=default, max_chars=MAX_LINE_CHARS, **looks)
    kind = int if schema["type"] == "integer" else float
    low: Any
    high: Any
    low, high = (
        next((kind(schema[name]) for name in names if name in schema), None)
        for names in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
    )
    if kind is int and high is not None:
        high = min(high, _LARGEST)
    is_tiny = kind is float and default is not None and 0 < abs(default) < 1e-3
    if is_optional and default is not None:  # a box with a usual value is never empty
        st.session_state.setdefault(key, kind(default))
        default = None
    if kind is float:
        looks["step"] = 1e-5 if is_tiny else 0.01
        looks["format"] = "%.2e" if is_tiny else "%.4g"
    return st.number_input(
        min_value=low,
        max_value=high,
        value=default if default is None else kind(default),
        **looks,
    )


def ask_source(
    say: Words,
    options: tuple[ControlSource, ...],
    *,
    key: str,
    default: ControlSource | None = None,
) -> ControlSource | None:
    """Draw the question where the controls come from, each answer with an example."""
    return st.radio(
        say.text("audit_source_ask"),
        options,
        index=None if default is None else options.index(default),
        key=key,
        format_func=lambda source: say.text(f"audit_source_{source}"),
        captions=[say.text(f"audit_source_example_{source}") for source in options],
    )
