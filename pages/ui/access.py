"""Persons and their permissions: login, roles, names in full, and the access log.

Nothing is shown before a login, a reader changes nothing, and names are masked until the person
gives a reason. This module logs what a person sees, does and signs, and stops actions that the
person may not take, whatever a page has drawn.
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
    data_home,
    had_login,
    is_open_to_others,
    remember_login,
    results_dir,
    set_change_check,
)
from audit.report import decision
from audit.report.decision import Decision
from audit.report.name_table import mask_name
from audit.text import written_name
from audit.words import Words
from cache.store import Store
from pages.ui.blocks import escape_markdown, heading
from pages.ui.state import once_a_run, words

AUDITOR, READER = "auditor", "reader"
READERS_MAY = ("opened", "checked", "exported")
"""Actions of the access log that a reader may take; full names or notes are `exported_full`."""
REASONS = ("check", "report", "inform", "other")
"""Codes of the reasons for a reveal; free text could itself hold a name."""
_MUST_BE_LOGGED = ("revealed", "exported")
_SHARED = ("masked", "pseudonyms")


# The login.


def require_login(say: Words) -> bool:
    """Return whether the page may be drawn; if not, draw only the way to the login.

    A login is required if Streamlit's secrets have a section [auth] (OpenID Connect). The router
    calls this on every run, before it defines any page. Secrets that exist but cannot be read lock
    everybody out. So does a data directory that cannot be used, because it may hold the secrets and
    the record that there was a login.
    """
    try:
        data_home()
    except AuditError as error:
        st.html(heading(say.text("no_data"), below=error.render(say.language)))
        return False
    try:
        providers, user_role = login_providers(), find_own_role()
    except AuditError as error:
        st.html(heading(say.text("login_broken"), below=error.render(say.language)))
        return False
    if user_role:
        return True
    key = "role_none" if st.user.get("is_logged_in") else "login"
    st.html(heading(say.text(f"{key}_title"), below=say.text(f"{key}_why")))
    draw_logout_button(say)
    for provider in providers if key == "login" else ():
        suffix = "_with" if len(providers) > 1 else ""
        label = say.text(f"login_button{suffix}", provider=escape_markdown(provider))
        if st.button(label, key=f"login_{provider}", type="primary"):
            try:
                st.login(provider or None)
            except (StreamlitAuthError, StreamlitMissingAuthlibError):
                # The error's own text may quote the settings.
                st.html(heading("", below=say.text("login_fails")))
    return False


def draw_logout_button(say: Words) -> None:
    """Draw who is logged in and the logout button; draw nothing without a login."""
    if st.user.get("is_logged_in"):
        st.html(f"<p>{say.html('login_as', who=identify_person())}</p>")
        st.button(say.text("logout_button"), key="logout", on_click=st.logout)


def login_providers() -> tuple[str, ...]:
    """Return the names of the login's providers: ("",) for a single one, () for no login.

    A data directory that was once served with a login is not served without one.

    Raises
    ------
    AuditError
        If the secrets cannot be read, the section [auth] names no provider, or the settings of the
        login are gone.
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
            do="Correct it; until then nobody can log in.",
        ) from None


def _providers(secrets: Mapping[str, Any]) -> tuple[str, ...]:
    if "auth" not in secrets:
        return ()
    section = secrets["auth"] if isinstance(secrets["auth"], dict) else {}
    provider_names = tuple(name for name, options in section.items() if isinstance(options, dict))
    if not provider_names and not section.get("client_id"):
        raise AuditError(
            "The section [auth] names no login provider.",
            where=SECRETS,
            do="Give client_id, client_secret and server_metadata_url; see docs/security.md.",
        )
    return provider_names or ("",)


def refusal() -> AuditError | None:
    """Return the reason why nothing may be served, or None."""
    try:
        login_providers()
    except AuditError as error:
        return error
    return None


def secrets_files() -> tuple[Path, ...]:
    """Return the files that may hold the login's settings."""
    return tuple(map(Path, st.get_option("secrets.files")))


