"""A new corpus in three cards: a file of notes, a look at it, the settings; then the button."""

from __future__ import annotations

import os
from collections.abc import Sequence

import streamlit as st

from audit.corpus.examine import CategoryCount
from audit.corpus.kept import KINDS
from audit.corpus.make import MAX_CANARIES, CorpusTask
from audit.corpus.preview import GROUPS, Survey, group_of, preview
from audit.corpus.truth import NoteTruth, Place
from audit.errors import AuditError, written
from audit.home import registered_folders
from audit.notes.read import EXAMPLE, VARIABLE, NoteFile
from audit.report.documents import Hit
from audit.shelf import MAX_TITLE_CHARS
from audit.words import Words
from pages.ui import cached, called
from pages.ui.access import is_revealed, may, may_or_say, note
from pages.ui.blocks import MarkLabel, escaped, marked, refused
from pages.ui.cached import Columns
from pages.ui.form import pick, take
from pages.ui.section import Table, attempt, card, draw_table, empty, facts, head, remark

CANARY_COUNTS, USUAL_COUNTS = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8)
FIELDS = ("text", "patient_id", "admission_id", "chart_time", "category", "note_id")
"""Fields of a note in the order in which they matter."""
_MAX_CHARS, _MAX_CATEGORIES, _MAX_REFUSED, _MAX_SEED = 4000, 200, 20, 2**31 - 1


def draw_build(say: Words) -> CorpusTask | None:
    """Draw the cards, each once the one before is done; return what is asked at the button."""
    if not may_or_say("ran", say):
        return None
    files = cached.note_files()
    _draw_folders(say, files)
    with card(say, "corpus_step_file", number=1) as is_done:
        found = ask_file(say, files)
        is_done(found is not None)
    if found is None:
        return None
    file, columns = found
    try:
        with card(say, "corpus_step_look", number=2) as is_done:
            survey = cached.survey(file, columns=columns)
            is_done(bool(survey.notes))
            tables = {
                called.file_code(one): one for one in files
                if one.kind == "csv" and one.file_id not in (file.file_id, EXAMPLE)
            }  # fmt: skip
            chosen = st.query_params.get("register", "")
            _draw_look(say, file, survey, register=tables.get(chosen))
        with card(say, "corpus_step_settings", number=3) as is_done:
            task = _ask_task(say, file, columns, survey=survey, tables=tables)
            is_done(task is not None)
    except AuditError as error:
        refused(say, error)
        return None
    if task is None:
        return None
    remark(say, f"corpus_build_below_{task.kind}")
    is_asked = st.button(
        say.text("corpus_build"), key="corpus_build", type="primary", icon=":material/play_arrow:"
    )
    return task if is_asked else None


def _draw_folders(say: Words, files: tuple[NoteFile, ...]) -> None:
    """Say where notes are looked for: no folder is registered, or none of them has notes."""
    if any(file.file_id != EXAMPLE for file in files):
        return
    folders = registered_folders(VARIABLE, taken="", unnamed="notes")
    missing = "corpus_folder_gone" if os.environ.get(VARIABLE) else "corpus_no_folder"
    empty(say, "corpus_empty_folder" if folders else missing)
    st.code(f"{VARIABLE}=DIR python -m streamlit run app.py", language="bash")
    example = next((file for file in files if file.file_id == EXAMPLE), None)
    if example and st.button(
        say.text("corpus_try_example"), key="corpus_try_example", icon=":material/science:"
    ):
        take("notes", called.file_code(example))
        st.rerun()


def ask_file(say: Words, files: tuple[NoteFile, ...]) -> tuple[NoteFile, Columns] | None:
    """Draw the choice of a file of notes and of its columns; None until both are clear."""
    remark(say, "corpus_file_below")
    code = pick(say, "notes", called.file_names(say, files), label=say.text("corpus_file"))
    file = next((one for one in files if called.file_code(one) == code), None)
    try:
        columns = _ask_columns(say, file) if file else None
    except AuditError as error:
        refused(say, error)
        return None
    return None if file is None or columns is None else (file, columns)


def _ask_columns(say: Words, file: NoteFile) -> Columns | None:
    """Draw which column is which, as (field, its name); None while the notes' is not clear.

    Raises
    ------
    AuditError
        If the file cannot be read.
    """
    found = cached.note_columns(file)
    rows = [
        (say.text("corpus_fact_kind"), say.text(f"corpus_kind_{found.kind}")),
        (say.text("corpus_fact_size"), called.size_text(file.n_bytes)),
    ]
    rows += [
        (say.text(f"corpus_field_{field}"), ", ".join(found.columns[field]))
        for field in FIELDS
        if found.columns.get(field)
    ]
    facts(say, rows, caption=say.text("corpus_file_caption"))
    if found.kind == "folder":
        return ()
    is_unclear = not found.has_text or not found.columns.get("patient_id")
    if is_unclear:
        remark(say, "corpus_no_patient" if found.has_text else "corpus_no_text")
    chosen = []
    with st.expander(say.text("corpus_columns"), key="corpus_columns", expanded=is_unclear):
        for field, place in zip(FIELDS, [*st.columns(3), *st.columns(3)], strict=True):
            name = place.selectbox(
                say.text(f"corpus_field_{field}"), found.headings, index=None,
                key=f"corpus_column_{field}_{called.file_code(file)}",
                placeholder=say.text("corpus_column_usual"),
            )  # fmt: skip
            if name:
                chosen.append((field, name))
    return tuple(chosen) if found.has_text or "text" in dict(chosen) else None


