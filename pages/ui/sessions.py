"""The server's sessions and their file descriptors: a session that its browser left is closed.

Streamlit gives each session an event loop, which is three descriptors, and keeps the session for a
browser that comes back. Streamlit's own storage drops a session without closing it: at a limit of
1,024 descriptors, some 340 page loads in ten minutes ended all connections. This storage closes a
session when its time is over, or when there are more sessions than the limit allows.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import streamlit as st
from streamlit.runtime.session_manager import SessionInfo, SessionStorage

_N_DESCRIPTORS = 65_536
"""Descriptors that the server requests, if the system allows so many."""
_N_RESERVED = 128
"""Descriptors for everything except sessions: files, connections, libraries."""
_MAX_SESSIONS, _MIN_SESSIONS = 128, 8
"""Bounds of the number of sessions that wait for their browsers; Streamlit keeps 128."""


def raise_limit() -> int:
    """Raise this process's limit of open files as far as allowed, and return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    n_descriptors = _N_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _N_DESCRIPTORS)
    if soft not in (resource.RLIM_INFINITY, n_descriptors) and soft < n_descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (n_descriptors, hard))
        soft = n_descriptors
    return _N_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


class WaitingSessions(SessionStorage):
    """Sessions without a connection; at most `max_sessions` are kept for `seconds` each."""

    def __init__(self, *, seconds: float, max_sessions: int) -> None:
        self._seconds, self._max_sessions = seconds, max_sessions
        self._waiting: dict[str, tuple[SessionInfo, asyncio.TimerHandle]] = {}

    def get(self, session_id: str) -> SessionInfo | None:
        """Return a session that waits for its browser, or None."""
        session_info, _ = self._waiting.get(session_id, (None, None))
        return session_info

    def save(self, session_info: SessionInfo) -> None:
        """Keep a session whose connection has ended; called in the server's event loop."""
        session_id, loop = session_info.session.id, asyncio.get_running_loop()
        if session_id in self._waiting:
            self.delete(session_id)
        timer = loop.call_later(self._seconds, self._close, session_id)
        self._waiting[session_id] = session_info, timer
        for oldest in list(self._waiting)[: -self._max_sessions]:
            # Not at once: the caller of `save` holds a lock.
            session = self._waiting[oldest][0].session
            self.delete(oldest)
            loop.call_soon(session.shutdown)

    def delete(self, session_id: str) -> None:
        """Forget a session; the caller continues or closes it."""
        _, timer = self._waiting.pop(session_id)
        timer.cancel()

    def list(self) -> list[SessionInfo]:
        """Return all sessions that wait."""
        return [session_info for session_info, _ in self._waiting.values()]

    def _close(self, session_id: str) -> None:
        if (session_info := self.get(session_id)) is not None:
            self.delete(session_id)
            session_info.session.shutdown()


def close_left_sessions(app: st.App) -> None:
    """Store the waiting sessions of an app in `WaitingSessions`; call it before the first session.

    The app itself stays a plain `st.App`, because Streamlit looks for one by that name.
    """
    manager: Any = getattr(app._runtime, "_session_mgr", None)
    if not hasattr(manager, "_session_storage"):
        raise RuntimeError("this version of Streamlit keeps its sessions elsewhere")
    n_affordable = (raise_limit() - _N_RESERVED) // 6  # half of the room: three descriptors each
    manager._session_storage = WaitingSessions(
        seconds=st.get_option("server.disconnectedSessionTTL"),
        max_sessions=min(max(n_affordable, _MIN_SESSIONS), _MAX_SESSIONS),
    )
