"""A look into a file of notes: which categories stand in its first notes, and what is no note."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from audit.corpus.build import CategoryCount
from audit.corpus.preview import Survey
from audit.notes.read import NoteFile
from audit.words import in_language
from pages.ui import blocks, corpus_cached
from pages.ui.corpus_cached import Columns
from pages.ui.corpus_preview import draw_preview
from pages.ui.language import Words
from pages.ui.reveal import is_revealed
from pages.ui.setup_choice import step

N_HEAD = 200
_MAX_CATEGORIES = 200
_MAX_REFUSED = 20


def draw_look(say: Words, file: NoteFile, *, columns: Columns, register: NoteFile | None) -> Survey:
    """Draw categories and preview, and return what stands in the first notes.

    Raises
    ------
    AuditError
        If the file cannot be read.
    """
    found = corpus_cached.survey(file, columns=columns, n=N_HEAD)
    state = say.text("setup_ready" if found.n_notes else "setup_missing")
    step("2", say.text("corpus_step_look"), is_ready=bool(found.n_notes), state=state)
    counts = {"n": f"{found.n_notes:,}", "refused": f"{len(found.refused):,}"}
    st.html(blocks.heading("", below=say.text("corpus_look_below", **counts)))
    draw_refused_head(say, found)
    if not found.n_notes:
        return found
    if found.has_placeholders:
        draw_survey(say, found)
        draw_preview(say, file, columns=columns, register=None, mode="dummy")
        return found
    title, below = say.text("corpus_identified"), say.text("corpus_identified_below")
    st.html(blocks.heading(title, below=below))
    if is_revealed():
        mode = "register" if register else "raw"
        draw_preview(say, file, columns=columns, register=register, mode=mode)
    return found


def draw_refused_head(say: Words, found: Survey) -> None:
    """Draw the first rows that are no notes."""
    if not found.refused:
        return
    n = len(found.refused)
    with st.expander(say.text("corpus_look_refused", n=n), key="corpus_look_refused"):
        rows = [
            (f"{one.row:,}", in_language(one.what, language=say.language))
            for one in found.refused[:_MAX_REFUSED]
        ]
        header = [say.text("setup_column_row"), say.text("setup_column_remark")]
        caption = say.text("setup_notes_caption", shown=len(rows), n=n)
        st.html(blocks.simple_table(header, rows, caption=caption, n_text=2))


def draw_survey(say: Words, found: Survey) -> None:
    """Draw the categories of the first notes, those that are not understood first."""
    unknown = [one for one in found.categories if one.kind == "unknown"]
    if unknown:
        title = say.text("corpus_look_unknown", n=len(unknown))
        st.html(blocks.heading(title, below=say.text("corpus_unknown_below")))
        draw_categories(say, unknown, key="look_unknown")
    known = [one for one in found.categories if one.kind != "unknown"]
    with st.expander(say.text("corpus_look_known", n=len(known)), key="corpus_look_known"):
        draw_categories(say, known, key="look_known")


def draw_categories(say: Words, counts: Sequence[CategoryCount], *, key: str) -> None:
    """Draw categories as they are written, what stands for them, and where they occur first."""
    rows = [
        (one.category, say.text(f"corpus_value_{one.kind}"), f"{one.n:,}", f"{one.first_row:,}")
        for one in counts[:_MAX_CATEGORIES]
    ]
    header = [
        say.text(f"corpus_column_{column}") for column in ("category", "value", "times", "first")
    ]
    caption = say.text("corpus_categories_caption", shown=len(rows), n=len(counts))
    with st.container(key=f"corpus_categories_{key}"):
        st.html(blocks.simple_table(header, rows, caption=caption, n_text=2))
