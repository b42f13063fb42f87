"""The line of the sidebar that says what is running, and the button that runs the demonstration."""

from __future__ import annotations

import streamlit as st

from pages.ui.language import Words


def job_line(words: Words) -> None:
    """Draw one line of job state while something runs."""


def run_demo_button(say: Words, *, key: str) -> None:
    """Draw the button that submits the demonstration and goes to the Jobs page."""
    st.button(say.text("start_demo_button"), key=key, type="primary")
