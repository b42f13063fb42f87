"""New notes: pasted, uploaded or out of a registered folder; read at once, or by a job."""

from __future__ import annotations

import streamlit as st

from audit.deid.given import ENDINGS, MAX_FILES, MAX_UPLOAD_MB
from audit.deid.release import Release
from audit.deid.tagged import (
    MAX_TYPED_CHARS,
    Correction,
    OneNote,
    census_of,
    released_note,
    tagged_text,
)
from audit.deid.taggers import KnownTagger, load_tagger
from audit.deid.tasks import NotesToTag, one_text, uploaded
from audit.errors import AuditError
from audit.notes.spans import Span
from audit.shelf import MAX_TITLE_CHARS
from pages.ui import blocks, cached, corpus_choice
from pages.ui.blocks import refused
from pages.ui.deid_correct import Keeper, draw_corrections
from pages.ui.deid_files import Exportable, draw_files
from pages.ui.deid_jobs import start
from pages.ui.deid_settings import ask_release, ask_tagger
from pages.ui.deid_text import ask_types, counts_of, draw_language, draw_legend, draw_note
from pages.ui.language import Words
from pages.ui.logged import note, note_upload, who

_FOUND, _FIXED = "deidentify_found", "deidentify_fixed"


def draw_pasted(say: Words, text: str, *, tagger: KnownTagger, how: Release) -> None:
    """Draw what was found in a pasted text, and what a person corrected in it.

    Its names are in sight already, so that it can be corrected without revealing any.
    """
    try:
        found = read_text(text, tagger=tagger, how=how)
        fixed = corrections_of_text(text, tagger=tagger)
        found = released_note(found.document, row=1, release=how, corrections=fixed)
    except AuditError as error:
        refused(say, error)
        return
    counts = counts_of(found)
    st.html(
        blocks.heading(say.text("deidentify_result"), below=say.text("deidentify_result_pasted"))
    )
    census = census_of(found, release=how)
    draw_language(say, census["n_notes_of_no_language"])
    labels = ask_types(say, counts, key="deidentify_pasted")
    draw_note(say, found, labels=labels, is_source_shown=True)
    draw_legend(say, counts)
    draw_corrections(say, found, keeper=keeper(fixed))
    what = Exportable(
        notes=lambda: (found,),
        n_notes=1,
        n_bytes=len(found.document.text),
        census=census,
        is_private_allowed=True,
    )
    draw_files(say, what, key="deidentify_pasted")


def read_text(text: str, *, tagger: KnownTagger, how: Release) -> OneNote:
    """Return a pasted text with its marks; the last answer is remembered in this session alone."""
    question = (text, tagger.digest, how)
    known = st.session_state.get(_FOUND)
    if known is None or known[0] != question:
        found = tagged_text(text, tagger=load_tagger(tagger.tagger_id), release=how)
        note("ran", kind="tagging", n_notes=1, n_spans=len(found.document.spans))
        st.session_state[_FOUND] = known = (question, found)
    return known[1]


def corrections_of_text(text: str, *, tagger: KnownTagger) -> list[Correction]:
    """Return this session's list of corrections of a text: empty for another text or tagger."""
    question = (text, tagger.digest)
    known = st.session_state.get(_FIXED)
    if known is None or known[0] != question:
        st.session_state[_FIXED] = known = (question, [])
    return known[1]


def keeper(fixed: list[Correction]) -> Keeper:
    """Return what keeps the corrections of the pasted text, in this session alone."""

    def keep(kind: str, spans: tuple[Span, ...]) -> None:
        fixed.append(Correction(kind=kind, spans=spans, who=who()))
        note("ran", kind="correction", n_spans=len(spans))

    def undo() -> None:
        fixed.pop()
        note("ran", kind="undone-correction")

    return Keeper("deidentify_fix_pasted", keep, undo)


WAYS = ("paste", "upload", "file")
_WAY, _TEXT, _READ, _UPLOADED = (
    "deidentify_way", "deidentify_text", "deidentify_read", "deidentify_uploaded",
)  # fmt: skip


