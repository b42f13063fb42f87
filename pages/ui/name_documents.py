"""What the models have written (scenario 1) or read (scenario 2), listed names in it marked."""

from __future__ import annotations

import json
from functools import partial

import pandas as pd
import streamlit as st

from audit.report import documents
from audit.report.documents import DocumentView, DocumentWish, Hit, ModelDocuments, Rows
from audit.report.name_table import find_row
from audit.report.report import AuditReport
from audit.tables import write_table
from pages.ui import cached
from pages.ui.access import is_revealed, names_in_files, shown_name, shown_passage
from pages.ui.blocks import escaped, percent, percent_interval
from pages.ui.form import act, choose, paged
from pages.ui.note_text import MarkLabel, box, cited, note_html, note_plain, passage_html
from pages.ui.section import attempt, draw_table, empty, file_button, head, remark
from pages.ui.state import Words, write

_WRITTEN = ("first", "last", "first_last", "last_first", "listed")


def draw(say: Words, report: AuditReport) -> None:
    """Draw an audit's documents; its passages in scenario 2, in which nothing is generated."""
    if report.scenario.number == 2:
        draw_passages(say, report)
        return
    view = cached.marked_documents(report.digest)
    if view is None:
        empty(say, "documents_gone")
        return
    remark(say, "documents_below")
    draw_counts(say, report, view)
    wish = draw_wish(say, report.table, view)
    rows = attempt(say, lambda: documents.select_documents(view, wish=wish))
    if rows is None:
        return
    draw_files(say, view, rows, digest=report.digest)
    if not len(rows):
        empty(say, "documents_none")
    with paged("documents", len(rows), of=(wish.group, wish.text, wish.name_id)) as at:
        numbers = rows[at].tolist()
        if not is_revealed():  # at once: it is quicker
            view.names.find_names_of_texts([one.texts[n] for one in view.models for n in numbers])
        pairs = (_pair(say, report.table, view, n, wanted=wish.name_id) for n in numbers)
        st.html("".join(pairs))
    remark(say, "documents_limit")


def draw_counts(say: Words, report: AuditReport, view: DocumentView) -> None:
    """Draw how many documents of each model hold listed names, and how many names of people."""
    columns = {"holds": [say.text(f"documents_holds_{group}") for group in documents.GROUPS]}
    for model in view.models:
        shares = [model.share(group) for group in documents.GROUPS]
        who = f"column_{model.role}"
        columns[who, "n"] = [
            say.text("documents_k_of_n", k=one.n_hits, n=one.n_total) for one in shares
        ]
        columns[who, "share"] = [
            f"{percent(one.value)} ({percent_interval(one.interval())})" for one in shares
        ]
    draw_table(say, "documents_counts", columns, audit=report.digest)
    counts = {who: getattr(report.details, who).name_counts for who in documents.WHO}
    if None in counts.values():
        return
    with st.expander(say.text("documents_written"), key="documents_written"):
        remark(say, "documents_written_below")
        columns = {"names": [say.text(f"documents_written_{what}") for what in _WRITTEN]}
        for who, one in counts.items():
            columns[f"column_{who}"] = [getattr(one, what) for what in _WRITTEN]
        draw_table(say, "documents_written", columns, audit=report.digest)


def draw_wish(say: Words, table: pd.DataFrame, view: DocumentView) -> DocumentWish:
    """Draw filter and search, and return them; `?has=` asks for one name."""
    wanted = find_row(table, st.query_params.get("has", ""))
    write("has", "" if wanted is None else str(wanted))
    if wanted is not None:
        with st.container(horizontal=True, vertical_alignment="center"):
            name = shown_name(table["first_name"][wanted], table["last_name"][wanted])
            remark(say, "documents_has", number=table["number"][wanted], name=name)
            act(
                say, "documents_has_not", name="documents_clear", on_click=partial(write, "has", "")
            )
    groups = {}
    for group in documents.FILTERS:
        n = len(documents.select_documents(view, wish=DocumentWish(group=group)))
        groups[group] = say.text("kind_n", kind=say.text(f"documents_group_{group}"), n=n)
    group = choose(say, "documents_group", groups)
    text = search(say, "documents", f"documents_search_{looks_at()}")
    return DocumentWish(group, text, wanted, is_revealed())


