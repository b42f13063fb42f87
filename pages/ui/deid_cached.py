"""What the server keeps in memory of tagged notes: their indexes, and the hits of a search."""

from __future__ import annotations

import streamlit as st

from audit.deid.kept_tagged import TaggedSet, tagged_set
from audit.deid.tagged_index import TaggedIndex, notes_with, read_index


def index(tagged: TaggedSet) -> TaggedIndex:
    """Return the index of a whole set; raises as `read_index`."""
    return _index(str(tagged.path), tagged.tagged_id, tagged.created)


def hits(tagged: TaggedSet, *, text: str) -> tuple[int, ...]:
    """Return the numbers of the notes that hold a text; raises as `notes_with`."""
    return _hits(str(tagged.path), tagged.tagged_id, tagged.created, text)


@st.cache_resource(show_spinner=False, max_entries=8)
def _index(path: str, tagged_id: str, created: str) -> TaggedIndex:
    return read_index(tagged_set(tagged_id))


@st.cache_resource(show_spinner=False, max_entries=16)
def _hits(path: str, tagged_id: str, created: str, text: str) -> tuple[int, ...]:
    return notes_with(tagged_set(tagged_id), text=text)
