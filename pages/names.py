"""Names: whose names stand out, what does each score rest on, and where were they written?"""

from __future__ import annotations

import math
import zlib
from typing import Any

import pandas as pd
import streamlit as st

from audit.report.names import COLUMNS as LISTED
from audit.report.names import FACETS, Wish, is_number, row_of, select
from audit.report.report import AuditReport, KeptAudit
from pages.ui import cached, name_documents, name_story
from pages.ui.access import is_revealed, names_in_files
from pages.ui.blocks import plain
from pages.ui.form import act, choose, choose_some
from pages.ui.name_documents import looks_at, search
from pages.ui.name_story import meaning_of
from pages.ui.section import csv_button, empty, page_of_audit, remark
from pages.ui.state import Words, write

SORTS = (
    "score", "q", "log10_ratio", "hospital", "general", "n_mentions", "popularity", "n_pieces",
    "name_id",
)  # fmt: skip
ORDERS = {"q": ("asc", "desc"), "name_id": ("asc", "desc")}
"""What is read from the lowest on, unless the reader says otherwise; all else from the highest."""
COLUMNS = {
    "number": "", "name": "", "kind": "", "decision": "", "score": "%.3f", "q": "%.3f",
    "general": "%.1e", "hospital": "%.1e", "log10_ratio": "%.3f", "n_mentions": "%d", "p": "%.3f",
    "standard_error": "%.3f", "n_pieces": "%d", "popularity": "%.1e",
}  # fmt: skip
"""Columns of the table in their order, and how a number stands in them."""
_NEARLY_THE_NAME = {one.name for one in LISTED if "masked" not in one.forms}


def draw(say: Words, audit: KeptAudit) -> None:
    """Draw the table of names, or what the models have written or read."""
    texts = "documents" if audit.scenario == 1 else "passages"
    tabs = {"table": say.text("names_tab_table"), "documents": say.text(f"names_tab_{texts}")}
    tab, report = choose(say, "names_tab", tabs), cached.report(audit.digest)
    (name_documents.draw if tab == "documents" else draw_names)(say, report)


def draw_names(say: Words, report: AuditReport) -> None:
    """Draw facets and table, and the chosen name under them."""
    remark(say, f"names_below_{report.fixed_score}")
    wish = draw_wish(say, report.table)
    found = select(report.table, wish=wish)
    chosen = row_of(report.table, st.query_params.get("name", ""))
    write("name", "" if chosen is None else f"{report.table['name_id'][chosen]:.0f}")
    ids = [f"{name_id:.0f}" for name_id in found["name_id"]]
    if ids:
        draw_table(say, report, found, ids=ids)
    else:
        is_hidden = wish.text.strip() and not (is_revealed() or is_number(wish.text))
        empty(say, "names_none_masked" if is_hidden else "names_none")
    if chosen is not None:
        name_story.draw(say, report, report.table.loc[chosen], ids=ids)
    elif ids:
        remark(say, "names_choose")
        act(say, "names_first", on_click=lambda: write("name", ids[0]))


def draw_wish(say: Words, table: pd.DataFrame) -> Wish:
    """Draw search, sort and the facets that divide this list, each choice with its names."""
    left, middle, right = st.columns([2, 2, 3], gap="medium")
    with left:
        text = search(say, "names", f"names_search_{looks_at()}", example="P-0012")
    with middle:
        sorts = {code: say.text(f"names_column_{code}") for code in open_to_see(SORTS)}
        sort = choose(say, "names_sort", sorts, is_long=True)
    orders, state = ORDERS.get(sort, ("desc", "asc")), st.session_state
    if state.setdefault("names_orders", orders) != orders:  # this column is read the other way
        state["names_orders"] = orders
        state.pop("choice_order", None)
    with right:
        order = choose(say, "names_order", orders)
    chosen = {}
    with st.container(horizontal=True, gap="medium"):
        for facet in FACETS:
            counts, words = table[facet].value_counts(), code_words(say, table, facet=facet)
            shown = {c: say.text("kind_n", kind=plain(w), n=counts[c]) for c, w in words.items()}
            if len(shown) > 1:
                chosen[facet] = choose_some(say, f"names_facet_{facet}", shown)
    return Wish(chosen, text, sort, order == "desc", is_revealed())


