"""The router: it draws what surrounds every page. Streamlit runs it for every page and rerun."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from audit.errors import AuditError
from audit.report.report import KeptAudit
from audit.words import LANGUAGES, Words
from pages.ui import state
from pages.ui.access import (
    draw_logout_button,
    draw_reveal_switch,
    log_action,
    require_login,
    warn_of_open_secrets,
)
from pages.ui.blocks import STATE_MARKS, format_moment
from pages.ui.display_names import audited_names, state_name
from pages.ui.headers import LANGUAGE_SCRIPTS, SCRIPTS
from pages.ui.place import find_place
from pages.ui.running import draw_job_line

UI = Path(__file__).resolve().parent
PAGES = {
    "verdict": ":material/fact_check:",
    "audit": ":material/play_circle:",
    "names": ":material/person_search:",
    "measures": ":material/monitoring:",
    "check": ":material/verified:",
    "deidentify": ":material/ink_eraser:",
    "workshop": ":material/construction:",
    "method": ":material/menu_book:",
}
"""Page -> icon, in the order of the sidebar; a page's file is `pages/<page>.py`."""
HIDDEN = ("jobs",)
"""Pages that are not in the sidebar; other pages link to them."""
OF_ONE_AUDIT = ("verdict", "names", "measures")
"""Pages that show an audit's data, with a ribbon for the demo; the log names their audit."""


def _renew_choices(language: str) -> None:
    """Set every choice again after the language was switched.

    A browser identifies a choice by its words. Until the choice is set again, it shows the words of
    the other language, or nothing.
    """
    last_language, st.session_state["spoken"] = st.session_state.get("spoken", language), language
    for key, choice in dict(st.session_state).items() if last_language != language else ():
        if isinstance(key, str) and isinstance(choice, str):
            st.session_state[key] = choice


def main() -> None:
    """Draw the sidebar and run the page."""
    state.begin_run()
    st.session_state.setdefault("language", state.language())
    words = state.words()
    _renew_choices(words.language)
    st.set_page_config(page_title=words.text("app"), layout="wide")
    st.html(UI / "style.css")
    if not require_login(words):
        return
    st.set_page_config(page_icon=UI / "icon.png")  # a file, which is sent after a login only
    page = _build_navigation(words)
    for script in (LANGUAGE_SCRIPTS[words.language], *SCRIPTS):
        st.html(f"<script>{script}</script>", unsafe_allow_javascript=True)
    with st.sidebar:
        unsaved = " ka-unsaved" if state.has_unsaved() else ""
        st.html(f'<p class="ka-brand{unsaved}">{words.html("app")}</p>')
        open_audit = _draw_audit_picker(words)
        audit = open_audit.digest if open_audit else ""
        st.radio(
            words.text("language"),
            list(LANGUAGES),
            format_func=LANGUAGES.__getitem__,
            key="language",
            horizontal=True,
            label_visibility="collapsed",
        )
        draw_reveal_switch(words, audit=audit)
        draw_job_line(words)
        draw_logout_button(words)
        st.caption(words.text("stays_here"))
    warn_of_open_secrets(words)
    name = page.url_path or "verdict"
    st.query_params["lang"] = words.language
    if audit:
        st.query_params["audit"] = audit[:12]
    log_action("opened", audit=audit if name in OF_ONE_AUDIT else "", page=name)
    if open_audit and open_audit.is_demo and name in OF_ONE_AUDIT:
        st.html(
            f'<p class="ka-ribbon" role="note"><strong>{words.html("demo_ribbon")}</strong> '
            f"<span>{words.html('is_demo')}</span></p>"
        )
    _title_tab(words, name, audit=open_audit)
    page.run()


def _title_tab(words: Words, page: str, *, audit: KeptAudit | None) -> None:
    """Name the browser's tab after the page, and after the audit that it shows."""
    title = words.text(f"{page}_link")
    if audit and page in OF_ONE_AUDIT:
        place = {"page": title, **audited_names(words, audit), "scenario": audit.scenario}
        title = words.text("tab_title_audit", **place)
    st.set_page_config(page_title=words.text("tab_title", page=title))


def _build_navigation(words: Words) -> st.Page:
    pages = {
        name: st.Page(
            UI.parent / f"{name}.py",
            title=words.text(f"{name}_link"),
            icon=PAGES.get(name),
            # The first page has the address "/"; the address of its name redirects there.
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
    """Open the first page with the query of the link."""
    state.go_to(
        "verdict", **{key: st.query_params[key] for key in st.query_params if key != "lang"}
    )


def _draw_audit_picker(words: Words) -> KeptAudit | None:
    """Draw the choice of audits, and return the audit that is shown."""
    try:
        place = find_place()
    except AuditError:
        return None  # the page says why
    if not place.audits:
        return None
    lines = {line.digest: line for line in place.audits}
    st.session_state["audit"] = place.audit.digest if place.audit else None
    st.selectbox(
        words.text("audit"),
        list(lines),
        index=0 if place.audit else None,
        format_func=lambda digest: _audit_label(words, lines[digest]),
        key="audit",
        placeholder=words.text("audit_choose"),
        on_change=_open_audit,
    )
    if place.audit:
        _wrap_choice("audit", _audit_label(words, lines[place.audit.digest]))
    return place.audit


def _wrap_choice(key: str, label: str) -> None:
    """Write a select box's choice over its input, whose text is cut off instead of wrapped."""
    css_text = "".join(f"\\{ord(character):x} " for character in label)
    st.html(f'<style>.st-key-{key} [role="group"]::before {{ content: "{css_text}" }}</style>')


def _open_audit() -> None:
    if st.session_state["audit"]:
        st.query_params["audit"] = st.session_state["audit"][:12]


# Untrusted: a select box shows its options as plain text, never as Markdown.
def _audit_label(words: Words, line: KeptAudit) -> str:
    return words.text(
        "audit_line_demo" if line.is_demo else "audit_line",
        mark=STATE_MARKS.get(line.state, ""),
        state=state_name(words, line.state, rule=line.rule),
        scenario=line.scenario,
        hospital=audited_names(words, line)["hospital"],
        at=format_moment(line.at, has_zone=False),
    )


main()
