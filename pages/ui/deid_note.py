"""One note: its marks, corrected by hand where it may be seen, what is released of it, files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

from audit.deid.copies import malformed_tags
from audit.deid.known_names import read_certain_names
from audit.deid.name_places import NameFinder
from audit.deid.release import is_placeholder
from audit.deid.tagged_sets import (
    EXPORTED_CENSUS,
    MAX_EXPORT_BYTES,
    PRIVATE,
    RELEASED,
    ReleasedNote,
    Wish,
    export_name,
    export_notes,
)
from audit.deid.tagging import census_file
from audit.notes.spans import TYPES, Span, order_labels
from audit.report.documents import Hit
from audit.stats import Rate
from audit.tables import UNDEFINED
from pages.ui import blocks, cached
from pages.ui.access import is_revealed
from pages.ui.blocks import day, escaped, percent, plain
from pages.ui.display_names import label_name
from pages.ui.form import act, choose_some, switch
from pages.ui.note_text import MarkLabel, box, note_html, note_plain
from pages.ui.section import Table, attempt, draw_table, file_button, head, remark
from pages.ui.state import Words

TONES = {
    "identifier": "flagged",
    "quasi_identifier": "other",
    "personal_id_code": "number",
    "linkage_code": "place",
    "contact": "date",
}
"""Type -> tone of its mark; labels of a tagger's own have the tone "unknown"."""
MAX_CHARS = 50_000
SCOPES = _HERE, _, _SET = ("here", "note", "set")
"""Where a correction holds: at its place, everywhere in the note, in all notes of the set."""
_MAX_SHOWN_CHARS, _MAX_TYPED_CHARS = 40, 500
_COMPONENT = "kart.marker"


@dataclass(frozen=True)
class Desk:
    """Where the corrections of a note are kept.

    `correct` makes a wish true, in all notes if it is told so, and returns in how many it changed
    something; `undo` takes the last correction of the note back.
    """

    scopes: tuple[str, ...]
    correct: Callable[[Wish, bool], int]
    undo: Callable[[], None]


def draw_language(say: Words, census: Mapping[str, Any]) -> None:
    """Draw a warning where notes are in a language that no shipped tagger knows."""
    if n_foreign := int(census.get("n_notes_of_no_language", 0)):
        below = say.text("deidentify_foreign_below", n=f"{n_foreign:,}")
        st.html(blocks.line(say.text("deidentify_foreign"), below, is_strong=True))


def draw_copies(say: Words, copies: Mapping[str, Any]) -> None:
    """Draw how faithful the copies of a model that writes copies are, and its malformed tags."""
    statuses, rate = copies["statuses"], copies["pooled_error_rate"]
    shares = {status: Rate(n, sum(statuses.values())) for status, n in statuses.items()}
    for key, of in (("copies", shares), ("tags", malformed_tags(copies))):
        rows = [
            (say.text(f"deid_measures_{key}_{kind}"), one.n_hits, percent(one.value))
            for kind, one in of.items()
        ]
        if rows:
            draw_table(
                say,
                f"deid_measures_{key}",
                Table(("kind", "n", "share"), rows),
                n=f"{next(iter(of.values())).n_total:,}",
                rate=UNDEFINED if rate is None else percent(rate),
                malformed=f"{copies['n_malformed']:,}",
                unaligned=f"{copies['n_unaligned']:,}",
            )


