"""Jobs: what is running, what is waiting, what has ended and how?"""

from __future__ import annotations

import streamlit as st

from pages.ui.place import words

st.title(words().text("jobs_link"), anchor=False)
