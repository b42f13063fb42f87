"""The login: where one is set up, nothing is shown before it, whatever the link."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from streamlit.errors import StreamlitAuthError, StreamlitMissingAuthlibError

from audit.errors import AuditError
from pages.ui import blocks
from pages.ui.language import Words
from pages.ui.logged import who
from pages.ui.text import plain


def require_login(words: Words) -> bool:
    """Return whether the page may be drawn; if not, draw the way to the login and nothing else.

    A login is asked for where Streamlit's secrets have a section [auth] (OpenID Connect). The
    router calls this on every run, before it knows of any page. Secrets that are there and cannot
    be read keep everybody out.
    """
    try:
        providers = login_providers()
    except AuditError as error:
        why = error.written(words.language)
        st.html(blocks.heading(words.text("login_broken"), below=why))
        return False
    if not providers or bool(st.user.get("is_logged_in")):
        return True
    st.html(blocks.heading(words.text("login_title"), below=words.text("login_why")))
    for provider in providers:
        label = words.text("login_button")
        if len(providers) > 1:
            label = words.text("login_button_with", provider=plain(provider))
        if st.button(label, key=f"login_{provider}", type="primary"):
            _log_in(provider, words=words)
    return False


def logout_button(words: Words) -> None:
    """Draw who is logged in and a way out; nothing where there is no login."""
    if st.user.get("is_logged_in"):
        st.html(f"<p>{words.html('login_as', who=who())}</p>")
        st.button(words.text("logout_button"), key="logout", on_click=st.logout)


def login_providers() -> tuple[str, ...]:
    """Return the names of the login's providers; ("",) is a single one, () means no login.

    Raises
    ------
    AuditError
        If there are secrets that cannot be read, or a section [auth] that names no provider.
    """
    try:
        secrets = st.secrets.to_dict()
    except FileNotFoundError:
        if not any(Path(path).exists() for path in st.get_option("secrets.files")):
            return ()
        raise AuditError(
            "The file with the login's settings cannot be read.",
            where=".streamlit/secrets.toml",
            do="Mend it; until then nobody gets in.",
        ) from None
    if "auth" not in secrets:
        return ()
    section = secrets["auth"] if isinstance(secrets["auth"], dict) else {}
    several = tuple(name for name, value in section.items() if isinstance(value, dict))
    if not several and not section.get("client_id"):
        raise AuditError(
            "The section [auth] names no login provider.",
            where=".streamlit/secrets.toml",
            do="Give client_id, client_secret and server_metadata_url; see docs/security.md.",
        )
    return several or ("",)


def _log_in(provider: str, *, words: Words) -> None:
    try:
        st.login(provider or None)
    except (StreamlitAuthError, StreamlitMissingAuthlibError):
        # The error's own text may quote the settings.
        st.html(blocks.heading("", below=words.text("login_fails")))