def draw_note(
    say: Words, note: ReleasedNote, *, key: str, desk: Desk | None, is_pasted: bool = False
) -> None:
    """Draw a note beside its released text; without a desk it may not be seen, nor corrected.

    A text that this person has just pasted `is_pasted`: nothing of it is masked.
    """
    counts = Counter(span.label for span in note.document.spans)
    # A label of somebody's own is a word of a file, and does not go into a link.
    codes = {
        label if label in TYPES else f"own-{place}": label
        for place, label in enumerate(order_labels(counts))
    }
    names = {
        code: say.text("kind_n", kind=plain(label_name(say, label)), n=f"{counts[label]:,}")
        for code, label in codes.items()
    }
    chosen = choose_some(say, "deidentify_types", names) if names else ()
    labels = [codes[code] for code in chosen]
    if not counts:
        remark(say, "deidentify_nothing_here")
    elif not note.replacements:
        remark(say, "deidentify_unmarked_here")
    if desk is not None:
        remark(say, "deidentify_marker_how")
    left, right = st.columns(2, gap="large")
    for side, code in ((left, "source"), (right, "released")):
        title = say.html(f"deidentify_side_{code}")
        side.html(f"<h3 class='ka-side'>{title}</h3>")
    with left:
        if desk is None:
            remark(say, "deidentify_hidden")
        elif wanted := _marker(
            say, note, labels=labels, key=key, scopes=desk.scopes, is_pasted=is_pasted
        ):
            _correct(say, note, desk, **wanted)
    text = _released_html(say, note, labels=labels, is_pasted=is_pasted)
    right.html(box(text, tone="ka-released"))
    if codes:
        st.html(f'<p class="ka-legend">{"<br>".join(_meaning(say, x) for x in codes.values())}</p>')
    if desk is not None:
        _draw_corrections(say, note, desk, key=key, is_pasted=is_pasted)
    elif note.corrections:
        remark(say, "deidentify_fix_hidden")


def _meaning(say: Words, label: str) -> str:
    tone, about = TONES.get(label, "unknown"), label if label in TYPES else "other"
    name, meaning = escaped(label_name(say, label)), say.html(f"deidentify_about_{about}")
    return f'<mark class="ka-mark ka-mark-{tone}">{name}</mark> {meaning}'


def _stretches(note: ReleasedNote, *, labels: Collection[str]) -> list[tuple[int, int, str]]:
    """Return what is marked in a note: spans that overlap are one mark, as they are replaced."""
    found: list[tuple[int, int, str]] = []
    for one in note.replacements or note.document.spans:
        own = (one.label,) if isinstance(one, Span) else (one.label, *one.labels)
        shown = [label for label in own if label in labels]
        if shown and one.end <= MAX_CHARS and (not found or one.start >= found[-1][1]):
            found.append((one.start, one.end, shown[0]))
    return found


def _released_html(
    say: Words, note: ReleasedNote, *, labels: Collection[str], is_pasted: bool
) -> str:
    """Return the released text as HTML; a placeholder says its type itself, others by a word.

    A name may have been missed in it. It is masked where it is a name of the note that was found
    elsewhere, or another tagger finds it; what was put in for a mark is no real name.
    """
    at = {one.new_start: one for one in note.replacements if one.text}

    def label_of(hit: Hit) -> MarkLabel | None:
        one = at[hit.start]
        if one.label not in labels:
            return None
        word = "" if is_placeholder(one.text) else label_name(say, one.label)
        return MarkLabel(word, TONES.get(one.label, "unknown"))

    hits = [Hit(one.new_start, one.new_end, "full", ()) for one in at.values()]
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
        most=MAX_CHARS,
    )
    return html + f"<small> {escaped(_rest(say, note.released))}</small>"


def _rest(say: Words, text: str) -> str:
    n = len(text) - MAX_CHARS
    return say.text("deidentify_cut", n=f"{n:,}") if n > 0 else ""


# Corrections by hand.


