"""The Workshop's corpora: what a kept one holds, the ways on from it, and how to build one."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence

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
from audit.home import registered_folders
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
from pages.ui.access import is_revealed, may_or_say, names_in_files, note
from pages.ui.blocks import Figures, day, percent, refused
from pages.ui.charts import Axis, Series
from pages.ui.form import act, ask_line, choose, choose_kept, pick, take, tick
from pages.ui.note_text import MarkLabel, box, note_html, note_plain
from pages.ui.running import FollowedJobs
from pages.ui.section import (
    Table,
    attempt,
    card,
    draw_table,
    empty,
    facts,
    figure,
    file_button,
    head,
    remark,
    removal,
)
from pages.ui.state import go_to

CANARY_COUNTS, USUAL_COUNTS = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8)
FIELDS = ("text", "patient_id", "admission_id", "chart_time", "category", "note_id")
"""Fields of a note in the order in which they matter."""
_MAX_CHARS, _MAX_ROWS, _MAX_REFUSED, _MAX_SEED = 4000, 200, 20, 2**31 - 1


def _done(say: Words, corpus_id: str) -> None:
    st.query_params["corpus"] = corpus_id
    st.query_params.pop("show", None)
    head(say, "corpus_built")


JOBS = FollowedJobs(kind=CorpusTask.job, page="corpus", on_done=_done)


def draw(say: Words) -> None:
    """Draw the corpus that the link names, or the newest; else how to build one."""
    remark(say, "corpus_below")
    is_building, kept = JOBS.draw(say), {one.corpus_id: one for one in CORPORA.all()}
    if is_building:
        remark(say, "corpus_building")
        return
    if not kept:
        empty(say, "corpus_empty")
    if not kept or choose(say, "corpus_view", ("kept", "build"), what="show") == "build":
        if (task := draw_build(say)) is not None:
            JOBS.start(task.question(), seed=task.seed)
            st.rerun()
        return
    names = {one: display_names.corpus_name(say, corpus) for one, corpus in kept.items()}
    code = choose_kept(say, "corpus_kept", names, what="corpus")
    try:
        found = cached.examination(kept[code])
        draw_report(say, kept[code], found)
        draw_onward(say, kept[code], found)
    except AuditError as error:  # one with a damaged file can be removed
        refused(say, error)
    removal(say, "corpus_forget", lambda: CORPORA.forget(code), leaves="corpus")


# What was counted.


def draw_report(say: Words, corpus: KeptCorpus, found: Examination) -> None:
    """Draw all that was counted in a corpus."""
    title = corpus.title or corpus.source
    st.html(blocks.heading(title, below=say.text(f"corpus_is_{corpus.kind}")))
    n_unknown = sum(one.n for one in found.unknown) + found.n_malformed
    n_inserted = sum(one.n for one in found.inserted)
    n_patients = f"{found.n_patients:,}" if found.n_patients else say.text("corpus_no_patients")
    with st.container(key="corpus_facts"):
        facts(
            say,
            "corpus_facts",
            {
                "source": corpus.source,
                "built": day(corpus.created),
                "seed": str(corpus.seed),
                "notes": f"{found.n_notes:,}",
                "patients": n_patients,
                **({"held_out": f"{corpus.n_held_out:,}"} if corpus.n_held_out else {}),
                **({"inserted": f"{n_inserted:,}"} if corpus.kind == "dummy" else {}),
                "unknown": f"{n_unknown:,}",
                "refused": f"{found.n_refused:,}",
            },
        )
    st.html(blocks.figure_cards(_cards(say, found)))
    parts = ("coverage", "tables", "names", "left")
    coverage, tables, names, left = st.tabs([say.text(f"corpus_part_{part}") for part in parts])
    with coverage:
        draw_coverage(say, found.coverage)
    with tables:
        remark(say, "corpus_tables_below")
        draw_counts(say, found.pattern_table, which="patterns")
        draw_counts(say, found.mention_table, which="mentions")
    with names:
        draw_names(say, found)
    with left:
        draw_left(say, corpus, found)


def _cards(say: Words, found: Examination) -> list[Figures]:
    coverage = found.coverage

    def of(key: str, value: int, beside: str, n_beside: int, **counts: int) -> Figures:
        text = say.text(f"corpus_card_{key}_of", **{one: f"{n:,}" for one, n in counts.items()})
        others = ((say.text(f"corpus_card_{beside}"), f"{n_beside:,}"),)
        return Figures(say.text(f"corpus_card_{key}"), f"{value:,}", text, others)

    return [
        of(
            "mentions",
            coverage.n_mentions,
            "full",
            coverage.n_full,
            n=coverage.n_notes_with_mention,
            of=coverage.n_notes,
        ),
        of(
            "elsewhere",
            coverage.n_elsewhere,
            "beside_age",
            coverage.n_true_names_mentioned,
            of=coverage.n_true_names,
        ),
        of(
            "positives",
            found.n_positives,
            "not_one_token",
            found.n_not_one_token,
            patterns=found.n_patterns,
            mentions=found.n_occurrences,
        ),
    ]


def draw_coverage(say: Words, found: MentionCoverage) -> None:
    """Draw what the mention finder found by form, and which ages it left and why."""
    forms = [(say.text(f"corpus_form_{form}"), n) for form, n in found.by_form]
    forms.append((say.text("corpus_all"), found.n_mentions))
    reasons = [(say.text(f"corpus_reason_{code}"), n) for code, n in found.by_reason]
    left, right = st.columns(2, gap="large")
    with left:
        head(say, "corpus_forms")
        draw_table(say, "corpus_forms", Table(("form", "mentions"), forms))
    with right:
        head(say, "corpus_reasons")
        draw_table(say, "corpus_reasons", Table(("reason", "ages"), reasons))
    if found.n_by_role:
        roles = [(role_name(say, role), n) for role, n in found.n_by_role]
        roles.append((say.text("corpus_of_nobody"), found.n_of_nobody))
        draw_table(say, "corpus_roles", Table(("whose", "mentions"), roles))


def draw_counts(say: Words, table: CountTable, *, which: str) -> None:
    """Draw table 3 or 4 of the paper beside this corpus's."""
    view, key, count = (
        compare_with_paper(table, which=which),
        f"corpus_table_{which}",
        "corpus_axis_",
    )
    head(say, key)
    if not view.bins:
        remark(say, "corpus_no_names")
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
    counts, here, paper = map(list, zip(*view.rows, strict=True))
    columns = {("", f"{count}{which}"): [*counts, say.text("corpus_all")]}
    for group, names, n in (
        ("corpus_this", here, view.n_names),
        ("corpus_paper", paper, view.n_paper_names),
    ):
        columns[group, "n"] = [*names, n]
        columns[group, "share"] = [*(percent(one / n) for one in names), ""]
    figure(say, key, chart, table=columns)
    remark(
        say,
        "corpus_table_caption",
        n=f"{view.n_names:,}",
        total=f"{view.n_total:,}",
        n_paper=f"{view.n_paper_names:,}",
        total_paper=f"{view.n_paper_total:,}",
    )


