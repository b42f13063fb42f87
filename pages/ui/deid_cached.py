"""What the server keeps in memory of tagged notes: indexes, counts, and the hits of a search."""

from __future__ import annotations

from typing import Any

import streamlit as st

from audit.deid.tagged import (
    TAGGED_SETS,
    TaggedSet,
    corrected_census,
    corrections_of,
    corrections_stamp,
    notes_with,
    read_index,
)
from audit.deid.tagged import copy_places as read_copy_places
from audit.stats import IntArray


def index(tagged: TaggedSet) -> IntArray:
    """Return the index of a whole set; raises as `read_index`."""
    return _index(str(tagged.path), tagged.tagged_id, tagged.created)


def hits(tagged: TaggedSet, *, text: str) -> tuple[int, ...]:
    """Return the numbers of the notes that hold a text; raises as `notes_with`."""
    return _hits(str(tagged.path), tagged.tagged_id, tagged.created, text)


def census(tagged: TaggedSet) -> dict[str, Any]:
    """Return the counts of a whole set, corrected by hand; raises as `corrected_census`."""
    return _census(
        str(tagged.path), tagged.tagged_id, tagged.created, corrections_stamp(tagged),
        str(tagged.census),
    )  # fmt: skip


def copy_places(tagged: TaggedSet) -> IntArray:
    """Return where the tagger's copies stand; raises as `audit.deid.tagged`."""
    return _copy_places(str(tagged.path), tagged.tagged_id, tagged.created)


@st.cache_resource(show_spinner=False, max_entries=8)
def _index(path: str, tagged_id: str, created: str) -> IntArray:
    return read_index(TAGGED_SETS.get(tagged_id))


@st.cache_resource(show_spinner=False, max_entries=16)
def _hits(path: str, tagged_id: str, created: str, text: str) -> tuple[int, ...]:
    return notes_with(TAGGED_SETS.get(tagged_id), text=text)


@st.cache_data(show_spinner=False, max_entries=8)
def _census(
    path: str, tagged_id: str, created: str, stamp: tuple[int, int], own: str
) -> dict[str, Any]:
    tagged = TAGGED_SETS.get(tagged_id)
    return corrected_census(tagged, index=index(tagged), corrections=corrections_of(tagged))


@st.cache_resource(show_spinner=False, max_entries=8)
def _copy_places(path: str, tagged_id: str, created: str) -> IntArray:
    return read_copy_places(TAGGED_SETS.get(tagged_id))
