"""State in the address: what a reader chose goes into the link as codes, and a link restores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st


def from_link(page: str, *, keys: Sequence[str]) -> dict[str, str] | None:
    """Return what the link asks for; None where the page itself has written it last.

    A page then sets its widgets by it, before they are drawn.
    """
    found = {key: st.query_params.get(key, "") for key in keys}
    return None if st.session_state.get(f"{page}_link_state") == found else found


def to_link(page: str, *, values: Mapping[str, str]) -> None:
    """Write what the page shows into the link; empty values are left out."""
    for key, value in values.items():
        if value and st.query_params.get(key) != value:
            st.query_params[key] = value
        elif not value and key in st.query_params:
            del st.query_params[key]
    st.session_state[f"{page}_link_state"] = dict(values)


def pager(page: str, *, n_pages: int, at: int) -> None:
    """Draw a pager that shows page `at`, under the key `<page>_pager`; `turned_to` says where.

    A page that sets the number itself calls `turn_to`.
    """
    if n_pages < 2:
        return
    version = st.session_state.get(f"{page}_pager_version", 0)
    with st.container(key=f"{page}_pager"):
        st.pagination(
            n_pages,
            default=at,
            key=f"{page}_pager_{version}",
            on_change=_turned,
            args=(page, version),
        )


def turned_to(page: str) -> int:
    """Return the number that the pager or the page itself has turned to, from 1."""
    return int(st.session_state.get(f"{page}_page", 1))


def turn_to(page: str, *, number: int) -> None:
    """Turn to a page; the pager is drawn anew, for its default alone cannot move it."""
    state = st.session_state
    state[f"{page}_page"] = number
    state[f"{page}_pager_version"] = state.get(f"{page}_pager_version", 0) + 1


def _turned(page: str, version: int) -> None:
    st.session_state[f"{page}_page"] = st.session_state[f"{page}_pager_{version}"]
