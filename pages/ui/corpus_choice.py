"""What is chosen on the Corpus page: a view, a corpus, a file of notes; in link and session."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from audit.corpus.kept import KeptCorpus
from audit.home import salted_digest
from audit.notes.read import EXAMPLE, NoteFile, NoteSource
from pages.ui import blocks
from pages.ui.language import Words
from pages.ui.text import day

_CORPUS, _FILE, _VIEW = "corpus", "notes", "view"
_VIEW_KEY, _CORPUS_KEY, _FILE_KEY = "corpus_view", "corpus_kept", "corpus_file"
_CHOSEN = "corpus_chosen_file"
FIELDS = ("text", "patient_id", "admission_id", "chart_time", "category", "note_id")
"""Fields of a note in the order in which they matter."""


def view(say: Words, views: Sequence[str]) -> str:
    """Draw the choice between the kept corpora and a new one, and return its code."""
    asked = st.query_params.get(_VIEW, "")
    st.session_state[_VIEW_KEY] = asked if asked in views else views[0]
    found = st.segmented_control(
        say.text("corpus_view"),
        views,
        format_func=lambda code: say.text(f"corpus_view_{code}"),
        key=_VIEW_KEY,
        label_visibility="collapsed",
        on_change=_to_link,
        args=(_VIEW_KEY, _VIEW),
    )
    return found or views[0]


def show_corpus(corpus_id: str) -> None:
    """Let the page show a kept corpus from its next run on."""
    st.query_params[_CORPUS] = corpus_id
    st.query_params.pop(_VIEW, None)


def corpus(say: Words, kept: Sequence[KeptCorpus]) -> KeptCorpus | None:
    """Draw the choice of a kept corpus and return it; None where the link's is not kept here."""
    by_id = {one.corpus_id: one for one in kept}
    asked = st.query_params.get(_CORPUS, "")
    if asked and asked not in by_id:
        st.html(
            blocks.heading(say.text("corpus_wrong_link"), below=say.text("corpus_wrong_link_do"))
        )
    st.session_state[_CORPUS_KEY] = (
        asked if asked in by_id else (None if asked else next(iter(by_id)))
    )
    # A box of choices shows its options as plain text, never as Markdown.
    code = st.selectbox(
        say.text("corpus_kept"),
        list(by_id),
        format_func=lambda corpus_id: corpus_name(say, by_id[corpus_id]),
        index=None,
        key=_CORPUS_KEY,
        placeholder=say.text("setup_choose"),
        on_change=_to_link,
        args=(_CORPUS_KEY, _CORPUS),
    )
    if code:
        st.query_params[_CORPUS] = code
    return by_id.get(code or "")


def corpus_name(say: Words, one: KeptCorpus) -> str:
    """Return what a corpus is called on the screen; untrusted text."""
    title = one.title or one.source
    return say.text("corpus_name", title=title, n=f"{one.n_notes:,}", at=day(one.created))


def file(say: Words, files: Sequence[NoteFile]) -> NoteFile | None:
    """Draw the choice of a file of notes and return it; the link carries a code of its own."""
    by_code = {code_of(one): one for one in files}
    asked = st.query_params.get(_FILE, "") or st.session_state.get(_CHOSEN, "")
    st.session_state[_FILE_KEY] = asked if asked in by_code else None
    code = st.selectbox(
        say.text("corpus_file"),
        list(by_code),
        format_func=lambda code: file_name(say, by_code[code]),
        index=None,
        key=_FILE_KEY,
        placeholder=say.text("setup_choose"),
        on_change=_to_link,
        args=(_FILE_KEY, _FILE),
    )
    if code:
        st.session_state[_CHOSEN] = st.query_params[_FILE] = code
    return by_code.get(code or "")


def choose_file(one: NoteFile) -> None:
    """Choose a file of notes for the page's next run."""
    st.session_state[_CHOSEN] = st.query_params[_FILE] = code_of(one)


def code_of(one: NoteFile) -> str:
    """Return what a link says of a file: a file's name may hold a person's."""
    return salted_digest(f"notes {one.file_id}")[:12]


def file_name(say: Words, one: NoteFile) -> str:
    """Return what a file is called on the screen; untrusted text."""
    if one.file_id == EXAMPLE:
        return say.text("corpus_example_file")
    size = size_text(one.n_bytes)
    return say.text("corpus_file_name", name=one.file_id, size=size)


def size_text(n_bytes: int) -> str:
    """Return a size in bytes as it is written for a reader."""
    size = float(n_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"


def columns(say: Words, file: NoteFile, found: NoteSource) -> tuple[tuple[str, str], ...] | None:
    """Draw which column is which, as (field, its name); None while the notes' is not clear."""
    rows = [
        (say.text("corpus_fact_kind"), say.text(f"corpus_kind_{found.kind}")),
        (say.text("corpus_fact_size"), size_text(file.n_bytes)),
    ]
    rows += [
        (say.text(f"corpus_field_{field}"), ", ".join(found.columns[field]))
        for field in FIELDS
        if found.columns.get(field)
    ]
    header = [say.text("setup_column_fact"), say.text("setup_column_value")]
    st.html(blocks.simple_table(header, rows, caption=say.text("corpus_file_caption"), n_text=2))
    if found.kind == "folder":
        return ()
    is_unclear = not found.has_text or not found.columns.get("patient_id")
    if is_unclear:
        which = "corpus_no_patient" if found.has_text else "corpus_no_text"
        st.html(blocks.heading("", below=say.text(which)))
    chosen = []
    with st.expander(say.text("corpus_columns"), key="corpus_columns", expanded=is_unclear):
        for field, place in zip(FIELDS, [*st.columns(3), *st.columns(3)], strict=True):
            name = place.selectbox(
                say.text(f"corpus_field_{field}"),
                found.headings,
                index=None,
                key=f"corpus_column_{field}_{code_of(file)}",
                placeholder=say.text("corpus_column_usual"),
            )
            if name:
                chosen.append((field, name))
    if not found.has_text and "text" not in dict(chosen):
        return None
    return tuple(chosen)


def _to_link(key: str, field: str) -> None:
    value = st.session_state.get(key)
    if value:
        st.query_params[field] = value
    else:
        st.query_params.pop(field, None)
        st.session_state.pop(_CHOSEN if field == _FILE else field, None)
