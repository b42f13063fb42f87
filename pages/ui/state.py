"""The reader's language, and links: an address carries audit, language and choices as codes.

So a link restores what its sender saw; names and texts never stand in it. Words are whole sentences
in English and Japanese, never glued parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from audit import words as words_files
from audit.words import LANGUAGES, Words

_PAGES = "pages"
_FOLDER = Path(__file__).resolve().parent / "words"
"""One folder a language, in it one file a page, and `shared.json`."""


def words_of(language: str) -> Words:
    """Return the sentences of all pages in a language."""
    return words_files.words_of(language, folder=_FOLDER)


def language() -> str:
    """Return the language's code: the switch's, else the link's, else the browser's."""
    chosen = st.session_state.get("language") or st.query_params.get("lang", "")
    if chosen in LANGUAGES:
        return str(chosen)
    return "ja" if str(st.context.locale or "").lower().startswith("ja") else "en"


def words() -> Words:
    """Return the words of the reader's language."""
    return words_of(language())


# What is lost with the session.


def mark_unsaved(what: str, is_unsaved: bool = True) -> None:
    """Say whether a text of this session is kept nowhere, by a name for what it is.

    The browser asks before it leaves. It is told at the next run: say so where a box has changed.
    """
    marked: set[str] = st.session_state.setdefault("unsaved", set())
    (marked.add if is_unsaved else marked.discard)(what)


def has_unsaved() -> bool:
    """Whether the session holds a text that is kept nowhere."""
    return bool(st.session_state.get("unsaved"))


# Pages and links between them.


def keep_pages(pages: Mapping[str, Any]) -> None:
    """Remember this session's pages by name, for links between them."""
    st.session_state[_PAGES] = dict(pages)


def link(
    page: str, *, label: str, audit: str | None = None, icon: str | None = None, **query: str
) -> None:
    """Draw a link to a page that keeps language and audit; the label is trusted text.

    `audit` is a digest; None keeps the one that is shown, "" names none.
    """
    st.page_link(
        st.session_state[_PAGES][page],
        label=label,
        icon=icon,
        query_params=_query(audit, query),
    )


def go_to(page: str, *, audit: str | None = None, **query: str) -> None:
    """Leave for another page, language and audit kept as by `link`; does not return."""
    st.switch_page(st.session_state[_PAGES][page], query_params=_query(audit, query))


def _query(audit: str | None, query: Mapping[str, str]) -> dict[str, str]:
    shown = st.query_params.get("audit", "") if audit is None else audit[:12]
    return {"lang": language(), **({"audit": shown} if shown else {}), **query}


def write(key: str, value: str) -> None:
    """Write a code into the address; an empty one is left out."""
    if value and st.query_params.get(key) != value:
        st.query_params[key] = value
    elif not value and key in st.query_params:
        del st.query_params[key]
