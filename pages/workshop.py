"""Workshop: corpora from notes, models trained on them, leakage after de-identification."""

from __future__ import annotations

from pages.ui import corpus, leakage_panel, training_panel
from pages.ui.form import choose
from pages.ui.section import draw_page

TABS = {"corpus": corpus.draw, "training": training_panel.draw, "leakage": leakage_panel.draw}
"""Code of a tab in `?tab=` -> the function that draws it."""

draw_page("workshop", lambda say: TABS[choose(say, "workshop_tab", list(TABS))](say))