def _marker(
    say: Words,
    note: ReleasedNote,
    *,
    labels: Collection[str],
    key: str,
    scopes: tuple[str, ...],
    is_pasted: bool,
) -> dict[str, Any]:
    """Draw the note with marks that can be changed; return what a person has just asked for.

    The script is a file of this app: the policy of `headers` lets no script run that Streamlit
    would hand over as a text.
    """
    manager, folder = get_bidi_component_manager(), Path(__file__).parent
    if manager.get_component_asset_root(_COMPONENT) is None:
        own = ComponentManifest("kart", "1", [ComponentConfig("marker", "marker")])
        manager.register_from_manifest(own, folder)
    draw = st.components.v2.component(
        _COMPONENT, js="marker.js", css="marker.css", isolate_styles=False
    )
    text = note_plain(
        note.document.text, names=cached.list_finder(None), is_shown=is_pasted or is_revealed()
    )
    asked = draw(
        key=f"{key}_marker",
        data={
            "text": text[:MAX_CHARS],
            "rest": _rest(say, text),
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
    # Streamlit can hand over the same once more, where a run was broken off by another.
    last, state = f"{key}_asked", st.session_state
    if not _is_wish(asked, scopes=scopes) or state.get(last) == asked["asked"]:
        return {}
    state[last] = asked["asked"]
    return {field: asked[field] for field in ("place", "label", "scope")}


def _is_wish(asked: Any, *, scopes: Sequence[str]) -> bool:
    """Whether what a browser sent is a wish: nothing that comes from there is trusted."""
    if not isinstance(asked, dict) or set(asked) != {"place", "label", "scope", "asked"}:
        return False
    place = asked["place"]
    is_place = isinstance(place, list) and [type(one) for one in place] == [int, int]
    return is_place and asked["label"] in ("", *TYPES) and asked["scope"] in scopes


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
    """Make a wish true and draw the page anew, or say why not."""
    if place and scope != _HERE:
        text = note.document.text[place[0] : place[1]]
    wish = Wish(label=label, text=text, place=(place[0], place[1]) if place else None)
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
    """Draw how to correct, the way to do so by typing a text, what was corrected, and the undo."""
    head(say, "deidentify_fix")
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
    for one in note.corrections:
        shown = [_shown_mark(say, note, span, is_pasted=is_pasted) for span in one.spans[:3]]
        if len(one.spans) > 1:
            shown.append(say.text("deidentify_fix_n", n=f"{len(one.spans):,}"))
        what = say.text(f"deidentify_fix_{'changed' if one.gone else one.kind}")
        rows.append((day(one.at), one.who, what, ", ".join(dict.fromkeys(shown))))
    table = Table(("when", "who", "what", "marks"), rows)
    draw_table(say, "deidentify_fix", table, names="full")
    undo = "deidentify_fix_undo_all" if note.corrections[-1].batch else "deidentify_fix_undo"
    if act(say, undo, name=f"{key}_undo", icon="undo"):
        desk.undo()
        st.rerun()


def _shown_mark(say: Words, note: ReleasedNote, span: Span, *, is_pasted: bool) -> str:
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
    """Draw the downloads; `notes` gives the notes, one at a time, whenever a file is made."""
    head(say, "deidentify_files")
    if n_bytes > MAX_EXPORT_BYTES:
        remark(say, "deidentify_files_too_large")
        return
    n_notes, n_corrected = int(census["n_notes"]), int(census["n_notes_corrected"])

    def draw(form: str, *, names: str, n: int, is_gold: bool = False) -> None:
        def make() -> bytes:
            if form == EXPORTED_CENSUS:
                return census_file(census)
            chosen = (one for one in notes() if one.corrections or not is_gold)
            return export_notes(chosen, form=form, n_notes=n)

        name, label = f"{key}_file_{form}", f"deidentify_file_{form}"
        file_button(
            say,
            name,
            make,
            form=form,
            label=label,
            what="tagged-notes",
            name=name,
            file_name=export_name(form, n_notes=n),
            names=names,
            n_notes=n,
        )

    with st.container(horizontal=True, key=f"{key}_released"):
        for form in (*RELEASED, EXPORTED_CENSUS):
            draw(form, names="removed", n=n_notes)
    with st.expander(say.text("deidentify_private"), key=f"{key}_private"):
        if not is_private_allowed:
            remark(say, "deidentify_private_hidden")
            return
        remark(say, "deidentify_private_below")
        is_gold = n_corrected > 0 and n_notes > 1
        is_gold = is_gold and switch(say, "deidentify_only_gold", what="gold", n=f"{n_corrected:,}")
        with st.container(horizontal=True):
            for form in PRIVATE:
                n = n_corrected if is_gold else n_notes
                draw(form, names="full", n=n, is_gold=is_gold)
