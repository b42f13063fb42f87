"""What is seen, revealed, run and exported goes into the access log from here, with who did it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from audit.access_log import account, record
from audit.errors import AuditError
from pages.ui import blocks
from pages.ui.language import words

_OPENED = "opened_pages"
_NOTED = "noted_uploads"
_MUST_BE_LOGGED = ("revealed", "exported")


def who() -> str:
    """Return the person: the login's e-mail or name, else the operating system's account."""
    user = st.user
    if user.get("is_logged_in"):
        for claim in ("email", "preferred_username", "name", "sub"):
            if user.get(claim):
                return str(user[claim])
    return account()


def note(action: str, *, audit: str = "", **counts: int | str) -> None:
    """Write one line of the access log; names and texts of notes never go in.

    "opened" is written once for a session, page (`page=`) and audit. A log that cannot be written
    stops what shows or hands out names; all else goes on, with a warning on the page.

    Parameters
    ----------
    action, audit, counts
        As `audit.access_log.record` takes them.

    Raises
    ------
    AuditError
        If names would be revealed or exported without a line in the log.
    """
    mark = (audit[:12], str(counts.get("page", "")))
    seen: set[tuple[str, str]] = st.session_state.setdefault(_OPENED, set())
    if action == "opened" and mark in seen:
        return
    try:
        record(action, who=who(), audit=audit, **counts)
    except AuditError as error:
        if action in _MUST_BE_LOGGED:
            raise
        say = words()
        why = error.written(say.language)
        st.html(blocks.heading(say.text("report_log_fails"), below=why))
        return
    if action == "opened":
        seen.add(mark)


def note_upload(file: Any, *, what: str) -> None:
    """Write an uploaded file's size into the access log, once; its name may hold a person's."""
    seen: set[str] = st.session_state.setdefault(_NOTED, set())
    if file.file_id not in seen:
        seen.add(file.file_id)
        note("uploaded", what=what, n_bytes=file.size)


def logged_export(
    make: Callable[[], bytes], *, audit: str = "", **counts: int | str
) -> Callable[[], bytes]:
    """Return what a download button calls: the file is made only once its line is in the log.

    `make` runs outside the page's script, so that it must not use Streamlit.
    """
    person = who()

    def export() -> bytes:
        record("exported", who=person, audit=audit, **counts)
        return make()

    return export
