"""Card D: the passages of the de-identified notes, needed in scenario 2 only."""

from __future__ import annotations

import streamlit as st

from audit.errors import AuditError
from audit.names.lists import all_passages, keep_passages
from audit.notes.passages import Passage, Passages
from audit.shelf import MAX_TITLE_CHARS
from pages.ui import blocks, cached
from pages.ui.blocks import refused
from pages.ui.language import Words
from pages.ui.logged import note_upload
from pages.ui.setup_choice import chosen, keep_pending, list_name, pend, picker, step_of_new, unpend
from pages.ui.setup_list import draw_notes
from pages.ui.text import escaped

_MAX_UPLOAD_MB = 50
_CONTEXT_CHARS = 400
_ROUND = "passages_round"


def draw_passages(say: Words) -> bool:
    """Draw the card; say whether passages are chosen, or uploaded and kept by going on."""
    passages = chosen_passages(say)
    with st.container(border=True, key="card_passages"):
        head = st.container()
        st.html(blocks.heading("", below=say.text("setup_passages_below")))
        lines = {line.code: line for line in all_passages(cached.store())}
        picker(
            "passages",
            list(lines),
            label=say.text("setup_passages_pick"),
            say=say,
            shown=lambda code: say.text(
                "setup_passages_line",
                name=list_name(say, lines[code]),
                n=lines[code].n,
            ),
        )
        if passages:
            draw_facts(say, passages, key="kept_passages")
        with st.expander(say.text("setup_new_passages"), key="new_passages"):
            draw_new(say)
        with head:
            usual = "setup_ready" if passages else "setup_only_scenario_2"
            is_chosen = passages is not None
            return step_of_new(say, "D", field="passages", usual=usual, is_chosen=is_chosen)


def chosen_passages(say: Words) -> Passages | None:
    """Return the passages of the link; None where there are none, and then say why."""
    code = chosen().get("passages", "")
    if not code:
        return None
    try:
        return cached.passages(code).passages
    except AuditError as error:
        refused(say, error)
        return None


def draw_new(say: Words) -> None:
    """Draw the upload of a file of passages, what came of it, and the button that keeps it.

    Whoever goes on without pressing it keeps them all the same.
    """
    unpend("passages")
    st.html(blocks.heading("", below=say.text("setup_passages_format")))
    file = st.file_uploader(
        say.text("setup_passages_file"),
        type=["csv", "jsonl", "ndjson", "json"],
        # A box to upload is emptied by giving it another key.
        key=f"passages_file_{st.session_state.get(_ROUND, 0)}",
        max_upload_size=_MAX_UPLOAD_MB,
    )
    if file is None:
        return
    note_upload(file, what="passages")
    data = file.getvalue()
    try:
        passages = cached.new_passages(data, file_name=file.name)
    except AuditError as error:
        refused(say, error)
        pend("passages", None)
        return
    draw_facts(say, passages, key="new_passages")
    title, button = st.columns([3, 1], vertical_alignment="bottom")
    label = title.text_input(
        say.text("setup_passages_title"), key="setup_passages_title", max_chars=MAX_TITLE_CHARS
    )
    pend("passages", lambda: keep(data, file_name=file.name, label=label))
    pressed = button.button(
        say.text("setup_keep_passages"), key="keep_passages", type="primary", width="stretch"
    )
    if pressed and keep_pending(say):
        st.rerun()


def keep(data: bytes, *, file_name: str, label: str) -> str:
    """Keep a file of passages and return its digest; raises as `keep_passages`."""
    digest = keep_passages(data, file_name=file_name, label=label, store=cached.store())
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    return digest


def draw_facts(say: Words, passages: Passages, *, key: str) -> None:
    """Draw counts, the rows left out, and one passage with the name's place marked."""
    owners = say.text("setup_owners_yes" if passages.has_owners else "setup_owners_no")
    counts = say.text(
        "setup_passages_counts", n=len(passages), left_out=len(passages.notes),
        encoding=passages.encoding,
    )  # fmt: skip
    st.html(blocks.heading("", below=f"{counts} {owners}"))
    draw_notes(say, passages.notes, title="setup_left_out", key=f"{key}_notes")
    with st.expander(say.text("setup_example"), key=f"{key}_example"):
        st.html(example(say, passages.passages[0]))


def example(say: Words, passage: Passage) -> str:
    """Return a passage as HTML, the name's place marked."""
    before = escaped(passage.left[-_CONTEXT_CHARS:])
    after = escaped(passage.right[:_CONTEXT_CHARS])
    marks = [f"<mark>{say.html(f'setup_slot_{role}')}</mark>" for role in passage.slots]
    return f'<p class="ka-passage">{before}{escaped(passage.separator).join(marks)}{after}</p>'
