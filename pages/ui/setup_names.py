"""Card C: the list of names, chosen or made here from a file and drawn controls."""

from __future__ import annotations

import streamlit as st

from audit.errors import AuditError
from audit.models.registry import RegisteredModel
from audit.names.controls import MAX_DRAWN
from audit.names.files import names_template
from audit.names.lists import all_names, keep_names
from audit.shelf import MAX_TITLE_CHARS
from pages.ui import blocks, cached
from pages.ui.blocks import refused
from pages.ui.cached import ListView
from pages.ui.language import Words
from pages.ui.logged import note_upload
from pages.ui.setup_choice import chosen, keep_pending, list_name, pend, picker, step_of_new, unpend
from pages.ui.setup_list import draw_list

DRAWN = ("easy", "hard", "recombined")
_MAX_UPLOAD_MB = 20
_KEPT, _ROUND = "names_kept", "names_round"


def draw_names(say: Words, *, hospital: RegisteredModel | None) -> bool:
    """Draw the card; say whether a list is chosen, or made and kept by going on."""
    view = chosen_list(say)
    with st.container(border=True, key="card_names"):
        head = st.container()
        st.html(blocks.heading("", below=say.text("setup_names_below")))
        lines = {line.code: line for line in all_names(cached.store())}
        picker(
            "names",
            list(lines),
            label=say.text("setup_names_pick"),
            say=say,
            shown=lambda code: say.text(
                "setup_names_line", name=list_name(say, lines[code]), n=lines[code].n
            ),
        )
        if view:
            draw_list(say, view, key="kept", hospital=hospital)
        with st.expander(say.text("setup_new_list"), key="new_list", expanded=view is None):
            draw_new(say, base=view, hospital=hospital)
        with head:
            usual = "setup_ready" if view else "setup_missing"
            return step_of_new(say, "C", field="names", usual=usual, is_chosen=view is not None)


def chosen_list(say: Words) -> ListView | None:
    """Return the list of the link; None where there is none, and then say why."""
    code = chosen().get("names", "")
    if not code:
        return None
    try:
        return cached.names(code)
    except AuditError as error:
        refused(say, error)
        return None


def draw_new(say: Words, *, base: ListView | None, hospital: RegisteredModel | None) -> None:
    """Draw what a list is made of, what came of it, and the button that keeps it.

    Whoever goes on without pressing it keeps the list all the same.
    """
    start_afresh()
    unpend("names")
    left, right = st.columns([1, 1], gap="large")
    with left:
        data, start = ask_file(say, base=base)
    with right:
        wanted = ask_more(say)
    model = hospital.path if hospital is not None and hospital.summary is not None else None
    try:
        view = cached.new_names(data, base=start, wanted=wanted, model=model)
    except AuditError as error:
        refused(say, error)
        pend("names", None)
        return
    if view is None or view.draft is None:
        return
    st.html(blocks.heading(say.text("setup_draft"), below=draft_line(say, view)))
    draw_list(say, view, key="draft", hospital=hospital)
    title, button = st.columns([3, 1], vertical_alignment="bottom")
    label = title.text_input(
        say.text("setup_list_title"),
        key="setup_list_title",
        max_chars=MAX_TITLE_CHARS,
        help=say.text("setup_list_title_help"),
        persist_state="session",
    )
    pend("names", lambda: keep(view, label=label))
    pressed = button.button(
        say.text("setup_keep"), key="keep_names", type="primary", width="stretch"
    )
    if pressed and keep_pending(say):
        st.rerun()


def keep(view: ListView, *, label: str) -> str:
    """Keep a list and return its digest; raises as `keep_names`."""
    digest = keep_names(
        view.candidates,
        label=label,
        store=cached.store(),
    )
    st.session_state[_KEPT] = True
    return digest


def is_new_visit() -> bool:
    """Whether the reader comes from another page: the box to upload has been emptied meanwhile."""
    return f"names_file_{st.session_state.get(_ROUND, 0)}" not in st.session_state


def start_afresh() -> None:
    """After a list has been kept, empty the boxes that it was made of."""
    if not st.session_state.pop(_KEPT, False):
        return
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    st.session_state["setup_list_title"] = ""
    st.session_state["names_from_chosen"] = False
    for kind in DRAWN:
        st.session_state[f"names_draw_{kind}"] = 0


def draft_line(say: Words, view: ListView) -> str:
    """Return where a new list's names came from, as a sentence."""
    assert view.draft is not None
    counts = {"given": view.draft.n_given, "drawn": view.draft.n_drawn}
    return say.text("setup_draft_line", **counts)


def ask_file(say: Words, *, base: ListView | None) -> tuple[bytes | None, str]:
    """Ask for a file; return its bytes, and the code of the kept list to start from."""
    st.download_button(
        say.text("setup_template"),
        data=names_template().encode("utf-8-sig"),
        file_name="names-template.csv",
        mime="text/csv",
        icon=":material/download:",
        key="names_template",
        on_click="ignore",
    )
    st.html(blocks.heading("", below=say.text("setup_file_below")))
    file = st.file_uploader(
        say.text("setup_file"),
        type="csv",
        # A box to upload is emptied by giving it another key.
        key=f"names_file_{st.session_state.get(_ROUND, 0)}",
        max_upload_size=_MAX_UPLOAD_MB,
    )
    if file is not None:
        note_upload(file, what="names")
        return file.getvalue(), ""
    is_started = base is not None and st.checkbox(
        say.text("setup_from_chosen"), key="names_from_chosen", help=say.text("setup_from_help")
    )
    return None, base.line.code if base and is_started else ""


def ask_more(say: Words) -> dict[str, int]:
    """Ask for controls to draw."""
    st.html(blocks.heading("", below=say.text("setup_draw_below")))
    numbers = {}
    for kind, column in zip(DRAWN, st.columns(len(DRAWN)), strict=True):
        number = column.number_input(
            say.text(f"setup_draw_{kind}"),
            min_value=0,
            max_value=MAX_DRAWN,
            step=10,
            key=f"names_draw_{kind}",
            help=say.text(f"setup_draw_{kind}_help"),
            persist_state="session",
        )
        numbers[kind] = int(number)
    return numbers
