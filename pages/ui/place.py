"""Where the reader is: the language, the audit, and links that keep both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from audit.kept import KeptAudit, choose_audit, other_scenario
from pages.ui import cached
from pages.ui.language import LANGUAGES, Words, words_of

_PAGES = "pages"


@dataclass(frozen=True)
class Place:
    """The audit that the link names, and its neighbours.

    Attributes
    ----------
    kept
        Every kept audit that can be read, the newest first.
    n_unreadable
        Audits that another version of the program wrote.
    audit
        None: nothing is kept, or the link fits no audit.
    other
        The same pair in the other scenario, if it is kept.
    is_demo
        Whether the audit is of the demo hospital, whose names are made up.
    """

    kept: tuple[KeptAudit, ...]
    n_unreadable: int
    audit: KeptAudit | None
    other: KeptAudit | None
    is_demo: bool


def language() -> str:
    """Return the language's code: the switch's, else the link's, else the browser's."""
    chosen = st.session_state.get("language") or st.query_params.get("lang", "")
    if chosen in LANGUAGES:
        return str(chosen)
    return "ja" if str(st.context.locale or "").lower().startswith("ja") else "en"


def words() -> Words:
    """Return the words of the reader's language."""
    return words_of(language())


def place() -> Place:
    """Return where the link leads; raises as `cached.kept_audits`."""
    (kept, n_unreadable), demo = cached.kept_audits(), cached.demo_audits()
    audit = choose_audit(st.query_params.get("audit", ""), kept=kept, demo=demo)
    other = other_scenario(audit, kept=kept, demo=demo) if audit else None
    is_demo = audit is not None and audit.digest in demo.values()
    return Place(kept, n_unreadable, audit, other, is_demo)


def keep_pages(pages: Mapping[str, Any]) -> None:
    """Remember this session's pages by name, for links between them."""
    st.session_state[_PAGES] = dict(pages)


def link(page: str, *, label: str, audit: str, icon: str | None = None) -> None:
    """Draw a link to a page that keeps language and audit; the label is trusted text."""
    st.page_link(
        st.session_state[_PAGES][page],
        label=label,
        icon=icon,
        query_params={"audit": audit[:12], "lang": language()},
    )
