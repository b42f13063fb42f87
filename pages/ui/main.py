"""The router: what every page has around it. Streamlit runs this file for every page and rerun."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from audit.report.report import KeptAudit
from pages.ui import blocks, cached, language, place
from pages.ui.headers import LANGUAGE_SCRIPTS
from pages.ui.job_line import job_line
from pages.ui.language import LANGUAGES, Words
from pages.ui.logged import note
from pages.ui.login import logout_button, require_login
from pages.ui.reveal import reveal_switch
from pages.ui.text import day

UI = Path(__file__).resolve().parent
SECTIONS = {
    "section_answer": {"overview": ":material/fact_check:"},
    "section_prepare": {
        "corpus": ":material/library_books:",
        "train": ":material/model_training:",
        "setup": ":material/inventory_2:",
        "run": ":material/play_circle:",
        "jobs": ":material/pending_actions:",
    },
    "section_look": {
        "names": ":material/person_search:",
        "measures": ":material/monitoring:",
        "documents": ":material/description:",
    },
    "section_deid": {
        "deidentify": ":material/ink_eraser:",
        "deid_measures": ":material/rule:",
    },
    "section_hand_over": {"report": ":material/task:", "method": ":material/menu_book:"},
}
"""Section -> page -> icon, in the order of the sidebar; a page's file is `pages/<page>.py`."""

OF_ONE_AUDIT = ("overview", "names", "measures", "documents", "report")
"""Pages that show an audit's data, the demo's under a ribbon; others are logged without one."""


def main() -> None:
    """Draw the sidebar and run the page."""
    st.session_state.setdefault("language", language.language())
    words = language.words()
    st.set_page_config(page_title=words.text("app"), page_icon=UI / "icon.png", layout="wide")
    st.html(UI / "style.css")
    if not require_login(words):
        return
    page = _navigation(words)
    st.html(f"<script>{LANGUAGE_SCRIPTS[words.language]}</script>", unsafe_allow_javascript=True)
    with st.sidebar:
        st.html(f'<p class="ka-brand">{words.html("app")}</p>')
        shown = _audit_picker(words)
        audit = shown.digest if shown else ""
        reveal_switch(words, audit=audit)
        job_line(words)
        st.radio(
            words.text("language"),
            list(LANGUAGES),
            format_func=LANGUAGES.__getitem__,
            key="language",
            horizontal=True,
        )
        logout_button(words)
        st.caption(words.text("stays_here"))
    st.query_params["lang"] = words.language
    if audit:
        st.query_params["audit"] = audit[:12]
    name = page.url_path or "overview"
    note("opened", audit=audit if name in OF_ONE_AUDIT else "", page=name)
    if shown and shown.is_demo and name in OF_ONE_AUDIT:
        st.html(blocks.ribbon(words.text("demo_ribbon"), below=words.text("is_demo")))
    page.run()


def _navigation(words: Words) -> st.Page:
    pages = {
        name: st.Page(
            UI.parent / f"{name}.py",
            title=words.text(f"{name}_link"),
            icon=icon,
            url_path="first" if name == "overview" else name,
            default=name == "overview",
        )
        for icons in SECTIONS.values()
        for name, icon in icons.items()
    }
    language.keep_pages(pages)
    # The first page's own address is "/"; links to "/overview" lead there too.
    alias = st.Page(
        UI.parent / "overview.py",
        title=words.text("overview_link"),
        url_path="overview",
        visibility="hidden",
    )
    sections = {
        words.text(section): [pages[name] for name in icons] for section, icons in SECTIONS.items()
    }
    sections[words.text("section_answer")].append(alias)
    return st.navigation(sections, expanded=True)


def _audit_picker(words: Words) -> KeptAudit | None:
    """Draw the choice of audits, and return the one that is shown."""
    try:
        here = place.place()
    except cached.AuditError:
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
