"""Workshop: corpora from notes, models trained on them, leakage after de-identification."""

from __future__ import annotations

from audit.words import Words
from pages.ui import corpus, leakage, training
from pages.ui.section import page
from pages.ui.state import choose

TABS = {"corpus": corpus.draw, "training": training.draw, "leakage": leakage.draw}
"""Code of a tab, as it stands in `?tab=` -> what draws it."""


def draw(say: Words) -> None:
    """Draw the tab that is chosen."""
    tab = choose(
        "tab", tuple(TABS), label=say.text("workshop_tab"),
        shown=lambda code: say.text(f"workshop_tab_{code}"),
    )  # fmt: skip
    TABS[tab](say)


page("workshop", draw)
