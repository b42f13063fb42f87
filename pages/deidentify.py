"""De-identify: what in these notes says who they are about, and what does a de-identifier miss?

New notes are pasted, uploaded or out of a registered folder; read at once, or by a job.
"""

from __future__ import annotations

import streamlit as st

from audit.deid.given import ENDINGS, MAX_FILES, MAX_UPLOAD_MB
from audit.deid.release import MODES, SURROGATE, Release
from audit.deid.tagged import (
    MAX_TYPED_CHARS,
    TAGGED_SETS,
    Wish,
    census_of,
    correction_for,
    nothing_to_correct,
    released_note,
    tagged_text,
)
from audit.deid.taggers import KnownTagger, load_tagger, shipped_figures
from audit.deid.tasks import NotesToTag, TaggingTask, one_text, tagging_task, uploaded
from audit.errors import AuditError
from audit.shelf import MAX_TITLE_CHARS
from pages.ui import blocks, cached, deid_measures, form
from pages.ui.access import may_or_say, note, note_upload, who
from pages.ui.blocks import percent, percent_interval
from pages.ui.called import tagger_name
from pages.ui.corpus import ask_file
from pages.ui.deid_note import HERE, NOTE, Desk, draw_files, draw_language, draw_note
from pages.ui.deid_set import draw_kept
from pages.ui.form import act, choose
from pages.ui.running import FollowedJobs
from pages.ui.section import head, page, remark
from pages.ui.state import Words

TABS, VIEWS, WAYS = ("notes", "measures"), ("new", "kept"), ("paste", "upload", "file")
_TEXT, _READ, _FOUND, _UPLOADED = (
    "deidentify_text", "deidentify_read", "deidentify_found", "deidentify_uploaded",
)  # fmt: skip


def draw(say: Words) -> None:
    """Draw the tab that the link opens; a link to a score or a kept set opens where it is shown."""
    query = st.query_params
    if "tab" not in query and "score" in query:
        query["tab"] = "measures"
    if "view" not in query and "tagged" in query and query.get("tab", TABS[0]) == TABS[0]:
        query["view"] = "kept"
    if choose(say, "deidentify_tab", TABS) == "measures":
        deid_measures.draw(say)
        return
    remark(say, "deidentify_below")
    JOBS.draw(say)
    if choose(say, "deidentify_view", VIEWS) == "kept":
        draw_kept(say)
    elif may_or_say("ran", say):
        draw_new(say)


def draw_new(say: Words) -> None:
    """Draw the choice of notes and of the way to read them, and what a pasted text gave."""
    left, right = st.columns([3, 2], gap="large")
    with right, st.container(border=True, key="deidentify_settings"):
        head(say, "deidentify_settings")
        tagger, how = _ask_tagger(say), _ask_release(say)
    with left:
        way = choose(say, "deidentify_way", WAYS)
        try:
            if way == "paste":
                _draw_paste(say, tagger=tagger, how=how)
            else:
                _draw_file(say, way, tagger=tagger, how=how)
        except AuditError as error:
            blocks.refused(say, error)
    if way == "paste" and tagger.is_quick and st.session_state.get(_READ):
        _draw_pasted(say, st.session_state[_READ], tagger=tagger, how=how)


# How notes are read, and what is released; both are codes in the link.


def _ask_tagger(say: Words) -> KnownTagger:
    """Draw the choice of a tagger, with what it is and what was measured of it."""
    taggers = {one.tagger_id: one for one in cached.taggers()}
    names = {code: tagger_name(say, code) for code in taggers}
    tagger = taggers[choose(say, "deidentify_tagger", names, is_long=True)]
    remark(say, f"deidentify_about_{tagger.kind}")
    lines = []
    for one in shipped_figures(tagger.tagger_id):
        values = {
            label: say.text(
                "deidentify_figures_value", share=percent(found.value),
                interval=percent_interval(found), n=f"{n_gold:,}",
            )
            for label, (found, n_gold) in one.found.items()
        }  # fmt: skip
        lines.append(say.text(f"deidentify_figures_hand_{one.language}", n=one.n_notes, **values))
    if lines:
        st.html(blocks.bullet_list(lines))
        remark(say, "deidentify_figures_caption")
    counts = tagger.validation
    if counts is not None and counts["n_gold"]:
        numbers = {name: f"{n:,}" for name, n in counts.items()}
        share = percent(counts["n_found"] / counts["n_gold"])
        remark(say, "deidentify_validation", share=share, **numbers)
    remark(say, "deidentify_unmeasured")
    return tagger


def _ask_release(say: Words) -> Release:
    """Draw what takes the place of a mark."""
    how = Release(mode=choose(say, "deidentify_mode", MODES))
    if how.mode != SURROGATE:
        return how
    asked = form.ask(say, how, words="deidentify", fields=("seed",), key="deidentify", n_columns=1)
    return how.with_(**asked)


# A pasted text.


