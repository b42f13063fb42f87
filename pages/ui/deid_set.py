"""Kept notes that were tagged: what came of them, note by note, files, and the ways on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from audit.deid.copies import STATUSES
from audit.deid.tagged import (
    TAGGED_SETS,
    ByNote,
    OneNote,
    TaggedSet,
    Wish,
    chosen_notes,
    correct_set,
    note_at,
    notes_of,
    undo_correction,
)
from audit.deid.tasks import TaggingTask
from audit.jobs import service
from pages.ui import cached
from pages.ui.access import is_revealed, may_or_say, note, who
from pages.ui.blocks import day
from pages.ui.called import label_name, tagger_name
from pages.ui.deid_note import HERE, NOTE, SET, Desk, draw_files, draw_language, draw_note
from pages.ui.form import act, choose, choose_kept
from pages.ui.section import draw_table, empty, facts, head, remark, removal
from pages.ui.state import Words, go_to

_RARE = {
    "refused": "n_refused", "corrected": "n_notes_corrected", "foreign": "n_notes_of_no_language",
}  # fmt: skip
"""Facts that are only shown where there is something to say -> their fields of the census."""
_ONLY = ("all", "with", "without", "corrected")
_NUMBER = "deidentify_number"


def draw_kept(say: Words) -> None:
    """Draw the choice among the kept sets, and the one that is chosen."""
    by_id = {one.tagged_id: one for one in TAGGED_SETS.all()}
    if not by_id:
        is_asked = "tagged" in st.query_params
        empty(say, "deidentify_kept_gone" if is_asked else "deidentify_no_kept")
        return
    names = {code: _set_name(say, one) for code, one in by_id.items()}
    tagged = by_id[choose_kept(say, "deidentify_kept", names, what="tagged")]
    question = TaggingTask(tagged_id=tagged.tagged_id).question()
    is_at_work = service.active_job(question.digest) is not None
    if tagged.is_whole:
        _draw_whole(say, tagged)
    else:
        empty(say, "deidentify_at_work" if is_at_work else "deidentify_unfinished")

    def forget() -> None:
        TAGGED_SETS.forget(tagged.tagged_id)
        note("removed", what="tagged-notes", run=tagged.tagged_id)
        st.query_params.pop("note", None)

    if not is_at_work:
        removal(say, "deidentify_forget", forget, leaves="tagged")


def _draw_whole(say: Words, tagged: TaggedSet) -> None:
    """Draw what came of a set, its notes where this person may see them, and its files."""
    corrections, census = cached.corrections(tagged), cached.census(tagged)
    _draw_facts(say, tagged, census=census)
    if not may_or_say("revealed", say):
        return
    _draw_notes(say, tagged, corrections=corrections)
    draw_files(
        say, lambda: notes_of(tagged), key="deidentify_set", census=census,
        n_bytes=tagged.spans_path.stat().st_size, is_private_allowed=is_revealed(),
    )  # fmt: skip
    remark(say, "deidentify_unmeasured")
    if corrections:
        remark(say, "deidentify_measure_own")
    if act(say, "deidentify_measure", icon="rule"):
        go_to("deidentify", tab="measures", tagged=tagged.tagged_id)


def _set_name(say: Words, one: TaggedSet) -> str:
    """Return what a set is called on the screen; untrusted text."""
    title, at = one.title or say.text(f"deidentify_source_{one.source}"), day(one.created)
    if not one.is_whole:
        return say.text("deidentify_kept_unfinished", title=title, at=at)
    return say.text("deidentify_kept_line", title=title, n=f"{one.n_notes:,}", at=at)


def _draw_facts(say: Words, tagged: TaggedSet, *, census: Mapping[str, Any]) -> None:
    """Draw what was asked, what came of it, and the counts by type, after corrections by hand."""
    found = {
        "source": say.text(f"deidentify_source_{tagged.source}"),
        "tagger": tagger_name(say, tagged.tagger_id),
        "mode": say.text(f"deidentify_mode_{tagged.how.mode}"),
        "created": day(tagged.created),
        "notes": f"{tagged.n_notes:,}",
        "without": f"{census.get('n_notes_without_spans', 0):,}",
        **{fact: f"{census[of]:,}" for fact, of in _RARE.items() if census.get(of)},
    }
    draw_language(say, census)
    left, right = st.columns(2, gap="large")
    with left:
        facts(say, "deidentify_fact", found)
    with right:
        spans, copies = census["spans"], census.get("copies", {})
        if spans:
            counts = {
                "type": [label_name(say, label) for label in spans],
                "n_marks": [counted["n"] for counted in spans.values()],
                "n_characters": [counted["n_characters"] for counted in spans.values()],
            }
            draw_table(say, "deidentify_counts", counts)
        else:
            remark(say, "deidentify_nothing")
        # How faithful the copies of a tagger that writes copies are; nothing for the others.
        statuses = [one for one in STATUSES if copies.get("statuses", {}).get(one)]
        if statuses:
            counts = {
                "status": [say.text(f"deidentify_copy_{one}") for one in statuses],
                "n": [copies["statuses"][one] for one in statuses],
            }
            draw_table(say, "deidentify_copies", counts, n=f"{copies.get('n_unaligned', 0):,}")


# Note by note.


def _draw_notes(say: Words, tagged: TaggedSet, *, corrections: ByNote) -> None:
    """Draw one note of the set, the ways to another, and the corrections by hand."""
    head(say, "deidentify_notes")
    number = _choose_note(say, tagged, corrections=corrections)
    if number is None:
        empty(say, "deidentify_no_note")
        return
    index = cached.note_index(tagged)
    found = note_at(tagged, number, index=index, corrections=corrections)
    _note_shown(tagged, found)
    key = "deidentify_row_named" if is_revealed() else "deidentify_row"
    remark(say, key, row=found.row, name=found.document.doc_id)

    def correct(wish: Wish, is_everywhere: bool) -> int:
        n_notes = correct_set(tagged, wish, number=number, who=who(), is_everywhere=is_everywhere)
        note("ran", kind="correction", run=tagged.tagged_id, row=found.row, n_notes=n_notes)
        return n_notes

    def undo() -> None:
        undo_correction(tagged, number, who=who())
        note("ran", kind="undone-correction", run=tagged.tagged_id, row=found.row)

    scopes = (HERE, NOTE, SET) if tagged.n_notes > 1 else (HERE, NOTE)
    desk = Desk(scopes, correct, undo) if is_revealed() else None
    draw_note(say, found, key="deidentify_note", desk=desk)


def _choose_note(say: Words, tagged: TaggedSet, *, corrections: ByNote) -> int | None:
    """Draw filter, search and the steps from note to note; return a number from 0."""
    index = cached.note_index(tagged)
    if len(index) == 1:
        return 0
    left, right = st.columns([3, 2], gap="large", vertical_alignment="bottom")
    names = {}
    for only in _ONLY if corrections else _ONLY[:-1]:
        n = len(chosen_notes(index, only=only, corrections=corrections))
        names[only] = say.text(f"deidentify_only_{only}", n=f"{n:,}")
    with left:
        only = choose(say, "deidentify_only", names)
    with right:
        text = st.text_input(
            say.text("deidentify_search"), key="deidentify_search", max_chars=200,
            help=say.text("deidentify_search_help"),
        )  # fmt: skip
    hits = cached.hits(tagged, text=text) if text else None
    numbers = chosen_notes(index, only=only, hits=hits, corrections=corrections).tolist()
    if not numbers:
        return None
    asked = st.query_params.get("note", "")
    wanted = int(asked) - 1 if asked.isascii() and asked.isdigit() and len(asked) < 10 else 0
    at = min(bisect_left(numbers, wanted), len(numbers) - 1)
    _go(numbers[at])
    if len(numbers) > 1:
        _draw_steps(say, numbers, at=at)
    return numbers[at]


def _draw_steps(say: Words, numbers: Sequence[int], *, at: int) -> None:
    """Draw the way to the note before, the next one, or any other of the list."""
    st.session_state[_NUMBER] = at + 1
    with st.container(horizontal=True, vertical_alignment="bottom", key="deidentify_steps"):
        act(say, "deidentify_before", is_disabled=not at, on_click=lambda: _go(numbers[at - 1]))
        st.number_input(
            say.text("deidentify_number", n=f"{len(numbers):,}"), min_value=1,
            max_value=len(numbers), step=1, key=_NUMBER, width=260,
            on_change=lambda: _go(numbers[int(st.session_state[_NUMBER]) - 1]),
        )  # fmt: skip
        is_last = at == len(numbers) - 1
        act(say, "deidentify_next", is_disabled=is_last, on_click=lambda: _go(numbers[at + 1]))


def _go(number: int) -> None:
    st.query_params["note"] = str(number + 1)


def _note_shown(tagged: TaggedSet, found: OneNote) -> None:
    """Write into the access log that a note is shown, as it was or as released, once a session.

    The released text is no proof of anything: a name that was missed stands in it. A log that
    cannot be written raises: the note is not shown then.
    """
    what = "note" if is_revealed() else "released-note"
    mark = (what, tagged.tagged_id, found.row)
    seen: set[tuple[str, str, int]] = st.session_state.setdefault("deidentify_shown", set())
    if mark not in seen:
        note("revealed", what=what, run=tagged.tagged_id, row=found.row)
        seen.add(mark)
