"""Documents: what do the two models write when they are left to themselves?"""

from __future__ import annotations

import streamlit as st

from pages.ui.place import words

st.title(words().text("documents_link"), anchor=False)
