"""De-identify: what in these notes says who they are about, and what does a de-identifier miss?

New notes are pasted, uploaded or out of a registered folder; read at once, or by a job.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from audit.deid.coverage import describe_rows, list_coverage
from audit.deid.incoming_notes import ENDINGS, MAX_FILES, MAX_UPLOAD_MB
from audit.deid.keys import Key
from audit.deid.kinds import Kind
from audit.deid.policy import ALL_OUT, READY, Policy, read_policy
from audit.deid.release import MODES, SURROGATE, Release
from audit.deid.releases import list_releases, release_sharing_key
from audit.deid.tagged_sets import (
    MAX_TYPED_CHARS,
    TAGGED_SETS,
    ByNote,
    TaggedSet,
    Wish,
    census_of,
    choose_notes,
    correct_set,
    make_correction,
    no_change_error,
    note_at,
    read_notes,
    release_note,
    tag_text,
    undo_correction,
)
from audit.deid.taggers import (
    TAGGER_SEPARATOR,
    KnownTagger,
    find_tagger,
    load_tagger,
    shipped_figures,
)
from audit.deid.tagging import FALLBACK, WITHHOLD, Uncopied, policy_part
from audit.deid.tasks import NotesToTag, TaggingTask, read_uploads, single_text, tagging_task
from audit.errors import AuditError
from audit.foreign import text_form
from audit.jobs import service
from audit.notes.read import EXAMPLE
from audit.patients.register import REGISTER_ENDINGS
from pages.ui import blocks, cached, deid_measures, deid_training, display_names
from pages.ui.access import is_revealed, may_or_say, note, who
from pages.ui.blocks import day, percent, percent_interval
from pages.ui.corpus import ask_file
from pages.ui.deid_leftovers import draw_leftovers
from pages.ui.deid_note import SCOPES, Desk, draw_copies, draw_files, draw_language, draw_note
from pages.ui.display_names import kind_name, label_name, policy_name, tagger_name
from pages.ui.form import act, ask_line, choose, choose_kept, choose_some, pick, upload
from pages.ui.running import FollowedJobs
from pages.ui.section import (
    Table,
    attempt,
    draw_table,
    empty,
    facts,
    file_button,
    head,
    page,
    remark,
    removal,
)
from pages.ui.state import Words, go_to, mark_unsaved

_RARE = {
    "refused": "n_refused",
    "corrected": "n_notes_corrected",
    "foreign": "n_notes_of_no_language",
    "again": "n_found_again",
}
"""Facts that are only shown where there is something to say -> their fields of the census."""
_KEYS = ("new", "shared")
_REGISTERS = ("none", "upload", "file")
_OF_REGISTER = {
    "register": "n_patients",
    "register_alone": "n_patients_without_notes",
    "register_lacks": "n_notes_without_row",
}
_ONLY = ("all", "with", "without", "corrected")
_NUMBER = "deidentify_number"
OWN = "own"
"""A policy out of a file of one's own."""
TABS, VIEWS = ("notes", "measures", "training"), ("new", "kept")
WAYS = ("paste", "upload", "file")
_TEXT, _READ, _FOUND, _UPLOADED = (
    "deidentify_text",
    "deidentify_read",
    "deidentify_found",
    "deidentify_uploaded",
)


def draw(say: Words) -> None:
    """Draw the tab that the link opens; a link to a score or a kept set opens where it is shown."""
    query = st.query_params
    if "tab" not in query and "score" in query:
        query["tab"] = "measures"
    if "view" not in query and "tagged" in query and query.get("tab", TABS[0]) == TABS[0]:
        query["view"] = "kept"
    others = {"measures": deid_measures.draw, "training": deid_training.draw}
    if (tab := choose(say, "deidentify_tab", TABS)) in others:
        others[tab](say)
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
        tagger, policy = _ask_tagger(say), attempt(say, lambda: _ask_policy(say)) or ALL_OUT
        uncopied = _ask_uncopied(say, tagger)
        how = _ask_release(say)
    asked: dict[str, Any] = {"tagger": tagger, "release": how, "policy": policy}
    to_start = asked | {"uncopied": uncopied}
    with left:
        way = choose(say, "deidentify_way", WAYS)
        try:
            if way == "paste":
                _draw_paste(say, **to_start)
            else:
                _draw_file(say, way, **to_start)
        except AuditError as error:
            blocks.refused(say, error)
    _draw_coverage(say, policy, tagger=tagger)
    if way == "paste" and tagger.is_quick and st.session_state.get(_READ):
        _draw_pasted(say, st.session_state[_READ], **asked)


