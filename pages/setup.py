"""Models and names: which pair of models, which list of names, which passages?"""

from __future__ import annotations

import streamlit as st

from pages.ui.place import words

st.title(words().text("setup_link"), anchor=False)
