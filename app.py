"""The web app's entry: `streamlit run app.py`. Screens are in `pages/`, the router in `pages/ui`.

The router is not this file: beside a folder `pages/` Streamlit would serve a page alone on the
first deep link after a start, without the router.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Thread

# Here, once, though nothing here needs them: Streamlit imports them at the first table and chart,
# and several sessions that begin at the same moment found them half imported.
import pandas  # noqa: F401
import plotly.tools
import streamlit as st
import streamlit.config
from starlette.middleware import Middleware

from audit.demo import DemoTask
from audit.errors import AuditError, places_of
from audit.home import SECRETS, data_home
from audit.jobs.service import ask, look_after_jobs
from audit.retention import purge_due
from audit.shelf import clear_scratch
from pages.ui.access import open_secrets, refusal
from pages.ui.blocks import unforeseen
from pages.ui.headers import SecurityHeaders
from pages.ui.sessions import close_left_sessions

ROUTER = Path(__file__).resolve().parent / "pages" / "ui" / "main.py"
DEMO_VARIABLE = "KART_AUDIT_DEMO"
"""Where it is set, the demonstration is asked for at each start, and made once."""


@asynccontextmanager
async def lifespan(app: st.App) -> AsyncIterator[None]:
    """Make every file that the server writes the owner's alone; let jobs go on while it lives."""
    os.umask(0o077)
    close_left_sessions(app)
    clear_scratch()
    warn()
    with look_after_jobs(daily=purge_due):
        if os.environ.get(DEMO_VARIABLE):
            Thread(target=ask_for_demo, daemon=True).start()
        yield


def look_for_secrets() -> None:
    """Let the login's settings stand in the data directory too, where an update leaves them.

    What stands there takes precedence. Where there is no usable data directory the pages say so.
    """
    with suppress(AuditError):
        files = [*st.get_option("secrets.files"), str(data_home() / SECRETS)]
        streamlit.config.set_option("secrets.files", list(dict.fromkeys(files)))


def warn() -> None:
    """Tell whoever starts the server of what keeps it from serving, and of secrets in the open."""
    for path in open_secrets():
        sys.stderr.write(f"{path}: other accounts can read it. Close it: chmod 600 {path}\n")
    if (refused := refusal()) is not None:
        sys.stderr.write(f"Nothing is served. {refused}\n")


def ask_for_demo() -> None:
    """Ask for the demonstration's audits unless they are kept; the pages say what is refused."""
    is_japanese = os.environ.get("LC_ALL", os.environ.get("LANG", "")).startswith("ja")
    with suppress(AuditError):
        question = DemoTask(language="ja" if is_japanese else "en").question()
        if not DemoTask.read_answer(question):
            ask(question)


def without_text(record: logging.LogRecord) -> bool:
    """Take the text of a page's error out of the server's log, since it may hold a name."""
    if record.exc_info and record.exc_info[1]:
        told = places_of(record.exc_info[1])
        record.msg, record.args, record.exc_info = f"{record.msg}: {told}", (), None
    return True


logging.getLogger("streamlit.error_util").addFilter(without_text)
plotly.graph_objs.Figure()  # imports the rest
look_for_secrets()
app = st.App(
    ROUTER,
    middleware=[Middleware(SecurityHeaders)],
    lifespan=lifespan,
    on_script_error=unforeseen,
)
