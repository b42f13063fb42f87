"""De-identify: what in these notes says who they are about, and what does a de-identifier miss?"""

from __future__ import annotations

import streamlit as st

from pages.ui import deid_measures
from pages.ui.deid_new import JOBS, chosen, draw_new
from pages.ui.deid_set import draw_kept
from pages.ui.section import page, remark
from pages.ui.state import Words

TABS = ("notes", "measures")
VIEWS = ("new", "kept")


def draw(say: Words) -> None:
    """Draw the tab that the link opens; a link to a score or a kept set opens where it is shown."""
    query = st.query_params
    if "tab" not in query and "score" in query:
        query["tab"] = "measures"
    if "view" not in query and "tagged" in query and query.get("tab", TABS[0]) == TABS[0]:
        query["view"] = "kept"
    if chosen(say, "tab", TABS) == "measures":
        deid_measures.draw(say)
        return
    remark(say, "deidentify_below")
    JOBS.draw(say)
    if chosen(say, "view", VIEWS) == "kept":
        draw_kept(say)
    else:
        draw_new(say)


page("deidentify", draw)
