"""A new corpus in four steps: a file of notes, a look at it, the settings, the button."""

from __future__ import annotations

import streamlit as st

from audit.errors import AuditError
from audit.notes.read import EXAMPLE, VARIABLE, NoteFile
from pages.ui import blocks, corpus_cached, corpus_choice
from pages.ui.corpus_cached import Columns
from pages.ui.corpus_look import draw_look
from pages.ui.corpus_settings import ask_order, chosen_register, draw_start
from pages.ui.language import Words
from pages.ui.setup_choice import refused, step

FIELDS = ("text", "patient_id", "admission_id", "chart_time", "category", "note_id")
"""Fields of a note in the order in which they matter."""


def draw_build(say: Words) -> None:
    """Draw the steps; each appears once the one before it is done."""
    files = corpus_cached.files()
    draw_folders(say, files)
    with st.container(border=True, key="corpus_card_file"):
        chosen = draw_file(say, files)
    if chosen is None:
        return
    file, columns = chosen
    try:
        with st.container(border=True, key="corpus_card_look"):
            found = draw_look(say, file, columns=columns, register=chosen_register(files))
        with st.container(border=True, key="corpus_card_settings"):
            order = ask_order(say, file, columns=columns, survey=found, files=files)
    except AuditError as error:
        refused(say, error)
        return
    if order is not None:
        draw_start(say, order)


def draw_folders(say: Words, files: tuple[NoteFile, ...]) -> None:
    """Say where notes are looked for, if no folder is registered or none of them has notes."""
    if any(file.file_id != EXAMPLE for file in files):
        return
    st.html(blocks.heading(say.text("corpus_no_folder"), below=say.text("corpus_no_folder_do")))
    st.code(f"{VARIABLE}=DIR python -m streamlit run app.py", language="bash")
    example = next((file for file in files if file.file_id == EXAMPLE), None)
    if example and st.button(
        say.text("corpus_try_example"), key="corpus_try_example", icon=":material/science:"
    ):
        corpus_choice.choose_file(example)
        st.rerun()


def draw_file(say: Words, files: tuple[NoteFile, ...]) -> tuple[NoteFile, Columns] | None:
    """Draw the choice of a file and of its columns; None until both are clear."""
    place = st.empty()
    st.html(blocks.heading("", below=say.text("corpus_file_below")))
    file = corpus_choice.file(say, files)
    columns = ask_columns(say, file) if file else None
    state = say.text("setup_ready" if columns is not None else "setup_missing")
    with place.container():
        step("1", say.text("corpus_step_file"), is_ready=columns is not None, state=state)
    return None if file is None or columns is None else (file, columns)


def ask_columns(say: Words, file: NoteFile) -> Columns | None:
    """Draw which column is which; None while it is not clear where the notes stand."""
    try:
        found = corpus_cached.columns(file)
    except AuditError as error:
        refused(say, error)
        return None
    rows = [
        (say.text("corpus_fact_kind"), say.text(f"corpus_kind_{found.kind}")),
        (say.text("corpus_fact_size"), corpus_choice.size_text(file.n_bytes)),
    ]
    rows += [
        (say.text(f"corpus_field_{field}"), ", ".join(found.taken[field]))
        for field in FIELDS
        if found.taken.get(field)
    ]
    header = [say.text("setup_column_fact"), say.text("setup_column_value")]
    st.html(blocks.simple_table(header, rows, caption=say.text("corpus_file_caption"), n_text=2))
    if found.kind == "folder":
        return ()
    is_unclear = not found.has_text or not found.taken.get("patient_id")
    if is_unclear:
        which = "corpus_no_patient" if found.has_text else "corpus_no_text"
        st.html(blocks.heading("", below=say.text(which)))
    columns = []
    with st.expander(say.text("corpus_columns"), key="corpus_columns", expanded=is_unclear):
        for field, place in zip(FIELDS, [*st.columns(3), *st.columns(3)], strict=True):
            name = place.selectbox(
                say.text(f"corpus_field_{field}"),
                found.headings,
                index=None,
                key=f"corpus_column_{field}_{corpus_choice.code_of(file)}",
                placeholder=say.text("corpus_column_usual"),
            )
            if name:
                columns.append((field, name))
    if not found.has_text and "text" not in dict(columns):
        return None
    return tuple(columns)
