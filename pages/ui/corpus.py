"""The Workshop's corpora: the content of a kept corpus, its uses, and a new build."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

import streamlit as st

from audit.corpus.candidate_lists import (
    CONTROLS,
    MEMBERS,
    ROLES,
    default_controls,
    keep_lists,
    read_list,
    select_passages,
)
from audit.corpus.corpora import CORPORA, KINDS, KeptCorpus, refused_rows
from audit.corpus.examine import (
    CategoryCount,
    CountTable,
    Examination,
    MentionCoverage,
    compare_with_paper,
)
from audit.corpus.make import MAX_CANARIES, CorpusTask
from audit.corpus.preview import GROUPS, Survey, group_of, preview
from audit.corpus.truth import NoteTruth
from audit.errors import AuditError, render_message
from audit.home import list_registered_folders
from audit.models.registry import find_model
from audit.names.files import encode_names_csv
from audit.notes.read import EXAMPLE, VARIABLE, NoteFile
from audit.patients.register import REGISTER_ENDINGS
from audit.report.documents import Hit
from audit.stats import MIN_CONTROLS
from audit.tables import UNDEFINED, RowNote
from audit.task import Columns
from audit.training.trainings import find_pair, find_trained_model
from audit.words import Words
from pages.ui import blocks, cached, charts, display_names
from pages.ui.access import is_revealed, log_action, may_or_explain, name_form
from pages.ui.blocks import Figures, draw_refusal, format_moment, format_percent
from pages.ui.charts import Axis, Series
from pages.ui.form import (
    ButtonKind,
    ask_line,
    choose,
    choose_kept,
    draw_button,
    draw_toggle,
    pick,
    set_pick,
)
from pages.ui.note_text import MarkLabel, note_box, note_html, note_plain
from pages.ui.running import FollowedJobs
from pages.ui.section import (
    Column,
    Content,
    Table,
    attempt,
    draw_absence,
    draw_facts,
    draw_figure,
    draw_file_button,
    draw_heading,
    draw_remark,
    draw_removal,
    draw_step_card,
    draw_table,
    make_table,
)
from pages.ui.state import go_to

CANARY_COUNTS, USUAL_COUNTS = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8)
FIELDS = ("text", "patient_id", "admission_id", "chart_time", "category", "note_id")
"""Fields of a note, the most important first."""
_MAX_CHARS, _MAX_ROWS, _MAX_REFUSED, _MAX_SEED = 4000, 200, 20, 2**31 - 1


def _show_result(say: Words, corpus_id: str) -> None:
    st.query_params["corpus"] = corpus_id
    st.query_params.pop("show", None)
    draw_heading(say, "corpus_built")


JOBS = FollowedJobs(kind=CorpusTask.job, page="corpus", on_done=_show_result)


def draw(say: Words) -> None:
    """Draw the corpus that the link names, or the newest, or the form of a new one."""
    draw_remark(say, "corpus_below")
    is_building, corpora = JOBS.draw(say), {corpus.corpus_id: corpus for corpus in CORPORA.all()}
    if is_building:
        draw_remark(say, "corpus_building")
        return
    if not corpora:
        draw_absence(say, "corpus_empty")
    if not corpora or choose(say, "corpus_view", ("kept", "build"), parameter="show") == "build":
        if (task := draw_build(say)) is not None:
            JOBS.start(task.question(), seed=task.seed)
            st.rerun()
        return
    names = {
        corpus_id: display_names.corpus_name(say, corpus) for corpus_id, corpus in corpora.items()
    }
    code = choose_kept(say, "corpus_kept", names, parameter="corpus")
    try:
        examination = cached.examination(corpora[code])
        draw_report(say, corpora[code], examination)
        draw_onward(say, corpora[code], examination)
    except AuditError as error:  # a corpus with a damaged file can still be removed
        draw_refusal(say, error)
    draw_removal(say, "corpus_forget", lambda: CORPORA.forget(code), leaves="corpus")


# The counts.


def draw_report(say: Words, corpus: KeptCorpus, examination: Examination) -> None:
    """Draw all counts of a corpus."""
    title = corpus.title or corpus.source
    st.html(blocks.heading(title, below=say.text(f"corpus_is_{corpus.kind}")))
    n_unknown = sum(category.n for category in examination.unknown) + examination.n_malformed
    n_inserted = sum(category.n for category in examination.inserted)
    n_patients = (
        f"{examination.n_patients:,}" if examination.n_patients else say.text("corpus_no_patients")
    )
    with st.container(key="corpus_facts"):
        draw_facts(
            say,
            "corpus_facts",
            {
                "source": corpus.source,
                "built": format_moment(corpus.created),
                "seed": str(corpus.seed),
                "notes": f"{examination.n_notes:,}",
                "patients": n_patients,
                **({"held_out": f"{corpus.n_held_out:,}"} if corpus.n_held_out else {}),
                **({"inserted": f"{n_inserted:,}"} if corpus.kind == "dummy" else {}),
                "unknown": f"{n_unknown:,}",
                "refused": f"{examination.n_refused:,}",
            },
        )
    st.html(blocks.figure_cards(_cards(say, examination)))
    parts = ("coverage", "tables", "names", "left")
    coverage, tables, names, left = st.tabs([say.text(f"corpus_part_{part}") for part in parts])
    with coverage:
        draw_coverage(say, examination.coverage)
    with tables:
        draw_remark(say, "corpus_tables_below")
        draw_counts(say, examination.pattern_table, which="patterns")
        draw_counts(say, examination.mention_table, which="mentions")
    with names:
        draw_names(say, examination)
    with left:
        draw_left(say, corpus, examination)


def _cards(say: Words, examination: Examination) -> list[Figures]:
    coverage = examination.coverage

    def make_card(key: str, n_main: int, extra_key: str, n_extra: int, **counts: int) -> Figures:
        text = say.text(f"corpus_card_{key}_of", **{name: f"{n:,}" for name, n in counts.items()})
        comparisons = ((say.text(f"corpus_card_{extra_key}"), f"{n_extra:,}"),)
        return Figures(say.text(f"corpus_card_{key}"), f"{n_main:,}", text, comparisons)

    return [
        make_card(
            "mentions",
            coverage.n_mentions,
            "full",
            coverage.n_full,
            n=coverage.n_notes_with_mention,
            of=coverage.n_notes,
        ),
        make_card(
            "elsewhere",
            coverage.n_elsewhere,
            "beside_age",
            coverage.n_true_names_mentioned,
            of=coverage.n_true_names,
        ),
        make_card(
            "positives",
            examination.n_positives,
            "not_one_token",
            examination.n_not_one_token,
            patterns=examination.n_patterns,
            mentions=examination.n_occurrences,
        ),
    ]


def draw_coverage(say: Words, coverage: MentionCoverage) -> None:
    """Draw the mentions that were found by form, and the ages that were left, with reasons."""
    forms = [(say.text(f"corpus_form_{form}"), n) for form, n in coverage.by_form]
    forms.append((say.text("corpus_all"), coverage.n_mentions))
    reasons = [(say.text(f"corpus_reason_{code}"), n) for code, n in coverage.by_reason]
    left, right = st.columns(2, gap="large")
    with left:
        draw_heading(say, "corpus_forms")
        draw_table(say, "corpus_forms", Table(("form", "mentions"), forms))
    with right:
        draw_heading(say, "corpus_reasons")
        draw_table(say, "corpus_reasons", Table(("reason", "ages"), reasons))
    if coverage.n_by_role:
        roles = [(role_name(say, role), n) for role, n in coverage.n_by_role]
        roles.append((say.text("corpus_of_nobody"), coverage.n_of_nobody))
        draw_table(say, "corpus_roles", Table(("whose", "mentions"), roles))


def draw_counts(say: Words, table: CountTable, *, which: str) -> None:
    """Draw table 3 or 4 of the paper beside the counts of this corpus."""
    view, key, count = (
        compare_with_paper(table, which=which),
        f"corpus_table_{which}",
        "corpus_axis_",
    )
    draw_heading(say, key)
    if not view.bins:
        draw_remark(say, "corpus_no_names")
        return
    labels = [label for label, *_ in view.bins]
    chart = charts.plot(
        [
            Series(
                say.text(name),
                labels,
                [100 * shares[place] for _, *shares in view.bins],
                form="bars",
                is_attack=place == 0,
                hover="%{x}: %{y:.1f} %",
            )
            for place, name in enumerate(("corpus_this", "corpus_paper"))
        ],
        x=Axis(say.text(f"{count}{which}"), has_grid=False),
        y=Axis(say.text("corpus_axis_share"), suffix=" %"),
        height=300,
    ).update_xaxes(type="category")
    counts, own_counts, paper_counts = map(list, zip(*view.rows, strict=True))
    columns: dict[Column, list[Content]] = {
        ("", f"{count}{which}"): [*counts, say.text("corpus_all")]
    }
    for group, names, n in (
        ("corpus_this", own_counts, view.n_names),
        ("corpus_paper", paper_counts, view.n_paper_names),
    ):
        columns[group, "n"] = [*names, n]
        columns[group, "share"] = [*(format_percent(n_in_bin / n) for n_in_bin in names), ""]
    draw_figure(say, key, chart, table=make_table(columns))
    draw_remark(
        say,
        "corpus_table_caption",
        n=f"{view.n_names:,}",
        total=f"{view.n_total:,}",
        n_paper=f"{view.n_paper_names:,}",
        total_paper=f"{view.n_paper_total:,}",
    )


def draw_names(say: Words, examination: Examination) -> None:
    """Draw the candidate list by kind and role, the canaries, and how many people share a name."""
    draw_heading(say, "corpus_list")
    kind_keys = {"matched": "corpus_matched", "": "kind_member"}
    draw_table(
        say,
        "corpus_list",
        {
            "kind": [
                say.text(
                    "kind_planted"
                    if not row.control_kind and row.role == "canary"
                    else kind_keys.get(row.control_kind, f"kind_{row.control_kind}")
                )
                for row in examination.candidates
            ],
            "role": [role_name(say, row.role) for row in examination.candidates],
            "n": [row.n for row in examination.candidates],
        },
    )
    if examination.n_listed_positives < examination.n_positives:
        k, n = f"{examination.n_listed_positives:,}", f"{examination.n_positives:,}"
        draw_remark(say, "corpus_list_drawn", k=k, n=n)
    if examination.held_out is not None:
        draw_heading(say, "corpus_held_out")
        counts = examination.held_out.plain()
        count_names = [say.text(f"corpus_held_out_{field}") for field in counts]
        columns: dict[str, Sequence[Content]] = {
            "counted": count_names,
            "n": list(counts.values()),
        }
        draw_table(say, "corpus_held_out", columns)
    if examination.canaries:
        draw_heading(say, "corpus_planted")
        rows = [(count, n, n) for count, n in examination.canaries]
        draw_table(say, "corpus_canaries", Table(("mentions", "planted", "twins"), rows))
    tables = {role_name(say, role): dict(table) for role, table in examination.carriers}
    if numbers := sorted({n for table in tables.values() for n in table if n})[:_MAX_ROWS]:
        draw_heading(say, "corpus_carriers")
        carriers: dict[str, list[int]] = {"people": numbers}
        carriers |= {role: [table.get(n, 0) for n in numbers] for role, table in tables.items()}
        draw_table(say, "corpus_carriers", carriers)


def draw_left(say: Words, corpus: KeptCorpus, examination: Examination) -> None:
    """Draw inserted values by category, unknown placeholders, and refused rows."""
    if corpus.kind == "dummy":
        is_all = not examination.unknown and not examination.n_malformed
        draw_heading(say, "corpus_unknown", below="corpus_unknown_none" if is_all else "")
        if examination.n_malformed:
            draw_remark(say, "corpus_malformed", n=f"{examination.n_malformed:,}")
        if examination.unknown:
            _draw_categories(say, examination.unknown, variant="unknown")
        with st.expander(
            say.text("corpus_inserted", n=len(examination.inserted)), key="corpus_inserted"
        ):
            _draw_categories(say, examination.inserted, variant="inserted")
    n = examination.n_refused
    draw_heading(say, "corpus_refused", below="" if n else "corpus_refused_none", n=f"{n:,}")
    if n:
        _draw_refused(say, refused_rows(corpus.path, limit=_MAX_ROWS), n=n)


def _draw_refused(say: Words, rows: Iterable[RowNote], *, n: int) -> None:
    cells = [(row_note.row, render_message(row_note.what, say.language)) for row_note in rows]
    table = Table(("row", "remark"), cells)
    draw_table(say, "corpus_refused", table, shown=len(cells), n=f"{n:,}")


def _draw_categories(say: Words, counts: Sequence[CategoryCount], *, variant: str) -> None:
    """Draw categories as they are written, their replacements, and their first rows."""
    names, is_shown = cached.list_finder(None), is_revealed()
    rows = [
        (
            note_plain(count.category, names=names, is_shown=is_shown),
            say.text(f"corpus_value_{count.kind}"),
            count.n,
            count.first_row,
        )
        for count in counts[:_MAX_ROWS]
    ]
    table = Table(("category", "value", "times", "first"), rows)
    with st.container(key=f"corpus_categories_{variant}"):
        # A category is text of notes.
        draw_table(
            say,
            "corpus_categories",
            table,
            variant=variant,
            names=name_form(),
            shown=len(rows),
            n=len(counts),
        )


def role_name(say: Words, role: str) -> str:
    """Return a role's display name; an unknown role is returned as it is (untrusted text)."""
    role_key = f"corpus_role_{role}"
    return say.text(role_key) if role_key in say.sentences else role or UNDEFINED