# How notes are read, what is taken out and what is released; all are codes in the link.


def _ask_tagger(say: Words) -> KnownTagger:
    """Draw the choice of a tagger, with what it is and what was measured of it."""
    taggers = {one.tagger_id: one for one in cached.taggers()}
    names = {code: tagger_name(say, code) for code in taggers}
    tagger = taggers[choose(say, "deidentify_tagger", names, is_long=True)]
    others = {code: name for code, name in names.items() if code != tagger.tagger_id}
    beside = choose_some(say, "deidentify_beside", others, is_long=True, is_all=False)
    for kind in dict.fromkeys(taggers[code].kind for code in (tagger.tagger_id, *beside)):
        remark(say, f"deidentify_about_{kind}")
    if beside:
        remark(say, "deidentify_united")
        tagger = find_tagger(TAGGER_SEPARATOR.join((tagger.tagger_id, *beside)))
    lines = []
    for one in shipped_figures(tagger.tagger_id):
        values = {
            label: say.text(
                "deidentify_figures_value",
                share=percent(found.value),
                interval=percent_interval(found),
                n=f"{n_gold:,}",
            )
            for label, (found, n_gold) in one.recalls.items()
        }
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


def _ask_uncopied(say: Words, tagger: KnownTagger) -> Uncopied:
    """Draw what becomes of notes that a tagger that writes copies does not copy whole."""
    if not tagger.writes_copies:
        return FALLBACK
    code = choose(say, "deidentify_uncopied", (FALLBACK, WITHHOLD))
    remark(say, "deidentify_uncopied_below")
    return WITHHOLD if code == WITHHOLD else FALLBACK


def _ask_release(say: Words) -> Release:
    """Draw what takes the place of a mark, and whether its key is that of another release."""
    how = Release(mode=choose(say, "deidentify_mode", MODES))
    if how.mode != SURROGATE or choose(say, "deidentify_key", _KEYS) == "new":
        return how
    remark(say, "deidentify_key_below")
    names = {
        one.identifier: say.text(
            "deidentify_key_line", title=one.title, code=one.identifier, at=day(one.created)
        )
        for one in list_releases()
        if not one.is_reversible
    }
    if code := pick(say, "deidentify_key_of", names, what="release"):
        return release_sharing_key(code)
    remark(say, "deidentify_key_missing")
    return how


def _ask_policy(say: Words) -> Policy:
    """Draw the choice of what is taken out; without a file of one's own that is everything."""
    code = choose(say, "deidentify_policy", (*READY, OWN))
    if code != OWN:
        return READY[code]
    for file in upload(say, "deidentify_policy_file", ["json"], most_mb=1, what="policy"):
        return read_policy(file.getvalue(), place=say.text("deidentify_policy"))
    remark(say, "deidentify_policy_missing")
    return ALL_OUT


def _draw_coverage(say: Words, policy: Policy, *, tagger: KnownTagger) -> None:
    """Draw what the policy takes out, how the tagger finds it, and what was measured."""
    with st.expander(say.text("deidentify_covered"), key="deidentify_covered_box"):
        rows = describe_rows(list_coverage(policy, tagger=tagger), language=say.language)
        table = Table(list(rows[0]), [list(row.values()) for row in rows])
        draw_table(say, "deidentify_covered", table)
        file_button(
            say,
            "deidentify_policy_own",
            policy.as_file,
            form="json",
            label="deidentify_policy_json",
            what="policy",
        )


# A pasted text.


def _draw_paste(say: Words, **asked: Any) -> None:
    """Draw the box for a text and the buttons beneath it."""
    st.text_area(
        say.text("deidentify_paste_label"),
        key=_TEXT,
        height=330,
        max_chars=MAX_TYPED_CHARS,
        help=say.text("deidentify_paste_help", n=f"{MAX_TYPED_CHARS:,}"),
        persist_state="session",
        on_change=lambda: mark_unsaved(_TEXT, bool(st.session_state[_TEXT].strip())),
    )

    def take_example() -> None:
        st.session_state[_TEXT] = st.session_state[_READ] = say.text("deidentify_example_note")
        mark_unsaved(_TEXT, False)

    with st.container(horizontal=True):
        is_asked = _go_button(say, "paste")
        act(say, "deidentify_example", icon="science", on_click=take_example)
    text = st.session_state.get(_TEXT) or ""
    if is_asked and not text.strip():
        remark(say, "deidentify_text_missing")
    elif is_asked and asked["tagger"].is_quick:
        st.session_state[_READ] = text
    elif is_asked:
        _start(single_text(text, source="pasted"), **asked)


