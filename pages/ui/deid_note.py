"""One note: its marks, corrections by hand, its released text, and the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import streamlit as st

from audit.deid.find.copies import CopiesSummary
from audit.deid.find.known_names import read_certain_names
from audit.deid.redact.kinds import GROUPS, group_marks
from audit.deid.redact.name_places import NameFinder
from audit.deid.redact.release import is_placeholder
from audit.deid.sets.tagged_sets import (
    EXPORTED_CENSUS,
    LETTERS,
    MAX_EXPORT_BYTES,
    PRIVATE,
    RELEASED,
    ReleasedNote,
    Wish,
    export_name,
    export_notes,
    no_change_error,
)
from audit.notes.spans import Span
from audit.report.documents import Hit
from audit.shelf import json_page
from audit.stats import Rate
from audit.tables import UNDEFINED
from audit.words import Words
from pages.ui import blocks, cached
from pages.ui.access import is_revealed
from pages.ui.blocks import escape_html, format_moment, format_percent
from pages.ui.component import draw_component
from pages.ui.display_names import label_name
from pages.ui.form import choose_some, draw_button, draw_switch, read_choices
from pages.ui.note_text import MarkLabel, note_box, note_html, note_plain
from pages.ui.section import Table, attempt, draw_file_button, draw_heading, draw_remark, draw_table

OWN = "own"
"""Code of the marks whose label is the tagger's own, of none of the five types."""
MAX_CHARS = 50_000
SCOPES = _HERE, _, _SET = ("here", "note", "set")
"""Scope of a correction: at its place, everywhere in the note, in all notes of the set."""
_MAX_SHOWN_CHARS, _MAX_TYPED_CHARS = 40, 500


@dataclass(frozen=True)
class Desk:
    """The functions that correct a note.

    `correct` applies a wish, in all notes if its flag is true, and returns the number of changed
    notes; `undo` reverts the last correction of the note. `count` returns how many places `correct`
    would change, in how many notes.
    """

    scopes: tuple[str, ...]
    correct: Callable[[Wish, bool], int]
    undo: Callable[[], None]
    count: Callable[[Wish, bool], tuple[int, int]]


@dataclass(frozen=True)
class _ShownMark:
    """A mark of the note: its place, its group or `OWN`, the words beside it, its legal type."""

    start: int
    end: int
    code: str
    words: str
    label: str

    @property
    def tone(self) -> str:
        """The look of the mark."""
        return "unknown" if self.code == OWN else self.code


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


def draw_side(say: Words, code: str, *, hint: str = "") -> None:
    """Draw the title of one side of a note, "source" or "released", and a hint behind a "?"."""
    title = say.html(f"deidentify_side_{code}")
    folded_hint = blocks.fold(say.text(hint)) if hint else ""
    st.html(f"<div class='ka-headed'><h2 class='ka-side'>{title}</h2>{folded_hint}</div>")


def draw_note(
    say: Words,
    note: ReleasedNote,
    *,
    key: str,
    desk: Desk | None,
    is_pasted: bool = False,
    draw_notices: Callable[[], object] = lambda: None,
    draw_actions: Callable[[], object] = lambda: None,
) -> None:
    """Draw a note beside its released text; without a desk the note stays hidden.

    `is_pasted` is true for a text that this person has just pasted: nothing in it is masked.
    `draw_notices` draws what must be read before the released text, `draw_actions` the buttons
    under the note.
    """
    marks = _read_marks(say, note)
    codes = _read_chosen_codes(marks)
    left, right = st.columns(2, gap="medium")
    with left:
        draw_side(say, "source")
        if desk is None:
            draw_remark(say, "deidentify_hidden")
        else:
            wish_fields = _draw_marker(
                say, note, marks, codes=codes, key=key, desk=desk, is_pasted=is_pasted
            )
            if wish_fields and _correct(say, note, desk, **wish_fields):
                st.rerun()
        with st.container(horizontal=True):
            draw_actions()
            if desk is not None and note.corrections:
                _draw_undo(say, note, desk, key=key)
    with right:
        draw_side(say, "released", hint="" if desk else "deidentify_side_released_hint")
        draw_notices()
        text = _released_html(say, note, marks, codes=codes, is_pasted=is_pasted)
        st.html(note_box(text, tone="ka-released"))
        draw_remark(
            say,
            "deidentify_missed_stays"
            if note.replacements
            else "deidentify_unmarked_here"
            if marks
            else "deidentify_nothing_here",
        )
    _draw_kinds(say, marks)
    if desk is not None:
        _draw_corrections(say, note, desk, key=key, is_pasted=is_pasted)
    elif note.corrections:
        draw_remark(say, "deidentify_fix_hidden")


