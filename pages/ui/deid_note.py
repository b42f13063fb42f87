"""One note: its marks, corrections by hand, its released text, and the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

from audit.deid.find.copies import CopiesSummary
from audit.deid.find.known_names import read_certain_names
from audit.deid.redact.name_places import NameFinder
from audit.deid.redact.release import is_placeholder
from audit.deid.sets.tagged_sets import (
    EXPORTED_CENSUS,
    MAX_EXPORT_BYTES,
    PRIVATE,
    RELEASED,
    ReleasedNote,
    Wish,
    export_name,
    export_notes,
)
from audit.notes.spans import TYPES, Span, order_labels
from audit.report.documents import Hit
from audit.shelf import json_page
from audit.stats import Rate
from audit.tables import UNDEFINED
from audit.words import Words
from pages.ui import blocks, cached
from pages.ui.access import is_revealed
from pages.ui.blocks import escape_html, escape_markdown, format_moment, format_percent
from pages.ui.display_names import label_name
from pages.ui.form import choose_some, draw_button, draw_switch
from pages.ui.note_text import MarkLabel, note_box, note_html, note_plain
from pages.ui.section import Table, attempt, draw_file_button, draw_heading, draw_remark, draw_table

TONES = {
    "identifier": "flagged",
    "quasi_identifier": "other",
    "personal_id_code": "number",
    "linkage_code": "place",
    "contact": "date",
}
"""Type -> tone of its mark; a tagger's own labels have the tone "unknown"."""
MAX_CHARS = 50_000
SCOPES = _HERE, _, _SET = ("here", "note", "set")
"""Scope of a correction: at its place, everywhere in the note, in all notes of the set."""
_MAX_SHOWN_CHARS, _MAX_TYPED_CHARS = 40, 500
_COMPONENT = "kart.marker"


@dataclass(frozen=True)
class Desk:
    """The functions that correct a note.

    `correct` applies a wish, in all notes if its flag is true, and returns the number of changed
    notes; `undo` reverts the last correction of the note.
    """

    scopes: tuple[str, ...]
    correct: Callable[[Wish, bool], int]
    undo: Callable[[], None]


def draw_language(say: Words, census: Mapping[str, Any]) -> None:
    """Draw a warning if notes are in a language that no shipped tagger knows."""
    if n_foreign := int(census.get("n_notes_of_no_language", 0)):
        below = say.text("deidentify_foreign_below", n=f"{n_foreign:,}")
        st.html(blocks.line(say.text("deidentify_foreign"), below, is_strong=True))


def draw_copies(say: Words, copies: CopiesSummary) -> None:
    """Draw how faithful the copies of a copying model are, and its malformed tags."""
    statuses, rate = copies.statuses, copies.pooled_error_rate
    shares = {status: Rate(n, sum(statuses.values())) for status, n in statuses.items()}
    for key, rates_by_kind in (("copies", shares), ("tags", copies.malformed_tags)):
        rows = [
            (say.text(f"deid_measures_{key}_{kind}"), share.n_hits, format_percent(share.value))
            for kind, share in rates_by_kind.items()
        ]
        if rows:
            draw_table(
                say,
                f"deid_measures_{key}",
                Table(("kind", "n", "share"), rows),
                n=f"{next(iter(rates_by_kind.values())).n_total:,}",
                rate=UNDEFINED if rate is None else format_percent(rate),
                malformed=f"{copies.n_malformed:,}",
                unaligned=f"{copies.n_unaligned:,}",
            )