def _go_button(say: Words, of: str) -> bool:
    return act(say, "deidentify_go", name=f"deidentify_go_{of}", kind="primary", icon="ink_eraser")


def _draw_pasted(
    say: Words, text: str, *, tagger: KnownTagger, release: Release, policy: Policy
) -> None:
    """Draw what was found in a pasted text, and what a person corrected in it.

    Its names are in sight already, so that it can be corrected without revealing any. The last
    answer, its corrections and the key of its surrogates are remembered in this session alone.
    """
    question = (text, tagger.digest, policy.decisive())
    known = st.session_state.get(_FOUND)
    try:
        if known is None or known[0] != question:
            loaded = load_tagger(tagger.tagger_id)
            found = tag_text(text, tagger=loaded, release=release, policy=policy)
            note("ran", kind="tagging", n_notes=1, n_spans=len(found.document.spans))
            st.session_state[_FOUND] = known = (question, found, [], Key.new())
        _, first, fixed, key = known
        if release.key and not release.is_linked:
            release = release.with_(key=key)
        found = release_note(first.document, row=1, release=release, corrections=fixed)
    except AuditError as error:
        blocks.refused(say, error)
        return
    head(say, "deidentify_result")
    if (form := text_form(text, what="notes")) != "plain":
        remark(say, f"deidentify_read_{form}")
    census = census_of(found) | release.describe()
    if policy.kinds_left:
        census |= policy_part(policy, first.left)
    draw_language(say, census)
    _draw_left(say, census)

    def correct(wish: Wish, is_everywhere: bool) -> int:
        made = make_correction(found.document, wish, user=who())
        if made is None:
            raise no_change_error()
        fixed.append(made)
        note("ran", kind="correction", n_spans=len(made.spans))
        return 1

    def undo() -> None:
        fixed.pop()
        note("ran", kind="undone-correction")

    desk = Desk(SCOPES[:-1], correct, undo)
    draw_note(say, found, key="deidentify_pasted", desk=desk, is_pasted=True)
    draw_files(
        say,
        lambda: (found,),
        key="deidentify_pasted",
        n_bytes=len(text),
        census=census,
        is_private_allowed=True,
    )


# Files, and jobs.


def _draw_file(say: Words, way: str, **asked: Any) -> None:
    """Draw the choice of a file, and the button that starts its job."""
    notes = _ask_upload(say) if way == "upload" else None
    if way == "file" and (found := ask_file(say, cached.note_files())) is not None:
        notes = NotesToTag("registered", file_id=found[0].file_id, columns=found[1])
    register = _ask_register(say)
    above, title = st.container(), ask_line(say, "deidentify_name")
    if _go_button(say, "file"):
        with above:  # what is refused stands beside what was given, not under the button
            if notes is None or isinstance(register, str):
                remark(say, "deidentify_file_missing" if notes is None else register)
            else:
                attempt(say, lambda: _start(notes, register=register, title=title, **asked))


def _ask_register(say: Words) -> NotesToTag | str | None:
    """Ask for a register of patients; returns the words for one that is still missing."""
    way = choose(say, "deidentify_register", _REGISTERS)
    if way == "none":
        return None
    remark(say, "deidentify_register_below")
    if way == "upload":
        files = upload(
            say,
            "deidentify_register_upload",
            REGISTER_ENDINGS,
            most_mb=MAX_UPLOAD_MB,
            what="register",
            name="deidentify_register_upload",
        )
        if files:
            return NotesToTag("uploaded", content=files[0].getvalue())
    else:
        tables = {
            display_names.file_code(one): one
            for one in cached.note_files()
            if one.kind in REGISTER_ENDINGS and one.file_id != EXAMPLE
        }
        names = display_names.file_names(say, tuple(tables.values()))
        if file := tables.get(pick(say, "deidentify_register_file", names, what="patients")):
            return NotesToTag("registered", file_id=file.file_id)
    return "deidentify_register_missing"