# The look: categories, one note before and after.


def _draw_look(say: Words, file: NoteFile, found: Survey, *, register: NoteFile | None) -> None:
    n_refused = len(found.refused)
    remark(say, "corpus_look_below", n=f"{len(found.notes):,}", refused=f"{n_refused:,}")
    if n_refused:
        with st.expander(say.text("corpus_look_refused", n=n_refused), key="corpus_look_refused"):
            rows = [
                (f"{one.row:,}", written(one.what, say.language))
                for one in found.refused[:_MAX_REFUSED]
            ]
            header = [say.text("corpus_column_row"), say.text("corpus_column_remark")]
            caption = say.text("corpus_refused_caption", shown=len(rows), n=n_refused)
            draw_table(say, "corpus_look_rows", Table(header, rows, n_text=2), caption=caption,
                       has_csv=False)  # fmt: skip
    if not found.notes:
        return
    if not found.categories:
        head(say, "corpus_identified")
        if is_revealed():
            mode = "register" if register else "raw"
            _draw_preview(say, file, found, register=register, mode=mode)
        return
    unknown = [one for one in found.categories if one.kind == "unknown"]
    known = [one for one in found.categories if one.kind != "unknown"]
    if unknown:
        head(say, "corpus_look_unknown", n=len(unknown))
        remark(say, "corpus_unknown_below")
        categories(say, unknown, key="look_unknown")
    with st.expander(say.text("corpus_look_known", n=len(known)), key="corpus_look_known"):
        categories(say, known, key="look_known")
    _draw_preview(say, file, found, register=None, mode="dummy")


def categories(say: Words, counts: Sequence[CategoryCount], *, key: str) -> None:
    """Draw categories as they are written, what stands for them, and where they occur first."""
    rows = [
        (one.category, say.text(f"corpus_value_{one.kind}"), f"{one.n:,}", f"{one.first_row:,}")
        for one in counts[:_MAX_CATEGORIES]
    ]
    header = [say.text(f"corpus_column_{one}") for one in ("category", "value", "times", "first")]
    caption = say.text("corpus_categories_caption", shown=len(rows), n=len(counts))
    with st.container(key=f"corpus_categories_{key}"):
        # What is written there stands in notes.
        draw_table(say, f"corpus_{key}", Table(header, rows, n_text=2), caption=caption,
                   has_csv=may("exported_full"))  # fmt: skip


def _draw_preview(
    say: Words, file: NoteFile, survey: Survey, *, register: NoteFile | None, mode: str
) -> None:
    """Draw one note; all modes but "dummy" show real people."""
    head(say, f"corpus_preview_{mode}")
    n_notes, code = len(survey.notes), called.file_code(file)
    number = st.number_input(
        say.text("corpus_preview_number"), min_value=1, max_value=n_notes, value=1, step=1,
        key=f"corpus_preview_number_{code}_{n_notes}", width=260,
    )  # fmt: skip
    one = survey.notes[int(number) - 1]
    seed = int(st.session_state.get("corpus_number_seed", 0))
    finder = None
    if register and (finder := attempt(say, lambda: cached.finder(register))) is None:
        return
    found = preview(one, has_blanks=survey.has_blanks, seed=seed, finder=finder)
    if mode != "dummy":  # the log has it once a session; what cannot be logged is not shown
        seen: set[tuple[str, int]] = st.session_state.setdefault("corpus_notes_shown", set())
        if (file.file_id, one.row) not in seen:
            note("revealed", what="note", row=one.row)
            seen.add((file.file_id, one.row))
    places = sorted((*found.inserted, *found.left), key=lambda place: place.start)
    groups = {group_of(place.kind, role=place.role) for place in places}
    items = "".join(
        f'<mark class="ka-mark ka-mark-{group}">{say.html(f"corpus_group_{group}")}</mark> '
        for group in GROUPS
        if group in groups
    )
    legend = f'<p class="ka-legend">{items}</p>' if items else ""
    st.html(legend + _both_texts(say, found, places, mode=mode))


