"""Documents: what do the two models write when they are left to themselves?"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from audit.report.documents import (
    FILTERS,
    GROUPS,
    DocumentView,
    DocumentWish,
    Rows,
    n_pages,
    page_number,
    page_rows,
    select_documents,
)
from audit.report.names import row_of
from pages.ui import blocks, cached, linked, passage_list, screen_files
from pages.ui.document_cards import pair_cards
from pages.ui.language import Words, words
from pages.ui.logged import logged_export
from pages.ui.place import audit_or_reason
from pages.ui.reveal import is_revealed, shown_name
from pages.ui.text import percent, percent_interval

KEYS = ("group", "page", "has")


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("documents_title"), anchor=False)
    try:
        audit = audit_or_reason(say)
        if audit is None:
            return
        table = cached.report(audit.digest).table
        if audit.scenario == 2:
            passage_list.draw(say, table, digest=audit.digest)
            return
        view = cached.marked_documents(audit.digest)
        if view is None:
            st.html(blocks.heading(say.text("documents_gone"), below=say.text("documents_gone_do")))
            return
        draw(say, view, table, digest=audit.digest)
    except cached.AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))


def draw(say: Words, view: DocumentView, table: pd.DataFrame, *, digest: str) -> None:
    """Draw counts, filter and search, and a page of documents."""
    restore()
    st.html(blocks.heading("", below=say.text("documents_below")))
    draw_counts(say, view)
    wanted = row_of(table, st.session_state["documents_has"])
    wish = draw_wish(say, view, table, wanted=wanted)
    rows = select_documents(view, wish=wish)
    draw_tools(say, view, rows, digest=digest)
    page = _page(rows)
    if not len(rows):
        st.html(blocks.heading(say.text("documents_none"), below=say.text("documents_none_do")))
    else:
        st.html(
            pair_cards(
                say,
                view,
                numbers=page_rows(rows, page=page).tolist(),
                table=table,
                wanted=wanted,
                is_revealed=is_revealed(),
            )
        )
    linked.pager("documents", n_pages=n_pages(len(rows)), at=page)
    st.html(blocks.heading("", below=say.text("documents_limit")))
    values = {"group": "" if wish.group == "all" else wish.group}
    values |= {"page": "" if page == 1 else str(page)}
    values |= {"has": "" if wanted is None else str(wanted)}
    linked.to_link("documents", values=values)


def restore() -> None:
    """Set the widgets by the link, if it came from elsewhere."""
    link, state = linked.from_link("documents", keys=KEYS), st.session_state
    if link is not None:
        state["documents_group"] = link["group"] if link["group"] in FILTERS else "all"
        linked.turn_to("documents", number=page_number(link["page"], n_rows=10**9))
        state["documents_has"] = link["has"]
    state.setdefault("documents_group", "all")
    state.setdefault("documents_has", "")


def draw_counts(say: Words, view: DocumentView) -> None:
    """Draw how many documents of each model hold listed names, with intervals."""
    rows = []
    for group in GROUPS:
        cells = [blocks.Cell(say.text(f"documents_holds_{group}"), is_number=False)]
        for model in view.models:
            share = model.share(group)
            estimate = share.interval()
            of = say.text("documents_k_of_n", k=share.n_hits, n=share.n_total)
            between = f"{percent(estimate.value)} ({percent_interval(estimate)})"
            cells.append(blocks.Cell(of, below=between))
        rows.append(cells)
    header = [
        blocks.Cell(say.text("documents_holds"), is_number=False),
        *(blocks.Cell(say.text(f"column_{model.who}")) for model in view.models),
    ]
    st.html(blocks.table([header], rows, caption=say.text("documents_counts_caption")))


def draw_wish(
    say: Words, view: DocumentView, table: pd.DataFrame, *, wanted: int | None
) -> DocumentWish:
    """Draw filter and search, and return them."""
    if wanted is not None:
        name = shown_name(table["first_name"][wanted], table["last_name"][wanted])
        only = say.text("documents_has", number=table["number"][wanted], name=name)
        left, right = st.columns([4, 1], vertical_alignment="center")
        left.html(blocks.heading("", below=only))
        right.button(say.text("documents_has_not"), key="documents_clear", on_click=_clear_name)
    left, right = st.columns([3, 2], gap="large")
    labels = {
        group: say.text(
            "kind_n",
            kind=say.text(f"documents_group_{group}"),
            n=len(select_documents(view, wish=DocumentWish(group=group))),
        )
        for group in FILTERS
    }
    with left:
        group = st.pills(
            say.text("documents_filter"),
            FILTERS,
            format_func=labels.__getitem__,
            key="documents_group",
            help=say.text("documents_filter_help"),
            required=True,
            wrap=True,
            on_change=_first_page,
        )
    with right:
        looks_at = "all" if is_revealed() else "masked"
        text = st.text_input(
            say.text("documents_search"),
            key="documents_search",
            help=say.text(f"documents_search_{looks_at}_help"),
            max_chars=200,
            autocomplete="off",
            on_change=_first_page,
        )
        if not is_revealed():
            st.html(blocks.heading("", below=say.text("documents_search_masked")))
    return DocumentWish(
        group=group or "all", text=text or "", name_id=wanted, is_revealed=is_revealed()
    )


def draw_tools(say: Words, view: DocumentView, rows: Rows, *, digest: str) -> None:
    """Draw how many fit, and the files."""
    st.html(blocks.heading("", below=say.text("documents_shown", k=len(rows), n=len(view))))
    with st.container(horizontal=True):
        for kind, mime in (("jsonl", "application/x-ndjson"), ("csv", "text/csv")):
            st.download_button(
                say.text(f"documents_file_{kind}"),
                data=logged_export(
                    screen_files.documents_file(
                        view, rows=rows, kind=kind, is_revealed=is_revealed()
                    ),
                    audit=digest,
                    what="documents",
                    format=kind,
                    names="full" if is_revealed() else "masked",
                    n_documents=len(rows),
                ),
                file_name=f"documents-{digest[:12]}.{kind}",
                mime=mime,
                icon=":material/download:",
                key=f"documents_{kind}",
                help=say.text("documents_file_help"),
                disabled=not len(rows),
                on_click="ignore",
            )


def _page(rows: Rows) -> int:
    return page_number(str(linked.turned_to("documents")), n_rows=len(rows))


def _first_page() -> None:
    linked.turn_to("documents", number=1)


def _clear_name() -> None:
    st.session_state["documents_has"] = ""
    _first_page()


page()
