"""Corpus: what is in the notes, and whose names? From a file of notes to a list and passages."""

from __future__ import annotations

import streamlit as st

from audit.corpus.kept import CORPORA, KeptCorpus
from audit.errors import AuditError
from pages.ui import blocks, corpus_choice
from pages.ui.blocks import refused
from pages.ui.corpus_build import draw_build
from pages.ui.corpus_job import JOBS
from pages.ui.corpus_onward import draw_forget, draw_onward
from pages.ui.corpus_report import draw_report
from pages.ui.language import Words, words

VIEWS = ("kept", "build")


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("corpus_title"), anchor=False)
    st.html(blocks.heading("", below=say.text("corpus_below")))
    try:
        is_building = JOBS.draw(say)
        kept = CORPORA.all()
        if is_building:
            st.html(blocks.heading("", below=say.text("corpus_building")))
        elif not kept:
            st.html(blocks.heading(say.text("corpus_empty"), below=say.text("corpus_empty_do")))
            draw_build(say)
        elif corpus_choice.view(say, VIEWS) == "build":
            draw_build(say)
        else:
            draw_kept(say, kept)
    except AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))


def draw_kept(say: Words, kept: tuple[KeptCorpus, ...]) -> None:
    """Draw the choice among the kept corpora, and the one that is chosen."""
    corpus = corpus_choice.corpus(say, kept)
    if corpus is None:
        return
    try:
        draw_report(say, corpus)
        draw_onward(say, corpus)
    except AuditError as error:  # one with a damaged file can be removed
        refused(say, error)
    draw_forget(say, corpus)


page()