def draw_new(say: Words) -> None:
    """Draw the choice of notes and of the way to read them, and what a pasted text gave."""
    left, right = st.columns([3, 2], gap="large")
    with right, st.container(border=True, key="deidentify_card_settings"):
        st.html(blocks.heading(say.text("deidentify_settings")))
        tagger = ask_tagger(say)
        how = ask_release(say)
    with left:
        way = ask_way(say)
        try:
            if way == "paste":
                draw_paste(say, tagger=tagger, how=how)
            else:
                draw_file(say, way, tagger=tagger, how=how)
        except AuditError as error:
            refused(say, error)
    if way == "paste" and tagger.is_quick and st.session_state.get(_READ):
        draw_pasted(say, st.session_state[_READ], tagger=tagger, how=how)


def ask_way(say: Words) -> str:
    """Draw where the notes come from, and return its code."""
    asked = st.session_state.get(_WAY) or st.query_params.get("way", "")
    st.session_state[_WAY] = asked if asked in WAYS else WAYS[0]

    def to_link() -> None:
        st.query_params["way"] = st.session_state[_WAY] or WAYS[0]

    return str(
        st.segmented_control(
            say.text("deidentify_way"),
            WAYS,
            format_func=lambda code: say.text(f"deidentify_way_{code}"),
            key=_WAY,
            on_change=to_link,
        )
        or WAYS[0]
    )


def draw_paste(say: Words, *, tagger: KnownTagger, how: Release) -> None:
    """Draw the box for a text and the buttons beneath it."""
    st.text_area(
        say.text("deidentify_paste_label"),
        key=_TEXT,
        height=330,
        max_chars=MAX_TYPED_CHARS,
        help=say.text("deidentify_paste_help", n=f"{MAX_TYPED_CHARS:,}"),
        persist_state="session",
    )
    with st.container(horizontal=True):
        is_asked = st.button(
            say.text("deidentify_go"), key="deidentify_go_paste", type="primary",
            icon=":material/ink_eraser:",
        )  # fmt: skip
        st.button(
            say.text("deidentify_example"), key="deidentify_example", icon=":material/science:",
            on_click=_take_example, args=(say.text("deidentify_example_note"),),
        )  # fmt: skip
    if not is_asked:
        return
    text = st.session_state.get(_TEXT) or ""
    if not text.strip():
        st.html(blocks.heading("", below=say.text("deidentify_text_missing")))
    elif tagger.is_quick:
        st.session_state[_READ] = text
    else:
        start(one_text(text, source="pasted"), tagger=tagger, how=how)
        st.rerun()


def draw_file(say: Words, way: str, *, tagger: KnownTagger, how: Release) -> None:
    """Draw the choice of a file, and the button that starts its job."""
    notes = ask_upload(say) if way == "upload" else ask_registered(say)
    title = st.text_input(
        say.text("deidentify_name"), key="deidentify_name", max_chars=MAX_TITLE_CHARS,
        help=say.text("deidentify_name_help"),
    )  # fmt: skip
    if not st.button(
        say.text("deidentify_go"), key="deidentify_go_file", type="primary",
        icon=":material/ink_eraser:",
    ):  # fmt: skip
        return
    if notes is None:
        st.html(blocks.heading("", below=say.text("deidentify_file_missing")))
        return
    start(notes, tagger=tagger, how=how, title=title or "")
    st.rerun()


def ask_upload(say: Words) -> NotesToTag | None:
    """Ask for files; raises `AuditError` if they are no notes."""
    st.html(
        blocks.heading(
            "",
            below=say.text("deidentify_upload_below", n=MAX_UPLOAD_MB, files=f"{MAX_FILES:,}"),
        )
    )
    files = st.file_uploader(
        say.text("deidentify_upload_label"),
        type=list(ENDINGS),
        accept_multiple_files=True,
        key="deidentify_upload",
        max_upload_size=MAX_UPLOAD_MB,
    )
    if not files:
        return None
    for file in files:
        note_upload(file, what="notes")
    # What was read once is remembered in this session alone, until other files are given.
    codes = tuple(file.file_id for file in files)
    known = st.session_state.get(_UPLOADED)
    if known is None or known[0] != codes:
        notes = uploaded([(file.name, file.getvalue()) for file in files])
        st.session_state[_UPLOADED] = known = (codes, notes)
    return known[1]


def ask_registered(say: Words) -> NotesToTag | None:
    """Ask for a file of the list and its columns."""
    file = corpus_choice.file(say, cached.note_files())
    columns = corpus_choice.columns(say, file, cached.note_columns(file)) if file else None
    if file is None or columns is None:
        return None
    return NotesToTag("registered", file_id=file.file_id, columns=columns)


def _take_example(text: str) -> None:
    st.session_state[_TEXT] = st.session_state[_READ] = text