# The uses: a training, an audit, files.


def draw_onward(say: Words, corpus: KeptCorpus, examination: Examination) -> None:
    """Draw the uses of a corpus: a training, an audit, files."""
    draw_heading(say, "corpus_onward")
    if not may_or_explain("ran", say):
        return
    left, right = st.columns(2, gap="large")
    main_kind: ButtonKind = "primary"
    other_kind: ButtonKind = "secondary"
    if find_trained_model(corpus.corpus_id) is not None:
        main_kind, other_kind = other_kind, main_kind
    with left, st.container(border=True, key="corpus_card_train"):
        draw_heading(say, "corpus_train")
        if draw_button(
            say,
            "corpus_train_go",
            kind=main_kind,
            icon="model_training",
        ):
            go_to("workshop", tab="training", corpus=corpus.corpus_id)
    with right, st.container(border=True, key="corpus_card_audit"):
        draw_heading(say, "corpus_audit")
        available = {
            candidate.control_kind or candidate.role
            for candidate in examination.candidates
            if candidate.n
        }
        chosen: dict[str, tuple[str, ...]] = {}
        for which, options, default_codes in (
            ("roles", MEMBERS, ROLES),
            ("controls", CONTROLS, default_controls(corpus)),
        ):
            chosen[which] = _choose_codes(
                say, which, [code for code in options if code in available], default_codes
            )
        if missing := next((which for which, codes in chosen.items() if not codes), None):
            draw_remark(say, f"corpus_{missing}_none")
            return
        if draw_button(
            say,
            "corpus_audit_go",
            kind=other_kind,
            icon="arrow_forward",
        ):
            to_audit(say, corpus, roles=chosen["roles"], controls=chosen["controls"])
        _draw_files(say, corpus, **chosen)


