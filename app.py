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

# Nothing here needs these modules. Streamlit would import them at the first table and chart, and
# several sessions that start together would then see half-imported modules.
import pandas  # noqa: F401
import plotly.tools
import streamlit as st
import streamlit.config
from starlette.middleware import Middleware

from audit.demo import DemoTask
from audit.errors import AuditError, places_of
from audit.home import SECRETS, data_home, results_dir
from audit.jobs.service import ask, ensure_worker, look_after_jobs
from audit.report.audit_store import list_digests
from audit.retention import purge_due
from audit.shelf import clear_scratch
from audit.task import queue_of
from cache.store import Store
from pages.ui.access import open_secrets, refusal
from pages.ui.blocks import draw_unforeseen_error
from pages.ui.headers import SecurityHeaders
from pages.ui.running import FIRST_LOOK
from pages.ui.sessions import close_left_sessions

ROUTER = Path(__file__).resolve().parent / "pages" / "ui" / "main.py"
DEMO_VARIABLE = "KART_AUDIT_DEMO"
"""If this variable is set, each start requests the demonstration, which is made only once."""


@asynccontextmanager
async def lifespan(app: st.App) -> AsyncIterator[None]:
    """Restrict new files of the server to their owner, and supervise jobs while the server runs."""
    os.umask(0o077)
    close_left_sessions(app)
    clear_scratch()
    warn_of_secrets()
    with look_after_jobs(daily=purge_due):
        Thread(target=prepare_demo, daemon=True).start()
        yield


def add_secrets_file() -> None:
    """Read the login's settings from the data directory too, where an update does not remove them.

    These settings take precedence. If the data directory cannot be used, the pages say so.
    """
    with suppress(AuditError):
        files = [*st.get_option("secrets.files"), str(data_home() / SECRETS)]
        streamlit.config.set_option("secrets.files", list(dict.fromkeys(files)))


def warn_of_secrets() -> None:
    """Report on stderr what keeps the server from serving, and which secrets others can read."""
    for path in open_secrets():
        sys.stderr.write(f"{path}: other accounts can read it. Close it: chmod 600 {path}\n")
    if (refused := refusal()) is not None:
        sys.stderr.write(f"Nothing is served. {refused}\n")


def prepare_demo() -> None:
    """Where nothing is audited yet, let a process import what the demonstration needs.

    So its first verdict comes seconds earlier, whether a person asks for it or `DEMO_VARIABLE`.
    """
    with suppress(AuditError), Store(results_dir()) as store:
        if not list_digests(store):
            ensure_worker(queue_of("auto"), expected_kind=DemoTask.job)
    if os.environ.get(DEMO_VARIABLE):
        request_demo()


def request_demo() -> None:
    """Request the demonstration's audits unless they are kept; the pages report a refusal."""
    is_japanese = os.environ.get("LC_ALL", os.environ.get("LANG", "")).startswith("ja")
    with suppress(AuditError):
        task = DemoTask(language="ja" if is_japanese else "en", **FIRST_LOOK)
        if not DemoTask.read_answer(question := task.question()):
            ask(question)


def remove_error_text(record: logging.LogRecord) -> bool:
    """Remove the text of a page's error from the server's log, since it may hold a name."""
    if record.exc_info and record.exc_info[1]:
        traceback_places = places_of(record.exc_info[1])
        record.msg, record.args, record.exc_info = f"{record.msg}: {traceback_places}", (), None
    return True


logging.getLogger("streamlit.error_util").addFilter(remove_error_text)
plotly.graph_objs.Figure()  # imports the rest
add_secrets_file()
app = st.App(
    ROUTER,
    middleware=[Middleware(SecurityHeaders)],
    lifespan=lifespan,
    on_script_error=draw_unforeseen_error,
)