def draw_files(say: Words, view: DocumentView, rows: Rows, *, digest: str) -> None:
    """Draw how many fit, and the files of them, masked as the screen is."""
    remark(say, "documents_shown", k=len(rows), n=len(view))
    with st.container(horizontal=True):
        for form in ("jsonl", "csv"):
            file_button(
                say,
                "documents",
                partial(documents_file, view, rows, form, is_revealed()),
                form=form,
                audit=digest,
                label=f"documents_file_{form}",
                help=say.text("documents_file_help"),
                is_disabled=not len(rows),
                names=names_in_files(),
                n_documents=len(rows),
            )


def documents_file(view: DocumentView, rows: Rows, form: str, is_shown: bool) -> bytes:
    """Return the file of these documents of both models, `form` "csv" or "jsonl"."""

    def text_of(one: ModelDocuments, row: int) -> str:
        return note_plain(one.texts[row], names=view.names, is_shown=is_shown)

    lines = [(row, one.role, text_of(one, row)) for row in rows.tolist() for one in view.models]
    header = ("document_id", "model", "text")
    if form == "csv":
        return write_table(header, lines, bom=True).encode()
    records = (dict(zip(header, line, strict=True)) for line in lines)
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode()


def _pair(
    say: Words, table: pd.DataFrame, view: DocumentView, number: int, *, wanted: int | None
) -> str:
    columns = []
    for model in view.models:
        text = marked_text(say, table, view, model, number=number, wanted=wanted)
        who = escaped(say.text(f"column_{model.role}"))
        columns.append(f"<div><h3>{who}</h3>{box(text)}</div>")
    title = escaped(say.text("documents_one", number=number))
    return f'<section class="ka-pair"><p>{title}</p><div>{"".join(columns)}</div></section>'


def marked_text(
    say: Words,
    table: pd.DataFrame,
    view: DocumentView,
    model: ModelDocuments,
    *,
    number: int,
    wanted: int | None,
) -> str:
    """Return a document as HTML: at each mark what of a name it is, whose, and if it stands out.

    Of several names `wanted` comes first, then those that stand out, then other tested names.
    """

    def tone_of(name_id: int) -> int:
        if table["kind"][name_id] not in ("member", "unknown"):
            return 2
        return int(table["decision"][name_id] != "flagged")

    def label(hit: Hit) -> MarkLabel:
        names = sorted((i != wanted, tone_of(i), i) for i in hit.name_ids)
        first, tone = names[0][2], ("flagged", "member", "control")[names[0][1]]
        numbers = table["number"][first] + (f" +{len(names) - 1}" if len(names) > 1 else "")
        part = say.text(f"documents_part_{hit.part}")
        return MarkLabel(say.text(f"documents_mark_{tone}", part=part, numbers=numbers), tone)

    marks = model.marks(number)
    return note_html(model.texts[number], names=view.names, marks=marks, label=label)


def draw_passages(say: Words, report: AuditReport) -> None:
    """Draw the passages of an audit, with search."""
    head(say, "documents_passages")
    inspection, table = cached.inspection(report.digest), report.table
    if inspection is None:
        empty(say, "documents_no_inspection")
        return
    text = search(say, "passages", "documents_search_passages")
    names = cached.name_finder(report.digest)
    masking = None if is_revealed() else names
    rows = attempt(
        say, lambda: documents.select_passages(inspection, table=table, text=text, masking=masking)
    )
    if rows is None:
        return
    remark(say, "documents_shown_passages", k=len(rows), n=len(inspection.passages))
    items = []
    with paged("passages", len(rows), of=text) as at:
        for number, passage, owner in rows[at]:
            called = {"passage": shown_passage(passage.passage_id, number=number)}
            facts, slot = say.text("documents_passage_unknown", **called), say.text("names_slot")
            if owner is not None:
                called["name"] = shown_name(table["first_name"][owner], table["last_name"][owner])
                called["number"] = table["number"][owner]
                facts = say.text("documents_passage_owner", **called)
                slot = called["name"] if is_revealed() else slot
            items.append((facts, passage_html(passage, names=names, slot=slot, tone="member")))
        st.html(cited(items))


def looks_at() -> str:
    """Return what a search looks at, as its words' keys say it."""
    return "names" if is_revealed() else "masked"


def search(say: Words, what: str, words: str, *, example: str | None = None) -> str:
    """Draw a box for what is searched, which is put neither into the address nor into the log."""
    found = st.text_input(
        say.text(words),
        key=f"{what}_search",
        help=say.sentences.get(f"{words}_help"),
        max_chars=200,
        placeholder=example,
        autocomplete="off",
        persist_state="session",
    )
    if f"{words}_below" in say.sentences:
        remark(say, f"{words}_below")
    return found or ""
