"""Corrections by hand of a shown note: take a mark away, add one that is missing, undo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from audit.deid.tagged import ADDED, REMOVED, OneNote, mark_between, missing_marks, same_marks
from audit.errors import AuditError
from audit.notes.spans import TYPES, Span
from pages.ui import blocks
from pages.ui.blocks import refused
from pages.ui.deid_text import MAX_CHARS, type_word
from pages.ui.language import Words
from pages.ui.text import day

WHERE = ("everywhere", "between")
_MAX_SHOWN_CHARS = 40
_MAX_TEXT_CHARS = 500


@dataclass(frozen=True)
class Keeper:
    """Where the corrections of a note are kept.

    Attributes
    ----------
    key
        Of the widgets; another one for every note.
    keep
        Takes `REMOVED` or `ADDED` and the spans.
    undo
        Takes the last correction of the note back.
    """

    key: str
    keep: Callable[[str, tuple[Span, ...]], None]
    undo: Callable[[], None]


def draw_corrections(say: Words, note: OneNote, *, keeper: Keeper) -> None:
    """Draw the ways to correct a note that is shown in full, and what was corrected in it."""
    # After each correction the widgets are new ones, and empty.
    key = f"{keeper.key}_{len(note.corrections)}"
    st.html(blocks.heading(say.text("deidentify_fix"), below=say.text("deidentify_fix_below")))
    left, right = st.columns(2, gap="large")
    try:
        with left, st.container(border=True, key=f"{key}_add_card"):
            spans = ask_missing(say, note, key=key)
            if spans:
                keeper.keep(ADDED, spans)
                st.rerun()
        with right, st.container(border=True, key=f"{key}_remove_card"):
            spans = ask_false(say, note, key=key)
            if spans:
                keeper.keep(REMOVED, spans)
                st.rerun()
        if note.corrections:
            draw_made(say, note, keeper=keeper, key=key)
    except AuditError as error:
        refused(say, error)


def ask_missing(say: Words, note: OneNote, *, key: str) -> tuple[Span, ...]:
    """Draw what is needed to add a mark, and return its spans once it is asked for."""
    st.html(blocks.heading("", below=say.text("deidentify_fix_add_below")))
    label = st.selectbox(
        say.text("deidentify_fix_type"),
        TYPES,
        format_func=lambda code: type_word(say, code),
        key=f"{key}_type",
    )
    where = st.radio(
        say.text("deidentify_fix_where"),
        WHERE,
        format_func=lambda code: say.text(f"deidentify_fix_where_{code}"),
        key=f"{key}_where",
        horizontal=True,
    )
    text, start, end = "", 0, 0
    if where == "between":
        one, other = st.columns(2)
        n_chars = len(note.document.text)
        with one:
            start = int(
                st.number_input(
                    say.text("deidentify_fix_start"), min_value=0, max_value=n_chars,
                    key=f"{key}_start",
                )
            )  # fmt: skip
        with other:
            end = int(
                st.number_input(
                    say.text("deidentify_fix_end"), min_value=0, max_value=n_chars,
                    key=f"{key}_end",
                )
            )  # fmt: skip
    else:
        text = st.text_input(
            say.text("deidentify_fix_text"), key=f"{key}_text", max_chars=_MAX_TEXT_CHARS,
            help=say.text("deidentify_fix_text_help"),
        )  # fmt: skip
    if not st.button(say.text("deidentify_fix_add"), key=f"{key}_add", icon=":material/add:"):
        return ()
    chosen = label or TYPES[0]
    if where == "between":
        return mark_between(note.document, start=start, end=end, label=chosen)
    return missing_marks(note.document, text=text or "", label=chosen)


def ask_false(say: Words, note: OneNote, *, key: str) -> tuple[Span, ...]:
    """Draw the choice of a mark that is false, and return the spans to take away once asked for."""
    spans = [span for span in note.document.spans if span.start < MAX_CHARS]
    if not spans:
        st.html(blocks.heading("", below=say.text("deidentify_fix_no_marks")))
        return ()
    st.html(blocks.heading("", below=say.text("deidentify_fix_remove_below")))
    # A box of choices shows its options as plain text, never as Markdown.
    place = st.selectbox(
        say.text("deidentify_fix_mark"),
        range(len(spans)),
        format_func=lambda at: shown_mark(say, note, spans[at], with_place=True),
        index=None,
        placeholder=say.text("setup_choose"),
        key=f"{key}_mark",
    )
    same = same_marks(note.document, spans[place]) if place is not None else ()
    is_every = len(same) > 1 and st.checkbox(
        say.text("deidentify_fix_same", n=f"{len(same):,}"), key=f"{key}_same"
    )
    is_asked = st.button(
        say.text("deidentify_fix_remove"), key=f"{key}_remove", icon=":material/remove:",
        disabled=place is None,
    )  # fmt: skip
    if not is_asked or place is None:
        return ()
    return same if is_every else (spans[place],)


def draw_made(say: Words, note: OneNote, *, keeper: Keeper, key: str) -> None:
    """Draw what was corrected in a note, by whom and when, and the way back."""
    rows = []
    for one in note.corrections:
        shown = [shown_mark(say, note, span) for span in one.spans[:3]]
        if len(one.spans) > 1:
            shown.append(say.text("deidentify_fix_n", n=f"{len(one.spans):,}"))
        what = say.text(f"deidentify_fix_{one.kind}")
        rows.append((day(one.at), one.who, what, ", ".join(dict.fromkeys(shown))))
    header = [
        say.text(f"deidentify_fix_col_{column}") for column in ("when", "who", "what", "marks")
    ]
    caption = say.text("deidentify_fix_caption")
    st.html(blocks.simple_table(header, rows, caption=caption, n_text=len(header)))
    if st.button(say.text("deidentify_fix_undo"), key=f"{key}_undo", icon=":material/undo:"):
        keeper.undo()
        st.rerun()


def shown_mark(say: Words, note: OneNote, span: Span, *, with_place: bool = False) -> str:
    """Return the text of a mark and its type, in one line; untrusted text."""
    text = " ".join(note.document.text[span.start : span.end].split())
    if len(text) > _MAX_SHOWN_CHARS:
        text = f"{text[:_MAX_SHOWN_CHARS]}…"
    shown = f"{text} · {type_word(say, span.label)}"
    return f"{shown} · {span.start:,}–{span.end:,}" if with_place else shown
