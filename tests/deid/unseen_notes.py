"""The hand-written test sets: notes of two other hospitals, that no tagger was made for.

Everything in them is fictional. One note after another, each under a line `### name`, with inline
tags of the five types.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from audit.notes.formats import TagCensus, scan_tags
from audit.notes.spans import TaggedDocument, tagged

SETS = ("unseen", "unseen_second")
N_NOTES = {
    ("unseen", "ja"): 60, ("unseen", "en"): 20,
    ("unseen_second", "ja"): 40, ("unseen_second", "en"): 16,
}  # fmt: skip
N_WITHOUT = {
    ("unseen", "ja"): 12, ("unseen", "en"): 3,
    ("unseen_second", "ja"): 8, ("unseen_second", "en"): 4,
}  # fmt: skip
"""Notes in which nothing personal stands."""


@cache
def unseen(name: str, language: str) -> tuple[TaggedDocument, ...]:
    """Return the notes of a set in a language."""
    text = (Path(__file__).parent / name / f"{language}.txt").read_text(encoding="utf-8")
    notes = []
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        scanned = scan_tags(body.rstrip("\n"))
        assert scanned.census == TagCensus(n_tags=len(scanned.spans)), title
        notes.append(tagged(title, text=scanned.plain, spans=scanned.spans))
    return tuple(notes)