def open_secrets() -> tuple[Path, ...]:
    """Return the files of secrets that other accounts of this machine can read or write."""
    return tuple(path for path in secrets_files() if path.is_file() and is_open_to_others(path))


def warn_of_open_secrets(say: Words) -> None:
    """Warn an auditor of files of secrets that others can read."""
    for path in open_secrets() if may("changed") else ():
        below = say.text("secrets_open_do", file=path)
        st.html(heading(say.text("secrets_open"), below=below))


# The person, and what they may do.


def identify_person() -> str:
    """Return the login's e-mail or name, or else the operating system's account."""
    if st.user.get("is_logged_in"):
        for claim in ("email", "preferred_username", "name", "sub"):
            if st.user.get(claim):
                return str(st.user[claim])
    return account()


def has_logins() -> bool:
    """Return whether a login is set up."""
    return bool(login_providers())


def role(user: Mapping[str, Any] | None = None) -> str:
    """Return `AUDITOR`, `READER`, or "" for a person without a role.

    `user` holds the claims of a login, by default those of the page's session.

    The section [roles] of Streamlit's secrets lists e-mails; "*" stands for everybody who is logged
    in. Without a login, or without that section, everybody is an auditor. Raises AuditError as
    `login_providers`.
    """
    if not has_logins():
        return AUDITOR
    user = st.user if user is None else user
    if not user.get("is_logged_in"):
        return ""
    roles = st.secrets.to_dict().get("roles", {AUDITOR: "*"})
    mail = "" if user.get("email_verified") is False else str(user.get("email") or "")
    for role_name in (AUDITOR, READER):
        mails = roles.get(role_name, ()) if isinstance(roles, dict) else None
        if mails != "*" and not (isinstance(mails, list | tuple) and all(map(_is_text, mails))):
            raise AuditError(
                "The section [roles] does not consist of lists of e-mail addresses.",
                where=SECRETS,
                do="Correct it; until then nobody can log in.",
            )
        if mails == "*" or mail.casefold() in map(str.casefold, mails):
            return role_name
    return ""


@once_a_run
def find_own_role() -> str:
    """Return the `role` of this page's session; a run reads the secrets once for it."""
    return role()


def role_of_cookies(cookies: Mapping[str, str]) -> str:
    """Return the role of the person who sends these cookies outside a page's session.

    Streamlit itself requires a login for pages, but not for the files that it sends.
    """

    def read_cookie(name: str) -> bytes | None:
        return decode_signed_value(get_cookie_secret(), name, cookies.get(name, ""))

    try:
        user = json.loads(get_cookie_with_chunks(read_cookie, USER_COOKIE_NAME) or "{}")
        return role(user if isinstance(user, dict) else {})
    except (AuditError, ValueError):
        return ""


def _is_text(entry: object) -> bool:
    return isinstance(entry, str) and bool(entry)


def may(action: str) -> bool:
    """Return whether this person may take an action of the access log."""
    try:
        user_role = find_own_role()
    except AuditError:
        return False
    return user_role == AUDITOR or (user_role == READER and action in READERS_MAY)


def may_or_explain(action: str, say: Words) -> bool:
    """Return whether this person may take an action; if not, draw why."""
    if may(action):
        return True
    st.html(heading("", below=say.text("role_reader")))
    return False


def _refuse_readers() -> None:
    if get_script_run_ctx(suppress_warning=True) is not None and not may("changed"):
        raise _auditors_only_error()


def _auditors_only_error() -> AuditError:
    return AuditError("You may look at results here; only an auditor may change something.")


set_change_check(_refuse_readers)


# The access log.


