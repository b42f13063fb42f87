"""Names: whose names stand out, and what does each score rest on?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from audit.report.names import COLUMNS as LISTED
from audit.report.names import FACETS, Wish, is_number, row_of, select
from audit.report.report import AuditReport
from pages.ui import blocks, cached, linked, name_panel, screen_files
from pages.ui.language import Words, words
from pages.ui.logged import logged_export
from pages.ui.place import audit_or_reason
from pages.ui.reveal import is_revealed
from pages.ui.text import plain

SORTS = (
    "score", "q", "log10_ratio", "hospital", "general", "n_mentions", "popularity", "n_pieces",
    "name_id",
)  # fmt: skip
_RISING = ("q", "name_id")
"""What is read from the lowest on, unless the reader says otherwise."""
KEYS = (*FACETS, "sort", "order", "name")
FACET_TITLES = {
    "kind": "names_facet_kind",
    "decision": "names_facet_decision",
    "certainty": "names_facet_certainty",
    "mentions": "names_facet_mentions",
    "role": "names_facet_role",
}
COLUMNS = (
    "number", "name", "kind", "decision", "score", "q", "general", "hospital", "log10_ratio",
    "n_mentions", "p", "standard_error", "n_pieces", "popularity",
)  # fmt: skip
_WHOLE = ("n_mentions", "n_pieces")
_TINY = ("popularity", "general", "hospital")
_NEARLY_THE_NAME = {one.name for one in LISTED if "masked" not in one.forms}


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("names_title"), anchor=False)
    try:
        audit = audit_or_reason(say)
        if audit is None:
            return
        draw(say, cached.report(audit.digest))
    except cached.AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))


def draw(say: Words, report: AuditReport) -> None:
    """Draw facets and table, and the chosen name under them."""
    table = report.table
    restore(table)
    st.html(blocks.heading("", below=say.text(f"names_below_{report.fixed_score}")))
    side, main = st.columns([1.2, 4], gap="medium")
    with side:
        wish = draw_wish(say)
        draw_facets(say, table)
    wish = Wish(
        chosen={facet: tuple(st.session_state.get(f"names_{facet}") or ()) for facet in FACETS},
        text=wish.text,
        sort=wish.sort,
        is_descending=wish.is_descending,
        is_revealed=is_revealed(),
    )
    found = select(table, wish=wish)
    with main:
        draw_table(say, report, found, wish=wish)
    chosen = row_of(table, st.session_state.get("names_chosen", ""))
    keep_link(wish, chosen=chosen, table=table)
    if chosen is None:
        st.html(blocks.heading("", below=say.text("names_choose")))
    else:
        name_panel.draw(say, report, table.loc[chosen], ids=found["name_id"].tolist())


def restore(table: pd.DataFrame) -> None:
    """Set the widgets by the link, if it came from elsewhere."""
    link = linked.from_link("names", keys=KEYS)
    state = st.session_state
    if link is not None:
        for facet in FACETS:
            wanted = link[facet].split(",")
            state[f"names_{facet}"] = [c for c in choices(table, facet) if c in wanted]
        state["names_sort"] = link["sort"] if link["sort"] in open_to_see(SORTS) else "score"
        is_known = link["order"] in ("asc", "desc")
        state["names_order"] = link["order"] if is_known else usual_order(state["names_sort"])
        state["names_chosen"] = link["name"]
        state["names_version"] = state.get("names_version", 0) + 1
    if state.get("names_sort") not in open_to_see(SORTS):
        state["names_sort"] = "score"
    state.setdefault("names_order", "desc")
    for facet in FACETS:
        kept = state.get(f"names_{facet}") or []
        state[f"names_{facet}"] = [code for code in kept if code in choices(table, facet)]


def open_to_see(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return those columns that a reader may see: masked names take some with them."""
    return tuple(c for c in columns if is_revealed() or c not in _NEARLY_THE_NAME)


def usual_order(sort: str) -> str:
    """Return the order in which a column is read first."""
    return "asc" if sort in _RISING else "desc"


def keep_link(wish: Wish, *, chosen: int | None, table: pd.DataFrame) -> None:
    """Write what is shown into the address; the text that was searched for never."""
    order = "desc" if wish.is_descending else "asc"
    values = {facet: ",".join(wish.chosen[facet]) for facet in FACETS}
    values["sort"] = "" if wish.sort == "score" else wish.sort
    values["order"] = "" if order == usual_order(wish.sort) else order
    values["name"] = "" if chosen is None else str(int(table["name_id"][chosen]))
    linked.to_link("names", values=values)


def draw_wish(say: Words) -> Wish:
    """Draw search and sort, and return them."""
    looks_at = "names" if is_revealed() else "numbers"
    text = st.text_input(
        say.text(f"names_search_{looks_at}"),
        key="names_search",
        placeholder="P-0012",
        help=say.text(f"names_search_{looks_at}_help"),
        max_chars=200,
        autocomplete="off",
        on_change=_new_rows,
    )
    if not is_revealed():
        st.html(blocks.heading("", below=say.text("names_search_masked")))
    sort = st.selectbox(
        say.text("names_sort"),
        open_to_see(SORTS),
        format_func=lambda code: say.text(f"names_column_{code}"),
        key="names_sort",
        on_change=_new_sort,
    )
    order = st.segmented_control(
        say.text("names_order"),
        ("desc", "asc"),
        format_func=lambda code: say.text(f"names_order_{code}"),
        key="names_order",
        label_visibility="collapsed",
        required=True,
        on_change=_new_rows,
    )
    return Wish(text=text or "", sort=sort or "score", is_descending=order != "asc")