def _choose_codes(
    say: Words, which: str, available: list[str], default_codes: Collection[str]
) -> tuple[str, ...]:
    chosen = st.pills(
        say.text(f"corpus_{which}"),
        available,
        selection_mode="multi",
        default=[code for code in available if code in default_codes],
        format_func=lambda code: say.text(f"corpus_{which}_{code}"),
        key=f"corpus_{which}_{'_'.join(available)}",
        help=say.text(f"corpus_{which}_help"),
    )
    return tuple(code for code in available if code in chosen)


def to_audit(
    say: Words,
    corpus: KeptCorpus,
    *,
    controls: tuple[str, ...] | None = None,
    roles: tuple[str, ...] = ROLES,
    models: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Keep a corpus's list and passages, and open a new audit of them.

    `models` are the identifiers of "general" and "hospital"; the default is the newest model that
    was trained on the corpus, if there is one.
    """
    with st.spinner(say.text("corpus_keeping")):
        list_digests = attempt(
            say, lambda: keep_lists(corpus, controls=controls, roles=roles, store=cached.store())
        )
    if list_digests is None:
        return
    if not models and (model := find_trained_model(corpus.corpus_id)) is not None:
        models = find_pair(model, models=cached.models())
    go_to("audit", names=list_digests[0], passages=list_digests[1], **models)


def _draw_files(
    say: Words, corpus: KeptCorpus, *, controls: tuple[str, ...], roles: tuple[str, ...]
) -> None:
    """Draw the files for download; files with real names need a reveal."""
    with st.expander(say.text("corpus_files"), key="corpus_files"):
        is_hidden = corpus.kind == "register" and not is_revealed()
        draw_remark(say, f"corpus_files_{'hidden' if is_hidden else corpus.kind}")
        for code, form in (("names", "csv"), ("passages", "jsonl")):

            def make(code: str = code) -> bytes:
                candidates = read_list(corpus, controls=controls, roles=roles)
                return (
                    encode_names_csv(candidates)
                    if code == "names"
                    else select_passages(corpus, candidates)
                )

            draw_file_button(
                say,
                f"corpus_file_{code}",
                make,
                form=form,
                label=f"corpus_file_{code}",
                file_kind=f"corpus-{code}",
                name=f"corpus_download_{code}",
                names="full",
                file_name=f"{code}.{form}",
                is_disabled=is_hidden,
            )


# A new corpus in three cards: a file of notes, a look at it, the settings.


def draw_build(say: Words) -> CorpusTask | None:
    """Draw the cards, each after the one before it is ready; return the task of the button."""
    if not may_or_explain("ran", say):
        return None
    files = cached.note_files()
    _draw_folders(say, files)
    with draw_step_card(say, "corpus_step_file", number=1) as is_done:
        file_choice = ask_file(say, files)
        is_done(file_choice is not None)
    if file_choice is None:
        return None
    file, columns = file_choice
    try:
        with draw_step_card(say, "corpus_step_look", number=2) as is_done:
            survey = cached.survey(file, columns=columns)
            is_done(bool(survey.notes))
            tables = {
                display_names.file_code(table_file): table_file
                for table_file in files
                if table_file.kind in REGISTER_ENDINGS
                and table_file.file_id not in (file.file_id, EXAMPLE)
            }
            register = tables.get(st.query_params.get("register", ""))
            _draw_look(say, file, survey, register=register)
        with draw_step_card(say, "corpus_step_settings", number=3) as is_done:
            task = _ask_task(say, file, columns, survey=survey, tables=tables)
            is_done(task is not None)
    except AuditError as error:
        draw_refusal(say, error)
        return None
    if task is None:
        return None
    draw_remark(say, f"corpus_build_below_{task.kind}")
    return task if draw_button(say, "corpus_build", kind="primary", icon="play_arrow") else None


def _draw_folders(say: Words, files: tuple[NoteFile, ...]) -> None:
    """Draw that no folder of notes is registered, or that the folders have no notes."""
    if any(file.file_id != EXAMPLE for file in files):
        return
    folders = list_registered_folders(VARIABLE, reserved=(), unnamed="notes")
    missing = "corpus_folder_gone" if os.environ.get(VARIABLE) else "corpus_no_folder"
    draw_absence(say, "corpus_empty_folder" if folders else missing)
    st.code(f"{VARIABLE}=DIR python -m streamlit run app.py", language="bash")
    if files and draw_button(say, "corpus_try_example", icon="science"):
        set_pick("notes", display_names.file_code(files[0]))
        st.rerun()


def ask_file(say: Words, files: tuple[NoteFile, ...]) -> tuple[NoteFile, Columns] | None:
    """Draw the choice of a file of notes and of its columns; return None until both are clear."""
    draw_remark(say, "corpus_file_below")
    code = pick(say, "corpus_file", display_names.file_names(say, files), parameter="notes")
    file = next(
        (candidate for candidate in files if display_names.file_code(candidate) == code), None
    )
    columns = attempt(say, lambda: _ask_columns(say, file)) if file else None
    return None if file is None or columns is None else (file, columns)


def _ask_columns(say: Words, file: NoteFile) -> Columns | None:
    """Draw the choice of columns; return (field, column) pairs, or None without a text column."""
    source = cached.note_columns(file)
    field_columns = {
        f"corpus_field_{field}": ", ".join(source.columns.get(field, ())) for field in FIELDS
    }
    draw_facts(
        say,
        "corpus_file",
        {
            "kind": say.text(f"corpus_kind_{source.kind}"),
            "size": display_names.size_text(file.n_bytes),
            **{field: names for field, names in field_columns.items() if names},
        },
    )
    if source.kind == "folder":
        return ()
    is_unclear = not source.has_text or not source.columns.get("patient_id")
    if is_unclear:
        draw_remark(say, "corpus_no_patient" if source.has_text else "corpus_no_text")
    chosen = {}
    with st.expander(say.text("corpus_columns"), key="corpus_columns", expanded=is_unclear):
        for field, place in zip(FIELDS, [*st.columns(3), *st.columns(3)], strict=True):
            chosen[field] = place.selectbox(
                say.text(f"corpus_field_{field}"),
                source.headings,
                index=None,
                key=f"corpus_column_{field}_{display_names.file_code(file)}",
                placeholder=say.text("corpus_column_usual"),
            )
    is_clear = source.has_text or chosen["text"]
    return tuple((field, name) for field, name in chosen.items() if name) if is_clear else None


def _draw_look(say: Words, file: NoteFile, survey: Survey, *, register: NoteFile | None) -> None:
    """Draw a survey of a file's first notes: refused rows, categories, one note."""
    n_refused = len(survey.refused)
    draw_remark(say, "corpus_look_below", n=f"{len(survey.notes):,}", refused=f"{n_refused:,}")
    if n_refused:
        with st.expander(say.text("corpus_look_refused", n=n_refused), key="corpus_look_refused"):
            _draw_refused(say, survey.refused[:_MAX_REFUSED], n=n_refused)
    if survey.categories:
        unknown_counts = [count for count in survey.categories if count.kind == "unknown"]
        known_counts = [count for count in survey.categories if count.kind != "unknown"]
        if unknown_counts:
            draw_heading(
                say, "corpus_look_unknown", below="corpus_unknown_below", n=len(unknown_counts)
            )
            _draw_categories(say, unknown_counts, variant="look_unknown")
        with st.expander(
            say.text("corpus_look_known", n=len(known_counts)), key="corpus_look_known"
        ):
            _draw_categories(say, known_counts, variant="look_known")
    elif survey.notes:
        draw_heading(say, "corpus_identified")
    if survey.categories or (survey.notes and is_revealed()):
        _draw_preview(say, file, survey, register=None if survey.categories else register)


def _draw_preview(say: Words, file: NoteFile, survey: Survey, *, register: NoteFile | None) -> None:
    """Draw one note; a note without a placeholder is treated as identified."""
    above = st.container()
    n_notes, code = len(survey.notes), display_names.file_code(file)
    number = st.number_input(
        say.text("corpus_preview_number"),
        min_value=1,
        max_value=n_notes,
        value=1,
        step=1,
        key=f"corpus_preview_number_{code}_{n_notes}",
        width=260,
    )
    note = survey.notes[int(number) - 1]
    seed = int(st.session_state.get("corpus_number_seed", 0))
    finder = None
    if register and (finder := attempt(say, lambda: cached.register_finder(register))) is None:
        return
    truth = preview(note, has_blanks=survey.has_blanks, seed=seed, finder=finder)
    is_identified = not survey.categories or not (truth.inserted or truth.left)
    mode = "register" if register else "raw" if is_identified else "dummy"
    with above:
        if is_identified and not is_revealed():
            draw_heading(say, "corpus_identified_note")
            return
        draw_heading(say, f"corpus_preview_{mode}")
    if is_revealed():  # logged once in a session; a note that cannot be logged is not shown
        logged_rows: set[tuple[str, int]] = st.session_state.setdefault("corpus_notes_shown", set())
        if (file.file_id, note.row) not in logged_rows:
            log_action("revealed", what="note", row=note.row)
            logged_rows.add((file.file_id, note.row))
    _draw_texts(say, truth, mode=mode)


def _draw_texts(say: Words, truth: NoteTruth, *, mode: str) -> None:
    """Draw the texts side by side, with marks by group; draw only one text if none is inserted."""
    places = sorted((*truth.inserted, *truth.left), key=lambda place: place.start)
    groups = [group_of(place.kind, role=place.role) for place in places]
    legend = "".join(
        f'<mark class="ka-mark ka-mark-{group}">{say.html(f"corpus_group_{group}")}</mark> '
        for group in GROUPS
        if group in groups
    )
    ends = [(place.start, place.stop, place.source_start, place.source_stop) for place in places]
    marks = list(zip(ends, groups, strict=True))
    private = truth.private, [Hit(bounds[0], bounds[1], group, ()) for bounds, group in marks]
    public = truth.public, [Hit(bounds[2], bounds[3], group, ()) for bounds, group in marks]
    before_side, after_side = (public, private) if mode == "dummy" else (private, public)
    sides = {"corpus_before": before_side} | (
        {} if mode == "raw" else {f"corpus_after_{mode}": after_side}
    )
    pieces = "".join(
        f"<section><h3>{say.html(title)}</h3>{note_box(_marked_html(say, *side))}</section>"
        for title, side in sides.items()
    )
    legend = f'<p class="ka-legend">{legend}</p>' if legend else ""
    st.html(f'{legend}<div class="ka-pair"><div>{pieces}</div></div>')


def _marked_html(say: Words, text: str, marks: list[Hit]) -> str:
    html = note_html(
        text,
        names=cached.list_finder(None),
        marks=marks,
        max_chars=_MAX_CHARS,
        label=lambda hit: MarkLabel("", hit.part),
        is_clear=lambda hit: hit.part != "unknown",
    )
    n_more = f"{len(text) - _MAX_CHARS:,}"
    ellipsis = f"<small> {say.html('corpus_cut', n=n_more)}</small>"
    return html + ellipsis if len(text) > _MAX_CHARS else html


def _ask_task(
    say: Words, file: NoteFile, columns: Columns, *, survey: Survey, tables: dict[str, NoteFile]
) -> CorpusTask | None:
    """Draw the settings; return None while a register that is needed is missing."""
    left, right = st.columns(2, gap="large")
    register, sample = None, None
    with left:
        kind = st.radio(
            say.text("corpus_names_from"),
            KINDS,
            index=0 if survey.categories else 1,
            format_func=lambda code: say.text(f"corpus_names_from_{code}"),
            captions=[say.text(f"corpus_names_from_{code}_help") for code in KINDS],
            key=f"corpus_kind_{display_names.file_code(file)}",
        )
        if kind == "dummy" and not survey.categories:
            draw_remark(say, "corpus_no_placeholders")
        if kind == "register":
            names = display_names.file_names(say, tuple(tables.values()))
            register = tables.get(pick(say, "corpus_register", names))
        title = ask_line(say, "corpus_title", is_kept=True)
        seed = _number(say, "seed", low=0, high=_MAX_SEED, default=0)
    with right:
        hold_out = _ask_hold_out(say)
        counts, n_canaries = _ask_canaries(say)
        if draw_toggle(say, "corpus_sample", is_kept=True):
            sample = _number(say, "n_sample", low=1, high=100_000_000, default=1_000_000)
        has_left = draw_toggle(say, "corpus_left_context", is_kept=True)
    with st.expander(say.text("corpus_more"), key="corpus_more"):
        models = cached.models()
        model = find_model(
            pick(say, "corpus_tokenizer", display_names.model_names(say, models)), models=models
        )
    if kind == "register" and register is None:
        return None
    return CorpusTask(
        notes=file.path,
        columns=columns,
        register_file=register.path if register else None,
        seed=seed,
        title=title,
        sample=sample,
        canary_counts=counts,
        n_canaries=n_canaries,
        has_left=has_left,
        tokenizer=model.path if model else None,
        hold_out=hold_out,
    )


def _ask_hold_out(say: Words) -> str:
    """Draw how many people are held out; return the value for the task, "" for nobody."""
    if not draw_toggle(say, "corpus_hold_out", is_kept=True):
        return ""
    unit = st.radio(
        say.text("corpus_hold_out_by"),
        ("people", "share"),
        format_func=lambda code: say.text(f"corpus_hold_out_by_{code}"),
        key="corpus_hold_out_by",
    )
    if unit == "share":
        return f"{_number(say, 'held_out_percent', low=1, high=99, default=10)}%"
    return str(_number(say, "held_out_people", low=1, high=1_000_000, default=MIN_CONTROLS))


def _ask_canaries(say: Words) -> tuple[tuple[int, ...], int]:
    if not draw_toggle(say, "corpus_canaries", is_kept=True):
        return (), 0
    counts = st.pills(
        say.text("corpus_canary_counts"),
        CANARY_COUNTS,
        selection_mode="multi",
        default=USUAL_COUNTS,
        key="corpus_canary_counts",
    )
    n = _number(say, "n_canaries", low=1, high=MAX_CANARIES, default=10)
    key = "corpus_canaries_need" if counts else "corpus_canary_counts_none"
    draw_remark(say, key, n=f"{n * sum(counts):,}")
    return tuple(sorted(counts)), n


def _number(say: Words, field: str, *, low: int, high: int, default: int) -> int:
    key = f"corpus_number_{field}"
    return int(
        st.number_input(
            say.text(key),
            min_value=low,
            max_value=high,
            value=default,
            step=1,
            key=key,
            help=say.text(f"{key}_help"),
        )
    )
