"""A look into a file of notes: which categories stand in its first notes, and what is no note."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from audit.corpus.examine import CategoryCount
from audit.corpus.preview import Survey, preview
from audit.corpus.truth import NoteTruth, Place
from audit.errors import AuditError, written
from audit.notes.read import NoteFile
from audit.report.documents import Hit
from pages.ui import blocks, cached, corpus_choice
from pages.ui.blocks import refused, step
from pages.ui.cached import Columns
from pages.ui.corpus_view import GROUPS, group_of
from pages.ui.language import Words
from pages.ui.logged import note
from pages.ui.marks import MarkLabel, marked
from pages.ui.reveal import is_revealed
from pages.ui.text import escaped

MODES = ("dummy", "register", "raw")
"""Dummy identities are put in; registered names are found; nothing is known of identified notes."""
_MAX_CHARS = 4000


def draw_preview(
    say: Words, file: NoteFile, survey: Survey, *, register: NoteFile | None, mode: str
) -> None:
    """Draw one note; `mode` is one of `MODES`, and all but the first show real people."""
    title, below = say.text(f"corpus_preview_{mode}"), say.text(f"corpus_preview_{mode}_below")
    n_notes = len(survey.notes)
    st.html(blocks.heading(title, below=below))
    number = int(
        st.number_input(
            say.text("corpus_preview_number"),
            min_value=1,
            max_value=n_notes,
            value=1,
            step=1,
            key=f"corpus_preview_number_{corpus_choice.code_of(file)}_{n_notes}",
            width=260,
        )
    )
    note = survey.notes[number - 1]
    seed = int(st.session_state.get("corpus_number_seed", 0))
    try:
        finder = cached.finder(register) if register else None
    except AuditError as error:
        refused(say, error)
        return
    found = preview(note, has_blanks=survey.has_blanks, seed=seed, finder=finder)
    if mode != "dummy":
        note_shown(file, row=note.row)
    st.html(legend(say, found) + both_texts(say, found, mode=mode))


def note_shown(file: NoteFile, *, row: int) -> None:
    """Write into the access log that an identified note is shown, once a session.

    Raises
    ------
    AuditError
        If it cannot be written; the note is not shown then.
    """
    seen: set[tuple[str, int]] = st.session_state.setdefault("corpus_notes_shown", set())
    if (file.file_id, row) not in seen:
        note("revealed", what="note", row=row)
        seen.add((file.file_id, row))


def legend(say: Words, found: NoteTruth) -> str:
    """Return what the marks mean, as HTML; groups that do not occur are left out."""
    seen = {group_of(place.kind, role=place.role) for place in places_of(found)}
    items = "".join(
        f'<mark class="ka-mark ka-mark-{group}">{say.html(f"corpus_group_{group}")}</mark> '
        for group in GROUPS
        if group in seen
    )
    return f'<p class="ka-legend">{items}</p>' if items else ""


def places_of(found: NoteTruth) -> list[Place]:
    """Return what was replaced or found and what stays, in order."""
    return sorted((*found.inserted, *found.left), key=lambda place: place.start)


def both_texts(say: Words, found: NoteTruth, *, mode: str) -> str:
    """Return the texts side by side, as HTML; one alone where nothing is put in or found."""
    places = places_of(found)
    private = found.private, [(p.start, p.stop, p) for p in places]
    public = found.public, [(p.source_start, p.source_stop, p) for p in places]
    before, after = (public, private) if mode == "dummy" else (private, public)
    sides = [(say.text("corpus_before"), *before)]
    if mode != "raw":
        sides.append((say.text(f"corpus_after_{mode}"), *after))
    pieces = "".join(
        f'<section><h3>{escaped(title)}</h3><p class="ka-document">'
        f"{shown(text, marks)}{cut(say, text)}</p></section>"
        for title, text, marks in sides
    )
    return f'<div class="ka-pair"><div>{pieces}</div></div>'


def shown(text: str, marks: Sequence[tuple[int, int, Place]]) -> str:
    """Return the beginning of a text as HTML, each (start, end, place) marked by its group."""
    within = [mark for mark in marks if mark[1] <= _MAX_CHARS]
    groups = {start: group_of(place.kind, role=place.role) for start, _, place in within}
    return marked(
        text[:_MAX_CHARS],
        marks=[Hit(start, end, "full", ()) for start, end, _ in within],
        label=lambda hit: MarkLabel("", groups[hit.start]),
        is_revealed=True,
    )


def cut(say: Words, text: str) -> str:
    """Return the sentence that says how much of a long note is not shown."""
    if len(text) <= _MAX_CHARS:
        return ""
    n = f"{len(text) - _MAX_CHARS:,}"
    return f"<small> {escaped(say.text('corpus_cut', n=n))}</small>"


_MAX_CATEGORIES = 200
_MAX_REFUSED = 20


def draw_look(say: Words, file: NoteFile, *, columns: Columns, register: NoteFile | None) -> Survey:
    """Draw categories and preview, and return what stands in the first notes.

    Raises
    ------
    AuditError
        If the file cannot be read.
    """
    found = cached.survey(file, columns=columns)
    state = say.text("setup_ready" if found.notes else "setup_missing")
    step("2", say.text("corpus_step_look"), is_ready=bool(found.notes), state=state)
    counts = {"n": f"{len(found.notes):,}", "refused": f"{len(found.refused):,}"}
    st.html(blocks.heading("", below=say.text("corpus_look_below", **counts)))
    draw_refused_head(say, found)
    if not found.notes:
        return found
    if found.categories:
        draw_survey(say, found)
        draw_preview(say, file, found, register=None, mode="dummy")
        return found
    title, below = say.text("corpus_identified"), say.text("corpus_identified_below")
    st.html(blocks.heading(title, below=below))
    if is_revealed():
        mode = "register" if register else "raw"
        draw_preview(say, file, found, register=register, mode=mode)
    return found


def draw_refused_head(say: Words, found: Survey) -> None:
    """Draw the first rows that are no notes."""
    if not found.refused:
        return
    n = len(found.refused)
    with st.expander(say.text("corpus_look_refused", n=n), key="corpus_look_refused"):
        rows = [
            (f"{one.row:,}", written(one.what, say.language))
            for one in found.refused[:_MAX_REFUSED]
        ]
        header = [say.text("setup_column_row"), say.text("setup_column_remark")]
        caption = say.text("setup_notes_caption", shown=len(rows), n=n)
        st.html(blocks.simple_table(header, rows, caption=caption, n_text=2))


def draw_survey(say: Words, found: Survey) -> None:
    """Draw the categories of the first notes, those that are not understood first."""
    unknown = [one for one in found.categories if one.kind == "unknown"]
    if unknown:
        title = say.text("corpus_look_unknown", n=len(unknown))
        st.html(blocks.heading(title, below=say.text("corpus_unknown_below")))
        draw_categories(say, unknown, key="look_unknown")
    known = [one for one in found.categories if one.kind != "unknown"]
    with st.expander(say.text("corpus_look_known", n=len(known)), key="corpus_look_known"):
        draw_categories(say, known, key="look_known")


def draw_categories(say: Words, counts: Sequence[CategoryCount], *, key: str) -> None:
    """Draw categories as they are written, what stands for them, and where they occur first."""
    rows = [
        (one.category, say.text(f"corpus_value_{one.kind}"), f"{one.n:,}", f"{one.first_row:,}")
        for one in counts[:_MAX_CATEGORIES]
    ]
    header = [
        say.text(f"corpus_column_{column}") for column in ("category", "value", "times", "first")
    ]
    caption = say.text("corpus_categories_caption", shown=len(rows), n=len(counts))
    with st.container(key=f"corpus_categories_{key}"):
        st.html(blocks.simple_table(header, rows, caption=caption, n_text=2))
