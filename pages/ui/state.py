"""The reader's language, and links: an address carries audit, language and choices as codes.

So a link restores what its sender saw. It never holds names or texts. Words are whole sentences in
English and Japanese, never parts joined together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import streamlit as st

from audit import words as words_files
from audit.words import LANGUAGES, Words

T = TypeVar("T")
_PAGES = "pages"
_FOLDER = Path(__file__).resolve().parent / "words"
"""It has one folder for each language, with one file for each page and `shared.json`."""


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


# What one run of a page asks for again and again.

_answers: ContextVar[dict[Callable[[], Any], Any] | None] = ContextVar("answers", default=None)


def begin_run() -> None:
    """Forget the answers of the run before; call this at the beginning of each whole run."""
    _answers.set({})


def once_a_run(make: Callable[[], T]) -> Callable[[], T]:
    """Keep a function's answer until the run ends; a fragment that runs alone asks each time."""

    @wraps(make)
    def look_up() -> T:
        answers = _answers.get()  # a context belongs to one thread, so to one session
        if answers is None:
            return make()
        if make not in answers:
            answers[make] = make()
        answer: T = answers[make]
        return answer

    return look_up


# What is lost with the session.


def mark_unsaved(draft: str, is_unsaved: bool = True) -> None:
    """Remember whether the text `draft` of this session is not saved anywhere.

    The browser then asks before it leaves the page. It learns this at the next run, so call this
    function when a box has changed.
    """
    marked: set[str] = st.session_state.setdefault("unsaved", set())
    (marked.add if is_unsaved else marked.discard)(draft)


def has_unsaved() -> bool:
    """Return whether the session holds a text that is not saved anywhere."""
    return bool(st.session_state.get("unsaved"))


# Pages and links between them.


def keep_pages(pages: Mapping[str, Any]) -> None:
    """Remember this session's pages by name, for links between them."""
    st.session_state[_PAGES] = dict(pages)


def draw_link(
    page: str, *, label: str, audit: str | None = None, icon: str | None = None, **query: str
) -> None:
    """Draw a link to a page that keeps language and audit; the label is trusted text.

    `audit` is a digest; None keeps the audit that is shown, "" leaves it out of the link.
    """
    st.page_link(
        st.session_state[_PAGES][page],
        label=label,
        icon=icon,
        query_params=_query(audit, query),
    )


def go_to(page: str, *, audit: str | None = None, **query: str) -> None:
    """Open another page with the language and audit of `draw_link`; does not return."""
    st.switch_page(st.session_state[_PAGES][page], query_params=_query(audit, query))


def _query(audit: str | None, query: Mapping[str, str]) -> dict[str, str]:
    digest_prefix = st.query_params.get("audit", "") if audit is None else audit[:12]
    return {"lang": language(), **({"audit": digest_prefix} if digest_prefix else {}), **query}


def write_parameter(key: str, code: str) -> None:
    """Write a code into the address; an empty code removes the parameter."""
    if code and st.query_params.get(key) != code:
        st.query_params[key] = code
    elif not code and key in st.query_params:
        del st.query_params[key]