def draw_facets(say: Words, table: pd.DataFrame) -> None:
    """Draw the facets that divide this list, each choice with its names."""
    for facet, title in FACET_TITLES.items():
        codes = choices(table, facet)
        if len(codes) > 1:
            labels = {
                code: say.text(
                    "kind_n",
                    kind=plain(code_words(say, table, facet=facet, code=code)),
                    n=int((table[facet] == code).sum()),
                )
                for code in codes
            }
            st.pills(
                say.text(title),
                codes,
                selection_mode="multi",
                format_func=labels.__getitem__,
                key=f"names_{facet}",
                on_change=_new_rows,
            )


def choices(table: pd.DataFrame, facet: str) -> list[str]:
    """Return the codes of a facet that occur, in their order."""
    return list(table[facet].cat.categories)


def code_words(say: Words, table: pd.DataFrame, *, facet: str, code: str) -> str:
    """Return a choice in words; a role is the auditor's own and untrusted."""
    if facet == "role":
        return str(table["role_name"][table["role"] == code].iloc[0]) or say.text("names_role_none")
    if facet == "mentions":
        if code == "unknown":
            return say.text("names_mentions_unknown")
        return code.replace("up", "+").replace("-", "–")
    if facet == "kind":
        return say.text(f"names_is_{code}")
    return say.text(f"names_{facet}_{code}")


def draw_table(say: Words, report: AuditReport, found: pd.DataFrame, *, wish: Wish) -> None:
    """Draw the names that fit, and a button that hands out the same as CSV."""
    shown = say.text("names_shown", k=len(found), n=report.n_names)
    st.html(blocks.heading("", below=shown))
    if found.empty:
        is_masked = bool(wish.text.strip()) and not is_revealed() and not is_number(wish.text)
        below = say.text("names_search_masked" if is_masked else "names_none_do")
        st.html(blocks.heading(say.text("names_none"), below=below))
        return
    columns = shown_columns(say, report, found)
    st.session_state["names_ids"] = [f"{i:.0f}" for i in found["name_id"]]
    chosen = row_of(report.table, st.session_state.get("names_chosen", ""))
    places = [] if chosen is None else (found.index == chosen).nonzero()[0].tolist()
    version = st.session_state.get("names_version", 0)
    with st.container(key="names_table"):
        st.dataframe(
            columns,
            column_config=column_config(say, report),
            hide_index=True,
            height=460,
            key=f"names_table_{version}",
            on_select=_choose,
            selection_mode="single-row",
            selection_default={"selection": {"rows": places}},
            alt=say.text("names_table_alt"),
        )
    st.download_button(
        say.text("names_csv"),
        data=logged_export(
            screen_files.columns_csv(columns),
            audit=report.digest,
            what="names",
            format="csv",
            names="full" if is_revealed() else "masked",
            n_names=len(found),
        ),
        file_name=f"names-{report.digest[:12]}.csv",
        mime="text/csv",
        icon=":material/download:",
        key="names_csv",
        help=say.text("names_csv_help"),
        on_click="ignore",
    )


def shown_columns(say: Words, report: AuditReport, found: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of the table as the screen shows them, one type a column."""
    names = cached.shown_names(report.digest, is_revealed=is_revealed())
    columns: dict[str, Any] = {"name": [names[row] for row in found.index]}
    for facet in ("kind", "decision"):
        codes = choices(found, facet)
        words = {c: code_words(say, found, facet=facet, code=c) for c in codes}
        columns[facet] = [words[code] for code in found[facet]]
    columns |= {column: whole(found[column]) for column in _WHOLE}
    shown = open_to_see(COLUMNS)
    return {c: columns[c] if c in columns else found[c].to_numpy() for c in shown}


def whole(column: Any) -> list[int | None]:
    """Return counts as whole numbers; None where one is not known."""
    return [None if math.isnan(value) else int(value) for value in column.tolist()]


def column_config(say: Words, report: AuditReport) -> Mapping[str, Any]:
    """Return titles, meanings and number formats of the columns."""
    config: dict[str, Any] = {}
    for column in COLUMNS:
        title, meaning = say.text(f"names_column_{column}"), None
        if column in ("general", "hospital"):
            meaning = say.text(f"names_evidence_{report.scenario.number}")
        elif column in ("log10_ratio", "score", "q", "p"):
            meaning = say.text(f"names_means_{column}")
        if column in ("number", "name", "kind", "decision"):
            config[column] = st.column_config.TextColumn(title, pinned=column == "number")
        else:
            style = "%d" if column in _WHOLE else "%.1e" if column in _TINY else "%.3f"
            if report.fixed_score == "product" and column in ("score", "standard_error"):
                style = "%.1e"
            config[column] = st.column_config.NumberColumn(title, format=style, help=meaning)
    return config


def _choose() -> None:
    state = st.session_state
    chosen = state[f"names_table_{state['names_version']}"]["selection"]["rows"]
    ids = state["names_ids"]
    state["names_chosen"] = ids[chosen[0]] if chosen and chosen[0] < len(ids) else ""


def _new_rows() -> None:
    # Another table: the old one's chosen row is somebody else now.
    st.session_state["names_version"] = st.session_state.get("names_version", 0) + 1


def _new_sort() -> None:
    st.session_state["names_order"] = usual_order(st.session_state["names_sort"])
    _new_rows()


page()
