"""Where the reader is: the language, the audit, and links that keep both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from audit.report.report import KeptAudit, choose_audit, other_scenario
from pages.ui import blocks, cached
from pages.ui.language import LANGUAGES, Words, words_of

_PAGES = "pages"
_AUDIT = "place_audit"


@dataclass(frozen=True)
class Place:
    """The audit that the link names, and its neighbours.

    Attributes
    ----------
    kept
        Every kept audit that can be read, own ones before the demo's, the newest first.
    n_unreadable
        Audits that another version of the program wrote.
    audit
        None: nothing is kept, or the link fits no audit.
    other
        The same pair in the other scenario, if it is kept.
    """

    kept: tuple[KeptAudit, ...]
    n_unreadable: int
    audit: KeptAudit | None
    other: KeptAudit | None


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
    # The sidebar's links to pages drop the address's query: the session remembers the audit.
    wanted = st.query_params.get("audit") or st.session_state.get(_AUDIT, "")
    audit = choose_audit(wanted, kept=kept, demo=demo)
    if audit:
        st.session_state[_AUDIT] = audit.digest
    other = other_scenario(audit, kept=kept) if audit else None
    return Place(kept, n_unreadable, audit, other)


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


def audit_or_reason(say: Words) -> KeptAudit | None:
    """Return the audit to show; where there is none, say why and what to do, and return None.

    Raises
    ------
    AuditError
        As `cached.kept_audits`.
    """
    here = place()
    if here.audit is not None:
        return here.audit
    if here.kept:
        st.html(blocks.heading(say.text("wrong_link"), below=say.text("wrong_link_do")))
        newest = here.kept[0].digest
        link("overview", label=say.text("open_newest"), audit=newest)
    else:
        st.html(blocks.heading(say.text("need_audit"), below=say.text("need_audit_do")))
        link("overview", label=say.text("go_to_overview"), audit="")
        link("run", label=say.text("go_to_run"), audit="")
    return None


def _query(audit: str | None, query: Mapping[str, str]) -> dict[str, str]:
    shown = st.query_params.get("audit", "") if audit is None else audit[:12]
    return {"lang": language(), **({"audit": shown} if shown else {}), **query}
