"""The Workshop's corpora: what a kept one holds, and the ways on from it."""

from __future__ import annotations

from collections.abc import Sequence, Set

import streamlit as st

from audit.corpus.candidate_lists import CONTROLS, MEMBERS, ROLES, keep_lists, list_of, passages_for
from audit.corpus.examine import CountTable, Examination, ListedNames, beside_paper
from audit.corpus.kept import CORPORA, KeptCorpus, refused_rows
from audit.corpus.make import CorpusTask
from audit.errors import AuditError, written
from audit.models.inspect import LABEL
from audit.names.files import names_file
from audit.tables import UNDEFINED
from audit.training.kept import parent_of, trained_on
from audit.words import Words
from pages.ui import blocks, cached, charts
from pages.ui.access import is_revealed, logged_export, may_or_say
from pages.ui.blocks import Figures, day, percent, refused
from pages.ui.called import corpus_name
from pages.ui.charts import Axis, Series
from pages.ui.corpus_build import categories, draw_build
from pages.ui.running import FollowedJobs
from pages.ui.section import (
    Table,
    choose_kept,
    draw_table,
    empty,
    facts,
    figure,
    head,
    remark,
    removal,
)  # fmt: skip
from pages.ui.state import choose, go_to

_MAX_ROWS = 200
_USUAL_CONTROLS = ("easy", "hard")
Chosen = tuple[str, ...]


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
    if not kept or _view(say) == "build":
        if (task := draw_build(say)) is not None:
            JOBS.start(task.question(), seed=task.seed)
            st.rerun()
        return
    names = {one: corpus_name(say, corpus) for one, corpus in kept.items()}
    label = say.text("corpus_kept")
    code = choose_kept(say, "corpus", names, label=label, gone="corpus_wrong_link")
    try:
        found = cached.examination(kept[code])
        draw_report(say, kept[code], found)
        draw_onward(say, kept[code], found)
    except AuditError as error:  # one with a damaged file can be removed
        refused(say, error)
    removal(say, "corpus_forget", lambda: CORPORA.forget(code), leaves="corpus")


def _view(say: Words) -> str:
    return choose(
        "show", ("kept", "build"), label=say.text("corpus_view"),
        shown=lambda code: say.text(f"corpus_view_{code}"),
    )  # fmt: skip


# What was counted.


def draw_report(say: Words, corpus: KeptCorpus, found: Examination) -> None:
    """Draw all that was counted in a corpus."""
    title = corpus.title or corpus.source
    st.html(blocks.heading(title, below=say.text(f"corpus_is_{corpus.kind}")))
    n_unknown = sum(one.n for one in found.unknown) + found.n_malformed
    values = {"source": corpus.source, "built": day(corpus.created), "seed": str(corpus.seed),
              "notes": f"{found.n_notes:,}", "patients": f"{found.n_patients:,}"}  # fmt: skip
    if corpus.kind == "dummy":
        values["inserted"] = f"{sum(one.n for one in found.inserted):,}"
    values |= {"unknown": f"{n_unknown:,}", "refused": f"{found.n_refused:,}"}
    with st.container(key="corpus_facts"):
        rows = [(say.text(f"corpus_fact_{key}"), value) for key, value in values.items()]
        facts(say, rows, caption=say.text("corpus_facts_caption"))
    st.html(blocks.figure_cards(_cards(say, found)))
    parts = ("coverage", "tables", "names", "left")
    coverage, tables, names, left = st.tabs([say.text(f"corpus_part_{part}") for part in parts])
    with coverage:
        draw_coverage(say, found)
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

    def card(key: str, value: int, beside: str, n_beside: int, **of: int) -> Figures:
        counts = {name: f"{number:,}" for name, number in of.items()}
        return Figures(
            say.text(f"corpus_card_{key}"), f"{value:,}",
            say.text(f"corpus_card_{key}_of", **counts),
            ((say.text(f"corpus_card_{beside}"), f"{n_beside:,}"),),
        )  # fmt: skip

    return [
        card("mentions", coverage.n_mentions, "full", coverage.n_full,
             n=coverage.n_notes_with_mention, of=coverage.n_notes),
        card("elsewhere", coverage.n_elsewhere, "beside_age", coverage.n_true_names_mentioned,
             of=coverage.n_true_names),
        card("positives", found.n_positives, "not_one_token", found.n_not_one_token,
             patterns=found.n_patterns, mentions=found.n_occurrences),
    ]  # fmt: skip


