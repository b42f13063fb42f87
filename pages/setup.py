"""Models and names: which pair of models, which list of names, which passages?"""

from __future__ import annotations

import streamlit as st

from pages.ui import blocks, cached
from pages.ui.language import go_to, words
from pages.ui.setup_choice import codes_for_link, is_new, is_unusable, keep_pending, pair
from pages.ui.setup_models import draw_models
from pages.ui.setup_names import draw_names, is_new_visit
from pages.ui.setup_passages import draw_passages


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("setup_title"), anchor=False)
    st.html(blocks.heading("", below=say.text("setup_below")))
    try:
        if is_new_visit():
            keep_pending(say)
        models = pair(cached.models())
        has_pair = draw_models(say, models)
        has_names = draw_names(say, hospital=models.hospital)
        has_passages = draw_passages(say)
    except cached.AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))
        return
    if is_unusable("names") or is_unusable("passages"):
        st.html(blocks.heading("", below=say.text("setup_open_unusable")))
    elif has_pair and has_names:
        done = "setup_done" if has_passages else "setup_done_scenario_1"
        is_any_new = is_new("names") or is_new("passages")
        below = say.text("setup_going_on_keeps") if is_any_new else ""
        st.html(blocks.heading(say.text(done), below=below))
        if st.button(
            say.text("setup_go_on"), key="go_on", type="primary", icon=":material/play_arrow:"
        ) and keep_pending(say):
            go_to("run", **codes_for_link())
    else:
        what = "setup_open_pair" if not has_pair else "setup_open_names"
        st.html(blocks.heading("", below=say.text(what)))


page()
