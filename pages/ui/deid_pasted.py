"""A pasted text that was read at once: its marks, corrections by hand, files; kept nowhere."""

from __future__ import annotations

import streamlit as st

from audit.deid.release import Release
from audit.deid.tagged import Correction, OneNote, census_of, released_note, tagged_text
from audit.deid.taggers import KnownTagger, load_tagger
from audit.errors import AuditError
from audit.notes.spans import Span
from pages.ui import blocks
from pages.ui.deid_correct import Keeper, draw_corrections
from pages.ui.deid_files import Exportable, draw_files
from pages.ui.deid_text import ask_types, counts_of, draw_language, draw_legend, draw_note
from pages.ui.language import Words
from pages.ui.logged import note, who
from pages.ui.setup_choice import refused

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
        language=how.language,
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
