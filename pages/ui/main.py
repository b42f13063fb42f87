"""The router: what every page has around it. Streamlit runs this file for every page and rerun."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from audit.kept import KeptAudit
from pages.ui import cached, place
from pages.ui.headers import LANGUAGE_SCRIPTS
from pages.ui.language import LANGUAGES, Words
from pages.ui.text import day

UI = Path(__file__).resolve().parent


def main() -> None:
    """Draw the sidebar and run the page."""
    st.session_state.setdefault("language", place.language())
    words = place.words()
    st.set_page_config(page_title=words.text("app"), page_icon=UI / "icon.png", layout="wide")
    overview = UI.parent / "overview.py"
    title, icon = words.text("overview_link"), ":material/fact_check:"
    first = st.Page(overview, title=title, icon=icon, url_path="first", default=True)
    pages = {"overview": first}
    # The first page's own address is "/"; links to "/overview" lead there too.
    alias = st.Page(overview, title=title, icon=icon, url_path="overview", visibility="hidden")
    place.keep_pages(pages)
    page = st.navigation({words.text("section_answer"): [*pages.values(), alias]}, expanded=True)
    st.html(UI / "style.css")
    st.html(f"<script>{LANGUAGE_SCRIPTS[words.language]}</script>", unsafe_allow_javascript=True)
    with st.sidebar:
        st.html(f'<p class="ka-brand">{words.html("app")}</p>')
        _audit_picker(words)
        st.radio(
            words.text("language"),
            list(LANGUAGES),
            format_func=LANGUAGES.__getitem__,
            key="language",
            horizontal=True,
        )
        st.caption(words.text("stays_here"))
    st.query_params["lang"] = words.language
    page.run()


def _audit_picker(words: Words) -> None:
    try:
        here = place.place()
    except (cached.AuditError, cached.StoreError):
        return  # the page says why
    if not here.kept:
        return
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


def _open_audit() -> None:
    if st.session_state["audit"]:
        st.query_params["audit"] = st.session_state["audit"][:12]


# Untrusted: a select box shows its options as plain text, never as Markdown.
def _label(words: Words, line: KeptAudit) -> str:
    return words.text(
        "audit_line",
        scenario=line.scenario,
        hospital=line.hospital,
        at=day(line.at),
    )


main()
