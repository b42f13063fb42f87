"""Who is here and what they may do: login, roles, names in full, and lines of the access log.

Nothing is shown before a login, a reader changes nothing, and names are masked until the reader
says why. What is seen, done and signed goes into the access log from here, with who did it; who may
not do it is stopped here, whatever a page has drawn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.auth_util import get_cookie_with_chunks
from streamlit.errors import StreamlitAuthError, StreamlitMissingAuthlibError
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from audit.access_log import account, record
from audit.errors import AuditError
from audit.home import (
    SECRETS,
    check_changes,
    data_home,
    had_login,
    is_open_to_others,
    remember_login,
    results_dir,
)
from audit.report import decision
from audit.report.decision import Decision
from audit.report.name_table import mask_name
from audit.text import written_name
from audit.words import Words
from cache.store import Store
from pages.ui.blocks import heading, plain
from pages.ui.state import words

AUDITOR, READER = "auditor", "reader"
READERS_MAY = ("opened", "exported")
"""Of the access log's actions; names or notes in full are `exported_full`."""
REASONS = ("check", "report", "inform", "other")
"""Codes of the reasons that can be given; free text could itself hold a name."""
_MUST_BE_LOGGED = ("revealed", "exported")
_SHARED = ("masked", "pseudonyms")


# The login.


def require_login(say: Words) -> bool:
    """Return whether the page may be drawn; if not, draw the way to the login and nothing else.

    A login is asked for where Streamlit's secrets have a section [auth] (OpenID Connect). The
    router calls this on every run, before it knows of any page. Secrets that are there and cannot
    be read keep everybody out, and so does a data directory that cannot be used: they may lie in
    it, and whether there was a login is known there alone.
    """
    try:
        data_home()
    except AuditError as error:
        st.html(heading(say.text("no_data"), below=error.render(say.language)))
        return False
    try:
        providers, known = login_providers(), role()
    except AuditError as error:
        st.html(heading(say.text("login_broken"), below=error.render(say.language)))
        return False
    if known:
        return True
    key = "role_none" if st.user.get("is_logged_in") else "login"
    st.html(heading(say.text(f"{key}_title"), below=say.text(f"{key}_why")))
    logout_button(say)
    for provider in providers if key == "login" else ():
        named = "_with" if len(providers) > 1 else ""
        label = say.text(f"login_button{named}", provider=plain(provider))
        if st.button(label, key=f"login_{provider}", type="primary"):
            try:
                st.login(provider or None)
            except (StreamlitAuthError, StreamlitMissingAuthlibError):
                # The error's own text may quote the settings.
                st.html(heading("", below=say.text("login_fails")))
    return False


def logout_button(say: Words) -> None:
    """Draw who is logged in and a way out; nothing where there is no login."""
    if st.user.get("is_logged_in"):
        st.html(f"<p>{say.html('login_as', who=who())}</p>")
        st.button(say.text("logout_button"), key="logout", on_click=st.logout)


def login_providers() -> tuple[str, ...]:
    """Return the names of the login's providers; ("",) is a single one, () means no login.

    A data directory that was served with a login once is not served without one.

    Raises
    ------
    AuditError
        If there are secrets that cannot be read, or a section [auth] that names no provider, or the
        settings of the login are gone.
    """
    providers = _providers(_secrets())
    if providers:
        remember_login()
    elif had_login():
        raise AuditError(
            "This data directory was served with a login, and the login's settings are gone.",
            where=SECRETS,
            do=(
                "Copy secrets.toml from the old installation or a backup into the data directory, "
                "mode 600, and start again. To go on without a login, so that everybody who "
                "reaches the port is an auditor: `python -m audit login drop --yes`."
            ),
        )
    return providers


def _secrets() -> dict[str, Any]:
    try:
        return dict(st.secrets.to_dict())
    except FileNotFoundError:
        if not any(path.exists() for path in secrets_files()):
            return {}
        raise AuditError(
            "The file with the login's settings cannot be read.",
            where=SECRETS,
            do="Mend it; until then nobody gets in.",
        ) from None


