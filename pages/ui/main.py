"""The router: what every page has around it. Streamlit runs this file for every page and rerun."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from audit.errors import AuditError
from audit.report.report import KeptAudit
from audit.words import LANGUAGES, Words
from pages.ui import state
from pages.ui.access import (
    logout_button,
    note,
    require_login,
    reveal_switch,
    warn_of_open_secrets,
)
from pages.ui.blocks import day
from pages.ui.headers import LANGUAGE_SCRIPTS, SCRIPTS
from pages.ui.running import job_line
from pages.ui.section import place

UI = Path(__file__).resolve().parent
PAGES = {
    "verdict": ":material/fact_check:",
    "audit": ":material/play_circle:",
    "names": ":material/person_search:",
    "measures": ":material/monitoring:",
    "deidentify": ":material/ink_eraser:",
    "workshop": ":material/construction:",
    "method": ":material/menu_book:",
}
"""Page -> icon, in the order of the sidebar; a page's file is `pages/<page>.py`."""
HIDDEN = ("jobs",)
"""Pages that other pages lead to."""
OF_ONE_AUDIT = ("verdict", "names", "measures")
"""Pages that show an audit's data, the demo's under a ribbon; others are logged without one."""


def _choose_again(language: str) -> None:
    """Set every choice anew after the language was switched.

    A browser knows a choice by its words: it goes on showing those of the other language, or
    nothing, until it is told.
    """
    before, st.session_state["spoken"] = st.session_state.get("spoken", language), language
    for key, value in dict(st.session_state).items() if before != language else ():
        if isinstance(key, str) and isinstance(value, str):
            st.session_state[key] = value


def main() -> None:
    """Draw the sidebar and run the page."""
    st.session_state.setdefault("language", state.language())
    words = state.words()
    _choose_again(words.language)
    st.set_page_config(page_title=words.text("app"), layout="wide")
    st.html(UI / "style.css")
    if not require_login(words):
        return
    st.set_page_config(page_icon=UI / "icon.png")  # a file, which is sent after a login only
    page = _navigation(words)
    for script in (LANGUAGE_SCRIPTS[words.language], *SCRIPTS):
        st.html(f"<script>{script}</script>", unsafe_allow_javascript=True)
    with st.sidebar:
        unsaved = " ka-unsaved" if state.has_unsaved() else ""
        st.html(f'<p class="ka-brand{unsaved}">{words.html("app")}</p>')
        shown = _audit_picker(words)
        audit = shown.digest if shown else ""
        st.radio(
            words.text("language"),
            list(LANGUAGES),
            format_func=LANGUAGES.__getitem__,
            key="language",
            horizontal=True,
            label_visibility="collapsed",
        )
        reveal_switch(words, audit=audit)
        job_line(words)
        logout_button(words)
        st.caption(words.text("stays_here"))
    warn_of_open_secrets(words)
    name = page.url_path or "verdict"
    st.query_params["lang"] = words.language
    if audit:
        st.query_params["audit"] = audit[:12]
    note("opened", audit=audit if name in OF_ONE_AUDIT else "", page=name)
    if shown and shown.is_demo and name in OF_ONE_AUDIT:
        st.html(
            f'<p class="ka-ribbon" role="note"><strong>{words.html("demo_ribbon")}</strong> '
            f"<span>{words.html('is_demo')}</span></p>"
        )
    page.run()


def _navigation(words: Words) -> st.Page:
    pages = {
        name: st.Page(
            UI.parent / f"{name}.py",
            title=words.text(f"{name}_link"),
            icon=PAGES.get(name),
            # The first page's own address is "/"; its name as an address leads there too.
            url_path="first" if name == "verdict" else name,
            default=name == "verdict",
            visibility="visible" if name in PAGES else "hidden",
        )
        for name in (*PAGES, *HIDDEN)
    }
    state.keep_pages(pages)
    alias = st.Page(
        _open_verdict, title=words.text("verdict_link"), url_path="verdict", visibility="hidden"
    )
    return st.navigation([*pages.values(), alias], expanded=True)


def _open_verdict() -> None:
    """Open the first page, with all that its link carries."""
    state.go_to(
        "verdict", **{key: st.query_params[key] for key in st.query_params if key != "lang"}
    )


def _audit_picker(words: Words) -> KeptAudit | None:
    """Draw the choice of audits, and return the one that is shown."""
    try:
        here = place()
    except AuditError:
        return None  # the page says why
    if not here.kept:
        return None
    lines = {line.digest: line for line in here.kept}
    st.session_state["audit"] = here.audit.digest if here.audit else None
    st.selectbox(
        words.text("audit"),
        list(lines),
        index=0 if here.audit else None,
        format_func=lambda digest: _label(words, lines[digest]),
        key="audit",
        placeholder=words.text("audit_choose"),
        on_change=_open_audit,
    )
    return here.audit


def _open_audit() -> None:
    if st.session_state["audit"]:
        st.query_params["audit"] = st.session_state["audit"][:12]


# Untrusted: a select box shows its options as plain text, never as Markdown.
def _label(words: Words, line: KeptAudit) -> str:
    return words.text(
        "audit_line_demo" if line.is_demo else "audit_line",
        scenario=line.scenario,
        hospital=line.hospital,
        at=day(line.at),
    )


main()
