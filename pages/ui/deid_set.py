"""Kept notes that were tagged: what came of them, note by note, files, and the ways on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from audit.deid.copies import STATUSES
from audit.deid.tagged import (
    TAGGED_SETS,
    UNDONE,
    ByNote,
    Correction,
    OneNote,
    TaggedSet,
    chosen_notes,
    corrections_of,
    keep_correction,
    note_at,
    notes_of,
)
from audit.deid.tasks import TaggingTask
from audit.errors import AuditError
from audit.jobs import service
from audit.notes.spans import Span
from pages.ui import blocks, cached
from pages.ui.blocks import refused
from pages.ui.deid_correct import Keeper, draw_corrections
from pages.ui.deid_files import Exportable, draw_files
from pages.ui.deid_settings import tagger_name
from pages.ui.deid_text import (
    ask_types,
    counts_of,
    draw_language,
    draw_legend,
    draw_note,
    type_word,
)
from pages.ui.language import Words, go_to
from pages.ui.logged import note, who
from pages.ui.reveal import is_revealed
from pages.ui.text import day

RARE_FACTS = (
    ("refused", "n_refused"), ("corrected", "n_notes_corrected"),
    ("foreign", "n_notes_of_no_language"),
)  # fmt: skip
"""Facts that are only shown where there is something to say -> their fields of the census."""


def draw_facts(say: Words, tagged: TaggedSet, *, census: Mapping[str, Any]) -> None:
    """Draw what was asked, what came of it, and the counts by type.

    Parameters
    ----------
    census
        From `audit.deid.tagged`.
    """
    facts = [
        ("source", say.text(f"deidentify_source_{tagged.source}")),
        ("tagger", tagger_name(say, tagged.tagger_id)),
        ("mode", say.text(f"deidentify_mode_{tagged.how.mode}")),
        ("created", day(tagged.created)),
        ("notes", f"{tagged.n_notes:,}"),
        ("without", f"{census.get('n_notes_without_spans', 0):,}"),
    ]
    for fact, field in RARE_FACTS:
        if census.get(field):
            facts.append((fact, f"{census[field]:,}"))
    draw_language(say, int(census.get("n_notes_of_no_language", 0)))
    rows = [(say.text(f"deidentify_fact_{fact}"), value) for fact, value in facts]
    left, right = st.columns(2, gap="large")
    with left:
        header = [say.text("deidentify_fact"), say.text("deidentify_value")]
        caption = say.text("deidentify_facts_caption")
        st.html(blocks.simple_table(header, rows, caption=caption, n_text=2))
    with right:
        draw_counts(say, census)
        draw_copies(say, census.get("copies", {}))


def draw_counts(say: Words, census: Mapping[str, Any]) -> None:
    """Draw how much is marked of each type, after corrections by hand."""
    spans = census.get("spans", {})
    if not spans:
        st.html(blocks.heading("", below=say.text("deidentify_nothing")))
        return
    header = [
        say.text("deidentify_type"),
        say.text("deidentify_n_marks"),
        say.text("deidentify_n_characters"),
    ]
    rows = [
        (type_word(say, label), f"{counted['n']:,}", f"{counted['n_characters']:,}")
        for label, counted in spans.items()
    ]
    st.html(blocks.simple_table(header, rows, caption=say.text("deidentify_counts_caption")))


def draw_copies(say: Words, copies: Mapping[str, Any]) -> None:
    """Draw how faithful the copies of a tagger that writes copies are; nothing for the others."""
    statuses = copies.get("statuses", {})
    rows = [
        (say.text(f"deidentify_copy_{status}"), f"{statuses[status]:,}")
        for status in STATUSES
        if statuses.get(status)
    ]
    if rows:
        header = [say.text("deidentify_copies"), say.text("deidentify_copies_n")]
        n_lost = f"{copies.get('n_unaligned', 0):,}"
        caption = say.text("deidentify_copies_caption", n=n_lost)
        st.html(blocks.simple_table(header, rows, caption=caption))


ONLY = ("all", "with", "without", "corrected")
_KEPT, _ONLY, _SEARCH, _NUMBER = (
    "deidentify_kept", "deidentify_only", "deidentify_search", "deidentify_number",
)  # fmt: skip


def draw_kept(say: Words, sets: Sequence[TaggedSet]) -> None:
    """Draw the choice among the kept sets, and the one that is chosen."""
    tagged = choose_set(say, sets)
    if tagged is None:
        return
    if tagged.is_whole:
        corrections = corrections_of(tagged)
        draw_facts(say, tagged, census=cached.census(tagged))
        draw_notes(say, tagged, corrections=corrections)
        draw_onward(say, tagged, is_corrected=bool(corrections))
    else:
        draw_unfinished(say, tagged)
    draw_forget(say, tagged)


def choose_set(say: Words, sets: Sequence[TaggedSet]) -> TaggedSet | None:
    """Draw the choice of a set and return it; None where the link's is not kept here."""
    by_id = {one.tagged_id: one for one in sets}
    asked = st.query_params.get("tagged", "")
    if asked and asked not in by_id:
        st.html(
            blocks.heading(
                say.text("deidentify_wrong_link"), below=say.text("deidentify_wrong_link_do")
            )
        )
    if not by_id:
        st.html(
            blocks.heading(say.text("deidentify_no_kept"), below=say.text("deidentify_no_kept_do"))
        )
        return None
    st.session_state[_KEPT] = asked if asked in by_id else (None if asked else next(iter(by_id)))
    # A box of choices shows its options as plain text, never as Markdown.
    code = st.selectbox(
        say.text("deidentify_kept"),
        list(by_id),
        format_func=lambda tagged_id: set_name(say, by_id[tagged_id]),
        index=None,
        key=_KEPT,
        placeholder=say.text("setup_choose"),
        on_change=_other_set,
    )
    if code:
        st.query_params["tagged"] = code
    return by_id.get(code or "")