def _providers(secrets: Mapping[str, Any]) -> tuple[str, ...]:
    if "auth" not in secrets:
        return ()
    section = secrets["auth"] if isinstance(secrets["auth"], dict) else {}
    several = tuple(name for name, value in section.items() if isinstance(value, dict))
    if not several and not section.get("client_id"):
        raise AuditError(
            "The section [auth] names no login provider.",
            where=SECRETS,
            do="Give client_id, client_secret and server_metadata_url; see docs/security.md.",
        )
    return several or ("",)


def refusal() -> AuditError | None:
    """Return why nothing at all may be served now; None where pages may be."""
    try:
        login_providers()
    except AuditError as error:
        return error
    return None


def secrets_files() -> tuple[Path, ...]:
    """Return where the login's settings are looked for."""
    return tuple(map(Path, st.get_option("secrets.files")))


def open_secrets() -> tuple[Path, ...]:
    """Return the files of secrets that other accounts of this machine can read or write."""
    return tuple(path for path in secrets_files() if path.is_file() and is_open_to_others(path))


def warn_of_open_secrets(say: Words) -> None:
    """Tell an auditor of files of secrets that others can read."""
    for path in open_secrets() if may("changed") else ():
        below = say.text("secrets_open_do", file=path)
        st.html(heading(say.text("secrets_open"), below=below))


# The person, and what they may do.


def who() -> str:
    """Return the person: the login's e-mail or name, else the operating system's account."""
    if st.user.get("is_logged_in"):
        for claim in ("email", "preferred_username", "name", "sub"):
            if st.user.get(claim):
                return str(st.user[claim])
    return account()


def has_logins() -> bool:
    """Whether a login is set up."""
    return bool(login_providers())


def role(user: Mapping[str, Any] | None = None) -> str:
    """Return `AUDITOR`, `READER`, or "" for whoever is nobody here.

    `user` is what a login says of a person; without it that of the page's session counts.

    The section [roles] of Streamlit's secrets lists e-mails; "*" as readers is everybody who is
    logged in. Without a login, or without that section, everybody is an auditor. Raises AuditError
    as `login_providers`.
    """
    if not has_logins():
        return AUDITOR
    user = st.user if user is None else user
    if not user.get("is_logged_in"):
        return ""
    roles = st.secrets.to_dict().get("roles", {AUDITOR: "*"})
    mail = "" if user.get("email_verified") is False else str(user.get("email") or "")
    for one in (AUDITOR, READER):
        listed = roles.get(one, ()) if isinstance(roles, dict) else None
        if listed != "*" and not (isinstance(listed, list | tuple) and all(map(_is_text, listed))):
            raise AuditError(
                "The section [roles] is no lists of e-mails.",
                where=SECRETS,
                do="Mend it; until then nobody gets in.",
            )
        if listed == "*" or mail.casefold() in map(str.casefold, listed):
            return one
    return ""


def role_of_cookies(cookies: Mapping[str, str]) -> str:
    """Return the role of whoever sends these cookies with a request outside a page's session.

    Streamlit asks for a login where a page is drawn, and for none where it sends a file.
    """

    def signed(name: str) -> bytes | None:
        return decode_signed_value(get_cookie_secret(), name, cookies.get(name, ""))

    try:
        user = json.loads(get_cookie_with_chunks(signed, USER_COOKIE_NAME) or "{}")
        return role(user if isinstance(user, dict) else {})
    except (AuditError, ValueError):
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


def may_or_say(action: str, say: Words) -> bool:
    """Return whether this person may do it; if not, draw why."""
    if may(action):
        return True
    st.html(heading("", below=say.text("role_reader")))
    return False


def _refuse_readers() -> None:
    if get_script_run_ctx(suppress_warning=True) is not None and not may("changed"):
        raise _only_auditors()


def _only_auditors() -> AuditError:
    return AuditError("You may look at results here; only an auditor may change something.")


check_changes(_refuse_readers)


# The access log.


