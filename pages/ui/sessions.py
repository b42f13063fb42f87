"""The server's sessions and their file descriptors: what a browser leaves behind is closed.

Streamlit gives each session an event loop, which is three descriptors, and keeps the session for a
browser that comes back. Its own storage forgets one without closing it: at a limit of 1,024 some
340 page loads in ten minutes ended all connections. This one closes a session when its time is
over, or when there are more of them than the limit has room for.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import streamlit as st
from streamlit.runtime.session_manager import SessionInfo, SessionStorage

_N_WANTED = 65_536
"""Descriptors that are asked for, where the system allows so many."""
_N_OTHERS = 128
"""Descriptors for all but the sessions: files, connections, what libraries open."""
_MOST_KEPT, _LEAST_KEPT = 128, 8
"""Sessions that wait for their browsers; Streamlit keeps 128."""


def raise_limit() -> int:
    """Raise this process's limit of open files as far as it may, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _N_WANTED if hard == resource.RLIM_INFINITY else min(hard, _N_WANTED)
    if soft not in (resource.RLIM_INFINITY, wanted) and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return _N_WANTED if soft == resource.RLIM_INFINITY else soft


class WaitingSessions(SessionStorage):
    """Sessions without a connection: kept for `seconds`, at most `most` of them, then closed."""

    def __init__(self, *, seconds: float, most: int) -> None:
        self._seconds, self._most = seconds, most
        self._waiting: dict[str, tuple[SessionInfo, asyncio.TimerHandle]] = {}

    def get(self, session_id: str) -> SessionInfo | None:
        """Return a session that waits for its browser; None where there is none."""
        info, _ = self._waiting.get(session_id, (None, None))
        return info

    def save(self, session_info: SessionInfo) -> None:
        """Keep a session whose connection has ended; called in the server's event loop."""
        session_id, loop = session_info.session.id, asyncio.get_running_loop()
        if session_id in self._waiting:
            self.delete(session_id)
        timer = loop.call_later(self._seconds, self._close, session_id)
        self._waiting[session_id] = session_info, timer
        for oldest in list(self._waiting)[: -self._most]:
            # Not at once: whoever saves holds a lock.
            session = self._waiting[oldest][0].session
            self.delete(oldest)
            loop.call_soon(session.shutdown)

    def delete(self, session_id: str) -> None:
        """Give a session back, which goes on or is closed by whoever asked."""
        _, timer = self._waiting.pop(session_id)
        timer.cancel()

    def list(self) -> list[SessionInfo]:
        """Return all sessions that wait."""
        return [info for info, _ in self._waiting.values()]

    def _close(self, session_id: str) -> None:
        if (info := self.get(session_id)) is not None:
            self.delete(session_id)
            info.session.shutdown()


def close_left_sessions(app: st.App) -> None:
    """Let the sessions of an app wait in `WaitingSessions`; called before the first one begins.

    The app itself is a plain `st.App`: Streamlit looks for one by that name before it serves one.
    """
    manager: Any = getattr(app._runtime, "_session_mgr", None)
    if not hasattr(manager, "_session_storage"):
        raise RuntimeError("this version of Streamlit keeps its sessions elsewhere")
    most = (raise_limit() - _N_OTHERS) // 6  # half of the room: three descriptors each
    manager._session_storage = WaitingSessions(
        seconds=st.get_option("server.disconnectedSessionTTL"),
        most=min(max(most, _LEAST_KEPT), _MOST_KEPT),
    )