def _ask_upload(say: Words) -> NotesToTag | None:
    """Ask for files; raises `AuditError` if they are no notes."""
    remark(say, "deidentify_upload_below", n=MAX_UPLOAD_MB, files=f"{MAX_FILES:,}")
    files = upload(
        say,
        "deidentify_upload_label",
        ENDINGS,
        most_mb=MAX_UPLOAD_MB,
        what="notes",
        name="deidentify_upload",
        is_many=True,
    )
    if not files:
        return None
    # What was read once is remembered in this session alone, until other files are given.
    state, codes = st.session_state, tuple(file.file_id for file in files)
    if _UPLOADED not in state or state[_UPLOADED][0] != codes:
        state[_UPLOADED] = codes, read_uploads([(file.name, file.getvalue()) for file in files])
    return state[_UPLOADED][1]


def _start(notes: NotesToTag, **asked: Any) -> None:
    """Ask for notes to be tagged and follow the job; a set that is there already is shown."""
    task = tagging_task(notes, **asked)
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


# Kept notes: what came of them, note by note, files, and the ways on.


def draw_kept(say: Words) -> None:
    """Draw the choice among the kept sets, and the one that is chosen."""
    by_id = {one.tagged_id: one for one in TAGGED_SETS.all()}
    if not by_id:
        is_asked = "tagged" in st.query_params
        empty(say, "deidentify_kept_gone" if is_asked else "deidentify_no_kept")
        return
    names = {code: _set_name(say, one) for code, one in by_id.items()}
    if n_reversible := sum(one.how.is_reversible for one in by_id.values()):
        remark(say, "deidentify_n_reversible", n=f"{n_reversible:,}")
    tagged = by_id[choose_kept(say, "deidentify_kept", names, what="tagged")]
    question = TaggingTask(tagged_id=tagged.tagged_id).question()
    is_at_work = service.active_job(question.digest) is not None
    if tagged.how.is_reversible:
        empty(say, "deidentify_reversible")
    if tagged.is_whole:
        _draw_whole(say, tagged, is_at_work=is_at_work)
    else:
        empty(say, "deidentify_at_work" if is_at_work else "deidentify_unfinished")

    def forget() -> None:
        TAGGED_SETS.forget(tagged.tagged_id)
        note("removed", what="tagged-notes", run=tagged.tagged_id)
        st.query_params.pop("note", None)

    if not is_at_work:
        removal(say, "deidentify_forget", forget, leaves="tagged")


def _draw_whole(say: Words, tagged: TaggedSet, *, is_at_work: bool) -> None:
    """Draw what came of a set, its notes where this person may see them, and its files."""

    def look() -> None:
        JOBS.start(TaggingTask(tagged_id=tagged.tagged_id, device="cpu").question())
        st.rerun()

    def show(number: int) -> None:
        _go(number)
        st.query_params.pop("only", None)
        st.session_state["deidentify_search"] = ""

    corrections, census = cached.corrections(tagged), cached.census(tagged)
    _draw_facts(say, tagged, census=census)
    if not may_or_say("revealed", say):
        return
    draw_leftovers(say, tagged, look=look, show=show, is_at_work=is_at_work)
    _draw_notes(say, tagged, corrections=corrections)
    draw_files(
        say,
        lambda: read_notes(tagged),
        key="deidentify_set",
        census=census,
        n_bytes=tagged.spans_path.stat().st_size,
        is_private_allowed=is_revealed(),
    )
    remark(say, "deidentify_unmeasured")
    if corrections:
        remark(say, "deidentify_measure_own")
    if act(say, "deidentify_measure", icon="rule"):
        go_to("deidentify", tab="measures", tagged=tagged.tagged_id)


def _set_name(say: Words, one: TaggedSet) -> str:
    """Return what a set is called on the screen; untrusted text."""
    title, at = one.title or say.text(f"deidentify_source_{one.source}"), day(one.created)
    if one.how.is_reversible:
        title = say.text("deidentify_kept_reversible", title=title)
    if not one.is_whole:
        return say.text("deidentify_kept_unfinished", title=title, at=at)
    return say.text("deidentify_kept_line", title=title, n=f"{one.n_notes:,}", at=at)