def open_to_see(columns: tuple[str, ...]) -> list[str]:
    """Return those columns that a reader may see: masked names take some with them."""
    return [c for c in columns if is_revealed() or c not in _NEARLY_THE_NAME]


def code_words(say: Words, table: pd.DataFrame, *, facet: str) -> dict[str, str]:
    """Return a facet's codes that occur, in words; a role is the auditor's own and untrusted."""

    def words(code: str) -> str:
        if facet == "role" and code != "none":
            return str(table["role_name"][table["role"] == code].iloc[0])
        if facet == "mentions" and code != "unknown":
            return code.replace("up", "+").replace("-", "–")
        return say.text(f"names_{facet}_of_{code}")

    return {code: words(code) for code in table[facet].cat.categories}


def draw_table(say: Words, report: AuditReport, found: pd.DataFrame, *, ids: list[str]) -> None:
    """Draw the names that fit, and a button that hands out the same as CSV."""
    columns, state = shown_columns(say, report, found), st.session_state
    name = st.query_params.get("name", "")
    if state.get("names_picked") != name:  # chosen elsewhere: the table is drawn anew with it
        state["names_picked"], state["names_version"] = name, state.get("names_version", 0) + 1
    rows = zlib.crc32("".join(ids).encode())
    key = f"names_table_{state.get('names_version', 0)}_{rows:08x}"

    def picked() -> None:
        rows = [row for row in state[key]["selection"]["rows"] if row < len(ids)]
        state["names_picked"] = ids[rows[0]] if rows else ""
        write("name", state["names_picked"])

    with st.container(horizontal=True, vertical_alignment="center"):
        remark(say, "names_shown", k=len(found), n=report.n_names)
        csv_button(
            say, "names", list(columns), zip(*columns.values(), strict=True), audit=report.digest,
            label="names_csv", names=names_in_files(), n_names=len(found),
        )  # fmt: skip
    with st.container(key="names_table"):
        st.dataframe(
            columns, column_config=column_config(say, report), hide_index=True, height=320,
            key=key, on_select=picked, selection_mode="single-row",
            selection_default={"selection": {"rows": [ids.index(name)] if name in ids else []}},
            alt=say.text("names_table_alt"),
        )  # fmt: skip


def shown_columns(say: Words, report: AuditReport, found: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of the table as the screen shows them, one type a column."""
    names = cached.shown_names(report.digest, is_revealed=is_revealed())
    columns: dict[str, Any] = {"name": [names[row] for row in found.index]}
    for facet in ("kind", "decision"):
        columns[facet] = list(found[facet].map(code_words(say, report.table, facet=facet)))
    for column in ("n_mentions", "n_pieces"):  # None where a count is not known
        columns[column] = [None if math.isnan(n) else int(n) for n in found[column]]
    shown = open_to_see(tuple(COLUMNS))
    return {c: columns[c] if c in columns else found[c].to_numpy() for c in shown}


def column_config(say: Words, report: AuditReport) -> dict[str, Any]:
    """Return titles, meanings and number formats of the columns."""
    config: dict[str, Any] = {}
    is_tiny = {"score", "standard_error"} if report.fixed_score == "product" else set()
    for column, form in COLUMNS.items():
        title = say.text(f"names_column_{column}")
        meaning = say.sentences.get(meaning_of(column, scenario=report.scenario.number))
        if not form:
            config[column] = st.column_config.TextColumn(title, pinned=column == "number")
            continue
        config[column] = st.column_config.NumberColumn(
            title, format="%.1e" if column in is_tiny else form, help=meaning
        )
    return config


page_of_audit("names", draw)