def log_action(action: str, *, audit: str = "", is_once: bool = False, **counts: int | str) -> None:
    """Write one line of the access log; it never holds names or texts of notes.

    "opened" is written once for each session, page (`page=`) and audit; with `is_once` the same
    holds for equal lines of any action. If the log cannot be written, an action that shows or hands
    out names raises; any other action goes on, with a warning on the page. If this person may not
    take the action, the page says so and ends.

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
    if not may_or_explain(action, say):
        st.stop()
    is_once = is_once or action == "opened"
    subject = counts.get("page") if action == "opened" else tuple(counts.items())
    mark = (action, audit[:12], subject)
    logged_marks: set[Any] = st.session_state.setdefault("noted_once", set())
    if is_once and mark in logged_marks:
        return
    try:
        record(action, who=identify_person(), audit=audit, **counts)
    except AuditError as error:
        if action in _MUST_BE_LOGGED:
            raise
        st.html(heading(say.text("report_log_fails"), below=error.render(say.language)))
        return
    if is_once:
        logged_marks.add(mark)


def log_upload(file: Any, *, file_kind: str, action: str = "uploaded") -> None:
    """Log an uploaded file's size once, without its name, which may hold a person's name."""
    logged_ids: set[str] = st.session_state.setdefault("noted_uploads", set())
    if file.file_id not in logged_ids:
        logged_ids.add(file.file_id)
        log_action(action, what=file_kind, n_bytes=file.size)


def logged_export(
    make: Callable[[], bytes], *, audit: str = "", **counts: int | str
) -> Callable[[], bytes]:
    """Return the function of a download button: it writes the log line, then makes the file.

    `make` runs outside the page's script, so it must not use Streamlit.
    """
    person, is_allowed = identify_person(), may_export(counts)

    def export() -> bytes:
        if not is_allowed:
            raise _auditors_only_error()
        record("exported", who=person, audit=audit, **counts)
        return make()

    return export


def may_export(counts: Mapping[str, object]) -> bool:
    """Return whether this person may export such a file; readers may not export full names."""
    return may("exported" if counts.get("names") in _SHARED else "exported_full")


def decide(shown_decision: Decision, **fields: Any) -> Decision:
    """Decide as this person with `audit.report.decision.decide`, which writes the log."""
    return decision.decide(
        shown_decision, **fields, by=identify_person(), store=Store(results_dir())
    )


def sign(shown_decision: Decision, *, name: str = "", **fields: Any) -> Decision:
    """Sign as this person; with logins, the login's name replaces `name`."""
    is_login = has_logins()
    fields |= {"name": identify_person() if is_login else name, "is_login": is_login}
    return decision.sign(shown_decision, **fields, by=identify_person(), store=Store(results_dir()))


def withdraw(shown_decision: Decision, *, name: str, **fields: Any) -> Decision:
    """Withdraw a signature; with logins, only the person's own."""
    if has_logins() and name != identify_person():
        raise AuditError("Only the person who signed can withdraw the signature.", where="decision")
    return decision.withdraw(
        shown_decision, name=name, **fields, by=identify_person(), store=Store(results_dir())
    )


# Names in full.


def is_revealed() -> bool:
    """Return whether this session shows names in full."""
    return bool(st.session_state.get("is_revealed"))


def name_form() -> str:
    """Return the log's word for the form of names in a file of what the screen shows."""
    return "full" if is_revealed() else "masked"


def format_name(first: str, last: str) -> str:
    """Return a name as this session shows it, as initials or in full; not escaped."""
    return written_name(first, last) if is_revealed() else mask_name(first, last)


def format_passage_id(passage_id: str, *, number: int) -> str:
    """Return a passage's number, or its identifier once names are revealed: it may hold a name."""
    return passage_id if is_revealed() else f"{number}"


def draw_reveal_switch(say: Words, *, audit: str) -> None:
    """Draw the sidebar's switch that reveals names; a reveal needs a reason and is logged."""

    def hide() -> None:
        st.session_state["is_revealed"] = False

    if not may_or_explain("revealed", say):
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
                log_action("revealed", audit=audit, reason=reason)
            except AuditError as error:
                why = error.render(say.language)
                st.html(heading("", below=say.text("reveal_refused", why=why)))
                return
            st.session_state["is_revealed"] = True
            st.rerun()