def draw_note(
    say: Words, note: ReleasedNote, *, key: str, desk: Desk | None, is_pasted: bool = False
) -> None:
    """Draw a note beside its released text; without a desk the note stays hidden.

    `is_pasted` is true for a text that this person has just pasted: nothing in it is masked.
    """
    counts = Counter(span.label for span in note.document.spans)
    # An own label is text of a file, so it does not go into a link.
    codes = {
        label if label in TYPES else f"own-{place}": label
        for place, label in enumerate(order_labels(counts))
    }
    names = {
        code: say.text(
            "kind_n", kind=escape_markdown(label_name(say, label)), n=f"{counts[label]:,}"
        )
        for code, label in codes.items()
    }
    chosen = choose_some(say, "deidentify_types", names) if names else ()
    labels = [codes[code] for code in chosen]
    if not counts:
        draw_remark(say, "deidentify_nothing_here")
    elif not note.replacements:
        draw_remark(say, "deidentify_unmarked_here")
    if desk is not None:
        draw_remark(say, "deidentify_marker_how")
    left, right = st.columns(2, gap="large")
    for side, code in ((left, "source"), (right, "released")):
        title = say.html(f"deidentify_side_{code}")
        side.html(f"<h3 class='ka-side'>{title}</h3>")
    with left:
        if desk is None:
            draw_remark(say, "deidentify_hidden")
        elif wish_fields := _draw_marker(
            say, note, labels=labels, key=key, scopes=desk.scopes, is_pasted=is_pasted
        ):
            _correct(say, note, desk, **wish_fields)
    text = _released_html(say, note, labels=labels, is_pasted=is_pasted)
    right.html(note_box(text, tone="ka-released"))
    if codes:
        st.html(f'<p class="ka-legend">{"<br>".join(_meaning(say, x) for x in codes.values())}</p>')
    if desk is not None:
        _draw_corrections(say, note, desk, key=key, is_pasted=is_pasted)
    elif note.corrections:
        draw_remark(say, "deidentify_fix_hidden")


def _meaning(say: Words, label: str) -> str:
    tone, about_key = TONES.get(label, "unknown"), label if label in TYPES else "other"
    name, meaning = escape_html(label_name(say, label)), say.html(f"deidentify_about_{about_key}")
    return f'<mark class="ka-mark ka-mark-{tone}">{name}</mark> {meaning}'


def _stretches(note: ReleasedNote, *, labels: Collection[str]) -> list[tuple[int, int, str]]:
    """Return the marks of a note; overlapping spans form one mark, as in the replacement."""
    stretches: list[tuple[int, int, str]] = []
    for mark in note.replacements or note.document.spans:
        mark_labels = (mark.label,) if isinstance(mark, Span) else (mark.label, *mark.labels)
        visible_labels = [label for label in mark_labels if label in labels]
        if (
            visible_labels
            and mark.end <= MAX_CHARS
            and (not stretches or mark.start >= stretches[-1][1])
        ):
            stretches.append((mark.start, mark.end, visible_labels[0]))
    return stretches


def _released_html(
    say: Words, note: ReleasedNote, *, labels: Collection[str], is_pasted: bool
) -> str:
    """Return the released text as HTML; a surrogate has its type beside it.

    The text may hold missed names. A name is masked if it was found elsewhere in the note, or if
    another tagger finds it. The replacements are no real names.
    """
    by_start = {
        replacement.new_start: replacement for replacement in note.replacements if replacement.text
    }

    def label_of(hit: Hit) -> MarkLabel | None:
        replacement = by_start[hit.start]
        if replacement.label not in labels:
            return None
        word = "" if is_placeholder(replacement.text) else label_name(say, replacement.label)
        return MarkLabel(word, TONES.get(replacement.label, "unknown"))

    hits = [
        Hit(replacement.new_start, replacement.new_end, "full", ())
        for replacement in by_start.values()
    ]
    document = note.document
    names = (
        None
        if is_pasted
        else NameFinder(known_names=read_certain_names(document.text, document.spans))
    )
    html = note_html(
        note.released,
        names=names,
        marks=hits,
        label=label_of,
        is_clear=lambda _: True,
        max_chars=MAX_CHARS,
    )
    return html + f"<small> {escape_html(_cut_notice(say, note.released))}</small>"


def _cut_notice(say: Words, text: str) -> str:
    n = len(text) - MAX_CHARS
    return say.text("deidentify_cut", n=f"{n:,}") if n > 0 else ""


# Corrections by hand.


