"""What is seen, done and signed goes into the access log from here, with who did it.

Who may not do it is stopped here, whatever a page has drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import streamlit as st

from audit.access_log import record
from audit.errors import AuditError
from audit.home import results_dir
from audit.report import decision
from audit.report.decision import Decision, Language, Recommendation, SignatureRole
from cache.store import Store
from pages.ui import blocks
from pages.ui.login import has_logins, may, may_or_say, who
from pages.ui.state import words

_OPENED = "opened_pages"
_NOTED = "noted_uploads"
_MUST_BE_LOGGED = ("revealed", "exported")
_SHARED = ("masked", "pseudonyms")


def note(action: str, *, audit: str = "", **counts: int | str) -> None:
    """Write one line of the access log; names and texts of notes never go in.

    "opened" is written once for a session, page (`page=`) and audit. A log that cannot be written
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
    if not may_or_say(action, words()):
        st.stop()
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

    `make` runs outside the page's script, so that it must not use Streamlit. A reader gets what
    has `names=` of `_SHARED` alone.
    """
    person, is_shared = who(), counts.get("names") in _SHARED
    is_allowed = may("exported" if is_shared else "exported_full")

    def export() -> bytes:
        if not is_allowed:
            raise AuditError("You may look at results here; only an auditor may change something.")
        record("exported", who=person, audit=audit, **counts)
        return make()

    return export


def decide(
    seen: Decision,
    *,
    recommendation: Recommendation | Literal[""],
    reasons: str,
    language: Language,
) -> Decision:
    """Decide anew, as this person: `audit.report.decision.decide`, which writes the log."""
    return decision.decide(
        seen, recommendation=recommendation, reasons=reasons, language=language, by=who(),
        store=_store(),
    )  # fmt: skip


def sign(seen: Decision, *, role: SignatureRole, name: str = "") -> Decision:
    """Sign as this person: where logins are on, by the login and not by the name given."""
    is_login = has_logins()
    return decision.sign(
        seen, name=who() if is_login else name, role=role, by=who(), is_login=is_login,
        store=_store(),
    )  # fmt: skip


def withdraw(seen: Decision, *, name: str) -> Decision:
    """Take a signature back; where logins are on, one's own alone."""
    if has_logins() and name != who():
        raise AuditError("Only who has signed takes the signature back.", where="decision")
    return decision.withdraw(seen, name=name, by=who(), store=_store())


def _store() -> Store:
    return Store(results_dir())
