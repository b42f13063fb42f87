"""De-identify: what in these notes tells whom they are about, and what does a de-identifier miss?

New notes are pasted, uploaded or taken from a registered folder, and read at once or by a job.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import streamlit as st

from audit.deid.find.copies import OUTPUTS
from audit.deid.find.elsewhere import FileTagger
from audit.deid.find.taggers import (
    TAGGER_SEPARATOR,
    KnownTagger,
    find_tagger,
    load_tagger,
    shipped_figures,
)
from audit.deid.measure.coverage import describe_rows, list_coverage
from audit.deid.redact.keys import Key
from audit.deid.redact.kinds import Kind
from audit.deid.redact.policy import ALL_OUT, READY, Policy, read_policy
from audit.deid.redact.release import MODES, SURROGATE, Release
from audit.deid.sets.incoming_notes import ENDINGS, MAX_FILES, MAX_UPLOAD_MB
from audit.deid.sets.releases import list_releases, release_sharing_key
from audit.deid.sets.tagged_sets import (
    MAX_TYPED_CHARS,
    TAGGED_SETS,
    ByNote,
    Correction,
    ReleasedNote,
    TaggedSet,
    Wish,
    census_of,
    choose_notes,
    correct_set,
    make_correction,
    no_change_error,
    note_at,
    plan_corrections,
    read_notes,
    release_note,
    tag_text,
    undo_correction,
)
from audit.deid.sets.tagging import FALLBACK, WITHHOLD, Uncopied, policy_part
from audit.deid.tasks import NotesToTag, TaggingTask, read_uploads, single_text, tagging_task
from audit.errors import AuditError
from audit.foreign import find_text_form
from audit.jobs import service
from audit.notes.read import EXAMPLE
from audit.patients.register import REGISTER_ENDINGS
from audit.words import Words
from pages.ui import blocks, cached, deid_measures, deid_training, display_names
from pages.ui.access import identify_person, is_revealed, log_action, may_or_explain
from pages.ui.blocks import (
    escape_markdown,
    format_moment,
    format_percent,
    format_percent_interval,
)
from pages.ui.corpus import ask_file
from pages.ui.deid_leftovers import draw_leftovers
from pages.ui.deid_note import (
    SCOPES,
    Desk,
    draw_copies,
    draw_files,
    draw_language,
    draw_note,
    draw_side,
)
from pages.ui.display_names import kind_name, label_name, policy_name, tagger_name
from pages.ui.form import (
    ask_line,
    choose,
    choose_kept,
    choose_some,
    draw_button,
    pick,
    read_choice,
    read_choices,
    upload,
)
from pages.ui.note_text import note_box
from pages.ui.running import FollowedJobs
from pages.ui.section import (
    Table,
    attempt,
    draw_absence,
    draw_facts,
    draw_file_button,
    draw_heading,
    draw_page,
    draw_remark,
    draw_removal,
    draw_table,
)
from pages.ui.state import go_to, mark_unsaved

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
_MAX_LINES = 20
_NUMBER = "deidentify_number"
OWN = "own"
"""Code of a policy from an uploaded file."""
_POLICIES = (*READY, OWN)
TABS = ("paste", "upload", "file", "kept", "measures", "training")
_TEXT, _READ, _FOUND, _UPLOADED, _IS_WRITING, _DONE = (
    "deidentify_text",
    "deidentify_read",
    "deidentify_found",
    "deidentify_uploaded",
    "deidentify_is_writing",
    "deidentify_done",
)
"""Keys of the session: the text in the box, the text that was read, its marks and corrections, the
uploaded files, whether the text is being changed, and the set that was just finished."""


def draw_tabs(say: Words) -> None:
    """Draw the choice of a tab in the line of the title."""
    _read_old_link()
    tab = choose(say, "deidentify_tab", TABS)
    about = {"measures": "deid_measures_below", "training": "deid_train_below"}
    st.html(blocks.fold(say.text(about.get(tab, "deidentify_below"))), width="content")


def draw(say: Words) -> None:
    """Draw the chosen tab."""
    tab = read_choice(TABS, parameter="tab")
    if tab == "measures":
        deid_measures.draw(say)
    elif tab == "training":
        deid_training.draw(say)
    elif tab == "kept":
        JOBS.draw(say)
        draw_kept(say)
    elif may_or_explain("ran", say):
        draw_new(say, tab)


def _read_old_link() -> None:
    """Let a link open its tab; links used to have a view and a way of handing in notes."""
    query = st.query_params
    view, way, tab = query.pop("view", ""), query.pop("way", ""), query.get("tab", "")
    if tab not in TABS:
        query.pop("tab", None)
        is_kept = view == "kept" or (not view and "tagged" in query)
        tab = "measures" if "score" in query else "kept" if is_kept else way
        if tab in TABS[1:]:
            query["tab"] = tab


def draw_new(say: Words, tab: str) -> None:
    """Draw the settings, the notes to hand in, and the result of a pasted text."""
    fields, reading = _draw_settings(say, tab), st.session_state.get(_READ)
    is_quick = fields["tagger"].is_quick
    if tab == "paste" and is_quick and reading and not st.session_state.get(_IS_WRITING):
        _draw_pasted(say, reading, **fields)
        return
    try:
        if tab == "paste":
            left, right = st.columns(2, gap="medium")
            with left:
                _draw_paste(say, **fields)
            with right:
                draw_side(say, "released")
                st.html(note_box(say.html("deidentify_no_text"), tone="ka-released ka-is-empty"))
        else:
            _draw_file(say, tab, **fields)
    except AuditError as error:
        blocks.draw_refusal(say, error)
    JOBS.draw(say)


def _draw_settings(say: Words, tab: str) -> dict[str, Any]:
    """Draw the settings, folded into one line that says them; return the fields of a request."""
    policy_code = read_choice(_POLICIES, parameter="policy")
    mode = read_choice(MODES, parameter="mode")
    line = say.text(
        "deidentify_settings_line",
        tagger=escape_markdown(tagger_name(say, _read_tagger_id(tab))),
        policy=say.text(f"deidentify_policy_{policy_code}"),
        mode=escape_markdown(say.text(f"deidentify_mode_{mode}")),
    )
    with st.expander(line, key="deidentify_settings"):
        left, middle, right = st.columns(3, gap="medium")
        with left:
            tagger = _ask_tagger(say, tab)
            uncopied = _ask_uncopied(say, tagger)
        with middle:
            policy = attempt(say, lambda: _ask_policy(say)) or ALL_OUT
        with right:
            release = _ask_release(say)
        _draw_figures(say, tagger)
        _draw_coverage(say, policy, tagger=tagger)
    return {"tagger": tagger, "release": release, "policy": policy, "uncopied": uncopied}


# Tagger, policy and release; all are codes in the link.


_NO_COPIES = FileTagger({})
"""Stands for the copies that are written elsewhere, until their file is uploaded."""


def _list_taggers(tab: str) -> dict[str, KnownTagger]:
    """Return the taggers to choose from; copies in a file belong to notes in a file."""
    taggers = {tagger.tagger_id: tagger for tagger in cached.taggers()}
    if tab != "paste":
        taggers[OUTPUTS] = find_tagger(OUTPUTS, elsewhere=_NO_COPIES)
    return taggers


def _read_tagger_id(tab: str) -> str:
    """Return the identifier of the tagger that `_ask_tagger` will return."""
    tagger_ids = [*_list_taggers(tab)]
    main_id = read_choice(tagger_ids, parameter="tagger")
    extra_ids = read_choices(_list_others(tagger_ids, main_id), parameter="beside")
    return TAGGER_SEPARATOR.join((main_id, *extra_ids))


def _list_others(tagger_ids: Iterable[str], main_id: str) -> list[str]:
    return [code for code in tagger_ids if code not in (main_id, OUTPUTS)]


def _ask_tagger(say: Words, tab: str) -> KnownTagger:
    """Draw the choice of a tagger, with its description."""
    taggers = _list_taggers(tab)
    names = {code: tagger_name(say, code) for code in taggers}
    tagger = taggers[choose(say, "deidentify_tagger", names, is_long=True)]
    other_names = {code: names[code] for code in _list_others(names, tagger.tagger_id)}
    extra_ids = choose_some(say, "deidentify_beside", other_names, is_long=True, is_all=False)
    for kind in dict.fromkeys(taggers[code].kind for code in (tagger.tagger_id, *extra_ids)):
        draw_remark(say, f"deidentify_about_{kind}")
    if not extra_ids:
        return tagger
    draw_remark(say, "deidentify_united")
    united_id = TAGGER_SEPARATOR.join((tagger.tagger_id, *extra_ids))
    return find_tagger(united_id, elsewhere=_NO_COPIES)


def _draw_figures(say: Words, tagger: KnownTagger) -> None:
    """Draw the measured rates of a tagger."""
    lines = []
    for figures in shipped_figures(tagger.tagger_id):
        rates = {
            label: say.text(
                "deidentify_figures_value",
                share=format_percent(estimate.value),
                interval=format_percent_interval(estimate),
                n=f"{n_gold:,}",
            )
            for label, (estimate, n_gold) in figures.recalls.items()
        }
        lines.append(
            say.text(f"deidentify_figures_hand_{figures.language}", n=figures.n_notes, **rates)
        )
    if lines:
        draw_heading(say, "deidentify_rates")
        st.html(blocks.bullet_list(lines))
    counts = tagger.validation
    if counts is not None and counts["n_gold"]:
        numbers = {name: f"{n:,}" for name, n in counts.items()}
        share = format_percent(counts["n_found"] / counts["n_gold"])
        draw_remark(say, "deidentify_validation", share=share, **numbers)
    draw_remark(say, "deidentify_measure_help")


def _ask_uncopied(say: Words, tagger: KnownTagger) -> Uncopied:
    """Draw the choice for notes that a copying tagger does not copy completely."""
    if not tagger.writes_copies:
        return FALLBACK
    code = choose(say, "deidentify_uncopied", (FALLBACK, WITHHOLD))
    draw_remark(say, "deidentify_uncopied_below")
    return WITHHOLD if code == WITHHOLD else FALLBACK


def _ask_release(say: Words) -> Release:
    """Draw the choice of what replaces a mark, and whether its key is that of another release."""
    release = Release(mode=choose(say, "deidentify_mode", MODES))
    if release.mode != SURROGATE or choose(say, "deidentify_key", _KEYS) == "new":
        return release
    draw_remark(say, "deidentify_key_below")
    names = {
        past_release.identifier: say.text(
            "deidentify_key_line",
            title=past_release.title,
            code=past_release.identifier,
            at=format_moment(past_release.created),
        )
        for past_release in list_releases()
        if not past_release.is_reversible
    }
    if code := pick(say, "deidentify_key_of", names, parameter="release"):
        return release_sharing_key(code)
    draw_remark(say, "deidentify_key_missing")
    return release


def _ask_policy(say: Words) -> Policy:
    """Draw the choice of a policy; if an own policy has no file, everything is taken out."""
    code = choose(say, "deidentify_policy", _POLICIES)
    if code != OWN:
        return READY[code]
    for file in upload(say, "deidentify_policy_file", ["json"], max_mb=1, file_kind="policy"):
        return read_policy(file.getvalue(), place=say.text("deidentify_policy"))
    draw_remark(say, "deidentify_policy_missing")
    return ALL_OUT


def _draw_coverage(say: Words, policy: Policy, *, tagger: KnownTagger) -> None:
    """Draw what the policy takes out, how the tagger finds it, and the measured rates."""
    with st.expander(say.text("deidentify_covered"), key="deidentify_covered_box"):
        rows = describe_rows(list_coverage(policy, tagger=tagger), language=say.language)
        table = Table(list(rows[0]), [list(row.values()) for row in rows])
        draw_table(say, "deidentify_covered", table)
        draw_file_button(
            say,
            "deidentify_policy_own",
            policy.as_file,
            form="json",
            label="deidentify_policy_json",
            file_kind="policy",
        )


# A pasted text.


def _draw_paste(say: Words, **request_fields: Any) -> None:
    """Draw the box for a text and the buttons beneath it."""
    state = st.session_state
    st.text_area(
        say.text("deidentify_paste_label"),
        key=_TEXT,
        height=300,
        max_chars=MAX_TYPED_CHARS,
        help=say.text("deidentify_paste_help", n=f"{MAX_TYPED_CHARS:,}"),
        persist_state="session",
        on_change=lambda: mark_unsaved(_TEXT, bool(state[_TEXT].strip())),
    )

    def take_example() -> None:
        state[_TEXT] = state[_READ] = say.text("deidentify_example_note")
        state[_IS_WRITING] = False
        mark_unsaved(_TEXT, False)

    is_quick = request_fields["tagger"].is_quick

    def read_text() -> None:
        if is_quick and (state.get(_TEXT) or "").strip():
            state[_READ], state[_IS_WRITING] = state[_TEXT], False

    with st.container(horizontal=True):
        is_asked = _draw_go_button(say, "paste", on_click=read_text)
        draw_button(say, "deidentify_example", icon="science", on_click=take_example)
    text = state.get(_TEXT) or ""
    if is_asked and not text.strip():
        draw_remark(say, "deidentify_text_missing")
    elif is_asked and not is_quick:
        _start(single_text(text, source="pasted"), **request_fields)


def _change_text() -> None:
    st.session_state[_IS_WRITING] = True


def _draw_go_button(
    say: Words, input_kind: str, *, on_click: Callable[[], None] | None = None
) -> bool:
    return draw_button(
        say,
        "deidentify_go",
        name=f"deidentify_go_{input_kind}",
        kind="primary",
        icon="ink_eraser",
        on_click=on_click,
    )


class _Answer(NamedTuple):
    """What a tagger answered about a pasted text."""

    question: tuple[str, str, list[Any]]
    note: ReleasedNote
    corrections: list[Correction]
    key: Key


def _tag_pasted(
    text: str, *, tagger: KnownTagger, policy: Policy
) -> tuple[ReleasedNote, list[Correction], Key]:
    """Return a pasted text with its marks, its corrections by hand, and the key of its surrogates.

    Only this session remembers them. Corrections and key stay while the text is the same.
    """
    question = (text, tagger.digest, policy.decisive())
    answer: _Answer | None = st.session_state.get(_FOUND)
    if answer is None or answer.question != question:
        loaded = load_tagger(tagger.tagger_id)
        note = tag_text(text, tagger=loaded, release=Release(), policy=policy)
        log_action("ran", kind="tagging", n_notes=1, n_spans=len(note.document.spans))
        is_same_text = answer is not None and answer.question[0] == text
        corrections, key = answer[2:] if answer and is_same_text else ([], Key.new())
        answer = st.session_state[_FOUND] = _Answer(question, note, corrections, key)
    return answer[1:]


def _draw_pasted(
    say: Words,
    text: str,
    *,
    tagger: KnownTagger,
    release: Release,
    policy: Policy,
    uncopied: Uncopied,
) -> None:
    """Draw the marks of a pasted text, and the corrections by hand.

    The person has pasted its names, so it can be corrected without a reveal.
    """
    try:
        first_note, corrections, key = _tag_pasted(text, tagger=tagger, policy=policy)
        if release.key and not release.is_linked:
            release = release.with_(key=key)
        tagged_note = release_note(
            first_note.document, row=1, release=release, corrections=corrections
        )
    except AuditError as error:
        blocks.draw_refusal(say, error)
        draw_button(say, "deidentify_change", icon="edit", on_click=_change_text)
        return
    census = census_of(tagged_note) | release.describe()
    if policy.kinds_left:
        census |= policy_part(policy, first_note.left)

    def draw_notices() -> None:
        if (form := find_text_form(text, subject="notes")) != "plain":
            draw_remark(say, f"deidentify_read_{form}")
        draw_language(say, census)

    draw_note(
        say,
        tagged_note,
        key="deidentify_pasted",
        desk=_open_desk(tagged_note, corrections),
        is_pasted=True,
        draw_notices=draw_notices,
        draw_actions=lambda: draw_button(
            say, "deidentify_change", icon="edit", on_click=_change_text
        ),
    )
    _draw_left(say, census)
    draw_files(
        say,
        lambda: (tagged_note,),
        key="deidentify_pasted",
        n_bytes=len(text),
        census=census,
        is_private_allowed=True,
    )


def _open_desk(note: ReleasedNote, corrections: list[Correction]) -> Desk:
    """Return the functions that correct a pasted note; they change the list of corrections."""

    def plan(wish: Wish) -> Correction | None:
        return make_correction(note.document, wish, user=identify_person())

    def correct(wish: Wish, is_everywhere: bool) -> int:
        correction = plan(wish)
        if correction is None:
            raise no_change_error()
        corrections.append(correction)
        log_action("ran", kind="correction", n_spans=len(correction.spans))
        return 1

    def undo() -> None:
        corrections.pop()
        log_action("ran", kind="undone-correction")

    def count(wish: Wish, is_everywhere: bool) -> tuple[int, int]:
        correction = plan(wish)
        return (len(correction.spans), 1) if correction else (0, 0)

    return Desk(SCOPES[:-1], correct, undo, count)


# Files, and jobs.


def _draw_file(say: Words, input_kind: str, *, tagger: KnownTagger, **request_fields: Any) -> None:
    """Draw the choice of a file, and the button that starts its job."""
    notes = _ask_upload(say) if input_kind == "upload" else None
    if input_kind == "file" and (file_choice := ask_file(say, cached.note_files())) is not None:
        notes = NotesToTag("registered", file_id=file_choice[0].file_id, columns=file_choice[1])
    outputs = _ask_outputs(say) if tagger.reads_outputs else None
    register = _ask_register(say)
    above, title = st.container(), ask_line(say, "deidentify_name")
    if _draw_go_button(say, "file"):
        with above:  # a refusal stands beside the inputs, not under the button
            if notes is None:
                draw_remark(say, "deidentify_file_missing")
            elif tagger.reads_outputs and outputs is None:
                draw_remark(say, "deidentify_outputs_missing")
            elif isinstance(register, str):
                draw_remark(say, register)
            else:
                request_fields |= {"tagger": tagger, "register": register, "title": title}
                attempt(say, lambda: _start(notes, outputs=outputs or b"", **request_fields))


def _ask_outputs(say: Words) -> bytes | None:
    """Ask for a file of copies of the notes."""
    files = upload(say, "deidentify_outputs", ["jsonl"], max_mb=MAX_UPLOAD_MB, file_kind="outputs")
    return files[0].getvalue() if files else None


def _ask_register(say: Words) -> NotesToTag | str | None:
    """Ask for a register of patients; return the key of a sentence if it is still missing."""
    register_kind = choose(say, "deidentify_register", _REGISTERS)
    if register_kind == "none":
        return None
    if register_kind == "upload":
        files = upload(
            say,
            "deidentify_register_upload",
            REGISTER_ENDINGS,
            max_mb=MAX_UPLOAD_MB,
            file_kind="register",
            name="deidentify_register_upload",
        )
        if files:
            return NotesToTag("uploaded", content=files[0].getvalue())
    else:
        tables = {
            display_names.file_code(file): file
            for file in cached.note_files()
            if file.kind in REGISTER_ENDINGS and file.file_id != EXAMPLE
        }
        names = display_names.file_names(say, tuple(tables.values()))
        if file := tables.get(pick(say, "deidentify_register_file", names, parameter="patients")):
            return NotesToTag("registered", file_id=file.file_id)
    return "deidentify_register_missing"


def _ask_upload(say: Words) -> NotesToTag | None:
    """Ask for files; raises `AuditError` if they are no notes."""
    files = upload(
        say,
        "deidentify_upload_label",
        ENDINGS,
        max_mb=MAX_UPLOAD_MB,
        file_kind="notes",
        name="deidentify_upload",
        is_many=True,
        n=MAX_UPLOAD_MB,
        files=f"{MAX_FILES:,}",
    )
    if not files:
        return None
    # Only this session remembers the read files, until other files are uploaded.
    state, codes = st.session_state, tuple(file.file_id for file in files)
    if _UPLOADED not in state or state[_UPLOADED][0] != codes:
        state[_UPLOADED] = codes, read_uploads([(file.name, file.getvalue()) for file in files])
    notes: NotesToTag = state[_UPLOADED][1]
    return notes


def _start(notes: NotesToTag, **request_fields: Any) -> None:
    """Submit notes to be tagged and follow the job; show the set if it exists already."""
    task = tagging_task(notes, **request_fields)
    if TAGGED_SETS.get(task.tagged_id).is_whole:
        show_set(task.tagged_id)
    else:
        JOBS.start(task.question())
    st.rerun()


def show_set(tagged_id: str) -> None:
    """Let the page show a kept set from its next run on."""
    st.query_params.pop("note", None)
    st.query_params.update({"tagged": tagged_id, "tab": "kept"})


def _show_result(say: Words, tagged_id: str) -> None:
    show_set(tagged_id)
    st.session_state[_DONE] = tagged_id
    st.rerun()


JOBS = FollowedJobs(kind=TaggingTask.job, page="deidentify", on_done=_show_result)


# Kept sets: results, single notes, files, and further steps.


def draw_kept(say: Words) -> None:
    """Draw the choice among the kept sets, and the chosen set."""
    by_id = {tagged.tagged_id: tagged for tagged in TAGGED_SETS.all()}
    if not by_id:
        is_asked = "tagged" in st.query_params
        draw_absence(say, "deidentify_kept_gone" if is_asked else "deidentify_no_kept")
        return
    names = {code: _set_name(say, tagged) for code, tagged in by_id.items()}
    if n_reversible := sum(tagged.how.is_reversible for tagged in by_id.values()):
        draw_remark(say, "deidentify_n_reversible", n=f"{n_reversible:,}")
    tagged = by_id[choose_kept(say, "deidentify_kept", names, parameter="tagged")]
    if st.session_state.pop(_DONE, "") == tagged.tagged_id:
        draw_heading(say, "deidentify_done")
    question = TaggingTask(tagged_id=tagged.tagged_id).question()
    is_at_work = service.active_job(question.digest) is not None
    if tagged.how.is_reversible:
        draw_absence(say, "deidentify_reversible")
    if tagged.is_whole:
        _draw_whole(say, tagged, is_at_work=is_at_work)
    else:
        draw_absence(say, "deidentify_at_work" if is_at_work else "deidentify_unfinished")

    def forget() -> None:
        TAGGED_SETS.forget(tagged.tagged_id)
        log_action("removed", what="tagged-notes", run=tagged.tagged_id)
        st.query_params.pop("note", None)

    if not is_at_work:
        draw_removal(say, "deidentify_forget", forget, leaves="tagged")


def _draw_whole(say: Words, tagged: TaggedSet, *, is_at_work: bool) -> None:
    """Draw the results of a set, its notes if this person may see them, and its files."""

    def start_search() -> None:
        JOBS.start(TaggingTask(tagged_id=tagged.tagged_id, device="cpu").question())
        st.rerun()

    def show(number: int) -> None:
        _go_to_note(number)
        st.query_params.pop("only", None)
        st.session_state["deidentify_search"] = ""

    corrections, census = cached.corrections(tagged), cached.census(tagged)
    _draw_facts(say, tagged, census=census)
    if not may_or_explain("revealed", say):
        return
    draw_leftovers(say, tagged, look=start_search, show=show, is_at_work=is_at_work)
    _draw_notes(say, tagged, corrections=corrections)
    draw_files(
        say,
        lambda: read_notes(tagged),
        key="deidentify_set",
        census=census,
        n_bytes=tagged.spans_path.stat().st_size,
        is_private_allowed=is_revealed(),
    )
    if corrections:
        draw_remark(say, "deidentify_measure_own")
    if draw_button(say, "deidentify_measure", icon="rule"):
        go_to("deidentify", tab="measures", tagged=tagged.tagged_id)


def _set_name(say: Words, tagged: TaggedSet) -> str:
    """Return a set's display name; untrusted text."""
    title, date = (
        tagged.title or say.text(f"deidentify_source_{tagged.source}"),
        format_moment(tagged.created),
    )
    if tagged.how.is_reversible:
        title = say.text("deidentify_kept_reversible", title=title)
    if not tagged.is_whole:
        return say.text("deidentify_kept_unfinished", title=title, at=date)
    return say.text("deidentify_kept_line", title=title, n=f"{tagged.n_notes:,}", at=date)