def _draw_paste(say: Words, *, tagger: KnownTagger, how: Release) -> None:
    """Draw the box for a text and the buttons beneath it."""
    st.text_area(
        say.text("deidentify_paste_label"), key=_TEXT, height=330, max_chars=MAX_TYPED_CHARS,
        help=say.text("deidentify_paste_help", n=f"{MAX_TYPED_CHARS:,}"), persist_state="session",
    )  # fmt: skip

    def take_example() -> None:
        st.session_state[_TEXT] = st.session_state[_READ] = say.text("deidentify_example_note")

    with st.container(horizontal=True):
        is_asked = _go_button(say, "paste")
        act(say, "deidentify_example", icon="science", on_click=take_example)
    text = st.session_state.get(_TEXT) or ""
    if is_asked and not text.strip():
        remark(say, "deidentify_text_missing")
    elif is_asked and tagger.is_quick:
        st.session_state[_READ] = text
    elif is_asked:
        _start(one_text(text, source="pasted"), tagger=tagger, how=how)


def _go_button(say: Words, of: str) -> bool:
    return act(say, "deidentify_go", name=f"deidentify_go_{of}", kind="primary", icon="ink_eraser")


def _draw_pasted(say: Words, text: str, *, tagger: KnownTagger, how: Release) -> None:
    """Draw what was found in a pasted text, and what a person corrected in it.

    Its names are in sight already, so that it can be corrected without revealing any. The last
    answer and its corrections are remembered in this session alone.
    """
    question, known = (text, tagger.digest), st.session_state.get(_FOUND)
    try:
        if known is None or known[0] != question:
            found = tagged_text(text, tagger=load_tagger(tagger.tagger_id), release=how)
            note("ran", kind="tagging", n_notes=1, n_spans=len(found.document.spans))
            st.session_state[_FOUND] = known = (question, found.document, [])
        _, document, fixed = known
        found = released_note(document, row=1, release=how, corrections=fixed)
    except AuditError as error:
        blocks.refused(say, error)
        return
    head(say, "deidentify_result")
    census = census_of(found)
    draw_language(say, census)

    def correct(wish: Wish, is_everywhere: bool) -> int:
        made = correction_for(found.document, wish, who=who())
        if made is None:
            raise nothing_to_correct()
        fixed.append(made)
        note("ran", kind="correction", n_spans=len(made.spans))
        return 1

    def undo() -> None:
        fixed.pop()
        note("ran", kind="undone-correction")

    draw_note(say, found, key="deidentify_pasted", desk=Desk((HERE, NOTE), correct, undo))
    draw_files(
        say, lambda: (found,), key="deidentify_pasted", n_bytes=len(text), census=census,
        is_private_allowed=True,
    )  # fmt: skip


# Files, and jobs.


def _draw_file(say: Words, way: str, *, tagger: KnownTagger, how: Release) -> None:
    """Draw the choice of a file, and the button that starts its job."""
    notes = _ask_upload(say) if way == "upload" else None
    if way == "file" and (found := ask_file(say, cached.note_files())) is not None:
        notes = NotesToTag("registered", file_id=found[0].file_id, columns=found[1])
    title = st.text_input(
        say.text("deidentify_name"), key="deidentify_name", max_chars=MAX_TITLE_CHARS,
        help=say.text("deidentify_name_help"),
    )  # fmt: skip
    is_asked = _go_button(say, "file")
    if is_asked and notes is not None:
        _start(notes, tagger=tagger, how=how, title=title or "")
    elif is_asked:
        remark(say, "deidentify_file_missing")


def _ask_upload(say: Words) -> NotesToTag | None:
    """Ask for files; raises `AuditError` if they are no notes."""
    remark(say, "deidentify_upload_below", n=MAX_UPLOAD_MB, files=f"{MAX_FILES:,}")
    files = st.file_uploader(
        say.text("deidentify_upload_label"), type=list(ENDINGS), key="deidentify_upload",
        accept_multiple_files=True, max_upload_size=MAX_UPLOAD_MB,
    )  # fmt: skip
    if not files:
        return None
    for file in files:
        note_upload(file, what="notes")
    # What was read once is remembered in this session alone, until other files are given.
    codes = tuple(file.file_id for file in files)
    known = st.session_state.get(_UPLOADED)
    if known is None or known[0] != codes:
        notes = uploaded([(file.name, file.getvalue()) for file in files])
        st.session_state[_UPLOADED] = known = (codes, notes)
    return known[1]


def _start(notes: NotesToTag, *, tagger: KnownTagger, how: Release, title: str = "") -> None:
    """Ask for notes to be tagged and follow the job; a set that is there already is shown."""
    task = tagging_task(notes, tagger=tagger, how=how, title=title)
    if TAGGED_SETS.get(task.tagged_id).is_whole:
        show_set(task.tagged_id)
    else:
        JOBS.start(task.question())
    st.rerun()


def show_set(tagged_id: str) -> None:
    """Let the page show a kept set from its next run on."""
    st.query_params.pop("note", None)
    st.query_params.update({"tagged": tagged_id, "view": "kept"})


def _done(say: Words, tagged_id: str) -> None:
    show_set(tagged_id)
    head(say, "deidentify_done")


JOBS = FollowedJobs(kind=TaggingTask.job, page="deidentify", on_done=_done)
page("deidentify", draw)