def draw_names(say: Words, found: Examination) -> None:
    """Draw the candidate list by kind and role, the canaries, and who else carries a name."""
    head(say, "corpus_list")
    listed = {"matched": "corpus_matched", "": "kind_member"}
    draw_table(
        say,
        "corpus_list",
        {
            "kind": [
                say.text(
                    "kind_planted"
                    if not one.control_kind and one.role == "canary"
                    else listed.get(one.control_kind, f"kind_{one.control_kind}")
                )
                for one in found.candidates
            ],
            "role": [role_name(say, one.role) for one in found.candidates],
            "n": [one.n for one in found.candidates],
        },
    )
    if found.n_listed_positives < found.n_positives:
        k, n = f"{found.n_listed_positives:,}", f"{found.n_positives:,}"
        remark(say, "corpus_list_drawn", k=k, n=n)
    if found.held_out is not None:
        head(say, "corpus_held_out")
        counts = found.held_out.plain()
        counted = [say.text(f"corpus_held_out_{what}") for what in counts]
        columns = {"counted": counted, "n": list(counts.values())}
        draw_table(say, "corpus_held_out", columns)
    if found.canaries:
        head(say, "corpus_planted")
        rows = [(count, n, n) for count, n in found.canaries]
        draw_table(say, "corpus_canaries", Table(("mentions", "planted", "twins"), rows))
    tables = {role_name(say, role): dict(table) for role, table in found.carriers}
    if numbers := sorted({n for table in tables.values() for n in table})[:_MAX_ROWS]:
        head(say, "corpus_carriers")
        columns = {role: [table.get(n, 0) for n in numbers] for role, table in tables.items()}
        draw_table(say, "corpus_carriers", {"people": numbers, **columns})


