"""Documents of the models (scenario 1) or passages (scenario 2), with marks at listed names."""

from __future__ import annotations

import json
from functools import partial

import pandas as pd
import streamlit as st

from audit.attack.question import MODEL_ROLES
from audit.report import documents
from audit.report.documents import DocumentView, DocumentWish, Hit, ModelDocuments, Rows
from audit.report.name_table import find_row
from audit.report.report import AuditReport
from audit.tables import write_table
from audit.words import Words
from pages.ui import cached
from pages.ui.access import format_name, format_passage_id, is_revealed, name_form
from pages.ui.blocks import escape_html, format_percent, format_percent_interval
from pages.ui.form import choose, draw_button, paginate
from pages.ui.note_text import (
    MarkLabel,
    note_box,
    note_html,
    note_plain,
    passage_html,
    passage_list,
)
from pages.ui.section import (
    Column,
    attempt,
    draw_absence,
    draw_file_button,
    draw_heading,
    draw_remark,
    draw_table,
    make_table,
)
from pages.ui.state import write_parameter

_WRITTEN = ("first", "last", "first_last", "last_first", "listed")


def draw(say: Words, report: AuditReport) -> None:
    """Draw an audit's documents, or its passages in scenario 2, which generates no documents."""
    if report.scenario.number == 2:
        draw_passages(say, report)
        return
    view = cached.marked_documents(report.digest)
    if view is None:
        draw_absence(say, "documents_gone")
        return
    draw_remark(say, "documents_below")
    draw_counts(say, report, view)
    wish = draw_wish(say, report.table, view)
    rows = attempt(say, lambda: documents.select_documents(view, wish=wish))
    if rows is None:
        return
    draw_files(say, view, rows, digest=report.digest)
    if not len(rows):
        draw_absence(say, "documents_none")
    with paginate(
        "documents", len(rows), selection=(wish.group, wish.text, wish.name_id)
    ) as page_rows:
        numbers = rows[page_rows].tolist()
        if not is_revealed():  # all texts at once, which is faster
            view.names.find_names_of_texts(
                [model.texts[n] for model in view.models for n in numbers]
            )
        pairs = (_pair(say, report.table, view, n, wished_id=wish.name_id) for n in numbers)
        st.html("".join(pairs))
    draw_remark(say, "documents_limit")


def draw_counts(say: Words, report: AuditReport, view: DocumentView) -> None:
    """Draw how many documents of each model hold listed names, and how many names of people."""
    columns: dict[Column, list[str]] = {
        "holds": [say.text(f"documents_holds_{group}") for group in documents.GROUPS]
    }
    for model in view.models:
        shares = [model.share(group) for group in documents.GROUPS]
        role = f"column_{model.role}"
        columns[role, "n"] = [
            say.text("documents_k_of_n", k=share.n_hits, n=share.n_total) for share in shares
        ]
        columns[role, "share"] = [
            f"{format_percent(share.value)} ({format_percent_interval(share.interval())})"
            for share in shares
        ]
    draw_table(say, "documents_counts", make_table(columns), audit=report.digest)
    counts = {role: getattr(report.details, role).name_counts for role in reversed(MODEL_ROLES)}
    if None in counts.values():
        return
    with st.expander(say.text("documents_written"), key="documents_written"):
        draw_remark(say, "documents_written_below")
        columns = {"names": [say.text(f"documents_written_{form}") for form in _WRITTEN]}
        for role, name_counts in counts.items():
            columns[f"column_{role}"] = [getattr(name_counts, form) for form in _WRITTEN]
        draw_table(say, "documents_written", make_table(columns), audit=report.digest)


def draw_wish(say: Words, table: pd.DataFrame, view: DocumentView) -> DocumentWish:
    """Draw filter and search, and return them; `?has=` asks for one name."""
    name_id = find_row(table, st.query_params.get("has", ""))
    write_parameter("has", "" if name_id is None else str(name_id))
    if name_id is not None:
        with st.container(horizontal=True, vertical_alignment="center"):
            name = format_name(table["first_name"][name_id], table["last_name"][name_id])
            draw_remark(say, "documents_has", number=table["number"][name_id], name=name)
            draw_button(
                say,
                "documents_has_not",
                name="documents_clear",
                on_click=partial(write_parameter, "has", ""),
            )
    groups = {}
    for group in documents.FILTERS:
        n = len(documents.select_documents(view, wish=DocumentWish(group=group)))
        groups[group] = say.text("kind_n", kind=say.text(f"documents_group_{group}"), n=n)
    group = choose(say, "documents_group", groups)
    text = search(say, "documents", f"documents_search_{search_scope()}")
    return DocumentWish(group, text, name_id, is_revealed())