def note(action: str, *, audit: str = "", is_once: bool = False, **counts: int | str) -> None:
    """Write one line of the access log; names and texts of notes never go in.

    "opened" is written once for a session, page (`page=`) and audit, and with `is_once` the same
    line of anything. A log that cannot be written
    stops what shows or hands out names; all else goes on, with a warning on the page. Where this
    person may not do it, the page says so and ends.

    Parameters
    ----------
    action, audit, counts
        As `audit.access_log.record` takes them.

    Raises
    ------
    AuditError
        If names would be revealed or exported without a line in the log.
    """
    say = words()
    if not may_or_say(action, say):
        st.stop()
    is_once = is_once or action == "opened"
    what = counts.get("page") if action == "opened" else tuple(counts.items())
    mark = (action, audit[:12], what)
    seen: set[Any] = st.session_state.setdefault("noted_once", set())
    if is_once and mark in seen:
        return
    try:
        record(action, who=who(), audit=audit, **counts)
    except AuditError as error:
        if action in _MUST_BE_LOGGED:
            raise
        st.html(heading(say.text("report_log_fails"), below=error.render(say.language)))
        return
    if is_once:
        seen.add(mark)


def note_upload(file: Any, *, what: str) -> None:
    """Write an uploaded file's size into the access log, once; its name may hold a person's."""
    seen: set[str] = st.session_state.setdefault("noted_uploads", set())
    if file.file_id not in seen:
        seen.add(file.file_id)
        note("uploaded", what=what, n_bytes=file.size)


def logged_export(
    make: Callable[[], bytes], *, audit: str = "", **counts: int | str
) -> Callable[[], bytes]:
    """Return what a download button calls: the file is made only once its line is in the log.

    `make` runs outside the page's script, so that it must not use Streamlit.
    """
    person, is_allowed = who(), may_export(counts)

    def export() -> bytes:
        if not is_allowed:
            raise _only_auditors()
        record("exported", who=person, audit=audit, **counts)
        return make()

    return export


def may_export(counts: Mapping[str, object]) -> bool:
    """Whether this person may take a file of which the log says this; a reader, no full names."""
    return may("exported" if counts.get("names") in _SHARED else "exported_full")


def decide(seen: Decision, **how: Any) -> Decision:
    """Decide anew, as this person: `audit.report.decision.decide`, which writes the log."""
    return decision.decide(seen, **how, by=who(), store=Store(results_dir()))


def sign(seen: Decision, *, name: str = "", **how: Any) -> Decision:
    """Sign as this person: where logins are on, by the login and not by the name given."""
    is_login = has_logins()
    how |= {"name": who() if is_login else name, "is_login": is_login}
    return decision.sign(seen, **how, by=who(), store=Store(results_dir()))


def withdraw(seen: Decision, *, name: str) -> Decision:
    """Take a signature back; where logins are on, one's own alone."""
    if has_logins() and name != who():
        raise AuditError("Only who has signed takes the signature back.", where="decision")
    return decision.withdraw(seen, name=name, by=who(), store=Store(results_dir()))


# Names in full.


def is_revealed() -> bool:
    """Return whether this session shows names in full."""
    return bool(st.session_state.get("is_revealed"))


def names_in_files() -> str:
    """Return the log's word for how a file of what is seen writes names."""
    return "full" if is_revealed() else "masked"


def shown_name(first: str, last: str) -> str:
    """Return a name as this session shows it: initials, or in full; not escaped yet."""
    return written_name(first, last) if is_revealed() else mask_name(first, last)


def shown_passage(passage_id: str, *, number: int) -> str:
    """Return what a passage is called: the hospital's own word for it may name somebody."""
    return passage_id if is_revealed() else f"{number}"


def reveal_switch(say: Words, *, audit: str) -> None:
    """Draw the sidebar's switch for an audit (digest); revealing needs a reason and is logged."""

    def hide() -> None:
        st.session_state["is_revealed"] = False

    if not may_or_say("revealed", say):
        hide()
        return
    if is_revealed():
        icon, key = ":material/visibility_off:", "hide_names"
        st.button(say.text(key), icon=icon, key=key, on_click=hide, width="stretch")
        return
    icon, key = ":material/visibility:", "reveal_names"
    with st.popover(say.text(key), icon=icon, key=key, width="stretch"):
        st.html(heading("", below=say.text("reveal_why")))
        reason = st.radio(
            say.text("reveal_reason"),
            REASONS,
            format_func=lambda code: say.text(f"reveal_reason_{code}"),
            key="reveal_reason",
        )
        if st.button(say.text("reveal_now"), key="reveal_now", type="primary"):
            try:
                note("revealed", audit=audit, reason=reason)
            except AuditError as error:
                why = error.render(say.language)
                st.html(heading("", below=say.text("reveal_refused", why=why)))
                return
            st.session_state["is_revealed"] = True
            st.rerun()
