"""Synthetic clinical notes with gold spans: made here, of nobody."""

from audit.deid.synthetic.notes import (
    HELD_OUT_STYLES,
    TRAIN_STYLES,
    styles_of,
    synthetic_notes,
)

__all__ = ["HELD_OUT_STYLES", "TRAIN_STYLES", "styles_of", "synthetic_notes"]
