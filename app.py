"""The web app's entry: `streamlit run app.py`. Screens are in `pages/`, the router in `pages/ui`.

The router is not this file: beside a folder `pages/` Streamlit would serve a page alone on the
first deep link after a start, without the router.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

# Here, once, though nothing here needs them: Streamlit imports them at the first table and chart,
# and several sessions that begin at the same moment found them half imported.
import pandas  # noqa: F401
import plotly.tools
import streamlit as st
from starlette.middleware import Middleware

from audit.jobs.service import looking_after
from pages.ui.headers import SecurityHeaders

ROUTER = Path(__file__).resolve().parent / "pages" / "ui" / "main.py"


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Make every file that the server writes the owner's alone; let jobs go on while it lives."""
    os.umask(0o077)
    with looking_after():
        yield


plotly.graph_objs.Figure()  # imports the rest
app = st.App(ROUTER, middleware=[Middleware(SecurityHeaders)], lifespan=lifespan)