def draw_coverage(say: Words, found: Examination) -> None:
    """Draw what the mention finder found by form, and which ages it left and why."""
    coverage = found.coverage
    left, right = st.columns(2, gap="large")
    with left:
        head(say, "corpus_forms")
        rows = [(say.text(f"corpus_form_{form}"), f"{n:,}") for form, n in coverage.by_form]
        rows.append((say.text("corpus_all"), f"{coverage.n_mentions:,}"))
        _counts(say, "forms", rows, columns=("form", "mentions"))
    with right:
        head(say, "corpus_reasons")
        rows = [(say.text(f"corpus_reason_{code}"), f"{n:,}") for code, n in coverage.by_reason]
        _counts(say, "reasons", rows, columns=("reason", "ages"))
    if coverage.n_by_role:
        rows = [(role_name(say, role), f"{n:,}") for role, n in coverage.n_by_role]
        rows.append((say.text("corpus_of_nobody"), f"{coverage.n_of_nobody:,}"))
        _counts(say, "roles", rows, columns=("whose", "mentions"))


def _counts(
    say: Words,
    key: str,
    rows: Sequence[tuple[str, ...]],
    *,
    columns: Sequence[str],
    n_text: int = 1,
) -> None:
    header = [
        say.text(column if column.startswith("column_") else f"corpus_column_{column}")
        for column in columns
    ]
    table = Table(header, rows, n_text=n_text)
    draw_table(say, f"corpus_{key}", table, caption=say.text(f"corpus_{key}_caption"))


def draw_counts(say: Words, table: CountTable, *, which: str) -> None:
    """Draw table 3 or 4 of the paper beside this corpus's."""
    view, key = beside_paper(table, which=which), f"corpus_table_{which}"
    head(say, key)
    if not view.bins:
        remark(say, "corpus_no_names")
        return
    names = (say.text("corpus_this"), say.text("corpus_paper"))
    labels = [label for label, *_ in view.bins]
    chart = charts.plot(
        [
            Series(name, labels, [100 * shares[place] for _, *shares in view.bins], form="bars",
                   is_attack=place == 0, hover="%{x}: %{y:.1f} %")
            for place, name in enumerate(names)
        ],
        x=Axis(say.text(f"corpus_axis_{which}"), has_grid=False),
        y=Axis(say.text("corpus_axis_share"), suffix=" %"), height=300,
    ).update_xaxes(type="category")  # fmt: skip
    rows = [
        (f"{count:,}", f"{here:,}", percent(here / view.n_names), f"{paper:,}",
         percent(paper / view.n_paper_names))
        for count, here, paper in view.rows
    ]  # fmt: skip
    rows.append((say.text("corpus_all"), f"{view.n_names:,}", "", f"{view.n_paper_names:,}", ""))
    share = say.text("column_share")
    header = [say.text(f"corpus_axis_{which}"), names[0], share, names[1], share]
    figure(say, key, chart, table=Table(header, rows))
    remark(
        say, "corpus_table_caption", n=f"{view.n_names:,}", total=f"{view.n_total:,}",
        n_paper=f"{view.n_paper_names:,}", total_paper=f"{view.n_paper_total:,}",
    )  # fmt: skip


def draw_names(say: Words, found: Examination) -> None:
    """Draw the candidate list by kind and role, the canaries, and who else carries a name."""
    head(say, "corpus_list")
    rows = [(_kind(say, one), role_name(say, one.role), f"{one.n:,}") for one in found.candidates]
    _counts(say, "list", rows, columns=("column_kind", "role", "column_n"), n_text=2)
    if found.n_listed_positives < found.n_positives:
        remark(say, "corpus_list_drawn", k=f"{found.n_listed_positives:,}",
               n=f"{found.n_positives:,}")  # fmt: skip
    if found.canaries:
        st.html(blocks.heading(say.text("corpus_canaries_title")))
        remark(say, "corpus_canaries_below")
        rows = [(f"{count:,}", f"{n:,}", f"{n:,}") for count, n in found.canaries]
        _counts(say, "canaries", rows, columns=("column_mentions", "planted", "twins"))
    if any(table for _, table in found.carriers):
        head(say, "corpus_carriers")
        tables = [dict(table) for _, table in found.carriers]
        numbers = sorted({count for table in tables for count in table})[:_MAX_ROWS]
        lines = [(f"{n:,}", *(f"{table.get(n, 0):,}" for table in tables)) for n in numbers]
        header = [say.text("corpus_column_people")]
        header += [role_name(say, role) for role, _ in found.carriers]
        caption = say.text("corpus_carriers_caption")
        draw_table(say, "corpus_carriers", Table(header, lines), caption=caption)


