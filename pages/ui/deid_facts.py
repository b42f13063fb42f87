"""What is known of kept notes: what was asked, the counts by type, how faithful copies are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from audit.deid.copies import EMPTY, STATUSES, TRUNCATED
from audit.deid.tagged import CopyOfNote, TaggedSet
from pages.ui import blocks
from pages.ui.deid_settings import tagger_name
from pages.ui.deid_text import draw_language, type_word
from pages.ui.language import Words
from pages.ui.text import day, percent

RARE_FACTS = (
    ("refused", "n_refused"), ("unchanged", "n_replaced_by_itself"),
    ("corrected", "n_notes_corrected"), ("foreign", "n_notes_of_no_language"),
)  # fmt: skip
"""Facts that are only shown where there is something to say -> their fields of the census."""


def draw_facts(say: Words, tagged: TaggedSet, *, census: Mapping[str, Any]) -> None:
    """Draw what was asked, what came of it, and the counts by type.

    Parameters
    ----------
    census
        From `audit.deid.tagged`.
    """
    facts = [
        ("source", say.text(f"deidentify_source_{tagged.source}")),
        ("tagger", tagger_name(say, tagged.tagger_id)),
        ("mode", say.text(f"deidentify_mode_{tagged.how.mode}")),
        ("created", day(tagged.created)),
        ("notes", f"{tagged.n_notes:,}"),
        ("without", f"{census.get('n_notes_without_spans', 0):,}"),
    ]
    for fact, field in RARE_FACTS:
        if census.get(field):
            facts.append((fact, f"{census[field]:,}"))
    draw_language(say, int(census.get("n_notes_of_no_language", 0)))
    rows = [(say.text(f"deidentify_fact_{fact}"), value) for fact, value in facts]
    left, right = st.columns(2, gap="large")
    with left:
        header = [say.text("deidentify_fact"), say.text("deidentify_value")]
        caption = say.text("deidentify_facts_caption")
        st.html(blocks.simple_table(header, rows, caption=caption, n_text=2))
    with right:
        draw_counts(say, census)
        draw_copies(say, census.get("copies", {}))


def draw_counts(say: Words, census: Mapping[str, Any]) -> None:
    """Draw how much is marked of each type, after corrections by hand."""
    spans = census.get("spans", {})
    if not spans:
        st.html(blocks.heading("", below=say.text("deidentify_nothing")))
        return
    header = [
        say.text("deidentify_type"),
        say.text("deidentify_n_marks"),
        say.text("deidentify_n_characters"),
    ]
    rows = [
        (type_word(say, label), f"{counted['n']:,}", f"{counted['n_characters']:,}")
        for label, counted in spans.items()
    ]
    st.html(blocks.simple_table(header, rows, caption=say.text("deidentify_counts_caption")))


def draw_copies(say: Words, copies: Mapping[str, Any]) -> None:
    """Draw how faithful the copies of a tagger that writes copies are; nothing for the others."""
    statuses = copies.get("statuses", {})
    rows = [
        (say.text(f"deidentify_copy_{status}"), f"{statuses[status]:,}")
        for status in STATUSES
        if statuses.get(status)
    ]
    if rows:
        header = [say.text("deidentify_copies"), say.text("deidentify_copies_n")]
        n_lost = f"{copies.get('n_unaligned', 0):,}"
        caption = say.text("deidentify_copies_caption", n=n_lost)
        st.html(blocks.simple_table(header, rows, caption=caption))


def draw_copy(say: Words, copy: CopyOfNote | None) -> None:
    """Draw how faithful the copy of the shown note is; nothing where the tagger wrote none."""
    if copy is None:
        return
    pieces = []
    if copy.error_rate is not None:
        pieces.append(say.text("deidentify_copy_rate", rate=percent(copy.error_rate)))
    if copy.n_unaligned:
        pieces.append(say.text("deidentify_copy_unaligned", n=f"{copy.n_unaligned:,}"))
    if copy.n_malformed:
        pieces.append(say.text("deidentify_copy_malformed", n=f"{copy.n_malformed:,}"))
    status = say.text(f"deidentify_copy_{copy.status}")
    strong = say.text("deidentify_copy_here", status=status)
    is_short = copy.status in (EMPTY, TRUNCATED)
    st.html(blocks.line(strong, " · ".join(pieces), is_strong=is_short))
