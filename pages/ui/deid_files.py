"""Files of tagged notes: the texts to hand over, the spans, the counts; each download is logged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from audit.deid.tag import census_file
from audit.deid.tagged import (
    EXPORTED_CENSUS,
    MAX_EXPORT_BYTES,
    PRIVATE,
    RELEASED,
    OneNote,
    export_name,
    exported,
)
from pages.ui import blocks
from pages.ui.language import Words
from pages.ui.logged import logged_export


@dataclass(frozen=True)
class Exportable:
    """Notes that can be downloaded.

    Attributes
    ----------
    notes
        Gives the notes, one at a time, whenever a file is made.
    n_notes, n_bytes
        How many, and how large they are.
    census
        What was counted.
    is_private_allowed
        Whether files with the notes as they were may be made.
    """

    notes: Callable[[], Iterable[OneNote]]
    n_notes: int
    n_bytes: int
    census: Mapping[str, Any]
    is_private_allowed: bool


def draw_files(say: Words, what: Exportable, *, key: str) -> None:
    """Draw the downloads."""
    st.html(blocks.heading(say.text("deidentify_files"), below=say.text("deidentify_files_below")))
    if what.n_bytes > MAX_EXPORT_BYTES:
        st.html(blocks.heading("", below=say.text("deidentify_files_too_large")))
        return
    with st.container(horizontal=True, key=f"{key}_released"):
        for form in RELEASED:
            _button(say, what, form, key=key)
        _button(say, what, EXPORTED_CENSUS, key=key)
    with st.expander(say.text("deidentify_private"), key=f"{key}_private"):
        is_allowed = what.is_private_allowed
        below = "deidentify_private_below" if is_allowed else "deidentify_private_hidden"
        st.html(blocks.heading("", below=say.text(below)))
        with st.container(horizontal=True):
            for form in PRIVATE:
                _button(say, what, form, key=key, is_allowed=is_allowed)


def _button(say: Words, what: Exportable, form: str, *, key: str, is_allowed: bool = True) -> None:
    def make() -> bytes:
        if form == EXPORTED_CENSUS:
            return census_file(what.census)
        return exported(what.notes(), form=form, n_notes=what.n_notes)

    # A browser shows none of these, whatever is in them.
    st.download_button(
        say.text(f"deidentify_file_{form}"),
        data=logged_export(
            make, what="tagged-notes", format=form, n_notes=what.n_notes,
            names="full" if form in PRIVATE else "removed",
        ),
        file_name=export_name(form, n_notes=what.n_notes),
        mime="application/octet-stream",
        icon=":material/download:",
        key=f"{key}_file_{form}",
        on_click="ignore",
        disabled=not is_allowed,
    )  # fmt: skip