def draw_left(say: Words, corpus: KeptCorpus, found: Examination) -> None:
    """Draw what was inserted by category, what was not understood, and which rows were refused."""
    if corpus.kind == "dummy":
        st.html(blocks.heading(say.text("corpus_unknown")))
        is_all = not found.unknown and not found.n_malformed
        remark(say, "corpus_unknown_none" if is_all else "corpus_unknown_below")
        if found.n_malformed:
            remark(say, "corpus_malformed", n=f"{found.n_malformed:,}")
        if found.unknown:
            categories(say, found.unknown, key="unknown")
        with st.expander(say.text("corpus_inserted", n=len(found.inserted)), key="corpus_inserted"):
            categories(say, found.inserted, key="inserted")
    n = f"{found.n_refused:,}"
    st.html(blocks.heading(say.text("corpus_refused", n=n)))
    remark(say, "corpus_refused_below" if found.n_refused else "corpus_refused_none")
    if found.n_refused:
        lines = [
            (f"{one.row:,}", written(one.what, say.language))
            for one in refused_rows(corpus.path, limit=_MAX_ROWS)
        ]
        header = [say.text("corpus_column_row"), say.text("corpus_column_remark")]
        caption = say.text("corpus_refused_caption", shown=len(lines), n=n)
        draw_table(say, "corpus_refused", Table(header, lines, n_text=2), caption=caption)


def _kind(say: Words, one: ListedNames) -> str:
    if one.control_kind == "matched":
        return say.text("corpus_matched")
    if one.control_kind:
        return say.text(f"kind_{one.control_kind}")
    return say.text("kind_planted" if one.role == "canary" else "kind_member")


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
    with left, st.container(border=True, key="corpus_card_train"):
        head(say, "corpus_train")
        if st.button(
            say.text("corpus_train_go"), key="corpus_train_go", icon=":material/model_training:"
        ):
            go_to("workshop", tab="training", corpus=corpus.corpus_id)
    with right, st.container(border=True, key="corpus_card_audit"):
        head(say, "corpus_audit")
        there = {one.role for one in found.candidates if not one.control_kind and one.n}
        kinds = {one.control_kind for one in found.candidates if one.n}
        roles = _pills(say, "roles", MEMBERS, there=there, usual=ROLES)
        controls = _pills(say, "controls", CONTROLS, there=kinds, usual=_USUAL_CONTROLS)
        if not roles or not controls:
            remark(say, "corpus_roles_none" if not roles else "corpus_controls_none")
            return
        if st.button(
            say.text("corpus_audit_go"), key="corpus_audit_go", type="primary",
            icon=":material/arrow_forward:",
        ):  # fmt: skip
            to_audit(say, corpus, controls=controls, roles=roles)
        _draw_files(say, corpus, controls=controls, roles=roles)


def _pills(
    say: Words, which: str, options: Sequence[str], *, there: Set[str], usual: Sequence[str]
) -> Chosen:
    options = [code for code in options if code in there]
    chosen = st.pills(
        say.text(f"corpus_{which}"), options, selection_mode="multi",
        default=[code for code in usual if code in there],
        format_func=lambda code: say.text(f"corpus_{which}_{code}"),
        key=f"corpus_{which}_{'_'.join(options)}", help=say.text(f"corpus_{which}_help"),
    )  # fmt: skip
    return tuple(code for code in options if code in chosen)


def to_audit(
    say: Words, corpus: KeptCorpus, *, controls: Chosen = _USUAL_CONTROLS, roles: Chosen = ROLES,
    **models: str,
) -> None:  # fmt: skip
    """Keep list and passages, and go on to a new audit of them.

    `models` are the identifiers of "general" and "hospital"; without them the newest model that was
    trained on the corpus is taken, if there is one.
    """
    try:
        with st.spinner(say.text("corpus_keeping")):
            names, passages = keep_lists(
                corpus, controls=controls, roles=roles, store=cached.store()
            )
    except AuditError as error:
        refused(say, error)
        return
    if not models and (model := trained_on(corpus.corpus_id)) is not None:
        parent = parent_of(model, among=cached.models())
        models = {"general": parent.model_id if parent else "",
                  "hospital": f"{LABEL}/{model.run_id}"}  # fmt: skip
    go_to("audit", names=names[:12], passages=passages[:12], **models)


def _draw_files(say: Words, corpus: KeptCorpus, *, controls: Chosen, roles: Chosen) -> None:
    """Draw the files to take away; those with real names only once names are revealed."""

    def names() -> bytes:
        return names_file(list_of(corpus, controls=controls, roles=roles))

    def passages() -> bytes:
        return passages_for(corpus, list_of(corpus, controls=controls, roles=roles))

    with st.expander(say.text("corpus_files"), key="corpus_files"):
        is_hidden = corpus.kind == "register" and not is_revealed()
        remark(say, f"corpus_files_{'hidden' if is_hidden else corpus.kind}")
        for make, file_name, kind in (
            (names, "names.csv", "text/csv"),
            (passages, "passages.jsonl", "application/octet-stream"),
        ):
            code = make.__name__
            st.download_button(
                say.text(f"corpus_file_{code}"), data=logged_export(make, what=f"corpus-{code}"),
                file_name=file_name, mime=kind, icon=":material/download:",
                key=f"corpus_download_{code}", on_click="ignore", disabled=is_hidden,
            )  # fmt: skip
