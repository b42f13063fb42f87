"""A note with its marks by type, and beside it the text that would be released; as HTML."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import streamlit as st

from audit.deid.release import is_placeholder
from audit.deid.tagged import OneNote
from audit.notes.spans import TYPES, ordered
from audit.report.documents import Hit
from pages.ui import blocks
from pages.ui.language import Words
from pages.ui.marks import MarkLabel, marked
from pages.ui.text import escaped, plain

TONES = {
    "identifier": "flagged", "quasi_identifier": "other", "personal_id_code": "number",
    "linkage_code": "place", "contact": "date",
}  # fmt: skip
"""Type -> tone of its mark; labels of a tagger's own have the tone "unknown"."""
MAX_CHARS = 50_000


def type_word(say: Words, label: str) -> str:
    """Return what a type is called; a label of a tagger's own is untrusted text."""
    return say.text(f"deidentify_type_{label}") if label in TYPES else label


def counts_of(note: OneNote) -> dict[str, int]:
    """Return how many spans of each label a note has, the five types first."""
    labels = [span.label for span in note.document.spans]
    return {label: labels.count(label) for label in ordered(labels)}


def ask_types(say: Words, counts: Mapping[str, int], *, key: str) -> frozenset[str]:
    """Draw which types are marked, and return them."""
    if not counts:
        return frozenset()
    labels = list(counts)
    chosen = st.pills(
        say.text("deidentify_types_shown"),
        labels,
        selection_mode="multi",
        default=labels,
        format_func=lambda label: say.text(
            "kind_n", kind=plain(type_word(say, label)), n=f"{counts[label]:,}"
        ),
        key=f"{key}_types_{'-'.join(labels)}",
    )
    return frozenset(chosen)


def draw_legend(say: Words, labels: Collection[str]) -> None:
    """Draw what the marks mean."""
    items = []
    for label in labels:
        about = "other" if label not in TYPES else label
        tone = TONES.get(label, "unknown")
        items.append(
            f'<mark class="ka-mark ka-mark-{tone}">{escaped(type_word(say, label))}</mark> '
            f"{say.html(f'deidentify_about_{about}')}"
        )
    if items:
        st.html(f'<p class="ka-legend">{"<br>".join(items)}</p>')


def draw_language(say: Words, n_foreign: int) -> None:
    """Draw a warning where notes are in a language that no shipped tagger knows."""
    if n_foreign:
        below = say.text("deidentify_foreign_below", n=f"{n_foreign:,}")
        st.html(blocks.line(say.text("deidentify_foreign"), below, is_strong=True))


def draw_note(say: Words, note: OneNote, *, labels: frozenset[str], is_source_shown: bool) -> None:
    """Draw a note and its released text, side by side; the note only if it may be seen."""
    if not note.document.spans:
        st.html(blocks.heading("", below=say.text("deidentify_nothing_here")))
    elif not note.replacements:
        st.html(blocks.heading("", below=say.text("deidentify_unmarked_here")))
    if is_source_shown:
        source = _paragraph(source_html(say, note, labels=labels))
    else:
        source = f'<p class="ka-below">{say.html("deidentify_hidden")}</p>'
    released = _paragraph(released_html(say, note, labels=labels))
    sides = (("deidentify_side_source", source), ("deidentify_side_released", released))
    pieces = "".join(
        f"<section><h3>{escaped(say.text(title))}</h3>{text}</section>" for title, text in sides
    )
    st.html(f'<div class="ka-pair"><div>{pieces}</div></div>')


def source_html(say: Words, note: OneNote, *, labels: frozenset[str]) -> str:
    """Return the note as HTML, its spans marked; a type that is not shown is not marked.

    Spans that overlap are one mark, as they are replaced as one.
    """
    if not note.replacements:
        spans = [one for one in note.document.spans if one.label in labels]
        return _marked(say, note.document.text, [(s.start, s.end, s.label) for s in spans])
    stretches = []
    for one in note.replacements:
        shown = [label for label in (one.label, *one.labels) if label in labels]
        if shown:
            stretches.append((one.start, one.end, shown[0]))
    return _marked(say, note.document.text, stretches)


def released_html(say: Words, note: OneNote, *, labels: frozenset[str]) -> str:
    """Return the released text as HTML, its replacements marked.

    A placeholder says its type itself; any other replacement has the word beside it.
    """
    replaced = [one for one in note.replacements if one.text and one.label in labels]
    stretches = [(one.new_start, one.new_end, one.label) for one in replaced]
    named = {one.new_start for one in replaced if is_placeholder(one.text)}
    return _marked(say, note.released, stretches, named=named)


def _paragraph(html: str) -> str:
    return f'<p class="ka-document">{html}</p>'


def _marked(
    say: Words,
    text: str,
    stretches: Sequence[tuple[int, int, str]],
    *,
    named: Collection[int] = (),
) -> str:
    """Return text as HTML, its stretches marked; those that begin at `named` without a word."""
    hits: list[Hit] = []
    for start, end, _ in stretches:
        if end <= MAX_CHARS and (not hits or start >= hits[-1].end):
            hits.append(Hit(start, end, "full", ()))
    label_at = {start: label for start, _, label in stretches}

    def label_of(hit: Hit) -> MarkLabel:
        label = label_at[hit.start]
        word = "" if hit.start in named else type_word(say, label)
        return MarkLabel(word, TONES.get(label, "unknown"))

    shown = marked(text[:MAX_CHARS], marks=hits, label=label_of, is_revealed=True)
    if len(text) > MAX_CHARS:
        rest = say.html("deidentify_cut", n=f"{len(text) - MAX_CHARS:,}")
        shown += f"<small> {rest}</small>"
    return shown
