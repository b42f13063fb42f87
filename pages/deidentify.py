"""De-identify: what in these notes says who they are about? Marks, replaced texts, files."""

from __future__ import annotations

import streamlit as st

from audit.deid.tagged import TAGGED_SETS
from pages.ui import blocks, cached
from pages.ui.deid_ask import draw_new
from pages.ui.deid_jobs import JOBS
from pages.ui.deid_set import draw_kept
from pages.ui.language import Words, words

VIEWS = ("new", "kept")
_VIEW = "deidentify_view"


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("deidentify_title"), anchor=False)
    st.html(blocks.heading("", below=say.text("deidentify_below")))
    try:
        JOBS.draw(say)
        if view(say) == "kept":
            draw_kept(say, TAGGED_SETS.all())
        else:
            draw_new(say)
    except cached.AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))


def view(say: Words) -> str:
    """Draw the choice between new notes and kept ones, and return its code."""
    asked = st.query_params.get("view", "")
    usual = "kept" if st.query_params.get("tagged") else "new"
    st.session_state[_VIEW] = asked if asked in VIEWS else usual

    def to_link() -> None:
        st.query_params["view"] = st.session_state[_VIEW] or usual

    found = st.segmented_control(
        say.text("deidentify_view"),
        VIEWS,
        format_func=lambda code: say.text(f"deidentify_view_{code}"),
        key=_VIEW,
        label_visibility="collapsed",
        on_change=to_link,
    )
    return found or usual


page()