def set_name(say: Words, one: TaggedSet) -> str:
    """Return what a set is called on the screen; untrusted text."""
    title = one.title or say.text(f"deidentify_source_{one.source}")
    if not one.is_whole:
        return say.text("deidentify_kept_unfinished", title=title, at=day(one.created))
    return say.text("deidentify_kept_line", title=title, n=f"{one.n_notes:,}", at=day(one.created))


def draw_notes(say: Words, tagged: TaggedSet, *, corrections: ByNote) -> None:
    """Draw one note of the set, the ways to another, and the corrections by hand."""
    st.html(blocks.heading(say.text("deidentify_notes")))
    number = choose_note(say, tagged, corrections=corrections)
    if number is None:
        st.html(
            blocks.heading(say.text("deidentify_no_note"), below=say.text("deidentify_no_note_do"))
        )
        return
    index = cached.note_index(tagged)
    found = note_at(tagged, number, index=index, corrections=corrections)
    note_shown(tagged, found)
    if is_revealed():
        where = say.text("deidentify_row_named", row=found.row, name=found.document.doc_id)
    else:
        where = say.text("deidentify_row", row=found.row)
    st.html(blocks.heading("", below=where))
    counts = counts_of(found)
    labels = ask_types(say, counts, key="deidentify_note")
    draw_note(say, found, labels=labels, is_source_shown=is_revealed())
    draw_legend(say, counts)
    if is_revealed():
        draw_corrections(say, found, keeper=keeper(tagged, number, row=found.row))
    elif found.corrections:
        st.html(blocks.heading("", below=say.text("deidentify_fix_hidden")))


def keeper(tagged: TaggedSet, number: int, *, row: int) -> Keeper:
    """Return what keeps the corrections of a note of the set, each with a line in the log."""

    def keep(kind: str, spans: tuple[Span, ...]) -> None:
        keep_correction(tagged, Correction(number=number, kind=kind, spans=spans, who=who()))
        note("ran", kind="correction", run=tagged.tagged_id, row=row, n_spans=len(spans))

    def undo() -> None:
        keep_correction(tagged, Correction(number=number, kind=UNDONE, who=who()))
        note("ran", kind="undone-correction", run=tagged.tagged_id, row=row)

    return Keeper(f"deidentify_fix_{tagged.tagged_id}_{number}", keep, undo)


def choose_note(say: Words, tagged: TaggedSet, *, corrections: ByNote) -> int | None:
    """Draw filter, search and the steps from note to note; return a number from 0."""
    index = cached.note_index(tagged)
    if len(index) == 1:
        return 0
    left, right = st.columns([3, 2], gap="large", vertical_alignment="bottom")
    codes = [only for only in ONLY if corrections or only != "corrected"]
    found = {only: chosen_notes(index, only=only, corrections=corrections) for only in codes}
    n_of = {only: f"{len(found[only]):,}" for only in codes}
    with left:
        only = st.pills(
            say.text("deidentify_only"),
            codes,
            format_func=lambda code: say.text(f"deidentify_only_{code}", n=n_of[code]),
            default=ONLY[0],
            key=_ONLY,
            required=True,
        )
    with right:
        text = st.text_input(
            say.text("deidentify_search"), key=_SEARCH, max_chars=200,
            help=say.text("deidentify_search_help"),
        )  # fmt: skip
    hits = cached.hits(tagged, text=text) if text else None
    numbers = chosen_notes(index, only=only or ONLY[0], hits=hits, corrections=corrections)
    if not len(numbers):
        return None
    asked = st.query_params.get("note", "")
    wanted = int(asked) - 1 if asked.isascii() and asked.isdigit() and len(asked) < 10 else 0
    at = min(int(numbers.searchsorted(wanted)), len(numbers) - 1)
    st.query_params["note"] = str(int(numbers[at]) + 1)
    if len(numbers) > 1:
        draw_steps(say, numbers.tolist(), at=at)
    return int(numbers[at])


