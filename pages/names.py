"""Names: whose names stand out, and what does each score rest on?"""

from __future__ import annotations

import streamlit as st

from pages.ui.place import words

st.title(words().text("names_link"), anchor=False)
