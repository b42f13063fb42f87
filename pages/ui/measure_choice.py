"""Choices whose code stands in the address, so that a link restores them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st


def choose(
    what: str,
    options: Sequence[str],
    *,
    label: str,
    shown: Callable[[str], str],
    is_long: bool = False,
) -> str:
    """Draw a choice among codes and return the chosen one; `?what=` opens it, and follows it.

    `shown` turns a code into trusted text; with `is_long` the options stand in a list (whose text
    is shown as it is) and not beside each other. The first option is the default.
    """
    key = f"measures_{what}"
    if st.session_state.get(key) not in options:
        wanted = st.query_params.get(what, "")
        st.session_state[key] = wanted if wanted in options else options[0]
    found: str | None
    if is_long:
        found = st.selectbox(label, options, format_func=shown, key=key)
    else:
        found = st.segmented_control(label, options, format_func=shown, key=key, required=True)
    chosen = str(found or options[0])
    if chosen != options[0] or what in st.query_params:
        st.query_params[what] = chosen
    return chosen