def draw_files(say: Words, view: DocumentView, rows: Rows, *, digest: str) -> None:
    """Draw the number of selected documents, and their files, masked as the screen is."""
    draw_remark(say, "documents_shown", k=len(rows), n=len(view))
    with st.container(horizontal=True):
        for form in ("jsonl", "csv"):
            draw_file_button(
                say,
                "documents",
                partial(documents_file, view, rows, form, is_revealed()),
                form=form,
                audit=digest,
                label=f"documents_file_{form}",
                help=say.text("documents_file_help"),
                is_disabled=not len(rows),
                names=name_form(),
                n_documents=len(rows),
            )


def documents_file(view: DocumentView, rows: Rows, form: str, is_shown: bool) -> bytes:
    """Return the file of these documents of both models, `form` "csv" or "jsonl"."""

    def text_of(model: ModelDocuments, row: int) -> str:
        return note_plain(model.texts[row], names=view.names, is_shown=is_shown)

    lines = [
        (row, model.role, text_of(model, row)) for row in rows.tolist() for model in view.models
    ]
    header = ("document_id", "model", "text")
    if form == "csv":
        return write_table(header, lines, bom=True).encode()
    records = (dict(zip(header, line, strict=True)) for line in lines)
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode()


def _pair(
    say: Words, table: pd.DataFrame, view: DocumentView, number: int, *, wished_id: int | None
) -> str:
    columns = []
    for model in view.models:
        text = marked_text(say, table, view, model, number=number, wished_id=wished_id)
        heading = escape_html(say.text(f"column_{model.role}"))
        columns.append(f"<div><h3>{heading}</h3>{note_box(text)}</div>")
    title = escape_html(say.text("documents_one", number=number))
    return f'<section class="ka-pair"><p>{title}</p><div>{"".join(columns)}</div></section>'


def marked_text(
    say: Words,
    table: pd.DataFrame,
    view: DocumentView,
    model: ModelDocuments,
    *,
    number: int,
    wished_id: int | None,
) -> str:
    """Return a document as HTML; each mark tells the part of a name, whose it is, and its decision.

    Of several names `wished_id` comes first, then flagged names, then other tested names.
    """

    def tone_of(name_id: int) -> int:
        if table["kind"][name_id] not in ("member", "unknown"):
            return 2
        return int(table["decision"][name_id] != "flagged")

    def label(hit: Hit) -> MarkLabel:
        names = sorted((i != wished_id, tone_of(i), i) for i in hit.name_ids)
        first, tone = names[0][2], ("flagged", "member", "control")[names[0][1]]
        numbers = table["number"][first] + (f" +{len(names) - 1}" if len(names) > 1 else "")
        part = say.text(f"documents_part_{hit.part}")
        return MarkLabel(say.text(f"documents_mark_{tone}", part=part, numbers=numbers), tone)

    marks = model.marks(number)
    return note_html(model.texts[number], names=view.names, marks=marks, label=label)


def draw_passages(say: Words, report: AuditReport) -> None:
    """Draw the passages of an audit, with search."""
    draw_heading(say, "documents_passages_causal" if report.is_causal else "documents_passages")
    inspection, table = cached.inspection(report.digest), report.table
    if inspection is None:
        draw_absence(say, "documents_no_inspection")
        return
    text = search(say, "passages", "documents_search_passages")
    names = cached.name_finder(report.digest)
    masking = None if is_revealed() else names
    rows = attempt(
        say, lambda: documents.select_passages(inspection, table=table, text=text, masking=masking)
    )
    if rows is None:
        return
    draw_remark(say, "documents_shown_passages", k=len(rows), n=len(inspection.passages))
    citations = []
    with paginate("passages", len(rows), selection=text) as page_rows:
        for number, passage, owner in rows[page_rows]:
            passage_fields = {"passage": format_passage_id(passage.passage_id, number=number)}
            facts, slot = (
                say.text("documents_passage_unknown", **passage_fields),
                say.text("names_slot"),
            )
            if owner is not None:
                passage_fields["name"] = format_name(
                    table["first_name"][owner], table["last_name"][owner]
                )
                passage_fields["number"] = table["number"][owner]
                facts = say.text("documents_passage_owner", **passage_fields)
                slot = passage_fields["name"] if is_revealed() else slot
            citations.append((facts, passage_html(passage, names=names, slot=slot, tone="member")))
        st.html(passage_list(citations))


def search_scope() -> str:
    """Return the part of a search's keys that says whether it covers names or masked names."""
    return "names" if is_revealed() else "masked"


def search(say: Words, box_name: str, words: str, *, example: str | None = None) -> str:
    """Draw a search box; its text goes neither into the address nor into the log."""
    search_text = st.text_input(
        say.text(words),
        key=f"{box_name}_search",
        help=say.sentences.get(f"{words}_help"),
        max_chars=200,
        placeholder=example,
        autocomplete="off",
        persist_state="session",
    )
    if f"{words}_below" in say.sentences:
        draw_remark(say, f"{words}_below")
    return search_text or ""