def _draw_facts(say: Words, tagged: TaggedSet, *, census: Mapping[str, Any]) -> None:
    """Draw the settings, the results and the counts by type, after corrections by hand."""
    fact_texts = {
        "source": say.text(f"deidentify_source_{tagged.source}"),
        "tagger": tagger_name(say, tagged.tagger_id),
        "policy": policy_name(say, tagged.policy),
        "mode": say.text(f"deidentify_mode_{tagged.how.mode}"),
        **_key_fact(say, tagged),
        "created": format_moment(tagged.created),
        "notes": f"{tagged.n_notes:,}",
        "without": f"{census.get('n_notes_without_spans', 0):,}",
        **{
            fact: f"{census[count_key]:,}"
            for fact, count_key in _RARE.items()
            if census.get(count_key)
        },
        **{
            fact: f"{n:,}"
            for fact, count_key in _OF_REGISTER.items()
            if (n := census.get("register", {}).get(count_key)) is not None
        },
        **_outputs_facts(say, census.get(OUTPUTS, {})),
    }
    draw_language(say, census)
    left, right = st.columns(2, gap="large")
    with left:
        draw_facts(say, "deidentify_fact", fact_texts)
    with right:
        if spans := census["spans"]:
            rows = [(label_name(say, x), n["n"], n["n_characters"]) for x, n in spans.items()]
            table = Table(("type", "n_marks", "n_characters"), rows)
            draw_table(say, "deidentify_counts", table)
        else:
            draw_remark(say, "deidentify_nothing")
        _draw_left(say, census)
        if tagged.copies:
            draw_copies(say, tagged.copies)
            _draw_uncopied(say, census["uncopied"])


