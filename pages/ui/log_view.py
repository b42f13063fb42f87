"""The access log of one audit on a screen: who, when, what, and whether the whole log fits."""

from __future__ import annotations

import streamlit as st

from audit.access_log import ACTIONS, LogEntry
from audit.report.names import NAME_FORMS
from pages.ui import blocks, cached
from pages.ui.language import LANGUAGES, Words
from pages.ui.text import day

N_LINES = 50


@st.fragment
def draw_log(say: Words, digest: str) -> None:
    """Draw who has seen and taken what, and whether the log is whole."""
    st.html(blocks.heading(say.text("report_log")))
    try:  # a fragment that reruns alone has no page around it to catch this
        found, whole = cached.access_log(digest, limit=N_LINES)
    except cached.AuditError as error:
        st.html(blocks.heading("", below=error.written(say.language)))
        return
    if whole.is_intact:
        state = say.text("report_log_whole", n=whole.n_lines)
    elif whole.first_bad_line is not None:
        state = say.text("report_log_broken", line=whole.first_bad_line)
    else:
        state = say.text("report_log_cut")
    st.html(blocks.heading("", below=state))
    st.button(say.text("report_log_refresh"), key="report_log_refresh")
    if not found:
        st.html(blocks.heading("", below=say.text("report_log_empty")))
        return
    columns = ("number", "at", "who", "action", "counts")
    st.html(
        blocks.simple_table(
            [say.text(f"report_log_{column}") for column in columns],
            [log_row(say, entry) for entry in found],
            caption=say.text("report_log_below"),
            n_text=len(columns),
        )
    )


def log_row(say: Words, entry: LogEntry) -> tuple[str, ...]:
    """Return one line of the log as the reader sees it."""
    is_known = entry.action in ACTIONS
    key = f"report_action_{entry.action}" if is_known else "report_other_action"
    return (
        str(entry.number),
        day(entry.at),
        entry.who,
        say.text(key),
        " · ".join(log_detail(say, name, value) for name, value in entry.counts.items()),
    )


def log_detail(say: Words, name: str, value: int | str) -> str:
    """Return one code or count of a log line, in words where there are words."""
    link = f"{value}_link"
    if name == "page" and link in say.sentences:
        return say.text(link)
    if name == "names" and value in NAME_FORMS:
        return say.text(f"report_form_{value}")
    if name == "language" and value in LANGUAGES:
        return LANGUAGES[str(value)]
    if name == "n_names":
        return say.text("report_log_names", n=value)
    return str(value) if name == "what" else f"{name}: {value}"
