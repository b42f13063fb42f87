"""The passages of an audit of scenario 2, in which nothing is generated: a list with search."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from audit.notes.passages import Passage
from audit.report.documents import PER_PAGE, listed_passages, n_pages, page_number
from pages.ui import blocks, cached, linked
from pages.ui.language import Words, link
from pages.ui.marks import with_slot
from pages.ui.reveal import is_revealed, shown_name, shown_passage
from pages.ui.text import escaped


def draw(say: Words, table: pd.DataFrame, *, digest: str) -> None:
    """Say why there are no documents, and draw the passages."""
    st.html(
        blocks.heading(
            say.text("documents_passages_title"), below=say.text("documents_passages_below")
        )
    )
    link("names", label=say.text("documents_to_names"))
    inspection = cached.inspection(digest)
    if inspection is None:
        st.html(
            blocks.heading(
                say.text("documents_no_inspection"), below=say.text("documents_no_inspection_do")
            )
        )
        return
    asked = linked.from_link("passages", keys=("page",))
    if asked is not None:
        linked.turn_to("passages", number=page_number(asked["page"], n_rows=10**9))
    text = st.text_input(
        say.text("documents_search_passages"),
        key="passages_search",
        max_chars=200,
        on_change=_first_page,
    )
    found = listed_passages(inspection, table=table, text=text or "")
    shown = say.text("documents_shown_passages", k=len(found), n=len(inspection.passages))
    st.html(blocks.heading("", below=shown))
    page = page_number(str(linked.turned_to("passages")), n_rows=len(found))
    items = "".join(
        _item(say, number, passage, owner, table=table)
        for number, passage, owner in found[(page - 1) * PER_PAGE : page * PER_PAGE]
    )
    st.html(f'<ul class="ka-passages">{items}</ul>')
    linked.pager("passages", n_pages=n_pages(len(found)), at=page)
    linked.to_link("passages", values={"page": "" if page == 1 else str(page)})


def _item(
    say: Words, number: int, passage: Passage, owner: int | None, *, table: pd.DataFrame
) -> str:
    called = shown_passage(passage.passage_id, number=number)
    slot, facts = (
        say.text("documents_slot"),
        say.text("documents_passage_unknown", passage=called),
    )
    if owner is not None:
        name = shown_name(table["first_name"][owner], table["last_name"][owner])
        facts = say.text(
            "documents_passage_owner",
            passage=called,
            number=table["number"][owner],
            name=name,
        )
        if is_revealed():
            slot = name
    text = with_slot(passage.left, slot=slot, after=passage.right, tone="member")
    return f"<li><small>{escaped(facts)}</small><div>{text}</div></li>"


def _first_page() -> None:
    linked.turn_to("passages", number=1)