def draw_left(say: Words, corpus: KeptCorpus, found: Examination) -> None:
    """Draw what was inserted by category, what was not understood, and which rows were refused."""
    if corpus.kind == "dummy":
        is_all = not found.unknown and not found.n_malformed
        head(say, "corpus_unknown", below="corpus_unknown_none" if is_all else "")
        if found.n_malformed:
            remark(say, "corpus_malformed", n=f"{found.n_malformed:,}")
        if found.unknown:
            _draw_categories(say, found.unknown, of="unknown")
        with st.expander(say.text("corpus_inserted", n=len(found.inserted)), key="corpus_inserted"):
            _draw_categories(say, found.inserted, of="inserted")
    n = found.n_refused
    head(say, "corpus_refused", below="" if n else "corpus_refused_none", n=f"{n:,}")
    if n:
        _draw_refused(say, refused_rows(corpus.path, limit=_MAX_ROWS), n=n)


def _draw_refused(say: Words, rows: Iterable[RowNote], *, n: int) -> None:
    cells = [(one.row, render_message(one.what, say.language)) for one in rows]
    table = Table(("row", "remark"), cells)
    draw_table(say, "corpus_refused", table, shown=len(cells), n=f"{n:,}")


def _draw_categories(say: Words, counts: Sequence[CategoryCount], *, of: str) -> None:
    """Draw categories as they are written, what stands for them, and where they occur first."""
    names, is_shown = cached.list_finder(None), is_revealed()
    rows = [
        (
            note_plain(one.category, names=names, is_shown=is_shown),
            say.text(f"corpus_value_{one.kind}"),
            one.n,
            one.first_row,
        )
        for one in counts[:_MAX_ROWS]
    ]
    table = Table(("category", "value", "times", "first"), rows)
    with st.container(key=f"corpus_categories_{of}"):
        # What is written there stands in notes.
        draw_table(
            say,
            "corpus_categories",
            table,
            of=of,
            names=names_in_files(),
            shown=len(rows),
            n=len(counts),
        )


def role_name(say: Words, role: str) -> str:
    """Return what a role is called; a role that is not known as it is (untrusted text)."""
    known = f"corpus_role_{role}"
    return say.text(known) if known in say.sentences else role or UNDEFINED


# The ways on: a training, an audit, files.


def draw_onward(say: Words, corpus: KeptCorpus, found: Examination) -> None:
    """Draw the ways on from a corpus."""
    head(say, "corpus_onward")
    if not may_or_say("ran", say):
        return
    left, right = st.columns(2, gap="large")
    kinds = ("primary", "secondary")
    train, audit = kinds if find_trained_model(corpus.corpus_id) is None else reversed(kinds)
    with left, st.container(border=True, key="corpus_card_train"):
        head(say, "corpus_train")
        if act(say, "corpus_train_go", kind=train, icon="model_training"):
            go_to("workshop", tab="training", corpus=corpus.corpus_id)
    with right, st.container(border=True, key="corpus_card_audit"):
        head(say, "corpus_audit")
        there = {one.control_kind or one.role for one in found.candidates if one.n}
        chosen = {}
        for which, options, usual in (
            ("roles", MEMBERS, ROLES),
            ("controls", CONTROLS, default_controls(corpus)),
        ):
            chosen[which] = _some(say, which, [one for one in options if one in there], usual)
        if missing := next((which for which, some in chosen.items() if not some), None):
            remark(say, f"corpus_{missing}_none")
            return
        if act(say, "corpus_audit_go", kind=audit, icon="arrow_forward"):
            to_audit(say, corpus, **chosen)
        _draw_files(say, corpus, **chosen)


