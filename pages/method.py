"""Method: how was this measured, and what does it not show?"""

from __future__ import annotations

import streamlit as st

from pages.ui.place import words

st.title(words().text("method_link"), anchor=False)
