"""Report: the audit as files that can be handed over and signed."""

from __future__ import annotations

import streamlit as st

from pages.ui.place import words

st.title(words().text("report_link"), anchor=False)