def _draw_facts(say: Words, tagged: TaggedSet, *, census: Mapping[str, Any]) -> None:
    """Draw what was asked, what came of it, and the counts by type, after corrections by hand."""
    found = {
        "source": say.text(f"deidentify_source_{tagged.source}"),
        "tagger": tagger_name(say, tagged.tagger_id),
        "policy": policy_name(say, tagged.policy),
        "mode": say.text(f"deidentify_mode_{tagged.how.mode}"),
        **_key_fact(say, tagged),
        "created": day(tagged.created),
        "notes": f"{tagged.n_notes:,}",
        "without": f"{census.get('n_notes_without_spans', 0):,}",
        **{fact: f"{census[of]:,}" for fact, of in _RARE.items() if census.get(of)},
        **{
            fact: f"{n:,}"
            for fact, of in _OF_REGISTER.items()
            if (n := census.get("register", {}).get(of)) is not None
        },
    }
    draw_language(say, census)
    left, right = st.columns(2, gap="large")
    with left:
        facts(say, "deidentify_fact", found)
    with right:
        if spans := census["spans"]:
            rows = [(label_name(say, x), n["n"], n["n_characters"]) for x, n in spans.items()]
            table = Table(("type", "n_marks", "n_characters"), rows)
            draw_table(say, "deidentify_counts", table)
        else:
            remark(say, "deidentify_nothing")
        _draw_left(say, census)
        if "copies" in census:
            draw_copies(say, census["copies"])
            _draw_uncopied(say, census["uncopied"])


def _draw_uncopied(say: Words, uncopied: Mapping[str, Any]) -> None:
    """Draw which notes were not copied whole, and what became of them."""
    if not uncopied["n_notes"]:
        remark(say, "deidentify_uncopied_none")
        return
    counts = {name: f"{uncopied[name]:,}" for name in ("n_notes", "n_characters")}
    remark(say, f"deidentify_uncopied_{uncopied['how']}_done", **counts)
    rows = [
        (one["row"], say.text(f"deid_measures_copies_{one['copy']}"), one["n_not_copied"])
        for one in uncopied["notes"]
    ]
    table = Table(("row", "copy", "n_characters"), rows)
    n_more = uncopied["n_notes"] - len(rows)
    draw_table(say, "deidentify_uncopied_notes", table, n_more=f"{n_more:,}")


def _key_fact(say: Words, tagged: TaggedSet) -> dict[str, str]:
    """Return what the surrogates of a set were drawn from, and with which releases they agree."""
    if tagged.how.mode != SURROGATE:
        return {}
    if tagged.how.is_reversible:
        return {"key": say.text("deidentify_key_public")}
    linked = [
        other
        for one in list_releases()
        if one.identifier == tagged.tagged_id
        for other in one.linked
    ]
    if not linked:
        return {"key": say.text("deidentify_key_secret")}
    return {"key": say.text("deidentify_key_linked", codes=", ".join(linked))}


def _draw_left(say: Words, census: Mapping[str, Any]) -> None:
    """Say how many marks of each kind a policy left in the text."""
    left: Mapping[Kind, int] = census.get("left", {})
    ones = [say.text("kind_n", kind=kind_name(say, kind), n=f"{n:,}") for kind, n in left.items()]
    if ones:
        remark(say, "deidentify_by_policy", kinds=", ".join(ones))


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
    # The released text is no proof of anything: a name that was missed stands in it.
    what = "note" if is_revealed() else "released-note"
    note("revealed", is_once=True, what=what, run=tagged.tagged_id, row=found.row)
    key = "deidentify_row_named" if is_revealed() else "deidentify_row"
    remark(say, key, row=found.row, name=found.document.doc_id)

    def correct(wish: Wish, is_everywhere: bool) -> int:
        n_notes = correct_set(tagged, wish, number=number, user=who(), is_everywhere=is_everywhere)
        note("ran", kind="correction", run=tagged.tagged_id, row=found.row, n_notes=n_notes)
        return n_notes

    def undo() -> None:
        undo_correction(tagged, number, user=who())
        note("ran", kind="undone-correction", run=tagged.tagged_id, row=found.row)

    scopes = SCOPES if tagged.n_notes > 1 else SCOPES[:-1]
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
        n = len(choose_notes(index, only=only, corrections=corrections))
        names[only] = say.text(f"deidentify_only_{only}", n=f"{n:,}")
    with left:
        only = choose(say, "deidentify_only", names)
    with right:
        text = ask_line(say, "deidentify_search", most=200)
    hits = cached.hits(tagged, text=text) if text else None
    numbers = choose_notes(index, only=only, hits=hits, corrections=corrections).tolist()
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
            say.text("deidentify_number", n=f"{len(numbers):,}"),
            min_value=1,
            max_value=len(numbers),
            step=1,
            key=_NUMBER,
            width=260,
            on_change=lambda: _go(numbers[int(st.session_state[_NUMBER]) - 1]),
        )
        is_last = at == len(numbers) - 1
        act(say, "deidentify_next", is_disabled=is_last, on_click=lambda: _go(numbers[at + 1]))


def _go(number: int) -> None:
    st.query_params["note"] = str(number + 1)


page("deidentify", draw)