def _some(say: Words, which: str, there: list[str], usual: Collection[str]) -> tuple[str, ...]:
    chosen = st.pills(
        say.text(f"corpus_{which}"),
        there,
        selection_mode="multi",
        default=[code for code in there if code in usual],
        format_func=lambda code: say.text(f"corpus_{which}_{code}"),
        key=f"corpus_{which}_{'_'.join(there)}",
        help=say.text(f"corpus_{which}_help"),
    )
    return tuple(code for code in there if code in chosen)


def to_audit(
    say: Words,
    corpus: KeptCorpus,
    *,
    controls: tuple[str, ...] | None = None,
    roles: tuple[str, ...] = ROLES,
    **models: str,
) -> None:
    """Keep list and passages, and go on to a new audit of them.

    `models` are the identifiers of "general" and "hospital"; without them the newest model that was
    trained on the corpus is taken, if there is one.
    """
    with st.spinner(say.text("corpus_keeping")):
        kept = attempt(
            say, lambda: keep_lists(corpus, controls=controls, roles=roles, store=cached.store())
        )
    if kept is None:
        return
    if not models and (model := find_trained_model(corpus.corpus_id)) is not None:
        models = find_pair(model, models=cached.models())
    go_to("audit", names=kept[0], passages=kept[1], **models)


def _draw_files(
    say: Words, corpus: KeptCorpus, *, controls: tuple[str, ...], roles: tuple[str, ...]
) -> None:
    """Draw the files to take away; those with real names only once names are revealed."""
    with st.expander(say.text("corpus_files"), key="corpus_files"):
        is_hidden = corpus.kind == "register" and not is_revealed()
        remark(say, f"corpus_files_{'hidden' if is_hidden else corpus.kind}")
        for code, form in (("names", "csv"), ("passages", "jsonl")):

            def make(code: str = code) -> bytes:
                listed = read_list(corpus, controls=controls, roles=roles)
                return (
                    encode_names_csv(listed) if code == "names" else select_passages(corpus, listed)
                )

            file_button(
                say,
                f"corpus_file_{code}",
                make,
                form=form,
                label=f"corpus_file_{code}",
                what=f"corpus-{code}",
                name=f"corpus_download_{code}",
                names="full",
                file_name=f"{code}.{form}",
                is_disabled=is_hidden,
            )


# A new one in three cards: a file of notes, a look at it, the settings; then the button.


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
                display_names.file_code(one): one
                for one in files
                if one.kind in REGISTER_ENDINGS and one.file_id not in (file.file_id, EXAMPLE)
            }
            register = tables.get(st.query_params.get("register", ""))
            _draw_look(say, file, survey, register=register)
        with card(say, "corpus_step_settings", number=3) as is_done:
            task = _ask_task(say, file, columns, survey=survey, tables=tables)
            is_done(task is not None)
    except AuditError as error:
        refused(say, error)
        return None
    if task is None:
        return None
    remark(say, f"corpus_build_below_{task.kind}")
    return task if act(say, "corpus_build", kind="primary", icon="play_arrow") else None


def _draw_folders(say: Words, files: tuple[NoteFile, ...]) -> None:
    """Say where notes are looked for: no folder is registered, or none of them has notes."""
    if any(file.file_id != EXAMPLE for file in files):
        return
    folders = registered_folders(VARIABLE, taken="", unnamed="notes")
    missing = "corpus_folder_gone" if os.environ.get(VARIABLE) else "corpus_no_folder"
    empty(say, "corpus_empty_folder" if folders else missing)
    st.code(f"{VARIABLE}=DIR python -m streamlit run app.py", language="bash")
    if files and act(say, "corpus_try_example", icon="science"):
        take("notes", display_names.file_code(files[0]))
        st.rerun()


def ask_file(say: Words, files: tuple[NoteFile, ...]) -> tuple[NoteFile, Columns] | None:
    """Draw the choice of a file of notes and of its columns; None until both are clear."""
    remark(say, "corpus_file_below")
    code = pick(say, "corpus_file", display_names.file_names(say, files), what="notes")
    file = next((one for one in files if display_names.file_code(one) == code), None)
    columns = attempt(say, lambda: _ask_columns(say, file)) if file else None
    return None if file is None or columns is None else (file, columns)


