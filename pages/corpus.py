"""The corpus page."""

from __future__ import annotations

from pages.ui import blocks, place


def page() -> None:
    """Draw the page."""
    say = place.words()
    blocks.title(say.text("corpus_title")) if hasattr(blocks, "title") else None


page()