def _read_marks(say: Words, note: ReleasedNote) -> list[_ShownMark]:
    """Return the marks of a note; overlapping spans form one mark, as in the replacement."""
    return [
        _ShownMark(
            span.start,
            span.end,
            group or OWN,
            say.text(f"deidentify_group_{group}") if group else label_name(say, span.label),
            span.label,
        )
        for span, group in group_marks(note.document)
    ]


def _list_codes(marks: Iterable[_ShownMark]) -> list[str]:
    has_own = any(mark.code == OWN for mark in marks)
    return [*GROUPS, *[OWN] * has_own]


def _read_chosen_codes(marks: Iterable[_ShownMark]) -> tuple[str, ...]:
    codes = _list_codes(marks)
    return read_choices(codes, parameter="kinds") or tuple(codes)


def _draw_kinds(say: Words, marks: Sequence[_ShownMark]) -> None:
    """Draw the legend of the kinds with their keys and counts; a click shows some of them alone."""
    counts = Counter(mark.code for mark in marks)
    names = {}
    for number, code in enumerate(_list_codes(marks), start=1):
        name = say.text(f"deidentify_group_{code}")
        names[code] = say.text(
            "deidentify_kind_n", digit=f"{number}", kind=name, n=f"{counts[code]:,}"
        )
    choose_some(say, "deidentify_kinds", names)


def _released_html(
    say: Words,
    note: ReleasedNote,
    marks: Iterable[_ShownMark],
    *,
    codes: Collection[str],
    is_pasted: bool,
) -> str:
    """Return the released text as HTML; a surrogate has its kind beside it.

    The text may hold missed names. A name is masked if it was found elsewhere in the note, or if
    another tagger finds it. The replacements are no real names.
    """
    marks_by_place = {mark.start: mark for mark in marks}
    by_start = {
        replacement.new_start: replacement for replacement in note.replacements if replacement.text
    }

    def label_of(hit: Hit) -> MarkLabel | None:
        replacement = by_start[hit.start]
        mark = marks_by_place[replacement.start]
        if mark.code not in codes:
            return None
        return MarkLabel("" if is_placeholder(replacement.text) else mark.words, mark.tone)

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
    marks: Iterable[_ShownMark],
    *,
    codes: Collection[str],
    key: str,
    desk: Desk,
    is_pasted: bool,
) -> dict[str, Any]:
    """Draw the note with marks that can be changed; return the fields of a new wish."""
    text = note_plain(
        note.document.text, names=cached.list_finder(None), is_shown=is_pasted or is_revealed()
    )
    scopes = desk.scopes
    wish = draw_component(
        "marker",
        key=f"{key}_marker",
        data={
            "text": text[:MAX_CHARS],
            "rest": _cut_notice(say, text),
            "lang": say.language,
            "letters": LETTERS,
            "marks": [
                (
                    mark.start,
                    mark.end,
                    mark.code,
                    mark.tone,
                    mark.words,
                    label_name(say, mark.label),
                    mark.code in codes,
                )
                for mark in marks
                if mark.end <= MAX_CHARS
            ],
            "kinds": [(group, say.text(f"deidentify_group_{group}")) for group in GROUPS],
            "scopes": [(code, say.text(f"deidentify_scope_{code}")) for code in scopes],
            "say": {
                word: say.text(f"deidentify_marker_{word}")
                for word in ("label", "panel", "scope", "none", "close", "counting")
            }
            | {
                word: say.text(
                    "deidentify_marker_places", places=say.text(f"deidentify_{word}", n="{n}")
                )
                for word in ("place_one", "place_many")
            },
            "count": _count_places(say, note, desk, key=key),
        },
        on_wish_change=lambda: None,
        on_count_change=lambda: None,
    ).wish
    # Streamlit can deliver the same wish twice if another run interrupted the first.
    last, state = f"{key}_asked", st.session_state
    if not _is_wish(wish, scopes=scopes) or state.get(last) == wish["asked"]:
        return {}
    state[last] = wish["asked"]
    return {field: wish[field] for field in ("place", "group", "scope")}


def _count_places(say: Words, note: ReleasedNote, desk: Desk, *, key: str) -> dict[str, Any]:
    """Return what the script asked for: how many places of all notes a wish would change."""
    state, memory = st.session_state, f"{key}_count"
    wish = dict(state.get(f"{key}_marker", {})).get("count")
    if _is_wish(wish, scopes=desk.scopes) and wish["scope"] == _SET:
        start, end = wish["place"]
        place_text = note.document.text[start:end]
        n_places, n_notes = desk.count(Wish(wish["group"], place_text, (start, end)), True)
        counts = {
            "places": count_of(say, "place", n_places),
            "notes": count_of(say, "note", n_notes),
        }
        label = say.text("deidentify_marker_change", **counts)
        state[memory] = {"asked": wish["asked"], "n": n_places, "label": label}
    counted: dict[str, Any] = state.get(memory, {})
    return counted


