"""Revealing names: masked on every screen until the reader says why, and the log has written it."""

from __future__ import annotations

import streamlit as st

from audit.errors import AuditError
from audit.report.names import masked_name
from audit.text import written_name
from pages.ui import blocks
from pages.ui.login import may_or_say
from pages.ui.state import Words

REASONS = ("check", "report", "inform", "other")
"""Codes of the reasons that can be given; free text could itself hold a name."""
_REVEALED = "is_revealed"


def is_revealed() -> bool:
    """Return whether this session shows names in full."""
    return bool(st.session_state.get(_REVEALED))


def names_in_files() -> str:
    """Return the log's word for how a file of what is seen writes names."""
    return "full" if is_revealed() else "masked"


def shown_name(first: str, last: str) -> str:
    """Return a name as this session shows it: initials, or in full; not escaped yet."""
    return written_name(first, last) if is_revealed() else masked_name(first, last)


def shown_passage(passage_id: str, *, number: int) -> str:
    """Return what a passage is called: the hospital's own word for it may name somebody."""
    return passage_id if is_revealed() else f"{number}"


def reveal_switch(words: Words, *, audit: str) -> None:
    """Draw the sidebar's switch for an audit (digest); revealing needs a reason and is logged."""
    if not may_or_say("revealed", words):
        _hide()
        return
    if is_revealed():
        st.button(
            words.text("hide_names"),
            icon=":material/visibility_off:",
            key="hide_names",
            on_click=_hide,
            width="stretch",
        )
        return
    label = words.text("reveal_names")
    with st.popover(label, icon=":material/visibility:", key="reveal_names", width="stretch"):
        st.html(blocks.heading("", below=words.text("reveal_why")))
        reason = st.radio(
            words.text("reveal_reason"),
            REASONS,
            format_func=lambda code: words.text(f"reveal_reason_{code}"),
            key="reveal_reason",
        )
        if st.button(words.text("reveal_now"), key="reveal_now", type="primary"):
            _reveal(words, audit=audit, reason=reason)


def _reveal(words: Words, *, audit: str, reason: str) -> None:
    from pages.ui.logged import note

    try:
        note("revealed", audit=audit, reason=reason)
    except AuditError as error:
        why = error.written(words.language)
        st.html(blocks.heading("", below=words.text("reveal_refused", why=why)))
        return
    st.session_state[_REVEALED] = True
    st.rerun()


def _hide() -> None:
    st.session_state[_REVEALED] = False
