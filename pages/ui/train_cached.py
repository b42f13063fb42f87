"""What the server keeps in memory of trainings: how much text a corpus has for a model's rows."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from audit.corpus.kept import KeptCorpus
from audit.models import registry
from audit.training.kept import NotesLoad, notes_load

FILES = {"private": "private.jsonl", "public": "public.jsonl", "other_names": "private.jsonl"}
"""Which file of a corpus says how much text a source has: notes with other names are as long."""


def load(corpus: KeptCorpus, *, source: str, model: Path) -> NotesLoad:
    """Return how many tokens a corpus has for a model; raises as `training_plan.notes_load`."""
    path = corpus.path / FILES[source]
    try:
        state = path.stat()
        stamp = f"{state.st_size} {state.st_mtime_ns}"
    except OSError:
        stamp = ""
    files = str(registry.signature(model))
    return _load(str(path), stamp, str(model), files, corpus.n_notes)


@st.cache_resource(show_spinner=False, max_entries=32)
def _load(path: str, stamp: str, model: str, files: str, n_notes: int) -> NotesLoad:
    return notes_load(Path(path), n_notes=n_notes, model=Path(model))
