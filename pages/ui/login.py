"""The login and the roles: nothing is shown before a login, and a reader changes nothing."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from streamlit.errors import StreamlitAuthError, StreamlitMissingAuthlibError
from streamlit.runtime.scriptrunner import get_script_run_ctx

from audit.access_log import account
from audit.errors import AuditError
from audit.home import check_changes
from pages.ui import blocks
from pages.ui.state import Words
from pages.ui.text import plain


def require_login(words: Words) -> bool:
    """Return whether the page may be drawn; if not, draw the way to the login and nothing else.

    A login is asked for where Streamlit's secrets have a section [auth] (OpenID Connect). The
    router calls this on every run, before it knows of any page. Secrets that are there and cannot
    be read keep everybody out.
    """
    try:
        providers, known = login_providers(), role()
    except AuditError as error:
        why = error.written(words.language)
        st.html(blocks.heading(words.text("login_broken"), below=why))
        return False
    if known:
        return True
    if st.user.get("is_logged_in"):
        st.html(blocks.heading(words.text("role_none"), below=words.text("role_none_why")))
        logout_button(words)
        return False
    st.html(blocks.heading(words.text("login_title"), below=words.text("login_why")))
    for provider in providers:
        label = words.text("login_button")
        if len(providers) > 1:
            label = words.text("login_button_with", provider=plain(provider))
        if st.button(label, key=f"login_{provider}", type="primary"):
            _log_in(provider, words=words)
    return False


AUDITOR, READER = "auditor", "reader"
READERS_MAY = ("opened", "exported")
"""Of the access log's actions; names or notes in full are `exported_full`."""


def who() -> str:
    """Return the person: the login's e-mail or name, else the operating system's account."""
    user = st.user
    if user.get("is_logged_in"):
        for claim in ("email", "preferred_username", "name", "sub"):
            if user.get(claim):
                return str(user[claim])
    return account()


def has_logins() -> bool:
    """Whether a login is set up."""
    return bool(login_providers())


def role() -> str:
    """Return `AUDITOR`, `READER`, or "" for whoever is nobody here.

    The section [roles] of Streamlit's secrets lists e-mails; "*" as readers is everybody who is
    logged in. Without a login, or without that section, everybody is an auditor. Raises AuditError
    as `login_providers`.
    """
    if not has_logins():
        return AUDITOR
    if not st.user.get("is_logged_in"):
        return ""
    roles = st.secrets.to_dict().get("roles", {AUDITOR: "*"})
    mail = "" if st.user.get("email_verified") is False else str(st.user.get("email") or "")
    for one in (AUDITOR, READER):
        listed = roles.get(one, ()) if isinstance(roles, dict) else None
        if listed != "*" and not (isinstance(listed, list | tuple) and all(map(_is_text, listed))):
            raise AuditError(
                "The section [roles] is no lists of e-mails.",
                where=".streamlit/secrets.toml",
                do="Mend it; until then nobody gets in.",
            )
        if listed == "*" or mail.casefold() in map(str.casefold, listed):
            return one
    return ""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def may(action: str) -> bool:
    """Whether this person may do what the access log calls so."""
    try:
        known = role()
    except AuditError:
        return False
    return known == AUDITOR or (known == READER and action in READERS_MAY)


def may_or_say(action: str, words: Words) -> bool:
    """Return whether this person may do it; if not, draw why."""
    if may(action):
        return True
    st.html(blocks.heading("", below=words.text("role_reader")))
    return False


def _refuse_readers() -> None:
    if get_script_run_ctx(suppress_warning=True) is not None and not may("changed"):
        raise AuditError("You may look at results here; only an auditor may change something.")


check_changes(_refuse_readers)


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
