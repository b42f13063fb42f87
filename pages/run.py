"""Run an attack: what does the attacker have, and how long may he try?"""

from __future__ import annotations

import streamlit as st

from pages.ui.place import words

st.title(words().text("run_link"), anchor=False)