def _draw_marker(
    say: Words,
    note: ReleasedNote,
    *,
    labels: Collection[str],
    key: str,
    scopes: tuple[str, ...],
    is_pasted: bool,
) -> dict[str, Any]:
    """Draw the note with marks that can be changed; return the fields of a new wish.

    The script is a file of this app, because the policy of `headers` blocks scripts that Streamlit
    inserts as text.
    """
    manager, folder = get_bidi_component_manager(), Path(__file__).parent
    if manager.get_component_asset_root(_COMPONENT) is None:
        manifest = ComponentManifest("kart", "1", [ComponentConfig("marker", "marker")])
        manager.register_from_manifest(manifest, folder)
    draw = st.components.v2.component(
        _COMPONENT, js="marker.js", css="marker.css", isolate_styles=False
    )
    text = note_plain(
        note.document.text, names=cached.list_finder(None), is_shown=is_pasted or is_revealed()
    )
    wish = draw(
        key=f"{key}_marker",
        data={
            "text": text[:MAX_CHARS],
            "rest": _cut_notice(say, text),
            "lang": say.language,
            "marks": [
                (start, end, label, TONES.get(label, "unknown"), label_name(say, label))
                for start, end, label in _stretches(note, labels=labels)
            ],
            "types": [(label, label_name(say, label), TONES[label]) for label in TYPES],
            "scopes": [(code, say.text(f"deidentify_scope_{code}")) for code in scopes],
            "say": {
                word: say.text(f"deidentify_marker_{word}")
                for word in ("label", "panel", "scope", "none", "close")
            },
        },
        on_wish_change=lambda: None,
    ).wish
    # Streamlit can deliver the same wish twice if another run interrupted the first.
    last, state = f"{key}_asked", st.session_state
    if not _is_wish(wish, scopes=scopes) or state.get(last) == wish["asked"]:
        return {}
    state[last] = wish["asked"]
    return {field: wish[field] for field in ("place", "label", "scope")}


def _is_wish(wish: Any, *, scopes: Sequence[str]) -> bool:
    """Return whether a browser's message is a valid wish; such messages are untrusted."""
    if not isinstance(wish, dict) or set(wish) != {"place", "label", "scope", "asked"}:
        return False
    place = wish["place"]
    is_place = isinstance(place, list) and [type(bound) for bound in place] == [int, int]
    return is_place and wish["label"] in ("", *TYPES) and wish["scope"] in scopes


def _correct(
    say: Words,
    note: ReleasedNote,
    desk: Desk,
    *,
    label: str,
    scope: str,
    place: Sequence[int] = (),
    text: str = "",
) -> None:
    """Apply a wish and rerun the page, or draw why it is refused."""
    if place and scope != _HERE:
        text = note.document.text[place[0] : place[1]]
    wish = Wish(label, text=text, place=(place[0], place[1]) if place else None)
    with st.spinner(say.text("deidentify_correcting")):
        n_notes = attempt(say, lambda: desk.correct(wish, scope == _SET))
    if n_notes is None:
        return
    if scope == _SET:
        st.toast(say.text("deidentify_corrected_n", n=f"{n_notes:,}"))
    st.rerun()