def _both_texts(say: Words, found: NoteTruth, places: list[Place], *, mode: str) -> str:
    """Return the texts side by side, as HTML; one alone where nothing is put in or found."""
    private = found.private, [(p.start, p.stop, p) for p in places]
    public = found.public, [(p.source_start, p.source_stop, p) for p in places]
    before, after = (public, private) if mode == "dummy" else (private, public)
    sides = [("corpus_before", *before)]
    if mode != "raw":
        sides.append((f"corpus_after_{mode}", *after))
    pieces = "".join(
        f'<section><h3>{say.html(title)}</h3><p class="ka-document">'
        f"{_marked(say, text, marks)}</p></section>"
        for title, text, marks in sides
    )
    return f'<div class="ka-pair"><div>{pieces}</div></div>'


def _marked(say: Words, text: str, marks: Sequence[tuple[int, int, Place]]) -> str:
    """Return the beginning of a text as HTML, each place marked by its group."""
    within = [mark for mark in marks if mark[1] <= _MAX_CHARS]
    groups = {start: group_of(place.kind, role=place.role) for start, _, place in within}
    shown = marked(
        text[:_MAX_CHARS],
        marks=[Hit(start, end, "full", ()) for start, end, _ in within],
        label=lambda hit: MarkLabel("", groups[hit.start]),
        is_revealed=True,
    )
    if len(text) <= _MAX_CHARS:
        return shown
    rest = escaped(say.text("corpus_cut", n=f"{len(text) - _MAX_CHARS:,}"))
    return f"{shown}<small> {rest}</small>"


# The settings.


def _ask_task(
    say: Words, file: NoteFile, columns: Columns, *, survey: Survey, tables: dict[str, NoteFile]
) -> CorpusTask | None:
    """Draw the settings; None while a register that is needed is missing."""
    left, right = st.columns(2, gap="large")
    with left:
        kind = st.radio(
            say.text("corpus_names_from"), KINDS, index=0 if survey.categories else 1,
            format_func=lambda code: say.text(f"corpus_names_from_{code}"),
            captions=[say.text(f"corpus_names_from_{code}_help") for code in KINDS],
            key=f"corpus_kind_{called.file_code(file)}",
        )  # fmt: skip
        register = None
        if kind == "dummy" and not survey.categories:
            remark(say, "corpus_no_placeholders")
        if kind == "register":
            names = called.file_names(say, tuple(tables.values()))
            code = pick(say, "register", names, label=say.text("corpus_register"),
                        help=say.text("corpus_register_help"))  # fmt: skip
            register = tables.get(code)
        title = st.text_input(
            say.text("corpus_title_field"), key="corpus_title", max_chars=MAX_TITLE_CHARS,
            help=say.text("corpus_title_help"), persist_state="session",
        )  # fmt: skip
        seed = _number(say, "seed", low=0, high=_MAX_SEED, usual=0)
    with right:
        counts, n_canaries = _ask_canaries(say)
        sample = None
        if _toggle(say, "sample"):
            sample = _number(say, "n_sample", low=1, high=100_000_000, usual=1_000_000)
        has_left = _toggle(say, "left_context")
    with st.expander(say.text("corpus_more"), key="corpus_more"):
        model = pick(say, "tokenizer", called.model_names(say, cached.models()),
                     label=say.text("corpus_tokenizer"),
                     help=say.text("corpus_tokenizer_help"))  # fmt: skip
    if kind == "register" and register is None:
        return None
    return CorpusTask(
        notes=file.path, columns=columns, register_file=register.path if register else None,
        seed=seed, title=title or "", sample=sample, canary_counts=counts, n_canaries=n_canaries,
        has_left=has_left,
        tokenizer=next((one.path for one in cached.models() if one.model_id == model), None),
    )  # fmt: skip


def _ask_canaries(say: Words) -> tuple[tuple[int, ...], int]:
    if not _toggle(say, "canaries"):
        return (), 0
    counts = st.pills(
        say.text("corpus_canary_counts"), CANARY_COUNTS, selection_mode="multi",
        default=USUAL_COUNTS, key="corpus_canary_counts",
    )  # fmt: skip
    n, chosen = _number(say, "n_canaries", low=1, high=MAX_CANARIES, usual=10), sorted(counts)
    if chosen:
        remark(say, "corpus_canaries_need", n=f"{n * sum(chosen):,}")
    else:
        remark(say, "corpus_canary_counts_none")
    return tuple(chosen), n


def _toggle(say: Words, field: str) -> bool:
    key = f"corpus_{field}"
    return st.toggle(say.text(key), key=key, help=say.text(f"{key}_help"), persist_state="session")


def _number(say: Words, field: str, *, low: int, high: int, usual: int) -> int:
    key = f"corpus_number_{field}"
    found = st.number_input(
        say.text(key), min_value=low, max_value=high, value=usual, step=1, key=key,
        help=say.text(f"{key}_help"),
    )  # fmt: skip
    return int(found)