def _outputs_facts(say: Words, counts: Mapping[str, Any]) -> dict[str, str]:
    """Return the numbers of notes without a copy and of copies without a note, with their lines."""
    facts = {}
    if n_without := counts.get("n_notes_without_copy"):
        facts["copies_lack"] = f"{n_without:,}"
    if n_alone := counts.get("n_copies_without_note"):
        lines = counts["lines_without_note"][:_MAX_LINES]
        line_list = ", ".join(map(str, lines)) + (" ..." if n_alone > len(lines) else "")
        facts["copies_alone"] = say.text("deidentify_fact_lines", n=f"{n_alone:,}", lines=line_list)
    return facts


def _draw_uncopied(say: Words, uncopied: Mapping[str, Any]) -> None:
    """Draw which notes were not copied completely, and how they were handled."""
    if not uncopied["n_notes"]:
        draw_remark(say, "deidentify_uncopied_none")
        return
    counts = {name: f"{uncopied[name]:,}" for name in ("n_notes", "n_characters")}
    draw_remark(say, f"deidentify_uncopied_{uncopied['how']}_done", **counts)
    rows = [
        (entry["row"], say.text(f"deid_measures_copies_{entry['copy']}"), entry["n_not_copied"])
        for entry in uncopied["notes"]
    ]
    table = Table(("row", "copy", "n_characters"), rows)
    n_more = uncopied["n_notes"] - len(rows)
    draw_table(say, "deidentify_uncopied_notes", table, n_more=f"{n_more:,}")