def _draw_corrections(
    say: Words, note: ReleasedNote, desk: Desk, *, key: str, is_pasted: bool
) -> None:
    """Draw the form that corrects a typed text, the corrections so far, and the undo button."""
    draw_heading(say, "deidentify_fix")
    with st.expander(say.text("deidentify_typed"), key=f"{key}_typed"):
        with st.form(f"{key}_typed_form", border=False, clear_on_submit=True):
            text = st.text_input(
                say.text("deidentify_typed_text"),
                key=f"{key}_text",
                max_chars=_MAX_TYPED_CHARS,
                help=say.text("deidentify_typed_text_help"),
            )
            names = {label: label_name(say, label) for label in TYPES}
            names[""] = say.text("deidentify_marker_none")
            label = st.selectbox(
                say.text("deidentify_typed_label"),
                names,
                key=f"{key}_label",
                format_func=names.__getitem__,
            )
            scope = st.radio(
                say.text("deidentify_marker_scope"),
                desk.scopes[1:],
                key=f"{key}_scope",
                format_func=lambda code: say.text(f"deidentify_scope_{code}"),
                horizontal=True,
            )
            is_asked = st.form_submit_button(say.text("deidentify_typed_go"), key=f"{key}_typed_go")
        if is_asked:
            _correct(say, note, desk, label=label, scope=scope, text=text)
    if not note.corrections:
        return
    rows = []
    for correction in note.corrections:
        mark_texts = [
            _mark_text(say, note, span, is_pasted=is_pasted) for span in correction.spans[:3]
        ]
        if len(correction.spans) > 1:
            mark_texts.append(say.text("deidentify_fix_n", n=f"{len(correction.spans):,}"))
        kind_text = say.text(f"deidentify_fix_{'changed' if correction.gone else correction.kind}")
        rows.append(
            (
                format_moment(correction.at),
                correction.who,
                kind_text,
                ", ".join(dict.fromkeys(mark_texts)),
            )
        )
    table = Table(("when", "who", "what", "marks"), rows)
    draw_table(say, "deidentify_fix", table, names="full")
    undo = "deidentify_fix_undo_all" if note.corrections[-1].batch else "deidentify_fix_undo"
    if draw_button(say, undo, name=f"{key}_undo", icon="undo"):
        desk.undo()
        st.rerun()


def _mark_text(say: Words, note: ReleasedNote, span: Span, *, is_pasted: bool) -> str:
    text = " ".join(note.document.text[span.start : span.end].split())
    is_shown = is_pasted or is_revealed()
    text = note_plain(text, names=cached.list_finder(None), is_shown=is_shown)
    if len(text) > _MAX_SHOWN_CHARS:
        text = f"{text[:_MAX_SHOWN_CHARS]}…"
    return f"{text} · {label_name(say, span.label)}"


# Files.


def draw_files(
    say: Words,
    notes: Callable[[], Iterable[ReleasedNote]],
    *,
    key: str,
    n_bytes: int,
    census: Mapping[str, Any],
    is_private_allowed: bool,
) -> None:
    """Draw the downloads; `notes` yields the notes whenever a file is made."""
    draw_heading(say, "deidentify_files")
    if n_bytes > MAX_EXPORT_BYTES:
        draw_remark(say, "deidentify_files_too_large")
        return
    n_notes, n_corrected = int(census["n_notes"]), int(census["n_notes_corrected"])

    def draw_file(form: str, *, names: str, n: int, is_gold: bool = False) -> None:
        def make() -> bytes:
            if form == EXPORTED_CENSUS:
                return json_page(census)
            exported_notes = (note for note in notes() if note.corrections or not is_gold)
            return export_notes(exported_notes, form=form, n_notes=n)

        name, label = f"{key}_file_{form}", f"deidentify_file_{form}"
        draw_file_button(
            say,
            name,
            make,
            form=form,
            label=label,
            file_kind="tagged-notes",
            name=name,
            file_name=export_name(form, n_notes=n),
            names=names,
            n_notes=n,
        )

    with st.container(horizontal=True, key=f"{key}_released"):
        for form in (*RELEASED, EXPORTED_CENSUS):
            draw_file(form, names="removed", n=n_notes)
    with st.expander(say.text("deidentify_private"), key=f"{key}_private"):
        if not is_private_allowed:
            draw_remark(say, "deidentify_private_hidden")
            return
        draw_remark(say, "deidentify_private_below")
        is_gold = n_corrected > 0 and n_notes > 1
        is_gold = is_gold and draw_switch(
            say, "deidentify_only_gold", parameter="gold", n=f"{n_corrected:,}"
        )
        with st.container(horizontal=True):
            for form in PRIVATE:
                n = n_corrected if is_gold else n_notes
                draw_file(form, names="full", n=n, is_gold=is_gold)