def _ask_columns(say: Words, file: NoteFile) -> Columns | None:
    """Draw which column is which, as (field, its name); None while the notes' is not clear."""
    found = cached.note_columns(file)
    known = {f"corpus_field_{one}": ", ".join(found.columns.get(one, ())) for one in FIELDS}
    facts(
        say,
        "corpus_file",
        {
            "kind": say.text(f"corpus_kind_{found.kind}"),
            "size": display_names.size_text(file.n_bytes),
            **{field: names for field, names in known.items() if names},
        },
    )
    if found.kind == "folder":
        return ()
    is_unclear = not found.has_text or not found.columns.get("patient_id")
    if is_unclear:
        remark(say, "corpus_no_patient" if found.has_text else "corpus_no_text")
    chosen = {}
    with st.expander(say.text("corpus_columns"), key="corpus_columns", expanded=is_unclear):
        for field, place in zip(FIELDS, [*st.columns(3), *st.columns(3)], strict=True):
            chosen[field] = place.selectbox(
                say.text(f"corpus_field_{field}"),
                found.headings,
                index=None,
                key=f"corpus_column_{field}_{display_names.file_code(file)}",
                placeholder=say.text("corpus_column_usual"),
            )
    is_clear = found.has_text or chosen["text"]
    return tuple((field, name) for field, name in chosen.items() if name) if is_clear else None


def _draw_look(say: Words, file: NoteFile, found: Survey, *, register: NoteFile | None) -> None:
    """Draw what a file's first notes hold: refused rows, categories, one note before and after."""
    n_refused = len(found.refused)
    remark(say, "corpus_look_below", n=f"{len(found.notes):,}", refused=f"{n_refused:,}")
    if n_refused:
        with st.expander(say.text("corpus_look_refused", n=n_refused), key="corpus_look_refused"):
            _draw_refused(say, found.refused[:_MAX_REFUSED], n=n_refused)
    if found.categories:
        unknown = [one for one in found.categories if one.kind == "unknown"]
        known = [one for one in found.categories if one.kind != "unknown"]
        if unknown:
            head(say, "corpus_look_unknown", below="corpus_unknown_below", n=len(unknown))
            _draw_categories(say, unknown, of="look_unknown")
        with st.expander(say.text("corpus_look_known", n=len(known)), key="corpus_look_known"):
            _draw_categories(say, known, of="look_known")
    elif found.notes:
        head(say, "corpus_identified")
    if found.categories or (found.notes and is_revealed()):
        _draw_preview(say, file, found, register=None if found.categories else register)


def _draw_preview(say: Words, file: NoteFile, survey: Survey, *, register: NoteFile | None) -> None:
    """Draw one note; one without a placeholder is taken for identified, whatever others have."""
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
    one = survey.notes[int(number) - 1]
    seed = int(st.session_state.get("corpus_number_seed", 0))
    finder = None
    if register and (finder := attempt(say, lambda: cached.finder(register))) is None:
        return
    found = preview(one, has_blanks=survey.has_blanks, seed=seed, finder=finder)
    is_identified = not survey.categories or not (found.inserted or found.left)
    mode = "register" if register else "raw" if is_identified else "dummy"
    with above:
        if is_identified and not is_revealed():
            head(say, "corpus_identified_note")
            return
        head(say, f"corpus_preview_{mode}")
    if is_revealed():  # the log has it once a session; what cannot be logged is not shown
        seen: set[tuple[str, int]] = st.session_state.setdefault("corpus_notes_shown", set())
        if (file.file_id, one.row) not in seen:
            note("revealed", what="note", row=one.row)
            seen.add((file.file_id, one.row))
    _draw_texts(say, found, mode=mode)


