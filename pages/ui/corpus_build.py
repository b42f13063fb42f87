"""A new corpus in four steps: a file of notes, a look at it, the settings, the button."""

from __future__ import annotations

import streamlit as st

from audit.corpus.kept import KINDS
from audit.corpus.make import MAX_CANARIES, CorpusTask
from audit.corpus.preview import Survey
from audit.errors import AuditError
from audit.models.registry import RegisteredModel
from audit.notes.read import EXAMPLE, VARIABLE, NoteFile
from audit.shelf import MAX_TITLE_CHARS
from pages.ui import blocks, cached, corpus_choice
from pages.ui.blocks import refused, step
from pages.ui.cached import Columns
from pages.ui.corpus_job import start
from pages.ui.corpus_look import draw_look
from pages.ui.language import Words
from pages.ui.setup_choice import model_name

CANARY_COUNTS = (1, 2, 4, 8, 16, 32)
USUAL_COUNTS = (1, 2, 4, 8)
_MAX_SEED = 2**31 - 1


def ask_order(
    say: Words,
    file: NoteFile,
    *,
    columns: Columns,
    survey: Survey,
    files: tuple[NoteFile, ...],
) -> CorpusTask | None:
    """Draw the settings; None while one that is needed is missing.

    Raises
    ------
    AuditError
        If two choices do not go together.
    """
    place = st.empty()
    left, right = st.columns(2, gap="large")
    with left:
        kind = _ask_kind(say, file, survey)
        register = _ask_register(say, file, files) if kind == "register" else None
        title = st.text_input(
            say.text("corpus_title_field"),
            key="corpus_title",
            max_chars=MAX_TITLE_CHARS,
            help=say.text("corpus_title_help"),
            persist_state="session",
        )
        seed = _number(say, "seed", low=0, high=_MAX_SEED, usual=0)
    with right:
        counts, n_canaries = _ask_canaries(say)
        sample = _ask_sample(say)
        has_left = st.toggle(
            say.text("corpus_left_context"),
            key="corpus_left_context",
            help=say.text("corpus_left_context_help"),
            persist_state="session",
        )
    tokenizer = _ask_more(say)
    is_ready = kind == "dummy" or register is not None
    state = say.text("setup_ready" if is_ready else "setup_missing")
    with place.container():
        step("3", say.text("corpus_step_settings"), is_ready=is_ready, state=state)
    if not is_ready:
        return None
    return CorpusTask(
        notes=file.path,
        columns=columns,
        register_file=register.path if register else None,
        seed=seed,
        title=title or "",
        sample=sample,
        canary_counts=counts,
        n_canaries=n_canaries,
        has_left=has_left,
        tokenizer=tokenizer.path if tokenizer else None,
    )


def draw_start(say: Words, order: CorpusTask) -> None:
    """Draw the button that starts the job."""
    st.html(blocks.heading("", below=say.text(f"corpus_build_below_{order.kind}")))
    if not st.button(
        say.text("corpus_build"), key="corpus_build", type="primary", icon=":material/play_arrow:"
    ):
        return
    try:
        start(order)
    except AuditError as error:
        refused(say, error)
        return
    st.rerun()


def chosen_register(files: tuple[NoteFile, ...]) -> NoteFile | None:
    """Return the register that was chosen before this run of the page."""
    code = st.session_state.get("corpus_register", "")
    return next((one for one in files if corpus_choice.code_of(one) == code), None)


def _ask_kind(say: Words, file: NoteFile, survey: Survey) -> str:
    kind = st.radio(
        say.text("corpus_names_from"),
        KINDS,
        index=0 if survey.categories else 1,
        format_func=lambda code: say.text(f"corpus_names_from_{code}"),
        captions=[say.text(f"corpus_names_from_{code}_help") for code in KINDS],
        key=f"corpus_kind_{corpus_choice.code_of(file)}",
    )
    if kind == "dummy" and not survey.categories:
        st.html(blocks.heading("", below=say.text("corpus_no_placeholders")))
    return kind or KINDS[0]


def _ask_register(say: Words, file: NoteFile, files: tuple[NoteFile, ...]) -> NoteFile | None:
    tables = {
        corpus_choice.code_of(one): one
        for one in files
        if one.kind == "csv" and one.file_id not in (file.file_id, EXAMPLE)
    }
    code = st.selectbox(
        say.text("corpus_register"),
        list(tables),
        index=None,
        format_func=lambda code: corpus_choice.file_name(say, tables[code]),
        key="corpus_register",
        placeholder=say.text("setup_choose"),
        help=say.text("corpus_register_help"),
    )
    return tables.get(code or "")