def _is_wish(wish: Any, *, scopes: Sequence[str]) -> TypeGuard[dict[str, Any]]:
    """Return whether a browser's message is a valid wish; such messages are untrusted."""
    if not isinstance(wish, dict) or set(wish) != {"place", "group", "scope", "asked"}:
        return False
    place = wish["place"]
    is_place = isinstance(place, list) and [type(bound) for bound in place] == [int, int]
    return is_place and wish["group"] in ("", *GROUPS) and wish["scope"] in scopes


def _correct(
    say: Words,
    note: ReleasedNote,
    desk: Desk,
    *,
    group: str,
    scope: str,
    place: Sequence[int] = (),
    text: str = "",
) -> bool:
    """Apply a wish and return whether the note has changed; if not, draw why."""
    if place and scope != _HERE:
        text = note.document.text[place[0] : place[1]]
    wish = Wish(group, text=text, place=(place[0], place[1]) if place else None)
    with st.spinner(say.text("deidentify_correcting")):
        n_notes = attempt(say, lambda: desk.correct(wish, scope == _SET))
    if n_notes is None:
        return False
    if scope == _SET:
        st.toast(say.text("deidentify_corrected_n", notes=count_of(say, "note", n_notes)))
    return True


def count_of(say: Words, thing: str, n: int) -> str:
    """Return a number of places or notes, with the noun in its form."""
    return say.text(f"deidentify_{thing}_{'one' if n == 1 else 'many'}", n=f"{n:,}")


def _draw_undo(say: Words, note: ReleasedNote, desk: Desk, *, key: str) -> None:
    undo = "deidentify_fix_undo_all" if note.corrections[-1].batch else "deidentify_fix_undo"
    if draw_button(say, undo, name=f"{key}_undo", icon="undo"):
        desk.undo()
        st.rerun()


def _draw_corrections(
    say: Words, note: ReleasedNote, desk: Desk, *, key: str, is_pasted: bool
) -> None:
    """Draw the form that corrects a typed text, and the corrections so far."""
    with st.expander(say.text("deidentify_typed"), key=f"{key}_typed"):
        _draw_typed(say, note, desk, key=key)
    if not note.corrections:
        return
    rows = []
    for correction in note.corrections:
        mark_texts = [
            _mark_text(say, note, span, is_pasted=is_pasted) for span in correction.spans[:3]
        ]
        if len(correction.spans) > 1:
            mark_texts.append(count_of(say, "place", len(correction.spans)))
        kind_text = say.text(f"deidentify_fix_{'changed' if correction.gone else correction.kind}")
        rows.append(
            (
                format_moment(correction.at),
                correction.who,
                kind_text,
                ", ".join(dict.fromkeys(mark_texts)),
            )
        )
    with st.expander(say.text("deidentify_fix", n=f"{len(rows):,}"), key=f"{key}_fix"):
        draw_remark(say, "deidentify_fix_below")
        table = Table(("when", "who", "what", "marks"), rows)
        draw_table(say, "deidentify_fix", table, names="full")


def _draw_typed(say: Words, note: ReleasedNote, desk: Desk, *, key: str) -> None:
    """Draw the form that corrects a typed text; its button says how many places it changes."""
    state, text_key, done_key = st.session_state, f"{key}_text", f"{key}_typed_done"
    if state.pop(done_key, False):
        state[text_key] = ""
    text = st.text_input(
        say.text("deidentify_typed_text"),
        key=text_key,
        max_chars=_MAX_TYPED_CHARS,
        help=say.text("deidentify_typed_text_help"),
    )
    names = {group: say.text(f"deidentify_group_{group}") for group in GROUPS}
    names[""] = say.text("deidentify_marker_none")
    group = st.selectbox(
        say.text("deidentify_typed_label"),
        names,
        key=f"{key}_group",
        format_func=names.__getitem__,
    )
    scope = st.radio(
        say.text("deidentify_marker_scope"),
        desk.scopes[1:],
        key=f"{key}_scope",
        format_func=lambda code: say.text(f"deidentify_scope_{code}"),
        horizontal=True,
    )
    wish, is_everywhere = Wish(group, text=text), scope == _SET
    n_places, n_notes = desk.count(wish, is_everywhere) if text.strip() else (0, 0)
    if text and not n_places:
        blocks.draw_refusal(say, no_change_error())
    button = "deidentify_marker_change" if is_everywhere else "deidentify_typed_go"
    is_asked = draw_button(
        say,
        button,
        name=f"{key}_typed_go",
        is_disabled=not n_places,
        places=count_of(say, "place", n_places),
        notes=count_of(say, "note", n_notes),
    )
    if is_asked and _correct(say, note, desk, group=group, scope=scope, text=text):
        state[done_key] = True
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