def _draw_texts(say: Words, found: NoteTruth, *, mode: str) -> None:
    """Draw the texts side by side, each place marked by its group; one where nothing is put in."""
    places = sorted((*found.inserted, *found.left), key=lambda place: place.start)
    groups = [group_of(place.kind, role=place.role) for place in places]
    legend = "".join(
        f'<mark class="ka-mark ka-mark-{group}">{say.html(f"corpus_group_{group}")}</mark> '
        for group in GROUPS
        if group in groups
    )
    ends = [(at.start, at.stop, at.source_start, at.source_stop) for at in places]
    marks = list(zip(ends, groups, strict=True))
    private = found.private, [Hit(at[0], at[1], group, ()) for at, group in marks]
    public = found.public, [Hit(at[2], at[3], group, ()) for at, group in marks]
    before, after = (public, private) if mode == "dummy" else (private, public)
    sides = {"corpus_before": before} | ({} if mode == "raw" else {f"corpus_after_{mode}": after})
    pieces = "".join(
        f"<section><h3>{say.html(title)}</h3>{box(_marked(say, *side))}</section>"
        for title, side in sides.items()
    )
    legend = f'<p class="ka-legend">{legend}</p>' if legend else ""
    st.html(f'{legend}<div class="ka-pair"><div>{pieces}</div></div>')


def _marked(say: Words, text: str, marks: list[Hit]) -> str:
    shown = note_html(
        text,
        names=cached.list_finder(None),
        marks=marks,
        most=_MAX_CHARS,
        label=lambda hit: MarkLabel("", hit.part),
        is_clear=lambda hit: hit.part != "unknown",
    )
    n_more = f"{len(text) - _MAX_CHARS:,}"
    cut = f"<small> {say.html('corpus_cut', n=n_more)}</small>"
    return shown + cut if len(text) > _MAX_CHARS else shown


def _ask_task(
    say: Words, file: NoteFile, columns: Columns, *, survey: Survey, tables: dict[str, NoteFile]
) -> CorpusTask | None:
    """Draw the settings; None while a register that is needed is missing."""
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
            remark(say, "corpus_no_placeholders")
        if kind == "register":
            names = display_names.file_names(say, tuple(tables.values()))
            register = tables.get(pick(say, "corpus_register", names))
        title = ask_line(say, "corpus_title", is_kept=True)
        seed = _number(say, "seed", low=0, high=_MAX_SEED, usual=0)
    with right:
        hold_out = _ask_hold_out(say)
        counts, n_canaries = _ask_canaries(say)
        if tick(say, "corpus_sample", is_kept=True):
            sample = _number(say, "n_sample", low=1, high=100_000_000, usual=1_000_000)
        has_left = tick(say, "corpus_left_context", is_kept=True)
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
    """Draw how many people are held out, and return it as the task has it; "" for nobody."""
    if not tick(say, "corpus_hold_out", is_kept=True):
        return ""
    by = st.radio(
        say.text("corpus_hold_out_by"),
        ("people", "share"),
        format_func=lambda code: say.text(f"corpus_hold_out_by_{code}"),
        key="corpus_hold_out_by",
    )
    if by == "share":
        return f"{_number(say, 'held_out_percent', low=1, high=99, usual=10)}%"
    return str(_number(say, "held_out_people", low=1, high=1_000_000, usual=MIN_CONTROLS))


def _ask_canaries(say: Words) -> tuple[tuple[int, ...], int]:
    if not tick(say, "corpus_canaries", is_kept=True):
        return (), 0
    counts = st.pills(
        say.text("corpus_canary_counts"),
        CANARY_COUNTS,
        selection_mode="multi",
        default=USUAL_COUNTS,
        key="corpus_canary_counts",
    )
    n = _number(say, "n_canaries", low=1, high=MAX_CANARIES, usual=10)
    needed = "corpus_canaries_need" if counts else "corpus_canary_counts_none"
    remark(say, needed, n=f"{n * sum(counts):,}")
    return tuple(sorted(counts)), n


def _number(say: Words, field: str, *, low: int, high: int, usual: int) -> int:
    key = f"corpus_number_{field}"
    return int(
        st.number_input(
            say.text(key),
            min_value=low,
            max_value=high,
            value=usual,
            step=1,
            key=key,
            help=say.text(f"{key}_help"),
        )
    )