def _ask_canaries(say: Words) -> tuple[tuple[int, ...], int]:
    if not st.toggle(
        say.text("corpus_canaries"), key="corpus_canaries", help=say.text("corpus_canaries_help"),
        persist_state="session",
    ):  # fmt: skip
        return (), 0
    counts = st.pills(
        say.text("corpus_canary_counts"),
        CANARY_COUNTS,
        selection_mode="multi",
        default=USUAL_COUNTS,
        key="corpus_canary_counts",
    )
    n = _number(say, "n_canaries", low=1, high=MAX_CANARIES, usual=10)
    chosen = tuple(sorted(counts))
    below = say.text("corpus_canaries_need", n=f"{n * sum(chosen):,}")
    st.html(blocks.heading("", below=below if chosen else say.text("corpus_canary_counts_none")))
    return chosen, n


def _ask_sample(say: Words) -> int | None:
    if not st.toggle(
        say.text("corpus_sample"), key="corpus_sample", help=say.text("corpus_sample_help"),
        persist_state="session",
    ):  # fmt: skip
        return None
    return _number(say, "n_sample", low=1, high=100_000_000, usual=1_000_000)


def _ask_more(say: Words) -> RegisteredModel | None:
    with st.expander(say.text("corpus_more"), key="corpus_more"):
        models = {one.model_id: one for one in cached.models() if not one.refusal}
        code = st.selectbox(
            say.text("corpus_tokenizer"),
            list(models),
            index=None,
            format_func=lambda model_id: model_name(say, model_id, among=cached.models()),
            key="corpus_tokenizer",
            placeholder=say.text("corpus_tokenizer_none"),
            help=say.text("corpus_tokenizer_help"),
        )
    return models.get(code or "")


def _number(say: Words, field: str, *, low: int, high: int, usual: int) -> int:
    return int(
        st.number_input(
            say.text(f"corpus_number_{field}"),
            min_value=low,
            max_value=high,
            value=usual,
            step=1,
            key=f"corpus_number_{field}",
            help=say.text(f"corpus_number_{field}_help"),
        )
    )


def draw_build(say: Words) -> None:
    """Draw the steps; each appears once the one before it is done."""
    files = cached.note_files()
    draw_folders(say, files)
    with st.container(border=True, key="corpus_card_file"):
        chosen = draw_file(say, files)
    if chosen is None:
        return
    file, columns = chosen
    try:
        with st.container(border=True, key="corpus_card_look"):
            found = draw_look(say, file, columns=columns, register=chosen_register(files))
        with st.container(border=True, key="corpus_card_settings"):
            order = ask_order(say, file, columns=columns, survey=found, files=files)
    except AuditError as error:
        refused(say, error)
        return
    if order is not None:
        draw_start(say, order)


def draw_folders(say: Words, files: tuple[NoteFile, ...]) -> None:
    """Say where notes are looked for, if no folder is registered or none of them has notes."""
    if any(file.file_id != EXAMPLE for file in files):
        return
    st.html(blocks.heading(say.text("corpus_no_folder"), below=say.text("corpus_no_folder_do")))
    st.code(f"{VARIABLE}=DIR python -m streamlit run app.py", language="bash")
    example = next((file for file in files if file.file_id == EXAMPLE), None)
    if example and st.button(
        say.text("corpus_try_example"), key="corpus_try_example", icon=":material/science:"
    ):
        corpus_choice.choose_file(example)
        st.rerun()


def draw_file(say: Words, files: tuple[NoteFile, ...]) -> tuple[NoteFile, Columns] | None:
    """Draw the choice of a file and of its columns; None until both are clear."""
    place = st.empty()
    st.html(blocks.heading("", below=say.text("corpus_file_below")))
    file = corpus_choice.file(say, files)
    columns = None
    try:
        if file:
            columns = corpus_choice.columns(say, file, cached.note_columns(file))
    except AuditError as error:
        refused(say, error)
    state = say.text("setup_ready" if columns is not None else "setup_missing")
    with place.container():
        step("1", say.text("corpus_step_file"), is_ready=columns is not None, state=state)
    return None if file is None or columns is None else (file, columns)