def draw_steps(say: Words, numbers: Sequence[int], *, at: int) -> None:
    """Draw the way to the note before, the next one, or any other of the list."""
    st.session_state[_NUMBER] = at + 1
    with st.container(horizontal=True, vertical_alignment="bottom", key="deidentify_steps"):
        st.button(
            say.text("deidentify_before"), key="deidentify_before", disabled=at == 0,
            icon=":material/chevron_left:", on_click=_go, args=(numbers[max(0, at - 1)],),
        )  # fmt: skip
        st.number_input(
            say.text("deidentify_number", n=f"{len(numbers):,}"),
            min_value=1,
            max_value=len(numbers),
            step=1,
            key=_NUMBER,
            width=260,
            on_change=lambda: _go(numbers[int(st.session_state[_NUMBER]) - 1]),
        )
        after = numbers[min(len(numbers) - 1, at + 1)]
        st.button(
            say.text("deidentify_next"), key="deidentify_next", disabled=at == len(numbers) - 1,
            icon=":material/chevron_right:", on_click=_go, args=(after,),
        )  # fmt: skip


def note_shown(tagged: TaggedSet, found: OneNote) -> None:
    """Write into the access log that a note is shown, as it was or as released, once a session.

    The released text is no proof of anything: a name that was missed stands in it.

    Raises
    ------
    AuditError
        If it cannot be written; the note is not shown then.
    """
    what = "note" if is_revealed() else "released-note"
    mark = (what, tagged.tagged_id, found.row)
    seen: set[tuple[str, str, int]] = st.session_state.setdefault("deidentify_shown", set())
    if mark not in seen:
        note("revealed", what=what, run=tagged.tagged_id, row=found.row)
        seen.add(mark)


def draw_onward(say: Words, tagged: TaggedSet, *, is_corrected: bool) -> None:
    """Draw the files and the way to a measurement."""
    what = Exportable(
        notes=lambda: notes_of(tagged),
        n_notes=tagged.n_notes,
        n_bytes=tagged.spans_path.stat().st_size,
        census=cached.census(tagged),
        is_private_allowed=is_revealed(),
    )
    draw_files(say, what, key="deidentify_set")
    st.html(blocks.heading("", below=say.text("deidentify_unmeasured")))
    if is_corrected:
        st.html(blocks.heading("", below=say.text("deidentify_measure_own")))
    if st.button(say.text("deidentify_measure"), key="deidentify_measure", icon=":material/rule:"):
        go_to("deid_measures", tagged=tagged.tagged_id)


def draw_unfinished(say: Words, tagged: TaggedSet) -> None:
    """Say that a set is not whole, and why."""
    below = "deidentify_at_work" if _is_at_work(tagged) else "deidentify_unfinished_do"
    st.html(blocks.heading(say.text("deidentify_unfinished"), below=say.text(below)))


def _is_at_work(tagged: TaggedSet) -> bool:
    question = TaggingTask(tagged_id=tagged.tagged_id).question()
    return service.active_job(question.digest) is not None


def draw_forget(say: Words, tagged: TaggedSet) -> None:
    """Draw the button that removes the set, which asks once more; not while its job is at work."""
    is_busy = _is_at_work(tagged)
    with st.popover(say.text("deidentify_forget"), key="deidentify_forget", disabled=is_busy):
        st.html(blocks.heading("", below=say.text("deidentify_forget_why")))
        if not st.button(
            say.text("deidentify_forget_now"), key="deidentify_forget_now", type="primary"
        ):
            return
        try:
            TAGGED_SETS.forget(tagged.tagged_id)
        except AuditError as error:
            refused(say, error)
            return
        note("removed", what="tagged-notes", run=tagged.tagged_id)
        _other_set()
        st.query_params.pop("tagged", None)
        st.query_params["view"] = "kept"
        st.rerun()


def _other_set() -> None:
    st.query_params.pop("note", None)
    if st.session_state.get(_KEPT):
        st.query_params["tagged"] = st.session_state[_KEPT]


def _go(number: int) -> None:
    st.query_params["note"] = str(number + 1)