def _key_fact(say: Words, tagged: TaggedSet) -> dict[str, str]:
    """Return the origin of a set's surrogates, and the releases that share their key."""
    if tagged.how.mode != SURROGATE:
        return {}
    if tagged.how.is_reversible:
        return {"key": say.text("deidentify_key_public")}
    linked_codes = [
        code
        for release in list_releases()
        if release.identifier == tagged.tagged_id
        for code in release.linked
    ]
    if not linked_codes:
        return {"key": say.text("deidentify_key_secret")}
    return {"key": say.text("deidentify_key_linked", codes=", ".join(linked_codes))}


def _draw_left(say: Words, census: Mapping[str, Any]) -> None:
    """Draw how many marks of each kind a policy left in the text."""
    left: Mapping[Kind, int] = census.get("left", {})
    kind_counts = [
        say.text("kind_n", kind=kind_name(say, kind), n=f"{n:,}") for kind, n in left.items()
    ]
    if kind_counts:
        draw_remark(say, "deidentify_by_policy", kinds=", ".join(kind_counts))


# Note by note.


def _draw_notes(say: Words, tagged: TaggedSet, *, corrections: ByNote) -> None:
    """Draw one note of the set, the steps to other notes, and the corrections by hand."""
    draw_heading(say, "deidentify_notes")
    number = _choose_note(say, tagged, corrections=corrections)
    if number is None:
        draw_absence(say, "deidentify_no_note")
        return
    index = cached.note_index(tagged)
    tagged_note = note_at(tagged, number, index=index, corrections=corrections)
    # The released text is logged too: it may hold a name that was missed.
    text_kind = "note" if is_revealed() else "released-note"
    log_action("revealed", is_once=True, what=text_kind, run=tagged.tagged_id, row=tagged_note.row)
    key = "deidentify_row_named" if is_revealed() else "deidentify_row"
    draw_remark(say, key, row=tagged_note.row, name=tagged_note.document.doc_id)

    def correct(wish: Wish, is_everywhere: bool) -> int:
        n_notes = correct_set(
            tagged, wish, number=number, user=identify_person(), is_everywhere=is_everywhere
        )
        log_action(
            "ran", kind="correction", run=tagged.tagged_id, row=tagged_note.row, n_notes=n_notes
        )
        return n_notes

    def undo() -> None:
        undo_correction(tagged, number, user=identify_person())
        log_action("ran", kind="undone-correction", run=tagged.tagged_id, row=tagged_note.row)

    def count(wish: Wish, is_everywhere: bool) -> tuple[int, int]:
        corrections = plan_corrections(
            tagged, wish, number=number, user=identify_person(), is_everywhere=is_everywhere
        )
        return sum(len(correction.spans) for correction in corrections), len(corrections)

    scopes = SCOPES if tagged.n_notes > 1 else SCOPES[:-1]
    desk = Desk(scopes, correct, undo, count) if is_revealed() else None
    draw_note(say, tagged_note, key="deidentify_note", desk=desk)


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
        text = ask_line(say, "deidentify_search", max_chars=200)
    hits = cached.hits(tagged, text=text) if text else None
    numbers: list[int] = choose_notes(index, only=only, hits=hits, corrections=corrections).tolist()
    if not numbers:
        return None
    number_text = st.query_params.get("note", "")
    note_number = (
        int(number_text) - 1
        if number_text.isascii() and number_text.isdigit() and len(number_text) < 10
        else 0
    )
    place = min(bisect_left(numbers, note_number), len(numbers) - 1)
    _go_to_note(numbers[place])
    if len(numbers) > 1:
        _draw_steps(say, numbers, place=place)
    return numbers[place]


def _draw_steps(say: Words, numbers: Sequence[int], *, place: int) -> None:
    """Draw the steps to the previous note, the next one, or any other of the list."""
    st.session_state[_NUMBER] = place + 1
    with st.container(horizontal=True, vertical_alignment="bottom", key="deidentify_steps"):
        draw_button(
            say,
            "deidentify_before",
            is_disabled=not place,
            on_click=lambda: _go_to_note(numbers[place - 1]),
        )
        st.number_input(
            say.text("deidentify_number", n=f"{len(numbers):,}"),
            min_value=1,
            max_value=len(numbers),
            step=1,
            key=_NUMBER,
            width=260,
            on_change=lambda: _go_to_note(numbers[int(st.session_state[_NUMBER]) - 1]),
        )
        is_last = place == len(numbers) - 1
        draw_button(
            say,
            "deidentify_next",
            is_disabled=is_last,
            on_click=lambda: _go_to_note(numbers[place + 1]),
        )


def _go_to_note(number: int) -> None:
    st.query_params["note"] = str(number + 1)


draw_page("deidentify", draw, draw_beside=draw_tabs)
