"""Measures: how well can an attacker tell members from controls?"""

from __future__ import annotations

import streamlit as st

from pages.ui.place import words

st.title(words().text("measures_link"), anchor=False)
